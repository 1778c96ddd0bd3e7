"""`hil plan`: the numbers, the drawings, and every way to be refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from onnx_models import node, simple
from port_models import cell, streams

import tinyhil
from tinyhil.harness.build.pipeline import arranged_for, compile_model
from tinyhil.harness.cli import main
from tinyhil.harness.job.job import open_model
from tinyhil.harness.offline import plan as offline
from tinyhil.harness.offline.memory_map import memory_map, save_map
from tinyhil.harness.search.total import with_input
from tinyhil.harness.settings.config import load_boards
from tinyhil.memplan import PLANNERS, Budget, Buffer, Plan, Problem, check, plan
from tinyhil.memplan.arena.passes import ALL_NAMES
from tinyhil.memplan.csv import read_problem
from tinyhil.passes.every import PASSES
from tinyhil.preference import BALANCED, RAM, Wish

SMALL = "id,lower,upper,size\na,0,3,4\nb,1,4,6\nc,3,5,4\n"  # 10 B at instants 1 to 3
HARD = "id,lower,upper,size\n" + "".join(
    f"b{i},{lower},{upper},{size}\n"
    for i, (lower, upper, size) in enumerate(
        [(0, 2, 3), (1, 4, 2), (3, 6, 3), (5, 8, 2), (2, 3, 1), (4, 7, 1), (0, 5, 2)]
    )
)


@pytest.fixture
def instance(tmp_path: Path) -> Path:
    path = tmp_path / "small.csv"
    path.write_text(SMALL)
    return path


def hil(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(["plan", *map(str, arguments)])
    said = capsys.readouterr()
    return int(ended.value.code or 0), said.out, said.err


@pytest.mark.parametrize(("reading_s", "left_s"), [(0.0, 10.0), (2.0, 2.0), (5.0, offline.LEAST_S)])
def test_time_counts_reading_and_checking(
    capsys: pytest.CaptureFixture[str],
    instance: Path,
    monkeypatch: pytest.MonkeyPatch,
    reading_s: float,
    left_s: float,
) -> None:
    """What the planner gets of `--time 10`, by a clock that only reading moves."""
    clock, budgets = [0.0], []

    def read(path: Path) -> Problem:
        clock[0] += reading_s
        return read_problem(path)

    def planned(problem: Problem, planner: str, budget: Budget) -> Plan:
        budgets.append(budget)
        return plan(problem, planner, budget)

    monkeypatch.setattr(offline, "time", SimpleNamespace(perf_counter=lambda: clock[0]))
    monkeypatch.setattr(offline, "read_problem", read)
    monkeypatch.setattr(offline, "plan", planned)
    assert hil(capsys, instance, "--time", 10)[0] == 0
    assert [budget.seconds for budget in budgets] == [left_s]


def record(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    code, out, err = hil(capsys, *arguments, "--json")
    assert (code, err) == (0, "")
    found: dict[str, Any] = json.loads(out)
    return found


# ---- instances


def test_the_record_of_an_instance(instance: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = record(capsys, instance, "--capacity", 1000, "--time", 1)
    assert found["peak_bytes"] == found["lower_bound_bytes"] == 10
    assert found["proven"] is found["fits"] is True
    assert found["planner"] == "portfolio"
    assert found["how"] == "load"
    assert found["witness"] in (1, 2, 3)
    assert 0 < found["fit_seconds"] <= found["seconds"]
    problem = read_problem(instance)
    regions = dict.fromkeys(found["offsets"], "arena")
    peaks = {"arena": 10}
    check(problem, Plan(found["offsets"], regions, 10, 10, True, "load", found["witness"], peaks=peaks))


@pytest.mark.parametrize("planner", [planner.name for planner in PLANNERS])
def test_every_planner_can_be_asked_for(planner: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "hard.csv"
    path.write_text(HARD)
    found = record(capsys, path, "--planner", planner, "--time", 5)
    assert found["planner"] == planner
    wanted = plan(read_problem(path), planner)
    assert found["peak_bytes"] == wanted.peak_bytes >= found["lower_bound_bytes"]
    assert found["fits"]


@pytest.mark.parametrize(
    ("capacity", "message"),
    [
        (9, "small.csv: peak 10 B exceeds 9 B by 1 B; no plan fits"),
        (0, "small.csv: peak 10 B exceeds 0 B by 10 B; no plan fits"),
    ],
)
def test_a_capacity_that_is_exceeded(
    capacity: int, message: str, instance: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = hil(capsys, instance, "--capacity", capacity, "--json")
    assert (code, err) == (4, f"hil: {message}\n")
    found = json.loads(out)
    assert found["fits"] is False
    assert found["fit_seconds"] is None
    assert (found["peak_bytes"], found["capacity_bytes"]) == (10, capacity)
    code, out, err = hil(capsys, instance, "--capacity", capacity)
    assert code == 4
    assert "peak 10 B" in out


def test_a_plan_that_might_be_lower_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """First-fit in program order leaves a hole, and the bound would still fit."""
    path = tmp_path / "hole.csv"
    path.write_text("id,lower,upper,size\na,0,2,4\nb,0,3,2\nc,2,4,5\n")
    code, _, err = hil(capsys, path, "--planner", "first-fit", "--capacity", 7)
    assert code == 4
    assert err == "hil: hole.csv: peak 11 B exceeds 7 B by 4 B; the bound is 7 B: try a longer --time\n"
    assert record(capsys, path, "--capacity", 7)["peak_bytes"] == 7


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id,lower,upper,size\na,0,3,4\nb,0,x,5\n", "bad.csv line 3: upper 'x' is not an integer"),
        ("id,lower,upper,size\na,0,3\n", "bad.csv line 2: 3 fields, the header has 4"),
        ("id,lower,upper,size\na,3,3,4\n", "bad.csv line 2: "),
        ("id,lower,upper,size\na,0,3,-4\n", "bad.csv line 2: "),
        ("id,lower,size\na,0,4\n", "bad.csv line 1: "),
        ("", "bad.csv: is empty"),
        ("\x00\x01", "bad.csv"),
    ],
)
def test_malformed_instances(text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(text)
    code, out, err = hil(capsys, path)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


def test_what_can_not_be_asked(instance: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, message in (
        ((), "give either a CSV of buffers or --model"),
        ((instance, "--model", "fastgrnn_har"), "give either a CSV of buffers or --model"),
        ((instance, "--board", "uno"), "an instance takes --capacity"),
        (("my.onnx", "--board", "uno"), "my.onnx is a model, no CSV of buffers; hil plan --model my.onnx"),
        (("fastgrnn_har",), "fastgrnn_har is a model, no CSV of buffers; hil plan --model fastgrnn_har"),
        ((instance, "--without", "order"), "an instance takes --capacity"),
        ((instance, "--calibrate", "x.npz"), "--calibrate and --calibrate-by are for --model"),
        (
            (instance, "--planner", "best"),
            "planner 'best' does not exist; did you mean best-fit? there are ",
        ),
        ((instance, "--capacity", "-1"), "-1"),
        ((instance, "--time", "0"), "0"),
        ((instance, "--plot", "a.pdf"), "--plot a.pdf: pictures end in .svg or .png"),
        ((instance, "--plot", "nowhere/a.svg"), "there is no folder nowhere"),
        ((instance.parent / "none.csv",), "none.csv: no such file"),
        ((instance.parent,), "Is a directory"),
        (("--model", "nothing"), "no model 'nothing'"),
        (("--model", "fastgrnn_har", "--format", "fixed77"), "fixed7"),
        (("--model", "fastgrnn_har", "--without", "thought"), "thought"),
    ):
        code, out, err = hil(capsys, *arguments)
        assert (code, out) == (2, ""), arguments
        assert message in err
        assert err.count("\n") == 1
    code, _, err = hil(capsys, "--model", "fastgrnn_har", "--board", "unk")
    assert code == 3
    assert "unk" in err


# ---- models


def test_a_model_on_a_board(capsys: pytest.CaptureFixture[str]) -> None:
    found = record(capsys, "--model", "fastgrnn_har", "--board", "uno")
    assert found["peak_bytes"] == found["lower_bound_bytes"] == 192
    assert found["proven"]
    assert found["fits"]
    assert (found["board"], found["capacity_bytes"], found["streamed"]) == ("uno", 2048, True)
    assert len(found["operations"]) == 13
    code, out, err = hil(capsys, "--model", "fastgrnn_har", "--board", "uno")
    assert (code, err) == (0, "")
    assert "peak 192 B, lower bound 192 B, planner portfolio\noptimal placement: at instant " in out
    assert "operations reordered: " in out
    assert "uno: arena 192 B + input 252 B (streamed) of 2048 B RAM" in out


@pytest.mark.parametrize(
    ("without", "peak_bytes"),
    [((), 96), (("order",), 128), (("gaps",), 128), (("in-place",), 128), (tuple(sorted(ALL_NAMES)), 160)],
)
def test_passes_can_be_left_out(without: tuple[str, ...], peak_bytes: int, capsys: pytest.CaptureFixture[str]) -> None:
    options = [word for name in without for word in ("--without", name)]
    found = record(capsys, "--model", "fastgrnn_har", "--format", "fixed8", *options)
    assert found["peak_bytes"] == peak_bytes


def test_every_pass_has_its_name_and_its_contract(capsys: pytest.CaptureFixture[str]) -> None:
    names = [one.name for one in PASSES]
    assert len(set(names)) == len(names)
    assert all(one.summary and one.needs.needs and one.gives for one in PASSES)
    code, out, err = hil(capsys, "--model", "fastgrnn_har", "--format", "fixed8", "--passes", "--json")
    assert (code, err) == (0, "")
    won = {one["name"]: one["peak_without_bytes"] - one["peak_bytes"] for one in json.loads(out)}
    assert list(won) == names
    assert (won["order"], won["gaps"], won["rows"], won["blocks"]) == (32, 32, 0, 0)


def test_a_plan_for_a_board_has_the_scratch_of_its_blocks(capsys: pytest.CaptureFixture[str]) -> None:
    """The arena that `hil plan` shows is the one that is generated: scratch and constants are those of the core."""
    model = ("--model", "digits_cnn", "--format", "fixed8")
    opened = open_model("digits_cnn")
    board = load_boards().board("h747")
    formats, ranges = opened.assignment(None, "fixed8"), opened.required_ranges(None)
    compiled = compile_model(opened.model, formats, ranges, [board], {"h747"}, wish=Wish(RAM, keeps_input=True))
    planned = record(capsys, *model, "--board", "h747")
    assert planned["peak_bytes"] == compiled.plan.peak_bytes
    code, out, _ = hil(capsys, *model, "--board", "h747", "--passes", "--json")
    assert code == 0
    gains = {one["name"]: one for one in json.loads(out)}
    plain = record(capsys, *model, "--board", "h747", "--without", "blocks")
    assert gains["blocks"]["peak_without_bytes"] == plain["peak_bytes"] != planned["peak_bytes"]
    assert gains["blocks"]["peak_bytes"] == planned["peak_bytes"]


@pytest.mark.parametrize(
    ("name", "board"),
    [
        *(("digits_cnn", board) for board in ("uno", "due", "h747", "reram")),
        ("lenet5_mnist", "due"),
        ("fastgrnn_har", "uno"),
    ],
)
def test_where_the_sample_lies_is_decided_once(name: str, board: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What `hil plan` shows, what the build does and what the search counts."""
    spec, opened = load_boards().board(board), open_model(name)
    formats, ranges = opened.assignment(None, "fixed8"), opened.required_ranges(None)
    lies = {}
    for prefer in (BALANCED, RAM):
        built = compile_model(opened.model, formats, ranges, [spec], {board}, wish=Wish(prefer))
        lies[prefer] = built.transfers[board].in_arena
        assert with_input(arranged_for(built.lowered, spec), spec, prefer).input_in_arena is lies[prefer]
    _, out, _ = hil(capsys, "--model", name, "--format", "fixed8", "--board", board)
    assert ("(in the arena)" in out) is lies[BALANCED]
    _, out, _ = hil(capsys, "--model", name, "--format", "fixed8", "--board", board, "--prefer", "ram")
    assert f"peak {built.plan.peak_bytes} B, " in out


