"""Exponentials, quotients, decisions, choices at run time, curves, normalisation, recurrent layers, branches.

Floats as onnxruntime, integers near them, kernels equal to numpy natively and on boards, stated bounds for every input.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
from kernel_cases import UNDEFINED, Case, first_difference, run_natively, run_on_board
from onnx import TensorProto, helper
from onnx_models import compiled, given_ranges, load, node, onnxruntime_outputs, samples_for, simple
from ops_models import (
    ALL,
    FAMILIES,
    ROWS,
    RUNTIME_LACKS,
    Model,
    fed,
    loop_body,
    proto,
    recurrent,
    rnd,
    rnn_pool,
    shape_of,
)
from plane_models import PLANES, RUNS
from random_models import cases_of

from tinyhil.codegen.kernel_calls import name_of
from tinyhil.compiler.lower import lower
from tinyhil.errors import ModelError
from tinyhil.formats.fixed import Fixed
from tinyhil.frontend import rewrite_caches, rewrite_dynamic, rewrite_quantized
from tinyhil.frontend.dialects import MICROSOFT
from tinyhil.frontend.rewrite_pulp import PULP
from tinyhil.frontend.rewrites import CONTROL, REWRITES
from tinyhil.harness.settings.config import load_boards
from tinyhil.language.assignment import Assignment
from tinyhil.language.program import walk
from tinyhil.ops import placed
from tinyhil.references.evaluate import evaluate
from tinyhil.references.reference import dequantize_outputs, quantize_inputs, run_reference


@pytest.mark.parametrize("name", [name for name in ALL if name not in RUNTIME_LACKS])
def test_floats_equal_onnxruntime(name: str, tmp_path: Path) -> None:
    x = samples_for(shape_of(name), 6)
    got = evaluate(load(proto(name), tmp_path), x)
    wanted = onnxruntime_outputs(proto(name), x)
    assert np.abs(got.reshape(len(x), -1) - wanted).max() < 3e-5 * max(1, np.abs(wanted).max())


def test_the_table_covers_every_operator_rewrite_and_kernel(tmp_path: Path) -> None:
    written = {item.op_type for made, _ in ALL.values() for item in made[0]}
    # tests/test_quantized_onnx.py and the backend have those
    quantized = {one.name for one in (*rewrite_quantized.REWRITES, *rewrite_dynamic.REWRITES)}
    elsewhere = (MICROSOFT, PULP)  # test_microsoft_operators.py, test_dialects.py
    of_onnx = {rewrite.name for rewrite in REWRITES if rewrite.domain not in elsewhere}
    of_caches = {rewrite.name for rewrite in rewrite_caches.REWRITES}  # test_caches.py, and the kernels of placed.py
    assert (of_onnx | set(CONTROL)) - quantized - of_caches - written == set()
    chosen = [*((name, "fixed16") for name in ALL), ("layer normalization", "float16")]
    programs = [compiled(load(proto(name), tmp_path), samples_for(shape_of(name), 2), fmt) for name, fmt in chosen]
    kernels = {name_of(op.kernel) for program in programs for op in walk(program.body)}
    families = [family for family in FAMILIES if family is not placed]
    assert kernels >= {name_of(kernel.form) for family in families for kernel in family.KERNELS}


# units of 2^-12: inputs are rounded to 2^-13, weights to 2^-15 and finer, each result once; what is steep multiplies it
TOLERANCE: dict[str, float] = {"exp": 24, "reciprocal": 200, "pow -0.5": 60, "log": 24, "div a constant": 200}
TOLERANCE |= {"pow 3": 80, "pow 2": 20, "layer norm": 30, "instance norm": 16, "sqrt": 6, "pow 0.5": 6, "pow of 2": 12}
TOLERANCE |= {"einstein": 20, "cumulated in": 80}
TOLERANCE |= {"batches": 24, "gemm": 24, "tree": 4, "transposed": 30, "lstm": 6, "gru": 6, "rnn": 12, "if": 8}
TOLERANCE |= {"determinant": 16, "div per row": 6, "unit length": 6, "rms": 12, "length pool": 6}


@pytest.mark.parametrize("name", ALL)
def test_integers_stay_near_the_floats(name: str, tmp_path: Path) -> None:
    x = samples_for(shape_of(name), 8)
    graph = load(proto(name), tmp_path)
    program = compiled(graph, x)
    integers, _ = quantize_inputs(program, x)
    run = run_reference(program, integers)
    # the float model sees what the board sees: a decision may fall differently within half a step
    seen = (integers * 2.0 ** program.tensors[program.input].format.exponent).astype(np.float32)
    wanted = evaluate(graph, seen.reshape(x.shape)).reshape(len(x), -1)
    error = np.abs(dequantize_outputs(program, run.outputs) - wanted).max()
    units = next((units for start, units in TOLERANCE.items() if name.startswith(start)), 3)
    assert error <= units * 2.0**-12


def cases(folder: Path, default: str, names: Iterable[str], rows: int = 7) -> list[Case]:
    return cases_of(folder, default, ((name, proto(name), shape_of(name)) for name in names), rows)


@pytest.mark.parametrize("default", ["fixed8", "fixed16"])
def test_kernels_equal_the_reference(default: str, tmp_path: Path) -> None:
    made = cases(tmp_path, default, ALL)
    assert first_difference(made, run_natively(made, tmp_path, *UNDEFINED)) == ""


ON_BOARDS = {
    "choices": ["largest three", "smallest two of rows", "where the largest three are", "round", "bits of one alone"],
    "numbers": ["exp", "log", "div", "div per row", "sqrt", "erf", "elu of 2.5", "softplus", "p relu"],
    "decisions": ["less", "greater or equal", "and", "sign", "cast to whole", "where", "gather a row", "tree"],
    "layers": ["layer normalization", "transposed conv padded", "resize linear", "batches", "loop", "if"],
    "recurrent": ["rnn backward", "gru", "lstm both", "rnn pool"],
}


@pytest.mark.parametrize("board", ["uno", pytest.param("due", marks=pytest.mark.slow)])
@pytest.mark.parametrize("names", ON_BOARDS)
def test_kernels_on_boards(board: str, names: str, tmp_path: Path) -> None:
    made = cases(tmp_path, "fixed16", ON_BOARDS[names], rows=2)[::2]
    results = run_on_board(made, load_boards().board(board), tmp_path / "cache")
    assert first_difference(made, results) == ""


# ---- what is chosen at run time


def test_indices_outside_are_clamped_and_counted(tmp_path: Path) -> None:
    nodes = [node("Cast", "x", "i", to=TensorProto.INT64), node("Gather", "table i", "y", axis=0)]
    graph = load(simple(nodes, {"x": (1,)}, {"table": rnd(3, 2)}), tmp_path)
    program = compiled(graph, np.array([[100.0], [-100.0]], np.float32), "fixed16")
    step = 2.0 ** program.tensors["x"].format.exponent
    run = run_reference(program, (np.array([[0], [2], [-1], [3], [-4]]) / step).astype(np.int64))
    rows = run.outputs[[0, 1, 1, 1, 0]]
    assert (run.outputs == rows).all()
    assert run.saturations.tolist() == [0, 0, 0, 1, 1]


@pytest.mark.parametrize("default", ["fixed8", "fixed16"])
def test_whole_numbers_stay_whole(default: str, tmp_path: Path) -> None:
    """A walk through a tree whose calibration never left the root's left child."""
    graph = load(proto("tree"), tmp_path)
    x = samples_for(ROWS, 64)
    first = compiled(graph, x[:1], default)
    assert first.tensors["at"].format == Fixed(16, 0)
    program = lower(graph, Assignment(default), given_ranges(**dict.fromkeys(graph.all_shapes(), 8.0)))
    paths = []
    for made in (first, program):
        seen: list[np.ndarray] = []
        run_reference(made, quantize_inputs(made, x)[0], lambda n, a, s=seen: s.append(a[:, 0]) if n == "at" else None)
        paths.append(seen[-1])
    assert set(paths[0]) <= {3, 4, 5, 6}
    assert len(set(paths[0])) > 2


