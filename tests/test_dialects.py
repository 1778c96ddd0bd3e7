"""Files that use operators before the opset that has them: Deeploy's, and what ONNX Runtime's optimizer writes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from given_data import data_file
from onnx import helper, numpy_helper
from onnx_models import floats, load, node, samples_for, tensors

from benchmarks.onnx_golden import EQUAL, verdict
from tinyhil.errors import ModelError
from tinyhil.frontend.onnx import load_onnx
from tinyhil.references.evaluate import evaluate

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


@pytest.mark.parametrize(("div", "says"), [(65535.0, "a divisor of 65535"), (0.5, "'div' is no whole number")])
def test_requant_shift_that_is_none(div: float, says: str, tmp_path: Path) -> None:
    changed = node("RequantShift", "x m m", "y", div=div, n_levels=256, signed=1)
    with pytest.raises(ModelError, match=says):
        load(of_opset(10, [changed], {"m": np.ones(1, np.float32)}), tmp_path)


KERNELS = (
    "Kernels/Integer/Add/Regular_RQ",
    "Kernels/Integer/Conv/DW_3x3_RQ",
    "Kernels/Integer/Conv/Regular_1D_RQ",
    "Kernels/Integer/GEMM/Regular_RQPerColumn",
    "Kernels/Integer/Hardswish/Regular_RQ",
    "Kernels/Integer/Pad/Regular_2D",
    "Models/miniMobileNet",
)


@pytest.mark.data(*(name for kernel in KERNELS for name in files_of(kernel)))
def test_integers_of_pulp_are_those_of_deeploy() -> None:
    found = {kernel: verdict(data_file(files_of(kernel)[0]).parent) for kernel in KERNELS}
    assert found == dict.fromkeys(KERNELS, (EQUAL, ""))


@pytest.mark.parametrize("network", [pytest.param(one, marks=pytest.mark.data(*files_of(one))) for one in NETWORKS])
def test_networks_of_deeploy_compute_what_their_files_say(network: str) -> None:
    """microLlama's file says nothing of epsilon."""
    folder = f"deeploy/{network}"
    given, wanted = (np.load(data_file(f"{folder}/{name}.npz")) for name in ("inputs", "outputs"))
    parts = [given[name] for name in given.files]
    x = parts[0] if len(parts) == 1 else np.concatenate([part.reshape(1, -1) for part in parts], axis=1)
    found = evaluate(load_onnx(data_file(f"{folder}/network.onnx")).graph, x)
    assert np.allclose(found.reshape(-1), wanted[wanted.files[0]].reshape(-1), atol=3e-5)
