"""Buffers in program order, each into the tightest hole that is large enough, else on top."""

from __future__ import annotations

from tinyhil.memplan.placing import place_in_order
from tinyhil.memplan.planner import Budget, Planner
from tinyhil.memplan.problem import Plan, Problem

NAME = "best-fit"


def run(problem: Problem, budget: Budget) -> Plan:
    """Place buffers in the order of their begin, each into the tightest gap."""
    order = sorted(problem.buffers, key=lambda buffer: buffer.start)
    return place_in_order(problem, order, NAME, fit="best", seconds=budget.seconds)


PLANNER = Planner(NAME, run, "program order, tightest hole")
