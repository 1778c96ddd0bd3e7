"""Operators of ai.onnx.ml that look numbers up: missing ones, categories, codes of categories, labels of classes."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tinyhil.errors import ModelError
from tinyhil.frontend.classical_nodes import Attributes, Plain, constant, plain_node, whole

FLOAT = onnx.TensorProto.FLOAT


def imputer(node: onnx.NodeProto, attrs: Attributes, _: set[str]) -> Plain:
    """What is missing, a number, NaN or infinite, becomes one per column. Formats of integers have neither."""
    (x,), (out,) = node.input, node.output
    values = attrs.get("imputed_value_floats") or attrs.get("imputed_value_int64s") or ()
    is_whole = "imputed_value_int64s" in attrs
    missing = float(attrs.get("replaced_value_int64", 0)) if is_whole else attrs.get("replaced_value_float", np.nan)
    filled = constant(f"{out}.filled", values, *((1, len(values)) if len(values) > 1 else ()))
    choice = plain_node("Where", [f"{out}.missing", filled.name, x], out)
    if np.isnan(missing):
        return [plain_node("IsNaN", [x], f"{out}.missing"), choice], [filled]
    if np.isinf(missing):
        one_side = {f"detect_{'negative' if missing > 0 else 'positive'}": 0}
        return [plain_node("IsInf", [x], f"{out}.missing", **one_side), choice], [filled]
    mark = constant(f"{out}.mark", missing)
    return [plain_node("Equal", [x, mark.name], f"{out}.missing"), choice], [filled, mark]


def _numbers(node: onnx.NodeProto, attrs: Attributes, *names: str) -> np.ndarray:
    """Those of the first attribute that is given. ModelError for strings."""
    for name in names:
        if name in attrs:
            value = attrs[name]
            return np.asarray(numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value)
    raise ModelError(f"node '{node.name}': strings are no numbers; give the model what a host makes of them")


def one_hot(node: onnx.NodeProto, attrs: Attributes, _: set[str]) -> Plain:
    """1 where the number is the category; nothing for others, whether the converter allows them or not. ModelError for
    strings."""
    out, categories = node.output[0], _numbers(node, attrs, "cats_int64s")
    last, known = whole(f"{out}.last", -1), constant(f"{out}.categories", categories, categories.size)
    nodes = [
        plain_node("Unsqueeze", [node.input[0], last.name], f"{out}.wide"),
        plain_node("Equal", [f"{out}.wide", known.name], f"{out}.here"),
        plain_node("Cast", [f"{out}.here"], out, to=FLOAT),
    ]
    return nodes, [last, known]


def label_encoder(node: onnx.NodeProto, attrs: Attributes, _: set[str]) -> Plain:
    """The value of a key, `default` of any other number. ModelError for strings and NaN."""
    out = node.output[0]
    keys = _numbers(node, attrs, "keys_int64s", "keys_floats", "keys_tensor").reshape(-1)
    values = _numbers(node, attrs, "values_floats", "values_int64s", "values_tensor").reshape(-1).astype(np.float64)
    default = float(_numbers(node, {"none": -1.0, **attrs}, *_default_of(attrs), "none").reshape(-1)[0])
    if keys.size != values.size or not np.isfinite([*keys, *values]).all():
        what = f"{keys.size} keys for {values.size} values, or NaN among them"
        raise ModelError(f"node '{node.name}': {what}; encode on the host")
    last, known = whole(f"{out}.last", -1), constant(f"{out}.keys", keys, keys.size)
    more = constant(f"{out}.more", values - default, values.size)
    rest = constant(f"{out}.default", default)
    nodes = [
        plain_node("Unsqueeze", [node.input[0], last.name], f"{out}.wide"),
        plain_node("Equal", [f"{out}.wide", known.name], f"{out}.here"),
        plain_node("Cast", [f"{out}.here"], f"{out}.one", to=FLOAT),
        plain_node("Mul", [f"{out}.one", more.name], f"{out}.chosen"),
        plain_node("ReduceSum", [f"{out}.chosen", last.name], f"{out}.value", keepdims=0),
        plain_node("Add", [f"{out}.value", rest.name], out),
    ]
    return nodes, [last, known, more, rest]


def _default_of(attrs: Attributes) -> tuple[str, ...]:
    """A converter writes defaults of types that are not asked for, too."""
    kind = "int64" if "values_int64s" in attrs else "float"
    return ("default_tensor",) if "values_tensor" in attrs else (f"default_{kind}",)


def labels(node: onnx.NodeProto, attrs: Attributes) -> Plain:
    """Output 0 of a classifier of whole labels: that of its largest score. ModelError for names."""
    out, scores = node.output[0], node.output[1]
    known = _numbers(node, attrs, "classlabels_ints", "classlabels_int64s")
    table = helper.make_tensor(f"{out}.labels", onnx.TensorProto.INT64, [known.size], [int(k) for k in known])
    index = plain_node("ArgMax", [scores], f"{out}.index", axis=1, keepdims=0)
    return [index, plain_node("Gather", [table.name, f"{out}.index"], out, axis=0)], [table]


def joined(*parts: Plain) -> Plain:
    """Nodes and weights one behind the other."""
    nodes: list[onnx.NodeProto] = []
    weights: list[onnx.TensorProto] = []
    for some, others in parts:
        nodes, weights = [*nodes, *some], [*weights, *others]
    return nodes, weights
