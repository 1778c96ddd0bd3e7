"""The pytest plugin as a user's repository has it: a process of its own, in a folder that is not this checkout."""

from __future__ import annotations

import json
import re
import shutil
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import onnx
import pytest
from hil_command import forked_pytest
from onnx import numpy_helper
from wire_bench import make_bench, powered, write_tiny_model

TESTS = """
import pytest


def test_tiny(board):
    record = board.check("models/tiny.onnx", inputs="x.npz", calibrate="x.npz", samples=6)
    assert record["flash_bytes"] > 0


@pytest.mark.hil_boards("due")
def test_only_on_the_due(board):
    raise AssertionError(board.name)


@pytest.mark.hil_physical
def test_only_physical(board):
    assert not board.is_emulated


@pytest.mark.hil_emulated
def test_only_emulated(board):
    assert board.run("models/tiny.onnx", inputs="x.npz", calibrate="x.npz", samples=2).samples == 2


@pytest.mark.parametrize("board", ["mine"])
def test_a_board_of_the_tests_own(board):
    assert board == "mine"
"""
ON_THE_UNO = ("-k", "tiny", "--board", "uno")
GOLDEN = Path("golden/uno/tiny-fixed16.json")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return filled(tmp_path)


def filled(tmp_path: Path) -> Path:
    (tmp_path / "models").mkdir()
    write_tiny_model(tmp_path / "models" / "tiny.onnx")
    np.savez(
        tmp_path / "x.npz",
        x=np.random.default_rng(5).uniform(-1, 1, (20, 1, 32)).astype(np.float32),
        y=np.arange(20) % 4,
    )
    (tmp_path / "test_boards.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --strict-markers -p no:cacheprovider\n")
    return tmp_path


UNUSED = ("-p", "no:hypothesispytest", "-p", "no:anyio")  # other plugins here: a second of processor to load


