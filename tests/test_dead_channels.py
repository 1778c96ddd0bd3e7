"""Channels whose weights vanish beside their bias, as batch normalisation leaves them behind."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx_models import load, node, simple

from tinyhil.assignment import Assignment
from tinyhil.calibrate import calibrate
from tinyhil.evaluate import evaluate
from tinyhil.lower import lower
from tinyhil.reference import dequantize_outputs, quantize_inputs, run_reference

CHANNELS = 6
X = np.random.default_rng(0).uniform(-1, 1, size=(20, 3, 5, 5)).astype(np.float32)
# The worst error in units of the largest output, with weights and values of so many bits
CLOSE = {"int8": 0.02, "int16x8": 0.01, "fixed8": 0.03, "fixed8pc": 0.03, "fixed16": 1e-3, "fixed16pc": 1e-3}
CLOSE |= {"fixed32": 1e-3, "float32": 1e-5, "bfloat16": 0.02, "float16": 0.01, "posit16es1": 0.01}


def scaled_rows(shape: tuple[int, ...], scales: tuple[float, ...]) -> np.ndarray:
    weights = np.random.default_rng(1).normal(size=shape).astype(np.float32)
    return weights * np.resize(np.array(scales, np.float32), (len(weights), *[1] * (len(shape) - 1)))


def layers(kind: str, scales: tuple[float, ...]):  # type: ignore[no-untyped-def]
    """A layer whose output channels have weights of these scales, and a bias."""
    bias = np.linspace(-2, 1, 3 if kind == "depthwise" else CHANNELS).astype(np.float32)
    if kind == "dense":
        nodes = [node("Flatten", "x", "f"), node("Gemm", "f w b", "y", transB=1)]
        return simple(nodes, {"x": (1, 3, 5, 5)}, {"w": scaled_rows((CHANNELS, 75), scales), "b": bias})
    group, shape = (3, (3, 1, 3, 3)) if kind == "depthwise" else (1, (CHANNELS, 3, 3, 3))
    nodes = [node("Conv", "x w b", "y", pads=[1, 1, 1, 1], group=group)]
    return simple(nodes, {"x": (1, 3, 5, 5)}, {"w": scaled_rows(shape, scales), "b": bias})


@pytest.mark.parametrize("scales", [(1.0, 0.0, 1e-30), (1e-30,), (0.0,), (1e-9, 1.0)], ids=str)
@pytest.mark.parametrize("kind", ["conv", "depthwise", "dense"])
@pytest.mark.parametrize("name", [*CLOSE, "fp8e4m3", "fp8e4m3pc", "posit8es2", "nf4"])
def test_a_scale_has_a_floor_at_which_the_bias_fits(
    name: str, kind: str, scales: tuple[float, ...], tmp_path: Path
) -> None:
    g = load(layers(kind, scales), tmp_path)
    program = lower(g, Assignment(name), calibrate(g, X, {}))
    found = dequantize_outputs(program, run_reference(program, quantize_inputs(program, X)[0]).outputs)
    expected = evaluate(g, X).reshape(len(X), -1)
    assert np.abs(found - expected).max() <= CLOSE.get(name, 0.25) * np.abs(expected).max()
