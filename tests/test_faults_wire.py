"""A fault campaign on the wire: whatever happens to its bytes, no result is lost, wrong or counted twice.

Every test streams over a line that damages both directions. Each result is compared with the reference, each sample
must be reported exactly once, and the board's totals and its CRC-32 over all outputs must agree (`Collected.check`).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from boards_under_test import EMULATED, EVERY
from wire_bench import FAULTS, Bench, Collected, FaultyWire, make_bench, powered, run_session, tiny_bench

from tinyhil.harness.wire.protocol import QUIET, STREAM
from tinyhil.harness.wire.stream import Options


@dataclass(frozen=True, slots=True)
class Case:
    """`rate`: of each of `kinds` per byte, both ways. `har`: windows of fastgrnn_har, else the tiny model."""

    board: str
    kinds: tuple[str, ...]
    rate: float
    samples: int
    mode: int = QUIET
    har: bool = False
    seed: int = 1

    @property
    def name(self) -> str:
        what = "mixed" if self.kinds == FAULTS else "+".join(self.kinds)
        return f"{self.board}-{what}-{self.rate:g}-{('quiet', 'stream')[self.mode]}{'-har' if self.har else ''}"


QUICK = (
    *(Case("host", (kind,), 1e-2, 30) for kind in FAULTS),
    Case("host", FAULTS, 2e-3, 150, STREAM),  # 1e-2 in all
    Case("uno", FAULTS, 2e-3, 100),
    Case("uno", FAULTS, 5e-4, 4, har=True),
    Case("due", FAULTS, 2e-3, 60, STREAM),
    Case("h747", FAULTS, 2e-3, 60),
)
WHOLE = (
    *(
        Case(board, (kind,), rate, 400 if rate < 5e-3 else 150, mode)
        for board in EVERY
        for kind in FAULTS
        for rate in (1e-3, 1e-2)
        for mode in (QUIET, STREAM)
    ),
    *(Case(board, FAULTS, 1e-2, 60, STREAM, seed=2) for board in EVERY),
    *(Case(board, FAULTS, 1e-3, 12, mode, har=True) for board in EMULATED for mode in (QUIET, STREAM)),
)


def names(cases: tuple[Case, ...]) -> list[str]:
    return [case.name for case in cases]


def bench_of(case: Case, folder: Path) -> Bench:
    if not case.har:
        return tiny_bench(case.board, folder, case.samples)
    steps = np.random.default_rng(3).normal(0, 0.3, (case.samples, 128, 9))
    return make_bench(case.board, "fastgrnn_har", np.cumsum(steps, axis=1).astype(np.float32) / 5)


def endure(case: Case, folder: Path) -> None:
    bench, collected = bench_of(case, folder), Collected()
    with powered(bench, folder) as device, FaultyWire(device.port, case.rate, case.seed, case.kinds) as wire:
        stats = run_session(bench, device, wire.port, Options(case.mode, deadline_s=60), collected.take)
    collected.check(bench, stats)
    for kind in case.kinds:
        assert wire.happened[kind] > 0, wire.happened
    expected = wire.passed * case.rate * len(case.kinds)
    assert 0.5 * expected < sum(wire.happened.values()) < 2 * expected


@pytest.mark.parametrize("case", QUICK, ids=names(QUICK))
def test_a_sample_of_the_campaign(case: Case, tmp_path: Path) -> None:
    endure(case, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("case", WHOLE, ids=names(WHOLE))
def test_the_whole_campaign(case: Case, tmp_path: Path) -> None:
    endure(case, tmp_path)
