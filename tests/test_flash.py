"""Flashing: the emulated boards are erased and written by the programs that flash real ones, then run bit-exact."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import tty
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from boards_under_test import FLASHED, UF2, each
from flash_bench import DEADLINE_S, Emulator, loader_options
from hil_command import check_failure, hil, record_of

from tinyhil.errors import EXIT_FLASH, BoardError, FlashError, LinkTimeout, WrongFirmware
from tinyhil.harness import cli
from tinyhil.harness.boards import simulated
from tinyhil.harness.boards.boot_loader import FLAGS, SOURCE
from tinyhil.harness.boards.connection import Session
from tinyhil.harness.boards.flash import (
    NO_DRIVE,
    NO_UNO,
    OTHER_STM32,
    TOOLS,
    NoAnswer,
    check_openocd,
    confirm,
    flash,
    known_complaint,
    leave_boot_loader,
    runs,
    touch,
    usb_serial_number,
)
from tinyhil.harness.build.image import Image
from tinyhil.harness.build.toolchain import default_cache_dir
from tinyhil.harness.job.job import Request
from tinyhil.harness.measure.flash_model import build_image
from tinyhil.harness.measure.record import store
from tinyhil.harness.measure.run import Outcome, how_loaded, run
from tinyhil.harness.settings.config import Boards, BoardSpec, load_boards

BUILDER = Path(__file__).resolve().parent.parent / "firmware" / "platform" / "builder" / "main.py"
every_board = pytest.mark.parametrize("name", each(FLASHED))
through_a_port = pytest.mark.parametrize("name", each(name for name in FLASHED if name not in UF2))


def flashable(board: BoardSpec, **changes: Any) -> BoardSpec:
    """The board with the upload that its emulator's boot loader understands."""
    assert board.chip.emulator is not None
    return board.model_copy(update={"upload": board.chip.emulator.upload, **changes})


def comes_up(image: Image, board: BoardSpec, port: str) -> bool:
    """As `runs`, with the time that an emulated board needs on a busy computer: each opening resets it."""
    with pytest.MonkeyPatch.context() as changed:
        changed.setattr("tinyhil.harness.boards.flash.PROBE_S", 10.0)
        return any(runs(image, board, port) for _ in range(30))


@pytest.fixture(scope="module")
def boards() -> Boards:
    return load_boards()


@pytest.fixture(scope="module")
def images(boards: Boards) -> dict[str, Image]:
    request = Request(board="", model="fastgrnn_har")
    return {name: build_image(request, boards.board(name), boards, default_cache_dir(), print) for name in FLASHED}


@pytest.fixture
def silent_port() -> Iterator[str]:
    """A serial port behind which nobody listens."""
    master, slave = pty.openpty()
    tty.setraw(slave)
    yield os.ttyname(slave)
    os.close(slave)
    os.close(master)


# ---- the road of a real board ----


@every_board
def test_a_flashed_board_runs_and_keeps_its_flash(
    name: str, boards: Boards, images: dict[str, Image], tmp_path: Path
) -> None:
    board, image = flashable(boards.board(name)), images[name]
    log = tmp_path / "flash.log"
    with Emulator(name, tmp_path, *loader_options(name)) as emulator:
        flash(image, board, emulator.port, log, [emulator.drive])
        confirm(image, board, emulator.port)
        emulator.finish()
    assert log.read_text().startswith(f"$ {TOOLS[board.upload].program} ")
    with Emulator(name, tmp_path) as emulator:  # switched off and on
        assert comes_up(image, board, emulator.port)


def test_a_board_with_another_image_is_told_apart_and_flashed_again(
    boards: Boards, images: dict[str, Image], tmp_path: Path
) -> None:
    board = boards.board("due")
    other = build_image(
        Request(board="", model="fastgrnn_har", format="fixed8"), board, boards, default_cache_dir(), print
    )
    with Emulator("due", tmp_path) as emulator:
        flash(other, board, emulator.port, tmp_path / "log")
        assert not runs(images["due"], board, emulator.port)
        with pytest.raises(WrongFirmware, match="flash again"):
            confirm(images["due"], board, emulator.port)
        flash(images["due"], board, emulator.port, tmp_path / "log")
        assert comes_up(images["due"], board, emulator.port)


