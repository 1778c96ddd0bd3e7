"""Operators of constants alone that nothing here computes: onnx's own reference evaluator does, for all of ONNX."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from tinyhil.frontend.listing import Call
from tinyhil.language.graph import element_count

MOST_ELEMENTS = 1 << 22  # of one result: the evaluator is slow, and no flash holds more
RANDOM = frozenset(
    {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
)
# the sizes of their results are not known before, but never larger than a few times their operands
SELECTING = frozenset({"Compress", "NonZero", "Unique"})


def folded(call: Call, values: Sequence[np.ndarray | None], opset: int) -> list[np.ndarray] | None:
    """Results of `call` on constant `values` (None where an input is left out), an empty array for results nobody
    names; None if the evaluator can not compute it or its results are no numbers of a known, reasonable size."""
    if call.op in RANDOM or call.bodies or not onnx.defs.has(call.op, max_inclusive_version=opset):
        return None
    try:
        model = _model(call, values, opset)
        if not _reasonable(call, model):
            return None
        with np.errstate(all="ignore"):
            results = ReferenceEvaluator(model).run(None, {})
    except Exception:  # whatever the evaluator stumbles over; the caller says what is not supported
        return None
    arrays = dict(zip((name for name in call.outputs if name), results, strict=True))
    if any(not isinstance(array, np.ndarray | np.generic) for array in arrays.values()):
        return None
    made = [np.asarray(arrays[name]) if name else np.zeros(0, np.float32) for name in call.outputs]
    if any(array.dtype.kind not in "fiub" for array in made):
        return None
    return [array.astype(np.float32) if array.dtype.kind == "f" else array for array in made]


def _model(call: Call, values: Sequence[np.ndarray | None], opset: int) -> onnx.ModelProto:
    names = ["" if value is None else f"in{index}" for index, value in enumerate(values)]
    node = helper.make_node(call.op, names, list(call.outputs), **call.attrs)
    weights = [numpy_helper.from_array(v, name) for v, name in zip(values, names, strict=True) if v is not None]
    outputs = [onnx.ValueInfoProto(name=name) for name in call.outputs if name]
    graph = helper.make_graph([node], "constants", [], outputs, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def _reasonable(call: Call, model: onnx.ModelProto) -> bool:
    """Whether the results are known to be small before anything is computed: a small file can ask for terabytes."""
    inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True).graph.output
    for info in inferred:
        shape = info.type.tensor_type.shape
        dims = [dim.dim_value if dim.HasField("dim_value") else -1 for dim in shape.dim]
        if not info.type.tensor_type.HasField("shape") or min(dims, default=0) < 0:
            if call.op not in SELECTING:
                return False
        elif element_count(tuple(dims)) > MOST_ELEMENTS:
            return False
    return True
