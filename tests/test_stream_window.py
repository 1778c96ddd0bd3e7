"""Sessions in memory, on a clock of their own: the window of two, numbers of 16 bits, what is asked when, deadlines.

The other side is docs/protocol.md in Python: it accepts strictly in order, keeps its two newest results (with one slot
for whole samples its newest), and holds the host to its credits.
"""

from __future__ import annotations

import binascii
import random
import struct
from collections import deque
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import pairwise

import pytest
from conftest import Golden

from tinyhil.errors import DeviceCrashed, DoesNotFit, HilError, LinkError, LinkTimeout, WrongFirmware
from tinyhil.harness.wire import deadline, protocol, stream
from tinyhil.harness.wire.protocol import QUIET, STREAM, Hello, Message, Result, TensorInfo
from tinyhil.harness.wire.retry import RetryTimer

Fate = Callable[[str], str]  # of a frame, as it is written down: "" or what happens to it
INFO = TensorInfo(1, 0, (6,))
HELLO = Hello(2, bytes(8), 1_000_000, 6, 3, 2, 2, 2, False, bytes(8), INFO, INFO)
LAYOUTS = {
    "whole": HELLO,
    "one slot": replace(HELLO, slots=1),
    "one chunk": replace(HELLO, chunk_bytes=6, chunks_per_sample=1),
    "odd end": replace(HELLO, chunk_bytes=4),
    "streamed": replace(HELLO, chunk_bytes=1, chunks_per_sample=6, streamed=True),
}


@dataclass
class Clock:
    now: float = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(stream, "time", made)
    monkeypatch.setattr(deadline, "time", made)
    monkeypatch.setattr(deadline, "starved_s", lambda pid: 0.0)
    monkeypatch.setattr(stream.secrets, "randbelow", lambda count: count - 249)  # session 7
    return made


