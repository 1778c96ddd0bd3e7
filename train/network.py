"""A graph as a differentiable function of its constants, in the numbers that its program computes with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import torch

from tinyhil.compiler.column_readers import scaling_constants
from tinyhil.compiler.columns import scaled_columns
from tinyhil.errors import ModelError
from tinyhil.language.assignment import Assignment
from tinyhil.language.graph import Graph, Node, element_count
from tinyhil.references.classes import PROBABILITIES, behind_views, decider
from tinyhil.references.evaluate import replay
from tinyhil.train.flow import Flowing, NoGradient
from tinyhil.train.quantizers import Quantizers

Tensor = torch.Tensor
Watch = Callable[[str, Tensor], None]


class Holder(Protocol):
    """What a network's numbers are held in: formats, or the arithmetic of its training."""

    def value(self, name: str, x: Tensor) -> Tensor:
        """A computed tensor (samples, ...) as it is held, gradients with it."""

    def constant(self, name: str, value: Tensor, others: Mapping[str, Any]) -> Tensor:
        """A constant as it is held; `others`: all constants by name, where the scale of one depends on another."""


@dataclass(frozen=True, slots=True)
class Network:
    """`weights`: the constants that training moves, by name. `scores`: what a loss looks at, before a Softmax, or a
    Sigmoid of one output, if the output is one."""

    graph: Graph
    weights: Mapping[str, Tensor]
    scores: str

    def forward(
        self,
        x: Tensor,
        holder: Holder | None = None,
        assignment: Assignment | None = None,
        watch: Watch | None = None,
    ) -> Tensor:
        """Scores (samples, elements) of inputs (samples, *shape), each value as `holder` holds it: quantizers, or the
        arithmetic of the training. `watch` sees every value. ModelError if the output has no gradient."""
        graph = with_constants(self.graph, {name: Flowing(weights) for name, weights in self.weights.items()})
        if holder is not None:
            graph = _held(graph, holder, assignment)
        found: dict[str, Tensor] = {}
        computed: set[str] = set()

        def take(node: Node, arrays: list[Any], results: list[Any]) -> list[Any]:
            computed.update(node.outputs)
            taken = [_taken(name, value, holder) for name, value in zip(node.outputs, results, strict=False)]
            for name, value in zip((*node.inputs, *node.outputs), (*arrays, *taken), strict=False):
                if name == self.scores:
                    found[name] = value
            for name, value in zip(node.outputs, taken, strict=False):
                if watch is not None and isinstance(value, Flowing):
                    watch(name, value.tensor)
            return taken

        try:
            output = replay(graph, Flowing(x), take)  # type: ignore[arg-type]
        except NoGradient as error:
            raise ModelError(f"training: {_first_beyond(graph, computed)} computes by {error}") from None
        made = found.get(self.scores, output)
        if not isinstance(made, Flowing):
            raise ModelError(
                "training: the output has no gradient; train a model that ends in scores, not in decisions"
            )
        scores = made.tensor.reshape(len(made), -1)
        if isinstance(holder, Quantizers) and holder.program.output_scale is not None and made is output:
            scores = scores / torch.as_tensor(holder.program.output_scale)
        return scores.expand(len(x), -1)


def _first_beyond(graph: Graph, computed: set[str]) -> str:
    """The operation, in loops the innermost, that comes after those that have computed their outputs."""
    node = next(node for node in graph.nodes if computed.isdisjoint(node.outputs))
    inside = node.body is not None and any(computed.isdisjoint(one.outputs) for one in node.body.nodes)
    return _first_beyond(node.body, computed) if inside and node.body else f"operation '{node.name}' ({node.op})"


def _taken(name: str, value: Any, holder: Holder | None) -> Any:
    return value if holder is None or not isinstance(value, Flowing) else Flowing(holder.value(name, value.tensor))


def network(graph: Graph) -> Network:
    """`graph` with its float constants as weights; ModelError for one that holds integers."""
    if graph.pinned or graph.steps:
        raise ModelError(f"model '{graph.name}' is quantized already; train the float model it was made of")
    moved, arrays = trainable(graph), graph.all_constants()
    weights = {name: torch.tensor(array).requires_grad_() for name, array in arrays.items() if name in moved}
    if not weights:
        raise ModelError(f"model '{graph.name}' has no weights to train")
    last, is_one = decider(graph), element_count(graph.shapes[graph.outputs[0]]) == 1
    if last is not None and (last.op == "Softmax" or (is_one and last.op in PROBABILITIES)):
        return Network(graph, weights, last.inputs[0])
    return Network(graph, weights, behind_views(graph, graph.outputs[0]))


def trainable(graph: Graph) -> set[str]:
    """Constants with several elements, but for what loops begin with and what prepares the data: a Scaler's are
    measured, not learnt. What has no gradient stays what it is."""
    starts = scaling_constants(graph)
    for node in graph.walk():
        if node.body is not None:
            starts.update(node.inputs[: len(node.inputs) - int(node.attrs["num_scan_inputs"])])
    return {
        name
        for name, array in graph.all_constants().items()
        if array.dtype == np.float32 and array.size > 1 and name not in starts
    }


def with_constants(graph: Graph, constants: Mapping[str, Any]) -> Graph:
    """`graph` with other constants of these names, on all levels."""
    nodes = tuple(
        node if node.body is None else replace(node, body=with_constants(node.body, constants)) for node in graph.nodes
    )
    return replace(graph, nodes=nodes, constants={n: constants.get(n, array) for n, array in graph.constants.items()})


def _held(graph: Graph, holder: Holder, assignment: Assignment | None) -> Graph:
    """The graph over the input's columns as the program has them, each constant in its format."""
    if isinstance(holder, Quantizers) and holder.program.columns is not None and assignment is not None:
        graph = scaled_columns(graph, assignment, holder.ranges).graph
    constants = graph.all_constants()
    tensors = {
        name: value if isinstance(value, Flowing) else Flowing(torch.as_tensor(value))
        for name, value in constants.items()
        if value.dtype.kind == "f"
    }
    return with_constants(
        graph, {name: Flowing(holder.constant(name, value.tensor, tensors)) for name, value in tensors.items()}
    )
