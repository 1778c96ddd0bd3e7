"""What measurements of training share: samples, a graph, and the accuracy of its integers before and after."""

from __future__ import annotations

import io
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from benchmarks.given import given_data
from benchmarks.mlp import mlp_model
from benchmarks.trained_networks import note
from tinyhil import data
from tinyhil.frontend.onnx import model_of
from tinyhil.language.assignment import Assignment
from tinyhil.language.graph import Graph
from tinyhil.native import default_cache_dir
from tinyhil.search.engine.library import load_engine
from tinyhil.train.fit import train
from tinyhil.train.integers import Judge
from tinyhil.train.limited_precision import Arithmetic
from tinyhil.train.samples import Samples, divide
from tinyhil.train.schedule import Job, Schedule, Trained

Row = dict[str, Any]
CALIBRATED = 200  # samples, at most


@dataclass(frozen=True, slots=True)
class Bench:
    """Samples to train on and to report on, and the graph they are for."""

    graph: Graph
    samples: Samples
    x_test: np.ndarray
    y_test: np.ndarray

    def judge(self, assignment: Assignment) -> Judge:
        return Judge(self.graph, assignment, self.samples.calibration[:CALIBRATED], load_engine(default_cache_dir()))

    def trained(
        self, assignment: Assignment, schedule: Schedule, arithmetic: Arithmetic | None = None
    ) -> tuple[Trained, float, float]:
        """The training, the accuracy of its integers on the test samples, and the processor's seconds."""
        begin, judge = time.process_time(), self.judge(assignment)
        show = lambda epoch: print(epoch, flush=True)  # noqa: E731
        found = train(Job(judge, self.samples, schedule, show, arithmetic=arithmetic))
        note(found.constants)
        accuracy = judge.correct(judge.program(found.constants, found.ranges), self.x_test, self.y_test)
        return found, accuracy, time.process_time() - begin

    def untrained(self, assignment: Assignment, constants: dict[str, np.ndarray]) -> float:
        """Accuracy of the integers of these constants as they are."""
        judge = self.judge(assignment)
        return judge.correct(judge.program(constants, judge.ranges(constants)), self.x_test, self.y_test)


def digits(graph: Graph, count: int, seed: int = 0) -> Bench:
    """`count` digits of MNIST as `graph` takes them, a fifth of them held back by `seed`, and all 10,000 tests."""
    found, shape = data.load("mnist"), graph.shapes[graph.inputs[0]][1:]
    assert found.y_train is not None
    assert found.y_test is not None
    x, x_test = (a.reshape(len(a), *shape) for a in (found.x_train[:count], found.x_test))
    return Bench(graph, divide(x, found.y_train[:count], seed), x_test, found.y_test)


def pictures(name: str, count: int) -> tuple[np.ndarray, np.ndarray]:
    """As `pictures_in`, of a file of HIL_DATA."""
    return pictures_in(given_data() / "large" / name, count)


def pictures_in(path: Path, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The first pictures (count, 3, 32, 32) of a file of JPEGs, 0 to 255, and their labels."""
    with np.load(path, allow_pickle=False) as file:
        jpeg, offsets, labels = file["jpeg"], file["offsets"], file["y"][:count]
    found = [Image.open(io.BytesIO(jpeg[offsets[i] : offsets[i + 1]].tobytes())).convert("RGB") for i in range(count)]
    return np.stack([np.asarray(image) for image in found]).transpose(0, 3, 1, 2).astype(np.float32), labels


def mlp(sizes: tuple[int, ...], activation: str, seed: int) -> Graph:
    """A perceptron of random weights."""
    return model_of(mlp_model(sizes, activation, seed), Path("mlp.onnx"), "").graph
