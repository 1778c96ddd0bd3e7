"""firmware/bench/ in projects of other people's frameworks: their sources are data, the images run as anybody's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from given_data import data_file
from hil_command import hil

from tests.test_engines_firmware import MODEL, WEIGHTS, X

ROOT = Path(__file__).resolve().parent.parent
BENCH = ROOT / "tests/firmware_bench"
OURS = (BENCH / "engine.c", ROOT / "firmware/bench/hil_bench.c")
HAL = ("", *(f"_{name}" for name in ("cortex", "rcc", "rcc_ex", "gpio", "pwr", "pwr_ex", "uart", "uart_ex", "dma")))
LANGUAGES = {".cpp": ["-std=gnu++11", "-fno-exceptions", "-fno-threadsafe-statics"], ".s": ["-x", "assembler-with-cpp"]}


def linked(compiler: str, flags: str, sources: Sequence[Path], includes: Sequence[Path], more: str, elf: Path) -> None:
    """Each file by itself: their languages differ."""
    words = [*flags.split(), *(f"-I{place}" for place in includes)]
    objects = []
    for source in sources:
        objects.append(elf.parent / f"{source.name}.o")
        driver = compiler.replace("gcc", "g++") if source.suffix == ".cpp" else compiler
        language = LANGUAGES.get(source.suffix, [])
        subprocess.run([driver, *words, *language, "-c", source, "-o", objects[-1]], check=True, capture_output=True)
    subprocess.run([compiler, *flags.split(), *objects, *more.split(), "-o", elf], check=True, capture_output=True)


def check(folder: Path, board: str, unit: str, clock_hz: int) -> None:
    (folder / "dense.dsl").write_text(MODEL.format(WEIGHTS.T.astype(float).tolist()))
    np.savez(folder / "x.npz", x=X)
    done = hil(
        *("run", "--firmware", "engine.elf", "--board", board, "--model", "dense.dsl", "--inputs", "x.npz", "--json"),
        cwd=folder,
    )
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    assert (record["engine"]["name"], record["model"]) == ("by hand", "dense")
    assert (record["disagreements"], record["largest_output_error"]) == (0, 0.0)
    assert (record["latency"]["unit"], record["latency"]["clock_hz"]) == (unit, clock_hz)


@pytest.mark.slow
@pytest.mark.data("sdk/ArduinoCore-avr")
def test_an_arduino_sketch_is_measured(tmp_path: Path) -> None:
    core = data_file("sdk/ArduinoCore-avr")
    flags = "-mmcu=atmega328p -DF_CPU=16000000L -DARDUINO=10819 -DARDUINO_ARCH_AVR -Os -ffunction-sections -w"
    places = [core / "cores/arduino", core / "variants/standard", ROOT]
    found = [*sorted(places[0].glob("*.c")), *sorted(places[0].glob("*.cpp"))]
    theirs = [one for one in found if one.name != "WString.cpp"]  # DECIMAL_DIG of newer headers
    linked(
        "avr-gcc", flags, [BENCH / "arduino.cpp", *OURS, *theirs], places, "-Wl,--gc-sections", tmp_path / "engine.elf"
    )
    check(tmp_path, "uno", "microseconds", 1_000_000)


@pytest.mark.slow
@pytest.mark.data("sdk/stm32l4xx_hal_driver", "sdk/cmsis_device_l4", "sdk/cmsis_core")
def test_a_project_of_stm32cube_is_measured(tmp_path: Path) -> None:
    """Their start, their HAL, its configuration as they give it; the linker script is this one's."""
    hal, device, core = map(data_file, ("sdk/stm32l4xx_hal_driver", "sdk/cmsis_device_l4", "sdk/cmsis_core"))
    template = hal / "Inc/stm32l4xx_hal_conf_template.h"
    (tmp_path / "stm32l4xx_hal_conf.h").write_bytes(template.read_bytes())
    theirs = [hal / f"Src/stm32l4xx_hal{name}.c" for name in HAL]
    templates = device / "Source/Templates"
    theirs += [templates / "system_stm32l4xx.c", templates / "gcc/startup_stm32l4r5xx.s"]
    machine = "-mcpu=cortex-m4 -mthumb -mfloat-abi=hard -mfpu=fpv4-sp-d16"
    flags = f"{machine} -DSTM32L4R5xx -DUSE_HAL_DRIVER -Os -ffunction-sections -w"
    more = f"--specs=nano.specs --specs=nosys.specs -Wl,--gc-sections -T{BENCH / 'stm32cube.ld'}"
    includes = [tmp_path, hal / "Inc", device / "Include", core / "Include", ROOT]
    linked("arm-none-eabi-gcc", flags, [BENCH / "stm32cube.c", *OURS, *theirs], includes, more, tmp_path / "engine.elf")
    check(tmp_path, "nucleo_l4r5", "cycles", 4_000_000)


