"""Golden records: what a model must give on a board, kept in the repository beside it.

A golden record holds what of a run's record must be the same next time (outputs, costs, sizes, the compiler they are
of), and the `order` that repeats it. Its inputs are a file of the repository's, or drawn from a seed over the model's
calibrated range, so that it can be repeated without a data set.
"""

from __future__ import annotations

import json
import shlex
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from tinyhil import files
from tinyhil.errors import BoardError, DataError
from tinyhil.formats.clipping import METHODS
from tinyhil.harness.boards.locate import Place, locate
from tinyhil.harness.job.job import Request, Streamed, open_model
from tinyhil.harness.measure.record import make_record
from tinyhil.harness.measure.run import run
from tinyhil.harness.records.compare import Difference, compare
from tinyhil.harness.records.figures import figures
from tinyhil.harness.records.partial import writing
from tinyhil.harness.records.render import as_text, summary
from tinyhil.harness.records.schema import read_record
from tinyhil.harness.records.side_by_side import EQUAL, Row, changes, with_times
from tinyhil.harness.records.verdict import invalid_because, issue_texts
from tinyhil.harness.settings.config import Boards
from tinyhil.harness.settings.limits import AtLeast, OneOf, require
from tinyhil.notice import Say
from tinyhil.preference import PREFERENCES

FOLDER = Path("results/golden")
SAMPLES = 16
SEED = 1
FIELDS = ("schema_version", "board", "emulator", "model", "format", "samples", "bit_exact", "accuracy", "flash_bytes")
OPTIONAL_FIELDS = ("output", "float_accuracy", "disagreements", "equal_samples", "largest_output_error", "decided_by")
PROVENANCE_FIELDS = ("compiler", "model_sha256")
UNSAID = ("states", "steps", "ram")  # keys an order has only where they are given
PHYSICAL = ".physical"  # between name and suffix of a physical board's record
UPDATE = "if the change is meant: hil golden update"


@dataclass(frozen=True, slots=True)
class Order:
    """What is run; paths are relative to the folder `hil golden` is called in. `inputs` None: drawn from the seed."""

    board: str
    model: str
    format: str = "fixed16"
    assignment: str | None = None
    inputs: str | None = None
    calibrate: str | None = None
    calibrate_by: str | None = None
    samples: Annotated[int, AtLeast(1)] = SAMPLES
    prefer: Annotated[str, OneOf(PREFERENCES)] | None = None  # None: as the assignment file says, else balanced
    states: tuple[str, ...] | None = None  # pairs INPUT=OUTPUT
    steps: Annotated[int, AtLeast(1)] | None = None
    ram: Annotated[int, AtLeast(1)] | None = None  # bytes for arena and input, as `hil run --ram`

    def __post_init__(self) -> None:
        require("golden", self)

    def as_json(self) -> dict[str, Any]:
        """As a record keeps it: of a model without states nothing of these, without a limit of RAM nothing of that."""
        return {key: value for key, value in asdict(self).items() if key not in UNSAID or value is not None}


@dataclass(frozen=True, slots=True)
class Bench:
    """Where runs take place: the boards, the cache of builds, the port if one was named, where paths start.

    `wait_s`: how long to wait for a board that is in use; None: as the bench file says.
    """

    boards: Boards
    cache_dir: Path
    say: Say
    port: str | None = None
    root: Path = Path()
    timeout_s: float = 30.0
    wait_s: float | None = None


@dataclass(frozen=True, slots=True)
class Checked:
    """`record` is what was measured, `rows`: its figures beside the golden ones; `missing`: there is no golden record
    at `path` to compare it with."""

    path: Path
    record: Mapping[str, Any]
    differences: list[Difference]
    missing: bool = False
    rows: tuple[Row, ...] = ()

    @property
    def fails(self) -> bool:
        """Whether something differs that a gate holds."""
        return any(difference.fails for difference in self.differences)

    def as_json(self) -> dict[str, Any]:
        """Its file, whether it holds, and what differs."""
        return {"path": str(self.path), "holds": not self.fails, "differences": list(map(asdict, self.differences))}


def measure(order: Order, bench: Bench, samples: int | None = None) -> dict[str, Any]:
    """The record of running the first `samples` of `order` (None: all). Leaves nothing behind."""
    with tempfile.TemporaryDirectory(prefix="hil-golden-") as folder:
        request = request_of(order, bench, Path(folder), samples)
        outcome = run(request, bench.boards, bench.cache_dir, bench.say, lambda done, total: None)
        outcome.partial.discard()
        return make_record(outcome, detailed=False)


def request_of(order: Order, bench: Bench, folder: Path, samples: int | None) -> Request:
    """The run that `order` means; drawn inputs and unfinished samples go into `folder`."""
    return Request(
        order.board,
        model_of(order, bench),
        order.format,
        assignment=bench.root / order.assignment if order.assignment else None,
        inputs=bench.root / order.inputs if order.inputs else draw_inputs(order, bench, folder),
        calibrate=bench.root / order.calibrate if order.calibrate else None,
        calibrate_by=order.calibrate_by,
        samples=min(samples or order.samples, order.samples),
        prefer=order.prefer,
        ram=order.ram,
        port=bench.port,
        timeout_s=bench.timeout_s,
        wait_s=bench.wait_s,
        results=folder,
        drawn=not order.inputs,
        states=order.states,
        steps=order.steps,
    )


