"""Element-wise chains as one loop, and functions of 8-bit codes as tables: same integers, fewer loads and stores."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from kernel_cases import SANITIZED, Case, first_difference, run_natively, run_on_board
from onnx_models import compiled, load, node, samples_for, simple
from random_models import extreme_inputs

from tinyhil.codegen.kernel_calls import name_of, signature_of
from tinyhil.formats.fixed import Fixed
from tinyhil.harness.settings.config import load_boards
from tinyhil.language.form import Form
from tinyhil.language.program import Loop, Op, Program, Role, Tensor, walk
from tinyhil.memplan import Plan, plan
from tinyhil.memplan.arena.tensors import problem_of
from tinyhil.passes.arrange import CORES, arrange
from tinyhil.passes.chains import Chain, in_chains, period_of
from tinyhil.references.reference import run_reference

COUNT = 6
NO_SHIFTS = {"a_shift": 0, "b_shift": 0, "shift": 0}
CELL = [
    node("Add", "x b", "c"), node("Sigmoid", "c", "z"), node("Tanh", "x", "t"), node("Mul", "z t", "u"),
    node("Sub", "one z", "g"), node("Mul", "g x", "k"), node("Add", "u k", "y"),
]  # fmt: skip
FUNCTIONS = ("Sigmoid", "Tanh", "Exp", "Log", "Sqrt", "Erf", "Softplus", "HardSigmoid", "HardSwish", "Elu")
FORMATS = ("fixed8", "fixed6", "int8", "posit8es2", "e4m3", "e5m2")


def cell(folder: Path, default: str, count: int = 40) -> Program:
    constants = {"b": np.linspace(-2, 2, count).astype(np.float32)[None], "one": np.ones(1, np.float32)}
    return compiled(load(simple(CELL, {"x": (1, count)}, constants), folder), samples_for((1, count)), default)


@pytest.mark.parametrize("default", ["fixed8", "fixed16", "posit8es2", "int8", "float32"])
def test_a_cell_is_one_loop_that_stores_its_result_alone(default: str, tmp_path: Path) -> None:
    program = cell(tmp_path, default)
    (found,) = in_chains(program, plan(problem_of(program)), program.body)
    assert isinstance(found, Chain)
    assert (len(found.ops), found.stored) == (7, {"y"})
    assert signature_of(program, found).count("hil::") > 7


def moved_chain(offsets: dict[str, int], b_period: int, widths: dict[str, int]) -> tuple[Program, Plan]:
    """a = x + p, y = a + q; p may repeat."""
    tensors = {
        name: Tensor(name, b_period if name == "p" else COUNT, Fixed(8 * widths.get(name, 1), 0), Role.ARENA)
        for name in ("p", "q", "a", "y")
    } | {"x": Tensor("x", COUNT, Fixed(8, 0), Role.INPUT)}
    params = {"count": COUNT, "a_period": COUNT, "b_period": COUNT, **NO_SHIFTS}
    fills = tuple(Op(Form("fill"), f"fill_{n}", (), n, {"count": tensors[n].count, "value": 1}) for n in ("p", "q"))
    first = Op(Form("add"), "first", ("x", "p"), "a", {**params, "b_period": b_period})
    body = (*fills, first, Op(Form("add"), "second", ("a", "q"), "y", params))
    program = Program("moved", tensors, {}, body, "x", "y", (COUNT,), (COUNT,))
    return program, Plan(offsets, dict.fromkeys(offsets, ""), 99, 0, False, "")


def is_undisturbed(program: Program, placed: Plan, ops: tuple[Op, ...]) -> bool:
    """Whether one loop loads what was there before it, byte by byte: what `Chains` has to find out by arithmetic."""
    written: set[int] = set()
    made = {op.output for op in ops}
    for n in range(COUNT):
        for op in ops:
            for at, name in enumerate(op.inputs):
                if name in placed.offsets and name not in made:
                    size = program.tensors[name].format.storage_bytes
                    start = placed.offsets[name] + (n % period_of(op, at)) * size
                    if written & set(range(start, start + size)):
                        return False
        size = program.tensors["y"].format.storage_bytes
        written |= set(range(placed.offsets["y"] + n * size, placed.offsets["y"] + (n + 1) * size))
    return True


@pytest.mark.parametrize("b_period", [1, 3, COUNT])
@pytest.mark.parametrize("widths", [{}, {"y": 2}, {"p": 2, "q": 2}])
def test_no_store_reaches_what_a_later_round_loads(b_period: int, widths: dict[str, int]) -> None:
    chained = 0
    for y in range(0, 40, 1 + ("y" in widths)):
        program, placed = moved_chain({"p": 16, "q": 32, "a": 60, "y": y}, b_period, widths)
        found = [item for item in in_chains(program, placed, program.body) if isinstance(item, Chain)]
        right = is_undisturbed(program, placed, tuple(op for op in program.body[2:] if isinstance(op, Op)))
        assert not found or right, y
        chained += bool(found)
    assert chained >= 4


def test_what_others_read_is_stored() -> None:
    """An operation behind the chain that is no loop over elements, and reads what the chain's first one made."""
    offsets = {"p": 16, "q": 32, "a": 60, "y": 70, "z": 80}
    program, placed = moved_chain(offsets, COUNT, {})
    alone = [item for item in in_chains(program, placed, program.body) if isinstance(item, Chain)]
    assert [(chain.name, chain.count, chain.stored) for chain in alone] == [("first..second", COUNT, {"y"})]
    tensors = {**program.tensors, "z": replace(program.tensors["y"], name="z")}
    read = replace(
        program, tensors=tensors, body=(*program.body, Op(Form("move"), "away", ("a",), "z", {"count": COUNT}))
    )
    *_, chain, other = in_chains(read, placed, read.body)
    assert isinstance(chain, Chain)
    assert isinstance(other, Op)
    assert (chain.name, chain.stored) == ("first..second", {"a", "y"})


