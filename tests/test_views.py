"""Views: parts that lie in their whole. No copy is emitted where the plan satisfies them, and the bytes stay right."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from arena_machine import Arena, compiled_cases
from boards_under_test import EMULATED, by_compiler
from kernel_cases import SANITIZED, first_difference, run_natively, run_on_board
from onnx_models import compiled, load, node, samples_for, simple
from random_models import extreme_inputs

from tinyhil.codegen.model import emit_model
from tinyhil.compiler.calibrate import calibrate
from tinyhil.compiler.lower import lower
from tinyhil.formats import named
from tinyhil.formats.fixed import exponent_for
from tinyhil.fuse import NAMES
from tinyhil.harness.settings.config import load_boards
from tinyhil.language.assignment import Assignment
from tinyhil.language.form import Form
from tinyhil.language.program import Op, Program, Role, Tensor, walk
from tinyhil.memplan import PlanError, check
from tinyhil.memplan.arena.placement import Placement, place
from tinyhil.memplan.arena.tensors import problem_of
from tinyhil.memplan.arena.transfer import Transfer
from tinyhil.memplan.arena.views import is_done_by_plan, view_of
from tinyhil.passes.hot import Target
from tinyhil.passes.laid import laid_out
from tinyhil.references.reference import run_reference

WITHOUT = frozenset({"views"})
ROWS = frozenset({"rows"})  # which have no views


def weights(*shape: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape) / np.sqrt(np.prod(shape[1:]))


def fire() -> onnx.ModelProto:
    """Two expansions of one tensor, joined along the channels: SqueezeNet's module."""
    nodes = [
        node("Conv", "x s", "squeezed"),
        node("Relu", "squeezed", "q"),
        node("Conv", "q e1", "a"),
        node("Relu", "a", "ra"),
        node("Conv", "q e3", "b", pads=[1, 1, 1, 1]),
        node("Relu", "b", "rb"),
        node("Concat", "ra rb", "c", axis=1),
        node("Conv", "c r", "y"),
    ]
    constants = {
        "s": weights(3, 6, 1, 1),
        "e1": weights(8, 3, 1, 1),
        "e3": weights(8, 3, 3, 3),
        "r": weights(2, 16, 1, 1),
    }
    return simple(nodes, {"x": (1, 6, 5, 5)}, constants)


def dense_block() -> onnx.ModelProto:
    """Every part goes into two concatenations and lives on."""
    nodes = [
        node("Relu", "x", "a"),
        node("Conv", "a w1", "b", pads=[1, 1, 1, 1]),
        node("Concat", "a b", "ab", axis=1),
        node("Conv", "ab w2", "c", pads=[1, 1, 1, 1]),
        node("Concat", "ab c", "abc", axis=1),
        node("Conv", "abc w3", "d"),
        node("Add", "d a", "y"),
    ]
    constants = {"w1": weights(3, 4, 3, 3), "w2": weights(2, 7, 3, 3), "w3": weights(4, 9, 1, 1)}
    return simple(nodes, {"x": (1, 4, 4, 4)}, constants)


def gates() -> onnx.ModelProto:
    """One product, split into gates."""
    nodes = [
        node("MatMul", "x w", "all"),
        node("Split", "all sizes", "i f o", axis=1),
        node("Sigmoid", "i", "si"),
        node("Tanh", "f", "tf"),
        node("Mul", "si tf", "p"),
        node("Sigmoid", "o", "so"),
        node("Mul", "p so", "y"),
    ]
    return simple(nodes, {"x": (1, 6)}, {"w": weights(6, 36), "sizes": [12, 12, 12]})


def slices() -> onnx.ModelProto:
    """Slices that overlap, one of them of a slice, while the whole is still read."""
    nodes = [
        node("Relu", "x", "h"),
        node("Slice", "h s0 e0 axis", "a"),
        node("Slice", "h s1 e1 axis", "b"),
        node("Slice", "b s2 e2 axis", "c"),
        node("ReduceSum", "h axis", "t", keepdims=1),
        node("Mul", "a b", "ab"),
        node("ReduceSum", "c axis", "tc", keepdims=1),
        node("Add", "ab t", "abt"),
        node("Sub", "abt tc", "y"),
    ]
    ints = {"s0": [0], "e0": [8], "s1": [4], "e1": [12], "s2": [2], "e2": [7], "axis": [1]}
    return simple(nodes, {"x": (1, 12)}, ints)


def twice() -> onnx.ModelProto:
    """The same part in two places of one whole: one of them has to be copied."""
    nodes = [node("Relu", "x", "a"), node("Concat", "a a", "aa", axis=1), node("Relu", "aa", "y")]
    return simple(nodes, {"x": (1, 9)})


MODELS = {"fire": fire, "dense": dense_block, "gates": gates, "slices": slices, "twice": twice}
LOWER = {"fire": 0.15, "gates": 0.3, "slices": 0.25}  # at least so much less memory than with copies


def program_of(name: str, folder: Path, default: str = "fixed16", **exceptions: str) -> Program:
    loaded = load(MODELS[name](), folder)
    return compiled(loaded, samples_for(loaded.shapes["x"]), default, **exceptions)


def views(placed: Placement) -> list[Op]:
    return [op for op in walk(placed.program.body) if view_of(placed.program, op) is not None]


def copies(placed: Placement) -> int:
    return sum(not is_done_by_plan(placed.program, placed.plan, op) for op in views(placed))


def source_of(placed: Placement) -> str:
    whole = Transfer(False, 1, 128, 0, 0, placed.program.tensors[placed.program.input].size_bytes)
    return emit_model(laid_out(placed.program, placed.plan), [Target("host", whole)], bytes(8))["model/model.cpp"]


