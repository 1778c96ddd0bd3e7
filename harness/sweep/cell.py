"""One cell of a sweep: a model in one way on one board, under a key made of everything that determines its figures."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import tinyhil
from tinyhil import data as data_sets
from tinyhil import files
from tinyhil.errors import HilError
from tinyhil.frontend.companions import companions
from tinyhil.harness.boards.locate import EMULATED, Place, locate
from tinyhil.harness.build.toolchain import default_cache_dir, find_compiler
from tinyhil.harness.job.zoo import find_model
from tinyhil.harness.settings.assets import asset
from tinyhil.harness.settings.config import Boards, BoardSpec
from tinyhil.harness.sweep.file import ModelEntry, SweepFile, is_assignment, located
from tinyhil.search.strategies import is_own

SCHEMA_VERSION = 2
TIMEOUTS = ("timeout", "retries", "wait")  # options of the run that change no figure
SOURCES = (".py", ".c", ".cpp", ".h", ".hpp", ".S", ".ld", ".yaml")  # of what computes and measures
LEFT_OUT = ("node_modules", "share", "__pycache__", ".pio")


@dataclass(frozen=True, slots=True)
class Cell:
    """`order`: what a worker is told, in JSON types; paths in it are absolute. `determined`: what its key is made of.
    `locks`: names of which no two cells that run at once may share one. `files`: those that the order names."""

    model: str
    board: str
    formats: tuple[str, ...]
    strategy: str | None
    order: Mapping[str, Any]
    determined: Mapping[str, Any]
    locks: tuple[str, ...]
    files: tuple[str, ...]

    @property
    def key(self) -> str:
        """SHA-256 of all that determines the outcome, in hexadecimal."""
        text = json.dumps(self.determined, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def title(self) -> str:
        """For lines and tables."""
        how = ", ".join(self.formats) + (f" by {self.strategy}" if self.strategy else "")
        return f"{self.model} on {self.board}, {how}"


Outcome = dict[str, Any]  # of a cell: `exit_code`, `error`, and the names of its files
MakeOrder = Callable[[Cell], dict[str, Any]]  # what a worker is told of a cell


def cells_of(sweep: SweepFile, folder: Path, boards: Boards, offered: Collection[str] = ()) -> list[Cell]:
    """Every cell, models first. `folder`: of the sweep's file. `offered`: boards that other machines have. What can not
    be found out now fails in its cell."""
    found = []
    for entry in sweep.models:
        known = _Known.of(entry, folder)
        for board in sweep.boards:
            place = None if board in offered else _place(boards, board)
            for formats, way in sweep.ways:
                own = None if way is None or not is_own(way.strategy) else str((folder / way.strategy).resolve())
                search = None if way is None else way.model_dump(exclude={"strategy", "name", "set"})
                order = {
                    "model": known.path,
                    "board": board if place is None or place.port or place.board.is_host else _emulated(board),
                    "formats": formats,
                    "widths": files.read_text(folder / formats[0], "assignment") if is_assignment(formats[0]) else None,
                    "run": {**sweep.run.model_dump(), **known.options("inputs", "calibrate")},
                    "strategy": None if way is None else {"name": own or way.strategy, "set": way.settings},
                    "search": None if search is None else {**search, **known.options(*ModelEntry.model_fields)},
                    "expects": {"code": code_digest(), "compiler": compiler(boards.board(board)), "data": known.data},
                }
                found.append(
                    Cell(
                        known.name,
                        board,
                        formats,
                        None if way is None else way.title,
                        order,
                        _determined(order, known, boards, board, place),
                        _locks(place, board),
                        (*known.files, *([own] if own else [])),
                    )
                )
    return found


def _determined(order: Mapping[str, Any], known: _Known, boards: Boards, board: str, place: Place | None) -> Any:
    """Contents in the place of paths, and the whole description of the board."""
    named = {**known.options("inputs", "calibrate"), "model": ""}
    return {
        "schema_version": SCHEMA_VERSION,
        "model": known.contents,
        "name": known.name,
        "board": boards.board(board).model_dump(mode="json"),
        "attached": board if place is None or place.port else None,
        "formats": order["formats"],
        "widths": order["widths"],
        "strategy": _strategy(order["strategy"]),
        "run": {key: value for key, value in order["run"].items() if key not in (*TIMEOUTS, *named)},
        "search": order["search"] and {key: value for key, value in order["search"].items() if key not in named},
        "expects": order["expects"],
    }


def _strategy(found: Mapping[str, Any] | None) -> Any:
    if found is None or not is_own(found["name"]):
        return found
    return {**found, "name": "", "code": _digest(Path(found["name"]))}


@dataclass(frozen=True, slots=True)
class _Known:
    """A model's entry with everything it names looked up. `contents`: digests of its files by what they are for."""

    name: str
    path: str
    data: str | None
    contents: Mapping[str, str]
    paths: Mapping[str, str]

    @classmethod
    def of(cls, entry: ModelEntry, folder: Path) -> _Known:
        path = located(folder, entry.model)
        source = find_model(path)
        keys = ("inputs", "calibrate")
        paths = {key: str((folder / getattr(entry, key)).resolve()) for key in keys if getattr(entry, key) is not None}
        held = {"model": str(source.path), **paths}
        if source.ranges is not None and source.ranges.is_file():
            held["ranges"] = str(source.ranges)
        held |= {f"beside {one.relative_to(source.path.parent)}": str(one) for one in companions(source.path)}
        contents = {use: _digest(Path(file)) for use, file in held.items()}
        data = contents.get("inputs") or (source.dataset and _data(source.dataset))
        return cls(source.name, path, data or None, contents, paths if path == entry.model else {**held})

    def options(self, *names: str) -> dict[str, str]:
        """Paths of the entry that were given, by the option that takes them."""
        return {name: self.paths[name] for name in names if name in self.paths and name != "model"}

    @property
    def files(self) -> tuple[str, ...]:
        return tuple(self.paths.values())


