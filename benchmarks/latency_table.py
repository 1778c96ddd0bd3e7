"""What products, results and calls cost on each core, fitted to images that were measured: harness/fit/costs.json.

    python -m benchmarks.latency_table             # from the records at hand, a minute
    python -m benchmarks.latency_table --measure   # first images of boards of which there are too few, many minutes
    python -m benchmarks.latency_table --cores cortex-m33,cortex-m0plus      # the others stay as they are

Measured are the golden records (`results/golden/`), the networks of results/networks.json (benchmarks/peers.py) and
what --measure adds in results/fit_points.json: more boards, and convolutions in groups, of which the others have none
but depthwise ones. Costs are the non-negative numbers with the least sum of squared
relative errors. `band`: nine in ten images of a network that was left out of the fit lie between these shares of the
estimate.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper
from scipy.optimize import nnls

from benchmarks.peers import FORMATS, Network, networks
from tinyhil.errors import HilError
from tinyhil.harness.build.pipeline import compile_model
from tinyhil.harness.build.toolchain import default_cache_dir
from tinyhil.harness.fit.features import code_features, flash_constants, time_features
from tinyhil.harness.job.job import Request, open_model
from tinyhil.harness.measure.record import store
from tinyhil.harness.measure.run import run
from tinyhil.harness.settings.config import Boards, load_boards
from tinyhil.language.assignment import Assignment
from tools.measured import ARM, provenance

ROOT = Path(__file__).resolve().parent.parent
GOLDEN, NETWORKS = ROOT / "results" / "golden", ROOT / "results" / "networks.json"
POINTS, TABLE = ROOT / "results" / "fit_points.json", ROOT / "harness" / "fit" / "costs.json"
FEW = ("nucleo_l4r5", "nucleo_g0b1", "nucleo_u575")  # boards that --measure is for
GROUPS = ((2, 24, 12), (4, 32, 16), (8, 64, 8))  # in a convolution of 3 x 3 and a pointwise one; channels, side
RIDGE = 1e-3  # of a cost, as a share of an image's time: what no image tells apart is shared
NEAR = 1.0  # the same, towards the costs of a similar core
INSIDE = (5, 95)  # percentiles


@dataclass(frozen=True, slots=True)
class Point:
    """One measured image: what it consists of, cycles of a sample, bytes of code and of RAM beside arena and input."""

    network: str
    core: str
    time: Mapping[str, float]
    code: Mapping[str, float]
    cycles: float
    code_bytes: float
    beside_bytes: float | None


@dataclass(frozen=True, slots=True)
class Like:
    """A core whose costs another's stay near: how near, and whether its code is alike, too."""

    core: str = ""
    weight: float = NEAR
    has_code: bool = True


