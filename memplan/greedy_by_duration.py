"""The buffer that lives longest first, each at its lowest free offset."""

from __future__ import annotations

from tinyhil.memplan.placing import place_in_order
from tinyhil.memplan.planner import Budget, Planner
from tinyhil.memplan.problem import Plan, Problem

NAME = "greedy-by-duration"


def run(problem: Problem, budget: Budget) -> Plan:
    """Place buffers in the order of the instants they are live, the longest first."""
    order = sorted(problem.buffers, key=lambda b: (b.start - b.end, -b.size_bytes, b.start))
    return place_in_order(problem, order, NAME, seconds=budget.seconds)


PLANNER = Planner(NAME, run, "longest live range first, lowest free offset")
