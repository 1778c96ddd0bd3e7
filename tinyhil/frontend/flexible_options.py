"""Options of custom operators of a .tflite file: a FlexBuffer that holds one map of names to numbers.

The map is at the end: its size and where its names lie stand before its values, their types behind them
(google.github.io/flatbuffers/flatbuffers_internals). Whatever does not fit is the file's fault: ValueError.
"""

from __future__ import annotations

import struct

INT, UINT, FLOAT, BOOL, MAP = 1, 2, 3, 26, 9
SIGNED, UNSIGNED, REAL = {1: "b", 2: "h", 4: "i", 8: "q"}, {1: "B", 2: "H", 4: "I", 8: "Q"}, {4: "f", 8: "d"}
MOST = 64  # options of one operator


def options_of(data: bytes) -> dict[str, float]:
    """Name to number, in the order of the file, which is that of the names. ValueError for what is no such map."""
    if len(data) < 3:
        return {}
    width, packed = data[-1], data[-2]
    if width not in SIGNED or packed >> 2 != MAP:
        raise ValueError("options of a custom operator that are no map")
    at, width = _behind(data, len(data) - 2 - width, width), 1 << (packed & 3)
    size, keys = _number(data, at - width, width, UNSIGNED), _behind(data, at - 3 * width, width)
    key_width = _number(data, at - 2 * width, width, UNSIGNED)
    if not 0 <= size <= MOST or key_width not in SIGNED:
        raise ValueError(f"{size} options of a custom operator")
    types = data[at + size * width : at + size * (width + 1)]
    found = {}
    for index in range(size):
        name = _text(data, _behind(data, keys + index * key_width, key_width))
        found[name] = _value(data, at + index * width, width, types[index])
    return found


def _value(data: bytes, at: int, width: int, packed: int) -> float:
    kinds = {INT: SIGNED, BOOL: UNSIGNED, UINT: UNSIGNED, FLOAT: REAL}
    if packed >> 2 not in kinds:
        raise ValueError("an option that is no number")
    return _number(data, at, width, kinds[packed >> 2])


def _number(data: bytes, at: int, width: int, kinds: dict[int, str]) -> int:
    if width not in kinds or not 0 <= at <= len(data) - width:
        raise ValueError("options beyond their end")
    number: int = struct.unpack_from(f"<{kinds[width]}", data, at)[0]
    return number


def _behind(data: bytes, at: int, width: int) -> int:
    """Where an offset points, which counts backwards from itself."""
    return at - _number(data, at, width, UNSIGNED)


def _text(data: bytes, at: int) -> str:
    end = data.find(b"\0", max(at, 0))
    if at < 0 or end < 0:
        raise ValueError("an option without a name")
    return data[at:end].decode("utf-8", "replace")
