"""The ONNX front end: bad files are refused in one line, loops mean what onnxruntime says they mean."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx_models import compiled, floats, graph, load, node, onnxruntime_outputs, samples_for, simple, tensors
from scan_models import H0, HIDDEN, SCANS, STEPS, WIDTH, U, cell, classifier, scan

from tinyhil.errors import ModelError
from tinyhil.frontend.onnx import load_onnx
from tinyhil.references.evaluate import evaluate
from tinyhil.references.reference import dequantize_outputs, quantize_inputs, run_reference

W = np.ones((4, 2), np.float32)
X = {"x": (1, 4)}
MATMUL = node("MatMul", "x w", "y")

# ---- refusals


def good() -> onnx.ModelProto:
    return simple([MATMUL], X, {"w": W})


def edited(change: Callable[[onnx.ModelProto], Any], base: Callable[[], onnx.ModelProto] = good) -> onnx.ModelProto:
    proto = base()
    change(proto)
    return proto


def raw(nodes: list[onnx.NodeProto], constants: dict[str, Any] | None = None, shape: Any = (1, 4)) -> onnx.ModelProto:
    """Without shape inference, for models it would not survive."""
    main = graph(nodes, {"x": shape}, {"y": (1, 2)}, constants)
    return helper.make_model(main, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def external(proto: onnx.ModelProto) -> None:
    tensor = proto.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="weights.bin")


def typed_weights(kind: int, values: Any) -> onnx.ModelProto:
    def change(proto: onnx.ModelProto) -> None:
        proto.graph.initializer[0].CopyFrom(helper.make_tensor("w", kind, (4, 2), values))

    return edited(change)


def typed_input(kind: int) -> onnx.ModelProto:
    return edited(lambda proto: setattr(proto.graph.input[0].type.tensor_type, "elem_type", kind))


def looped(change: Callable[[onnx.NodeProto], Any]) -> onnx.ModelProto:
    proto = classifier([scan("h0 x", "h_n", cell())])
    change(proto.graph.node[0])
    return proto


def drop(message: onnx.NodeProto, attribute: str) -> None:
    attributes = [a for a in message.attribute if a.name != attribute]
    del message.attribute[:]
    message.attribute.extend(attributes)


def set_ints(message: onnx.NodeProto, attribute: str, values: Any) -> None:
    drop(message, attribute)
    message.attribute.append(helper.make_attribute(attribute, values))


def body_of(message: onnx.NodeProto) -> onnx.GraphProto:
    return next(a.g for a in message.attribute if a.name == "body")


def scan_of_opset_8() -> onnx.ModelProto:
    """What onnx's converter knows no way for: the first input of Scan is the lengths of the sequences."""
    proto = classifier([scan("h0 x", "h_n", cell())])
    proto.graph.node[0].input.insert(0, "h0")
    proto.opset_import[0].version = 8
    return proto


ROI = np.float32([[0, 0, 0, 2, 2]])


