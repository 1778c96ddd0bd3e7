"""`hil run` on several boards at once: one process per board, so that what happens to one does not touch the others."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from tinyhil import errors
from tinyhil.harness.records.band import time_text
from tinyhil.harness.records.bench_stats import ticks_text
from tinyhil.harness.records.figures import at_worst
from tinyhil.harness.settings.progress import TO_PARENT, Progress, read_line
from tinyhil.notice import Say
from tinyhil.processes import Started

if TYPE_CHECKING:
    from rich.console import Console

END_S = 15.0  # an interrupted run switches its board off and keeps its samples
PREFIX = "hil: "
SHARED = "HIL_SHARED"  # a folder of the processes of one run, for what one of them computes for all


@dataclass(frozen=True, slots=True)
class BoardResult:
    """`record`: of a run that came to its end; `message`: the line of one that did not, or did not pass."""

    board: str
    exit_code: int
    record: Mapping[str, Any] | None
    message: str | None

    def as_json(self) -> Mapping[str, Any]:
        """The record, else what happened instead."""
        return self.record or {"board": self.board, "exit_code": self.exit_code, "error": self.message}


def run_all(
    boards: Sequence[str], arguments: Sequence[str], say: Say, shown: Mapping[str, Progress] | None = None
) -> list[BoardResult]:
    """`hil run --board B --json ARGUMENTS` for every board; results in the order of `boards`.

    What the runs say appears as it comes, with the board's name in front. An interruption ends all of them. What boards
    of the same program must give is computed by the first of them. `shown`: where the progress of each goes;
    None: what they say of it is said.
    """
    processes: list[Started] = []
    with tempfile.TemporaryDirectory(prefix="hil-") as shared, ThreadPoolExecutor(len(boards)) as pool:
        try:
            for board in boards:
                command = [
                    sys.executable,
                    "-P",
                    "-m",
                    "tinyhil.harness.cli",
                    "run",
                    "--board",
                    board,
                    "--json",
                    *arguments,
                ]
                reporting = {} if shown is None else {TO_PARENT: "1"}
                processes.append(_start(command, {**os.environ, SHARED: shared, **reporting}))
            bars = shown or {}
            followed = [
                pool.submit(_follow, board, process, say, bars.get(board))
                for board, process in zip(boards, processes, strict=True)
            ]
            return [future.result() for future in followed]
        except BaseException:
            _end(processes)  # before the pool waits for those who follow them
            raise


def _start(command: Sequence[str], environment: Mapping[str, str]) -> Started:
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return Started(command, **pipes, env=environment, text=True, errors="replace")


def _follow(board: str, process: Started, say: Say, bar: Progress | None) -> BoardResult:
    assert process.stdout is not None
    assert process.stderr is not None
    printed: list[str] = []
    reader = threading.Thread(target=lambda out: printed.append(out.read()), args=(process.stdout,), daemon=True)
    reader.start()
    message = None
    for line in process.stderr:
        text = line.rstrip()
        found = read_line(text)
        if found is not None:
            if bar is not None:
                bar.stage = found[2]
                bar(*found[:2])
        elif text.startswith(PREFIX):
            message = text.removeprefix(PREFIX)
        elif text:
            say(text if text.startswith(f"{board}: ") else f"{board}: {text}")
    code = process.wait()
    reader.join()
    try:
        record = json.loads(printed[0])
    except (ValueError, IndexError):
        record = None
    if code != errors.EXIT_OK and message is None and code != errors.EXIT_FLAKY:
        message = f"ended by signal {-code}" if code < 0 else f"ended with code {code}"
    if message and not message.startswith(f"{board}: "):
        message = f"{board}: {message}"
    return BoardResult(board, code if code >= 0 else errors.EXIT_INTERRUPTED, record, message)


def _end(processes: Sequence[Started]) -> None:
    for process in processes:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)  # SIGINT may be ignored: by those started in the background
    for process in processes:
        process.end(END_S)


def worst_code(codes: Iterable[int]) -> int:
    """The exit code of all: a failure counts more than a failed gate, a gate more than a retry."""
    order = (errors.EXIT_OK, errors.EXIT_FLAKY, errors.EXIT_GATE)
    return max(codes, key=lambda code: order.index(code) if code in order else len(order) + code)


def as_arguments(context: click.Context, leave_out: Sequence[str]) -> list[str]:
    """The options of a command as they would be typed, but for `leave_out` and those that were not given."""
    arguments = []
    for option in context.command.params:
        value = context.params.get(option.name or "")
        if option.name in leave_out or value is None or value == option.get_default(context):
            continue
        arguments += [option.opts[0]] if value is True else [option.opts[0], str(value)]
    return arguments


def print_table(results: Sequence[BoardResult], console: Console) -> None:
    """One line per board, then what is wrong with a record."""
    from rich.table import Table
    from rich.text import Text

    from tinyhil.harness.records.verdict import issue_texts

    table = Table(box=None, pad_edge=False)
    for heading in ("board", "where", "bit-exact", "differ", "accuracy", "latency", "RAM", "at worst", "flash", "exit"):
        table.add_column(heading, overflow="fold")
    first = next((result.record for result in results if result.record), None)
    if first is not None:
        console.print(Text(f"{first['model']}, {first['format']}", "italic"))
    for result in results:
        table.add_row(*map(Text, (result.board, *_cells(result.record), str(result.exit_code))))
    console.print(table)
    for result in results:
        for text in issue_texts(result.record) if result.record else ():
            console.print(f"{result.board}: {text}", soft_wrap=True, markup=False)


def _cells(record: Mapping[str, Any] | None) -> tuple[str, ...]:
    if record is None:
        return ("-",) * 8
    latency, memory = record["latency"], record["memory"]
    ram = memory["static_bytes"] if memory["total_bytes"] is None else memory["total_bytes"]
    time = "" if latency["median_us"] is None else f" ({time_text(latency['median_us'])})"
    accuracy = "-" if record["accuracy"] is None else f"{100 * record['accuracy']:.2f} %"
    return (
        record["provenance"]["port"] or ("emulated" if record["emulator"] else "here"),
        f"{'yes' if record['bit_exact'] else 'NO'}: {record['equal_samples']} of {record['samples']}",
        "-" if record["disagreements"] is None else str(record["disagreements"]),
        accuracy,
        f"{ticks_text(latency['median'])} {latency['unit']}{time}",
        f"{ram} B",
        "-" if (worst := at_worst(memory)) is None else f"{worst} B",
        f"{record['flash_bytes']} B",
    )
