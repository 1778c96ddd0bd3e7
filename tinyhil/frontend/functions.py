"""The functions of the DSL that are no ONNX operator by name, each written as the operators it stands for.

Images are (1, channels, height, width), as in ONNX.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tinyhil.frontend import syntax
from tinyhil.frontend.elaboration import Elaboration
from tinyhil.frontend.tokens import BEYOND, Place
from tinyhil.frontend.values import Value

Function = Callable[[Elaboration, syntax.Call, str], Value]
MAX_INIT_ELEMENTS = 1 << 20
MAX_AXES = 16


def arguments(e: Elaboration, item: syntax.Call, least: int, most: int = 0, letters: str = "") -> list[str]:
    """The arguments as tensors, `least` of them or up to `most`; `letters` are the groups in braces allowed."""
    most = max(least, most)
    if not least <= len(item.arguments) <= most:
        wanted = str(least) if least == most else f"{least} to {most}"
        raise item.at.error(f"{item.function} takes {wanted} values, not {len(item.arguments)}")
    _only(item, *letters)
    found = []
    for argument in item.arguments:
        if argument is None:
            raise item.at.error(f"{item.function} needs all its values")
        found.append(e.operand(argument))
    return found


def _only(item: syntax.Call, *letters: str) -> None:
    """Options are for ONNX operators; of groups in braces only `letters` have a meaning here."""
    for name in item.options:
        raise item.at.error(f"{item.function} has no option '{name}'")
    for letter in item.braces:
        if letter not in letters:
            raise item.at.error(f"{item.function} has no group {{{letter} ...}}")


def _group(item: syntax.Call, letter: str, count: int, default: Sequence[int]) -> list[int]:
    found = list(item.braces.get(letter, default))
    if len(found) != count:
        raise item.at.error(f"{{{letter} ...}} of {item.function} takes {count} whole numbers, not {len(found)}")
    return found


def reshaped(e: Elaboration, value: str, shape: Sequence[int], at: Place, wish: str = "") -> str:
    """The tensor in another shape; itself if it has that shape."""
    if tuple(shape) == e.shape(value):
        return value
    return e.call("Reshape", [value, e.integers(list(shape))], at, wish)


def by_channel(e: Elaboration, vector: str, rank: int, at: Place) -> str:
    """A vector in the shape that adds it along axis 1, the channels, of a tensor of `rank`."""
    shape = e.shape(vector)
    if len(shape) > 1 and max(shape, default=1) != int(np.prod(shape)):
        raise at.error(f"<+> and <-> take a vector on the right, not {list(shape)}; use + or -")
    count = int(np.prod(shape))
    return reshaped(e, vector, (count, *(1,) * (rank - 2)), at)


# ---- element by element


def _unary(op: str) -> Function:
    def function(e: Elaboration, item: syntax.Call, wish: str) -> Value:
        return e.call(op, arguments(e, item, 1), item.at, wish)

    return function


def _relu6(e: Elaboration, item: syntax.Call, wish: str) -> Value:
    return _clipped(e, arguments(e, item, 1)[0], item.at, wish)


def _clipped(e: Elaboration, value: str, at: Place, wish: str) -> str:
    ends = [e.builder.constant(e.part(), np.array(end, np.float32)) for end in (0.0, 6.0)]
    return e.call("Clip", [value, *ends], at, wish)


# ---- shapes


def _dims(item: syntax.Call, index: int) -> tuple[int, ...]:
    """A list of integers, in parentheses or brackets."""
    argument = item.arguments[index] if index < len(item.arguments) else None
    if isinstance(argument, syntax.Dims):
        return argument.values
    if isinstance(argument, syntax.Literal) and argument.is_integer and len(argument.shape) < 2:
        return tuple(int(value) for value in argument.values)
    raise item.at.error(f"{item.function} takes a shape such as (1, 4) as value {index + 1}")


def _reshape(e: Elaboration, item: syntax.Call, wish: str) -> Value:
    """reshape(x, (shape)) and reshape(x, (shape), (order of the axes, from 1))."""
    if len(item.arguments) not in (2, 3) or item.arguments[0] is None:
        raise item.at.error("reshape takes a value, a shape and perhaps the order of the axes: reshape(x, (1, 4))")
    _only(item)
    value = e.operand(item.arguments[0])
    if len(item.arguments) == 3:
        order = [axis - 1 for axis in _dims(item, 2)]
        value = e.call("Transpose", [value], item.at, perm=order)
    return e.call("Reshape", [value, e.integers(_dims(item, 1))], item.at, wish)


def _reverse(e: Elaboration, item: syntax.Call, wish: str) -> Value:
    """reverse(x, axis): the elements along the axis, last first."""
    if len(item.arguments) != 2 or item.arguments[0] is None or item.arguments[1] is None:
        raise item.at.error("reverse takes a value and an axis: reverse(x, 1)")
    _only(item)
    value, axis = e.operand(item.arguments[0]), e.static(item.arguments[1])
    if not 0 <= axis < len(e.shape(value)):
        raise item.at.error(f"axis {axis} of a tensor with {len(e.shape(value))} axes")
    bounds = ([-1], [-e.shape(value)[axis] - 1], [axis], [-1])
    return e.call("Slice", [value, *map(e.integers, bounds)], item.at, wish)


def _init(e: Elaboration, item: syntax.Call, wish: str) -> Value:
    """init([shape], number): a constant of one value."""
    number = item.arguments[1] if len(item.arguments) == 2 else None
    if not isinstance(number, syntax.Literal) or number.shape != ():
        raise item.at.error("init takes a shape and a number: init([1, 32], 0.0)")
    _only(item)
    shape = _dims(item, 0)
    if min(shape, default=1) < 1 or int(np.prod(shape, dtype=object)) > MAX_INIT_ELEMENTS or len(shape) > MAX_AXES:
        limits = f"{MAX_INIT_ELEMENTS} elements along at most {MAX_AXES} axes"
        raise item.at.error(f"init of {list(shape)[:MAX_AXES]}; give every axis a size above 0, {limits}")
    with np.errstate(over="ignore"):
        array = np.full(shape, number.values[0], np.float32)
    if np.isinf(array).any() and np.isfinite(number.values[0]):
        raise item.at.error(BEYOND)
    return e.builder.constant(wish, array)


def _argmax(e: Elaboration, item: syntax.Call, wish: str) -> Value:
    """The position of the largest of all elements."""
    (value,) = arguments(e, item, 1)
    flat = reshaped(e, value, (int(np.prod(e.shape(value))),), item.at)
    return e.call("ArgMax", [flat], item.at, wish, axis=0, keepdims=1)


def _normalise(e: Elaboration, item: syntax.Call, wish: str) -> Value:
    """x / sqrt(sum of x**2) over all elements."""
    (value,) = arguments(e, item, 1)
    square = e.call("Mul", [value, value], item.at)
    total = e.call("ReduceSum", [square], item.at, keepdims=1)
    return e.call("Div", [value, e.call("Sqrt", [total], item.at)], item.at, wish)


# ---- windows


def _pads(item: syntax.Call) -> list[int]:
    """{p top bottom left right} in ONNX's order: the front of each axis, then the back."""
    top, bottom, left, right = _group(item, "p", 4, (0, 0, 0, 0))
    return [top, left, bottom, right]


