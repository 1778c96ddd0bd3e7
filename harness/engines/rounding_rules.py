"""Whose rounding a layer of integers has: sums made exactly, rounded by each rule there is, held against codes.

Rules: TensorFlow Lite's (gemmlowp's) doubling high product and then a shift, which rounds twice; one rounding of the
whole product, as TFLITE_SINGLE_ROUNDING and CMSIS_NN_USE_SINGLE_ROUNDING; the real quotient to the nearest code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import frexp

import numpy as np

from tinyhil.frontend.tflite_file import ACTIVATIONS
from tinyhil.frontend.tflite_records import File, Operation, Tensor

TWICE, ONCE, NEAREST = "two roundings (TensorFlow Lite's)", "one rounding", "nearest to the real quotient"
LIMITS = {"RELU": (0.0, np.inf), "RELU6": (0.0, 6.0), "RELU_N1_TO_1": (-1.0, 1.0)}
Rule = Callable[[np.ndarray, np.ndarray], np.ndarray]  # exact sums (positions, outputs), factors (outputs,) -> codes


def multiplier_of(factor: float) -> tuple[int, int]:
    """factor = m / 2^31 * 2^shift with 31 bits, as TensorFlow Lite's QuantizeMultiplier."""
    fraction, shift = frexp(factor)
    m = int(np.floor(fraction * 2.0**31 + 0.5))
    if m == 1 << 31:
        m, shift = m // 2, shift + 1
    return (0, 0) if shift < -31 else (m, shift)


def twice(sums: np.ndarray, factors: np.ndarray) -> np.ndarray:
    """A product's upper half to nearest, then a shift to nearest, ties away from zero."""
    made = [multiplier_of(float(factor)) for factor in factors]
    m = np.array([one[0] for one in made], np.int64)
    left = np.array([max(one[1], 0) for one in made])
    right = np.array([max(-one[1], 0) for one in made])
    high = ((sums << left) * m + (1 << 30)) >> 31
    half = (1 << right) >> 1
    return (high + half - ((high < 0) & (right > 0))) >> right


def once(sums: np.ndarray, factors: np.ndarray) -> np.ndarray:
    """The whole product, then one shift; ties go up."""
    made = [multiplier_of(float(factor)) for factor in factors]
    total = np.array([31 - shift for _, shift in made])
    return (sums * np.array([m for m, _ in made], np.int64) + (1 << (total - 1))) >> total


def nearest(sums: np.ndarray, factors: np.ndarray) -> np.ndarray:
    """The real quotient to the nearest integer, ties to even."""
    return np.rint(sums * factors).astype(np.int64)


RULES: Mapping[str, Rule] = {TWICE: twice, ONCE: once, NEAREST: nearest}


def explained(content: File, name: str, read: np.ndarray) -> dict[str, np.ndarray]:
    """What each rule makes of the layer that computes tensor `name` from the codes it reads (elements,), channels
    innermost: rule -> codes (elements,). Empty where it is no layer of int8 sums."""
    one = next((one for one in content.operations if content.tensors[one.outputs[0]].name == name), None)
    if one is None or one.op not in SUMS:
        return {}
    source, weights, target = (content.tensors[n] for n in (*one.inputs[:2], one.outputs[0]))
    if not all(tensor.kind == "int8" and tensor.scales is not None for tensor in (source, weights, target)):
        return {}
    sums = SUMS[one.op](content, one, read.astype(np.int64).reshape(source.shape) - zero_of(source))
    factors = np.resize(factors_of(source, weights, target), sums.shape[-1])
    low, high = limits_of(one, target)
    zero = zero_of(target)
    return {rule: np.clip(made(sums, factors) + zero, low, high).reshape(-1) for rule, made in RULES.items()}


def factors_of(source: Tensor, weights: Tensor, target: Tensor) -> np.ndarray:
    """What a sum of products is worth in units of the result (scales of the weights,), as TensorFlow Lite has it."""
    assert source.scales is not None
    assert weights.scales is not None
    assert target.scales is not None
    if len(weights.scales) == 1:  # of a whole tensor the product of two scales is a float32 number
        products = (source.scales[:1] * weights.scales).astype(np.float32).astype(np.float64)
    else:
        products = source.scales[:1].astype(np.float64) * weights.scales.astype(np.float64)
    return np.asarray(products / np.float64(target.scales[0]))


