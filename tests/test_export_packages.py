"""Exported packages for SDKs, and exported libraries on processors that no board of ours has."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest

from tests.export_bench import PROGRAMS, OnHost, export
from tests.export_targets import TARGETS, check_on, check_said, write_samples
from tests.given_data import data_file
from tests.hil_command import check_failure, hil
from tinyhil.codegen.export_kinds import KINDS
from tinyhil.codegen.packages import PACKAGES
from tinyhil.references.reference import quantize_inputs

SDKS = PROGRAMS / "sdks"
REAL = [(target, "digits_cnn", "int8") for target in ("UBSan", "Pico")]
CASES = [
    *REAL,
    *(
        pytest.param(target, model, format_, marks=pytest.mark.slow)
        for target in TARGETS
        for model, format_ in (
            ("digits_cnn", "int8"),
            ("digits_cnn", "fixed8pc"),
            ("digits_cnn", "int16x8"),
            ("digits_mlp", "posit8es1"),
            ("digits_mlp", "nf4"),
            ("fastgrnn_har", "fixed16"),
            ("fastgrnn_har", "float16"),
        )
        if (target, model, format_) not in REAL
    ),
]
# Kind -> the project that the package brings, what its build makes, and the variable that names the SDK
PROJECTS = {
    "pico-sdk": ("examples", "digits_mlp_example", "PICO_SDK_PATH"),
    "zephyr": ("samples/digits_mlp", "app", "ZEPHYR_BASE"),
    "esp-idf": ("examples/digits_mlp", "app", "IDF_PATH"),
}


def digits(count: int) -> np.ndarray:
    return np.random.default_rng(8).integers(0, 17, (count, 64)).astype(np.float32)


def typed(x: np.ndarray) -> str:
    return " ".join(map(str, x.reshape(-1)))


def test_every_kind_has_a_row() -> None:
    assert tuple(PACKAGES) == KINDS


@pytest.mark.parametrize(("target", "model", "format_"), CASES)
def test_on_processors_that_no_board_has(target: str, model: str, format_: str, tmp_path: Path) -> None:
    exported = export(model, format_)
    count = exported.library.input.count
    x = np.random.default_rng(4).normal(0, 6, (3, count)).astype(np.float32)
    check_on(TARGETS[target], exported, x, tmp_path)


@pytest.mark.parametrize(
    "kind", ["zephyr", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("pico-sdk", "esp-idf"))]
)
def test_the_project_of_a_package_builds_and_classifies(kind: str, tmp_path: Path) -> None:
    """By the line of its page, with the functions of its SDK (tests/firmware_export/sdks says which)."""
    exported = export("digits_mlp", "fixed8", kind=kind)
    exported.write(tmp_path)
    folder, program, variable = PROJECTS[kind]
    page = (tmp_path / "digits_mlp" / "README.md").read_text()
    (line,) = re.findall(r"`((?:cmake -S|west|idf\.py) [^`]*)`", page)
    path = f"{SDKS / kind / 'bin'}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, variable: str(SDKS / kind)}
    subprocess.run(line, shell=True, cwd=tmp_path, env=environment, check=True, capture_output=True)
    assert (tmp_path / "digits_mlp" / folder / "CMakeLists.txt").is_file()
    (made,) = [path for path in tmp_path.rglob(program) if path.is_file()]
    x = digits(3) if kind == "pico-sdk" else np.zeros((1, 64), np.float32)
    done = subprocess.run([made], input=typed(x), capture_output=True, text=True, check=False)
    library = OnHost(exported, tmp_path / "host")
    assert [int(line) for line in done.stdout.split()] == [library.predict(row)[0] for row in x]


@pytest.mark.slow
@pytest.mark.data("sdk/zephyr", "sdk/cmsis")
def test_a_module_is_part_of_a_real_zephyr(tmp_path: Path) -> None:
    """Its own CMake and Kconfig build the sample, which prints each output of samples as the reference has it."""
    pytest.importorskip("pykwalify")  # of Zephyr's scripts
    exported = export("digits_mlp", "fixed8", kind="zephyr")
    exported.write(tmp_path)
    program = exported.compiled.program
    codes, _ = quantize_inputs(program, digits(3).reshape(3, *program.input_shape))
    sample = tmp_path / "digits_mlp" / "samples" / "digits_mlp"
    assert "int main(void)" in (sample / "src" / "main.c").read_text()
    (sample / "src" / "main.c").write_text((PROGRAMS / "samples.c").read_text())
    write_samples(exported, codes, sample / "src")
    tools = {"ZEPHYR_TOOLCHAIN_VARIANT": "cross-compile", "CROSS_COMPILE": "/usr/bin/arm-none-eabi-"}
    environment = {**os.environ, **tools, "ZEPHYR_BASE": str(data_file("sdk/zephyr"))}
    modules = f"-DZEPHYR_MODULES={data_file('sdk/cmsis')};{tmp_path / 'digits_mlp'}"
    options = ("-G", "Ninja", "-DBOARD=mps2_an385", modules, f"-DPython3_EXECUTABLE={sys.executable}")
    for command in (("-S", sample, "-B", "build", *options), ("--build", "build")):
        subprocess.run(["cmake", *command], cwd=tmp_path, env=environment, check=True, capture_output=True)
    machine = ["qemu-system-arm", "-M", "mps2-an385", "-display", "none", "-monitor", "none", "-serial", "stdio"]
    with subprocess.Popen(
        [*machine, "-kernel", tmp_path / "build/zephyr/zephyr.elf"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
    ) as qemu:
        assert qemu.stdout is not None
        said = [qemu.stdout.readline().decode() for _ in range(1 + len(codes))]  # it never ends
        qemu.kill()
    assert "Booting Zephyr" in said[0]
    check_said(exported, codes, said[1:])


def test_a_header_is_written_alone(tmp_path: Path) -> None:
    for name in ("digits_mlp.h", "all.zip"):
        done = hil("export", "header", "digits_mlp", "--format", "fixed8", "--sizes", "--out", name, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    header = (tmp_path / "digits_mlp.h").read_text()
    rows = [line for line in done.stderr.splitlines() if line.startswith("| Cortex-M3,")]
    assert len(rows) == 1
    assert rows[0] in header.partition("#ifndef")[0], "sizes stand in the header"
    checked = subprocess.run(["gcc", "-std=c99", "-pedantic-errors", "-fsyntax-only", tmp_path / "digits_mlp.h"])
    assert checked.returncode == 0
    with zipfile.ZipFile(tmp_path / "all.zip") as archive:
        assert archive.read("digits_mlp/digits_mlp.h") == (tmp_path / "digits_mlp.h").read_bytes()
    check_failure(hil("export", "cmake", "digits_mlp", "--out", "x.h", cwd=tmp_path), 2, "is one .zip file")


def test_another_export_is_newer_than_what_was_built(tmp_path: Path) -> None:
    """`unzip` keeps an archive's times: with all of 1980 no build knew that the model had changed."""
    contents = []
    for epoch in ("", "1000000000", "1000000000"):
        built = time.time()
        done = hil("export", "cmake", "digits_mlp", "--out", "x.zip", cwd=tmp_path, SOURCE_DATE_EPOCH=epoch)
        assert done.returncode == 0, done.stderr
        contents.append((tmp_path / "x.zip").read_bytes())
        with zipfile.ZipFile(tmp_path / "x.zip") as archive:
            entry = archive.getinfo("digits_mlp/src/digits_mlp.cpp")
        unpacked_at = time.mktime((*entry.date_time, 0, 0, -1))
        assert epoch or built < unpacked_at <= time.time() + 2
        assert entry.external_attr >> 16 == 0o644
    assert contents[1] == contents[2], "with an epoch the same library is the same bytes"


