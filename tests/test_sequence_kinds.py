"""Sequence models of models/training/sequences.py: torch, the ONNX they write and the compiler agree, scans too."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from kernel_cases import Case, first_difference, run_natively
from onnx_models import load

from tinyhil.compiler.calibrate import calibrate
from tinyhil.compiler.lower import lower
from tinyhil.language.assignment import Assignment
from tinyhil.references.evaluate import evaluate
from tinyhil.references.reference import dequantize_outputs, quantize_inputs, run_reference

torch = pytest.importorskip("torch")
SHAPE, CLASSES = (22, 5), 4  # frames that are no multiple of four


@pytest.mark.parametrize("kind", ["GRU", "FastGRNN", "TCN", "transformer", "linear attention", "Mamba"])
def test_a_kind_is_the_same_everywhere(kind: str, tmp_path: Path) -> None:
    from models.training import sequences

    torch.manual_seed(0)
    draws = np.random.default_rng(0)
    model = sequences.Classifier(kind, (SHAPE[0] // sequences.TOGETHER, SHAPE[1]), CLASSES).eval()
    x = draws.normal(size=(24, *SHAPE)).astype(np.float32) * 3 + 1
    frames = sequences.averaged(x)
    mean, deviation = frames.mean(axis=(0, 1)), frames.std(axis=(0, 1))
    graph = load(sequences.onnx_of("kind", model, mean, deviation, SHAPE), tmp_path)
    with torch.no_grad():
        wanted = model(torch.tensor((frames - mean) / deviation)).numpy()
    found = evaluate(graph, x[:, None]).reshape(len(x), CLASSES)
    np.testing.assert_allclose(found, wanted, atol=1e-4)

    program = lower(graph, Assignment("int8"), calibrate(graph, x[:, None], {}))
    codes, _ = quantize_inputs(program, x[:, None])
    integers = dequantize_outputs(program, run_reference(program, codes).outputs).reshape(found.shape)
    assert np.abs(integers - found).max() < 0.15 * np.ptp(found)
    if kind in ("Mamba", "linear attention"):
        made = Case(kind, program, codes[:6])
        assert first_difference([made], run_natively([made], tmp_path)) == ""
