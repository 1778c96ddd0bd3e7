"""What can go wrong with `hil run`: each with its exit code, one line on stderr, no traceback, in bounded time."""

from __future__ import annotations

import json
import re
import resource
import struct
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import click
import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from hil_command import (
    check_failure,
    command,
    finished_samples,
    hil,
    record_of,
    start_hil,
    wait_until,
)
from onnx import TensorProto, helper, numpy_helper
from wire_bench import (
    Bench,
    FakeBoard,
    FaultyWire,
    hello_frame,
    make_bench,
    powered,
    write_tiny_model,
)

from tinyhil.harness.commands.common import say
from tinyhil.harness.wire import protocol

TINY_SAMPLES = 40


def save_model(path: Path, nodes: list[onnx.NodeProto], shape: list[int], **weights: np.ndarray) -> None:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["rows", "columns"])],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.save(model, path)


def write_models(folder: Path) -> None:
    good = write_tiny_model(folder / "tiny.onnx").read_bytes()
    (folder / "truncated.onnx").write_bytes(good[: len(good) // 2])
    (folder / "empty.onnx").write_bytes(b"")
    (folder / "text.onnx").write_text("not a model\n")
    (folder / "folder.onnx").mkdir()
    save_model(folder / "unsupported.onnx", [helper.make_node("Unique", ["x"], ["y"], "mystery")], [1, 3, 3])
    dense = [helper.make_node("MatMul", ["x", "w"], ["y"], "mix")]
    weights = np.ones((32, 4), np.float32)
    weights[3, 2] = np.nan
    save_model(folder / "nan.onnx", dense, [1, 32], w=weights)
    save_model(folder / "misfit.onnx", dense, [1, 32], w=np.ones((31, 4), np.float32))
    save_model(folder / "wide.onnx", dense, [1, 3000], w=np.ones((3000, 1), np.float32))
    save_model(folder / "heavy.onnx", dense, [1, 64], w=np.ones((64, 400), np.float32))


def write_inputs(folder: Path) -> None:
    random = np.random.default_rng(1)
    x = random.uniform(-1, 1, (TINY_SAMPLES, 1, 32)).astype(np.float32)
    np.savez(folder / "x.npz", x=x)
    np.savez(folder / "labels.npz", x=x, y=np.arange(TINY_SAMPLES) % 4)
    np.savez(folder / "short_labels.npz", x=x, y=np.zeros(3, np.int64))
    np.savez(folder / "float_labels.npz", x=x, y=np.zeros(TINY_SAMPLES))
    np.savez(folder / "no_x.npz", z=x, w=x)
    np.savez(folder / "objects.npz", x=np.array([{}, []], dtype=object))
    np.savez(folder / "text.npz", x=np.array(["a", "b"]))
    np.savez(folder / "none.npz", x=x[:0])
    np.savez(folder / "wrong_shape.npz", x=x[:, :, :31])
    np.savez(folder / "wide.npz", x=np.zeros((2, 1, 3000), np.float32))
    np.savez(folder / "heavy.npz", x=np.ones((2, 1, 64), np.float32))
    x[7, 0, 5] = np.nan
    np.savez(folder / "nan.npz", x=x)
    (folder / "text.npy").write_text("1 2 3\n")
    (folder / "truncated.npz").write_bytes((folder / "x.npz").read_bytes()[:200])


def write_assignments(folder: Path) -> None:
    (folder / "values.yaml").write_text("default: fixed16\nvalues: {nobody: fixed8}\n")
    (folder / "format.yaml").write_text("default: fixed16\nvalues: {y: float7}\n")
    (folder / "list.yaml").write_text("[1, 2]\n")
    (folder / "broken.yaml").write_text("default: [\n")
    (folder / "twice.yaml").write_text("default: fixed16\nvalues:\n  y: fixed8\n  y: fixed16\n")
    (folder / "boards.yaml").write_text("chips: {}\n")


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    write_models(folder)
    write_inputs(folder)
    write_assignments(folder)
    return folder


TINY = "run --board host --model {f}/tiny.onnx --inputs "
GOOD = TINY + "{f}/x.npz "
HAR = "run --board host --model fastgrnn_har --samples 2 "
BAD_INPUT: dict[str, tuple[str, int, tuple[str, ...]]] = {
    "no command of ours": ("frobnicate", 2, ("frobnicate", "hil --help")),
    "no options": ("run", 2, ("--board", "hil run --help")),
    "no model": ("run --board uno", 2, ("--model",)),
    "unknown option": ("run --board uno --model x --bord y", 2, ("--bord", "--board")),
    "no value": ("run --board", 2, ("--board",)),
    "no samples": (GOOD + "--samples 0", 2, ("--samples", "0")),
    "not a number": (GOOD + "--samples many", 2, ("many",)),
    "unknown mode": (GOOD + "--mode loud", 2, ("loud", "quiet")),
    "no time": (GOOD + "--timeout 0", 2, ("--timeout",)),
    "unknown board": ("run --board duo --model fastgrnn_har", 3, ("duo", "did you mean uno?", "h747")),
    "unknown model": ("run --board host --model fastgrn_har", 2, ("fastgrn_har", "did you mean fastgrnn_har?")),
    "no such file": (TINY.replace("tiny", "nothing") + "{f}/x.npz", 2, ("nothing.onnx", "no such file")),
    "truncated model": (TINY.replace("tiny", "truncated") + "{f}/x.npz", 2, ("truncated.onnx", "ONNX")),
    "empty model": (TINY.replace("tiny", "empty") + "{f}/x.npz", 2, ("empty.onnx",)),
    "text as model": (TINY.replace("tiny", "text") + "{f}/x.npz", 2, ("text.onnx", "ONNX")),
    "folder as model": (TINY.replace("tiny", "folder") + "{f}/x.npz", 2, ("folder.onnx",)),
    "unsupported operator": (TINY.replace("tiny", "unsupported") + "{f}/x.npz", 2, ("Unique", "mystery")),
    "NaN in the weights": (TINY.replace("tiny", "nan") + "{f}/x.npz", 2, ("'w'", "1 value", "NaN")),
    "shapes that do not fit": (TINY.replace("tiny", "misfit") + "{f}/x.npz", 2, ("mix", "[1, 32]", "[31, 4]")),
    "no inputs": ("run --board host --model {f}/tiny.onnx", 2, ("--inputs",)),
    "no such inputs": (TINY + "{f}/nothing.npz", 2, ("nothing.npz", "no such file")),
    "folder as inputs": (TINY + "{f}", 2, ("Is a directory",)),
    "text as inputs": (TINY + "{f}/text.npy", 2, ("text.npy", "not a readable .npz or .npy file")),
    "truncated inputs": (TINY + "{f}/truncated.npz", 2, ("truncated.npz",)),
    "inputs without x": (TINY + "{f}/no_x.npz", 2, ("'x'", "z")),
    "objects as inputs": (TINY + "{f}/objects.npz", 2, ("objects.npz",)),
    "words as inputs": (TINY + "{f}/text.npz", 2, ("numbers",)),
    "no sample": (TINY + "{f}/none.npz", 2, ("none.npz", "no samples")),
    "wrong shape of inputs": (TINY + "{f}/wrong_shape.npz", 2, ("32", "31")),
    "NaN in the inputs": (TINY + "{f}/nan.npz", 2, ("NaN", "sample 7")),
    "labels of another length": (TINY + "{f}/short_labels.npz", 2, ("'y'", "3")),
    "labels that are no integers": (TINY + "{f}/float_labels.npz", 2, ("'y'", "float64")),
    "inputs of another model": (HAR + "--inputs {f}/x.npz", 2, ("[1, 128, 9]", "32")),
    "unknown format": (GOOD + "--format float7", 2, ("float7", "float32", "hil formats")),
    "assignment of an unknown value": (GOOD + "--assignment {f}/values.yaml", 2, ("nobody",)),
    "assignment of an unknown format": (GOOD + "--assignment {f}/format.yaml", 2, ("float7",)),
    "assignment that is a list": (GOOD + "--assignment {f}/list.yaml", 2, ("default",)),
    "assignment that is no YAML": (GOOD + "--assignment {f}/broken.yaml", 2, ("broken.yaml",)),
    "assignment with a key twice": (GOOD + "--assignment {f}/twice.yaml", 2, ("twice.yaml", "'y' is given twice")),
    "assignment beside a format": (GOOD + "--format fixed8 --assignment {f}/list.yaml", 2, ("--format", "not both")),
    "no such assignment": (GOOD + "--assignment {f}/nothing.yaml", 2, ("nothing.yaml", "no such file")),
    "no such calibration": (GOOD + "--calibrate {f}/nothing.npz", 2, ("nothing.npz",)),
    "bad board file": (GOOD + "--boards-file {f}/boards.yaml", 2, ("boards.yaml",)),
    "no such board file": (GOOD + "--boards-file {f}/nothing.yaml", 2, ("nothing.yaml",)),
    "a port for the host": (GOOD + "--port /dev/ttyS0", 3, ("host",)),
    "no such port": (GOOD.replace("host", "h747") + "--port /dev/no-such", 3, ("/dev/no-such", "hil boards")),
    "input beyond the RAM": (
        "run --board uno --model {f}/wide.onnx --inputs {f}/wide.npz",
        4,
        ("6000 B", "2048 B", "largest", "x"),
    ),
    "weights beyond the flash": (
        "run --board uno --model {f}/heavy.onnx --inputs {f}/heavy.npz",
        4,
        ("51200 B", "32256 B of flash", "18944 B too much", "largest w 51200 B"),
    ),
}


@pytest.mark.parametrize("name", BAD_INPUT)
def test_bad_input(name: str, files: Path, tmp_path: Path) -> None:
    line, code, words = BAD_INPUT[name]
    done = hil(*line.format(f=files).split(), cwd=tmp_path)
    check_failure(done, code, *words, logs=True)
    said = done.stderr.splitlines()[:-1]
    assert all(re.search("calibrating|compiling|built|har6", line) for line in said), said
    assert done.stdout == ""


def test_no_arguments_at_all_is_help(tmp_path: Path) -> None:
    done = hil(cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Boards and tools:" in done.stdout


# ---- results that can not be written ----


def test_results_folder_that_is_a_file(files: Path, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    done = hil(*GOOD.format(f=files).split(), "--results", "taken", cwd=tmp_path)
    check_failure(done, 2, "taken", "--results", logs=True)


def limited_to(file_bytes: int) -> Callable[[], None]:
    """No file may become larger: what a full disk looks like to a program."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))


@pytest.mark.parametrize("when", ["in the middle", "at the record"])
def test_full_disk(when: str, files: Path, tmp_path: Path) -> None:
    arguments = [*GOOD.format(f=files).split(), "--samples", 20]
    first = hil(*arguments, "--results", "first", cwd=tmp_path)  # builds without a limit
    assert first.returncode == 0, first.stderr
    (record,) = (tmp_path / "first").rglob("*.json")
    limit = 500 if when == "in the middle" else record.stat().st_size - 100
    done = subprocess.run(
        command(*arguments), cwd=tmp_path, capture_output=True, text=True, check=False, preexec_fn=limited_to(limit)
    )
    check_failure(done, 2, "results", "File too large", logs=True)
    assert not list((tmp_path / "results").rglob("*.json"))
    assert not list((tmp_path / "results").rglob("*.tmp"))


# ---- boards that misbehave ----


@pytest.fixture(scope="session")
def tiny_h747(files: Path) -> Bench:
    """The H747 is not reset when its port is opened: the harness asks for its HELLO at once."""
    x = np.load(files / "x.npz")["x"]
    return make_bench("h747", files / "tiny.onnx", x)


def port_arguments(files: Path, port: str, board: str = "h747", timeout_s: float = 2.0) -> list[object]:
    line = f"run --board {board} --model {files}/tiny.onnx --inputs {files}/x.npz --calibrate {files}/x.npz --no-flash"
    return [*line.split(), "--no-flash", "--timeout", timeout_s, "--port", port]


def started(board: FakeBoard, bench: Bench) -> None:
    """HELLO, and START acknowledged with room for two samples."""
    board.write(hello_frame(bench))
    while b"\x02" not in board.read():
        pass
    board.write(protocol.frame(struct.pack("<BHHHB", protocol.ACK, 0, 0, 2, protocol.STARTED)))
    board.read(1.0)


def flood(board: FakeBoard, frame: bytes) -> None:
    while not board.stopping.is_set():
        board.write(frame)
        time.sleep(0.001)  # a thousand a second are a flood, too, and leave the processor to others


def result_frame(sample: int, output: bytes) -> bytes:
    return protocol.frame(struct.pack("<BHIIHHH", protocol.RESULT, sample, 1, 0, sample + 1, 0, 2) + output)


def wrong_length(board: FakeBoard, bench: Bench) -> None:
    started(board, bench)
    flood(board, result_frame(0, bytes(9)))


def one_result_for_ever(board: FakeBoard, bench: Bench) -> None:
    started(board, bench)
    flood(board, result_frame(0, bench.outputs[0]))


def never_asked(board: FakeBoard, bench: Bench) -> None:
    started(board, bench)
    flood(board, result_frame(9, bench.outputs[9]))


def restart(board: FakeBoard, bench: Bench) -> None:
    started(board, bench)
    board.write(hello_frame(bench))


def fall_silent(board: FakeBoard, bench: Bench) -> None:
    started(board, bench)
    board.write(result_frame(0, bench.outputs[0]))


HOSTILE: dict[str, tuple[Callable[[FakeBoard, Bench], None], int, str]] = {
    "silent": (lambda board, bench: None, 6, "nothing was received"),
    "babbling": (lambda board, bench: flood(board, b"\xa5\x5a\x33" * 99), 6, "babbles"),
    "babbling in lines": (lambda board, bench: flood(board, b"OK\r\n\0" * 99), 6, "babbles"),
    "foreign firmware": (lambda b, bench: b.write(hello_frame(bench, b"\1" * 8)), 8, "0101010101010101"),
    "silent after HELLO": (lambda board, bench: board.write(hello_frame(bench)), 6, "START"),
    "silent in the middle": (fall_silent, 6, "no progress for 2 s at sample 1 of 40"),
    "restarting": (restart, 7, "restarted"),
    "results of a wrong length": (wrong_length, 6, "the last a result of 9 bytes, expected 8"),
    "a flood of one result": (one_result_for_ever, 6, "no progress"),
    "results never asked for": (never_asked, 6, "not sent"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_port(name: str, files: Path, tiny_h747: Bench, tmp_path: Path) -> None:
    behave, code, words = HOSTILE[name]
    with FakeBoard(lambda board: behave(board, tiny_h747)) as board:
        done = hil(*port_arguments(files, board.port), cwd=tmp_path)
    check_failure(done, code, words)
    assert done.stdout == ""


def test_a_busy_port(files: Path, tiny_h747: Bench, tmp_path: Path) -> None:
    from tinyhil.harness.wire.link import Link

    with FakeBoard(lambda board: None) as board, Link(board.port, 115200):
        done = hil(*port_arguments(files, board.port), cwd=tmp_path)
    check_failure(done, 3, board.port)


def test_a_board_behind_a_port_gives_the_same_record_as_the_emulator(
    files: Path, tiny_h747: Bench, tmp_path: Path
) -> None:
    with powered(tiny_h747, tmp_path) as device:
        at_port = record_of(hil(*port_arguments(files, device.port), "--json", cwd=tmp_path))
    emulated = record_of(hil(*port_arguments(files, "")[:-2], "--json", cwd=tmp_path))
    assert at_port["emulator"] is None
    assert at_port["provenance"]["port"] == device.port
    for key in ("bit_exact", "samples", "flash_bytes", "saturations", "equal_samples"):
        assert at_port[key] == emulated[key]
    assert at_port["raw"]["ticks"] == emulated["raw"]["ticks"]


def test_damaged_wire_and_one_retry(files: Path, tiny_h747: Bench, tmp_path: Path) -> None:
    """The wire goes dead in the middle of the first attempt and comes back for the second: passed, but flaky."""
    results = tmp_path / "results"
    with powered(tiny_h747, tmp_path) as device, FaultyWire(device.port, 1e-3, seed=1) as wire:
        wire.cut_after_bytes = 1500
        arguments = [*port_arguments(files, wire.port), "--retries", 1, "--json"]
        running = start_hil(*arguments, cwd=tmp_path)
        wait_until(lambda: wire.is_cut and finished_samples(results) > 0)
        assert running.stderr is not None
        line = running.stderr.readline()
        assert "trying again (1 of 1)" in line
        wire.repair()
        out, err = running.communicate()
    record = json.loads(out)
    assert running.returncode == 9, err
    assert (record["flaky"], record["bit_exact"], record["equal_samples"]) == (True, True, TINY_SAMPLES)
    assert record["link"]["attempts"] == 2
    assert err == ""
    assert finished_samples(results) == 0


def test_a_board_that_resets_in_the_middle(tmp_path: Path, files: Path) -> None:
    """The Uno resets when its port is opened again: the run ends with 7, the finished samples serve the next run."""
    bench = make_bench("uno", files / "tiny.onnx", np.load(files / "x.npz")["x"])
    with powered(bench, tmp_path) as device, FaultyWire(device.port, 0.0, seed=1) as wire:
        wire.reset_after_bytes = 2000
        done = hil(*port_arguments(files, wire.port, "uno", 30), cwd=tmp_path)
        check_failure(done, 7, "restarted")
        finished = finished_samples(tmp_path / "results")
        assert 0 < finished < TINY_SAMPLES
        again = hil(*port_arguments(files, wire.port, "uno", 30), "--json", cwd=tmp_path)
    record = record_of(again)
    assert f"resuming, {finished} of {TINY_SAMPLES}" in again.stderr
    assert (record["bit_exact"], record["samples"], record["flaky"]) == (True, TINY_SAMPLES, False)


def test_a_note_is_printed_once_in_a_command() -> None:
    @click.command()
    def twice() -> None:
        for line in ("due: compiling", "due: compiling", "due: built"):
            say(line)

    for _ in range(2):
        assert CliRunner().invoke(twice).stderr.splitlines() == ["due: compiling", "due: built"]


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (("plan", "--model", "digits_mlp", "--board", "uno", "--board", "due"), "--board"),
        (("golden", "update", "--board", "uno", "--model", "digits_mlp", "--model", "fastgrnn_har"), "--model"),
        (("run", "--board", "uno", "--model", "digits_mlp", "--format", "fixed8", "--format", "int8"), "--format"),
    ],
)
def test_of_two_boards_none_is_left_out_without_a_word(words: tuple[str, ...], option: str, tmp_path: Path) -> None:
    done = hil(*words, cwd=tmp_path)
    said = f"hil: {option} is given twice, and one is taken; run the command once for each; see `hil "
    assert (done.returncode, done.stderr.startswith(said)) == (2, True), done.stderr
    command = " ".join(word for word in words[:2] if not word.startswith("-"))
    assert done.stderr.strip().endswith(f"see `hil {command} --help`")


def test_boards_and_formats_come_one_by_one_or_with_commas(tmp_path: Path) -> None:
    one_by_one = ("--board", "uno", "--board", "due", "--formats", "fixed8", "--formats", "int8")
    together = ("--board", "uno,due", "--formats", "fixed8,int8")
    found = [hil("fit", "digits_mlp", *given, "--json", cwd=tmp_path).stdout for given in (one_by_one, together)]
    assert found[0] == found[1]
    assert {(row["board"], row["format"]) for row in json.loads(found[0])["rows"]} == {
        (board, fmt) for board in ("uno", "due") for fmt in ("fixed8", "int8")
    }


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("boards", "lock", "left", "--bench", "x"), "--bench': it stands before `lock`, after `hil boards`; see `hil"),
        (
            ("run", "digits_mlp", "--board", "uno"),
            "(digits_mlp); a model is given as `--model digits_mlp`; see",
        ),
        (("run", "--model", "digits_mlp", "--board", "uno", "due"), "argument (due); see `hil run --help`"),
        (("bench", "--against"), "requires an argument; see `hil bench --help`"),
        (("run", "--model", "digits_mlp", "--board", "mine"), "a board of yours: --boards-file FILE"),
    ],
)
def test_an_error_says_where_to_look(arguments: tuple[str, ...], said: str, tmp_path: Path) -> None:
    assert said in hil(*arguments, cwd=tmp_path).stderr


def test_samples_are_found_by_any_name(tmp_path: Path) -> None:
    """Of the one array beside labels, or of a model of the zoo; what is no archive says how one is made."""
    x = np.zeros((3, 1, 8, 8), np.float32)
    np.savez(tmp_path / "named.npz", X=x, y=np.zeros(3, np.int64))
    (tmp_path / "x.csv").write_text("1,2")
    run = ("run", "--board", "host", "--model", "digits_mlp", "--samples", "3", "--inputs")
    for given in ("named.npz", "digits_mlp"):
        assert "3 samples" in hil(*run, given, cwd=tmp_path).stdout
    assert "numpy.savez('x.npz'" in hil(*run, "x.csv", cwd=tmp_path).stderr


def test_a_format_that_nothing_has_is_said(tmp_path: Path) -> None:
    """Of a product that became part of the layer's result, which `hil inspect` shows by another name after lowering."""
    (tmp_path / "a.yaml").write_text("default: fixed8\nvalues: {fc1: fixed16}\n")
    run = ("run", "--board", "host", "--model", "digits_mlp", "--samples", "2", "--assignment")
    done = hil(*run, "a.yaml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "no effect in a.yaml: fc1 became part of a layer's result" in done.stderr
    for values in ("{relu1: fixed16}", "{fc1_w: fixed8pc, fc1_b: fixed8}"):  # weights with scales lie by other names
        (tmp_path / "b.yaml").write_text(f"default: fixed16\nvalues: {values}\n")
        assert "no effect" not in hil(*run, "b.yaml", cwd=tmp_path).stderr


def test_entries_of_no_board_are_a_bench_file(tmp_path: Path) -> None:
    """Where nothing is attached what `scan` writes was refused."""
    (tmp_path / "scan.yaml").write_text(hil("boards", "scan", "--yaml", cwd=tmp_path).stdout)
    assert hil("boards", "--bench", "scan.yaml", cwd=tmp_path).returncode == 0
