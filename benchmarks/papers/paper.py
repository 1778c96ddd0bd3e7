"""A paper whose experiments are run again here: its cells, its claims, its page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

# Of runs whose stack is measured: bytes come by the host's clock; an interrupt's frame lies on the deepest call or not.
STACK_TRIES = 3
NAMED = 3  # of what is missing, at most so many by name
Row = dict[str, Any]  # what JSON holds; the same on every run, hence without times of this machine
Rows = Mapping[str, Row]  # finished cells by key
Outcome = Literal["confirmed", "refuted", "not shown", "not testable here"]


@dataclass(frozen=True, slots=True)
class Cell:
    """One measurement. Its key names it in the record for good: table/network/variant.

    `apart`: by name, how far a figure may lie from the recorded one on another processor, where sums of floats are
    taken in the order that its BLAS likes best; every other figure is the same everywhere. `tries`: of so many
    measurements one gives the recorded row.
    """

    key: str
    measure: Callable[[], Row]
    apart: Mapping[str, float] = field(default_factory=dict)
    tries: int = 1


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was found about a claim, with our numbers in the sentence."""

    outcome: Outcome
    ours: str

    def without(self, missing: Sequence[str], why: str = "not measured") -> Verdict:
        """Of a claim about several, of which `missing` are not known: fewer confirm nothing about all."""
        if not missing or self.outcome == "not testable here":
            return self
        names = ", ".join(f"`{name}`" for name in missing) if len(missing) <= NAMED else str(len(missing))
        outcome: Outcome = "not shown" if self.outcome == "confirmed" else self.outcome
        return Verdict(outcome, f"{self.ours}; {why}: {names}")


@dataclass(frozen=True, slots=True)
class Claim:
    """A sentence of the paper with its numbers, in quotation marks where it is the paper's own; `judge` decides by the
    measured rows alone. `where` it stands: section, table or figure; `theirs`: the paper's figures. `about`: how the
    keys of all cells begin that it is about, be they measured or not."""

    text: str
    judge: Callable[[Rows], Verdict]
    where: str = ""
    theirs: str = ""
    about: tuple[str, ...] = ()

    @property
    def quotes(self) -> tuple[str, ...]:
        """The paper's own words in it; none: all of it is in ours."""
        return tuple(self.text.split('"')[1::2])

    def verdict(self, rows: Rows, keys: Iterable[str]) -> Verdict:
        """As it is judged by `rows`; `keys`: of all cells there are to measure."""
        missing = [key for key in keys if key.startswith(self.about) and "failed" in rows.get(key, {"failed": ""})]
        return self.judge(rows).without(missing)


@dataclass(frozen=True, slots=True)
class Paper:
    """`python -m benchmarks.papers NAME`. Making cells must be cheap: only `measure` loads data.

    `quick` gives the cells of a cut-down form on real data, a few seconds of one processor; a cell whose key is also
    one of `cells` must give the same row. `body` is the page below its heading, ours beside theirs; it takes whatever
    part of the rows there is. `figures` are matplotlib figures by file name. `absent` is what can not be had, and why.
    `differs`: what differs from the paper in every row.
    """

    name: str
    title: str
    cells: Callable[[], Iterable[Cell]]
    quick: Callable[[], Iterable[Cell]]
    body: Callable[[Rows], str]
    claims: tuple[Claim, ...] = ()
    figures: Mapping[str, Callable[[Rows], Any]] = field(default_factory=dict)
    absent: Mapping[str, str] = field(default_factory=dict)
    differs: str = ""

    def keys(self) -> list[str]:
        """Of all cells."""
        return [cell.key for cell in self.cells()]

    @property
    def command(self) -> str:
        return f"python -m benchmarks.papers {self.name}"


def under(rows: Rows, prefix: str) -> dict[str, Row]:
    """The rows of keys prefix/..., by what comes behind."""
    return {key.removeprefix(f"{prefix}/"): row for key, row in rows.items() if key.startswith(f"{prefix}/")}


def table(heads: Iterable[str], lines: Iterable[Iterable[object]]) -> str:
    """A table of Markdown; None is an empty cell."""
    titles = list(heads)
    text = [f"| {' | '.join(titles)} |", "|---" * len(titles) + "|"]
    text += [f"| {' | '.join('' if cell is None else str(cell) for cell in line)} |" for line in lines]
    return "\n".join(text)