# Of cores of which few networks were measured, with the weights that give the narrowest bands. A Cortex-M0+ has two
# products in a multiplication like a Cortex-M3 (an AVR's costs, of one at a time, give three times the error). Images
# of a Cortex-M3 do not tell functions of floats from the rest: these then cost nothing. Each is behind what it is like.
SIMILAR = {
    "cortex-m3": Like("cortex-m7", 0.3, has_code=False),
    "cortex-m4": Like("cortex-m7", 2.0),
    "cortex-m33": Like("cortex-m7", 2.0),
    "cortex-m0plus": Like("cortex-m3", 0.1, has_code=False),
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


def points(boards: Boards, cores: Collection[str]) -> Iterator[Point]:
    """Of the images of these cores; of all if there are none."""

    def wanted(board: str) -> bool:
        return not cores or boards.board(board).chip.core in cores

    for path in sorted(GOLDEN.rglob("*.json")):
        record = json.loads(path.read_text())
        if record["order"]["assignment"] is None and wanted(record["board"]):
            memory = record["memory"]
            beside = memory["total_bytes"] - memory["arena_bytes"] - memory["input_bytes"]
            how = record["model"], record["model"], None, record["board"], record["format"]
            yield _point(boards, Image(*how, record["latency"]["median"], record["flash_bytes"], beside))
    rows = [*json.loads(NETWORKS.read_text())["rows"]]
    if POINTS.is_file():
        rows += json.loads(POINTS.read_text())["rows"]
    with tempfile.TemporaryDirectory() as folder:
        known = {network.title: network for network, _ in _all(Path(folder))}
        for row in (row for row in rows if wanted(row["board"])):
            network = known[row["network"]]
            for fmt, costs in row["formats"].items():
                if costs is not None:
                    made = row["network"], str(network.model), network.inputs, row["board"], fmt
                    yield _point(boards, Image(*made, costs["cycles"], costs["flash_bytes"]))


def grouped(folder: Path) -> Iterator[Network]:
    """Networks with convolutions in groups, of random weights."""
    for groups, channels, side in GROUPS:
        random = np.random.default_rng(groups)
        shapes: dict[str, tuple[int, ...]] = {
            "first": (channels, 3, 3, 3),
            "window": (channels, channels // groups, 3, 3),
        }
        shapes |= {"point": (channels, channels // groups, 1, 1), "last": (channels * side * side // 4, 10)}
        weights = [numpy_helper.from_array(random.normal(0, 0.2, s).astype(np.float32), n) for n, s in shapes.items()]
        around = [1] * 4
        nodes = [
            helper.make_node("Conv", ["x", "first"], ["a"], pads=around),
            helper.make_node("Relu", ["a"], ["b"]),
            helper.make_node("Conv", ["b", "window"], ["c"], pads=around, group=groups),
            helper.make_node("Relu", ["c"], ["d"]),
            helper.make_node("Conv", ["d", "point"], ["e"], group=groups),
            helper.make_node("MaxPool", ["e"], ["f"], kernel_shape=[2, 2], strides=[2, 2]),
            helper.make_node("Flatten", ["f"], ["g"]),
            helper.make_node("MatMul", ["g", "last"], ["y"]),
        ]
        ends = [helper.make_tensor_value_info(*end) for end in (("x", 1, (1, 3, side, side)), ("y", 1, (1, 10)))]
        graph = helper.make_graph(nodes, "groups", ends[:1], ends[1:], weights)
        model, inputs = folder / f"groups_{groups}.onnx", folder / f"groups_{groups}.npz"
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), model)
        np.savez(inputs, x=random.normal(size=(8, 3, side, side)).astype(np.float32))
        yield Network(f"{groups} groups of {channels // groups} channels", model, inputs, 1, {}, {}, (*ARM, *FEW))


def _all(folder: Path) -> Iterator[tuple[Network, Sequence[str]]]:
    """Every network, and the boards that --measure is for."""
    yield from ((network, FEW) for network in networks(folder))
    yield from ((network, network.boards) for network in grouped(folder))


def _point(boards: Boards, image: Image) -> Point:
    opened, spec = open_model(image.model), boards.board(image.board)
    ranges = opened.required_ranges(image.inputs)
    compiled = compile_model(opened.model, Assignment(image.format), ranges, [spec], [image.board])
    program, plan = compiled.program, compiled.plan
    constants = flash_constants(program)
    return Point(
        image.network, spec.chip.core, time_features(program, plan), code_features(program, plan), image.cycles,
        image.flash_bytes - constants, image.beside_bytes,
    )  # fmt: skip


def fitted(
    rows: list[tuple[Mapping[str, float], float]], prior: Mapping[str, float] | None = None, weight: float = NEAR
) -> dict[str, float]:
    """Cost of each feature; what no image tells apart stays near a multiple of `prior`, which has this `weight`."""
    prior = prior or {}
    names = sorted({name for features, _ in rows for name in features} | prior.keys())
    share = np.array([[features.get(name, 0.0) / value for name in names] for features, value in rows])
    near = np.array([prior.get(name, 0.0) for name in names])
    near = near * (np.median(1 / (share @ near)) if prior else 0.0)
    scale = np.maximum(share.max(axis=0), np.where(near > 0, weight / np.maximum(near, 1e-9), 1e-9))
    ridge = (weight if prior else RIDGE) * np.eye(len(names))
    wanted = np.concatenate([np.ones(len(rows)), (weight if prior else 0.0) * near * scale])
    found, _ = nnls(np.vstack([share / scale, ridge]), wanted)
    return {name: float(f"{cost / unit:.4g}") for name, cost, unit in zip(names, found, scale, strict=True)}


def estimate(costs: Mapping[str, float], features: Mapping[str, float]) -> float:
    return sum(costs.get(name, 0.0) * count for name, count in features.items())


def band(
    rows: list[tuple[str, Mapping[str, float], float]], prior: Mapping[str, float] | None = None, weight: float = NEAR
) -> list[float]:
    """Measured over estimated of networks that the fit has not seen; of what it then knows nothing it says nothing."""
    ratios = []
    for network in sorted({title for title, _, _ in rows}):
        costs = fitted([(features, value) for title, features, value in rows if title != network], prior, weight)
        own = [
            (features, value) for title, features, value in rows if title == network and features.keys() <= costs.keys()
        ]
        ratios += [value / estimate(costs, features) for features, value in own]
    low, high = np.percentile(ratios, INSIDE)
    return [round(float(low), 3), round(float(high), 3)]


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
        beside = [point.beside_bytes for point in own if point.beside_bytes is not None]
        cores[core] = {
            "images": len(own),
            "networks": len({point.network for point in own}),
            "cycles": fitted([(point.time, point.cycles) for point in own], time, like.weight),
            "cycles_band": band([(point.network, point.time, point.cycles) for point in own], time, like.weight),
            "code_bytes": fitted([(point.code, point.code_bytes) for point in own], code, like.weight),
            "code_band": band([(point.network, point.code, point.code_bytes) for point in own], code, like.weight),
            "beside_bytes": [float(np.median(beside)), float(np.max(beside))],
        }
    return cores


def measure(boards: Boards, measured_at: Mapping[str, Any]) -> None:
    """One sample of each network in each format on the boards that lack it."""
    rows = json.loads(POINTS.read_text())["rows"] if POINTS.is_file() else []
    done = {(row["network"], row["board"]): row for row in rows}
    with tempfile.TemporaryDirectory() as folder:
        for network, wanted in _all(Path(folder)):
            for board in wanted:
                row = done.setdefault((network.title, board), {"network": network.title, "board": board, "formats": {}})
                for fmt in FORMATS:
                    if fmt not in row["formats"]:
                        row["formats"][fmt] = _measured(boards, network, board, fmt, Path(folder))
                        POINTS.write_text(
                            json.dumps({"provenance": measured_at, "rows": [*done.values()]}, indent=1) + "\n"
                        )
                        print(network.title, board, fmt, row["formats"][fmt], flush=True)


def _measured(boards: Boards, network: Any, board: str, fmt: str, folder: Path) -> dict[str, float] | None:
    request = Request(
        board, str(network.model), fmt, inputs=network.inputs, calibrate=network.inputs, samples=1, results=folder / "r"
    )
    try:
        record = store(run(request, boards, default_cache_dir(), lambda _: None, lambda *_: None))[0]
    except HilError as error:
        print(network.title, board, fmt, error)
        return None
    return {"cycles": record["latency"]["median"], "flash_bytes": record["flash_bytes"]}


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
        print(
            core, row["images"], "cycles", row["cycles_band"], "code", row["code_band"], "beside", row["beside_bytes"]
        )


if __name__ == "__main__":
    main()
