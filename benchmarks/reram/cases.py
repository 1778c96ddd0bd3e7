"""The networks, their samples and what may be chosen: everything a strategy is compared on."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.reram.fast import FastExecutor
from benchmarks.reram.train_vgg import RECIPES
from tinyhil import data
from tinyhil.compiler.calibrate import Ranges, calibrate
from tinyhil.data.cifar import MEAN, SPREAD
from tinyhil.errors import DataError
from tinyhil.frontend.load import load_model
from tinyhil.harness.job.job import open_model
from tinyhil.harness.settings.config import load_boards
from tinyhil.language.graph import Graph
from tinyhil.language.program import Program
from tinyhil.reram.mapping import WITHOUT
from tinyhil.search.accelerator import AcceleratorCosts, AcceleratorLimits
from tinyhil.search.evaluator import Evaluator, Examples, make_examples
from tinyhil.search.layers import layer_space
from tinyhil.search.memory import UNLIMITED, Memory, Placement
from tinyhil.search.search_problem import SearchProblem
from tinyhil.search.space import Candidate, Space, make_space
from tinyhil.train.samples import Samples, divide

WIDTHS = tuple(f"fixed{bits}u" for bits in range(2, 9))  # results that are never negative have no sign, as the paper's
CALIBRATION, CALIBRATE_BY = 500, "kl"  # training samples, and how ranges are cut to c, as the paper's
VALUES = "no sign, kl"  # behind a Relu: what a row is measured with
AGENTS, TUNED = ("ppo", "ddpg", "ppo with mask"), "ddpg, fine-tuned"
DDPG_EPISODES, PAPERS_EPISODES = 300, 300
SAVED = 0.2  # of the cost of coarse widths, the lower end of what the paper claims
TRAINED = 1000  # training samples, where weights are trained for an assignment
Labelled = tuple[np.ndarray, np.ndarray]
HARDWARE = load_boards().board("reram").hardware
assert HARDWARE is not None


@dataclass(frozen=True, slots=True)
class Case:
    """`searched`: samples of the test part on which strategies are told their quality; `held_out`: others of it. Costs
    may be at most `thresholds`; every strategy has so many `evaluations`. Agents go on: their answers are noted after
    so many `episodes` of one run (the paper's are 300; DDPG's, twice as slow, end there). At the first threshold all
    `controls` are run, at the others the grid alone and agents for the paper's episodes, `seeds` each; the grid also
    where the first threshold costs SAVED less.
    `tuned`: episodes of DDPG that trains the weights of each assignment before it is judged, as HAQ does; 0: none."""

    name: str
    searched: int
    held_out: int
    thresholds: tuple[float, ...]
    evaluations: int
    episodes: tuple[int, ...]
    tuned: int = 0
    seeds: int = 5
    controls: tuple[str, ...] = ("grid", "milp", "random", "nsga2")
    trained_here: bool = False  # not committed: rows hold its hash

    @property
    def coarse(self) -> float:
        """The threshold of which the first one saves SAVED."""
        return round(self.thresholds[0] / (1 - SAVED), 4)

    def episodes_of(self, agent: str, threshold: float) -> tuple[int, ...]:
        """At which episodes the agent's answers are noted."""
        if threshold != self.thresholds[0]:
            return (PAPERS_EPISODES,)
        return tuple(count for count in self.episodes if count <= DDPG_EPISODES or agent != "ddpg")

    def controls_at(self, threshold: float) -> tuple[str, ...]:
        """Those of `controls` that are run under it."""
        return self.controls if threshold == self.thresholds[0] else self.controls[:1]


CASES = (
    Case("lenet5", 500, 5000, (0.74, 0.80), 150, (40, 150, 300), tuned=40),
    Case("resnet8", 150, 2000, (0.70, 0.80, 0.60), 90, (90, 300, 600)),
    Case("vgg7", 150, 2000, (0.70, 0.80, 0.60), 90, (90, 300, 600)),
    Case("vgg13", 100, 1000, (0.70,), 90, (300, 600), controls=("grid",), trained_here=True),
)