class Board:
    """A board and the line to it, in place of a Link. Time passes where the host waits."""

    port = "memory"

    def __init__(self, clock: Clock, hello: Hello, fate: Fate = lambda _: "", first: int = 0) -> None:
        self.clock, self.hello, self.fate = clock, hello, fate
        self.running, self.sample, self.chunk = (QUIET, 0), first, 0
        self.result_slots = 1 if hello.slots == 1 and not hello.streamed else 2
        self.filled, self.used, self.computed, self.delivered, self.ahead = 0, 0, first, first, 0
        self.arrived, self.taken = set[int](), dict[int, bytes]()
        self.crc32 = self.saturations = 0
        self.line: deque[bytes] = deque()
        self.heard: list[str] = []
        self._splitter = protocol.Splitter()

    # ---- what a session asks of a link

    def deadline(self, seconds: float) -> deadline.Deadline:
        return deadline.Deadline(seconds)

    def describe_silence(self) -> str:
        return "as told"

    def send(self, data: bytes, timeout_s: float = 0.0) -> None:
        for message in map(protocol.unframe, filter(None, data.split(b"\0"))):
            numbers = struct.unpack_from("<HH", message, 1) if message[0] == protocol.DATA else tuple(message[1:3])
            fate = self._noted(f"> {message[0]:#04x} {' '.join(map(str, numbers))}".rstrip())
            if fate == "":
                self._serve(message)
            elif fate == "damaged":
                self._acknowledge(protocol.RESEND)

    def receive(self, timeout_s: float) -> Message | None:
        self.clock.now += 0.001
        self._compute()
        while self.line:
            sent = self.line.popleft()
            message = protocol.decode(protocol.unframe(sent[:-1]))
            fate = self._noted(f"  < {message}")
            if fate == "":
                if isinstance(message, Result):
                    self.arrived.add(message.sample)
                    while self.delivered & 0xFFFF in self.arrived:
                        self.delivered += 1
                (found,) = self._splitter.feed(sent)
                return found
            if fate == "damaged":
                return protocol.Damaged()
        self.clock.now += timeout_s
        return None

    # ---- docs/protocol.md

    def _noted(self, what: str) -> str:
        fate = self.fate(what)
        self.heard.append(f"{self.clock.now:7.3f} {what} {fate}".rstrip())
        return fate

    def _say(self, head: str, *values: int, tail: bytes = b"") -> None:
        self.line.append(protocol.frame(struct.pack(head, *values) + tail))

    def _position(self) -> tuple[int, int, int]:
        free = max(0, (1 if self.running[0] == QUIET else self.hello.slots) - self.filled)
        credit = free if self.hello.streamed else max(0, free * self.hello.chunks_per_sample - self.chunk)
        return self.sample & 0xFFFF, self.chunk, credit

    def _acknowledge(self, flags: int) -> None:
        self._say("<BHHHB", protocol.ACK, *self._position(), flags)

    def _serve(self, message: bytes) -> None:
        match message[0]:
            case protocol.START:
                if self.running != (message[1], message[2]):
                    self.running, self.sample, self.chunk, self.computed = (message[1], message[2]), 0, 0, 0
                self._acknowledge(protocol.STARTED)
            case protocol.PING:
                self._acknowledge(protocol.ASKED)
            case protocol.GET_RESULT:
                back = (self.computed - struct.unpack_from("<H", message, 1)[0]) & 0xFFFF
                is_there = 1 <= back <= self.result_slots
                self._result(self.computed - back) if is_there else self._say("<BB", protocol.REFUSED, message[0])
            case protocol.FINISH:
                totals = (self.computed & 0xFFFF, 0, 0, self.saturations, self.crc32, 0, 0)
                self._say("<BHIIIIHH", protocol.STATS, *totals)
            case protocol.DATA:
                self._take(*struct.unpack_from("<HH", message, 1), message[5:])

    def _take(self, sample: int, chunk: int, payload: bytes) -> None:
        assert self.filled < self.hello.slots, "beyond the credit"
        if (sample, chunk) != (self.sample & 0xFFFF, self.chunk):
            ahead = (sample - self.sample + 0x8000) % 0x10000 - 0x8000
            self._acknowledge(protocol.RESEND if ahead > 0 or (ahead == 0 and chunk > self.chunk) else 0)
            return
        assert self.sample < self.delivered + self.result_slots, (
            "this would take the place of a result that is still missing"
        )
        self.ahead = max(self.ahead, self.sample - self.delivered)
        self.taken[self.sample] = self.taken.get(self.sample, b"") + payload
        self.chunk += 1
        whole = self.chunk == self.hello.chunks_per_sample
        if whole:
            self.sample, self.chunk = self.sample + 1, 0
        self.filled += whole or self.hello.streamed

    def _compute(self) -> None:
        if not self.filled:
            return
        self.filled -= 1
        self.used += 1
        if self.hello.streamed and self.used < self.hello.chunks_per_sample:
            self._acknowledge(0)
            return
        self.used = 0
        self._result(self.computed)
        result = ticks(self.computed).to_bytes(4, "little") + self._output(self.computed)
        self.crc32 = binascii.crc32(result, self.crc32)
        self.saturations += self.computed % 3
        self.computed += 1

    def _output(self, sample: int) -> bytes:
        return bytes((sum(self.taken[sample]) & 0xFF, len(self.taken[sample])))

    def _result(self, sample: int) -> None:
        head = (protocol.RESULT, sample & 0xFFFF, ticks(sample), sample % 3)
        self._say("<BHIIHHH", *head, *self._position(), tail=self._output(sample))


def ticks(sample: int) -> int:
    return 1000 + sample


def inputs(count: int) -> list[bytes]:
    return [bytes((n + k) % 251 for k in range(6)) for n in range(count)]


