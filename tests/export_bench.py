"""Exported libraries in programs of their own: on this computer through ctypes, on emulated boards beside a main."""

from __future__ import annotations

import ctypes
import subprocess
import zipfile
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import serial

from tinyhil.codegen.exported_library import STATIC, Library
from tinyhil.formats.codec import storage_dtype
from tinyhil.harness.build.pipeline import Compiled, compile_model
from tinyhil.harness.job.job import NO_STREAM, Streamed, open_model
from tinyhil.harness.offline.export import compiler_of, library_of, packed
from tinyhil.harness.settings.config import load_boards

ROOT = Path(__file__).resolve().parent.parent
PROGRAMS = ROOT / "tests" / "firmware_export"
CORE = Path("/usr/share/arduino/hardware/arduino/avr")
ARM = {
    "due": (["-mcpu=cortex-m3", "-mthumb", "-DBOARD_DUE"], 0x80000, 0x20070000),
    "h747": (
        ["-mcpu=cortex-m7", "-mthumb", "-mfpu=fpv5-d16", "-mfloat-abi=hard", "-DBOARD_H747"],
        0x08000000,
        0x24000000,
    ),
}
HOST = ("-O2", "-Wall", "-Wextra", "-Werror", "-Wno-unused-but-set-variable", "-fno-exceptions", "-fno-rtti")


@dataclass(frozen=True, slots=True)
class Exported:
    compiled: Compiled
    library: Library
    files: dict[str, str] = field(repr=False)

    @property
    def prefix(self) -> str:
        return self.library.prefix

    def write(self, folder: Path) -> Path:
        """Unpack it; the folder of its sources."""
        for path, text in self.files.items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
        return folder / self.prefix / "src"


def export(
    model: str,
    format_: str,
    *,
    arena: str = STATIC,
    kind: str = "cmake",
    name: str | None = None,
    board: str | None = None,
    endless: bool = False,
    streamed: Streamed = NO_STREAM,
) -> Exported:
    """`streamed`: its steps, and the samples to calibrate on, which are counted in, too. `board`: to arrange it for.
    `endless`: a model that speaks shows its newest letter."""
    opened = open_model(model, None, streamed, endless=endless)
    boards = [] if board is None else [load_boards().board(board)]
    ranges, names = opened.required_ranges(streamed.samples), [one.name for one in boards]
    compiled = compile_model(opened.model, opened.assignment(None, format_), ranges, boards, names)
    library = library_of(compiled, opened.source.name, name, arena, opened.source.classes)
    if endless and opened.source.text is not None:
        library = replace(library, temperature=opened.source.text.temperature)
    for one in boards:
        library = replace(library, board=one.name, core=one.chip.core, compiler=compiler_of(one.chip))
    return Exported(compiled, library, packed(kind, library, []))


def unpacked(archive: Path, folder: Path) -> list[str]:
    """Unpack a .zip; the names of its files."""
    with zipfile.ZipFile(archive) as content:
        content.extractall(folder)
        return content.namelist()


class OnHost:
    """A library loaded into this process."""

    def __init__(self, exported: Exported, folder: Path, *flags: str) -> None:
        sources, built = exported.write(folder), folder / f"{exported.prefix}.so"
        command = ["g++", "-std=c++11", "-shared", "-fPIC", *HOST, *flags, f"-I{sources}"]
        subprocess.run([*command, str(sources / f"{exported.prefix}.cpp"), "-o", str(built)], check=True)
        self.exported = exported
        self._library = ctypes.CDLL(str(built))
        words = -(-exported.library.predict_bytes // 4)
        self._arena = [(ctypes.c_uint32 * words)()] if exported.library.arena != STATIC else []

    def call(self, name: str, *arguments: np.ndarray, with_arena: bool = True) -> int:
        function = getattr(self._library, f"{self.exported.prefix}_{name}")
        arena = self._arena if with_arena else []
        return int(function(*arena, *(argument.ctypes.data_as(ctypes.c_void_p) for argument in arguments)))

    def run(self, codes: np.ndarray) -> tuple[int, np.ndarray]:
        """(class, output codes) of one sample of codes."""
        program = self.exported.compiled.program
        out = np.zeros(program.tensors[program.output].count, storage_dtype(program.tensors[program.output].format))
        stored = np.ascontiguousarray(codes.astype(storage_dtype(program.tensors[program.input].format)))
        return self.call("run", stored, out), out.astype(np.int64)

    def predict(self, x: np.ndarray) -> tuple[int, np.ndarray]:
        """(class, outputs) of one real sample."""
        out = np.zeros(self.exported.library.output.count, np.float32)
        return self.call("predict", np.ascontiguousarray(x.reshape(-1), np.float32), out), out

    def quantize(self, x: np.ndarray) -> np.ndarray:
        program = self.exported.compiled.program
        codes = np.zeros(program.tensors[program.input].count, storage_dtype(program.tensors[program.input].format))
        self.call("quantize_input", np.ascontiguousarray(x.reshape(-1), np.float32), codes, with_arena=False)
        return codes.astype(np.int64)


def app_model(exported: Exported) -> str:
    """What the test applications call the library by."""
    x, up = exported.prefix, exported.prefix.upper()
    steps = f"#define MODEL_STEPS {up}_STEPS\n#define MODEL_STEP_INPUTS {up}_STEP_INPUTS\n"
    return (
        f"#include <{x}.h>\n#define MODEL(name) {x}##name\n#define MODEL_INPUTS {up}_INPUTS\n"
        f"#define MODEL_OUTPUTS {up}_OUTPUTS\n" + (steps if exported.library.loop else "")
    )


def arduino_flags() -> dict[str, list[str]]:
    """The flags of Debian's Arduino core for an Uno, as its own platform.txt has them."""
    lines = (CORE / "platform.txt").read_text().splitlines()
    values = dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))
    board = ["-mmcu=atmega328p", "-DF_CPU=16000000L", "-DARDUINO=10819", "-DARDUINO_AVR_UNO", "-DARDUINO_ARCH_AVR"]
    warn = {"{compiler.warning_flags}": "-Wall -Wextra"}
    found = {}
    for kind in ("c", "cpp", "S", "c.elf"):
        text = values[f"compiler.{kind}.flags"]
        for name, value in warn.items():
            text = text.replace(name, value)
        found[kind] = [*text.split(), *board]
    return found


