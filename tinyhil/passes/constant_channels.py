"""Channels of asymmetric integers that are one code whatever comes in -> left out, in the biases of who reads them.

The sum of an output lies between two ends that follow from its weights; where both are rescaled to the same code the
channel is constant: its weights, or its factor, vanish beside its bias, as those of channels that training gave up do.
A convolution that reads a constant channel adds its products to its bias, exactly; a depthwise one makes another
constant of it, a padded one if its sums at the edges are rescaled to the same code. What nobody reads then is not
computed. Only convolutions read one another here, each alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tinyhil.formats.affine import rescale
from tinyhil.formats.format import AFFINE
from tinyhil.language.program import Loop, Op, Program, Role, walk
from tinyhil.ops import affine
from tinyhil.ops.window import ends_of_sums, window_of

BITS = 8


@dataclass(frozen=True, slots=True)
class Layer:
    """A convolution: weights (outputs, channels, positions), of a depthwise one (outputs, 1, positions)."""

    op: Op
    weights: np.ndarray
    bias: np.ndarray
    low: np.ndarray  # of its results' codes, (outputs,)
    high: np.ndarray

    @property
    def is_depthwise(self) -> bool:
        """Whether every output has a channel of its own."""
        return bool(self.op.params["groups"] > 1)

    @property
    def constant(self) -> np.ndarray:
        """Mask of the channels that are one code whatever comes in, (outputs,)."""
        return self.low == self.high

    def takes(self, codes: np.ndarray) -> np.ndarray:
        """Mask of those constant channels that are the same at the edges of a plane as within it."""
        return (codes == self.op.params["pad"]) | np.bool_(window_of(self.op.params).sights().all())


def without_constant_channels(program: Program) -> Program:
    """`program` without such channels; the same object if there are none."""
    if any(isinstance(item, Loop) for item in program.body):
        return program
    layers = _layers(program)
    live = _live(program, layers)
    if all(mask.all() for mask in live.values()):
        return program
    tensors, constants = dict(program.tensors), dict(program.constants)
    body = []
    for item in program.body:
        if isinstance(item, Op) and item.output in layers:
            layer = layers[item.output]
            before = layers.get(item.inputs[1])
            columns = live.get(item.inputs[1])
            rows = live.get(item.output, np.ones(len(layer.bias), bool))
            if columns is None:
                columns = np.ones(item.params["channels"], bool)
            made, arrays = _smaller(layer, before, rows, columns)
            whole = program.tensors[item.output]
            tensors[item.output] = replace(whole, count=whole.count // rows.size * int(rows.sum()))
            each = [program.constants[name].reshape(rows.size, -1)[rows] for name in item.inputs[3:]]
            for name, array in zip((item.inputs[0], *item.inputs[2:]), (*arrays, *each), strict=True):
                constants[name] = array.reshape(-1)
                tensors[name] = replace(tensors[name], count=array.size)
            if item.scratch and not layer.is_depthwise:
                count = program.tensors[item.scratch].count // columns.size * int(columns.sum())
                tensors[item.scratch] = replace(program.tensors[item.scratch], count=count)
            item = made
        body.append(item)
    return replace(program, tensors=tensors, constants=constants, body=tuple(body))


def _layers(program: Program) -> dict[str, Layer]:
    """The convolutions of which everything is known, by what they make, in their order."""
    uses: dict[str, int] = {}
    for op in walk(program.body):
        for name in op.tensors:
            uses[name] = uses.get(name, 0) + 1
    found: dict[str, Layer] = {}
    for item in program.body:
        if isinstance(item, Op) and item.kernel.bare == affine.CONV.form and _is_known(program, item, uses):
            found[item.output] = _layer(program, item, found.get(item.inputs[1]))
    return found


def _is_known(program: Program, op: Op, uses: dict[str, int]) -> bool:
    p, (x, out) = op.params, (program.tensors[name] for name in (op.inputs[1], op.output))
    own = (op.inputs[0], *op.inputs[2:])
    return (
        p["groups"] in (1, p["channels"])
        and (p["groups"] == 1 or p["channels"] == p["outputs"])
        and all(program.tensors[name].role == Role.CONSTANT and uses[name] == 1 for name in own)
        and all(one.format.domain == AFFINE and one.format.bits == BITS for one in (x, out))
        and op.accumulator_bits <= affine.SUM_BITS[BITS]
    )


def _layer(program: Program, op: Op, before: Layer | None) -> Layer:
    weights, bias, m, shift = (program.constants[name].astype(np.int64) for name in (op.inputs[0], *op.inputs[2:]))
    p, outputs = op.params, len(bias)
    weights = weights.reshape(outputs, p["channels"] // p["groups"], -1)
    least, most = -(1 << BITS - 1), (1 << BITS - 1) - 1
    low, high = (np.full(p["channels"], end, np.int64) for end in (least, most))
    if before is not None:
        low, high = before.low, before.high
    ends = ends_of_sums(weights, low, high, window_of(p).sights(), p["pad"])
    codes = [rescale(end + bias, m, shift) + p["zero"] for end in ends]
    first, last = (np.clip(code, p.get("low", code), p.get("high", code)) for code in codes)
    clipped = (first < least) | (last > most)  # counted wherever they are computed
    return Layer(op, weights, bias, np.where(clipped, least, first), np.where(clipped, most, last))


def _live(program: Program, layers: dict[str, Layer]) -> dict[str, np.ndarray]:
    """Which channels of each result must be computed; all, but where one convolution alone reads them."""
    readers: dict[str, list[Op]] = {}
    for op in walk(program.body):
        for name in op.inputs:
            readers.setdefault(name, []).append(op)

    def only_reader(name: str) -> Layer | None:
        found = readers.get(name, [])
        return layers.get(found[0].output) if name in layers and name != program.output and len(found) == 1 else None

    narrowed: dict[str, Layer] = {}
    for name, layer in layers.items():  # a depthwise one needs an operand that is narrowed with it
        reader = only_reader(name)
        if reader is not None and not (layer.is_depthwise and layer.op.inputs[1] not in narrowed):
            narrowed[name] = reader
    live: dict[str, np.ndarray] = {}
    for name, layer in reversed(layers.items()):
        live[name] = _read(layer, narrowed[name], live) if name in narrowed else np.ones(len(layer.bias), bool)
    return live


def _read(layer: Layer, reader: Layer, live: dict[str, np.ndarray]) -> np.ndarray:
    rows = live[reader.op.output]
    if reader.is_depthwise:
        return rows
    needed = (reader.weights[rows & ~reader.constant] != 0).any(axis=(0, 2))
    mask = needed & ~(layer.constant & reader.takes(layer.low))
    mask[0] |= not mask.any()  # a layer without outputs is none
    return np.asarray(mask)


def _smaller(
    layer: Layer, before: Layer | None, rows: np.ndarray, columns: np.ndarray
) -> tuple[Op, tuple[np.ndarray, np.ndarray]]:
    """The operation, its weights and its bias, over the channels that are left."""
    p, bias, weights = dict(layer.op.params), layer.bias, layer.weights
    if not layer.is_depthwise:
        if before is not None and not columns.all():
            weights = weights.copy()
            gone = ~columns  # constant, or of no weight but in sums that are rescaled to one code whatever it is
            bias = bias + weights[:, gone].sum(axis=2) @ before.low[gone]
        weights = weights[:, columns]
    p |= {"outputs": int(rows.sum()), "channels": int(columns.sum())}
    if layer.is_depthwise:
        p["groups"] = p["channels"]
    return replace(layer.op, params=p), (weights[rows], bias[rows])
