"""Dense layers with constants in flash, one per format: the bits of the numpy reference, and what they cost."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import serial
from boards_under_test import SESSION
from direct_build import direct_build
from kernel_cases import traced_instructions
from stack_check import connected

from tinyhil.formats.codec import requantize
from tinyhil.formats.fixed import Fixed
from tinyhil.formats.format import Format
from tinyhil.formats.quire import Window, place
from tinyhil.formats.single import Single
from tinyhil.harness.build.image import check_fits
from tinyhil.harness.build.pipeline import project_sources
from tinyhil.harness.settings.config import BoardSpec

FIRMWARE = Path(__file__).resolve().parent / "firmware_formats"
DEADLINE_S = 1200.0


@dataclass(frozen=True)
class Layer:
    """Codes of weights (outputs, inner) and operand (inner,), and the accumulator: a window, or a C++ type."""

    format: Format
    weights: np.ndarray
    x: np.ndarray
    accumulator: Window | str

    @property
    def c_accumulator(self) -> str:
        return self.accumulator if isinstance(self.accumulator, str) else self.accumulator.c_type

    def expected(self) -> np.ndarray:
        """Codes of the results."""
        w, x = self.format.decode(self.weights), self.format.decode(self.x)
        if isinstance(self.accumulator, Window):
            units, _ = self.accumulator.matmul(x[None, :], w.T)
            exact = self.accumulator.value(units[0])
            return self.format.encode(exact.value, exact.residue)[0]
        if isinstance(self.format, Single):
            total = np.zeros(len(w), np.float32)
            for k in range(len(x)):
                total = total + w[:, k].astype(np.float32) * np.float32(x[k])
            return requantize(total, 0, self.format)[0]
        return requantize((w @ x).astype(np.int64), 0, self.format)[0]


@dataclass(frozen=True)
class Cost:
    """Of one layer: Uno: cycles; ARM: instructions; host: nanoseconds."""

    codes: np.ndarray
    ticks: int


def layer(fmt: Format, outputs: int, inner: int, accumulator: str = "", far: bool = False) -> Layer:
    """Ordinary weights and operands below 1 in magnitude; `far`: a few of each at the ends of the format's range."""
    rng = np.random.default_rng(outputs * inner)
    w, x = rng.normal(size=(outputs, inner)) / 4, rng.normal(size=inner) / 4
    if isinstance(fmt, Fixed):
        w, x = np.round(w * 2.0 ** (fmt.bits - 4)), np.round(x * 2.0 ** (fmt.bits - 4))
    if far:
        w[:, ::7] *= 2.0 ** rng.integers(-12, 6, w[:, ::7].shape)
        x[::5] *= 2.0 ** rng.integers(-12, 6, x[::5].shape)
        x[3], x[4], w[0, 5], w[1, 6] = fmt.largest, 0.0, fmt.largest, fmt.smallest
    weights, operand = fmt.encode(w)[0], fmt.encode(x)[0]
    if accumulator:
        return Layer(fmt, weights, operand, accumulator)
    return Layer(fmt, weights, operand, place(fmt.decode(weights), fmt, 1.0, 0.0, (fmt.granule, None)))


def run(layers: Sequence[Layer], board: BoardSpec, cache_dir: Path) -> list[Cost]:
    sources = {name: text for name, text in project_sources([board]).items() if name not in SESSION}
    sources |= {
        "model/model.hpp": "#pragma once\n",
        "model/model.cpp": "",
        "model/layers.hpp": _source(layers),
        "firmware/main.cpp": (FIRMWARE / "layers.cpp").read_text(),
    }
    image = direct_build(sources, board, cache_dir)
    check_fits(image, board)
    logs = image.project_dir / "logs"
    logs.mkdir(exist_ok=True)
    sizes = [len(one.weights) * one.format.storage_bytes + 4 for one in layers]
    with (
        connected(board, image, logs) as device,
        serial.Serial(device.port, board.baud, timeout=0.2) as port,
    ):
        deadline, data = time.monotonic() + DEADLINE_S, b""
        while len(data) < sum(sizes):
            device.alive()
            assert time.monotonic() < deadline, f"{board.name}: {len(data)} of {sum(sizes)} bytes"
            if not data:
                port.write(b"!")
            data += port.read(sum(sizes) - len(data))
    instructions = traced_instructions(logs / "trace.txt") if board.chip.core.startswith("cortex") else {}
    costs = []
    for index, (one, size) in enumerate(zip(layers, sizes, strict=True)):
        part, data = data[:size], data[size:]
        codes = np.frombuffer(part[:-4], f"<u{one.format.storage_bytes}").astype(np.int64)
        ticks = instructions.get(index + 1) or int.from_bytes(part[-4:], "little")
        costs.append(Cost(codes, ticks))
    return costs


def _source(layers: Sequence[Layer]) -> str:
    text, calls = [], []
    for index, one in enumerate(layers):
        size = one.format.storage_bytes
        for name, codes in (("weights", one.weights), ("operand", one.x)):
            data = (codes & ((1 << 8 * size) - 1)).astype(f"<u{size}").tobytes()
            text.append(f"alignas(4) const uint8_t {name}_{index}[] HIL_FLASH = {{{','.join(map(str, data))}}};")
        kind = one.format.c_type
        calls.append(
            f"    layer<{one.c_accumulator}>({index + 1}, reinterpret_cast<{kind} *>(result), "
            f"reinterpret_cast<const {kind} *>(weights_{index}), "
            f"in_ram<const {kind}>(operand_{index}, {one.x.size * size}), {len(one.weights)}, {one.x.size});"
        )
    return "\n".join([*text, "static void run_layers() {", *calls, "}", ""])
