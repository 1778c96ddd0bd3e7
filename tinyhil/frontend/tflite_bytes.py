"""Operators of a .tflite file whose integers TensorFlow Lite Micro defines code by code: squared differences,
quotients, products of matrices, Softmax and its logarithms, sums, means and comparisons (tinyhil/ops/byte_functions.py,
tinyhil/ops/code_softmax.py)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tinyhil.frontend.tflite_cells import WHOLE_GRID, factors, flat, grid_of, stored_grid
from tinyhil.frontend.tflite_moves import form_of, moved, shaped
from tinyhil.frontend.tflite_reader import FILE, PLANES, TO_PLANES, Convert, Reader
from tinyhil.frontend.tflite_records import Operation
from tinyhil.language.graph import Shape, element_count
from tinyhil.ops.affine_softmax import exp_factor
from tinyhil.ops.code_softmax import WORDS
from tinyhil.ops.whole import GRIDS, KIND

Grid = tuple[int, float, int]  # bits, scale, zero point
LOG_RESULT = (8, 16 / 256, 127)  # the one that there is a kernel for
SHARES = {(8, 8): (1 / 256, -128), (8, 16): (1 / 65536, -32768), (16, 16): (1 / 32768, 0)}  # of Softmax, by bits
Attrs = Callable[[list[Grid]], dict[str, int] | None]  # of operands and result; None: no such kernel


def _exact(
    op: str, attrs: Attrs, otherwise: Convert, kinds: tuple[str, ...] = ("int8",), in_rows: bool = False
) -> Convert:
    """`op` where all tensors are codes of one of `kinds` and `attrs` knows their scales; `in_rows`: along the file's
    last axis."""

    def convert(reader: Reader, operation: Operation) -> None:
        tensors = [reader.file.tensors[number] for number in (*operation.inputs, *operation.outputs)]
        same = {tensor.kind for tensor in tensors}
        if len(same) != 1 or not same <= set(kinds) or any(tensor.scales is None for tensor in tensors):
            otherwise(reader, operation)
            return
        grids = [grid_of(tensor) for tensor in tensors]
        found = attrs(grids)
        if found is None:
            otherwise(reader, operation)
            return
        form, out = FILE if in_rows else form_of(reader, operation), reader.name(operation.outputs[0])
        names = [
            _broadcast(reader, reader.value(number, form), reader.file.tensors[operation.outputs[0]].shape, form)
            for number in operation.inputs
        ]
        stated: dict[str, Any] = {**found, GRIDS: flat(*grids)}
        reader.finish(operation, reader.add(op, *names, out=f"{out}.{op.lower()}", **stated), form)

    return convert


def _broadcast(reader: Reader, value: str, shape: Shape, form: str) -> str:
    """`value` as large as the result, `shape` in the file's form, unless it is one number."""
    wanted = tuple(shape[axis] for axis in TO_PLANES) if form == PLANES and len(shape) == 4 else shape
    given = reader.builder.shapes[value]
    if given == wanted or element_count(given) == 1:
        return value
    return reader.add("Expand", value, reader.number(value, "shape", np.array(wanted, np.int64)), out=f"{value}.wide")


def squared_difference(otherwise: Convert) -> Convert:
    """SQUARED_DIFFERENCE of int8 and int16."""

    def attrs(grids: list[Grid]) -> dict[str, int]:
        (bits, first, _), (_, second, _), (_, result, _) = grids
        twice, lift = 2.0 * max(first, second), 7 if bits == 8 else 0
        last = twice * twice / float(np.float32(1 << 2 * lift) * np.float32(result))
        return {**factors("a_", first / twice), **factors("b_", second / twice), **factors("", last)}

    return _exact("CodeSquares", attrs, otherwise, ("int8", "int16"))


def quotient(otherwise: Convert) -> Convert:
    """DIV of int8 without an activation."""

    def attrs(grids: list[Grid]) -> dict[str, int]:
        first, second, result = (np.float32(scale) for _, scale, _ in grids)
        return factors("", float(np.float32(first / np.float32(second * result))))

    return _exact("CodeQuotients", attrs, otherwise)


def total(is_mean: bool, otherwise: Convert) -> Convert:
    """SUM and MEAN of int8 and int16: the runtime divides the multiplier of a mean by its elements."""

    def convert(reader: Reader, operation: Operation) -> None:
        number = operation.inputs[0]
        tensors = [reader.file.tensors[one] for one in (number, operation.outputs[0])]
        rank, given = len(tensors[0].shape), reader.whole_numbers(operation.inputs[1])
        form = PLANES if (number, PLANES) in reader.values else FILE
        axes = sorted({moved(axis, rank, form) for axis in given})
        if form == PLANES and not operation.options["KeepDims"] and axes != [2, 3]:
            form, axes = FILE, sorted({moved(axis, rank, FILE) for axis in given})
        kinds = {tensor.kind for tensor in tensors}
        if kinds not in ({"int8"}, {"uint8"}, {"int16"}) or not axes or any(t.scales is None for t in tensors):
            otherwise(reader, operation)
            return
        if axes != list(range(axes[0], axes[-1] + 1)):  # those that stay come first
            form, others = FILE, [axis for axis in range(rank) if axis not in {moved(one, rank, FILE) for one in given}]
            order = [*others, *sorted({moved(one, rank, FILE) for one in given})]
            value = reader.add("Transpose", reader.value(number), out=f"{tensors[1].name}.turned", perm=order)
            axes = list(range(len(others), rank))
        else:
            value = reader.value(number, form)
        grids = [stored_grid(tensor) for tensor in tensors]
        found = factors("", float(np.float32(grids[0][1])) / float(np.float32(grids[1][1])))
        if is_mean:
            found = _shared(found, element_count(reader.builder.shapes[value][axes[0] : axes[-1] + 1]))
        stated: dict[str, Any] = {**found, "first": axes[0], "last": axes[-1], GRIDS: flat(*grids)}
        value = reader.add("CodeTotals", value, out=f"{tensors[1].name}.totals", **stated)
        if form == FILE or not operation.options["KeepDims"]:
            form, value = FILE, shaped(reader, value, tensors[1].shape, f"{tensors[1].name}.shaped")
        reader.finish(operation, value, form)

    return convert


