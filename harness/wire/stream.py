"""Host side of a session: greet the board, stream samples under its credits, collect results exactly once.

Lost and damaged frames are repeated from the position the board names (go-back-N); results are asked for again by id.
"""

from __future__ import annotations

import binascii
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tinyhil.errors import DeviceCrashed, DoesNotFit, LinkError, LinkTimeout, WrongFirmware
from tinyhil.harness.wire import protocol
from tinyhil.harness.wire.deadline import Deadline
from tinyhil.harness.wire.link import Link
from tinyhil.harness.wire.protocol import Ack, Crashed, Damaged, Hello, Position, Result, Stats
from tinyhil.harness.wire.retry import RetryTimer

BURST_BYTES = 2048  # sent before looking at what the board says; far below a second on the wire
COUNTER_TICKS = 1 << 32  # where a board's tick counter begins anew
MOST_MISFITS = 8  # one is bad luck; at 1e-2 damage per byte, eight in a row happen once in 1e16
EVENT_S = 0.5  # an emulator's event may be read later than the bytes it sent after it
ASK_S = 0.3  # between two questions that a board answers at once

OnResult = Callable[[int, Result], None]
Alive = Callable[[], None]  # raises DeviceCrashed when the board is known to be dead


@dataclass(frozen=True, slots=True)
class Options:
    """`mode`: quiet (wire idle while timing) or stream. `deadline_s`: longest time without progress.

    `retry_s`: silence after which the host asks again until it knows the pace of the board. `finished`: samples
    that earlier sessions of the same run have brought; messages count them. `real_time`: the board's clock is ours, so
    that its counter can not have gone round unseen.
    """

    mode: int = protocol.QUIET
    deadline_s: float = 30.0
    retry_s: float = 1.0
    finished: int = 0
    real_time: bool = False


class Distrusted(LinkError):
    """The totals of a session contradict its results: none of them may be kept."""


def greet(link: Link, deadline_s: float, banner_s: float, alive: Alive) -> Hello:
    """Wait for the HELLO a board sends after its reset; after `banner_s` ask for it, `deadline_s` later give up.

    LinkTimeout without a HELLO in time.
    """
    deadline = link.deadline(banner_s + deadline_s)
    asked = time.monotonic() + banner_s
    while not deadline.is_over():
        if (now := time.monotonic()) >= asked:
            link.send(b"\0" + protocol.request(protocol.HELLO_REQUEST))
            asked = now + ASK_S
        message = link.receive(min(0.2, max(asked - now, 0.01)))
        if isinstance(message, Hello):
            return message
        alive()
        if isinstance(message, Crashed):
            raise crash(link.port, message, alive)
    raise LinkTimeout(f"{link.port}: no HELLO within {banner_s + deadline_s:g} s ({link.describe_silence()})")


# Bits of a Cortex-M's CFSR (ARMv7-M Architecture Reference Manual B3.2.15), the telling ones first.
CAUSES = (
    (1 << 16, "undefined instruction"),
    (1 << 17, "invalid state"),
    (1 << 18, "invalid exception return"),
    (1 << 19, "no coprocessor: is the FPU on?"),
    (1 << 24, "unaligned access"),
    (1 << 25, "division by zero"),
    (1 << 8, "instruction fetch from nowhere"),
    (1 << 0, "instruction fetch from forbidden memory"),
    (1 << 1 | 1 << 3 | 1 << 4, "stack overflow into the MPU guard"),
    (1 << 9 | 1 << 10 | 1 << 11 | 1 << 12, "access to an address where nothing is"),
)


def crash(port: str, said: Crashed, alive: Alive) -> DeviceCrashed:
    """What a board's last message means; an emulator, which knows more, is heard first."""
    hear(alive)
    why = next((text for bits, text in CAUSES if said.cause & bits), "processor fault")
    where = f" 0x{said.address:08x}" if said.address else ""
    if said.pc == 0:
        unknown = "its place is unknown: the stack had no room for the registers"
        return DeviceCrashed(f"{port}: the firmware crashed: {why}{where}; {unknown}; fix the firmware and run again")
    return DeviceCrashed(f"{port}: the firmware crashed: {why}{where} at pc 0x{said.pc:08x}", said.pc)


