"""`hil run` as a whole: all test windows on every board, budgets, exact figures, and runs without data."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from boards_under_test import EMULATED, each
from given_data import needs_set
from hil_command import hil, record_of
from wire_bench import ROOT

from tinyhil.errors import DoesNotFit
from tinyhil.harness.build.toolchain import default_cache_dir
from tinyhil.harness.job.job import Request
from tinyhil.harness.measure.run import Outcome, run
from tinyhil.harness.settings.config import load_boards

WINDOWS = 950  # test part of the subset
SHIPPED = 119  # of them, with the package
UNO_RAM_BYTES, UNO_FLASH_BYTES = 1024, 24 * 1024
FIGURES = ROOT / "tests" / "golden" / "figures.json"
FIGURE_WINDOWS = 4


def run_har(board: str, folder: Path, *more: object) -> dict[str, Any]:
    return record_of(hil("run", "--board", board, "--model", "fastgrnn_har", "--json", *more, cwd=folder))


def check_all_equal(record: dict[str, Any], samples: int) -> None:
    assert record["data"]["source"] == ("subset" if samples > SHIPPED else "bundled")
    assert record["samples"] == record["equal_samples"] == samples
    assert record["bit_exact"] is True
    assert record["link"]["damaged_frames"] == record["link"]["rx_overruns"] == 0


ALL = [needs_set("har6"), pytest.mark.slow]


@pytest.mark.parametrize(
    ("format_", "board", "samples"),
    [
        pytest.param("fixed16", "host", WINDOWS, marks=needs_set("har6")),
        ("fixed16", "due", SHIPPED),
        ("fixed8", "host", SHIPPED),
        ("fixed8", "h747", 60),
        pytest.param("fixed16", "due", WINDOWS, marks=ALL),
        pytest.param("fixed16", "h747", WINDOWS, marks=ALL),
        pytest.param("fixed8", "due", WINDOWS, marks=ALL),
        pytest.param("fixed8", "h747", WINDOWS, marks=ALL),
    ],
)
def test_all_windows(format_: str, board: str, samples: int, tmp_path: Path) -> None:
    record = run_har(board, tmp_path, "--format", format_, "--samples", samples)
    check_all_equal(record, samples)
    if format_ == "fixed16":
        assert abs(record["accuracy"] - record["float_accuracy"]) <= 0.005
        assert record["float_accuracy"] >= 0.86  # 0.91 of all


@pytest.mark.parametrize(("format_", "samples"), [("fixed16", 30), ("fixed8", 10)])
def test_windows_on_the_uno(format_: str, samples: int, tmp_path: Path) -> None:
    record = run_har("uno", tmp_path, "--format", format_, "--samples", samples)
    check_all_equal(record, samples)
    check_uno_budget(record)


@needs_set("har6")
@pytest.mark.slow
@pytest.mark.parametrize("format_", ["fixed16", "fixed8"])
def test_all_windows_on_the_uno(format_: str, tmp_path: Path) -> None:
    record = run_har("uno", tmp_path, "--format", format_, "--samples", WINDOWS)
    check_all_equal(record, WINDOWS)
    check_uno_budget(record)
    if format_ == "fixed16":
        assert abs(record["accuracy"] - record["float_accuracy"]) <= 0.005


def check_uno_budget(record: dict[str, Any]) -> None:
    memory = record["memory"]
    assert memory["stack_bytes"] > 60
    assert memory["total_bytes"] < UNO_RAM_BYTES
    assert record["flash_bytes"] < UNO_FLASH_BYTES


def test_nothing_is_built_twice(tmp_path: Path) -> None:
    first = run_har("due", tmp_path, "--samples", 21)
    second = run_har("due", tmp_path, "--samples", 20)
    assert second["provenance"]["image_rebuilt"] is False
    assert second["provenance"]["elf_sha256"] == first["provenance"]["elf_sha256"]
    assert second["raw"]["ticks"] == first["raw"]["ticks"][:20]


@pytest.mark.parametrize("asked", [None, "synthetic"])
def test_a_run_without_network_scores_what_ships(asked: str | None, tmp_path: Path) -> None:
    nowhere = "http://127.0.0.1:9"  # the discard port: nobody answers
    done = hil(
        *("run", "--board", "host", "--model", "fastgrnn_har", *(("--samples", 30) if asked else ()), "--json"),
        cwd=tmp_path,
        HIL_DATA=asked,
        HIL_CACHE=str(tmp_path / "cache"),
        HIL_OFFLINE="",  # else nobody is asked
        http_proxy=nowhere,
        https_proxy=nowhere,
    )
    record = record_of(done)
    if asked:
        assert record["accuracy"] is record["float_accuracy"] is None
        assert (record["data"]["source"], record["bit_exact"], record["samples"]) == ("synthetic", True, 30)
        (line,) = (line for line in done.stderr.splitlines() if "synthetic" in line)
        assert "accuracy is not available" in line
    else:
        assert (record["data"]["source"], record["bit_exact"], record["samples"]) == ("bundled", True, 119)
        assert record["accuracy"] == pytest.approx(record["float_accuracy"], abs=0.02)
        assert record["accuracy"] > 0.85
        (line,) = (line for line in done.stderr.splitlines() if "ship with tinyhil" in line)
        (waits,) = (line for line in done.stderr.splitlines() if "asking archive.ics.uci.edu" in line)
        assert "2 s" in waits
    assert "HIL_DATA" in line


# ---- without data: seeded walks through the model of the zoo ----


@pytest.fixture(scope="session")
def walks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("walks") / "walks.npz"
    steps = np.random.default_rng(3).normal(0, 0.3, (40, 128, 9))
    np.savez(path, x=(np.cumsum(steps, axis=1) / 5).astype(np.float32))
    return path


@pytest.fixture(scope="session")
def measure(walks: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Outcome]:
    results = tmp_path_factory.mktemp("results")

    def get(board: str, samples: int, **options: Any) -> Outcome:
        request = Request(board, "fastgrnn_har", inputs=walks, samples=samples, results=results, **options)
        return run(request, load_boards(), default_cache_dir(), lambda line: None, lambda done, total: None)

    return get


FIRST = (("uno", "fixed16"), ("due", "fixed8"))  # the others are slow
PAIRS = [(board, format_) for board in EMULATED for format_ in ("fixed16", "fixed8")]


@pytest.mark.parametrize(
    ("board", "format_"), [pair if pair in FIRST else pytest.param(*pair, marks=pytest.mark.slow) for pair in PAIRS]
)
def test_streamed_equals_whole_windows(board: str, format_: str, measure: Callable[..., Outcome]) -> None:
    """Step by step where that saves RAM, and always on the Uno; else whole: the same integers, in both modes."""
    host = measure("host", 6, format=format_)
    assert not host.compiled.transfers["host"].streamed
    for mode, prefer in (("quiet", "balanced"), ("stream", "latency")):
        found = measure(board, 6, format=format_, mode=mode, prefer=prefer)
        assert found.compiled.transfers[board].streamed == (board == "uno" or prefer == "balanced")
        assert (found.outputs == host.outputs).all()
        assert (found.saturations == host.saturations).all()
    assert (host.outputs == host.reference.outputs).all()


@pytest.mark.parametrize("board", each(EMULATED))
def test_time_of_a_sample_does_not_depend_on_the_run(board: str, measure: Callable[..., Outcome]) -> None:
    """Quiet mode on an emulator: exact, whatever the wire's speed and however busy this computer is."""
    first = measure(board, 3)
    first.partial.discard()  # what is resumed begins with cold caches
    again = measure(board, 3)
    again.partial.discard()
    assert (again.ticks == first.ticks).all()
    assert (measure(board, 3, uart="true").ticks == first.ticks).all()


