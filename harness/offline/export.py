"""`hil export`: a measured model as a library for other people's firmware, packed for their build system."""

from __future__ import annotations

import io
import os
import re
import time
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any

from tinyhil.codegen.export_kinds import ARDUINO, HEADER, PLATFORMIO
from tinyhil.codegen.exported_library import CALLER, STATIC, Library
from tinyhil.codegen.identifiers import identifiers
from tinyhil.codegen.library_source import emit_library
from tinyhil.codegen.packages import package, source_of
from tinyhil.compiler.calibrate import Ranges
from tinyhil.compiler.lower import tied_values
from tinyhil.errors import ConfigError, DataError, DoesNotFit
from tinyhil.files import write_bytes
from tinyhil.harness.build.pipeline import Compiled, compile_model, runtime_sources
from tinyhil.harness.job.job import (
    Opened,
    Streamed,
    method_of,
    open_model,
    preference_of,
    preferred,
    say_other_ranges,
    wish_for,
)
from tinyhil.harness.measure.record import formats_of
from tinyhil.harness.offline.export_room import little_room
from tinyhil.harness.offline.export_sizes import compilers_for, state_sizes
from tinyhil.harness.records.bench_stats import ticks_text
from tinyhil.harness.records.figures import at_worst
from tinyhil.harness.records.schema import Run, read_record
from tinyhil.harness.records.verdict import invalid_because
from tinyhil.harness.settings.assets import asset
from tinyhil.harness.settings.config import Boards, BoardSpec, ChipSpec, load_boards
from tinyhil.harness.settings.limits import AtLeast, OneOf, require
from tinyhil.language.assignment import MIXED
from tinyhil.notice import Say
from tinyhil.passes.laid import laid_out
from tinyhil.preference import PREFERENCES
from tinyhil.quoting import markdown
from tinyhil.references.classes import deciding, threshold

MAX_PREFIX = 48
SKETCHES = (ARDUINO, PLATFORMIO)  # packages whose example stands on Arduino's core
ANY_CHIP = "host"  # board whose calls a library has that is made for none
USUAL = "uno"  # board of a sketch, where none is named
FIRST_TIME, LAST_TIME, PERMISSIONS = 315619200, 4354732799, 0o644  # an archive's times: 1980-01-02 to 2107-12-30
MOST_VALUES = 8  # that are named to have a format of their own
MOST_DIGITS = 15  # of a time, which as many more exceed


@dataclass(frozen=True, slots=True)
class Wanted:
    """The options of `hil export`."""

    kind: str
    model: str
    out: Path
    format: str = "fixed16"
    assignment: Path | None = None
    calibrate: Path | None = None
    calibrate_by: str | None = None
    name: str | None = None
    arena: Annotated[str, OneOf((STATIC, CALLER))] = STATIC
    classes: str | None = None
    record: Path | None = None
    sizes: bool = False
    board: str | None = None  # to be as fast as `hil run` there
    states: tuple[str, ...] | None = None
    steps: Annotated[int, AtLeast(1)] | None = None
    prefer: Annotated[str, OneOf(PREFERENCES)] | None = None  # None: as the assignment file says, else balanced
    ram: Annotated[int, AtLeast(1)] | None = None  # bytes for arena and one sample, as `hil run --ram`

    @property
    def preferred(self) -> str | None:
        """What the plan is of; None where `--ram` or the arena of an assignment file chooses the schedule."""
        return preferred(self.assignment, self.prefer, self.ram)

    def __post_init__(self) -> None:
        require("export", self)


def board_of(name: str, boards: Boards) -> BoardSpec:
    """The board a library is made for; ConfigError for what no compiler of an application makes code for."""
    board = boards.board(name)
    if board.hardware is not None:
        raise ConfigError(f"--board {name}: an accelerator carries out its layers; export without --board")
    return board


