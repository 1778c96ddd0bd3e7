"""What figures 5 and 6 of the MinUn paper show, on our models: formats of 8 bits alone, and RAM compression."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks.search.tables import ALLOWED_POINTS, LIMITS, POSITS, SEARCH_SAMPLES, Measure, measured
from tinyhil import data
from tinyhil.assignment import Assignment
from tinyhil.calibrate import Ranges, load_ranges
from tinyhil.errors import HilError
from tinyhil.frontend.load import load_model
from tinyhil.graph import Graph
from tinyhil.harness.build.toolchain import default_cache_dir
from tinyhil.harness.search.session import SearchRequest, placed
from tinyhil.harness.zoo import find_model
from tinyhil.lower import lower
from tinyhil.search.engine.library import load_engine
from tinyhil.search.evaluator import Evaluator, Examples, make_examples

EIGHT_BITS = ("fixed8", "fixed8pc", "int8", "posit8es0", "posit8es1", "posit8es2", "fp8e4m3", "fp8e5m2")
UNIFORM = ("float32", "bfloat16", "fixed16")
SEARCHED = {"fixed": "fixed8,fixed16", "posit": POSITS}
MODELS = (*LIMITS, "fastgrnn_fsdd", "digits_mlp", "digits_cnn", "lenet5_mnist")
TENTH = 9 / 10  # of the RAM just tried


@dataclass(frozen=True, slots=True)
class Tested:
    """A zoo model with its ranges and its test part."""

    graph: Graph
    ranges: Ranges
    examples: Examples


def tested(name: str) -> Tested:
    source = find_model(name)
    model = load_model(source.path)
    assert source.ranges is not None
    assert source.dataset is not None
    found = data.load(source.dataset)
    ranges = load_ranges(source.ranges, model.sha256)
    return Tested(model.graph, ranges, make_examples(model.graph, found.x_test, found.y_test))


def figure5(_: int, models: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    """Points of accuracy lost with one format of 8 bits for everything, no search; on the whole test part."""
    engine = load_engine(default_cache_dir())
    for name in models:
        model = tested(name)
        evaluator = Evaluator(engine, model.examples)
        for fmt in EIGHT_BITS:
            row: dict[str, Any] = {"model": name, "format": fmt, "samples": len(model.examples)}
            try:
                score = evaluator.score(lower(model.graph, Assignment(fmt), model.ranges))
            except HilError as error:
                yield {**row, "error": str(error)}
                continue
            assert score.correct is not None
            assert model.examples.float_accuracy is not None
            lost = 100 * (model.examples.float_accuracy - score.correct / score.samples)
            yield {**row, "points_lost": round(lost, 3), "disagreements": score.disagreements}


def figure6(evaluations: int, models: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    """Arena of uniform formats, and the least that searches found with at most 0.2 points lost on the test part."""
    for name in models:
        model = tested(name)
        for fmt in UNIFORM:
            plan = placed(lower(model.graph, Assignment(fmt), model.ranges), None, "ram").plan
            yield {"model": name, "format": fmt, "ram": plan.peak_bytes, "points_lost": None}
        for family, formats in SEARCHED.items():
            yield {**_least(name, formats, evaluations), "model": name, "format": family}


def _least(name: str, formats: str, evaluations: int) -> dict[str, Any]:
    """Searches with ever less RAM until too much is lost; the last that did not."""
    wide = formats.split(",")[-1]
    model = tested(name)
    widest = f"{wide}es1" if wide.startswith("posit") else wide
    limit = placed(lower(model.graph, Assignment(widest), model.ranges), None, "ram").plan.peak_bytes
    kept: dict[str, Any] = {"ram": None, "points_lost": None}
    while True:
        found = measured(SearchRequest(name, limit, formats=formats, evaluations=evaluations, samples=SEARCH_SAMPLES))
        if "error" in found or found["points_lost"] > ALLOWED_POINTS:
            return kept
        kept = {"ram": found["ram"], "points_lost": found["points_lost"], "disagreements": found["disagreements"]}
        limit = min(found["ram"] - 1, int(limit * TENTH))


# name -> how it is measured, on which models, with how many evaluations per search
FIGURES: dict[str, tuple[Measure, tuple[str, ...], int]] = {
    "figure5": (figure5, MODELS, 1),
    "figure6": (figure6, MODELS, 30),
}
