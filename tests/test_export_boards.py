"""Exported libraries on emulated boards, in applications that are not ours: Arduino's main, and a bare one in C."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import serial
from hil_command import hil
from uno_bench import build_firmware, run_to_end

import tinyhil
from tests.export_bench import (
    PROGRAMS,
    ROOT,
    Exported,
    OnBoard,
    arduino_build,
    arduino_core,
    arm_build,
    export,
    unpacked,
)
from tests.onnx_models import node, simple
from tests.test_arm_kernels import sampled
from tinyhil import data
from tinyhil.codegen.exported_library import CORES
from tinyhil.codegen.library_source import emit_library
from tinyhil.harness.build.pipeline import runtime_sources
from tinyhil.harness.job.job import Streamed
from tinyhil.harness.offline.export_room import ARDUINO_CORE, REAL_BYTES
from tinyhil.harness.offline.export_sizes import LINK, PROCESSORS, measure, predict_sizes, section_bytes
from tinyhil.harness.settings.config import load_boards
from tinyhil.references.classes import classes_of
from tinyhil.references.reference import dequantize_outputs, quantize_inputs, run_reference

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
    on_arm_exported(exported, board, inputs(model, count), folder)


def on_arm_exported(exported: Exported, board: str, x: np.ndarray, folder: Path) -> int:
    """Equal on every sample; the cycles of the last one."""
    image = arm_build(exported, board, folder)
    with emulated([ARMSIM, "--chip", CHIP[board], "--image", image], folder / "port") as port:
        device = OnBoard(port, exported, 1 << 16, timed=True)
        check(device, exported, x)
        return device.ticks


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


@pytest.mark.parametrize(("model", "board"), [("fastgrnn_har", "uno"), ("digits_mlp", None)])
def test_the_example_sketch_compiles_as_arduino_does(
    model: str, board: str | None, core: list[Path], tmp_path: Path
) -> None:
    exported = export(model, "fixed8", kind="arduino", board=board)
    x = exported.prefix
    sketch = exported.files[f"{x}/examples/{x}_sensor/{x}_sensor.ino"]
    image = arduino_build(exported, sketch, core, tmp_path)
    sizes = subprocess.run(["avr-size", image.with_suffix(".elf")], capture_output=True, text=True, check=True)
    text, in_data, bss = map(int, sizes.stdout.splitlines()[1].split()[:3])
    assert text + in_data <= 32768 - 512
    assert in_data + bss <= 2048 - 400
    library, core_bytes = exported.library, ARDUINO_CORE["avr"]
    own, reals = predict_sizes(library, emit_library(library, runtime_sources()), "avr"), library.output.count
    assert own is not None
    reals += 0 if library.loop else library.input.count  # one row is on the stack
    beside = in_data + bss - own.ram_bytes - REAL_BYTES * reals, text + in_data - own.flash_bytes
    assert core_bytes.ram_bytes - 8 <= beside[0] <= core_bytes.ram_bytes + 8
    assert core_bytes.flash_bytes - 500 <= beside[1] <= core_bytes.flash_bytes + 500


@pytest.mark.parametrize(
    ("board", "format_"), [("h747", "fixed8"), pytest.param("due", "int8", marks=pytest.mark.slow)]
)
def test_made_for_a_board_it_is_as_fast_as_the_run(board: str, format_: str, tmp_path: Path) -> None:
    """Weights lie as that core reads them, and the source is optimized as the firmware is, whatever the flags say."""
    x = inputs("digits_cnn", 2)
    run = tinyhil.load("digits_cnn").run(f"{board}@emulated", x, formats=format_)
    arranged, plain = export("digits_cnn", format_, board=board), export("digits_cnn", format_)
    assert any(tensor.blocks is not None for tensor in arranged.compiled.program.tensors.values())
    cycles = on_arm_exported(arranged, board, x, tmp_path / "arranged")
    assert cycles < 1.03 * run.latency.median  # with the copy of the result and the class, which a run does not time
    assert cycles < on_arm_exported(plain, board, x, tmp_path / "plain")


def test_made_for_a_board_it_reads_samples_as_they_come(tmp_path: Path) -> None:
    """Channels innermost: of the sample, and between two convolutions."""
    path, shape = tmp_path / "m.onnx", (3, 7, 7, 4)
    path.write_bytes(sampled(4, 7).conv(8, 3, pad=1).conv(8, 3, pad=1).conv(4, 1).model().SerializeToString())
    np.savez(tmp_path / "x.npz", x=np.random.default_rng(2).normal(size=shape).astype(np.float32))
    exported = export(str(path), "int8", board="h747", streamed=Streamed(samples=tmp_path / "x.npz"))
    assert exported.library.input.innermost
    on_arm_exported(exported, "h747", np.load(tmp_path / "x.npz")["x"], tmp_path)


def test_made_for_one_core_it_is_refused_by_others(tmp_path: Path) -> None:
    exported = export("digits_mlp", "fixed8", board="h747")
    source = exported.write(tmp_path) / "digits_mlp.cpp"
    done = subprocess.run(["avr-g++", "-std=gnu++11", "-mmcu=atmega328p", "-c", source], capture_output=True, text=True)
    assert done.returncode != 0
    errors = [line for line in done.stderr.splitlines() if " error: " in line]
    assert len(errors) == 1
    assert "is arranged for cortex-m7 (h747): compile it with -mcpu=cortex-m7 " in errors[0]
    assert ", or export it again without --board" in errors[0]


@pytest.mark.parametrize("format_", ["fixed8", "posit8es1", "int8"])
def test_constants_of_calls_take_no_ram_on_avr(format_: str, tmp_path: Path) -> None:
    """Records of windows and blocks, which a compiler likes to copy from RAM."""
    exported = export("digits_cnn", format_, kind="arduino")
    sizes = measure(exported.library, PROCESSORS[0], exported.write(tmp_path), "run")
    assert sizes.ram_bytes == exported.library.run_bytes


@pytest.mark.parametrize("format_", ["fixed8", "int8", "posit8es1", "float32"])
def test_the_stack_of_a_call_is_what_it_touches(format_: str, tmp_path: Path) -> None:
    """Painted below the call: no more than said, and nearly that."""
    exported = export("digits_mlp", format_)
    folder = exported.write(tmp_path)
    said = measure(exported.library, PROCESSORS[0], folder, "run").stack.limit_bytes
    assert said is not None
    flags = ("-DLIBRARY(part)=digits_mlp_##part", "-DINPUTS=64", "-DOUTPUTS=10", "-include", "digits_mlp.h")
    lines, _ = run_to_end(build_firmware(folder, "stack_of_call", *flags, str(folder / "digits_mlp.cpp")))
    assert said - 8 <= int(lines[0]) <= said


@pytest.mark.parametrize(("board", "processor"), [("uno", 0), ("due", 1), ("h747", 2)])
def test_made_for_a_board_it_compiles_there(board: str, processor: int, tmp_path: Path) -> None:
    """Each core has blocks of its own, of one name."""
    exported = export("fastgrnn_har", "fixed8", board=board)
    sizes = measure(exported.library, PROCESSORS[processor], exported.write(tmp_path), "run")
    assert sizes.ram_bytes == exported.library.run_bytes


def test_a_mean_of_codes_compiles_for_avr(tmp_path: Path) -> None:
    """Of int8 with a multiplier of its own: once declared for all other processors alone."""
    model = tinyhil.load(simple([node("AveragePool", "x", "y", kernel_shape=[2, 2])], {"x": (1, 2, 4, 4)}))
    x = np.random.default_rng(1).normal(size=(4, 2, 4, 4))
    model.calibrate(x).export("arduino", tmp_path / "mean.zip", "int8", name="mean", board="uno")
    unpacked(tmp_path / "mean.zip", tmp_path)
    command = ["avr-g++", "-std=gnu++11", "-mmcu=atmega328p", "-c", "mean.cpp"]
    subprocess.run(command, cwd=tmp_path / "mean" / "src", check=True)
    assert "ATmega328P" in (tmp_path / "mean/README.md").read_text()


def test_the_example_sketch_runs(core: list[Path], tmp_path: Path) -> None:
    """On Arduino's main: analog pins without a sensor read 0, which the sketch takes for -1."""
    exported = export("digits_mlp", "fixed8", kind="arduino", board="uno")
    sketch = exported.files["digits_mlp/examples/digits_mlp_sensor/digits_mlp_sensor.ino"]
    image = arduino_build(exported, sketch, core, tmp_path)
    program = exported.compiled.program
    codes, _ = quantize_inputs(program, np.full((1, 64), -1, np.float32))
    outputs = dequantize_outputs(program, run_reference(program, codes).outputs)
    with emulated([UNOSIM, "--image", image], tmp_path / "port") as port:
        lines = [port.readline().strip() for _ in range(5)]
    assert lines == [str(outputs.argmax()).encode()] * 5


