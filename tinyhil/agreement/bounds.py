"""How far a kernel may be from the exact result of its operands before the one rounding into its result's format.

These are the bounds that docs/numerics.md states and tests hold over every input. `size` is the sum of the magnitudes
that the kernel adds up: what errors of floating point and of windows are relative to.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tinyhil import ops
from tinyhil.formats.format import AFFINE, CODED, INTEGER, SINGLE
from tinyhil.language.form import Arithmetic, Form, Joined
from tinyhil.language.lowering_context import Loaded, loaded
from tinyhil.language.program import Op, Program, Role
from tinyhil.ops import KERNEL_OF

SINGLE_ULP = 2.0**-23
SMALLEST = 2.0**-126  # below it single precision loses bits, and functions give 0
SLOPE = 2.0**-15
SIGMOID, TANH = 0.6 * 2.0**-15, 1.1 * 2.0**-15  # the table's units are those of a result at 2**-15
INTERPOLATION = 2.0**-15


@dataclass(frozen=True, slots=True)
class Computed:
    """What one execution of an operation should have given: exact results, and magnitudes added up, per element."""

    value: np.ndarray
    size: np.ndarray
    largest: float  # magnitude of any operand's element


Bound = Callable[[Op, Program, Computed], np.ndarray]


def error_bound(op: Op, program: Program, computed: Computed) -> np.ndarray:
    """Largest difference from `computed.value`, per element, before the rounding into the result's format."""
    out = program.tensors[op.output].format
    bound = SINGLE_ULP / 2 * (terms(op) + 4) * computed.size  # of the float model itself, and of single precision
    bound = bound + SINGLE_ULP / 2 * np.abs(computed.value) + SMALLEST
    extra = _EXTRA.get(op.kernel.whole)
    if extra is not None:
        bound = bound + extra(op, program, computed)
    if op.domain == CODED:
        bound = bound + _window(op, program)
    if out.grid is not None and (out.domain == AFFINE or _is_rescaled(op)):
        units = 1.01 if _is_asymmetric(op) else 0.01  # two roundings, each of them half a unit
        bound = bound + units * out.grid[0] + (2.0**-14 if out.bits > 8 else 2.0**-22) * np.abs(computed.value)
        if _is_rescaled(op):
            bound = bound + 0.5 * _rescaled_unit(op, program)  # a bias is no finer than the sum
    if "bias_shift" in op.params and op.domain == INTEGER:
        bound = bound + 0.5 * 2.0 ** _unit(op, program)  # the same
    if op.kernel.arithmetic is Arithmetic.CHANNELS and op.domain == INTEGER:
        bound = bound + 0.5 * 2.0 ** (out.exponent - float(program.constants[op.inputs[3]].min()))  # the same
    return bound


def terms(op: Op) -> int:
    """How many numbers a kernel adds up, about."""
    p = op.params
    if "kernel_y" in p:
        return p["kernel_y"] * p["kernel_x"] * p.get("channels", 1)
    return max(
        p.get("inner", 1) + p.get("more_inner", 0),
        p.get("along", 1),
        p.get("count", 1) if op.kernel in (ops.softmax.SOFTMAX.form, ops.affine_softmax.SOFTMAX.form) else 1,
    )


def _is_asymmetric(op: Op) -> bool:
    return op.kernel.arithmetic is Arithmetic.AFFINE


def _is_rescaled(op: Op) -> bool:
    """Layers with a multiplier for each output, of whatever integers."""
    is_layer = KERNEL_OF[op.kernel].is_sum and op.kernel.joined is Joined.NOTHING
    return is_layer and op.kernel.arithmetic is Arithmetic.AFFINE


def _rescaled_unit(op: Op, program: Program) -> float:
    """The largest unit of the sums of such a layer, in real numbers; of signs it is said nowhere."""
    fmt = program.tensors[op.output].format
    if fmt.grid is None or fmt.is_sign:
        return 0.0
    multipliers, shifts = (program.constants[name].astype(np.float64) for name in op.inputs[3:5])
    return float(np.max(np.ldexp(multipliers, (shifts - 31).astype(int)), initial=0.0)) * fmt.grid[0]


