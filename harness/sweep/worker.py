"""Our side of a process that carries out cells: an order in, its outcome out, whatever becomes of the process."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from tinyhil import errors
from tinyhil.notice import Say
from tinyhil.processes import Started

COMMAND = (sys.executable, "-P", "-m", "tinyhil.harness.sweep.work")
END_S = 15.0  # an interrupted run switches its board off and keeps its samples


class Worker:
    """A process that ends with ours, killed or not."""

    def __init__(self) -> None:
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = Started(
            COMMAND,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )

    def carry_out(self, order: Mapping[str, Any], say: Say) -> dict[str, Any]:
        """The outcome of an order; of a process that died, that it died."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(order) + "\n")
            self._process.stdin.flush()
            for line in self._process.stdout:
                answer = json.loads(line)
                if "outcome" in answer:
                    outcome: dict[str, Any] = answer["outcome"]
                    return outcome
                say(answer["say"])
        except (OSError, ValueError):  # it died while we wrote, or while it wrote
            pass
        return self._died(order)

    @property
    def is_alive(self) -> bool:
        """It has not ended, as far as the system knows."""
        return self._process.poll() is None

    def end(self) -> None:
        """As Ctrl-C would; by force if that does not help."""
        self._process.end(END_S)
        for stream in (self._process.stdin, self._process.stdout, self._complaints):
            if stream is not None:
                with suppress(OSError):  # an order that a dead process never read
                    stream.close()

    def _died(self, order: Mapping[str, Any]) -> dict[str, Any]:
        code = self._process.end()
        lines: list[str] = []
        with suppress(ValueError):  # we are ending, and it is closed
            self._complaints.seek(0)
            lines = self._complaints.read().decode(errors="replace").strip().splitlines()
        said = f"its process ended by signal {-code}" if code < 0 else f"its process ended with code {code}"
        said += f": {lines[-1]}" if lines and code > 0 else ""
        code = errors.EXIT_INTERRUPTED if code < 0 else errors.EXIT_DEFECT
        return {"key": order["key"], "exit_code": code, "error": said, "record": None, "search": None}


class Workers:
    """Processes that are there already, and new ones as they are needed; for several threads at once."""

    def __init__(self) -> None:
        self._idle: queue.SimpleQueue[Worker] = queue.SimpleQueue()
        self._all: list[Worker] = []

    def carry_out(self, order: Mapping[str, Any], say: Say = lambda line: None) -> dict[str, Any]:
        """The outcome of one order, by a free worker or a new one; one that died is not used again."""
        worker = self._take()
        outcome = worker.carry_out(order, say)
        if worker.is_alive:
            self._idle.put(worker)
        return outcome

    def end(self) -> None:
        """End all of them."""
        for worker in self._all:
            worker.end()

    def _take(self) -> Worker:
        while True:
            try:
                worker = self._idle.get_nowait()
            except queue.Empty:
                self._all.append(worker := Worker())
                return worker
            if worker.is_alive:
                return worker
