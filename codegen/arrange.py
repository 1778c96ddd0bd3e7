"""Program -> the program for one kind of chip: weights stored in the order in which its kernels read them.

A pass between lowering and planning. Nothing a program computes changes: its constants stay in the order of their
kernels, for the reference; `Tensor.blocks` says how they lie in flash, and the scratch of a convolution becomes what
its blocks need for the patches of two pixels (firmware/kernels/arm/patches.hpp). What a chip has no blocks for stays.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tinyhil.codegen.affine_layers import bias_of_rows, sums_are_below
from tinyhil.codegen.binary_layers import LAYERS as SIGNED
from tinyhil.codegen.binary_layers import MOST_TERMS, is_binary, with_signs
from tinyhil.codegen.code_tables import with_tables
from tinyhil.codegen.rescalings import LARGEST_SUM, with_records
from tinyhil.codegen.rescalings import LAYERS as RESCALED
from tinyhil.codegen.streams import with_streams
from tinyhil.compiler_pass import Pass
from tinyhil.formats.fixed import Fixed
from tinyhil.formats.format import INTEGER
from tinyhil.ops import KERNEL_BY_NAME
from tinyhil.ops.window import window_of
from tinyhil.program import Blocks, Op, Program, Role, Tensor, walk

PASS = Pass(
    "arrange",
    "weights lie in flash as the core's kernels read them, functions of bytes become tables",
    "lowered program, and a core",
    "same integers; constants in another order, scratch as blocks of sums need it",
)
WORD = Fixed(32, 0)
SUM_BITS = 32
BYTE_BITS = 8
PAIRED_BITS = 24  # of the sum of a row that shares products with another
MULTIPLE = 4  # of the elements of a row, padded with zeros
BAND = 8  # rows of results of a depthwise layer at a time


@dataclass(frozen=True, slots=True)
class Chip:
    """Rows and elements of the blocks of a core (firmware/kernels/arm/blocks.hpp, dense_blocks.hpp).

    Bytes of scratch per element of the patches of two pixels: as blocks read them, and where they are copied first.
    `dense`: rows, elements of each in turn, what elements are padded to a multiple of, rows of the blocks of the rest.
    `paired`: two rows are read as numbers of 16 bits where their sums permit it; `doubles`: the sums of convolutions of
    asymmetric integers are doubled before they are rescaled.
    """

    together: int
    step: int
    expanded_bytes: int
    copied_bytes: int
    dense: tuple[int, int, int, int]
    paired: bool = False
    doubles: bool = False


DSP = Chip(together=2, step=4, expanded_bytes=4, copied_bytes=2, dense=(4, 4, 4, 4), paired=True, doubles=True)
CHIPS = {
    "cortex-m4": DSP,
    "cortex-m7": DSP,
    "cortex-m3": Chip(together=4, step=1, expanded_bytes=2, copied_bytes=0, dense=(8, 1, 1, 4)),
}
AVR = Chip(together=4, step=1, expanded_bytes=0, copied_bytes=0, dense=(4, 1, 1, 1))
# From this share of zeros on a kernel that tests every element is the faster one: on the ATmega a test costs 2 to 3
# cycles, a zero saves 31 of the 40 of an element (firmware/kernels/avr/dense_avr.hpp).
ZEROS = 0.1
LEFT_OUT = (0, -128)  # codes of 0 whose distances from other codes are one byte
CORES = ("avr", *CHIPS)
CONVOLUTIONS = ("conv", "conv_bias", "conv_sum", "conv_bias_sum", "conv_channels", "conv_affine", "conv_rescaled")
DENSE = ("dense", "dense_bias", "dense_sum", "dense_bias_sum", "dense_channels", "dense_affine", "dense_rescaled")


def arrange(program: Program, core: str) -> Program:
    """`program` as it is stored and planned on a chip with this core; the same object if nothing changes."""
    if core not in CORES:
        return program
    program, chip = with_tables(program), CHIPS.get(core, AVR)
    program = with_signs(program, 8 if chip is AVR else 32)
    if chip is AVR:
        program = with_streams(program)
    else:
        program = with_records(program, chip.doubles, lambda op: _blocks_of(program, op, chip) is not None)
    tensors = dict(program.tensors)
    for op in walk(program.body):
        if _is_binary(program, op):
            axes = (op.params["outputs"], tensors[op.inputs[0]].count // op.params["outputs"])
            rows = Blocks(1, 1, 1, axes, (1,), word=8 if chip is AVR else 32)
            tensors[op.inputs[0]] = replace(tensors[op.inputs[0]], blocks=rows)
    for op in walk(program.body):
        blocks = _blocks_of(program, op, chip)
        if blocks is None or (chip is not AVR and _template(op) in RESCALED):
            continue
        name = op.inputs[0]
        if chip.paired and blocks.together > 1 and _can_be_paired(program, op):
            blocks = replace(blocks, paired=True)
        if chip is AVR:
            blocks = replace(blocks, left_out=_left_out(program, op))
            if "zero" in op.params:
                stored = bias_of_rows(program, op, blocks.together, blocks.left_out)
                tensors[op.inputs[2]] = replace(tensors[op.inputs[2]], stored=stored)
        tensors[name] = replace(tensors[name], blocks=blocks)
        if not op.scratch or chip is AVR:
            continue
        size = _line_bytes(op) if _is_depthwise(op) else _patch_bytes(op, chip)
        tensors[op.scratch] = replace(tensors[op.scratch], count=-(-size // 4), format=WORD)
    return program if tensors == program.tensors else replace(program, tensors=tensors)


def _template(op: Op) -> str:
    return KERNEL_BY_NAME[op.kernel].template or op.kernel


def _blocks_of(program: Program, op: Op, chip: Chip) -> Blocks | None:
    """The order of the weights of an operation; None if its chip has no blocks for it, or somebody else reads them."""
    template = _template(op)
    if template not in CONVOLUTIONS + DENSE or not _is_of_bytes(program, op) or _others_read(program, op, op.inputs[0]):
        return None
    if template in DENSE:
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
        known = (w.kernel_y, w.kernel_x, w.dilation_y, w.dilation_x) == (3, 3, 1, 1)
        return Blocks(1, 9, 1, (outputs, 9), (1,)) if known and w.stride_x <= 2 and w.pad_x <= 2 else None
    if groups != 1 or outputs < 2:
        return None
    return Blocks(chip.together, chip.step, MULTIPLE, (outputs, w.channels, w.kernel_y, w.kernel_x), (2, 1, 3))


def _left_out(program: Program, op: Op) -> int | None:
    """The code whose products the kernel of a layer leaves out; None if calibration saw too few of them."""
    x = program.tensors[op.inputs[1]]
    if x.zeros < ZEROS or x.format.grid is None or x.format.grid[1] not in LEFT_OUT:
        return None
    return x.format.grid[1]


def _is_binary(program: Program, op: Op) -> bool:
    """Whether a layer has weights -s and s, which nobody else reads, and bytes beside them."""
    if _template(op) not in SIGNED or op.accumulator_bits > SUM_BITS or op.crossbar is not None or op.domain != INTEGER:
        return False
    weights, x = (program.tensors[name] for name in op.inputs[:2])
    terms = weights.count // op.params["outputs"]
    fits = op.params.get("groups", 1) == 1 and terms <= MOST_TERMS
    return fits and is_binary(weights) and _is_byte(x) and not _others_read(program, op, op.inputs[0])


def _is_of_bytes(program: Program, op: Op) -> bool:
    """Whether a layer multiplies constant bytes with bytes, in sums of at most 32 bits."""
    if op.accumulator_bits > SUM_BITS or (_template(op) in RESCALED and not sums_are_below(program, op, LARGEST_SUM)):
        return False
    weights, x = (program.tensors[name] for name in op.inputs[:2])
    return weights.role == Role.CONSTANT and _is_byte(weights, full=True) and _is_byte(x)


def _can_be_paired(program: Program, op: Op) -> bool:
    """Whether weight + 256 * weight is a number of 16 bits, and the sum of a row one of PAIRED_BITS."""
    weights = program.constants[op.inputs[0]]
    if weights.min() <= -(1 << 7):
        return False
    if "zero" not in op.params:
        return op.accumulator_bits <= PAIRED_BITS
    rows = weights.reshape(op.params["outputs"], -1).astype(np.int64)[1::2]  # whose products alone are told apart
    return bool(np.abs(rows).sum(axis=1).max(initial=0) << BYTE_BITS - 1 < 1 << PAIRED_BITS - 1)


def _is_depthwise(op: Op) -> bool:
    return bool(op.params["groups"] == op.params["channels"] == op.params["outputs"])


def _is_byte(tensor: Tensor, *, full: bool = False) -> bool:
    """Stored as a signed byte; `full`: not packed in flash."""
    fmt = tensor.format
    return fmt.grid is not None and (fmt.bits == 8 or (fmt.bits < 8 and not full))


def _others_read(program: Program, op: Op, name: str) -> bool:
    return any(name in other.inputs for other in walk(program.body) if other is not op)


def _patch_bytes(op: Op, chip: Chip) -> int:
    w = window_of(op.params)
    inner = -(-w.channels * w.positions // MULTIPLE) * MULTIPLE
    pointwise = w.positions == 1 and w.pad_y == w.pad_x == 0
    return inner * chip.expanded_bytes + (0 if pointwise else inner * chip.copied_bytes + 8)


def _line_bytes(op: Op) -> int:
    """Lines of one channel for a band of results (firmware/kernels/arm/depthwise.hpp)."""
    w = window_of(op.params)
    line = -(-(-(-w.out_width // 2) * 2 * w.stride_x + 2) // 4) * 4
    return line * ((min(w.out_height, BAND) - 1) * w.stride_y + 3)


def in_blocks(codes: np.ndarray, blocks: Blocks) -> np.ndarray:
    """The elements of a constant in the order of its blocks, flat; rows and elements beyond the last are 0."""
    outputs = blocks.axes[0]
    rows = codes.reshape(blocks.axes).transpose(0, *blocks.order).reshape(outputs, -1)
    more = -rows.shape[1] % blocks.multiple
    whole = outputs - outputs % blocks.together if blocks.rest else outputs
    last = _in_turn(rows[whole:], blocks.rest or 1, blocks.step, more, blocks.paired)
    return np.concatenate([_in_turn(rows[:whole], blocks.together, blocks.step, more, blocks.paired), last])


def _in_turn(rows: np.ndarray, together: int, step: int, more: int, paired: bool) -> np.ndarray:
    """`together` rows in turn, `step` elements of each, after `more` zeros at the end of each row."""
    padded = np.pad(rows, ((0, -len(rows) % together), (0, more)))
    if paired:
        return _in_pairs(padded, together)
    return padded.reshape(-1, together, padded.shape[1] // step, step).transpose(0, 2, 1, 3).reshape(-1)


def _in_pairs(rows: np.ndarray, together: int) -> np.ndarray:
    """Pairs of rows in turn, four elements of each as the bytes of row + 256 * next.

    The order of elements is that of bytes which were split into halfwords: 0, 2, 1, 3.
    """
    both = rows[0::2].astype(np.int64) + 256 * rows[1::2].astype(np.int64)
    in_fours = both.reshape(both.shape[0] * 2 // together, together // 2, both.shape[1] // 4, 4)
    words = in_fours[..., [0, 2, 1, 3]].transpose(0, 2, 1, 3)
    return words.astype("<i2").reshape(-1).view(np.int8)