def zero_of(tensor: Tensor) -> int:
    """The code of 0.0."""
    return 0 if tensor.zeros is None else int(tensor.zeros[0])


def limits_of(one: Operation, target: Tensor) -> tuple[int, int]:
    """The least and largest code of int8 that the operator's activation lets through."""
    least, most = LIMITS.get(ACTIVATIONS[one.options.get("FusedActivationFunction", 0)], (-np.inf, np.inf))
    assert target.scales is not None
    codes = [real / float(target.scales[0]) + zero_of(target) for real in (least, most)]
    return int(np.rint(max(-128.0, codes[0]))), int(np.rint(min(127.0, codes[1])))


def _bias(content: File, one: Operation) -> np.ndarray | int:
    data = content.tensors[one.inputs[2]].data if len(one.inputs) > 2 and one.inputs[2] >= 0 else None
    return 0 if data is None else data.astype(np.int64)


def _weights(content: File, one: Operation) -> np.ndarray:
    data = content.tensors[one.inputs[1]].data
    assert data is not None
    return data.astype(np.int64)


def _dense(content: File, one: Operation, x: np.ndarray) -> np.ndarray:
    w = _weights(content, one)
    return np.asarray(x.reshape(-1, w.shape[1]) @ w.T + _bias(content, one))


def pads_of(one: Operation, extents: Sequence[int], window: Sequence[int]) -> list[tuple[int, int]]:
    """How much a window that slides over a map is padded before and behind, on each of its two axes."""
    if one.options["Padding"] != 0:  # VALID
        return [(0, 0), (0, 0)]
    steps = one.options["StrideH"], one.options["StrideW"]
    spread = one.options.get("DilationHFactor", 1), one.options.get("DilationWFactor", 1)
    sizes = [(k - 1) * d + 1 for k, d in zip(window, spread, strict=True)]
    whole = [max(-(-n // s) * s - s + k - n, 0) for n, s, k in zip(extents, steps, sizes, strict=True)]
    return [(pad // 2, pad - pad // 2) for pad in whole]


def _patches(content: File, one: Operation, x: np.ndarray) -> np.ndarray:
    """What a kernel covers: (rows, columns, kernel rows, kernel columns, channels)."""
    kernel = content.tensors[one.inputs[1]].shape[1:3]
    steps = one.options["StrideH"], one.options["StrideW"]
    spread = one.options["DilationHFactor"], one.options["DilationWFactor"]
    sizes = [(k - 1) * d + 1 for k, d in zip(kernel, spread, strict=True)]
    pads = pads_of(one, x.shape[1:3], kernel)
    padded = np.pad(x[0], (*pads, (0, 0)))
    seen = np.lib.stride_tricks.sliding_window_view(padded, sizes, (0, 1))[:: steps[0], :: steps[1]]
    return seen[..., :: spread[0], :: spread[1]].transpose(0, 1, 3, 4, 2)


def _convolution(content: File, one: Operation, x: np.ndarray) -> np.ndarray:
    w = _weights(content, one)
    return np.einsum("rcijk,oijk->rco", _patches(content, one, x), w, optimize=True) + _bias(content, one)


def _depthwise(content: File, one: Operation, x: np.ndarray) -> np.ndarray:
    w = _weights(content, one)[0]
    w = w.reshape(*w.shape[:2], x.shape[3], -1)
    sums = np.einsum("rcijk,ijkm->rckm", _patches(content, one, x), w, optimize=True)
    return sums.reshape(*sums.shape[:2], -1) + _bias(content, one)


SUMS: Mapping[str, Callable[[File, Operation, np.ndarray], np.ndarray]] = {
    "FULLY_CONNECTED": _dense,
    "CONV_2D": _convolution,
    "DEPTHWISE_CONV_2D": _depthwise,
}
