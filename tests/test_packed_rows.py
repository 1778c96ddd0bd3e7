"""Rows of packed constants that begin anywhere in a byte: every width on the Uno, against the numpy reference."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from kernel_cases import Case, first_difference, run_natively, run_on_board
from onnx_models import graph as onnx_graph
from onnx_models import load, model, node

from tinyhil.compiler.calibrate import calibrate
from tinyhil.compiler.lower import lower
from tinyhil.formats.codec import quantize
from tinyhil.harness.settings.config import load_boards
from tinyhil.language.assignment import Assignment

INNER, OUTPUTS, SAMPLES = 11, 17, 3  # 11 codes: no row but every eighth begins with a byte
WIDTHS = {
    "fixed point": ("fixed2", "fixed3", "fixed4", "fixed5", "fixed6", "fixed7"),
    "codebooks": ("binary", "kmeans4", "ternary", "kmeans16", "nf4", "kmeans256"),
    "beside 8 bits": ("fixed4pc", "fp4e2m1pc"),
    "coded": ("fp4e2m1", "fp4e3m0", "fp6e2m3", "fp6e3m2", "posit6es0", "posit7es0", "posit6es1"),
}


def cases(folder: Path, names: tuple[str, ...]) -> list[Case]:
    random = np.random.default_rng(4)
    constants = {"W": random.normal(size=(INNER, OUTPUTS))}
    made = load(model(onnx_graph([node("MatMul", "x W", "y")], {"x": (1, INNER)}, "y", constants)), folder)
    x = random.normal(size=(64, 1, INNER)).astype(np.float32)
    ranges = calibrate(made, x, {})
    found = []
    for name in names:
        program = lower(made, Assignment(name), ranges)
        codes = quantize(x[:SAMPLES].reshape(SAMPLES, -1), program.tensors[program.input].format)[0]
        found.append(Case(name, program, codes))
    return found


def test_natively(tmp_path: Path) -> None:
    made = cases(tmp_path, tuple(name for names in WIDTHS.values() for name in names))
    assert first_difference(made, run_natively(made, tmp_path)) == ""


@pytest.mark.parametrize("kind", WIDTHS)
def test_on_the_uno(kind: str, tmp_path: Path) -> None:
    made = cases(tmp_path, WIDTHS[kind])
    assert first_difference(made, run_on_board(made, load_boards().board("uno"), tmp_path)) == ""
