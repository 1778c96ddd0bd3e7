"""`hil run` on several boards at once: every board its record, one table, the worst exit code, nothing lost."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
from boards_under_test import EVERY, by_compiler
from hil_command import check_failure, finished_samples, hil, record_of, start_hil, wait_until

import tinyhil
from tinyhil.harness.commands.run import run
from tinyhil.harness.measure import expected
from tinyhil.harness.measure.parallel import SHARED, as_arguments, run_all, worst_code

ONE_OF_EACH_COMPILER = tuple(name for name in by_compiler(EVERY) if isinstance(name, str))
MODEL, SMALL = ("--model", "fastgrnn_har"), ("--model", "digits_mlp")


def named(boards: Iterable[str]) -> list[str]:
    return [word for board in boards for word in ("--board", board)]


@pytest.mark.parametrize("boards", [ONE_OF_EACH_COMPILER, pytest.param(EVERY, marks=pytest.mark.slow)])
def test_every_board_is_measured_as_if_it_were_alone(boards: tuple[str, ...], tmp_path: Path) -> None:
    done = hil("run", *named(boards), *MODEL, "--samples", 4, "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    records = json.loads(done.stdout)
    assert [record["board"] for record in records] == [*boards]
    assert all(record["bit_exact"] for record in records)
    alone = record_of(hil("run", "--board", "due", *MODEL, "--samples", 4, "--json", cwd=tmp_path))
    assert alone["raw"] == records[boards.index("due")]["raw"]
    assert len(list((tmp_path / "results").glob("*/*/*.json"))) == len(boards) + 1


def test_one_failure_leaves_the_others_their_results(tmp_path: Path) -> None:
    boards = ("--board", "host", "--board", "due@nobody", "--board", "nothing")
    done = hil("run", *boards, *SMALL, "--samples", 4, cwd=tmp_path)
    assert done.returncode == 3, done.stderr
    title, header, *rows = [line.split() for line in done.stdout.splitlines()]
    assert (title, header[0]) == (["digits_mlp,", "fixed16"], "board")
    assert [(row[0], row[-1]) for row in rows] == [("host", "0"), ("due@nobody", "3"), ("nothing", "3")]
    assert "yes: 4 of 4" in done.stdout
    failures = [line for line in done.stderr.splitlines() if line.startswith("hil: ")]
    assert len(failures) == 2
    assert "due@nobody: no due with serial number or role 'nobody'" in failures[0]
    assert len(list((tmp_path / "results").glob("host/*/*.json"))) == 1
    assert "no board named 'nothing'" in failures[1]
    as_json = hil("run", *boards[:2], *boards[4:], *SMALL, "--samples", 4, "--json", cwd=tmp_path)
    host, nothing = json.loads(as_json.stdout)
    assert host["bit_exact"]
    assert (nothing["board"], nothing["exit_code"]) == ("nothing", 3)
    assert "no board named 'nothing'" in nothing["error"]


def test_the_reference_is_checked_once_and_only_of_what_is_streamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Boards of the same program, one after the other as their processes would be."""
    computed: list[tuple[str, int]] = []
    for name in ("run_reference", "evaluate"):
        real = getattr(expected, name)

        def counted(first: Any, x: np.ndarray, name: str = name, real: Any = real, **options: Any) -> Any:
            computed.append((name, len(x)))
            return real(first, x, **options)

        monkeypatch.setattr(expected, name, counted)
    model = tinyhil.load("digits_mlp")
    found = model.run("host", samples=3, formats="fixed8")
    assert (found.samples, computed) == (3, [("run_reference", 3), ("evaluate", 3)])
    monkeypatch.setenv(SHARED, str(tmp_path))
    computed.clear()
    records = [model.run(board, samples=3, formats="fixed8") for board in ("host", "due", "uno")]
    assert computed == [("run_reference", 3), ("evaluate", 3)]
    assert [record.bit_exact for record in records] == [True] * 3
    assert all(record.raw.outputs == found.raw.outputs for record in records)
    model.run("host", samples=4, formats="fixed8")
    assert computed[2:] == [("run_reference", 4), ("evaluate", 4)]


def test_the_processes_of_a_run_share_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "told"
    program = tmp_path / "python"
    program.write_text(f'#!/bin/sh\n[ -d "$HIL_SHARED" ] && echo "$HIL_SHARED" >>{log}\necho "{{}}"\n')
    program.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(program))
    run_all(["uno", "due"], [], print)
    first, second = log.read_text().split()
    assert first == second
    assert not Path(first).exists()


@pytest.mark.slow
def test_an_interruption_ends_all_and_keeps_their_samples(tmp_path: Path) -> None:
    process = start_hil("run", "--board", "due", "--board", "h747", *MODEL, "--samples", 950, cwd=tmp_path)
    wait_until(lambda: len(list((tmp_path / "results").glob("*/*.partial.jsonl"))) == 2)
    wait_until(lambda: finished_samples(tmp_path / "results") > 10)
    os.kill(process.pid, signal.SIGTERM)
    _, err = process.communicate()
    assert process.returncode == 130, err
    assert finished_samples(tmp_path / "results") > 10


def test_a_port_is_for_one_board(tmp_path: Path) -> None:
    check_failure(
        hil("run", *named(EVERY), *MODEL, "--port", "/dev/ttyACM0", cwd=tmp_path), 2, "--port is for one board"
    )


@pytest.mark.parametrize(
    ("codes", "worst"),
    [((0, 0), 0), ((0, 9), 9), ((9, 1), 1), ((1, 2), 2), ((3, 6, 1, 9, 0), 6), ((7, 130), 130)],
)
def test_the_worst_code(codes: tuple[int, ...], worst: int) -> None:
    assert worst_code(codes) == worst_code(reversed(codes)) == worst


@pytest.mark.parametrize(
    "given",
    [
        [],
        ["--samples", "7", "--no-flash"],
        ["--format", "fixed8", "--inputs", "x.npz", "--timeout", "2.5", "--retries", "1", "--wait", "0"],
        ["--mode", "stream", "--realtime", "--results", "elsewhere", "--boards-file", "b.yaml", "--bench", "d.yaml"],
    ],
)
def test_options_reach_every_board_as_they_were_given(given: list[str]) -> None:
    with run.make_context("run", ["--board", "due", "--model", "m.onnx", "--json", *given]) as context:
        arguments = as_arguments(context, leave_out=("board_names", "as_json"))
    with run.make_context("run", ["--board", "due", "--json", *arguments]) as again:
        assert again.params == context.params
    assert isinstance(context, click.Context)
    assert "--json" not in arguments
    assert len(arguments) == len(given) + 2
