"""Host side of a session: greet the board, stream samples under its credits, collect results exactly once.

Lost and damaged frames are repeated from the position the board names (go-back-N); results are asked for again by id.
"""

from __future__ import annotations

import binascii
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from harness import protocol
from harness.link import Link
from harness.protocol import Ack, Hello, Position, Result, Stats
from tinyhil.errors import DeviceCrashed, LinkError, LinkTimeout, WrongFirmware

OnResult = Callable[[int, Result], None]
Alive = Callable[[], None]  # raises DeviceCrashed when the board is known to be dead


@dataclass(frozen=True, slots=True)
class Options:
    """`mode`: quiet (wire idle while timing) or stream. `deadline_s`: longest time without progress.

    `patience_s`: silence after which the host asks again; doubled up to 5 s while the board stays silent.
    """

    mode: int = protocol.QUIET
    deadline_s: float = 30.0
    patience_s: float = 1.0


def greet(link: Link, deadline_s: float, banner_s: float, alive: Alive) -> Hello:
    """Wait for the HELLO a board sends after its reset, from `banner_s` on ask for it; LinkTimeout after `deadline_s`."""
    begin = time.monotonic()
    asked = begin + banner_s
    while (now := time.monotonic()) < begin + deadline_s:
        if now >= asked:
            link.send(b"\0" + protocol.request(protocol.HELLO_REQUEST))
            asked = now + 1.0
        message = link.receive(min(0.2, max(asked - now, 0.01)))
        if isinstance(message, Hello):
            return message
        alive()
    raise LinkTimeout(f"{link.port}: no HELLO within {deadline_s:.0f} s ({link.describe_silence()})")


def check_identity(hello: Hello, image_hash: bytes, port: str) -> None:
    """WrongFirmware unless the board runs exactly the image just built."""
    if hello.protocol != protocol.VERSION:
        raise WrongFirmware(
            f"{port}: firmware speaks protocol {hello.protocol}, this is {protocol.VERSION}; flash again"
        )
    if hello.image_hash != image_hash:
        raise WrongFirmware(
            f"{port}: the board runs image {hello.image_hash.hex()}, not {image_hash.hex()} that was just built; flash again"
        )


