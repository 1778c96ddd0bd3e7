"""The streaming wake word with the sound before it: features, the protocol's commands for samples, boards that hear."""

from __future__ import annotations

import os
import subprocess
import sys
import wave
from pathlib import Path

import numpy as np
import pytest
from given_data import data_file
from test_mlperf import parser_in, said
from tflite_files import FLOAT, INT8, INT32, OPERATOR, Writer

from tests.hil_command import check_failure, hil
from tests.wire_bench import ROOT
from tinyhil.compiler.calibrate import calibrate
from tinyhil.compiler.lower import lower
from tinyhil.errors import EXIT_USAGE, ModelError
from tinyhil.frontend.tflite_sound import BANDS, BESIDE, ROWS, WINDOW, load_sound
from tinyhil.harness.build.toolchain import default_cache_dir
from tinyhil.harness.mlperf.benchmarks import WAKE_SCALE, WAKE_ZERO
from tinyhil.harness.mlperf.listening import SHOWN, STRIDE_S, expected, records, some_sound
from tinyhil.harness.mlperf.session import Wanted, prepare, switched_on
from tinyhil.harness.settings.config import load_boards
from tinyhil.language.assignment import Assignment
from tinyhil.language.program import Program
from tinyhil.references.evaluate import evaluate

STREAMER = Path(os.environ.get("HIL_MLPERF_RUNNER", "/nowhere")) / "stream_wav_uart.py"


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of the wake word's sizes: one dense layer and Softmax, int8."""
    w, rng = Writer(), np.random.default_rng(7)
    x = w.tensor("x", [1, ROWS, 1, BANDS], INT8, None, ([WAKE_SCALE], [WAKE_ZERO], 0))
    row = w.tensor("row", [1, ROWS * BANDS], INT8, None, ([WAKE_SCALE], [WAKE_ZERO], 0))
    sums = w.tensor("sums", [1, 3], INT8, None, ([0.1], [0], 0))
    y = w.tensor("y", [1, 3], INT8, None, ([1 / 256], [-128], 0))
    weights = rng.integers(-127, 128, (3, ROWS * BANDS)).astype(np.int8)
    w.operator(OPERATOR.RESHAPE, [x, w.tensor("shape", [2], INT32, np.array([1, ROWS * BANDS], np.int32))], row)
    layer = [row, w.tensor("w", weights.shape, INT8, weights, ([0.004], [0], 0))]
    layer.append(w.tensor("b", [3], INT32, np.array([900, -400, 0], np.int32), ([WAKE_SCALE * 0.004], [0], 0)))
    w.operator(OPERATOR.FULLY_CONNECTED, layer, sums, "FullyConnectedOptions", FusedActivationFunction=0)
    w.operator(OPERATOR.SOFTMAX, [sums], y, "SoftmaxOptions", Beta=1.0)
    path = tmp_path_factory.mktemp("sww") / "sww.tflite"
    path.write_bytes(w.file(x, y))
    return path


def program_of(path: Path) -> Program:
    graph = load_sound(path).graph
    return lower(graph, Assignment("float32", {}), calibrate(graph, records(some_sound(1.0)), {"name": "sound"}))


