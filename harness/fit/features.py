"""What of a planned program its time and code depend on: counts that a table of costs multiplies.

Classes are coarse on purpose: a few dozen measured images tell them apart, and a model that nobody has measured falls
into the same ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from tinyhil.codegen.profile_calls import constant_bytes, number_of
from tinyhil.formats.format import AFFINE, CODED, SINGLE
from tinyhil.harness.measure.operations import elements_of, executions_of, last_of, macs_of, ops_of
from tinyhil.language.form import Arithmetic, Weights
from tinyhil.language.program import Op, Program, Role
from tinyhil.memplan import Plan
from tinyhil.ops.distance import SQUARED_DISTANCE
from tinyhil.ops.index import GATHER_AT
from tinyhil.ops.real_functions import LOOKUP
from tinyhil.passes.chains import Chain, carried_out

IMAGE, CALL, RESULT, ELEMENT, SPARSE, LISTED = "image", "call", "result", "element", "sparse", "listed"
PRODUCT, PACKED, REDUCE, FUNCTION, NORM, OTHER = "product", "packed", "reduce", "function", "norm", "other"
KERNEL, LIBRARY, ROWS, CHANNELS = "kernel", "library", "rows", "channels"
IN_FLOATS = (Arithmetic.SINGLE, Arithmetic.DECIDED)
BY_MULTIPLIERS = (Arithmetic.AFFINE, Arithmetic.RESCALED, Arithmetic.FACTORED)
OF_ITS_OWN = {"length", "units"}  # transforms and cells of recurrent networks: nothing here says how much they do
DEPEND = {"count", "along"}  # one of these beside "outer": as many results as operands, which depend on each other
WIDE, WIDE_DENSE, ZERO_POINTS, ALIGNED = "wide sum", "wide dense sum", "zero points", "aligned distance"
ODD_WINDOW, ODD_DEPTHWISE, ODD_RESCALED = "odd window", "odd depthwise window", "odd depthwise window rescaled"
EDGE, EDGE_DEPTHWISE, PLACE, CHANNEL = "edge", "edge depthwise", "window place", "result of a channel"
# To what they are part of; some cost nothing.
ADDITIONS = (
    WIDE,
    WIDE_DENSE,
    ZERO_POINTS,
    ALIGNED,
    ODD_WINDOW,
    ODD_DEPTHWISE,
    ODD_RESCALED,
    EDGE,
    EDGE_DEPTHWISE,
    PLACE,
    CHANNEL,
)
FAST_WIDTHS = (1, 3)  # of windows, for which a Cortex-M has loops of its own
REGISTER_BITS, BYTE_BITS = 32, 8


def time_features(program: Program, plan: Plan) -> Mapping[str, float]:
    """Of one sample: executions of operations, products of layers and elements of the others, by class."""
    found: Counter[str] = Counter({IMAGE: 1})
    for _, counts in operation_features(program, plan):
        found.update(counts)
    return found


def operation_features(program: Program, plan: Plan) -> Iterator[tuple[str, Mapping[str, float]]]:
    """The same of each operation that the board carries out, with the tensor that it writes."""
    times = executions_of(program, plan)
    for item in carried_out(program, plan, program.body):
        yield last_of(item).output, _counts(program, item, times[number_of(program, item)])


def _counts(program: Program, item: Op | Chain, executions: int) -> Mapping[str, float]:
    elements = elements_of(program, item, executions)
    macs = macs_of(program, item, elements)
    found: Counter[str] = Counter({CALL: executions})
    op = last_of(item)
    if macs is None:
        for one in ops_of(item):
            found.update(_work(program, one, elements, executions))
        return found
    streamed = _streamed(program, op)
    found[f"{RESULT} {_width(program, op)}"] += elements
    if op.kernel.arithmetic is Arithmetic.CHANNELS:
        found[CHANNEL] += elements
    if streamed:
        found[f"{SPARSE} {_width(program, op)}"] += streamed * executions
    elif op.kernel.weights is Weights.LISTS:
        entries = sum(program.tensors[name].count for name in op.inputs if program.tensors[name].role == Role.TABLE)
        found[f"{LISTED} {_operands(program, op)}"] += entries * executions * op.params.get("rows", 1)
    else:
        found[f"{_layer(program, op)} {_operands(program, op)}"] += macs
        found.update(_dearer(op, macs, "kernel_y" not in op.params))
        found.update(_windows(op, macs))
    return found


def _windows(op: Op, products: int) -> Mapping[str, float]:
    """Of a layer with windows: products at places where a window leaves the plane, which are computed one by one, and
    places: a window is made there once for all channels of the result."""
    p = op.params
    if p.get("kernel_y", 1) * p.get("kernel_x", 1) == 1:
        return {}
    edge = products * (1 - _inside(op, "y", "height") * _inside(op, "x", "width"))
    if _is_depthwise(op):
        return {EDGE_DEPTHWISE: edge}
    window = p["kernel_y"] * p["kernel_x"] * p["channels"] // p.get("groups", 1)
    return {EDGE: edge, PLACE: products / p["outputs"] / window}


def _inside(op: Op, along: str, size: str) -> float:
    """The share of places whose window leaves the plane nowhere, in one direction."""
    p = op.params
    window, places = (p[f"kernel_{along}"] - 1) * p.get(f"dilation_{along}", 1), p[f"out_{size}"]
    starts = [place * p[f"stride_{along}"] - p[f"pad_{along}"] for place in range(places)]
    return sum(start >= 0 and start + window < p[size] for start in starts) / places


def _dearer(op: Op, products: int, dense: bool = False) -> Mapping[str, float]:
    """What some products cost beside the rest: sums that may exceed a register, zero points that are subtracted, codes
    that are shifted first, windows without a loop of their own."""
    if op.domain == SINGLE:
        return {}
    p, is_rescaled = op.params, op.kernel.arithmetic is Arithmetic.AFFINE
    is_odd = p.get("kernel_x", 3) not in FAST_WIDTHS
    reasons = {
        WIDE_DENSE if dense else WIDE: op.accumulator_bits > REGISTER_BITS,
        ZERO_POINTS: is_rescaled,
        ALIGNED: op.kernel == SQUARED_DISTANCE.form and not p["drop"] and p["a_shift"] != p["b_shift"],
        ODD_WINDOW: is_odd and not _is_depthwise(op),
        ODD_RESCALED if is_rescaled else ODD_DEPTHWISE: is_odd and _is_depthwise(op),
    }
    return {name: products for name, holds in reasons.items() if holds}


def _is_depthwise(op: Op) -> bool:
    return op.params.get("groups", 1) > 1 and op.params["groups"] == op.params.get("channels")


def _work(program: Program, op: Op, elements: int, executions: int) -> Mapping[str, float]:
    """What an operation that is no layer goes through: products of computed tensors, of which one is packed in columns
    where many are made at once, and their results, operands of what reduces them, places of a window, or its
    elements."""
    p, width = op.params, _width(program, op)
    if "columns" in p and "inner" in p:
        products = elements * p["inner"]
        found = {f"{PRODUCT} {_operands(program, op)}": products, f"{RESULT} {width}": elements}
        packed = {PACKED: products / p["rows"]} if op.scratch else {}
        return {**found, **packed, **_dearer(op, products)}
    is_gather = op.kernel == GATHER_AT.form
    if is_gather and elements == executions:  # a tree is walked from node to node
        return {f"{OTHER} {op.kernel} of one": elements}
    if OF_ITS_OWN & p.keys() or (is_gather and op.domain == SINGLE):
        return {f"{OTHER} {op.kernel}": elements}
    read = p["outer"] * p["along"] * p.get("inner", 1) * executions if "along" in p else elements
    if read != elements:
        return {f"{REDUCE if op.domain == SINGLE else ELEMENT} {width}": max(read, elements)}
    if "centre" in p:
        return {f"{NORM} {width}": elements}
    if op.kernel.arithmetic in IN_FLOATS or ("outer" in p and DEPEND & p.keys()):
        kind = op.kernel.arithmetic if op.kernel.arithmetic is Arithmetic.DECIDED else width
        return {f"{FUNCTION if 'outer' in p else ELEMENT} {kind}": elements}
    return {f"{ELEMENT} {width}": elements * p.get("kernel_y", 1) * p.get("kernel_x", 1)}


def code_features(program: Program, plan: Plan) -> Mapping[str, float]:
    """Of an image: operations, those that make rows of their results, kernels, layers, whose loops are compiled for
    each shape, and whether it computes with floats, for which a core without them has a library. Constants count
    apart."""
    items = list(carried_out(program, plan, program.body))
    every = [op for item in items for op in ops_of(item)]
    found: Counter[str] = Counter({IMAGE: 1, CALL: len(items)})
    found.update(f"{KERNEL} {kind}" for _, kind in {(op.kernel, _code_kind(program, op)) for op in every})
    if any(_computes_floats(program, op) for op in every):
        found[LIBRARY] = 1
    found.update(ROWS for op in every if op.kernel.rows)
    found.update({f"{PACKED} {_code_kind(program, op)}" for op in every if op.scratch and "columns" in op.params})
    layers = [last_of(item) for item in items if macs_of(program, item, 1) is not None]
    found.update(f"{_layer(program, op)} layer" for op in layers)
    found.update(f"{kind} code" for kind, _ in {(_layer(program, op), op.kernel) for op in layers})
    return found


def _computes_floats(program: Program, op: Op) -> bool:
    """Not where it looks up what they would be."""
    return op.domain == SINGLE and (op.kernel.arithmetic in IN_FLOATS or not _is_looked_up(program, op))


def _is_looked_up(program: Program, op: Op) -> bool:
    return op.kernel == LOOKUP.form or any(program.tensors[name].role == Role.TABLE for name in op.inputs)


def _code_kind(program: Program, op: Op) -> str:
    if op.kernel.arithmetic in IN_FLOATS:
        return "function"
    if op.kernel.arithmetic in BY_MULTIPLIERS:
        return "rescaled"
    if op.kernel.arithmetic is Arithmetic.CHANNELS:
        return CHANNELS
    return "float" if _computes_floats(program, op) else "integer"


def flash_constants(program: Program) -> int:
    """Bytes of weights and tables."""
    return constant_bytes(program)


def _layer(program: Program, op: Op) -> str:
    """How often what is loaded is used again: the fewer products an operand serves, the more each costs."""
    p = op.params
    if op.kernel == SQUARED_DISTANCE.form:
        return "distance"
    if p.get("groups", 1) > 1:
        return "depthwise" if _is_depthwise(op) else "grouped"
    if p.get("kernel_y", 1) * p.get("kernel_x", 1) > 1:
        return "window"
    return (
        "pointwise" if "kernel_y" in p or program.tensors[op.output].count > 2 * p.get("outputs", 1 << 30) else "dense"
    )


def _operands(program: Program, op: Op) -> str:
    names = [name for name in op.inputs if program.tensors[name].role != Role.TABLE][:2]
    if op.domain == SINGLE:
        return "rescaled" if all(program.tensors[name].format.domain == AFFINE for name in names) else "float"
    if strange := next(filter(None, (_unmeasured(program, name) for name in names)), ""):
        return strange
    bits = [_bits(program, name) for name in names]
    return f"{max(bits, default=8)}x{min(bits, default=8)}"


def _unmeasured(program: Program, name: str) -> str:
    """What keeps a tensor out of the classes that were measured: codes that are unpacked before they are multiplied, of
    a family of their own or narrower than what a core loads. Empty where nothing does."""
    tensor = program.tensors[name]
    fmt = tensor.format
    if fmt.domain == CODED and fmt.grid is None:
        return "coded"
    raised = tensor.blocks is not None and tensor.blocks.raised is not None
    whole = raised or tensor.role != Role.CONSTANT or (fmt.grid is not None and fmt.bits >= BYTE_BITS)
    return "" if whole or fmt.domain == SINGLE else "packed"


def _width(program: Program, op: Op) -> str:
    """Of results; what is looked up is what its table holds, even if that stands for floats."""
    fmt = program.tensors[op.output].format
    if _computes_floats(program, op):
        return "float"
    if fmt.domain == CODED and fmt.grid is None:
        return "coded"
    return "rescaled" if fmt.domain == AFFINE else str(_bits(program, op.output))


def _bits(program: Program, name: str) -> int:
    tensor = program.tensors[name]
    bits = 8 if tensor.blocks is not None and tensor.blocks.raised is not None else tensor.format.bits
    return 8 if bits <= 8 else 16 if bits <= 16 else 32


def _streamed(program: Program, op: Op) -> int:
    """Bytes of the stream that sparse weights have become; 0 for others."""
    first = program.tensors[op.inputs[0]]
    return first.count if first.role == Role.TABLE and op.kernel.weights is Weights.STREAM else 0