def run(board: Board, count: int, mode: int = STREAM, deadline_s: float = 30.0) -> protocol.Stats:
    found: dict[int, Result] = {}

    def take(sample: int, result: Result) -> None:
        assert sample not in found
        found[sample] = result

    options = stream.Options(mode, deadline_s, 1.0, finished=5)
    stats = stream.stream(board, board.hello, inputs(count), options, take, lambda: None)  # type: ignore[arg-type]
    check(found, 0, count)
    return stats


def check(found: dict[int, Result], first: int, end: int) -> None:
    assert sorted(found) == list(range(first, end))
    for sample, result in found.items():
        given = bytes((sample + k) % 251 for k in range(6))
        assert (result.ticks, result.output) == (ticks(sample), bytes((sum(given) & 0xFF, 6)))


@pytest.mark.parametrize("mode", [QUIET, STREAM])
@pytest.mark.parametrize("name", LAYOUTS)
def test_the_window_is_two_and_is_used(name: str, mode: int, clock: Clock) -> None:
    board = Board(clock, LAYOUTS[name])
    assert run(board, 12, mode).samples == 12
    assert board.ahead == (LAYOUTS[name].slots == 2 and mode == STREAM) or LAYOUTS[name].streamed
    assert sum(" > 0x03" in line for line in board.heard) == 12 * LAYOUTS[name].chunks_per_sample
    assert not [line for line in board.heard if " > 0x04" in line or " > 0x05" in line]


@pytest.mark.parametrize("mode", [QUIET, STREAM])
@pytest.mark.parametrize("name", LAYOUTS)
def test_whatever_is_lost_comes_again(name: str, mode: int, clock: Clock) -> None:
    """A frame in eight is lost or damaged, either way."""
    source = random.Random(name)
    fates = ("lost", "damaged", *[""] * 14)
    for _ in range(6):
        board = Board(clock, LAYOUTS[name], lambda _: source.choice(fates))
        assert run(board, 25, mode, 300.0).samples == 25


SCENARIOS = {
    "nothing lost": (),
    "a result": ("  < Result(sample=1,",),
    "two results": ("  < Result(sample=1,", "  < Result(sample=2,"),
    "a chunk": ("> 0x03 2 1",),
    "the last chunk, three times": ("> 0x03 3 1",) * 3,
    "both ends": ("  < Ack(", "> 0x06", "  < Stats("),
    "a result and its repetition": ("  < Result(sample=3,",) * 3,
}


@pytest.mark.parametrize("fate", ["lost", "damaged"])
def test_what_is_said_when_something_is_missing(fate: str, clock: Clock, golden: Golden) -> None:
    """Every frame, both ways, with the time: each scenario loses the named ones, once each."""
    text = ""
    for name, lost in SCENARIOS.items():
        left = list(lost)

        def judge(what: str, left: list[str] = left) -> str:
            hit = next((one for one in left if what.startswith(one)), None)
            if hit is not None:
                left.remove(hit)
            return fate if hit is not None else ""

        clock.now = 0.0
        board = Board(clock, HELLO, judge)
        run(board, 4)
        assert not left
        text += f"# {name} {fate}\n" + "\n".join(board.heard) + "\n"
    golden.check(f"wire-{fate}.txt", text)


def test_numbers_go_round_at_16_bits(clock: Clock) -> None:
    """A session that is there already: 30 samples from below 2**16 to above, a frame in ten lost."""
    first, end, source = 65_520, 65_550, random.Random(1)
    board, found = Board(clock, HELLO, lambda _: source.choice(("lost", *[""] * 9)), first), dict[int, Result]()
    board.running, samples = (STREAM, 7), [bytes((n + k) % 251 for k in range(6)) for n in range(end)]
    session = stream._Session(
        board, HELLO, samples, stream.Options(STREAM), found.__setitem__, lambda: None,  # type: ignore[arg-type]
        RetryTimer(1.0, 10.0), board.deadline(300.0), 2 * first, 2 * first + 4, 2 * first, 2 * first, first,
    )  # fmt: skip
    session.run()
    session.finish()
    check(found, first, end)


