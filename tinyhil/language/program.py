"""The lowered model: integer operations with shifts, tables and accumulator widths decided.

A `Program` is what the numpy reference executes and what codegen writes down as calls. Tensors are flat; shapes survive
only as kernel parameters. Views (reshape, squeeze, the final state of a loop) are resolved to the tensor they show.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from tinyhil.crossbars.array import Mapped
from tinyhil.formats.format import INTEGER, Domain, Format
from tinyhil.language.form import Form


class Role(StrEnum):
    """What a tensor is to a program.

    INPUT: the sample, beside the arena. CONSTANT: numbers of the model, in flash. TABLE: numbers of a kernel, in
    flash; the assignment gives them no format. ARENA: computed, placed by the planner. SLICE: one row of a sequence, in
    the loop over it.
    """

    INPUT = "input"
    CONSTANT = "constant"
    TABLE = "table"
    ARENA = "arena"
    SLICE = "slice"


@dataclass(frozen=True, slots=True)
class Blocks:
    """An order in which a chip reads a layer's weights (tinyhil/passes/arrange.py).

    `together` rows in turn, `step` elements of each; rows of zeros, and zeros up to a `multiple` of elements follow.
    `axes`: the shape of the weights, outputs in front; `order`: that of the axes within a row. `rest`: rows of
    the blocks after the last whole one; 0: as many. `word`: bits of a word of binary weights, each row whole words of
    bits; 0: weights are elements. `paired`: elements of two rows are numbers of 16 bits. `left_out`: the other
    operand's code of 0, whose products the kernel leaves out; None: it leaves out none. `part`: rows in turn are in
    parts, in each of which the absolute elements of a row have at most this sum, its length in front; 0: they are not.
    `raised`: what elements are more than the bytes that stand for them; None: they are stored in their format
    (tinyhil/passes/raised.py). `lanes`: bytes are 128 more than elements, for products of two at once
    (tinyhil/passes/lanes.py).
    """

    together: int
    step: int
    multiple: int
    axes: tuple[int, ...]
    order: tuple[int, ...]
    rest: int = 0
    word: int = 0
    paired: bool = False
    left_out: int | None = None
    part: int = 0
    raised: int | None = None
    lanes: bool = False


@dataclass(frozen=True, slots=True)
class Stored:
    """What a chip's kernel reads in the place of a constant: `numbers` of the constant's C++ type, as the operand that
    `reader` makes of them (tinyhil/passes/affine_layers.py). Those of `together` outputs lie in turn."""

    numbers: tuple[int, ...]
    reader: str = "hil::flash"
    together: int = 1

    def of_outputs(self, outputs: int, begin: int, end: int) -> Stored:
        """Those of some of so many outputs; `begin` is a multiple of `together`."""
        blocks = -(-outputs // self.together)
        each = len(self.numbers) // blocks
        return replace(self, numbers=self.numbers[begin // self.together * each : -(-end // self.together) * each])


@dataclass(frozen=True, slots=True)
class Tensor:
    """A run-time or constant tensor of `count` elements.

    `blocks`: how a constant is stored, where that is not the order of its kernel; `stored`: as other numbers.
    `zeros`: share of the values that bytes round to 0, in calibration. `innermost`: of a run-time tensor of planes that
    lies with channels innermost on its chip (tinyhil/passes/layout.py), how many channels; 0: it lies in planes. What
    the reference computes has planes in either case. `row_count`: of scratch, the elements with which its operation
    makes one row; 0: all.
    """

    name: str
    count: int
    format: Format
    role: Role
    blocks: Blocks | None = None
    stored: Stored | None = None
    zeros: float = 0.0
    innermost: int = 0
    row_count: int = 0

    @property
    def for_a_row(self) -> Tensor:
        """The same as scratch of an operation that makes one row at a time."""
        return replace(self, count=self.row_count or self.count)

    @property
    def size_bytes(self) -> int:
        """In the arena: `count` elements as the format stores them."""
        return self.count * self.format.storage_bytes


@dataclass(frozen=True, slots=True)
class Op:
    """One kernel call: `output = kernel(inputs; params)`.

    `accumulator_bits` is the two's complement width proven sufficient for every intermediate sum, rounding included.
    `scratch` names an arena tensor that means something during the call only; empty if there is none.
    `domain` is that of its operands; in the coded one sums live in a window of
    `accumulator_bits` whose lowest weighs 2**`low` and whose top `guard` bits no product reaches (0: none overflows).
    `crossbar`: how an accelerator holds a layer, on boards that are one.
    `clips`: whether a result can be beyond its format; False where that is disproved (tinyhil/passes/ranges.py).
    """

    kernel: Form
    name: str
    inputs: tuple[str, ...]
    output: str
    params: Mapping[str, int]
    accumulator_bits: int = 32
    scratch: str = ""
    domain: Domain = INTEGER
    low: int = 0
    guard: int = 0
    crossbar: Mapped | None = None
    clips: bool = True

    @property
    def tensors(self) -> tuple[str, ...]:
        """Every tensor the call touches, the output last."""
        return (*self.inputs, *((self.scratch,) if self.scratch else ()), self.output)


@dataclass(frozen=True, slots=True)
class Loop:
    """`body` executed `count` times; before step t each slice tensor shows row t of its sequence."""

    name: str
    count: int
    slices: tuple[tuple[str, str], ...]  # (sequence tensor, slice tensor)
    body: Body


Body = tuple[Op | Loop, ...]  # in the order of execution


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """What whoever quantizes the input does before: (x - offset) * scale, element by element in single precision, two
    roundings. Columns that are `bounded` may be anything beyond the format's ends: nothing is lost there."""

    offset: np.ndarray
    scale: np.ndarray
    bounded: np.ndarray

    @staticmethod
    def of(offset: np.ndarray, scale: np.ndarray, bounded: np.ndarray | None = None) -> Columns:
        """Single precision of offsets and scales (columns,); `bounded` None: no column is clipped."""
        limits = np.zeros(len(scale), bool) if bounded is None else bounded
        return Columns(offset.astype(np.float32), scale.astype(np.float32), limits)

    def applied(self, x: np.ndarray, columns: np.ndarray | slice = slice(None)) -> np.ndarray:
        """float32 `x` (..., columns) mapped; `columns`: which one each element of the last axis is of."""
        return np.asarray((x.astype(np.float32) - self.offset[columns]) * self.scale[columns])

    def then(self, other: Columns) -> Columns:
        """This mapping and the other behind it, as one."""
        offset = self.offset + other.offset.astype(np.float64) / self.scale
        return Columns.of(offset, self.scale.astype(np.float64) * other.scale, other.bounded)