def features(windows: np.ndarray) -> np.ndarray:
    """Codes (windows, 40) as the benchmark's definition has them, in double precision."""
    x = windows[:, 1:] - 0.96875 * windows[:, :-1]
    power = np.abs(np.fft.rfft(x * (0.54 - 0.46 * np.cos(2 * np.pi * np.arange(WINDOW) / (WINDOW - 1))))) ** 2 / WINDOW
    hertz = np.arange(1, WINDOW // 2 + 1) * 16000 / WINDOW
    mel, edges = 1127 * np.log1p(hertz / 700), np.linspace(0, 1127 * np.log1p(8000 / 700), BANDS + 2)
    bands = np.array([np.interp(mel, edges[at : at + 3], [0, 1, 0]) for at in range(BANDS)])
    row = np.clip((10 * np.log10(np.maximum(power[:, 1:] @ bands.T, 1e-30)) + 52) / 64, 0, 1)
    return np.clip(np.trunc(row / WAKE_SCALE + WAKE_ZERO), -128, 127)


def test_features_are_those_of_the_definition(network: Path) -> None:
    """But for a code where single precision is on the other side of a whole number."""
    x = records(some_sound(2.0))
    rows = np.asarray(evaluate(load_sound(network).graph, x))[:, :BANDS]
    differences = np.rint(rows / np.float32(WAKE_SCALE)) + WAKE_ZERO - features(x[:, :BESIDE].astype(np.float64))
    assert np.abs(differences).max() <= 1
    assert (differences != 0).mean() < 0.01


def test_rows_go_on_from_stride_to_stride(network: Path) -> None:
    """What the network makes of the last of 31 strides is what it makes of the newest 30 rows."""
    program, sound = program_of(network), some_sound(1.0)
    heard = expected(program, sound)
    last = records(sound)[-1:]
    last[0, BESIDE:] = ((heard[-ROWS:-1, :BANDS] - WAKE_ZERO) * np.float32(WAKE_SCALE)).reshape(-1)
    result = np.asarray(evaluate(load_sound(network).graph, last))[0, BANDS:]
    assert len(heard) == 31
    assert np.array_equal(np.rint(result * 256) - 128, heard[-1, BANDS:])
    assert len({tuple(row) for row in heard[:, BANDS:]}) > 10


def test_another_network_is_refused(tmp_path: Path) -> None:
    w = Writer()
    x, y = w.tensor("x", [1, 40], FLOAT), w.tensor("y", [1, 40], FLOAT)
    w.operator(OPERATOR.ABS, [x], y)
    (tmp_path / "abs.tflite").write_bytes(w.file(x, y))
    with pytest.raises(ModelError, match=r"takes \[40\] and gives \[40\] numbers; the wake word's network 1200 and 3"):
        load_sound(tmp_path / "abs.tflite")


@pytest.fixture(scope="module")
def hearing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return parser_in(tmp_path_factory.mktemp("hearing"), "-DHEARS=true")


@pytest.mark.parametrize(
    ("commands", "answers"),
    [
        (["name"], [["m-name-dut-[tinyhil]"]]),
        (
            ["db load 4", "db 0102", "db getptr", "db 0304", "extract_uart_stream"],
            [["m-[Expecting 4 bytes]"], ["2 bytes received"], ["m-buff-ptr-2"], ["m-load-done"], ["m-features-[513]"]],
        ),
        (
            ["db load 4", "db 0102", "db setptr 0", "db 05060708"],
            [["m-[Expecting 4 bytes]"], ["2 bytes received"], [], ["m-load-done"]],
        ),
        (["db load 41"], [["e-[Supplied buffer size 41, the input of kws01 has 40]"]]),
        (["db setptr 0"], [["e-[Not a place in the input]"]]),
        (["db load 4", "db setptr 4"], [["m-[Expecting 4 bytes]"], ["e-[Not a place in the input]"]]),
        (["extract_uart_stream"], [["e-[No input: 'db load' it first]"]]),
        (["db load 2", "extract_uart_stream"], [["m-[Expecting 2 bytes]"], ["e-[No input: 'db load' it first]"]]),
        (["start", "stop"], [["e-[No I2S input here: start]"], ["e-[No I2S input here: stop]"]]),
        (["x" * 1028], [[f"e-[Unknown command: {'x' * 1028}]"]]),
        (["x" * 1029], [["e-[Command is longer than 1028 characters]"]]),
    ],
)  # fmt: skip
def test_commands_of_samples(commands: list[str], answers: list[list[str]], hearing: Path) -> None:
    """Each is echoed, as the official script wants it."""
    wanted = [
        line
        for command, answer in zip(commands, answers, strict=True)
        for line in (f"Received command: {command[:1028]}", *answer, "m-ready")
    ]
    assert said(hearing, "".join(f"{command}%" for command in commands).encode()) == wanted


def test_without_sound_its_commands_are_unknown(tmp_path: Path) -> None:
    assert said(parser_in(tmp_path), b"extract_uart_stream%start%")[::2] == [
        "e-[Unknown command: extract_uart_stream]",
        "e-[Unknown command: start]",
    ]


@pytest.mark.parametrize("board", ["nucleo_l4r5", "due"])
def test_a_board_hears(board: str, network: Path, tmp_path: Path) -> None:
    done = hil("mlperf", "--board", board, "--model", network, "--mode", "stream", "--samples", 4, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "4 of 4 strides of 32 ms as the reference" in done.stdout
    assert f"({network.stem}, float32 front end, int8 network) on {board}" in done.stdout


def test_sound_of_a_file(network: Path, tmp_path: Path) -> None:
    with wave.open(str(tmp_path / "s.wav"), "wb") as file:
        file.setparams((1, 2, 8000, 0, "NONE", ""))
        file.writeframes(some_sound(0.2).astype("<i2").tobytes())
    base = ["mlperf", "--board", "nucleo_l4r5", "--model", network]
    slow = ["--audio", tmp_path / "s.wav"]
    why = "s.wav: 8000 Hz, 16 bits, 3200 samples; 16 kHz, 16 bits are needed"
    check_failure(hil(*base, "--mode", "stream", *slow, cwd=tmp_path), EXIT_USAGE, why)
    check_failure(hil(*base, *slow, cwd=tmp_path), EXIT_USAGE, "--audio is what --mode stream hears")
    done = hil(*base, "--mode", "stream", "--mode", "accuracy", cwd=tmp_path)
    check_failure(done, EXIT_USAGE, "--mode stream is firmware of its own")


@pytest.mark.slow
@pytest.mark.data("small/wakeword_marvin.npz", "models/mlperftiny_sww_streaming_int8.tflite")
def test_the_wake_word_is_heard_where_it_is_said() -> None:
    """By the benchmark's own network, from samples: never apart from the times it is said at (a second may follow)."""
    data = np.load(data_file("small/wakeword_marvin.npz"))
    heard = expected(program_of(data_file("models/mlperftiny_sww_streaming_int8.tflite")), data["wav"])
    seconds = np.flatnonzero(heard[:, BANDS] > SHOWN) * STRIDE_S
    inside = [(first <= seconds) & (seconds <= last + 1) for first, last in data["wav_detection_windows_s"]]
    assert np.any(inside, axis=0).all()
    assert [bool(one.any()) for one in inside] == [True, True, False]


@pytest.mark.slow
def test_the_official_script_streams_to_an_emulated_board(network: Path, tmp_path: Path) -> None:
    """`stream_wav_uart.py` as it is. Samples of 32 bits: those of 16 it shifts beyond them under NumPy 2."""
    if not STREAMER.is_file():
        pytest.skip("HIL_MLPERF_RUNNER names no folder benchmark/runner of github.com/mlcommons/tiny")
    pytest.importorskip("scipy", reason="the official script needs scipy")
    sound = some_sound(0.7)
    with wave.open(str(tmp_path / "s.wav"), "wb") as file:
        file.setparams((1, 4, 16000, 0, "NONE", ""))
        file.writeframes(sound.astype("<i4").tobytes())
    wanted = Wanted(board="nucleo_l4r5", model=str(network), format="float32", sound=True)
    ready = prepare(wanted, load_boards(), default_cache_dir(), print)
    options = ["--wav_file", tmp_path / "s.wav", "--specfile", tmp_path / "out.npz"]
    with switched_on(ready, load_boards(), print) as running:
        program = [sys.executable, ROOT / "benchmarks/official_runner.py", STREAMER.parent, running.connection.port]
        done = subprocess.run(
            [*program, STREAMER.name, *options], capture_output=True, text=True, cwd=tmp_path, timeout=300
        )
    assert done.returncode == 0, done.stderr[-2000:]
    assert ready.program is not None
    found, heard = np.load(tmp_path / "out.npz"), expected(ready.program, sound)
    assert np.array_equal(found["specgram"][: len(heard)], heard[:, :BANDS])
    assert np.array_equal(found["activations"][: len(heard)], heard[:, BANDS:])
