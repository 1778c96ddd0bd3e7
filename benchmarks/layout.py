"""Planes or channels innermost: what convolutions take in either layout.

    python -m benchmarks.layout [--board due --board h747]

Modelled cycles of Cortex-M in fixed8, two Markdown tables: the depthwise kernel over planes
that networks run, a prototype with channels innermost (layout.cpp; its results are compared with the kernel's), and
what is copied of all pixels before a pointwise layer multiplies; then the same before a layer of 3 x 3. Products are
the same in either layout and left out. tinyhil/passes/layout.py chooses by what an element of two pixels costs.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import serial

from tinyhil.harness.boards import simulated
from tinyhil.harness.boards.connection import Session
from tinyhil.harness.build.compile import build
from tinyhil.harness.build.pipeline import project_sources
from tinyhil.harness.build.toolchain import default_cache_dir
from tinyhil.harness.settings.config import BoardSpec, load_boards

PROGRAM = Path(__file__).with_name("layout.cpp")
FIRMWARE = Path(__file__).resolve().parent.parent / "tests" / "firmware_kernels"  # runs cases when asked to
REPLACED = ("firmware/main.cpp", "firmware/wire/session.cpp")
MODEL = "#pragma once\nnamespace model { constexpr bool streamed = false; }\n"
BOARDS = ("due", "h747")
DEADLINE_S = 300.0
# channels, height, width, stride: DS-CNN, and four of MobileNetV1 0.25 on 96 x 96
SHAPES = ((64, 25, 5, 1), (8, 48, 48, 1), (16, 32, 32, 2), (32, 24, 24, 1), (64, 12, 12, 1))
WINDOWS = (
    (3, 32, 1),
    (3, 64, 2),
    (16, 32, 1),
    (32, 16, 1),
    (64, 8, 1),
)  # channels, side, stride: ResNet-8 and first layers
NUMBERS = 5  # differences, then cycles: depthwise and copies, in planes and with channels innermost


def measured(board: BoardSpec) -> tuple[np.ndarray, np.ndarray]:
    """Cycles (shapes, 4): depthwise in planes, innermost, copies in planes, innermost; (windows, 2): copies in planes,
    innermost. SystemExit if results differ."""
    sources = {name: text for name, text in project_sources([board]).items() if name not in REPLACED}
    calls = "\n".join(f"    measure({', '.join(map(str, shape))});" for shape in SHAPES)
    calls += "".join(f"\n    measure_windows({', '.join(map(str, window))});" for window in WINDOWS)
    sources |= {
        "model/model.hpp": MODEL,
        "model/cases.hpp": (FIRMWARE / "cases.hpp").read_text(),
        "model/model.cpp": PROGRAM.read_text().replace("    HIL_SHAPES", calls),
        "firmware/main.cpp": (FIRMWARE / "board.cpp").read_text(),
    }
    image = build(sources, board, cache_dir=default_cache_dir(), log=lambda _: None)
    logs = image.project_dir / "logs"
    logs.mkdir(exist_ok=True)
    numbers = NUMBERS * len(SHAPES)
    count, data, deadline = 4 * (numbers + 2 * len(WINDOWS)), b"", time.monotonic() + DEADLINE_S
    with (
        simulated.connect(board, Session(image.load_path, logs)) as device,
        serial.serial_for_url(device.port, board.baud, timeout=0.2) as port,
    ):
        while len(data) < count and time.monotonic() < deadline:
            if not data:
                port.write(b"!")
            data += port.read(count - len(data))
    counts = np.frombuffer(data, "<u4").astype(np.int64)
    found = counts[:numbers].reshape(len(SHAPES), NUMBERS)
    if found[:, 0].any():
        raise SystemExit(f"{board.name}: results of the two layouts differ: {found[:, 0].tolist()}")
    return found[:, 1:], counts[numbers:].reshape(len(WINDOWS), 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--board", action="append", choices=BOARDS)
    args = parser.parse_args()
    print("| channels, plane, stride | board | depthwise: planes | innermost | copies: planes | innermost | both: planes | innermost |")  # fmt: skip # noqa: E501
    print("|---|---|---|---|---|---|---|---|")
    windows: list[str] = []
    for name in args.board or BOARDS:
        rows, copies = measured(load_boards().board(name))
        for (channels, height, width, stride), row in zip(SHAPES, rows.tolist(), strict=True):
            cells = [*row, row[0] + row[2], row[1] + row[3]]
            shape = f"{channels}, {height} x {width}, {stride}"
            print(f"| {shape} | {name} | {' | '.join(f'{cell:,}' for cell in cells)} |", flush=True)
        for (channels, side, stride), (planes, innermost) in zip(WINDOWS, copies.tolist(), strict=True):
            elements = 9 * channels * ((side - 1) // stride + 1) ** 2
            cells = [
                f"{cycles:,} | {2 * cycles / elements:.1f}" if cycles else "no kernel |"
                for cycles in (planes, innermost)
            ]
            windows.append(f"| {channels}, {side} x {side}, {stride} | {name} | {' | '.join(cells)} |")
    print("\n| 3 x 3 over channels, plane, stride | board | copies: planes | an element | innermost | an element |")
    print("|---|---|---|---|---|---|")
    print("\n".join(windows))


if __name__ == "__main__":
    main()
