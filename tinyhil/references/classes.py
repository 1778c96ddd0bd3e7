"""Which class the outputs of a model name."""

from __future__ import annotations

import numpy as np

from tinyhil.language.graph import Graph
from tinyhil.ops import OPERATOR_BY_NAME

PROBABILITIES = ("Sigmoid", "HardSigmoid")


def classes_of(graph: Graph, outputs: np.ndarray) -> np.ndarray:
    """Class of each row of `outputs` (samples, elements), as `named` by those that decide: of several outputs the first
    one's."""
    count = deciding(graph, outputs.shape[1])
    return named(outputs[:, :count], None if ends_in_argmax(graph) else threshold(graph))


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
    return None if ends_in_argmax(graph) else 2


def threshold(graph: Graph) -> float:
    """Above which one output alone says yes: half of a probability, which a Sigmoid gives, zero of a score."""
    return 0.5 if last_operator(graph) in PROBABILITIES else 0.0


def ends_in_argmax(graph: Graph) -> bool:
    """Whether the output is the result of ArgMax."""
    return last_operator(graph) == "ArgMax"


def last_operator(graph: Graph) -> str:
    """The operator whose result the first output is, views between them left aside; empty where that is none."""
    name = graph.outputs[0]
    for node in reversed(graph.nodes):
        if name in node.outputs:
            if node.body is not None or not OPERATOR_BY_NAME[node.op].is_view:
                return node.op
            name = node.inputs[0]
    return ""