def stream(
    link: Link, hello: Hello, samples: Sequence[bytes], options: Options, on_result: OnResult, alive: Alive
) -> Stats:
    """Stream all `samples` (raw input bytes each); `on_result(index, result)` is called once per sample, in any order.

    Returns the board's totals after checking its CRC-32 over all outputs. LinkTimeout without progress for
    `options.deadline_s`, DeviceCrashed if the board restarts in the middle.
    """
    session = _Session(link, hello, samples, options, on_result, alive)
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
    acknowledged: int = 0
    limit: int = 0
    next_chunk: int = 0
    missing: int = 0  # lowest sample without a result
    outputs: dict[int, bytes] = field(default_factory=dict)
    crc32: int = 0
    rewind_on_ack: bool = False
    progress_at: float = 0.0

    def start(self) -> None:
        """Begin the session; repeated until the board says so."""
        frame = b"\0" + protocol.start(self.options.mode)
        ack = self._ask(frame, lambda m: isinstance(m, Ack) and bool(m.flags & protocol.STARTED), "START")
        assert isinstance(ack, Ack)
        self.limit = ack.position.credit
        self.progress_at = time.monotonic()

    def run(self) -> None:
        patience = self.options.patience_s
        while self.missing < len(self.samples):
            self._send_allowed()
            message = self.link.receive(patience)
            self.alive()
            if message is None:
                self._ask_again()
                patience = min(2 * patience, 5.0)
                continue
            if self._handle(message):
                self.progress_at = time.monotonic()
                patience = self.options.patience_s
            self._check_deadline()

    def finish(self) -> Stats:
        """Fetch the totals and compare the board's checksum over all outputs with ours."""
        stats = self._ask(protocol.request(protocol.FINISH), lambda m: isinstance(m, Stats), "FINISH")
        assert isinstance(stats, Stats)
        if stats.output_crc32 != self.crc32 or stats.samples != len(self.samples) & 0xFFFF:
            raise LinkError(
                f"{self.link.port}: the board's checksum over {stats.samples} outputs differs from what was received; "
                "results are not to be trusted"
            )
        return stats

    def _send_allowed(self) -> None:
        per_sample, size = self.hello.chunks_per_sample, self.hello.chunk_bytes
        # the board keeps its two newest results: sample s + 2 may only start once the result of s is here
        end = min(self.limit, (self.missing + 2) * per_sample, len(self.samples) * per_sample)
        frames = []
        for index in range(self.next_chunk, end):
            sample, chunk = divmod(index, per_sample)
            frames.append(protocol.data(sample, chunk, self.samples[sample][chunk * size : (chunk + 1) * size]))
        if frames:
            self.link.send(b"".join(frames))
            self.next_chunk = end

    def _handle(self, message: protocol.Message) -> bool:
        """Take in one message; True if it brought the session forward."""
        if isinstance(message, Result):
            moved = self._take_position(message.position)
            return self._take_result(message) or moved
        if isinstance(message, Ack):
            moved = self._take_position(message.position)
            if (message.flags & protocol.RESEND or self.rewind_on_ack) and not moved:
                self.next_chunk = max(self._linear(message.position), self.acknowledged)
            elif message.flags & protocol.RESEND or self.rewind_on_ack:
                self.next_chunk = self.acknowledged
            self.rewind_on_ack = False
            return moved
        if isinstance(message, Hello):
            raise DeviceCrashed(
                f"{self.link.port}: the board restarted after sample {self.missing}; `hil run` resumes there"
            )
        return False  # refused: a result that is not computed yet

    def _take_position(self, position: Position) -> bool:
        linear = self._linear(position)
        if linear < self.acknowledged:
            return False  # overtaken by a newer one
        moved = linear > self.acknowledged or linear + position.credit > self.limit
        self.acknowledged = linear
        self.limit = max(self.limit, linear + position.credit)
        self.next_chunk = max(self.next_chunk, linear)
        return moved

    def _linear(self, position: Position) -> int:
        return self._unwrap(position.sample) * self.hello.chunks_per_sample + position.chunk

    def _unwrap(self, sample: int) -> int:
        """The full sample number behind its lower 16 bits, nearest to where the session is."""
        return self.missing + (sample - self.missing + 0x8000) % 0x10000 - 0x8000

    def _take_result(self, result: Result) -> bool:
        sample = self._unwrap(result.sample)
        if not self.missing <= sample < len(self.samples) or sample in self.outputs:
            return False
        if len(result.output) != self.hello.output_bytes:
            raise LinkError(
                f"{self.link.port}: result of {len(result.output)} bytes, expected {self.hello.output_bytes}"
            )
        self.outputs[sample] = result.output
        self.on_result(sample, result)
        while self.missing in self.outputs:
            self.crc32 = binascii.crc32(self.outputs.pop(self.missing), self.crc32)
            self.missing += 1
        if self.outputs:  # a later one is here: the one in between was lost
            self.link.send(protocol.get_result(self.missing))
        return True

    def _ask_again(self) -> None:
        self._check_deadline()
        if self.acknowledged >= (self.missing + 1) * self.hello.chunks_per_sample:
            self.link.send(b"\0" + protocol.get_result(self.missing))
        else:
            self.rewind_on_ack = True
            self.link.send(b"\0" + protocol.request(protocol.PING))

    def _check_deadline(self) -> None:
        if time.monotonic() - self.progress_at > self.options.deadline_s:
            raise LinkTimeout(
                f"{self.link.port}: no progress for {self.options.deadline_s:.0f} s at sample {self.missing} of "
                f"{len(self.samples)} ({self.link.describe_silence()}); finished samples are kept"
            )

    def _ask(self, frame: bytes, wanted: Callable[[protocol.Message], bool], what: str) -> protocol.Message:
        begin = time.monotonic()
        while time.monotonic() < begin + self.options.deadline_s:
            self.link.send(frame)
            asked = time.monotonic()
            while (left := asked + self.options.patience_s - time.monotonic()) > 0:
                message = self.link.receive(left)
                if message is not None and wanted(message):
                    return message
                self.alive()
        raise LinkTimeout(
            f"{self.link.port}: no answer to {what} within {self.options.deadline_s:.0f} s ({self.link.describe_silence()})"
        )
