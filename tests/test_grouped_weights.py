"""Weights of few bits with scales of groups: read as ONNX Runtime computes them, the same integers everywhere."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from kernel_cases import Case, expected, first_difference, run_natively, run_on_board
from onnx import TensorProto, helper, numpy_helper
from onnx_models import floats, load, onnxruntime_outputs

from tinyhil.compiler.calibrate import calibrate
from tinyhil.compiler.lower import lower
from tinyhil.errors import ModelError
from tinyhil.harness.settings.config import load_boards
from tinyhil.language.assignment import Assignment
from tinyhil.language.program import walk
from tinyhil.ops.groups import DENSE
from tinyhil.passes.stored import stored_bytes
from tinyhil.references.evaluate import evaluate
from tinyhil.references.reference import dequantize_outputs, quantize_inputs

INT4, UINT4 = TensorProto.INT4, TensorProto.UINT4


def _model(
    nodes: Sequence[onnx.NodeProto], weights: Sequence[onnx.TensorProto], rows: int, inner: int, outputs: int
) -> onnx.ModelProto:
    graph = helper.make_graph(nodes, "g", [floats("x", (1, rows, inner))], [floats("y", (1, rows, outputs))], weights)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def n_bits(
    bits: int, block: int, *, rows: int = 1, inner: int = 64, outputs: int = 13, zeros: bool = False, **changes: int
) -> onnx.ModelProto:
    """A MatMulNBits of random weights, scales of either sign, and a bias."""
    draws, blocks = np.random.default_rng(bits), -(-inner // block)
    parts = {
        "w": draws.integers(0, 256, (outputs, blocks, block * bits // 8)).astype(np.uint8),
        "s": (draws.uniform(0.01, 0.1, outputs * blocks) * draws.choice([1, -1], outputs * blocks)).astype(np.float32),
        "z": draws.integers(0, 256, outputs * -(-blocks * bits // 8)).astype(np.uint8),
        "b": draws.normal(size=outputs).astype(np.float32),
    }
    names = ["x", "w", "s", "z" if zeros else "", "", "b"]
    attrs = {"K": inner, "N": outputs, "bits": bits, "block_size": block} | changes
    node = helper.make_node("MatMulNBits", names, ["y"], "m", domain="com.microsoft", **attrs)
    return _model([node], [numpy_helper.from_array(v, k) for k, v in parts.items() if k in names], rows, inner, outputs)


def int4(kind: int, block: int, *, inner: int = 60, outputs: int = 13, turned: bool = False) -> onnx.ModelProto:
    """A DequantizeLinear of 4 bits, in blocks or, for a block of 0, per channel, before a MatMul or Gemm."""
    draws = np.random.default_rng(block)
    ends = (-8, 8) if kind == INT4 else (0, 16)
    shape = (outputs, inner) if turned else (inner, outputs)
    axis = 1 if turned else 0
    scales = [outputs] if not block else [-(-n // block) if at == axis else n for at, n in enumerate(shape)]
    weights = [
        helper.make_tensor("w", kind, shape, draws.integers(*ends, inner * outputs)),
        numpy_helper.from_array(draws.uniform(0.01, 0.1, scales).astype(np.float32), "s"),
        helper.make_tensor("z", kind, scales, draws.integers(*ends, int(np.prod(scales)))),
    ]
    attrs = {"axis": axis, "block_size": block} if block else {"axis": 1 - axis}
    nodes = [helper.make_node("DequantizeLinear", ["w", "s", "z"], ["v"], "d", **attrs)]
    if turned:
        nodes.append(helper.make_node("Squeeze", ["x", "a"], ["f"], "f"))
        nodes.append(helper.make_node("Gemm", ["f", "v"], ["g"], "p", transB=1))
        nodes.append(helper.make_node("Unsqueeze", ["g", "a"], ["y"], "u"))
        weights.append(numpy_helper.from_array(np.zeros(1, np.int64), "a"))
    else:
        nodes.append(helper.make_node("MatMul", ["x", "v"], ["y"], "p"))
    return _model(nodes, weights, 1, inner, outputs)


MODELS = {
    "2 bits": n_bits(2, 16),
    "4 bits": n_bits(4, 32, rows=3, outputs=12),
    "4 bits, zeros": n_bits(4, 16, zeros=True, inner=72),
    "8 bits, zeros": n_bits(8, 32, zeros=True, inner=80),
    "int4": int4(INT4, 16),
    "uint4, Gemm": int4(UINT4, 20, turned=True),
    "int4 per channel": int4(INT4, 0, outputs=8, inner=64),
}
FORMATS = ("int8", "fixed8", "fixed16", "int16x8", "fixed5")


def case(proto: onnx.ModelProto, fmt: str, folder: Path) -> Case:
    graph = load(proto, folder)
    x = np.random.default_rng(1).normal(size=(6, *graph.shapes["x"])).astype(np.float32)
    program = lower(graph, Assignment(fmt), calibrate(graph, x, {}))
    return Case(f"{proto.graph.node[0].op_type} {fmt}", program, quantize_inputs(program, x)[0])


@pytest.mark.parametrize("name", MODELS)
def test_floats_and_integers_are_onnxruntime_s(name: str, tmp_path: Path) -> None:
    """Integers of 16 bits are off by what their input's format loses, not by that of weights rounded once more."""
    graph = load(MODELS[name], tmp_path)
    x = np.random.default_rng(1).normal(size=(6, *graph.shapes["x"])).astype(np.float32)
    wanted = onnxruntime_outputs(MODELS[name], x, optimized=False)
    np.testing.assert_allclose(evaluate(graph, x).reshape(6, -1), wanted, atol=1e-4, rtol=1e-5)
    for fmt, most in (("fixed16", 2e-4), ("int16x8", 2e-4), ("fixed8", 0.03), ("int8", 0.03), ("float32", 1e-6)):
        made = case(MODELS[name], fmt, tmp_path)
        found = dequantize_outputs(made.program, expected([made]).outputs[0])
        assert np.abs(found.reshape(wanted.shape) - wanted).max() < most * np.abs(wanted).max()


