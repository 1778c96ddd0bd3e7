"""Drives an emulated board with MLCommons' own runner (github.com/mlcommons/tiny, benchmark/runner), unchanged.

    python benchmarks/official_runner.py RUNNER PORT [main.py's options]
    python benchmarks/official_runner.py RUNNER PORT stream_wav_uart.py [its options]

The runner finds boards by the identity of their USB device, and a pseudo terminal has none: this names the port to it
as an ST-LINK's (0483:374B), and no other device. Nothing else is replaced.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import Any

from serial.tools import list_ports
from serial.tools.list_ports_common import ListPortInfo

ST_LINK = (0x0483, 0x374B)


def hide_other_devices() -> None:
    """From what looks for USB devices itself, if it is installed."""
    try:
        import usb.core
    except ImportError:
        return

    def no_other_device(*_: Any, **__: Any) -> list[Any]:
        return []

    usb.core.find = no_other_device


def main(arguments: list[str]) -> None:
    runner, port, *options = arguments
    found = ListPortInfo(port)
    found.vid, found.pid = ST_LINK
    found.description = "an emulated board"
    list_ports.comports = lambda include_links=False: [found]
    hide_other_devices()
    sys.path[:0] = [str(Path(runner).resolve())]  # as if main.py had been started there
    script = options.pop(0) if options and options[0].endswith(".py") else "main.py"
    sys.argv = [script, *options]
    runpy.run_path(str(Path(runner) / script), run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1:])