@dataclass(frozen=True, slots=True)
class NoArena(Memory):
    """An arena beside crossbars is no limit: nothing is planned."""

    def planned_bytes(self, candidate: Candidate, within: int = UNLIMITED) -> int:
        return 0


def place(program: Program) -> Placement:
    raise NotImplementedError("nothing is planned")


@dataclass(frozen=True, slots=True)
class Loaded:
    case: Case
    space: Space
    searched: Examples
    held_out: Examples
    tested: Labelled  # the samples of held_out in the order of the test part
    training: Samples

    def problem(self, limits: AcceleratorLimits, seed: int = 0, evaluator: Evaluator | None = None) -> SearchProblem:
        assert HARDWARE is not None
        costs = AcceleratorCosts(self.space, HARDWARE, limits)
        chosen = evaluator or Evaluator(FastExecutor(), self.searched)
        return SearchProblem(
            self.space, NoArena(self.space, place), chosen, UNLIMITED, seed, costs=costs, anchor=costs.anchor()
        )


def load_case(case: Case) -> Loaded:
    """The space has the groups between the first and the last layer alone: all else has 8 bits."""
    graph, ranges, (x, y), training = _network(case.name)
    whole = make_space(graph, ranges, WIDTHS, WITHOUT)
    assert HARDWARE is not None
    costs = AcceleratorCosts(whole, HARDWARE, AcceleratorLimits())
    searched, held_out = (make_examples(graph, x[part], y[part]) for part in parts(case))
    layers = layer_space(
        SearchProblem(whole, NoArena(whole, place), Evaluator(FastExecutor(), searched), 0, costs=costs), "reram"
    )
    groups = tuple(whole.groups[decision.group] for decision in layers.decisions)
    tested = x[parts(case)[1]], y[parts(case)[1]]
    return Loaded(case, replace(whole, groups=groups), searched, held_out, tested, divide(*training, 0))


def parts(case: Case) -> tuple[slice, slice]:
    return slice(0, case.searched), slice(case.searched, case.searched + case.held_out)


def _network(name: str) -> tuple[Graph, Ranges, Labelled, Labelled]:
    """Graph, ranges from the training part, test samples, some of the training part."""
    if name == "lenet5":
        graph, mnist = open_model("lenet5_mnist").model.graph, data.load("mnist")
        assert mnist.y_test is not None
        assert mnist.y_train is not None
        training = mnist.x_train[:TRAINED], mnist.y_train[:TRAINED]
        return graph, _calibrated(graph, mnist.x_train, "mnist"), (mnist.x_test, mnist.y_test), training
    cifar = data.load("cifar10")
    x_train, x_test = cifar.x_train, cifar.x_test
    if name == "resnet8":  # MLPerf Tiny's, which takes pixels of 0 to 255
        x_train, x_test = ((x * SPREAD + MEAN) * 255 for x in (x_train, x_test))
    graph = load_model(_path(name)).graph
    assert cifar.y_test is not None
    assert cifar.y_train is not None
    training = x_train[:TRAINED], cifar.y_train[:TRAINED]
    return graph, _calibrated(graph, x_train, "cifar10"), (x_test, cifar.y_test), training


def _path(name: str) -> Path:
    if name == "resnet8":
        return Path(os.environ.get("HIL_DATA", ".")) / "models" / "mlperftiny_ic_resnet8.onnx"
    path = RECIPES[name].out
    if not path.is_file():
        raise DataError(
            f"reram: no {path}; make it: python -m benchmarks.reram.train_vgg {name} cifar10_train50k_jpeg.npz"
        )
    return path


def _calibrated(graph: Graph, x_train: np.ndarray, name: str) -> Ranges:
    return calibrate(graph, x_train[:CALIBRATION], {"name": name}, CALIBRATE_BY)
