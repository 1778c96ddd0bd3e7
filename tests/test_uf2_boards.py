"""Boards that are drives to who programs them: UF2 files, boot loaders that take them, what a HAL must not forget."""

from __future__ import annotations

import binascii
import json
import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import serial

from tests.flash_bench import DEADLINE_S, Emulator
from tests.given_data import the_zoo
from tests.hil_command import hil, record_of
from tests.test_emulator_cortexm import ARMSIM, NRF52840, NRF52840_NANO, RP2040, RP2350, Board, Chip, build_dir, program
from tests.test_nucleos import forgetful
from tests.wire_bench import ROOT
from tinyhil.errors import FlashError
from tinyhil.harness.boards.drives import INFO, find_drive
from tinyhil.harness.boards.flash import TOOLS
from tinyhil.harness.settings.config import load_boards

CONVERTER = ROOT / "firmware/platform/uf2.py"
FAMILIES = {board.chip.name: board.chip.uf2_family for board in load_boards().entries.values()}
CHIPS = (RP2040, RP2350, NRF52840)
DOES_NOT_FIT = 4
BLOCK_BYTES, PAYLOAD = 512, slice(32, 32 + 256)
RUN = ("run", "--model", "digits_cnn", "--format", "fixed8", "--samples", 3, "--json")


def uf2_of(chip: Chip, folder: Path, name: str = "echo") -> bytes:
    image = program(chip, name)
    made = folder / "made.uf2"
    family = hex(FAMILIES[chip.name] or 0)
    subprocess.run([sys.executable, CONVERTER, image.with_suffix(".elf"), made, family], check=True)
    return made.read_bytes()


def blocks(file: bytes) -> list[bytes]:
    return [file[at : at + BLOCK_BYTES] for at in range(0, len(file), BLOCK_BYTES)]


def word(block: bytes, index: int) -> int:
    return int.from_bytes(block[4 * index : 4 * index + 4], "little")


@pytest.mark.parametrize("chip", CHIPS, ids=lambda chip: chip.name)
def test_a_uf2_file_holds_the_image(chip: Chip, tmp_path: Path) -> None:
    made, image = blocks(uf2_of(chip, tmp_path)), program(chip, "echo").read_bytes()
    base = word(made[0], 3)
    flash = bytearray(b"\xff" * (word(made[-1], 3) - base + 256))
    for number, block in enumerate(made):
        assert (word(block, 0), word(block, 1), word(block, 127)) == (0x0A324655, 0x9E5D5157, 0x0AB16F30)
        assert (word(block, 2), word(block, 4), word(block, 5)) == (0x2000, 256, number)
        assert (word(block, 6), word(block, 7)) == (len(made), FAMILIES[chip.name])
        at = word(block, 3) - base
        flash[at : at + 256] = block[PAYLOAD]
    assert bytes(flash[: len(image)]) == image
    assert set(flash[len(image) :]) <= {0xFF}


def spoil(file: bytes, how: str) -> bytes:
    """A file that a boot loader must not take for whole."""
    first, *rest = blocks(file)
    if how == "a block is missing":
        return b"".join(rest)
    at = {"of another family": 28, "not for flash": 8, "outside of the flash": 12, "no such block": 20}[how]
    value = {8: 0x2001, 12: 0x00000000}.get(at, 0x12345678)
    return b"".join([first[:at] + value.to_bytes(4, "little") + first[at + 4 :], *rest])


@pytest.mark.slow
@pytest.mark.parametrize(("chip", "family"), [(RP2040, "rp2040"), (RP2350, "rp2350-arm-s")])
def test_picotool_makes_the_same_file(chip: Chip, family: str, tmp_path: Path) -> None:
    """What fills the last block up is not said; all else is, and it finds our file's family."""
    if shutil.which("picotool") is None:
        pytest.skip("needs picotool")
    made, elf = uf2_of(chip, tmp_path), program(chip, "echo").with_suffix(".elf")
    command = ["picotool", "uf2", "convert", elf, tmp_path / "theirs.uf2", "--family", family]
    subprocess.run(command, check=True, capture_output=True)
    whole = len(made) - BLOCK_BYTES + PAYLOAD.start
    used = len(program(chip, "echo").read_bytes()) % 256
    assert (tmp_path / "theirs.uf2").read_bytes()[: whole + used] == made[: whole + used]
    said = subprocess.run(["picotool", "info", tmp_path / "made.uf2"], check=True, capture_output=True, text=True)
    assert f"family ID '{family}'" in said.stdout


