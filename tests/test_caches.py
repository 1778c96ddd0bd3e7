"""Caches of keys and values: a row is written at a computed place, in place where nothing else reads what was there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from search_models import host_engine

import tinyhil
from tinyhil.compiler.calibrate import calibrate
from tinyhil.compiler.lower import lower
from tinyhil.errors import ModelError
from tinyhil.frontend.load import load_model
from tinyhil.frontend.ports import Stream
from tinyhil.harness.build.toolchain import default_cache_dir
from tinyhil.language.assignment import Assignment
from tinyhil.language.program import Program, walk
from tinyhil.ops.placed import PLACE_AT
from tinyhil.ops.scan import COPY
from tinyhil.references.evaluate import evaluate
from tinyhil.references.reference import quantize_inputs, run_reference

HEADS, ROWS, WIDTH, STEPS = 2, 4, 3, 11  # the ring is gone round twice
SHAPE = (1, HEADS, ROWS, WIDTH)
WRITERS = {
    "scattered elements": [
        ("Expand", "past_place one_row", "at", {}),
        ("ScatterElements", "past_cache at new", "present_cache", {"axis": 2}),
    ],
    "tensor scatter": [("TensorScatter", "past_cache new past_place", "present_cache", {"mode": "circular"})],
    "scattered rows": [
        ("Reshape", "new row", "flat", {}),
        ("Reshape", "past_cache rows", "cache_rows", {}),
        ("Reshape", "past_place index", "at", {}),
        ("ScatterND", "cache_rows at flat", "present_rows", {}),
        ("Reshape", "present_rows whole", "present_cache", {}),
    ],
    "read before": [
        ("Expand", "past_place one_row", "at", {}),
        ("ScatterElements", "past_cache at new", "written", {"axis": 2}),
        ("ReduceMax", "past_cache axis", "highest", {}),
        ("Min", "written highest", "present_cache", {}),
    ],
}


def step_model(path: Path, writer: str) -> Path:
    """A frame is written into a ring; its products with all rows are shown."""
    constants = {
        "one_row": [1, HEADS, 1, WIDTH], "row": [1, HEADS * WIDTH], "rows": [ROWS, HEADS * WIDTH],
        "index": [1, 1], "whole": SHAPE, "axis": [2], "one": [1], "last": [ROWS - 1], "nought": [0],
    }  # fmt: skip
    nodes = [
        ("Reshape", "frame one_row", "new", {}),
        *WRITERS[writer],
        ("Transpose", "present_cache", "columns", {"perm": [0, 1, 3, 2]}),
        ("MatMul", "new columns", "products", {}),
        ("Equal", "past_place last", "end", {}),
        ("Add", "past_place one", "on", {}),
        ("Where", "end nought on", "present_place", {}),
    ]
    if writer == "tensor scatter":  # which goes round by itself
        nodes[-1] = ("Add", "past_place one", "present_place", {})
    made = [helper.make_node(op, x.split(), y.split(), name=y, **attrs) for op, x, y, attrs in nodes]
    cache, place = (TensorProto.FLOAT, SHAPE), (TensorProto.INT64, [1])
    given = {"frame": (TensorProto.FLOAT, [HEADS * WIDTH]), "past_cache": cache, "past_place": place}
    shown = {"products": (TensorProto.FLOAT, [1, HEADS, 1, ROWS]), "present_cache": cache, "present_place": place}
    graph = helper.make_graph(
        made,
        "ring",
        [helper.make_tensor_value_info(name, *kind) for name, kind in given.items()],
        [helper.make_tensor_value_info(name, *kind) for name, kind in shown.items()],
        [numpy_helper.from_array(np.array(array, np.int64), name) for name, array in constants.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)], ir_version=10), path)
    return path


def frames(samples: int) -> np.ndarray:
    return np.random.default_rng(39).normal(size=(samples, STEPS, HEADS * WIDTH)).astype(np.float32)


def by_onnx(path: Path, sample: np.ndarray) -> np.ndarray:
    """The results of all steps, by onnx' own evaluator."""
    step = ReferenceEvaluator(onnx.load(path))
    states = {"cache": np.zeros(SHAPE, np.float32), "place": np.zeros(1, int)}
    shown = []
    for frame in sample:
        given = {"frame": frame, **{f"past_{name}": array for name, array in states.items()}}
        products, *following = step.run(["products", *(f"present_{name}" for name in states)], given)
        states = dict(zip(states, following, strict=True))
        shown.append(np.asarray(products).reshape(-1))
    return np.stack(shown)


def copies(program: Program) -> int:
    """How often a whole cache is copied."""
    return sum(op.kernel == COPY.form and op.params["count"] == np.prod(SHAPE) for op in walk(program.body))


@pytest.mark.parametrize("writer", WRITERS)
def test_a_row_is_written_in_place(writer: str, tmp_path: Path) -> None:
    path, x = step_model(tmp_path / "ring.onnx", writer), frames(5)
    every = load_model(path, Stream(steps=STEPS, every=True)).graph
    found = evaluate(every, x).reshape(5, STEPS, -1)
    np.testing.assert_allclose(found, np.stack([by_onnx(path, sample) for sample in x]), rtol=1e-5, atol=1e-5)
    last = load_model(path, Stream(steps=STEPS)).graph
    np.testing.assert_array_equal(evaluate(last, x).reshape(5, -1), found[:, -1])
    for fmt in ("fixed8", "int8", "posit8es1"):
        program = lower(every, Assignment(fmt), calibrate(every, x, {}))
        assert sum(op.kernel == PLACE_AT.form for op in walk(program.body)) == 1
        assert copies(program) == (2 if writer == "read before" else 0)
        codes, _ = quantize_inputs(program, x)
        wanted, engine = run_reference(program, codes), host_engine(default_cache_dir()).run(program, codes)
        np.testing.assert_array_equal(engine.outputs, wanted.outputs)
        np.testing.assert_array_equal(engine.saturations, wanted.saturations)


def test_boards_and_engine_write_what_the_reference_writes(tmp_path: Path) -> None:
    model = tinyhil.load(step_model(tmp_path / "ring.onnx", "scattered elements"), steps=STEPS)
    for fmt in ("int8", "fixed16"):
        assert model.calibrate(frames(5)).run("host", frames(5), formats=fmt).bit_exact


def test_many_rows_at_once_are_refused(tmp_path: Path) -> None:
    made = onnx.load(step_model(tmp_path / "ring.onnx", "scattered elements"))
    next(one for one in made.graph.node if one.op_type == "Expand").input[0] = "places"
    made.graph.node.insert(0, helper.make_node("Add", ["past_place", "many"], ["places"]))
    made.graph.initializer.append(numpy_helper.from_array(np.arange(HEADS).reshape(1, HEADS, 1, 1), "many"))
    onnx.save(made, tmp_path / "ring.onnx")
    with pytest.raises(ModelError, match=r"indices for \[1, 2, 1, 3\] of .* computed at run time; write one"):
        load_model(tmp_path / "ring.onnx", Stream(steps=STEPS))
