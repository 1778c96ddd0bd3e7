"""What a run tells of itself: lines without a terminal, lines for a parent, bars; completion and help."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete
from hil_command import hil
from rich.console import Console

from tinyhil.harness.cli import GROUPS
from tinyhil.harness.cli import hil as group
from tinyhil.harness.measure.run import Clock
from tinyhil.harness.settings.progress import (
    DOING,
    TO_PARENT,
    USUAL_S,
    Progress,
    heartbeat,
    heartbeat_s,
    progress_on,
    read_line,
)


def test_the_line_of_a_run_that_nobody_watches() -> None:
    progress = Progress()
    assert heartbeat("uno", progress, 30) == "uno: starting, 30 s"
    with Clock(progress.enter).stage("flash"):
        assert heartbeat("uno", progress, 60.4) == "uno: flashing, 60 s"
    progress.enter("stream")
    progress(12, 950)
    assert heartbeat("uno", progress, 90) == "uno: running, 12 of 950 samples, 90 s"


@pytest.mark.parametrize(
    ("setting", "seconds"), [(None, USUAL_S), ("5", 5.0), ("0", 0.0), ("soon", USUAL_S), ("-1", 0.0)]
)
def test_how_often(setting: str | None, seconds: float) -> None:
    assert heartbeat_s({} if setting is None else {"HIL_HEARTBEAT_S": setting}) == seconds


def test_lines_come_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """At least one, however busy the machine is: the run ends only after it."""
    monkeypatch.setenv("HIL_HEARTBEAT_S", "0.01")
    text = io.StringIO()
    with progress_on(Console(file=text), "due") as progress:
        progress.enter("stream")
        progress(1, 2)
        while "1 of 2" not in text.getvalue():
            pass
    assert "due: running, 1 of 2 samples, 0 s" in text.getvalue()


def test_a_search_that_nobody_watches_tells_where_it_is(tmp_path: Path) -> None:
    words = ("search", "--model", "digits_mlp", "--arena", "100", "--evaluations", "20")
    done = hil(*words, cwd=tmp_path, HIL_HEARTBEAT_S="0.001")
    assert done.returncode == 0, done.stderr
    assert re.search(r"^search: reading model and samples, 0 s$", done.stderr, re.MULTILINE)
    standing = r"^search: trial \d+: (best \d+ differ, \d+ B of arena|none fits yet), \d+ of 20 evaluations, \d+ s$"
    assert re.search(standing, done.stderr, re.MULTILINE)


def test_what_a_parent_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TO_PARENT, "1")
    text = io.StringIO()
    with progress_on(Console(file=text, soft_wrap=True), "due") as progress:
        progress.enter("flash")
        progress(3, 7)
    assert [read_line(line) for line in text.getvalue().splitlines()] == [(0, 0, "flash"), (3, 7, "flash")]
    assert read_line("uno: built in 3 s") is None
    assert read_line("hil-progress a 3 flash") is None


def test_bars_of_several_boards_name_what_they_do(tmp_path: Path) -> None:
    from tinyhil.harness.settings.progress import bars

    text = io.StringIO()
    with bars(Console(file=text, force_terminal=True, width=100)) as add:
        left, right = add("left"), add("right")
        left.enter("flash")
        right.enter("stream")
        right(4, 9)
    for words in ("left: flashing", "right: running", "4/9"):
        assert words in text.getvalue()
    assert {"flash", "build", "stream"} <= set(DOING)


def completions(words: list[str], incomplete: str) -> set[str]:
    made = ShellComplete(group, {}, "hil", "_HIL_COMPLETE").get_completions(words, incomplete)
    return {item.value for item in made}


@pytest.mark.parametrize(
    ("words", "incomplete", "some"),
    [
        ([], "com", {"compare", "completion"}),
        (["run", "--board"], "u", {"uno"}),
        (["run", "--board"], "uno@", {"uno@emulated"}),
        (["golden", "update", "--board"], "du", {"due"}),
        (["run", "--model"], "digits", {"digits_cnn", "digits_mlp"}),
        (["inspect"], "digits", {"digits_cnn", "digits_mlp"}),
        (["run", "--format"], "posit8", {"posit8es0", "posit8es1"}),
        (["search", "--formats"], "fixed8,nf", {"fixed8,nf4"}),
    ],
)
def test_completion(words: list[str], incomplete: str, some: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HIL_BENCH", raising=False)
    assert some <= completions(words, incomplete)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell(shell: str, tmp_path: Path) -> None:
    done = hil("completion", shell, cwd=tmp_path)
    assert done.returncode == 0
    assert "_HIL_COMPLETE" in done.stdout


@pytest.mark.parametrize("arguments", [(), ("--help",), ("-h",)])
def test_help_is_no_failure(arguments: tuple[str, ...], tmp_path: Path) -> None:
    """Commands stand under what they are for, each once."""
    done = hil(*arguments, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    for title, commands in GROUPS.items():
        assert f"\n{title}:\n" in done.stdout
        assert all(f"\n  {command.name} " in done.stdout for command in commands)
    assert sorted(c.name or "" for commands in GROUPS.values() for c in commands) == sorted(group.commands)