BAD: dict[str, tuple[Callable[[], onnx.ModelProto | bytes], str]] = {
    "empty": (lambda: b"", "not a valid ONNX model"),
    "random bytes": (lambda: random.Random(1).randbytes(500), "not a valid ONNX model"),
    "text": (lambda: b"this is not a model\n", "not a valid ONNX model"),
    "truncated": (lambda: good().SerializeToString()[:-20], "not a valid ONNX model"),
    "unsupported operator": (
        lambda: simple([node("RandomNormalLike", "x", "y")], X),
        "'RandomNormalLike_y': operator RandomNormalLike is not possible: a board has no random numbers",
    ),
    "operator that is missing": (
        lambda: simple([node("MaxRoiPool", "x r", "y", pooled_shape=[1, 1])], {"x": (1, 1, 4, 4)}, {"r": ROI}),
        "'MaxRoiPool_y': operator MaxRoiPool is not supported.*; `hil docs operators` lists those that are",
    ),
    "unsupported operator in a body": (
        lambda: classifier([scan("h0 x", "h_n", cell([node("RandomNormalLike", "h", "h_next")]))]),
        "node 'RandomNormalLike_h_next': operator RandomNormalLike is not possible",
    ),
    "operator of another domain": (
        lambda: edited(
            lambda p: (
                setattr(p.graph.node[0], "domain", "com.example"),
                p.opset_import.append(helper.make_opsetid("com.example", 1)),
            )
        ),
        "node 'MatMul_y': operator com.example.MatMul is not standard ONNX",
    ),
    "unsupported attribute": (
        lambda: classifier([scan("h0 x", "h_n", cell(), scan_input_directions=[2])]),
        r"node 'scan' \(Scan\): scan_input_directions \[2\]|not a valid",
    ),
    "unknown attribute": (
        lambda: edited(lambda p: p.graph.node[0].attribute.append(helper.make_attribute("alpha", 1.0))),
        "alpha",
    ),
    "NaN weights": (lambda: simple([MATMUL], X, {"w": np.full((4, 2), np.nan)}), "'w' holds 8 values that are NaN"),
    "infinite weights": (lambda: simple([MATMUL], X, {"w": [[np.inf, 1]] * 4}), "'w' holds 4 values that are NaN"),
    "weights beyond float32": (lambda: typed_weights(TensorProto.DOUBLE, [1e300] * 8), "8 values that are NaN or inf"),
    "constants that overflow": (
        lambda: simple([node("Mul", "a a", "w"), MATMUL], X, {"a": np.full((4, 2), 1e30)}),
        r"node 'MatMul_y' \(MatMul\): operand 'w' holds 8 values that are NaN or infinite",
    ),
    "string weights": (lambda: typed_weights(TensorProto.STRING, [b"a"] * 8), "weights 'w'"),
    "complex weights": (lambda: typed_weights(TensorProto.COMPLEX64, [1j] * 8), "weights 'w'"),
    "old opset": (lambda: scan_of_opset_8(), "opset 8 can not be brought up to 13 by onnx's version converter"),
    "no opset": (lambda: edited(lambda p: p.ClearField("opset_import")), "opset|not a valid"),
    "future opset": (lambda: edited(lambda p: setattr(p.opset_import[0], "version", 9999)), "opset 9999 is newer than"),
    "dynamic inner axis": (lambda: simple([MATMUL], {"x": (1, "n")}, {"w": W}), r"axis 1 \('n'\) has no fixed size"),
    "no input shape": (lambda: simple([node("Relu", "x", "y")], {"x": None}), "shape"),
    "empty axis": (lambda: simple([node("Relu", "x", "y")], {"x": (1, 0)}), r"axis 1 has size 0"),
    "empty weights": (lambda: raw([node("MatMul", "x w", "y")], {"w": np.ones((4, 0))}), "no elements"),
    "no input": (lambda: simple([node("Relu", "w", "y")], {}, {"w": W}), "0 inputs and 1 outputs"),
    "external data": (lambda: edited(external), "another file|not a valid ONNX model"),
    "sparse weights": (
        lambda: edited(
            lambda p: p.graph.sparse_initializer.append(
                helper.make_sparse_tensor(
                    tensors({"s": [1.0]})[0], helper.make_tensor("s_indices", TensorProto.INT64, (1,), [0]), [4]
                )
            )
        ),
        "sparse initializers",
    ),
    "constant output": (
        lambda: simple([node("Relu", "w", "y")], X, {"w": W}),
        "output 'y' does not depend on the input",
    ),
    "missing output": (lambda: raw([node("Relu", "x", "z")]), "'y' is not an output of any node"),
    "unknown value": (lambda: raw([node("Add", "x ghost", "y")]), "ghost"),
    "cycle": (lambda: raw([node("Add", "x b", "a"), node("Relu", "a", "b"), node("Relu", "b", "y")]), "not a valid"),
    "computed of itself": (lambda: raw([node("Relu", "b", "y"), node("Add", "x y", "b")]), "not a valid ONNX model"),
    "no nodes": (lambda: edited(lambda p: p.graph.ClearField("node")), "'y' is not an output of any node"),
    "inner dimensions": (lambda: raw([MATMUL], {"w": np.ones((3, 2))}), r"\(MatMul\): inner dimensions of \[1, 4\]"),
    "shapes that do not broadcast": (lambda: raw([node("Add", "x w", "y")], {"w": np.ones(3)}), "do not broadcast"),
    "gemm of vectors": (lambda: raw([node("Gemm", "x w", "y")], {"w": np.ones(4)}), r"\(Gemm\): operands"),
    "gemm bias": (lambda: raw([node("Gemm", "x w b", "y")], {"w": W, "b": np.ones(3)}), r"\(Gemm\): "),
    "gemm bias of other rows": (lambda: raw([node("Gemm", "x w b", "y")], {"w": W, "b": np.ones((5, 2))}), "a bias"),
    "scalar matmul": (lambda: raw([node("MatMul", "x w", "y")], {"w": 1.0}), "an operand is a scalar"),
    "reshape": (lambda: raw([node("Reshape", "x s", "y")], {"s": [3, 3]}), r"\[1, 4\] does not reshape to \[3, 3\]"),
    "reshape of two unknowns": (lambda: raw([node("Reshape", "x s", "y")], {"s": [-1, -1]}), "does not reshape"),
    "reshape copies a missing axis": (lambda: raw([node("Reshape", "x s", "y")], {"s": [0, 0, 0]}), "Reshape_y"),
    "reshape at run time": (lambda: raw([node("Reshape", "x x", "y")]), "computed at run time"),
    "squeeze": (lambda: raw([node("Squeeze", "x s", "y")], {"s": [1]}), "squeezes an axis of"),
    "squeeze beyond the rank": (lambda: raw([node("Squeeze", "x s", "y")], {"s": [7]}), "Squeeze_y"),
    "squeeze of a scalar": (
        lambda: raw([node("Reshape", "x e", "a"), node("Squeeze", "a s", "y")], {"e": [], "s": [0]}, (1, 1)),
        "Squeeze_y",
    ),
    "unsqueeze twice the same": (lambda: raw([node("Unsqueeze", "x s", "y")], {"s": [0, 0]}), "Unsqueeze_y"),
    "unsqueeze beyond the rank": (lambda: raw([node("Unsqueeze", "x s", "y")], {"s": [9]}), "Unsqueeze_y"),
    "flatten beyond the rank": (lambda: raw([node("Flatten", "x", "y", axis=5)]), "Flatten_y"),
    "training dropout": (
        lambda: simple([node("Dropout", "x r t", "y")], X, {"r": 0.5, "t": [1]}),
        "not a valid|Dropout_y",
    ),
    "bool input": (lambda: typed_input(TensorProto.BOOL), "input 'x' is BOOL; only float"),
    "unknown input type": (lambda: typed_input(99), "input 'x'|not a valid"),
    "huge constants": (
        lambda: raw(
            [node("Add", "a b", "c"), node("Add", "x c", "y")], {"a": np.ones((60000, 1)), "b": np.ones((1, 60000))}
        ),
        r"\(Add\): .*elements",
    ),
    "missing body": (lambda: looped(lambda n: drop(n, "body")), "body"),
    "body with another number of inputs": (
        lambda: looped(lambda n: body_of(n).input.append(floats("extra", (1,)))),
        "its body does not take the node's inputs",
    ),
    "body without outputs": (lambda: looped(lambda n: body_of(n).ClearField("output")), "scan"),
    "no sequences": (lambda: looped(lambda n: set_ints(n, "num_scan_inputs", 0)), "num_scan_inputs 0 for 2 inputs"),
    "more sequences than inputs": (lambda: looped(lambda n: set_ints(n, "num_scan_inputs", 3)), "num_scan_inputs 3"),
    "axes for other sequences": (
        lambda: looped(lambda n: set_ints(n, "scan_input_axes", [0, 0])),
        "one axis per sequence",
    ),
    "axis beyond the rank": (lambda: looped(lambda n: set_ints(n, "scan_input_axes", [7])), "axis 7"),
    "rows that are not contiguous": (
        lambda: classifier([scan("h0 x", "h_n", cell(), scan_input_axes=[1])], (2, STEPS, WIDTH)),
        "whose rows are not contiguous",
    ),
    "results along an inner axis": (
        lambda: looped(lambda n: set_ints(n, "scan_output_axes", [1])),
        "stacks its results along an inner axis",
    ),
    "scalar sequence": (
        lambda: classifier([scan("h0 s", "h_n", cell([node("MatMul", "h U", "h_next")]))], constants={"s": 1.0}),
        "scan",
    ),
    "sequences of different lengths": (
        lambda: classifier(
            [
                scan(
                    "h0 x z",
                    "h_n",
                    cell(
                        [node("MatMul", "h U", "h_next")],
                        {"h": (1, HIDDEN), "x_t": (1, WIDTH), "z_t": (1, WIDTH)},
                    ),
                    num_scan_inputs=2,
                )
            ],
            constants={"z": np.ones((STEPS + 1, 1, WIDTH))},
        ),
        r"different lengths \[6, 7\]",
    ),
    "a state of another shape": (
        lambda: raw_scan(cell([node("MatMul", "h V", "h_next")], constants={"V": np.ones((HIDDEN, 2))})),
        r"a state changes its shape from \[1, 4\] to \[1, 2\]",
    ),
    "an output left out": (lambda: edited_outputs(["h_n"]), "'scan'"),
    "body value unknown": (lambda: raw_scan(cell([node("Add", "h ghost", "h_next")])), "ghost"),
    "body value used outside": (
        lambda: raw(
            [*raw_scan(cell()).graph.node[:1], node("Relu", "h_next", "y")], {"U": U, "h0": H0}, (STEPS, 1, WIDTH)
        ),
        "h_next|not a valid",
    ),
}


