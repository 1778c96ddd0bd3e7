"""Number formats, one file per family. `FORMATS` is what `--format` and assignment files may name."""

from __future__ import annotations

from tinyhil.errors import ConfigError
from tinyhil.formats import affine, codebook, fixed, minifloat, mx, posit, single
from tinyhil.formats.format import NamedFormat

FORMATS: tuple[NamedFormat, ...] = (
    *fixed.NAMED,
    *posit.NAMED,
    *minifloat.NAMED,
    *mx.NAMED,
    *single.NAMED,
    *codebook.NAMED,
    *affine.NAMED,
)
FORMAT_BY_NAME = {fmt.name: fmt for fmt in FORMATS}


def named(name: str) -> NamedFormat:
    """The format called `name`; ConfigError lists the known ones."""
    general = None if name in FORMAT_BY_NAME else minifloat.parse(name)
    if general is not None:
        return general
    if name not in FORMAT_BY_NAME:
        raise ConfigError(f"unknown number format '{name}'; known: {', '.join(FORMAT_BY_NAME)}")
    return FORMAT_BY_NAME[name]
