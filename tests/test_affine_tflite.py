"""Asymmetric layers against TensorFlow Lite's own reference kernels, bit for bit, on published quantized models."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hil_command
import numpy as np
import pytest
from given_data import SHIPPED

from tinyhil.formats.affine import Affine, multiplier
from tinyhil.language.form import Arithmetic, Form
from tinyhil.language.program import Op
from tinyhil.ops import affine
from tinyhil.ops.window import FIELDS

litert = pytest.importorskip("ai_edge_litert.interpreter", reason="ai-edge-litert is not installed")
SAMPLES = 4


@dataclass(frozen=True)
class Tensor:
    """A tensor of the interpreter: codes of all samples (samples, ...), scales, zero point."""

    codes: np.ndarray
    scales: np.ndarray
    zero: int


def run(path: Path) -> tuple[list[dict[str, Any]], dict[int, Tensor]]:
    """Every operation of the model and every tensor's codes over random inputs."""
    interpreter = litert.Interpreter(
        str(path),
        experimental_op_resolver_type=litert.OpResolverType.BUILTIN_REF,
        experimental_preserve_all_tensors=True,
    )
    interpreter.allocate_tensors()
    source = interpreter.get_input_details()[0]
    random = np.random.default_rng(0)
    seen: dict[int, list[np.ndarray]] = {}
    for _ in range(SAMPLES):
        interpreter.set_tensor(source["index"], random.integers(-128, 128, source["shape"]).astype(np.int8))
        interpreter.invoke()
        for detail in interpreter.get_tensor_details():
            try:
                seen.setdefault(detail["index"], []).append(interpreter.get_tensor(detail["index"]).copy())
            except ValueError:  # a temporary of the interpreter
                continue
    tensors = {}
    for detail in interpreter.get_tensor_details():
        quantization = detail["quantization_parameters"]
        if detail["index"] in seen and quantization["scales"].size:
            codes = np.stack(seen[detail["index"]]).astype(np.int64)
            tensors[detail["index"]] = Tensor(codes, quantization["scales"], int(quantization["zero_points"][0]))
    return list(interpreter._get_ops_details()), tensors


def same_padding(size: int, out: int, kernel: int, stride: int) -> int:
    return max((out - 1) * stride + kernel - size, 0) // 2


def layer_arrays(x: Tensor, w: Tensor, b: Tensor, y: Tensor, rows: np.ndarray, factors: np.ndarray) -> list[np.ndarray]:
    """Weights, x is put in by the caller, bias with the zero point folded in, multipliers, shifts."""
    bias = b.codes[0].reshape(-1) - x.zero * rows.sum(axis=1)
    pairs = [multiplier(float(factor)) for factor in np.broadcast_to(factors, len(rows))]
    return [rows.reshape(1, -1), np.empty(0), bias[None], *(np.array([column]) for column in zip(*pairs, strict=True))]


def check(op: Op, arrays: list[np.ndarray], execute: Any, y: Tensor, wanted: np.ndarray, relu: bool) -> None:
    codes, _ = execute(op, arrays, Affine(8, float(y.scales[0]), y.zero))
    if relu:
        codes = np.maximum(codes, y.zero)
    np.testing.assert_array_equal(codes, wanted.reshape(len(wanted), -1))


def convolution(name: str, x: Tensor, w: Tensor, b: Tensor, y: Tensor) -> tuple[Op, list[np.ndarray], np.ndarray]:
    """NHWC to planes; stride and padding follow from the shapes."""
    depthwise = name == "DEPTHWISE_CONV_2D"
    planes, out = x.codes[:, 0].transpose(0, 3, 1, 2), y.codes[:, 0].transpose(0, 3, 1, 2)
    weights = w.codes[0]
    weights = weights.transpose(3, 0, 1, 2) if depthwise else weights.transpose(0, 3, 1, 2)
    kernel_y, kernel_x = weights.shape[2:]
    channels, height, width = planes.shape[1:]
    outputs, out_height, out_width = out.shape[1:]
    strides = (-(-height // out_height), -(-width // out_width))
    values = (
        *(channels, height, width, out_height, out_width, kernel_y, kernel_x, *strides),
        *(same_padding(height, out_height, kernel_y, strides[0]), same_padding(width, out_width, kernel_x, strides[1])),
        *(1, 1),
    )
    params = dict(zip(FIELDS, values, strict=True))
    params |= {"groups": channels if depthwise else 1, "outputs": outputs, "zero": y.zero, "pad": x.zero}
    rows = weights.reshape(outputs, -1)
    factors = x.scales[0].astype(np.float64) * w.scales.astype(np.float64) / y.scales[0].astype(np.float64)
    arrays = layer_arrays(x, w, b, y, rows, factors)
    arrays[1] = planes.reshape(SAMPLES, -1)
    return Op(Form("conv", Arithmetic.AFFINE), name, (), "y", params), arrays, out


@pytest.mark.parametrize("model", ["mlperftiny_kws_dscnn_int8.tflite", "mlperftiny_ad_autoencoder_int8.tflite"])
def test_layers_agree_with_tensorflow_lite(model: str) -> None:
    operations, tensors = run(SHIPPED / "models" / model)
    checked = 0
    for operation in operations:
        name, out = operation["op_name"], int(operation["outputs"][0])
        if name not in ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"):
            continue
        x, w, b = (tensors[int(index)] for index in operation["inputs"])
        y = tensors[out]
        relu = int(y.codes.min()) >= y.zero
        if name == "FULLY_CONNECTED":
            rows = w.codes[0]
            product = x.scales[0].astype(np.float64) * w.scales.astype(np.float64)
            arrays = layer_arrays(x, w, b, y, rows, product / y.scales[0].astype(np.float64))
            arrays[1] = x.codes.reshape(SAMPLES, -1)
            params = {"rows": 1, "outputs": len(rows), "inner": rows.shape[1], "zero": y.zero}
            check(
                Op(Form("dense", Arithmetic.AFFINE), name, (), "y", params),
                arrays,
                affine.DENSE.execute,
                y,
                y.codes,
                relu,
            )
        else:
            op, arrays, wanted = convolution(name, x, w, b, y)
            check(op, arrays, affine.CONV.execute, y, wanted, relu)
        checked += 1
    assert checked >= 8


def test_samples_that_are_no_codes_are_said(tmp_path: Path) -> None:
    """A quantized file takes codes: fractions were rounded to them without a word. Nothing is calibrated for it, and no
    format is chosen."""
    model = SHIPPED / "models" / "mlperftiny_ad_autoencoder_int8.tflite"
    codes = np.random.default_rng(0).integers(-128, 128, (4, 640)).astype(np.float32)
    np.savez(tmp_path / "codes.npz", x=codes)
    np.savez(tmp_path / "reals.npz", x=codes / 256)
    for name, count in (("codes", 0), ("reals", 1)):
        run = ("run", "--board", "host", "--model", model, "--inputs", f"{name}.npz", "--format", "fixed8")
        done = hil_command.hil(*run, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert done.stderr.count("no codes of its input, whole numbers from -128 to 127") == count, done.stderr
        assert "calibrat" not in done.stderr
        assert "states the formats of all values, int8: none is chosen here" in done.stderr
    search = ("search", "--model", model, "--inputs", "codes.npz", "--ram", "5000", "--evaluations", "2")
    done = hil_command.hil(*search, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "the file states the formats of all values, int8: there is nothing to choose" in done.stderr
    assert "fixed" not in done.stdout.partition("assignment")[2]
