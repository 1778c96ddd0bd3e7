"""Largest buffer first, each at its lowest free offset: the planner of TensorFlow Lite Micro."""

from __future__ import annotations

from tinyhil.memplan.placing import place_in_order
from tinyhil.memplan.planner import Budget, Planner
from tinyhil.memplan.problem import Plan, Problem

NAME = "greedy-by-size"


def run(problem: Problem, budget: Budget) -> Plan:
    """Place buffers in the order of their sizes, the largest first."""
    # Equal sizes: the one that is live first, as TFLM does.
    order = sorted(problem.buffers, key=lambda buffer: (-buffer.size_bytes, buffer.start))
    return place_in_order(problem, order, NAME, seconds=budget.seconds)


PLANNER = Planner(NAME, run, "largest buffer first at its lowest free offset (TFLM)")
