"""RNNPool: floats against PyTorch, patch by patch as the paper says it; integers the same in numpy and in C++."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx_models import compiled, load, samples_for, simple
from ops_models import proto, rnn_pool

from tinyhil.frontend.onnx import load_onnx
from tinyhil.frontend.onnx_writer import write_onnx
from tinyhil.native import default_cache_dir
from tinyhil.references.evaluate import evaluate
from tinyhil.references.reference import quantize_inputs, run_reference
from tinyhil.search.engine.library import load_engine

SHAPES = {"overlapping": ((1, 3, 9, 7), 4, 2), "apart": ((1, 1, 7, 5), 2, 3), "one": ((1, 2, 3, 3), 3, 1)}
HIDDEN = (5, 3)


def by_patches(x: np.ndarray, size: int, stride: int, weights: dict[str, Any]) -> np.ndarray:
    """(samples, 4 hidden, patches down, patches across): every patch alone, its rows, its columns."""
    torch = pytest.importorskip("torch")
    given = {name: torch.tensor(array) for name, array in weights.items()}

    def last(steps: Any, cell: int) -> Any:
        """The state after steps (steps, sweeps, inputs)."""
        w, u, (b_g, b_h) = (given[f"{key}{cell}"] for key in "WUB")
        h = torch.zeros(steps.shape[1], len(u))
        for x_t in steps:
            c = x_t @ w + h @ u
            gate = torch.sigmoid(c + b_g)
            h = gate * h + (1 - gate) * torch.tanh(c + b_h)
        return h

    samples, channels, height, width = x.shape
    patches = torch.nn.functional.unfold(torch.tensor(x), size, stride=stride)
    patches = patches.reshape(samples, channels, size, size, -1).permute(0, 4, 2, 3, 1)
    found = []
    for patch in patches.flatten(0, 1):
        rows, columns = last(patch.transpose(0, 1), 1), last(patch, 1)
        found.append(torch.cat([last(h[:, None], 2)[0] for h in (rows, rows.flip(0), columns, columns.flip(0))]))
    down, across = ((side - size) // stride + 1 for side in (height, width))
    return torch.stack(found).reshape(samples, down, across, -1).permute(0, 3, 1, 2).numpy()


@pytest.mark.parametrize("name", SHAPES)
def test_floats_equal_pytorch(name: str, tmp_path: Path) -> None:
    shape, size, stride = SHAPES[name]
    nodes, _, weights = rnn_pool(shape, size, stride, HIDDEN)
    x = samples_for(shape, 2)
    wanted = by_patches(x[:, 0], size, stride, weights)
    got = evaluate(load(simple(nodes, {"x": shape}, weights), tmp_path), x)
    assert got.shape == (2, 1, *wanted.shape[1:])
    assert np.abs(got[:, 0] - wanted).max() < 1e-6


def test_a_written_model_keeps_the_operator(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(proto("rnn pool").SerializeToString())
    model = load_onnx(tmp_path / "m.onnx")
    written = write_onnx(model.listing, "again")
    assert [(item.op_type, item.domain) for item in written.graph.node] == [("RNNPool", "tinyhil")]
    x = samples_for(model.graph.shapes[model.graph.inputs[0]], 2)
    assert np.array_equal(evaluate(load(written, tmp_path), x), evaluate(model.graph, x))


@settings(max_examples=12, deadline=None)
@given(
    st.sampled_from(["fixed8", "fixed16", "fixed8pc", "posit8es0", "posit8es2", "posit16es1", "float32"]),
    st.sampled_from(["fixed16", "posit16es1"]),
    st.integers(1, 4),
    st.integers(1, 3),
    st.tuples(st.integers(0, 3), st.integers(0, 3)),
)
def test_the_engine_equals_the_reference(
    tmp_path_factory: pytest.TempPathFactory, default: str, states: str, size: int, stride: int, more: tuple[int, int]
) -> None:
    """In any format, mixed with another one of the sweeps' last states."""
    shape = (1, 2, size + more[0], size + more[1])
    nodes, _, weights = rnn_pool(shape, size, stride)
    graph = load(simple(nodes, {"x": shape}, weights), tmp_path_factory.mktemp("pool"))
    x = samples_for(shape, 3)
    program = compiled(graph, x, default, **{"y.1.h": states})
    codes, _ = quantize_inputs(program, x)
    expected, ran = run_reference(program, codes), load_engine(default_cache_dir()).run(program, codes)
    assert np.array_equal(ran.outputs, expected.outputs)
    assert np.array_equal(ran.saturations, expected.saturations)
