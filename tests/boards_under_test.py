"""Sets of boards that tests run over, from boards.yaml: a new chip that our emulators know is in them by itself."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from tinyhil.harness.settings.config import BoardSpec, load_boards

BOARDS = load_boards()
SESSION = ("firmware/main.cpp", "firmware/wire/session.cpp")  # what a program of a test stands in place of


def _one_of_each_chip() -> dict[str, BoardSpec]:
    """Boards that a program of ours emulates; of those whose chips are alike and run the same firmware, the first."""
    found: dict[str, BoardSpec] = {}
    for board in BOARDS.entries.values():
        if board.chip.emulator is not None and board.chip.emulator.kind == "process":
            found.setdefault(board.chip.hal, board)
    return {board.name: board for board in found.values()}


SPECS = _one_of_each_chip()
EMULATED = tuple(SPECS)
EVERY = ("host", *EMULATED)
FLASHED = tuple(name for name, board in SPECS.items() if board.chip.emulator and board.chip.emulator.loader_args)
UF2 = tuple(name for name in FLASHED if SPECS[name].chip.uf2_family)  # boot loaders that are drives
SMALLEST = min(SPECS, key=lambda name: SPECS[name].chip.ram_bytes or 0)
ARM = tuple(name for name, board in SPECS.items() if board.chip.compiler == "arm-none-eabi-gcc")


# Cores that run the kernels of another one, the M0+ those of the desktop: whole in the slow suite only
LIKE_ANOTHER = {"cortex-m4": "cortex-m7", "cortex-m33": "cortex-m7", "cortex-m0plus": "host"}


def by_compiler(names: Iterable[str]) -> list[Any]:
    """For parametrize: the first board of every compiler, and the others marked as slow."""
    names = tuple(names)
    compilers = [BOARDS.board(name).chip.compiler for name in names]
    first = {compiler: name for name, compiler in reversed([*zip(names, compilers, strict=True)])}
    return [name if name in first.values() else pytest.param(name, marks=pytest.mark.slow) for name in names]


def each(names: Iterable[str]) -> list[Any]:
    """For parametrize: the boards, those whose core runs another's kernels marked as slow."""
    names = tuple(names)
    shared = {name for name in names if name in SPECS and SPECS[name].chip.core in LIKE_ANOTHER}
    return [pytest.param(name, marks=pytest.mark.slow) if name in shared else name for name in names]
