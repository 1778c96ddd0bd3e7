"""What a planner is: a record with a name, a function and what may be expected of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tinyhil.memplan.problem import Plan, Problem


@dataclass(frozen=True, slots=True)
class Budget:
    """How much work a planner may do. Nodes give the same plan on every machine; seconds do not.

    `enough_bytes`: stop as soon as the peak is at most this, for whoever only asks whether it fits.
    """

    nodes: int = 1_000_000
    seconds: float | None = None
    enough_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Planner:
    """`exact`: given budget enough, the plan is optimal and proven so."""

    name: str
    run: Callable[[Problem, Budget], Plan]
    summary: str
    exact: bool = False
