"""Cross-layer equalization (Nagel et al. 2019): scales move from one layer's outputs to the next one's inputs.

A channel between two layers may be divided by any positive number that the second layer multiplies by again, as long as
what lies between (Relu, pools) goes along. The float model stays what it is; the weights' channels come to be of one
size, which is what a format with one scale for a whole tensor needs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tinyhil.agreement.stored_constants import output_axis
from tinyhil.language.graph import Graph, Node

LAYERS = frozenset({"Conv", "Gemm"})
# f(s x) = s f(x) for s > 0, channel by channel
HOMOGENEOUS = frozenset({"AveragePool", "GlobalAveragePool", "Identity", "LeakyRelu", "MaxPool", "Relu"})
ROUNDS, ENOUGH = 30, 1.001  # until no channel is moved by more
VANISHING = 2.0**-24  # of the largest channel: what is smaller is a constant, whose bias the scale would blow up
Arrays = dict[str, np.ndarray]


@dataclass(frozen=True, slots=True)
class Pair:
    """Two layers, and how many inputs of the second each channel of the first has become (by Flatten)."""

    first: Node
    second: Node
    copies: int


def equalized(graph: Graph) -> Arrays:
    """The constants of `graph` that equalization changes, by name; those of pairs of layers between which nothing else
    reads."""
    found, changed = graph.all_constants(), Arrays()
    joined = list(pairs(graph))
    for _ in range(ROUNDS):
        most = 1.0
        for pair in joined:
            scales = _scales(pair, {**found, **changed})
            most = max(most, float(np.maximum(scales, 1 / scales).max()))
            changed |= _moved(pair, scales, {**found, **changed})
        if most <= ENOUGH:
            break
    return {name: array.astype(np.float32) for name, array in changed.items()}


def pairs(graph: Graph) -> Iterator[Pair]:
    """Layers whose result nothing but another layer reads, whatever is homogeneous between them."""
    readers: dict[str, list[Node]] = {}
    for node in graph.walk():
        for name in node.inputs:
            readers.setdefault(name, []).append(node)
    constants = graph.all_constants()
    for first in graph.nodes:
        if first.op not in LAYERS or any(len(readers[name]) > 1 for name in first.inputs[1:]):
            continue
        second, out = first, first.outputs[0]
        while second is first or second.op in HOMOGENEOUS or second.op == "Flatten":
            out = second.outputs[0]
            users = readers.get(out, [])
            if out in graph.outputs or len(users) != 1 or users[0].body is not None:
                break
            second = users[0]
        if second is not first and second.op in LAYERS and second.inputs[0] == out:
            copies = _copies(first, second, constants)
            if copies and len(readers[second.inputs[1]]) == 1:
                yield Pair(first, second, copies)


def _copies(first: Node, second: Node, constants: Arrays) -> int:
    """0: scales can not go from one to the other (groups of more than a channel)."""
    if any(name not in constants for node in (first, second) for name in node.inputs[1:]):
        return 0
    weights, wider = constants[first.inputs[1]], constants[second.inputs[1]]
    channels = weights.shape[output_axis(weights.ndim, first)]
    groups = second.attrs.get("group", 1)
    if second.op == "Conv" and groups > 1:
        return int(groups == channels)
    inputs = wider.shape[1] if second.op == "Conv" else wider.shape[1 - output_axis(wider.ndim, second)]
    return inputs // channels if inputs % channels == 0 else 0


def _outputs(pair: Pair, constants: Arrays) -> np.ndarray:
    """The first layer's weights (channels, ...)."""
    weights = constants[pair.first.inputs[1]]
    return np.moveaxis(weights, output_axis(weights.ndim, pair.first), 0)


def _inputs(pair: Pair, constants: Arrays) -> np.ndarray:
    """The second layer's weights (channels, ...) by what they read; a view."""
    weights, second = constants[pair.second.inputs[1]], pair.second
    if second.op == "Conv" and second.attrs.get("group", 1) > 1:
        return weights.reshape(second.attrs["group"], -1)
    axis = 1 if second.op == "Conv" else 1 - output_axis(weights.ndim, second)
    rows = np.moveaxis(weights, axis, 0)
    return rows.reshape(len(rows) // pair.copies, pair.copies, *rows.shape[1:])


def _scales(pair: Pair, constants: Arrays) -> np.ndarray:
    """By which each channel is divided in front, so that its weights reach as far on both sides; 1 where they vanish on
    one."""
    front, behind = (
        np.abs(side.reshape(len(side), -1)).max(axis=1).astype(np.float64)
        for side in (_outputs(pair, constants), _inputs(pair, constants))
    )
    used = (front > VANISHING * front.max()) & (behind > VANISHING * behind.max())
    return np.where(used, np.sqrt(np.where(used, front, 1.0) / np.where(used, behind, 1.0)), 1.0)


def _moved(pair: Pair, scales: np.ndarray, constants: Arrays) -> Arrays:
    name, *more = pair.first.inputs[1:]
    weights = constants[name].astype(np.float64)
    axis = output_axis(weights.ndim, pair.first)
    made: Arrays = {name: weights / np.expand_dims(scales, tuple(i for i in range(weights.ndim) if i != axis))}
    for bias in more:
        made[bias] = (constants[bias].reshape(-1) / scales).reshape(constants[bias].shape)
    behind = {**constants, pair.second.inputs[1]: constants[pair.second.inputs[1]].astype(np.float64)}
    rows = _inputs(pair, behind)
    rows = rows * np.expand_dims(scales, tuple(range(1, rows.ndim)))
    made[pair.second.inputs[1]] = _as_stored(pair, rows, behind[pair.second.inputs[1]])
    return made


def _as_stored(pair: Pair, rows: np.ndarray, like: np.ndarray) -> np.ndarray:
    """`_inputs` undone."""
    second = pair.second
    if second.op == "Conv" and second.attrs.get("group", 1) > 1:
        return rows.reshape(like.shape)
    axis = 1 if second.op == "Conv" else 1 - output_axis(like.ndim, second)
    flat = rows.reshape(-1, *rows.shape[2:])
    return np.moveaxis(flat, 0, axis)
