"""What products, results and calls cost on each core, fitted to images that were measured: harness/fit/costs.json.

    python -m benchmarks.latency_table             # from the records at hand, a minute
    python -m benchmarks.latency_table --measure   # first what is missing of images below, an hour
    python -m benchmarks.latency_table --cores cortex-m33,cortex-m0plus      # the others stay as they are

Measured are the golden records (`results/golden/`), the networks of results/networks.json (benchmarks/peers.py) and
what --measure adds in results/fit_points.json: more boards, and small networks (benchmarks/isolated.py) with operations
that the others lack or never have apart; of these each operation's cycles, too (`hil profile`). Costs have the least
sum of squared relative errors, and none is less than a floor: what no image tells apart would be free. `band`: the
shares of the estimate between which all images lie that were measured, and nine in ten of a network that was left out
of the fit.
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import nnls

from benchmarks.isolated import FEW, isolated
from benchmarks.peers import FORMATS, networks
from tinyhil.errors import HilError
from tinyhil.harness.build.pipeline import compile_model
from tinyhil.harness.build.toolchain import default_cache_dir
from tinyhil.harness.fit.features import (
    ADDITIONS,
    CALL,
    IMAGE,
    LIBRARY,
    OTHER,
    code_features,
    flash_constants,
    operation_features,
    time_features,
)
from tinyhil.harness.job.job import Request, open_model
from tinyhil.harness.measure.loop_limits import FLOAT, LIMITS
from tinyhil.harness.measure.profile import profile
from tinyhil.harness.settings.config import Boards, load_boards
from tinyhil.language.assignment import Assignment
from tinyhil.preference import BALANCED, RAM, Wish
from tools.measured import BOARDS, provenance

ROOT = Path(__file__).resolve().parent.parent
GOLDEN, NETWORKS = ROOT / "results" / "golden", ROOT / "results" / "networks.json"
POINTS, TABLE = ROOT / "results" / "fit_points.json", ROOT / "harness" / "fit" / "costs.json"
INT8_ALONE = ("transformer_fsdd", "bonsai_usps10", "bonsai_usps2", "protonn_usps10", "protonn_usps2", "fastgrnn_dsa19")
SAVING = ("digits_cnn", "lenet5_mnist", "protonn_letter26")  # of which golden records have layers and samples whole
PER_CHANNEL = ("digits_mlp", "digits_cnn", "fastgrnn_har", "lenet5_mnist")
RIDGE = 1e-3  # of a cost, as a share of an image's time: what no image tells apart is shared
NEAR = 1.0  # the same, towards the costs of a similar core
OPERATION = 0.99  # the weight beside an image's of operations that take all of its time; of others less
INSIDE = (5, 95)  # percentiles
# No operation is free: cycles of a call, of a product, of an element (two products in an instruction, two instructions
# in a cycle, and their operands); bytes of a kernel, of a layer, of a call's arguments.
FLOORS = {CALL: 10.0, IMAGE: 0.0} | dict.fromkeys(ADDITIONS, 0.0)
OF_BEST_LOOP = 0.7  # the least of a convolution's product as a share of what the best loop known takes
AT_ONCE = {"cortex-m7": 2.0}  # instructions in a cycle
LEAST, LEAST_BYTES = 0.5, 16.0
LEAST_SHARE = 0.01  # of an image's cycles, from which on it tells a cost
FEWEST = 5  # images whose stack speaks for a core; of fewer those of a similar one count, too
SHOWN = ("cycles_band", "code_band", "beside_bytes", "beside_floats_bytes", "copied_code")
Operations = tuple[tuple[Mapping[str, float], float], ...]  # features and cycles


@dataclass(frozen=True, slots=True)
class Point:
    """One measured image: what it consists of, cycles of a sample, bytes of code and of RAM beside arena and input;
    `copies`: its chip has kernels in RAM. `operations`: features and cycles of those that were timed."""

    network: str
    core: str
    time: Mapping[str, float]
    code: Mapping[str, float]
    cycles: float
    code_bytes: float
    beside_bytes: float | None
    copies: bool
    operations: Operations = ()


@dataclass(frozen=True, slots=True)
class Like:
    """A core whose costs another's stay near: how near, and whether its code is alike, too."""

    core: str = ""
    weight: float = NEAR
    has_code: bool = True


