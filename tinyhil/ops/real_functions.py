"""Functions of operands that are no integers: in single precision, or looked up where the operand has 8 bits.

Every code of at most 16 bits is exact in single precision (32-bit ones are rounded first). The functions are fixed
sequences of IEEE operations (tinyhil/formats/single_functions.py), the result is rounded once more into its format. Of
an operand of 8 bits or less there are at most 256 results: a table in flash holds them, made from the float operator.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from tinyhil.formats import single_functions as f
from tinyhil.formats.codec import dequantize, quantize, requantize
from tinyhil.formats.format import SINGLE, Format
from tinyhil.language.graph import Node, element_count
from tinyhil.language.lowering_context import Lowering
from tinyhil.language.program import Op
from tinyhil.ops.movement import repeated
from tinyhil.ops.operator import Arithmetic, Arrays, Evaluate, Execute, Form, Kernel, Lower, attr, axis_of

F = np.float32
TABLE_BITS = 8
GELU_TANH = "Gelu as tanh"


def _bits(value: float) -> int:
    """A float as a parameter: the bits of float32."""
    return int(np.array(value, np.float32).view(np.uint32))


def _float(bits: int) -> np.float32:
    return F(np.array(bits, np.uint32).view(np.float32))


# ---- tables


def _entries(evaluate: Evaluate, node: Node, fmt: Format, out: Format) -> np.ndarray | None:
    """Results (codes) for every code of `fmt` from 0 up, negative ones of fixed point behind; None if one saturates."""
    is_signed = fmt.lowest < 0
    codes = np.arange(1 << (TABLE_BITS if is_signed else fmt.bits))
    if is_signed:
        codes = np.where(codes >> (TABLE_BITS - 1), codes - (1 << TABLE_BITS), codes)
    values = dequantize(codes, fmt)
    with np.errstate(all="ignore"):
        results = evaluate(node, [np.where(np.isfinite(values), values, 0.0).astype(F)])[0]
    if not np.isfinite(results).all():
        return None
    entries, saturated = quantize(results, out)
    return None if saturated.any() else entries


def _execute_lookup(op: Op, arrays: Arrays, out: Format) -> tuple[np.ndarray, np.ndarray]:
    table = arrays[0].reshape(-1)
    codes = table[arrays[1] & (table.size - 1)]
    return codes, np.zeros(codes.shape, bool)


LOOKUP = Kernel(
    Form("lookup"),
    "a table with a result for every code",
    _execute_lookup,
    ("count",),
    ("count",),
    in_place=True,
    coded=SINGLE,
    codes=(0, 1),
)


# ---- functions of one tensor


def _gelu(x: np.ndarray, _: np.float32, __: np.float32) -> np.ndarray:
    return (x * F(0.5)) * (f.erf(x * F(0.70710678)) + F(1))


def _gelu_tanh(x: np.ndarray, _: np.float32, __: np.float32) -> np.ndarray:
    cubed = (x * x) * x
    return (x * F(0.5)) * (f.tanh((x + cubed * F(0.044715)) * F(0.7978846)) + F(1))


def _softplus(x: np.ndarray, _: np.float32, __: np.float32) -> np.ndarray:
    return np.where(x > 0, x, F(0)) + f.log(f.exp(-np.abs(x)) + F(1))


def _elu(x: np.ndarray, alpha: np.float32, scale: np.float32) -> np.ndarray:
    return np.where(x < 0, alpha * (f.exp(x * scale) - F(1)), x)


def _clip(x: np.ndarray, low: np.float32, high: np.float32) -> np.ndarray:
    x = np.where(x < low, low, x)
    return np.where(x > high, high, x)


def _plain(function: Callable[[np.ndarray], np.ndarray]) -> Callable[..., np.ndarray]:
    return lambda x, _, __: function(x)


def _ends(node: Node) -> tuple[float, float]:
    return float(node.attrs["min"]), float(node.attrs["max"])


def _elu_params(node: Node) -> tuple[float, float]:
    return float(attr(node, "alpha", 1.0)), 1.0


def _none(node: Node) -> tuple[float, float]:
    return 0.0, 0.0


# by operator: name of the kernel, its numpy function of (x, first, second), and these two parameters of a node
FUNCTIONS: dict[str, tuple[str, Callable[..., np.ndarray], Callable[[Node], tuple[float, float]]]] = {
    "Sigmoid": ("sigmoid", _plain(f.sigmoid), _none),
    "Tanh": ("tanh", _plain(f.tanh), _none),
    "Exp": ("exp", lambda x, factor, _: f.exp(factor * x), lambda node: (float(attr(node, "factor", 1.0)), 0.0)),
    "Log": ("log", _plain(f.log), _none),
    "Sqrt": ("sqrt", _plain(f.sqrt), _none),
    "Reciprocal": ("reciprocal", _plain(f.reciprocal), _none),
    "Erf": ("erf", _plain(f.erf), _none),
    "Gelu": ("gelu", _gelu, _none),
    GELU_TANH: ("gelu_tanh", _gelu_tanh, _none),
    "Softplus": ("softplus", _softplus, _none),
    "Elu": ("elu", _elu, _elu_params),
    "Clip": ("clip", _clip, _ends),
}


def is_tanh_form(node: Node) -> bool:
    """Whether this Gelu is the one that approximates the normal distribution by a tanh."""
    return attr(node, "approximate", b"none") in (b"tanh", "tanh")


def _function_of(node: Node) -> str:
    """Its key among the functions."""
    return GELU_TANH if node.op == "Gelu" and is_tanh_form(node) else node.op


_PARAMS = ("count", "power", "first", "second", "shift")


def _execute_function(function: Callable[..., np.ndarray]) -> Execute:
    def execute(op: Op, arrays: Arrays, out: Format) -> tuple[np.ndarray, np.ndarray]:
        p = op.params
        with np.errstate(all="ignore"):
            y = function(f.scaled(arrays[0], p["power"]), _float(p["first"]), _float(p["second"]))
        return requantize(y.astype(F), p["shift"], out)

    return execute


def _kernel(name: str, function: Callable[..., np.ndarray]) -> Kernel:
    return Kernel(
        Form(name, Arithmetic.SINGLE),
        f"{name} in single precision",
        _execute_function(function),
        _PARAMS,
        ("count", "power", "shift"),
        in_place=True,
        coded=SINGLE,
    )


KERNEL_BY_OPERATOR = {op: _kernel(name, function) for op, (name, function, _) in FUNCTIONS.items()}


def _lower_by_table(evaluate: Evaluate, node: Node, lowering: Lowering) -> bool:
    """Whether it could be done: the operand has 8 bits or less and no result saturates."""
    name, result = node.inputs[0], node.outputs[0]
    x, fmt = lowering.operand(name), lowering.format(name)
    entries = _entries(evaluate, node, fmt, lowering.format(result)) if fmt.bits <= TABLE_BITS else None
    if entries is None:
        return False
    out = lowering.define(result)
    table = lowering.add_codes(f"{out.name}.table", entries, out.format)
    lowering.emit(node, Op(LOOKUP.form, node.name, (table, x), out.name, {"count": out.count}))
    return True


def by_table(evaluate: Evaluate, otherwise: Lower) -> Lower:
    """What lowers a function of one operand to a table of its results, which `evaluate` gives, where that can be."""

    def lower(node: Node, lowering: Lowering) -> None:
        if not _lower_by_table(evaluate, node, lowering):
            otherwise(node, lowering)

    return lower


@dataclass(frozen=True, slots=True)
class RealFunction:
    """What lowers a function of one operand: to a table if that can be, else in single precision."""

    evaluate: Evaluate

    def __call__(self, node: Node, lowering: Lowering) -> None:
        if not _lower_by_table(self.evaluate, node, lowering):
            _lower_function(node, lowering)


def function(evaluate: Evaluate) -> Lower:
    """What lowers a function of one operand, which must be among `FUNCTIONS`."""
    return RealFunction(evaluate)


def _lower_function(node: Node, lowering: Lowering) -> None:
    name = node.inputs[0]
    x, out = lowering.operand(name), lowering.define(node.outputs[0])
    function = _function_of(node)
    first, second = FUNCTIONS[function][2](node)
    params = {
        "count": out.count,
        "power": lowering.loaded(name).exponent,
        "first": _bits(first),
        "second": _bits(second),
        "shift": out.format.exponent,
    }
    lowering.emit(node, Op(KERNEL_BY_OPERATOR[function].form, node.name, (x,), out.name, params, domain=SINGLE))


# ---- Div


def _execute_div(op: Op, arrays: Arrays, out: Format) -> tuple[np.ndarray, np.ndarray]:
    a, b = (np.tile(array, (1, op.params["count"] // array.shape[1])) for array in arrays)
    return requantize(f.divide(a, b), op.params["shift"], out)


def lower_div(node: Node, lowering: Lowering) -> None:
    """Div in single precision."""
    names, periods = zip(*(repeated(node, lowering, value) for value in node.inputs), strict=True)
    out = lowering.define(node.outputs[0])
    a, b = (lowering.loaded(value) for value in node.inputs)
    params = {
        "count": out.count,
        "a_period": periods[0],
        "b_period": periods[1],
        "shift": out.format.exponent - a.exponent + b.exponent,
    }
    lowering.emit(node, Op(DIV.form, node.name, names, out.name, params, domain=SINGLE))


_DIV_PARAMS = ("count", "a_period", "b_period", "shift")
DIV = Kernel(
    Form("div", Arithmetic.SINGLE),
    "a / b in single precision",
    _execute_div,
    _DIV_PARAMS,
    _DIV_PARAMS,
    in_place=True,
    coded=SINGLE,
)


# ---- Softmax


def _execute_softmax(op: Op, arrays: Arrays, out: Format) -> tuple[np.ndarray, np.ndarray]:
    p = op.params
    x = f.scaled(arrays[-1], p.get("power", 0)).reshape(-1, p["outer"], p["along"], p.get("inner", 1))
    top = x[:, :, 0]
    for k in range(1, p["along"]):
        top = np.where(x[:, :, k] > top, x[:, :, k], top)
    e = f.exp(x - top[:, :, None])
    total = np.zeros(top.shape, F)
    for k in range(p["along"]):
        total = total + e[:, :, k]
    y = f.divide(e, total[:, :, None])
    return requantize(y.reshape(len(x), -1), p["shift"], out)


def lower_softmax(node: Node, lowering: Lowering) -> None:
    """Softmax in single precision."""
    x, shape = lowering.operand(node.inputs[0]), lowering.shape(node.inputs[0])
    axis = axis_of(node, attr(node, "axis", -1), len(shape))
    out = lowering.define(node.outputs[0])
    params = {
        "outer": element_count(shape[:axis]),
        "along": shape[axis],
        "inner": element_count(shape[axis + 1 :]),
        "power": lowering.loaded(node.inputs[0]).exponent,
        "shift": out.format.exponent,
    }
    lowering.emit(node, Op(SOFTMAX.form, node.name, (x,), out.name, params, domain=SINGLE))


SOFTMAX = Kernel(
    Form("softmax", Arithmetic.SINGLE),
    "exponentials over their sum in single precision",
    _execute_softmax,
    ("outer", "along", "inner", "power", "shift"),
    ("power", "shift"),
    coded=SINGLE,
)
SOFTMAX_DECIDED = Kernel(  # tinyhil/passes/decided.py
    replace(SOFTMAX.form, arithmetic=Arithmetic.DECIDED),
    "rows of exponentials over their sum in single precision, by a table where that decides",
    _execute_softmax,
    ("outer", "along", "shift"),
    ("shift",),
    coded=SINGLE,
    codes=(0,),
)

OF_ONE_OPERAND = tuple(KERNEL_BY_OPERATOR.values())
KERNELS = (LOOKUP, DIV, SOFTMAX, SOFTMAX_DECIDED, *OF_ONE_OPERAND)
