"""Exported libraries in a program of their own on processors that no board of ours has, by cross compilers and
emulators of Debian. A target whose tools are missing skips its test, and says which."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from tests.export_bench import PROGRAMS, Exported, app_model
from tinyhil.formats.codec import storage_dtype
from tinyhil.references.classes import classes_of
from tinyhil.references.reference import dequantize_outputs, quantize_inputs, run_reference

DEADLINE_S = 300.0
ARM = ("-mthumb", "-nostartfiles", "--specs=nano.specs", "--specs=nosys.specs")


@dataclass(frozen=True, slots=True)
class Target:
    """Prefix of a compiler, its flags, what runs the program; `at`: where flash and RAM lie, if nothing is beneath."""

    tools: str
    flags: tuple[str, ...]
    run: tuple[str, ...] = ()
    standard: str = "-std=c++11"
    at: tuple[int, int] | None = None
    ram: str = "64K"


def _qemu(machine: str) -> tuple[str, ...]:
    return ("qemu-system-arm", "-M", machine, "-display", "none", "-monitor", "none", "-semihosting", "-kernel")


TARGETS = {
    "UBSan": Target("", ("-fsanitize=undefined", "-fno-sanitize-recover=all", "-g1")),
    # cores of boards as Arduino's packages for them compile: language, options, all in one program
    "Pico": Target(
        "arm-none-eabi-", ("-mcpu=cortex-m0plus", *ARM), _qemu("microbit"), "-std=gnu++17", (0, 0x20000000), "16K"
    ),
    "Nano 33 BLE, XIAO": Target(
        "arm-none-eabi-",
        ("-mcpu=cortex-m4", "-mfloat-abi=softfp", "-mfpu=fpv4-sp-d16", *ARM),
        _qemu("netduinoplus2"),
        "-std=gnu++14",
        (0x08000000, 0x20000000),
    ),
    "Pico 2": Target(
        "arm-none-eabi-",
        ("-mcpu=cortex-m33", "-mfloat-abi=softfp", "-mfpu=fpv5-sp-d16", *ARM),
        _qemu("mps2-an505"),
        "-std=gnu++17",
        (0x10000000, 0x38000000),
    ),
    "ESP32-C3": Target(
        "riscv64-unknown-elf-",
        ("-march=rv32imc", "-mabi=ilp32", "-ffreestanding", "-nostdlib", "-nostartfiles"),
        ("qemu-riscv32",),
    ),
    "big-endian, 32 bits": Target("powerpc-linux-gnu-", ("-static",), ("qemu-ppc",)),
    "big-endian, 64 bits": Target("s390x-linux-gnu-", ("-static",), ("qemu-s390x",)),
}


def built(target: Target, exported: Exported, codes: np.ndarray, folder: Path) -> Path:
    """The program that holds the samples `codes`; warnings are failures. Skips if the compiler is missing."""
    for tool in (f"{target.tools}g++", *target.run[:1]):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    sources = exported.write(folder)
    write_samples(exported, codes, folder)
    common = [*target.flags, "-Os", "-Wall", "-Wextra", "-Werror", f"-I{sources}", f"-I{folder}"]
    common += ["-ffunction-sections", "-fdata-sections"]
    objects = [str(folder / "samples.o"), str(folder / "library.o")]
    cpp = [target.standard, "-fno-exceptions", "-fno-rtti"]
    commands = [
        [f"{target.tools}gcc", "-std=c99", *common, "-c", str(PROGRAMS / "samples.c"), "-o", objects[0]],
        [f"{target.tools}g++", *cpp, *common, "-c", str(sources / f"{exported.prefix}.cpp"), "-o", objects[1]],
        [f"{target.tools}gcc", *target.flags, "-Wl,--gc-sections", *objects, "-o", str(folder / "app"), "-lgcc"],
    ]
    if target.at is not None:
        script = (PROGRAMS / "bare_metal.ld").read_text().replace("64K", target.ram)
        for name, address in zip(("FLASH_AT", "RAM_AT"), target.at, strict=True):
            script = script.replace(name, hex(address))
        (folder / "app.ld").write_text(script)
        commands[2].insert(1, f"-T{folder / 'app.ld'}")
    for command in commands:
        subprocess.run(command, check=True)
    return folder / "app"


def write_samples(exported: Exported, codes: np.ndarray, folder: Path) -> None:
    """What tests/firmware_export/samples.c includes, in `folder`."""
    program = exported.compiled.program
    kind = storage_dtype(program.tensors[program.input].format)
    rows = ",\n".join(f"{{{','.join(map(str, row.astype(kind).reshape(-1)))}}}" for row in codes)
    (folder / "app_model.h").write_text(app_model(exported))
    (folder / "samples.h").write_text(f"static const MODEL(_input) samples[][MODEL_INPUTS] = {{{rows}}};\n")


def check_on(target: Target, exported: Exported, x: np.ndarray, folder: Path) -> None:
    """Class and every output code of each sample are those of the reference."""
    program = exported.compiled.program
    codes, _ = quantize_inputs(program, x.reshape(len(x), *program.input_shape))
    image = built(target, exported, codes, folder)
    both = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}  # semihosting prints on the second
    done = subprocess.run([*target.run, image], text=True, timeout=DEADLINE_S, check=False, **both)
    assert done.returncode == 0, done.stdout
    check_said(exported, codes, done.stdout.splitlines())


def check_said(exported: Exported, codes: np.ndarray, lines: Sequence[str]) -> None:
    """Class and every output code of each sample, a line each, are those of the reference."""
    program = exported.compiled.program
    found = np.array([line.split() for line in lines], np.int64)
    expected = run_reference(program, codes).outputs
    kind = storage_dtype(program.tensors[program.output].format)
    np.testing.assert_array_equal(found[:, 1:].astype(kind), expected.reshape(len(codes), -1).astype(kind))
    np.testing.assert_array_equal(
        found[:, 0], classes_of(exported.compiled.model.graph, dequantize_outputs(program, expected))
    )
