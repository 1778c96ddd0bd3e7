"""What a bench is doing at a moment, as plain data: read from locks and result folders alone, nothing is opened."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tinyhil.errors import HilError
from tinyhil.files import read_json
from tinyhil.harness.boards.survey import Seen, survey
from tinyhil.harness.records.figures import is_candidate, title_of
from tinyhil.harness.records.schema import read_any
from tinyhil.harness.records.verdict import verdict_of
from tinyhil.harness.report.sentence import search_sentence, sentence, time_of
from tinyhil.harness.settings.config import Boards
from tinyhil.harness.sweep.work import FINISHED
from tinyhil.quoting import printable

MOST_RECORDS = 12  # shown
MOST_FILES = 20_000  # of a results folder; more are not looked at, which is said
Plain = dict[str, Any]


def snapshot(boards: Boards, results: Path) -> Plain:
    """Boards with their locks, unfinished runs, the newest records of a folder that several people may share."""
    files, whole = _files(results)
    unfinished = [path for path in files if path.name.endswith(".partial.jsonl")]
    records = [path for path in files if path.suffix == ".json" and path.name != FINISHED]
    return {
        "time": time.time(),
        "results": printable(str(results), 300),
        "complete": whole,
        "boards": [_board(one) for one in survey(boards)],
        "running": [_running(path, results) for path in unfinished],
        "records": [_record(path, results) for path in records[:MOST_RECORDS]],
    }


def _files(folder: Path) -> tuple[list[Path], bool]:
    """The newest first, without candidates of searches, links and those that vanish meanwhile; whether all were looked
    at."""
    found: list[tuple[float, Path]] = []
    for number, path in enumerate(folder.rglob("*.json*") if folder.is_dir() else ()):
        if number >= MOST_FILES:
            return _newest(found), False
        try:
            if path.is_file() and not path.is_symlink() and not is_candidate(path, folder):
                found.append((path.stat().st_mtime, path))
        except OSError:
            continue
    return _newest(found), True


def _newest(found: list[tuple[float, Path]]) -> list[Path]:
    return [path for _, path in sorted(found, reverse=True)]


def _board(one: Seen) -> Plain:
    return {
        "name": one.name,
        "title": one.board.title,
        "state": one.state,
        "where": printable(one.where, 200),
        "detail": printable(one.detail, 300),
    }


def _running(path: Path, results: Path) -> Plain:
    """An unfinished run: how many samples lie on disk, and when the last one came."""
    try:
        samples, seconds = path.read_bytes().count(b"\n"), max(0.0, time.time() - path.stat().st_mtime)
    except OSError:  # it ended meanwhile
        samples, seconds = 0, 0.0
    return {"file": printable(str(path.relative_to(results)), 300), "samples": samples, "idle_s": round(seconds, 1)}


def _record(path: Path, results: Path) -> Plain:
    """One record in short; one that cannot be read says so."""
    name = printable(str(path.relative_to(results)), 300)
    try:
        record = read_json(path, "record")
        if isinstance(record, dict) and isinstance(record.get("engine"), dict):
            return {"file": name, **_of_engine(record)}
        record = read_any(path)
        found = _search(record) if "strategy" in record else _run(record)
    except HilError as error:
        return {"file": name, "verdict": "unreadable", "said": printable(str(error), 300), "command": None}
    if not str(found["command"]).startswith("hil "):  # a call from Python, which no page can repeat
        found["command"] = None
    texts = {key: printable(text, 1000) if isinstance(text, str) else text for key, text in found.items()}
    return {"file": name, **texts}


def _of_engine(record: Mapping[str, Any]) -> Plain:
    """A measurement of firmware that is not ours, which nobody has judged."""

    def text(*names: str) -> str:
        found: Any = record
        for name in names:
            found = found.get(name) if isinstance(found, dict) else None
        return printable(str(found or "unknown"), 1000)

    command, title = text("provenance", "command"), f"{text('model')} by {text('engine', 'name')} on {text('board')}"
    return {
        "title": title,
        "verdict": "other firmware",
        "said": f"{title}: {text('samples')} samples, median {text('latency', 'median')} {text('latency', 'unit')}",
        "latency": None,
        "utc": text("provenance", "utc"),
        "command": command if command.startswith("hil ") else None,
    }


def _run(record: Mapping[str, Any]) -> Plain:
    known = record["provenance"]
    return {
        "title": title_of(record),
        "verdict": verdict_of(record)["verdict"],
        "said": sentence(record),
        "latency": time_of(record["latency"]),
        "utc": known.get("utc"),
        "command": known.get("command"),
    }


def _search(record: Mapping[str, Any]) -> Plain:
    return {
        "title": f"search of {record.get('model', 'a model')}, {record['strategy']}",
        "verdict": "search",
        "said": search_sentence(record),
        "latency": None,
        "utc": record.get("utc"),
        "command": record.get("command"),
    }
