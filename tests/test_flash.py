"""Flashing: the emulated boards are erased and written by the programs that flash real ones, then run bit-exact."""

from __future__ import annotations

import os
import pty
import time
import tty
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from flash_bench import Emulator, loader_options
from hil_command import check_failure, hil, record_of

from tinyhil.errors import EXIT_FLASH, FlashError, LinkTimeout, WrongFirmware
from tinyhil.harness import cli
from tinyhil.harness.boards.flash import TOOLS, confirm, flash, runs, usb_serial_number
from tinyhil.harness.build.image import Image
from tinyhil.harness.build.toolchain import default_cache_dir
from tinyhil.harness.config import Boards, BoardSpec, load_boards
from tinyhil.harness.job import Request
from tinyhil.harness.measure.load import build_image
from tinyhil.harness.measure.run import Outcome, how_loaded, run
from tinyhil.harness.records.record import store

BOARDS = ("uno", "due", "h747")
every_board = pytest.mark.parametrize("name", BOARDS)


def flashable(board: BoardSpec, **changes: Any) -> BoardSpec:
    """The board with the upload that its emulator's boot loader understands."""
    assert board.chip.emulator is not None
    return board.model_copy(update={"upload": board.chip.emulator.upload, **changes})


@pytest.fixture(scope="module")
def boards() -> Boards:
    return load_boards()


@pytest.fixture(scope="module")
def images(boards: Boards) -> dict[str, Image]:
    request = Request(board="", model="fastgrnn_har")
    return {name: build_image(request, boards.board(name), boards, default_cache_dir(), print) for name in BOARDS}


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
        flash(image, board, emulator.port, log)
        confirm(image, board, emulator.port)
        emulator.finish()
    assert log.read_text().startswith(f"$ {TOOLS[board.upload].program} ")
    with Emulator(name, tmp_path) as emulator:  # switched off and on
        assert runs(image, board, emulator.port)


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
        assert runs(images["due"], board, emulator.port)


def outcome_of(boards: Boards, said: list[str], results: Path, **options: Any) -> Outcome:
    request = Request(model="fastgrnn_har", samples=3, results=results, **options)
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
    run = ("run", "--board", name, "--model", "fastgrnn_har", "--samples", 3, "--json")
    record = record_of(hil(*run, cwd=tmp_path, HIL_LOAD=None))
    assert record["bit_exact"] is True
    assert record["link"]["load"] == "flash"
    assert record["wall_seconds"]["flash"] > 0.02


@pytest.mark.parametrize(
    ("name", "option", "variable", "expected"),
    [
        *[(name, None, None, "flash") for name in (*BOARDS, "nucleo_h745")],
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


# ---- failures ----


def failure(image: Image, board: BoardSpec, port: str, log: Path) -> str:
    with pytest.raises(FlashError) as caught:
        flash(image, board, port, log)
    line = str(caught.value)
    assert "\n" not in line
    assert caught.value.exit_code == EXIT_FLASH
    return line


@every_board
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
    began = time.monotonic()
    assert "no boot loader answers" in failure(images[name], board, silent_port, tmp_path / "log")
    assert time.monotonic() - began < 10  # avrdude alone would try for two minutes


@every_board
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
    assert line.endswith(f"is not installed; type: sudo apt-get install {TOOLS[upload].package}")


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
    assert command[command.index("-c") + 1] == "adapter serial BB"
    assert "target/stm32h7x_dual_bank.cfg" in command
    assert command[-1] == f"program {{{images['h747'].elf}}} verify reset exit"


@pytest.mark.parametrize(("port", "mode"), [("/dev/ttyUSB0", "8e1"), ("/dev/pts/3", "8n1")])
def test_a_rom_loader_wants_parity(port: str, mode: str, boards: Boards, images: dict[str, Image]) -> None:
    command = TOOLS["serial"].command(images["h747"], boards.board("h747"), port)
    assert command[command.index("-m") + 1] == mode
