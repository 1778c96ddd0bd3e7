"""Firmware of others: an engine by hand that speaks our wire, and what the file or its sender may have wrong."""

from __future__ import annotations

import json
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest
from hil_command import forked_pytest, hil

from tinyhil.errors import ConfigError, DataError
from tinyhil.harness.engines.bench_card import Card, card_of
from tinyhil.harness.engines.firmware_file import read_firmware
from tinyhil.harness.engines.port import Port
from tinyhil.harness.settings.config import load_boards

ROOT = Path(__file__).resolve().parent.parent
BENCH = ROOT / "tests/firmware_bench"
SOURCES = (BENCH / "uno.c", BENCH / "engine.c", ROOT / "firmware/bench/hil_bench.c")
WEIGHTS = np.array([[1, -2, 3, -4, 5, -6, 7, -8], [2, 0, 2, 0, 2, 0, 2, 0], [-1, 1, -1, 1, -1, 1, -1, 1]])
MODEL = "input x = (1, 8) in [-20.0, 20.0] in let W = {} in let b = [1.0, -2.0, 0.25] in x * W + b\n"
X = np.random.default_rng(0).integers(-20, 20, (5, 8)) * 0.5


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("bench")
    for name in ("", "NEVER_ANSWERS", "BABBLES", "STARTS_AGAIN", "OVERWRITES_MEMORY"):
        built(found / f"{name.lower() or 'engine'}.elf", *([f"-D{name}"] if name else []))
    np.savez(found / "x.npz", x=X)
    (found / "dense.dsl").write_text(MODEL.format(WEIGHTS.T.astype(float).tolist()))
    return found


def built(elf: Path, *flags: str) -> None:
    command = ["avr-gcc", "-mmcu=atmega328p", "-std=c99", "-Os", "-DF_CPU=16000000UL"]
    subprocess.run([*command, "-Wall", "-Wextra", "-Werror", *flags, f"-I{ROOT}", *SOURCES, "-o", elf], check=True)