def hear(alive: Alive) -> None:
    """Raise what is known of a board that has failed, as soon as it is known; an event may come after its bytes."""
    end = time.monotonic() + EVENT_S
    while time.monotonic() < end:
        alive()
        time.sleep(0.01)
    alive()


def check_identity(hello: Hello, image_hash: bytes, port: str) -> None:
    """WrongFirmware unless the board runs exactly the image just built."""
    if hello.protocol != protocol.VERSION:
        raise WrongFirmware(
            f"{port}: firmware speaks protocol {hello.protocol}, this is {protocol.VERSION}; flash again"
        )
    if hello.image_hash != image_hash:
        raise WrongFirmware(
            f"{port}: the board runs image {hello.image_hash.hex()}, not {image_hash.hex()} that was just built; "
            "flash again"
        )


def check_shape(hello: Hello, samples: Sequence[bytes], port: str) -> None:
    """LinkError if the sizes in HELLO contradict each other or the samples: nothing is computed with them then."""
    chunk, chunks, size = hello.chunk_bytes, hello.chunks_per_sample, hello.sample_bytes
    fits = chunk > 0 and (chunks - 1) * chunk < size <= chunks * chunk
    if not fits or hello.output_bytes == 0 or any(len(sample) != size for sample in samples):
        raise LinkError(
            f"{port}: HELLO makes no sense: samples of {size} B in {chunks} chunks of {chunk} B, outputs of "
            f"{hello.output_bytes} B; ours have {len(samples[0]) if samples else 0} B; flash again"
        )


def stream(
    link: Link, hello: Hello, samples: Sequence[bytes], options: Options, on_result: OnResult, alive: Alive
) -> Stats:
    """Stream all `samples` (raw input bytes each); `on_result(index, result)` is called once per sample, in any order.

    Returns the board's totals after checking its CRC-32 over all outputs. LinkTimeout without progress for
    `options.deadline_s`, DeviceCrashed if the board restarts in the middle.
    """
    check_shape(hello, samples, link.port)
    retry = RetryTimer(options.retry_s, max(options.retry_s, options.deadline_s / 3))
    progress = link.deadline(options.deadline_s)
    session = _Session(link, hello, samples, options, on_result, alive, retry, progress)
    session.start()
    session.run()
    return session.finish()