@pytest.mark.slow
def test_one_header_is_the_whole_library(tmp_path: Path) -> None:
    """C includes it anywhere and as often as it likes; two of them in one program."""
    exported = export("digits_mlp", "fixed8", kind="header")
    exported.write(tmp_path)
    export("fastgrnn_har", "fixed8", kind="header").write(tmp_path)
    folder = tmp_path / "digits_mlp"
    assert {path.suffix for path in folder.iterdir()} == {".h", ".md", ""}
    (folder / "examples" / "main.c").write_text(
        '#include "fastgrnn_har.h"\n#include "digits_mlp.h"\n' + (folder / "examples" / "main.c").read_text()
    )
    include = [f"-I{tmp_path / name}" for name in ("digits_mlp", "fastgrnn_har")]
    strict = ["-Wall", "-Wextra", "-Werror", "-pedantic", *include]
    both = [str(tmp_path / name / "examples" / f"{name}.cpp") for name in ("digits_mlp", "fastgrnn_har")]
    subprocess.run(
        ["gcc", "-std=c99", *strict, "-c", folder / "examples" / "main.c", "-o", tmp_path / "main.o"], check=True
    )
    subprocess.run(["g++", "-std=c++11", *include, tmp_path / "main.o", *both, "-o", tmp_path / "app"], check=True)
    x = digits(1)
    said = subprocess.run([tmp_path / "app"], input=typed(x), capture_output=True, text=True, check=True).stdout
    assert int(said) == OnHost(export("digits_mlp", "fixed8"), tmp_path / "host").predict(x[0])[0]


