"""Which way to cut ranges is best: `python -m benchmarks.calibration` measures models of the zoo, format by format.

Decisions that differ from float on the test part, calibrated on 500 samples of the training part. The figures go to
results/calibration.json. `python -m tools.docs` prints them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tinyhil import data
from tinyhil.compiler.lower import lower
from tinyhil.formats.clipping import CUTS
from tinyhil.harness.job.job import open_model
from tinyhil.language.assignment import Assignment
from tinyhil.native import default_cache_dir
from tinyhil.search.engine.library import load_engine
from tinyhil.search.evaluator import Evaluator, make_examples
from tools.measured import provenance, write

MODELS = ("digits_cnn", "digits_mlp", "lenet5_mnist", "fastgrnn_usps10", "bonsai_usps10", "protonn_usps10")
FORMATS = ("fixed4", "fixed5", "fixed6", "fixed8", "int8", "posit8es0", "fp8e4m3", "fp4e2m1")
SAMPLES = 300


def rows(name: str, method: str) -> Iterator[dict[str, Any]]:
    """Of one model and one way to cut: a row for each format."""
    opened = open_model(name, by=method)
    assert opened.source.dataset is not None
    found, graph = data.load(opened.source.dataset), opened.model.graph
    labels = None if found.y_test is None else found.y_test[:SAMPLES]
    examples = make_examples(graph, found.x_test[:SAMPLES], labels)
    evaluator, ranges = Evaluator(load_engine(default_cache_dir()), examples), opened.required_ranges(None)
    for fmt in FORMATS:
        score = evaluator.score(lower(graph, Assignment(fmt), ranges))
        about = {"model": name, "format": fmt, "method": method, "samples": score.samples}
        yield {**about, "disagreements": score.disagreements, "correct": score.correct}


def main() -> None:
    measured_at, found = provenance(), list[dict[str, Any]]()
    for name in MODELS:
        for method in CUTS:
            found += rows(name, method)
            print(*found[-len(FORMATS) :], sep="\n", flush=True)
    write("calibration", measured_at, found)


if __name__ == "__main__":
    main()
