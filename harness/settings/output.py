"""Standard output and errors: a reader that goes ends nothing, what is still to be written into files is written."""

from __future__ import annotations

import io
import os
import sys
from typing import Any


class _Output(io.FileIO):
    """A descriptor whose writes succeed when nobody reads them any more."""

    replaced: io.TextIOWrapper

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
            return len(data)


def outlive_reader(name: str) -> None:
    """Whoever reads `sys.stdout` or `sys.stderr` (`name`) may go without an error for the writer."""
    stream = getattr(sys, name)
    if not isinstance(stream, io.TextIOWrapper):
        return
    try:
        descriptor = stream.fileno()
    except OSError:  # no file: somebody collects it
        return
    raw = _Output(descriptor, "wb", closefd=False)
    raw.replaced = stream  # closes the descriptor when it goes
    by_line = name == "stderr" or raw.isatty()
    setattr(sys, name, io.TextIOWrapper(io.BufferedWriter(raw), stream.encoding, stream.errors, line_buffering=by_line))