@pytest.mark.parametrize("board", ["h747", *(pytest.param(board, marks=pytest.mark.slow) for board in ("uno", "pico"))])
def test_one_header_compiles_as_the_files_do(board: str, tmp_path: Path) -> None:
    """Files that stand under conditions of several cores are there once where each holds: the same code comes out."""
    compiler, *flags = {
        "h747": ("arm-none-eabi-g++", "-mcpu=cortex-m7", "-mthumb", "-mfpu=fpv5-d16", "-mfloat-abi=hard"),
        "uno": ("avr-g++", "-mmcu=atmega328p"),
        "pico": ("arm-none-eabi-g++", "-mcpu=cortex-m0plus", "-mthumb"),
    }[board]
    texts = []
    for kind, source in (("cmake", "src/digits_cnn.cpp"), ("header", "examples/digits_cnn.cpp")):
        exported = export("digits_cnn", "int8", kind=kind, board=board)
        exported.write(tmp_path / kind)
        package, made = tmp_path / kind / "digits_cnn", tmp_path / f"{kind}.o"
        command = [compiler, *flags, "-std=gnu++11", "-Os", f"-I{package}", f"-I{package / 'src'}", "-c"]
        subprocess.run([*command, package / source, "-o", made], check=True)
        tool = compiler.replace("g++", "nm")
        listed = subprocess.run([tool, "-CS", made], check=True, capture_output=True, text=True).stdout
        texts.append(sorted(re.findall(r"^[0-9a-f]+ ([0-9a-f]+) \w (.*)$", listed, re.MULTILINE)))
    assert len(texts[0]) > 10
    assert texts[0] == texts[1]


MICROPYTHON = """
from array import array
import fastgrnn_har as f
import sys
import zipfile
x = array("f", [float(v) for v in sys.stdin.read().split()])
out = array("f", [0] * f.OUTPUTS)
print(f.predict(x, out), *out)
f.begin()
for n in range(f.STEPS):
    left = f.step(memoryview(x)[n * f.STEP_INPUTS : (n + 1) * f.STEP_INPUTS])
print(left, f.finish(out), *out)
for wrong in (array("f", [0]), array("h", [0] * f.OUTPUTS), None):
    try:
        f.predict(x, wrong)
    except (ValueError, TypeError) as error:
        print(error)
"""


@pytest.mark.slow
@pytest.mark.skipif("MPY_DIR" not in os.environ, reason="MPY_DIR names no source tree of MicroPython")
@pytest.mark.skipif(shutil.which("micropython") is None, reason="micropython is not installed")
def test_a_module_of_micropython_runs_in_it(tmp_path: Path) -> None:
    """Built by MicroPython's own tools for this computer, and linked for the boards' processors."""
    exported = export("fastgrnn_har", "fixed8", kind="micropython")
    exported.write(tmp_path)
    folder = tmp_path / "fastgrnn_har"
    for arch in ("armv6m", "armv7m", "armv7emsp", "armv7emdp", "x64"):
        subprocess.run(["make", f"ARCH={arch}"], cwd=folder, check=True, capture_output=True)
        assert (folder / "fastgrnn_har.mpy").stat().st_size > 4000
        (folder / "fastgrnn_har.mpy").rename(folder / f"{arch}.mpy")
    (folder / "x64.mpy").rename(folder / "fastgrnn_har.mpy")
    x = np.random.default_rng(4).normal(0, 2, exported.library.input.count).astype(np.float32)
    (folder / "t.py").write_text(MICROPYTHON)
    command = ["micropython", "t.py"]
    said = subprocess.run(command, cwd=folder, input=typed(x), check=True, capture_output=True, text=True).stdout
    whole, steps, *wrong = said.splitlines()
    found, outputs = OnHost(export("fastgrnn_har", "fixed8"), tmp_path / "host").predict(x)
    assert whole.split() == [str(found), *(str(float(value)) for value in outputs)]
    assert steps.split() == ["0", *whole.split()]
    assert len(wrong) == 3


def test_a_module_of_micropython_has_its_own_memory(tmp_path: Path) -> None:
    done = hil("export", "micropython", "digits_mlp", "--arena", "caller", "--out", tmp_path / "x.zip", cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "has its own memory" in done.stderr
