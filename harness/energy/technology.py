"""Prices of operations and accesses: a table that ships with tinyhil (technologies.yaml), and the user's own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field

from tinyhil.errors import ConfigError, did_you_mean
from tinyhil.harness.settings.spelled import Name
from tinyhil.harness.settings.yaml_file import NonEmpty, PositiveInt, Record, parse, read_text

TABLE = Path(__file__).with_name("technologies.yaml")
Price = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Technology(Record):
    """Prices in picojoules; `reuse`: products at most that share an operand once it has been fetched."""

    title: NonEmpty
    source: NonEmpty
    mac_pj: Price
    mac_bits: PositiveInt
    exponent: Annotated[float, Field(ge=0, le=4)]
    sram_pj_per_bit: Price
    dram_pj_per_bit: Price
    sram_bytes: PositiveInt
    reuse: PositiveInt

    def product_pj(self, bits: int) -> float:
        """A product of numbers of `bits` and its addition."""
        return float(self.mac_pj * (bits / self.mac_bits) ** self.exponent)


class Inference(Record):
    """What others measured of one: microjoules at their meter, cycles by their clock."""

    uj: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    cycles: Annotated[float, Field(gt=0, allow_inf_nan=False)]


class MeasuredChip(Record):
    """A microcontroller that others have measured. `board`: ours, of whose core and clock cycles are taken."""

    title: NonEmpty
    source: NonEmpty
    board: Name
    inferences: Annotated[tuple[Inference, ...], Field(min_length=1)]

    @property
    def nj_per_cycle(self) -> tuple[float, float]:
        """Nanojoules: the least and the most of these inferences."""
        found = [1e3 * each.uj / each.cycles for each in self.inferences]
        return min(found), max(found)


class _File(Record):
    default: Name | None = None
    technologies: dict[Name, Technology]
    chips: dict[Name, MeasuredChip] = Field(default_factory=dict)


def measured_chips() -> dict[str, MeasuredChip]:
    """Of the table that ships."""
    return parse(read_text(TABLE, "table of technologies"), TABLE, _File).chips


def find_technology(name: str | None, own: Path | None) -> tuple[str, Technology]:
    """The technology of that name, in the user's file or in ours; None: the default of the file. ConfigError lists the
    known ones."""
    files = [parse(read_text(path, "table of technologies"), path, _File) for path in (TABLE, own) if path is not None]
    known = {key: technology for file in files for key, technology in file.technologies.items()}
    wanted = name or next(file.default for file in reversed(files) if file.default is not None)
    if wanted not in known:
        raise ConfigError(f"unknown technology '{wanted}'; {did_you_mean(wanted, known)}known: {', '.join(known)}")
    return wanted, known[wanted]
