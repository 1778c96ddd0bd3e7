"""`make tables ALL=1`: each generator that it names starts and asks for a clean tree; each committed table has one."""

from __future__ import annotations

import json
import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from given_data import the_zoo

from benchmarks.zoo import accuracy
from tools import measured
from tools.engines_table import PUBLISHED_MS, published, sentence
from tools.measured import read

ROOT = Path(__file__).resolve().parent.parent
MAKEFILE = (ROOT / "Makefile").read_text().replace("\\\n", " ")
(LONG,) = re.findall(r"^LONG_TABLES := (.*)$", MAKEFILE, re.MULTILINE)
COMMANDS = [*re.findall(r"\$\(BIN\)/python -m ((?:tools|benchmarks)\.[\w ]+?)(?= &&|$)", MAKEFILE, re.MULTILINE)]
COMMANDS += [f"benchmarks.{line}" for line in shlex.split(LONG)]
# Pages are made of tables, papers and accelerators measure what is missing only, README's example is a run.
NO_TABLE = (
    "tools.claims",
    "tools.docs",
    "tools.examples",
    "tools.format_plots",
    "tools.mutate",
    "tools.readme_run",
    "benchmarks.papers",
)
WRITES = {
    "results/formats.json": "tools.tables",
    "results/zoo.json": "benchmarks.zoo accuracy",
    "results/calibration.json": "benchmarks.calibration",
    "results/unsigned.json": "benchmarks.unsigned",
    "results/wake_words.json": "benchmarks.wake_words --write",
    "results/onnx_backend.json": "benchmarks.onnx_backend --write",
    "results/networks.json": "benchmarks.peers",
    "results/engines.json": "benchmarks.engines",
    "results/fit_points.json": "benchmarks.latency_table --measure",
    "results/peers.json": "benchmarks.peers_models --measure",
    "results/sweep_scaling.json": "benchmarks.sweep_scaling",
    "results/passes.json": "benchmarks.passes",
    "results/language_models.json": "benchmarks.language_models",
    "results/sequence_models.json": "benchmarks.sequence_models",
    "results/search/op_costs.json": "benchmarks.op_costs",
    "results/search/": "benchmarks.search",
    "results/training/": "benchmarks.training --all",
    "results/papers/": "benchmarks.papers",
    "results/reram/": "benchmarks.reram",
    "docs/formats/": "tools.format_plots",
    "docs/papers/": "benchmarks.papers",
    "docs/reram/": "benchmarks.reram pages",
    "docs/training/": "benchmarks.training --all",
    "docs/sweep_scaling.svg": "benchmarks.sweep_scaling",
}
# A picture of a screen; `hil golden update`; `make claims`.
BY_HAND = ("docs/report.png", "results/README.md", "results/golden/", "results/attention/", "results/stale.json")


class Started(Exception):
    """Instead of what takes hours."""


