"""What the tables of docs/measured/search.md show, measured row by row.

RAM is the arena without the model input. Searches see the training part, figures are of the test part. MinUn's own
tables: benchmarks/papers/minun/.
"""

from __future__ import annotations

import json
import math
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers_models import RAM_LIMIT_BYTES, build_peers
from benchmarks.search.joint import JOINT, joint
from benchmarks.search.large import LARGE, large
from benchmarks.search.weights import WEIGHED, weights
from tinyhil.errors import ConfigError
from tinyhil.harness.build.toolchain import default_cache_dir
from tinyhil.harness.job.job import open_model
from tinyhil.harness.search.request import SearchRequest
from tinyhil.harness.search.task import load_task
from tinyhil.harness.search.total import placed
from tinyhil.harness.search.uniform import held_out
from tinyhil.search.search_loop import Budget, search
from tinyhil.search.space import make_space

STRATEGIES = ("lagrange", "haunter", "shiftry", "shiftry until_it_fits=true", "accuracy_only", "size_only")
EVERY = (*STRATEGIES, "layerwise", "random", "nsga2")
POSITS = "posit8,posit16"
MIXES = (
    ("haunter", "fixed", "fixed8,fixed16"),
    ("haunter", "posit", POSITS),
    ("lagrange", "fixed", "fixed8,fixed16"),
    ("lagrange", "posit", POSITS),
    ("lagrange", "both", f"fixed8,fixed16,{POSITS}"),
)
SEARCH_SAMPLES = 1000
MODELS = (
    "protonn_usps2", "bonsai_usps2", "fastgrnn_usps10", "protonn_usps10", "bonsai_usps10", "protonn_letter26",
    "bonsai_letter26", "protonn_mnist10", "bonsai_mnist10", "fastgrnn_mnist10", "fastgrnn_har", "fastgrnn_dsa19",
)  # fmt: skip
PEERS = ("peer_protonn_usps2", "peer_bonsai_usps2", "peer_fastgrnn_usps10")
# Points of accuracy that Shiftry loses with these weights at these limits: its compiler run on the same 2007 points.
SHIFTRY_LOSES = {"peer_protonn_usps2": 1.35, "peer_bonsai_usps2": 0.45, "peer_fastgrnn_usps10": 1.04}
ALLOWED_POINTS = 0.2
SMALL = ("protonn_usps2", "protonn_usps10", "protonn_letter26", "digits_mlp")


def measured(request: SearchRequest) -> dict[str, Any]:
    """One search; what the strategy itself found, or why there is nothing to find. Seconds are of the processor."""
    strategy = " ".join((request.strategy, *request.set_))
    row: dict[str, Any] = {"model": Path(request.model).stem, "strategy": strategy, "limit": request.ram}
    begin = time.process_time()
    try:
        task = load_task(request, default_cache_dir(), lambda line: None, lambda *_: None, None)
        found = search(task.strategy, task.problem, budget=Budget(request.evaluations))
    except ConfigError as error:
        return {**row, "error": str(error)}
    seconds = time.process_time() - begin
    held = held_out(task, found.best.candidate)
    row |= {
        "ram": found.best.ram_bytes,
        "float_percent": round(100 * held["float_accuracy"], 2),
        "points_lost": round(100 * (held["float_accuracy"] - held["accuracy"]), 3),
        "disagreements": held["disagreements"],
        "samples": held["samples"],
        "searched": found.best.score.disagreements,
        "search_samples": len(task.problem.evaluator.examples),
        "evaluations": round(found.evaluations, 2),
        "seconds": round(seconds, 1),
    }
    print(json.dumps(row), flush=True)
    return row


def _request(model: str, limit: int, strategy: str, evaluations: int) -> SearchRequest:
    """`strategy`: its name and its options, spaces between."""
    name, *options = strategy.split()
    return SearchRequest(model, limit, name, tuple(options), evaluations=evaluations, samples=SEARCH_SAMPLES)


