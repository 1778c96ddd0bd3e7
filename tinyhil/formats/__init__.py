"""Number formats, one file per family. `FORMATS` is what `--format` and assignment files may name."""

from __future__ import annotations

import difflib

from tinyhil.errors import ConfigError
from tinyhil.formats import affine, codebook, fixed, minifloat, mx, posit, sign, single
from tinyhil.formats.format import NamedFormat

FORMATS: tuple[NamedFormat, ...] = (
    *fixed.NAMED,
    *posit.NAMED,
    *minifloat.NAMED,
    *mx.NAMED,
    *single.NAMED,
    *codebook.NAMED,
    *affine.NAMED,
    *sign.NAMED,
)
FORMAT_BY_NAME = {fmt.name: fmt for fmt in FORMATS}


def named(name: str) -> NamedFormat:
    """The format called `name`; ConfigError names the nearest one."""
    general = None if name in FORMAT_BY_NAME else minifloat.parse(name)
    if general is not None:
        return general
    if name not in FORMAT_BY_NAME:
        near = difflib.get_close_matches(name, FORMAT_BY_NAME, 1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise ConfigError(f"unknown number format '{name}'; {hint}`hil formats` lists them")
    return FORMAT_BY_NAME[name]