def outcome_of(boards: Boards, said: list[str], results: Path, **options: Any) -> Outcome:
    request = Request(model="digits_mlp", samples=3, results=results, **options)
    outcome = run(request, boards, default_cache_dir(), said.append, lambda done, of: None)
    store(outcome)
    return outcome


@every_board
def test_a_flashed_image_is_bit_exact(name: str, boards: Boards, tmp_path: Path) -> None:
    direct = outcome_of(boards, [], tmp_path / "direct", board=name)
    flashed = outcome_of(boards, [], tmp_path / "flashed", board=name, load="flash")
    assert (flashed.outputs == flashed.reference.outputs).all()
    assert (flashed.ticks == direct.ticks).all()


@every_board
def test_hil_run_flashes_by_itself(name: str, tmp_path: Path) -> None:
    """As a user calls it: erased, written and verified by the real program, then bit-exact."""
    run = ("run", "--board", name, "--model", "digits_mlp", "--samples", 3, "--json")
    record = record_of(hil(*run, cwd=tmp_path, HIL_LOAD=None))
    assert record["bit_exact"] is True
    assert record["link"]["load"] == "flash"
    assert "flash" in record["wall_seconds"]


@pytest.mark.parametrize(
    ("name", "option", "variable", "expected"),
    [
        *[(name, None, None, "flash") for name in (*FLASHED, "nucleo_h745")],
        *[(name, None, None, "direct") for name in ("qemu_m3", "qemu_m7", "host")],
        *[("qemu_m3", None, variable, "direct") for variable in ("flash", "direct")],
        *[("uno", None, variable, variable) for variable in ("flash", "direct")],
        ("uno", "flash", "direct", "flash"),
        ("uno", "direct", "flash", "direct"),
        ("qemu_m3", "flash", None, "flash"),  # refused later, with the reason
    ],
)
def test_how_an_emulated_board_gets_its_image(
    name: str, option: str | None, variable: str | None, expected: str, boards: Boards, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIL_LOAD", variable or "")
    assert how_loaded(option, boards.board(name)) == expected


def test_other_emulators_of_the_chip_have_no_boot_loader(boards: Boards, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HIL_LOAD")
    assert how_loaded(None, boards.board("uno").emulated_by("avr8js")) == "direct"


def test_a_wrong_word_in_the_environment(tmp_path: Path) -> None:
    done = hil("run", "--board", "uno", "--model", "fastgrnn_har", cwd=tmp_path, HIL_LOAD="fast")
    check_failure(done, 2, "HIL_LOAD=fast: it is one of direct, flash")


def test_a_run_on_a_port_flashes_once(boards: Boards, tmp_path: Path) -> None:
    said: list[str] = []
    with Emulator("due", tmp_path) as due:
        where = {"board": "due", "port": due.port, "results": tmp_path}
        with pytest.raises(LinkTimeout):
            outcome_of(boards, said, **where, no_flash=True, timeout_s=1.0)
        for words in ("flashing", "runs this image already"):
            outcome = outcome_of(boards, said, **where)
            assert (outcome.outputs == outcome.reference.outputs).all()
            assert outcome.wall_seconds["flash"] > 0
            assert words in said[-1]
        assert "flash" not in outcome_of(boards, said, **where, no_flash=True).wall_seconds
        with pytest.raises(WrongFirmware):
            outcome_of(boards, said, **where, no_flash=True, format="fixed8")


@every_board
def test_the_command(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["flash", "--board", name, "--model", "fastgrnn_har"])
    assert ended.value.code == 0
    assert "written, verified, running" in capsys.readouterr().out


def test_the_command_fails_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["flash", "--board", "uno", "--model", "fastgrnn_har", "--port", "/dev/does-not-exist"])
    assert ended.value.code == EXIT_FLASH
    said = [line for line in capsys.readouterr().err.splitlines() if line.startswith("hil: ")]
    assert said == ["hil: uno: port /dev/does-not-exist does not exist; `hil boards` lists the attached ones"]


# ---- the boot bit of a Due ----


def bossac(port: str, *words: str) -> str:
    """The program alone, as others call it; what it prints."""
    command = ["bossac", f"--port={os.path.realpath(port)}", "--usb-port=false", *words]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=DEADLINE_S).stdout