def place_of(board: str, bench: Bench) -> Place:
    """The board that a name means; BoardError as for `hil run`."""
    return locate(bench.boards, board, bench.port)


def order_at(path: Path, bench: Bench, anew: bool = False) -> Order:
    """The order of the golden record at `path`; `anew`: on the board it was of, emulated if that was.

    BoardError if it is of a physical board and none is attached.
    """
    order, golden = read_golden(path)
    if golden["emulator"] is not None:
        return replace(order, board=f"{order.board}@emulated") if anew else order
    if path.name.endswith(PHYSICAL + ".json") and place_of(order.board, bench).port is None:
        raise BoardError(f"{path}: it is of a physical {order.board}, and none is attached")
    return order


def portable_order(order: Order, boards: Boards) -> Order:
    """The order as a golden record keeps it: of a kind of board, not of the one on somebody's desk."""
    by = order.calibrate_by if order.assignment else order.calibrate_by or METHODS[0]  # else as the file says
    return replace(order, board=boards.board(order.board).name, calibrate_by=by)


def model_of(order: Order, bench: Bench) -> str:
    """A name in the zoo, or the path of a file."""
    return str(bench.root / order.model) if "/" in order.model or "." in order.model else order.model


def draw_inputs(order: Order, bench: Bench, folder: Path) -> Path:
    """Seeded samples over the calibrated range of the model's input, the even ones small, as a .npz file.

    DataError without ranges to draw from.
    """
    samples = bench.root / order.calibrate if order.calibrate else None
    opened = open_model(model_of(order, bench), streamed=Streamed(order.states, order.steps, samples))
    source, model = opened.source, opened.model
    ranges = opened.known_ranges(samples)
    if ranges is None:
        raise DataError(f"{source.path}: no calibrated ranges to draw golden inputs from; give --inputs or --calibrate")
    name = model.graph.inputs[0]
    low, high = ranges.values[name]
    noise = np.random.default_rng(SEED).random((order.samples, *model.graph.shapes[name]))
    reach = np.where(np.arange(order.samples) % 2, 1.0, 0.25).reshape(-1, *[1] * (noise.ndim - 1))
    middle, half = (high + low) / 2, (high - low) / 2
    path = folder / "seeded.npz"
    np.savez(path, x=(middle + half * reach * (2 * noise - 1)).astype(np.float32))
    return path