@pytest.mark.parametrize("missing", [0, 1, 0x7FFF, 0x8000, 0xFFFE, 0x10000, 0x2FFFF])
def test_a_number_is_the_nearest_with_these_16_bits(missing: int, clock: Clock) -> None:
    session = stream._Session(None, HELLO, [], stream.Options(), None, None, None, None, missing=missing)  # type: ignore[arg-type]
    for sample in (missing - 0x8000, missing - 1, missing, missing + 1, missing + 0x7FFF):
        assert session._unwrap(sample & 0xFFFF) == sample


def test_another_run_s_session_of_this_number_is_not_taken(clock: Clock) -> None:
    board = Board(clock, HELLO, first=3)
    board.running = (STREAM, 7)
    assert run(board, 3).samples == 3
    assert board.running == (STREAM, 8)


def test_a_board_that_never_begins_anew(clock: Clock) -> None:
    board = Board(clock, HELLO)
    board._position = lambda: (1, 0, 2)  # type: ignore[method-assign]
    with pytest.raises(LinkError, match="memory: the board does not begin a new session; reset it"):
        run(board, 3)


@pytest.mark.parametrize("silent", ["  < ", "> 0x03", "> 0x06"])
def test_silence_ends_at_the_deadline(silent: str, clock: Clock) -> None:
    """Of the answers from the third on, of all that is sent, of the end."""
    counts = {"left": 3 if silent == "  < " else 0}

    def judge(what: str) -> str:
        if not what.startswith(silent):
            return ""
        counts["left"] -= 1
        return "lost" if counts["left"] < 0 else ""

    board = Board(clock, HELLO, judge)
    at = {"  < ": "no progress for 9 s at sample 7 of 9", "> 0x03": "no progress for 9 s at sample 5 of 9"}
    with pytest.raises(LinkTimeout, match=at.get(silent, "no answer to FINISH within 9 s")):
        run(board, 4, deadline_s=9.0)
    assert 9.0 <= clock.now < 14


# ---- boards that are none


def refused(board: Board, kind: type[HilError], words: str, count: int = 4, **options: object) -> None:
    given = stream.Options(STREAM, 9.0, finished=5, **options)  # type: ignore[arg-type]
    with pytest.raises(kind, match=words) as caught:
        stream.stream(board, board.hello, inputs(count), given, lambda *_: None, lambda: None)  # type: ignore[arg-type]
    assert type(caught.value) is kind


class Saying(Board):
    """Says something else, instead of the answer or after it, to each frame of a kind."""

    def __init__(self, clock: Clock, kind: int, *said: bytes, instead: bool = True, hello: Hello = HELLO) -> None:
        super().__init__(clock, hello)
        self.kind, self.said, self.instead = kind, said, instead

    def _serve(self, message: bytes) -> None:
        if message[0] != self.kind or not self.instead:
            super()._serve(message)
        if message[0] == self.kind:
            self.line.extend(map(protocol.frame, self.said))


def ack(sample: int, chunk: int, credit: int, flags: int = 0) -> bytes:
    return struct.pack("<BHHHB", protocol.ACK, sample, chunk, credit, flags)


def result_of(sample: int, output: bytes = b"12", at: int = 0) -> bytes:
    return struct.pack("<BHIIHHH", protocol.RESULT, sample, 1, 0, at, 0, 2) + output


