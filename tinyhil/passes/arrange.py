"""Program -> the program for one kind of chip: weights stored in the order in which its kernels read them.

A pass between lowering and planning. Nothing a program computes changes: its constants stay in the order of their
kernels, for the reference; `Tensor.blocks` says how they lie in flash, and the scratch of a convolution becomes what
its blocks need for the patches of two pixels (firmware/kernels/arm/patches.hpp). What a chip has no blocks for stays.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np

from tinyhil.compiler_pass import Pass, Stage, fold
from tinyhil.formats.fixed import Fixed
from tinyhil.formats.format import INTEGER
from tinyhil.language.form import Arithmetic, Joined, Weights
from tinyhil.language.program import Blocks, Op, Program, Role, Tensor, walk
from tinyhil.ops import conv, linear
from tinyhil.ops.window import Window, window_of
from tinyhil.passes.affine_layers import bias_of_pair, bias_of_rows, records_of_rows, sums_are_below
from tinyhil.passes.binary_layers import LAYERS as SIGNED
from tinyhil.passes.binary_layers import MOST_TERMS, is_binary, with_signs
from tinyhil.passes.code_tables import with_tables
from tinyhil.passes.constant_channels import without_constant_channels
from tinyhil.passes.folded import folded
from tinyhil.passes.layout import with_input_as_it_is
from tinyhil.passes.linear_sums import with_linear_forms
from tinyhil.passes.raised import raised
from tinyhil.passes.ranges import without_needless_clipping
from tinyhil.passes.rescalings import LARGEST_SUM, with_records
from tinyhil.passes.stored import rows_of
from tinyhil.passes.streams import with_streams
from tinyhil.references.verify import faults_of_program

WORD = Fixed(32, 0)
SUM_BITS = 32
BYTE_BITS = 8
PAIRED_BITS = 24  # of the sum of a row that shares products with another
NEVER = 2.0  # more than all
MULTIPLE = 4  # of the elements of a row, padded with zeros
CARRIED = (1 << 16) - 1  # what a part's sum takes over from those before it (firmware/kernels/arm/halves.hpp)
BAND = 8  # rows of results of a depthwise layer at a time
LINE = 4  # elements of a row of weights, and results, at once in depthwise layers along one axis
OF_A_COLUMN = 32  # of their results at a time in a column; a row is copied as a whole (memplan/arena/write_order.py)


@dataclass(frozen=True, slots=True)
class Chip:
    """Rows and elements of the blocks of a core (firmware/kernels/arm/blocks.hpp, halves.hpp, dense_blocks.hpp).

    `halfwords`: blocks multiply pairs of 16 bits, so patches are copied and then expanded; else elements as they are.
    `dense`: rows, elements of each in turn, what elements are padded to a multiple of, rows of the blocks of the rest.
    `paired`: where their sums permit it two rows are read as numbers of 16 bits, so many rows together in convolutions
    of whole blocks whose rows have `long_row` elements, or `long_rescaled_row` where records rescale them; 0: never.
    `columns`: depthwise layers that are rescaled so have a word of scratch for each row (arm/rescaled_columns.hpp).
    `doubles`: the sums of convolutions of asymmetric integers are doubled before they are rescaled. `zeros`: the share
    of zeros in its input from which on a layer is faster if its kernel tests every element; of dense layers, and of
    convolutions, whose kernels on ARM test the elements of two pixels at once.
    """

    together: int
    step: int
    dense: tuple[int, int, int, int]
    halfwords: bool = False
    paired: int = 0
    long_row: int = 64
    long_rescaled_row: int = 64
    columns: bool = False
    doubles: bool = False
    zeros: tuple[float, float] = (NEVER, NEVER)


# On the Cortex-M7 a test of four elements costs more than it saves, in all of the zoo (docs/training.md).
DSP = Chip(together=2, step=4, dense=(4, 4, 4, 4), halfwords=True, paired=4, doubles=True)
CHIPS = {
    "cortex-m4": replace(DSP, long_rescaled_row=1, columns=True),  # products and rounding are one piece of assembler
    "cortex-m33": replace(DSP, long_rescaled_row=1, columns=True),  # the same instructions
    "cortex-m7": DSP,  # larger blocks of shorter rows cost MobileNetV1 4 %
    "cortex-m3": Chip(together=4, step=1, dense=(8, 1, 1, 4), zeros=(0.1, 0.5)),
}
# A test costs 2 to 3 cycles, a zero saves 31 of the 40 of an element (firmware/kernels/avr/dense_avr.hpp).
AVR = Chip(together=4, step=1, dense=(4, 1, 1, 1), zeros=(0.1, 0.1))
LEFT_OUT = (0, -128)  # codes of 0 whose distances from other codes are one byte
CORES = ("avr", *CHIPS)
LAYERS = (linear.DENSE.form.base, conv.CONV.form.base)


def _for_avr(program: Program, chip: Chip) -> Program:
    return with_streams(program) if chip is AVR else program


def _for_arm(program: Program, chip: Chip) -> Program:
    if chip is AVR:
        return program
    return with_records(program, chip.doubles, lambda op: _has_blocks(program, op, chip))


def arrange(program: Program, core: str, without: Collection[str] = ()) -> Program:
    """`program` as it is stored and planned on a chip with this core; the same object if nothing changes. `without`:
    names of passes to leave out."""
    return fold(ON_CORE, program, CHIPS.get(core, AVR), without=without) if core in CORES else program


def _ordered(program: Program, chip: Chip) -> Program:
    """Weights as the chip's kernels read them, and what these need beside them."""
    tensors = dict(program.tensors)
    for op in walk(program.body):
        if _is_binary(program, op):
            axes = (op.params["outputs"], tensors[op.inputs[0]].count // op.params["outputs"])
            rows = Blocks(1, 1, 1, axes, (1,), word=8 if chip is AVR else 32)
            tensors[op.inputs[0]] = replace(tensors[op.inputs[0]], blocks=rows)
    for op in walk(program.body):
        if _is_pair(op):
            tensors |= _pair_in_blocks(program, op, chip)
            continue
        blocks = _blocks_of(program, op, chip)
        if blocks is None or (
            op.kernel.arithmetic is Arithmetic.AFFINE and not (chip is AVR and sums_are_below(program, op, LARGEST_SUM))
        ):
            continue
        name = op.inputs[0]
        blocks = replace(blocks, raised=raised(program, op))
        if chip.paired and blocks.together > 1 and _can_be_paired(program, op):
            blocks = _paired(blocks, chip, chip.long_rescaled_row if "zero" in op.params else chip.long_row)
        if blocks.together > 1 and _is_of_bytes(program, op):
            blocks = replace(blocks, left_out=_left_out(program, op, chip))
        if "zero" in op.params:
            stored = (bias_of_rows if chip is AVR else records_of_rows)(program, op, blocks)
            tensors[op.inputs[2]] = replace(tensors[op.inputs[2]], stored=stored)
        tensors[name] = replace(tensors[name], blocks=blocks)
        if not op.scratch or chip is AVR:
            continue
        size, of_a_row = _patch_bytes(program, op, chip), 0
        if _is_depthwise(op):
            size, of_a_row = (_line_bytes(program, op, most) for most in (op.params["out_height"], 1))
            by_columns = chip.columns and "zero" in op.params and blocks.step != LINE
            size = max(size, WORD.storage_bytes * op.params["height"] if by_columns else 0)
        words, row_words = (-(-count // WORD.storage_bytes) for count in (size, of_a_row))
        tensors[op.scratch] = replace(tensors[op.scratch], count=words, row_count=row_words, format=WORD)
    return program if tensors == program.tensors else replace(program, tensors=tensors)


SAME = "same integers"
LOWERED = Stage("lowered program, and a core", faults_of_program)
ON_CORE: tuple[Pass[Program], ...] = (
    Pass(
        "constant-channels",
        "channels of asymmetric integers that are one code whatever comes in are left out",
        LOWERED,
        f"{SAME}; fewer channels, other biases",
        lambda program, _: without_constant_channels(program),
    ),
    Pass(
        "tables",
        "functions of 8-bit operands become tables of their codes",
        LOWERED,
        f"{SAME}; look-ups",
        lambda program, _: with_tables(program),
    ),
    Pass(
        "folds",
        "sums with constants and functions of functions become one table",
        LOWERED,
        f"{SAME}; fewer operations in loops",
        lambda program, _: folded(program),
    ),
    Pass(
        "linear-sums",
        "functions of asymmetric sums with constants become tables of linear forms",
        LOWERED,
        f"{SAME}, proven for every code; fewer operations in loops",
        lambda program, _: with_linear_forms(program),
    ),
    Pass(
        "ranges",
        "results that are proven to be within their format are not clipped",
        LOWERED,
        SAME,
        lambda program, _: without_needless_clipping(program),
    ),
    Pass(
        "signs",
        "layers of signs and binary weights count differing bits",
        LOWERED,
        f"{SAME}; weights as bits, scratch for those of the operand",
        lambda program, chip: with_signs(program, 8 if chip is AVR else 32),
    ),
    Pass("streams", "on an AVR, sparse weights become one stream of bytes", LOWERED, SAME, _for_avr),
    Pass("records", "on ARM, bias, multiplier and shift of an output become one record", LOWERED, SAME, _for_arm),
    Pass(
        "blocks",
        "weights lie in flash as the core's kernels read them",
        LOWERED,
        f"{SAME}; constants in another order, scratch as blocks of sums need it",
        _ordered,
    ),
    Pass(
        "input",
        "a sample that comes with channels innermost is read as it is, if one convolution alone reads it",
        LOWERED,
        f"{SAME}; one operation less",
        lambda program, _: with_input_as_it_is(program),
    ),
)


def _has_blocks(program: Program, op: Op, chip: Chip) -> bool:
    return bool(_pair_in_blocks(program, op, chip)) if _is_pair(op) else _blocks_of(program, op, chip) is not None


def _is_pair(op: Op) -> bool:
    return op.kernel.joined is Joined.PAIR


def _is_dense(op: Op) -> bool:
    return op.kernel.base == linear.DENSE.form.base


def _pair_in_blocks(program: Program, op: Op, chip: Chip) -> dict[str, Tensor]:
    """The weights of both products of a pair, arranged alike; none if one of them can not be."""
    p, made = op.params, dict[str, Tensor]()
    for at, inner in ((0, p["inner"]), (len(op.inputs) - 2, p["more_inner"])):
        names = op.inputs[at : at + 2]
        alone = replace(op, kernel=linear.DENSE.form, inputs=names, params={**p, "inner": inner})
        blocks = _blocks_of(program, alone, chip) if names[0] not in made else None
        if blocks is None:
            return {}
        if chip is AVR and "zero" not in p:
            blocks = replace(blocks, left_out=_left_out(program, alone, chip))
        made[names[0]] = replace(program.tensors[names[0]], blocks=blocks)
    if chip is AVR and "zero" in p:
        stored = bias_of_pair(program, op, chip.together)
        return made | {op.inputs[2]: replace(program.tensors[op.inputs[2]], stored=stored)}
    if chip.paired and all(_can_be_paired(program, replace(op, inputs=(name,))) for name in made):
        made = {name: replace(t, blocks=replace(t.blocks, paired=True)) for name, t in made.items() if t.blocks}
    return made


def _blocks_of(program: Program, op: Op, chip: Chip) -> Blocks | None:
    """The order of the weights of an operation; None if its chip has no blocks for it, or somebody else reads them."""
    is_layer = op.kernel.base in LAYERS and op.kernel.weights is Weights.PLAIN
    if not is_layer or _is_shared(program, op.inputs[0]):
        return None
    if not _is_of_bytes(program, op):
        return None if _is_dense(op) or chip is AVR else _halves_of(program, op, chip)
    if _is_dense(op):
        together, step, multiple, rest = chip.dense
        axes = (op.params["outputs"], op.params["inner"])
        if together > rest > 1 and axes[0] % 4 in (1, 2):
            rest = 2
        return Blocks(together, step, multiple, axes, (1,), rest) if axes[0] >= (2 if rest > 1 else together) else None
    w, outputs, groups = window_of(op.params), op.params["outputs"], op.params["groups"]
    if chip is AVR:
        if groups != 1 or outputs < chip.together:
            return None
        return Blocks(chip.together, 1, 1, (outputs, w.channels * w.positions), (1,), 1)
    if _is_depthwise(op):
        return _blocks_of_depthwise(op)
    if groups != 1 or outputs < 2:
        return None
    return Blocks(chip.together, chip.step, MULTIPLE, (outputs, w.channels, w.kernel_y, w.kernel_x), (2, 1, 3))


def _blocks_of_depthwise(op: Op) -> Blocks | None:
    """One row per channel and all of it in turn, for windows of 3 x 3 and, of bytes, for those along one axis."""
    w = window_of(op.params)
    if _is_line(w):
        return Blocks(1, LINE, LINE, (op.params["outputs"], w.positions), (1,))
    known = (w.kernel_y, w.kernel_x, w.dilation_y, w.dilation_x) == (3, 3, 1, 1)
    return Blocks(1, 9, 1, (op.params["outputs"], 9), (1,)) if known and w.stride_x <= 2 and w.pad_x <= 2 else None


def _is_line(w: Window) -> bool:
    """Whether a window moves over a row or a column of its planes, which is all of them (arm/depthwise_line.hpp)."""
    down = (w.width, w.kernel_x, w.pad_x, w.out_width) == (1, 1, 0, 1)
    across = (w.height, w.kernel_y, w.pad_y, w.out_height) == (1, 1, 0, 1)
    strides = w.stride_y == w.stride_x == w.dilation_y == w.dilation_x == 1
    return (down or across) and strides and w.positions > 1


def _halves_of(program: Program, op: Op, chip: Chip) -> Blocks | None:
    """The order of the weights of a convolution where they or its operand have more than 8 bits (arm/halves.hpp)."""
    weights, x, out = (program.tensors[name] for name in (*op.inputs[:2], op.output))
    integers = op.domain == INTEGER and all(
        t.format.is_binary_point and not t.format.is_sign for t in (weights, x, out)
    )
    if not integers or weights.role != Role.CONSTANT or not 8 <= weights.format.bits <= 16 or x.format.bits > 16:
        return None
    if op.kernel.arithmetic is Arithmetic.AFFINE or op.crossbar is not None:
        return None
    w, wide = window_of(op.params), op.accumulator_bits > SUM_BITS
    if wide and (weights.format.bits == 8 or not _is_rounded_to_32_bits(op)):
        return None
    most = ((1 << SUM_BITS - 1) - 1) >> (x.format.bits - 1)
    if _is_depthwise(op):
        found = _blocks_of_depthwise(op) if not _is_line(w) else None
        if found is None or not wide:
            return found
        by_rows = np.abs(program.constants[op.inputs[0]].astype(np.int64)).reshape(-1, 3).sum(axis=1)
        return found if x.format.bits > 8 and (chip.halfwords or by_rows.max() <= most) else None
    if op.params["groups"] != 1 or op.params["outputs"] < 2:
        return None
    step = 2 if chip.halfwords and weights.format.bits > 8 else chip.step
    found = Blocks(chip.together, step, MULTIPLE, (op.params["outputs"], w.channels, w.kernel_y, w.kernel_x), (2, 1, 3))
    if not wide or chip.halfwords:
        return found
    part = ((1 << SUM_BITS - 1) - 1 - CARRIED) >> (x.format.bits - 1)
    codes = rows_of(program.constants[op.inputs[0]], found)
    return replace(found, part=part) if np.abs(codes).reshape(-1, 2).sum(axis=1).max() <= part else None


def _is_rounded_to_32_bits(op: Op) -> bool:
    """Whether a wide sum is shifted right until 32 bits hold it, and what joins it is a product with 2^30 at most."""
    shift = op.params.get("shift", 0)
    joins = max(op.params.get("bias_shift", 0), op.params.get("add_shift", 0))
    return 1 <= shift <= 31 and op.accumulator_bits - shift <= SUM_BITS and joins <= 30


def _left_out(program: Program, op: Op, chip: Chip) -> int | None:
    """The code whose products the kernel of a layer leaves out; None if calibration saw too few of them."""
    x, (of_dense, of_convolution) = program.tensors[op.inputs[1]], chip.zeros
    if x.zeros < (of_dense if _is_dense(op) else of_convolution) or x.format.grid is None:
        return None
    return x.format.grid[1] if x.format.grid[1] in LEFT_OUT else None


def _is_binary(program: Program, op: Op) -> bool:
    """Whether a layer has weights -s and s, which nobody else reads, and bytes beside them."""
    if (
        op.kernel.bare not in SIGNED
        or op.accumulator_bits > SUM_BITS
        or op.crossbar is not None
        or op.domain != INTEGER
    ):
        return False
    weights, x = (program.tensors[name] for name in op.inputs[:2])
    terms = weights.count // op.params["outputs"]
    fits = op.params.get("groups", 1) == 1 and terms <= MOST_TERMS
    return fits and is_binary(weights) and _is_byte(x) and not _is_shared(program, op.inputs[0])


def _is_of_bytes(program: Program, op: Op) -> bool:
    """Whether a layer multiplies constant bytes with bytes, in integer sums of at most 32 bits that blocks can round:
    into units of a power of two, or with what the kernels of asymmetric layers have for each row."""
    rounds = program.tensors[op.output].format.is_binary_point or "zero" in op.params
    if op.accumulator_bits > SUM_BITS or op.domain != INTEGER or not rounds:
        return False
    weights, x = (program.tensors[name] for name in op.inputs[:2])
    are_bytes = _is_byte(weights, full=True) or raised(program, op) is not None
    return weights.role == Role.CONSTANT and are_bytes and _is_byte(x)


def _can_be_paired(program: Program, op: Op) -> bool:
    """Whether weight + 256 * weight is a number of 16 bits, and the sum of a row one of PAIRED_BITS."""
    above, outputs = raised(program, op), op.params["outputs"]
    if above is None and program.tensors[op.inputs[0]].format.bits > BYTE_BITS:
        return False
    weights = program.constants[op.inputs[0]].astype(np.int64).reshape(outputs, -1)
    stored = weights[: outputs - outputs % 2] - (above or 0)
    if (stored[::2] + (stored[1::2] << BYTE_BITS)).min(initial=0) < -(1 << 2 * BYTE_BITS - 1):
        return False
    if "zero" not in op.params:
        return op.accumulator_bits <= PAIRED_BITS
    rows = weights[1::2]  # whose products alone are told apart
    most = np.abs(rows << op.params.get("lift", 0)).sum(axis=1) << BYTE_BITS - 1
    if _is_dense(op) and not _is_pair(op):  # its sums begin with their biases
        most += np.abs(program.constants[op.inputs[2]].reshape(op.params["outputs"], -1)[1::2, 0])
    return bool(most.max(initial=0) < 1 << PAIRED_BITS - 1)


def _paired(blocks: Blocks, chip: Chip, long_row: int) -> Blocks:
    outputs, *window = blocks.axes
    pays = outputs % chip.paired == 0 and math.prod(window) >= long_row
    return replace(blocks, paired=True, together=max(chip.paired, blocks.together) if pays else blocks.together)


def _is_depthwise(op: Op) -> bool:
    return bool(op.params["groups"] == op.params["channels"] == op.params["outputs"])


def _is_byte(tensor: Tensor, *, full: bool = False) -> bool:
    """Stored as a signed byte; `full`: not packed in flash."""
    fmt = tensor.format
    return fmt.grid is not None and (fmt.bits == 8 or (fmt.bits < 8 and not full))


def _is_shared(program: Program, name: str) -> bool:
    return sum(name in op.inputs for op in walk(program.body)) > 1


def _patch_bytes(program: Program, op: Op, chip: Chip) -> int:
    """The patches of two pixels: as blocks read them, and where they are copied first."""
    w = window_of(op.params)
    weights, x = (program.tensors[name].format.storage_bytes for name in op.inputs[:2])
    weights = weights if raised(program, op) is None else 1
    inner = -(-w.channels * w.positions // MULTIPLE) * MULTIPLE
    pointwise = w.positions == 1 and w.pad_y == w.pad_x == 0
    patches = 2 * inner * (2 if chip.halfwords else max(weights, x))
    if pointwise:
        return patches
    return patches + (2 * (inner + 4) * x if chip.halfwords else 8)


def _line_bytes(program: Program, op: Op, most: int) -> int:
    """Lines of one channel for at most so many rows (firmware/kernels/arm/depthwise.hpp, depthwise_line.hpp)."""
    w = window_of(op.params)
    if _is_line(w):
        outputs = max(w.out_width, min(w.out_height, OF_A_COLUMN, most))
        return sum(-(-count // LINE) * LINE for count in (outputs, w.positions))
    line = -(-(-(-w.out_width // 2) * 2 * w.stride_x + 2) // 4) * 4
    rows = (min(w.out_height, BAND, most) - 1) * w.stride_y + 3
    return program.tensors[op.inputs[1]].format.storage_bytes * line * rows