@pytest.mark.parametrize("default", ["fixed8", "fixed16"])
@pytest.mark.parametrize("name", MODELS)
def test_values_stay_the_same_and_the_peak_never_rises(name: str, default: str, tmp_path: Path) -> None:
    program = program_of(name, tmp_path, default)
    inputs = extreme_inputs(program, 3)
    wanted = run_reference(program, inputs).outputs
    placed, copied = place(program, ROWS), place(program, WITHOUT | ROWS)
    for found in (placed, copied, place(program, {"order"}), place(program, {"in-place"})):
        machine = Arena(found)
        assert np.array_equal([machine.run(sample) for sample in inputs], wanted)
    assert placed.plan.peak_bytes <= (1 - LOWER.get(name, 0)) * copied.plan.peak_bytes


@pytest.mark.parametrize("name", ["fire", "gates"])
def test_no_copy_is_emitted_where_the_plan_satisfies_the_view(name: str, tmp_path: Path) -> None:
    placed = place(program_of(name, tmp_path), ROWS)
    assert len(views(placed)) >= 2
    assert copies(placed) == 0
    text = source_of(placed)
    assert "hil::move<" not in text
    assert "hil::place" not in text
    assert text.count("is already in its place") == len(views(placed))


def test_a_part_can_be_in_one_place_only(tmp_path: Path) -> None:
    placed = place(program_of("twice", tmp_path), ROWS)
    assert len(views(placed)) == 2
    assert copies(placed) >= 1
    assert source_of(placed).count("hil::place") == copies(placed)


def test_parts_of_another_width_are_copied(tmp_path: Path) -> None:
    program = program_of("fire", tmp_path, "fixed16", ra="fixed8")
    aliased = {(alias.first, alias.second) for alias in problem_of(program, in_place=False).aliases}
    assert aliased == {("c", "rb")}


def test_whole_and_parts_share_a_scale_unless_asked_otherwise(tmp_path: Path) -> None:
    program = program_of("dense", tmp_path, "fixed8")
    scales = {program.tensors[name].format for name in ("a", "b", "ab", "c", "abc")}
    assert len(scales) == 1
    moved = compiled_with_offset(tmp_path)
    assert moved.tensors["b"].format.exponent == moved.tensors["ab"].format.exponent - 2


def compiled_with_offset(folder: Path) -> Program:
    """The dense block with a scale of b that was asked for."""
    loaded = load(MODELS["dense"](), folder)
    samples = samples_for(loaded.shapes["x"])
    ranges = calibrate(loaded, samples, {"name": "test"})
    offset = compiled(loaded, samples, "fixed8").tensors["ab"].format.exponent - 2
    offset -= exponent_for(ranges.magnitude("b"), 8)
    return lower(loaded, Assignment("fixed8", {}, {"b": offset}), ranges)


def test_a_whole_written_while_its_part_lives_is_no_view() -> None:
    """y = h[0:2] + h2 with h written anew in between."""
    fmt = named("fixed16").fit(1.0)
    tensors = {name: Tensor(name, count, fmt, Role.ARENA) for name, count in (("h", 4), ("p", 2), ("q", 4), ("y", 2))}
    tensors["x"] = Tensor("x", 4, fmt, Role.INPUT)
    block = {"offset": 0, "size_0": 1, "size_1": 1, "size_2": 1, "size_3": 2} | {f"stride_{i}": 1 for i in range(4)}
    add = {"a_shift": 0, "b_shift": 0, "shift": 0}
    body = (
        Op(Form("add"), "a", ("x", "x"), "h", {"count": 4, "a_period": 4, "b_period": 4, **add}),
        Op(Form("move"), "b", ("h",), "p", {**block, "shift": 0}),
        Op(Form("add"), "c", ("x", "h"), "q", {"count": 4, "a_period": 4, "b_period": 4, **add}),
        Op(Form("fill"), "d", (), "h", {"count": 4, "value": 1}),
        Op(Form("move"), "e", ("h",), "y", {**block, "shift": 0}),
        Op(Form("add"), "f", ("y", "p"), "y", {"count": 2, "a_period": 2, "b_period": 2, **add}),
    )
    program = Program("p", tensors, {}, body, "x", "y", (4,), (2,))
    assert not any(alias.second == "p" for alias in problem_of(program).aliases)


def test_the_checker_holds_views_to_their_offset(tmp_path: Path) -> None:
    loaded = load(MODELS["fire"](), tmp_path)
    ranges = calibrate(loaded, samples_for(loaded.shapes["x"]), {"name": "test"})
    placed = place(lower(loaded, Assignment("fixed16"), ranges, without=NAMES), ROWS)
    offsets = {**placed.plan.offsets}
    offsets["rb"], offsets["b"] = offsets["rb"] - 2, offsets["b"] - 2
    with pytest.raises(PlanError, match="overlap"):
        check(placed.problem, replace(placed.plan, offsets=offsets))


def test_natively_with_sanitizers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    placements = [place(program_of(name, tmp_path, width)) for name in MODELS for width in ("fixed8", "fixed16")]
    inputs = [extreme_inputs(placed.program, 5) for placed in placements]
    cases = compiled_cases(placements, inputs, monkeypatch)
    assert first_difference(cases, run_natively(cases, tmp_path, *SANITIZED)) == ""


@pytest.mark.parametrize("board", by_compiler(EMULATED))
def test_on_boards(board: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    placements = [place(program_of(name, tmp_path, "fixed8")) for name in ("fire", "gates", "slices")]
    inputs = [extreme_inputs(placed.program, 5) for placed in placements]
    cases = compiled_cases(placements, inputs, monkeypatch)
    assert first_difference(cases, run_on_board(cases, load_boards().board(board), tmp_path / "cache")) == ""
