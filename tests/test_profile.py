"""`hil profile`: every operation of the program is timed, the sum is that of the image without a profile."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from boards_under_test import ARM, each
from hil_command import hil
from onnx_models import node, simple
from scan_models import weights
from test_avr8js import needs_avr8js
from test_diff import broken

from tinyhil.codegen.body import OPERATIONS, VALUES
from tinyhil.compiler.calibrate import calibrate, load_ranges
from tinyhil.errors import BoardDiffers, LinkError
from tinyhil.frontend.load import load_model
from tinyhil.harness.build import pipeline
from tinyhil.harness.build.pipeline import Compiled, compile_model
from tinyhil.harness.build.toolchain import default_cache_dir
from tinyhil.harness.job.inputs import read_inputs
from tinyhil.harness.job.job import Request
from tinyhil.harness.job.zoo import find_model
from tinyhil.harness.measure.operations import elements_of, executions_of, macs_of
from tinyhil.harness.measure.profile import Profile, profile, read_costs
from tinyhil.harness.measure.record import store
from tinyhil.harness.measure.run import run
from tinyhil.harness.measure.variant import Reported
from tinyhil.harness.records.figures import cold_first
from tinyhil.harness.report.run_sections import _time_bar
from tinyhil.harness.settings.config import load_boards
from tinyhil.harness.wire.protocol import Position, Result, Timed, decode
from tinyhil.language.assignment import Assignment
from tinyhil.language.program import walk


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two matrices with a tanh between them, and 40 samples."""
    nodes = [node("MatMul", "x W", "t"), node("Tanh", "t", "h"), node("MatMul", "h V", "y")]
    model = simple(nodes, {"x": (1, 8)}, {"W": weights(8, 6), "V": weights(6, 3)})
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
    np.savez(tmp_path / "x.npz", x=np.random.default_rng(0).normal(size=(40, 1, 8)).astype(np.float32))
    return tmp_path


def profiled(request: Request) -> Profile:
    return profile(request, load_boards(), default_cache_dir(), print, lambda done, all_: None)


def request(folder: Path, board: str, fmt: str = "fixed16") -> Request:
    path = folder / "x.npz"
    return Request(board, str(folder / "net.onnx"), fmt, inputs=path, samples=3, results=folder / "results")


@pytest.mark.parametrize(
    ("fmt", "function"), [("fixed8", "code_table"), pytest.param("posit8es2", "lookup", marks=pytest.mark.slow)]
)
def test_the_sum_is_the_whole_on_the_uno(folder: Path, fmt: str, function: str) -> None:
    """Each image is compiled on its own, so they differ where operations share registers; here by less than 2 %."""
    found = profiled(request(folder, "uno", fmt))
    assert [(c.output, c.kernel, c.executions) for c in found.operations] == [
        ("t", "dense", 1),
        ("h", function, 1),
        ("y", "dense", 1),
    ]
    assert [c.macs for c in found.operations] == [48, None, 18]
    assert all(cost.ticks > 0 for cost in found.operations)
    assert 0 < found.outside < 0.2 * found.whole
    assert found.summed == pytest.approx(found.whole, rel=0.02)
    record = json.loads(Path(found.record).read_text())
    assert (record["bit_exact"], record["latency"]["max"]) == (True, found.worst)


@needs_avr8js
def test_two_emulators_count_the_same_cycles_for_each_operation(folder: Path) -> None:
    first = profiled(request(folder, "uno"))
    second = profiled(replace(request(folder, "uno"), emulator="avr8js"))
    assert [c.ticks for c in first.operations] == [c.ticks for c in second.operations]
    assert (first.outside, first.reading) == (second.outside, second.reading)