def tight(evaluations: int, models: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    """HAUNTER and ours where memory is short: the least feasible arena plus a quarter and a half of what is saved."""
    for model in models:
        for limit in _limits_between(model):
            haunter = measured(SearchRequest(model, limit, "haunter", evaluations=200, samples=SEARCH_SAMPLES))
            yield haunter
            spent = math.ceil(haunter["evaluations"])
            for budget in sorted({spent, evaluations}):
                ours = SearchRequest(model, limit, "lagrange", evaluations=budget, samples=SEARCH_SAMPLES)
                yield {**measured(ours), "budget": budget, "haunter_evaluations": spent}


def _limits_between(model: str) -> list[int]:
    low, high = _uniform_bytes(model)
    return sorted({low + (high - low) // 4, low + (high - low) // 2})


def _uniform_bytes(model: str) -> tuple[int, int]:
    """The arena with fixed8 and with fixed16 everywhere."""
    opened = open_model(model)
    space = make_space(opened.model.graph, opened.required_ranges(None), ("fixed8", "fixed16"))
    low, high = (
        placed(space.lower(space.uniform(choice)), None, "ram").plan.peak_bytes for choice in (space.low, space.high)
    )
    return low, high


def truth(evaluations: int, models: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    """HAUNTER and ours against everything that fits, on models of at most 12 free tensors."""
    for model in models:
        for limit in _limits_between(model):
            for strategy in ("exhaustive", "haunter", "lagrange"):
                budget = 5000 if strategy == "exhaustive" else evaluations
                yield measured(SearchRequest(model, limit, strategy, evaluations=budget, samples=SEARCH_SAMPLES))


def mixed(evaluations: int, models: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    """HAUNTER and ours, with ever more formats to choose from, in as much RAM as 8 bits everywhere take."""
    for model in models:
        limit = _uniform_bytes(model)[0]
        for strategy, label, formats in MIXES:
            request = SearchRequest(
                model, limit, strategy, formats=formats, evaluations=evaluations, samples=SEARCH_SAMPLES
            )
            yield {**measured(request), "strategy": f"{strategy}, {label}"}


def strategies(evaluations: int, models: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    """Every strategy there is, where memory is short."""
    for model in models:
        for limit in _limits_between(model)[-1:]:
            for strategy in EVERY:
                yield measured(_request(model, limit, strategy, evaluations))


def peers(evaluations: int, models: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    """The peers' weights: calibrated and searched on all training points, reported on all 2007; then less and less."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for peer, content in build_peers().items():
            if peer not in models:
                continue
            (folder / f"{peer}.onnx").write_bytes(content.proto.SerializeToString())
            np.savez(folder / f"{peer}.npz", x=content.x_test, y=content.y_test)
            np.savez(folder / f"{peer}_train.npz", x=content.x_train, y=content.y_train)
            limit = RAM_LIMIT_BYTES[peer]
            while True:
                found = measured(_peer_request(folder, peer, limit, evaluations))
                yield {**found, "shiftry_loses": SHIFTRY_LOSES[peer]}
                if "error" in found or found["points_lost"] > ALLOWED_POINTS:
                    break
                limit = min(found["ram"] - 1, limit * 9 // 10)


def _peer_request(folder: Path, peer: str, limit: int, evaluations: int) -> SearchRequest:
    train = folder / f"{peer}_train.npz"
    return SearchRequest(
        str(folder / f"{peer}.onnx"),
        limit,
        "lagrange",
        evaluations=evaluations,
        samples=3000 if "fastgrnn" in peer else None,
        inputs=train,
        held_out=folder / f"{peer}.npz",
        calibrate=train,
    )


Measure = Callable[[int, tuple[str, ...]], Iterator[dict[str, Any]]]
SHORT = ("fastgrnn_har", "protonn_usps2", "bonsai_usps2", "fastgrnn_usps10", "bonsai_letter26")
# name -> how it is measured, on which models, with how many evaluations per search
TABLES: dict[str, tuple[Measure, tuple[str, ...], int]] = {
    "peers": (peers, PEERS, 20),
    "tight": (tight, SHORT, 30),
    "mixed": (mixed, MODELS, 60),
    "strategies": (strategies, SHORT, 200),
    "truth": (truth, SMALL, 30),
    "large": (large, LARGE, 10),
    "joint": (joint, JOINT, 4),
    "weights": (weights, WEIGHED, 1),
}
