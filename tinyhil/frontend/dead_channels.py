"""Graph -> Graph: channels that the weights prove constant become part of biases, and what only they feed is left out.

Every channel has an interval that follows from the weights alone: inputs may be anything up to LARGEST in magnitude. A
channel whose interval is narrower than half a unit of float32 is constant: its weights are zero, or vanish beside its
bias, or a Relu never opens. A layer that mixes channels takes a constant one into its bias and drops the column; the
channel is then computed by nobody. A constant before a padded layer gives one sum for each part of a window that lies
within the plane; it is none behind it unless it is 0 or a Relu makes these sums one. Others would need a bias for each
of these parts and are computed; MLPerf Tiny's networks have none. Outermost level only; quantized models are left as
they are.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np

from tinyhil.compiler_pass import Pass, Stage
from tinyhil.frontend.listing import Model
from tinyhil.language.graph import Graph, Node
from tinyhil.names import free_name
from tinyhil.ops import OPERATOR_BY_NAME
from tinyhil.ops.operator import attr
from tinyhil.ops.quantize import stated
from tinyhil.ops.window import ends_of_sums, infer_window
from tinyhil.references.verify import faults_of_graph

LARGEST = 2.0**40  # of any value a network computes with
NARROW = 2.0**-24  # of an interval, relative to its larger end: float32 rounds all of it to one number
MONOTONE = frozenset({"Relu", "Clip", "LeakyRelu", "HardSigmoid", "Sigmoid", "Tanh", "Elu", "Softplus", "Identity"})
POOLS = frozenset({"MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool"})


@dataclass(frozen=True, slots=True)
class Channels:
    """Lowest and highest value of each channel, the axis behind the batch."""

    low: np.ndarray
    high: np.ndarray

    @property
    def constant(self) -> np.ndarray:
        """Mask of the channels whose value never changes."""
        return self.low == self.high

    def narrowed(self) -> Channels:
        """Within what values can be; intervals that float32 can not tell from a number become it."""
        low, high = (np.clip(end, -LARGEST, LARGEST) for end in (self.low, self.high))
        middle = (0.5 * low + 0.5 * high).astype(np.float32).astype(np.float64)
        narrow = high - low <= NARROW * np.abs(middle)
        return Channels(np.where(narrow, middle, low), np.where(narrow, middle, high))


@dataclass(frozen=True, slots=True)
class Layer:
    """A node that sums over channels: weights (outputs, channels, positions), of a depthwise one (outputs, 1,
    positions), bias (outputs,), and what its window sees of the plane."""

    node: Node
    weights: np.ndarray
    bias: np.ndarray
    sights: np.ndarray

    @property
    def padded(self) -> bool:
        """Whether some window reaches beyond an edge."""
        return not self.sights.all()

    def sums(self, x: Channels) -> Channels:
        """Bounds of its results (outputs,), by interval arithmetic over the weights' signs."""
        low, high = ends_of_sums(self.weights, x.low, x.high, self.sights, 0.0)
        return Channels(low + self.bias, high + self.bias).narrowed()


@dataclass(slots=True)
class _Analysis:
    """What is known of each value that has channels, and what each node does with them."""

    graph: Graph
    known: dict[str, Channels] = field(default_factory=dict)
    layers: dict[str, Layer] = field(default_factory=dict)  # by output
    alike: dict[str, int] = field(default_factory=dict)  # outputs that keep channels; elements each becomes


def without_dead_channels(model: Model) -> Model:
    """The model without the channels nobody needs to compute, and a note of their number; float32 results stay equal
    but for the order of sums."""
    graph = model.graph
    if graph.pinned or any(stated(node) for node in graph.walk()):
        return model
    found = _analysed(graph)
    live = _live_channels(found)
    dropped = sum(int((~mask).sum()) for name, mask in live.items() if name in found.layers)
    if not dropped:
        return model
    note = f"{dropped} channels are constant whatever the input is, or never read: folded into biases and left out"
    return replace(model, graph=_rewritten(found, live), notes=(*model.notes, note))


READ: tuple[Pass[Model], ...] = (
    Pass(
        "dead-channels",
        "channels that the weights prove constant go into biases",
        Stage("graph as it was read", lambda model: faults_of_graph(model.graph)),
        "fewer channels; float32 results equal but for the order of sums",
        without_dead_channels,
    ),
)


# ---- intervals


