"""In which order each core reads the weights of each kind of layer: one row for every kernel of blocks.

The first row of VARIANTS that fits a layer is its own; a layer that none fits keeps its order, and the kernels that
every chip has. A new core is its name in rows; what it multiplies in another way is a row and a template.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from tinyhil.formats.fixed import Fixed
from tinyhil.formats.format import INTEGER
from tinyhil.language.form import Arithmetic, Joined, Weights
from tinyhil.language.lowering_context import loaded
from tinyhil.language.program import Blocks, Op, Program, Role, Tensor, walk
from tinyhil.ops import conv, linear
from tinyhil.ops.window import Window, window_of
from tinyhil.passes import lanes
from tinyhil.passes.binary_layers import LAYERS as SIGNED
from tinyhil.passes.binary_layers import MOST_TERMS, is_binary
from tinyhil.passes.raised import raised
from tinyhil.passes.stored import rows_of

WORD = Fixed(32, 0)
FEWEST_SIGNS, FEWEST_ROWS = 64, 8  # elements of a row, and rows: below, counting costs more than it saves
SUM_BITS = 32
BYTE_BITS = 8
PAIRED_BITS = 24  # of the sum of a row that shares products with another
ROWS_OF_AVR = 4  # in a block
PAIRED = 4  # rows together where two are read as numbers of 16 bits
NEVER = 2.0  # more than all
MULTIPLE = 4  # of the elements of a row, padded with zeros
CARRIED = (1 << 16) - 1  # what a part's sum takes over from those before it (firmware/kernels/arm/halves.hpp)
BAND = 8  # rows of results of a depthwise layer at a time
LINE = 4  # elements of a row of weights, and results, at once in depthwise layers along one axis
OF_A_COLUMN = 32  # of their results at a time in a column; a row is copied as a whole (memplan/arena/write_order.py)
LEFT_OUT = (0, -128)  # codes of 0 whose distances from other codes are one byte
DENSE, CONV = linear.DENSE.form.base, conv.CONV.form.base
AVR, M3, M0, DSP = ("avr",), ("cortex-m3",), ("cortex-m0plus",), ("cortex-m4", "cortex-m33", "cortex-m7")
COLUMNS = ("cortex-m4", "cortex-m33")  # where products and rounding are one piece of assembler
ARM = (*DSP, *M3)
CORES = (*AVR, *ARM, *M0)


@dataclass(frozen=True, slots=True)
class Layer:
    """An operation of a program, as the table asks for it."""

    program: Program
    op: Op

    @property
    def operands(self) -> tuple[Tensor, Tensor]:
        """Weights and what they are multiplied with."""
        weights, x = self.op.inputs[:2]
        return self.program.tensors[weights], self.program.tensors[x]

    @property
    def outputs(self) -> int:
        """Rows of weights."""
        return int(self.op.params["outputs"])

    @property
    def window(self) -> Window:
        """Of a convolution."""
        return window_of(self.op.params)

    @property
    def terms(self) -> int:
        """Elements of a row of weights, of a layer without groups."""
        return int(self.op.params["inner"]) if is_dense(self) else self.window.channels * self.window.positions

    @property
    def codes(self) -> np.ndarray:
        """The weights."""
        return self.program.constants[self.op.inputs[0]]


@dataclass(frozen=True, slots=True)
class Scratch:
    """Bytes that the kernel of a layer needs, and those for one row of results."""

    size: int
    of_a_row: int = 0


@dataclass(frozen=True, slots=True)
class Variant:
    """A row: on these `cores` layers of one of the `bases` for which all of `when` holds have their weights in this
    `order` and need this `scratch`; `template` in firmware/kernels/ reads them.

    `leaves_out`: the share of zeros in its input from which on a layer is faster if its kernel tests every element.
    `long_row`: elements of a row from which on PAIRED rows go together, where sums permit that two are read as numbers
    of 16 bits; 0: never two.
    """

    cores: tuple[str, ...]
    bases: tuple[str, ...]
    when: tuple[Callable[[Layer], bool], ...]
    order: Callable[[Layer], Blocks]
    scratch: Callable[[Layer], Scratch] | None
    template: str
    leaves_out: float = NEVER
    long_row: int = 0


def variant_of(layer: Layer, core: str) -> Variant | None:
    """The first row that fits; None without one, or if somebody else reads the weights."""
    op = layer.op
    if op.kernel.weights is not Weights.PLAIN or op.kernel.base not in (DENSE, CONV):
        return None
    if sum(op.inputs[0] in one.inputs for one in walk(layer.program.body)) > 1:
        return None
    rows = (row for row in VARIANTS if core in row.cores and op.kernel.base in row.bases)
    return next((row for row in rows if all(holds(layer) for holds in row.when)), None)


def blocks_of(layer: Layer, row: Variant) -> Blocks:
    """How the weights lie: in the row's order, with what its kernel may do beside that for these very numbers."""
    blocks = replace(row.order(layer), raised=raised(layer.program, layer.op))
    if row.long_row and blocks.together > 1 and can_be_paired(layer):
        outputs, *window = blocks.axes
        pays = outputs % PAIRED == 0 and math.prod(window) >= row.long_row
        blocks = replace(blocks, paired=True, together=max(PAIRED, blocks.together) if pays else blocks.together)
    return replace(blocks, left_out=left_out(layer, row))


