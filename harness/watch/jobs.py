"""Runs that the page starts again: commands that records hold, none but those that measure."""

from __future__ import annotations

import shlex
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from tinyhil.errors import ConfigError
from tinyhil.processes import Started

VERBS = ("run", "profile", "bench")
MOST_JOBS = 4  # at a time
GRACE_S = 10.0  # for a run to end in order
SHOWN = 600  # characters of what a job printed last


@dataclass
class Job:
    """A process, its command as the record has it, and where it prints."""

    command: str
    process: Started
    output: IO[bytes]

    def as_plain(self) -> dict[str, Any]:
        """Its state in words, with the end of what it printed."""
        code = self.process.poll()
        self.output.seek(0)
        said = self.output.read().decode("utf-8", "replace")[-SHOWN:]
        return {"command": self.command, "exit_code": code, "said": said}


@dataclass
class Jobs:
    """Those that were started here; `folder`: where they run."""

    folder: Path
    started: list[Job] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def start(self, command: str) -> None:
        """Run a command of ours that measures; ConfigError for any other, or if enough are running."""
        words = words_of(command)
        with self.lock:
            if sum(job.process.poll() is None for job in self.started) >= MOST_JOBS:
                raise ConfigError(f"{MOST_JOBS} jobs are running; wait for one to end")
            output = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the job is shown
            program = [sys.executable, "-m", "tinyhil.harness.cli", *words]
            streams = {"stdin": subprocess.DEVNULL, "stdout": output, "stderr": subprocess.STDOUT}
            process = Started(program, cwd=self.folder, **streams)
            self.started.append(Job(command, process, output))

    def as_plain(self) -> list[dict[str, Any]]:
        """The newest first."""
        with self.lock:
            return [job.as_plain() for job in reversed(self.started)]

    def stop(self) -> None:
        """End those that still run, as Ctrl-C would."""
        for job in self.started:
            job.process.end(GRACE_S)
            job.output.close()


def words_of(command: str) -> list[str]:
    """The arguments of a `hil` command that only measures; ConfigError for anything else."""
    try:
        program, *words = shlex.split(command)
    except ValueError:
        program, words = "", []
    if program != "hil" or not words or words[0] not in VERBS:
        raise ConfigError(f"only `hil {'`, `hil '.join(VERBS)}` of a record are run again, not {command[:60]!r}")
    return words
