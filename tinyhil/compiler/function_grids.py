"""Which results of a model are shares of one, in the grid that TensorFlow Lite states: 1/256 from the lowest code up.

In that grid Softmax is a kernel of integers; in any other its exponentials are those of floats, which cost a chip
without a floating-point unit most of a small classifier's time. Inside a model, where a product reads them, shares are
fitted to their range as all else is.
"""

from __future__ import annotations

from collections.abc import Iterable

from tinyhil.language.graph import Graph, Node
from tinyhil.ops.affine_softmax import RESULT
from tinyhil.ops.operator import attr, axis_of

LARGEST = 255 * RESULT[0]  # 0..LARGEST in 8 bits is that grid


def shares_of_one(graph: Graph, groups: Iterable[tuple[str, ...]]) -> frozenset[str]:
    """The values of a Softmax along the last axis which `graph` gives, under all names of its memory (`groups`)."""
    made = {node.outputs[0] for node in graph.nodes if node.op == "Softmax" and _is_along_last(graph, node)}
    given = (group for group in groups if made.intersection(group) and not set(graph.outputs).isdisjoint(group))
    return frozenset(name for group in given for name in group)


def _is_along_last(graph: Graph, node: Node) -> bool:
    rank = len(graph.shapes[node.inputs[0]])
    return axis_of(node, attr(node, "axis", -1), rank) == rank - 1