def export_model(wanted: Wanted, boards: Boards | None, say: Say) -> Library:
    """Write the archive of a model; returns what it holds. DoesNotFit, once it is written, if it is too large for the
    board that it is for."""
    require_place(wanted.out, wanted.kind)
    streamed = Streamed(wanted.states, wanted.steps, wanted.calibrate)
    by = method_of(wanted.assignment, wanted.calibrate_by)
    opened = open_model(wanted.model, say, streamed, by=by, endless=True)
    board = None if wanted.board is None or boards is None else board_of(wanted.board, boards)
    ranges = opened.required_ranges(wanted.calibrate)
    say_other_ranges(wanted.assignment, ranges, say)

    def made(prefer: str | None, ram: int | None = None) -> tuple[Compiled, Library]:
        return _library_for(wanted, opened, ranges, board, prefer, ram)

    compiled, library = made(wanted.prefer, wanted.ram)
    if wanted.ram is not None and library.predict_bytes > wanted.ram:
        what = f"arena and sample take at least {library.predict_bytes} B, {library.predict_bytes - wanted.ram} B more"
        raise DoesNotFit(f"{wanted.model}: --ram {wanted.ram}: {what}; use a larger --ram or a narrower --format")
    sources = emit_library(library, runtime_sources())
    about = []
    if wanted.record is not None:
        record = read_record(wanted.record, Run)
        _require_same(record, compiled, board, wanted, wanted.record)
        about = measured(record, wanted.record)
    if wanted.sizes or (board is not None and compilers_for(library)):
        sizes = state_sizes(library, sources)
        about = [*sizes, *about]
        if wanted.sizes:
            for line in sizes[1:]:
                say(line)
    header = f"{library.prefix}/{library.prefix}.h" if wanted.kind == HEADER else None
    write_package(wanted.out, packed(wanted.kind, library, about), header)
    is_sketch = wanted.kind in SKETCHES
    tried = load_boards().board(USUAL) if board is None and is_sketch else board
    if tried is not None:
        prefer = preference_of(wanted.assignment, wanted.prefer) if wanted.ram is None else None
        room = little_room(
            library, tried, sources, prefer, lambda other: made(other)[1].predict_bytes, is_sketch=is_sketch
        )
        if room.said:
            say(f"{room.said}{'' if board else '; if it is for another board: --board'}")
        if board is not None and room.exceeded:
            raise DoesNotFit(f"{wanted.out} is written, and does not fit {board.name}; see above")
    return library


def _library_for(
    wanted: Wanted, opened: Opened, ranges: Ranges, board: BoardSpec | None, prefer: str | None, ram: int | None
) -> tuple[Compiled, Library]:
    """The model as `prefer` plans it, or in `ram` bytes. ConfigError as `library_of`, DoesNotFit on the board."""
    wide = [] if board is None else [board]
    wish = replace(wish_for(wanted.assignment, prefer), keeps_input=True, ram_bytes=ram)  # samples are the caller's
    assignment = opened.assignment(wanted.assignment, wanted.format)
    compiled = compile_model(opened.model, assignment, ranges, wide, [one.name for one in wide], wish=wish)
    classes = opened.source.classes or opened.model.classes
    if wanted.classes is not None:
        classes = _renamed(opened, classes, tuple(name.strip() for name in wanted.classes.split(",")))
    library = library_of(compiled, opened.source.name, wanted.name, wanted.arena, classes)
    if opened.source.text is not None:
        library = replace(library, temperature=opened.source.text.temperature)
    if board is not None:
        library = replace(library, board=board.name, core=board.chip.core, compiler=compiler_of(board.chip))
    return compiled, library


def _renamed(opened: Opened, own: tuple[str, ...], wanted: tuple[str, ...]) -> tuple[str, ...]:
    """The names wanted in place of the model's `own`; ConfigError if these are the same ones in another order."""
    if own != wanted and sorted(own) == sorted(wanted):
        raise ConfigError(
            f"{opened.source.name}: --classes has the model's own names in another order: its outputs are "
            f"{', '.join(own)}; leave --classes out"
        )
    return wanted


def compiler_of(chip: ChipSpec) -> tuple[str, ...]:
    """The C++ compiler of a chip, with the options for its processor."""
    return (chip.compiler.replace("gcc", "g++"), *chip.machine.split())


