"""What QuantizeLinear and DequantizeLinear become: steps between real numbers, their grid, and its codes as numbers.

FakeQuantize moves a value onto the grid scale * (code - zero); its result carries that format whatever an assignment
says. ToCodes shows the codes of such a value as numbers (ONNX's integers), FromCodes the value of codes. The last two
copy bytes; the front end leaves out all that only cancel each other. `offset` is what ONNX's unsigned integers exceed
ours by: 128 for uint8, 32768 for uint16. FloatCast states a format of few bits the same way (small_floats.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tinyhil.formats.affine import Affine
from tinyhil.formats.format import Format
from tinyhil.language.graph import Node, Shape, element_count
from tinyhil.language.lowering_context import Lowering
from tinyhil.language.program import Op, Tensor
from tinyhil.ops import small_floats, whole
from tinyhil.ops.movement import MOVE, block
from tinyhil.ops.operator import Arrays, Operator, by_domain
from tinyhil.ops.scan import COPY
from tinyhil.ops.small_floats import FLOAT_CAST, small_float

ATTRIBUTES = ("scale", "zero", "bits", "offset")
FAKE, TO_CODES, FROM_CODES = "FakeQuantize", "ToCodes", "FromCodes"


def grid_of(node: Node) -> Affine:
    """The format the attributes describe."""
    return Affine(int(node.attrs["bits"]), float(node.attrs["scale"]), int(node.attrs["zero"]))


def codes_format(bits: int, offset: int) -> Affine:
    """The format of ONNX's integers: their own numbers."""
    return Affine(bits, 1.0, -offset)


def stated(node: Node) -> Format | None:
    """The format that the result of `node` has by itself; None if it has none."""
    whole_format = whole.result_format(node)
    if whole_format is not None:
        return whole_format
    if node.op in (FAKE, FROM_CODES):
        return grid_of(node)
    if node.op == FLOAT_CAST:
        return small_float(node)
    return codes_format(int(node.attrs["bits"]), int(node.attrs["offset"])) if node.op == TO_CODES else None


def _infer(node: Node, shapes: Sequence[Shape], _: Sequence[np.ndarray | None]) -> list[Shape]:
    return [shapes[0]]


def nearest(x: np.ndarray, scale: np.ndarray | float, zero: np.ndarray | int, ends: tuple[int, int]) -> np.ndarray:
    """Codes (int64) as ONNX rounds them: the quotient in single precision, ties to even."""
    units = np.rint(x.astype(np.float32) / np.float32(scale)).astype(np.float64)
    return np.asarray(np.clip(units + zero, *ends), np.int64)


def _evaluate_fake(node: Node, arrays: Arrays) -> list[np.ndarray]:
    grid = grid_of(node)
    codes = nearest(arrays[0], grid.scale, grid.zero, (grid.lowest, grid.highest))
    return [(codes - grid.zero).astype(np.float32) * np.float32(grid.scale)]


def _evaluate_to(node: Node, arrays: Arrays) -> list[np.ndarray]:
    grid = grid_of(node)
    codes = nearest(arrays[0], grid.scale, grid.zero, (grid.lowest, grid.highest))
    return [(codes + int(node.attrs["offset"])).astype(np.float32)]


def _evaluate_from(node: Node, arrays: Arrays) -> list[np.ndarray]:
    zero = np.float32(int(node.attrs["zero"]) + int(node.attrs["offset"]))
    return [(arrays[0] - zero) * np.float32(node.attrs["scale"])]


def _converted(node: Node, lowering: Lowering, source: str, target: Tensor) -> None:
    """`target` takes the real numbers of `source`, rounded."""
    params = block(node, [target.count], [1], 0)
    fmt = lowering.tensors[source].format
    shift = target.format.exponent - fmt.exponent
    lowering.emit(node, Op(MOVE.form, node.name, (source,), target.name, {**params, "shift": shift}, 32))


def _lower_cast(node: Node, lowering: Lowering) -> None:
    """The stated format's own rounding; where memory is shared with others it is converted once more."""
    source, fmt = lowering.operand(node.inputs[0]), small_float(node)
    if lowering.format(node.outputs[0]) == fmt and lowering.tensors[source].format != fmt:
        _converted(node, lowering, source, lowering.define(node.outputs[0]))
        return
    _finish(node, lowering, fmt, _as(node, lowering, source, fmt))


def _as(node: Node, lowering: Lowering, source: str, fmt: Format) -> str:
    """A tensor with the real numbers of `source` in `fmt`: itself if it has that format."""
    tensor = lowering.tensors[source]
    if tensor.format == fmt:
        return source
    made = lowering.scratch(f"{node.outputs[0]}.grid", tensor.count, fmt)
    _converted(node, lowering, source, made)
    return made.name


def _finish(node: Node, lowering: Lowering, grid: Format, source: str) -> None:
    """The result shows `source`, which is in `grid`; where memory is shared with others it is converted once more."""
    if lowering.format(node.outputs[0]) == grid:
        lowering.alias(node.outputs[0], source)
    else:
        _converted(node, lowering, source, lowering.define(node.outputs[0]))


def _lower_fake(node: Node, lowering: Lowering) -> None:
    source, grid = lowering.operand(node.inputs[0]), grid_of(node)
    if lowering.tensors[source].format != grid and lowering.format(node.outputs[0]) == grid:
        _converted(node, lowering, source, lowering.define(node.outputs[0]))
        return
    _finish(node, lowering, grid, _as(node, lowering, source, grid))


def _lower_codes(node: Node, lowering: Lowering) -> None:
    """The same codes under another scale."""
    bits, offset = int(node.attrs["bits"]), int(node.attrs["offset"])
    formats = [grid_of(node), codes_format(bits, offset)]
    before, after = formats if node.op == TO_CODES else formats[::-1]
    source = _as(node, lowering, lowering.operand(node.inputs[0]), before)
    count = element_count(lowering.shape(node.outputs[0]))
    if lowering.format(node.outputs[0]) == after:
        made = lowering.define(node.outputs[0])
    else:
        made = replace(lowering.scratch(f"{node.outputs[0]}.codes", count, after))
    lowering.emit(node, Op(COPY.form, node.name, (source,), made.name, {"count": count}))
    if made.name != node.outputs[0]:
        _finish(node, lowering, after, made.name)


OPERATORS = (
    Operator(
        FAKE, "onto the grid of a scale and a zero point", _infer, _evaluate_fake, by_domain(_lower_fake), ATTRIBUTES
    ),
    Operator(
        TO_CODES, "the codes of a quantized value as numbers", _infer, _evaluate_to, by_domain(_lower_codes), ATTRIBUTES
    ),
    Operator(FROM_CODES, "the value that codes stand for", _infer, _evaluate_from, by_domain(_lower_codes), ATTRIBUTES),
    Operator(
        FLOAT_CAST,
        "to floats of 8 and 4 bits",
        _infer,
        small_floats.evaluate,
        by_domain(_lower_cast),
        small_floats.ATTRIBUTES,
    ),
)
