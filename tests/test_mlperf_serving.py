"""`hil mlperf --serve`: how long a board is there for other runners."""

from __future__ import annotations

import os
import socket
from contextlib import ExitStack, nullcontext
from pathlib import Path

import pytest

from tinyhil.errors import DeviceCrashed
from tinyhil.harness.mlperf import command


@pytest.mark.parametrize("stdin", ["pipe", "socket", "closed pipe", "nothing", "file", "closed", "none"])
def test_a_served_board_is_there_until_a_held_pipe_ends(
    stdin: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the background and with `</dev/null` nobody holds anything: it goes on, here until the board dies."""
    looked: list[int] = []
    with ExitStack() as stack:
        reading, writing = os.pipe()
        ours, theirs = socket.socketpair()
        stack.enter_context(ours)
        stack.enter_context(theirs)
        (tmp_path / "file").write_text("")
        opened = {
            "pipe": lambda: os.fdopen(reading),
            "closed pipe": lambda: os.fdopen(reading),
            "socket": lambda: os.fdopen(ours.detach()),
            "nothing": lambda: os.fdopen(os.open(os.devnull, os.O_RDONLY)),
            "file": lambda: (tmp_path / "file").open(),
            "closed": lambda: os.fdopen(os.open(os.devnull, os.O_RDONLY)),
            "none": lambda: None,
        }[stdin]()
        if opened is not None:
            stack.enter_context(opened)
        if stdin == "closed":
            opened.close()
        if stdin == "closed pipe":
            os.close(writing)

        def alive() -> None:
            looked.append(0)
            if len(looked) == 3 and stdin in ("pipe", "socket"):
                os.close(writing) if stdin == "pipe" else theirs.close()
            if len(looked) == 100:
                raise DeviceCrashed("the board's process ended")

        monkeypatch.setattr(command, "LOOK_S", 0.0)
        monkeypatch.setattr(command.sys, "stdin", opened)
        with nullcontext() if "pipe" in stdin or stdin == "socket" else pytest.raises(DeviceCrashed):
            command._serve(alive)
    assert len(looked) == {"pipe": 3, "socket": 3, "closed pipe": 0}.get(stdin, 100)