def _operand(op: Op, program: Program, index: int = -1) -> Loaded:
    operands = [program.tensors[name] for name in op.inputs if program.tensors[name].role != Role.TABLE]
    return loaded(operands[index].format)


def _unit(op: Op, program: Program) -> int:
    """Exponent of the sum of products of the first two operands."""
    return _operand(op, program, 0).exponent + _operand(op, program, 1).exponent


def _window(op: Op, program: Program) -> float:
    """Each product, and the bias, is cut to the lowest bit of the window."""
    operands = [program.tensors[name] for name in op.inputs if program.tensors[name].role != Role.TABLE]
    if op.low == 0 and op.guard == 0 and op.accumulator_bits not in (32, 64):
        return 0.0
    if op.kernel == ops.distance.SQUARED_DISTANCE.form:
        unit = 2 * min(loaded(tensor.format).exponent for tensor in operands)
    else:
        unit = sum(loaded(tensor.format).exponent for tensor in operands[:2])
    return (terms(op) + 2) * math.ldexp(1.0, op.low + unit) if _sums(op) else 0.0


def _sums(op: Op) -> bool:
    return KERNEL_OF[op.kernel].is_sum or op.kernel in _PRODUCTS


def _relative(factor: float) -> Bound:
    return lambda op, program, computed: factor * np.abs(computed.value)


def _absolute(error: float) -> Bound:
    return lambda op, program, computed: np.full_like(computed.value, error)


def _mean(op: Op, program: Program, computed: Computed) -> np.ndarray:
    """n * 2**-16 units of the operand; nothing but rounding in single precision."""
    x = _operand(op, program)
    if op.domain != INTEGER or ("factor" not in op.params and op.kernel.whole != ops.pool.AVERAGE_POOL_INSIDE.form):
        return np.zeros_like(computed.value)
    return np.full_like(computed.value, terms(op) / max(1, op.params.get("channels", 1)) * 2.0 ** (x.exponent - 16))


def _slopes(op: Op, program: Program, computed: Computed) -> np.ndarray:
    return (SLOPE if op.domain == INTEGER else SINGLE_ULP) * np.abs(computed.value)


def _gate(op: Op, program: Program, computed: Computed) -> np.ndarray:
    """A slope of 16 bits, of 24 in single precision, an offset of as many fraction bits; for HardSwish times x."""
    gate = (SLOPE if op.domain == INTEGER else 4 * SINGLE_ULP) + 1.0 / op.params["one"]
    return np.full_like(
        computed.value, gate * (computed.largest if op.kernel.whole == ops.piecewise.HARD_SWISH.form else 1.0)
    )


def _clip(op: Op, program: Program, computed: Computed) -> np.ndarray:
    """Ends are rounded to the scale of the operand where that moves them by no more than `END_ERROR`."""
    ends = max(abs(op.params["low"]), abs(op.params["high"]))
    return np.full_like(
        computed.value, min(0.5, ops.piecewise.END_ERROR * (ends + 1)) * 2.0 ** _operand(op, program).exponent
    )


def _softmax(op: Op, program: Program, computed: Computed) -> np.ndarray:
    worst = ops.affine_softmax.WORST_ERROR if _is_asymmetric(op) else ops.softmax.WORST_ERROR
    return worst * (1 + op.params["count"] * np.abs(computed.value))


def _curve(op: Op, program: Program, computed: Computed) -> np.ndarray:
    return np.full_like(computed.value, 1.2 * ops.curve.worst_error(op))


def _function(op: Op, program: Program, computed: Computed) -> np.ndarray:
    """Fixed sequences of IEEE operations: a few units of the last place, of 1 where terms of that size cancel."""
    small = np.minimum(max(1.0, computed.largest), 1e6)
    return 8 * SINGLE_ULP * (np.abs(computed.value) + small)


