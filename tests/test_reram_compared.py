"""What strategies are compared with on a ReRAM accelerator: the fast integers, and the page of what was measured."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx_models import load, node, simple

from benchmarks.reram.fast import FLOAT32_BITS, FastExecutor
from tinyhil.compiler.calibrate import calibrate
from tinyhil.compiler.lower import lower
from tinyhil.language.assignment import Assignment
from tinyhil.references.reference import quantize_inputs, run_reference


@pytest.mark.parametrize(
    ("format", "wide"), [("fixed8u", True), ("fixed8", True), ("fixed5u", False), ("fixed3", False), ("fixed12", True)]
)
def test_fast_integers_are_those_of_the_reference(tmp_path: Path, format: str, wide: bool) -> None:
    """A convolution of 160 channels, whose sums are beyond float32 where its operands have 8 bits."""
    random = np.random.default_rng(1)
    nodes = [
        node("Conv", "x w b", "sum", pads=[1, 1, 1, 1]),
        node("Relu", "sum", "positive"),
        node("MaxPool", "positive", "pool", kernel_shape=[2, 2], strides=[2, 2]),
        node("Conv", "pool w2", "sum2", pads=[1, 1, 1, 1]),
        node("Flatten", "sum2", "features"),
        node("Gemm", "features dense", "y"),
    ]
    constants = {
        "w": random.choice([-1.0, 1.0, 0.99, 0.3], (160, 3, 3, 3)),
        "b": random.normal(size=160),
        "w2": random.choice([-0.99, 0.99, 0.9], (8, 160, 3, 3)),
        "dense": random.normal(size=(72, 5)),
    }
    graph = load(simple(nodes, {"x": [1, 3, 6, 6]}, constants), tmp_path)
    x = random.choice([-1.0, 1.0, 0.4], (20, 3, 6, 6)).astype(np.float32)
    program = lower(graph, Assignment(format), calibrate(graph, x, {}))
    assert wide == any(op.accumulator_bits > FLOAT32_BITS for op in program.body)
    integers, _ = quantize_inputs(program, x)
    expected = run_reference(program, integers.astype(np.int64)).outputs
    assert (FastExecutor().run(program, integers).outputs == expected).all()
    assert len(np.unique(expected)) > 3
