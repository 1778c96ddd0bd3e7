"""Cortex-M3: convolutions of bytes by two rows of weights in one multiplication (firmware/kernels/arm/row_pairs.hpp).

Rows of weights are widened in RAM for some pixels: four beside their patches, or eight beside lists of what is not 0.
That takes fewer cycles and more scratch than blocks that read weights from flash for every two pixels
(tinyhil/passes/variants.py), so a plan for least RAM goes without.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from tinyhil.compiler_pass import Pass, fold
from tinyhil.language.program import Blocks, Program, Tensor, walk
from tinyhil.passes.affine_layers import records_of_rows
from tinyhil.passes.arrange import LOWERED, SAME
from tinyhil.passes.variants import (
    LEFT_OUT,
    M3,
    WORD,
    Layer,
    channels_last,
    four_rows,
    is_rescaled,
    is_whole,
    of_signed_bytes,
)
from tinyhil.preference import BALANCED, LEAST, RAM

MOST_PIXELS, PATCH_BYTES, LIST_BYTES = 32, 4608, 9344  # firmware/kernels/arm/row_pairs.hpp
FEWEST_PIXELS, FEWEST_TERMS = 4, 64  # for which widening pays; of a row, for which all that is not in loops does
AXES, ROWS, LISTED_ROWS, LISTED_AT_ONCE = 4, 4, 8, 256
WEIGHT_BYTES, PLACE_BYTES = 2, 2  # of a widened weight; of a listed element
BEHIND = 8  # bytes that the last patch writes behind itself
WORTH = 0.85  # of the usual cycles, for more scratch
# Modelled cycles of an element and a pixel on an Arduino Due: its place in a patch, in a sum, in a list, whether it
# is below 0; with four rows in the usual blocks, or as these test for 0, in pairs; with eight in a list; to widen them.
FILLED, SUMMED, LISTED, BELOW = 4.5, 2.5, 12.0, 6.0
BLOCK, WITH_ZEROS, WITHOUT, PAIR = 13.9, 5.0, 17.0, 9.5
IN_LIST, WIDENED, WIDENED_EIGHT = 23.5, 12.0, 30.0


@dataclass(frozen=True, slots=True)
class _Way:
    """How a layer is computed: `rows` at a time, the `code` that lists leave out (None: pairs), of how many pixels, in
    which scratch, and the modelled `cycles` of an element and a pixel."""

    rows: int
    code: int | None
    pixels: int
    size_bytes: int
    cycles: float


def for_time(program: Program, core: str, prefer: str = BALANCED, without: Collection[str] = ()) -> Program:
    """An arranged `program` with what takes more scratch for less time on a chip with this core; the same object if
    there is nothing, or RAM is preferred. `without`: names of passes to leave out."""
    return program if prefer in (RAM, LEAST) else fold(FOR_TIME, program, core, without=without)


def with_row_pairs(program: Program, core: str, worth: float = WORTH, terms: int = FEWEST_TERMS) -> Program:
    """`program` with such layers where the core has them and they take at most this share of the usual cycles, of rows
    of so many elements; the same object without any."""
    if core not in M3:
        return program
    tensors = dict(program.tensors)
    for op in walk(program.body):
        blocks = program.tensors[op.inputs[0]].blocks if op.inputs and op.scratch else None
        if blocks is None or blocks.together != ROWS or len(blocks.axes) != AXES:
            continue
        layer = Layer(program, op)
        if of_signed_bytes(layer) and is_whole(layer) and four_rows(layer) and layer.terms >= terms:
            way = min(_ways(layer), key=lambda one: one.cycles)
            if way.pixels >= FEWEST_PIXELS and way.cycles <= worth * _usual_cycles(layer, blocks):
                tensors |= _tensors_of(layer, way)
    return program if tensors == program.tensors else replace(program, tensors=tensors)


def _tensors_of(layer: Layer, way: _Way) -> dict[str, Tensor]:
    program, op = layer.program, layer.op
    blocks = replace(channels_last(way.rows, 1)(layer), lanes=True, left_out=way.code)
    words = -(-way.size_bytes // WORD.storage_bytes)
    made = {
        op.inputs[0]: replace(program.tensors[op.inputs[0]], blocks=blocks),
        op.scratch: replace(program.tensors[op.scratch], count=words, row_count=0, format=WORD),
    }
    if is_rescaled(layer):
        made[op.inputs[2]] = replace(program.tensors[op.inputs[2]], stored=records_of_rows(program, op, blocks))
    return made


def _usual_cycles(layer: Layer, blocks: Blocks) -> float:
    """Of blocks of four rows and two pixels, of whose elements both are 0 or one is not: between neighbours that are
    alike, and any two."""
    zeros = layer.operands[1].zeros
    both = (zeros + zeros * zeros) / 2
    block = BLOCK if blocks.left_out is None else both * WITH_ZEROS + (1 - both) * WITHOUT
    return FILLED + -(-layer.outputs // ROWS) * block


def _ways(layer: Layer) -> Iterator[_Way]:
    """By pairs, and by lists if these know the code of 0 and there are eight rows."""
    padded = -(-layer.terms // ROWS) * ROWS
    pixels = _at_a_time(layer, PATCH_BYTES // padded)
    cycles = FILLED + SUMMED + -(-layer.outputs // ROWS) * (PAIR + WIDENED / pixels)
    yield _Way(ROWS, None, pixels, padded * (ROWS * WEIGHT_BYTES + pixels) + BEHIND, cycles)
    x = layer.operands[1]
    code = LEFT_OUT[1] if is_rescaled(layer) else LEFT_OUT[0]
    if layer.outputs < LISTED_ROWS or x.format.grid is None or x.format.grid[1] != code:
        return
    list_bytes = PLACE_BYTES * (padded + 2 * -(-padded // LISTED_AT_ONCE))
    pixels = _at_a_time(layer, LIST_BYTES // list_bytes)
    weights_bytes = LISTED_ROWS * WEIGHT_BYTES * min(padded, LISTED_AT_ONCE)
    cycles = IN_LIST * (1 - x.zeros) + WIDENED_EIGHT / pixels
    cycles = FILLED + LISTED + (BELOW if code == LEFT_OUT[0] else 0) + -(-layer.outputs // LISTED_ROWS) * cycles
    yield _Way(LISTED_ROWS, code, pixels, weights_bytes + pixels * list_bytes + 2 * padded + BEHIND, cycles)


def _at_a_time(layer: Layer, fit: int) -> int:
    return max(min(fit // 2 * 2, MOST_PIXELS, -(-layer.window.pixels // 2) * 2), 2)


FOR_TIME: tuple[Pass[Program], ...] = (
    Pass(
        "row-pairs",
        "on a Cortex-M3, two rows of a convolution are one factor, widened in RAM",
        LOWERED,
        f"{SAME}; weights in another order, more scratch: not where RAM counts",
        with_row_pairs,
    ),
)
