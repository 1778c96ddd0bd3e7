"""Operators of com.microsoft into which onnxruntime's optimizer fuses layers: convolutions and products with what
follows them, attention of several heads, the embeddings in front of it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from tinyhil.frontend.rewrite import MICROSOFT, Results, Rewrite, Site
from tinyhil.frontend.rewrite_linear import reshaped
from tinyhil.frontend.rewrite_windows import sliced

FUSED_ATTENTION = "FusedAttention"  # Attention of com.microsoft: ONNX has one of the same name
# numbers that an activation takes, as attributes; Clip takes them as operands
ACTIVATIONS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("Relu", "Sigmoid", "Tanh", "Softplus", "Softsign", "HardSwish"), ()),
    "LeakyRelu": ("alpha",),
    "Elu": ("alpha",),
    "ThresholdedRelu": ("alpha",),
    "HardSigmoid": ("alpha", "beta"),
    "Clip": ("low", "high"),
}


def _activated(site: Site, value: str, numbers: Sequence[float]) -> Results:
    """`value` behind the activation that was fused into the call."""
    name = str(site.attr("activation", ""))
    if not name:
        return site.last("Identity", value)
    if name not in ACTIVATIONS or len(numbers) < len(ACTIVATIONS[name]):
        raise site.refuse(f"activation '{name}' of {list(numbers)}", f"{', '.join(ACTIVATIONS)} are supported")
    given = dict(zip(ACTIVATIONS[name], numbers, strict=False))
    if name == "Clip":
        return site.last(name, value, *(site.constant(end, number) for end, number in given.items()))
    return site.last(name, value, **given)


def _fused_conv(site: Site) -> Results:
    """Operand 3 is added before the activation."""
    attrs = {key: value for key, value in site.call.attrs.items() if not key.startswith("activation")}
    made = site.make("Conv", *[name for name in site.call.inputs[:3] if name], **attrs)
    if site.input(3):
        made = site.make("Add", made, site.input(3))
    return _activated(site, made, [float(number) for number in site.attr("activation_params", ())])


def _fused_gemm(site: Site) -> Results:
    attrs = {key: value for key, value in site.call.attrs.items() if not key.startswith("activation")}
    keys = [f"activation_{key}" for key in ("alpha", "beta", "gamma")]
    numbers = [float(site.attr(key, 0.0)) for key in keys if key in site.call.attrs]
    return _activated(site, site.make("Gemm", *site.call.inputs, **attrs), numbers)


# ---- attention


def _heads(site: Site, x: str, heads: int, order: Sequence[int]) -> str:
    """(batch, heads, ...) of (batch, steps, heads * width), or of (batch, heads, steps, width) as they are."""
    shape = site.shape(x)
    if len(shape) == 4:
        return x if order[2] == 1 else site.make("Transpose", x, perm=[0, 1, 3, 2])
    if len(shape) != 3 or shape[2] % heads:
        raise site.refuse(f"{heads} heads of {list(shape)}", "the file is damaged")
    return site.make("Transpose", reshaped(site, x, *shape[:2], heads, shape[2] // heads), perm=[*order])


def _attended(site: Site, parts: Sequence[str], mask: str, bias: str) -> Results:
    """Softmax of scaled products of queries and keys, times values; `mask` keeps keys, `bias` is added."""
    heads = int(site.attr("num_heads", 0))
    if heads < 1:
        raise site.refuse(f"{heads} heads", "the file is damaged")
    query, key, value = (
        _heads(site, part, heads, order)
        for part, order in zip(parts, ((0, 2, 1, 3), (0, 2, 3, 1), (0, 2, 1, 3)), strict=True)
    )
    scale = float(site.attr("scale", 0.0)) or site.shape(query)[-1] ** -0.5
    scores = site.make("Mul", site.make("MatMul", query, key), site.constant("scale", scale))
    if bias:
        scores = site.make("Add", scores, bias)
    scores = _masked(site, scores, mask)
    context = site.make("MatMul", site.make("Softmax", scores, axis=-1), value)
    joined = site.make("Transpose", context, perm=[0, 2, 1, 3])
    batch, steps, _, width = site.shape(joined)
    return site.last("Reshape", joined, site.constant("joined", (batch, steps, heads * width), np.int64))


def _masked(site: Site, scores: str, mask: str) -> str:
    """Scores (batch, heads, steps, keys), those that do not count at minus infinity."""
    batch, _, steps, keys = site.shape(scores)
    never = site.builder.constant(f"{site.stem}.never", np.array(-np.inf, np.float32))
    if int(site.attr("unidirectional", 0)):
        seen = site.constant("past", np.tri(steps, keys, keys - steps), bool)
        scores = site.make("Where", seen, scores, never)
    if not mask:
        return scores
    shape = site.shape(mask)
    if shape == (batch,):  # how many keys count
        lengths = reshaped(site, mask, batch, 1, 1, 1)
        seen = site.make("Less", site.constant("key", np.arange(keys), np.int64), lengths)
    elif shape in ((batch, keys), (batch, steps, keys)):
        flags = reshaped(site, mask, batch, 1, *([1] if len(shape) == 2 else []), *shape[1:])
        seen = site.make("Greater", flags, site.constant("zero", 0, np.int64))
    else:
        raise site.refuse(f"a mask {list(shape)} for {steps} steps and {keys} keys", "lengths or rows are supported")
    return site.make("Where", seen, scores, never)


def _require_no_past(site: Site, places: Sequence[int]) -> None:
    if any(site.input(place) for place in places) or any(site.wants(n) for n in range(1, 4)):
        raise site.refuse("keys and values of the past", "export the attention without a cache, or as plain operators")


def _fused_attention(site: Site) -> Results:
    """Queries, keys and values are one product of the operand."""
    _require_no_past(site, (4, 6))
    made = site.make("MatMul", site.input(0), site.input(1))
    if site.input(2):
        made = site.make("Add", made, site.input(2))
    whole = site.shape(made)[2]
    sizes = [int(size) for size in site.attr("qkv_hidden_sizes", None) or [whole // 3] * 3]
    if len(sizes) != 3 or sum(sizes) != whole:
        raise site.refuse(f"parts {sizes} of {whole}", "the file is damaged")
    ends = [0, sizes[0], sizes[0] + sizes[1], whole]
    parts = [sliced(site, made, 2, start, end) for start, end in pairwise(ends)]
    return _attended(site, parts, site.input(3), site.input(5))


def _multi_head_attention(site: Site) -> Results:
    _require_no_past(site, (6, 7))
    parts = [site.input(n) for n in range(3)]
    if not all(parts) or len(site.shape(parts[0])) != 3:
        raise site.refuse("queries, keys and values in one tensor", "export them apart")
    if site.input(3):
        widths, start = [site.shape(part)[-1] for part in parts], 0
        if any(len(site.shape(part)) != 3 for part in parts):
            raise site.refuse("a bias of heads that are apart already", "the file is damaged")
        for at, width in enumerate(widths):
            share = sliced(site, site.input(3), 0, start, start + width)
            parts[at], start = site.make("Add", parts[at], share), start + width
    return _attended(site, parts, site.input(4), site.input(5))


def _embedded(site: Site) -> Results:
    """Rows of words, places and segments added and normalized; result 1 counts the words that a mask keeps."""
    words, table = site.input(0), site.input(2)
    batch, steps = site.shape(words)
    total = site.make("Gather", table, words, axis=0)
    numbers = site.input(8) or site.constant("numbers", np.arange(steps)[None], np.int64)
    total = site.make("Add", total, site.make("Gather", site.input(3), numbers, axis=0))
    if site.input(1) and site.input(4):
        total = site.make("Add", total, site.make("Gather", site.input(4), site.input(1), axis=0))
    eps = float(site.attr("epsilon", 1e-12))
    (made,) = site.last("LayerNormalization", total, site.input(5), site.input(6), axis=-1, epsilon=eps)
    counts = ""
    if site.wants(1):
        counts = site.constant("no words", np.zeros(batch), np.int64)
        if site.input(7) and int(site.attr("mask_index_type", 1)):
            counts = site.make("ReduceSum", site.input(7), site.constant("axes", [1], np.int64), keepdims=0)
    return (made, counts, total)[: len(site.call.outputs)]


_CONV = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")
_ATTENTION = ("num_heads", "unidirectional", "scale", "mask_filter_value")
REWRITES = (
    Rewrite(
        "FusedConv",
        "as Conv, Add and an activation",
        _fused_conv,
        (*_CONV, "activation", "activation_params"),
        MICROSOFT,
    ),
    Rewrite(
        "FusedGemm",
        "as Gemm and an activation",
        _fused_gemm,
        (
            *("alpha", "beta", "transA", "transB", "activation"),
            *("activation_alpha", "activation_beta", "activation_gamma"),
        ),
        MICROSOFT,
    ),
    Rewrite(
        FUSED_ATTENTION,
        "Attention of onnxruntime: as MatMul and Softmax; masks of lengths and rows, no cache",
        _fused_attention,
        (*_ATTENTION, "qkv_hidden_sizes"),
        MICROSOFT,
    ),
    Rewrite(
        "MultiHeadAttention",
        "as MatMul and Softmax; masks of lengths and rows, no cache",
        _multi_head_attention,
        _ATTENTION,
        MICROSOFT,
    ),
    Rewrite(
        "EmbedLayerNormalization",
        "as Gather, Add and LayerNormalization",
        _embedded,
        ("epsilon", "mask_index_type"),
        MICROSOFT,
    ),
)
