"""Whole numbers are computed as an integer type says, whatever the format: remainders, and 32 bits beyond float32."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from kernel_cases import UNDEFINED, Case, first_difference, run_natively, run_on_board
from onnx import TensorProto, helper, numpy_helper
from onnx_models import compiled, load, node, onnxruntime_outputs

from tinyhil.harness.job.inputs import read_inputs
from tinyhil.harness.settings.config import load_boards
from tinyhil.references.evaluate import evaluate, shape_inputs
from tinyhil.references.reference import dequantize_outputs, quantize_inputs, run_reference

ELEMENTS, SAMPLES = 6, 40
SMALL, LARGE = np.array([7, -7, 3, 50, 1, -90]), np.array([7, -70001, 3, (1 << 24) - 1, 1, -90])
KINDS = {TensorProto.INT8: np.int8, TensorProto.INT32: np.int32, TensorProto.UINT8: np.uint8}
ENDS = [-(1 << 31), (1 << 31) - 1, (1 << 24) + 1, -(1 << 24) - 1, 1 << 30, -3]
FORMATS = ("float32", "fixed16", "fixed8", "int8", "int16x8", "posit8es0", "fp8e4m3")
FLAGS = [node("Equal", "r two", "e"), node("Cast", "e", "y", to=TensorProto.FLOAT)]


def typed(kind: int, nodes: Sequence[onnx.NodeProto], output: int | None = None) -> onnx.ModelProto:
    """Of `kind`, `m` constants for the elements; the result of that kind, too, unless it is of the kind `output`."""
    divisors = SMALL if kind in (TensorProto.INT8, TensorProto.UINT8) else LARGE
    constants = {"m": np.abs(divisors) if kind == TensorProto.UINT8 else divisors, "two": np.array([2])}
    dtype = KINDS[kind]
    arrays = [numpy_helper.from_array(array.astype(dtype), name) for name, array in constants.items()]
    ends = [("x", kind), ("y", output or kind)]
    infos = [helper.make_tensor_value_info(name, one, [1, ELEMENTS]) for name, one in ends]
    made = helper.make_graph(list(nodes), "g", infos[:1], infos[1:], arrays)
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


WIDE, BYTE, PLAIN = TensorProto.INT32, TensorProto.INT8, TensorProto.FLOAT
MODELS = {
    "remainders": typed(WIDE, [node("Mod", "x m", "y")]),
    "remainders as C has them": typed(WIDE, [node("Mod", "x m", "y", fmod=1)]),
    "of remainders": typed(WIDE, [node("Mod", "x m", "a"), node("Mod", "a x", "y")]),
    "sums": typed(WIDE, [node("Mod", "x m", "a"), node("Mod", "x two", "b"), node("Add", "a b", "y")]),
    "differences": typed(WIDE, [node("Mod", "x two", "a"), node("Sub", "x a", "y")]),
    "quotients": typed(WIDE, [node("Div", "x m", "y")]),
    "quotients of bytes": typed(BYTE, [node("Div", "x m", "a"), node("Mod", "a two", "y")]),
    "halves of unsigned bytes": typed(TensorProto.UINT8, [node("Div", "x two", "y")]),
    "bits": typed(
        WIDE, [node("BitwiseAnd", "x m", "a"), node("BitwiseOr", "a two", "b"), node("BitwiseXor", "b x", "y")]
    ),
    "bits of unsigned bytes": typed(
        TensorProto.UINT8,
        [node("BitwiseNot", "x", "a"), node("BitwiseAnd", "a m", "b"), node("BitwiseXor", "b x", "y")],
    ),
    "equal": typed(WIDE, [node("Mod", "x m", "r"), *FLAGS], PLAIN),
    "equal bytes": typed(BYTE, [node("Mod", "x m", "r"), *FLAGS], PLAIN),
    "bytes": typed(BYTE, [node("Mod", "x m", "a"), node("Abs", "a", "b"), node("Mod", "b two", "y")]),
    "unsigned bytes": typed(TensorProto.UINT8, [node("Mod", "x m", "r"), *FLAGS], PLAIN),
}


def inputs_of(name: str) -> np.ndarray:
    """Of the model's kind, (samples, 1, elements); those of 32 bits with what float32 does not hold."""
    kind = KINDS[MODELS[name].graph.input[0].type.tensor_type.elem_type]
    ends = np.iinfo(kind)
    drawn = np.random.default_rng(len(name)).integers(ends.min, int(ends.max) + 1, (SAMPLES, 1, ELEMENTS))
    drawn[0] = ENDS if kind == np.int32 else drawn[0]
    return drawn.astype(kind)


@pytest.mark.every_cell
@pytest.mark.parametrize("fmt", FORMATS)
@pytest.mark.parametrize("name", MODELS)
def test_results_are_those_of_onnxruntime(name: str, fmt: str, tmp_path: Path) -> None:
    x = inputs_of(name)
    wanted = onnxruntime_outputs(MODELS[name], x)
    graph = load(MODELS[name], tmp_path)
    np.testing.assert_array_equal(evaluate(graph, x).reshape(SAMPLES, -1), wanted)
    program = compiled(graph, x, fmt)
    integers, clipped = quantize_inputs(program, shape_inputs(graph, x))
    assert not clipped
    run = run_reference(program, integers)
    np.testing.assert_array_equal(dequantize_outputs(program, run.outputs), wanted)
    assert not run.saturations.any()


def cases(folder: Path, formats: Sequence[str], rows: int) -> list[Case]:
    found = []
    for name, proto in MODELS.items():
        for fmt in formats:
            graph, x = load(proto, folder), inputs_of(name)
            program = compiled(graph, x, fmt)
            found.append(Case(f"{name} {fmt}", program, quantize_inputs(program, shape_inputs(graph, x))[0][:rows]))
    return found


def test_kernels_equal_the_reference(tmp_path: Path) -> None:
    made = cases(tmp_path, ("fixed8", "float32"), SAMPLES)
    assert first_difference(made, run_natively(made, tmp_path, *UNDEFINED)) == ""


@pytest.mark.parametrize("board", ["uno", pytest.param("due", marks=pytest.mark.slow)])
def test_kernels_on_boards(board: str, tmp_path: Path) -> None:
    made = cases(tmp_path, ("fixed8",), 3)
    assert first_difference(made, run_on_board(made, load_boards().board(board), tmp_path / "cache")) == ""


def test_what_nothing_divides_is_zero_and_counted(tmp_path: Path) -> None:
    program = compiled(load(typed(WIDE, [node("Mod", "m x", "y")]), tmp_path), np.ones((2, 1, ELEMENTS)), "fixed8")
    run = run_reference(program, np.array([[0, 0, 5, 5, 0, 7]]))
    assert run.outputs.tolist() == [[0, 0, 3, (1 << 24) % 5 - 1, 0, -90 % 7]]
    assert run.saturations.tolist() == [3]


def test_files_keep_whole_numbers_of_32_bits(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    np.savez(path, x=np.array([ENDS], np.int32))
    assert read_inputs(path).x.tolist() == [ENDS]
    np.savez(path, x=np.array([[1, 2]], np.int32))
    assert read_inputs(path).x.dtype == np.float32