def library_of(compiled: Compiled, model: str, name: str | None, arena: str, class_names: tuple[str, ...]) -> Library:
    """The library of a compiled model; ConfigError if it can not be called so, or has other classes."""
    graph = compiled.model.graph
    outputs = deciding(graph, compiled.program.tensors[compiled.program.output].count)
    if class_names and outputs > 1 and len(class_names) != outputs:
        raise ConfigError(f"{model}: {len(class_names)} class names, but the model has {outputs} outputs")
    return Library(
        prefix=prefix_of(name or model, given=name is not None),
        laid=laid_out(compiled.program, compiled.plan),
        origin=f"{model} (sha256 {compiled.model.sha256[:16]}) in {_formats_said(compiled)}",
        arena=arena,
        class_names=class_names,
        above=threshold(graph),
        parts=graph.parts,
        results=graph.results,
        stream=compiled.model.stream,
    )


def _formats_said(compiled: Compiled) -> str:
    """Their name, or that of most and who has another."""
    if compiled.formats != MIXED:
        return compiled.formats
    names: dict[str, list[str]] = {}
    for value, name in compiled.assignment.values.items():
        if name != compiled.assignment.default:
            names.setdefault(name, []).append(value)
    others = [
        f"{name} of {', '.join(values[:MOST_VALUES])}"
        + (f" and {len(values) - MOST_VALUES} more" if len(values) > MOST_VALUES else "")
        for name, values in names.items()
    ]
    return f"{compiled.assignment.default}, but {', '.join(others)}" if others else MIXED


def prefix_of(name: str, *, given: bool) -> str:
    """What every name of the library begins with; a name that the user gave must serve as it is.

    ConfigError if it is no name in C. Two underscores in a row, as in `model_` and `_predict`, are C++'s own.
    """
    made = re.sub(r"_{2,}", "_", next(iter(identifiers([name]).values())).lower()[:MAX_PREFIX])
    made += "net" if made.endswith("_") else ""
    if given and (made != name or not re.fullmatch(r"[a-z]\w*", name, re.ASCII)):
        raise ConfigError(f"--name {name!r}: no name for a C library; try {made!r}")
    return made


def packed(kind: str, library: Library, about: list[str]) -> dict[str, str]:
    """Path in the archive -> text."""
    sources = emit_library(source_of(kind, library), runtime_sources())
    files = package(kind, library, sources, metadata.version("tinyhil"), about)
    files[f"{library.prefix}/LICENSE"] = asset("LICENSE").read_text(encoding="utf-8")
    return files


def require_place(path: Path, kind: str) -> None:
    """ConfigError if the file that a package of this kind is can not be there."""
    if path.suffix != ".zip" and not (kind == HEADER and path.suffix == ".h"):
        raise ConfigError(f"--out {path}: the library is one .zip file; name it {path.name}.zip")
    if not path.parent.is_dir():
        raise ConfigError(f"--out {path}: there is no folder {path.parent}")


def write_package(path: Path, files: Mapping[str, str], header: str | None = None) -> None:
    """A .zip of the files, in order, or of these the `header` alone if `path` ends in .h;
    what is there already stays until it is whole."""
    if header is not None and path.suffix == ".h":
        write_bytes(path, files[header].encode())
        return
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        stamp = _stamp()
        for name in sorted(files):
            entry = zipfile.ZipInfo(name, stamp)
            entry.external_attr = PERMISSIONS << 16
            archive.writestr(entry, files[name], zipfile.ZIP_DEFLATED)
    write_bytes(path, content.getvalue())


def _stamp() -> tuple[int, int, int, int, int, int]:
    """When its files were made, now or SOURCE_DATE_EPOCH (with it the same library is the same bytes): newer than what
    was built from an earlier library, or that would be built no more. An archive's times are even seconds."""
    given = os.environ.get("SOURCE_DATE_EPOCH", "")
    epoch = min(max(FIRST_TIME, int(given[:MOST_DIGITS])), LAST_TIME) if given.isdecimal() else None
    when = time.localtime(time.time() + 2) if epoch is None else time.gmtime(epoch)
    year, month, day, hour, minute, second, *_ = when
    return year, month, day, hour, minute, second


