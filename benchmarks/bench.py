"""What measurements of training share: samples, a graph, and the accuracy of its integers before and after."""

from __future__ import annotations

import io
import os
import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

from tinyhil.assignment import Assignment
from tinyhil.frontend.onnx import model_of
from tinyhil.graph import Graph
from tinyhil.native import default_cache_dir
from tinyhil.search.engine.library import load_engine
from tinyhil.train.arithmetic import Arithmetic
from tinyhil.train.fit import Job, Schedule, Trained, train
from tinyhil.train.integers import Judge
from tinyhil.train.samples import Samples

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
        told = lambda epoch: print(epoch, flush=True)  # noqa: E731
        found = train(Job(judge, self.samples, schedule, told, arithmetic=arithmetic))
        accuracy = judge.correct(judge.program(found.constants, found.ranges), self.x_test, self.y_test)
        return found, accuracy, time.process_time() - begin

    def untrained(self, assignment: Assignment, constants: dict[str, np.ndarray]) -> float:
        """Accuracy of the integers of these constants as they are."""
        judge = self.judge(assignment)
        return judge.correct(judge.program(constants, judge.ranges(constants)), self.x_test, self.y_test)


def pictures(name: str, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The first pictures (count, 3, 32, 32) of a file of JPEGs, 0 to 255, and their labels."""
    with np.load(Path(os.environ["HIL_DATA"]) / "large" / name, allow_pickle=False) as file:
        jpeg, offsets, labels = file["jpeg"], file["offsets"], file["y"][:count]
    found = [Image.open(io.BytesIO(jpeg[offsets[i] : offsets[i + 1]].tobytes())).convert("RGB") for i in range(count)]
    return np.stack([np.asarray(image) for image in found]).transpose(0, 3, 1, 2).astype(np.float32), labels


def mlp(sizes: tuple[int, ...], activation: str, seed: int) -> Graph:
    """Gemm after Gemm, weights uniform, with an activation (Clip: a hard tanh) between them."""
    random, value, nodes = np.random.default_rng(seed), "flat", []
    constants: dict[str, Any] = {}
    nodes.append(helper.make_node("Flatten", ["x"], ["flat"], name="flat"))
    constants["low"], constants["high"] = np.float32(-1), np.float32(1)
    for number, (inputs, outputs) in enumerate(pairwise(sizes), 1):
        reach = (3 / inputs) ** 0.5
        constants[f"fc{number}_w"] = random.uniform(-reach, reach, (inputs, outputs)).astype(np.float32)
        constants[f"fc{number}_b"] = np.zeros(outputs, np.float32)
        last = number == len(sizes) - 1
        result = "logits" if last else f"fc{number}"
        nodes.append(helper.make_node("Gemm", [value, f"fc{number}_w", f"fc{number}_b"], [result], name=result))
        if not last:
            more = ["low", "high"] if activation == "Clip" else []
            nodes.append(helper.make_node(activation, [result, *more], [f"act{number}"], name=f"act{number}"))
        value = f"act{number}"
    ends = [("x", [1, sizes[0]]), ("logits", [1, sizes[-1]])]
    source, output = (helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in ends)
    weights = [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()]
    proto = helper.make_model(helper.make_graph(nodes, "mlp", [source], [output], weights))
    onnx.checker.check_model(proto)
    return model_of(proto, Path("mlp.onnx"), "").graph