@dataclass(frozen=True, slots=True)
class Program:
    """`constants` hold the integers of the tensors with role CONSTANT or TABLE, flat, in kernel order.

    `columns`: how the input is mapped before it is quantized, where its columns have scales of their own.
    `output_scale`: what the output is divided by after it is dequantized (elements,), where several outputs share one.
    `whole_input`: only casts to integers read the input, so that it is cut to whole numbers before it is quantized.
    """

    name: str
    tensors: Mapping[str, Tensor]
    constants: Mapping[str, np.ndarray]
    body: Body
    input: str
    output: str
    input_shape: tuple[int, ...]
    output_shape: tuple[int, ...]
    columns: Columns | None = None
    output_scale: np.ndarray | None = None
    whole_input: bool = False

    def mapped(self, flat: np.ndarray) -> np.ndarray:
        """What is quantized of real inputs (samples, elements)."""
        cut = np.trunc(flat) if self.whole_input else flat
        return cut if self.columns is None else self.columns.applied(cut)

    @property
    def input_in_arena(self) -> bool:
        """Whether the planner places the sample, too: results take its place once it was read."""
        return self.tensors[self.input].role == Role.ARENA

    def with_input_in_arena(self) -> Program:
        """The program whose sample is received into the arena."""
        return replace(self, tensors={**self.tensors, self.input: replace(self.tensors[self.input], role=Role.ARENA)})

    def streamable_loop(self) -> Loop | None:
        """The loop that alone consumes the model input, row by row and once; None if the input is needed as a whole."""
        if self.output == self.input or reads_of(self.body).count(self.input) != 1:
            return None
        for item in self.body:
            if isinstance(item, Loop) and self.input in (sequence for sequence, _ in item.slices):
                return item
        return None


def reads_of(body: Body) -> list[str]:
    """Every tensor an operation or a loop of any level reads, once per reader and operand."""
    names: list[str] = []
    for item in body:
        if isinstance(item, Op):
            names += item.inputs
        else:
            names += [sequence for sequence, _ in item.slices]
            names += reads_of(item.body)
    return names


def loops_of(body: Sequence[Op | Loop]) -> Iterator[Loop]:
    """Every loop, those within others behind them."""
    for item in body:
        if isinstance(item, Loop):
            yield item
            yield from loops_of(item.body)


def mapped(body: Body, change: Callable[[Op], Op]) -> Body:
    """`body` with each operation changed, those of loops too."""
    return tuple(
        replace(item, body=mapped(item.body, change)) if isinstance(item, Loop) else change(item) for item in body
    )


def walk(body: Body) -> Iterator[Op]:
    """All operations in order, loop bodies once."""
    for item in body:
        if isinstance(item, Loop):
            yield from walk(item.body)
        else:
            yield item


def executions(body: Body, times: int = 1) -> Iterator[tuple[Op, int]]:
    """Every operation with how often it is carried out."""
    for item in body:
        if isinstance(item, Loop):
            yield from executions(item.body, times * item.count)
        else:
            yield item, times
