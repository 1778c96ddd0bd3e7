"""`hil search` as a user types it: a table, one JSON object, an assignment file that `hil run` takes."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import filelock
import hil_command
import numpy as np
import pytest
import yaml
from onnx_models import node, simple
from scan_models import weights

from tinyhil.errors import EXIT_BUILD, EXIT_USAGE, ConfigError
from tinyhil.harness.search.offering import scheduled_instead, together_first, with_weights
from tinyhil.harness.search.request import SearchRequest
from tinyhil.harness.search.task import load_task
from tinyhil.harness.search.uniform import arena_limits, keeps, schedules_of_each, uniforms
from tinyhil.harness.settings.config import load_boards
from tinyhil.native import default_cache_dir
from tinyhil.search.space import Choice
from tinyhil.search.strategies import make_strategy


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model, and 120 labelled samples in one file."""
    nodes = [node("MatMul", "x W", "t"), node("Tanh", "t", "h"), node("MatMul", "h V", "y")]
    model = simple(nodes, {"x": (1, 8)}, {"W": weights(8, 6), "V": weights(6, 3)})
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
    random = np.random.default_rng(0)
    x = random.normal(size=(120, 1, 8)).astype(np.float32)
    np.savez(tmp_path / "x.npz", x=x, y=random.integers(0, 3, 120))
    np.savez(tmp_path / "one.npz", x=np.ones((1, 1, 8), np.float32))
    np.savez(tmp_path / "nan.npz", x=np.full((8, 1, 8), np.nan, np.float32))
    np.savez(tmp_path / "same.npz", x=np.ones((8, 1, 8), np.float32))
    return tmp_path


