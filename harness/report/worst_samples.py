"""Pictures of the worst samples: an image as PNG, a series as lines."""

from __future__ import annotations

import base64
import math
import struct
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tinyhil.harness.report.charts import class_name
from tinyhil.harness.report.html import escape

LEAST_SIDE = 6  # pixels, from which on something nearly square is an image
MOST_LINES = 12
HUES = 47  # degrees between the colours of two lines


def worst_samples(samples: Sequence[Mapping[str, Any]], names: Sequence[str] = ()) -> str:
    """One small figure per sample, with what was decided and how far its outputs are off. `names`: of classes."""
    return f'<div class="worst">{"".join(_figure(sample, names) for sample in samples)}</div>'


def _figure(sample: Mapping[str, Any], names: Sequence[str]) -> str:
    board, real, labelled = (
        "None" if number is None else class_name(number, names)
        for number in (sample.get("class"), sample.get("float_class"), sample["label"])
    )
    decided = f"class {escape(board)}"
    if board != real:
        decided = f"<b>class {escape(board)}</b>, float {escape(real)}"
    label = "" if sample["label"] is None else f", label {labelled}"
    error = "unknown" if sample["error"] is None else f"{sample['error']:.3g}"
    return (
        f"<figure>{_picture(sample)}<figcaption>sample {sample['sample']}: {decided}{escape(label)}"
        f"<br>error {error}</figcaption></figure>"
    )


def _picture(sample: Mapping[str, Any]) -> str:
    shape, values = sample["shape"], sample["values"]
    if values is None or not shape or math.prod(shape) != len(values):
        return ""
    array = np.array(values, float).reshape(shape)
    image = _as_image(array)
    return _png(image) if image is not None else _lines(array.reshape(len(array), -1))


def _as_image(array: np.ndarray) -> np.ndarray | None:
    """Rows, columns and one or three colours; None for what is a series."""
    if array.ndim == 3 and array.shape[0] in (1, 3):
        array = np.moveaxis(array, 0, -1)
    if array.ndim == 2:
        array = array[..., None]
    if array.ndim != 3 or array.shape[2] not in (1, 3):
        return None
    high, wide = array.shape[:2]
    return array if min(high, wide) >= LEAST_SIDE and max(high, wide) <= 2 * min(high, wide) else None


def _scaled(array: np.ndarray) -> np.ndarray:
    low, high = float(array.min()), float(array.max())
    return (array - low) / (high - low) if high > low else np.zeros_like(array)


def _png(image: np.ndarray) -> str:
    """An <img> with the pixels inside (PNG, ISO/IEC 15948: grey or RGB, 8 bits)."""
    pixels = (255 * _scaled(image)).round().astype(np.uint8)
    high, wide, colours = pixels.shape
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    header = struct.pack(">IIBBBBB", wide, high, 8, 2 if colours == 3 else 0, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    body = b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )
    text = base64.b64encode(b"\x89PNG\r\n\x1a\n" + body).decode()
    return f'<img alt="input" src="data:image/png;base64,{text}">'


def _lines(series: np.ndarray) -> str:
    """One line per channel of (steps, channels)."""
    scaled = _scaled(series)
    last = max(1, len(scaled) - 1)
    found = []
    for channel in range(min(scaled.shape[1], MOST_LINES)):
        heights = enumerate(scaled[:, channel])
        points = " ".join(f"{100 * step / last:.1f},{40 - 38 * value:.1f}" for step, value in heights)
        found.append(f'<polyline points="{points}" style="stroke:hsl({HUES * channel % 360} 65% 50%)"/>')
    return f'<svg viewBox="0 0 100 42" preserveAspectRatio="none" aria-label="input">{"".join(found)}</svg>'
