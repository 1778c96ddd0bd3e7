"""Element by element: Add, Sub, Mul with broadcast, and Relu."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tinyhil.formats.codec import requantize
from tinyhil.formats.format import Format
from tinyhil.language.arithmetic import like, plus, scaled, times
from tinyhil.language.graph import Node
from tinyhil.language.kernel import REAL
from tinyhil.language.lowering_context import Lowering
from tinyhil.language.program import Op
from tinyhil.ops import affine, real_functions
from tinyhil.ops.affine_moves import clamp
from tinyhil.ops.affine_words import of_words
from tinyhil.ops.movement import repeated
from tinyhil.ops.operator import (
    Arrays,
    Execute,
    Form,
    Kernel,
    Operator,
    accumulator_bits,
    align,
    broadcasting,
    by_domain,
)


def binary(
    function: Callable[[np.ndarray, np.ndarray], np.ndarray],
) -> Callable[[Node, Arrays], list[np.ndarray]]:
    """The float reference of a function of two operands that broadcast."""

    def evaluate(node: Node, arrays: Arrays) -> list[np.ndarray]:
        return [function(*align(arrays))]

    return evaluate


def _evaluate_relu(node: Node, arrays: Arrays) -> list[np.ndarray]:
    return [np.maximum(arrays[0], np.float32(0))]


def lower_aligned(kernel: Kernel) -> Callable[[Node, Lowering], None]:
    """What lowers an operator of two operands that are brought to one scale first."""

    def lower(node: Node, lowering: Lowering) -> None:
        a, b = node.inputs
        names, periods = zip(*(repeated(node, lowering, value) for value in (a, b)), strict=True)
        out = lowering.define(node.outputs[0])
        formats = [lowering.loaded(value) for value in (a, b)]
        exponent = min(fmt.exponent for fmt in formats)
        shifts = [fmt.exponent - exponent for fmt in formats]
        shift = out.format.exponent - exponent
        bound = sum(-fmt.lowest << left for fmt, left in zip(formats, shifts, strict=True))
        params = {
            "count": out.count,
            "a_period": periods[0],
            "b_period": periods[1],
            "a_shift": shifts[0],
            "b_shift": shifts[1],
            "shift": shift,
        }
        lowering.emit(node, Op(kernel.form, node.name, names, out.name, params, accumulator_bits(bound, shift)))

    return lower


def _lower_mul(node: Node, lowering: Lowering) -> None:
    a, b = node.inputs
    names, periods = zip(*(repeated(node, lowering, value) for value in (a, b)), strict=True)
    out = lowering.define(node.outputs[0])
    a_format, b_format = lowering.loaded(a), lowering.loaded(b)
    shift = out.format.exponent - a_format.exponent - b_format.exponent
    bits = accumulator_bits(a_format.lowest * b_format.lowest, shift)
    params = {"count": out.count, "a_period": periods[0], "b_period": periods[1], "shift": shift}
    lowering.emit(node, Op(MUL.form, node.name, names, out.name, params, bits))


def _lower_relu(node: Node, lowering: Lowering) -> None:
    x = lowering.operand(node.inputs[0])
    x_format = lowering.loaded(node.inputs[0])
    out = lowering.define(node.outputs[0])
    shift = out.format.exponent - x_format.exponent
    params = {"count": out.count, "shift": shift}
    lowering.emit(node, Op(RELU.form, node.name, (x,), out.name, params, accumulator_bits(-x_format.lowest, shift)))


def _repeat(array: np.ndarray, count: int) -> np.ndarray:
    return np.tile(array, (1, count // array.shape[1]))


def aligned(op: Op, arrays: Arrays) -> tuple[np.ndarray, np.ndarray]:
    """Both operands repeated to the size of the output and shifted to one scale."""
    p = op.params
    a, b = (_repeat(array, p["count"]) for array in arrays)
    return scaled(a, p["a_shift"]), scaled(b, p["b_shift"])


def _execute_sum(sign: int) -> Execute:
    def execute(op: Op, arrays: Arrays, out: Format) -> tuple[np.ndarray, np.ndarray]:
        a, b = aligned(op, arrays)
        return requantize(plus(a, b if sign > 0 else -b), op.params["shift"], out)

    return execute


def _execute_mul(op: Op, arrays: Arrays, out: Format) -> tuple[np.ndarray, np.ndarray]:
    a, b = (_repeat(array, op.params["count"]) for array in arrays)
    return requantize(times(a, b), op.params["shift"], out)


def _execute_relu(op: Op, arrays: Arrays, out: Format) -> tuple[np.ndarray, np.ndarray]:
    return requantize(np.where(arrays[0] > 0, arrays[0], like(0, arrays[0])), op.params["shift"], out)


SUM_PARAMS = ("count", "a_period", "b_period", "a_shift", "b_shift", "shift")


def aligned_kernel(base: str, summary: str, execute: Execute) -> Kernel:
    """The kernel of two operands that are brought to one unit."""
    return Kernel(Form(base), summary, execute, SUM_PARAMS, SUM_PARAMS, in_place=True, coded=REAL)


ADD = aligned_kernel("add", "a + b, aligned exactly, one rounding", _execute_sum(1))
SUB = aligned_kernel("sub", "a - b, aligned exactly, one rounding", _execute_sum(-1))
_MUL_PARAMS = ("count", "a_period", "b_period", "shift")
MUL = Kernel(
    Form("mul"),
    "a * b, exact product, one rounding",
    _execute_mul,
    _MUL_PARAMS,
    _MUL_PARAMS,
    in_place=True,
    coded=REAL,
)
_RELU_PARAMS = ("count", "shift")
RELU = Kernel(Form("relu"), "max(x, 0), rescaled", _execute_relu, _RELU_PARAMS, _RELU_PARAMS, in_place=True, coded=REAL)
KERNELS = (ADD, SUB, MUL, RELU)

OPERATORS = (
    Operator(
        "Add",
        "sum; broadcast along any axes",
        broadcasting(2),
        binary(np.add),
        by_domain(lower_aligned(ADD), affine=affine.lower_sum(1)),
        words=of_words(lower_aligned(ADD)),
    ),
    Operator(
        "Sub",
        "difference; broadcast along any axes",
        broadcasting(2),
        binary(np.subtract),
        by_domain(lower_aligned(SUB), affine=affine.lower_sum(-1)),
        words=of_words(lower_aligned(SUB)),
    ),
    Operator(
        "Mul",
        "product; broadcast along any axes",
        broadcasting(2),
        binary(np.multiply),
        by_domain(_lower_mul, affine=affine.lower_mul),
        words=of_words(_lower_mul),
    ),
    Operator(
        "Relu",
        "max(x, 0)",
        broadcasting(1),
        _evaluate_relu,
        by_domain(_lower_relu, affine=clamp(real_functions.by_table(_evaluate_relu, _lower_relu))),
    ),
)