HELLO_SAID = bytes((protocol.HELLO, 2)) + bytes(24) + bytes(8) + bytes((1, 0, 0)) * 2
NONSENSE = r"memory: 9 messages in a row that make no sense, the last"
DATA, FINISH = protocol.DATA, protocol.FINISH
CRASHED = struct.pack("<BIIIII", protocol.CRASHED, 1, 2, 3, 1 << 16, 0)
TOTALS = struct.pack("<BHIIIIHH", protocol.STATS, 4, 0, 0, 3, 1, 0, 0)
HOSTILE: dict[str, tuple[int, tuple[bytes, ...], type[HilError], str]] = {
    "a restart": (DATA, (HELLO_SAID,), DeviceCrashed, "restarted after 5 of 9 samples; they are kept"),
    "it goes back": (DATA, (ack(0, 1, 1), ack(0, 0, 1)), DeviceCrashed, "restarted after 5 of 9"),
    "a crash": (DATA, (CRASHED,), DeviceCrashed, "undefined instruction at pc 0x00000001"),
    "a crash at FINISH": (FINISH, (CRASHED,), DeviceCrashed, "undefined instruction at pc"),
    "a restart at FINISH": (FINISH, (HELLO_SAID,), DeviceCrashed, "restarted after 9 of 9"),
    "long results": (DATA, (result_of(0, b"123"),) * 9, LinkError, rf"{NONSENSE} a result of 3 bytes, expected 2"),
    "positions beyond": (DATA, (ack(3, 0, 1),) * 9, LinkError, rf"{NONSENSE} a position of .*, after 4 chunks sent"),
    "chunks beyond": (DATA, (ack(0, 2, 1),) * 9, LinkError, f"{NONSENSE} a position"),
    "credit beyond": (DATA, (ack(0, 0, 5),) * 9, LinkError, f"{NONSENSE} a position"),
    "eight are bad luck": (DATA, (*(ack(0, 0, 5),) * 8, ack(0, 0, 1)), LinkTimeout, "no progress for 9 s"),
    "never sent": (DATA, (result_of(2),), LinkError, "result of sample 2, which was not sent; not a board of ours"),
    "old results": (DATA, (result_of(0xFFFF), result_of(9)), LinkTimeout, r"no progress .* \(as told\); finished"),
    "other totals": (FINISH, (TOTALS,), stream.Distrusted, "4 results differ"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_boards_that_are_none_are_refused(name: str, clock: Clock) -> None:
    kind, said, error, words = HOSTILE[name]
    refused(Saying(clock, kind, *said), error, words)


def test_as_much_as_fits_is_no_nonsense(clock: Clock) -> None:
    """Credit for all slots, the last chunk, what was just sent."""
    for hello in (HELLO, LAYOUTS["streamed"]):
        chunks = hello.chunks_per_sample
        credit = 2 if hello.streamed else 2 * chunks
        board = Saying(clock, protocol.DATA, *(ack(0, 0, credit),) * 9, instead=False, hello=hello)
        refused(board, DeviceCrashed, "restarted")  # as positions go back
        board = Saying(clock, protocol.DATA, *(ack(0, 0, credit + 1),) * 20, instead=False, hello=hello)
        refused(board, LinkError, "make no sense")


@pytest.mark.parametrize(("ticks_of_clock", "real_time"), [(900, True), (900, False), (1100, True)])
def test_a_counter_goes_round_no_more_than_once(
    ticks_of_clock: int, real_time: bool, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sample takes a millisecond, which is a thousand cycles."""
    monkeypatch.setattr(stream, "COUNTER_TICKS", ticks_of_clock)
    if real_time and ticks_of_clock < 1000:
        words = r"sample 0 took up to 0 s; the board counts 900 cycles, 0\.0 s at 1000000 Hz, and begins anew; use a sm"
        refused(Board(clock, HELLO), DoesNotFit, words, 1, real_time=True)
    else:
        board = Board(clock, HELLO)
        given = stream.Options(STREAM, real_time=real_time)
        assert stream.stream(board, HELLO, inputs(1), given, lambda *_: None, lambda: None).samples == 1  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "right"),
    [
        ({}, True), ({"chunk_bytes": 5}, True), ({"chunk_bytes": 2}, False), ({"chunk_bytes": 6}, False),
        ({"chunk_bytes": 0}, False), ({"output_bytes": 0}, False), ({"sample_bytes": 5}, False),
        ({"chunks_per_sample": 3}, False), ({"chunks_per_sample": 0}, False),
    ],
)  # fmt: skip
def test_sizes_of_hello_go_together(changes: dict[str, int], right: bool) -> None:
    hello = replace(HELLO, **changes)  # type: ignore[arg-type]
    with nullcontext() if right else pytest.raises(LinkError, match=r"port: HELLO makes no sense: .*; ours have 6 B"):
        stream.check_shape(hello, inputs(2), "port")
    with pytest.raises(LinkError, match="ours have 0 B"):
        stream.check_shape(replace(hello, output_bytes=0), [], "port")


def test_another_image_or_protocol_is_wrong_firmware() -> None:
    stream.check_identity(HELLO, bytes(8), "port")
    with pytest.raises(WrongFirmware, match="port: firmware speaks protocol 3, this is 2; flash again"):
        stream.check_identity(replace(HELLO, protocol=3), bytes(8), "port")
    with pytest.raises(WrongFirmware, match="runs image 0000000000000000, not 0100000000000000"):
        stream.check_identity(HELLO, b"\1" + bytes(7), "port")


def test_what_a_crash_says(clock: Clock) -> None:
    """The bits of a Cortex-M's CFSR one by one."""
    said = []
    for bit in range(26):
        crash = stream.crash("port", protocol.Crashed(0x123, 0, 0, 1 << bit, 0xAB if bit == 9 else 0), lambda: None)
        said.append(f"{bit}: {str(crash).removeprefix('port: the firmware crashed: ')}")
    known = [line.split(": ", 1) for line in said if "processor fault" not in line]
    assert [int(bit) for bit, _ in known] == [0, 1, 3, 4, 8, 9, 10, 11, 12, 16, 17, 18, 19, 24, 25]
    assert known[0][1] == "instruction fetch from forbidden memory at pc 0x00000123"
    assert {words for _, words in known[1:4]} == {"stack overflow into the MPU guard at pc 0x00000123"}
    assert "nothing is 0x000000ab at pc" in known[5][1]
    words = ("undefined instr", "invalid state", "invalid exc", "no coprocessor", "unaligned acc", "division by")
    assert all(text.startswith(begin) for (_, text), begin in zip(known[9:], words, strict=True))
    lost = stream.crash("port", protocol.Crashed(0, 0, 0, 3, 0), lambda: None)
    assert "instruction fetch from forbidden memory; its place is unknown" in str(lost)
    assert clock.now == pytest.approx(27 * 0.5, abs=0.3)


def test_hello_is_asked_for_after_the_banner_s_time(clock: Clock) -> None:
    class Mute(Board):
        def receive(self, timeout_s: float) -> Message | None:
            assert 0.01 <= timeout_s <= 0.2
            return super().receive(timeout_s)

    mute = Mute(clock, HELLO)
    with pytest.raises(LinkTimeout, match=r"memory: no HELLO within 3 s \(as told\)"):
        stream.greet(mute, 1.0, 2.0, lambda: None)  # type: ignore[arg-type]
    times = [float(line.split()[0]) for line in mute.heard]
    assert 2.0 <= times[0] < 2.05
    assert len(times) == 4
    assert all(0.3 <= later - earlier < 0.33 for earlier, later in pairwise(times))
    greeting = Saying(clock, protocol.HELLO_REQUEST, HELLO_SAID)
    assert stream.greet(greeting, 1.0, 0.0, lambda: None).protocol == 2  # type: ignore[arg-type]
    crashed = Saying(clock, protocol.HELLO_REQUEST, struct.pack("<BIIIII", protocol.CRASHED, 1, 2, 3, 1, 0))
    with pytest.raises(DeviceCrashed, match="forbidden"):
        stream.greet(crashed, 1.0, 0.0, lambda: None)  # type: ignore[arg-type]
