"""Number formats, one file per family. `FORMATS` is what `--format` and assignment files may name."""

from __future__ import annotations

import re

from tinyhil.errors import ConfigError, did_you_mean
from tinyhil.formats import affine, codebook, fixed, minifloat, posit, sign, single, unsigned
from tinyhil.formats.format import NamedFormat

FORMATS: tuple[NamedFormat, ...] = (
    *fixed.NAMED,
    *unsigned.NAMED,
    *posit.NAMED,
    *minifloat.NAMED,
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
    """The format called `name`; ConfigError names the nearest ones."""
    general = None if name in FORMAT_BY_NAME else minifloat.parse(name)
    if general is not None:
        return general
    if name not in FORMAT_BY_NAME:
        hint = _of_family(name) or did_you_mean(name, FORMAT_BY_NAME, ELSEWHERE)
        raise ConfigError(f"unknown number format '{name}'; {hint}`hil formats` lists them")
    return FORMAT_BY_NAME[name]


def _of_family(name: str) -> str:
    """Of what `name` is only the beginning: fp8e4m3 of `fp8`, those of 8 bits of `posit`; what an eXmY may be; empty if
    of nothing."""
    begin = name.lower()
    if re.match(r"e\d+m|exmy", begin):
        return f"{minifloat.GENERAL}; "
    longer = [one for one in FORMAT_BY_NAME if begin and one.startswith(begin)]
    found = [one for one in longer if not one[len(begin) :][:1].isdigit()]
    found = found or [one for one in longer if one.startswith(f"{begin}8")]
    return f"there are {', '.join(found)}; " if found else ""