def left_out(layer: Layer, row: Variant) -> int | None:
    """The code whose products the kernel of a layer leaves out; None if calibration saw too few of them."""
    x = layer.operands[1]
    if x.zeros < row.leaves_out or x.format.grid is None:
        return None
    return x.format.grid[1] if x.format.grid[1] in LEFT_OUT else None


# --- When


def is_dense(layer: Layer) -> bool:
    """A product with a matrix."""
    return layer.op.kernel.base == DENSE


def of_bits(layer: Layer) -> bool:
    """Weights -s and s, and bytes beside them."""
    op, (weights, x) = layer.op, layer.operands
    sums = op.kernel.bare in SIGNED and op.accumulator_bits <= SUM_BITS and op.crossbar is None
    if not sums or op.domain != INTEGER:
        return False
    terms = weights.count // layer.outputs
    return is_whole(layer) and terms <= MOST_TERMS and is_binary(weights) and _is_byte(x)


def of_bytes(layer: Layer) -> bool:
    """Constant bytes times bytes, in integer sums of at most 32 bits that blocks can round: into units of a power of
    two, or with what the kernels of asymmetric layers have for each row."""
    op, (weights, x) = layer.op, layer.operands
    rounds = layer.program.tensors[op.output].format.is_binary_point or is_rescaled(layer)
    if op.accumulator_bits > SUM_BITS or op.domain != INTEGER or not rounds:
        return False
    if op.kernel.joined is Joined.PAIR and not has_signs(layer):
        return False
    are_bytes = _is_byte(weights, full=True) or raised(layer.program, op) is not None
    return weights.role == Role.CONSTANT and are_bytes and _is_byte(x)


def of_signed_bytes(layer: Layer) -> bool:
    """Of weights that are their bytes, and operands that have a sign."""
    return of_bytes(layer) and raised(layer.program, layer.op) is None and has_signs(layer)


def has_signs(layer: Layer) -> bool:
    """No operand needs a byte without a sign."""
    return not any(layer.program.tensors[name].format.is_unsigned_byte for name in layer.op.inputs)


def of_halves(layer: Layer) -> bool:
    """Weights or operand of more than 8 bits, at most 16, in sums of 32 bits or wider ones that are rounded to them."""
    op, (weights, x) = layer.op, layer.operands
    formats = [tensor.format for tensor in (weights, x, layer.program.tensors[op.output])]
    integers = op.domain == INTEGER and all(fmt.is_binary_point and not fmt.is_sign for fmt in formats)
    if not integers or weights.role != Role.CONSTANT or not 8 <= weights.format.bits <= 16 or x.format.bits > 16:
        return False
    if op.kernel.arithmetic is Arithmetic.AFFINE or op.crossbar is not None:
        return False
    return is_narrow(layer) or (weights.format.bits > 8 and _is_rounded_to_32_bits(op))


