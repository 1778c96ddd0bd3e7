"""Constants as the program holds them, and how far those may be off that it holds in other formats than their own."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import numpy as np

from tinyhil.agreement.spread import LINEAR
from tinyhil.formats.codec import dequantize, quantize
from tinyhil.formats.format import AFFINE, Format
from tinyhil.language.form import Arithmetic, Weights
from tinyhil.language.graph import Graph, Node
from tinyhil.language.program import Op, Program, Role, walk
from tinyhil.ops import KERNEL_OF
from tinyhil.ops.norm import scale_and_offset

Arrays = dict[str, np.ndarray]
JOINING = LINEAR | {"Add", "Sub"}  # a constant that is added may be stored as a bias, in a form of its own
BY_CHANNEL = (Arithmetic.CHANNELS, Arithmetic.CODED_CHANNELS, Arithmetic.AFFINE)


def is_by_channel(op: Op) -> bool:
    """Whether it is a layer each of whose outputs, or groups of weights, has a scale of its own."""
    return op.kernel.weights is Weights.GROUPS or (op.kernel.arithmetic in BY_CHANNEL and KERNEL_OF[op.kernel].is_sum)


def with_stored_constants(graph: Graph, program: Program, formats: Mapping[str, Format]) -> tuple[Graph, Arrays]:
    """`graph` with the constants that `program` computes with, in float64, and errors of those it holds otherwise.

    Weights and whatever else is stored in its own format are exactly what is stored. A bias may be stored coarser than
    its format, weights by channels: their errors are those that their own format explains.
    """
    constants = {name: array for name, array in graph.all_constants().items() if array.dtype.kind == "f"}
    stored, readers = stored_constants(program, formats), _readers(graph)
    scaled = {name for op in walk(program.body) if is_by_channel(op) for name in op.inputs}
    exact: Arrays = {name: array.astype(np.float64) for name, array in constants.items()}
    errors: Arrays = {}
    for name, array in constants.items():
        tensors, fmt = stored.get(name, []), formats[name]
        found = {program.tensors[tensor].format for tensor in tensors}
        users = readers.get(name, [])
        layers = [node for node, position in users if node.op in LINEAR and position < 2]
        is_scaled = bool(layers) and not scaled.isdisjoint(tensors)
        if is_scaled and (fmt.is_per_channel or fmt.domain == AFFINE):
            errors[name] = _by_channel(array, layers[0], fmt)
        elif (
            found == {fmt}
            or (layers and scaled.intersection(tensors))
            or (not found and (layers or any(node.body is not None for node, _ in users)))
        ):
            exact[name] = _nearest(array, fmt)
        elif found or any(node.op in JOINING for node, _ in users):
            errors[name] = resolution(array, _nearest(array, fmt), fmt)
    return replaced(graph, exact), {**errors, **_folded(graph, formats)}


def _folded(graph: Graph, formats: Mapping[str, Format]) -> Arrays:
    """Of a batch normalisation by itself, which computes with a factor and an offset instead of its statistics: the
    errors of these, under the names of scale and bias."""
    errors: Arrays = {}
    constants = graph.all_constants()
    for node in graph.walk():
        if node.op == "BatchNormalization":
            made = scale_and_offset(node, [constants[name] for name in node.inputs[1:]])
            for name, array in zip(node.inputs[1:3], made, strict=True):
                fmt = formats[name].fitted(float(np.abs(array).max(initial=0.0)))
                errors[name] = resolution(array, _nearest(array, fmt), fmt)
    return errors


def resolution(array: np.ndarray, nearest: np.ndarray, fmt: Format) -> np.ndarray:
    """Half the distance between neighbouring values of `fmt` around those of `array`, of which `nearest` are the
    nearest, at least."""
    off = np.abs(array - nearest)
    beside = np.abs(dequantize(quantize(array + 2 * off + fmt.smallest * 2.0**fmt.exponent, fmt)[0], fmt) - nearest)
    return np.maximum(off, beside / 2)


def _nearest(array: np.ndarray, fmt: Format) -> np.ndarray:
    return dequantize(quantize(array, fmt)[0], fmt)


def _by_channel(array: np.ndarray, layer: Node, fmt: Format) -> np.ndarray:
    """Half a unit of each output channel's own scale; a power of two, or one more, above its largest magnitude."""
    channels = output_axis(array.ndim, layer)
    axes = tuple(axis for axis in range(array.ndim) if axis != channels)
    largest = np.abs(array).max(axis=axes, keepdims=True)
    return np.broadcast_to(largest * 2.0 ** (2 - fmt.significant_bits), array.shape).astype(np.float64)


def output_axis(rank: int, layer: Node) -> int:
    """Which axis of a layer's weights of `rank` axes counts its outputs."""
    if layer.op == "Conv":
        return 0
    if layer.op == "ConvTranspose":
        return 1
    if layer.op == "Gemm":
        return 0 if layer.attrs.get("transB", 0) else 1
    return rank - 1


def stored_constants(program: Program, values: Collection[str]) -> dict[str, list[str]]:
    """The constants of a program, under the names of the values they hold."""
    found: dict[str, list[str]] = {}
    for name in program.constants:
        stem, _, copy = name.rpartition(".")
        value = stem if copy.isdigit() and name not in values else name
        if program.tensors[name].role == Role.CONSTANT:
            found.setdefault(value, []).append(name)
    return found


def _readers(graph: Graph) -> dict[str, list[tuple[Node, int]]]:
    readers: dict[str, list[tuple[Node, int]]] = {}
    for node in graph.walk():
        for position, name in enumerate(node.inputs):
            readers.setdefault(name, []).append((node, position))
    return readers


def replaced(graph: Graph, constants: Arrays) -> Graph:
    """`graph` with other `constants` of the same names, on every level."""
    nodes = tuple(
        node if node.body is None else replace(node, body=replaced(node.body, constants)) for node in graph.nodes
    )
    own = {name: constants.get(name, array) for name, array in graph.constants.items()}
    return replace(graph, nodes=nodes, constants=own)
