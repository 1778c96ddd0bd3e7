"""What a stream does with boards that are none: wrong, silent, contradictory, endless."""

from __future__ import annotations

import binascii
import struct
import threading
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import test_stream
from wire_bench import (
    Bench,
    Collected,
    FakeBoard,
    FaultyWire,
    hello_frame,
    make_bench,
    powered,
    run_session,
    write_tiny_model,
)

from tinyhil.errors import (
    BoardError,
    DeviceCrashed,
    DoesNotFit,
    HilError,
    LinkError,
    LinkTimeout,
    WrongFirmware,
)
from tinyhil.harness.build.toolchain import default_cache_dir
from tinyhil.harness.job.job import Request
from tinyhil.harness.measure.run import Outcome, run
from tinyhil.harness.settings.config import load_boards
from tinyhil.harness.wire import protocol
from tinyhil.harness.wire.link import Link
from tinyhil.harness.wire.protocol import QUIET, STREAM, Splitter
from tinyhil.harness.wire.stream import Distrusted, Options, check_identity, greet, stream

benches = test_stream.benches  # a fixture


def playing(bench: Bench, *after_data: bytes) -> Callable[[FakeBoard], None]:
    """HELLO, START acknowledged with room for two samples; then `after_data` for each frame of data."""

    def behave(board: FakeBoard) -> None:
        board.write(hello_frame(bench))
        buffer = b""
        while not board.stopping.is_set():
            *frames, buffer = (buffer + board.read()).split(b"\0")
            for message in (protocol.unframe(frame) for frame in frames if frame):
                if message[0] == protocol.START:
                    board.write(protocol.frame(struct.pack("<BHHHB", protocol.ACK, 0, 0, 2, protocol.STARTED)))
                elif message[0] in (protocol.DATA, protocol.PING):
                    board.write(b"".join(after_data))

    return behave


def endless(bench: Bench, message: Callable[[int], bytes], pause_s: float = 0) -> Callable[[FakeBoard], None]:
    """HELLO, START acknowledged, then `message(0)`, `message(1)` and so on, whatever the host says."""

    def behave(board: FakeBoard) -> None:
        board.write(hello_frame(bench))
        while protocol.START not in (protocol.unframe(f)[0] for f in board.read().split(b"\0") if f):
            pass
        board.write(protocol.frame(struct.pack("<BHHHB", protocol.ACK, 0, 0, 2, protocol.STARTED)))
        number = 0
        while not board.stopping.wait(pause_s):
            board.write(protocol.frame(message(number)))
            number += 1

    return behave


def result_frame(sample: int, output: bytes) -> bytes:
    return protocol.frame(struct.pack("<BHIIHHH", protocol.RESULT, sample, 1, 0, sample + 1, 0, 2) + output)


PATIENT_S = 600.0  # where no time-out is expected


def run_fake(bench: Bench, behave: Callable[[FakeBoard], None], deadline_s: float = 1.0) -> Collected:
    collected = Collected()
    with FakeBoard(behave) as board, Link(board.port, 115200) as link:
        hello = greet(link, deadline_s, 0.1, lambda: None)
        check_identity(hello, bench.image.hash, board.port)
        options = Options(STREAM, deadline_s, 0.1)
        stream(link, hello, bench.samples, options, collected.take, lambda: None)
    return collected