@pytest.mark.parametrize("board", each(EMULATED))
def test_figures(board: str, measure: Callable[..., Outcome], request: pytest.FixtureRequest) -> None:
    """Exact sizes and times for the compiler they were taken with; they change only with the code."""
    found: dict[str, Any] = {}
    for format_ in ("fixed16", "fixed8"):
        outcome = measure(board, FIGURE_WINDOWS, format=format_)
        found[format_] = {
            "ticks": outcome.ticks.tolist(),
            "instructions": [trace.instructions for trace in outcome.traces],
            "flash_bytes": outcome.image.flash_bytes,
            "static_bytes": outcome.image.static_bytes,
            "arena_bytes": outcome.compiled.plan.peak_bytes,
        }
        compiler = f"{outcome.image.compiler.name} {outcome.image.compiler.version}"
        if board == "uno":
            assert outcome.image.static_bytes + (outcome.stats.stack_bytes or 0) < UNO_RAM_BYTES
    golden = json.loads(FIGURES.read_text()) if FIGURES.is_file() else {}
    if request.config.getoption("--update-golden", False):
        golden[board] = {compiler: found}
        write_figures(golden)
    if compiler not in golden[board]:
        pytest.skip(f"no figures for {compiler}: {', '.join(golden[board])}")
    assert found == golden[board][compiler], "read the change, then pytest --update-golden"


def write_figures(golden: dict[str, Any]) -> None:
    partial = FIGURES.with_suffix(f".{os.getpid()}")
    partial.write_text(json.dumps(golden, indent=1, sort_keys=True) + "\n")
    partial.replace(FIGURES)


@pytest.mark.parametrize(("board", "limit"), [("due", 10_000), ("uno", 1000)])
def test_a_counter_of_an_emulated_board_that_goes_round_is_refused(
    board: str, limit: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if it had few bits: by the trace of each sample, or by all that the emulator has executed."""
    request = Request(board, "digits_mlp", samples=3, format="fixed8", results=tmp_path)
    monkeypatch.setattr("tinyhil.harness.wire.stream.COUNTER_TICKS", limit)
    with pytest.raises(DoesNotFit, match=rf"{board}: .*sample.* took \d+ cycles, but the board counts {limit}"):
        run(request, load_boards(), default_cache_dir(), print, lambda done, total: None)
    assert not [path for path in tmp_path.rglob("*.partial.jsonl") if path.read_bytes()]
