"""What carries out a cell: in a process of its own that does one after the other, so that one imports, and one dies.

`python -m tinyhil.harness.sweep.work` reads an order a line from stdin and answers on stdout, JSON both:
`{"say": LINE}` meanwhile, `{"outcome": {...}}` at the end. It ends when its stdin does.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal

import filelock
from pydantic import AfterValidator, Field

from tinyhil import errors, files
from tinyhil.errors import ConfigError, DataError
from tinyhil.fields import Amount, Exact, Sha, Text, Word
from tinyhil.harness.job.job import Request
from tinyhil.harness.python import calls
from tinyhil.harness.records.schema import Run, read_record
from tinyhil.harness.records.verdict import exit_code_of, gate_line
from tinyhil.harness.search.phases import processor_seconds
from tinyhil.harness.search.request import SearchRequest
from tinyhil.harness.settings.bench_file import default_bench
from tinyhil.harness.settings.config import Boards, load_boards
from tinyhil.harness.settings.failure import failure
from tinyhil.harness.sweep.cell import SCHEMA_VERSION, code_digest, compiler
from tinyhil.harness.sweep.file import ModelEntry, RunOptions, SearchOptions
from tinyhil.notice import WARNING, Say, tell
from tinyhil.sealed import Damaged, sealed, unsealed

FINISHED, SEARCH = "cell.json", "search.json"
FILES = ("record", "search", "assignment")
DONE = (errors.EXIT_OK, errors.EXIT_FLAKY)
PATHS = ("inputs", "calibrate")
NAMES = {"timeout": "timeout_s", "wait": "wait_s"}


def finished(folder: Path, key: str) -> dict[str, Any] | None:
    """The outcome of a cell that was finished in this folder, with files that are as they were written; else None, and
    the user is told if they are not."""
    if not (folder / FINISHED).exists():
        return None
    try:
        found = unsealed(files.read_text(folder / FINISHED, "finished cell"), Finished)
        if found.key != key:
            return None
        for name, digest in found.digests.items():
            if _digest(folder / name) != digest:
                _say_again(folder, f"edited: {name} is not what was measured")
                return None
        read_record(folder / found.record, Run)
    except (DataError, Damaged) as reason:
        _say_again(folder, str(reason))
        return None
    return found.model_dump()


def _say_again(folder: Path, reason: str) -> None:
    tell(f"{folder / FINISHED}: {reason}; the cell is computed again")


def _digest(path: Path) -> str:
    return hashlib.sha256(files.read_bytes(path, "file of a cell", files.MOST_TEXT_BYTES)).hexdigest()


def _inside(name: str) -> str:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise ValueError("it lies outside of the cell's folder")
    return name


Inside = Annotated[Word, AfterValidator(_inside)]


class Finished(Exact):
    """What `cell.json` says. `digests`: SHA-256 of its files."""

    schema_version: Literal[2]
    key: Sha
    record: Inside
    search: Inside | None
    assignment: Inside | None
    exit_code: Literal[0, 9]
    error: None
    warnings: list[Text] = Field(default_factory=list)
    seconds: Amount
    processor_s: Amount
    machine: Text
    process: list[Amount]
    digests: dict[Inside, Sha]


def carry_out(order: Mapping[str, Any], say: Say) -> dict[str, Any]:
    """Search if the cell asks for it, then run; the outcome, which lies in the cell's folder if all went well.

    A failure is an outcome, too: `exit_code` and `error`. Who finds the cell under way in another process waits for it.
    """
    folder, begin, before = Path(order["folder"]), time.monotonic(), processor_seconds()
    warnings: dict[str, None] = {}

    def heard(line: str) -> None:
        if line.startswith(WARNING):
            warnings[line] = None
        say(line)

    outcome = {
        "schema_version": SCHEMA_VERSION,
        "key": order["key"],
        "record": None,
        "search": None,
        "assignment": None,
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with filelock.FileLock(folder / "cell.lock"):
            known = finished(folder, order["key"])
            if known is not None:
                return known
            outcome |= _measured(order, folder, heard)
            given = str(folder / "widths.yaml") if order["widths"] is None else order["formats"][0]
            texts = (line.replace(str(folder / "widths.yaml"), given) for line in warnings)
            outcome |= {"warnings": [as_keys(text, order) for text in texts]}
            outcome |= {"seconds": round(time.monotonic() - begin, 3), "machine": platform.node()}
            now = processor_seconds()
            outcome |= {"processor_s": round(now - before, 3), "process": [os.getpid(), round(now, 3)]}
            if outcome["exit_code"] in DONE:
                names = [outcome[use] for use in FILES if outcome[use] is not None]
                outcome |= {"digests": {name: _digest(folder / name) for name in names}}
                files.write_text(folder / FINISHED, sealed(outcome) + "\n")
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        said, code = failure(error)
        outcome |= {"exit_code": code, "error": as_keys(said.replace("\n", "; "), order)}
        outcome |= {"seconds": round(time.monotonic() - begin, 3), "machine": platform.node()}
    return outcome


def _measured(order: Mapping[str, Any], folder: Path, say: Say) -> dict[str, Any]:
    boards = load_boards(_path(order["boards_file"]), _path(order["bench_file"]) or default_bench())
    expects = order["expects"]
    _require("tinyhil", code_digest(), expects["code"], "install the same one everywhere")
    _require("compiler", compiler(boards.board(order["board"])), expects["compiler"], "install the same one everywhere")
    found: dict[str, Any] = {}
    how: dict[str, Any] = {"format": order["formats"][0]}
    if order["widths"] is not None:
        found = {"assignment": "widths.yaml"}
        how = {"assignment": folder / "widths.yaml"}
        files.write_text(how["assignment"], order["widths"])
    if order["search"] is not None:
        how = {"assignment": folder / "widths.yaml"}
        search = _searched(order, folder, boards, how["assignment"], say)
        found = {"search": search, "assignment": "widths.yaml"}
    options = {NAMES.get(key, key): value for key, value in order["run"].items() if value is not None}
    options |= {key: Path(options[key]) for key in PATHS if key in options}
    request = Request(order["board"], order["model"], results=folder, load=options.pop("load", None), **how, **options)
    record, path = calls.run(request, boards, say, lambda done, total: None)
    if expects["data"] is not None:
        _require("data", record["data"]["sha256"], expects["data"], "set HIL_DATA to the same samples everywhere")
    found["record"] = path.relative_to(folder).as_posix()
    return {**found, "exit_code": exit_code_of(record), "error": gate_line(record) or None}


def _searched(order: Mapping[str, Any], folder: Path, boards: Boards, out: Path, say: Say) -> str:
    """The file of the search's record in the cell's folder. What the row runs is held out of it, where other samples
    are at hand."""
    options = {key: value for key, value in order["search"].items() if value is not None}
    options |= {key: Path(options[key]) for key in PATHS if key in options}
    if all(key in options for key in PATHS):
        options |= {"inputs": options["calibrate"], "held_out": options["inputs"]}
    options |= {key: order["run"][key] for key in ("calibrate_by", "prefer") if order["run"][key] is not None}
    request = SearchRequest(
        order["model"],
        board=order["board"],
        formats=",".join(order["formats"]),
        strategy=order["strategy"]["name"],
        set_=tuple(order["strategy"]["set"]),
        out=out,
        results=folder.parent / "searches",  # of all cells: what one has asked, no other asks again
        workers=1,
        **options,
    )
    outcome = calls.search(request, boards, say, lambda trial, best: None)
    files.write_text(folder / SEARCH, json.dumps(outcome.record, indent=1) + "\n")
    return SEARCH


def as_keys(text: str, order: Mapping[str, Any]) -> str:
    """Options of `hil run` and `hil search` in a text, as a sweep's file has them: `--latency-us 34` is
    `search: {latency_us: 34}`. What searches see is `calibrate`, where it is given."""
    search = order.get("search") or {}
    seen = {"inputs": "calibrate"} if all(key in search for key in PATHS) else {}
    sections = {"search": SearchOptions.model_fields, "run": RunOptions.model_fields}

    def key(found: re.Match[str]) -> str:
        name, value = found["name"].replace("-", "_"), found["value"]
        if name in ModelEntry.model_fields:
            return f"`{seen.get(name, name)}`"
        for section in sections if search else reversed(sections):
            if name in sections[section]:
                return f"{section}: {{{name}: {value or '...'}}}"
        return found[0]

    return re.sub(r"--(?P<name>[a-z-]+)(?: (?P<value>[0-9]+|[A-Z]+|balanced|latency|ram|least)\b)?", key, text)


def _require(what: str, here: str, wanted: str, remedy: str) -> None:
    """Figures of one table must mean the same thing, whoever measured them."""
    if here != wanted:
        shown = [text[:12] if len(text) == 64 else text or "none" for text in (here, wanted)]
        raise ConfigError(f"{platform.node()}: {what} {shown[0]}, the sweep has {shown[1]}; {remedy}")


def _path(text: str | None) -> Path | None:
    return None if text is None else Path(text)


def main() -> None:
    """Carry out orders until stdin ends, or until SIGTERM: then what is finished is kept, as after Ctrl-C."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)  # nothing that anybody prints is an answer

    def answer(content: dict[str, Any]) -> None:
        answers.write(json.dumps(content) + "\n")

    try:
        for line in sys.stdin:
            answer({"outcome": carry_out(json.loads(line), lambda said: answer({"say": said}))})
    except (KeyboardInterrupt, BrokenPipeError):
        sys.exit(errors.EXIT_INTERRUPTED)


if __name__ == "__main__":
    main()
