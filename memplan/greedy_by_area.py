"""The buffer with the most bytes times instants first, each at its lowest free offset."""

from __future__ import annotations

from tinyhil.memplan.placing import place_in_order
from tinyhil.memplan.planner import Budget, Planner
from tinyhil.memplan.problem import Buffer, Plan, Problem

NAME = "greedy-by-area"


def run(problem: Problem, budget: Budget) -> Plan:
    """Place buffers in the order of bytes times instants, the largest first."""
    order = sorted(problem.buffers, key=lambda buffer: (-area(buffer), buffer.start))
    return place_in_order(problem, order, NAME, seconds=budget.seconds)


def area(buffer: Buffer) -> int:
    """Bytes times the instants they are live."""
    return buffer.size_bytes * sum(end - start for start, end in buffer.sections)


PLANNER = Planner(NAME, run, "largest bytes x instants first, lowest free offset")