# Of cores of which few networks were measured, with the weights that give the narrowest bands. A Cortex-M0+ has two
# products in a multiplication like a Cortex-M3 (an AVR's costs, of one at a time, give three times the error). Cores
# without floats have a code for them that others lack. Each is behind what it is like.
SIMILAR = {
    "cortex-m3": Like("cortex-m7", 0.03, has_code=False),
    "cortex-m4": Like("cortex-m7", 0.3),
    "cortex-m33": Like("cortex-m7", 1.0),
    "cortex-m0plus": Like("cortex-m3", 0.03, has_code=False),
}


@dataclass(frozen=True, slots=True)
class Image:
    """What was measured of one image, and how it is made again; `inputs` None: ranges are the model's own."""

    network: str
    model: str
    inputs: Path | None
    board: str
    format: str
    cycles: float
    flash_bytes: float
    beside_bytes: float | None = None
    operations: Mapping[str, float] | None = None  # cycles by the tensor that is written
    prefer: str = BALANCED


def points(boards: Boards, cores: Collection[str]) -> Iterator[Point]:
    """Of the images of these cores; of all if there are none."""

    def has(board: str) -> bool:
        return not cores or boards.board(board).chip.core in cores

    for path in sorted(GOLDEN.rglob("*.json")):
        record = json.loads(path.read_text())
        if record["format"] in FORMATS and record["order"]["assignment"] is None and has(record["board"]):
            memory = record["memory"]
            beside = memory["total_bytes"] - memory["arena_bytes"] - memory["input_bytes"]
            how = record["model"], record["model"], None, record["board"], record["format"]
            yield _point(boards, Image(*how, record["latency"]["median"], record["flash_bytes"], beside))
    rows = [*json.loads(NETWORKS.read_text())["rows"], *json.loads(POINTS.read_text())["rows"]]
    with tempfile.TemporaryDirectory() as folder:
        known = {wanted.title: wanted for wanted in _all(Path(folder))}
        for row in (row for row in rows if has(row["board"])):
            network = known[row["network"]]
            for fmt, costs in row["formats"].items():
                if costs is not None:
                    made = row["network"], str(network.model), network.inputs, row["board"], fmt
                    beside = costs.get("beside_bytes"), costs.get("operations")
                    yield _point(boards, Image(*made, costs["cycles"], costs["flash_bytes"], *beside, network.prefer))


@dataclass(frozen=True, slots=True)
class Wanted:
    """What --measure is for: a model, inputs (None: of its own data), boards and formats."""

    title: str
    model: str
    inputs: Path | None
    boards: Sequence[str]
    formats: Sequence[str] = FORMATS
    prefer: str = BALANCED


def _all(folder: Path) -> Iterator[Wanted]:
    yield from (Wanted(one.title, str(one.model), one.inputs, FEW) for one in networks(folder))
    yield from (Wanted(one.title, str(one.model), one.inputs, one.boards) for one in isolated(folder))
    yield from (Wanted(name, name, None, (*BOARDS, *FEW), ("int8",)) for name in INT8_ALONE)
    yield from (Wanted(f"{name} per channel", name, None, (*BOARDS, *FEW), ("fixed8pc",)) for name in PER_CHANNEL)
    yield from (Wanted(f"{name} --prefer ram", name, None, (*BOARDS, *FEW), prefer=RAM) for name in SAVING)


def _point(boards: Boards, image: Image) -> Point:
    opened, chip = open_model(image.model), boards.board(image.board).chip
    ranges = opened.required_ranges(image.inputs)
    compiled = compile_model(
        opened.model,
        Assignment(image.format),
        ranges,
        [boards.board(image.board)],
        [image.board],
        wish=Wish(image.prefer),
    )
    program, plan = compiled.program, compiled.plan
    return Point(
        image.network, chip.core, time_features(program, plan), code_features(program, plan), image.cycles,
        image.flash_bytes - flash_constants(program), image.beside_bytes,
        chip.hot is not None and bool(chip.hot.code_bytes), _by_kind([*operation_features(program, plan)], image),
    )  # fmt: skip


def _by_kind(features: Sequence[tuple[str, Mapping[str, float]]], image: Image) -> Operations:
    """Operations of the same features together, but those that write a tensor which another writes, too. HilError where
    the image that was timed had others."""
    writers = Counter(output for output, _ in features)
    alone = {output: counts for output, counts in features if writers[output] == 1}
    kinds: dict[frozenset[str], Counter[str]] = {}
    for output, cycles in (image.operations or {}).items():
        if not writers[output]:
            raise HilError(f"{image.network}, {image.board}, {image.format}: nothing writes {output}; measure again")
        if output in alone:
            kinds.setdefault(frozenset(alone[output]), Counter()).update({**alone[output], "": cycles})
    return tuple(({name: n for name, n in kind.items() if name}, kind[""]) for kind in kinds.values() if kind[""] > 0)