def raw_scan(body: onnx.GraphProto) -> onnx.ModelProto:
    constants = {"U": U, "W": np.ones((WIDTH, HIDDEN)), "h0": H0, "R": np.ones((HIDDEN, 2))}
    nodes = [scan("h0 x", "h_n", body), node("MatMul", "h_n R", "y")]
    return raw(nodes, constants, (STEPS, 1, WIDTH))


def edited_outputs(outputs: list[str]) -> onnx.ModelProto:
    """Two states, of which the node returns fewer."""
    proto = SCANS["two_states"]()
    proto.graph.node[0].output[:] = outputs
    proto.graph.node[1].input[:] = [outputs[0], outputs[0]]
    return proto


@pytest.mark.parametrize("name", BAD)
def test_bad_files_are_refused_in_one_line(name: str, tmp_path: Path) -> None:
    make, message = BAD[name]
    made = make()
    path = tmp_path / "bad.onnx"
    path.write_bytes(made if isinstance(made, bytes) else made.SerializeToString())
    with pytest.raises(ModelError, match=message) as caught:
        load_onnx(path)
    text = str(caught.value)
    assert text.startswith(f"{path}: ")
    assert "\n" not in text
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_no_such_file(tmp_path: Path) -> None:
    for path in (tmp_path / "none.onnx", tmp_path):
        with pytest.raises(ModelError, match=str(path)):
            load_onnx(path)


