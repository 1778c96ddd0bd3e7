"""How a constant lies in flash: below 8 bits packed, weights in the order in which their kernels read them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tinyhil.formats.codebook import pack
from tinyhil.formats.codec import storage_dtype
from tinyhil.language.program import Blocks, Role, Tensor
from tinyhil.ops.signs import in_words
from tinyhil.passes.lanes import in_lanes


def stored_bytes(tensor: Tensor, codes: np.ndarray) -> int:
    """Bytes of a constant's array, without a codebook's entries."""
    return stored(tensor, codes).values.nbytes


def bytes_in_flash(tensor: Tensor) -> int:
    """Of a constant, without laying it out: codes below 8 bits are packed, a codebook's entries follow its indices."""
    fmt = tensor.format
    if tensor.role == Role.TABLE:
        return tensor.size_bytes
    if fmt.entries_in_flash is not None:
        kind, entries = fmt.entries_in_flash
        return -(-tensor.count * fmt.bits // 8) + len(entries) * (int(kind.strip("int_")) // 8)
    if tensor.blocks is not None and tensor.blocks.raised is not None:
        return tensor.count
    return -(-tensor.count * fmt.packed_bits // 8) if fmt.bits < 8 else tensor.size_bytes


@dataclass(frozen=True, slots=True)
class InFlash:
    """Elements as they lie in memory, and their C++ type."""

    kind: str
    values: np.ndarray
    alignment: str = ""


def stored(tensor: Tensor, codes: np.ndarray) -> InFlash:
    """A constant as it lies in memory: codes below 8 bits are packed, blocks arranged."""
    fmt = tensor.format
    if tensor.stored is not None:
        codes = np.array(tensor.stored.numbers)
    if tensor.role == Role.TABLE:
        return InFlash(c_type(tensor), codes.astype(f"<u{fmt.storage_bytes}"))
    if tensor.blocks is not None and tensor.blocks.word:
        words = in_words(2 * codes.reshape(tensor.blocks.axes) - 1, tensor.blocks.word)
        return InFlash(f"uint{tensor.blocks.word}_t", words.astype(f"<u{tensor.blocks.word // 8}"))
    if tensor.blocks is not None and tensor.blocks.raised is not None:
        return InFlash("int8_t", in_blocks(codes, tensor.blocks).astype(np.int8), "alignas(4) ")
    if tensor.blocks is not None:
        return InFlash(c_type(tensor), in_blocks(codes, tensor.blocks).astype(storage_dtype(fmt)), "alignas(4) ")
    if is_packed(tensor):
        return InFlash("uint8_t", pack(codes, fmt.packed_bits))
    return InFlash(c_type(tensor), codes.astype(storage_dtype(fmt)))


def is_packed(tensor: Tensor) -> bool:
    """Whether a constant is a stream of codes below 8 bits, or of indices of entries."""
    is_plain = tensor.role != Role.TABLE and tensor.blocks is None
    return is_plain and (tensor.format.bits < 8 or tensor.format.entries_in_flash is not None)


def c_type(tensor: Tensor) -> str:
    """The C++ type of a tensor's elements."""
    if tensor.role == Role.TABLE:
        return f"uint{8 * tensor.format.storage_bytes}_t"
    return tensor.format.c_type


def in_blocks(codes: np.ndarray, blocks: Blocks) -> np.ndarray:
    """The elements of a constant in the order of its blocks, flat; rows and elements beyond the last are 0."""
    rows = rows_of(codes, blocks)
    if blocks.part:
        return _in_parts(np.pad(rows, ((0, -len(rows) % blocks.together), (0, 0))), blocks)
    if blocks.lanes:
        return in_lanes(rows, blocks)
    whole = len(rows) - len(rows) % blocks.together if blocks.rest else len(rows)
    last = _in_turn(rows[whole:], blocks.rest or 1, blocks.step, blocks.paired)
    return np.concatenate([_in_turn(rows[:whole], blocks.together, blocks.step, blocks.paired), last])


def rows_of(codes: np.ndarray, blocks: Blocks) -> np.ndarray:
    """Rows of weights as they are stored, their elements in the order of the blocks, up to a multiple of them: behind
    the last are zeros, or what stands for them where a row's elements are raised one by one."""
    rows = codes.reshape(blocks.axes).transpose(0, *blocks.order).reshape(blocks.axes[0], -1) - (blocks.raised or 0)
    behind = -(blocks.raised or 0) if blocks.together == 1 else 0
    return np.pad(rows, ((0, 0), (0, -rows.shape[1] % blocks.multiple)), constant_values=behind)


def _in_turn(rows: np.ndarray, together: int, step: int, paired: bool) -> np.ndarray:
    """`together` rows in turn, `step` elements of each."""
    padded = np.pad(rows, ((0, -len(rows) % together), (0, 0)))
    if paired:
        return _in_pairs(padded, together)
    return padded.reshape(-1, together, padded.shape[1] // step, step).transpose(0, 2, 1, 3).reshape(-1)


def _in_parts(rows: np.ndarray, blocks: Blocks) -> np.ndarray:
    """Elements of rows in turn, in parts of whole pairs as long as their sums permit, each behind its length."""
    found: list[np.ndarray] = []
    for group in rows.reshape(-1, blocks.together, rows.shape[1]):
        pairs = np.abs(group.astype(np.int64)).reshape(blocks.together, -1, 2).sum(axis=2).T
        first = 0
        while first < len(pairs):
            over = (np.cumsum(pairs[first:], axis=0) > blocks.part).any(axis=1)
            count = int(over.argmax()) if over.any() else len(pairs) - first
            found += [np.array([count]), group[:, 2 * first : 2 * (first + count)].T.reshape(-1)]
            first += count
    return np.concatenate(found)


def _in_pairs(rows: np.ndarray, together: int) -> np.ndarray:
    """Pairs of rows in turn, four elements of each as the bytes of row + 256 * next.

    The order of elements is that of bytes which were split into halfwords: 0, 2, 1, 3.
    """
    both = rows[0::2].astype(np.int64) + 256 * rows[1::2].astype(np.int64)
    in_fours = both.reshape(both.shape[0] * 2 // together, together // 2, both.shape[1] // 4, 4)
    words = in_fours[..., [0, 2, 1, 3]].transpose(0, 2, 1, 3)
    return words.astype("<i2").reshape(-1).view(np.int8)
