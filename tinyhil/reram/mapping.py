"""Which operations of a program crossbars carry out: layers of constant weights in fixed point."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tinyhil.crossbars.array import Mapped
from tinyhil.crossbars.hardware import Hardware
from tinyhil.errors import ModelError
from tinyhil.language.form import Arithmetic, Form, Joined, Weights
from tinyhil.language.kernel import QUIRE
from tinyhil.language.program import Op, Program, Role, mapped, walk
from tinyhil.ops import KERNEL_OF, conv, linear
from tinyhil.ops.window import window_of

WIDTHS = (2, 16)  # bits of weights and inputs
WIDEST_SUM = 63
WITHOUT = ("sparse", "pair")  # fusions: a zero is a cell like any other, and crossbars round each product
BASES = (linear.DENSE.form.base, conv.CONV.form.base)
BY_SHIFTS = (Arithmetic.EXACT, Arithmetic.CHANNELS, Arithmetic.CODED_CHANNELS)


@dataclass(frozen=True, slots=True)
class Matrix:
    """A layer: per group of channels `outputs` columns of `inner` weights, `pixels` inputs one after the other."""

    groups: int
    inner: int
    outputs: int
    pixels: int
    weight_bits: int
    input_bits: int
    signed: bool = True  # inputs


def _is_held(form: Form) -> bool:
    """Whether a kernel is a product with a constant matrix, rounded by shifts."""
    is_layer = form.base in BASES and form.weights is Weights.PLAIN and form.joined is not Joined.PAIR
    return is_layer and form.arithmetic in BY_SHIFTS


def matrix_of(program: Program, op: Op) -> Matrix | None:
    """What crossbars hold of an operation; None if it is none of theirs."""
    if not _is_held(op.kernel):
        return None
    p = op.params
    weights, x = (program.tensors[name].format for name in op.inputs[:2])
    held = weights.bits, x.bits, x.lowest < 0
    if op.kernel.base == linear.DENSE.form.base:
        return Matrix(1, p["inner"], p["outputs"], p["rows"], *held)
    w = window_of(p)
    groups = p["groups"]
    return Matrix(groups, w.channels // groups * w.positions, p["outputs"] // groups, w.pixels, *held)


def require_held(program: Program) -> None:
    """ModelError names a layer that crossbars can not hold, why, and what could be done."""
    for op in walk(program.body):
        kernel = KERNEL_OF[op.kernel]
        if not _is_held(op.kernel):
            if kernel.is_sum or kernel.coded == QUIRE:
                raise _refused(op, f"'{op.kernel.bare}' is no product with a constant matrix", _remedy(op.kernel))
            continue
        for name, what in zip(op.inputs[:2], ("weights", "inputs"), strict=True):
            tensor = program.tensors[name]
            if not tensor.format.is_binary_point or not WIDTHS[0] <= tensor.format.bits <= WIDTHS[1]:
                why = f"its {what} '{name}' are {tensor.format}, cells and converters take fixed2 to fixed16"
                raise _refused(op, why, "choose such a format with --format or --assignment")
        if program.tensors[op.inputs[0]].role != Role.CONSTANT:
            raise _refused(op, f"its weights '{op.inputs[0]}' are computed at run time", _NONE)


_NONE = "run this model on another board"


def _remedy(form: Form) -> str:
    if form.arithmetic is Arithmetic.AFFINE and form.joined is Joined.NOTHING:
        return "give it fixed8 instead of int8"
    return _NONE


def _refused(op: Op, why: str, remedy: str) -> ModelError:
    return ModelError(f"reram: crossbars can not hold layer '{op.name}': {why}; {remedy}")


def on_crossbars(program: Program, hardware: Hardware) -> Program:
    """The program with its layers on crossbars; ModelError names one that they can not hold."""
    require_held(program)
    return replace(program, body=mapped(program.body, lambda op: _on_crossbars(program, op, hardware)))


def _on_crossbars(program: Program, op: Op, hardware: Hardware) -> Op:
    matrix = matrix_of(program, op)
    if matrix is None:
        return op
    ticks = round(matrix.pixels * hardware.input_cycles(matrix.input_bits, signed=matrix.signed) * hardware.read_ns)
    held = Mapped.on(hardware, matrix.weight_bits, matrix.input_bits, ticks, signed=matrix.signed)
    # readings that are rounded may sum to more than what they stand for
    return replace(op, crossbar=held, accumulator_bits=op.accumulator_bits if held.is_exact else WIDEST_SUM)
