"""Number formats, one file per family. `FORMATS` is what `--format` and assignment files may name."""

from __future__ import annotations

from tinyhil.errors import ConfigError, did_you_mean
from tinyhil.formats import affine, codebook, fixed, minifloat, mx, posit, sign, single, unsigned
from tinyhil.formats.format import NamedFormat

FORMATS: tuple[NamedFormat, ...] = (
    *fixed.NAMED,
    *unsigned.NAMED,
    *posit.NAMED,
    *minifloat.NAMED,
    *mx.NAMED,
    *single.NAMED,
    *codebook.NAMED,
    *affine.NAMED,
    *sign.NAMED,
)
FORMAT_BY_NAME = {fmt.name: fmt for fmt in FORMATS}


# What others call them.
ELSEWHERE = {"fp32": "float32", "f32": "float32", "float": "float32", "fp16": "float16", "f16": "float16"}
ELSEWHERE |= {"half": "float16", "bf16": "bfloat16", "i8": "int8", "s8": "int8", "q7": "fixed8", "q15": "fixed16"}


def named(name: str) -> NamedFormat:
    """The format called `name`; ConfigError names the nearest one."""
    general = None if name in FORMAT_BY_NAME else minifloat.parse(name)
    if general is not None:
        return general
    if name not in FORMAT_BY_NAME:
        hint = did_you_mean(name, FORMAT_BY_NAME, ELSEWHERE)
        raise ConfigError(f"unknown number format '{name}'; {hint}`hil formats` lists them")
    return FORMAT_BY_NAME[name]