def arduino_core(folder: Path) -> list[Path]:
    """The objects of the core, its main among them."""
    flags, includes = arduino_flags(), [f"-I{CORE}/cores/arduino", f"-I{CORE}/variants/standard"]
    objects = []
    for source in sorted((CORE / "cores" / "arduino").iterdir()):
        kind = source.suffix.removeprefix(".")
        if kind not in ("c", "cpp", "S"):
            continue
        objects.append(folder / f"{source.name}.o")
        compiler = "avr-g++" if kind == "cpp" else "avr-gcc"
        needed = ["-w", "-DDECIMAL_DIG=__DECIMAL_DIG__"]  # which Debian's avr-gcc 5.4 leaves out of float.h in C++
        subprocess.run([compiler, *flags[kind], *needed, *includes, source, "-o", objects[-1]], check=True)
    return objects


def arduino_build(exported: Exported, sketch: str, core: list[Path], folder: Path) -> Path:
    """A sketch with the library as Arduino builds them: .hex, the .elf beside it. Warnings are failures."""
    sources = exported.write(folder)
    (folder / "app_model.h").write_text(app_model(exported))
    (folder / "sketch.cpp").write_text(f"#include <Arduino.h>\n{sketch}")
    flags = arduino_flags()
    includes = [f"-I{CORE}/cores/arduino", f"-I{CORE}/variants/standard", f"-I{sources}", f"-I{folder}"]
    objects = []
    for source in (folder / "sketch.cpp", sources / f"{exported.prefix}.cpp"):
        objects.append(folder / f"{source.stem}.o")
        only_ours = [] if source.stem == "sketch" else ["-Werror"]
        subprocess.run(["avr-g++", *flags["cpp"], *only_ours, *includes, source, "-o", objects[-1]], check=True)
    elf, image = folder / "sketch.elf", folder / "sketch.hex"
    subprocess.run(["avr-gcc", *flags["c.elf"], "-o", elf, *objects, *core, "-lm"], check=True)
    subprocess.run(["avr-objcopy", "-O", "ihex", "-R", ".eeprom", elf, image], check=True)
    return image


def arm_build(exported: Exported, board: str, folder: Path, standard: str = "-std=c++14") -> Path:
    """The C application with the library: .bin, the .elf beside it."""
    sources = exported.write(folder)
    (folder / "app_model.h").write_text(app_model(exported))
    machine, flash, ram = ARM[board]
    script = (PROGRAMS / "bare_metal.ld").read_text()
    (folder / "app.ld").write_text(script.replace("FLASH_AT", hex(flash)).replace("RAM_AT", hex(ram)))
    common = [*machine, "-Os", "-Wall", "-Wextra", "-Werror", "-ffunction-sections", "-fdata-sections"]
    includes = [f"-I{sources}", f"-I{folder}"]
    app, library, elf = folder / "app.o", folder / "library.o", folder / "app.elf"
    compiler = "arm-none-eabi-"
    subprocess.run(
        [f"{compiler}gcc", "-std=c99", *common, *includes, "-c", PROGRAMS / "bare_metal.c", "-o", app], check=True
    )
    cpp = [f"{compiler}g++", standard, *common, "-fno-exceptions", "-fno-rtti", *includes]
    subprocess.run([*cpp, "-c", sources / f"{exported.prefix}.cpp", "-o", library], check=True)
    link = ["-nostartfiles", "--specs=nano.specs", "--specs=nosys.specs", "-Wl,--gc-sections", f"-T{folder / 'app.ld'}"]
    subprocess.run([f"{compiler}gcc", *machine, *link, app, library, "-o", elf], check=True)
    image = folder / "app.bin"
    subprocess.run([f"{compiler}objcopy", "-O", "binary", elf, image], check=True)
    return image


class OnBoard:
    """A board whose application asks for samples with 'R' and answers '='."""

    def __init__(self, port: serial.Serial, exported: Exported, piece: int, *, timed: bool = False) -> None:
        self.port, self.exported, self.piece, self.timed, self.ticks = port, exported, piece, timed, 0

    def run(self, codes: np.ndarray) -> tuple[int, np.ndarray]:
        """(class, output codes) of one sample of codes."""
        program = self.exported.compiled.program
        data = codes.astype(storage_dtype(program.tensors[program.input].format)).tobytes()
        for row in self._rows(data):
            for at in range(0, len(row), self.piece):
                assert self.port.read(1) == b"R"
                self.port.write(row[at : at + self.piece])
        dtype = storage_dtype(program.tensors[program.output].format)
        size = program.tensors[program.output].count * dtype.itemsize
        answer = self.port.read(2 + size)
        assert (answer[:1], len(answer)) == (b"=", 2 + size)
        self.ticks = int.from_bytes(self.port.read(4), "little") if self.timed else 0
        return answer[1], np.frombuffer(answer[2:], dtype).astype(np.int64)

    def _rows(self, data: bytes) -> list[bytes]:
        """What the application asks for at once: rows on an Uno, where a model has steps."""
        loop = self.exported.library.loop
        if loop is None or self.piece > 64:
            return [data]
        size = len(data) // loop.count
        return [data[at : at + size] for at in range(0, len(data), size)]
