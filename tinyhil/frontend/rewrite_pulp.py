"""Integers as the PULP platform's tools write them (QuantLib, Deeploy): RequantShift between layers of integers."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import numpy_helper

from tinyhil.frontend.rewrite import Results, Rewrite, Site
from tinyhil.language.graph import Shape

PULP = "PACTOps"
MOST_BITS = 22  # of a divisor: what is beyond a result of 8 bits stays below 2**31


def _number(site: Site, name: str) -> int:
    """An attribute that is one whole number, in a tensor or not."""
    given = site.attr(name, None)
    if isinstance(given, onnx.TensorProto):
        given = numpy_helper.to_array(given)
    array = np.asarray(0.5 if given is None else given, np.float64).reshape(-1)
    if array.size != 1 or array[0] != np.rint(array[0]):
        raise site.refuse(f"'{name}' is no whole number", "the file is damaged")
    return int(array[0])


def _of_channels(numbers: np.ndarray, shape: Shape) -> np.ndarray:
    """`numbers` along the channels of planes of `shape` where they do not lie along its last axes."""
    tail = zip(numbers.shape[::-1], shape[::-1], strict=False)
    if numbers.ndim <= len(shape) and all(own in (1, side) for own, side in tail):
        return numbers
    return numbers.reshape(-1, *[1] * (len(shape) - 2))


def _requant_shift(site: Site) -> Results:
    """(x * mul + add) / div to the nearest whole number within the levels: all in integers of 32 bits.

    What no result can come from is cut off before, and moved above 0, since the quotient of WholePair goes towards 0.
    """
    mul, add = (np.rint(site.static(index, what)) for index, what in ((1, "multiplier"), (2, "addend")))
    named = next(name for name in ("n_levels", "n_levels_out") if name in site.call.attrs or name == "n_levels_out")
    divisor, levels, is_signed = (_number(site, name) for name in ("div", named, "signed"))
    shift = divisor.bit_length() - 1
    if divisor < 1 or divisor != 1 << shift or shift > MOST_BITS or not 2 <= levels <= 256:
        raise site.refuse(
            f"a divisor of {divisor}, {levels} levels", "powers of two up to 2^22, 256 levels are supported"
        )
    low = -(levels // 2) if is_signed else 0
    shape = site.shape(site.input(0))
    ends = low * divisor, (low + levels - 1) * divisor + divisor - 1
    value = site.input(0)

    def paired(function: str, number: np.ndarray | int) -> None:
        nonlocal value
        constant = _of_channels(np.asarray(number), shape)
        wide = np.broadcast_to(constant, shape) if constant.size > 1 else constant.reshape(())
        name = site.constant(function, wide, np.int64)
        value = site.make("WholePair", value, name, whole="int32", function=function)

    paired("mul", mul)
    paired("add", add + (divisor >> 1))
    paired("min", ends[1])
    paired("max", ends[0])
    paired("sub", ends[0])
    paired("div", divisor)
    number = site.constant("low", np.asarray(low), np.int64)
    return site.last("WholePair", value, number, whole="int32", function="add")


def _hard_swish(site: Site) -> Results:
    """x * min(max(x + three, 0), six) * one_over_six: all in integers of 32 bits."""
    x = site.input(0)
    value = x
    numbers = (("add", _number(site, "three")), ("max", 0), ("min", _number(site, "six")))
    for function, number in numbers:
        name = site.constant(function, np.asarray(number), np.int64)
        value = site.make("WholePair", value, name, whole="int32", function=function)
    value = site.make("WholePair", value, x, whole="int32", function="mul")
    sixth = site.constant("sixth", np.asarray(_number(site, "one_over_six")), np.int64)
    return site.last("WholePair", value, sixth, whole="int32", function="mul")


REWRITES = (
    Rewrite(
        "iHardswish",
        "PULP's dialect: x * min(max(x + three, 0), six) * one_over_six of whole numbers",
        _hard_swish,
        ("one_over_six", "six", "three"),
        PULP,
    ),
    Rewrite(
        "RequantShift",
        "PULP's dialect: whole numbers times a factor, plus an addend, divided by a power of two, within levels",
        _requant_shift,
        ("div", "n_levels", "n_levels_out", "signed", "eps_in", "eps_out", "Delta", "quantization"),
        PULP,
    ),
)