@pytest.mark.parametrize(
    ("compiler", "flags"),
    [
        ("avr-gcc", "-mmcu=atmega2560 -std=c99"),
        ("avr-g++", "-mmcu=atmega328p -std=c++17 -x c++"),  # a sketch that includes it
        ("arm-none-eabi-gcc", "-mcpu=cortex-m0plus -mthumb -std=c99"),
        ("arm-none-eabi-g++", "-mcpu=cortex-m33 -mthumb -std=c++17 -fno-exceptions -x c++"),
        ("gcc", "-m64 -std=c11"),  # as Zephyr's native board
    ],
)
def test_its_two_files_compile_wherever_a_project_has_them(compiler: str, flags: str, tmp_path: Path) -> None:
    """C99, and C++ as well, without a warning; beside each other as in an Arduino sketch or a CMake project."""
    for name in ("hil_bench.c", "hil_bench.h"):
        (tmp_path / name).write_bytes((ROOT / "firmware/bench" / name).read_bytes())
    strict = "-Os -Wall -Wextra -Wconversion -Werror -pedantic -ffreestanding"
    command = [compiler, *flags.split(), *strict.split(), "-c", "hil_bench.c", "-o", "bench.o"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def run(folder: Path, *arguments: str, board: str = "uno") -> subprocess.CompletedProcess[str]:
    return hil("run", "--board", board, "--inputs", "x.npz", *arguments, cwd=folder)


def test_an_engine_by_hand_is_measured_as_ours(folder: Path) -> None:
    done = run(folder, "--firmware", "engine.elf", "--model", "dense.dsl", "--json")
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    assert record["engine"]["name"] == "by hand"
    assert record["engine"]["sources"].keys() == {"engine.elf"}
    wanted = X @ WEIGHTS.T + [1.0, -2.0, 0.25]
    codes = [np.frombuffer(bytes.fromhex(text), "<i2") for text in record["raw"]["outputs"]]
    assert (np.array(codes) * 0.25 == wanted).all()
    assert (record["disagreements"], record["largest_output_error"]) == (0, 0.0)
    assert 400 < record["latency"]["median"] < 2000
    assert record["memory"]["arena_bytes"] == 14
    assert 14 < record["memory"]["static_bytes"] < 200
    assert 50 < record["memory"]["stack_bytes"] <= record["memory"]["stack_limit_bytes"]
    assert record["memory"]["heap_bytes"] is None
    assert record["accuracy"] is None


def test_ticks_of_another_clock_are_no_cycles(folder: Path) -> None:
    built(folder / "own_clock.elf", "-UF_CPU", "-DF_CPU=1000000UL")
    found = json.loads(run(folder, "--firmware", "own_clock.elf", "--json").stdout)["latency"]
    assert (found["unit"], found["clock_hz"], found["median_us"]) == ("microseconds", 1_000_000, found["median"])


def test_a_cmake_project_of_a_cortex_m_is_measured_as_ours(folder: Path) -> None:
    """Bare metal with a start and a serial port of its own, as whoever knows nothing of our HAL writes it."""
    project, build = BENCH, folder / "cmake"
    for command in (("-S", project, "-B", build), ("--build", build)):
        subprocess.run(["cmake", *command], check=True, capture_output=True)
    image = str(build / "engine.elf")
    done = run(folder, "--firmware", image, "--model", "dense.dsl", "--json", board="nucleo_l4r5")
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    assert (record["engine"]["name"], record["model"]) == ("by hand", "dense")
    assert (record["disagreements"], record["largest_output_error"]) == (0, 0.0)
    assert 100 < record["latency"]["median"] < 1000
    assert (record["latency"]["unit"], record["latency"]["clock_hz"]) == ("cycles", 4_000_000)  # as the chip runs
    assert 14 < record["memory"]["static_bytes"] < record["flash_bytes"] < 4096
    assert 50 < record["memory"]["stack_bytes"] < 1000
    drive = read_firmware(build / "engine.elf", load_boards().board("pico"), folder / "cache").image.load_path
    first = struct.unpack("<8I", drive.read_bytes()[:32])
    assert (first[0], first[3], first[7]) == (0x0A324655, 0x08000000, 0xE48BFF56)  # UF2, address, RP2040


@pytest.mark.parametrize(
    ("image", "code", "says"),
    [
        ("never_answers.elf", 6, "no"),
        ("babbles.elf", 6, "no valid frame"),
        ("starts_again.elf", 7, "restarted"),
        ("overwrites_memory.elf", 7, "in hil_engine_invoke"),
    ],
)
def test_a_foreign_engine_that_fails_ends_as_a_board_does(folder: Path, image: str, code: int, says: str) -> None:
    done = run(folder, "--firmware", image, "--timeout", "1")
    assert done.returncode == code, done.stderr
    assert says in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--firmware", "x.npz"), "a firmware is an .elf, .hex or .bin file"),
        (("--firmware", "nothing.elf"), "nothing.elf"),
        (("--firmware", "text.elf"), "text.elf"),
        (("--firmware", "engine.hex"), "give the .elf file"),
        (("--firmware", "engine.elf", "--board", "due"), "an image for one board"),
        (("--firmware", "engine.elf", "--inputs", "short.npz"), "samples of 4 B, the firmware takes 8 B"),
        ((), "Missing option '--model'"),
    ],
)
def test_what_cannot_be_run_is_one_line(folder: Path, arguments: tuple[str, ...], says: str) -> None:
    (folder / "text.elf").write_text("no firmware\n")
    np.savez(folder / "short.npz", x=X[:, :4])
    subprocess.run(["avr-objcopy", "-O", "ihex", folder / "engine.elf", folder / "engine.hex"], check=True)
    done = run(folder, *arguments)
    assert done.returncode in (2, 4), done.stderr
    assert says in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "word",
    [
        "model=../../elsewhere",
        "engine=\x1b[31mred",
        "version=1\n2",
        "engine=" + 81 * "x",
        "input=int8",
        "output=int33 1 0",
        "output=int16 1e300 0",
        "input=int8 1 99999999999",
        "arena=99",
        "arena=-1",
    ],
)
def test_a_card_is_believed_as_far_as_it_can_be_true(word: str) -> None:
    """It is text of whoever built the image, and names the folder of the record."""
    with pytest.raises(ConfigError, match=r"^x\.elf: HIL_BENCH_CARD: .* no "):
        card_of(f"engine=by hand 2.1;{word};arena=98" if "arena" not in word else word, Path("x.elf"), 98)


