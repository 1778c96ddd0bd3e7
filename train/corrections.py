"""What can be done for a format without training: equalized layers, learned roundings, corrected biases, in this order.

Bias correction (Nagel et al. 2019): quantization moves the mean of a layer's sums; its bias takes that back. Roundings
and biases are found in one pass each: a layer sees what the layers before it give once they are corrected.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, fields

import numpy as np
import torch

from tinyhil.compiler.calibrate import Ranges
from tinyhil.errors import ConfigError, ModelError
from tinyhil.language.graph import Graph, Node
from tinyhil.train.equalize import LAYERS, equalized
from tinyhil.train.integers import Arrays, Judge, on_grid
from tinyhil.train.network import Network, network, with_constants
from tinyhil.train.quantizers import Quantizers, quantizers, straight_through
from tinyhil.train.rounding_up import LayerSeen, Rounding, can_round, rounded

Tensor = torch.Tensor
Change = Callable[[Node, Tensor, Tensor], Tensor]  # a layer, its operand, its results: what goes on in their place


@dataclass(frozen=True, slots=True)
class Corrections:
    """What is done; `rounding` None: weights are rounded to nearest."""

    equalize: bool = False
    rounding: Rounding | None = None
    correct_bias: bool = False


@dataclass(frozen=True, slots=True)
class Corrected:
    """Constants that changed, and the ranges of values by which the program is made."""

    constants: Arrays
    ranges: Ranges


@dataclass(frozen=True, slots=True)
class Stepwise(Quantizers):
    """Quantizers that change the results of each of `layers`, by their names, before they are rounded."""

    layers: Mapping[str, Node]
    read: Collection[str]  # values that layers read
    change: Change
    seen: dict[str, Tensor]

    def value(self, name: str, x: Tensor) -> Tensor:
        node = self.layers.get(name)
        if node is not None:
            x = self.change(node, self.seen[node.inputs[0]], x)
        held = Quantizers.value(self, name, x)
        if name in self.read:
            self.seen[name] = held
        return held


def corrected(judge: Judge, wanted: Corrections) -> Corrected:
    """For the judge's formats, on its calibration samples. ModelError for a model without layers to correct,
    ConfigError where a correction finds nothing to do."""
    torch.set_num_threads(1)
    if not _layers(judge.graph):
        raise ModelError(f"model '{judge.graph.name}' has no Conv or Gemm of constant weights outside of loops")
    changed = Arrays()
    if wanted.equalize:
        changed = _some(equalized(judge.graph), "--equalize: no layer is read by another layer alone")
    ranges = judge.ranges(changed)
    graph = with_constants(judge.graph, changed)
    x = torch.as_tensor(judge.calibration, dtype=torch.float32)
    x = x.reshape(len(x), *graph.shapes[graph.inputs[0]])
    floats, layers = dict[str, Tensor](), _layers(graph)

    def watch(name: str, value: Tensor) -> None:
        if name in layers:
            floats[name] = value

    with torch.no_grad():
        network(graph).forward(x, None, judge.assignment, watch)
        if wanted.rounding is not None:
            found = _roundings(judge, graph, ranges, (x, floats), wanted.rounding)
            changed |= _some(found, "--learn-rounding: no weights are in fixed point with one scale")
        if wanted.correct_bias:
            found = _biases(judge, with_constants(judge.graph, changed), ranges, (x, floats))
            changed |= _some(found, "--correct-bias: no layer has a bias of several elements")
    return Corrected(changed, ranges)


def _some(found: Arrays, why: str) -> Arrays:
    """What was found; ConfigError says why nothing was."""
    if not found:
        raise ConfigError(f"{why}; leave the option out, or choose other formats")
    return found


def _layers(graph: Graph) -> dict[str, Node]:
    """Those of constant weights, by their results."""
    return {node.outputs[0]: node for node in graph.nodes if node.op in LAYERS and node.inputs[1] in graph.constants}


def _passed(judge: Judge, net: Network, used: Quantizers, x: Tensor, change: Change) -> None:
    """One pass in the judge's formats."""
    given = {field.name: getattr(used, field.name) for field in fields(Quantizers)}
    source = net.graph.inputs[0]
    seen = {source: Quantizers.value(used, source, x)}
    layers = _layers(net.graph)
    read = {node.inputs[0] for node in layers.values()}
    holder = Stepwise(**given, layers=layers, read=read, change=change, seen=seen)
    net.forward(x, holder, judge.assignment)


def _roundings(
    judge: Judge, graph: Graph, ranges: Ranges, known: tuple[Tensor, Mapping[str, Tensor]], how: Rounding
) -> Arrays:
    """Weights of layers whose format has one scale; others stay."""
    net, used = network(graph), quantizers(graph, judge.assignment, ranges)
    (x, floats), found = known, Arrays()

    def change(node: Node, operand: Tensor, results: Tensor) -> Tensor:
        name, *more = node.inputs[1:]
        if not can_round(used.constants.get(name)) or name not in net.weights:
            return results
        others = tuple(torch.as_tensor(graph.constants[other]) for other in more)
        seen = LayerSeen(node, operand, net.weights[name].detach(), others, floats[node.outputs[0]])
        with torch.enable_grad():
            weights = rounded(seen, used.constants[name], how)
        found[name] = weights.numpy()
        return seen.results(weights)

    _passed(judge, net, used, x, change)
    return on_grid(found, used, graph)


def _held(bias: Tensor, used: Quantizers, name: str) -> Tensor:
    """As the program holds it, in a format that is fitted to it."""
    fmt = used.constants.get(name)
    return bias if fmt is None else straight_through(bias, fmt.fitted(float(bias.abs().max())))


def _biases(judge: Judge, graph: Graph, ranges: Ranges, known: tuple[Tensor, Mapping[str, Tensor]]) -> Arrays:
    """So that the layers have the means that they have in float."""
    net, used = network(graph), quantizers(graph, judge.assignment, ranges)
    (x, floats), found = known, Arrays()

    def change(node: Node, operand: Tensor, results: Tensor) -> Tensor:
        if len(node.inputs) < 3 or node.inputs[2] not in net.weights:
            return results
        channel = 2 if node.op == "Conv" else results.ndim - 1  # behind samples and, of a Conv, an axis of 1
        others = tuple(axis for axis in range(results.ndim) if axis != channel)
        lost = (floats[node.outputs[0]] - results).mean(dim=others, keepdim=True)
        name = node.inputs[2]
        bias = torch.as_tensor(graph.constants[name])
        moved = bias + lost.reshape(bias.shape)
        found[name] = moved.numpy().astype(np.float32)
        return results + (_held(moved, used, name) - _held(bias, used, name)).reshape(lost.shape)

    _passed(judge, net, used, x, change)
    return found