@pytest.mark.parametrize(("defined", "pins"), [("6", 6), ("(4u)", 4), ("12", 12), (None, 1)])
def test_the_example_sketch_reads_pins_the_board_has(defined: str | None, pins: int, tmp_path: Path) -> None:
    """As many analog pins as the board's core says: a Pico has four, where six read what is none."""
    exported = export("digits_mlp", "fixed8", kind="arduino")
    sources = exported.write(tmp_path)
    counted = "" if defined is None else f"#define NUM_ANALOG_INPUTS {defined}\n"
    (tmp_path / "main.cpp").write_text(
        f"#include <cstdio>\n{counted}#define OUTPUT 1\n#define HIGH 1\n#define LOW 0\n#define LED_BUILTIN 25\n"
        'static const unsigned char A0 = 26;\nint analogRead(int pin) { return std::printf("%d\\n", pin); }\n'
        "void pinMode(int, int), digitalWrite(int, int);\nunsigned long millis();\n"
        "struct Port { void begin(long); void println(int); } extern Serial;\n"
        f'#include "{tmp_path}/digits_mlp/examples/digits_mlp_sensor/digits_mlp_sensor.ino"\n'
        "int main() { for (int channel = 0; channel < 64; ++channel) read_channel(channel); }\n"
    )
    flags = ["-O1", "-Wall", "-Wextra", "-Werror", "-ffunction-sections", "-Wl,--gc-sections"]
    subprocess.run(["g++", *flags, f"-I{sources}", tmp_path / "main.cpp", "-o", tmp_path / "main"], check=True)
    read = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True).stdout.split()
    assert read == [str(26 + channel % pins) for channel in range(64)]