# ---- what is accepted


@pytest.mark.parametrize("name", SCANS)
def test_loops_against_onnxruntime(name: str, tmp_path: Path) -> None:
    proto = SCANS[name]()
    loaded = load(proto, tmp_path)
    x = samples_for(loaded.shapes[loaded.inputs[0]], count=12)
    wanted = onnxruntime_outputs(proto, x)
    ours = evaluate(loaded, x).reshape(len(x), -1)
    np.testing.assert_allclose(ours, wanted, atol=1e-5, rtol=1e-5)
    assert loaded.walk()  # loops stay loops: nothing is unrolled
    assert sum(n.op == "Scan" for n in loaded.walk()) == str(proto).count('op_type: "Scan"')
    for default, tolerance in (("fixed16", 2e-3), ("fixed8", 0.25)):
        program = compiled(loaded, x, default)
        run = run_reference(program, quantize_inputs(program, x)[0])
        assert np.abs(dequantize_outputs(program, run.outputs) - wanted).max() < tolerance * max(
            1, np.abs(wanted).max()
        )


@pytest.mark.parametrize("name", SCANS)
def test_every_value_has_one_name_and_one_shape(name: str, tmp_path: Path) -> None:
    loaded = load(SCANS[name](), tmp_path)
    names = [value for level in loaded.levels() for value in level.shapes]
    assert len(names) == len(set(names))
    known = loaded.all_shapes()
    for level in loaded.levels():
        for value in (*level.inputs, *level.outputs, *level.constants):
            assert value in known
        assert all(level.shapes[name] == array.shape for name, array in level.constants.items())
    for item in loaded.walk():
        assert all(value in known for value in (*item.inputs, *item.outputs))


