"""Small quantized ONNX models for tests: written by onnxruntime's own quantizer, or by hand."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx_models import graph, model, node, samples_for
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

KINDS = {"int8": QuantType.QInt8, "uint8": QuantType.QUInt8, "int16": QuantType.QInt16, "uint16": QuantType.QUInt16}
SHAPE = (1, 2, 8, 8)


class Samples(CalibrationDataReader):
    def __init__(self, inputs: np.ndarray) -> None:
        self.left = iter([{"x": sample} for sample in inputs])

    def get_next(self) -> dict[str, np.ndarray] | None:
        return next(self.left, None)


def network() -> onnx.ModelProto:
    """Convolutions with all that stands between them in small networks."""
    random = np.random.default_rng(3)
    constants = {
        "K": random.normal(size=(6, 2, 3, 3)) * 0.3,
        "k": random.normal(size=6) * 0.1,
        "D": random.normal(size=(6, 1, 3, 3)) * 0.3,
        "d": random.normal(size=6) * 0.1,
        "P": random.normal(size=(6, 6, 1, 1)) * 0.3,
        "W": random.normal(size=(12, 5)),
        "b": random.normal(size=5),
    }
    nodes = [
        node("Conv", "x K k", "v", pads=[1, 1, 1, 1]),
        node("Relu", "v", "r"),
        node("MaxPool", "r", "p", kernel_shape=[2, 2], strides=[2, 2]),
        node("Conv", "p D d", "u", pads=[1, 1, 1, 1], group=6),
        node("Relu", "u", "s"),
        node("Conv", "s P", "t"),
        node("Add", "t p", "a"),
        node("Relu", "a", "e"),
        node("Concat", "e p", "c", axis=1),
        node("GlobalAveragePool", "c", "g"),
        node("Flatten", "g", "f"),
        node("Gemm", "f W b", "y"),
    ]
    return model(graph(nodes, {"x": SHAPE}, "y", constants))


def quantized(folder: Path, style: QuantFormat, activations: str, weights: str = "int8") -> onnx.ModelProto:
    """The network as quantize_static writes it, weights per channel."""
    logging.disable(logging.WARNING)
    source, target = folder / "float.onnx", folder / "quantized.onnx"
    onnx.save(network(), source)
    quantize_static(
        source,
        target,
        Samples(inputs(64, 5)),
        quant_format=style,
        activation_type=KINDS[activations],
        weight_type=KINDS[weights],
        per_channel=True,
    )
    logging.disable(logging.NOTSET)
    return onnx.load(target)


def inputs(count: int, seed: int = 0) -> np.ndarray:
    return samples_for(SHAPE, count, seed)


def written(
    nodes: Sequence[onnx.NodeProto],
    constants: Mapping[str, Any],
    shapes: tuple[Sequence[int], Sequence[int]],
    kinds: tuple[int, int] = (TensorProto.FLOAT, TensorProto.FLOAT),
    opset: int = 19,
) -> onnx.ModelProto:
    """A model from x to y; constants keep their types."""
    made = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    ends = [
        helper.make_tensor_value_info(name, kind, shape) for name, kind, shape in zip("xy", kinds, shapes, strict=True)
    ]
    main = helper.make_graph(list(nodes), "g", ends[:1], ends[1:], made)
    domains = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(main, opset_imports=domains, ir_version=9 if opset < 21 else 10)


def own(op: str, given: str, result: str, **attrs: Any) -> onnx.NodeProto:
    """A node of onnxruntime's own domain."""
    return helper.make_node(op, given.split(), result.split(), name=f"{op}_{result}", domain="com.microsoft", **attrs)