SQUARES = {"kernel_shape": [2, 2], "strides": [1, 1]}
REFUSED: dict[str, tuple[Model, str]] = {
    "top 9": (([node("TopK", "x k", "y i", axis=1)], ROWS, {"k": [9]}), r"k = \[9\] of 4 elements"),
    "division by zero": (fed("Div", "x k", {"k": np.array(0.0)}), "division by a constant 0"),
    "reversed beyond": (fed("ReverseSequence", "x k", {"k": [9, 1, 1, 1]}), "4 lengths for"),
    "waves of pairs": (fed("STFT", "x k", {"k": np.array(2)}, (2, 4, 1)), r"frames of 4 of \[2, 4, 1\]"),
    "unknown activation": (recurrent("RNN", "a", activations=["Affine"]), "activation Affine"),
    "flat patches": (
        fed("RNNPool", "x x x x x x x", {}, (1, 1, 4, 4), domain="tinyhil", kernel_shape=[2, 4], strides=[2, 2]),
        r"kernel_shape \[2, 4\] and strides \[2, 2\]",
    ),
    "patches beyond": (rnn_pool((1, 1, 4, 3), 4, 1), "patches of 4 pixels in 4 x 3"),
    "cells that do not fit": (
        fed("RNNPool", "x k k k k k k", {"k": rnd(2, 2)}, (1, 1, 4, 4), domain="tinyhil", **SQUARES),
        r"W1, U1, B1 of shapes",
    ),
    "runs far away": (
        (
            [
                node("Cast", "x", "n", to=TensorProto.INT64),
                node("TfIdfVectorizer", "n", "y", **RUNS | {"ngram_indexes": [0, 1, 1 << 31]}),
            ],
            ROWS,
            {},
        ),
        "at places 0 to 2147483648",
    ),
    "endless loop": (
        (
            [
                helper.make_node(
                    "Loop", ["", "true", "x"], ["y"], name="loop", body=loop_body([], {"h": ROWS}, ["h"], [ROWS])
                )
            ],
            ROWS,
            {},
        ),
        "a trip count that is not known",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made, message = REFUSED[name]
    monkeypatch.setitem(ALL, name, (made, 17))
    with pytest.raises(ModelError, match=f"node '.*{message}") as caught:
        load(proto(name), tmp_path)
    assert "\n" not in str(caught.value)


def test_boxes_that_nothing_fills_are_minus_one(tmp_path: Path) -> None:
    """Of each sample as many rows as may be found; onnxruntime leaves out those behind what it found."""
    (nodes, shape, constants), _ = PLANES["best boxes"]
    made = simple(nodes, {"x": shape}, {**constants, "most": 5, "overlap": 0.05, "four": [4]})
    x = samples_for(shape, 20)
    got, counts = evaluate(load(made, tmp_path), x), set()
    for sample, rows in zip(x, got, strict=True):
        found = onnxruntime_outputs(made, sample[None]).reshape(-1, 3)
        np.testing.assert_array_equal(rows[: len(found)], found)
        assert (rows[len(found) :] == -1).all()
        counts.add(len(found))
    assert len(counts) > 1
