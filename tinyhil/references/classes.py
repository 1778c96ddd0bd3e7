"""Which class the outputs of a model name."""

from __future__ import annotations

import numpy as np

from tinyhil.language.graph import Graph
from tinyhil.ops import OPERATOR_BY_NAME


def classes_of(graph: Graph, outputs: np.ndarray) -> np.ndarray:
    """Class of each row of `outputs` (samples, elements): the position of the largest of several; of one alone the
    number itself if the model ends in ArgMax, else 1 above zero and 0 below. Of several outputs the first decides."""
    outputs = outputs[:, : deciding(graph, outputs.shape[1])]
    if outputs.shape[1] > 1:
        return outputs.argmax(axis=1)
    if ends_in_argmax(graph):
        return np.rint(outputs[:, 0]).astype(np.int64)
    return (outputs[:, 0] > 0).astype(np.int64)


def deciding(graph: Graph, elements: int) -> int:
    """How many of a model's output elements, from the first on, name the class."""
    return graph.results[0].count if graph.results else elements


def class_count(graph: Graph, elements: int) -> int | None:
    """How many classes there are; None if the outputs do not say."""
    elements = deciding(graph, elements)
    if elements > 1:
        return elements
    return None if ends_in_argmax(graph) else 2


def ends_in_argmax(graph: Graph) -> bool:
    """Whether the output is the result of ArgMax, views between them left aside."""
    name = graph.outputs[0]
    for node in reversed(graph.nodes):
        if name in node.outputs:
            if node.body is not None or not OPERATOR_BY_NAME[node.op].is_view:
                return node.op == "ArgMax"
            name = node.inputs[0]
    return False
