"""What a sign costs: `python -m benchmarks.unsigned` decides with networks of Relus in formats with one and without.

Decisions that differ from float on test samples, calibrated on others; MLPerf Tiny's float networks and their data are
in HIL_DATA. The figures go to results/unsigned.json, `python -m tools.docs` prints them. `trained()` is a table of
benchmarks/training.py: the same formats, trained for.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from benchmarks.bench import Bench, Row
from benchmarks.given import given_data
from tinyhil import data
from tinyhil.compiler.calibrate import Ranges, calibrate
from tinyhil.compiler.lower import lower
from tinyhil.frontend.load import load_model
from tinyhil.harness.job.job import open_model
from tinyhil.harness.mlperf.benchmarks import BENCHMARKS, graph_inputs
from tinyhil.harness.mlperf.evaluation_sets import calibration, evaluation
from tinyhil.language.assignment import Assignment
from tinyhil.language.graph import Graph
from tinyhil.native import default_cache_dir
from tinyhil.search.engine.library import load_engine
from tinyhil.search.evaluator import Evaluator, make_examples
from tinyhil.train.samples import divide
from tinyhil.train.schedule import Schedule
from tools.measured import provenance, write

ZOO = ("digits_cnn", "lenet5_mnist")
TINY = {"kws01": "kws_dscnn", "ic01": "ic_resnet8", "vww01": "vww_mobilenetv1_025_96"}
FORMATS = (*(f"fixed{bits}{sign}" for bits in (4, 5, 6, 8) for sign in ("", "u")), "fixed8pc", "fixed8pcu", "int8")
SAMPLES, CALIBRATED = 250, 200


@dataclass(frozen=True, slots=True)
class Network:
    """A float network, what it is calibrated to, and test samples with labels."""

    name: str
    graph: Graph
    ranges: Ranges
    x: np.ndarray
    y: np.ndarray | None


def networks(wanted: str = "") -> Iterator[Network]:
    """All, or the wanted one; one after the other, as each needs memory."""
    for name in (one for one in ZOO if wanted in ("", one)):
        opened = open_model(name)
        assert opened.source.dataset is not None
        found = data.load(opened.source.dataset)
        yield Network(name, opened.model.graph, opened.required_ranges(None), found.x_test, found.y_test)
    for benchmark in (one for one in BENCHMARKS if one.id in TINY and wanted in ("", TINY[one.id])):
        name = TINY[benchmark.id]
        graph = load_model(given_data() / "models" / f"mlperftiny_{name}.onnx").graph
        tested, other = evaluation(benchmark), calibration(benchmark)
        ranges = calibrate(graph, graph_inputs(benchmark, graph, other.raw[:CALIBRATED]), {"name": other.name})
        yield Network(name, graph, ranges, graph_inputs(benchmark, graph, tested.raw[:SAMPLES]), tested.y)


def calibrated_on(name: str) -> np.ndarray:
    """The samples (CALIBRATED, ...) that a network of MLPerf Tiny is calibrated on."""
    benchmark = next(one for one in BENCHMARKS if TINY.get(one.id) == name)
    graph = load_model(given_data() / "models" / f"mlperftiny_{name}.onnx").graph
    return graph_inputs(benchmark, graph, calibration(benchmark).raw[:CALIBRATED])


def rows(name: str) -> Iterator[dict[str, Any]]:
    """Of one network: a row for each format."""
    (one,) = networks(name)
    x, y = one.x[:SAMPLES], None if one.y is None else one.y[:SAMPLES]
    evaluator = Evaluator(load_engine(default_cache_dir()), make_examples(one.graph, x, y))
    for fmt in FORMATS:
        score = evaluator.score(lower(one.graph, Assignment(fmt), one.ranges))
        about = {"model": one.name, "format": fmt, "samples": score.samples, "loss": score.loss}
        yield {**about, "disagreements": score.disagreements, "correct": score.correct}


def main() -> None:
    measured_at, found = provenance(), list[dict[str, Any]]()
    for name in (*ZOO, *TINY.values()):
        for row in rows(name):
            found.append(row)
            print(row, flush=True)
    write("unsigned", measured_at, found)


# ---- trained for it

SEEDS, WIDTHS = (0, 1, 2), (2, 3)
FEW_EPOCHS = Schedule(epochs=10, batch=32, rate=1e-2, teacher=0.5, scales=True)


def trained() -> Iterator[Row]:
    """`digits_cnn` in few bits, weights and values alike, learned scales: mean and standard deviation of seeds."""
    graph, found = open_model("digits_cnn").model.graph, data.load("digits")
    assert found.y_train is not None
    assert found.y_test is not None
    for bits in WIDTHS:
        begin, row = time.process_time(), {"model": "digits_cnn", "bits": bits, "seeds": len(SEEDS)}
        for title, fmt in (("with a sign", f"fixed{bits}"), ("without", f"fixed{bits}u")):
            made = [_accuracy(graph, found, fmt, seed) for seed in SEEDS]
            row |= {title: float(np.mean(made)), f"{title}: standard deviation": float(np.std(made, ddof=1))}
        yield {**row, "seconds": round(time.process_time() - begin)}


def _accuracy(graph: Graph, found: Any, fmt: str, seed: int) -> float:
    bench = Bench(graph, divide(found.x_train, found.y_train, seed), found.x_test, found.y_test)
    return bench.trained(Assignment(fmt), replace(FEW_EPOCHS, seed=seed))[1]


if __name__ == "__main__":
    main()