def _place(boards: Boards, name: str) -> Place | None:
    """Where the board is now; None: nowhere that this machine can say, a run of it will tell."""
    try:
        return locate(boards, name)
    except HilError:
        return None


def _emulated(board: str) -> str:
    """Said once and for all: no board that somebody attaches meanwhile takes part."""
    return board if "@" in board else f"{board}@{EMULATED}"


def _locks(place: Place | None, board: str) -> tuple[str, ...]:
    if place is None:
        return (board,)
    return place.lock_names if place.port else ()


def _digest(path: Path) -> str:
    return hashlib.sha256(files.read_bytes(path, "file", files.MOST_ARRAY_BYTES)).hexdigest()


@cache
def _data(name: str) -> str:
    """Of the samples that are there; empty if there are none, which is the failure of every cell that needs them."""
    try:
        return data_sets.load(name).sha256
    except HilError:
        return ""


def compiler(board: BoardSpec) -> str:
    """Which one builds for the board; empty if there is none."""
    try:
        found = find_compiler(board, default_cache_dir())
    except HilError:
        return ""
    return f"{found.name} {found.version}"


@cache
def code_digest() -> str:
    """Of all of tinyhil that computes a figure: compilers, kernels, emulators, boards."""
    found = hashlib.sha256()
    for path in _sources():
        found.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return found.hexdigest()


def _sources() -> Iterator[Path]:
    tops: Sequence[Path] = (Path(tinyhil.__file__).parent, asset("firmware"), asset("emulators"))
    for top in tops:
        for folder, inner, names in os.walk(top, followlinks=True):
            inner[:] = sorted(name for name in inner if name not in LEFT_OUT)
            yield from (Path(folder, name) for name in sorted(names) if name.endswith(SOURCES))
    yield asset("boards.yaml")