def test_what_dead_channels_win(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    weights = np.ones((4, 6), np.float32)
    weights[:, 1:3] = 0
    constants = {
        "W": weights,
        "b": np.ones(6, np.float32),
        "V": np.ones((6, 2), np.float32),
        "c": np.ones(2, np.float32),
    }
    nodes = [node("Gemm", "x W b", "a"), node("Relu", "a", "d"), node("Gemm", "d V c", "y")]
    (tmp_path / "dead.onnx").write_bytes(simple(nodes, {"x": (1, 4)}, constants).SerializeToString())
    code, out, err = hil(capsys, "--model", tmp_path / "dead.onnx", "--format", "fixed8", "--passes", "--json")
    assert code == 0, err
    dead = json.loads(out)[0]
    assert dead["name"] == "dead-channels"
    assert dead["constant_without_bytes"] - dead["constant_bytes"] >= 2 * (4 + 2)


def test_an_assignment_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("default: fixed8\nvalues: {z: fixed16}\n")
    found = record(capsys, "--model", "fastgrnn_har", "--assignment", path)
    assert found["format"] == "mixed"
    assert 96 < found["peak_bytes"] < 192


def test_a_model_without_ranges_is_planned_all_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(simple([node("Relu", "x", "a"), node("Tanh", "a", "y")], {"x": (1, 40)}).SerializeToString())
    code, out, err = hil(capsys, "--model", path, "--json")
    assert code == 0
    assert "no calibrated ranges" in err
    assert json.loads(out)["peak_bytes"] == 80


@pytest.mark.parametrize("option", ["--calibrate", "--inputs"])
def test_samples_say_steps_and_ranges_as_they_do_to_a_run(
    option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a model whose steps nothing else says, in every form of the command."""
    cell(tmp_path / "cell.onnx")
    np.savez(tmp_path / "x.npz", x=streams(8))
    given = ("--model", tmp_path / "cell.onnx", option, tmp_path / "x.npz")
    for more in ((), ("--board", "uno"), ("--pareto",), ("--passes",)):
        code, _, err = hil(capsys, *given, *more)
        assert code == 0, err
        assert "as if every value" not in err
    code, _, err = hil(capsys, *given[:3], tmp_path / "none.npz")
    assert (code, "none.npz" in err) == (2, True)


@pytest.mark.parametrize("fmt", ["int8", "fixed8pc", "fixed8"])
def test_dead_channels_without_ranges_are_planned(fmt: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Weights of 1e-30 with a bias, as batch normalisation leaves them: sizes follow from the format alone."""
    weights = np.ones((4, 3, 3, 3), np.float32)
    weights[1] = 1e-30
    constants = {"W": weights, "b": np.full(4, 3.0, np.float32)}
    model = simple([node("Conv", "x W b", "y", kernel_shape=[3, 3])], {"x": (1, 3, 8, 8)}, constants)
    (tmp_path / "dead.onnx").write_bytes(model.SerializeToString())
    code, out, err = hil(capsys, "--model", tmp_path / "dead.onnx", "--format", fmt, "--json")
    assert code == 0, err
    assert json.loads(out)["peak_bytes"] == 4 * 6 * 6 + 3 * 3 * 3  # the output, and the patch of one window


def test_a_model_that_does_not_fit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "large.onnx"
    path.write_bytes(simple([node("Relu", "x", "a"), node("Tanh", "a", "y")], {"x": (1, 1100)}).SerializeToString())
    code, out, err = hil(capsys, "--model", path, "--board", "uno", "--json")
    assert code == 4
    assert json.loads(out)["fits"] is False
    assert "uno: arena 2200 B with the input exceeds 2048 B of RAM by 152 B" in err
    code, _, err = hil(capsys, "--model", path, "--capacity", 2199)
    assert code == 4
    assert "large: peak 2200 B exceeds 2199 B by 1 B; no plan fits" in err


@pytest.mark.parametrize("encoding", ["ascii", "utf-8"])
def test_output_into_a_pipe(encoding: str, instance: Path) -> None:
    environment = {**os.environ, "PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"}
    environment.pop("COLUMNS", None)
    command = [sys.executable, "-m", "tinyhil.harness.cli", "plan", str(instance)]
    done = subprocess.run(command, capture_output=True, env=environment, check=True)
    text = done.stdout.decode(encoding)
    assert "peak 10 B at instant" in text
    assert ("┌a─" in text) == (encoding == "utf-8")
    assert ("+a-" in text) == (encoding == "ascii")
    assert max(map(len, text.splitlines())) <= 80


# ---- the picture


def test_pictures(instance: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib", reason="the picture needs the extra `plot`")
    svg, png = tmp_path / "map.svg", tmp_path / "map.png"
    for path in (svg, png):
        assert hil(capsys, instance, "--plot", path, "--json")[0] == 0
    assert png.read_bytes().startswith(b"\x89PNG")
    texts = [element.text for element in ET.parse(svg).iter() if element.tag.endswith("text")]
    assert {"a", "b", "c", "bytes", "instant"} <= set(texts)
    assert any(text and text.startswith("peak 10 B at instant") for text in texts)
    first = svg.read_bytes()
    assert hil(capsys, instance, "--plot", svg)[0] == 0
    assert svg.read_bytes() == first


def test_the_picture_of_a_model_names_operations(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib", reason="the picture needs the extra `plot`")
    path = tmp_path / "map.svg"
    assert hil(capsys, "--model", "fastgrnn_har", "--plot", path)[0] == 0
    texts = [element.text for element in ET.parse(path).iter() if element.tag.endswith("text")]
    assert {"h_tilde", "uh_low", "operation", "fastgrnn_har, fixed16"} <= set(texts)
    assert texts.count("h") == 2  # before and behind its gap


def test_odd_names_and_large_instances_are_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the picture needs the extra `plot`")
    names = ["$x_1", "a$\\frac{$", "<b>&", "\x00\x1b", "λ"]
    buffers = [Buffer(name, 4, i, i + 2) for i, name in enumerate(names)]
    buffers += [Buffer(f"b{i}", 8, i, i + 5) for i in range(300)]
    problem = Problem(tuple(buffers))
    save_map(memory_map(problem, plan(problem), "$"), tmp_path / "a.svg")
    ET.parse(tmp_path / "a.svg")
    few = Problem(tuple(buffers[: len(names)]))
    save_map(memory_map(few, plan(few), "$", ["$o", "b", "c"]), tmp_path / "a.svg")
    texts = [element.text for element in ET.parse(tmp_path / "a.svg").iter() if element.tag.endswith("text")]
    assert {"$x_1", "<b>&"} <= set(texts)
    save_map(memory_map(Problem(()), plan(Problem(())), "empty"), tmp_path / "b.png")


def test_without_matplotlib(
    instance: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    code, out, err = hil(capsys, instance, "--plot", instance.with_suffix(".svg"))
    assert (code, out) == (2, "")
    assert err == "hil: --plot needs matplotlib; type: pip install 'tinyhil[plot]'\n"
    assert hil(capsys, instance)[0] == 0


def test_a_bias_of_one_number_per_channel_goes_into_the_convolution(tmp_path: Path) -> None:
    """MNIST as the ONNX model zoo has it: Add, Relu and pooling join their convolutions, by rows; 7,840 B otherwise."""
    chance = np.random.default_rng(0)
    shapes = {
        "w1": (8, 1, 5, 5),
        "b1": (8, 1, 1),
        "w2": (16, 8, 5, 5),
        "b2": (16, 1, 1),
        "w3": (256, 10),
        "b3": (1, 10),
    }
    nodes = []
    for source, number, side in (("x", 1, 2), ("p1", 2, 3)):
        nodes += [
            node("Conv", f"{source} w{number}", f"c{number}", auto_pad="SAME_UPPER"),
            node("Add", f"c{number} b{number}", f"a{number}"),
            node("Relu", f"a{number}", f"r{number}"),
            node("MaxPool", f"r{number}", f"p{number}", kernel_shape=[side, side], strides=[side, side]),
        ]
    nodes += [node("Reshape", "p2 flat", "f"), node("MatMul", "f w3", "m"), node("Add", "m b3", "y")]
    constants = {name: chance.normal(0, 0.1, shape) for name, shape in shapes.items()}
    model = tinyhil.load(simple(nodes, {"x": (1, 1, 28, 28)}, {**constants, "flat": [1, 256]}))
    x = chance.uniform(0, 255, (4, 1, 28, 28)).astype(np.float32)
    assert model.calibrate(x).compile("fixed8").arena_bytes == 2136


def test_schedules_of_a_model(capsys: pytest.CaptureFixture[str]) -> None:
    """From layer by layer to the least RAM, and the one that fits."""
    digits = ("--model", "digits_cnn", "--format", "fixed8")
    found = json.loads(hil(capsys, *digits, "--pareto", "--json")[1])
    peaks = [one["peak_bytes"] for one in found]
    assert peaks == sorted(peaks, reverse=True)
    assert found[0]["more_products"] == found[0]["more_time"] == 0
    assert peaks[-1] < record(capsys, *digits)["peak_bytes"]
    assert found[-1]["more_products"] > 0
    code, out, _ = hil(capsys, *digits, "--pareto")
    assert (code, len(out.splitlines())) == (0, 3 + len(peaks))
    for limit in peaks:
        assert record(capsys, *digits, "--ram", limit)["peak_bytes"] <= limit
    code, _, err = hil(capsys, *digits, "--ram", peaks[-1] - 1)
    assert (code, err.count("\n")) == (4, 1)
    assert f"exceeds {peaks[-1] - 1} B by " in err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--model", "digits_cnn", "--ram", 900, "--capacity", 900), "--ram and --capacity exclude each other"),
        (("--model", "digits_cnn", "--pareto", "--ram", 900), "leave them out"),
        (("--pareto",), "--pareto is for --model"),
    ],
)
def test_schedules_that_make_no_sense(
    options: tuple[object, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = hil(capsys, *options)
    assert (code, err.count("\n")) == (2, 1)
    assert said in err


def test_what_computes_again_is_not_said_to_compute_once(capsys: pytest.CaptureFixture[str]) -> None:
    """Another program, of which the proof says nothing, needs less."""
    plan = ("--model", "digits_cnn", "--format", "fixed8", "--board", "due", "--json")
    once, again = (json.loads(hil(capsys, *plan, *more)[1]) for more in ((), ("--prefer", "least")))
    assert again["peak_bytes"] < once["peak_bytes"]
    assert (once["schedule_proven"], again["schedule_proven"]) == (True, False)