@pytest.mark.parametrize(
    "how", ["a block is missing", "of another family", "not for flash", "outside of the flash", "no such block"]
)
def test_a_file_that_is_not_whole_is_refused(how: str, tmp_path: Path) -> None:
    bad = tmp_path / "bad.uf2"
    bad.write_bytes(spoil(uf2_of(RP2040, tmp_path), how))
    command = [ARMSIM, "--chip", RP2040.name, "--image", bad, "--link", tmp_path / "port"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    assert (done.returncode, "lacks blocks" in done.stderr) == (2, True)


def test_an_empty_board_is_a_drive_and_takes_a_file_that_comes_in_parts(tmp_path: Path) -> None:
    build_dir()
    drive, port, file = tmp_path / "drive", tmp_path / "port", uf2_of(RP2040, tmp_path)
    drive.mkdir()
    command = [ARMSIM, "--chip", RP2040.name, "--flash-file", tmp_path / "flash", "--drive", drive, "--link", port]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as board:
        assert board.stdout is not None
        assert board.stdin is not None
        assert find_drive(load_boards().board("pico"), [drive]) == drive
        half = len(blocks(file)) // 2 * BLOCK_BYTES
        with (drive / "x.uf2").open("wb") as copy:
            copy.write(file[:half])
            copy.flush()
            copy.write(file[half:])
        events = [json.loads(board.stdout.readline()) for _ in range(3)]
        assert [event.get("why") for event in events] == [None, "power on", "a UF2 file was written"]
        assert not list(drive.iterdir())  # neither the file nor what tells a boot loader
        board.stdin.close()


# ---- serial DFU of a XIAO's boot loader ----


def crc16(content: bytes) -> bytes:
    return binascii.crc_hqx(content, 0xFFFF).to_bytes(2, "little")


def dfu_packet(number: int, kind: int, body: bytes) -> bytes:
    """Between the ends of SLIP: a header with its checksum, what it is, its content, their CRC."""
    content = kind.to_bytes(4, "little") + body
    head = bytes([0xC0 | ((number + 1) % 8) << 3 | number, 14 | (len(content) & 15) << 4, len(content) >> 4])
    packet = head + bytes([-sum(head) & 0xFF]) + content
    packet += crc16(packet)
    return b"\xc0" + packet.replace(b"\xdb", b"\xdb\xdd").replace(b"\xc0", b"\xdb\xdc") + b"\xc0"


def dfu_session(image: bytes, softdevice: int = 0x0123, promised: bytes | None = None) -> list[tuple[int, bytes]]:
    sizes = b"".join(size.to_bytes(4, "little") for size in (4, 0, 0, len(image)))
    about = struct.pack("<HHIHH", 0x0052, 0xFFFF, 0xFFFFFFFF, 1, softdevice)
    parts = [(4, image[at : at + 512]) for at in range(0, len(image), 512)]
    return [(3, sizes), (1, about + crc16(promised or image) + bytes(2)), *parts, (5, b"")]


@pytest.mark.parametrize(
    ("wrong", "refused"), [({}, None), ({"softdevice": 0x00B6}, 1), ({"promised": b"another image"}, -1)]
)
def test_serial_dfu_takes_the_image_that_was_promised(
    wrong: dict[str, Any], refused: int | None, tmp_path: Path
) -> None:
    image = program(NRF52840, "echo").read_bytes()
    session = dfu_session(image, **wrong)
    with (
        Emulator("xiao_nrf52840", tmp_path, "--boot0") as board,
        serial.Serial(board.port, 115200, timeout=DEADLINE_S if refused is None else 1.0) as port,
    ):
        for number, (kind, body) in enumerate(session, 1):
            port.write(dfu_packet(number % 8, kind, body))
            answer = port.read(6)
            if refused is not None and number - 1 == refused % len(session):
                assert answer == b""
                return
            assert answer == bytes([0xC0, (number + 1) % 8 << 3, 0, 0, -((number + 1) % 8 << 3) & 0xFF, 0xC0])
        assert [board.next_event().get("why") for _ in range(2)][-1] == "an image came by serial DFU"
        assert port.read(1)  # it runs


XIAO_BY_SERIAL = """\
boards:
  xiao_by_serial:
    title: Seeed XIAO nRF52840
    chip: nrf52840
    reset: by_probe
    upload: nrfutil
    upload_port: /dev/ttyACM7   # of the board's USB plug; an emulated one has a single port
"""


@pytest.mark.slow
def test_the_program_for_serial_dfu_flashes_a_board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """adafruit-nrfutil itself, by a board file that asks for it."""
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if shutil.which(TOOLS["nrfutil"].program) is None:
        pytest.skip("needs adafruit-nrfutil")
    (tmp_path / "boards.yaml").write_text(XIAO_BY_SERIAL)
    asked = ("--boards-file", "boards.yaml", "--board", "xiao_by_serial", "--format", "fixed8")
    done = hil("flash", *asked, "--model", "digits_mlp", cwd=tmp_path)
    assert (done.returncode, "written, verified, running" in done.stdout) == (0, True), done.stderr


# ---- SAM-BA over USB of a Nano 33 BLE's boot loader ----


def nano_page(address: int, content: bytes) -> list[tuple[bytes, bytes]]:
    """What `bossac` sends for a page, and what it waits for."""
    size = len(content)
    copies = [(b"Y%08X,0#" % 0x20000, b"Y\n\r"), (b"Y%08X,%08X#" % (address, size), b"Y\n\r")]
    crc = binascii.crc_hqx(content, 0)
    return [
        (b"S%08X,%08X#" % (0x20000, size) + content, b""),
        *copies,
        (b"Z%08X,%08X#" % (address, size), b"Z%08X#\n\r" % crc),
        (b"R%08X,%08X#" % (address, 8), content[:8]),
    ]


OUTSIDE = 0xF0000  # behind the last byte that a program may take
REFUSED = [(b"Y%08X,00001000#" % OUTSIDE, b""), (b"Z%08X,4#" % OUTSIDE, b""), (b"X00000001#", b""), (b"S0,2000#", b"")]


def test_sam_ba_of_a_nano_takes_an_image_where_programs_begin(tmp_path: Path) -> None:
    image = program(NRF52840_NANO, "echo").read_bytes()
    pages = [image[at : at + 4096].ljust(4096, b"\0") for at in range(0, len(image), 4096)]
    writes = [step for number, page in enumerate(pages) for step in nano_page(4096 * number, page)]
    with (
        Emulator("nano33ble", tmp_path, "--boot0", "--no-autoreset") as board,
        serial.Serial(board.port, 115200, timeout=1.0) as port,
    ):
        for sent, answer in [(b"N#", b"\n\r"), (b"X00000000#", b"X\n\r"), *writes, *REFUSED, (b"K#", b"")]:
            port.write(sent)
            if answer:
                assert port.read(len(answer)) == answer
        assert [board.next_event().get("why") for _ in range(2)][-1] == "reset by the boot loader"
        port.timeout = DEADLINE_S
        assert port.read(1)  # it runs, and nothing that was refused had an answer


NANO_BY_USB = """\
boards:
  my_nano: {title: Nano 33 BLE, chip: nrf52840_nano, reset: by_probe, upload: bossac, upload_port: /dev/ttyACM7}
"""


@pytest.mark.slow
def test_bossac_flashes_a_nano_if_it_is_one_that_knows_it(tmp_path: Path) -> None:
    """Arduino's writes it; Debian's would say that nobody answers, and is told apart before that."""
    (tmp_path / "boards.yaml").write_text(NANO_BY_USB)
    asked = ("--boards-file", "boards.yaml", "--board", "my_nano", "--format", "fixed8", "--model", "digits_mlp")
    done = hil("flash", *asked, cwd=tmp_path)
    arduinos = b"nRF52840" in Path(shutil.which("bossac") or os.devnull).read_bytes()
    assert (done.returncode, "written, verified, running" in done.stdout) == ((0, True) if arduinos else (5, False))
    assert arduinos or "Arduino's core" in done.stderr


def test_interrupts_that_a_boot_loader_has_masked_are_let_in(tmp_path: Path) -> None:
    board = Board(NRF52840, program(NRF52840, "echo"), tmp_path)
    with board.open() as port:
        assert port.read(1)
        port.write(b"x")
        assert port.read(1) == b"x"
    board.process.kill()
    board.process.wait()


def test_of_several_drives_none_is_chosen(tmp_path: Path) -> None:
    pico, drives = load_boards().board("pico"), [tmp_path / "a", tmp_path / "b"]
    for drive in drives:
        drive.mkdir()
        (drive / INFO).write_text("Board-ID: RPI-RP2\r\n")
    with pytest.raises(FlashError, match="2 boot loaders are mounted"):
        find_drive(pico, drives)
    (drives[0] / INFO).write_text("Board-ID: another\r\n")
    assert find_drive(pico, drives) == drives[1]


# Lines of what is compiled for the chip, left out one by one.
FORGOTTEN = {
    (RP2040, "rp/chip.hpp"): {
        "    leave_reset(RESET_IO_BANK0 | RESET_PADS_BANK0 | RESET_UART0);\n": "silent",
        "    reg(CLK_PERI_CTRL) = enable_peri;\n": "silent",
        "    connect(0, uart, 0);\n": "silent",
        "    reg(LCR_H) = eight_bits;  // takes the divider over, too\n": "silent",
        "    reg(XOSC) = range_1_to_15_mhz | enable;\n    wait_for(XOSC_STATUS, stable, stable);\n": "not running",
        "    reg(PLL_PRIM) = PLL_BY_1 << 16 | PLL_BY_2 << 12;\n": "not running",
        "    leave_reset(RESET_PLL_SYS);\n": "silent",
    },
    (RP2350, "rp/chip.hpp"): {"    reg(PADS_BANK0 + 4 + 4 * pin + CLEAR_BITS) = PAD_ISO;\n": "silent"},
    (RP2350, "rp2350/hal.cpp"): {"0xFFFFDED3, ": "silent"},
    (NRF52840, "nrf52840/hal.cpp"): {
        "    reg(HFCLKSTART) = 1;\n    wait_for(HFCLKSTARTED, 1, 1);\n": "silent",
        "    reg(PSELTXD) = TX_PORT << 5 | TX_PIN;\n": "silent",
        "    pins::configure(RX_PORT, RX_PIN, pins::INPUT_PULLED_UP);\n": "silent",
        "    reg(ENABLE) = 4;\n": "silent",
        "    reg(STARTTX) = 1;\n": "silent",
    },
}


@pytest.mark.parametrize(
    ("chip", "file", "line", "ends"),
    [(*where, line, ends) for where, lines in FORGOTTEN.items() for line, ends in lines.items()],
)
def test_a_hal_that_forgets_a_step_does_not_pass(chip: Chip, file: str, line: str, ends: str, tmp_path: Path) -> None:
    forgetful(chip, file, line, ends, tmp_path)


SSI_BASE_REGISTER, NOP = 3, 0x46C0
# Stores of the second stage that its work needs: source register, offset in the SSI, which of them.
NEEDED = {
    "off before it is changed": (0, 0x08, 0),
    "the divider": (1, 0x14, 0),
    "the command": (0, 0x60, 2),
    "the mode": (0, 0x60, 3),
    "off before frames of 32 bits": (2, 0x08, 0),
    "frames of 32 bits": (0, 0x00, 1),
    "on for reading": (2, 0x08, 1),
}


def crc32(content: bytes) -> int:
    """Polynomial 0x04C11DB7 from all ones, not reflected, not inverted."""
    crc = 0xFFFFFFFF
    for byte in content:
        crc ^= byte << 24
        for _ in range(8):
            crc = (crc << 1 ^ (0x04C11DB7 if crc & 1 << 31 else 0)) & 0xFFFFFFFF
    return crc


def stage_without(image: bytes, register: int, offset: int, which: int) -> bytes:
    """The image whose second stage lacks one of its stores, with a right CRC."""
    store = 0x6000 | offset // 4 << 6 | SSI_BASE_REGISTER << 3 | register
    halfwords = [int.from_bytes(image[at : at + 2], "little") for at in range(0, 252, 2)]
    at = 2 * [index for index, halfword in enumerate(halfwords) if halfword == store][which]
    stage = image[:at] + NOP.to_bytes(2, "little") + image[at + 2 : 252]
    return stage + crc32(stage).to_bytes(4, "little") + image[256:]


def says(image: bytes, folder: Path) -> bytes:
    (folder / "image.bin").write_bytes(image)
    board = Board(RP2040, folder / "image.bin", folder)
    with board.open() as port:
        port.timeout = 0.3
        said = port.read(1)
    board.process.kill()
    board.process.wait()
    return said


@pytest.mark.parametrize("what", NEEDED)
def test_a_second_stage_that_forgets_a_step_does_not_start_the_program(what: str, tmp_path: Path) -> None:
    image = program(RP2040, "echo").read_bytes()
    assert says(stage_without(image, *NEEDED[what]), tmp_path) == b""


def test_the_rom_starts_a_second_stage_whose_crc_is_right_and_no_other(tmp_path: Path) -> None:
    image = program(RP2040, "echo").read_bytes()
    assert int.from_bytes(image[252:256], "little") == crc32(image[:252])
    assert says(image, tmp_path)
    assert says(image[:251] + bytes([image[251] ^ 1]) + image[252:], tmp_path) == b""


@pytest.mark.slow
@pytest.mark.parametrize("board", ["pico", "pico2", "xiao_nrf52840"])
def test_it_computes_what_the_m7_computes(board: str, tmp_path: Path) -> None:
    through_the_drive = record_of(hil(*RUN, "--board", board, "--load", "flash", cwd=tmp_path))
    m7 = record_of(hil(*RUN, "--board", "h747", cwd=tmp_path))
    assert through_the_drive["bit_exact"] is True
    assert through_the_drive["raw"]["outputs"] == m7["raw"]["outputs"]


ON_DESKS = ("pico", "pico2", "xiao_nrf52840", "nano33ble", "nucleo_g0b1", "nucleo_u575")


def is_bit_exact(board: str, model: str, format_: str, folder: Path) -> None:
    """Skipped if it does not fit."""
    wanted = ("--board", board, "--model", model, "--format", format_, "--samples", 1)
    done = hil("run", *wanted, "--json", "--load", "direct", cwd=folder)
    if done.returncode == DOES_NOT_FIT:
        pytest.skip(f"{model} does not fit")
    assert record_of(done)["bit_exact"] is True


@pytest.mark.parametrize("board", ON_DESKS)
def test_a_network_is_bit_exact(board: str, tmp_path: Path) -> None:
    is_bit_exact(board, "digits_cnn", "int8", tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("board", ON_DESKS)
@pytest.mark.parametrize("format_", ["fixed8", "int8"])
@pytest.mark.parametrize("model", the_zoo())
def test_the_zoo_is_bit_exact(board: str, model: str, format_: str, tmp_path: Path) -> None:
    is_bit_exact(board, model, format_, tmp_path)