def is_narrow(layer: Layer) -> bool:
    """Sums of at most 32 bits."""
    return layer.op.accumulator_bits <= SUM_BITS


def is_rescaled(layer: Layer) -> bool:
    """Rounded by a multiplier of its own for each row."""
    return "zero" in layer.op.params


def is_whole(layer: Layer) -> bool:
    """Every output reads every channel."""
    return bool(layer.op.params.get("groups", 1) == 1)


def is_depthwise(layer: Layer) -> bool:
    """Every output reads one channel."""
    p = layer.op.params
    return bool(p["groups"] == p["channels"] == p["outputs"])


def is_line(layer: Layer) -> bool:
    """A window that moves over a row or a column of its planes, which is all of them (arm/depthwise_line.hpp)."""
    w = layer.window
    down = (w.width, w.kernel_x, w.pad_x, w.out_width) == (1, 1, 0, 1)
    across = (w.height, w.kernel_y, w.pad_y, w.out_height) == (1, 1, 0, 1)
    strides = w.stride_y == w.stride_x == w.dilation_y == w.dilation_x == 1
    return (down or across) and strides and w.positions > 1


def is_three(layer: Layer) -> bool:
    """A window of 3 x 3 without holes."""
    w = layer.window
    return (w.kernel_y, w.kernel_x, w.dilation_y, w.dilation_x) == (3, 3, 1, 1) and w.stride_x <= 2 and w.pad_x <= 2


def two_rows(layer: Layer) -> bool:
    """At least two outputs."""
    return layer.outputs >= 2


def above_least(layer: Layer) -> bool:
    """No weight is the least of its byte, and rows are whole words that are worth counting signs before
    (firmware/kernels/arm/lanes.hpp: `Step` 4)."""
    worth = layer.terms % 4 == 0 and layer.terms >= FEWEST_SIGNS and layer.outputs >= FEWEST_ROWS
    return worth and bool(layer.codes.min() > -lanes.ABOVE)


def four_rows(layer: Layer) -> bool:
    """At least four outputs."""
    return layer.outputs >= 4


def pair_left(layer: Layer) -> bool:
    """After blocks of four rows one or two are left."""
    return layer.outputs % 4 in (1, 2)


def has_wide_weights(layer: Layer) -> bool:
    """Weights of more than 8 bits."""
    return layer.operands[0].format.bits > BYTE_BITS


def has_many_rows(layer: Layer) -> bool:
    """A product with several rows, of whole words of halfwords, and no second product beside it."""
    p = layer.op.params
    return bool(p["rows"] > 1 and p["inner"] % MULTIPLE == 0 and "more_inner" not in p)


def has_wide_operand(layer: Layer) -> bool:
    """An operand of more than 8 bits."""
    return layer.operands[1].format.bits > BYTE_BITS


def rows_of_three_fit(layer: Layer) -> bool:
    """32 bits hold the sums of three products."""
    by_rows = np.abs(layer.codes.astype(np.int64)).reshape(-1, 3).sum(axis=1)
    return bool(by_rows.max() <= _most_weight(layer, 0))


def parts_fit(layer: Layer) -> bool:
    """32 bits hold the sum of any two products that follow each other, and what was carried."""
    codes = rows_of(layer.codes, channels_last(4, 1)(layer))
    return bool(np.abs(codes).reshape(-1, 2).sum(axis=1).max() <= _most_weight(layer, CARRIED))


def lanes_fit(layer: Layer) -> bool:
    """16 bits hold the sum of two products of any weights that share a factor."""
    return lanes.fit_lanes(layer.codes, channels_last(1, 2)(layer))


