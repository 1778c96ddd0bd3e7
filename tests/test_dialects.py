"""Files that use operators before the opset that has them: Deeploy's, and what ONNX Runtime's optimizer writes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from given_data import data_file
from kernel_cases import Case, expected, first_difference, run_natively, run_on_board
from onnx import helper, numpy_helper
from onnx_models import floats, load, node, samples_for, tensors

from benchmarks.onnx_golden import EQUAL, ROUNDED, verdict
from tinyhil.compiler.calibrate import calibrate
from tinyhil.compiler.lower import lower
from tinyhil.errors import ModelError
from tinyhil.frontend.dialects import in_onnx
from tinyhil.frontend.onnx import load_onnx
from tinyhil.frontend.ports import Stream
from tinyhil.harness.settings.config import load_boards
from tinyhil.language.assignment import Assignment
from tinyhil.language.graph import element_count
from tinyhil.language.program import walk
from tinyhil.references.evaluate import evaluate
from tinyhil.references.reference import dequantize_outputs, quantize_inputs, run_reference

NETWORKS = ("Models/microLlama/FP32/microLlama1", "Models/CCT/FP32/CCT_1_16_16_8")


def files_of(network: str) -> tuple[str, ...]:
    return tuple(f"deeploy/{network}/{file}" for file in ("network.onnx", "inputs.npz", "outputs.npz"))


def of_opset(opset: int, nodes: list, constants: dict, shape: tuple[int, ...] = (1, 3, 4)) -> onnx.ModelProto:
    graph = helper.make_graph(nodes, "g", [floats("x", (1, 3, 4))], [floats("y", shape)], tensors(constants))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def test_rms_norm_of_deeploy(tmp_path: Path) -> None:
    scale = np.array([1, 2, -1, 0.5], np.float32)
    nodes = [node("RMSNorm", "x w", "n"), node("Softmax", "n", "s"), node("HardSwish", "s", "y", six=1, three=2)]
    x = samples_for((3, 4))
    found = evaluate(load(of_opset(10, nodes, {"w": scale}), tmp_path), x[:, None]).reshape(x.shape)
    normal = x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-5) * scale
    soft = np.exp(normal) / np.exp(normal).sum(axis=-1, keepdims=True)  # whatever opset 10 says of the axis
    assert np.allclose(found, soft * np.clip(soft / 6 + 0.5, 0, 1), atol=1e-6)


def test_layer_normalization_before_its_opset(tmp_path: Path) -> None:
    nodes = [node("LayerNormalization", "x w", "n", epsilon=0.0), node("Squeeze", "n", "y", axes=[0])]
    x = samples_for((3, 4))
    found = evaluate(load(of_opset(12, nodes, {"w": np.ones(4, np.float32)}, (3, 4)), tmp_path), x[:, None]).reshape(
        x.shape
    )
    assert np.allclose(found, (x - x.mean(-1, keepdims=True)) / x.std(-1, keepdims=True), atol=1e-5)


def test_a_softmax_that_joins_axes_is_no_dialect(tmp_path: Path) -> None:
    nodes = [node("LayerNormalization", "x w", "n"), node("Softmax", "n", "y")]
    with pytest.raises(ModelError, match="LayerNormalization"):
        load(of_opset(12, nodes, {"w": np.ones(4, np.float32)}), tmp_path)


@pytest.mark.parametrize(("is_signed", "levels"), [(1, 256), (0, 256), (1, 16)])
def test_requant_shift_of_pulp(is_signed: int, levels: int, tmp_path: Path) -> None:
    """Products and sums beyond what float32 holds, and factors for each channel."""
    mul, add = np.array([257, 90001, 1]), np.array([-7, 123456, 500])
    attrs = {"div": 65536, "n_levels_out": [levels], "signed": [is_signed]}
    made = {name: numpy_helper.from_array(np.array(value, np.float32)) for name, value in attrs.items()}
    changed = node("RequantShift", "x m a", "y", **made)
    changed.domain = "PACTOps"
    constants = {name: v.astype(np.float32).reshape(3, 1) for name, v in (("m", mul), ("a", add))}
    x = np.random.default_rng(3).integers(-9000, 9000, (40, 3, 4))
    found = evaluate(load(of_opset(10, [changed], constants), tmp_path), x[:, None].astype(np.float32))
    low = -(levels // 2) if is_signed else 0
    wanted = np.clip((x * mul[:, None] + add[:, None] + (1 << 15)) >> 16, low, low + levels - 1)
    np.testing.assert_array_equal(found.reshape(x.shape), wanted)


def test_hard_swish_of_pulp(tmp_path: Path) -> None:
    x = np.random.default_rng(3).integers(-128, 128, (40, 3, 4))
    changed = node("iHardswish", "x", "y", three=76, six=153, one_over_six=33)
    found = evaluate(load(of_opset(10, [changed], {}), tmp_path), x[:, None].astype(np.float32))
    np.testing.assert_array_equal(found.reshape(x.shape), x * np.clip(x + 76, 0, 153) * 33)


def test_affine_of_pulp_rounds_downwards(tmp_path: Path) -> None:
    """iNoNorm in a file whose nodes are in another order than they compute."""
    draws = np.random.default_rng(4)
    x, w, b = (draws.integers(low, -low, size) for low, size in ((-128, (40, 3, 4)), (-100, (3, 4)), (-4000, 4)))
    constants = {"w": w.astype(np.float32), "b": b.astype(np.float32)}
    nodes = [node("iNoNorm", "i w b", "y", D=65536, mul=425, n_levels=256), node("Identity", "x", "i")]
    graph = load(of_opset(10, nodes, constants), tmp_path)
    given = x[:, None].astype(np.float32)
    wanted = np.clip((x * w + b) * 425 // 65536, -128, 127)
    np.testing.assert_array_equal(evaluate(graph, given).reshape(x.shape), wanted)
    program = lower(graph, Assignment("fixed8"), calibrate(graph, given, {}))
    case = Case("affine", program, quantize_inputs(program, given)[0])
    assert first_difference([case], run_natively([case], tmp_path)) == ""
    np.testing.assert_array_equal(dequantize_outputs(program, expected([case]).outputs[0]).reshape(x.shape), wanted)


@pytest.mark.parametrize(("div", "says"), [(65535.0, "a divisor of 65535"), (0.5, "'div' is no whole number")])
def test_requant_shift_that_is_none(div: float, says: str, tmp_path: Path) -> None:
    changed = node("RequantShift", "x m m", "y", div=div, n_levels=256, signed=1)
    with pytest.raises(ModelError, match=says):
        load(of_opset(10, [changed], {"m": np.ones(1, np.float32)}), tmp_path)


def pulp_network() -> onnx.ModelProto:
    """One of each operator of the dialect, products of constant and of computed matrices, factors of two channels."""
    rq = {"div": 65536.0, "n_levels_out": 256.0, "signed": 1.0}
    draws = np.random.default_rng(4)
    constants = {
        "w": draws.integers(-128, 128, (8, 8)),
        "b": draws.integers(-2000, 2000, 8),
        **{name: np.array(value) for name, value in (("m", 90), ("m1", 600), ("m2", 5), ("m3", 48000), ("z", 0))},
        **{
            "mc": np.array([[300], [900]]),
            "ac": np.array([[-70000], [40000]]),
            "g": draws.integers(1000000, 4000000, 8),
        },
    }
    soft = {"coeffA": 1.0, "coeffB": 86.0, "coeffC": 3888.0, "log2": 64.0, "n_levels": 256.0}
    nodes = [
        node("iRMSNorm", "x g", "n", D=65536, n_levels=256),
        node("MatMul", "n w", "p"),
        node("Add", "b p", "p1"),
        node("RequantShift", "p1 m z", "q", **rq),
        node("Transpose", "q", "t", perm=[0, 2, 1]),
        node("MatMul", "q t", "s"),
        node("RequantShift", "s mc ac", "s1", **rq),
        node("TrueIntegerDiv", "s1", "s2", Delta=16384, eps=1, eta=200000, y=2),
        node("RequantShift", "s2 m2 z", "s3", **rq),
        node("iSoftmax", "s3", "a", **soft),
        node("MatMul", "a q", "v"),
        node("RequantShift", "v m1 z", "v1", **rq),
        node("iHardswish", "v1", "h", three=76, six=153, one_over_six=33),
        node("RequantShift", "h m2 z", "h1", **rq),
        node("Mul", "h1 q", "k"),
        node("RequantShift", "k m1 z", "k1", **rq),
        node("Add", "k1 x", "r"),
        node("RequantShift", "r m3 z", "y", **rq),
    ]
    return of_opset(10, nodes, {k: v.astype(np.float32) for k, v in constants.items()}, (1, 2, 8))


def pulp_transformer() -> onnx.ModelProto:
    """The operators of its transformers: rows of 6 have no length that is a power of two, columns of 4 have one."""
    rq = {"div": 65536.0, "n_levels_out": 256.0, "signed": 1.0}
    draws = np.random.default_rng(6)
    constants = {
        "w": draws.integers(100000, 400000, 6),
        "b": draws.integers(-9000, 9000, 6),
        "cw": draws.integers(-128, 128, (4, 2, 3)),
        "cb": draws.integers(-2000, 2000, 4),
        **{name: np.array(value) for name, value in (("m", 60), ("m1", 9000), ("m2", 70000), ("z", 0))},
    }
    nodes = [
        node("iLayerNorm", "x w b", "n", D=16384, n_levels=256),
        node("iGELU", "n", "g", b=-40, one=1743),
        node("RequantShift", "g m z", "g1", **rq),
        node("ITAMax", "g1", "s", n_levels=256),
        node("IntegerMean", "s", "c", axes=[1], keepdims=1),
        node("IntegerMean", "g1", "r", axes=[2], keepdims=1),
        node("Mul", "r r", "r2"),
        node("IntegerDiv", "g r2", "q", Delta=3, eps=1, eta=7),
        node("Add", "q c", "k"),
        node("RequantShift", "k m1 z", "k1", **rq),
        node("Add", "k1 g1", "t"),
        node("Conv", "n cw cb", "v", pads=[2, 2], dilations=[2], strides=[1], group=2),
        node("Conv", "n cw cb", "v2", pads=[1, 0], strides=[2], group=2),
        node("RequantShift", "v m z", "v1", **rq),
        node("IntegerMean", "v2", "v3", axes=[2], keepdims=1),
        node("RequantShift", "v3 m z", "v4", **rq),
        node("IntegerMean", "v1", "v5", axes=[2], keepdims=1),
        node("Mul", "v5 v4", "v6"),
        node("RequantShift", "v6 m1 z", "v7", **rq),
        node("Add", "t v1", "u"),
        node("Sub", "u v7", "u1"),
        node("RequantShift", "u1 m2 z", "y", **rq),
    ]
    return of_opset(10, nodes, {k: v.astype(np.float32) for k, v in constants.items()}, (1, 4, 6))


PULP_NETWORKS = [(pulp_network, (1, 2, 8)), (pulp_transformer, (1, 4, 6))]


@pytest.mark.parametrize("board", ["host", pytest.param("due", marks=pytest.mark.slow)])
@pytest.mark.parametrize(("network", "shape"), PULP_NETWORKS, ids=["network", "transformer"])
def test_whole_networks_of_pulp_compute_the_same_everywhere(
    network: Callable[[], onnx.ModelProto], shape: tuple[int, ...], board: str, tmp_path: Path
) -> None:
    proto = network()
    proto.graph.input[0].CopyFrom(floats("x", shape))
    graph = load(proto, tmp_path)
    x = np.random.default_rng(5).integers(-128, 128, (40, *shape)).astype(np.float32)
    program = lower(graph, Assignment("fixed8"), calibrate(graph, x, {}))
    assert all(program.tensors[op.output].format.grid == (1.0, 0) for op in walk(program.body))
    made = Case("pulp", program, quantize_inputs(program, x)[0])
    floats_of = evaluate(graph, x).reshape(len(x), -1)
    np.testing.assert_array_equal(
        dequantize_outputs(program, expected([made]).outputs[0]).reshape(len(x), -1), floats_of
    )
    assert len(np.unique(floats_of)) > 100
    boards = load_boards()
    found = run_natively([made], tmp_path) if board == "host" else run_on_board([made], boards.board(board), tmp_path)
    assert first_difference([made], found) == ""


WHOLE = (
    *(f"Kernels/Integer/{name}" for name in ("Add/Regular_RQ", "MatMul/Regular_RQ", "RMSNorm", "TrueIntegerDiv")),
    *("Kernels/Integer/Softmax/Regular", "Kernels/Integer/Attention", "Models/microLlama/INT8/microLlama1"),
    *("Models/CCT/Int/ICCT", "Models/miniMobileNet"),
    *(f"Kernels/Integer/Conv/{name}_RQ" for name in ("DW_2D", "DW_3x3", "Regular_1D", "Regular_3x3")),
    *(f"Kernels/Integer/GEMM/{name}" for name in ("Batch_RQ", "Regular_RQPerColumn", "Regular_RQPerRow", "TransB_RQ")),
)


ALMOST = "Kernels/Integer/ReduceMean"  # whole numbers for what its file declares a float


@pytest.mark.data(*(name for network in (*WHOLE, ALMOST) for name in files_of(network)))
def test_programs_of_pulp_s_integers_are_those_of_deeploy() -> None:
    """Not the float model alone: the integers that boards compute, whatever the assignment says."""
    wrong = {}
    for network in WHOLE:
        folder = data_file(files_of(network)[0]).parent
        graph = load_onnx(folder / "network.onnx", Stream(())).graph
        given, wanted = (
            np.concatenate([array.reshape(-1) for array in np.load(folder / f"{name}.npz").values()])
            for name in ("inputs", "outputs")
        )
        shape = graph.shapes[graph.inputs[0]]  # what follows are the file's own constants
        x = given[: element_count(shape)].reshape(1, *shape).astype(np.float32)
        program = lower(graph, Assignment("fixed8"), calibrate(graph, x, {}))
        found = dequantize_outputs(program, run_reference(program, quantize_inputs(program, x)[0]).outputs)
        wrong[network] = int((found.reshape(-1) != wanted).sum())
    assert wrong == dict.fromkeys(WHOLE, 0)
    kind, reason = verdict(data_file(files_of(ALMOST)[0]).parent)
    assert (kind, "declares a float" in reason) == (ROUNDED, True)


KERNELS = (
    "Kernels/Integer/Conv/DW_3x3_RQ",
    "Kernels/Integer/Conv/Regular_1D_RQ",
    "Kernels/Integer/Hardswish/Regular_RQ",
)
LARGER = (
    "Kernels/Integer/Add/Regular_RQ",
    "Kernels/Integer/GEMM/Regular_RQPerColumn",
    "Kernels/Integer/Pad/Regular_2D",
    "Models/miniMobileNet",
    "Kernels/FP32/Softmax/CrossEntropy",
    "Kernels/FP32/Softmax/Grad",
)


@pytest.mark.parametrize(
    "kernels",
    [
        pytest.param(KERNELS, marks=pytest.mark.data(*(name for kernel in KERNELS for name in files_of(kernel)))),
        pytest.param(
            LARGER, marks=[pytest.mark.slow, pytest.mark.data(*(name for one in LARGER for name in files_of(one)))]
        ),
    ],
    ids=["shipped", "larger"],
)
def test_integers_of_pulp_are_those_of_deeploy(kernels: tuple[str, ...]) -> None:
    found = {kernel: verdict(data_file(files_of(kernel)[0]).parent) for kernel in kernels}
    assert found == dict.fromkeys(kernels, (EQUAL, ""))


def test_gradients_of_a_last_layer(tmp_path: Path) -> None:
    """Against differences of the functions themselves."""
    rng, step = np.random.default_rng(3), 1e-5
    scores, labels = rng.normal(size=(3, 4)), np.array([1, 3, 0])
    dy = rng.normal(size=(3, 4)).astype(np.float32)

    def softmax(x: np.ndarray) -> np.ndarray:
        return np.asarray(np.exp(x) / np.exp(x).sum(axis=1, keepdims=True))

    def loss(x: np.ndarray) -> float:
        return float(-np.log(softmax(x)[np.arange(3), labels]).mean())

    def slopes(function: Callable[[np.ndarray], float]) -> np.ndarray:
        steps = step * np.eye(12).reshape(12, 3, 4)
        return np.array([(function(scores + one) - function(scores - one)) / (2 * step) for one in steps]).reshape(3, 4)

    known = {"dy": dy, "labels": labels, "half": np.float32(0.5)}
    cases = [
        (
            node("SoftmaxGrad", "dy x", "y", domain="com.microsoft"),
            softmax(scores),
            lambda x: (softmax(x) * dy).sum(),
            1.0,
        ),
        (
            node("SoftmaxCrossEntropyLossGrad", "x labels", "y", domain="com.microsoft"),
            np.log(softmax(scores)),
            loss,
            1.0,
        ),
        (
            node("SoftmaxCrossEntropyLossGrad", "half x labels", "y", domain="com.microsoft"),
            np.log(softmax(scores)),
            loss,
            0.5,
        ),
    ]
    for item, x, function, share in cases:
        graph = helper.make_graph([item], "g", [floats("x", (3, 4))], [floats("y", (3, 4))], tensors(known))
        sets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
        loaded = load(helper.make_model(graph, opset_imports=sets, ir_version=8), tmp_path)
        found = evaluate(loaded, x[None].astype(np.float32)).reshape(3, 4)
        np.testing.assert_allclose(found, share * slopes(function), atol=2e-6)


def test_a_loss_of_its_scores_shape_is_their_logarithms(tmp_path: Path) -> None:
    """As Deeploy writes it; a loss as ONNX has it stays one."""
    x = np.random.default_rng(4).normal(size=(2, 5)).astype(np.float32)
    for shape in ((2, 5), ()):
        item = node("SoftmaxCrossEntropyLoss", "x labels", "y", reduction="mean")
        labels = tensors({"labels": np.array([1, 4])})
        graph = helper.make_graph([item], "g", [floats("x", (2, 5))], [floats("y", shape)], labels)
        loaded = load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), tmp_path)
        logs = x - np.log(np.exp(x).sum(axis=1, keepdims=True))
        wanted = logs if shape else -logs[[0, 1], [1, 4]].mean()
        np.testing.assert_allclose(evaluate(loaded, x[None]).reshape(shape), wanted, atol=1e-6)


@pytest.mark.parametrize("network", [pytest.param(one, marks=pytest.mark.data(*files_of(one))) for one in NETWORKS])
def test_networks_of_deeploy_compute_what_their_files_say(network: str) -> None:
    """microLlama's file says nothing of epsilon."""
    folder = f"deeploy/{network}"
    given, wanted = (np.load(data_file(f"{folder}/{name}.npz")) for name in ("inputs", "outputs"))
    parts = [given[name] for name in given.files]
    x = parts[0] if len(parts) == 1 else np.concatenate([part.reshape(1, -1) for part in parts], axis=1)
    found = evaluate(load_onnx(data_file(f"{folder}/network.onnx")).graph, x)
    assert np.allclose(found.reshape(-1), wanted[wanted.files[0]].reshape(-1), atol=3e-5)


