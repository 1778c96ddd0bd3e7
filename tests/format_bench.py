"""Vectors for element types and functions: one table of operations runs on the desktop and on every emulated board."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import serial
from boards_under_test import SESSION
from direct_build import direct_build
from stack_check import connected

from tinyhil.harness.build.image import check_fits
from tinyhil.harness.build.pipeline import project_sources
from tinyhil.harness.settings.config import BoardSpec

ROOT = Path(__file__).resolve().parent.parent
FIRMWARE = ROOT / "tests" / "firmware_formats"
NATIVE_PAIRS, BOARD_PAIRS = 255, 16  # in one message
ANSWER = np.dtype([("code", "<u4"), ("saturations", "u1")])
COMPILE = (
    *("g++", "-std=gnu++14", "-O0", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off", "-DHIL_CHIP_HOST"),
    *("-fsanitize=undefined", "-fno-sanitize-recover=all", "-fno-exceptions", "-fno-rtti"),
)
DEADLINE_S = 1200.0


@dataclass(frozen=True)
class Vectors:
    """An operation, as C++ instantiates it in namespace vectors, with the codes it runs on and what it must give.

    For dot products a and b are (sums, terms) with terms <= 16, otherwise flat.
    """

    operation: str
    a: np.ndarray
    b: np.ndarray
    codes: np.ndarray
    saturations: np.ndarray

    @property
    def is_sum(self) -> bool:
        return self.a.ndim == 2


def cases_header(cases: Sequence[Vectors]) -> str:
    """model/cases.hpp: sums last."""
    rows = "\n".join(f"    {case.operation},  // {index}" for index, case in enumerate(cases))
    first_sum = sum(not case.is_sum for case in cases)
    assert [case.is_sum for case in cases] == [False] * first_sum + [True] * (len(cases) - first_sum)
    return f"""#include "model/vectors.hpp"
namespace vectors {{
static const Operation operations[] = {{
{rows}
}};
constexpr uint8_t first_sum = {first_sum};

void respond(uint8_t index, const Pair *pairs, uint8_t count) {{
    const uint8_t step = index < first_sum ? 1 : count;
    for (uint8_t i = 0; i < count; i = static_cast<uint8_t>(i + step)) {{
        hil::saturations = 0;
        const uint32_t result = operations[index](pairs + i, step);
        answer(result, static_cast<uint8_t>(hil::saturations));
    }}
}}
}}
"""


def messages(index: int, case: Vectors, most: int) -> list[tuple[bytes, int]]:
    """(message, answers expected) for every part of a case."""
    pairs = np.stack([case.a, case.b], axis=-1).astype(np.int64).astype("<u4")
    parts = list(pairs) if case.is_sum else [pairs[i : i + most] for i in range(0, len(pairs), most)]
    return [(bytes((index, len(part))) + part.tobytes(), 1 if case.is_sum else len(part)) for part in parts]


def first_difference(cases: Sequence[Vectors], data: bytes) -> str:
    """A description of the first wrong answer; empty if all are right."""
    answers = np.frombuffer(data, ANSWER)
    for case in cases:
        got, answers = answers[: len(case.codes)], answers[len(case.codes) :]
        wrong = (got["code"] != case.codes.astype(np.uint32)) | (got["saturations"] != case.saturations)
        if wrong.any():
            i = int(np.argwhere(wrong)[0, 0])
            count = int(wrong.sum())
            return (
                f"{case.operation}: {count} of {len(wrong)} wrong, first {i}: a {case.a[i]} b {case.b[i]}: "
                f"{got[i]}, not ({case.codes[i]}, {case.saturations[i]})"
            )
    assert len(answers) == 0
    return ""


def run_natively(cases: Sequence[Vectors], folder: Path) -> str:
    sources = _sources(cases) | {"main.cpp": (FIRMWARE / "stdio.cpp").read_text()}
    for name, text in sources.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    command = [*COMPILE, "-I", str(folder), "-I", str(ROOT), "model/model.cpp", "main.cpp", "-o", "vectors"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:3000]
    data = b"".join(m for index, case in enumerate(cases) for m, _ in messages(index, case, NATIVE_PAIRS))
    ran = subprocess.run([str(folder / "vectors")], input=data, capture_output=True, timeout=DEADLINE_S)
    assert ran.returncode == 0, ran.stderr.decode()[:2000]
    return first_difference(cases, ran.stdout)


def run_on_board(cases: Sequence[Vectors], board: BoardSpec, cache_dir: Path) -> str:
    sources = {name: text for name, text in project_sources([board]).items() if name not in SESSION}
    sources |= _sources(cases) | {"firmware/main.cpp": (FIRMWARE / "board.cpp").read_text()}
    image = direct_build(sources, board, cache_dir)
    check_fits(image, board)
    log_dir = image.project_dir / "logs"
    log_dir.mkdir(exist_ok=True)
    deadline = time.monotonic() + DEADLINE_S
    data = b""
    with (
        connected(board, image, log_dir) as device,
        serial.Serial(device.port, board.baud, timeout=2.0) as port,
    ):
        _synchronize(port, deadline)
        for index, case in enumerate(cases):
            for message, answers in messages(index, case, BOARD_PAIRS):
                port.write(message)
                answer = port.read(answers * ANSWER.itemsize + 2)
                device.alive()
                assert answer[answers * ANSWER.itemsize :] == b"\xa5\0", f"{board.name}: no answer to {case.operation}"
                assert time.monotonic() < deadline, f"{board.name}: too slow"
                data += answer[:-2]
    return first_difference(cases, data)


def _synchronize(port: serial.Serial, deadline: float) -> None:
    """Empty messages are two zeros: one at a time until the board answers, twice, so that no half of one is left."""
    port.timeout = 0.3
    for _ in range(2):
        while port.read_until(b"\xa5\0") != b"\xa5\0":
            assert time.monotonic() < deadline, "the board does not answer"
            port.write(b"\0")
    port.timeout = 5.0


def _sources(cases: Sequence[Vectors]) -> dict[str, str]:
    return {
        "model/model.hpp": "#pragma once\n",
        "model/vectors.hpp": (FIRMWARE / "vectors.hpp").read_text(),
        "model/model.cpp": cases_header(cases),
    }
