"""README's example, run anew: `python -m tools.readme_run` (minutes; all test windows, of HIL_DATA or the network)."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from tools.measured import ROOT

README = ROOT / "README.md"
COMMAND = "hil run --board uno --model fastgrnn_har"
BEGIN, END = f"```\n$ {COMMAND}\n", "```\n"


def parts(text: str) -> tuple[str, str, str]:
    """README before what the command prints, what it prints, and the rest."""
    before, rest = text.split(BEGIN)
    printed, after = rest.split(END, 1)
    return before + BEGIN, printed, END + after


def main() -> None:
    program = str(Path(sys.executable).with_name("hil"))
    command = [program, *COMMAND.split()[1:]]
    with tempfile.TemporaryDirectory() as folder:
        printed = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, text=True, check=True).stdout
    before, _, after = parts(README.read_text())
    README.write_text(before + printed + after)


if __name__ == "__main__":
    main()
