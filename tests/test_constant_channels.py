"""Channels of asymmetric integers that never change: what is left of them, and that nothing else changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from random_models import extreme_inputs
from test_arm_kernels import program_of
from test_rows import Chain

from tinyhil.language.program import Op, Program, walk
from tinyhil.ops.affine import CONV
from tinyhil.passes.constant_channels import without_constant_channels
from tinyhil.references.reference import run_reference

DEAD = (0, 2, 5)
OPEN, CLOSED = 20.0, -1e5  # units of outputs without weights: some code, and what a Relu makes the zero point


def layers(program: Program) -> list[Op]:
    return [op for op in walk(program.body) if op.kernel.bare == CONV.form]


def with_dead_channels(program: Program, op: Op, units: float, dead: Sequence[int] = DEAD) -> Program:
    """The program with a layer some of whose outputs have no weights, and so many units from their bias."""
    weights, biases, m, shift = (program.constants[op.inputs[at]].copy() for at in (0, 2, 3, 4))
    weights.reshape(len(biases), -1)[list(dead)] = 0
    biases[list(dead)] = (units / (m * 2.0 ** (shift - 31)))[list(dead)]
    return replace(program, constants={**program.constants, op.inputs[0]: weights, op.inputs[2]: biases})


def deep(pad: int = 1, stride: int = 1, last: int = 5) -> Chain:
    """Pointwise, depthwise, pointwise, 3 x 3 without pads."""
    chain = Chain(3, 7).conv(8, 1).add("Relu").conv(8, 3, stride=stride, pad=pad, group=8).add("Relu")
    return chain.conv(last, 1).add("Relu").conv(4, 3)


def depthwise_twice() -> Chain:
    """Two depthwise layers of an operand that stays whole, and who reads them."""
    chain = Chain(8, 6).add("Neg").conv(8, 3, pad=1, group=8).add("Relu")
    return chain.conv(8, 3, pad=1, group=8).add("Relu").conv(3, 1)


def residual() -> Chain:
    """A result that two layers read."""
    chain = Chain(3, 6).conv(8, 1).add("Relu")
    first = chain.last
    return chain.conv(8, 1).add("Add", first).conv(3, 1)


@pytest.mark.parametrize(
    ("chain", "at", "units", "narrower"),
    [
        (deep(), 0, CLOSED, {0, 1}),  # the zero point, also at the edges
        (deep(), 0, OPEN, set()),  # another code there than within
        (deep(pad=0), 0, OPEN, {0, 1}),
        (deep(stride=2), 0, CLOSED, {0, 1}),
        (deep(), 1, OPEN, {0, 1}),  # what feeds a constant is needed no more
        (deep(last=8), 2, OPEN, {2}),
        (deep(last=8), 2, CLOSED, {2}),
        (residual(), 0, CLOSED, set()),
        (depthwise_twice(), 1, CLOSED, set()),
    ],
)
def test_channels_that_are_left_out(chain: Chain, at: int, units: float, narrower: set[int], tmp_path: Path) -> None:
    program = program_of(chain, tmp_path, "int8")
    program = with_dead_channels(program, layers(program)[at], units)
    smaller = without_constant_channels(program)
    pairs = zip(layers(program), layers(smaller), strict=True)
    less = [before.params["outputs"] - after.params["outputs"] for before, after in pairs]
    assert {n for n, count in enumerate(less) if count >= len(DEAD)} == narrower
    inputs = extreme_inputs(program, 5)
    wanted, found = run_reference(program, inputs), run_reference(smaller, inputs)
    assert np.array_equal(found.outputs, wanted.outputs)


def test_a_program_without_them_stays(tmp_path: Path) -> None:
    program = program_of(Chain(3, 7).conv(8, 1).conv(4, 3), tmp_path, "int8")
    assert without_constant_channels(program) is program
    fixed = program_of(deep(), tmp_path, "fixed8")
    assert without_constant_channels(fixed) is fixed


def test_a_depthwise_layer_that_makes_one_code_of_all_its_edges(tmp_path: Path) -> None:
    """What it reads is another code than its padding; a Relu makes its sums one again."""
    program = program_of(deep(), tmp_path, "int8")
    program = with_dead_channels(program, layers(program)[0], OPEN)
    depthwise = layers(program)[1]
    biases = program.constants[depthwise.inputs[2]].copy()
    biases[list(DEAD)] = -(1 << 20)
    program = replace(program, constants={**program.constants, depthwise.inputs[2]: biases})
    smaller = without_constant_channels(program)
    assert [op.params["outputs"] for op in layers(smaller)][:2] == [8 - len(DEAD)] * 2
    inputs = extreme_inputs(program, 5)
    assert np.array_equal(run_reference(smaller, inputs).outputs, run_reference(program, inputs).outputs)


def test_all_channels_but_one_may_go(tmp_path: Path) -> None:
    program = program_of(deep(), tmp_path, "int8")
    program = with_dead_channels(program, layers(program)[1], OPEN, range(8))
    smaller = without_constant_channels(program)
    assert [op.params["outputs"] for op in layers(smaller)][:2] == [1, 1]
    inputs = extreme_inputs(program, 5)
    assert np.array_equal(run_reference(smaller, inputs).outputs, run_reference(program, inputs).outputs)


def test_weights_that_two_layers_read_stay(tmp_path: Path) -> None:
    program = program_of(Chain(8, 3).conv(8, 1).add("Relu").conv(8, 1).conv(8, 1), tmp_path, "int8")
    first, second, _ = layers(program)
    shared = replace(second, inputs=(first.inputs[0], *second.inputs[1:]))
    body = tuple(shared if op is second else op for op in program.body)
    program = with_dead_channels(replace(program, body=body), first, CLOSED)
    assert [op.params["outputs"] for op in layers(without_constant_channels(program))] == [8, 8, 8]
