"""A serial link with deadlines: pyserial underneath, messages above. Nothing here waits for ever."""

from __future__ import annotations

import os
import re
import time
from collections import deque
from types import TracebackType
from typing import Self

import serial

from tinyhil import time_limit
from tinyhil.errors import BoardError, LinkError, LinkTimeout
from tinyhil.harness.wire.deadline import Deadline, Starved
from tinyhil.harness.wire.protocol import Message, Splitter

READ_SLICE_S = 0.02
WRITE_TIMEOUT_S = 5.0
BABBLE_BYTES = 4096  # this much without a single valid frame is no board of ours
MOST_DAMAGED_BYTES = 1 << 16  # behind a valid frame: at 1e-2 damage per byte, no valid one in as many once in 1e19
MOST_READ_BYTES = 1 << 14  # at once: who floods us is looked at in between


def wait_for_port(port: str | None, timeout_s: float) -> None:
    """After a brown-out the system takes a moment to make the port anew; whoever opens it reports its absence."""
    deadline = time.monotonic() + timeout_s
    while port is not None and port.startswith("/") and not os.path.exists(port) and time.monotonic() < deadline:
        time.sleep(READ_SLICE_S)


def reason(error: Exception) -> str:
    """Why a port failed, once: pyserial puts the system's words into a sentence of its own, which says them again."""
    number = getattr(error, "errno", None)
    if number:
        return os.strerror(number)
    inner = re.search(r"\[Errno (\d+)\]", str(error))
    return os.strerror(int(inner[1])) if inner else " ".join(str(error).split()) or type(error).__name__


class Link:
    """An open port. `port` is a path or any URL pyserial knows (`socket://`, `rfc2217://`).

    `board_starved`: of an emulated board, the seconds it has waited for a processor, see starved_s.
    """

    def __init__(self, port: str, baud: int, board_starved: Starved = lambda: 0.0) -> None:
        self.port = port
        self._board_starved = board_starved
        self._write_timeout_s = None if port.startswith("rfc2217:") else WRITE_TIMEOUT_S  # which refuses to have one
        try:
            self._serial = serial.serial_for_url(
                port, baudrate=baud, timeout=READ_SLICE_S, write_timeout=self._write_timeout_s, exclusive=True
            )
        except (OSError, ValueError) as error:  # serial.SerialException is an OSError
            if port.startswith("rfc2217:") and "RFC2217" in str(error):
                raw = port.replace("rfc2217:", "socket:", 1)
                raise BoardError(
                    f"port {port}: the server speaks no RFC 2217; is it a raw socket? then {raw}"
                ) from None
            raise BoardError(
                f"port {port} can not be opened: {reason(error)}; `hil boards` lists the attached ones"
            ) from None
        self._splitter = Splitter()
        self._waiting: deque[Message] = deque()
        self._without_frame = 0  # bytes since the last valid one

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._serial.close()

    def deadline(self, seconds: float) -> Deadline:
        """A deadline for the board behind this link, beginning now."""
        return Deadline(seconds, self._board_starved)

    def send(self, frame: bytes, timeout_s: float = WRITE_TIMEOUT_S) -> None:
        """Send bytes; LinkTimeout if the port does not take them in time, LinkError if it is gone."""
        try:
            self._limit_write(timeout_s)
            self._serial.write(frame)
        except serial.SerialTimeoutException:
            raise LinkTimeout(
                f"{self.port}: the port takes no bytes for {self._write_timeout_s:g} s; is the board alive?"
            ) from None
        except OSError as error:
            raise self._gone("sending", error) from None

    def _limit_write(self, timeout_s: float) -> None:
        """In steps of half a second, because every change is a system call."""
        steps_s = min(WRITE_TIMEOUT_S, max(0.5, round(2 * timeout_s) / 2))
        if self._write_timeout_s is not None and steps_s != self._write_timeout_s:
            self._serial.write_timeout = self._write_timeout_s = steps_s

    def receive(self, timeout_s: float) -> Message | None:
        """The next message, or None after `timeout_s`. LinkError if the line babbles or the port is gone."""
        deadline = time.monotonic() + timeout_s
        expired = False
        while not self._waiting:
            if expired:
                return None
            expired = time.monotonic() >= deadline
            time_limit.check()
            try:
                available = self._serial.in_waiting
                if expired and available == 0:
                    return None
                received = self._serial.read(max(1, min(available, MOST_READ_BYTES)))
            except OSError as error:
                raise self._gone("receiving", error) from None
            self._take(received)
        return self._waiting.popleft()

    @property
    def bad_frames(self) -> int:
        """Frames from the board that were damaged."""
        return self._splitter.bad_frames

    def describe_silence(self) -> str:
        """What was heard, for time-out messages."""
        s = self._splitter
        return "nothing was received" if s.total_bytes == 0 else f"{s.total_bytes} bytes, {s.good_frames} valid frames"

    def _gone(self, doing: str, error: OSError) -> LinkError:
        return LinkError(
            f"{self.port}: the port failed while {doing} ({reason(error)}): is the cable in and the board powered? "
            "finished samples are kept and the same command resumes"
        )

    def _take(self, received: bytes) -> None:
        """Bytes are no progress, frames are."""
        s, before = self._splitter, self._splitter.good_frames
        self._waiting.extend(s.feed(received))
        self._without_frame = 0 if s.good_frames > before else self._without_frame + len(received)
        if self._without_frame > (MOST_DAMAGED_BYTES if s.good_frames else BABBLE_BYTES):
            raise LinkError(
                f"{self.port}: babbles: {self._without_frame} bytes and no valid frame; "
                "wrong port, wrong baud rate or foreign firmware"
            )
