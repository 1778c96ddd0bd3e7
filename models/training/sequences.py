"""Six kinds of sequence models on equal footing: one front end, one training, one classifier (docs/sequence_models.md).

Frames are averaged in fours, scaled and embedded into WIDTH channels by one matrix; what follows is the kind's own; its
last step, or the mean over all, is classified. Each is a torch module and writes itself as ONNX. Needs torch.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn
from torch.nn import functional

from models.training.fit import Schedule, fit, start

TOGETHER = 4  # frames that are averaged
WIDTH = 16
HIDDEN = 32  # of a recurrent state, of feed-forward layers, of Mamba's inner channels
HEADS = 2
STATES = 4  # of a channel of Mamba
WINDOW = 3  # of convolutions
DILATIONS = (1, 2, 4)
NOISE, MOVED = 0.1, 1  # what training adds to scaled frames, and the averaged frames it moves them by
SCHEDULE = Schedule(epochs=10, batch=64, learning_rate=1e-2, weight_decay=1e-3)
OPSET = 17


class Writer:
    """Nodes and weights of an ONNX graph, in order."""

    def __init__(self, stem: str = "") -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self._stem = stem

    def constant(self, value: Any) -> str:
        """A weight in single precision, or whole numbers."""
        array = value.detach().numpy() if isinstance(value, torch.Tensor) else np.asarray(value)
        name = f"{self._stem}w{len(self.weights)}"
        kind = np.int64 if array.dtype.kind == "i" else np.float32
        self.weights.append(numpy_helper.from_array(np.ascontiguousarray(array.astype(kind)), name))
        return name

    def add(self, kind: str, *inputs: str, outputs: tuple[str, ...] = (), **attributes: Any) -> str:
        """The first result of a node."""
        name = f"{self._stem}{kind.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), list(outputs) or [name], name=name, **attributes))
        return outputs[0] if outputs else name

    def dense(self, x: str, layer: nn.Linear) -> str:
        """x W + b"""
        product = self.add("MatMul", x, self.constant(layer.weight.T))
        return product if layer.bias is None else self.add("Add", product, self.constant(layer.bias))

    def normalized(self, x: str, norm: nn.LayerNorm) -> str:
        """LayerNorm over the last axis."""
        scale, offset = self.constant(norm.weight), self.constant(norm.bias)
        return self.add("LayerNormalization", x, scale, offset, axis=-1, epsilon=norm.eps)

    def shaped(self, x: str, *shape: int) -> str:
        """A Reshape."""
        return self.add("Reshape", x, self.constant(np.array(shape)))


class Gru(nn.Module):
    """One layer; its last state."""

    def __init__(self, steps: int) -> None:
        super().__init__()
        self.cell = nn.GRU(WIDTH, HIDDEN, batch_first=True)
        self.width = HIDDEN

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.cell(x)[1][0]

    def write(self, g: Writer, x: str, steps: int) -> str:
        def turned(gates: torch.Tensor) -> torch.Tensor:  # torch: reset, update, new; ONNX: update, reset, new
            reset, update, new = gates.chunk(3)
            return torch.cat([update, reset, new])

        w, u = (g.constant(turned(p)[None]) for p in (self.cell.weight_ih_l0, self.cell.weight_hh_l0))
        bias = g.constant(torch.cat([turned(self.cell.bias_ih_l0), turned(self.cell.bias_hh_l0)])[None])
        rows = g.add("Transpose", x, perm=[1, 0, 2])
        g.add("GRU", rows, w, u, bias, outputs=("", "state"), hidden_size=HIDDEN, linear_before_reset=1)
        return g.shaped("state", 1, HIDDEN)


class FastGrnn(nn.Module):
    """c = W x + U h, g = sigmoid(c + b_g), h' = g h + (1 - g) tanh(c + b_h) (Kusupati et al., NeurIPS 2018)."""

    def __init__(self, steps: int) -> None:
        super().__init__()
        self.w, self.u = nn.Linear(WIDTH, HIDDEN, bias=False), nn.Linear(HIDDEN, HIDDEN, bias=False)
        self.gate, self.new = nn.Parameter(torch.ones(HIDDEN)), nn.Parameter(torch.zeros(HIDDEN))
        self.width = HIDDEN

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        read, h = self.w(x), torch.zeros(len(x), HIDDEN)
        for step in range(x.shape[1]):
            c = read[:, step] + self.u(h)
            g = torch.sigmoid(c + self.gate)
            h = g * h + (1 - g) * torch.tanh(c + self.new)
        return h

    def write(self, g: Writer, x: str, steps: int) -> str:
        body = Writer("cell_")
        c = body.add("Add", body.dense("row", self.w), body.dense("h", self.u))
        gate = body.add("Sigmoid", body.add("Add", c, body.constant(self.gate)))
        new = body.add("Tanh", body.add("Add", c, body.constant(self.new)))
        rest = body.add("Mul", body.add("Sub", body.constant(np.ones(1, np.float32)), gate), new)
        body.add("Add", body.add("Mul", gate, "h"), rest, outputs=("h_next",))
        given = {"h": (1, HIDDEN), "row": (1, WIDTH)}
        scan = loop(body, "cell", given, {"h_next": (1, HIDDEN)})
        zero = g.constant(np.zeros((1, HIDDEN), np.float32))
        return g.add("Scan", zero, x, outputs=("last",), body=scan, num_scan_inputs=1, scan_input_axes=[1])