def _maxpool(e: Elaboration, item: syntax.Call, wish: str) -> Value:
    """maxpool(x, {k height width}, {p top bottom left right}, {s down across})."""
    (value,) = arguments(e, item, 1, letters="kps")
    kernel = _group(item, "k", 2, ())
    strides = _group(item, "s", 2, (1, 1))
    return e.call("MaxPool", [value], item.at, wish, kernel_shape=kernel, pads=_pads(item), strides=strides)


def _conv2d(e: Elaboration, item: syntax.Call, wish: str) -> Value:
    """conv2d(x, weights [, bias], {s down across}, {p top bottom left right}, {d down across}, {g groups})."""
    operands = arguments(e, item, 2, 3, letters="spdg")
    attrs: dict[str, object] = {
        "strides": _group(item, "s", 2, (1, 1)),
        "pads": _pads(item),
        "dilations": _group(item, "d", 2, (1, 1)),
        "group": _group(item, "g", 1, (1,))[0],
    }
    return e.call("Conv", operands, item.at, wish, **attrs)


def _mbconv(e: Elaboration, item: syntax.Call, wish: str) -> Value:
    """mbconv(x, [F1, W1, B1], [F2, W2, B2], [F3, W3, B3], {s ...}, {p ...}): MobileNetV2's bottleneck.

    A pointwise, a depthwise and a pointwise convolution by F, each scaled by W and shifted by B per channel; relu6
    behind the first two. Strides and padding belong to the depthwise one.
    """
    _only(item, "s", "p")
    stages = item.arguments[1:]
    if len(stages) != 3 or item.arguments[0] is None:
        raise item.at.error("mbconv takes a value and three groups [F, W, B]")
    value = e.operand(item.arguments[0])
    for number, stage in enumerate(stages):
        if not isinstance(stage, syntax.Group) or len(stage.items) != 3:
            raise item.at.error(f"group {number + 1} of mbconv is not [F, W, B]")
        weights, scale, shift = (e.operand(part) for part in stage.items)
        rank, outputs = len(e.shape(weights)), int(np.prod(e.shape(scale)))
        column = reshaped(e, scale, (outputs, *(1,) * (rank - 1)), stage.at)
        weights = e.call("Mul", [weights, column], stage.at)
        shift = reshaped(e, shift, (outputs,), stage.at)
        attrs: dict[str, object] = {}
        if number == 1:
            attrs = {"strides": _group(item, "s", 2, (1, 1)), "pads": _pads(item), "group": e.shape(value)[1]}
        value = e.call("Conv", [value, weights, shift], stage.at, wish if number == 2 else "", **attrs)
        if number < 2:
            value = _clipped(e, value, stage.at, "")
    return value


# ---- conditionals

COMPARISONS = {">=": "GreaterOrEqual", ">": "Greater", "<=": "LessOrEqual", "<": "Less", "==": "Equal"}


def chosen(e: Elaboration, item: syntax.Conditional, sides: tuple[Value, Value], wish: str) -> str:
    """Both values are computed and the condition chooses, element by element."""
    left, right = (e.tensor(side, part.at) for side, part in zip(sides, (item.left, item.right), strict=True))
    condition = e.call(COMPARISONS[item.comparison], [left, right], item.at)
    return e.call("Where", [condition, e.operand(item.then), e.operand(item.otherwise)], item.at, wish)


FUNCTIONS: dict[str, Function] = {
    "argmax": _argmax,
    "conv2d": _conv2d,
    "exp": _unary("Exp"),
    "init": _init,
    "maxpool": _maxpool,
    "mbconv": _mbconv,
    "normaliseL2": _normalise,
    "relu": _unary("Relu"),
    "relu6": _relu6,
    "reshape": _reshape,
    "reverse": _reverse,
    "sgn": _unary("Sign"),
    "sigmoid": _unary("Sigmoid"),
    "tanh": _unary("Tanh"),
}
