"""A trained graph as a file: the calls of the model as they were written, with other constants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import onnx
from onnx import numpy_helper

from tinyhil.frontend.listing import Block, Call, Listing, Model
from tinyhil.frontend.onnx_writer import write_onnx
from tinyhil.language.graph import Node


def trained_onnx(model: Model, constants: Mapping[str, np.ndarray], name: str) -> bytes:
    """The ONNX file of `model` with `constants` in place of its own; layers into which the front end has folded what
    followed them are written as it made them. ModelError if ONNX has no such call."""
    listing = model.listing
    block = _with_folded(listing.block, {node.outputs[0]: node for node in model.graph.nodes if node.outputs})
    shapes = {**listing.shapes, **model.graph.shapes}
    known = {**listing.constants, **model.graph.constants, **constants}
    return write_onnx(Listing(block, shapes, known), name, model.classes).SerializeToString()


def trained_step(model: Model, constants: Mapping[str, np.ndarray]) -> bytes | None:
    """The ONNX file of a step of `model`, which has states, as it was given, with `constants` in place of its own; None
    if the file is none, or has not all of them by name and shape as float32."""
    if not model.stream or model.path.suffix.lower() != ".onnx":
        return None
    proto = onnx.load(model.path)
    own, known = {one.name: one for one in proto.graph.initializer}, model.graph.all_constants()
    for name, array in constants.items():
        if np.array_equal(array, known[name]):  # as it was, or made by the front end
            continue
        found = own.get(name)
        if found is None or tuple(found.dims) != array.shape or found.data_type != onnx.TensorProto.FLOAT:
            return None
        found.CopyFrom(numpy_helper.from_array(array.astype(np.float32), name))
    made: bytes = proto.SerializeToString()
    return made


def _with_folded(block: Block, nodes: Mapping[str, Node]) -> Block:
    """A call whose result another operator of the graph gives is that operator; the layer before it has gone."""
    replaced = {
        call.outputs[0]: nodes[call.outputs[0]]
        for call in block.calls
        if call.outputs[0] in nodes and _folds(call, nodes[call.outputs[0]])
    }
    gone = {node.name for node in replaced.values()}
    calls = []
    for call in block.calls:
        node = replaced.get(call.outputs[0])
        if node is not None:
            calls.append(Call(node.op, node.name, node.inputs, node.outputs, node.attrs))
        elif call.name not in gone:
            calls.append(call)
    return replace(block, calls=tuple(calls))


def _folds(call: Call, node: Node) -> bool:
    return call.op in ("BatchNormalization", "Add", "Sub") and node.op in ("Conv", "Gemm")
