"""The zoo under MinUn's limits of RAM: at least one width keeps each of them, at most half a point below float."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from given_data import SETS, needs_set, set_of

from tinyhil.compiler.calibrate import load_ranges
from tinyhil.compiler.lower import lower
from tinyhil.data import Dataset, load
from tinyhil.frontend.load import load_model
from tinyhil.harness.job.zoo import find_model
from tinyhil.language.assignment import Assignment, load_assignment
from tinyhil.language.program import Program
from tinyhil.memplan.arena.placement import place
from tinyhil.references.evaluate import evaluate
from tinyhil.references.reference import dequantize_outputs, quantize_inputs, run_reference
from tools.measured import read
from tools.zoo_table import LIMIT_BYTES

ROOT = Path(__file__).resolve().parent.parent
MOST_LOSS = 0.005
# The width that keeps the limit: a format, or an assignment file beside the model.
WIDTHS = {
    "bonsai_usps2": "fixed16",
    "bonsai_usps10": "fixed16",
    "bonsai_letter26": "fixed8",
    "bonsai_mnist10": "fixed8",
    "protonn_usps2": "fixed16",
    "protonn_usps10": "fixed16",
    "protonn_letter26": "assignment-77",
    "protonn_mnist10": "assignment-61",
    "fastgrnn_usps10": "fixed16",
    "fastgrnn_dsa19": "fixed16",
    "fastgrnn_har": "fixed16",
    "fastgrnn_mnist10": "fixed16",
}
SLOW = ("bonsai_mnist10", "fastgrnn_dsa19", "fastgrnn_har", "fastgrnn_mnist10", "fastgrnn_usps10", "protonn_mnist10")
AT_ONCE = 500


def test_every_limit_has_its_model() -> None:
    assert set(WIDTHS) == set(LIMIT_BYTES)


def program_of(name: str) -> tuple[Any, Program]:
    source = find_model(name)
    model = load_model(source.path)
    assert source.ranges is not None
    width = WIDTHS[name]
    if width.startswith("assignment"):
        chosen = load_assignment(ROOT / "models" / name / f"{width}.yaml", model.graph)
    else:
        chosen = Assignment(width)
    return model.graph, place(lower(model.graph, chosen, load_ranges(source.ranges, model.sha256))).program


@pytest.mark.parametrize("name", WIDTHS)
def test_the_arena_keeps_the_limit(name: str) -> None:
    assert place(program_of(name)[1]).plan.peak_bytes <= LIMIT_BYTES[name]


QUICK = [name for name in WIDTHS if name not in SLOW]
OF_A_SET = [
    *(pytest.param([name], marks=[pytest.mark.slow, needs_set(set_of(name))], id=name) for name in SLOW),
    *(
        pytest.param([name for name in QUICK if SETS[set_of(name)] == files], marks=pytest.mark.data(*files))
        for files in dict.fromkeys(SETS[set_of(name)] for name in QUICK)
    ),
]


@pytest.mark.parametrize("names", OF_A_SET)
def test_accuracies_are_near_those_of_float_and_the_ones_in_results(names: list[str]) -> None:
    for name in names:
        check_accuracy(name, load(set_of(name), allow_download=False))


def check_accuracy(name: str, data: Dataset) -> None:
    """All test samples by the numpy reference; results/zoo.json has them by the host engine."""
    manifest = yaml.safe_load((ROOT / "models" / name / "model.yaml").read_text())
    stated = read("zoo")[name][WIDTHS[name]]
    assert data.sha256 == manifest["float_accuracy"].get("data_sha256", data.sha256)
    assert len(data.x_test) == stated["samples"]
    graph, program = program_of(name)
    assert data.y_test is not None
    correct = float_correct = 0
    for start in range(0, len(data.x_test), AT_ONCE):
        x = data.x_test[start : start + AT_ONCE].reshape(-1, *graph.shapes[graph.inputs[0]])
        labels = data.y_test[start : start + AT_ONCE]
        outputs = run_reference(program, quantize_inputs(program, x)[0]).outputs
        correct += int((dequantize_outputs(program, outputs).argmax(1) == labels).sum())
        float_correct += int((evaluate(graph, x).reshape(len(x), -1).argmax(1) == labels).sum())
    assert (correct, float_correct) == (stated["correct"], stated["float_correct"])
    assert correct >= float_correct - MOST_LOSS * len(data.x_test)
    assert np.isclose(float_correct / len(data.x_test), manifest["float_accuracy"]["value"], atol=2e-4)
