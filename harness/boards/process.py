"""A board that is a process: it prints JSON events on stdout, the first of which names its pty."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from tinyhil import files
from tinyhil.errors import BoardError, DeviceCrashed
from tinyhil.harness.wire.deadline import starved_s
from tinyhil.processes import Started

READY_S = 300.0  # it ends earlier if it can not start
EXIT_S = 60.0
FAILED_EXIT_S = 0.3  # nobody waits for the last words of a board that has failed


class ProcessBoard:
    """Starts `command` and follows its events. Ends it by closing its stdin, so it never outlives us."""

    def __init__(self, command: Sequence[str], log: Path, banner_s: float, drives: tuple[Path, ...] = ()) -> None:
        self.banner_s = banner_s
        self.drives = drives  # that its boot loader may show
        self.events: list[Mapping[str, Any]] = []
        self._log = log
        self._ready = threading.Event()
        with files.opened(log, "w") as stderr:
            try:
                self._process = Started(
                    command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, text=True
                )
            except OSError as error:
                raise BoardError(f"{command[0]} can not be started: {error.strerror}; see `hil doctor`") from None
        self._reader = threading.Thread(target=self._follow, daemon=True)
        self._reader.start()
        self.port = self._wait_ready(command[0])

    def alive(self) -> None:
        """DeviceCrashed if the program has ended or its firmware crashed."""
        for event in self.events:
            if event.get("event") == "fault":
                why, pc = event.get("why", "?"), event.get("pc", "?")
                raise DeviceCrashed(f"the firmware crashed: {why} at pc {pc}", None if pc == "?" else int(pc, 0))
        if self._process.poll() is not None:
            raise DeviceCrashed(f"the board's process ended with code {self._process.returncode}; log: {self._log}")

    def starved_s(self) -> float:
        """Seconds that the emulator was ready to run and got no processor."""
        return starved_s(self._process.pid)

    def finish(self) -> Mapping[str, Any]:
        """End it; its `exit` event, empty if it gave none."""
        self.close()
        return next((event for event in self.events if event.get("event") == "exit"), {})

    def __enter__(self) -> ProcessBoard:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close(EXIT_S if error is None else FAILED_EXIT_S)

    def close(self, grace_s: float = EXIT_S) -> None:
        """End the process, by force if it does not listen."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(grace_s)
        except subprocess.TimeoutExpired:
            self._process.end()
        self._reader.join(EXIT_S)

    def _follow(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            try:
                event = json.loads(line)
            except ValueError:
                continue
            self.events.append(event)
            if event.get("event") == "ready":
                self._ready.set()
        self._ready.set()

    def _wait_ready(self, program: str) -> str:
        self._ready.wait(READY_S)
        for event in self.events:
            if event.get("event") == "ready":
                return str(event["pty"])
        self._process.end()
        detail = self._log.read_text(errors="replace").strip().splitlines()
        raise BoardError(f"{program} did not offer a port: {detail[-1] if detail else 'no message'}; log: {self._log}")
