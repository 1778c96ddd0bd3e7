"""Graph -> Graph: a BatchNormalization right behind a Conv or Gemm becomes part of its weights and bias, and so does an
Add of one constant per channel."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tinyhil.language.graph import Graph, Node
from tinyhil.names import free_name
from tinyhil.ops.norm import scale_and_offset
from tinyhil.ops.operator import attr


def fold_into_layers(graph: Graph) -> Graph:
    """The graph without the normalizations and offsets that could be folded; its outermost level only."""
    readers: dict[str, int] = {}
    for node in graph.walk():
        for name in node.inputs:
            readers[name] = readers.get(name, 0) + 1
        for name in node.body.outputs if node.body is not None else ():
            readers[name] = readers.get(name, 0) + 1
    for name in graph.outputs:
        readers[name] = readers.get(name, 0) + 1
    maker = {node.outputs[0]: node for node in graph.nodes if _takes_factors(graph, node)}
    nodes, constants, shapes = list(graph.nodes), dict(graph.constants), dict(graph.shapes)
    for node in graph.nodes:
        name = next((name for name in node.inputs if name in maker), "")
        if not name or readers[name] != 1:
            continue
        made = replace(graph, nodes=tuple(nodes), constants=constants, shapes=shapes)
        layer = maker[name]
        change = _change(made, node, layer)
        if change is None:
            continue
        del maker[name]
        folded, added = _folded(made, layer, node.outputs[0], *change)
        constants.update(added)
        shapes.update({name: array.shape for name, array in added.items()})
        del shapes[name]
        nodes = [folded if other is layer else other for other in nodes if other is not node]
        maker[folded.outputs[0]] = folded
    return replace(graph, nodes=tuple(nodes), constants=constants, shapes=shapes)


def _takes_factors(graph: Graph, node: Node) -> bool:
    if node.op not in ("Conv", "Gemm") or any(name not in graph.constants for name in node.inputs[1:]):
        return False
    return node.op == "Conv" or (attr(node, "alpha", 1.0) == 1.0 and attr(node, "beta", 1.0) == 1.0)


def _change(graph: Graph, node: Node, layer: Node) -> tuple[np.ndarray, np.ndarray] | None:
    """Factor and offset of each channel that `node` gives the result of `layer`; None if it is something else."""
    if node.op == "BatchNormalization":
        return scale_and_offset(node, [graph.constants[constant] for constant in node.inputs[1:]])
    name = layer.outputs[0]
    shape = graph.shapes[name]
    if node.op not in ("Add", "Sub") or graph.shapes[node.outputs[0]] != shape:
        return None
    if any(constant in graph.steps for constant in layer.inputs[1:]):
        return None  # integers of a quantized model stay what they are
    other = node.inputs[1 if node.inputs[0] == name else 0]
    offset = graph.constants.get(other)
    if offset is None or other in graph.steps or (node.op == "Sub" and node.inputs[0] != name):
        return None
    by_axis = (1,) * (len(shape) - offset.ndim) + offset.shape
    if any(dim != 1 for axis, dim in enumerate(by_axis) if axis != 1):
        return None
    offset = np.broadcast_to(offset.reshape(-1), (shape[1],))
    return np.ones(shape[1], np.float32), -offset if node.op == "Sub" else offset


def _folded(
    graph: Graph, layer: Node, result: str, factor: np.ndarray, offset: np.ndarray
) -> tuple[Node, dict[str, np.ndarray]]:
    """The layer that gives `result`, and its constants."""
    weights = graph.constants[layer.inputs[1]]
    outputs_first = layer.op == "Conv" or attr(layer, "transB", 0)
    by_output = factor.reshape(-1, *(1,) * (weights.ndim - 1)) if outputs_first else factor
    bias = graph.constants[layer.inputs[2]] if len(layer.inputs) == 3 else np.zeros(1, np.float32)
    names = [free_name(f"{result}.{part}", graph.all_shapes()) for part in ("weights", "bias")]
    made = np.broadcast_to(bias.reshape(-1) * factor + offset, factor.shape).astype(np.float32)
    if (factor == 1).all():
        return replace(layer, inputs=(*layer.inputs[:2], names[1]), outputs=(result,)), {names[1]: made}
    node = replace(layer, inputs=(layer.inputs[0], *names), outputs=(result,))
    return node, {names[0]: (weights * by_output).astype(np.float32), names[1]: made}
