"""Frames and messages: one table for Python and the firmware's C++, round trips, and what the framer costs."""

from __future__ import annotations

import binascii
import json
import re
import shutil
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from framing_vectors import (
    DAMAGED,
    LONGEST_FOR_BOARD,
    MESSAGES,
    PING,
    STREAMS,
    crc_by_division,
    plain_cobs,
    sealed,
)
from hypothesis import example, given
from hypothesis import strategies as st

from tinyhil.harness.wire import protocol
from tinyhil.harness.wire.protocol import Ack, BadFrame, Damaged, Position, Refused, Result, Splitter, Stats

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "tests" / "firmware_wire"
HANG_S = 120.0  # nothing is judged by it


class Framer:
    """The firmware's framer as a program."""

    def __init__(self, program: Path) -> None:
        self._process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def _ask(self, request: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(request + "\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().strip()

    def decode(self, stream: bytes) -> list[bytes | None]:
        """What the board makes of a stream: messages without their checksum, DAMAGED."""
        frames = self._ask("d" + stream.hex()).split()
        return [bytes.fromhex(frame[1:])[:-2] if frame[0] == "+" else DAMAGED for frame in frames]

    def encode(self, head: bytes, tail: bytes = b"") -> bytes:
        return bytes.fromhex(self._ask(f"e{head.hex() or '-'} {tail.hex()}"))

    def crc(self, data: bytes) -> int:
        return int(self._ask("c" + data.hex()), 16)

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        assert self._process.wait(HANG_S) == 0
        self._process.stdout.close()


@pytest.fixture(scope="session")
def framer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Framer]:
    program = tmp_path_factory.mktemp("framer") / "framer"
    flags = ["-std=gnu++14", "-Wall", "-Wextra", "-Werror", "-fsanitize=undefined,address", "-fno-sanitize-recover"]
    subprocess.run(["g++", *flags, f"-I{ROOT}", SOURCES / "framer_host.cpp", "-o", program], check=True)
    running = Framer(program)
    yield running
    running.close()


def python_decode(stream: bytes) -> list[bytes | None]:
    """What the host makes of a stream, frame by frame."""
    frames: list[bytes | None] = []
    for encoded in stream.split(b"\0")[:-1]:
        if encoded:
            try:
                frames.append(protocol.unframe(encoded))
            except BadFrame:
                frames.append(DAMAGED)
    return frames


def test_crc_is_xmodem(framer: Framer) -> None:
    assert framer.crc(b"123456789") == 0x31C3
    assert binascii.crc_hqx(b"123456789", 0) == 0x31C3
    assert crc_by_division(b"123456789") == 0x31C3


@pytest.mark.parametrize("message", MESSAGES.values(), ids=MESSAGES.keys())
def test_messages(framer: Framer, message: bytes) -> None:
    expected = sealed(message)
    assert expected.count(0) == 1
    assert protocol.frame(message) == expected
    for cut in sorted({0, 1, min(len(message), 255) // 2, min(len(message), 255)}):
        assert framer.encode(message[:cut], message[cut:]) == expected
    assert python_decode(expected) == [message]
    assert framer.decode(expected) == [message if len(message) <= LONGEST_FOR_BOARD else DAMAGED]
    assert framer.decode(expected + sealed(PING))[-1] == PING


@pytest.mark.parametrize(("stream", "frames"), STREAMS.values(), ids=STREAMS.keys())
def test_streams(framer: Framer, stream: bytes, frames: list[bytes | None]) -> None:
    assert python_decode(stream) == frames
    assert framer.decode(stream) == frames


few_zeros = st.lists(st.one_of(st.just(b"\0"), st.binary(min_size=1, max_size=300)), max_size=4).map(b"".join)


@given(message=few_zeros.filter(bool), cut=st.integers(0, 255))
def test_round_trip_between_python_and_firmware(framer: Framer, message: bytes, cut: int) -> None:
    cut = min(cut, len(message))
    encoded = framer.encode(message[:cut], message[cut:])
    assert encoded == protocol.frame(message)
    assert protocol.unframe(encoded[:-1]) == message
    assert len(encoded) <= len(message) + 2 + (len(message) + 2) // 254 + 2
    assert framer.decode(encoded) == [message if len(message) <= LONGEST_FOR_BOARD else DAMAGED]


@given(stream=st.binary(max_size=120))
@example(stream=b"\x01\x01\x01\x01\x00")  # three zeros: a valid frame of a zero byte
@example(stream=b"\xff" * 80 + b"\0\x03\x01\x02\0")
def test_any_bytes_mean_the_same_to_both(framer: Framer, stream: bytes) -> None:
    stream += b"\0"
    valid = [frame for frame in python_decode(stream) if frame is not None]
    assert [frame for frame in framer.decode(stream) if frame is not None] == valid


@given(data=st.binary(max_size=600))
def test_cobs_is_the_paper_s(data: bytes) -> None:
    encoded = protocol.cobs_encode(data)
    assert encoded == plain_cobs(data)
    assert 0 not in encoded
    assert protocol.cobs_decode(encoded) == data


@given(message=st.binary(min_size=1, max_size=60), data=st.data())
def test_up_to_three_flipped_bits_are_noticed(framer: Framer, message: bytes, data: st.DataObject) -> None:
    """Short frames whose stuffing is not hit: XMODEM's polynomial has distance 4 up to 32751 bits."""
    body = message + crc_by_division(message).to_bytes(2, "big")
    bits = data.draw(st.sets(st.integers(0, 8 * len(body) - 1), min_size=1, max_size=3))
    damaged = bytearray(body)
    for bit in bits:
        damaged[bit // 8] ^= 1 << bit % 8
    stream = plain_cobs(bytes(damaged)) + b"\0"
    assert python_decode(stream) == [DAMAGED]
    assert framer.decode(stream) == [DAMAGED]


@given(messages=st.lists(few_zeros.filter(bool), max_size=5), cuts=st.lists(st.integers(1, 40), min_size=1))
def test_splitter_needs_no_alignment(messages: list[bytes], cuts: list[int]) -> None:
    refusals = [protocol.frame(bytes((protocol.REFUSED, message[0]))) for message in messages]
    stream, found, splitter, turn = b"".join(refusals), [], Splitter(), 0
    while stream:
        cut = cuts[turn % len(cuts)]
        found += splitter.feed(stream[:cut])
        stream, turn = stream[cut:], turn + 1
    assert found == [Refused(message[0]) for message in messages]
    assert (splitter.good_frames, splitter.bad_frames) == (len(messages), 0)


def test_splitter_takes_the_longest_result_and_survives_babble() -> None:
    splitter, output = Splitter(), bytes(range(256)) * 255
    message = struct.pack("<BHIIHHH", protocol.RESULT, 7, 1, 2, 8, 0, 1) + output
    assert splitter.feed(protocol.frame(message)) == [Result(7, 1, 2, Position(8, 0, 1), output)]
    for _ in range(100):
        assert splitter.feed(b"\xaa" * 10_000) == []
    assert splitter.held_bytes <= protocol.LONGEST_FRAME_BYTES
    assert splitter.feed(b"\0" + protocol.frame(b"\x85\x01")) == [Damaged(), Refused(1)]


BAD_MESSAGES = {
    "unknown type": b"\x77",
    "a message for boards": b"\x04",
    "short ACK": b"\x82\0\0\0\0\0\0",
    "long ACK": b"\x82\0\0\0\0\0\0\0\0",
    "short RESULT": b"\x83" + bytes(15),
    "long STATS": b"\x84" + bytes(25),
    "empty REFUSED": b"\x85",
    "long REFUSED": b"\x85\1\2",
    "short HELLO": b"\x81" + bytes(20),
    "HELLO whose shape is cut": b"\x81" + bytes(34) + b"\2\xf0\3\1\0",
    "long HELLO": b"\x81" + bytes(34) + b"\2\xf0\1\1\0" * 2 + b"\0",
}


@pytest.mark.parametrize("message", BAD_MESSAGES.values(), ids=BAD_MESSAGES.keys())
def test_bad_messages(message: bytes) -> None:
    with pytest.raises(BadFrame):
        protocol.decode(message)


def test_types_are_those_of_the_documentation() -> None:
    rows = re.findall(r"^\| 0x(\w\w) \| (\w+) \|", (ROOT / "docs" / "protocol.md").read_text(), re.MULTILINE)
    assert len(rows) == 14
    assert {name: int(number, 16) for number, name in rows} == {name: getattr(protocol, name) for _, name in rows}
    flags = (protocol.STARTED, protocol.RESEND, protocol.ASKED)
    assert (protocol.VERSION, protocol.QUIET, protocol.STREAM, *flags) == (2, 0, 1, 1, 2, 4)


def test_messages_from_a_board() -> None:
    assert protocol.decode(b"\x82\1\0\2\0\3\0\4") == Ack(Position(1, 2, 3), protocol.ASKED)
    stats = struct.pack("<BHIIIIHH", protocol.STATS, 9, 80, 0xFFFFFFFF, 5, 0xDEADBEEF, 1, 2)
    assert protocol.decode(stats) == Stats(9, 80, None, 5, 0xDEADBEEF, 1, 2)
    head = struct.pack("<BB8sIIHHHBB", 0x81, 1, b"12345678", 16_000_000, 2304, 126, 19, 12, 2, 1)
    hello = protocol.decode(head + b"abcdefgh" + b"\2\xf4\2\x80\0\x09\0" + b"\1\5\1\6\0")
    assert hello == protocol.Hello(
        1, b"12345678", 16_000_000, 2304, 126, 19, 12, 2, True, b"abcdefgh",
        protocol.TensorInfo(2, -12, (128, 9)), protocol.TensorInfo(1, 5, (6,)),
    )  # fmt: skip


def test_messages_to_a_board() -> None:
    assert protocol.unframe(protocol.data(0x10203, 4, b"xy")[:-1]) == b"\x03\x03\x02\x04\x00xy"
    assert protocol.unframe(protocol.start(protocol.STREAM, 9)[:-1]) == b"\x02\x01\x09"
    assert protocol.unframe(protocol.get_result(0x10005)[:-1]) == b"\x05\x05\x00"
    assert protocol.unframe(protocol.request(protocol.PING)[:-1]) == b"\x04"


def uno_size(folder: Path, framer: int) -> tuple[int, int]:
    """Flash and static RAM of framer_uno.cpp with the flags of firmware/platform/."""
    flags = ["-mmcu=atmega328p", "-O2", "-std=gnu++14", "-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics"]
    sections = ["-ffunction-sections", "-fdata-sections", "-Wl,--gc-sections", "-Wall", "-Wextra", "-Werror"]
    elf = folder / f"framer{framer}.elf"
    source = SOURCES / "framer_uno.cpp"
    subprocess.run(["avr-g++", *flags, *sections, f"-DFRAMER={framer}", f"-I{ROOT}", source, "-o", elf], check=True)
    sizes = subprocess.run(["avr-size", elf], check=True, capture_output=True, text=True).stdout.splitlines()[1]
    text, data, bss = (int(field) for field in sizes.split()[:3])
    return text + data, data + bss


@pytest.mark.skipif(shutil.which("avr-g++") is None, reason="no avr-g++")
def test_framer_is_small_on_the_uno(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Decoder behind the receive interrupt and encoder, less the same program that moves the bytes bare."""
    (flash, ram), (bare_flash, bare_ram) = uno_size(tmp_path, 1), uno_size(tmp_path, 0)
    version = subprocess.run(["avr-g++", "-dumpversion"], capture_output=True, text=True, check=True).stdout.strip()
    cost = {"flash_bytes": flash - bare_flash, "ram_bytes": ram - bare_ram}
    assert cost["flash_bytes"] <= 512
    assert cost["ram_bytes"] <= 16
    path = ROOT / "tests" / "golden" / "framer.json"
    if request.config.getoption("--update-golden", False):
        path.write_text(json.dumps({version: cost}, indent=1) + "\n")
    golden = json.loads(path.read_text())
    if version in golden:  # exact for the compiler it was taken with
        assert cost == golden[version], "the framer's size changed: read why, then pytest --update-golden"
