"""Signal operators of .tflite files against TensorFlow Lite Micro itself, and their C++ against their reference."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from given_data import data_file
from kernel_cases import SANITIZED, Case, first_difference, run_natively, run_on_board
from tflite_files import BOOL, INT8, INT16, INT32, OPERATOR, UINT32, UINT64, Writer

from benchmarks.sound_front_end import audio
from tinyhil.compiler.calibrate import Ranges
from tinyhil.compiler.lower import lower
from tinyhil.errors import ModelError
from tinyhil.frontend.flexible_options import options_of
from tinyhil.frontend.ports import Stream
from tinyhil.frontend.tflite import load_tflite, tflite_model
from tinyhil.harness.settings.config import load_boards
from tinyhil.language.assignment import Assignment
from tinyhil.language.program import Program
from tinyhil.references.reference import run_reference

PREPROCESSOR = "tflite/tflm/micro_speech/models/audio_preprocessor_int8.tflite"
STEPS = 5
NOISE = {
    "alternate_one_minus_smoothing": 15401,
    "alternate_smoothing": 983,
    "clamping": False,
    "min_signal_remaining": 819,
    "num_channels": 6,
    "one_minus_smoothing": 15975,
    "smoothing": 409,
    "smoothing_bits": 10,
    "spectral_subtraction_bits": 14,
}
GAINS = np.random.default_rng(4).integers(-32768, 32768, 125).astype(np.int16)


def window() -> bytes:
    w = Writer()
    x, y = w.tensor("x", [2, 30], INT16), w.tensor("y", [2, 30], INT16)
    weights = w.tensor("w", [30], INT16, np.random.default_rng(1).integers(-32768, 32768, 30).astype(np.int16))
    w.custom("SignalWindow", [x, weights], y, shift=12)
    return w.file(x, y)


def scaled() -> bytes:
    w = Writer()
    x, y, bits = w.tensor("x", [50], INT16), w.tensor("y", [50], INT16), w.tensor("bits", [], INT32)
    w.custom("SignalFftAutoScale", [x], [y, bits])
    return w.file(x, y)


def transformed(length: int, given: int, wide: bool = False) -> bytes:
    """Forward, and back again; of int32 what a cast and a factor make of int16."""
    w, kind = Writer(), INT32 if wide else INT16
    x = w.tensor("x", [2, given], INT16)
    source = x
    if wide:
        cast, source = w.tensor("cast", [2, given], INT32), w.tensor("source", [2, given], INT32)
        factor = w.tensor("factor", [], INT32, np.array(65521, np.int32))
        w.operator(OPERATOR.CAST, [x], cast, "CastOptions", InDataType=INT16, OutDataType=INT32)
        w.operator(OPERATOR.MUL, [cast, factor], source, "MulOptions", FusedActivationFunction=0)
    spectrum, y = w.tensor("spectrum", [2, length + 2], kind), w.tensor("y", [2, length], kind)
    w.custom("SignalRfft", [source], spectrum, T=kind, fft_length=length)
    w.custom("SignalIrfft", [spectrum], y, T=kind, fft_length=length)
    return w.file(x, y)


def _energies(w: Writer, bins: int) -> tuple[int, int]:
    x, energy = w.tensor("x", [2 * bins], INT16), w.tensor("energy", [bins], UINT32)
    w.custom("SignalEnergy", [x], energy, end_index=bins, start_index=0)
    return x, energy


def bank() -> bytes:
    """Energies, filters of several widths, their roots by a number of bits of the input."""
    w, rng = Writer(), np.random.default_rng(2)
    x, energy = _energies(w, 20)
    widths, firsts = np.array([4, 8, 4]), np.array([0, 4, 12])
    tables = [rng.integers(0, 4097, 16), rng.integers(0, 4097, 16), firsts, np.array([0, 4, 12]), widths]
    named = [w.tensor(f"t{n}", [len(t)], INT16, t.astype(np.int16)) for n, t in enumerate(tables)]
    scaled, bits = w.tensor("scaled", [40], INT16), w.tensor("bits", [], INT32)
    sums, y = w.tensor("sums", [2], UINT64), w.tensor("y", [2], UINT32)
    w.custom("SignalFftAutoScale", [x], [scaled, bits])
    w.custom("SignalFilterBank", [energy, *named], sums, num_channels=2)
    w.custom("SignalFilterBankSquareRoot", [sums, bits], y)
    return w.file(x, y)


def features(clamped: bool = False) -> bytes:
    """Noise, gain by it and logarithm of energies, which cover all of uint32."""
    w = Writer()
    x, energy = _energies(w, 6)
    signal, noise, gained = (w.tensor(name, [6], UINT32) for name in ("signal", "noise", "gained"))
    y, table = w.tensor("y", [6], INT16), w.tensor("table", [125], INT16, GAINS)
    w.custom("SignalFilterBankSpectralSubtraction", [energy], [signal, noise], **{**NOISE, "clamping": clamped})
    w.custom("SignalPCAN", [signal, noise, table], gained, snr_shift=6)
    w.custom("SignalFilterBankLog", [gained], y, input_correction_bits=3, output_scale=64)
    return w.file(x, y)


def delayed() -> bytes:
    w = Writer()
    x, y = w.tensor("x", [2, 6], INT16), w.tensor("y", [2, 6], INT16)
    w.custom("SignalDelay", [x], y, delay_length=8)
    return w.file(x, y)


def framed(size: int, step: int, given: int, prefill: bool) -> bytes:
    w = Writer()
    x, y = w.tensor("x", [2, given], INT16), w.tensor("y", [2, given // step, size], INT16)
    w.custom("SignalFramer", [x], [y, w.tensor("valid", [], BOOL)], frame_size=size, frame_step=step, prefill=prefill)
    return w.file(x, y)


def overlapping() -> bytes:
    w = Writer()
    x, y = w.tensor("x", [2, 3, 8], INT16), w.tensor("y", [2, 9], INT16)
    w.custom("SignalOverlapAdd", [x], y, T=INT16, frame_step=3)
    return w.file(x, y)


def arithmetic() -> bytes:
    """Sums, products and quotients of int32, cast from int16 and to int8."""
    w = Writer()
    x, last = w.tensor("x", [2, 9], INT16), w.tensor("cast", [2, 9], INT32)
    w.operator(OPERATOR.CAST, [x], last, "CastOptions", InDataType=INT16, OutDataType=INT32)
    numbers = {"MUL": 70001, "ADD": 333, "SUB": -12345, "DIV": -666, "MINIMUM": 127, "MAXIMUM": -128}
    for op, number in numbers.items():
        to, constant = w.tensor(op, [2, 9], INT32), w.tensor(f"{op}_c", [], INT32, np.array(number, np.int32))
        options = {} if op in ("MINIMUM", "MAXIMUM") else {"FusedActivationFunction": 0}
        kind = f"{op.capitalize()}Options" if options else "MaximumMinimumOptions"
        w.operator(getattr(OPERATOR, op), [last, constant], to, kind, **options)
        last = to
    y = w.tensor("y", [2, 9], INT8)
    w.operator(OPERATOR.CAST, [last], y, "CastOptions", InDataType=INT32, OutDataType=INT8)
    return w.file(x, y)


FILES: dict[str, Callable[[], bytes]] = {
    "window": window,
    "scaled": scaled,
    **{f"transformed_{n}": (lambda n=n: transformed(n, n - 5)) for n in (8, 24, 64, 96, 512)},
    "transformed_wide": lambda: transformed(96, 90, wide=True),
    "bank": bank,
    "features": features,
    "features_clamped": lambda: features(clamped=True),
    "delayed": delayed,
    "framed": lambda: framed(6, 2, 4, prefill=True),
    "framed_later": lambda: framed(7, 3, 3, prefill=False),
    "overlapping": overlapping,
    "arithmetic": arithmetic,
}


def program_of(data: bytes, steps: int = 0) -> Program:
    graph = tflite_model(data, Path("m.tflite"), stream=Stream(steps=steps or None)).graph
    return lower(graph, Assignment("int8", {}), Ranges.any_of(graph))


def inputs_of(program: Program, rows: int) -> np.ndarray:
    """Numbers of all sizes: uniform, small, all the same at either end, and some of -32768."""
    rng, count = np.random.default_rng(7), program.tensors[program.input].count
    kinds = [
        rng.integers(-32768, 32768, (rows, count)),
        rng.integers(-5, 6, (rows, count)),
        np.broadcast_to(rng.choice([-32768, 32767, 0, 1], (rows, 1)), (rows, count)),
        np.where(rng.integers(0, 9, (rows, count)), rng.integers(-900, 900, (rows, count)), -32768),
    ]
    return np.stack([kinds[row % 4][row] for row in range(rows)])


@pytest.mark.parametrize("name", FILES)
def test_a_stream_is_that_of_the_runtime(name: str) -> None:
    """Every step of streams from their start, bit for bit."""
    runtime = pytest.importorskip("tflite_micro.python.tflite_micro.runtime", reason="tflite-micro is not installed")
    data = FILES[name]()
    interpreter = runtime.Interpreter.from_bytes(data, arena_size=1 << 20)
    has_states = bool(tflite_model(data, Path("m.tflite"), stream=Stream(steps=1)).stream)
    for steps in range(3 if name == "framed_later" else 1, STEPS + 1 if has_states else 2):
        program = program_of(data, steps)
        x = inputs_of(program, 12 if has_states else 60)
        got = run_reference(program, x).outputs
        for row, values in zip(x, got, strict=True):
            interpreter.reset()
            for step in np.split(row, steps):
                shape = interpreter.get_input_details(0)["shape"]
                interpreter.set_input(step.astype(np.int16).reshape(shape), 0)
                interpreter.invoke()
            np.testing.assert_array_equal(values, interpreter.get_output(0).reshape(-1), f"{name}, step {steps}")


def cases() -> list[Case]:
    programs = {name: program_of(make(), 3) for name, make in FILES.items()}
    return [Case(name, program, inputs_of(program, 8)) for name, program in programs.items()]


def test_kernels_natively(tmp_path: Path) -> None:
    found = cases()
    assert first_difference(found, run_natively(found, tmp_path, *SANITIZED)) == ""


@pytest.mark.parametrize("board", ["uno", "due"])
def test_kernels_on_boards(board: str, tmp_path: Path) -> None:
    names = ("transformed_24", "bank", "features", "arithmetic", "framed")
    found = [case for case in cases() if board == "due" or case.name in names]
    assert first_difference(found, run_on_board(found, load_boards().board(board), tmp_path)) == ""


def test_a_wrong_result_would_be_found(tmp_path: Path) -> None:
    (found,) = (case for case in cases() if case.name == "window")
    other = Case(found.name, found.program, found.inputs + 1)
    assert first_difference([found], run_natively([other], tmp_path)) != ""


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda w, x, y: w.custom("SignalWindow", [x, x], y, shift=40), "shift 40"),
        (lambda w, x, y: w.custom("SignalWindow", [x, x], y, shift=1, more=2), "SignalWindow with options more, shift"),
        (lambda w, x, y: w.custom("SignalRfft", [x], y, T=INT16, fft_length=28), "a length of 28"),
        (lambda w, x, y: w.custom("SignalRfft", [x], y, T=0, fft_length=32), "numbers of type 0"),
        (lambda w, x, y: w.custom("SignalFramer", [x], y, frame_size=4, frame_step=7, prefill=True), "frames of 4"),
        (lambda w, x, y: w.custom("SignalOther", [x], y), "SignalOther is not supported"),
    ],
)
def test_what_can_not_be_is_refused_in_a_line(change: Callable[[Writer, int, int], None], says: str) -> None:
    w = Writer()
    x, y = w.tensor("x", [30], INT16), w.tensor("y", [30], INT16)
    change(w, x, y)
    with pytest.raises(ModelError, match=says) as caught:
        tflite_model(w.file(x, y), Path("m.tflite"), stream=Stream(steps=2))
    assert "\n" not in str(caught.value)


def test_sums_of_64_bits_are_refused_where_they_are_not_rooted() -> None:
    data = bytes(bank()).replace(b"SignalFilterBankSquareRoot", b"SignalFilterBankSquareRest")
    with pytest.raises(ModelError, match="64 bits"):
        tflite_model(data, Path("m.tflite"))


def test_options_are_read_as_they_were_written() -> None:
    from flatbuffers import flexbuffers

    for options in ({}, {"shift": 12}, {"T": 7, "fft_length": 70000}, {"clamping": True, "least": 2**40}, NOISE):
        data = bytes(flexbuffers.Dumps(options))
        assert options_of(data) == options
        for end in range(3, len(data)):
            with pytest.raises((ValueError, LookupError)):
                options_of(data[:end] + b"\x28\x01"[:1])


@pytest.mark.data(PREPROCESSOR)
def test_the_preprocessor_equals_the_runtime_over_generated_audio() -> None:
    """Ten seconds; `python -m benchmarks.sound_front_end FILE --seconds 3600` compares an hour."""
    pytest.importorskip("tflite_micro", reason="tflite-micro is not installed")
    from benchmarks.sound_front_end import differing

    assert differing(data_file(PREPROCESSOR), audio(10, seed=3)) == 0
    assert load_tflite(data_file(PREPROCESSOR), Stream(steps=2)).stream
