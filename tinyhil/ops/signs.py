"""Layers of signs and binary weights: products are bits that differ. `tinyhil/passes/binary_layers.py` chooses them.

The weights are bits in words of the core, 1 for the negative ones, the bits beyond the last element of a row 0. A row
of a dense layer lies as it is, one of a convolution as [kernel row][kernel column][channel]: the channels of a pixel
begin a word. The sum is exact, so results are those of `dense` and `conv` bit for bit.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tinyhil.formats.format import Format
from tinyhil.language.program import Op
from tinyhil.ops import conv, linear, window
from tinyhil.ops.limits import forms
from tinyhil.ops.operator import Arrays, Form, Kernel, Weights
from tinyhil.ops.sums import with_bias


def in_words(signs: np.ndarray, word: int) -> np.ndarray:
    """Signs (..., count), -1 or 1, as unsigned words (..., ceil(count / word)) of `word` bits."""
    bits = np.pad(signs < 0, [(0, 0)] * (signs.ndim - 1) + [(0, -signs.shape[-1] % word)])
    octets = np.packbits(bits, axis=-1, bitorder="little")
    return np.ascontiguousarray(octets).view(f"<u{word // 8}").astype(np.int64)


def from_words(words: np.ndarray, count: int, word: int) -> np.ndarray:
    """The signs again."""
    octets = np.ascontiguousarray(words.astype(f"<u{word // 8}")).view(np.uint8)
    return 1 - 2 * np.unpackbits(octets, axis=-1, count=count, bitorder="little").astype(np.int64)


def _execute_dense(op: Op, arrays: Arrays, out: Format) -> tuple[np.ndarray, np.ndarray]:
    p = op.params
    words = arrays[0].reshape(p["outputs"], -1)
    weights = p["entry"] * from_words(words, p["inner"], p["word"])
    return linear.DENSE.execute(op, [weights.reshape(1, -1), *arrays[1:]], out)


def _execute_conv(op: Op, arrays: Arrays, out: Format) -> tuple[np.ndarray, np.ndarray]:
    p = op.params
    w = window.window_of(p)
    words = arrays[0].reshape(p["outputs"], w.kernel_y, w.kernel_x, -1)
    weights = p["entry"] * from_words(words, w.channels, p["word"]).transpose(0, 3, 1, 2)
    plain = replace(op, params={**p, "groups": 1})
    return conv.CONV.execute(plain, [weights.reshape(1, -1), *arrays[1:]], out)


SIGN_DENSE = Kernel(
    Form("dense", weights=Weights.SIGNS),
    "dense of signs and binary weights, by differing bits",
    _execute_dense,
    ("rows", "outputs", "inner", "entry", "shift"),
    ("shift",),
    is_sum=True,
)
SIGN_CONV = Kernel(
    Form("conv", weights=Weights.SIGNS),
    "conv of signs and binary weights, by differing bits",
    _execute_conv,
    ("outputs", "entry", "shift"),
    ("shift",),
    is_sum=True,
    struct=("Window", window.FIELDS),
)
PLAIN = with_bias(SIGN_DENSE, SIGN_CONV)
KERNELS = (*PLAIN, *forms(PLAIN))