def test_nodes_are_put_in_order_however_many_there_are() -> None:
    """The last first, which takes as many looks as there are pairs if all are looked at again and again."""
    count = 30_000
    nodes = [helper.make_node("Identity", [f"v{n}"], [f"v{n + 1}"], f"n{n}") for n in range(count)]
    graph = helper.make_graph([], "chain", [], [])
    graph.node.extend(reversed(nodes))
    made = in_onnx(helper.make_model(graph))
    assert [node.name for node in made.graph.node] == [f"n{n}" for n in range(count)]


def test_nodes_in_order_stay_where_they_are() -> None:
    """Operands and results that are left out are no names; a body reads values from around it."""
    body = helper.make_graph([helper.make_node("Add", ["outer", "i"], ["j"])], "body", [], [])
    nodes = [
        helper.make_node("Clip", ["x", "", "high"], ["outer"], "reads nothing"),
        helper.make_node("GRU", ["x", "w", "r"], ["", "last"], "leaves the first result out"),
        helper.make_node("Loop", ["n"], ["y"], "loop", body=body),
    ]
    proto = helper.make_model(helper.make_graph(nodes, "g", [], []))
    assert in_onnx(proto) is proto
    turned = helper.make_model(helper.make_graph([nodes[2], *nodes[:2]], "g", [], []))
    assert [node.name for node in in_onnx(turned).graph.node] == [
        "reads nothing",
        "loop",
        "leaves the first result out",
    ]
