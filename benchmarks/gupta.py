"""Gupta et al. (2015) beside what we add to them: the same plain descent in float32, and fixed point as printed."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import numpy_helper

from benchmarks.bench import Row, digits
from benchmarks.mlp import lenet, mlp_model
from tinyhil.frontend.onnx import model_of
from tinyhil.language.assignment import Assignment
from tinyhil.train.limited_precision import Limited
from tinyhil.train.schedule import Schedule

Tensor = torch.Tensor


@dataclass(frozen=True, slots=True)
class Unrounded(Limited):
    """float32: the same descent, in which nothing is rounded and nothing saturates."""

    integer: int = 0
    fraction: int = 0
    stochastic: bool = False

    @property
    def of_values(self) -> Limited:
        """As weights."""
        return self

    @property
    def scale(self) -> float:
        """Of the loss: none is needed."""
        return 1.0

    @property
    def end(self) -> float:
        """No magnitude saturates."""
        return math.inf

    def converted(self, x: Tensor, random: torch.Generator) -> Tensor:
        """As it is."""
        return x


@dataclass(frozen=True, slots=True)
class AsPrinted(Limited):
    """One <IL, FL> for all, or at least `before_point` bits before it for values; a mean as the loss, not scaled."""

    before_point: int = 0

    @property
    def of_values(self) -> Limited:
        """As weights, but for `before_point`."""
        integer = max(self.integer, self.before_point)
        return replace(self, integer=integer, fraction=self.integer + self.fraction - integer)

    @property
    def scale(self) -> float:
        """Of the loss: none."""
        return 1.0

    def summed(self, samples: int) -> int:
        """The loss is a mean."""
        return 1


@dataclass(frozen=True, slots=True)
class Stepped(Schedule):
    """A rate that is `decay` of it after each epoch."""

    decay: float = 1.0

    def rate_at(self, progress: float) -> float:
        """The same all over an epoch."""
        return float(self.rate * self.decay ** math.floor(progress * self.epochs + 1e-9))


DEVIATION = 0.01


def normal(model: onnx.ModelProto, seed: int) -> onnx.ModelProto:
    """Its weights drawn from N(0, 0.01), as printed of the perceptron."""
    random = np.random.default_rng(seed)
    for tensor in model.graph.initializer:
        if tensor.name.endswith("_w"):
            drawn = random.normal(0, DEVIATION, tuple(tensor.dims)).astype(np.float32)
            tensor.CopyFrom(numpy_helper.from_array(drawn, tensor.name))
    return model


def perceptron(seed: int) -> onnx.ModelProto:
    """The fully connected network."""
    return normal(mlp_model((784, 1000, 1000, 10), "Relu", seed), seed)


@dataclass(frozen=True, slots=True)
class Printed:
    """A network for MNIST, and what it is trained in. Nothing is said of the convolutions' first weights: ours."""

    model: Callable[[int], onnx.ModelProto]
    digits: int  # of MNIST, a fifth of them held back
    epochs: int
    decay: float  # of the rate, after each
    fractions: tuple[int, ...]
    before_point: int = 0  # of the values of convolutions: <6, 10>


PRINTED = {
    "784-1000-1000-10": Printed(perceptron, 60_000, 1, 1.0, (8, 14)),
    "8-16-128-10, convolutions 5 x 5": Printed(lenet, 60_000, 1, 0.95, (12, 14), 6),
}
SEEDS = (0, 1, 2)
BATCH, RATE = 100, 0.1


def rows(title: str) -> Iterator[Row]:
    """A network in its size, float32 first; means over seeds."""
    printed = PRINTED[title]
    yield _row(title, printed, "float32", {"nearest": Unrounded()})
    for fine in printed.fractions:
        own = AsPrinted(16 - fine, fine, False, printed.before_point)
        ways: dict[str, Limited] = {"nearest": own, "stochastic": replace(own, stochastic=True)}
        yield _row(title, printed, f"fixed16:{16 - fine}.{fine}", ways)


def _row(title: str, printed: Printed, name: str, ways: dict[str, Limited]) -> Row:
    begin, row, samples = time.process_time(), Row({"network": title, "in": name, "seeds": len(SEEDS)}), 0
    for way in ("nearest", "stochastic"):
        found = []
        for seed in SEEDS if way in ways else ():
            graph = model_of(printed.model(seed), Path(f"{title}.onnx"), "").graph
            bench = digits(graph, printed.digits, seed)
            schedule = Stepped(printed.epochs, BATCH, RATE, seed, decay=printed.decay)
            found.append(bench.trained(Assignment("float32"), schedule, ways[way])[1])
            samples = len(bench.samples.x)
        row[way] = float(np.mean(found)) if found else None
        row[f"{way}: standard deviation"] = float(np.std(found, ddof=1)) if found else None
    return {
        **row,
        "trained on": f"{samples:,}",
        "epochs": printed.epochs,
        "seconds": round(time.process_time() - begin),
    }