def _require_same(
    record: Mapping[str, Any], compiled: Compiled, board: BoardSpec | None, wanted: Wanted, path: Path
) -> None:
    """DataError, with all that is to be typed, if a record is of another model, board, format or plan than what is
    exported. A library for any chip has the calls of the host: each core has its own."""
    if compiled.model.sha256 != record["provenance"]["model_sha256"]:
        raise DataError(f"{path}: measured of another model; measure this one with `hil run`")
    wrong: list[tuple[str, str]] = []
    where, plan = str(record["board"]), record.get("plan") or {}
    if where != (ANY_CHIP if board is None else board.name):
        known = where == ANY_CHIP or where in load_boards().entries
        option = "no --board" if where == ANY_CHIP else f"--board {where}{'' if known else ' and its --boards-file'}"
        wrong.append((f"on {where}{', whose core has calls of its own' if board is None else ''}", option))
    here = formats_of(compiled.program)
    there = record.get("assignment", here)
    named = {name for tied in tied_values(compiled.model.graph) for name in tied}
    common = here.keys() & there.keys() & named  # a board's program may have tables and scratch of its own
    if not common or {name: here[name] for name in common} != {name: there[name] for name in common}:
        alone = record["format"] != MIXED
        wrong.append((f"in {record['format']}", f"--format {record['format']}" if alone else "its --assignment"))
    planned = plan.get("prefer")
    if planned is not None and planned != wanted.preferred:
        wrong.append((f"with --prefer {planned}", f"--prefer {planned}"))
    if planned is None and "prefer" in plan and wanted.preferred is not None:
        wrong.append((f"by `{record['provenance']['command']}`", "its --ram, or its --assignment"))
    if wrong:
        said, options = zip(*wrong, strict=True)
        raise DataError(
            f"{path}: measured {', '.join(said)}; export it with {' '.join(options)}, or measure it as here"
        )
    if here != there:
        raise DataError(f"{path}: measured of another program; measure this one with `hil run`")


def measured(record: Mapping[str, Any], path: Path) -> list[str]:
    """The figures of a record as Markdown; DataError if it is invalid."""
    if reason := invalid_because(record):
        raise DataError(f"{path}: that run is invalid: {reason}: nothing to show")
    latency, memory = record["latency"], record["memory"]
    emulator = record["emulator"]
    board = f"{record['board']} ({emulator['name']}, emulated)" if emulator else record["board"]
    rows = [
        ("board", board),
        (
            "samples",
            f"{record['samples']} of {record['data']['name']} ({record['data']['source']}), every output bit-exact",
        ),
        ("accuracy", _percent(record["accuracy"], record["float_accuracy"])),
        ("latency", f"median {ticks_text(latency['median'])} {latency['unit']}, max {latency['max']:,.0f}"),
        (
            "RAM of the whole firmware",
            f"{_bytes(memory['total_bytes'])}, of it stack at its peak {_bytes(memory['stack_bytes'])}{_worst(memory)}",
        ),
        ("flash of the whole firmware", _bytes(record["flash_bytes"])),
        ("compiler", f"{record['provenance']['compiler']['name']} {record['provenance']['compiler']['version']}"),
        ("measured", str(record["provenance"]["utc"])),
    ]
    lines = [
        "## Measured",
        "By `hil run`, on the firmware that holds the same calls and a wire protocol beside them; the latency is that",
        f"of the functions on codes{_copied(record)}. Converting floats, a scaler of inputs with it, comes on top.",
        "",
    ]
    return [*lines, "| | |", "|---|---|", *(f"| {name} | {markdown(str(value))} |" for name, value in rows)]


def _copied(record: Mapping[str, Any]) -> str:
    """Constants where RAM is free, and code, which counts as static RAM."""
    code = ((record.get("parts") or {}).get("ram") or {}).get("model code", 0)
    copied_bytes = record["memory"].get("copied_bytes", 0) + code
    return f", {copied_bytes:,} B of the flash copied to RAM as no library does" if copied_bytes else ""


def _worst(memory: Mapping[str, Any]) -> str:
    worst = at_worst(memory)
    return "" if worst is None else f"; at worst {worst:,} B, of it stack {memory['stack_limit_bytes']:,} B"


def _bytes(size: int | None) -> str:
    return "not measured" if size is None else f"{size:,} B"


def _percent(accuracy: float | None, float_accuracy: float | None) -> str:
    if accuracy is None or float_accuracy is None:
        return "not available: no labels"
    return f"{100 * accuracy:.2f} %, float {100 * float_accuracy:.2f} %"
