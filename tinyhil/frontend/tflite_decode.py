"""TFLM_DECODE of a .tflite file: weights that are stored compressed, by a lookup table, a Huffman code or pruned.

Operands are pairs of constants, codes and what they are decoded by; each pair gives one tensor. What is decoded by
begins with 16 bytes: kind, version, two of nothing, version of the kind, its parameters
(tensorflow/lite/micro/docs/compression.md of tflite-micro). All is done here, so that whoever reads the tensor finds
a constant.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tinyhil.errors import ModelError
from tinyhil.frontend.tflite_records import Operation, Tensor
from tinyhil.language.graph import element_count

DECODE = "TFLM_DECODE"
HEADER_BYTES = 16


def decoded(
    tensors: tuple[Tensor, ...], operations: tuple[Operation, ...]
) -> tuple[tuple[Tensor, ...], tuple[Operation, ...]]:
    """Both without TFLM_DECODE, whose results are constants now.

    ModelError for what is coded otherwise, ValueError in a damaged file.
    """
    found = list(tensors)
    for operation in (o for o in operations if o.op == DECODE):
        pairs = [tensors[number] if number >= 0 else None for number in operation.inputs]
        if len(pairs) != 2 * len(operation.outputs):
            raise ValueError(f"{len(pairs)} operands for {len(operation.outputs)} decoded tensors")
        for number, coded, by in zip(operation.outputs, pairs[::2], pairs[1::2], strict=True):
            if coded is None or by is None or coded.data is None or by.data is None:
                raise ModelError(f"tensor '{tensors[number].name}' is decoded from what is no constant; store it")
            found[number] = replace(tensors[number], data=_decoded(tensors[number], coded.data, by.data))
    return tuple(found), tuple(o for o in operations if o.op != DECODE)


def _decoded(tensor: Tensor, coded: np.ndarray, by: np.ndarray) -> np.ndarray:
    header, tables = by.tobytes()[:HEADER_BYTES], by.tobytes()[HEADER_BYTES:]
    if len(header) < HEADER_BYTES or header[1] != 1 or header[4] != 1:
        raise ModelError(f"tensor '{tensor.name}' is compressed in another version than 1; compress it again")
    if header[0] not in _KINDS:
        what = "for an application's own decoder" if header[0] > 127 else f"as kind {header[0]}"
        raise ModelError(f"tensor '{tensor.name}' is compressed {what}; use a lookup table, Huffman or pruning")
    if tensor.kind not in ("bool", "float32", "int8", "int16", "int32", "int64"):
        raise ModelError(f"tensor '{tensor.name}' is decoded as {tensor.kind or 'an unknown type'}; use int8")
    if element_count(tensor.shape) > 8 * max(coded.nbytes, 1):
        raise ValueError(f"{coded.nbytes} B of codes for '{tensor.name}' {list(tensor.shape)}")
    return _KINDS[header[0]](tensor, header, coded.tobytes(), tables).reshape(tensor.shape)


def _numbers(tensor: Tensor, data: bytes) -> np.ndarray:
    kind: np.dtype[Any] = np.dtype(tensor.kind)
    return np.frombuffer(data[: len(data) // kind.itemsize * kind.itemsize], kind.newbyteorder("<")).astype(kind)


def _channels(tensor: Tensor) -> np.ndarray:
    """Channel of every element: as many as the tensor has scales, along their axis."""
    count = 1 if tensor.scales is None else tensor.scales.size
    if count == 1:
        return np.zeros(element_count(tensor.shape), np.int64)
    if tensor.axis not in (0, len(tensor.shape) - 1):
        raise ModelError(f"tensor '{tensor.name}' is decoded along axis {tensor.axis}; the first or last is supported")
    wide = [1] * len(tensor.shape)
    wide[tensor.axis] = count
    return np.broadcast_to(np.arange(count).reshape(wide), tensor.shape).reshape(-1)


def _looked_up(tensor: Tensor, header: bytes, coded: bytes, tables: bytes) -> np.ndarray:
    """Numbers of entries, most significant bit first, of one table or of that of each channel."""
    width, stride, count = header[5] & 7, header[6], element_count(tensor.shape)
    bits = np.unpackbits(np.frombuffer(coded, np.uint8))
    if width < 1 or bits.size < count * width:
        raise ValueError(f"{bits.size} bits for {count} numbers of {width}")
    entries = bits[: count * width].reshape(count, width).astype(np.int64) @ (1 << np.arange(width)[::-1])
    numbers = _numbers(tensor, tables)
    return numbers[entries + stride * _channels(tensor)]


def _pruned(tensor: Tensor, _: bytes, coded: bytes, tables: bytes) -> np.ndarray:
    """A bit for every element: the next number, or zero."""
    count = element_count(tensor.shape)
    is_there = np.unpackbits(np.frombuffer(coded, np.uint8))[:count].astype(bool)
    if is_there.size < count:
        raise ValueError(f"{is_there.size} bits for {count} elements")
    zeros = np.zeros(1, np.int64) if tensor.zeros is None or tensor.kind != "int8" else tensor.zeros.reshape(-1)
    channels = _channels(tensor) if zeros.size > 1 else np.zeros(count, np.int64)
    result = zeros[channels].astype(tensor.kind)
    result[is_there] = _numbers(tensor, tables)[: int(is_there.sum())]
    return result


def _huffman(tensor: Tensor, header: bytes, coded: bytes, tables: bytes) -> np.ndarray:
    """Code words by tables of tables: an entry is a number and how many bits it took, or where to look on."""
    is_wide, first = bool(header[5] & 1), (header[5] >> 4) + 1
    if tensor.kind not in (("int8", "int16") if is_wide else ("int8",)):
        raise ModelError(f"tensor '{tensor.name}' is {tensor.kind} in Huffman codes; int8 and int16 are supported")
    wide, value_bits = (32, 27) if is_wide else (16, 11)
    entries = np.frombuffer(tables[: len(tables) // (wide // 8) * (wide // 8)], f"<u{wide // 8}").tolist()
    stream = "".join(np.unpackbits(np.frombuffer(coded, np.uint8)).astype(str).tolist()) + "0" * 32
    at, found = 0, []
    for _ in range(element_count(tensor.shape)):
        number, at = _symbol(entries, stream, at, (first, wide, value_bits))
        found.append(number)
    codes = np.array(found, np.uint64).astype(np.uint32)
    return codes.astype(np.uint8).view(np.int8) if tensor.kind == "int8" else codes.astype(np.uint16).view(np.int16)


def _symbol(entries: Sequence[int], stream: str, at: int, widths: tuple[int, int, int]) -> tuple[int, int]:
    """The next number and where the stream goes on."""
    taken, wide, value_bits = widths
    place = 0
    for _ in range(32):  # tables behind tables; a code word has no more bits
        bits = stream[at : at + taken]
        if len(bits) < taken:
            raise ValueError("Huffman codes that end in a code word")
        place += int(bits, 2)
        at += taken
        entry = entries[place]
        count, value = entry >> value_bits & 15, entry & ((1 << value_bits) - 1)
        if entry >> (wide - 1):
            return value, at - max(taken - count, 0)
        taken, place = count + 1, place + value
    raise ValueError("a Huffman table that leads nowhere")


_KINDS: dict[int, Callable[[Tensor, bytes, bytes, bytes], np.ndarray]] = {0: _looked_up, 1: _huffman, 2: _pruned}