def test_what_is_arranged_for_a_core_is_guarded_against_others() -> None:
    """A core that is missing here would be exported without its `#error`."""
    ships = {entry.chip.core for entry in load_boards().entries.values() if entry.hardware is None}
    assert ships - CORES.keys() == {"host"}


@pytest.mark.parametrize("own", ["", "int of_ours[3];"])
def test_what_a_linker_script_aligns_is_no_ram(own: str, tmp_path: Path) -> None:
    """Behind constants that end at half a word newlib's script has two bytes of RAM for all programs."""
    source, program = tmp_path / "main.c", tmp_path / "main.elf"
    use = "of_ours[0]++" if own else "0"
    source.write_text(f"extern const short odd[];\n{own}\nint main(void) {{ return odd[1] + {use}; }}\n")
    (tmp_path / "odd.c").write_text("const short odd[] = {1, 2, 3};\n")
    flags = ("-mcpu=cortex-m3", "-mthumb", "--specs=nosys.specs", *LINK)
    subprocess.run(["arm-none-eabi-gcc", *flags, source, tmp_path / "odd.c", "-o", program], check=True)
    assert section_bytes(program)[1] == (12 if own else 0)


def test_a_read_me_says_how_cmake_compiles_for_its_board(tmp_path: Path) -> None:
    """As typed; on this computer the library says what it is for, and with which options it would be compiled."""
    asked = ("export", "cmake", "digits_mlp", "--format", "fixed8", "--board", "nucleo_g0b1", "--out", "x.zip")
    assert hil(*asked, cwd=tmp_path).returncode == 0
    shutil.unpack_archive(tmp_path / "x.zip", tmp_path)
    read_me = (tmp_path / "digits_mlp" / "README.md").read_text()
    (typed,) = re.findall(r"`(cmake [^`]*-DCMAKE_SYSTEM_NAME[^`]*)`", read_me)
    for command in (typed, "cmake --build build"):
        subprocess.run(command, shell=True, cwd=tmp_path, check=True, capture_output=True)
    assert (tmp_path / "build" / "libdigits_mlp.a").is_file()
    source = tmp_path / "digits_mlp" / "src" / "digits_mlp.cpp"
    done = subprocess.run(["g++", "-std=gnu++11", "-c", source], cwd=tmp_path, capture_output=True, text=True)
    assert "compile it with -mcpu=cortex-m0plus -mthumb, or export it again without --board" in done.stderr