def test_a_layer_of_twice_the_weights_takes_twice_the_cycles(tmp_path: Path) -> None:
    """Rows of equal length, so cycles are proportional to their number but for the call itself."""
    costs = {}
    for outputs in (8, 16):
        model = simple([node("MatMul", "x W", "y")], {"x": (1, 32)}, {"W": weights(32, outputs)})
        (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
        np.savez(tmp_path / "x.npz", x=np.random.default_rng(0).normal(size=(40, 1, 32)).astype(np.float32))
        (costs[outputs],) = profiled(request(tmp_path, "uno")).operations
    assert costs[16].macs == 2 * (costs[8].macs or 0) == 512
    assert costs[16].ticks / costs[8].ticks == pytest.approx(2, rel=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("board", each(ARM))
def test_instructions_are_those_of_the_image_without_a_profile(folder: Path, board: str) -> None:
    found = profiled(request(folder, board))
    assert found.whole_instructions is not None
    counted = sum(cost.instructions or 0 for cost in found.operations)
    assert counted == pytest.approx(found.whole_instructions, rel=0.06)  # loops and copies are between operations
    assert counted < found.whole_instructions * 1.01


@pytest.mark.parametrize(("board", "is_cold"), [("uno", False), ("pico", True)])
def test_a_first_sample_that_alone_is_slow_is_told_apart(board: str, is_cold: bool, tmp_path: Path) -> None:
    """A Pico's flash is behind a cache: the mean of a few samples is not what one takes."""
    found = profiled(Request(board, "digits_mlp", "fixed8", results=tmp_path, samples=3))
    assert (found.warm is not None) == is_cold
    assert not is_cold or found.warm < found.whole < found.worst
    record = json.loads(Path(found.record).read_text())
    assert ("nothing in a cache" in _time_bar(record)) == is_cold


def test_only_what_runs_as_few_instructions_finds_nothing_in_a_cache() -> None:
    """A first sample of an Uno that computes more was said to."""
    assert cold_first([110, 100, 99], [50, 50, 50])
    assert not cold_first([110, 100, 99], [55, 50, 50])
    assert not cold_first([110, 100, 99], None)
    assert not cold_first([100, 110], [50, 50])


def test_a_loop_is_summed_over_its_steps_while_its_input_streams(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(2, 128, 9)).astype(np.float32)
    np.savez(tmp_path / "x.npz", x=x)
    found = profiled(Request("uno", "fastgrnn_har", "fixed8", inputs=tmp_path / "x.npz", results=tmp_path, samples=1))
    by_name = {cost.output: cost for cost in found.operations}
    assert (by_name["c"].executions, by_name["c"].macs) == (128, 128 * 32 * (9 + 8))  # two products in one sum
    assert by_name["logits"].executions == 1
    assert found.summed == pytest.approx(found.whole, rel=0.03)


def test_sensitivities_of_a_large_model_are_measured_when_it_is_profiled(tmp_path: Path) -> None:
    """Beside a run they would take longer than the run."""
    nodes = [node("Sigmoid" if at % 2 else "Tanh", f"v{at}", f"v{at + 1}") for at in range(6)]
    nodes.append(node("MaxPool", "v6", "y", kernel_shape=[16, 16], strides=[16, 16]))
    (tmp_path / "net.onnx").write_bytes(simple(nodes, {"v0": (1, 1, 256, 256)}).SerializeToString())
    np.savez(tmp_path / "x.npz", x=np.random.default_rng(0).normal(size=(2, 1, 256, 256)).astype(np.float32))
    asked = replace(request(tmp_path, "host"), samples=2)
    _, path = store(run(asked, load_boards(), default_cache_dir(), print, lambda done, all_: None))
    ran = json.loads(path.read_text())["layers"]
    layers = json.loads(Path(profiled(asked).record).read_text())["layers"]
    assert {layer["sensitivity"] for layer in ran} == {None}
    assert all(layer["sensitivity"] > 0 for layer in layers)


def test_a_board_that_computes_something_else_is_not_profiled(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sources = broken(pipeline.runtime_sources())
    monkeypatch.setattr(pipeline, "runtime_sources", lambda: sources)
    with pytest.raises(BoardDiffers, match="`hil diff --sample 0` names the tensor"):
        profiled(request(folder, "host"))


def test_the_command(folder: Path) -> None:
    command = ("profile", "--board", "host", "--model", "net.onnx", "--inputs", "x.npz", "--samples", 2)
    run = hil(*command, "--json", cwd=folder)
    assert run.returncode == 0, run.stderr
    data = json.loads(run.stdout)
    assert (data["samples"], data["unit"], len(data["operations"])) == (2, "nanoseconds", 3)
    assert data["difference"] == pytest.approx(data["whole"] - data["summed"])
    table = hil(*command, cwd=folder)
    assert table.returncode == 0, table.stderr
    assert "degraded" not in table.stdout
    loud = np.load(folder / "x.npz")["x"] * 100
    np.savez(folder / "loud.npz", x=loud)
    options = ("--model", "net.onnx", "--inputs", "loud.npz", "--calibrate", "x.npz", "--samples", 2)
    for other in (("profile",), ("bench", "--resets", 2, "--inferences", 2)):
        done = hil(other[0], "--board", "host", *options[: 6 if other[1:] else 8], *other[1:], cwd=folder)
        assert done.returncode == 0, done.stderr
        assert "degraded: inputs-clipped: " in done.stdout
    for word in ("dense", "fixed16, fixed16 → fixed16", "between operations", "without a profile"):
        assert word in table.stdout


# --- what is read from the wire -----------------------------------------------------------------------------------


def compiled(folder: Path) -> Compiled:
    model = load_model(folder / "net.onnx")
    ranges = calibrate(model.graph, read_inputs(folder / "x.npz").x, {})
    return compile_model(model, Assignment("fixed8"), ranges, [load_boards().board("host")], {"host"})


def reported(*ticks: tuple[int, int, int], result_ticks: int) -> Reported:
    result = Result(0, result_ticks, 0, Position(0, 0, 0), b"")
    return Reported(tuple(Timed(*entry) for entry in ticks), (result,), "")


FRAMES = ((3, 20, 105), (3, 20, 112), (0, 120, 119), (1, 50, 126), (2, 70, 133))


def test_what_reading_costs_is_subtracted(folder: Path) -> None:
    costs, outside, reading = read_costs(compiled(folder), reported(*FRAMES, result_ticks=150))
    assert [cost.ticks for cost in costs] == [100, 30, 50]
    assert (reading, outside) == (20, 150 - 5 * 7)


@pytest.mark.parametrize("lost", range(5))
def test_a_lost_frame_is_noticed(folder: Path, lost: int) -> None:
    with pytest.raises(LinkError, match="a frame was lost"):
        read_costs(compiled(folder), reported(*FRAMES[:lost], *FRAMES[lost + 1 :], result_ticks=150))


def test_an_operation_on_the_wire() -> None:
    assert decode(b"\x88\x03\x00\x10\x27\x00\x00\x05\x00\x00\x00") == Timed(3, 10000, 5)


def test_normal_firmware_tells_nothing(folder: Path) -> None:
    for text in compiled(folder).sources.values():
        assert "begin_operation(" not in text.replace("void begin_operation(", "")
        assert "#define HIL_PROFILE" not in text
    assert OPERATIONS != VALUES


def test_products_of_a_convolution(tmp_path: Path) -> None:
    nodes = [node("Conv", "x W", "y", kernel_shape=[3, 3])]
    model = simple(nodes, {"x": (1, 2, 6, 6)}, {"W": np.ones((4, 2, 3, 3), np.float32)})
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
    np.savez(tmp_path / "x.npz", x=np.random.default_rng(0).normal(size=(4, 2, 6, 6)).astype(np.float32))
    program = compiled(tmp_path).program
    (op,) = [op for op in walk(program.body) if op.kernel.base == "conv"]
    assert elements_of(program, op, 1) == 4 * 4 * 4
    assert macs_of(program, op, 64) == 64 * 2 * 9


@pytest.mark.parametrize(("arena", "rows"), [("fixed8", True), ("fixed16", True), ("fixed16", False)])
def test_products_do_not_depend_on_how_rows_are_cut(arena: str, rows: bool) -> None:
    source = find_model("digits_cnn")
    model = load_model(source.path)
    assert source.ranges is not None
    chosen = Assignment("fixed8", {"relu2": arena, "pool1": arena})
    boards = [load_boards().board("host")]
    ranges = load_ranges(source.ranges, model.sha256)
    made = compile_model(model, chosen, ranges, boards, {"host"}, () if rows else ("rows",))
    times = executions_of(made.program, made.plan)
    found = {}
    for number, op in enumerate(walk(made.program.body)):
        if op.name in ("conv1", "conv2"):
            found[op.name] = macs_of(made.program, op, elements_of(made.program, op, times[number]))
    assert found == {"conv1": 6 * 6 * 8 * 9, "conv2": 4 * 4 * 16 * 8 * 9}