def run_pytest(project: Path, *arguments: object) -> tuple[int, str]:
    done = forked_pytest("-q", "-rA", "--tb=short", *UNUSED, *arguments, cwd=project)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def first_runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A project whose golden record was missing, which a run said, and was then written."""
    folder = filled(tmp_path_factory.mktemp("held"))
    code, said = run_pytest(folder, *ON_THE_UNO)
    assert code == 1
    assert run_pytest(folder, *ON_THE_UNO, "--hil-update")[0] == 0
    return folder, said


@pytest.fixture
def held(first_runs: tuple[Path, str], tmp_path: Path) -> Path:
    return Path(shutil.copytree(first_runs[0], tmp_path, dirs_exist_ok=True))


def test_without_a_board_nothing_runs_and_the_reason_is_said(project: Path) -> None:
    code, said = run_pytest(project)
    assert code == 0
    assert "1 passed, 4 skipped" in said
    assert "pytest --board uno" in said


def test_a_golden_record_is_missing_then_written_then_held(first_runs: tuple[Path, str], held: Path) -> None:
    project, arguments = held, ON_THE_UNO
    again = rf": pytest -q .*{' '.join(ON_THE_UNO)}.* --hil-update"  # what else would be written stays
    assert re.search(f"no golden record yet; write it{again}", first_runs[1])
    golden = json.loads((project / GOLDEN).read_text())
    assert golden["order"]["model"] == "models/tiny.onnx"
    assert str(first_runs[0]) not in (project / GOLDEN).read_text()
    golden["raw"]["ticks"][4] -= 1
    golden["flash_bytes"] -= 2
    (project / GOLDEN).write_text(json.dumps(golden))
    code, said = run_pytest(project, *arguments)
    assert code == 1
    assert "flash_bytes:" in said
    assert "cycles: +0.0" in said
    assert re.search(f"if it is meant{again}", said)
    assert "Traceback" not in said
    assert "harness/" not in said
    golden["flash_bytes"] += 2
    (project / GOLDEN).write_text(json.dumps(golden))
    assert run_pytest(project, *arguments, "--hil-samples", 4)[0] == 0


def test_other_samples_fail(held: Path) -> None:
    """With others a test would pass whatever comes out."""
    arrays = dict(np.load(held / "x.npz"))
    np.savez(held / "x.npz", x=arrays["x"][::-1] * 0.5, y=arrays["y"])
    code, said = run_pytest(held, *ON_THE_UNO)
    assert (code, "inputs: " in said) == (1, True), said


def test_a_retrained_model_fails_and_says_what_that_means(held: Path) -> None:
    """Cycles, RAM, flash and accuracy before and after, how many outputs changed, and by how much."""
    path = held / "models" / "tiny.onnx"
    model = onnx.load(path)
    for weights in model.graph.initializer:
        array = numpy_helper.to_array(weights)
        if array.dtype == np.float32:
            weights.CopyFrom(numpy_helper.from_array(-0.9 * array, weights.name))
    onnx.save(model, path)
    code, said = run_pytest(held, *ON_THE_UNO, "--hil-summary", "s.md")
    assert re.search(r"\d+ B \(at worst \d+ B\)", (held / "s.md").read_text())
    assert code == 1
    assert "model: another file" in said
    assert re.search(r"outputs changed: [1-9]\d* of \d+ samples", (held / "s.md").read_text())
    for figure in (
        "median cycles",
        "RAM at worst B",
        "flash B",
        "accuracy %",
        "outputs changed",
        "largest output change",
    ):
        assert re.search(rf"^(E +)? *{figure}  .*\d", said, re.MULTILINE), said
    assert re.search(r"[1-9]\d* of \d+ samples", said)
    assert "Traceback" not in said


def test_each_board_gets_its_tests_and_reports(project: Path) -> None:
    (project / "pytest.ini").write_text("[pytest]\nhil_boards = host uno\nhil_golden = kept\n")
    assert run_pytest(project, "-k", "tiny", "--hil-update")[0] == 0
    assert (project / "kept" / "host" / "tiny-fixed16.json").is_file()
    code, said = run_pytest(
        project, "--junitxml", "junit.xml", "--hil-json", "out/hil.json", "--hil-summary", "out/s.md", "-n", 2
    )
    assert code == 0, said
    assert "5 passed, 3 skipped" in said  # the Due is not chosen, and neither board is physical
    report = json.loads((project / "out" / "hil.json").read_text())
    tiny = [result for result in report["results"] if result["golden"]]
    assert sorted(result["board"] for result in tiny) == ["host", "uno"]
    assert all(result["outcome"] == "passed" and result["differences"] == [] for result in tiny)
    cases = ElementTree.parse(project / "junit.xml").findall(".//testcase")
    found = [item for case in cases for item in case.findall("properties/property[@name='hil']")]
    assert {json.loads(item.attrib["value"])["board"] for item in found} == {"host", "uno"}
    for item in found:
        of_all = json.loads(item.attrib["value"])
        for figure in ("median", "flash_bytes", "static_bytes", "accuracy", "verdict"):
            case = next(case for case in cases if item in case.iter("property"))
            (own,) = case.findall(f"properties/property[@name='hil.{figure}']")
            assert own.attrib["value"] == str(of_all[figure])
    lines = (project / "out" / "s.md").read_text().splitlines()
    assert len([line for line in lines if "| tiny |" in line and "| valid |" in line]) == len(report["results"])


FAILURES = {
    "an unknown board": (["--board", "duo"], "a board of yours: hil_boards_file in pyproject.toml"),
    "no such port": (["--board", "due", "--board-port", "due=/dev/no-such"], "(exit code "),
    "a port without a board": (["--board", "due", "--board-port", "due"], "NAME=PORT"),
}


@pytest.mark.parametrize("name", FAILURES)
def test_failures_are_one_line(name: str, project: Path) -> None:
    arguments, words = FAILURES[name]
    code, said = run_pytest(project, "-k", "tiny", *arguments)
    assert code in (1, 4)
    assert words in said
    assert "harness/" not in said


def test_a_physical_board_is_booted_three_times_and_its_median_counts(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An emulated Uno behind a port is an attached board: it is reset by opening, and runs this image already."""
    x = np.load(project / "x.npz")["x"]
    bench = make_bench("uno", project / "models" / "tiny.onnx", x)
    with powered(bench, project) as device:
        arguments = ("-k", "tiny or only_physical", "--board", "uno", "--board-port", f"uno={device.port}")
        assert run_pytest(project, *arguments, "--hil-update")[0] == 0
        path = project / "golden/uno/tiny-fixed16.physical.json"
        golden = json.loads(path.read_text())
        assert (golden["emulator"], len(golden["boots"])) == (None, 3)
        (project / "bench.yaml").write_text(f"boards: {{left: {{board: uno, port: {device.port}}}}}\n")
        monkeypatch.setenv("HIL_BENCH", str(project / "bench.yaml"))
        code, said = run_pytest(project, *arguments[:2], "--board", "left")  # held to the record of its kind
        assert code == 0, said
        assert "2 passed" in said
        for boot in golden["boots"]:
            boot["median"] *= 0.98
        path.write_text(json.dumps(golden))
        code, said = run_pytest(project, *arguments)
    assert code == 1
    assert "cycles: median" in said
    assert "+2.04 %, limit 1.00 %" in said
    assert "over 3 resets" in said
    assert list((project / "results" / "bench" / "uno" / "tiny").glob("*.json"))
