"""The boot loaders of the emulated boards, byte by byte: Optiboot itself, and models of the two ROMs."""

from __future__ import annotations

import struct
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
import serial
from flash_bench import ARMSIM, DEADLINE_S, UNOSIM, Emulator

from tinyhil.harness.boards.boot_loader import optiboot
from tinyhil.harness.boards.flash import touch
from tinyhil.harness.build.image import Image
from tinyhil.harness.build.toolchain import default_cache_dir
from tinyhil.harness.job.job import Request
from tinyhil.harness.measure.flash_model import build_image
from tinyhil.harness.settings.config import load_boards


@pytest.fixture(scope="module")
def images() -> dict[str, Image]:
    boards, request = load_boards(), Request(board="", model="fastgrnn_har")
    return {n: build_image(request, boards.board(n), boards, default_cache_dir(), print) for n in ("uno", "due")}


# ---- the Uno's boot loader ----


def test_optiboot_fits_its_section() -> None:
    addresses = [
        int(line[3:7], 16) + i
        for line in optiboot(default_cache_dir()).read_text().splitlines()
        if line[7:9] == "00"
        for i in range(int(line[1:3], 16))
    ]
    assert min(addresses) == 0x7E00
    assert max(addresses) < 0x8000


def test_an_erased_uno_waits_in_its_boot_loader(tmp_path: Path) -> None:
    with Emulator("uno", tmp_path) as uno:
        with serial.Serial(uno.port, 115200, timeout=DEADLINE_S) as port:
            assert uno.next_event()["why"] == "port opened"
            time.sleep(0.1)
            port.write(b"0 ")  # STK_GET_SYNC
            assert port.read(2) == b"\x14\x10"
        assert uno.next_event()["why"] == "watchdog"  # a second after the last byte
        time.sleep(0.1)
        assert [event["event"] for event in uno.finish()] == ["exit"]  # erased, but not crashed


# ---- the Due's SAM-BA monitor ----

EEFC_FCR, EEFC_FSR, EEFC_FRR = 0x400E0A04, 0x400E0A08, 0x400E0A0C
FRDY, FCMDE = 1, 2


class Monitor:
    """The SAM-BA monitor of an erased Due, binary answers."""

    def __init__(self, port: serial.Serial) -> None:
        self.port = port
        port.write(b"\x80\x80#")
        assert port.read(3) == b"\n\r>"
        port.write(b"N#")
        assert port.read(2) == b"\n\r"

    def read(self, address: int) -> int:
        self.port.write(f"w{address:08X},4#".encode())
        return int.from_bytes(self.port.read(4), "little")

    def write(self, address: int, value: int) -> None:
        self.port.write(f"W{address:08X},{value:08X}#".encode())

    def start_flash_command(self, command: int, argument: int = 0) -> None:
        self.write(EEFC_FCR, 0x5A << 24 | argument << 8 | command)

    def reads_until_ready(self) -> int:
        """How often the status was read until FRDY was set; a command that was refused is an error."""
        for reads in range(1, 100):
            status = self.read(EEFC_FSR)
            assert status in (0, FRDY)
            if status == FRDY:
                return reads
        raise AssertionError("the flash controller stays busy")

    def flash_command(self, command: int, argument: int = 0) -> int:
        self.start_flash_command(command, argument)
        self.reads_until_ready()
        return self.read(EEFC_FRR)

    def call(self, table: int, code: Sequence[int]) -> None:
        """Put a stack pointer, an entry and 16-bit instructions at `table`, and call them."""
        words = struct.pack(f"<{len(code)}H", *code, *([0xBF00] * (len(code) % 2)))
        self.write(table, table + 0x400)
        self.write(table + 4, table + 9)
        for at in range(0, len(words) - len(words) % 4, 4):
            self.write(table + 8 + at, int.from_bytes(words[at : at + 4], "little"))
        self.port.write(f"G{table:08X}#".encode())


@contextmanager
def monitor(folder: Path) -> Iterator[Monitor]:
    with Emulator("due", folder) as due, serial.Serial(due.port, 115200, timeout=DEADLINE_S) as port:
        yield Monitor(port)