def _analysed(graph: Graph) -> _Analysis:
    found = _Analysis(graph)
    uses: dict[str, int] = {}
    for node in graph.walk():
        for name in node.inputs:
            uses[name] = uses.get(name, 0) + 1
    for name in graph.inputs:
        found.known[name] = _anything(graph, name)
    for node in graph.nodes:
        x, out = found.known.get(node.inputs[0]) if node.inputs else None, node.outputs[0]
        layer = _layer_of(graph, node, uses)
        if x is not None and layer is not None:
            found.layers[out] = layer
            found.known[out] = layer.sums(x)
        elif x is not None and _is_depthwise(graph, node, uses):
            found.alike[out] = 1
            found.known[out] = _depthwise(graph, node, x)
        elif x is not None and (each := _elements_per_channel(graph, node)):
            found.alike[out] = each
            found.known[out] = _followed(graph, node, x, each)
        else:
            found.known.update({name: _anything(graph, name) for name in node.outputs})
    return found


def _anything(graph: Graph, name: str) -> Channels:
    shape = graph.shapes[name]
    count = shape[1] if len(shape) > 1 and shape[0] == 1 else 0
    return Channels(np.full(count, -LARGEST), np.full(count, LARGEST))


def _layer_of(graph: Graph, node: Node, uses: dict[str, int]) -> Layer | None:
    """None for nodes whose weights and bias are not constants of their own."""
    if node.op not in ("Conv", "Gemm", "MatMul") or not _has_own_constants(graph, node, uses):
        return None
    weights, shape = graph.constants[node.inputs[1]], graph.shapes[node.inputs[0]]
    if node.op == "Conv":
        if attr(node, "group", 1) != 1 or shape[0] != 1:
            return None
        by_channel, sights = _by_channel(weights), infer_window(node, shape, weights.shape[2:]).sights()
    else:
        plain = attr(node, "alpha", 1.0) == attr(node, "beta", 1.0) == 1.0 and not attr(node, "transA", 0)
        if not plain or weights.ndim != 2 or len(shape) != 2 or shape[0] != 1:
            return None
        by_channel, sights = (weights if attr(node, "transB", 0) else weights.T)[:, :, None], np.ones((1, 1), bool)
    outputs = len(by_channel)
    bias = graph.constants[node.inputs[2]] if len(node.inputs) > 2 else np.zeros(outputs, np.float32)
    if bias.size not in (1, outputs):
        return None
    return Layer(node, by_channel.astype(np.float64), np.broadcast_to(bias.reshape(-1), outputs), sights)


def _by_channel(weights: np.ndarray) -> np.ndarray:
    return weights.reshape(*weights.shape[:2], -1)


def _has_own_constants(graph: Graph, node: Node, uses: dict[str, int]) -> bool:
    return all(name in graph.constants and uses[name] == 1 and name not in graph.steps for name in node.inputs[1:])


def _is_padded(node: Node) -> bool:
    return any(attr(node, "pads", ())) or attr(node, "auto_pad", "NOTSET") not in ("NOTSET", "VALID")


def _is_depthwise(graph: Graph, node: Node, uses: dict[str, int]) -> bool:
    shape = graph.shapes[node.inputs[0]]
    if node.op != "Conv" or shape[0] != 1 or not _has_own_constants(graph, node, uses):
        return False
    return attr(node, "group", 1) == shape[1] == len(graph.constants[node.inputs[1]])


def _depthwise(graph: Graph, node: Node, x: Channels) -> Channels:
    weights = graph.constants[node.inputs[1]]
    bias = graph.constants[node.inputs[2]] if len(node.inputs) > 2 else np.zeros(len(weights))
    sights = infer_window(node, graph.shapes[node.inputs[0]], weights.shape[2:]).sights()
    return Layer(node, _by_channel(weights).astype(np.float64), bias, sights).sums(x)


def _elements_per_channel(graph: Graph, node: Node) -> int:
    """How many channels of its result show one of its operand, if it computes each from it alone; else 0."""
    if node.body is not None or len(node.outputs) != 1:
        return 0
    before, after = graph.shapes[node.inputs[0]], graph.shapes[node.outputs[0]]
    if len(before) < 2 or len(after) < 2 or before[0] != 1 or after[0] != 1:
        return 0
    if OPERATOR_BY_NAME[node.op].is_view:
        by_position = len(after) == 2 and after[1] % before[1] == 0
        return after[1] // before[1] if by_position or before[1] == after[1] else 0
    scalars = all(name in graph.constants and graph.constants[name].size == 1 for name in node.inputs[1:])
    return int(before[1] == after[1] and scalars and node.op in MONOTONE | POOLS)


def _followed(graph: Graph, node: Node, x: Channels, each: int) -> Channels:
    if node.op in POOLS:
        if node.op == "AveragePool" and _is_padded(node):
            return Channels(np.minimum(x.low, 0.0), np.maximum(x.high, 0.0))
        return x
    if OPERATOR_BY_NAME[node.op].is_view:
        return Channels(np.repeat(x.low, each), np.repeat(x.high, each))
    with np.errstate(over="ignore"):
        ends = np.stack([x.low, x.high]).astype(np.float32)
        arrays = [ends, *(graph.constants[name].reshape(1, 1) for name in node.inputs[1:])]
        low, high = OPERATOR_BY_NAME[node.op].evaluate(node, arrays)[0].astype(np.float64)
    return Channels(low, high).narrowed()


