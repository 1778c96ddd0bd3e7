"""Weights in blocks, each with a scale of its own: com.microsoft's MatMulNBits, and DequantizeLinear with a block_size.

They become constants of real numbers that remember their integers' scales; formats of integers keep the integers
(tinyhil/ops/groups.py).
"""

from __future__ import annotations

import numpy as np

from tinyhil.frontend.rewrite import MICROSOFT, Results, Rewrite, Site

WIDTHS = (2, 4, 8)


def in_blocks(site: Site, integers: np.ndarray, scales: np.ndarray, zeros: np.ndarray) -> str:
    """The constant `integers` less `zeros`, times `scales`, all of one shape; ModelError for scales of 0."""
    if not np.isfinite(scales).all() or (scales == 0).any():
        raise site.refuse("a scale that is 0 or no number", "the file is damaged")
    scales = scales.astype(np.float32)
    name = site.constant("real", (integers.astype(np.float64) - zeros).astype(np.float32) * scales)
    if (zeros == np.rint(zeros)).all():
        site.builder.steps[name] = scales.astype(np.float64)
        site.builder.grouped.add(name)
    return name


def spread(site: Site, given: np.ndarray, block: int) -> np.ndarray:
    """Scales or zero points of QuantizeLinear and its opposite, so that they broadcast to the first input: one of all,
    one per place along the attribute `axis`, or one per block there. ModelError for other sizes."""
    shape, axis = site.shape(site.input(0)), site.axis(1, len(site.shape(site.input(0))) or 1)
    if given.size == 1:
        return given.reshape((1,) * len(shape))
    if block > 0 and given.ndim == len(shape) and -(-shape[axis] // block) == given.shape[axis]:
        made = np.take(given, np.arange(shape[axis]) // block, axis=axis)
    else:
        made = given.reshape([-1 if at == axis else 1 for at in range(len(shape))]) if given.ndim == 1 else given
    if made.ndim != len(shape) or any(side not in (1, whole) for side, whole in zip(made.shape, shape, strict=True)):
        raise site.refuse(f"scales {list(given.shape)} for {list(shape)} in blocks of {block}", "the file is damaged")
    return made


def dequantized(site: Site, block: int) -> str:
    """The real values of a DequantizeLinear in blocks; ModelError for sizes that do not fit."""
    codes = site.input(0)
    value = site.value(codes)
    scale, zero = (site.static(1, "scale"), site.static(2, "zero point") if site.input(2) else np.zeros(1))
    if value is None:
        moved = site.make("Sub", codes, site.constant("zero", spread(site, zero, block))) if zero.any() else codes
        return site.make("Mul", moved, site.constant("scale", spread(site, scale, block)))
    if block < 1 or scale.ndim != value.ndim:
        raise site.refuse(
            f"scales {list(scale.shape)} for {list(value.shape)} in blocks of {block}", "the file is damaged"
        )
    scales, zeros = (np.broadcast_to(spread(site, one, block), value.shape) for one in (scale, zero))
    return in_blocks(site, value, scales, zeros)


def _unpacked(packed: np.ndarray, bits: int) -> np.ndarray:
    """Codes along a last axis of bytes, the first in the lowest bits."""
    each = 8 // bits
    codes = packed[..., None] >> (bits * np.arange(each)) & ((1 << bits) - 1)
    return np.asarray(codes.reshape(*packed.shape[:-1], -1))


def _matmul_n_bits(site: Site) -> Results:
    inner, outputs, bits, block = (int(site.attr(key, 0)) for key in ("K", "N", "bits", "block_size"))
    bits = bits or 4
    if bits not in WIDTHS or block < 16 or block & (block - 1) or min(inner, outputs) < 1:
        what = f"{inner} x {outputs} weights of {bits} bits in blocks of {block}"
        raise site.refuse(what, "2, 4 and 8 bits in blocks of 16, 32, 64, ... are supported")
    if site.input(4):
        raise site.refuse("g_idx, groups in another order than the weights", "quantize without activation order")
    blocks = -(-inner // block)
    packed, given = site.static(1, "weights"), site.static(2, "scale").astype(np.float64)
    if (
        packed.dtype != np.uint8
        or packed.size != outputs * blocks * block * bits // 8
        or given.size != outputs * blocks
    ):
        raise site.refuse(f"{packed.size} bytes and {given.size} scales for {inner} x {outputs}", "the file is damaged")
    codes = _unpacked(packed.reshape(outputs, -1), bits)[:, :inner]
    at = np.arange(inner) // block
    scales = given.reshape(outputs, blocks)[:, at]
    zeros = _zeros(site, outputs, blocks, bits)[:, at]
    weights = in_blocks(site, codes.T, scales.T, zeros.T)
    if not site.input(5):
        return site.last("MatMul", site.input(0), weights)
    return site.last("Add", site.make("MatMul", site.input(0), weights), site.input(5))


def _zeros(site: Site, outputs: int, blocks: int, bits: int) -> np.ndarray:
    if not site.input(3):
        return np.full((outputs, blocks), 1 << (bits - 1), np.float64)
    zeros = site.static(3, "zero point")
    if zeros.dtype != np.uint8:  # floats, one for each block
        return zeros.astype(np.float64).reshape(outputs, blocks)
    return _unpacked(zeros.reshape(outputs, -1), bits)[:, :blocks].astype(np.float64)


REWRITES = (
    Rewrite(
        "MatMulNBits",
        "as MatMul; weights of 2, 4 or 8 bits with a scale per block stay what they are in formats of integers",
        _matmul_n_bits,
        ("K", "N", "bits", "block_size", "accuracy_level", "weight_prepacked"),
        MICROSOFT,
    ),
)