@pytest.mark.parametrize(
    "command", [one for one in COMMANDS if not one.startswith(NO_TABLE) and "--page" not in one and "pages" not in one]
)
def test_every_generator_starts_with_a_look_at_the_tree(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def start() -> None:
        raise Started

    module, *arguments = command.split()
    monkeypatch.setattr(measured, "provenance", start)
    monkeypatch.setattr(sys, "argv", [module, *arguments])
    with pytest.raises(Started):
        runpy.run_module(module, run_name="__main__", alter_sys=True)


def test_every_committed_table_and_picture_has_a_generator() -> None:
    command = ["git", "ls-files", "results", "docs/*.svg", "docs/*.png", "docs/**/*.svg"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    assert len(listed) > 40
    assert not [name for name in listed if not name.startswith((*WRITES, *BY_HAND))]
    assert not [name for name in WRITES if not any(one.startswith(name) for one in listed)]
    assert set(WRITES.values()) <= set(COMMANDS)


def test_every_marked_table_has_a_generator() -> None:
    """Pages with tables between markers are written by a command, the ones that `tools.docs` does not make by name."""
    from tools.docs import PAGES

    marked = {str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md") if " begin -->" in path.read_text()}
    # benchmarks.search, .reram, .attention, .sequence_models and .farm know them
    own = {"docs/measured/search.md", "docs/reram.md", "docs/measured/attention.md", "docs/sequence_models.md"}
    own |= {"docs/sweep.md"}
    assert not [page for page in marked - own if page not in PAGES and page not in LONG]


TABLES = [
    path
    for folder in (".", "search", "training")
    for path in sorted((ROOT / "results" / folder).glob("*.json"))
    if path.name != "stale.json"
]


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.stem)
def test_tables_say_which_commit_was_measured(path: Path) -> None:
    table = json.loads(path.read_text())
    measured_at = table["provenance"]
    assert re.fullmatch(r"[0-9a-f]{40}( [0-9a-f]{40})*", measured_at.get("commit") or measured_at["committed_with"])
    assert len(table) > 1
    assert all(table.values())
    found = table.get("rows", [])
    rows = [*found.values()] if isinstance(found, dict) else found
    if all(isinstance(row, dict) for row in rows):  # a rival that was not installed left its columns empty
        assert {head for row in rows for head in row} == {head for row in rows for head in row if row[head] is not None}


@pytest.mark.slow
@pytest.mark.parametrize("name", the_zoo())
def test_the_zoo_is_as_its_table_says(name: str) -> None:
    """Accuracies by the host engine and arenas, both as they are today."""
    known = read("zoo").get(name)
    if known is None:
        pytest.skip(f"{name}: not in the table, its weights are not part of the project")
    assert accuracy(name) == known, "measure them again: python -m benchmarks.zoo accuracy, python -m tools.docs"


def test_readme_quotes_the_table_of_engines() -> None:
    """What README says beside engines of others is computed from the rows that docs/measured/peers.md shows."""
    said = sentence(read("engines"))
    assert "times our cycles; fewer than ours in" in said
    assert said in " ".join((ROOT / "README.md").read_text().split())


def test_published_milliseconds_lie_within_the_band_of_the_table() -> None:
    """Of TinyMaix on an STM32H750, whose core and caches the emulated STM32H747 has."""
    found = published(read("engines"))
    assert [row["network"] for _, row in found] == list(PUBLISHED_MS)
    assert all(row["low"] <= theirs <= row["high"] for theirs, row in found)


def row(network: str, board: str, engine: str, commit: str, cycles: float = 1.0) -> dict[str, object]:
    where = {"network": network, "board": board, "engine": engine}
    return {"commit": commit, **where, "why": "", "first": "", "cycles": cycles}


def test_the_sweep_of_engines_goes_on_where_it_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are put into what another process has written since; only what is lacking or has changed is asked again."""
    from benchmarks import engines

    monkeypatch.setattr(measured, "RESULTS", tmp_path)
    monkeypatch.setattr(engines, "RESULTS", tmp_path)
    now = {"utc": "2026-11-28T00:00:00Z", "commit": measured._git("rev-parse", "HEAD").strip()}
    of = engines.Network("of", None, tmp_path / "of.onnx", boards=("uno", "due"))
    assert of.engines == ("tinyhil", "onnx2c", "emlearn")
    old, gone = measured._git("rev-list", "--max-count=1", "--before=2026-11-27", "HEAD").strip(), "0" * 40
    held = [row("of", "uno", name, now["commit"]) for name in of.engines]
    engines.keep(lambda rows: [*rows, *held, row("of", "due", "onnx2c", old), row("of", "due", "emlearn", gone)], now)
    assert engines.missing(of, "uno", engines.known(), again=True) == ()
    assert engines.missing(of, "due", engines.known(), again=False) == ("tinyhil",)
    assert engines.missing(of, "due", engines.known(), again=True) == of.engines
    engines.keep(lambda rows: [*rows, row("of", "due", "onnx2c", now["commit"], 2.0)], now)  # another process
    engines.keep(lambda rows: engines._with_first(of, {"onnx2c": "first"}, rows), now)
    found = [(one["board"], one["engine"], one["cycles"], one["first"]) for one in engines.known()]
    assert found[3:] == [("due", "onnx2c", 2.0, "first"), ("due", "emlearn", 1.0, "")]
    assert [one[:2] for one in found[:3]] == [("uno", name) for name in of.engines]
    assert json.loads((tmp_path / "engines.json").read_text())["provenance"]["commit"].split() == [now["commit"], gone]

    other = tmp_path / "other.json"
    rows = [row("of", "due", "emlearn", now["commit"], 3.0), row("of", "due", "onnx2c", gone, 4.0)]
    other.write_text(json.dumps({"provenance": now, "rows": rows}))
    monkeypatch.setattr(engines, "provenance", lambda: now)
    monkeypatch.setattr(sys, "argv", ["benchmarks.engines", "--merge", str(other)])
    engines.main()
    assert [one["cycles"] for one in engines.known()][3:] == [2.0, 3.0]  # what is of other sources stays away