def test_what_the_next_step_reads_is_stored() -> None:
    """The first operation of a loop's body reads what the last one of the chain made a step ago."""
    program, placed = moved_chain({"p": 16, "q": 32, "a": 60, "y": 70}, COUNT, {})
    *fills, first, second = program.body
    assert isinstance(first, Op)
    start = Op(Form("fill"), "fill_y", (), "y", {"count": COUNT, "value": 0})
    loop = Loop("steps", 3, (), (replace(first, inputs=("y", "p")), second))
    last = Op(Form("move"), "away", ("q",), "z", {"count": COUNT})
    tensors = {**program.tensors, "z": replace(program.tensors["y"], name="z")}
    looped = replace(program, tensors=tensors, body=(*fills, start, loop, last), output="z")
    (chain,) = in_chains(looped, placed, loop.body)
    assert isinstance(chain, Chain)
    assert chain.stored == {"y"}


def functions_of(default: str, folder: Path) -> list[Program]:
    programs = []
    for name in FUNCTIONS:
        loaded = load(simple([node(name, "x", "y")], {"x": (1, 64)}), folder)
        values = np.abs(samples_for((1, 64))) + 0.01 if name in ("Log", "Sqrt") else 3 * samples_for((1, 64))
        programs.append(compiled(loaded, values, default))
    return programs


def every_code(program: Program) -> np.ndarray:
    bits = program.tensors[program.input].format.bits
    codes = np.arange(1 << bits)
    if program.tensors[program.input].format.c_type.startswith(("int", "hil::Fixed")):
        codes -= 1 << (bits - 1)
    return np.resize(codes, (-(-codes.size // 64), 64))


def some_codes(program: Program) -> np.ndarray:
    return np.resize(every_code(program), (4, program.tensors[program.input].count))


@pytest.mark.parametrize("default", FORMATS)
def test_tables_of_codes_are_the_functions(default: str, tmp_path: Path) -> None:
    tables = 0
    for program in functions_of(default, tmp_path):
        arranged = arrange(program, "avr")
        inputs = every_code(program)
        wanted, found = run_reference(program, inputs), run_reference(arranged, inputs)
        assert np.array_equal(wanted.outputs, found.outputs)
        assert np.array_equal(wanted.saturations, found.saturations)
        tables += any(name_of(op.kernel) == "code_table" for op in walk(arranged.body))
        used = {name for op in walk(arranged.body) for name in op.inputs}
        assert set(arranged.constants) <= used, "a table that nobody reads"
    assert tables == len(FUNCTIONS) if default.startswith("fixed") else tables >= 2


def arranged_cases(folder: Path) -> list[Case]:
    found = []
    for number, default in enumerate((*FORMATS, "fixed16")):
        for program in (cell(folder, default), *(functions_of(default, folder)[number::4])):
            arranged = arrange(program, "avr")
            inputs = extreme_inputs(program, number) if default.startswith("fixed") else some_codes(program)
            found.append(Case(f"{program.name} {default}", arranged, inputs))
    return found


def test_natively_with_sanitizers(tmp_path: Path) -> None:
    cases = arranged_cases(tmp_path)
    assert first_difference(cases, run_natively(cases, tmp_path, *SANITIZED)) == ""


def test_on_the_uno(tmp_path: Path) -> None:
    cases = [case for case in arranged_cases(tmp_path) if case.name.endswith(("fixed8", "fixed6", "fixed16"))]
    assert first_difference(cases, run_on_board(cases, load_boards().board("uno"), tmp_path)) == ""


def test_every_core_takes_tables_and_the_host_none(tmp_path: Path) -> None:
    program = cell(tmp_path, "fixed8")
    assert arrange(program, "host") is program
    for core in CORES:
        kernels = {name_of(op.kernel) for op in walk(arrange(program, core).body)}
        assert "code_table" in kernels
        assert not kernels & {"sigmoid", "tanh"}
