"""Small networks as .tflite files of int8 for engines that read nothing else: the digits' and the FastGRNN of peers.py.

Codes are TensorFlow Lite's: weights symmetric, of convolutions by channel; activations between the least and the
largest number that the float network has on the samples it is calibrated with; biases of 32 bits. The FastGRNN is a
WHILE over its 128 steps, whose states are a counter, the hidden state and the samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tests.tflite_files import BOOL, INT8, INT32, OPERATOR, Grid, Writer

NONE, RELU = 0, 1  # fused activations
VALID = 1
UNIT, SIGNED = ([1 / 256], [-128], 0), ([1 / 128], [0], 0)  # what LOGISTIC and TANH give
Array = np.ndarray


def grid_of(values: Array) -> Grid:
    """The finest grid of int8 that holds 0 and `values`."""
    low, high = min(float(values.min()), 0.0), max(float(values.max()), 0.0)
    scale = float(np.float32((high - low) / 255))
    return [scale], [int(np.rint(-128 - low / scale))], 0


def codes_of(values: Array, grid: Grid) -> Array:
    """`values` on a grid of one scale."""
    return np.clip(np.rint(values / grid[0][0]) + grid[1][0], -128, 127).astype(np.int8)


@dataclass
class Chain:
    """A file that grows layer by layer; `grids`: of its tensors."""

    w: Writer = field(default_factory=Writer)
    grids: dict[int, Grid] = field(default_factory=dict)

    def value(self, name: str, shape: Sequence[int], grid: Grid, data: Array | None = None) -> int:
        """A tensor of int8; `data`: the real numbers of a constant."""
        codes = None if data is None else codes_of(data, grid)
        number = self.w.tensor(name, shape, INT8, codes, grid)
        self.grids[number] = grid
        return number

    def weights(self, name: str, real: Array, bias: Array, source: int, channels: bool) -> list[int]:
        """Of a layer that reads tensor `source`: outputs first, a scale for each of them or one for all."""
        rows = np.abs(real).reshape(len(real) if channels else 1, -1).max(1)
        scales = (rows / 127).astype(np.float32)
        by_row = scales.reshape(-1, *[1] * (real.ndim - 1)).astype(np.float64)
        grid = (scales.tolist(), [0] * len(scales), 0)
        made = self.w.tensor(name, real.shape, INT8, np.rint(real / by_row).astype(np.int8), grid)
        steps = self.grids[source][0][0] * scales
        codes = np.rint(bias / steps.astype(np.float64)).astype(np.int32)
        return [made, self.w.tensor(f"{name}.bias", bias.shape, INT32, codes, (steps.tolist(), [0] * len(scales), 0))]

    def dense(self, name: str, source: int, real: Array, bias: Array, grid: Grid, fused: int = NONE) -> int:
        """`real`: (outputs, inputs)."""
        made = self.weights(f"{name}.weights", real, bias, source, channels=False)
        target = self.value(name, [1, len(bias)], grid)
        options = {"FusedActivationFunction": fused}
        self.w.operator(OPERATOR.FULLY_CONNECTED, [source, *made], target, "FullyConnectedOptions", **options)
        return target

    def window(self, name: str, source: int, real: Array, bias: Array, result: Array) -> int:
        """`real`: (outputs, inputs, height, width); `result`: of Relu, (samples, outputs, rows, columns)."""
        made = self.weights(f"{name}.weights", real.transpose(0, 2, 3, 1), bias, source, channels=True)
        target = self.value(name, [1, *result.shape[2:], len(bias)], grid_of(result))
        options = {"FusedActivationFunction": RELU, "Padding": VALID, "StrideW": 1, "StrideH": 1}
        options |= {"DilationWFactor": 1, "DilationHFactor": 1}
        self.w.operator(OPERATOR.CONV_2D, [source, *made], target, "Conv2DOptions", **options)
        return target

    def pair(self, op: str, name: str, first: int, second: int, grid: Grid, shape: Sequence[int] = (1, 32)) -> int:
        """ADD or MUL."""
        target = self.value(name, shape, grid)
        kind = f"{op.title()}Options"
        self.w.operator(getattr(OPERATOR, op), [first, second], target, kind, FusedActivationFunction=NONE)
        return target


def digits_mlp(weights: Sequence[Array], x: Array) -> bytes:
    """`weights`: (64, 32), (32,), (32, 10), (10,); `x`: (samples, 1, 8, 8)."""
    w1, b1, w2, b2 = weights
    flat = x.reshape(len(x), -1)
    inner = np.maximum(flat @ w1 + b1, 0)
    made = Chain()
    source = made.value("x", [1, 64], grid_of(flat))
    hidden = made.dense("relu1", source, w1.T, b1, grid_of(inner), RELU)
    return made.w.file(source, made.dense("logits", hidden, w2.T, b2, grid_of(inner @ w2 + b2)))


def digits_cnn(weights: Sequence[Array], x: Array) -> bytes:
    """`weights`: (8, 1, 3, 3), (8,), (16, 8, 3, 3), (16,), (64, 10), (10,); `x`: (samples, 1, 8, 8)."""
    w1, b1, w2, b2, w3, b3 = weights
    first = np.maximum(_convolved(x, w1, b1), 0)
    second = np.maximum(_convolved(first, w2, b2), 0)
    pooled = second.reshape(len(x), 16, 2, 2, 2, 2).max((3, 5))
    made = Chain()
    source = made.value("x", [1, 8, 8, 1], grid_of(x))
    one = made.window("relu1", source, w1, b1, first)
    two = made.window("relu2", one, w2, b2, second)
    pool = made.value("pool1", [1, 2, 2, 16], made.grids[two])
    sizes = {"StrideW": 2, "StrideH": 2, "FilterWidth": 2, "FilterHeight": 2}
    made.w.operator(OPERATOR.MAX_POOL_2D, [two], pool, "Pool2DOptions", Padding=VALID, **sizes)
    flat = made.value("flat1", [1, 64], made.grids[two])
    made.w.operator(OPERATOR.RESHAPE, [pool, made.w.tensor("64", [2], INT32, np.array([1, 64], np.int32))], flat)
    last = w3.reshape(16, 2, 2, 10).transpose(3, 1, 2, 0).reshape(10, 64)
    return made.w.file(source, made.dense("logits", flat, last, b3, grid_of(pooled.reshape(len(x), -1) @ w3 + b3)))


def _convolved(x: Array, weights: Array, bias: Array) -> Array:
    """Without padding, steps of one."""
    windows = np.lib.stride_tricks.sliding_window_view(x, weights.shape[2:], axis=(2, 3))
    return np.einsum("nchwyx,ocyx->nohw", windows, weights) + bias[:, None, None]


def fastgrnn_values(w: dict[str, Array], x: Array) -> dict[str, Array]:
    """A FastGRNN's tensors on `x` (samples, steps, inputs): least and largest of all steps; `y` of each sample."""
    h, found = np.zeros((len(x), len(w["U"]))), dict[str, Array]()
    for step in range(x.shape[1]):
        xw, hu = x[:, step] @ w["W"] + w["bg"], h @ w["U"]
        z = 1 / (1 + np.exp(-(xw + hu)))
        change, gate = np.tanh(xw + hu + w["bh"] - w["bg"]), w["zeta"] * (1 - z) + w["nu"]
        now = {"xw": xw, "hu": hu, "cg": xw + hu, "ch": xw + hu + w["bh"] - w["bg"], "gate": gate}
        now |= {"update": gate * change, "keep": z * h}
        h = now["h"] = now["keep"] + now["update"]
        found = {name: np.array([*_ends(one), *_ends(found.get(name, one))]) for name, one in now.items()}
    return {**found, "y": h @ w["F"] + w["f"]}


