"""Listing -> ONNX model: the calls as nodes of one opset."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tinyhil.errors import ModelError
from tinyhil.frontend.listing import Block, Call, Listing

OPSET = 21
IR_VERSION = 10
AXES_MOVED_TO_INPUTS = ("ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum", "Squeeze", "Unsqueeze")  # by OPSET


def write_onnx(listing: Listing, name: str) -> onnx.ModelProto:
    """The model, valid; ModelError if ONNX has no such call."""
    extra: list[onnx.TensorProto] = []
    used = {value for call in listing.block.walk() for value in call.inputs}
    used.update(value for block in listing.block.blocks() for value in block.outputs)
    nodes = list(_nodes(listing.block, listing, extra))
    constants = [numpy_helper.from_array(array, key) for key, array in listing.constants.items() if key in used]
    (source,), (output,) = listing.block.inputs, listing.block.outputs
    graph = helper.make_graph(nodes, name, [_info(source, listing)], [_info(output, listing)], [*constants, *extra])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    model.producer_name = "tinyhil"
    try:
        for found in onnx.shape_inference.infer_shapes(model).graph.output:  # ArgMax gives integers
            graph_output = model.graph.output[0].type.tensor_type
            graph_output.elem_type = found.type.tensor_type.elem_type or TensorProto.FLOAT
        onnx.checker.check_model(model)
    except Exception as error:  # the checker raises a wide family
        reason = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise ModelError(f"can not be written as ONNX ({reason[:160]})") from None
    return model


def _info(name: str, listing: Listing) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, listing.shapes[name])


def _nodes(block: Block, listing: Listing, extra: list[onnx.TensorProto]) -> Iterator[onnx.NodeProto]:
    for call in block.calls:
        inputs, attrs = _operands(call, extra)
        bodies = {key: _body(call, key, body, listing, extra) for key, body in call.bodies.items()}
        yield helper.make_node(call.op, inputs, call.outputs, name=call.name, **attrs, **bodies)


def _operands(call: Call, extra: list[onnx.TensorProto]) -> tuple[Sequence[str], dict[str, Any]]:
    """Inputs and attributes as OPSET wants them."""
    attrs = dict(call.attrs)
    if call.op in AXES_MOVED_TO_INPUTS and "axes" in attrs:
        axes = numpy_helper.from_array(np.array(attrs.pop("axes"), np.int64), f"{call.outputs[0]}.axes")
        extra.append(axes)
        return (call.inputs[0], axes.name), attrs
    return call.inputs, attrs


def _body(call: Call, key: str, body: Block, listing: Listing, extra: list[onnx.TensorProto]) -> onnx.GraphProto:
    nodes = list(_nodes(body, listing, extra))
    made = {name for node in nodes for name in node.output}
    outputs = []
    for number, name in enumerate(body.outputs):  # ONNX wants results computed here, each under a name of its own
        result = name
        if name not in made or name in outputs:
            result = f"{call.outputs[0]}.{key}.{number}"
            nodes.append(helper.make_node("Identity", [name], [result], name=result))
        outputs.append(result)
    return helper.make_graph(
        nodes,
        f"{call.name}.{key}",
        [_info(name, listing) for name in body.inputs],
        [
            helper.make_tensor_value_info(result, TensorProto.FLOAT, listing.shapes[name])
            for result, name in zip(outputs, body.outputs, strict=True)
        ],
    )