def windows_fit(layer: Layer) -> bool:
    """The same of windows of 3 x 3."""
    return lanes.fit_windows(layer.codes)


def can_be_paired(layer: Layer) -> bool:
    """Whether weight + 256 * weight is a number of 16 bits, and the sum of a row one of PAIRED_BITS."""
    op, above, outputs = layer.op, raised(layer.program, layer.op), layer.outputs
    if above is None and has_wide_weights(layer):
        return False
    weights = layer.codes.astype(np.int64).reshape(outputs, -1)
    stored = weights[: outputs - outputs % 2] - (above or 0)
    if (stored[::2] + (stored[1::2] << BYTE_BITS)).min(initial=0) < -(1 << 2 * BYTE_BITS - 1):
        return False
    if not is_rescaled(layer):
        return op.accumulator_bits <= PAIRED_BITS
    rows = weights[1::2]  # whose products alone are told apart
    most = np.abs(rows << op.params.get("lift", 0)).sum(axis=1) << BYTE_BITS - 1
    if is_dense(layer) and op.kernel.joined is not Joined.PAIR:  # its sums begin with their biases
        most += np.abs(layer.program.constants[op.inputs[2]].reshape(outputs, -1)[1::2, 0])
    return bool(most.max(initial=0) < 1 << PAIRED_BITS - 1)