def loop(
    body: Writer, name: str, given: dict[str, tuple[int, ...]], made: dict[str, tuple[int, ...]]
) -> onnx.GraphProto:
    """The body of a Scan: states, then rows."""
    ends = [
        [helper.make_tensor_value_info(key, TensorProto.FLOAT, shape) for key, shape in side.items()]
        for side in (given, made)
    ]
    return helper.make_graph(body.nodes, name, *ends, body.weights)


class Tcn(nn.Module):
    """Residual blocks of dilated causal convolutions; the mean over all steps."""

    def __init__(self, steps: int) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(nn.Conv1d(WIDTH, WIDTH, WINDOW, dilation=by) for by in DILATIONS)
        self.width = WIDTH

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.transpose(1, 2)
        for block, by in zip(self.blocks, DILATIONS, strict=True):
            x = x + torch.relu(block(functional.pad(x, ((WINDOW - 1) * by, 0))))
        return x.mean(dim=2)

    def write(self, g: Writer, x: str, steps: int) -> str:
        x = g.add("Transpose", x, perm=[0, 2, 1])
        for block, by in zip(self.blocks, DILATIONS, strict=True):
            weights, bias = g.constant(block.weight), g.constant(block.bias)
            pads = [(WINDOW - 1) * by, 0]
            made = g.add("Conv", x, weights, bias, dilations=[by], pads=pads, kernel_shape=[WINDOW])
            x = g.add("Add", x, g.add("Relu", made))
        return g.add("ReduceMean", x, axes=[2], keepdims=0)


