"""Listing -> ONNX model: the calls as nodes of one opset."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tinyhil.errors import ModelError
from tinyhil.frontend.listing import Block, Call, Listing
from tinyhil.frontend.onnx_outputs import CLASSES
from tinyhil.frontend.onnx_types import FLOAT, INT64, result_type, wanted_type, whole_numbers
from tinyhil.frontend.rewrites import DOMAINS

OPSET = 21
IR_VERSION = 10
AXES_MOVED_TO_INPUTS = ("ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum", "Squeeze", "Unsqueeze")  # by OPSET


def write_onnx(listing: Listing, name: str, classes: Sequence[str] = ()) -> onnx.ModelProto:
    """The model, valid; `classes`: what its outputs are called. ModelError if ONNX has no such call."""
    writer = _Writer(listing)
    block = listing.block
    nodes = writer.nodes(block)
    used = {value for call in block.walk() for value in call.inputs}
    used.update(value for inner in block.blocks() for value in inner.outputs)
    constants = [numpy_helper.from_array(array, key) for key, array in listing.constants.items() if key in used]
    (source,), (output,) = block.inputs, block.outputs
    values = [writer.info(source, source)], [writer.info(output, output)]
    graph = helper.make_graph(nodes, name, *values, [*constants, *writer.parameters])
    opsets = [helper.make_opsetid("", _opset(block))]
    domains = dict.fromkeys(DOMAINS[call.op] for call in block.walk() if call.op in DOMAINS)
    opsets += [helper.make_opsetid(domain, 1) for domain in domains]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)
    model.producer_name = "tinyhil"
    if classes:
        helper.set_model_props(model, {CLASSES: json.dumps([*classes])})
    try:
        onnx.checker.check_model(model, full_check=True)
    except Exception as error:  # the checker raises a wide family
        reason = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise ModelError(f"can not be written as ONNX ({reason[:160]})") from None
    return model


def _opset(block: Block) -> int:
    """OPSET, or the first one that has all of the calls."""
    first: dict[str, int] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if not schema.domain:
            first[schema.name] = min(schema.since_version, first.get(schema.name, schema.since_version))
    return max([OPSET, *(first.get(call.op, OPSET) for call in block.walk() if call.op not in DOMAINS)])


class _Writer:
    """Lives for one listing. `parameters` are constants that OPSET wants as inputs, or in another type."""

    def __init__(self, listing: Listing) -> None:
        self.parameters: list[onnx.TensorProto] = []
        self._listing = listing
        self._whole = whole_numbers(listing)
        constants = listing.constants.items()
        self._types = {name: int(helper.np_dtype_to_tensor_dtype(array.dtype)) for name, array in constants}
        self._copies: dict[tuple[str, int], str] = {}

    def info(self, name: str, value: str) -> onnx.ValueInfoProto:
        """The declaration of `name` with the type and shape of `value`."""
        return helper.make_tensor_value_info(name, self._types.get(value, FLOAT), self._listing.shapes[value])

    def nodes(self, block: Block) -> list[onnx.NodeProto]:
        made: list[onnx.NodeProto] = []
        for call in block.calls:
            inputs, attrs = self._operands(call)
            wanted: list[int | None] = [wanted_type(call, index, self._whole) for index in range(len(inputs))]
            if call.bodies:  # what a loop begins with has the type of its states
                wanted = [*map(self._carried, call.bodies["body"].inputs)]
            for index, kind in enumerate(wanted):
                if kind is not None and inputs[index]:
                    inputs[index] = self._into(made, kind, inputs[index])
            for name in call.outputs:
                self._types[name] = result_type(call, name, self._whole)
            if call.op == "Repeat":
                made.append(self._loop(call, inputs))
                continue
            bodies = {key: self._body(call, key, body) for key, body in call.bodies.items()}
            domain = DOMAINS.get(call.op)
            made.append(helper.make_node(call.op, inputs, call.outputs, call.name, domain=domain, **attrs, **bodies))
        return made

    def _carried(self, name: str) -> int:
        """The type of a value that goes through a loop."""
        return INT64 if name in self._whole else FLOAT

    def _into(self, nodes: list[onnx.NodeProto], kind: int, name: str) -> str:
        """A value of type `kind`: the value itself, a constant of another type, or a Cast added to `nodes`."""
        if self._types.get(name, FLOAT) == kind:
            return name
        copy = f"{name}.{TensorProto.DataType.Name(kind).lower()}"
        constant = self._listing.constants.get(name)
        if constant is None:
            self._copies[name, kind] = f"{copy}.{len(self._copies)}"
            nodes.append(helper.make_node("Cast", [name], [self._copies[name, kind]], to=kind))
        elif (name, kind) not in self._copies:
            self._copies[name, kind] = self._parameter(copy, constant, helper.tensor_dtype_to_np_dtype(kind))
        return self._copies[name, kind]

    def _operands(self, call: Call) -> tuple[list[str], dict[str, Any]]:
        """Inputs and attributes as OPSET wants them."""
        attrs = {name: value for name, value in call.attrs.items() if not isinstance(value, list | tuple) or len(value)}
        inputs = list(call.inputs)
        if call.op in AXES_MOVED_TO_INPUTS and "axes" in attrs:
            inputs = [inputs[0], self._parameter(f"{call.outputs[0]}.axes", attrs.pop("axes"), np.int64)]
        if call.op == "Split" and len(inputs) < 2:
            attrs.setdefault("num_outputs", len(call.outputs))
        return inputs, attrs

    def _parameter(self, name: str, values: Any, kind: Any) -> str:
        self.parameters.append(numpy_helper.from_array(np.asarray(values).astype(kind), name))
        return name

    def _loop(self, call: Call, states: list[str]) -> onnx.NodeProto:
        """ONNX's Loop of a fixed number of steps, whose body reads neither the step nor the condition."""
        stem = call.outputs[0]
        body = self._body(call, "body", call.bodies["body"])
        given = [self._parameter(f"{stem}.steps", call.attrs["count"], np.int64)]
        given.append(self._parameter(f"{stem}.always", True, np.bool_))
        step, before, after = (f"{stem}.body.{part}" for part in ("step", "before", "after"))
        nodes = [helper.make_node("Identity", [before], [after], name=after), *body.node]
        count = helper.make_tensor_value_info(step, TensorProto.INT64, ())
        holds, goes_on = (helper.make_tensor_value_info(name, TensorProto.BOOL, ()) for name in (before, after))
        graph = helper.make_graph(nodes, body.name, [count, holds, *body.input], [goes_on, *body.output])
        return helper.make_node("Loop", [*given, *states], call.outputs, name=call.name, body=graph)

    def _body(self, call: Call, key: str, body: Block) -> onnx.GraphProto:
        for name in body.inputs:
            self._types[name] = self._carried(name)
        nodes = self.nodes(body)
        outputs: list[str] = []
        for number, (name, final) in enumerate(zip(body.outputs, call.outputs, strict=True)):
            result = self._into(nodes, self._carried(final), name)
            # ONNX wants results computed here, each under a name of its own
            if result not in {made for node in nodes for made in node.output} or result in outputs:
                nodes.append(helper.make_node("Identity", [result], [f"{call.outputs[0]}.{key}.{number}"]))
                result = f"{call.outputs[0]}.{key}.{number}"
            outputs.append(result)
        shapes = [self._listing.shapes[name] for name in body.outputs]
        kinds = [self._carried(final) for final in call.outputs]
        results = [helper.make_tensor_value_info(*item) for item in zip(outputs, kinds, shapes, strict=True)]
        inputs = [self.info(name, name) for name in body.inputs]
        return helper.make_graph(nodes, f"{call.name}.{key}", inputs, results)