@dataclass(frozen=True, slots=True)
class Row:
    """What is known of one network: so much for these features, with a weight among others; `whole`: an image."""

    network: str
    features: Mapping[str, float]
    value: float
    weight: float = 1.0

    @property
    def whole(self) -> bool:
        return self.weight == 1.0


def floors(core: str) -> Mapping[str, float]:
    """Least cycles of a feature on this core; of products in convolutions, of which few images tell products from
    places, as the best loops have them."""
    loops = {operands: most for operands, most in LIMITS.get(core, {}).items() if FLOAT not in operands}
    least = {
        f"{kind} {max(a, b, key=int)}x{min(a, b, key=int)}": OF_BEST_LOOP * most / AT_ONCE.get(core, 1.0)
        for (a, b), most in loops.items()
        for kind in ("window", "pointwise")
    }
    return {**FLOORS, **{name: max(LEAST, value) for name, value in least.items()}}


def fitted(
    rows: list[Row],
    least: Mapping[str, float],
    prior: Mapping[str, float] | None = None,
    weight: float = NEAR,
) -> dict[str, float]:
    """Cost of each feature, at least its floor in `least` or that of all others (""); what no image tells apart stays
    near a multiple of `prior`, which has this `weight`."""
    prior = prior or {}
    names = sorted({name for row in rows for name in row.features} | prior.keys())
    share = np.array([[row.features.get(name, 0.0) / row.value for name in names] for row in rows])
    weights = np.array([row.weight for row in rows])
    known = [row.whole for row in rows]
    near = np.array([prior.get(name, 0.0) for name in names])
    near = near * (np.median(1 / (share[known] @ near)) if prior else 0.0)
    floor = np.array([least.get(name, least[""]) for name in names])
    scale = np.maximum(share.max(axis=0), np.where(near > 0, weight / np.maximum(near, 1e-9), 1e-9))
    ridge = (weight if prior else RIDGE) * np.eye(len(names))
    wanted = np.concatenate([weights * (1 - share @ floor), (weight if prior else 0.0) * (near - floor) * scale])
    found, _ = nnls(np.vstack([weights[:, None] * share / scale, ridge]), wanted)
    costs = found / scale + floor
    return {name: float(f"{cost:.4g}") for name, cost in zip(names, costs, strict=True)}


def estimate(costs: Mapping[str, float], features: Mapping[str, float]) -> float:
    return sum(costs.get(name, 0.0) * count for name, count in features.items())


def band(
    rows: list[Row],
    least: Mapping[str, float],
    prior: Mapping[str, float] | None = None,
    weight: float = NEAR,
) -> list[float]:
    """Measured over estimated of all images, and of nine in ten of networks that the fit has not seen; of what it then
    knows nothing it says nothing."""
    ratios = []
    for network in sorted({row.network for row in rows}):
        costs = fitted([row for row in rows if row.network != network], least, prior, weight)
        own = [row for row in rows if row.network == network and row.whole and row.features.keys() <= costs.keys()]
        ratios += [row.value / estimate(costs, row.features) for row in own]
    low, high = np.percentile(ratios, INSIDE)
    costs = fitted(rows, least, prior, weight)
    seen = [row.value / estimate(costs, row.features) for row in rows if row.whole]
    return [math.floor(1000 * min(low, *seen)) / 1000, math.ceil(1000 * max(high, *seen)) / 1000]


def _measurable(costs: dict[str, float], rows: list[Row]) -> dict[str, float]:
    """The costs without those of kernels of their own that are next to nothing in each image, which says nothing."""
    counted = {name for name in costs if not name.startswith(OTHER)}
    for row in rows:
        counted.update(name for name, count in row.features.items() if count * costs[name] >= LEAST_SHARE * row.value)
    return {name: cost for name, cost in costs.items() if name in counted}


def _turn(core: str) -> int:
    """Cores whose costs stand alone first."""
    return [*SIMILAR].index(core) if core in SIMILAR else -1