def make_golden(order: Order, record: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a run's record that must be the same next time."""
    return {
        "kind": "golden",
        "order": {**order.as_json(), "samples": record["samples"]},  # of fewer inputs than asked for, these
        **{key: record[key] for key in FIELDS},
        "latency": {key: record["latency"][key] for key in ("unit", "median", "clock_hz")},
        **({"data": {key: record["data"][key] for key in ("name", "sha256")}} if "data" in record else {}),
        "memory": dict(record["memory"]),
        "raw": dict(record["raw"]),
        **{key: record[key] for key in OPTIONAL_FIELDS if key in record},
        "provenance": {key: record["provenance"][key] for key in PROVENANCE_FIELDS},
        **({"boots": record["boots"]} if "boots" in record else {}),
    }


def path_of(order: Order, folder: Path, physical: bool = False) -> Path:
    """<folder>/<board>/<model>-<format>.json, with what is preferred and the limit of RAM behind it if
    these are said; the times of a physical board are in a file of their own."""
    name = Path(order.model).stem if "/" in order.model or "." in order.model else order.model
    what = Path(order.assignment).stem if order.assignment else order.format
    what += f"-{order.prefer}" if order.prefer else ""
    what += f"-ram{order.ram}" if order.ram else ""
    return folder / order.board / f"{name}-{what}{PHYSICAL if physical else ''}.json"


def write_golden(path: Path, golden: Mapping[str, Any]) -> None:
    """Write a golden record, folder included."""
    with writing(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        files.write_text(path, json.dumps(golden, indent=1) + "\n")


def read_golden(path: Path) -> tuple[Order, dict[str, Any]]:
    """The order and the record; DataError if the file is no golden record."""
    record = read_record(path)
    if record.get("kind") != "golden" or record.get("order") is None:
        raise DataError(f"{path}: not a golden record; make one with `hil golden update`")
    known = {field.name for field in fields(Order)}
    given = {key: value for key, value in record["order"].items() if key in known}
    states = given.get("states")
    order = Order(**{**given, "states": None if states is None else tuple(states)})
    name = Path(order.model).stem if "/" in order.model or "." in order.model else order.model
    said = {"board": order.board.partition("@")[0], "model": name, "samples": order.samples}
    other = [f"{key} {record[key]}, its order {value}" for key, value in said.items() if record[key] != value]
    if other:
        raise DataError(f"{path}: edited: it says {other[0]}; make it anew with `hil golden update`")
    return order, record


def with_samples_of(path: Path, order: Order) -> Order:
    """`order` on as many samples as the record there has, if there is one."""
    return replace(order, samples=read_golden(path)[0].samples) if path.is_file() else order


def find_golden(*places: Path) -> list[Path]:
    """These golden records, and all below those that are folders, of one board or of all; none of what is not there."""
    files = [place for place in places if place.is_file()]
    return [*files, *sorted(path for place in places for form in ("*.json", "*/*.json") for path in place.glob(form))]


def check_golden(path: Path, bench: Bench, samples: int | None = None) -> Checked:
    """What the first `samples` of a golden record's order give otherwise now."""
    golden, record = read_golden(path)[1], measure(order_at(path, bench), bench, samples)
    differences = _with_samples(compare(figures(golden), figures(record)))
    return Checked(path, record, differences, rows=_rows(golden, record))


def check_or_update(
    order: Order, folder: Path, bench: Bench, samples: int | None, resets: int, update: bool
) -> Checked:
    """Hold `order` to its golden record, or write it. A physical board is booted `resets` times."""
    physical = place_of(order.board, bench).port is not None
    remembered = portable_order(order, bench.boards)
    path = path_of(remembered, folder, physical)
    if physical and not update and not path.is_file():
        path = path_of(remembered, folder)  # outputs and bytes are the same everywhere
    measured = (
        measure_physical(order, bench, samples, resets, path) if physical else (measure(order, bench, samples), None)
    )
    record, differences = measured
    if update:
        if reason := invalid_because(record):
            return Checked(path, record, [Difference("verdict", f"invalid: {reason}; not written")])
        write_golden(path, make_golden(remembered, record))
        return Checked(path, record, [])
    if not path.is_file():
        return Checked(path, record, [], missing=True)
    golden = read_golden(path)[1]
    if differences is None:
        differences = compare(figures(golden), figures(record))
    differences = _with_samples(differences)
    if record["samples"] > golden["samples"]:
        more = record["samples"] - golden["samples"]
        said = f"{golden['samples']} in the golden record, {record['samples']} in the test: {more} are held to nothing"
        differences.append(Difference("samples", said))
    return Checked(path, record, differences, rows=_rows(golden, record))


def _rows(golden: Mapping[str, Any], record: Mapping[str, Any]) -> tuple[Row, ...]:
    """Their figures beside each other: times of the samples that were measured now, of boards of their boots."""
    return tuple(changes(with_times(golden, record["samples"]), record))


def _with_samples(differences: list[Difference]) -> list[Difference]:
    """Samples and their codes are held, too: with others a test would pass whatever comes out."""
    return [replace(each, fails=True) if each.what == "inputs" else each for each in differences]


def measure_physical(
    order: Order, bench: Bench, samples: int | None, resets: int, path: Path
) -> tuple[dict[str, Any], list[Difference] | None]:
    """Record and differences from the golden record at `path` (None: there is none), by `harness.bench`."""
    from tinyhil.harness.measure import bench as timing

    count = samples or order.samples
    plan = timing.Plan(resets, max(1, count - 1), 1 if count > 1 else 0)
    with tempfile.TemporaryDirectory(prefix="hil-golden-") as folder:
        request = request_of(order, bench, Path(folder), samples)
        request = replace(request, results=bench.root / "results", called=f"hil golden check {shlex.quote(str(path))}")
        if path.is_file():
            golden = read_golden(path)[1]
            record, differences = timing.gate(golden, request, plan, bench.boards, bench.cache_dir, bench.say)
        else:
            nothing = lambda done, total: None  # noqa: E731
            record = timing.bench(request, plan, bench.boards, bench.cache_dir, bench.say, nothing)
            return record, None
    timing.store(record, bench.root / "results")
    return record, differences


def said_of(found: Checked) -> list[str]:
    """What differs, one line each; of another model, or other codes, its figures before and now, too; first why what is
    written is doubtful."""
    doubts = [] if found.differences else issue_texts(found.record)
    lines = [*doubts, *(str(difference) for difference in found.differences)]
    if _of_other_inputs(found):
        rows = (row for row in summary(found.rows) if row.status != EQUAL)
        lines += [f"{row.what}: {row.before} -> {row.now}" if row.before else f"{row.what}: {row.now}" for row in rows]
    return lines


def _of_other_inputs(found: Checked) -> bool:
    return any(difference.what in ("model", "inputs") for difference in found.differences)


def describe(found: Checked, remedy: str = "") -> str:
    """What is wrong, one line each, for another model or other codes its figures beside the old ones, and what to
    do."""
    lines = [f"{found.path}: {difference}" for difference in found.differences if difference.fails]
    if _of_other_inputs(found):
        lines.append(as_text("", summary(found.rows)).lstrip("\n"))
    return "\n".join([*lines, remedy or f"read the change; {UPDATE} {found.path}"])