@pytest.mark.slow
@pytest.mark.data("sdk/pico-sdk")
def test_a_project_of_pico_sdk_is_measured(tmp_path: Path) -> None:
    """Built by its own CMake: its second stage, its start with the boot ROM's functions, its UART."""
    files = " ".join(map(str, (BENCH / "pico_sdk.c", *OURS)))
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.18)\nset(PICO_NO_PICOTOOL 1)\n"
        "include($ENV{PICO_SDK_PATH}/external/pico_sdk_import.cmake)\nproject(engine C CXX ASM)\npico_sdk_init()\n"
        f"add_executable(engine {files})\ntarget_include_directories(engine PRIVATE {ROOT})\n"
        "target_link_libraries(engine pico_stdlib)\n"
    )
    environment = {**os.environ, "PICO_SDK_PATH": str(data_file("sdk/pico-sdk"))}
    for command in (("-G", "Ninja", "-B", "build"), ("--build", "build")):
        subprocess.run(["cmake", *command], cwd=tmp_path, env=environment, check=True, capture_output=True)
    (tmp_path / "build/engine.elf").rename(tmp_path / "engine.elf")
    check(tmp_path, "pico", "microseconds", 1_000_000)


@pytest.mark.slow
@pytest.mark.data("sdk/zephyr", "sdk/hal_stm32", "sdk/cmsis")
def test_a_project_of_zephyr_is_measured(tmp_path: Path) -> None:
    """Built by its own CMake for a board of its own: device tree, PLL at 80 MHz, its kernel's ticks."""
    pytest.importorskip("pykwalify")  # of Zephyr's scripts
    files = " ".join(map(str, (BENCH / "zephyr.c", *OURS)))
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.13)\nfind_package(Zephyr REQUIRED HINTS $ENV{ZEPHYR_BASE})\nproject(engine)\n"
        f"target_sources(app PRIVATE {files})\ntarget_include_directories(app PRIVATE {ROOT})\n"
    )
    (tmp_path / "prj.conf").write_text("CONFIG_CONSOLE=n\nCONFIG_UART_CONSOLE=n\nCONFIG_BOOT_BANNER=n\n")
    modules = ";".join(str(data_file(f"sdk/{name}")) for name in ("hal_stm32", "cmsis"))
    tools = {"ZEPHYR_TOOLCHAIN_VARIANT": "cross-compile", "CROSS_COMPILE": "/usr/bin/arm-none-eabi-"}
    environment = {**os.environ, **tools, "ZEPHYR_BASE": str(data_file("sdk/zephyr"))}
    options = ("-DBOARD=nucleo_l4r5zi", f"-DZEPHYR_MODULES={modules}", f"-DPython3_EXECUTABLE={sys.executable}")
    for command in (("-G", "Ninja", "-B", "build", *options), ("--build", "build")):
        subprocess.run(["cmake", *command], cwd=tmp_path, env=environment, check=True, capture_output=True)
    (tmp_path / "build/zephyr/zephyr.elf").rename(tmp_path / "engine.elf")
    check(tmp_path, "nucleo_l4r5", "cycles", 80_000_000)