def _ends(values: Array) -> tuple[float, float]:
    return float(values.min()), float(values.max())


def fastgrnn(w: dict[str, Array], x: Array) -> bytes:
    """`w`: W (9, 32), U (32, 32), bg, bh (32,), F (32, 6), f (6,), zeta, nu; `x`: (samples, 128, 9)."""
    values = fastgrnn_values(w, x)
    grids = {name: grid_of(one) for name, one in values.items()} | {"x": grid_of(x)}
    made = Chain()

    def states(label: str) -> list[int]:
        counter = made.w.tensor(f"{label}.step", [1], INT32)
        return [
            counter,
            made.value(f"{label}.h", [1, 32], grids["h"]),
            made.value(f"{label}.x", x[:1].shape, grids["x"]),
        ]

    source = made.value("x", x[:1].shape, grids["x"])
    begin = made.value("h0", [1, 32], grids["h"], np.zeros((1, 32)))
    start, last = made.w.tensor("start", [1], INT32, np.zeros(1, np.int32)), states("last")
    made.w.operator(
        OPERATOR.WHILE, [start, begin, source], last, "WhileOptions", CondSubgraphIndex=1, BodySubgraphIndex=2
    )
    y = made.dense("y", last[1], w["F"].T, w["f"], grids["y"])
    made.w.subgraph(source, y)
    now, more = states("now"), made.w.tensor("more", [1], BOOL)
    limit = made.w.tensor("limit", [1], INT32, np.array(x.shape[1:2], np.int32))
    made.w.operator(OPERATOR.LESS, [now[0], limit], more, "LessOptions")
    made.w.subgraph(now, more)
    now = states("now")
    return made.w.file(now, _step(made, now, w, grids))


def _step(made: Chain, now: list[int], w: dict[str, Array], grids: dict[str, Grid]) -> list[int]:
    """The body of the loop: states of the next step."""
    counter, h, x = now
    row = made.value("row", [1, 1, len(w["W"])], grids["x"])
    made.w.operator(OPERATOR.GATHER, [x, counter], row, "GatherOptions", Axis=1)
    xw = made.dense("xw", row, w["W"].T, w["bg"], grids["xw"])
    hu = made.dense("hu", h, w["U"].T, np.zeros(len(w["U"])), grids["hu"])
    cg = made.pair("ADD", "cg", xw, hu, grids["cg"])
    between = (w["bh"] - w["bg"])[None]
    ch = made.pair("ADD", "ch", cg, made.value("bh", [1, 32], grid_of(between), between), grids["ch"])
    z, change = made.value("z", [1, 32], UNIT), made.value("change", [1, 32], SIGNED)
    made.w.operator(OPERATOR.LOGISTIC, [cg], z)
    made.w.operator(OPERATOR.TANH, [ch], change)
    zeta, most = (np.full((1, 32), one) for one in (-w["zeta"], w["zeta"] + w["nu"]))
    part = made.pair("MUL", "zeta z", z, made.value("zeta", [1, 32], grid_of(zeta), zeta), grid_of(zeta))
    gate = made.pair("ADD", "gate", part, made.value("most", [1, 32], grid_of(most), most), grids["gate"])
    update = made.pair("MUL", "update", gate, change, grids["update"])
    following = made.pair("ADD", "h", made.pair("MUL", "keep", z, h, grids["keep"]), update, grids["h"])
    then = made.w.tensor("then", [1], INT32)
    one = made.w.tensor("1", [1], INT32, np.ones(1, np.int32))
    made.w.operator(OPERATOR.ADD, [counter, one], then, "AddOptions", FusedActivationFunction=NONE)
    return [then, following, x]
