"""Buffers in program order (by the instant they begin), each at its lowest free offset."""

from __future__ import annotations

from tinyhil.memplan.placing import place_in_order
from tinyhil.memplan.planner import Budget, Planner
from tinyhil.memplan.problem import Plan, Problem

NAME = "first-fit"


def run(problem: Problem, budget: Budget) -> Plan:
    """Place buffers in the order of their begin, each into the lowest gap."""
    order = sorted(problem.buffers, key=lambda buffer: buffer.start)
    return place_in_order(problem, order, NAME, seconds=budget.seconds)


PLANNER = Planner(NAME, run, "program order, lowest free offset")