def test_a_card_leaves_out_what_it_likes() -> None:
    found = card_of(";;=;other=1; model = a-b (c) ;input=float32", Path("x.elf"), 0)
    assert found == Card(model="a-b (c)", input=Port("float32"))


def test_answers_that_do_not_fit_what_is_said_of_them(folder: Path) -> None:
    """Six bytes are no float32 numbers; three numbers are not another model's one; a Due runs no AVR code."""
    with pytest.raises(DataError, match="x: outputs of 6 B are no float32 numbers"):
        Port("float32").reals_of([b"123456"], "x")
    with pytest.raises(DataError, match="x: the output of sample 1 holds what is no finite number"):
        Port("float32").reals_of([b"\0\0\x80\x3f", b"\0\0\xc0\x7f"], "x")
    (folder / "one.dsl").write_text(f"input x = (1, 8) in [-20.0, 20.0] in let W = {8 * [[1.0]]} in x * W\n")
    done = run(folder, "--firmware", "engine.elf", "--model", "one.dsl")
    assert (done.returncode, "by hand gives 3 numbers a sample, one 1" in done.stderr) == (2, True), done.stderr
    done = hil("run", "--board", "due", "--inputs", "x.npz", "--firmware", "engine.elf", cwd=folder)
    assert (done.returncode, "code for EM_AVR, due runs EM_ARM" in done.stderr) == (4, True), done.stderr


def test_nothing_takes_a_record_of_others_for_one_of_ours(folder: Path) -> None:
    run(folder, "--firmware", "engine.elf")
    record = next((folder / "results/uno/dense").glob("*.json"))
    for command in (("compare", record, record), ("report", record, "-o", "page.html"), ("golden", "check", record)):
        done = hil(*map(str, command), cwd=folder)
        assert done.returncode == 2, done.stdout
        assert "measured of by hand, not of tinyhil" in done.stderr


def test_who_watches_sees_what_others_gave(folder: Path) -> None:
    run(folder, "--firmware", "engine.elf")
    found = json.loads(hil("watch", "--json", cwd=folder).stdout)["records"]
    assert any("by hand on uno" in one["title"] and one["verdict"] == "other firmware" for one in found)


def test_pytest_holds_a_firmware_to_its_golden_record(folder: Path, tmp_path: Path) -> None:
    test = "def test_it(board): board.firmware({!r}, inputs={!r})\n"
    (tmp_path / "test_it.py").write_text(test.format(str(folder / "engine.elf"), str(folder / "x.npz")))
    (tmp_path / "pytest.ini").write_text("[pytest]\n")

    def said(*arguments: str) -> str:
        return forked_pytest("-q", "--board", "uno", "-p", "no:cacheprovider", *arguments, cwd=tmp_path).stdout

    assert "no golden record yet" in said()
    assert "1 passed" in said("--hil-update", "--hil-summary", "s.md")
    assert "test_it.py::test_it" in (tmp_path / "s.md").read_text()
    golden = tmp_path / "golden/firmware/uno/engine.json"
    golden.write_text(golden.read_text().replace('"flash_bytes": ', '"flash_bytes": 1'))
    text = said()
    assert "flash_bytes: 1" in text
    assert "outputs" not in text


@pytest.mark.parametrize(
    "text", ["float64", "int8", "int8 0 1", "float32 1 2", "int8 0.5 x", "int8 1 2 3", "uint8 nan 0"]
)
def test_types_of_numbers_are_known_or_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="is no type of numbers"):
        Port.parse(text)


def test_codes_go_there_and_back() -> None:
    port = Port.parse("int8 0.5 3")
    assert port.codes(np.array([-1.0, 0.25, 0.75, 1000.0])).tolist() == [1, 3, 5, 127]
    assert port.reals(np.array([1, 3, 127])).tolist() == [-1.0, 0.0, 62.0]
    assert Port.parse(str(port)) == port
