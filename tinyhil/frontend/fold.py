"""Graph -> Graph: a BatchNormalization right behind a Conv or Gemm becomes part of its weights and bias."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tinyhil.graph import Graph, Node
from tinyhil.ops.norm import scale_and_offset
from tinyhil.ops.operator import attr


def fold_batch_norm(graph: Graph) -> Graph:
    """The graph without the normalizations that could be folded; its outermost level only."""
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
    for norm in graph.nodes:
        layer = maker.get(norm.inputs[0]) if norm.op == "BatchNormalization" else None
        if layer is None or readers[norm.inputs[0]] != 1:
            continue
        folded, added = _folded(graph, layer, norm)
        constants.update(added)
        shapes.update({name: array.shape for name, array in added.items()})
        del shapes[layer.outputs[0]]
        nodes = [folded if node is layer else node for node in nodes if node is not norm]
    return replace(graph, nodes=tuple(nodes), constants=constants, shapes=shapes)


def _takes_factors(graph: Graph, node: Node) -> bool:
    if node.op not in ("Conv", "Gemm") or any(name not in graph.constants for name in node.inputs[1:]):
        return False
    return node.op == "Conv" or (attr(node, "alpha", 1.0) == 1.0 and attr(node, "beta", 1.0) == 1.0)


def _folded(graph: Graph, layer: Node, norm: Node) -> tuple[Node, dict[str, np.ndarray]]:
    """The layer that gives the normalized result, and its constants."""
    factor, offset = scale_and_offset(norm, [graph.constants[name] for name in norm.inputs[1:]])
    weights = graph.constants[layer.inputs[1]]
    outputs_first = layer.op == "Conv" or attr(layer, "transB", 0)
    by_output = factor.reshape(-1, *(1,) * (weights.ndim - 1)) if outputs_first else factor
    bias = graph.constants[layer.inputs[2]] if len(layer.inputs) == 3 else np.zeros(1, np.float32)
    names = [_free(graph, f"{norm.outputs[0]}.{part}") for part in ("weights", "bias")]
    node = replace(layer, inputs=(layer.inputs[0], *names), outputs=norm.outputs[:1])
    made = np.broadcast_to(bias.reshape(-1) * factor + offset, factor.shape)
    return node, {names[0]: (weights * by_output).astype(np.float32), names[1]: made.astype(np.float32)}


def _free(graph: Graph, name: str) -> str:
    taken = graph.all_shapes()
    while name in taken:
        name += "_"
    return name