def test_the_monitor_identifies_itself(tmp_path: Path) -> None:
    with monitor(tmp_path) as m:
        m.port.write(b"V#")
        assert m.port.read_until(b"\n\r").startswith(b"v1.1 ")
        assert m.read(0x400E0940) == 0x285E0A60  # CHIPID of the SAM3X8E


def test_the_monitor_reads_and_writes_memory(tmp_path: Path) -> None:
    with monitor(tmp_path) as m:
        m.write(0x20001000, 0x12345678)
        assert m.read(0x20001000) == 0x12345678
        assert m.read(0x20071000) == 0x12345678  # the mirror
        m.port.write(b"O20001001,AB#o20001001,#")
        assert m.port.read(1) == b"\xab"
        assert m.read(0x60000000) == 0  # nothing is there


def test_called_code_really_executes(tmp_path: Path) -> None:
    """r1 = 0x11 << 8; [pc-relative address] = r1; return"""
    with monitor(tmp_path) as m:
        m.call(0x20001000, [0x2111, 0x0209, 0xA001, 0x6001, 0x4770, 0xBF00])  # movs lsls adr str bx nop
        assert m.read(0x20001014) == 0x1100


def test_stores_to_flash_fill_the_latch_and_commands_write_it(tmp_path: Path) -> None:
    with monitor(tmp_path) as m:
        # movs r0,#8; lsls r0,#16 (0x80000); movs r1,#0x5A; str r1,[r0]; bx lr; nop
        m.call(0x20001000, [0x2008, 0x0400, 0x215A, 0x6001, 0x4770, 0xBF00])
        assert m.read(0x80000) == 0xFFFFFFFF
        m.flash_command(0x1, 0)  # write page 0
        assert m.read(0x80000) == 0x5A
        m.flash_command(0x5)  # erase all
        assert m.read(0x80000) == 0xFFFFFFFF


def test_general_purpose_bits(tmp_path: Path) -> None:
    with monitor(tmp_path) as m:
        assert m.flash_command(0xD) == 0
        m.flash_command(0xB, 1)
        assert m.flash_command(0xD) == 2
        m.flash_command(0xC, 1)
        assert m.flash_command(0xD) == 0
        m.write(EEFC_FCR, 0x0000000D)  # without the key
        assert m.read(EEFC_FSR) == FRDY | FCMDE
        assert m.read(EEFC_FSR) == FRDY


@pytest.mark.parametrize(
    ("command", "argument", "duration_us"),
    [(0x1, 0, 4600), (0x5, 0, 10000), (0xB, 1, 4600), (0xD, 0, 0)],
    ids=["write page", "erase all", "set bit", "get bits"],
)
def test_a_command_takes_its_time(command: int, argument: int, duration_us: int, tmp_path: Path) -> None:
    """A status read is 12 bytes of question and 4 of answer, ten bits each at 115200 Bd: that is the clock."""
    byte_us = 10e6 / 115200
    with monitor(tmp_path) as m:
        m.start_flash_command(command, argument)
        reads = m.reads_until_ready()
        asked_at_us = (16 * (reads - 1) + 12) * byte_us  # the read that found it ready
    assert duration_us <= asked_at_us < duration_us + 16 * byte_us


def test_a_command_to_a_busy_controller_is_refused(tmp_path: Path) -> None:
    with monitor(tmp_path) as m:
        m.start_flash_command(0xB, 1)
        m.start_flash_command(0xC, 1)  # 19 bytes, 1.6 ms later
        assert m.read(EEFC_FSR) == FCMDE
        m.reads_until_ready()
        assert m.flash_command(0xD) == 2


def test_the_touch_erases_and_other_speeds_do_not(images: dict[str, Image], tmp_path: Path) -> None:
    with Emulator("due", tmp_path, "--image", str(images["due"].load_path)) as due:
        with serial.Serial(due.port, 9600):
            time.sleep(0.1)
        touch(due.port)
        with serial.Serial(due.port, 115200, timeout=DEADLINE_S) as port:
            assert Monitor(port).read(0x80000) == 0xFFFFFFFF
        reasons = [event["why"] for event in due.finish() if event["event"] == "reset"]
    assert reasons == ["power on", "port opened", "port opened", "1200 baud touch: erased", "port opened"]


# ---- the ROM loader of the STM32H747 ----

ACK, NACK = b"\x79", b"\x1f"