def _shared(found: dict[str, int], count: int) -> dict[str, int]:
    """Multiplier and power of a sum divided by `count`, as the runtime's integers have it."""
    more = min(count.bit_length() - 1, 32, 31 + found["power"])
    return {"multiplier": (found["multiplier"] << more) // count, "power": found["power"] - more}


def log_softmax(otherwise: Convert) -> Convert:
    """LOG_SOFTMAX of int8 with the runtime's one format of the result."""

    def known(grids: list[Grid]) -> dict[str, int] | None:
        return {} if grids[1] == LOG_RESULT else None

    return _exact("CodeLogSoftmax", known, otherwise, in_rows=True)


def comparison(name: str, swapped: bool, otherwise: Convert) -> Convert:
    """LESS and its kin of int8: both sides in units of 2^-8, so that numbers near each other are equal."""

    def convert(reader: Reader, operation: Operation) -> None:
        numbers = operation.inputs[::-1] if swapped else operation.inputs
        tensors = [reader.file.tensors[number] for number in numbers]
        is_code = all(tensor.kind == "int8" and tensor.scales is not None for tensor in tensors)
        grids = [grid_of(tensor) for tensor in tensors] if is_code else []
        if not grids or max(scale for _, scale, _ in grids) >= 1:
            otherwise(reader, operation)
            return
        form, shape = form_of(reader, operation), reader.file.tensors[operation.outputs[0]].shape
        sides = [_broadcast(reader, reader.value(number, form), shape, form) for number in numbers]
        stated: dict[str, Any] = {**factors("a_", grids[0][1]), **factors("b_", grids[1][1]), "comparison": name}
        stated |= {KIND: "int8", GRIDS: flat(*grids, WHOLE_GRID)}
        out = f"{reader.name(operation.outputs[0])}.{name}"
        reader.finish(operation, reader.add("CodeComparisons", *sides, out=out, **stated), form)

    return convert


def softmax(otherwise: Convert) -> Convert:
    """SOFTMAX of int8 with a factor or into int16, and of int16, with the runtime's one format of each result."""

    def convert(reader: Reader, operation: Operation) -> None:
        tensors = [reader.file.tensors[numbers[0]] for numbers in (operation.inputs, operation.outputs)]
        grids = [grid_of(tensor) for tensor in tensors if tensor.scales is not None]
        stated = _softmax_factor(grids, float(np.float32(operation.options["Beta"])))
        if not stated:
            otherwise(reader, operation)
            return
        op, out = "CodeSoftmax" if grids[0][0] == 8 else "WordSoftmax", f"{reader.name(operation.outputs[0])}.softmax"
        value = reader.add(op, reader.value(operation.inputs[0]), out=out, **stated, **{GRIDS: flat(*grids)})
        reader.finish(operation, value)

    return convert


def _softmax_factor(grids: list[Grid], beta: float) -> dict[str, int]:
    """Attributes of Softmax from one grid to another; empty where there is no such kernel, or Softmax itself is it."""
    if len(grids) != 2:
        return {}
    (bits, scale, _), (out_bits, unit, zero) = grids
    share, lowest = SHARES.get((bits, out_bits), (0.0, 0))
    if zero != lowest or abs(unit - share) > share / 1000 or (beta == 1 and bits == out_bits == 8):
        return {}
    if bits == 16:
        return factors("", scale * beta / (10 / WORDS))
    m, power = exp_factor(scale * beta)
    return {"multiplier": m, "power": power} if power > 0 else {}


def batch_matmul(turned: Callable[[Reader, Operation], list[str]], otherwise: Convert) -> Convert:
    """BATCH_MATMUL of int8 and int16; `turned` gives the operands after AdjX and AdjY."""

    def convert(reader: Reader, operation: Operation) -> None:
        tensors = [reader.file.tensors[number] for number in (*operation.inputs[:2], operation.outputs[0])]
        kinds = {tensor.kind for tensor in tensors}
        if kinds not in ({"int8"}, {"int16"}) or any(tensor.scales is None for tensor in tensors):
            otherwise(reader, operation)
            return
        grids, out = [grid_of(tensor) for tensor in tensors], reader.name(operation.outputs[0])
        product = float(np.float32(np.float32(grids[0][1]) * np.float32(grids[1][1])))
        stated: dict[str, Any] = {**factors("", product / grids[2][1]), GRIDS: flat(*grids)}
        value = reader.add("CodeProducts", *turned(reader, operation), out=f"{out}.products", **stated)
        reader.finish(operation, value)

    return convert