def table(found: list[Point], others: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """`others`: of cores without a point."""
    cores: dict[str, dict[str, Any]] = {**others}
    for core in sorted({point.core for point in found}, key=_turn):
        like = SIMILAR.get(core, Like())
        other = cores.get(like.core, {})
        time, code = other.get("cycles"), other.get("code_bytes") if like.has_code else None
        own = [point for point in found if point.core == core]
        known = [
            (LIBRARY in point.code, point.beside_bytes) for point in own if point.beside_bytes and not point.copies
        ]
        beside, floats = ([value for has, value in known if has is wanted] for wanted in (False, True))
        times = [Row(point.network, point.time, point.cycles) for point in own]
        times += [Row(point.network, *timed, _weight(timed[1], point)) for point in own for timed in point.operations]
        cycles, code_bytes = {**floors(core), "": LEAST}, {**FLOORS, "": LEAST_BYTES}
        codes = [Row(point.network, point.code, point.code_bytes) for point in own]
        cores[core] = {
            "images": len(own),
            "networks": len({point.network for point in own}),
            "cycles": dict.fromkeys(ADDITIONS, 0.0) | _measurable(fitted(times, cycles, time, like.weight), times),
            "cycles_band": band(times, cycles, time, like.weight),
            "code_bytes": fitted(codes, code_bytes, code, like.weight),
            "code_band": band(codes, code_bytes, code, like.weight),
            "beside_bytes": _spread(beside if len(beside) >= FEWEST else [*beside, *other["beside_bytes"]]),
            "beside_floats_bytes": _spread(floats or other["beside_floats_bytes"]),
            "copied_code": _copied([point for point in own if point.copies], float(np.median(beside))),
        }
    return cores


def _weight(cycles: float, point: Point) -> float:
    """Of operations of a kind in an image: the more, the more of its time they take."""
    return OPERATION * math.sqrt(cycles / point.cycles)


def _spread(values: Sequence[float]) -> list[float]:
    return [float(f"{found(values):.4g}") for found in (np.min, np.median, np.max)]


def _copied(own: Sequence[Point], usual: float) -> list[float]:
    """Shares of code that lie in RAM, too: what of RAM is beside the usual."""
    if not own:
        return [0.0] * 3
    shares = [(point.beside_bytes - usual) / point.code_bytes for point in own if point.beside_bytes is not None]
    return [max(0.0, share) for share in _spread(shares)]


def measure(boards: Boards, measured_at: Mapping[str, Any]) -> None:
    """One sample of each network in each format on the boards that lack it."""
    before = json.loads(POINTS.read_text())
    done = {(row["network"], row["board"]): row for row in before["rows"]}
    made = {**measured_at, "commit": f"{before['provenance']['commit']} {measured_at['commit']}"}
    with tempfile.TemporaryDirectory() as folder:
        for wanted in _all(Path(folder)):
            for board in wanted.boards:
                row = done.setdefault((wanted.title, board), {"network": wanted.title, "board": board, "formats": {}})
                for fmt in wanted.formats:
                    if fmt not in row["formats"]:
                        row["formats"][fmt] = _measured(boards, wanted, board, fmt, Path(folder))
                        table = {"provenance": made, "rows": [*done.values()]}
                        POINTS.write_text(json.dumps(table, indent=1) + "\n")
                        print(wanted.title, board, fmt, row["formats"][fmt], flush=True)


def _measured(boards: Boards, wanted: Wanted, board: str, fmt: str, folder: Path) -> dict[str, Any] | None:
    """Cycles of a sample and of each operation in it, and bytes; None of what does not fit."""
    given = wanted.inputs
    request = Request(
        board, wanted.model, fmt, inputs=given, calibrate=given, samples=1, prefer=wanted.prefer, results=folder / "r"
    )
    try:
        found = profile(request, boards, default_cache_dir(), lambda _: None, lambda *_: None)
    except HilError as error:
        print(wanted.title, board, fmt, error)
        return None
    memory = json.loads(Path(found.record).read_text())["memory"]
    return {
        "cycles": found.whole,
        "flash_bytes": found.flash_bytes,
        "beside_bytes": memory["total_bytes"] - memory["arena_bytes"] - memory["input_bytes"],
        "operations": {one.output: round(one.ticks) for one in found.operations},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measure", action="store_true")
    parser.add_argument("--cores", default="")
    given, measured_at, boards = parser.parse_args(), provenance(), load_boards()
    if given.measure:
        measure(boards, measured_at)
    cores = set(filter(None, given.cores.split(",")))
    old = json.loads(TABLE.read_text()) if cores else {"cores": {}}
    if cores:
        before = old["provenance"]
        measured_at["commit"] = f"{before.get('commit', before.get('committed_with'))} {measured_at['commit']}"
    made = {"provenance": measured_at, "cores": table(list(points(boards, cores)), old["cores"])}
    TABLE.write_text(json.dumps(made, indent=1) + "\n")
    for core, row in made["cores"].items():
        print(core, row["images"], *(f"{name} {row[name]}" for name in SHOWN))


if __name__ == "__main__":
    main()