def test_a_reset_by_bossac_loses_the_boot_bit(boards: Boards, images: dict[str, Image], tmp_path: Path) -> None:
    """1.9.1 does not wait for the flash controller: the board stays in its boot loader, which is then repaired."""
    board, image, log = boards.board("due"), images["due"], tmp_path / "flash.log"
    with Emulator("due", tmp_path) as emulator:
        touch(emulator.port)
        said = bossac(emulator.port, "--erase", "--write", "--verify", "--boot=1", "--reset", str(image.load_path))
        assert "Set boot flash true" in said
        assert not runs(image, board, emulator.port)
        assert "Boot Flash   : false" in bossac(emulator.port, "--info")
        leave_boot_loader(image, board, emulator.port, log)
        assert comes_up(image, board, emulator.port)
    assert "--boot=1" in log.with_name("flash-boot.log").read_text()


def test_ours_keeps_it(boards: Boards, images: dict[str, Image], tmp_path: Path) -> None:
    with Emulator("due", tmp_path) as emulator:
        flash(images["due"], boards.board("due"), emulator.port, tmp_path / "flash.log")
        assert not (tmp_path / "flash-boot.log").exists()
        assert comes_up(images["due"], boards.board("due"), emulator.port)
        emulator.finish()
    assert emulator.flash_file.read_bytes()[-1] == 1 << 1  # GPNVM1
    assert "--reset" not in (tmp_path / "flash.log").read_text()


def test_platformio_s_upload_keeps_it(boards: Boards, images: dict[str, Image], tmp_path: Path) -> None:
    """The line of `pio run -t upload`, with the program that is installed."""
    line = re.search(r'"sam-ba": "bossac --port=\S+ --usb-port=false (.*) \$SOURCE"', BUILDER.read_text())
    assert line is not None
    with Emulator("due", tmp_path) as emulator:
        touch(emulator.port)
        bossac(emulator.port, *line[1].split(), str(images["due"].load_path))
        assert comes_up(images["due"], boards.board("due"), emulator.port)


# ---- failures ----


def failure(image: Image, board: BoardSpec, port: str, log: Path) -> str:
    with pytest.raises(FlashError) as caught:
        flash(image, board, port, log)
    line = str(caught.value)
    assert "\n" not in line
    assert caught.value.exit_code == EXIT_FLASH
    return line


@through_a_port  # who copies a file to a drive reads nothing back
def test_a_worn_cell_is_found(name: str, boards: Boards, images: dict[str, Image], tmp_path: Path) -> None:
    worn = next(i for i, byte in enumerate(images[name].elf.with_suffix(".bin").read_bytes()) if i > 500 and byte)
    log = tmp_path / "log"
    with Emulator(name, tmp_path, *loader_options(name), "--worn", str(worn)) as emulator:
        line = failure(images[name], flashable(boards.board(name)), emulator.port, log)
    assert "read back differs" in line
    assert str(log) in line
    assert log.stat().st_size > 200


@every_board
def test_nobody_answers(name: str, boards: Boards, images: dict[str, Image], silent_port: str, tmp_path: Path) -> None:
    board = flashable(boards.board(name), flash_deadline_s=3)
    words = NO_DRIVE if name in UF2 else "no boot loader answers"
    assert words in failure(images[name], board, silent_port, tmp_path / "log")


@through_a_port
def test_the_port_is_no_serial_port(name: str, boards: Boards, images: dict[str, Image], tmp_path: Path) -> None:
    line = failure(images[name], flashable(boards.board(name)), "/dev/null", tmp_path / "log")
    assert "can not be opened" in line


