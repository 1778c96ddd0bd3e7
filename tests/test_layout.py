"""Layouts of run-time tensors: which chains lie with channels innermost, and what is read as it comes.

That both layouts give the same integers is in test_arm_kernels.py, with sanitizers and on boards.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from random_models import extreme_inputs
from test_arm_kernels import branches, layouts, program_of, sampled
from test_rows import Chain, runs

from tinyhil.language.program import Program, walk
from tinyhil.memplan import Plan, plan
from tinyhil.memplan.arena.row_wise import row_wise
from tinyhil.memplan.arena.tensors import problem_of
from tinyhil.passes.arrange import arrange
from tinyhil.passes.layout import INNERMOST_ORDER, with_layouts
from tinyhil.references.reference import run_reference

M7, M3 = "cortex-m7", "cortex-m3"


def arranged(chain: Chain, folder: Path, core: str = M7, default: str = "int8") -> Program:
    return arrange(program_of(chain, folder, default), core)


def planned(program: Program) -> Plan:
    return plan(problem_of(program))


def innermost(program: Program) -> list[int]:
    """Channels of the results of its operations that lie so, in their order; 0: planes."""
    laid = with_layouts(program, planned(program))
    return [laid.tensors[op.output].innermost for op in walk(laid.body)]


def before_pool() -> Chain:
    return Chain(4, 6).conv(8, 3, pad=1).conv(8, 1).add("MaxPool", kernel_shape=[2, 2], strides=[2, 2]).conv(4, 1)


def read_by_two(last: str) -> Chain:
    """A result that a convolution and `last` read."""
    chain = Chain(4, 6).conv(8, 3, pad=1)
    first = chain.last
    chain.conv(8, 1).conv(8, 3, pad=1, group=8 if last == "depthwise" else 1)
    return chain.add("Add", first).conv(4, 1)


@pytest.mark.parametrize(
    ("chain", "expected"),
    [
        (Chain(4, 8).conv(8, 3, pad=1).conv(4, 1).conv(2, 3), [8, 4, 0]),  # the output is in planes
        (Chain(4, 8).conv(6, 1).conv(8, 3, stride=2).conv(2, 1), [6, 8, 0]),
        (Chain(4, 8).conv(6, 1).conv(2, 1), [0, 0]),  # words of four elements would reach beyond the last pixel
        (Chain(4, 8).conv(8, 1).conv(8, 3, pad=1, group=8).conv(4, 1), [0, 0, 0]),  # one is written over the other
        (branches(1), [0, 8, 0, 0, 0]),  # a depthwise layer reads planes
        (before_pool(), [8, 0, 0, 0]),
        (read_by_two("conv"), [8, 8, 8, 8, 0]),
        (read_by_two("depthwise"), [0, 0, 0, 0, 0]),
    ],
)
def test_chains_get_the_layout_that_costs_less(chain: Chain, expected: list[int], tmp_path: Path) -> None:
    assert innermost(arranged(chain, tmp_path)) == expected
    assert not any(innermost(arranged(chain, tmp_path, M3)))


@pytest.mark.parametrize("default", ["fixed8", "int8"])
def test_tested_networks_have_both_layouts(default: str, tmp_path: Path) -> None:
    for name, chain in layouts():
        program = arranged(chain, tmp_path, default=default)
        assert any(innermost(program)), name
        assert ("sample" in name) == bool(program.tensors[program.input].innermost)


def test_line_buffers_have_layouts_too(tmp_path: Path) -> None:
    program = arranged(sampled(4, 11).conv(8, 3, pad=1).conv(8, 3, pad=1).conv(4, 1), tmp_path)
    (chain,) = runs(program)
    by_rows = row_wise(program, chain)
    assert by_rows is not None
    assert innermost(by_rows) == [8, 8, 8, 0]  # a line buffer is filled first


def test_what_overlaps_stays_in_planes(tmp_path: Path) -> None:
    program = arranged(Chain(4, 8).conv(8, 3, pad=1).conv(8, 3, pad=1).conv(8, 1), tmp_path)
    first, second, _ = (op.output for op in walk(program.body))
    found = planned(program)
    moved = replace(found, offsets={**found.offsets, second: found.offsets[first] + 4})
    assert with_layouts(program, found).tensors[first].innermost == 8
    assert not with_layouts(program, moved).tensors[first].innermost


def test_weights_follow_their_operand(tmp_path: Path) -> None:
    program = arranged(Chain(4, 8).conv(8, 3, pad=1).conv(8, 3, pad=1), tmp_path)
    laid = with_layouts(program, planned(program))
    orders = [tensor.blocks.order for tensor in laid.tensors.values() if tensor.blocks]
    assert orders.count(INNERMOST_ORDER) == 1


@pytest.mark.parametrize(
    ("chain", "is_folded"),
    [
        (sampled(3, 7).conv(4, 3, pad=1, stride=2), True),
        (sampled(3, 7).conv(4, 3, pad=1), False),  # neighbours share words in planes
        (sampled(4, 7).conv(4, 3, pad=1), True),
        (sampled(4, 7).conv(4, 1), True),
        (sampled(3, 7).conv(4, 1), False),  # words of four elements would reach beyond the last pixel
        (sampled(3, 7).conv(3, 3, group=3), False),
        (sampled(3, 7).add("Relu").conv(4, 3), False),
    ],
)
def test_a_sample_is_read_as_it_comes(chain: Chain, is_folded: bool, tmp_path: Path) -> None:
    program = program_of(chain, tmp_path, "int8")
    found, inputs = arrange(program, M7), extreme_inputs(program, 1)
    assert bool(found.tensors[found.input].innermost) == is_folded
    assert len(list(walk(found.body))) == len(list(walk(program.body))) - is_folded
    wanted, got = run_reference(program, inputs), run_reference(found, inputs)
    np.testing.assert_array_equal(got.outputs, wanted.outputs)
    np.testing.assert_array_equal(got.saturations, wanted.saturations)
