"""Whether rows pay: what is preferred decides, and what a board has."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest
from onnx_models import compiled, load, samples_for
from test_rows import Chain, digits, mobile

from tinyhil.memplan.arena.placement import Placements, placements
from tinyhil.memplan.arena.placement_preference import preferred
from tinyhil.memplan.arena.row_costs import WORTH, time_lost
from tinyhil.preference import PREFERENCES

LARGE = 512 << 10


def placed(chain: Chain, folder: Path) -> Placements:
    loaded = load(chain.model(), folder)
    return placements(compiled(loaded, samples_for(loaded.shapes["x"]), "fixed8"))


def test_rows_where_they_are_wanted(tmp_path: Path) -> None:
    found = placed(digits(), tmp_path)
    layers, rows = found.layers.plan.peak_bytes, found.rows.plan.peak_bytes
    assert rows < layers
    assert time_lost(found.rows.program, found.layers.program) > WORTH  # small layers of many rows
    size = found.layers.program.tensors[found.layers.program.input].size_bytes
    cases = [
        ("ram", LARGE, found.rows),
        ("ram", None, found.rows),
        ("latency", LARGE, found.layers),
        ("latency", None, found.layers),
        ("latency", layers + size, found.layers),
        ("latency", layers + size - 1, found.rows),  # only rows fit
        ("balanced", LARGE, found.layers),
        ("balanced", None, found.layers),
        ("balanced", 2 * (layers + size), found.layers),  # half of the RAM is free
        ("balanced", layers + size, found.rows),
        ("balanced", layers + size - 1, found.rows),
    ]
    for prefer, ram_bytes, wanted in cases:
        assert preferred(found, ram_bytes, prefer) is wanted, (prefer, ram_bytes)


def test_a_share_of_the_ram_is_worth_as_much_of_the_time(tmp_path: Path) -> None:
    found = placed(digits(), tmp_path)
    size = found.layers.program.tensors[found.layers.program.input].size_bytes
    lost = [time_lost(option.program, found.layers.program) for option in found.options]
    for ram_bytes in range(found.rows.plan.peak_bytes + size, 5000, 100):
        shares = [max(0.5, (option.plan.peak_bytes + size) / ram_bytes) for option in found.options]
        prices = [time + share for time, share in zip(lost, shares, strict=True)]
        one = preferred(found, ram_bytes, "balanced")
        assert shares[found.options.index(one)] <= 1
        fitting = [price for price, share in zip(prices, shares, strict=True) if share <= 1]
        assert prices[found.options.index(one)] == min(fitting)


def test_rows_that_cost_next_to_no_time_are_taken_where_no_board_is_known(tmp_path: Path) -> None:
    found = placed(mobile(), tmp_path)
    assert found.rows.plan.peak_bytes < found.layers.plan.peak_bytes
    lost = [time_lost(option.program, found.layers.program) for option in found.options]
    assert lost == sorted(lost)
    cheap = [option for option, share in zip(found.options, lost, strict=True) if share <= WORTH]
    assert preferred(found, None, "balanced") is cheap[-1]
    assert preferred(found, LARGE, "balanced") is found.layers  # which nobody would miss there
    wide = placed(Chain(16, 32).conv(32, 3, pad=1).conv(32, 3, pad=1).pool("MaxPool", 2, 2), tmp_path)
    assert wide.rows is not wide.layers
    assert time_lost(wide.rows.program, wide.layers.program) <= WORTH
    assert preferred(wide, None, "balanced") is wide.rows


@pytest.mark.parametrize("prefer", PREFERENCES)
def test_a_program_without_rows_has_one_placement(prefer: str, tmp_path: Path) -> None:
    found = placed(digits(), tmp_path)
    assert preferred(replace(found, options=found.options[:1]), 1, prefer) is found.layers


@pytest.mark.parametrize("name", ["run", "flash", "diff", "profile", "bench"])
def test_who_builds_firmware_takes_all_that_decides_about_it(name: str) -> None:
    """So what `hil run` measured can be flashed, compared and profiled."""
    command = getattr(import_module(f"tinyhil.harness.commands.{name}"), name)
    decides = {"model", "states", "steps", "format_", "assignment", "calibrate", "calibrate_by", "prefer", "ram"}
    assert decides <= {parameter.name for parameter in command.params}
