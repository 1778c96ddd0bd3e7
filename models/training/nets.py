"""Small feed-forward networks: trained with torch, written as ONNX node by node. Needs torch.

A network is a tuple of layers, which drives training, the file and the count of multiply-accumulates alike.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx
import torch
from onnx import helper
from torch import nn
from torch.nn import functional

from models.training.fit import Schedule, fit, start
from models.training.graphs import finish


@dataclass(frozen=True, slots=True)
class Dense:
    outputs: int


@dataclass(frozen=True, slots=True)
class Conv:
    channels: int
    size: int
    padding: int = 0


@dataclass(frozen=True, slots=True)
class Pool:
    """Maximum over `size` x `size`."""

    size: int = 2


@dataclass(frozen=True, slots=True)
class Relu:
    pass


@dataclass(frozen=True, slots=True)
class HardTanh:
    """-1 to 1."""


@dataclass(frozen=True, slots=True)
class Norm:
    """Batch normalisation, folded into the layer before it when the network is written."""


Layer = Dense | Conv | Pool | Relu | HardTanh | Norm


@dataclass(frozen=True, slots=True)
class Recipe:
    """`shift` moves the pictures by up to so many pixels while training."""

    layers: tuple[Layer, ...]
    shift: int = 0
    schedule: Schedule = field(default_factory=Schedule)


@dataclass(frozen=True, slots=True)
class Built:
    """Modules, nodes and constants of the same network; `cost` in multiply-accumulates."""

    network: nn.Sequential
    cost: int


def build(shape: Sequence[int], layers: Sequence[Layer]) -> Built:
    """Modules for inputs of `shape` (channels, height, width)."""
    modules: list[nn.Module] = []
    cost, current = 0, tuple(shape)
    for layer in layers:
        if isinstance(layer, Conv):
            modules.append(nn.Conv2d(current[0], layer.channels, layer.size, padding=layer.padding))
            rows, columns = (side + 2 * layer.padding - layer.size + 1 for side in current[1:])
            cost += layer.channels * rows * columns * current[0] * layer.size**2
            current = (layer.channels, rows, columns)
        elif isinstance(layer, Pool):
            modules.append(nn.MaxPool2d(layer.size))
            current = (current[0], current[1] // layer.size, current[2] // layer.size)
        elif isinstance(layer, Dense):
            inputs = int(np.prod(current))
            modules += [nn.Flatten(), nn.Linear(inputs, layer.outputs)] if len(current) > 1 else []
            modules += [nn.Linear(inputs, layer.outputs)] if len(current) == 1 else []
            cost += inputs * layer.outputs
            current = (layer.outputs,)
        elif isinstance(layer, Norm):
            modules.append(nn.BatchNorm2d(current[0]) if len(current) > 1 else nn.BatchNorm1d(current[0]))
        else:
            modules.append(nn.ReLU() if isinstance(layer, Relu) else nn.Hardtanh())
    return Built(nn.Sequential(*modules), cost)


def shifted(x: torch.Tensor, most: int, random: torch.Generator) -> torch.Tensor:
    """The whole batch moved by one random offset, the border filled with 0."""
    if most == 0:
        return x
    down, right = (int(v) for v in torch.randint(-most, most + 1, (2,), generator=random))
    padded = functional.pad(x, (most, most, most, most))
    return padded[:, :, most + down : most + down + x.shape[2], most + right : most + right + x.shape[3]]


def moved(x: torch.Tensor, most: int, random: torch.Generator) -> torch.Tensor:
    """The same of square pictures as rows of (n, pixels)."""
    side = math.isqrt(x.shape[1])
    return shifted(x.reshape(len(x), 1, side, -1), most, random).reshape(len(x), -1)


def train(x: np.ndarray, y: np.ndarray, recipe: Recipe) -> Built:
    """`x` (n, channels, height, width) as the data set gives them."""
    start(recipe.schedule.seed)
    random = torch.Generator().manual_seed(recipe.schedule.seed + 1)
    built = build(x.shape[1:], recipe.layers)
    smoothing = recipe.schedule.label_smoothing

    def loss(inputs: torch.Tensor, labels: torch.Tensor, progress: float) -> torch.Tensor:
        return functional.cross_entropy(
            built.network(shifted(inputs, recipe.shift, random)), labels, label_smoothing=smoothing
        )

    fit(built.network, (x, y), recipe.schedule, loss)
    built.network.eval()
    return built


def weights_of(layer: nn.Conv2d | nn.Linear, after: nn.Module | None) -> tuple[np.ndarray, np.ndarray]:
    """Weights (outputs in front) and bias, with the normalisation after the layer, if there is one, inside."""
    assert layer.bias is not None
    weight, bias = layer.weight.detach(), layer.bias.detach()
    if isinstance(after, nn.BatchNorm1d | nn.BatchNorm2d):
        assert after.running_var is not None
        assert after.running_mean is not None
        scale = (after.weight / torch.sqrt(after.running_var + after.eps)).detach()
        weight = weight * scale.reshape(-1, *[1] * (weight.ndim - 1))
        bias = (bias - after.running_mean) * scale + after.bias.detach()
    return weight.numpy(), bias.numpy()


def to_onnx(name: str, network: nn.Sequential, shape: Sequence[int]) -> onnx.ModelProto:
    """Conv, Relu, Clip, MaxPool, Flatten and Gemm, from `x` [1, *shape] to `logits`."""
    nodes: list[onnx.NodeProto] = []
    constants: dict[str, np.ndarray] = {}
    value, outputs = "x", 0
    modules = list(network)
    for index, module in enumerate(modules):
        if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
            continue
        last = index == len(modules) - 1
        if isinstance(module, nn.Conv2d | nn.Linear):
            kind = "conv" if isinstance(module, nn.Conv2d) else "fc"
            label = f"{kind}{sum(n.name.startswith(kind) for n in nodes) + 1}"
            weight, bias = weights_of(module, None if last else modules[index + 1])
            constants[f"{label}_w"] = weight if kind == "conv" else weight.T
            constants[f"{label}_b"] = bias
            outputs = weight.shape[0]
            inputs, op = [value, f"{label}_w", f"{label}_b"], "Conv" if kind == "conv" else "Gemm"
            more: dict[str, object] = {"pads": [int(module.padding[0])] * 4} if isinstance(module, nn.Conv2d) else {}
        else:
            op, kind = KINDS[type(module)]
            label = f"{kind}{sum(n.name.startswith(kind) for n in nodes) + 1}"
            inputs, size = [value], getattr(module, "kernel_size", 0)
            more = {"kernel_shape": [size, size], "strides": [size, size]} if op == "MaxPool" else {}
            if op == "Clip":
                inputs += ["low", "high"]
                constants |= {"low": np.asarray(-1, np.float32), "high": np.asarray(1, np.float32)}
        result = "logits" if last else label
        nodes.append(helper.make_node(op, inputs, [result], name=label, **more))
        value = result
    return finish(name, nodes, (1, *shape), outputs, constants)


KINDS = {
    nn.ReLU: ("Relu", "relu"),
    nn.Hardtanh: ("Clip", "act"),
    nn.MaxPool2d: ("MaxPool", "pool"),
    nn.Flatten: ("Flatten", "flat"),
}
