"""What is known of each number format: its values, its precision, and what it costs on each chip."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from tinyhil import formats as format_table
from tinyhil.formats import FORMATS
from tinyhil.formats.format import Format, NamedFormat
from tinyhil.formats.minifloat import GENERAL
from tinyhil.harness.settings.config import load_boards

MODEL = "fastgrnn_har"  # of the costs
FITTED = "Largest and smallest: as fitted to a tensor just below 1; each tensor has a scale of its own."
COSTS = Path(format_table.__file__).with_name("costs.json")


def titles() -> dict[str, str]:
    """Family -> what it is called, in the order of the registry: each file of formats says it itself."""
    families = dict.fromkeys(family(fmt) for fmt in FORMATS)
    return {name: str(import_module(f"{format_table.__name__}.{name}").TITLE) for name in families}


@dataclass(frozen=True, slots=True)
class Facts:
    """Of a format fitted to a tensor of magnitude 1.

    `digits`: significant bits at 1/2. `costs`: board -> cycles (Uno) or instructions (ARM) per sample of `MODEL`.
    """

    name: str
    family: str
    bits: int
    largest: float
    smallest: float
    digits: float
    domain: str
    summary: str
    costs: Mapping[str, float]

    def record(self) -> dict[str, Any]:
        """A row for `--json`: costs per sample of the model `costs_of`, board -> its unit of `units`."""
        keys = ("name", "family", "bits", "largest", "smallest", "digits", "domain", "summary")
        return {**{key: getattr(self, key) for key in keys}, "costs": dict(self.costs), "costs_of": MODEL}


def family(fmt: NamedFormat) -> str:
    """The file a format is found in."""
    return type(fitted(fmt)).__module__.rsplit(".", 1)[1]


def fitted(fmt: NamedFormat) -> Format:
    """The format of a tensor whose largest magnitude is just below 1; codebooks: of normally distributed weights."""
    if fmt.fit_values is not None:
        return fmt.fit_values(np.random.default_rng(0).normal(size=4096) / 4)
    if fmt.fit_range is not None:
        return fmt.fit_range(-0.999, 0.999)
    if fmt.fit_positive is not None:
        return fmt.fit_positive(0.999)
    return fmt.fit(0.999)


def values(fmt: Format) -> np.ndarray:
    """Every real value of a format of at most 16 bits, ascending."""
    codes = np.arange(1 << fmt.bits)
    if fmt.decode(np.array([0])).dtype == np.float64 and hasattr(fmt, "lowest"):
        codes = codes + fmt.lowest
    if hasattr(fmt, "entries"):
        codes = np.arange(len(fmt.entries))
    decoded = np.ldexp(fmt.decode(codes), fmt.exponent)
    return np.unique(decoded[np.isfinite(decoded)])


def facts(fmt: NamedFormat) -> Facts:
    """What is known of a format, fitted to a tensor of magnitude 1."""
    real = fitted(fmt)
    scale = math.ldexp(1.0, real.exponent)
    return Facts(
        name=fmt.name,
        family=family(fmt),
        bits=fmt.bits,
        largest=real.largest * scale,
        smallest=real.smallest * scale,
        digits=_digits(real),
        domain=real.domain,
        summary=fmt.summary,
        costs=costs().get(fmt.name, {}),
    )


def _digits(fmt: Format) -> float:
    """Significant bits at 1/2: -log2 of the relative distance between neighbours there."""
    scaled = math.ldexp(0.5, -fmt.exponent)
    code, _ = fmt.encode(np.array([scaled]))
    here = float(fmt.decode(code)[0])
    probes = scaled * (1 + np.ldexp(1.0, -np.arange(0, 40)))
    found = fmt.decode(fmt.encode(probes)[0])
    steps = found[found > here] - here
    return 0.0 if not steps.size or here <= 0 else max(0.0, float(-math.log2(steps.min() / here)))


@cache
def costs() -> Mapping[str, Mapping[str, float]]:
    """Measured: format -> board -> ticks per sample, made from records by `python -m tools.docs`."""
    found: Mapping[str, Mapping[str, float]] = json.loads(COSTS.read_text(encoding="utf-8"))
    return found


@cache
def units() -> Mapping[str, str]:
    """Board -> what its costs count, for all that a format was measured on."""
    boards = load_boards()
    measured = dict.fromkeys(name for by_board in costs().values() for name in by_board)
    order = [name for name in boards.names if name in measured]
    return {name: "cycles" if boards.board(name).chip.core == "avr" else "instructions" for name in order}


def all_facts() -> list[Facts]:
    """The facts of every format, in the order of the registry."""
    return [facts(fmt) for fmt in FORMATS]


def lines(found: list[Facts]) -> list[str]:
    """A table for the terminal."""
    head = f"{'format':11} {'bits':>4} {'largest':>10} {'smallest':>10} {'digits':>6}"
    head += "".join(f" {f'{board} {unit}':>18}" for board, unit in units().items()) + "  what"
    rows = [head]
    for fact in found:
        row = f"{fact.name:11} {fact.bits:4} {fact.largest:10.3g} {fact.smallest:10.3g} {fact.digits:6.1f}"
        row += "".join(f" {_cost(fact, board):>18}" for board in units())
        rows.append(f"{row}  {fact.summary}")
    cost = f"Cycles and instructions are those of a sample of {MODEL}; - is not measured."
    return [*rows, "", FITTED, cost, f"{GENERAL}."]


def _cost(fact: Facts, board: str) -> str:
    return f"{fact.costs[board]:,.0f}" if board in fact.costs else "-"
