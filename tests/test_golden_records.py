"""Every golden record under results/golden/ holds: outputs, cycles and bytes, on the board it is of.

A failure names what differs. If the change is meant, `hil golden update` measures all records anew, and
`hil golden update results/golden/<board>/<model>-<format>.json` one of them; the difference is then read in the diff.
"""

from __future__ import annotations

from pathlib import Path
from zlib import crc32

import pytest
from boards_under_test import EMULATED
from wire_bench import ROOT

from tinyhil.harness.build.toolchain import default_cache_dir
from tinyhil.harness.job.zoo import zoo_names
from tinyhil.harness.measure.golden import (
    FOLDER,
    Bench,
    check_golden,
    describe,
    find_golden,
    path_of,
    read_golden,
)
from tinyhil.harness.settings.config import load_boards

RECORDS = find_golden(ROOT / FOLDER)
QUICK_SAMPLES = 2


def model_of(path: Path) -> str:
    return path.stem.split("-", 1)[0]


def quick(paths: list[Path]) -> list[Path]:
    """fastgrnn_har everywhere; of every other model one board and format, chosen by its name."""
    models: dict[str, list[Path]] = {}
    for path in paths:
        models.setdefault(model_of(path), []).append(path)
    chosen = [
        same if model == "fastgrnn_har" else [same[crc32(model.encode()) % len(same)]] for model, same in models.items()
    ]
    return sorted(path for same in chosen for path in same)


def names(paths: list[Path]) -> list[str]:
    return [f"{path.parent.name}-{path.stem}" for path in paths]


def check(path: Path, samples: int | None) -> None:
    bench = Bench(load_boards(), default_cache_dir(), lambda line: None, root=ROOT)
    found = check_golden(path, bench, samples)
    if found.fails:
        pytest.fail(describe(found), pytrace=False)


@pytest.mark.parametrize("path", quick(RECORDS), ids=names(quick(RECORDS)))
def test_the_first_samples_hold(path: Path) -> None:
    check(path, QUICK_SAMPLES)


def test_the_quick_choice_leaves_no_model_out() -> None:
    assert {model_of(path) for path in quick(RECORDS)} == {model_of(path) for path in RECORDS}


@pytest.mark.slow
@pytest.mark.parametrize("path", RECORDS, ids=names(RECORDS))
def test_all_samples_hold(path: Path) -> None:
    check(path, None)


@pytest.mark.parametrize("path", RECORDS, ids=names(RECORDS))
def test_a_record_lies_where_its_order_says(path: Path) -> None:
    order, record = read_golden(path)
    assert path == path_of(order, ROOT / FOLDER)
    assert record["board"] == order.board
    assert record["bit_exact"] is True
    assert len(record["raw"]["outputs"]) == order.samples
    assert order.samples > QUICK_SAMPLES or str(order.inputs).endswith(
        "prompts.txt"
    )  # a prompt is a tale of many steps
    assert not any(str(value).startswith("/") for value in record["order"].values())


def test_the_model_that_make_run_runs_has_a_record_on_every_board() -> None:
    assert "fastgrnn_har" in zoo_names()
    assert {path.parent.name for path in RECORDS if path.stem.startswith("fastgrnn_har-")} >= set(EMULATED)
