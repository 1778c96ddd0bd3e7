"""Two .tflite files as one model: a front end of sound and a network that takes rows of its features."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hil_command import hil
from kernel_cases import Case, first_difference, run_natively
from test_signal_operators import GAINS, NOISE
from tflite_files import INT8, INT16, INT32, OPERATOR, RESOURCE, UINT32, Grid, Writer

from tinyhil.compiler.calibrate import Ranges
from tinyhil.compiler.lower import lower
from tinyhil.errors import ModelError
from tinyhil.frontend.load import load_model
from tinyhil.frontend.ports import Stream
from tinyhil.harness.job.zoo import find_model, pair_name
from tinyhil.harness.python.api import load
from tinyhil.language.assignment import Assignment
from tinyhil.language.program import Op, Program
from tinyhil.references.reference import run_reference

WINDOW, BINS, ROWS, HOP, STEPS = 6, 3, 2, 2, 7
GRID: Grid = ([0.05], [-4], 0)


def front(kind: int = INT8) -> bytes:
    """Windows of 6 numbers to 3 features, less the noise that it keeps."""
    w = Writer()
    x, windowed = w.tensor("sound", [1, WINDOW], INT16), w.tensor("windowed", [1, WINDOW], INT16)
    weights = w.tensor("weights", [WINDOW], INT16, np.array([900, 2000, 4096, 4096, 2000, 900], np.int16))
    flat, energy = w.tensor("flat", [WINDOW], INT16), w.tensor("energy", [BINS], UINT32)
    shape = w.tensor("shape", [1], INT32, np.array([WINDOW], np.int32))
    signal, noise, gained = (w.tensor(name, [BINS], UINT32) for name in ("signal", "noise", "gained"))
    logs, table = w.tensor("logs", [BINS], INT16), w.tensor("table", [125], INT16, np.abs(GAINS // 2))
    whole, less, y = w.tensor("whole", [BINS], INT32), w.tensor("less", [BINS], INT32), w.tensor("y", [BINS], kind)
    middle = w.tensor("middle", [], INT32, np.array(-100, np.int32))
    w.custom("SignalWindow", [x, weights], windowed, shift=12)
    w.operator(OPERATOR.RESHAPE, [windowed, shape], flat)
    w.custom("SignalEnergy", [flat], energy, end_index=BINS, start_index=0)
    w.custom("SignalFilterBankSpectralSubtraction", [energy], [signal, noise], **{**NOISE, "num_channels": BINS})
    w.custom("SignalPCAN", [signal, noise, table], gained, snr_shift=6)
    w.custom("SignalFilterBankLog", [gained], logs, input_correction_bits=3, output_scale=16)
    w.operator(OPERATOR.CAST, [logs], whole, "CastOptions", InDataType=INT16, OutDataType=INT32)
    w.operator(OPERATOR.ADD, [whole, middle], less, "AddOptions", FusedActivationFunction=0)
    w.operator(OPERATOR.CAST, [less], y, "CastOptions", InDataType=INT32, OutDataType=kind)
    return w.file(x, y)


def network(features: int = BINS) -> bytes:
    """Two rows joined to the two before them, which a variable keeps, through a dense layer."""
    w, rng = Writer(), np.random.default_rng(2)
    x, held = w.tensor("x", [1, ROWS, features], INT8, None, GRID), w.tensor("held", [1, 2, features], INT8, None, GRID)
    joined = w.tensor("joined", [1, ROWS + 2, features], INT8, None, GRID)
    last = w.tensor("last", [1, 2, features], INT8, None, GRID)
    handle, y = w.tensor("handle", [], RESOURCE), w.tensor("y", [1, 5], INT8, None, ([0.4], [7], 0))
    ends = [w.tensor(f"e{n}", [3], INT32, np.array(at, np.int32)) for n, at in enumerate(([0, 2, 0], [1, 4, features]))]
    steps, inner = w.tensor("steps", [3], INT32, np.array([1] * 3, np.int32)), (ROWS + 2) * features
    weights = w.tensor("w", [5, inner], INT8, rng.integers(-127, 128, (5, inner)).astype(np.int8), ([0.01], [0], 0))
    bias = w.tensor("b", [5], INT32, rng.integers(-900, 900, 5).astype(np.int32), ([0.0005], [0], 0))
    masks = {"BeginMask": 0, "EndMask": 0, "EllipsisMask": 0, "NewAxisMask": 0, "ShrinkAxisMask": 0}
    w.operator(OPERATOR.VAR_HANDLE, [], handle, "VarHandleOptions", SharedName=w.b.CreateString("rows"))
    w.operator(OPERATOR.READ_VARIABLE, [handle], held)
    w.operator(OPERATOR.CONCATENATION, [held, x], joined, "ConcatenationOptions", Axis=1, FusedActivationFunction=0)
    w.operator(OPERATOR.STRIDED_SLICE, [joined, *ends, steps], last, "StridedSliceOptions", **masks)
    w.operator(OPERATOR.ASSIGN_VARIABLE, [handle, last], [])
    w.operator(OPERATOR.FULLY_CONNECTED, [joined, weights, bias], y, "FullyConnectedOptions", FusedActivationFunction=0)
    return w.file(x, y)


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    paths = tmp_path / "front.tflite", tmp_path / "network.tflite"
    for path, data in zip(paths, (front(), network()), strict=True):
        path.write_bytes(data)
    return paths


def program_of(files: tuple[Path, Path], hop: int) -> Program:
    graph = load_model(files[0], Stream(steps=STEPS, then=files[1], hop=hop)).graph
    return lower(graph, Assignment("int8", {}), Ranges.any_of(graph))


def sounds(count: int, size: int) -> np.ndarray:
    rng = np.random.default_rng(3)
    return np.stack([rng.normal(0, 10 ** rng.uniform(1, 4.4), size) for _ in range(count)]).clip(-32768, 32767).round()


def decisions(files: tuple[Path, Path], sound: np.ndarray, hop: int) -> list[list[int]]:
    """Of both files in TensorFlow Lite Micro, one after the other, step by step."""
    runtime = pytest.importorskip("tflite_micro.python.tflite_micro.runtime", reason="tflite-micro is not installed")
    first, second = (runtime.Interpreter.from_bytes(path.read_bytes(), arena_size=1 << 18) for path in files)
    padded, rows, found = np.concatenate([np.zeros(WINDOW - hop), sound]).astype(np.int16), [], []
    for at in range(0, len(sound), hop):
        first.set_input(padded[at : at + WINDOW][None], 0)
        first.invoke()
        rows.append(first.get_output(0).reshape(-1))
        if len(rows) == ROWS:
            second.set_input(np.stack(rows)[None], 0)
            second.invoke()
            found.append(second.get_output(0).reshape(-1).tolist())
            rows = []
    return found


@pytest.mark.parametrize("hop", [HOP, WINDOW])
def test_both_give_what_the_runtime_gives_one_after_the_other(files: tuple[Path, Path], hop: int) -> None:
    program, shown = program_of(files, hop), list[np.ndarray]()

    def observe(op: Op, codes: np.ndarray, _: np.ndarray) -> None:
        if op.output == program.output and op.inputs:
            shown.append(codes)

    sound = sounds(4, STEPS * ROWS * hop)
    run_reference(program, sound.astype(np.int64), observe=observe)
    for stream, ours in zip(sound, np.stack(shown, axis=1), strict=True):
        assert ours.tolist() == decisions(files, stream, hop)


def test_it_is_one_program_in_cpp(files: tuple[Path, Path], tmp_path: Path) -> None:
    program = program_of(files, HOP)
    cases = [Case("pair", program, sounds(6, STEPS * ROWS * HOP).astype(np.int64))]
    assert first_difference(cases, run_natively(cases, tmp_path)) == ""


def test_commands_take_it_and_recordings_as_they_are(files: tuple[Path, Path], tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", sounds(3, STEPS * ROWS * HOP).astype(np.float32))
    pair = ("--model", str(files[0]), "--then", str(files[1]), "--hop", str(HOP))
    done = hil("plan", *pair, "--steps", "4", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "front_network" in done.stdout + done.stderr
    done = hil("run", "--board", "host", *pair, "--inputs", str(tmp_path / "x.npy"), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "3 of 3 equal to the reference" in done.stdout + done.stderr
    assert hil("plan", "--then", str(files[1]), cwd=tmp_path).returncode == 2


def test_python_joins_them(files: tuple[Path, Path]) -> None:
    first, second = load(files[0], steps=1), load(files[1], steps=1)
    assert first.then(second, hop=HOP, steps=3).input_shape == (3, ROWS, HOP)


def test_what_does_not_fit_is_said_in_a_line(files: tuple[Path, Path]) -> None:
    other = files[1].with_name("other.tflite")
    other.write_bytes(network(2))
    wide = files[0].with_name("wide.tflite")
    wide.write_bytes(front(INT16))
    for first, second, hop, says in (
        (files[0], other, 0, "'y' of front has 3 numbers, 'x' of other takes 4, which is no multiple"),
        (wide, files[1], 0, "is int16, 'x' of network int8"),
        (files[0], files[1], 7, "--hop 7: windows of front have 6 numbers"),
        (files[0], Path("network.onnx"), 0, "network.onnx: two models are joined as .tflite files"),
    ):
        with pytest.raises(ModelError, match=says) as caught:
            load_model(first, Stream(steps=2, then=second, hop=hop))
        assert "\n" not in str(caught.value)


def test_a_name_says_both() -> None:
    source = find_model(pair_name("digits_cnn", "digits_mlp", 5))
    assert (source.name, source.hop) == ("digits_cnn_digits_mlp", 5)
    assert source.then is not None
    assert source.then.name == "digits_mlp.onnx"
