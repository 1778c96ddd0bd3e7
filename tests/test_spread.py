"""Errors of operands carried through operators: never exceeded, and not much larger than what can happen."""

from __future__ import annotations

import numpy as np
import pytest

from tinyhil.agreement.spread import Uncertain, spread
from tinyhil.language.graph import Node
from tinyhil.ops import OPERATOR_BY_NAME

ROWS = {"axis": -1, "epsilon": 1e-5, "centre": True, "mean": True, "to_end": True}
NODES = {
    "softmax": Node("Softmax", "s", ("x",), ("y",), {"axis": -1}),
    "softmax of columns": Node("Softmax", "s", ("x",), ("y",), {"axis": 0}),
    "layer norm": Node("Normalize", "n", ("x",), ("y",), ROWS),
    "rms norm": Node("Normalize", "n", ("x",), ("y",), {**ROWS, "centre": False}),
    "l2 norm": Node("Normalize", "n", ("x",), ("y",), {**ROWS, "centre": False, "mean": False, "epsilon": 0.0}),
    "sum": Node("ReduceSum", "r", ("x",), ("y",), {"axes": [1], "keepdims": 1}),
}


def moved(name: str, x: np.ndarray) -> np.ndarray:
    node = NODES[name]
    return np.asarray(OPERATOR_BY_NAME[node.op].evaluate(node, [x])[0], np.float64)


@pytest.mark.parametrize("reach", [0.003, 0.1, 0.5])
@pytest.mark.parametrize("name", NODES)
def test_errors_are_bounded_and_nearly_reached(name: str, reach: float) -> None:
    """Operands are moved to the ends of what they may be, at random and towards one element."""
    draws = np.random.default_rng(0)
    x = draws.normal(size=(1, 6, 10)) * 2
    error = draws.uniform(0, reach, x.shape)
    (found,) = spread(NODES[name], [Uncertain(x, error, np.abs(x))], [moved(name, x)])
    furthest = np.zeros(found.value.shape)
    for _ in range(300):
        signs = draws.choice([-1.0, 1.0], x.shape)
        signs[:, :, draws.integers(10)] *= -1
        furthest = np.maximum(furthest, np.abs(moved(name, x + signs * error) - found.value))
    for at in range(10):
        alone = -np.ones(x.shape)
        alone[:, :, at] = 1.0
        furthest = np.maximum(furthest, np.abs(moved(name, x + alone * error) - found.value))
    assert (furthest <= found.error * (1 + 1e-9) + 1e-12).all()
    if reach < 0.5:
        assert np.median(furthest / found.error) > 0.25


def test_a_row_whose_deviation_may_vanish_may_be_anything() -> None:
    x = np.zeros((1, 2, 4))
    x[0, 1] = [1.0, -1.0, 1.0, -1.0]
    (found,) = spread(NODES["layer norm"], [Uncertain(x, np.full(x.shape, 0.2), np.abs(x))], [moved("layer norm", x)])
    assert np.isinf(found.error[0, 0]).all()
    assert np.isfinite(found.error[0, 1]).all()