# ---- which channels somebody needs


def _live_channels(found: _Analysis) -> dict[str, np.ndarray]:
    """For every value with channels, which of them must be there. Grows until it is consistent."""
    graph = found.graph
    live = {name: np.zeros(len(x.low), bool) for name, x in found.known.items()}
    for name in _fixed(found):
        if name in live:
            live[name][:] = True
    while True:
        before = sum(int(mask.sum()) for mask in live.values())
        for node in reversed(graph.nodes):
            out, x = node.outputs[0], node.inputs[0] if node.inputs else ""
            if out in found.layers:
                if not live[out].any():
                    live[out][0] = True  # a layer without outputs is none
                live[x] |= _columns_read(found, found.layers[out], live[out])
            elif out in found.alike:
                each = found.alike[out]
                live[x] |= live[out].reshape(-1, each).any(axis=1)
                live[out] |= np.repeat(live[x], each)
        if sum(int(mask.sum()) for mask in live.values()) == before:
            return live


def _fixed(found: _Analysis) -> Iterable[str]:
    """Values that someone reads or makes who takes them as they are."""
    graph = found.graph
    yield from (*graph.inputs, *graph.outputs)
    for node in graph.nodes:
        if node.outputs[0] not in found.layers and node.outputs[0] not in found.alike:
            yield from (*node.inputs, *node.outputs)
        if node.body is not None:
            for inner in node.body.walk():
                yield from inner.inputs
            yield from node.body.outputs


def _columns_read(found: _Analysis, layer: Layer, rows: np.ndarray) -> np.ndarray:
    """Channels of the operand that change a kept result which is not constant itself."""
    x = found.known[layer.node.inputs[0]]
    alive = rows & ~found.known[layer.node.outputs[0]].constant
    read = (layer.weights[alive] != 0).any(axis=(0, 2))
    absorbed = x.constant & ((x.low == 0) | np.bool_(not layer.padded))
    return np.asarray(read & ~absorbed)


# ---- the smaller graph


def _rewritten(found: _Analysis, live: dict[str, np.ndarray]) -> Graph:
    graph = found.graph
    constants, shapes = dict(graph.constants), dict(graph.shapes)
    nodes = []
    for node in graph.nodes:
        out = node.outputs[0]
        if out in live and out in {**found.layers, **found.alike}:
            shapes[out] = _narrower(shapes[out], live[out])
        if out in found.layers:
            node = _smaller_layer(found, node, live, constants)
        elif out in found.alike and node.op == "Conv":
            for name in node.inputs[1:]:
                constants[name] = constants[name][live[out]]
            node = replace(node, attrs={**node.attrs, "group": int(live[out].sum())})
        elif out in found.alike and OPERATOR_BY_NAME[node.op].is_view:
            node = replace(node, attrs={**node.attrs, "shape": shapes[out]})
        nodes.append(node)
    shapes.update({name: array.shape for name, array in constants.items()})
    return replace(graph, nodes=tuple(nodes), constants=constants, shapes=shapes)


def _narrower(shape: tuple[int, ...], mask: np.ndarray) -> tuple[int, ...]:
    return (shape[0], int(mask.sum()), *shape[2:])


def _smaller_layer(found: _Analysis, node: Node, live: dict[str, np.ndarray], constants: dict[str, np.ndarray]) -> Node:
    """The layer over the channels that are left, what the others add in its bias."""
    layer, out = found.layers[node.outputs[0]], node.outputs[0]
    x, rows, columns = found.known[node.inputs[0]], live[out], live[node.inputs[0]]
    result, weights = found.known[out], layer.weights.copy()
    gone = ~columns & x.constant
    bias = layer.bias + weights[:, gone].sum(axis=2) @ x.low[gone]
    bias = np.where(result.constant, result.low, bias)[rows].astype(np.float32)
    weights[result.constant] = 0.0
    weights = weights[rows][:, columns].astype(np.float32)
    array = constants[node.inputs[1]]
    if node.op == "Conv":
        constants[node.inputs[1]] = weights.reshape(*weights.shape[:2], *array.shape[2:])
    else:
        constants[node.inputs[1]] = weights[:, :, 0] if attr(node, "transB", 0) else weights[:, :, 0].T
    if len(node.inputs) > 2:
        constants[node.inputs[2]] = bias
        return node
    if not bias.any():
        return node
    name = free_name(f"{out}.constants", constants, found.graph.all_shapes())
    constants[name] = bias
    op = "Gemm" if node.op == "MatMul" else node.op
    return replace(node, op=op, inputs=(*node.inputs, name))
