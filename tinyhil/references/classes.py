"""Which class the outputs of a model name."""

from __future__ import annotations

import numpy as np

from tinyhil.language.graph import Graph, Node
from tinyhil.ops import OPERATOR_BY_NAME

PROBABILITIES = ("Sigmoid", "HardSigmoid")


def classes_of(graph: Graph, outputs: np.ndarray) -> np.ndarray:
    """Class of each row of `outputs` (samples, elements), as `named` by those that decide: of several outputs the first
    one's."""
    count = deciding(graph, outputs.shape[1])
    return named(outputs[:, :count], threshold(graph))


def named(outputs: np.ndarray, above: float | None) -> np.ndarray:
    """Class of each row: the position of the largest of several; of one alone 1 above this threshold and 0 below,
    without one the number itself."""
    if outputs.shape[1] > 1:
        return outputs.argmax(axis=1)
    if above is None:
        return np.rint(np.nan_to_num(outputs[:, 0])).astype(np.int64)
    return (outputs[:, 0] > above).astype(np.int64)


def deciding(graph: Graph, elements: int) -> int:
    """How many of a model's output elements, from the first on, name the class."""
    return graph.results[0].count if graph.results else elements


def class_count(graph: Graph, elements: int) -> int | None:
    """How many classes there are; None if the outputs do not say."""
    elements = deciding(graph, elements)
    if elements > 1:
        return elements
    return None if threshold(graph) is None else 2


def threshold(graph: Graph) -> float | None:
    """Above which one output alone says yes: half of a probability, which a Sigmoid gives, zero of a score; None of
    what ArgMax gives, which is the class itself."""
    last = decider(graph)
    if last is not None and last.op == "ArgMax":
        return None
    return 0.5 if last is not None and last.op in PROBABILITIES else 0.0


def decider(graph: Graph) -> Node | None:
    """The node whose result the first output is, views between them left aside; None where that is an input."""
    name = behind_views(graph, graph.outputs[0])
    return next((node for node in graph.nodes if name in node.outputs), None)


def behind_views(graph: Graph, name: str) -> str:
    """The value of which `name` is a view, or a view of one; itself where it is none."""
    for node in reversed(graph.nodes):
        if name in node.outputs and node.body is None and OPERATOR_BY_NAME[node.op].is_view:
            name = node.inputs[0]
    return name