def test_a_symbolic_batch_is_one_sample(tmp_path: Path) -> None:
    loaded = load(simple([MATMUL], {"x": ("batch", 4)}, {"w": W}), tmp_path)
    assert loaded.shapes == {"x": (1, 4), "w": (4, 2), "y": (1, 2)}


def test_initializers_that_are_also_inputs(tmp_path: Path) -> None:
    proto = edited(lambda p: p.graph.input.append(floats("w", (4, 2))))
    assert load(proto, tmp_path).inputs == ("x",)


def test_weights_of_other_floats_become_float32(tmp_path: Path) -> None:
    few_bits = (TensorProto.FLOAT8E4M3FN, TensorProto.FLOAT8E5M2, TensorProto.FLOAT4E2M1)
    for kind in (TensorProto.FLOAT16, TensorProto.DOUBLE, *few_bits):
        constants = load(typed_weights(kind, [0.5] * 8), tmp_path).constants
        assert constants["w"].dtype == np.float32
        assert (constants["w"] == 0.5).all()


@pytest.mark.parametrize("kind", [TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE])
def test_inputs_of_other_floats_are_real_numbers(kind: int, tmp_path: Path) -> None:
    loaded = load(simple([node("Cast", "x", "f", to=TensorProto.FLOAT), node("Neg", "f", "y")], X), tmp_path)
    proto = onnx.load(tmp_path / "m.onnx")
    proto.graph.input[0].type.tensor_type.elem_type = kind
    again = load(proto, tmp_path)
    x = np.float32([[0.5, -2, 3, 1]])
    np.testing.assert_array_equal(evaluate(again, x[None]), evaluate(loaded, x[None]))


def test_constants_are_folded_and_unused_ones_dropped(tmp_path: Path) -> None:
    nodes = [node("Add", "a a", "b"), node("Reshape", "b s", "w"), node("Relu", "a", "dead"), MATMUL]
    loaded = load(simple(nodes, X, {"a": np.ones(8), "s": [4, 2], "spare": [1.0]}), tmp_path)
    assert [item.op for item in loaded.nodes] == ["MatMul"]
    assert list(loaded.constants) == ["w"]
    assert (loaded.constants["w"] == 2).all()
    assert set(loaded.shapes) == {"x", "w", "y"}


def test_the_hash_is_that_of_the_file(tmp_path: Path) -> None:
    import hashlib

    path = tmp_path / "m.onnx"
    path.write_bytes(good().SerializeToString())
    loaded = load_onnx(path)
    assert loaded.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert loaded.graph.name == "m"
