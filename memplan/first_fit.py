"""Buffers in program order (by the instant they begin), each at its lowest free offset."""

from __future__ import annotations

from memplan.placing import place_in_order
from memplan.planner import Budget, Planner
from memplan.problem import Plan, Problem

NAME = "first-fit"


def run(problem: Problem, budget: Budget) -> Plan:
    order = sorted(problem.buffers, key=lambda buffer: buffer.start)
    return place_in_order(problem, order, NAME)


PLANNER = Planner(NAME, run, "program order, lowest free offset")
