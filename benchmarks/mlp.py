"""A multilayer perceptron to be trained from scratch."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def mlp_model(sizes: tuple[int, ...], activation: str, seed: int) -> onnx.ModelProto:
    """Gemm after Gemm, weights uniform, with a hard tanh or the sign between them."""
    random, value, nodes = np.random.default_rng(seed), "flat", []
    constants: dict[str, Any] = {}
    nodes.append(helper.make_node("Flatten", ["x"], ["flat"], name="flat"))
    constants["low"], constants["high"] = np.float32(-1), np.float32(1)
    for number, (inputs, outputs) in enumerate(pairwise(sizes), 1):
        reach = (3 / inputs) ** 0.5
        constants[f"fc{number}_w"] = random.uniform(-reach, reach, (inputs, outputs)).astype(np.float32)
        constants[f"fc{number}_b"] = np.zeros(outputs, np.float32)
        last = number == len(sizes) - 1
        result = "logits" if last else f"fc{number}"
        nodes.append(helper.make_node("Gemm", [value, f"fc{number}_w", f"fc{number}_b"], [result], name=result))
        if not last:
            more = ["low", "high"] if activation == "Clip" else []
            nodes.append(helper.make_node(activation, [result, *more], [f"act{number}"], name=f"act{number}"))
        value = f"act{number}"
    ends = [("x", [1, sizes[0]]), ("logits", [1, sizes[-1]])]
    source, output = (helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in ends)
    weights = [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()]
    proto = helper.make_model(helper.make_graph(nodes, "mlp", [source], [output], weights))
    onnx.checker.check_model(proto)
    return proto
