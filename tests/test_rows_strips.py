"""Strips: columns at their borders are computed again, and nothing else changes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from arena_machine import Arena, compiled_cases
from kernel_cases import SANITIZED, first_difference, run_natively, run_on_board
from test_rows import MODELS, inputs_of, program_of, runs

from tinyhil.harness.settings.config import load_boards
from tinyhil.language.program import Loop, Program
from tinyhil.memplan import check, plan
from tinyhil.memplan.arena.execution_check import faults_of_plan
from tinyhil.memplan.arena.placement import Placement
from tinyhil.memplan.arena.row_wise import row_wise
from tinyhil.memplan.arena.tensors import problem_of
from tinyhil.references.reference import ReferenceRun, run_reference
from tinyhil.references.verify import checked


def striped(program: Program, first: int, count: int) -> Program | None:
    """All stages of a chain from the one of this number on, in so many strips; of the first chain that can be."""
    made = (row_wise(program, part[first:], count) for part in runs(program))
    return next((one for one in made if one is not None), None)


def planned(program: Program) -> Placement:
    problem = problem_of(program)
    found = plan(problem)
    check(problem, found)
    assert not list(faults_of_plan(program, found))
    return Placement(program, problem, found)


def assert_alike(made: Program, inputs: np.ndarray, wanted: ReferenceRun, strips: int) -> None:
    """By the reference (what saturates is counted again by strips) and on the bytes of a plan."""
    found = run_reference(made, inputs)
    assert np.array_equal(found.outputs, wanted.outputs)
    if strips == 1:
        assert np.array_equal(found.saturations, wanted.saturations)
    machine = Arena(planned(made))
    assert np.array_equal([machine.run(x) for x in inputs[:2]], wanted.outputs[:2])


@pytest.mark.parametrize("default", ["fixed8", "fixed16"])
@pytest.mark.parametrize("name", MODELS)
def test_strips_compute_the_same(name: str, default: str, tmp_path: Path) -> None:
    """In numpy, and on the bytes of a plan."""
    program = program_of(name, tmp_path, default)
    inputs = inputs_of(program, 3)
    wanted = run_reference(program, inputs).outputs
    made = 0
    for first, count in ((0, 2), (1, 3), (0, 4)):
        found = striped(program, first, count)
        if found is None:
            continue
        assert sum(isinstance(item, Loop) for item in checked(found, "strips").body) == count
        assert np.array_equal(run_reference(found, inputs).outputs, wanted)
        machine = Arena(planned(found))
        assert np.array_equal([machine.run(sample) for sample in inputs[:3]], wanted[:3])
        made += 1
    assert made >= 1


def in_strips(folder: Path, *names: str) -> list[Placement]:
    found = []
    for name in names:
        program = striped(program_of(name, folder, "fixed8"), 0, 2)
        assert program is not None
        found.append(planned(program))
    return found


def test_natively_with_sanitizers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = in_strips(tmp_path, *MODELS)
    cases = compiled_cases(found, [inputs_of(placed.program, 5) for placed in found], monkeypatch)
    assert first_difference(cases, run_natively(cases, tmp_path, *SANITIZED)) == ""


@pytest.mark.parametrize(("board", "names"), [("uno", ["digits"]), ("due", ["odd", "residual", "fire"])])
def test_on_boards(board: str, names: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = in_strips(tmp_path, *names)
    cases = compiled_cases(found, [inputs_of(placed.program, 5) for placed in found], monkeypatch)
    assert first_difference(cases, run_on_board(cases, load_boards().board(board), tmp_path / "cache")) == ""