class Encoder(nn.Module):
    """One encoder of two heads with learned places: softmax attention, or attention by positive features of queries
    and keys, whose products with values are summed first (`linear`; Katharopoulos et al., ICML 2020)."""

    def __init__(self, steps: int, *, linear: bool = False) -> None:
        super().__init__()
        self.places = nn.Parameter(torch.randn(1, steps, WIDTH) * 0.1)
        self.q, self.k, self.v, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.more, self.less = nn.Linear(WIDTH, HIDDEN), nn.Linear(HIDDEN, WIDTH)
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(3))
        self.linear, self.width = linear, WIDTH

    def _heads(self, x: torch.Tensor) -> torch.Tensor:
        return x.view(len(x), -1, HEADS, WIDTH // HEADS).transpose(1, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.places
        y = self.norms[0](x)
        q, k, v = (self._heads(part(y)) for part in (self.q, self.k, self.v))
        if self.linear:
            q, k = torch.sigmoid(q), torch.sigmoid(k)
            mixed = (q @ (k.transpose(2, 3) @ v)) / (q @ k.sum(dim=2).unsqueeze(3))
        else:
            mixed = torch.softmax(q @ k.transpose(2, 3) / math.sqrt(WIDTH // HEADS), dim=3) @ v
        x = x + self.out(mixed.transpose(1, 2).reshape(x.shape))
        x = x + self.less(torch.relu(self.more(self.norms[1](x))))
        return self.norms[2](x).mean(dim=1)

    def write(self, g: Writer, x: str, steps: int) -> str:
        x = g.add("Add", x, g.constant(self.places))
        y = g.normalized(x, self.norms[0])
        parts = [
            g.add("Transpose", g.shaped(g.dense(y, layer), 1, steps, HEADS, WIDTH // HEADS), perm=[0, 2, 1, 3])
            for layer in (self.q, self.k, self.v)
        ]
        mixed = self._linear(g, *parts) if self.linear else self._softmax(g, *parts)
        rows = g.shaped(g.add("Transpose", mixed, perm=[0, 2, 1, 3]), 1, steps, WIDTH)
        x = g.add("Add", x, g.dense(rows, self.out))
        inner = g.add("Relu", g.dense(g.normalized(x, self.norms[1]), self.more))
        x = g.add("Add", x, g.dense(inner, self.less))
        return g.add("ReduceMean", g.normalized(x, self.norms[2]), axes=[1], keepdims=0)

    def _softmax(self, g: Writer, q: str, k: str, v: str) -> str:
        scores = g.add("MatMul", q, g.add("Transpose", k, perm=[0, 1, 3, 2]))
        scale = g.constant(np.float32(1 / math.sqrt(WIDTH // HEADS)))
        return g.add("MatMul", g.add("Softmax", g.add("Mul", scores, scale), axis=-1), v)

    def _linear(self, g: Writer, q: str, k: str, v: str) -> str:
        q, k = g.add("Sigmoid", q), g.add("Sigmoid", k)
        turned = g.add("Transpose", k, perm=[0, 1, 3, 2])
        sums = g.add("ReduceSum", turned, g.constant(np.array([3])), keepdims=1)
        return g.add("Div", g.add("MatMul", q, g.add("MatMul", turned, v)), g.add("MatMul", q, sums))


class Mamba(nn.Module):
    """One block (Gu and Dao, 2023): a causal depthwise convolution, then the selective scan, gated; its last step.

    h' = exp(step A) h + step B x, y = C h + D x, with `step`, B and C computed from x.
    """

    def __init__(self, steps: int) -> None:
        super().__init__()
        self.into, self.gate = nn.Linear(WIDTH, HIDDEN, bias=False), nn.Linear(WIDTH, HIDDEN, bias=False)
        self.conv = nn.Conv1d(HIDDEN, HIDDEN, WINDOW, groups=HIDDEN)
        self.low, self.step = nn.Linear(HIDDEN, 2, bias=False), nn.Linear(2, HIDDEN)
        self.b, self.c = nn.Linear(HIDDEN, STATES, bias=False), nn.Linear(HIDDEN, STATES, bias=False)
        self.log_a = nn.Parameter(torch.log(torch.arange(1.0, STATES + 1)).repeat(HIDDEN, 1))
        self.d, self.out = nn.Parameter(torch.ones(HIDDEN)), nn.Linear(HIDDEN, WIDTH, bias=False)
        nn.init.constant_(self.step.bias, -2.0)  # softplus: steps of about 1/8
        self.norm, self.width = nn.LayerNorm(WIDTH), WIDTH

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(x)
        u = functional.silu(self.conv(functional.pad(self.into(y).transpose(1, 2), (WINDOW - 1, 0)))).transpose(1, 2)
        step, b, c = functional.softplus(self.step(self.low(u))), self.b(u), self.c(u)
        h, a, rows = torch.zeros(len(x), HIDDEN, STATES), -torch.exp(self.log_a), []
        decay, more = torch.exp(step[..., None] * a), (step * u)[..., None] * b[:, :, None]
        for at in range(x.shape[1]):
            h = decay[:, at] * h + more[:, at]
            rows.append((h * c[:, at, None]).sum(dim=2))
        gated = (torch.stack(rows, dim=1) + self.d * u) * functional.silu(self.gate(y))
        return (x + self.out(gated)).mean(dim=1)

    def write(self, g: Writer, x: str, steps: int) -> str:
        y = g.normalized(x, self.norm)
        inner = g.add("Transpose", g.dense(y, self.into), perm=[0, 2, 1])
        made = g.add(
            "Conv", inner, g.constant(self.conv.weight), g.constant(self.conv.bias),
            group=HIDDEN, pads=[WINDOW - 1, 0], kernel_shape=[WINDOW],
        )  # fmt: skip
        u = _silu(g, g.add("Transpose", made, perm=[0, 2, 1]))
        step = g.add("Softplus", g.dense(g.dense(u, self.low), self.step))
        zero = g.constant(np.zeros((HIDDEN, STATES), np.float32))
        names = (zero, u, step, g.dense(u, self.b), g.dense(u, self.c))
        body = self._scan()
        g.add("Scan", *names, outputs=("state", "rows"), body=body, num_scan_inputs=4, scan_input_axes=[1] * 4)
        gated = g.add("Mul", g.shaped("rows", 1, steps, HIDDEN), _silu(g, g.dense(y, self.gate)))
        return g.add("ReduceMean", g.add("Add", x, g.dense(gated, self.out)), axes=[1], keepdims=0)

    def _scan(self) -> onnx.GraphProto:
        """h, then x, step, B and C of a step -> h and y."""
        body = Writer("scan_")
        column, row = body.constant(np.array([HIDDEN, 1])), body.constant(np.array([1, STATES]))
        step = body.add("Reshape", "step", column)
        decay = body.add("Exp", body.add("Mul", step, body.constant(-torch.exp(self.log_a))))
        read = body.add("Reshape", body.add("Mul", "u", "step"), column)
        more = body.add("Mul", read, body.add("Reshape", "b", row))
        body.add("Add", body.add("Mul", decay, "h"), more, outputs=("h_next",))
        seen = body.add("MatMul", "h_next", body.add("Reshape", "c", body.constant(np.array([STATES, 1]))))
        flat = body.add("Reshape", seen, body.constant(np.array([1, HIDDEN])))
        body.add("Add", flat, body.add("Mul", "u", body.constant(self.d)), outputs=("y",))
        given = {"h": (HIDDEN, STATES), "u": (1, HIDDEN), "step": (1, HIDDEN), "b": (1, STATES), "c": (1, STATES)}
        return loop(body, "scan", given, {"h_next": (HIDDEN, STATES), "y": (1, HIDDEN)})


def _silu(g: Writer, x: str) -> str:
    return g.add("Mul", x, g.add("Sigmoid", x))


KINDS: dict[str, Callable[[int], nn.Module]] = {
    "GRU": Gru,
    "FastGRNN": FastGrnn,
    "TCN": Tcn,
    "transformer": Encoder,
    "linear attention": lambda steps: Encoder(steps, linear=True),
    "Mamba": Mamba,
}


def averaged(x: np.ndarray) -> np.ndarray:
    """(samples, frames, channels) averaged in TOGETHER frames, without what is left over."""
    count = x.shape[1] // TOGETHER
    return np.asarray(x[:, : count * TOGETHER].reshape(len(x), count, TOGETHER, -1).mean(axis=2), np.float32)


class Classifier(nn.Module):
    """Scaled frames embedded, a sequence model, scores."""

    def __init__(self, kind: str, shape: tuple[int, int], classes: int) -> None:
        super().__init__()
        self.embed = nn.Linear(shape[1], WIDTH)
        self.model = KINDS[kind](shape[0])
        width = self.model.width
        assert isinstance(width, int)
        self.head = nn.Linear(width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.model(self.embed(x)))


def trained(kind: str, x: np.ndarray, y: np.ndarray, seed: int) -> tuple[Classifier, np.ndarray, np.ndarray]:
    """The classifier, and mean and deviation of each channel by which averaged frames are scaled."""
    start(seed)
    frames = averaged(x)
    mean, deviation = frames.mean(axis=(0, 1)), frames.std(axis=(0, 1)) + 1e-6
    model = Classifier(kind, frames.shape[1:], int(y.max()) + 1)
    random = torch.Generator().manual_seed(seed)

    def loss(rows: torch.Tensor, labels: torch.Tensor, progress: float) -> torch.Tensor:
        by = int(torch.randint(-MOVED, MOVED + 1, (1,), generator=random))
        moved = torch.roll(rows, by, dims=1) + NOISE * torch.randn(rows.shape, generator=random)
        return functional.cross_entropy(model(moved), labels, label_smoothing=SCHEDULE.label_smoothing)

    fit(model, ((frames - mean) / deviation, y), SCHEDULE, loss, random=random)
    return model.eval(), mean, deviation


def onnx_of(name: str, model: Classifier, mean: np.ndarray, deviation: np.ndarray, shape: tuple[int, int]) -> Any:
    """The ONNX model from raw frames `x` [1, frames, channels] to `logits`; the scaling is in the embedding."""
    g, count = Writer(), shape[0] // TOGETHER
    x = "x"
    if count * TOGETHER != shape[0]:
        ends = (np.array([0]), np.array([count * TOGETHER]), np.array([1]))
        x = g.add("Slice", x, *(g.constant(end) for end in ends))
    rows = g.add("ReduceMean", g.shaped(x, 1, count, TOGETHER, shape[1]), axes=[2], keepdims=0)
    weights = model.embed.weight.detach().numpy() / deviation
    bias = model.embed.bias.detach().numpy() - weights @ mean
    embedded = g.add("Add", g.add("MatMul", rows, g.constant(weights.T)), g.constant(bias))
    write = model.model.write
    assert callable(write)
    scores = g.dense(write(g, embedded, count), model.head)
    g.nodes[-1].output[0] = "logits"
    assert scores
    graph = helper.make_graph(
        g.nodes,
        name,
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, *shape])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [1, model.head.out_features])],
        g.weights,
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)
    onnx.checker.check_model(proto, full_check=True)
    return proto
