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

from tinyhil.files import write_text
from tinyhil.harness.settings.config import load_boards

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "results"


BOARDS = ("uno", "due", "h747")  # what tables have columns for: one of each kind of kernels, whatever else there is
ARM = BOARDS[1:]


def clocks() -> str:
    """How times of the tables came about: clocks of boards.yaml, counts of the emulators."""
    uno, due, h747 = (f"{load_boards().board(name).chip.clock_hz / 1e6:g} MHz" for name in BOARDS)
    return f"Uno at {uno}: exact cycles; Due at {due} and H747 at {h747}: exact instructions, modelled time."


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


def provenance_of(name: str) -> dict[str, str]:
    """Of results/`name`.json: commit, time, and what else it names."""
    found: dict[str, str] = json.loads((RESULTS / f"{name}.json").read_text())["provenance"]
    return found


def line(name: str) -> str:
    """Which commits results/`name`.json is of."""
    return line_of(provenance_of(name))


def write(name: str, measured_at: dict[str, str], rows: Any) -> None:
    """results/`name`.json; `measured_at` is `provenance()` from before the measurement."""
    file = RESULTS / f"{name}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    write_text(file, json.dumps({"provenance": measured_at, "rows": rows}, indent=1) + "\n")
