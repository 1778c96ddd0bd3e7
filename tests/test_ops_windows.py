"""Conv and pooling: shapes and floats as onnxruntime, integers near them, C++ kernels equal to the numpy reference."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from boards_under_test import EMULATED, by_compiler
from kernel_cases import UNDEFINED, Case, first_difference, run_natively, run_on_board
from onnx_models import compiled, load, node, onnxruntime_outputs, samples_for, simple
from random_models import extreme_inputs

from tinyhil.errors import ModelError
from tinyhil.harness.settings.config import load_boards
from tinyhil.language.program import walk
from tinyhil.ops import reciprocal
from tinyhil.ops.window import FIELDS, Window, ends_of_sums
from tinyhil.references.evaluate import evaluate
from tinyhil.references.reference import dequantize_outputs, quantize_inputs, run_reference

# input shape, weights shape, bias, attributes
CONVOLUTIONS: dict[str, tuple[Sequence[int], Sequence[int], bool, dict[str, Any]]] = {
    "3x3": ((1, 3, 7, 6), (4, 3, 3, 3), True, {}),
    "3x3 without bias": ((1, 2, 5, 5), (3, 2, 3, 3), False, {}),
    "padded": ((1, 2, 5, 4), (3, 2, 3, 3), True, {"pads": [1, 1, 1, 1]}),
    "asymmetric pads": ((1, 2, 6, 5), (3, 2, 4, 3), True, {"pads": [0, 2, 3, 1]}),
    "pads beyond the kernel": ((1, 1, 3, 3), (2, 1, 2, 2), True, {"pads": [3, 2, 2, 3]}),
    "strides": ((1, 2, 9, 8), (3, 2, 3, 2), True, {"strides": [2, 3], "pads": [1, 0, 1, 0]}),
    "dilations": ((1, 2, 9, 9), (2, 2, 3, 3), True, {"dilations": [2, 3], "pads": [2, 3, 2, 3]}),
    "dilation wider than the plane": ((1, 1, 4, 4), (2, 1, 3, 3), True, {"dilations": [5, 5], "pads": [5, 5, 5, 5]}),
    "groups": ((1, 4, 5, 5), (6, 2, 3, 3), True, {"group": 2}),
    "depthwise": ((1, 5, 6, 6), (5, 1, 3, 3), True, {"group": 5, "pads": [1, 1, 1, 1]}),
    "depthwise strided without bias": ((1, 3, 7, 7), (3, 1, 3, 3), False, {"group": 3, "strides": [2, 2]}),
    "depthwise with multiplier": ((1, 3, 6, 5), (6, 1, 3, 2), True, {"group": 3}),
    "1x1": ((1, 6, 4, 3), (7, 6, 1, 1), True, {}),
    "1x1 strided": ((1, 3, 5, 5), (5, 3, 1, 1), False, {"strides": [2, 2]}),
    "same upper": ((1, 2, 6, 7), (3, 2, 4, 4), True, {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
    "same lower": ((1, 2, 6, 7), (3, 2, 4, 4), True, {"auto_pad": "SAME_LOWER"}),
    "valid": ((1, 2, 6, 7), (3, 2, 4, 4), True, {"auto_pad": "VALID"}),
    "1-D": ((1, 3, 12), (4, 3, 5), True, {"pads": [2, 1], "strides": [2]}),
    "1-D dilated depthwise": ((1, 3, 12), (3, 1, 3), False, {"group": 3, "dilations": [3], "pads": [6, 0]}),
}

POOLS: dict[str, tuple[str, Sequence[int], dict[str, Any]]] = {
    "max 2x2": ("MaxPool", (1, 3, 6, 6), {"kernel_shape": [2, 2], "strides": [2, 2]}),
    "max 3x3 padded": ("MaxPool", (1, 2, 5, 6), {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [2, 2]}),
    "max ceil": ("MaxPool", (1, 2, 7, 6), {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}),
    "max dilated": ("MaxPool", (1, 2, 7, 7), {"kernel_shape": [2, 3], "dilations": [3, 2]}),
    "max same": ("MaxPool", (1, 2, 7, 6), {"kernel_shape": [3, 2], "strides": [2, 2], "auto_pad": "SAME_UPPER"}),
    "max 1-D": ("MaxPool", (1, 2, 9), {"kernel_shape": [3], "strides": [2], "pads": [1, 0]}),
    "mean 2x2": ("AveragePool", (1, 3, 6, 6), {"kernel_shape": [2, 2], "strides": [2, 2]}),
    "mean 3x3": ("AveragePool", (1, 3, 7, 6), {"kernel_shape": [3, 3], "strides": [2, 1]}),
    "mean padded": ("AveragePool", (1, 2, 5, 6), {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
    "mean counting padding": (
        "AveragePool",
        (1, 2, 5, 6),
        {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1},
    ),
    "mean ceil": ("AveragePool", (1, 2, 6, 8), {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}),
    "mean 1-D": ("AveragePool", (1, 2, 9), {"kernel_shape": [4], "strides": [3], "pads": [1, 2]}),
    "global mean": ("GlobalAveragePool", (1, 5, 7, 3), {}),
    "global mean 1-D": ("GlobalAveragePool", (1, 5, 11), {}),
    "global max": ("GlobalMaxPool", (1, 5, 3, 4), {}),
}


def convolution(name: str) -> tuple[onnx.ModelProto, Sequence[int]]:
    shape, w_shape, with_bias, attrs = CONVOLUTIONS[name]
    constants = {"w": samples_for(w_shape, 1, 5, 0.4)[0]}
    if with_bias:
        constants["b"] = samples_for((w_shape[0],), 1, 6)[0]
    return simple([node("Conv", " ".join(["x", *constants]), "y", **attrs)], {"x": shape}, constants), shape


def pool(name: str) -> tuple[onnx.ModelProto, Sequence[int]]:
    op, shape, attrs = POOLS[name]
    return simple([node(op, "x", "y", **attrs)], {"x": shape}), shape


MODELS = {**dict.fromkeys(CONVOLUTIONS, convolution), **dict.fromkeys(POOLS, pool)}


@pytest.mark.parametrize("name", MODELS)
def test_floats_equal_onnxruntime(name: str, tmp_path: Path) -> None:
    proto, shape = MODELS[name](name)
    x = samples_for(shape, 3)
    got = evaluate(load(proto, tmp_path), x)
    wanted = onnxruntime_outputs(proto, x)
    assert np.abs(got.reshape(len(x), -1) - wanted).max() < 1e-5


@pytest.mark.parametrize("name", MODELS)
def test_integers_stay_near_the_floats(name: str, tmp_path: Path) -> None:
    proto, shape = MODELS[name](name)
    x = samples_for(shape, 6)
    graph = load(proto, tmp_path)
    program = compiled(graph, x)
    integers, _ = quantize_inputs(program, x)
    run = run_reference(program, integers)
    error = np.abs(dequantize_outputs(program, run.outputs) - evaluate(graph, x).reshape(len(x), -1)).max()
    x_step, y_step = (2.0 ** program.tensors[name].format.exponent for name in (program.input, program.output))
    bound = y_step + x_step  # a rounding of the result, and of the operand and the reciprocal
    if name in CONVOLUTIONS:  # every product is wrong by half a step of either factor
        inner = int(np.prod(CONVOLUTIONS[name][1][1:]))
        w_step = 2.0 ** program.tensors["w"].format.exponent
        bound += inner * (np.abs(x).max() * w_step + 2 * x_step) / 2 + 2**-14
    assert error <= bound
    # nothing clips but a result within half a step of the end of its format
    assert run.saturations.sum() <= 1


def cases(folder: Path, formats: Sequence[str], names: Sequence[str], rows: int = 7) -> list[Case]:
    found = []
    for name in names:
        proto, shape = MODELS[name](name)
        for default in formats:
            for exceptions in ({}, {"x": "fixed8" if default == "fixed16" else "fixed16"})[: 1 if rows < 7 else 2]:
                program = compiled(load(proto, folder), samples_for(shape, 4), default, **exceptions)
                found.append(Case(f"{name} {default} {exceptions}", program, extreme_inputs(program, 3)[-rows:]))
    return found


@pytest.mark.parametrize("names", [tuple(CONVOLUTIONS), tuple(POOLS)], ids=["conv", "pool"])
def test_kernels_equal_the_reference(names: Sequence[str], tmp_path: Path) -> None:
    made = cases(tmp_path, ("fixed8", "fixed16"), names)
    assert first_difference(made, run_natively(made, tmp_path, *UNDEFINED)) == ""


@pytest.mark.parametrize("board", by_compiler(EMULATED))
def test_kernels_on_boards(board: str, tmp_path: Path) -> None:
    made = cases(tmp_path, ("fixed16",), ["asymmetric pads", "dilations", "depthwise", "1-D"], rows=2)
    made += cases(tmp_path, ("fixed8",), ["groups", "1x1", "max 3x3 padded", "mean padded", "global mean"], rows=2)
    spec = load_boards().board(board)
    assert first_difference(made, run_on_board(made, spec, tmp_path / "cache")) == ""


@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize("count", [1, 2, 3, 9, 49, 169, 4096, reciprocal.MAX_COUNT - 1])
def test_mean_error_bound(bits: int, count: int) -> None:
    from tinyhil.formats.fixed import Fixed
    from tinyhil.language.lowering_context import loaded

    k = reciprocal.fraction_bits(loaded(Fixed(bits, 0)))
    sums = np.arange(-(1 << (bits - 1)) * count, ((1 << (bits - 1)) - 1) * count + 1, max(1, count // 7))
    error = np.abs(sums * reciprocal.reciprocal(count, k) / 2.0**k - sums / count)
    assert error.max() <= count * 2.0**-16
    assert count & (count - 1) or error.max() == 0


REFUSED = {
    "grows no output": ("Conv", (1, 1, 2, 2), {}, "the input is too small"),
    "endless padding": ("Conv", (1, 1, 4, 4), {"pads": [1 << 40, 0, 0, 0]}, "outputs of a kernel"),
    "negative padding": ("Conv", (1, 1, 4, 4), {"pads": [-1, 0, 0, 0]}, "the file is damaged"),
    "no stride": ("Conv", (1, 1, 4, 4), {"strides": [0, 1]}, "the file is damaged"),
    "groups that do not divide": ("Conv", (1, 1, 4, 4), {"group": 3}, "in 3 groups"),
    "unknown auto_pad": ("Conv", (1, 1, 4, 4), {"auto_pad": "SAME"}, "auto_pad SAME"),
    "three axes": ("Conv", (1, 1, 4, 4, 4), {}, "1-D or 2-D"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name: str, tmp_path: Path) -> None:
    op, shape, attrs, reason = REFUSED[name]
    weights = np.ones((1, 1, *(3,) * (len(shape) - 2)))
    proto = onnx.helper.make_model(
        onnx_graph_of(op, shape, weights, attrs), opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8
    )
    with pytest.raises(ModelError, match=reason):
        load(proto, tmp_path)


def onnx_graph_of(op: str, shape: Sequence[int], weights: np.ndarray, attrs: dict[str, Any]) -> onnx.GraphProto:
    from onnx_models import graph

    return graph([node(op, "x w", "y", **attrs)], {"x": shape}, {"y": shape}, {"w": weights})


def test_patch_is_planned(tmp_path: Path) -> None:
    proto, shape = convolution("3x3")
    program = compiled(load(proto, tmp_path), samples_for(shape, 2))
    (op,) = walk(program.body)
    assert program.tensors[op.scratch].count == 3 * 3 * 3


def random_window(source: np.random.Generator, channels: int) -> Window:
    """Of any size, stride, dilation and padding, within the plane or not."""
    fields = dict.fromkeys(FIELDS, channels)
    for axis, side in (("y", "height"), ("x", "width")):
        size, kernel, stride, dilation = (int(source.integers(1, top)) for top in (9, 4, 4, 3))
        pad = int(source.integers(0, 2)) * int(source.integers(0, 2))
        outputs = max((size + 2 * pad - (kernel - 1) * dilation - 1) // stride + 1 + int(source.integers(-1, 2)), 1)
        fields |= {side: size, f"out_{side}": outputs, f"kernel_{axis}": kernel, f"stride_{axis}": stride}
        fields |= {f"pad_{axis}": pad, f"dilation_{axis}": dilation}
    return Window(**fields)


@pytest.mark.parametrize("is_depthwise", [False, True])
def test_ends_of_sums_over_windows(is_depthwise: bool) -> None:
    """Of constant channels the very sums, at every edge; of others never less than what comes out."""
    source, over = np.random.default_rng(2), 0
    for _ in range(150):
        channels, padding = 3, int(source.integers(-9, 10))
        window = random_window(source, channels)
        weights = source.integers(-5, 6, (4, 1 if is_depthwise else channels, window.positions))
        weights = weights[:channels] if is_depthwise else weights
        low = source.integers(-9, 10, channels)
        high = low + source.integers(0, 5) * source.integers(0, 2, channels)
        planes = source.integers(
            low[:, None, None], high[:, None, None] + 1, (6, channels, window.height, window.width)
        )
        planes[0] = low[:, None, None]
        patches = window.patches(planes, padding)
        sums = np.einsum("ocp,scpn->son" if not is_depthwise else "czp,scpn->scn", weights, patches)
        sights = window.sights()
        least, most = ends_of_sums(weights, low, high, sights, padding)
        assert (least <= sums.min(axis=(0, 2))).all()
        assert (most >= sums.max(axis=(0, 2))).all()
        ends = ends_of_sums(weights, low, low, sights, padding)
        assert np.array_equal(ends, (sums[0].min(axis=1), sums[0].max(axis=1)))
        over += not sights.all()
    assert 30 < over < 140
