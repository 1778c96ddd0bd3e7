"""Parts of the planning of memory by themselves: what no network that is small shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from test_codegen_texts import of
from test_schedules import SMALL, Network

from tinyhil.language.form import Form
from tinyhil.language.program import Op
from tinyhil.memplan.arena.liveness import LiveRange
from tinyhil.memplan.arena.order import _affordable
from tinyhil.memplan.arena.steps import Step, made_again
from tinyhil.memplan.arena.tensors import _is_past
from tinyhil.memplan.arena.two_passes import in_two_passes
from tinyhil.memplan.arena.views import _are_disjoint, _slice_holds, is_contiguous
from tinyhil.ops.movement import PLACE_MORE, straight


def step(*loops: int, rows: np.ndarray | None = None, op: Op | None = None) -> Step:
    return Step(op or Op(Form("relu"), "n", ("x",), "y", {}), loops, frozenset({"x"}), rows)


def test_what_a_loop_meets_again() -> None:
    steps = [step(), step(1), step(1, 2), step(3)]
    assert made_again(steps, [], step())  # the sample, read once
    assert not made_again(steps, [], step(1))
    for writer, reader, again in ((0, (), True), (1, (), True), (0, (1,), False), (1, (1,), True), (2, (1,), True),
                                  (1, (1, 2), False), (3, (1,), False)):  # fmt: skip
        assert made_again(steps, [writer], step(*reader)) == again, (writer, reader)
    assert not made_again(steps, [1, 3], step(1))


def test_how_many_orders_go_on() -> None:
    states: Any = [SimpleNamespace(ready=0b111)] * 5
    assert [_affordable(states, expansions) for expansions in (0, 2, 3, 5, 6, 14, 15, 99)] == [1, 1, 1, 1, 2, 4, 5, 5]


def made_by(rows: list[tuple[int, int]], **params: int) -> Step:
    op = Op(Form("max_pool", rows=True), "n", ("step", "line", "out"), "out", {"stride_y": 1, "pad_y": 0, **params})
    return step(1, rows=np.array(rows), op=op)


@pytest.mark.parametrize(
    ("other", "reader", "past"),
    [
        ([(0, 1), (1, 2), (2, 3)], 0, True),  # before: needs row n + 1 from now on, when row n is made
        ([(0, 0), (0, 1), (1, 2)], 0, False),  # a row behind
        ([(0, 1), (1, 2), (2, 3)], 2, False),  # after: needs row n itself
        ([(1, 2), (2, 3), (3, 3)], 2, True),  # a row ahead
        ([(0, 3), (3, 3), (3, 3)], 0, True),  # all at once
    ],
)
def test_whether_a_row_of_a_line_is_past(other: list[tuple[int, int]], reader: int, past: bool) -> None:
    steps = [step(1), made_by([(0, 1), (1, 2), (2, 3)]), step(1)]
    steps[reader] = made_by(other)
    assert _is_past(steps, "line", reader, 1) == past


def test_rows_nobody_knows_are_not_past() -> None:
    steps = [step(1), made_by([(0, 1)])]
    assert not _is_past(steps, "line", 0, 1)
    assert not _is_past(steps[::-1], "line", 0, 1)


def part(offset: int, name: str, count: int) -> Op:
    return Op(PLACE_MORE.form, "n", (name, "whole"), "whole", {**straight(count), "offset": offset, "count": 12})


@pytest.mark.parametrize(("offsets", "disjoint"), [((0, 4), True), ((4, 0), True), ((0, 3), False), ((3, 3), False)])
def test_parts_that_meet(offsets: tuple[int, int], disjoint: bool) -> None:
    tensors: Any = {name: SimpleNamespace(count=4) for name in ("a", "b")}
    program: Any = SimpleNamespace(tensors=tensors)
    assert _are_disjoint(program, [part(offsets[0], "a", 4), part(offsets[1], "b", 4)]) == disjoint


def block(**found: int) -> Mapping[str, int]:
    usual = {f"{what}_{axis}": 1 for what in ("size", "stride") for axis in range(4)}
    return {**usual, **found}


@pytest.mark.parametrize(
    ("params", "contiguous"),
    [
        (block(size_3=5), True),
        (block(size_3=5, stride_3=2), False),
        (block(size_3=2, stride_3=2), False),
        (block(size_3=1, stride_3=2), True),
        (block(size_2=2, size_3=5), False),
    ],
)
def test_blocks_without_holes(params: Mapping[str, int], contiguous: bool) -> None:
    assert is_contiguous(params) == contiguous


def test_a_part_that_shows_its_whole() -> None:
    ranges = {"part": LiveRange("part", 4, 1, 3, 6)}
    for writers, holds in (
        ({"part": [3]}, True), ({"part": [3], "whole": [1]}, True), ({"part": [3], "whole": [6]}, True),
        ({"part": [3], "whole": [3]}, False), ({"part": [3], "whole": [5]}, False), ({"part": [3, 7]}, False),
        ({"part": [7]}, False),
    ):  # fmt: skip
        assert _slice_holds(writers, ranges, "whole", "part", 3) == holds, writers


def test_the_result_is_made_once(tmp_path: Path) -> None:
    """A map that is the model's result, too, is there anyway."""
    program = of(lambda: SMALL["excite"], "fixed8")(tmp_path)
    found = in_two_passes(program)
    assert len(found) == 2
    maps = {item.inputs[-1] for item in program.body if isinstance(item, Op) and item.kernel.base == "average_pool"}
    fewer = [len(in_two_passes(replace(program, output=name))) for name in maps]
    assert sorted(fewer)[0] == 1


def test_at_most_six_maps_are_made_twice(tmp_path: Path) -> None:
    net = Network(12).conv(8, 3, 2).add("HardSwish")
    for _ in range(7):
        begin = net.last
        planes = net.conv(16).add("HardSwish").depthwise(1).add("HardSwish").last
        net.add("GlobalAveragePool").conv(8).relu().conv(16).add("HardSigmoid").add("Mul", planes).conv(8)
        net = net.add("Add", begin)
    assert len(in_two_passes(of(net.conv(4).model, "fixed8")(tmp_path))) == 6