@pytest.mark.parametrize("board", ["host-native", "h747", "due", pytest.param("uno", marks=pytest.mark.slow)])
def test_the_same_integers_on_boards(board: str, tmp_path: Path) -> None:
    cases = [case(proto, fmt, tmp_path) for fmt in FORMATS for proto in MODELS.values()]
    for made in cases:
        assert sum(op.kernel.bare == DENSE.form for op in walk(made.program.body)) == 1
    if board == "host-native":
        assert first_difference(cases, run_natively(cases, tmp_path)) == ""
    else:
        some = cases[:: 1 if board == "h747" else 3]
        assert first_difference(some, run_on_board(some, load_boards().board(board), tmp_path)) == ""


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"accuracy_level": 4, "K": -64}, "-64 x 13 weights of 4 bits in blocks of 32; 2, 4 and 8 bits"),
        ({"block_size": 24}, "in blocks of 24"),
        ({"N": 12}, "bytes and 26 scales for 64 x 12; the file is damaged"),
        ({"K": 0}, "0 x 13 weights"),
    ],
)
def test_blocks_that_are_none(changes: dict[str, int], says: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=says):
        load(n_bits(4, 32, **changes), tmp_path)


def test_scales_of_nothing_and_orders_of_groups_are_refused(tmp_path: Path) -> None:
    proto = n_bits(4, 32)
    proto.graph.initializer[1].raw_data = bytes(len(proto.graph.initializer[1].raw_data))
    with pytest.raises(ModelError, match="a scale that is 0 or no number"):
        load(proto, tmp_path)
    proto = n_bits(4, 32)
    proto.graph.node[0].input[4] = "z"
    proto.graph.initializer.append(numpy_helper.from_array(np.zeros(64, np.int32), "z"))
    with pytest.raises(ModelError, match="g_idx, groups in another order"):
        load(proto, tmp_path)


def test_few_bits_are_few_bytes_in_flash(tmp_path: Path) -> None:
    """Two weights in a byte and two bytes for the scale of each block, in int8 as in fixed point."""
    made = {fmt: case(n_bits(4, 32, inner=256, outputs=64), fmt, tmp_path).program for fmt in ("int8", "fixed16")}
    for program in made.values():
        op = next(op for op in walk(program.body) if op.kernel.bare == DENSE.form)
        sizes = [
            stored_bytes(program.tensors[name], program.constants[name]) for name in op.inputs[:1] + op.inputs[2:4]
        ]
        assert sizes == [256 * 64 // 2, 2 * 8 * 64, 8 * 64]