@pytest.mark.parametrize(("port", "why"), [("/dev/nothing", "does not exist"), ("socket://h:1", "--no-flash")])
def test_a_port_that_cannot_be_flashed_through(
    port: str, why: str, boards: Boards, images: dict[str, Image], tmp_path: Path
) -> None:
    assert why in failure(images["uno"], boards.board("uno"), port, tmp_path / "log")


@pytest.mark.parametrize("upload", sorted(TOOLS))
def test_a_missing_program_is_named_with_its_package(
    upload: str, boards: Boards, images: dict[str, Image], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    board = boards.board("h747").model_copy(update={"upload": upload})
    line = failure(images["h747"], board, "/dev/ttyACM0", tmp_path / "log")
    assert line.endswith(f"is not installed; type: {TOOLS[upload].installer} {TOOLS[upload].package}")


def test_a_board_without_a_way_to_flash(boards: Boards, images: dict[str, Image], tmp_path: Path) -> None:
    board = boards.board("uno").model_copy(update={"upload": "none"})
    assert "knows no way" in failure(images["uno"], board, "/dev/null", tmp_path / "log")


# ---- command lines for probes that are not here ----


def test_the_st_link_is_chosen_by_its_serial_number(
    boards: Boards, images: dict[str, Image], monkeypatch: pytest.MonkeyPatch
) -> None:
    from serial.tools import list_ports
    from serial.tools.list_ports_common import ListPortInfo

    ports = [ListPortInfo("/dev/ttyACM0"), ListPortInfo("/dev/ttyACM1")]
    ports[0].serial_number, ports[1].serial_number = "AA", "BB"
    monkeypatch.setattr(list_ports, "comports", lambda: ports)
    assert usb_serial_number("/dev/ttyACM1") == "BB"
    command = TOOLS["stlink"].command(images["h747"], boards.board("h747"), "/dev/ttyACM1")
    assert command[command.index("-c") + 1] == "adapter serial {BB}"
    assert "target/stm32h7x_dual_bank.cfg" in command
    assert "reset_config srst_only" in command
    assert command[-1] == f"program {{{images['h747'].elf}}} verify reset exit"


PROBE = """
proc init {{}} {{}}
proc mrw {{address}} {{ if {{$address != {address}}} {{ error "nothing there" }}; return {word} }}
proc program {{args}} {{ echo "WRITES $args"; shutdown }}
proc reset {{args}} {{ echo "RESETS"; shutdown }}
proc reset_config {{args}} {{ echo "reset_config $args" }}
"""


@pytest.mark.parametrize(
    ("board", "word", "writes"),
    [
        *(
            (board, word, writes)
            for board in ("h747", "nucleo_h745")
            for word, writes in (
                ("0x20036450", True),
                ("0x10016450", True),  # revision
                ("0x20036483", False),  # an STM32H723 on its Nucleo
                ("[error {bus fault}]", False),  # an STM32F4, where nothing is at this address
            )
        ),
        ("nucleo_l4r5", "0x10016470", True),
        ("nucleo_l4r5", "0x10076413", False),  # an STM32F4, whose id code is at the same address
    ],
)
def test_the_chip_behind_an_st_link_is_asked_first(
    board: str, word: str, writes: bool, boards: Boards, images: dict[str, Image], tmp_path: Path
) -> None:
    """openocd itself runs our command line; only what it would do through a probe is ours."""
    found = boards.board(board).chip.debug_id
    assert found is not None
    (tmp_path / "probe.tcl").write_text(PROBE.format(word=word, address=f"0x{found.address:X}"))
    command = TOOLS["stlink"].command(images["h747"], boards.board(board), "/dev/ttyACM9")
    rest = command[command.index(next(w for w in command if w.startswith("reset_config"))) - 1 :]
    log = tmp_path / "log"
    done = subprocess.run(
        ["openocd", "-f", str(tmp_path / "probe.tcl"), *rest], capture_output=True, text=True, timeout=DEADLINE_S
    )
    log.write_text(f"$ openocd\n{done.stdout}{done.stderr}")
    assert ("WRITES" in log.read_text()) is writes
    assert (done.returncode == 0) is writes
    if word.startswith("0x") and not writes:
        assert known_complaint(TOOLS["stlink"], log) == OTHER_STM32


@pytest.mark.parametrize(
    ("version", "refused"), [("0.11.0", True), ("0.12.0", False), ("0.12.0-rc2", False), ("1.0.0", False)]
)
def test_an_openocd_that_is_too_old(
    version: str, refused: bool, boards: Boards, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "openocd"
    program.write_text(f"#!/bin/sh\necho 'Open On-Chip Debugger {version}' >&2\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    with pytest.raises(FlashError, match=r"0\.11 is too old, 0\.12 or newer") if refused else nullcontext():
        check_openocd(boards.board("h747"))


def test_a_boot_loader_with_a_baud_rate_of_its_own(boards: Boards, images: dict[str, Image], tmp_path: Path) -> None:
    """Old Nanos: 57600 Bd to flash, 115200 Bd on the wire."""
    text = Path("boards.yaml").read_text()
    nano = "  nano:\n    {title: Nano, chip: atmega328p, upload_baud: 57600, reset: on_open, upload: arduino}\n"
    (tmp_path / "boards.yaml").write_text(text + nano)
    board = load_boards(tmp_path / "boards.yaml").board("nano")
    command = TOOLS["arduino"].command(images["uno"], board, "/dev/ttyUSB0")
    assert command[command.index("-b") + 1] == "57600"
    assert board.baud == 115200


def test_an_atmega328pb_is_named(boards: Boards, images: dict[str, Image], tmp_path: Path) -> None:
    """Its boot loader gives another signature; with `programmer_part` it is flashed."""
    source = tmp_path / "pb.c"
    source.write_text(f'#include <avr/io.h>\n#undef SIGNATURE_2\n#define SIGNATURE_2 0x16\n#include "{SOURCE}"\n')
    for command in (
        ["avr-gcc", *FLAGS, f"-I{SOURCE.parent}", str(source), "-o", str(tmp_path / "pb.elf")],
        ["avr-objcopy", "-O", "ihex", "-j", ".text", str(tmp_path / "pb.elf"), str(tmp_path / "pb.hex")],
    ):
        subprocess.run(command, check=True)
    board = boards.board("uno")
    with Emulator("uno", tmp_path, "--boot", str(tmp_path / "pb.hex")) as emulator:
        assert "programmer_part: m328pb" in failure(images["uno"], board, emulator.port, tmp_path / "log")
        flash(images["uno"], board.model_copy(update={"programmer_part": "m328pb"}), emulator.port, tmp_path / "log")
        assert comes_up(images["uno"], board, emulator.port)


@pytest.mark.parametrize(("port", "mode"), [("/dev/ttyUSB0", "8e1"), ("/dev/pts/3", "8n1")])
def test_a_rom_loader_wants_parity(port: str, mode: str, boards: Boards, images: dict[str, Image]) -> None:
    command = TOOLS["serial"].command(images["h747"], boards.board("h747"), port)
    assert command[command.index("-m") + 1] == mode


def test_a_missed_emulated_boot_loader_is_not_called_an_absent_board(
    images: dict[str, Image], boards: Boards, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy computer avrdude's own time-out may end; the message says that, and never asks for a plugged-in Uno."""
    tried = []

    def missed(image: Image, board: BoardSpec, port: str, log: Path, drives: Iterable[Path] | None) -> None:
        tried.append(port)
        raise NoAnswer(f"{board.name}: {NO_UNO}")

    monkeypatch.setattr(simulated, "flash", missed)
    session = Session(images["uno"].load_path, tmp_path, "lifted", False, images["uno"].static_bytes)
    with pytest.raises(BoardError, match="this computer is busy") as caught:
        simulated.connect_flashed(boards.board("uno"), session, images["uno"]).__enter__()
    assert len(tried) == simulated.FLASH_ATTEMPTS > 1
    assert "is an Uno" not in str(caught.value)
