"""Which operations of a program crossbars carry out: layers of constant weights in fixed point."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tinyhil.errors import ModelError
from tinyhil.ops import KERNEL_BY_NAME
from tinyhil.ops.window import window_of
from tinyhil.program import Loop, Op, Program, Role, walk
from tinyhil.reram.array import Mapped
from tinyhil.reram.hardware import Hardware

WIDTHS = (2, 16)  # bits of weights and inputs
WIDEST_SUM = 63
WITHOUT = ("sparse", "pair")  # fusions: a zero is a cell like any other, and crossbars round each product
DENSE = ("dense", "dense_bias", "dense_sum", "dense_bias_sum", "dense_channels")
CONV = ("conv", "conv_bias", "conv_sum", "conv_bias_sum", "conv_channels")


@dataclass(frozen=True, slots=True)
class Matrix:
    """A layer: per group of channels `outputs` columns of `inner` weights, `pixels` inputs one after the other."""

    groups: int
    inner: int
    outputs: int
    pixels: int
    weight_bits: int
    input_bits: int


def matrix_of(program: Program, op: Op) -> Matrix | None:
    """What crossbars hold of an operation; None if it is none of theirs."""
    kernel = KERNEL_BY_NAME[op.kernel]
    template, p = kernel.template or kernel.name, op.params
    if template not in (*DENSE, *CONV):
        return None
    weights, x = (program.tensors[name].format for name in op.inputs[:2])
    bits = weights.bits, x.bits
    if template in DENSE:
        return Matrix(1, p["inner"], p["outputs"], p["rows"], *bits)
    w = window_of(p)
    groups = p["groups"]
    return Matrix(groups, w.channels // groups * w.positions, p["outputs"] // groups, w.pixels, *bits)


def require_held(program: Program) -> None:
    """ModelError names a layer that crossbars can not hold, why, and what could be done."""
    for op in walk(program.body):
        kernel = KERNEL_BY_NAME[op.kernel]
        template = kernel.template or kernel.name
        if template not in (*DENSE, *CONV):
            if kernel.is_sum or kernel.coded == "quire":
                raise _refused(op, f"'{template}' is no product with a constant matrix", _remedy(template))
            continue
        for name, what in zip(op.inputs[:2], ("weights", "inputs"), strict=True):
            tensor = program.tensors[name]
            if not tensor.format.is_binary_point or not WIDTHS[0] <= tensor.format.bits <= WIDTHS[1]:
                why = f"its {what} '{name}' are {tensor.format}, cells and converters take fixed2 to fixed16"
                raise _refused(op, why, "choose such a format with --format or --assignment")
        if program.tensors[op.inputs[0]].role != Role.CONSTANT:
            raise _refused(op, f"its weights '{op.inputs[0]}' are computed at run time", _NONE)


_NONE = "run this model on another board"


def _remedy(template: str) -> str:
    if template.endswith("_affine"):
        return "give it fixed8 instead of int8"
    return _NONE


def _refused(op: Op, why: str, remedy: str) -> ModelError:
    return ModelError(f"reram: crossbars can not hold layer '{op.name}': {why}; {remedy}")


def on_crossbars(program: Program, hardware: Hardware) -> Program:
    """The program with its layers on crossbars; ModelError names one that they can not hold."""
    require_held(program)
    return replace(program, body=_mapped(program, program.body, hardware))


def _mapped(program: Program, body: tuple[Op | Loop, ...], hardware: Hardware) -> tuple[Op | Loop, ...]:
    made: list[Op | Loop] = []
    for item in body:
        if isinstance(item, Loop):
            made.append(replace(item, body=_mapped(program, item.body, hardware)))
            continue
        matrix = matrix_of(program, item)
        if matrix is None:
            made.append(item)
            continue
        ticks = round(matrix.pixels * hardware.input_cycles(matrix.input_bits) * hardware.read_ns)
        mapped = Mapped.on(hardware, matrix.weight_bits, matrix.input_bits, ticks)
        # readings that are rounded may sum to more than what they stand for
        bits = item.accumulator_bits if mapped.is_exact else WIDEST_SUM
        made.append(replace(item, crossbar=mapped, accumulator_bits=bits))
    return tuple(made)
