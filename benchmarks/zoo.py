"""The zoo, measured: what docs/zoo.md shows, made by `python -m tools.docs` from what this writes.

    python -m benchmarks.zoo accuracy [MODEL ...]    all test samples by the host engine, into results/zoo.json
    python -m benchmarks.zoo golden [MODEL ...]      golden records of the emulated boards (docs/regression.md)

Each in 8 and in 16 bits, and by the assignments that lie beside the model. What does not fit a board is said and left
out. Needs the data sets (HIL_DATA, or a network).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tinyhil.compiler.lower import lower
from tinyhil.data import load
from tinyhil.errors import DoesNotFit, HilError
from tinyhil.harness.build.toolchain import default_cache_dir
from tinyhil.harness.job.job import open_model
from tinyhil.harness.job.zoo import ModelSource, zoo_names
from tinyhil.harness.measure.golden import FOLDER, Bench, Order, make_golden, measure, path_of, write_golden
from tinyhil.harness.settings.config import load_boards
from tinyhil.language.assignment import Assignment, load_assignment
from tinyhil.memplan.arena.placement import place
from tinyhil.references.classes import classes_of
from tinyhil.references.evaluate import evaluate
from tinyhil.references.reference import dequantize_outputs, quantize_inputs
from tinyhil.search.engine.library import load_engine
from tools.measured import BOARDS, RESULTS, provenance, write

ROOT = Path(__file__).resolve().parents[1]
FORMATS = ("fixed8", "fixed16")
AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Variant:
    """A model with the widths of its tensors: a format for all, or an assignment file beside the model."""

    model: str
    format: str
    assignment: Path | None = None

    @property
    def name(self) -> str:
        return self.assignment.stem if self.assignment else self.format

    def order(self, board: str) -> Order:
        """A golden order; its paths are relative to the root."""
        path = str(self.assignment.relative_to(ROOT)) if self.assignment else None
        return Order(board, self.model, self.format, path)


def variants(model: str) -> Iterator[Variant]:
    yield from (Variant(model, fmt) for fmt in FORMATS)
    for path in sorted((ROOT / "models" / model).glob("assignment-*.yaml")):
        yield Variant(model, FORMATS[-1], path)


def accuracy(model: str) -> dict[str, dict[str, Any]]:
    """By name of the variant: what all test samples give, and the bytes of the arena."""
    opened = open_model(model)
    source, loaded = opened.source, opened.model
    ranges = opened.known_ranges(None)
    data = load(_manifest(source)["dataset"])
    assert ranges is not None
    assert data.y_test is not None
    graph, engine = loaded.graph, load_engine(default_cache_dir())
    x = data.x_test.reshape(len(data.x_test), *graph.shapes[graph.inputs[0]])
    parts = [slice(start, start + AT_ONCE) for start in range(0, len(x), AT_ONCE)]
    floats = [classes_of(graph, evaluate(graph, x[part]).reshape(len(x[part]), -1)) for part in parts]
    found = {}
    for variant in variants(model):
        path = variant.assignment
        chosen = load_assignment(path, graph) if path else Assignment(variant.format)
        program = lower(graph, chosen, ranges)
        correct = different = saturations = 0
        for part, expected in zip(parts, floats, strict=True):
            outcome = engine.run(program, quantize_inputs(program, x[part])[0])
            classes = classes_of(graph, dequantize_outputs(program, outcome.outputs))
            correct += int((classes == data.y_test[part]).sum())
            different += int((classes != expected).sum())
            saturations += int(outcome.saturations.sum())
        found[variant.name] = {
            "correct": correct,
            "float_correct": int(sum((e == data.y_test[p]).sum() for e, p in zip(floats, parts, strict=True))),
            "samples": len(x),
            "disagreements": different,
            "saturations": saturations,
            "arena_bytes": place(program).plan.peak_bytes,
        }
    return found


def _manifest(source: ModelSource) -> dict[str, Any]:
    import yaml

    loaded: dict[str, Any] = yaml.safe_load((ROOT / "models" / source.name / "model.yaml").read_text())
    return loaded


def write_accuracies(models: Sequence[str]) -> None:
    """Of all models, or of these beside what is known of others; the table names the commits of both."""
    measured_at, rows = provenance(), {}
    if models:
        known = json.loads((RESULTS / "zoo.json").read_text())
        measured_at["commit"] = " ".join(dict.fromkeys([*known["provenance"]["commit"].split(), measured_at["commit"]]))
        rows = known["rows"]
    for model in models or zoo_names():
        rows[model] = accuracy(model)
        for name, row in rows[model].items():
            print(model, name, row, flush=True)
    write("zoo", measured_at, dict(sorted(rows.items())))


def write_goldens(model: str) -> None:
    bench = Bench(load_boards(), default_cache_dir(), lambda line: None, root=ROOT, timeout_s=120.0)
    for variant in variants(model):
        for board in BOARDS:
            _golden(variant, board, bench)


def _golden(variant: Variant, board: str, bench: Bench) -> None:
    order = variant.order(board)
    try:
        record = measure(order, bench)
    except DoesNotFit as error:
        print(f"{variant.model} {variant.name} {board}: {error}", flush=True)
        return
    if not record["bit_exact"]:
        raise SystemExit(f"{variant.model} {variant.name} {board}: outputs differ from the reference")
    path = path_of(order, ROOT / FOLDER)
    write_golden(path, make_golden(order, record))
    print(path.relative_to(ROOT), record["latency"]["median"], flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("accuracy", "golden"))
    parser.add_argument("models", nargs="*", help="default: all bundled models")
    args = parser.parse_args()
    try:
        if args.what == "accuracy":
            write_accuracies(args.models)
        for model in args.models or zoo_names() if args.what == "golden" else ():
            write_goldens(model)
    except HilError as error:
        sys.exit(f"zoo: {error}")


if __name__ == "__main__":
    main()