@dataclass(slots=True)
class _Session:
    """State of one session. Chunks are counted linearly: sample * chunks_per_sample + chunk."""

    link: Link
    hello: Hello
    samples: Sequence[bytes]
    options: Options
    on_result: OnResult
    alive: Alive
    retry: RetryTimer
    progress: Deadline
    acknowledged: int = 0
    limit: int = 0  # first chunk the board has no room for
    next_chunk: int = 0
    sent: int = 0  # first chunk that was never sent
    missing: int = 0  # lowest sample without a result
    outputs: dict[int, bytes] = field(default_factory=dict)
    crc32: int = 0
    saturations: int = 0
    begun: dict[int, float] = field(default_factory=dict)  # when the first chunk of a sample was sent
    asked_position: bool = False
    misfits: int = 0  # results of a wrong length, or impossible positions, in a row

    def start(self) -> None:
        """Begin a session under a new number; repeated until the board says so."""
        number = secrets.randbelow(255) + 1
        for candidate in (number, number % 255 + 1):
            frame = b"\0" + protocol.start(self.options.mode, candidate)
            ack = self._ask(frame, lambda m: isinstance(m, Ack) and bool(m.flags & protocol.STARTED), "START")
            assert isinstance(ack, Ack)
            if (ack.position.sample, ack.position.chunk) == (0, 0):
                break  # else a session left behind by another run has this very number
        else:
            raise LinkError(f"{self.link.port}: the board does not begin a new session; reset it")
        self.limit = ack.position.credit
        self.progress.restart()

    def run(self) -> None:
        while self.missing < len(self.samples):
            more = self._send_burst()
            begin = time.monotonic()
            message = self.link.receive(0.0 if more else self.retry.seconds)
            self.alive()
            if message is not None:
                self.retry.heard(time.monotonic() - begin)
                if self._handle(message):
                    self.progress.restart()
            elif not more:
                self._ask_again()
                self.retry.silent()
            self._check_deadline()

    def finish(self) -> Stats:
        """Fetch the totals and compare the board's checksum over all outputs with ours."""
        stats = self._ask(b"\0" + protocol.request(protocol.FINISH), lambda m: isinstance(m, Stats), "FINISH")
        assert isinstance(stats, Stats)
        ours = (self.crc32, self.saturations & 0xFFFFFFFF, len(self.samples) & 0xFFFF)
        if (stats.results_crc32, stats.saturations, stats.samples) != ours:
            raise Distrusted(
                f"{self.link.port}: the board's totals over {stats.samples} results differ from what was received; "
                "results are not to be trusted; they are thrown away"
            )
        return stats

    def _send_burst(self) -> bool:
        """Send what the board has room for, at most BURST_BYTES; True if there is more."""
        if self.asked_position:
            return False
        per_sample, size = self.hello.chunks_per_sample, self.hello.chunk_bytes
        # the board keeps its newest results: what would take the place of one may only start once that one is here
        window = self.missing + self.hello.result_slots
        end = min(self.limit, window * per_sample, len(self.samples) * per_sample)
        burst = bytearray()
        while self.next_chunk < end and len(burst) < BURST_BYTES:
            sample, chunk = divmod(self.next_chunk, per_sample)
            self.begun.setdefault(sample, time.monotonic())
            burst += protocol.data(sample, chunk, self.samples[sample][chunk * size : (chunk + 1) * size])
            self.next_chunk += 1
        if burst:
            self._send(bytes(burst))
            self.sent = max(self.sent, self.next_chunk)
        return self.next_chunk < end

    def _handle(self, message: protocol.Message) -> bool:
        """Take in one message; True if it brought the session forward."""
        if isinstance(message, Result):
            if len(message.output) != self.hello.output_bytes:
                self._ask_for_misfit(message)
                return False
            moved = self._take_position(message.position)
            return self._take_result(message) or moved
        if isinstance(message, Ack):
            moved = self._take_position(message.position)
            if message.flags & protocol.RESEND and not self.asked_position:
                self._ask_position()
            elif message.flags & protocol.ASKED and self.asked_position:
                self._resume()
            return moved
        if isinstance(message, Hello):
            raise self._restarted()
        if isinstance(message, Crashed):
            raise crash(self.link.port, message, self.alive)
        if isinstance(message, Damaged):
            self._ask_again()
        return False  # refused: a result that is not computed yet

    def _take_position(self, position: Position) -> bool:
        """Whether the board has accepted more of what was sent. Room alone, which it may invent, is no progress."""
        linear = self._unwrap(position.sample) * self.hello.chunks_per_sample + position.chunk
        if linear > self.sent or position.chunk >= self.hello.chunks_per_sample or position.credit > self.most_credit:
            self._misfit(f"a position of {position}, after {self.sent} chunks sent")
            return False
        self.misfits = 0
        if linear < self.acknowledged:  # a serial line keeps the order: the board has forgotten where it was
            raise self._restarted()
        moved = linear > self.acknowledged
        self.acknowledged = linear
        self.limit = max(self.limit, linear + position.credit)
        self.next_chunk = max(self.next_chunk, linear)
        return moved

    @property
    def most_credit(self) -> int:
        """Chunks that the slots of HELLO hold."""
        return self.hello.slots * (1 if self.hello.streamed else self.hello.chunks_per_sample)

    def _restarted(self) -> DeviceCrashed:
        return DeviceCrashed(
            f"{self.link.port}: the board restarted after {self._count()} samples; "
            "they are kept and the same command resumes"
        )

    def _count(self) -> str:
        """How far the run is, with what earlier sessions have brought."""
        return f"{self.options.finished + self.missing} of {self.options.finished + len(self.samples)}"

    def _send(self, frame: bytes) -> None:
        """Send; a port that takes nothing may not outlast the deadline."""
        self.link.send(frame, self.progress.left_s())

    def _unwrap(self, sample: int) -> int:
        """The full sample number behind its lower 16 bits, nearest to where the session is."""
        return self.missing + (sample - self.missing + 0x8000) % 0x10000 - 0x8000

    def _take_result(self, result: Result) -> bool:
        sample = self._unwrap(result.sample)
        if not self.missing <= sample < len(self.samples) or sample in self.outputs:
            return False
        if (sample + 1) * self.hello.chunks_per_sample > self.sent:
            raise LinkError(f"{self.link.port}: result of sample {sample}, which was not sent; not a board of ours")
        self._check_counter(sample, result)
        self.outputs[sample] = result.ticks.to_bytes(4, "little") + result.output
        self.saturations += result.saturations
        self.on_result(sample, result)
        while self.missing in self.outputs:
            self.crc32 = binascii.crc32(self.outputs.pop(self.missing), self.crc32)
            self.missing += 1
        if self.outputs:  # a later one is here: the one in between was lost
            self._send(protocol.get_result(self.missing))
        return True

    def _check_counter(self, sample: int, result: Result) -> None:
        """DoesNotFit if the board's counter of 32 bits may have gone round meanwhile: its ticks mean nothing then."""
        took_s = time.monotonic() - self.begun.pop(sample)
        most_s = COUNTER_TICKS / max(1, self.hello.clock_hz)
        if self.options.real_time and took_s > most_s:
            counts = (
                f"the board counts {COUNTER_TICKS} cycles, {most_s:.1f} s at {self.hello.clock_hz} Hz, and begins anew"
            )
            raise DoesNotFit(
                f"{self.link.port}: sample {sample} took up to {took_s:.0f} s; {counts}; use a smaller model"
            )

    def _ask_for_misfit(self, result: Result) -> None:
        self._misfit(f"a result of {len(result.output)} bytes, expected {self.hello.output_bytes}")
        self._send(protocol.get_result(self.missing))

    def _misfit(self, what: str) -> None:
        """Two frames whose delimiter was lost pass the checksum as one; who says nothing else is no board of ours."""
        self.misfits += 1
        if self.misfits > MOST_MISFITS:
            raise LinkError(
                f"{self.link.port}: {self.misfits} messages in a row that make no sense, the last {what}; "
                "not a board of ours"
            )

    def _ask_again(self) -> None:
        if self._is_computed():
            self._send(b"\0" + protocol.get_result(self.missing))
        else:
            self._ask_position()

    def _ask_position(self) -> None:
        """Stop sending until the board has told where it is: then none of what was sent before is under way."""
        self.asked_position = True
        self._send(b"\0" + protocol.request(protocol.PING))

    def _resume(self) -> None:
        """Send again from the position just told."""
        self.asked_position = False
        self.next_chunk = self.acknowledged
        if self._is_computed():
            self._send(protocol.get_result(self.missing))  # has been lost, or is refused

    def _is_computed(self) -> bool:
        """The board has all of the lowest missing sample: its result is there or under way."""
        return self.acknowledged >= (self.missing + 1) * self.hello.chunks_per_sample

    def _check_deadline(self) -> None:
        if self.progress.is_over():
            given = self.sent >= (self.missing + 1) * self.hello.chunks_per_sample
            slow = "; a sample that takes longer needs a higher --timeout" if given else ""
            raise LinkTimeout(
                f"{self.link.port}: no progress for {self.options.deadline_s:g} s at sample {self._count()} "
                f"({self.link.describe_silence()}); finished samples are kept{slow}"
            )

    def _ask(self, frame: bytes, wanted: Callable[[protocol.Message], bool], what: str) -> protocol.Message:
        deadline = self.link.deadline(self.options.deadline_s)
        while not deadline.is_over():
            self.link.send(frame, deadline.left_s())
            asked = time.monotonic()
            while (left := asked + ASK_S - time.monotonic()) > 0:
                message = self.link.receive(left)
                if message is not None and wanted(message):
                    return message
                if isinstance(message, Hello) and self.sent:
                    raise self._restarted()
                if isinstance(message, Crashed):
                    raise crash(self.link.port, message, self.alive)
                self.alive()
        raise LinkTimeout(
            f"{self.link.port}: no answer to {what} within {self.options.deadline_s:g} s "
            f"({self.link.describe_silence()})"
        )
