"""Which way to cut ranges is best: `python -m benchmarks.calibration` measures models of the zoo, format by format.

Decisions that differ from float on the test part, calibrated on 500 samples of the training part. The figures go to
results/calibration.json; what was measured before is not measured again. `python -m tools.docs` prints them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tinyhil import data
from tinyhil.assignment import Assignment
from tinyhil.clipping import CUTS
from tinyhil.harness.job import open_model
from tinyhil.lower import lower
from tinyhil.native import default_cache_dir
from tinyhil.search.engine.library import load_engine
from tinyhil.search.evaluator import Evaluator, make_examples

FILE = Path(__file__).resolve().parent.parent / "results" / "calibration.json"
MODELS = ("digits_cnn", "digits_mlp", "lenet5_mnist", "fastgrnn_usps10", "bonsai_usps10", "protonn_usps10")
FORMATS = ("fixed4", "fixed5", "fixed6", "fixed8", "int8", "posit8es0", "fp8e4m3", "fp4e2m1")
SAMPLES = 300


def main() -> None:
    rows: list[dict[str, Any]] = json.loads(FILE.read_text())["rows"] if FILE.is_file() else []
    known = {(row["model"], row["format"], row["method"]) for row in rows}
    engine = load_engine(default_cache_dir())
    for name in MODELS:
        for method in CUTS:
            todo = [fmt for fmt in FORMATS if (name, fmt, method) not in known]
            if not todo:
                continue
            opened = open_model(name, by=method)
            assert opened.source.dataset is not None
            found, graph = data.load(opened.source.dataset), opened.model.graph
            labels = None if found.y_test is None else found.y_test[:SAMPLES]
            evaluator = Evaluator(engine, make_examples(graph, found.x_test[:SAMPLES], labels))
            ranges = opened.required_ranges(None)
            for fmt in todo:
                score = evaluator.score(lower(graph, Assignment(fmt), ranges))
                rows.append({"model": name, "format": fmt, "method": method, "samples": score.samples})
                rows[-1] |= {"disagreements": score.disagreements, "correct": score.correct}
                print(rows[-1], flush=True)
            FILE.write_text(json.dumps({"rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
