"""Committed figures and where they come from: every table in results/ names the commit that was measured.

A table is {"provenance": {...}, "rows": ...}. Figures that no commit reproduces are not written.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tinyhil.harness.settings.config import load_boards
from tinyhil.passes.variants import DSP

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "results"


def _with_kernels_of_their_own() -> tuple[str, ...]:
    """Boards that a program of ours emulates; of those with the same kernels, whatever their loops, the first."""
    found: dict[str, str] = {}
    for name, board in load_boards().entries.items():
        if board.chip.emulator is not None and board.chip.emulator.kind == "process":
            core = board.chip.core
            found.setdefault(DSP[0] if core in DSP else core, name)
    return tuple(found.values())


UNMEASURED = ("nucleo_g0b1",)  # until tables are measured on it and pages have a column for it
# What tables have figures of.
BOARDS = tuple(name for name in _with_kernels_of_their_own() if name not in UNMEASURED)


def clocks() -> str:
    """How times of the tables came about: clocks of boards.yaml, counts of the emulators."""
    uno, due, h747 = (f"{load_boards().board(name).chip.clock_hz / 1e6:g} MHz" for name in ("uno", "due", "h747"))
    return f"Uno at {uno}: exact cycles; Due at {due} and H747 at {h747}: exact instructions, modelled time."


ARM = tuple(name for name in BOARDS if load_boards().board(name).chip.core != "avr")


def provenance() -> dict[str, str]:
    """Commit and time of a measurement that begins now; ends with a line if the sources hold changes of no commit.

    Other tables and the pages made of them may be new: one command measures several."""
    changed = _git("status", "--porcelain", "--untracked-files=no", "--", ".", ":!results", ":!docs")
    if changed:
        raise SystemExit(f"tables: {len(changed.splitlines())} files are changed; commit them first, then measure")
    return {"utc": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"), "commit": _git("rev-parse", "HEAD").strip()}


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout


def read(name: str) -> Any:
    """The rows of results/`name`.json."""
    return json.loads((RESULTS / f"{name}.json").read_text())["rows"]


def line_of(measured_at: Mapping[str, str]) -> str:
    """Which commits a table is of, as its page says it; the first tables know only the commit that they came with."""
    commit, when = measured_at.get("commit"), measured_at["utc"][:10]
    return (
        f"Measured at {', '.join(one[:10] for one in commit.split())}, {when}."
        if commit
        else f"Measured {when}, committed with {measured_at['committed_with'][:10]}."
    )


def line(name: str) -> str:
    """The same of results/`name`.json."""
    return line_of(json.loads((RESULTS / f"{name}.json").read_text())["provenance"])


def write(name: str, measured_at: dict[str, str], rows: Any) -> None:
    """results/`name`.json; `measured_at` is `provenance()` from before the measurement."""
    file = RESULTS / f"{name}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"provenance": measured_at, "rows": rows}, indent=1) + "\n")
