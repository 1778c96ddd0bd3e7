"""The gate: a pin of the board that is high while an inference is computed, once for each sample."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.boards_under_test import EMULATED
from tests.wire_bench import Collected, powered, run_session, tiny_bench
from tinyhil.harness.boards.connection import PINS
from tinyhil.harness.mlperf.performance import edges
from tinyhil.harness.wire import protocol
from tinyhil.harness.wire.stream import Options

SAMPLES = 9
AROUND = 400  # cycles from an edge to the counter beside it, both together; the first may fill caches
JITTER = 16  # cycles by which that may differ where an emulator sees edges by blocks of code; none where it is exact


@pytest.mark.parametrize("name", EMULATED)
def test_it_is_high_once_for_each_sample(name: str, tmp_path: Path) -> None:
    bench, collected = tiny_bench(name, tmp_path, SAMPLES), Collected()
    assert bench.board.gate is not None
    with powered(bench, tmp_path, watch_pins=True) as device:
        options = Options(mode=protocol.QUIET)
        stats = run_session(bench, device, device.port, options, collected.take, device.banner_s)
        device.finish()
    collected.check(bench, stats)
    found = edges(tmp_path / PINS, bench.board.gate)
    assert [high for _, high in found] == [True, False] * SAMPLES
    widths = [fall - rise for (rise, _), (fall, _) in zip(found[::2], found[1::2], strict=True)]
    ticks = [collected.results[sample].ticks for sample in range(SAMPLES)]
    around = [width - inside for width, inside in zip(widths, ticks, strict=True)]
    assert all(0 < one < AROUND for one in around), around
    assert max(around[1:]) - min(around[1:]) <= (0 if bench.board.chip.core == "avr" else JITTER)


def test_every_emulated_chip_is_there() -> None:
    assert {"uno", "due", "h747", "nucleo_l4r5"} <= set(EMULATED)
