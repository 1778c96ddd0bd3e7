"""How rewrites of ai.onnx.ml write plain nodes and read attributes."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

Attributes = dict[str, Any]
Plain = tuple[list[onnx.NodeProto], list[onnx.TensorProto]]


def constant(name: str, values: Any, *shape: int) -> onnx.TensorProto:
    """Constant floats; `shape` as they are if it is left out."""
    array = np.asarray(values, np.float32)
    return numpy_helper.from_array(array.reshape(shape) if shape else array, name)


def whole(name: str, *values: int) -> onnx.TensorProto:
    """Constant whole numbers: axes, a shape."""
    return numpy_helper.from_array(np.array(values, np.int64), name)


def plain_node(op: str, inputs: list[str], output: str, **attrs: Any) -> onnx.NodeProto:
    """A node with one output, named after it."""
    return helper.make_node(op, inputs, [output], name=f"{output}.{op}", **attrs)


def text(attrs: Attributes, key: str, default: str) -> str:
    """A text among attributes, whether bytes or str."""
    value = attrs.get(key, default)
    return value.decode() if isinstance(value, bytes) else str(value)
