"""Sessions in memory, on a clock of their own: the window of two, numbers of 16 bits, what is asked when, deadlines.

The other side is docs/protocol.md in Python: it accepts strictly in order, keeps its two newest results, and holds the
host to its credits.
"""

from __future__ import annotations

import binascii
import random
import struct
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
from conftest import Golden

from tinyhil.errors import LinkError, LinkTimeout
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

    def send(self, data: bytes, timeout_s: float) -> None:
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
                self._result(self.computed - back) if back in (1, 2) else self._say("<BB", protocol.REFUSED, message[0])
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
        assert self.sample < self.delivered + 2, "two results are kept, and this would be a third"
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
