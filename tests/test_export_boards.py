"""Exported libraries on emulated boards, in applications that are not ours: Arduino's main, and a bare one in C."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import serial

from tests.export_bench import (
    PROGRAMS,
    ROOT,
    Exported,
    OnBoard,
    arduino_build,
    arduino_core,
    arm_build,
    export,
)
from tinyhil import data
from tinyhil.classes import classes_of
from tinyhil.reference import dequantize_outputs, quantize_inputs, run_reference

DEADLINE_S = 60.0
UNOSIM = ROOT / "emulators" / "uno" / "build" / "unosim"
ARMSIM = ROOT / "emulators" / "cortexm" / "build" / "armsim"
CHIP = {"due": "sam3x8e", "h747": "stm32h747"}


@contextmanager
def emulated(command: list[object], link: Path) -> Iterator[serial.Serial]:
    """The port of an emulated board; ending its standard input ends it."""
    process = subprocess.Popen(
        [*map(str, command), "--link", str(link)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["event"] == "ready"
        with serial.serial_for_url(str(link), baudrate=115200, timeout=DEADLINE_S) as port:
            yield port
    finally:
        process.communicate()


@pytest.fixture(scope="session")
def core(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return arduino_core(tmp_path_factory.mktemp("core"))


def inputs(model: str, count: int) -> np.ndarray:
    name = {"fastgrnn_har": "har6", "digits_cnn": "digits", "digits_mlp": "digits"}.get(model)
    if name is None:
        return np.random.default_rng(3).uniform(-1, 1, (count, 256)).astype(np.float32)
    return data.load(name, allow_download=False).x_test[:count]


def check(board: OnBoard, exported: Exported, x: np.ndarray, after: bytes = b"") -> None:
    program = exported.compiled.program
    codes, _ = quantize_inputs(program, x.reshape(len(x), *program.input_shape))
    expected = run_reference(program, codes).outputs
    classes = classes_of(exported.compiled.model.graph, dequantize_outputs(program, expected))
    for index in range(len(x)):
        found, outputs = board.run(codes[index])
        np.testing.assert_array_equal(outputs, expected[index], err_msg=f"sample {index}")
        assert found == classes[index]
        assert board.port.read(len(after)) == after


def on_uno(model: str, format_: str, count: int, core: list[Path], folder: Path) -> None:
    exported = export(model, format_, kind="arduino")
    image = arduino_build(exported, (PROGRAMS / "arduino.ino").read_text(), core, folder)
    with emulated([UNOSIM, "--image", image], folder / "port") as port:
        check(OnBoard(port, exported, 32), exported, inputs(model, count), after=b"T")


def on_arm(board: str, model: str, format_: str, count: int, folder: Path) -> None:
    exported = export(model, format_)
    image = arm_build(exported, board, folder)
    with emulated([ARMSIM, "--chip", CHIP[board], "--image", image], folder / "port") as port:
        check(OnBoard(port, exported, 1 << 16), exported, inputs(model, count))


UNO = [
    ("fastgrnn_har", "fixed16", 3),
    ("digits_mlp", "fixed8", 20),
    ("digits_mlp", "posit8es0", 5),
    pytest.param("digits_cnn", "int8", 10, marks=pytest.mark.slow),
    pytest.param("protonn_usps10", "fixed8", 5, marks=pytest.mark.slow),
]
FAST_ARM = [
    ("fastgrnn_har", "fixed8", 20),
    ("digits_mlp", "float32", 20),
    pytest.param("digits_cnn", "int8", 20, marks=pytest.mark.slow),
    pytest.param("digits_mlp", "posit16es1", 10, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("model", "format_", "count"), UNO)
def test_on_an_uno_beside_the_arduino_core(
    model: str, format_: str, count: int, core: list[Path], tmp_path: Path
) -> None:
    on_uno(model, format_, count, core, tmp_path)


@pytest.mark.parametrize("board", CHIP)
@pytest.mark.parametrize(("model", "format_", "count"), FAST_ARM)
def test_on_arm_beside_a_plain_main(board: str, model: str, format_: str, count: int, tmp_path: Path) -> None:
    on_arm(board, model, format_, count, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("format_", ["fixed16", "fixed8"])
def test_every_sample(format_: str, core: list[Path], tmp_path: Path) -> None:
    """All 950 windows on all three boards."""
    on_uno("fastgrnn_har", format_, 950, core, tmp_path / "uno")
    for board in CHIP:
        on_arm(board, "fastgrnn_har", format_, 950, tmp_path / board)


@pytest.mark.parametrize("model", ["fastgrnn_har", "digits_mlp"])
def test_the_example_sketch_compiles_as_arduino_does(model: str, core: list[Path], tmp_path: Path) -> None:
    exported = export(model, "fixed8", kind="arduino")
    x = exported.prefix
    sketch = exported.files[f"{x}/examples/{x}_sensor/{x}_sensor.ino"]
    image = arduino_build(exported, sketch, core, tmp_path)
    sizes = subprocess.run(["avr-size", image.with_suffix(".elf")], capture_output=True, text=True, check=True)
    text, in_data, bss = map(int, sizes.stdout.splitlines()[1].split()[:3])
    assert text + in_data <= 32768 - 512
    assert in_data + bss <= 2048 - 400