def _exp(op: Op, program: Program, computed: Computed) -> np.ndarray:
    """The argument is rounded once: relative to the result that counts as often as the argument is large."""
    return 4 * SINGLE_ULP * (1 + computed.largest) * np.abs(computed.value)


def _single_softmax(op: Op, program: Program, computed: Computed) -> np.ndarray:
    return (8 + op.params["along"] + 4 * computed.largest) * SINGLE_ULP * np.abs(computed.value)


def _distance(op: Op, program: Program, computed: Computed) -> np.ndarray:
    """Differences of integers are rounded to 16 bits, those of coded formats to 24."""
    if op.domain == SINGLE:
        return np.zeros_like(computed.value)
    if op.domain == INTEGER:
        exponents = [loaded(program.tensors[name].format).exponent for name in op.inputs]
        delta = 0.0 if op.params["drop"] == 0 else 0.5 * 2.0 ** (min(exponents) + op.params["drop"])
    else:
        delta = 2.0**-23 * computed.largest
    count = op.params["inner"]
    return 2 * delta * np.sqrt(count * np.abs(computed.value)) + count * delta**2


def _interpolate(op: Op, program: Program, computed: Computed) -> np.ndarray:
    return np.full_like(computed.value, INTERPOLATION * computed.largest)


_PRODUCTS = (ops.linear.MATMUL.form, ops.batched.BATCH_MATMUL.form, ops.upsample.CONV_TRANSPOSE.form)
_FUNCTION_KERNELS = ops.real_functions.KERNEL_BY_OPERATOR
_IN_SINGLE: dict[Bound, tuple[str, ...]] = {
    _function: ("Sigmoid", "Tanh", "Log", "Erf", "Gelu", ops.real_functions.GELU_TANH, "Softplus", "Elu"),
    _relative(4 * SINGLE_ULP): ("Sqrt", "Reciprocal"),
    _exp: ("Exp",),
}
_EXTRA: dict[Form, Bound] = {
    ops.activation.SIGMOID.form: _absolute(SIGMOID),
    ops.activation.TANH.form: _absolute(TANH),
    ops.word_functions.SIGMOID.form: _absolute(ops.word_functions.WORST_ERROR["Sigmoid"]),
    ops.word_functions.TANH.form: _absolute(ops.word_functions.WORST_ERROR["Tanh"]),
    ops.pool.AVERAGE_POOL.form: _mean,
    ops.pool.AVERAGE_POOL_INSIDE.form: _mean,
    ops.reduce.REDUCE_SUM.form: _mean,
    ops.piecewise.SLOPES.form: _slopes,
    ops.slope.PRELU.form: _slopes,
    ops.piecewise.HARD_SIGMOID.form: _gate,
    ops.piecewise.HARD_SWISH.form: _gate,
    ops.piecewise.CLIP.form: _clip,
    ops.softmax.SOFTMAX.form: _softmax,
    ops.affine_softmax.SOFTMAX.form: _softmax,
    ops.curve.CURVE.form: _curve,
    ops.exponential.EXP.form: _relative(ops.exponential.WORST_ULP * 2.0**-15),
    ops.exponential.LOG.form: _absolute(ops.exponential.LOG_ERROR),
    ops.normalize.NORMALIZE.form: _relative(2.0**-20),
    ops.distance.SQUARED_DISTANCE.form: _distance,
    ops.upsample.INTERPOLATE.form: _interpolate,
    ops.real_functions.LOOKUP.form: _function,
    ops.real_functions.SOFTMAX.form: _single_softmax,
    ops.real_functions.DIV.form: _relative(4 * SINGLE_ULP),
    **{_FUNCTION_KERNELS[name].form: bound for bound, names in _IN_SINGLE.items() for name in names},
}
