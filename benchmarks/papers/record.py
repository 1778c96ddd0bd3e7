"""results/papers/<name>.json: every finished cell with the commit that was measured; a killed run goes on behind it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from benchmarks.papers.paper import Cell, Row
from tinyhil.errors import HilError
from tools.measured import RESULTS

FOLDER = RESULTS / "papers"
Record = dict[str, dict[str, Any]]  # key -> {"row", "commit", "utc", "processor_s"}


def read(name: str, folder: Path = FOLDER) -> Record:
    path = folder / f"{name}.json"
    found: Record = json.loads(path.read_text())["cells"] if path.is_file() else {}
    return found


def rows_of(record: Record) -> dict[str, Row]:
    return {key: cell["row"] for key, cell in record.items()}


def timed_rows_of(record: Record) -> dict[str, Row]:
    """With the processor's seconds of each search, for pages."""
    seconds = {
        key: {"processor_s": cell["processor_s"]} for key, cell in record.items() if "evaluations" in cell["row"]
    }
    return {key: {**row, **seconds.get(key, {})} for key, row in rows_of(record).items()}


def write(name: str, record: Record, folder: Path = FOLDER) -> None:
    """All cells, a line each, at once or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join(f"  {json.dumps(key)}: {json.dumps(cell)}" for key, cell in record.items())
    new = folder / f"{name}.json.new"
    new.write_text(f'{{\n "cells": {{\n{lines}\n }}\n}}\n')
    os.replace(new, folder / f"{name}.json")


def measure(
    name: str,
    cells: Iterable[Cell],
    provenance: Callable[[], dict[str, str]],
    say: Callable[[str], None],
    folder: Path = FOLDER,
    only: str = "",
    again: str | None = None,
) -> Record:
    """Measures what begins with `again`; without it what is missing, of keys that begin with `only`. Keeps it cell by
    cell, in the order of `cells`. A finished cell whose measurement fails this time stays as it was, and one that was
    measured at this very commit is not measured `again`: a killed run goes on.

    Cells that are no more, and those whose error may have gone, are measured or dropped; `provenance` is asked only
    when there is something to measure: it ends the run where the sources hold changes of no commit."""
    wanted = list(cells)
    old = read(name, folder)
    done = {cell.key: old[cell.key] for cell in wanted if cell.key in old}
    finished = {key for key, cell in done.items() if "failed" not in cell["row"]}
    anew = {cell.key for cell in wanted if again is not None and cell.key.startswith(again)}
    missing = [cell for cell in wanted if cell.key in anew or (again is None and cell.key not in finished)]
    missing = [cell for cell in missing if cell.key.startswith(only)]
    if not missing:
        say(f"{name}: {len(done)} of {len(wanted)} cells are measured, none of those asked for is missing")
        return done
    source = provenance()
    of_today = {key for key in finished if done[key]["commit"] == source["commit"]}
    if count := sum(cell.key in of_today for cell in missing):
        say(f"{name}: {count} of {len(missing)} cells were measured at this commit already")
    missing = [cell for cell in missing if cell.key not in of_today]
    for number, cell in enumerate(missing, 1):
        begin = _processor_s()
        row = _row(cell)
        spent = round(_processor_s() - begin, 1)
        if "failed" not in row or cell.key not in finished:
            done[cell.key] = {"row": row, **source, "processor_s": spent}
        write(name, {each.key: done[each.key] for each in wanted if each.key in done}, folder)
        say(f"{name}: {number} of {len(missing)}, {cell.key}, {spent} s: {json.dumps(row)[:160]}")
    return done


def _processor_s() -> float:
    """With compilers and emulators that have ended."""
    return sum(os.times()[:4])


def _row(cell: Cell) -> Row:
    """A cell that fails says so, and the others go on; it is tried again by the next run."""
    try:
        return cell.measure()
    except HilError as error:
        return {"failed": str(error)}