@contextmanager
def rom_loader(folder: Path) -> Iterator[serial.Serial]:
    with Emulator("h747", folder, "--boot0") as board, serial.Serial(board.port, 115200, timeout=DEADLINE_S) as port:
        port.write(b"\x7f")
        assert port.read(1) == ACK
        yield port


def with_checksum(data: bytes) -> bytes:
    total = 0
    for byte in data:
        total ^= byte
    return data + bytes([total])


def command(port: serial.Serial, code: int, *parts: bytes) -> bytes:
    """Send a command and its parts while they are accepted; the last answer."""
    answer = b""
    for part in (bytes((code, code ^ 0xFF)), *parts):
        port.write(part)
        answer = port.read(1)
        if answer != ACK:
            break
    return answer


def write_memory(port: serial.Serial, address: int, data: bytes) -> bytes:
    payload = with_checksum(bytes([len(data) - 1]) + data)
    return command(port, 0x31, with_checksum(address.to_bytes(4, "big")), payload)


def read_memory(port: serial.Serial, address: int, count: int) -> bytes:
    count_part = bytes((count - 1, (count - 1) ^ 0xFF))
    assert command(port, 0x11, with_checksum(address.to_bytes(4, "big")), count_part) == ACK
    return port.read(count)


def test_the_rom_loader_says_who_it_is(tmp_path: Path) -> None:
    with rom_loader(tmp_path) as port:
        assert command(port, 0x02) == ACK
        assert port.read(4) == b"\x01\x04\x50\x79"
        assert command(port, 0x00) == ACK
        count = port.read(1)[0]
        assert {0x11, 0x21, 0x31, 0x44} <= set(port.read(count + 1)[1:])
        assert port.read(1) == ACK


def test_the_rom_loader_refuses(tmp_path: Path) -> None:
    with rom_loader(tmp_path) as port:
        assert command(port, 0x99) == NACK
        assert command(port, 0x31, b"\x08\x00\x00\x00\x09") == NACK  # checksum
        assert command(port, 0x11, with_checksum(b"\x60\x00\x00\x00")) == NACK  # nothing is there
        assert command(port, 0x31, with_checksum(b"\x08\x00\x00\x02")) == NACK  # not aligned
        assert write_memory(port, 0x08000000, b"abcd") == ACK
        assert read_memory(port, 0x08000000, 4) == b"abcd"


def test_one_sector_is_erased_and_programming_only_clears_bits(tmp_path: Path) -> None:
    with rom_loader(tmp_path) as port:
        for address in (0x08000000, 0x08020000):
            assert write_memory(port, address, b"\x0f\x0f\x0f\x0f") == ACK
        assert write_memory(port, 0x08000000, b"\xf3\xf3\xf3\xf3") == ACK
        assert read_memory(port, 0x08000000, 4) == b"\x03\x03\x03\x03"
        assert command(port, 0x44, with_checksum(b"\x00\x00\x00\x01")) == ACK
        assert read_memory(port, 0x08000000, 4) == b"\x03\x03\x03\x03"
        assert read_memory(port, 0x08020000, 4) == b"\xff\xff\xff\xff"


# ---- arguments ----


@pytest.mark.parametrize(
    ("program", "options", "why"),
    [
        (UNOSIM, ["--boot", "{image}"], "boot section"),
        (UNOSIM, ["--boot", "/no/such.hex"], "cannot read"),
        (UNOSIM, ["--flash-file", "{short}"], "32768"),
        (UNOSIM, ["--image", "{image}", "--worn", "x"], "--worn"),
        (ARMSIM, ["--chip", "sam3x8e", "--flash-file", "{short}"], "another size"),
        (ARMSIM, ["--chip", "sam3x8e", "--image", "{short}", "--worn", "x"], "--worn"),
        (ARMSIM, ["--chip", "sam3x8e"], "--flash-file"),
    ],
)
def test_bad_arguments(program: Path, options: list[str], why: str, images: dict[str, Image], tmp_path: Path) -> None:
    short = tmp_path / "short"
    short.write_bytes(bytes(100))
    filled = [option.format(image=images["uno"].load_path, short=short) for option in options]
    command = [program, *filled, "--link", tmp_path / "port"]
    result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=DEADLINE_S)
    assert result.returncode == 2
    assert why in result.stderr
    assert result.stderr.count("\n") == 1
