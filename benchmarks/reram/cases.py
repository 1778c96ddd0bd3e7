"""The networks, their samples and what may be chosen: everything a strategy is compared on."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.reram.fast import FastExecutor
from tinyhil import data
from tinyhil.compiler.calibrate import Ranges, calibrate
from tinyhil.data.cifar import MEAN, SPREAD
from tinyhil.frontend.load import load_model
from tinyhil.harness.job.job import open_model
from tinyhil.harness.search.task import quick_plan
from tinyhil.harness.settings.config import load_boards
from tinyhil.language.graph import Graph
from tinyhil.language.program import Program
from tinyhil.memplan import Plan, Problem
from tinyhil.memplan.arena.tensors import problem_of
from tinyhil.reram.mapping import WITHOUT
from tinyhil.search.accelerator import AcceleratorCosts, AcceleratorLimits
from tinyhil.search.evaluator import Evaluator, Examples, make_examples
from tinyhil.search.layers import layer_space
from tinyhil.search.memory import UNLIMITED, Memory
from tinyhil.search.search_problem import SearchProblem
from tinyhil.search.space import Space, make_space

WIDTHS = tuple(f"fixed{bits}" for bits in range(2, 9))
CALIBRATION = 500
HARDWARE = load_boards().board("reram").hardware
assert HARDWARE is not None


@dataclass(frozen=True, slots=True)
class Case:
    """`searched`: samples of the test part on which strategies are told their quality; `held_out`: others of it. Costs
    may be at most `thresholds`; every strategy has so many `evaluations`."""

    name: str
    searched: int
    held_out: int
    thresholds: tuple[float, ...]
    evaluations: int


CASES = (
    Case("lenet5", 500, 5000, (0.74,), 150),
    Case("resnet8", 150, 2000, (0.70,), 90),
    Case("vgg7", 150, 2000, (0.70,), 90),
)


@dataclass(frozen=True, slots=True)
class Placed:
    """The arena is no limit here: a bound stands for a plan."""

    program: Program
    problem: Problem
    plan: Plan


def place(program: Program) -> Placed:
    return Placed(program, problem_of(program), quick_plan(program))


@dataclass(frozen=True, slots=True)
class Loaded:
    case: Case
    space: Space
    searched: Examples
    held_out: Examples

    def problem(self, limits: AcceleratorLimits, seed: int = 0, evaluator: Evaluator | None = None) -> SearchProblem:
        assert HARDWARE is not None
        costs = AcceleratorCosts(self.space, HARDWARE, limits)
        chosen = evaluator or Evaluator(FastExecutor(), self.searched)
        return SearchProblem(
            self.space, Memory(self.space, place), chosen, UNLIMITED, seed, costs=costs, anchor=costs.anchor()
        )


def load_case(case: Case) -> Loaded:
    """The space has the groups between the first and the last layer alone: all else has 8 bits."""
    graph, ranges, x, y = _network(case.name)
    whole = make_space(graph, ranges, WIDTHS, WITHOUT)
    assert HARDWARE is not None
    costs = AcceleratorCosts(whole, HARDWARE, AcceleratorLimits())
    examples = [make_examples(graph, x[part], y[part]) for part in parts(case)]
    layers = layer_space(
        SearchProblem(whole, Memory(whole, place), Evaluator(FastExecutor(), examples[0]), 0, costs=costs), "reram"
    )
    groups = tuple(whole.groups[decision.group] for decision in layers.decisions)
    return Loaded(case, replace(whole, groups=groups), *examples)


def parts(case: Case) -> tuple[slice, slice]:
    return slice(0, case.searched), slice(case.searched, case.searched + case.held_out)


def _network(name: str) -> tuple[Graph, Ranges, np.ndarray, np.ndarray]:
    """Graph, ranges from the training part, test samples with labels."""
    if name == "lenet5":
        opened = open_model("lenet5_mnist")
        mnist = data.load("mnist")
        assert mnist.y_test is not None
        return opened.model.graph, opened.required_ranges(None), mnist.x_test, mnist.y_test
    cifar = data.load("cifar10")
    x_train, x_test = cifar.x_train, cifar.x_test
    path = Path(__file__).with_name("vgg7_cifar.onnx")
    if name == "resnet8":  # MLPerf Tiny's, which takes pixels of 0 to 255
        path = Path(os.environ.get("HIL_DATA", ".")) / "models" / "mlperftiny_ic_resnet8.onnx"
        x_train, x_test = ((x * SPREAD + MEAN) * 255 for x in (x_train, x_test))
    graph = load_model(path).graph
    assert cifar.y_test is not None
    return graph, calibrate(graph, x_train[:CALIBRATION], {"name": "cifar10"}), x_test, cifar.y_test
