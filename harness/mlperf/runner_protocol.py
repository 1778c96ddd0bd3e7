"""The runner's side of MLPerf Tiny's protocol: commands in text that end in '%', lines up to "m-ready"."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TextIO

import serial

from tinyhil.errors import BoardError, DeviceCrashed, LinkError, LinkTimeout, WrongFirmware
from tinyhil.harness.boards.connection import Connection
from tinyhil.harness.wire.deadline import Deadline
from tinyhil.harness.wire.link import reason
from tinyhil.quoting import printable

READY = "m-ready"
SETTLING = b"settle%"  # no command at all
NAMED = r"m-name-dut-\[(.*)\]"
ANSWER_S = 10.0
SLICE_S = 0.02
MOST_LINE_BYTES = 4096
MOST_LINES = 1000  # of one answer; it has a handful
BYTES_PER_COMMAND = 31  # as the official runner sends


class ProtocolError(LinkError):
    """The board answered a command with an error of the protocol, or with something else than was asked for."""


@dataclass(frozen=True, slots=True)
class Inference:
    """One `infer`: how many, what came out, and microseconds between the two timestamps (None in energy mode)."""

    count: int
    results: tuple[float, ...]
    elapsed_us: int | None


def elapsed_us(lines: Sequence[str]) -> int | None:
    """Microseconds between the two timestamps of an answer; None in energy mode."""
    laps = [int(match[1]) for line in lines if (match := re.fullmatch(r"m-lap-us-(\d+)", line))]
    return (laps[1] - laps[0]) % (1 << 32) if len(laps) == 2 else None


class Device:
    """A board behind an open port. `log` gets every line, as the official runner's log does."""

    def __init__(self, board: Connection, baud: int, log: TextIO | None = None) -> None:
        self.log = log
        self._board, self._pending = board, b""
        try:
            self._serial = serial.serial_for_url(
                board.port, baudrate=baud, timeout=SLICE_S, write_timeout=ANSWER_S, exclusive=True
            )
        except (OSError, ValueError) as error:
            raise BoardError(f"port {board.port} can not be opened: {reason(error)}; see `hil boards`") from None

    def __enter__(self) -> Device:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._serial.close()

    def settle(self, quiet_s: float) -> None:
        """End a command that somebody left unfinished, throw away what comes until the line is quiet, and what comes
        before the board says its name: one that starts late greets after that quiet. Not by an empty command: that
        makes firmware of others (HALE's of v1.2) print its memory.

        LinkError if the board never stops talking, LinkTimeout or ProtocolError if it never says its name.
        """
        self._write(SETTLING)
        deadline = Deadline(ANSWER_S, self._board.starved_s)
        while self._read_line(quiet_s) is not None:
            if deadline.is_over():
                raise LinkError(f"{self._board.port}: never stops talking; is this firmware MLPerf Tiny's?")
        self._pending = b""
        lines = self._answer("name", ANSWER_S)
        for _ in range(2):  # a greeting, and what that command was answered with
            if any(re.fullmatch(NAMED, line) for line in lines):
                return
            lines = self.greeting(ANSWER_S)
        self._bracketed(lines, NAMED)

    def ask(self, command: str, timeout_s: float = ANSWER_S) -> list[str]:
        """The lines of the answer without the last, which is "m-ready". LinkTimeout, ProtocolError."""
        lines = self._answer(command, timeout_s)
        bad = next((line for line in lines if line.startswith("e-[")), None)
        if bad is not None:
            raise ProtocolError(f"{self._board.port}: {command[:40]!r} was answered with {printable(bad, 120)}")
        return lines

    def _answer(self, command: str, timeout_s: float) -> list[str]:
        self._write(command.encode("ascii") + b"%")
        self._note(f"> {command}%")
        lines = self._until_ready(timeout_s)
        if lines is None:
            raise LinkTimeout(f"{self._board.port}: no answer to {command[:40]!r} within {timeout_s:g} s")
        return lines

    def greeting(self, timeout_s: float) -> list[str]:
        """What a board that was just switched on says by itself. LinkTimeout."""
        lines = self._until_ready(timeout_s)
        if lines is None:
            raise LinkTimeout(f"{self._board.port}: silent for {timeout_s:g} s after it was switched on")
        return lines

    def _until_ready(self, timeout_s: float) -> list[str] | None:
        """Lines before "m-ready"; None if the board falls silent."""
        lines: list[str] = []
        while (line := self._read_line(timeout_s)) is not None:
            if line == READY:
                return lines
            if line:
                lines.append(line)
            if len(lines) > MOST_LINES:
                raise LinkError(f"{self._board.port}: an answer of more than {MOST_LINES} lines; wrong firmware?")
        return None

    def name(self) -> str:
        """What the board calls itself; ProtocolError if it answers something else."""
        return self._bracketed(self.ask("name"), NAMED)

    def model(self) -> str:
        """The benchmark that the firmware is for, as `kws01`."""
        return self._bracketed(self.ask("profile"), r"m-model-\[(.*)\]")

    def check_image(self, expected: bytes) -> None:
        """WrongFirmware unless the firmware is this image; that of others does not say."""
        found = self._bracketed(self.ask("profile"), r"m-image-\[([0-9a-f]*)\]")
        if found != expected.hex():
            raise WrongFirmware(f"{self._board.port}: runs image {found}, not {expected.hex()}; flash again")

    def load(self, raw: bytes, most_bytes: int = BYTES_PER_COMMAND) -> None:
        """The input of the next inferences, so many bytes a command. ProtocolError if the board wants more."""
        self.ask(f"db load {len(raw)}")
        answer: list[str] = []
        for at in range(0, len(raw), most_bytes):
            answer = self.ask(f"db {raw[at : at + most_bytes].hex()}")
        if answer[-1:] != ["m-load-done"]:
            raise ProtocolError(f"{self._board.port}: {len(raw)} bytes were sent and the board waits for more")

    def infer(self, count: int, warm_up: int, timeout_s: float) -> Inference:
        """ProtocolError for results that are no numbers."""
        lines = self.ask(f"infer {count} {warm_up}", timeout_s)
        found = self._bracketed(lines, r"m-results-\[(.*)\]")
        elapsed = elapsed_us(lines)
        try:
            results = tuple(float(word) for word in found.split(","))
        except ValueError:
            raise ProtocolError(f"{self._board.port}: results {printable(found, 80)} are no numbers") from None
        return Inference(count, results, elapsed)

    def _bracketed(self, lines: list[str], pattern: str) -> str:
        found = next((match[1] for line in lines if (match := re.fullmatch(pattern, line))), None)
        if found is None:
            heard = printable(" / ".join(lines), 120) or "nothing"
            raise ProtocolError(f"{self._board.port}: expected {pattern}, heard {heard}")
        return found

    def _write(self, data: bytes) -> None:
        try:
            self._serial.write(data)
        except serial.SerialTimeoutException:
            raise LinkTimeout(f"{self._board.port}: the port takes no bytes; is the board alive?") from None
        except OSError as error:
            raise LinkError(f"{self._board.port}: the port failed while sending ({reason(error)})") from None

    def _read_line(self, timeout_s: float) -> str | None:
        """The next line without its end; None if none comes in time. DeviceCrashed if the board is known to be dead."""
        deadline = Deadline(timeout_s, self._board.starved_s)
        begun = Deadline(timeout_s + ANSWER_S, self._board.starved_s)
        while b"\n" not in self._pending:
            try:
                received = self._serial.read(max(1, self._serial.in_waiting))
            except OSError as error:
                raise LinkError(f"{self._board.port}: the port failed while receiving ({reason(error)})") from None
            self._pending += received
            if len(self._pending) > MOST_LINE_BYTES and b"\n" not in self._pending:
                heard = f"{printable(repr(self._pending[:24]), 80)}, {len(self._pending)} bytes"
                raise LinkError(
                    f"{self._board.port}: babbles without line ends ({heard}); wrong port, baud rate or firmware?"
                )
            if not received:
                self._board.alive()
                if deadline.is_over():
                    return None
            elif begun.is_over():
                raise LinkError(f"{self._board.port}: a line that never ends; wrong port, baud rate or firmware")
        line, self._pending = self._pending.split(b"\n", 1)
        text = line.decode("ascii", "replace").strip("\r\0")
        self._note(f"< {text}")
        if text.startswith("e-[Processor fault"):
            self._board.alive()
            raise DeviceCrashed(f"the firmware crashed: {printable(text, 80)}")
        return text

    def _note(self, line: str) -> None:
        if self.log is not None:
            self.log.write(line + "\n")
