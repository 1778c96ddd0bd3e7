"""The papers' experiments: every one runs in a cut-down form, is kept cell by cell, and its page says what was kept."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from given_data import SETS, needs_set

from benchmarks.papers import pages, record
from benchmarks.papers.__main__ import main
from benchmarks.papers.embedded import ALEXNET
from benchmarks.papers.minun.facts import LIMITS, NETWORKS, NOT_AT_HAND, SEEDOT
from benchmarks.papers.minun.networks import ROWS, cr62
from benchmarks.papers.minun.saved_networks import file_of
from benchmarks.papers.paper import Cell, Paper, Row
from benchmarks.papers.registry import PAPERS
from tinyhil.data import load
from tinyhil.errors import DataError
from tinyhil.harness.job.job import open_model
from tinyhil.references.evaluate import evaluate
from tools.stale import unmarked
from tools.zoo_table import LIMIT_BYTES

SOURCE = {"commit": "0" * 40, "utc": "2026-01-01T00:00:00Z"}


PHOTOS = ("models/squeezenet1_1.onnx", "large/imagenet_sample1000_jpeg.npz")
READ_BY = {  # what the cut-down forms read that does not ship
    "minun": (),
    "embedded": (*SETS["mnist"], *SETS["cifar10"]),
    "faces": ("large/faces_qvga_jpeg.npz",),
    "fp8": (*PHOTOS, "models/yolov5n_320.onnx", "large/coco256_jpeg.npz"),
    "squeezenet": PHOTOS,
}


@pytest.mark.parametrize(
    "paper", [pytest.param(paper, marks=pytest.mark.data(*READ_BY[paper.name]), id=paper.name) for paper in PAPERS]
)
def test_the_cut_down_form_gives_what_was_kept(paper: Paper) -> None:
    """On real data. A cell that the record holds too must give the same row today."""
    committed = record.rows_of(record.read(paper.name))
    rows: dict[str, Row] = {}
    for cell in paper.quick():
        rows[cell.key] = json.loads(json.dumps(cell.measure()))
    assert rows
    assert {key: row for key, row in rows.items() if key in committed} == {
        key: committed[key] for key in rows if key in committed
    }
    assert paper.body(rows)


@pytest.mark.parametrize("paper", PAPERS, ids=lambda paper: paper.name)
def test_pages_are_those_of_the_records(paper: Paper) -> None:
    again = "run: python -m benchmarks.papers --docs"
    assert unmarked((pages.DOCS / f"{paper.name}.md").read_text()) == pages.page(paper), again
    assert (pages.DOCS / "README.md").read_text() == pages.overview(PAPERS), again
    assert all((pages.DOCS / paper.name / f"{name}.svg").is_file() for name in paper.figures), again


@pytest.mark.parametrize("paper", PAPERS, ids=lambda paper: paper.name)
def test_what_is_kept_names_its_commit_and_is_asked_for(paper: Paper) -> None:
    """No cell that its paper no longer has, none from changed files."""
    committed = record.read(paper.name)
    assert set(committed) <= {cell.key for cell in paper.cells()}
    assert all(len(cell["commit"]) == 40 for cell in committed.values())
    for claim in paper.claims:
        assert claim.judge({}).ours  # nothing measured yet


def test_a_killed_run_goes_on_behind_its_last_cell(tmp_path: Path) -> None:
    measured: list[str] = []

    def cells(fatal: str | None) -> Iterator[Cell]:
        for key in ("a", "b", "c"):

            def measure(key: str = key) -> Row:
                if key == fatal:
                    raise KeyboardInterrupt
                measured.append(key)
                if key == "b" and measured.count("b") == 1:
                    raise DataError("not today")
                return {"value": key}

            yield Cell(key, measure)

    def run(fatal: str | None, only: str = "") -> None:
        record.measure("mine", cells(fatal), lambda: SOURCE, lambda line: None, tmp_path, only)

    with pytest.raises(KeyboardInterrupt):
        run("c")
    assert record.rows_of(record.read("mine", tmp_path)) == {"a": {"value": "a"}, "b": {"failed": "not today"}}
    run(None, only="c")
    assert measured == ["a", "b", "c"]
    run(None)
    assert measured == ["a", "b", "c", "b"]
    assert list(record.read("mine", tmp_path)) == ["a", "b", "c"]
    run(None)
    assert len(measured) == 4


def test_a_finished_cell_outlives_a_measurement_that_fails(tmp_path: Path) -> None:
    """Once `--again` without the data left errors in the place of results."""
    values: list[int | None] = [1, None, 2]

    def measure() -> Row:
        value = values.pop(0)
        if value is None:
            raise DataError("no data")
        return {"value": value}

    for commit, (expected, again) in enumerate([(1, None), (1, "a"), (2, "a"), (2, "b")]):
        source = {**SOURCE, "commit": f"{commit}"}
        record.measure("mine", [Cell("a", measure)], lambda now=source: now, lambda line: None, tmp_path, again=again)
        assert record.rows_of(record.read("mine", tmp_path)) == {"a": {"value": expected}}


def test_again_goes_on_behind_what_this_commit_measured(tmp_path: Path) -> None:
    """Whoever kills `--again ''`, a sweep over all cells, calls it once more."""
    said, measured = list[str](), list[str]()

    def cells() -> list[Cell]:
        return [Cell(key, lambda key=key: measured.append(key) or {}) for key in "abc"]

    def run(commit: str, again: str | None) -> None:
        record.measure("mine", cells(), lambda: {"commit": commit}, said.append, tmp_path, again=again)

    run("1", None)
    run("2", "a")
    assert measured == ["a", "b", "c", "a"]
    run("2", "")
    assert measured[4:] == ["b", "c"]
    assert "mine: 1 of 3 cells were measured at this commit already" in said
    more = [*cells(), Cell("d", lambda: measured.append("d") or {})]
    record.measure("mine", more, lambda: {"commit": "3"}, said.append, tmp_path, again="a")
    assert measured[6:] == ["a"], "what is missing is not measured beside it"


def test_the_command_lists_and_refuses(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["papers", "--list"])
    assert main() == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == [paper.name for paper in PAPERS]
    monkeypatch.setattr(sys, "argv", ["papers", "nothing"])
    with pytest.raises(SystemExit, match="2"):
        main()


def test_limits_of_minun_are_the_same_everywhere() -> None:
    for network, limit_bytes in LIMIT_BYTES.items():
        assert LIMITS[NETWORKS[network]][0] == limit_bytes
    assert set(NETWORKS) == set(LIMIT_BYTES) | set(ROWS)
    assert [name for name in ROWS if not file_of(name).is_file()] == []  # of what trains them today
    assert {row for row in LIMITS if row not in NETWORKS.values()} == {row for row in LIMITS if row[1] in NOT_AT_HAND}


@needs_set("cifar10")
def test_the_network_of_alexnets_kind_is_the_file_that_was_measured() -> None:
    """Its ranges belong to it; what the record says of all test pictures holds for the first of them."""
    opened = open_model(str(ALEXNET))
    opened.required_ranges(None)  # ModelError or DataError if they are another model's
    found = load("cifar10")
    assert found.y_test is not None
    x, y = found.x_test[:100], found.y_test[:100]
    session = onnxruntime.InferenceSession(str(ALEXNET))
    theirs = np.concatenate([session.run(None, {"x": one[None]})[0] for one in x])
    assert np.abs(evaluate(opened.model.graph, x).reshape(len(x), -1) - theirs).max() < 1e-3
    row = record.rows_of(record.read("embedded"))["trained/alexnet_cifar"]
    assert float((theirs.argmax(1) == y).mean()) == pytest.approx(row["correct"] / row["samples"], abs=0.13)
    assert row["correct"] > 0.7 * row["samples"]


@pytest.mark.slow
@pytest.mark.usefixtures("pytorch")
@pytest.mark.data("small/chars62.npz")
def test_samples_far_from_all_prototypes_teach_too() -> None:
    """62 characters of street images: trained by kernels alone, three of four prototypes are of no use."""
    from models.training import protonn
    from models.training.fit import Schedule

    (x, y), (x_test, y_test) = cr62()
    right = {}
    for relative in (False, True):
        recipe = protonn.Recipe(20, 74, 62, relative=relative, shift=1, schedule=Schedule(60, label_smoothing=0.1))
        found = protonn.train(x.reshape(len(x), -1), y, recipe)
        z = x_test.reshape(len(x_test), -1) @ found.projection + found.bias
        kernels = np.exp(-found.gamma_squared * ((z[:, None] - found.prototypes) ** 2).sum(2))
        right[relative] = float((np.argmax(kernels @ found.labels, 1) == y_test).mean())
    assert right[True] > SEEDOT["ProtoNN", "cr-62"].float_percent / 100
    assert right[True] > right[False] + 0.1
