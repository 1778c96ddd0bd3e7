"""What records of searches must be: of an answer (`hil search`), and of a front (`hil search --pareto`)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import Field

from tinyhil.fields import Amount, Count, Part, Real, Share, Text, Whole, Word


def shown_name(row: Mapping[str, Any]) -> str:
    """What a row of the table beside the answer is called: its format, and how it stands to the limits."""
    less = ", planned for less RAM" if row.get("less_ram") else ""
    return row["format"] + less + ("" if row.get("keeps_limits", True) else " (beyond the limits as planned)")


def search_title(record: Mapping[str, Any], source: str = "") -> str:
    """Model, boards, limits and strategy: which of several searches it is."""
    names = [board["board"] for board in record.get("boards") or ()] or record.get("planned_for") or ()
    where = ", ".join(names)
    limits = [
        f"{record[field]:,.15g} {unit}"
        for field, unit in (
            ("ram_limit_bytes", "B of RAM"),
            ("arena_limit_bytes", "B of arena"),
            ("latency_limit_us", "µs"),
            ("flash_limit_bytes", "B of flash"),
        )
        if record.get(field) is not None
    ]
    said = f" on {where}" if where else ""
    said += f" within {' and '.join(limits)}" if limits else ""
    return f"Search: {Path(record.get('model', source)).stem}{said}, {record['strategy']}"


class UniformFormat(Part):
    """One format for all tensors: its quality, or why it can not be. `searched_disagreements`: on the samples searched,
    which decide; `accuracy` and `disagreements` are of those held out."""

    format: Word
    reason: Text | None
    keeps_limits: bool = True
    less_ram: bool = False
    quality: Share | None = None
    searched_disagreements: Count | None = None
    accuracy: Share | None = None
    disagreements: Count | None = None
    arena_bytes: Count | None = None
    ram_bytes: Count | None = None
    latency_us: Amount | None = None
    flash_bytes: Count | None = None


class Tried(Part):
    """One trial of a search."""

    number: Count
    quality: Share
    arena_bytes: Count
    latency_us: Amount | None = None
    flash_bytes: Amount | None = None


class FrontPoint(Part):
    """One point of a Pareto front, with its assignment. `estimated`: no board has run it; latency and flash are known
    from other assignments' operations."""

    number: Count
    assignment_file: Text
    quality: Share
    searched_disagreements: Count | None = None
    accuracy: Share | None
    disagreements: Count
    arena_bytes: Count
    ram_bytes: Count | None
    latency_us: Amount | None
    flash_bytes: Count | None
    estimated: bool = False


class TensorSensitivity(Part):
    """What rounding one tensor alone does to the outputs."""

    tensor: Text
    kind: Word
    elements: Count
    errors: dict[str, Real]


class Sensitivities(Part):
    """`others`: the format that all other tensors had."""

    others: Word
    samples: Count
    tensors: list[TensorSensitivity]


class Phase(Part):
    """Seconds of one phase of a search."""

    phase: Text
    seconds: Amount
    processor_seconds: Amount


class OnBoard(Part):
    """What a board said of the answer."""

    board: Word


class Searched(Part):
    """What records of an answer and of a front share. `boards`: what they said; `planned_for`: the boards asked for,
    measured or not."""

    strategy: Word
    evaluations: Amount
    seconds: Amount
    samples: Count
    uniform: list[UniformFormat]
    tried: list[Tried] = Field(default_factory=list)
    sensitivity: Sensitivities | None = None
    phases: list[Phase] = Field(default_factory=list)
    model: Word = "unknown"
    utc: Text | None = None
    tinyhil: Text | None = None
    commit: Text | None = None
    command: Text | None = None
    assignment_file: Text | None = None
    formats: list[Text] = Field(default_factory=list)
    weights: list[Text] = Field(default_factory=list)  # formats for weights alone
    seed: Whole | None = None
    boards: list[OnBoard] = Field(default_factory=list)
    planned_for: list[Word] = Field(default_factory=list)
    ram_limit_bytes: Count | None = None
    arena_limit_bytes: Count | None = None
    latency_limit_us: Amount | None = None
    flash_limit_bytes: Count | None = None


class Answer(Part):
    """What the search itself thought of its answer."""

    quality: Share | None = None
    disagreements: Count | None = None


MIXTURE = "mixture"  # that the strategy has not chosen


class Replaced(Part):
    """A strategy's own answer, in whose place a format for all tensors stands that is no worse: `by`; or a mixture that
    is better."""

    by: Text = ""  # not said by earlier versions
    arena_bytes: Count
    disagreements: Count
    error: Amount
    default: Word
    formats: dict[str, Word]


class Search(Searched):
    """Of `hil search`. `held_out_latency_us`: of samples that it has not seen; `less_ram`: the answer's plan is for
    less RAM than its formats take as `prefer` plans them, products computed again or windows read in place."""

    accuracy: Share | None
    disagreements: Count | None = None
    arena_bytes: Count | None = None
    ram_bytes: Count | None = None
    latency_us: Amount | None = None
    held_out_latency_us: Amount | None = None
    less_ram: bool = False
    flash_bytes: Count | None = None
    replaced: Replaced | None = None
    search: Answer | None = None


class Sweep(Searched):
    """Of `hil search --pareto`."""

    points: list[FrontPoint]