HOSTILE: dict[str, tuple[type[HilError], str, Callable[[Bench], Callable[[FakeBoard], None]]]] = {
    "silence": (LinkTimeout, "no HELLO within 1.1 s (nothing was received)", lambda b: lambda board: None),
    "babble": (LinkError, "babbles", lambda b: lambda board: board.write(b"\xa5\x5a\x33" * 4000)),
    "babble with delimiters": (LinkError, "babbles", lambda b: lambda board: board.write(b"Hello!\0" * 4000)),
    "another image": (
        WrongFirmware,
        "not",
        lambda b: lambda board: board.write(hello_frame(b, b"12345678")),
    ),
    "HELLO and no more": (LinkTimeout, "START", lambda b: lambda board: board.write(hello_frame(b))),
    "nothing but the START": (LinkTimeout, "no progress for 1 s at sample 0", playing),
    "restart": (DeviceCrashed, "restarted", lambda b: playing(b, hello_frame(b))),
    "position goes back": (
        DeviceCrashed,
        "restarted",
        lambda b: playing(b, protocol.frame(b"\x82\1\0\0\0\1\0\0"), protocol.frame(b"\x82\0\0\0\0\1\0\0")),
    ),
    "results of a wrong length": (
        LinkError,
        "make no sense, the last a result of",
        lambda b: playing(b, *(result_frame(0, bytes(9)) for _ in range(20))),
    ),
    "positions that run away": (
        LinkError,
        "make no sense, the last a position",
        lambda b: endless(b, lambda n: struct.pack("<BHHHB", protocol.ACK, 3 + n % 1000, 0, 1, 0)),
    ),
    "credit without end": (
        LinkError,
        "make no sense, the last a position",
        lambda b: endless(b, lambda n: struct.pack("<BHHHB", protocol.ACK, 0, 0, min(n, 0xFFFF), 0)),
    ),
    "a chunk that no sample has": (
        LinkError,
        "make no sense, the last a position",
        lambda b: endless(b, lambda n: struct.pack("<BHHHB", protocol.ACK, 0, n % 9 + 1, 0, 0)),
    ),
    "room, again and again": (
        LinkTimeout,
        "no progress",
        lambda b: endless(b, lambda n: struct.pack("<BHHHB", protocol.ACK, 0, 0, n % 3, 0), 0.001),  # floods: below
    ),
    "results of samples never sent": (
        LinkError,
        "not sent",
        lambda b: playing(b, result_frame(7, bytes(8))),
    ),
    "a flood of one result": (
        LinkTimeout,
        "no progress",
        lambda b: playing(b, *[result_frame(0, b.outputs[0])] * 2000),
    ),
    "a flood of acknowledgements": (
        LinkTimeout,
        "no progress",
        lambda b: playing(b, *[protocol.frame(b"\x82\0\0\0\0\2\0\2")] * 3000),
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_boards(name: str, benches: Callable[[str, int], Bench]) -> None:
    kind, words, behave = HOSTILE[name]
    bench = benches("host", 50)
    with pytest.raises(kind) as caught:
        run_fake(bench, behave(bench), deadline_s=PATIENT_S if kind in (DeviceCrashed, WrongFirmware) else 1.0)
    assert type(caught.value) is kind
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def totals(ticks: int = 1, output: bytes = bytes(8), saturations: int = 0, samples: int = 50) -> bytes:
    """STATS over results of these ticks and outputs."""
    crc = binascii.crc32((ticks.to_bytes(4, "little") + output) * 50)
    return protocol.frame(struct.pack("<BHIIIIHH", protocol.STATS, samples, 1, 0, saturations, crc, 0, 0))


@pytest.mark.parametrize(
    ("stats", "trusted"),
    [
        (totals(), True),
        (totals(output=b"1" * 8), False),
        (totals(ticks=2), False),
        (totals(saturations=1), False),
        (totals(samples=49), False),
    ],
    ids=["equal", "outputs", "ticks", "saturations", "samples"],
)
def test_totals_cover_all_that_results_say(stats: bytes, trusted: bool, benches: Callable[[str, int], Bench]) -> None:
    """Right form, right order, but the board itself says something else."""
    bench = benches("host", 50)

    def behave(board: FakeBoard) -> None:
        board.write(hello_frame(bench))
        buffer = b""
        while not board.stopping.is_set():
            *frames, buffer = (buffer + board.read()).split(b"\0")
            for message in (protocol.unframe(frame) for frame in frames if frame):
                if message[0] == protocol.START:
                    board.write(protocol.frame(struct.pack("<BHHHB", protocol.ACK, 0, 0, 2, protocol.STARTED)))
                elif message[0] == protocol.DATA:
                    board.write(result_frame(struct.unpack_from("<H", message, 1)[0], bytes(8)))
                elif message[0] == protocol.FINISH:
                    board.write(stats)

    with nullcontext() if trusted else pytest.raises(Distrusted, match=r"totals over .* not to be trusted"):
        run_fake(bench, behave, deadline_s=PATIENT_S)


class LyingWire(FaultyWire):
    """Damages nothing but the checksum in STATS, and repairs the frame's own."""

    def _damage(self, data: bytes) -> bytes:
        *frames, rest = data.split(b"\0")
        return b"".join(self._lie(frame) + b"\0" for frame in frames) + rest

    def _lie(self, frame: bytes) -> bytes:
        try:
            message = bytearray(protocol.unframe(frame))
        except protocol.BadFrame:
            return frame
        if message[0] != protocol.STATS:
            return frame
        message[-5] ^= 1
        return protocol.frame(bytes(message))[:-1]


def test_results_that_are_not_to_be_trusted_are_not_resumed(tmp_path: Path) -> None:
    boards, said = load_boards(), []
    np.savez(tmp_path / "x.npz", x=np.random.default_rng(1).uniform(-1, 1, (20, 1, 32)).astype(np.float32))
    bench = make_bench("due", write_tiny_model(tmp_path / "tiny.onnx"), np.load(tmp_path / "x.npz")["x"])
    request = Request("due", str(tmp_path / "tiny.onnx"), inputs=tmp_path / "x.npz", calibrate=tmp_path / "x.npz")
    request = replace(request, results=tmp_path, no_flash=True)

    def measured(port: str) -> Outcome:
        return run(replace(request, port=port), boards, default_cache_dir(), said.append, lambda *_: None)

    with powered(bench, tmp_path) as device:
        link = tmp_path / "port"
        with LyingWire(device.port, 0.0, 1) as wire:
            link.symlink_to(wire.port)
            with pytest.raises(Distrusted):
                measured(str(link))
        link.unlink()
        link.symlink_to(device.port)
        outcome = measured(str(link))
    assert not [line for line in said if "resuming" in line]
    assert (outcome.outputs == outcome.reference.outputs).all()


def test_a_counter_that_may_have_gone_round_is_refused(
    benches: Callable[[str, int], Bench], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if the samples took 51 s of a Due's 84 MHz: here the counter has few bits instead."""
    bench = benches("due", 20)
    monkeypatch.setattr("tinyhil.harness.wire.stream.COUNTER_TICKS", 100)
    with powered(bench, tmp_path) as device:
        collected = Collected()
        options = Options(QUIET, PATIENT_S, real_time=True)
        with pytest.raises(DoesNotFit, match=r"sample 0 took up to .*; the board counts 100 cycles, .* at 84000000 Hz"):
            run_session(bench, device, device.port, options, collected.take)
        assert not collected.results
        run_session(bench, device, device.port, Options(QUIET, PATIENT_S), collected.take)


@pytest.mark.parametrize("port", ["/dev/no-such-port", "/dev/null", "nonsense://x", "socket://localhost"])
def test_ports_that_can_not_be_opened(port: str) -> None:
    with pytest.raises(BoardError, match="can not be opened"):
        Link(port, 115200)


def test_a_port_in_use_is_busy() -> None:
    with FakeBoard(lambda board: None) as board, Link(board.port, 115200), pytest.raises(BoardError):
        Link(board.port, 115200)


def test_rfc2217_is_refused_in_one_line_when_nobody_listens() -> None:
    with pytest.raises(BoardError, match="can not be opened"):
        Link("rfc2217://localhost:1", 115200)


def test_receive_returns_whatever_comes() -> None:
    """In time from noise without an end; with an error once so much has come without a frame that none will."""
    splitter = Splitter()
    assert splitter.feed(protocol.frame(b"\x85\x01"))

    loud = threading.Event()

    def chatter(board: FakeBoard) -> None:
        board.write(protocol.frame(b"\x85\x01"))
        while not board.stopping.is_set():
            board.write(b"noise without an end ")
            loud.wait(0.001)

    with FakeBoard(chatter) as board, Link(board.port, 115200) as link:
        link.send(protocol.request(protocol.HELLO_REQUEST))
        assert isinstance(link.receive(1), protocol.Refused)
        for timeout_s in (0.0, 0.1):
            assert link.receive(timeout_s) is None
        loud.set()
        with pytest.raises(LinkError, match="babbles"):
            link.receive(PATIENT_S)