def _most_weight(layer: Layer, carried: int) -> int:
    return int(((1 << SUM_BITS - 1) - 1 - carried) // -loaded(layer.operands[1].format).lowest)


def _is_rounded_to_32_bits(op: Op) -> bool:
    """Whether a wide sum is shifted right until 32 bits hold it, and what joins it is a product with 2^30 at most."""
    shift = op.params.get("shift", 0)
    joins = max(op.params.get("bias_shift", 0), op.params.get("add_shift", 0))
    return 1 <= shift <= 31 and op.accumulator_bits - shift <= SUM_BITS and joins <= 30


def _is_byte(tensor: Tensor, *, full: bool = False) -> bool:
    """Stored as a byte, of either kind; `full`: not packed in flash."""
    fmt = tensor.format
    return fmt.grid is not None and (fmt.bits == 8 or (fmt.bits < 8 and not full))


# --- Orders of weights


def bits(word: int) -> Callable[[Layer], Blocks]:
    """Each row whole words of so many bits."""

    def order(layer: Layer) -> Blocks:
        return Blocks(1, 1, 1, (layer.outputs, layer.operands[0].count // layer.outputs), (1,), word=word)

    return order


def rows(together: int, step: int, multiple: int, rest: int) -> Callable[[Layer], Blocks]:
    """`together` rows, `step` elements of each in turn; behind the last whole block blocks of `rest` rows."""

    def order(layer: Layer) -> Blocks:
        return Blocks(together, step, multiple, (layer.outputs, layer.terms), (1,), rest)

    return order


def channels_last(together: int, step: int) -> Callable[[Layer], Blocks]:
    """The same of windows, whose lines of all channels follow each other."""

    def order(layer: Layer) -> Blocks:
        w = layer.window
        return Blocks(together, step, MULTIPLE, (layer.outputs, w.channels, w.kernel_y, w.kernel_x), (2, 1, 3))

    return order


def in_parts(layer: Layer) -> Blocks:
    """Four rows in turn, in parts whose sums 32 bits hold."""
    return replace(channels_last(4, 1)(layer), part=_most_weight(layer, CARRIED))


def in_lanes(plain: Callable[[Layer], Blocks]) -> Callable[[Layer], Blocks]:
    """An order of bytes of which two are one factor (tinyhil/passes/lanes.py)."""
    return lambda layer: replace(plain(layer), lanes=True)


def by_channel(step: int, multiple: int) -> Callable[[Layer], Blocks]:
    """One row for each channel, and all of it in turn."""

    def order(layer: Layer) -> Blocks:
        return Blocks(1, step, multiple, (layer.outputs, layer.window.positions), (1,))

    return order


# --- Scratch


def patches(layer: Layer) -> Scratch:
    """The patches of two pixels, as blocks read them (firmware/kernels/arm/patches.hpp)."""
    stored = [tensor.format.storage_bytes for tensor in layer.operands]
    stored[0] = stored[0] if raised(layer.program, layer.op) is None else 1
    return Scratch(_two_patches(layer, max(stored), 8))


def halfword_patches(layer: Layer) -> Scratch:
    """Patches of numbers of 16 bits, and where they are copied before they are expanded."""
    copied = 2 * (_inner(layer) + 4) * layer.operands[1].format.storage_bytes
    return Scratch(_two_patches(layer, 2, copied))


def _inner(layer: Layer) -> int:
    return -(-layer.terms // MULTIPLE) * MULTIPLE


def _two_patches(layer: Layer, element_bytes: int, beside: int) -> int:
    w, size = layer.window, 2 * _inner(layer) * element_bytes
    return size if w.positions == 1 and w.pad_y == w.pad_x == 0 else size + beside


def stretches(layer: Layer) -> Scratch:
    """Results and weights of one line (firmware/kernels/arm/depthwise_line.hpp)."""
    w = layer.window

    def of_rows(most: int) -> int:
        outputs = max(w.out_width, min(w.out_height, OF_A_COLUMN, most))
        return sum(-(-count // LINE) * LINE for count in (outputs, w.positions))

    return Scratch(of_rows(w.out_height), of_rows(1))


def lines(layer: Layer) -> Scratch:
    """Lines of one channel under a band of rows of results (firmware/kernels/arm/depthwise.hpp)."""
    w, element_bytes = layer.window, layer.operands[1].format.storage_bytes
    line = -(-(-(-w.out_width // 2) * 2 * w.stride_x + 2) // 4) * 4

    def of_rows(most: int) -> int:
        return element_bytes * line * ((min(w.out_height, BAND, most) - 1) * w.stride_y + 3)

    return Scratch(of_rows(w.out_height), of_rows(1))


def lines_or_columns(layer: Layer) -> Scratch:
    """The same, or a word for each row of the plane (firmware/kernels/arm/rescaled_columns.hpp)."""
    by_lines = lines(layer)
    return replace(by_lines, size=max(by_lines.size, WORD.storage_bytes * int(layer.op.params["height"])))


def lane_patches(layer: Layer) -> Scratch:
    """A row of weights and the patches of some pixels, widened (firmware/kernels/arm/lanes.hpp)."""
    return Scratch(lanes.scratch_bytes(layer.window))


def lane_lines(layer: Layer) -> Scratch:
    """Lines of one channel, widened (firmware/kernels/arm/lane_windows.hpp)."""
    w = layer.window
    return Scratch(lanes.band_bytes(w, w.out_height), lanes.band_bytes(w, 1))


# --- The table. A test of an element costs 2 to 3 cycles on an AVR and saves 31 of its 40 (avr/dense_avr.hpp); on the
# Cortex-M7 one of four costs more than it saves in all of the zoo (docs/training.md), and larger blocks of shorter rows
# cost MobileNetV1 4 %.
_BOTH, _DENSE, _CONV = (DENSE, CONV), (DENSE,), (CONV,)
_WHOLE, _WHOLE_HALVES = (of_bytes, is_whole, two_rows), (of_halves, is_whole, two_rows)
_OF_BLOCKS, _OF_HALVES = "arm/conv_blocks.hpp", "arm/halves.hpp"
_LANES, _WINDOWS = "arm/lanes.hpp", "arm/lane_windows.hpp"
_IN_PAIRS = (of_signed_bytes, is_whole, two_rows, lanes_fit)
_BYTE_CHANNELS, _HALF_CHANNELS = (of_bytes, is_depthwise, is_three), (of_halves, is_depthwise, is_three)
_NINE, _DEPTHWISE = by_channel(9, 1), "arm/depthwise.hpp"
VARIANTS = (
    Variant(AVR, _BOTH, (of_bits, has_signs), bits(8), None, "common/binary_rows.hpp"),
    Variant((*ARM, *M0), _BOTH, (of_bits, has_signs), bits(32), None, "common/binary_rows.hpp"),
    Variant(
        AVR,
        _BOTH,
        (of_bytes, has_signs, is_whole, four_rows),
        rows(ROWS_OF_AVR, 1, 1, 1),
        None,
        "avr/dense_avr.hpp",
        leaves_out=0.1,
    ),
    Variant(
        M3, _DENSE, (of_bytes, two_rows, pair_left), rows(8, 1, 1, 2), None, "arm/dense_blocks.hpp", leaves_out=0.1
    ),
    Variant(M3, _DENSE, (of_bytes, two_rows), rows(8, 1, 1, 4), None, "arm/dense_blocks.hpp", leaves_out=0.1),
    Variant(DSP, _DENSE, (of_bytes, two_rows), rows(4, 4, 4, 4), None, "arm/dense_blocks.hpp", long_row=64),
    Variant(
        DSP,
        _DENSE,
        (of_halves, has_many_rows, two_rows, has_wide_weights),
        rows(2, 2, MULTIPLE, 0),
        None,
        "arm/dense_rows.hpp",
    ),
    Variant(
        ARM,
        _CONV,
        (of_bytes, has_signs, is_depthwise, is_line),
        by_channel(LINE, LINE),
        stretches,
        "arm/depthwise_line.hpp",
    ),
    Variant(COLUMNS, _CONV, (*_BYTE_CHANNELS, is_rescaled), _NINE, lines_or_columns, "arm/rescaled_columns.hpp"),
    Variant(ARM, _CONV, _BYTE_CHANNELS, _NINE, lines, _DEPTHWISE),
    Variant(M3, _CONV, _WHOLE, channels_last(4, 1), patches, _OF_BLOCKS, leaves_out=0.5),
    Variant(COLUMNS, _CONV, (*_WHOLE, is_rescaled), channels_last(2, 4), halfword_patches, _OF_BLOCKS, long_row=1),
    Variant(DSP, _CONV, _WHOLE, channels_last(2, 4), halfword_patches, _OF_BLOCKS, long_row=64),
    Variant(ARM, _CONV, (*_HALF_CHANNELS, is_narrow), _NINE, lines, _DEPTHWISE),
    Variant(M3, _CONV, (*_HALF_CHANNELS, has_wide_operand, rows_of_three_fit), _NINE, lines, _DEPTHWISE),
    Variant(DSP, _CONV, (*_HALF_CHANNELS, has_wide_operand), _NINE, lines, _DEPTHWISE),
    Variant(M3, _CONV, (*_WHOLE_HALVES, is_narrow), channels_last(4, 1), patches, _OF_HALVES),
    Variant(M3, _CONV, (*_WHOLE_HALVES, parts_fit), in_parts, patches, _OF_HALVES),
    Variant(DSP, _CONV, (*_WHOLE_HALVES, has_wide_weights), channels_last(2, 2), halfword_patches, _OF_HALVES),
    Variant(DSP, _CONV, _WHOLE_HALVES, channels_last(2, 4), halfword_patches, _OF_HALVES, long_row=64),
    Variant(M0, _DENSE, (of_signed_bytes, above_least), in_lanes(rows(4, 4, 1, 4)), None, _LANES),
    Variant(M0, _DENSE, (of_signed_bytes, two_rows), in_lanes(rows(4, 1, 1, 4)), None, _LANES),
    Variant(M0, _CONV, (of_signed_bytes, is_depthwise, is_three, windows_fit), in_lanes(_NINE), lane_lines, _WINDOWS),
    Variant(M0, _CONV, _IN_PAIRS, in_lanes(channels_last(1, 2)), lane_patches, _LANES),
)
