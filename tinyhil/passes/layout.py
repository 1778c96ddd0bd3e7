"""How run-time tensors lie on a chip: in planes, or with channels innermost where convolutions alone touch them.

The patches of a convolution are stretches of whole pixels there, expanded from where they are; in planes every element
of a window is a stretch of its own. Depthwise layers and pooling want planes. So every chain of tensors that
element-wise operations hold together gets the layout that costs its readers less, if whoever touches it knows that one.
Nothing is transposed: an operation reads one layout and writes the other. A sample that comes with channels innermost,
as TensorFlow Lite's do, is read as it is if a convolution alone reads it.

A program goes on in planes, as the reference does: `Tensor.innermost` says what lies otherwise, chosen when the plan is
there, and kernels turn distances into those of a layout (firmware/kernels/arm/conv_blocks.hpp).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from tinyhil.language.form import Joined, Weights
from tinyhil.language.program import Loop, Op, Program, Role, Tensor, loops_of, reads_of, walk
from tinyhil.memplan import Plan
from tinyhil.ops import KERNEL_OF, rows
from tinyhil.ops.conv import CONV
from tinyhil.ops.movement import MOVE, indices
from tinyhil.ops.scan import FILL
from tinyhil.ops.window import window_of
from tinyhil.passes.chains import is_elementwise, period_of

PLANES_ORDER, INNERMOST_ORDER = (2, 1, 3), (2, 3, 1)  # of a row of weights: kernel row, channel, kernel column
HALFWORD_ROWS = 2  # of the blocks that know both layouts (firmware/kernels/arm/patches.hpp)
DEPTHWISE_STEP = 9  # of blocks that are a window of 3 x 3 per channel
BYTE = 1
# Modelled cycles of a Cortex-M7 for an element of the patches of two pixels (benchmarks/layout.py)
POINTWISE, NEIGHBOURS, APART = 5.9, 7.6, 18.2  # in planes: one column, several with a stride of 1, with another
INNER_POINTWISE, INNER, COPIED = 2.3, 4.3, 15.0  # COPIED: a row of the window is no multiple of four elements
TURNED = 3.0  # of a sample, into planes


@dataclass(frozen=True, slots=True)
class Convolution:
    """Where a convolution whose kernel knows both layouts has its operands."""

    op: Op
    weights: str
    x: str
    addend: str = ""

    @property
    def channels(self) -> tuple[int, int]:
        """Of its operand and of its result."""
        return self.op.params["channels"], self.op.params["outputs"]

    @property
    def costs(self) -> tuple[float, float]:
        """Of its patches in planes and with channels innermost."""
        w = window_of(self.op.params)
        count = w.channels * w.positions * w.pixels / 2
        if w.positions == 1:
            return POINTWISE * count, INNER_POINTWISE * count
        planes = NEIGHBOURS if w.stride_x == 1 else APART
        return planes * count, (INNER if w.kernel_x * w.channels % 4 == 0 else COPIED) * count


def _is_convolution(op: Op) -> bool:
    return op.kernel.base == CONV.form.base and op.kernel.weights is Weights.PLAIN


def convolution_of(program: Program, op: Op) -> Convolution | None:
    """The operation as such a convolution; None if it is none, or parts of its operands lie elsewhere."""
    at = int(op.kernel.rows)
    if not _is_convolution(op):
        return None
    weights, x = op.inputs[at : at + 2]
    blocks = program.tensors[weights].blocks
    known = (
        blocks is not None
        and (blocks.together == HALFWORD_ROWS or blocks.paired)
        and blocks.order in (PLANES_ORDER, INNERMOST_ORDER)
    )
    if not known or op.params["groups"] != 1 or program.tensors[x].format.storage_bytes != BYTE:
        return None
    w = window_of(op.params)
    is_pointwise = w.positions == 1 and w.pad_y == w.pad_x == 0
    if (is_pointwise and w.channels % 4) or program.tensors[op.output].format.storage_bytes != BYTE:
        return None
    joined = op.kernel.joined is not Joined.NOTHING
    if joined and at:
        return None
    addend = op.inputs[rows.JOINED_AT[op.kernel]] if joined else ""
    return Convolution(op, weights, x, addend)


def is_depthwise(program: Program, op: Op) -> bool:
    """Whether it is a depthwise layer whose kernel reads planes and writes either layout."""
    at = int(op.kernel.rows)
    joins = op.kernel.joined is not Joined.NOTHING
    if not _is_convolution(op) or joins or not op.params["groups"] == op.params["outputs"] > 1:
        return False
    blocks = program.tensors[op.inputs[at]].blocks
    bytes_each = {program.tensors[name].format.storage_bytes for name in (op.inputs[at + 1], op.output)}
    return blocks is not None and blocks.step == DEPTHWISE_STEP and bytes_each == {BYTE}


def laid_operand(program: Program, op: Op) -> str | None:
    """The operand of a convolution if that or its result has its channels innermost."""
    conv = convolution_of(program, op)
    if conv is None and not is_depthwise(program, op):
        return None
    x = conv.x if conv is not None else op.inputs[2 if op.kernel.rows else 1]
    return x if program.tensors[x].innermost or program.tensors[op.output].innermost else None


def with_input_as_it_is(program: Program) -> Program:
    """`program` without an operation that only turns its input into planes for one convolution."""
    op = next((item for item in program.body if isinstance(item, Op) and program.input in item.inputs), None)
    if op is None or op.kernel not in (MOVE.form, MOVE.form.on_codes) or op.output == program.output:
        return program
    readers = [other for other in walk(program.body) if op.output in other.inputs]
    before, after = program.tensors[program.input], program.tensors[op.output]
    alone = reads_of(program.body).count(program.input) == reads_of(program.body).count(op.output) == len(readers) == 1
    reader = convolution_of(program, readers[0]) if alone else None
    if reader is None or reader.x != op.output or before.count != after.count:
        return program
    takes_codes = reader.op.inputs.index(reader.x) in KERNEL_OF[reader.op.kernel].codes
    if before.format != after.format and not (op.kernel == MOVE.form.on_codes and takes_codes):
        return program
    channels, (planes, innermost) = reader.channels[0], reader.costs
    turned = np.arange(before.count).reshape(-1, channels).T.reshape(-1)
    if (
        channels == 1
        or innermost > planes + TURNED * before.count
        or not np.array_equal(indices(dict(op.params)), turned)
    ):
        return program
    tensors = {name: tensor for name, tensor in program.tensors.items() if name != op.output}
    tensors[program.input] = replace(before, innermost=channels)
    tensors[reader.weights] = _by_pixels(tensors[reader.weights])
    inputs = tuple(program.input if name == op.output else name for name in reader.op.inputs)
    body = tuple(replace(item, inputs=inputs) if item is reader.op else item for item in program.body if item is not op)
    return replace(program, tensors=tensors, body=body)


@dataclass(slots=True)
class _Chains:
    """Tensors that share a layout, what channels innermost would save, and which lie in planes whatever it saves."""

    first: dict[str, str] = field(default_factory=dict)
    channels: dict[str, int] = field(default_factory=dict)
    gains: dict[str, float] = field(default_factory=dict)
    planes: set[str] = field(default_factory=set)

    def of(self, name: str) -> str:
        """The tensor that stands for the chain of `name`."""
        while self.first.setdefault(name, name) != name:
            name = self.first[name]
        return name

    def join(self, *names: str) -> None:
        """These share a layout."""
        for name in names[1:]:
            self.first[self.of(name)] = self.of(names[0])

    def innermost(self) -> dict[str, int]:
        """The tensors that lie with channels innermost, and how many channels they have."""
        gains: dict[str, float] = {}
        for name, gain in self.gains.items():
            gains[self.of(name)] = gains.get(self.of(name), 0.0) + gain
        fixed = {self.of(name) for name in self.planes}
        chosen = {name for name, gain in gains.items() if gain > 0} - fixed
        found = {name: self.of(name) for name in tuple(self.first) if self.of(name) in chosen}
        known = {first: self.channels[name] for name, first in found.items() if name in self.channels}
        return {name: known[first] for name, first in found.items()}


def _by_pixels(weights: Tensor) -> Tensor:
    """Weights in the order in which they meet an operand whose channels are innermost."""
    assert weights.blocks is not None
    return replace(weights, blocks=replace(weights.blocks, order=INNERMOST_ORDER))


def with_layouts(program: Program, plan: Plan) -> Program:
    """`program` in whose tensors layouts are chosen, for what is written down alone."""
    chosen = _chosen(program, plan)
    if not chosen:
        return program
    tensors = dict(program.tensors)
    for name, channels in chosen.items():
        tensors[name] = replace(tensors[name], innermost=channels)
    for op in walk(program.body):
        conv = convolution_of(program, op)
        if conv is not None and tensors[conv.x].innermost:
            tensors[conv.weights] = _by_pixels(tensors[conv.weights])
    return replace(program, tensors=tensors)


def _chosen(program: Program, plan: Plan) -> Mapping[str, int]:
    found = _Chains()
    found.planes |= {program.input, program.output}
    for item in program.body:
        found.planes |= _overlapping(program, plan, item)
    for op in walk(program.body):
        _add(program, op, found)
    for loop in loops_of(program.body):
        found.planes |= {name for pair in loop.slices for name in pair}
    _join_readers(program, found)
    return found.innermost()


def _join_readers(program: Program, found: _Chains) -> None:
    """Strips of a convolution read the same weights, which have one order: so do their operands."""
    operands: dict[str, list[str]] = {}
    for op in walk(program.body):
        conv = convolution_of(program, op)
        if conv is not None:
            operands.setdefault(conv.weights, []).append(conv.x)
    for names in operands.values():
        found.join(*names)


def _add(program: Program, op: Op, found: _Chains) -> None:
    """What one operation says of the layouts of its tensors."""
    conv = convolution_of(program, op)
    sides = (rows.OPERAND, rows.SECOND, rows.RESULT)
    is_part = any(op.params.get(f"{side}_first") or rows.moves_of(op, side) is not None for side in sides)
    if conv is not None and not is_part:
        found.channels[conv.x], found.channels[op.output] = conv.channels
        planes, innermost = conv.costs
        found.gains[conv.x] = found.gains.get(conv.x, 0.0) + planes - innermost
        found.join(op.output, *([conv.addend] if conv.addend else []))
    elif is_depthwise(program, op) and not is_part:
        found.channels[op.output] = op.params["outputs"]
        found.planes.add(op.inputs[2 if op.kernel.rows else 1])
    elif _is_mapped(program, op):
        operands = [name for name in op.inputs if program.tensors[name].role == Role.ARENA]
        found.join(op.output, *operands)
    elif op.kernel != FILL.form:  # one number everywhere
        found.planes |= {name for name in op.tensors if program.tensors[name].role in (Role.ARENA, Role.INPUT)}


def _is_mapped(program: Program, op: Op) -> bool:
    """Whether element n of the result needs element n of operands as large as it is, and constants as small as one."""
    if not is_elementwise(op):
        return False
    for at, name in enumerate(op.inputs):
        tensor = program.tensors[name]
        if tensor.role == Role.ARENA and tensor.count != program.tensors[op.output].count:
            return False
        if tensor.role != Role.ARENA and period_of(op, at) > 1:
            return False
    return True


def _overlapping(program: Program, plan: Plan, item: Op | Loop) -> set[str]:
    """The tensors of an operation or a loop that share bytes, but for results that are element by element in place."""
    touched = item.tensors if isinstance(item, Op) else tuple(n for op in walk(item.body) for n in op.tensors)
    places = [
        (plan.regions[name], plan.offsets[name], program.tensors[name].size_bytes, name)
        for name in dict.fromkeys(touched)
        if name in plan.offsets
    ]
    in_place = isinstance(item, Op) and KERNEL_OF[item.kernel].in_place
    found: set[str] = set()
    for n, (region, begin, size, name) in enumerate(places):
        for other_region, other_begin, other_size, other in places[n + 1 :]:
            apart = begin + size <= other_begin or other_begin + other_size <= begin
            same = (begin, size) == (other_begin, other_size)
            if region == other_region and not apart and not (same and in_place):
                found |= {name, other}
    return found
