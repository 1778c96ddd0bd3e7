"""What each format for weights alone costs and loses beside fixed16 for all else: test samples, bytes of constants."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from benchmarks.given import given_data
from benchmarks.search.large import pictures
from tinyhil import data
from tinyhil.codegen.profile_calls import constant_bytes
from tinyhil.compiler.calibrate import Ranges, calibrate
from tinyhil.compiler.lower import is_matrix, lower
from tinyhil.frontend.load import load_model
from tinyhil.harness.build.toolchain import default_cache_dir
from tinyhil.harness.job.job import open_model
from tinyhil.language.assignment import Assignment
from tinyhil.language.graph import Graph
from tinyhil.search.engine.library import load_engine
from tinyhil.search.evaluator import Evaluator, Examples, make_examples

WEIGHED = ("resnet8", "lenet5_mnist", "digits_cnn", "fastgrnn_har")
FORMATS = ("fixed16", "fixed8", "fixed8pc", "fixed6", "fixed4", "fixed4pc", "kmeans16", "nf4")
SAMPLES, CALIBRATED = 1000, 500


def weights(_: int, models: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    """No search: one format for all weights."""
    engine = load_engine(default_cache_dir())
    for name in models:
        graph, ranges, examples = _loaded(name)
        evaluator = Evaluator(engine, examples)
        matrices = [value for value, array in graph.all_constants().items() if is_matrix(array)]
        for fmt in FORMATS:
            program = lower(graph, Assignment("fixed16", dict.fromkeys(matrices, fmt)), ranges)
            score = evaluator.score(program)
            row = {"model": name, "format": fmt, "bytes": constant_bytes(program)}
            row |= {"disagreements": score.disagreements, "samples": score.samples}
            print(json.dumps(row), flush=True)
            yield row


def _loaded(name: str) -> tuple[Graph, Ranges, Examples]:
    if name != "resnet8":
        opened = open_model(name)
        assert opened.source.dataset is not None
        found, graph = data.load(opened.source.dataset), opened.model.graph
        labels = None if found.y_test is None else found.y_test[:SAMPLES]
        return graph, opened.required_ranges(None), make_examples(graph, found.x_test[:SAMPLES], labels)
    folder = given_data()
    graph = load_model(folder / "models" / "mlperftiny_ic_resnet8.onnx").graph
    train, _ = pictures(folder / "large" / "cifar10_train50k_jpeg.npz", CALIBRATED)
    x, y = pictures(folder / "large" / "cifar10_test10k_jpeg.npz", SAMPLES)
    return graph, calibrate(graph, train, {}), make_examples(graph, x, y)


def weights_page(rows: list[dict[str, Any]]) -> str:
    lines = [f"| Weights | {' | '.join(f'`{name}`' for name in WEIGHED)} |", "|---" * (1 + len(WEIGHED)) + "|"]
    for fmt in FORMATS:
        mine = {row["model"]: row for row in rows if row["format"] == fmt}
        cells = [f"{mine[name]['bytes']:,} B, {mine[name]['disagreements']}" for name in WEIGHED]
        lines.append(f"| {fmt} | {' | '.join(cells)} |")
    return "\n".join(lines)