def hil(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return hil_command.hil(*arguments, cwd=folder)


def search(folder: Path, *arguments: str, inputs: str = "x.npz") -> subprocess.CompletedProcess[str]:
    return hil(folder, "search", "--model", "net.onnx", "--inputs", inputs, "--evaluations", "12", *arguments)


def test_json_and_the_assignment_run(folder: Path) -> None:
    done = search(folder, "--ram", "11", "--strategy", "haunter", "--json", "--out", "widths.yaml")
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    (path,) = (folder / "results" / "search" / "net").glob("*.json")
    stored = json.loads(path.read_text())
    assert stored["tinyhil"] == version("tinyhil")  # which one found it, and the commit of the folder it was called in
    assert {"commit", "dirty", "utc", "python"} <= stored.keys()
    assert record == stored
    assert record["arena_bytes"] <= record["arena_limit_bytes"] == 11
    assert (record["ram_bytes"], record["ram_limit_bytes"]) == (None, None)  # no board: nobody knows of a stack
    assert (record["strategy"], record["assignment_file"], stored["samples"]) == ("haunter", "widths.yaml", 60)
    np.savez(folder / "held.npz", **{name: a[60:] for name, a in np.load(folder / "x.npz").items()})
    np.savez(folder / "seen.npz", x=np.load(folder / "x.npz")["x"][:60])
    run = hil(
        folder, "run", "--board", "host", "--model", "net.onnx", "--inputs", "held.npz", "--assignment", "widths.yaml",
        "--json", "--calibrate", "seen.npz",
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    measured = json.loads(run.stdout)
    assert measured["disagreements"] == record["disagreements"]
    assert measured["accuracy"] == record["accuracy"]
    assert measured["saturations"] == stored["saturations"]
    assert measured["memory"]["arena_bytes"] == record["arena_bytes"]


def test_samples_held_out_leave_all_others_for_ranges(folder: Path) -> None:
    """So that a run on the samples held out finds the very ranges of the search by `--calibrate`."""
    given = np.load(folder / "x.npz")
    np.savez(folder / "seen.npz", x=given["x"][:70], y=given["y"][:70])
    np.savez(folder / "held.npz", x=given["x"][70:], y=given["y"][70:])
    done = search(folder, "--ram", "11", "--held-out", "held.npz", "--json", "--out", "w.yaml", inputs="seen.npz")
    assert done.returncode == 0, done.stderr
    asked = ("run", "--board", "host", "--model", "net.onnx", "--inputs", "held.npz", "--assignment", "w.yaml")
    run = hil(folder, *asked, "--json", "--calibrate", "seen.npz")
    assert run.returncode == 0, run.stderr
    assert "found with ranges" not in run.stderr
    assert json.loads(run.stdout)["disagreements"] == json.loads(done.stdout)["disagreements"]
    assert "found with ranges of 70 samples of seen" in hil(folder, *asked).stderr


def test_a_strategy_s_own_answer_is_kept_where_that_is_asked_for(folder: Path) -> None:
    """As many evaluations, no worse ones in its place: strategies can be compared."""
    common = ("--ram", "30", "--strategy", "random", "--set", "trials=1", "--json")
    usual, own = (json.loads(search(folder, *common, *more).stdout) for more in ((), ("--own",)))
    assert usual["replaced"] is not None
    assert own["replaced"] is None
    assert own["search"]["disagreements"] == usual["replaced"]["disagreements"]
    assert own["evaluations"] <= usual["evaluations"]


def test_nor_does_a_better_trial_take_its_place(folder: Path) -> None:
    """shiftry's own answer is not the best of what it has tried: another was printed as its."""
    common = ("--arena", "30", "--strategy", "shiftry", "--formats", "fixed4,fixed8", "--json", "--evaluations", "400")
    usual, own = (json.loads(search(folder, *common, *more).stdout) for more in ((), ("--own",)))
    assert own["replaced"] is None
    assert own["search"]["disagreements"] > usual["search"]["disagreements"]


def test_searches_are_lines_of_markdown(folder: Path) -> None:
    found = json.loads(search(folder, "--ram", "20", "--evaluations", "2", "--json").stdout)
    (folder / "s.json").write_text(json.dumps(found))
    front = json.loads(search(folder, "--pareto", "ram,accuracy", "--evaluations", "2", "--json").stdout)
    (folder / "f.json").write_text(json.dumps(front))
    done = hil(folder, "report", "s.json", "f.json", "--md", "-")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 3 + len(front["points"])
    assert f"| {found['samples']:,} | {found['disagreements']:,} | " in lines[2]
    assert ", point 1 |" in lines[3]
    refused = hil(folder, "report", "s.json", "--csv", "-")
    assert (refused.returncode, "a page and --md show the search in s.json" in refused.stderr) == (2, True)


def test_a_family_says_what_it_stands_for(folder: Path) -> None:
    done = search(folder, "--ram", "20", "--formats", "posit8", "--evaluations", "2")
    assert done.returncode == 0, done.stderr
    assert "search: posit8 stands for posit8es0, posit8es2\n" in done.stderr


def test_samples_of_one_class_are_said(folder: Path) -> None:
    given = np.load(folder / "x.npz")
    np.savez(folder / "one.npz", x=given["x"][:9], y=np.full(9, 2))
    done = search(folder, "--ram", "20", "--evaluations", "2", "--held-out", "one.npz")
    assert "warning: held out: all 9 samples have label 2: " in done.stderr
    assert "is no check" not in done.stderr
    np.savez(folder / "copy.npz", **given)
    done = search(folder, "--ram", "20", "--evaluations", "2", "--held-out", "copy.npz")
    assert "the samples held out are those searched on: what is said of them is no check\n" in done.stderr


def test_the_same_search_twice_at_once(folder: Path) -> None:
    """The second waits and says so, then finds the trials of the first."""
    assert search(folder, "--ram", "11").returncode == 0
    (log,) = (folder / "results" / "search" / "net").glob("*.jsonl")
    trials = log.read_bytes()
    command = ("search", "--model", "net.onnx", "--inputs", "x.npz", "--evaluations", 12, "--ram", 11)
    with filelock.FileLock(log.with_suffix(".lock")):
        second = hil_command.start_hil(*command, cwd=folder)
        assert any("waiting for it" in line for line in iter(second.stderr.readline, ""))
        assert second.poll() is None
    second.communicate()
    assert second.returncode == 0
    assert log.read_bytes() == trials


@pytest.mark.parametrize(
    "arguments",
    [
        ("search", "--model", "net.onnx", "--inputs", "x.npz", "--ram", "12", "--evaluations", "2"),
        ("plan", "--model", "digits_mlp"),
        ("export", "cmake", "net.onnx", "--out", "net.zip", "--calibrate", "x.npz"),
    ],
    ids=lambda arguments: str(arguments[0]),
)
def test_boards_nobody_names_are_not_read(arguments: tuple[str, ...], folder: Path) -> None:
    (folder / "bench.yaml").write_text("boards: [")
    done = hil_command.hil(*arguments, cwd=folder, HIL_BENCH=str(folder / "bench.yaml"))
    assert done.returncode == 0, done.stderr
    asked = hil_command.hil(*arguments, "--board", "uno", cwd=folder, HIL_BENCH=str(folder / "bench.yaml"))
    assert (asked.returncode, "bench.yaml" in asked.stderr) == (EXIT_USAGE, True)


@pytest.mark.parametrize(
    ("arguments", "formats"),
    [((), ["fixed8", "fixed16", "int8"]), (("--formats", "fixed8,fixed16"), ["fixed8", "fixed16"])],
)
def test_formats_that_all_tensors_have_or_none_are_tried_too(
    arguments: tuple[str, ...], formats: list[str], folder: Path
) -> None:
    done = search(folder, "--ram", "12", "--evaluator", "reference", "--json", *arguments)
    assert done.returncode == 0, done.stderr
    assert [row["format"] for row in json.loads(done.stdout)["uniform"]] == formats


def test_weights_beyond_the_flash_of_the_board_are_a_limit(folder: Path) -> None:
    nodes = [node("MatMul", "x W", "t"), node("Relu", "t", "h"), node("MatMul", "h V", "y")]
    model = simple(nodes, {"x": (1, 8)}, {"W": weights(8, 800), "V": weights(800, 15)})
    (folder / "wide.onnx").write_bytes(model.SerializeToString())
    said: list[str] = []
    request = SearchRequest(str(folder / "wide.onnx"), inputs=folder / "x.npz", evaluator="reference", board="uno")
    task = load_task(request, folder, said.append, lambda trial, best: None, load_boards())
    assert task.request.flash == load_boards().board("uno").chip.flash_bytes
    assert any(line.endswith(f"--flash {task.request.flash}") for line in said)
    large = load_task(replace(request, board="due"), folder, said.append, lambda trial, best: None, load_boards())
    assert large.request.flash is None


def test_weights_in_a_format_of_their_own_fit_where_none_for_all_tensors_does(folder: Path) -> None:
    """The search gave up before it had looked at what it offers for weights alone."""
    nodes = [node("MatMul", "x W", "t"), node("Relu", "t", "h"), node("MatMul", "h V", "y")]
    model = simple(nodes, {"x": (1, 8)}, {"W": weights(8, 1600), "V": weights(1600, 15)})
    (folder / "wide.onnx").write_bytes(model.SerializeToString())
    request = SearchRequest(str(folder / "wide.onnx"), inputs=folder / "x.npz", evaluator="reference", board="uno")
    request = replace(request, formats="fixed8", weights="fixed4pc", results=folder / "results")
    task = load_task(request, folder, lambda line: None, lambda trial, best: None, load_boards())
    (uniform,) = beside = uniforms(task)
    assert not keeps(task, uniform)
    task = with_weights(task, beside)
    (limit,) = arena_limits(task, beside)
    assert 0 < limit < load_boards().board("uno").chip.ram_bytes
    (measured,) = task.phases.measured[task.phases.best.candidate]
    assert measured.keeps(task.request.limits)
    assert measured.flash_bytes <= task.request.flash


def tiny_board(folder: Path, limit: str) -> tuple[str, ...]:
    """Options for an Uno with less of something."""
    chip = f"chips: {{small: {{like: atmega328p, {limit}}}}}\n"
    board = "boards: {tiny: {title: Tiny, chip: small, reset: on_open, upload: arduino}}\n"
    (folder / "own.yaml").write_text(chip + board)
    return "--boards-file", "own.yaml", "--board", "tiny"


def test_a_board_s_flash_is_a_limit_where_no_usual_image_fits(tmp_path: Path) -> None:
    """The search said that `hil search` finds formats that fit."""
    search = ("search", *tiny_board(tmp_path, "flash_bytes: 7400"), "--model", "digits_mlp", "--samples", "20")
    done = hil(tmp_path, *search, "--evaluations", "3", "--device-samples", "2", "--json")
    assert done.returncode == 0, done.stderr
    assert "again with --flash 7400" in done.stderr
    assert json.loads(done.stdout)["flash_bytes"] <= 7400


def test_int8_and_other_schedules_are_asked_before_a_search_gives_up(folder: Path) -> None:
    """A limit of latency was called infeasible that int8 in another schedule keeps."""
    request = SearchRequest("digits_cnn", board="uno", samples=20, latency_us=1e6, results=folder / "results")
    task = load_task(request, default_cache_dir(), lambda line: None, lambda trial, best: None, load_boards())
    (int8,) = together_first(task, ())
    assert int8.format == "int8"
    assert task.phases.best is int8.trial
    assert together_first(task, (int8,)) == ()
    (first, *others) = schedules_of_each(task, ("int8",))
    assert first.trial.ram_bytes > others[0].trial.ram_bytes
    assert others[0].measured[0].latency_us != first.measured[0].latency_us
    fastest = min(one.measured[0].latency_us for one in (first, *others))
    tight = replace(task, request=replace(request, formats="fixed8", latency_us=fastest + 1))
    for latency_us in (1.0, None):
        assert scheduled_instead(replace(task, request=replace(request, latency_us=latency_us)))[1] is None
    free, found = scheduled_instead(tight)
    slow = free.problem.memory.fewest_bytes(free.problem.space.uniform(Choice("fixed8")))
    assert slow < task.problem.memory.fewest_bytes(task.problem.space.uniform(Choice("fixed8")))
    assert found is not None
    assert found[1][0].latency_us <= fastest + 1


def test_an_image_that_does_not_link_is_too_large_and_no_end(tmp_path: Path) -> None:
    """Of a chip whose reserve for the stack is more than what the stack takes: some candidates' static data exceed what
    is left by a few bytes."""
    search = ("search", *tiny_board(tmp_path, "ram_bytes: 640"), "--model", "digits_cnn", "--samples", "60")
    done = hil(tmp_path, *search, "--evaluations", "5", "--device-samples", "2", "--json")
    assert done.returncode == 0, done.stderr
    assert "search: left out: tiny: RAM exceeded by" in done.stderr
    assert "use a lower width" not in done.stderr
    assert json.loads(done.stdout)["ram_bytes"] <= 640


def test_formats_for_weights_need_a_strategy_that_knows_them(folder: Path) -> None:
    done = search(folder, "--ram", "12", "--strategy", "haunter", "--weights", "fixed4pc")
    assert done.returncode == EXIT_USAGE
    assert "--weights is for chips and --strategy lagrange" in done.stderr


@pytest.mark.parametrize("strategy", ["lagrange", "haunter"])
def test_a_model_without_an_arena(strategy: str, folder: Path) -> None:
    """Its output is its input: nothing is free, and nothing breaks."""
    model = simple([node("Identity", "x", "y")], {"x": (1, 8)}, {})
    (folder / "same.onnx").write_bytes(model.SerializeToString())
    options = ("--inputs", "x.npz", "--ram", "9", "--strategy", strategy, "--json", "--evaluator", "reference")
    done = hil(folder, "search", "--model", "same.onnx", *options)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["arena_bytes"] == 0


DAMAGES: tuple[Callable[[bytes], bytes], ...] = (
    lambda log: log[: len(log) // 2],
    lambda log: b"\x89\xff\x00\n" + log,
    lambda log: log.replace(b"}\n", b"}\n\xb5\xff", 3),
    lambda log: log.replace(b'"disagreements": ', b'"disagreements": null, "was": '),
    lambda log: log.replace(b'"fixed8"', b'"fixed999"'),
    lambda log: log.split(b"\n")[0] + b"\nnull\n[1, 2]\n{}\n",
)


def test_a_damaged_log_changes_no_trial(folder: Path) -> None:
    arguments = ("--ram", "11", "--strategy", "accuracy_only", "--evaluator", "reference")
    assert search(folder, *arguments).returncode == 0
    (log,) = (folder / "results" / "search" / "net").glob("*.jsonl")
    whole = log.read_bytes()
    for damage in DAMAGES:
        assert damage(whole) != whole
        log.write_bytes(damage(whole))
        again = search(folder, *arguments)
        assert again.returncode == 0, again.stderr
        assert log.read_bytes() == whole


def test_calibrated_as_by_hil_run(folder: Path) -> None:
    """`hil run` on the same file has the same ranges, whatever --samples; other ranges: other trials."""
    arrays = dict(np.load(folder / "x.npz"))
    arrays["x"][40] *= 9  # in the first half of the file, behind the first half of what is searched on
    np.savez(folder / "wide.npz", **arrays)
    asked = ("--ram", "11", "--strategy", "size_only", "--evaluator", "reference", "--samples", "7", "--json")
    first = search(folder, *asked, "--out", "widths.yaml", inputs="wide.npz")
    assert first.returncode == 0, first.stderr
    asked_run = ("--model", "net.onnx", "--inputs", "wide.npz", "--assignment", "widths.yaml", "--json")
    run = hil(folder, "run", "--board", "host", *asked_run)
    assert run.returncode == 0, run.stderr
    same = "calibrating on the first 60 of 120 inputs"
    assert same in first.stderr
    assert same in run.stderr
    assert search(folder, *asked, "--calibrate", "x.npz", inputs="wide.npz").returncode == 0
    assert len(list((folder / "results" / "search" / "net").glob("*.jsonl"))) == 2


def test_the_table_and_the_evaluators_agree(folder: Path) -> None:
    first = search(folder, "--ram", "11", "--strategy", "size_only")
    second = search(folder, "--ram", "11", "--strategy", "size_only", "--evaluator", "reference")
    assert first.returncode == second.returncode == 0, first.stderr + second.stderr
    for word in ("tensor", "constant", "fixed16", "held out", "60 samples", "RAM", "of 11 B"):
        assert word in first.stdout
    shown = [[line for line in done.stdout.splitlines() if "evaluations" not in line] for done in (first, second)]
    assert shown[0] == shown[1]
    (assignment,) = (folder / "results" / "search" / "net").glob("*.yaml")
    assert yaml.safe_load(assignment.read_text())["default"] in ("fixed8", "fixed16")


def test_finalists_are_measured_on_the_board(folder: Path) -> None:
    """Built, flashed and streamed as by `hil run`; what the board measured is in the record and the log."""
    done = search(
        folder, "--arena", "20", "--strategy", "random", "--board", "uno", "--on-device", "--every", "4",
        "--finalists", "2", "--device-samples", "8", "--plot", "picture.svg",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "uno: 8 samples bit-exact" in done.stdout
    assert "found with ranges" not in done.stderr, "the board's run takes those of the search"
    results = folder / "results"
    (path,) = (results / "search" / "net").glob("*.json")
    device = json.loads(path.read_text())["device"]
    record = json.loads((folder / device["record"]).read_text())
    assert device["median"] == record["latency"]["median"] > 0
    memory = record["memory"]  # what a limit is held against: the deepest stack there can be, not the one that was seen
    assert device["stack_bytes"] == memory["stack_limit_bytes"] >= memory["stack_bytes"] > 0
    assert record["bit_exact"]
    (log,) = (results / "search" / "net").glob("*.jsonl")
    lines = [json.loads(line) for line in log.read_text().splitlines()[1:]]
    measured = [line["number"] for line in lines if "device" in line]
    assert len(measured) == len(set(measured)) >= 2
    assert (folder / "picture.svg").read_text().startswith("<?xml")
    assert (folder / "picture.png").read_bytes().startswith(b"\x89PNG")
    runs = len(list((results / "uno").rglob("*.json")))
    again = search(
        folder, "--arena", "20", "--strategy", "random", "--board", "uno", "--on-device", "--every", "4",
        "--finalists", "2", "--device-samples", "8",
    )  # fmt: skip
    assert again.returncode == 0, again.stderr
    assert len(list((results / "uno").rglob("*.json"))) == runs  # what was measured is not measured again


@pytest.mark.slow  # measures twice: overhead, then finalists
@pytest.mark.parametrize(("strategy", "spare"), [("haunter", 480), ("lagrange", 12), ("exhaustive", 12)])
def test_a_limit_for_the_whole_ram_of_the_board(strategy: str, spare: int, folder: Path) -> None:
    """`spare` bytes more than the least: 12 are too few for the input's two buffers at 16 bits."""
    asked = ("--strategy", strategy, "--board", "uno", "--device-samples", "4", "--json")
    refused = search(folder, "--ram", "100", *asked)
    least = re.search(r"try --ram (\d+),", refused.stderr)
    assert least is not None, refused.stderr
    limit = int(least[1]) + spare
    done = search(folder, "--ram", str(limit), *asked)
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    (path,) = (folder / "results" / "search" / "net").glob(f"{strategy}-{limit}-*.json")
    device = json.loads(path.read_text())["device"]
    assert record["ram_bytes"] == device["total_bytes"] == device["static_bytes"] + device["stack_bytes"] <= limit


@pytest.mark.parametrize(
    ("arguments", "inputs", "message"),
    [
        (["--ram", "3"], "x.npz", r"3 B of RAM are not feasible, the least is 9 B"),
        (["--arena", "3"], "x.npz", r"3 B of arena are not feasible, the least is 9 B"),
        (["--ram", "11", "--strategy", "best"], "x.npz", "known: lagrange"),
        (["--ram", "11", "--set", "depth=3"], "x.npz", "has no option 'depth'"),
        (["--ram", "11", "--formats", "fixed8,float7"], "x.npz", "unknown number format 'float7'"),
        (["--ram", "11"], "one.npz", "1 samples"),
        (["--ram", "11"], "nan.npz", "NaN"),
        (["--ram", "11"], "same.npz", "constant"),
        (["--ram", "0"], "x.npz", "--ram"),
        (["--ram", "11", "--on-device"], "x.npz", "--on-device needs a board"),
        (["--ram", "11", "--every", "2"], "x.npz", "--every needs a board"),
        (["--ram", "11", "--arena", "11"], "x.npz", "--ram and --arena exclude each other"),
        (["--ram", "150", "--board", "uno"], "x.npz", "150 B of RAM in all hold no format for all tensors on uno"),
        (["--ram", "1", "--board", "uno"], "x.npz", "1 B of RAM in all hold no format for all tensors on uno: "),
        (["--ram", "11", "--seed", "-5"], "x.npz", "--seed"),
        (["--ram", "11", "--results", "net.onnx"], "x.npz", "can not be written: Not a directory"),
        (["--ram", "11", "--out", "x.npz/w.yaml"], "x.npz", "there is no folder x.npz"),
        (["--ram", "11", "--seconds", "nan"], "x.npz", "'--seconds': nan is no finite number"),
        (["--ram", "11", "--minimize", "ram", "--points", "inf"], "x.npz", "'--points': inf is no finite number"),
        (["--ram", "11", "--board", "uno", "--latency-us", "nan"], "x.npz", "'--latency-us': nan is no finite number"),
        (
            ["--ram", "11", "--strategy", "haunter", "--set", "soft_limit_factor=nan"],
            "x.npz",
            "above 0 and at most a million",
        ),
        (
            ["--ram", "11", "--strategy", "haunter", "--set", "soft_limit_factor=inf"],
            "x.npz",
            "above 0 and at most a million",
        ),
        (
            ["--ram", "11", "--strategy", "shiftry", "--set", "lowest_offset=3"],
            "x.npz",
            "lowest_input_offset 0 or less",
        ),
        (["--ram", "11", "--formats", "posit8,posit"], "x.npz", "unknown number format 'posit'"),
    ],
)
def test_bad_input_is_one_line(arguments: list[str], inputs: str, message: str, folder: Path) -> None:
    done = search(folder, *arguments, inputs=inputs)
    assert done.returncode == (EXIT_BUILD if "not feasible" in message or "hold no format" in message else EXIT_USAGE)
    line = done.stderr.strip().splitlines()[-1]
    assert line.startswith("hil: ")
    assert message in line
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("strategy", "option", "message"),
    [
        ("lagrange", "probe=0", "probe and finalists must be 1 or more"),
        ("lagrange", "finalists=0", "probe and finalists must be 1 or more"),
        ("lagrange", "tried=-1", "tried 0 or more"),
        ("lagrange", "lowest_offset=5", "lowest_offset between -8 and 0"),
        ("lagrange", "lowest_offset=-99", "lowest_offset between -8 and 0"),
        ("haunter", "soft_limit_factor=nan", "above 0 and at most a million"),
        ("haunter", "soft_limit_factor=inf", "above 0 and at most a million"),
        ("shiftry", "lowest_offset=3", "lowest_input_offset 0 or less"),
        ("shiftry", "points=nan", "points must be 0 or more"),
        ("random", "trials=0", "trials must be 1 or more"),
        ("ppo", "trials=0", "trials and batch must be 1 or more"),
        ("ppo", "hidden=100000", "hidden must be 1 to 4096"),
        ("ppo", "actor_rate=nan", "actor_rate, critic_rate and target_kl must be above 0"),
        ("ppo", "target_kl=inf", "actor_rate, critic_rate and target_kl must be above 0"),
        ("ppo", "scale=nan", "scale must be above 0"),
        ("ppo", "penalty=inf", "penalty 0 or more"),
        ("ddpg", "noise=1e9", "noise must be 0 to 10"),  # nothing drawn would ever lie within 0..1
        ("ddpg", "noise=inf", "noise must be 0 to 10"),
        ("ddpg", "critic_rate=nan", "tau, actor_rate and critic_rate must be above 0"),
        ("ddpg", "scale=inf", "scale must be above 0"),
    ],
)
def test_options_of_strategies_that_make_no_sense(strategy: str, option: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make_strategy(strategy, [option])
