"""What constants fold into tables within loops: the same codes and as many clipped results as one by one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from kernel_cases import SANITIZED, Case, first_difference, run_natively, run_on_board
from onnx_models import compiled, graph, load, model, node, samples_for
from random_models import extreme_inputs
from scan_models import cell, scan

from tinyhil.codegen.kernel_calls import name_of
from tinyhil.formats.fixed import Fixed
from tinyhil.harness.settings.config import load_boards
from tinyhil.language.form import Form
from tinyhil.language.program import Loop, Op, Program, Role, Tensor, walk
from tinyhil.passes.arrange import arrange
from tinyhil.passes.folded import Body, changed
from tinyhil.passes.ranges import without_needless_clipping
from tinyhil.references.reference import run_reference

STEPS, WIDTH = 20, 16
GATED = [
    node("Add", "h x_t", "c"), node("Add", "c bg", "cg"), node("Sigmoid", "cg", "z"), node("Sub", "c bh", "ch"),
    node("Tanh", "ch", "t"), node("Mul", "z zeta", "zz"), node("Sub", "one zz", "gate"),
    node("Mul", "gate t", "update"), node("Mul", "z h", "keep"), node("Add", "keep update", "h_next"),
]  # fmt: skip
SUM_OF_THE_STATE = [
    node("Add", "bg h", "s"), node("Tanh", "s", "t"), node("Sigmoid", "s", "z"), node("Mul", "t z", "u"),
    node("Add", "u x_t", "h_next"),
]  # fmt: skip
READ_TWICE = [
    node("Add", "h bg", "s"), node("Tanh", "s", "t"), node("Mul", "s t", "u"), node("Add", "u x_t", "h_next"),
]  # fmt: skip
CELLS = {"gated": GATED, "state": SUM_OF_THE_STATE, "twice": READ_TWICE}
FORMATS = ("fixed8", "fixed6", "fixed16", "int8", "posit8es2", "float32")


def recurrent(folder: Path, name: str, default: str, spread: float = 2.0) -> Program:
    chance = np.random.default_rng(len(name))
    constants = {
        "bg": chance.normal(0.5, spread, (1, WIDTH)).astype(np.float32),
        "bh": chance.normal(-1, spread, (1, WIDTH)).astype(np.float32),
        "zeta": np.array([0.7], np.float32),
        "one": np.ones(1, np.float32),
    }
    body = cell(CELLS[name], {"h": (1, WIDTH), "x_t": (1, WIDTH)}, constants=constants)
    given = {"h0": np.zeros((1, WIDTH), np.float32)}
    proto = model(graph([scan("h0 x", "y", body)], {"x": (STEPS, 1, WIDTH)}, "y", given))
    return compiled(load(proto, folder), samples_for((STEPS, 1, WIDTH)), default)


def kernels(program: Program) -> list[str]:
    return [name_of(op.kernel) for op in walk(program.body)]


@pytest.mark.parametrize("core", ["avr", "cortex-m7"])
@pytest.mark.parametrize("default", FORMATS)
@pytest.mark.parametrize("name", CELLS)
def test_the_folded_program_computes_the_same(name: str, default: str, core: str, tmp_path: Path) -> None:
    for spread in (0.1, 4.0):
        program = recurrent(tmp_path, name, default, spread)
        made, inputs = arrange(program, core), extreme_inputs(program, 3)
        wanted, found = run_reference(program, inputs), run_reference(made, inputs)
        assert np.array_equal(found.outputs, wanted.outputs)
        assert np.array_equal(found.saturations, wanted.saturations)
        used = {name for op in walk(made.body) for name in op.inputs}
        assert set(made.constants) <= used


def test_functions_of_sums_are_look_ups(tmp_path: Path) -> None:
    gated = kernels(arrange(recurrent(tmp_path, "gated", "fixed8"), "cortex-m7"))
    assert [gated.count(kernel) for kernel in ("sum_table", "code_table", "mul", "sub")] == [3, 0, 2, 0]
    state = kernels(arrange(recurrent(tmp_path, "state", "fixed8"), "avr"))
    assert state.count("sum_table") == 2
    twice = kernels(arrange(recurrent(tmp_path, "twice", "fixed8"), "avr"))
    assert (twice.count("sum_table"), twice.count("code_table")) == (0, 1)


def test_what_never_clips_never_does(tmp_path: Path) -> None:
    """Every operation that is said not to clip, on inputs that reach the ends of the format."""
    said = 0
    for name in CELLS:
        program = arrange(recurrent(tmp_path, name, "fixed8", 4.0), "avr")
        clipped: dict[str, int] = {}

        def observe(op: Op, _: np.ndarray, found: np.ndarray, clipped: dict[str, int] = clipped) -> None:
            clipped[op.output] = clipped.get(op.output, 0) + int(found.sum())

        run_reference(program, extreme_inputs(program, 1, 50), observe=observe)
        said += sum(not op.clips for op in walk(program.body))
        assert not any(clipped[op.output] for op in walk(program.body) if not op.clips)
    assert said >= 3


def two_operations(source: np.random.Generator) -> Program:
    """x + c, x - c or x * c, then the same with one other constant; all formats and shifts by chance."""
    count = 4
    kernels = source.choice(("add", "sub", "mul"), 2)
    formats = [Fixed(int(source.integers(3, 7)), 0) for _ in range(3)]
    ends = [sorted(source.integers(-5, 6, 2)) for _ in kernels]
    constants = {
        "c": source.integers(ends[0][0], ends[0][1] + 1, count),
        "d": source.integers(*ends[1] + np.r_[0, 1], 1),
    }
    tensors = {
        name: Tensor(name, count, fmt, role)
        for name, fmt, role in zip("xyz", formats, (Role.INPUT, Role.ARENA, Role.ARENA), strict=True)
    } | {name: Tensor(name, codes.size, Fixed(8, 0), Role.CONSTANT) for name, codes in constants.items()}
    body = []
    for kernel, a, b, out in zip(kernels, "xy", "cd", "yz", strict=True):
        shifts = source.integers(0, 3, 2) if kernel != "mul" else ()
        params = {
            "count": count,
            "a_period": count,
            "b_period": constants[b].size,
            "shift": int(source.integers(-2, 4)),
        }
        params |= dict(zip(("a_shift", "b_shift"), map(int, shifts), strict=False))
        body.append(Op(Form(str(kernel)), out, (a, b), out, params))
    return Program("two", tensors, constants, tuple(body), "x", "z", (count,), (count,))


def test_what_is_not_clipped_is_what_no_code_clips() -> None:
    """Of two operations on all codes: their ends are reached, so that the proof leaves nothing out."""
    source, said = np.random.default_rng(1), 0
    for _ in range(150):
        program = two_operations(source)
        fmt = program.tensors["x"].format
        codes = np.repeat(np.arange(fmt.lowest, fmt.highest + 1)[:, None], 4, axis=1)
        clipped = {"y": 0, "z": 0}

        def observe(op: Op, _: np.ndarray, found: np.ndarray, clipped: dict[str, int] = clipped) -> None:
            clipped[op.output] += int(found.sum())

        run_reference(program, codes, observe=observe)
        made = without_needless_clipping(program)
        assert {op.output: op.clips for op in walk(made.body)} == {name: n > 0 for name, n in clipped.items()}
        said += sum(not op.clips for op in walk(made.body))
    assert 60 < said < 240


def test_loops_within_loops_are_carried_out_as_often_as_both_say() -> None:
    repetitions: list[int] = []

    def change(body: Body, steps: int) -> Body:
        repetitions.append(steps)
        return body

    changed((Loop("outer", 3, (), (Loop("inner", 5, (), ()),)), Loop("alone", 4, (), ())), change)
    assert repetitions == [15, 3, 4]


def folded_cases(folder: Path, core: str) -> list[Case]:
    found = []
    for number, default in enumerate(("fixed8", "fixed6", "int8")):
        for name in CELLS:
            program = arrange(recurrent(folder, name, default, 3.0), core)
            found.append(Case(f"{name} {default}", program, extreme_inputs(program, number)))
    return found


@pytest.mark.parametrize("core", ["avr", "cortex-m7"])
def test_natively_with_sanitizers(core: str, tmp_path: Path) -> None:
    cases = folded_cases(tmp_path, core)
    assert first_difference(cases, run_natively(cases, tmp_path, *SANITIZED)) == ""


def test_on_the_uno(tmp_path: Path) -> None:
    chosen = ("gated int8", *(f"{name} fixed8" for name in CELLS))
    cases = [case for case in folded_cases(tmp_path, "avr") if case.name in chosen]
    assert first_difference(cases, run_on_board(cases, load_boards().board("uno"), tmp_path)) == ""
