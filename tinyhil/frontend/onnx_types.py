"""Element types for ONNX: tinyhil computes in real numbers throughout, ONNX tells whole numbers and booleans apart.

Values are floats except those that choose an element in the end (the index of a Gather): these, and what they are
computed from, are int64; comparisons give booleans.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx

from tinyhil.frontend.listing import Block, Call, Listing

FLOAT, INT64, BOOL = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64, onnx.TensorProto.BOOL
COMPARISONS = ("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual")
LOGIC = ("And", "Not", "Or", "Xor")
VIEWS = ("Expand", "Flatten", "Identity", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze")
ARITHMETIC = ("Abs", "Add", "Max", "Min", "Mod", "Mul", "Neg", "Sub", "Sum", "Where")


def operands(call: Call) -> range:
    """Positions of the inputs of `call` that have the type of its result, or of each other in a comparison."""
    if call.op in VIEWS:
        return range(1)
    if call.op in ARITHMETIC or call.op in COMPARISONS or call.op == "Div":
        return range(1 if call.op == "Where" else 0, len(call.inputs))
    return range(0)


def whole_numbers(listing: Listing) -> set[str]:
    """Run-time values that must be int64."""
    makers = {name: call for call in listing.block.walk() for name in call.outputs}
    carried: dict[str, list[str]] = {}  # values that are one and the same in turn: states of loops
    for call in listing.block.walk():
        for group in _states(call):
            for name in group:
                carried.setdefault(name, []).extend(group)
    found: set[str] = set()
    open_names = [call.inputs[1] for call in listing.block.walk() if call.op == "Gather" and len(call.inputs) > 1]
    while open_names:
        name = open_names.pop()
        if name in found or name in listing.constants or not name:
            continue
        maker = makers.get(name)
        if maker is not None and maker.op in (*VIEWS, *ARITHMETIC):
            found.add(name)
            open_names += [maker.inputs[index] for index in operands(maker)]
        elif name in carried:
            found.add(name)
            open_names += carried[name]
    return found


def _states(call: Call) -> Iterator[list[str]]:
    """Values that share a type through a loop: initial, current, next and final state."""
    body: Block | None = call.bodies.get("body")
    if body is None:
        return
    states = len(call.inputs) - int(call.attrs.get("num_scan_inputs", 0))
    for index in range(states):
        yield [call.inputs[index], body.inputs[index], body.outputs[index], call.outputs[index]]
    for index in range(states, len(call.inputs)):
        yield [call.inputs[index], body.inputs[index]]
    for index in range(states, len(call.outputs)):
        yield [body.outputs[index], call.outputs[index]]


def result_type(call: Call, name: str, whole: set[str]) -> int:
    """The type of result `name`."""
    if call.op in (*COMPARISONS, *LOGIC, "IsInf", "IsNaN"):
        return BOOL
    if call.op == "Cast":
        return int(call.attrs["to"])
    if call.op in ("ArgMax", "ArgMin") or (call.op == "TopK" and call.outputs.index(name) == 1):
        return INT64
    return INT64 if name in whole else FLOAT


def wanted_type(call: Call, index: int, whole: set[str]) -> int | None:
    """The type input `index` must have; None if any will do."""
    if call.op in LOGIC or (call.op == "Where" and index == 0):
        return BOOL
    if call.op == "Gather" and index == 1:
        return INT64
    if index in operands(call):
        if call.op in COMPARISONS or call.op == "Div":
            return FLOAT
        return INT64 if call.outputs[0] in whole else FLOAT
    return None
