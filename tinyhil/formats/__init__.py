"""Number formats, one file per family. `FORMATS` is what `--format` and assignment files may name."""

from __future__ import annotations

from dataclasses import dataclass

from tinyhil.errors import ConfigError


@dataclass(frozen=True, slots=True)
class NamedFormat:
    """A format before its scale is known: the name users write, its family and width."""

    name: str
    bits: int
    summary: str


FORMATS = (
    NamedFormat("fixed8", 8, "8-bit two's complement, power-of-two scale per tensor"),
    NamedFormat("fixed16", 16, "16-bit two's complement, power-of-two scale per tensor"),
)


def named(name: str) -> NamedFormat:
    """The format called `name`; ConfigError lists the known ones."""
    for fmt in FORMATS:
        if fmt.name == name:
            return fmt
    raise ConfigError(f"unknown number format '{name}'; known: {', '.join(f.name for f in FORMATS)}")
