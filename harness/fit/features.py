"""What of a planned program its time and code depend on: counts that a table of costs multiplies.

Classes are coarse on purpose: a few dozen measured images tell them apart, and a model that nobody has measured falls
into the same ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from tinyhil.codegen.profile_calls import constant_bytes, number_of
from tinyhil.formats.format import AFFINE, SINGLE
from tinyhil.harness.measure.operations import elements_of, executions_of, last_of, macs_of, ops_of
from tinyhil.language.form import Weights
from tinyhil.language.program import Op, Program, Role
from tinyhil.memplan import Plan
from tinyhil.ops.distance import SQUARED_DISTANCE
from tinyhil.passes.chains import carried_out

IMAGE, CALL, RESULT, ELEMENT, SPARSE = "image", "call", "result", "element", "sparse"


def time_features(program: Program, plan: Plan) -> Mapping[str, float]:
    """Of one sample: executions of operations, products of layers and elements of the others, by class."""
    found: Counter[str] = Counter({IMAGE: 1})
    times = executions_of(program, plan)
    for item in carried_out(program, plan, program.body):
        executions = times[number_of(program, item)]
        elements = elements_of(program, item, executions)
        macs = macs_of(program, item, elements)
        found[CALL] += executions
        op = last_of(item)
        if macs is None:
            found[f"{ELEMENT} {_width(program, op)}"] += elements * len(ops_of(item))
            continue
        streamed = _streamed(program, op)
        found[f"{RESULT} {_width(program, op)}"] += elements
        if streamed:
            found[f"{SPARSE} {_width(program, op)}"] += streamed * executions
        else:
            found[f"{_layer(program, op)} {_operands(program, op)}"] += macs
    return found


def code_features(program: Program, plan: Plan) -> Mapping[str, float]:
    """Of an image: operations, kernels, and layers, whose loops are compiled for each shape. Constants count apart."""
    items = list(carried_out(program, plan, program.body))
    found: Counter[str] = Counter({IMAGE: 1, CALL: len(items)})
    found["kernel"] = len({(op.kernel, _width(program, op)) for item in items for op in ops_of(item)})
    for item in items:
        op = last_of(item)
        if macs_of(program, item, 1) is not None:
            found[f"{_layer(program, op)} layer"] += 1
    return found


def flash_constants(program: Program) -> int:
    """Bytes of weights and tables."""
    return constant_bytes(program)


def _layer(program: Program, op: Op) -> str:
    """How often what is loaded is used again: the fewer products an operand serves, the more each costs."""
    p = op.params
    if op.kernel == SQUARED_DISTANCE.form:
        return "distance"
    if p.get("groups", 1) > 1:
        return "depthwise" if p["groups"] == p.get("channels") else "grouped"
    if p.get("kernel_y", 1) * p.get("kernel_x", 1) > 1:
        return "window"
    return (
        "pointwise" if "kernel_y" in p or program.tensors[op.output].count > 2 * p.get("outputs", 1 << 30) else "dense"
    )


def _operands(program: Program, op: Op) -> str:
    bits = [_bits(program, name) for name in op.inputs if program.tensors[name].role != Role.TABLE][:2]
    if op.domain == SINGLE:
        return "float"
    return f"{max(bits, default=8)}x{min(bits, default=8)}"


def _width(program: Program, op: Op) -> str:
    if op.domain == SINGLE:
        return "float"
    fmt = program.tensors[op.output].format
    return "rescaled" if fmt.domain == AFFINE else str(_bits(program, op.output))


def _bits(program: Program, name: str) -> int:
    tensor = program.tensors[name]
    bits = 8 if tensor.blocks is not None and tensor.blocks.raised is not None else tensor.format.bits
    return 8 if bits <= 8 else 16 if bits <= 16 else 32


def _streamed(program: Program, op: Op) -> int:
    """Bytes of the stream that sparse weights have become; 0 for others."""
    first = program.tensors[op.inputs[0]]
    return first.count if first.role == Role.TABLE and op.kernel.weights is Weights.STREAM else 0
