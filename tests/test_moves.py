"""Moves of a search: tried several at once and told from what is known, they end where one after the other ends."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from search_models import network_problem, place_apart

from benchmarks.networks import Network
from tinyhil.compiler.calibrate import calibrate
from tinyhil.compiler.lower import lower
from tinyhil.frontend.load import load_model
from tinyhil.harness.search.again import Again
from tinyhil.language.assignment import Assignment
from tinyhil.language.program import Program
from tinyhil.memplan.arena import schedules
from tinyhil.search.memory import Memory
from tinyhil.search.monotone import Known, storage_bytes
from tinyhil.search.search_problem import SearchProblem
from tinyhil.search.space import Candidate, Choice
from tinyhil.search.tradeoffs import Tradeoffs, Width, narrowed


def one_by_one(
    problem: SearchProblem, start: Candidate, order: list[int], choice: Choice
) -> tuple[Candidate, list[int]]:
    """MinUn's PromoteWithinMemoryLimit, as the paper has it."""
    found, overshooting = start, []
    for index in order:
        wider = problem.space.with_choices(found, {index: choice})
        if problem.fits(wider):
            found = wider
        else:
            overshooting.append(index)
    return found, overshooting


def slow(problem: SearchProblem) -> SearchProblem:
    """As if its plans took long."""
    problem.memory._slow.append(True)
    assert problem.tries_together
    return problem


@pytest.mark.parametrize("seed", range(8))
def test_several_at_once_are_raised_as_one_after_the_other(seed: int, tmp_path: Path) -> None:
    random = np.random.default_rng(seed)
    for limit in (15, 17, 20, 25, 40):
        problem, other = slow(network_problem(tmp_path, limit, seed)), network_problem(tmp_path, limit, seed)
        order = [int(index) for index in random.permutation(len(problem.space.groups))]
        low, high = problem.space.uniform(problem.space.low), problem.space.high
        if problem.fits(low):
            assert problem.promote(order, low, high) == one_by_one(other, low, order, high)


def test_few_are_planned_where_all_fit(tmp_path: Path) -> None:
    problem = network_problem(tmp_path, 1000)
    calls = []
    memory = Memory(problem.space, lambda program: calls.append(program) or place_apart(program))  # type: ignore[func-returns-value]
    groups = range(len(problem.space.groups))
    counted = slow(SearchProblem(problem.space, memory, problem.evaluator, 1000))
    low, high = problem.space.uniform(problem.space.low), problem.space.high
    assert counted.promote(groups, low, high) == (problem.space.uniform(high), [])
    assert len(calls) <= len(groups).bit_length()


@pytest.mark.parametrize("limit", [15, 17, 20, 25])
def test_narrowing_stops_at_the_first_step_that_fits(limit: int, tmp_path: Path) -> None:
    problem = slow(network_problem(tmp_path, limit))
    groups, low, high = problem.space.groups, problem.space.low, problem.space.high
    free = problem.in_ram()
    losses = {(index, low): float(index + 1) for index in free}
    widths = {
        index: (
            Width(high, groups[index].stored_bits(high), 0.0),
            Width(low, groups[index].stored_bits(low), index + 1.0),
        )
        for index in free
    }
    found = narrowed(problem, Tradeoffs(high, widths, losses, frozenset()), problem.space.uniform(high), set(free))
    expected = problem.space.uniform(high)
    for index in sorted(free, key=lambda index: ((index + 1.0) / (groups[index].elements or 1), index)):
        if problem.fits(expected):
            break
        expected = problem.space.with_choices(expected, {index: low})
    assert found == expected


def test_what_is_known_of_others_is_true_of_a_network(tmp_path: Path) -> None:
    """Of random assignments of two formats, in random order."""
    random, said = np.random.default_rng(0), 0
    for limit in (17, 20, 30):
        problem, known = network_problem(tmp_path, limit), Known()
        space = problem.space
        for _ in range(60):
            picked = np.flatnonzero(random.random(len(space.groups)) < random.random())
            candidate = space.with_choices(space.uniform(space.low), {int(index): space.high for index in picked})
            fits, says = problem.fits(candidate), known.says(candidate)
            assert says in (None, fits)
            said += says is not None
            known.learn(candidate, fits=fits)
    assert said > 60


def test_formats_of_one_width_tell_nothing_of_each_other() -> None:
    known = Known()
    known.learn((Choice("fixed8"), Choice("fixed16")), fits=True)
    assert known.says((Choice("fixed8"), Choice("fixed8"))) is True
    assert known.says((Choice("int8"), Choice("fixed8"))) is None
    known.learn((Choice("fixed16"), Choice("fixed8")), fits=False)
    assert known.says((Choice("fixed16"), Choice("fixed16"))) is False
    assert known.says((Choice("posit16es1"), Choice("fixed16"))) is None
    assert [storage_bytes(Choice(name)) for name in ("fixed4", "int8", "posit16es1", "float32")] == [1, 1, 2, 4]


def test_of_a_small_network_every_move_is_planned(tmp_path: Path) -> None:
    """Formats beside each other may need room for a conversion that one format for both does not."""
    problem = network_problem(tmp_path, 20)
    again = Again(lambda program: program, more_time=10.0)
    memory = Memory(problem.space, place_apart, again=again)
    assert not memory.plans_slowly
    assert not problem.tries_together
    program = lower_large(tmp_path)
    assert again.is_slow(program)


def lower_large(folder: Path) -> Program:
    """A network of nine layers, each by rows."""
    net = Network(12)
    for _ in range(9):
        net = net.conv(4, 3, 1, pad=1).relu()
    path = folder / "large.onnx"
    path.write_bytes(net.model().SerializeToString())
    graph = load_model(path).graph
    x = np.random.default_rng(0).normal(size=(2, *graph.shapes[graph.inputs[0]][1:])).astype(np.float32)
    return lower(graph, Assignment("fixed8"), calibrate(graph, x, {}))


@pytest.mark.parametrize("place", ["Cuts", "smallest"])
def test_interrupted_planning_begins_anew(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C ends a search while it plans; its answer is planned after that."""
    program, again = lower_large(tmp_path), Again(lambda program: program, more_time=10.0)
    least = again.floor_bytes(program)
    expected = again.smallest(program)
    fresh, made = Again(lambda program: program, more_time=10.0), getattr(schedules, place)
    with monkeypatch.context() as interrupted:
        interrupted.setattr(schedules, place, _interrupt)
        with pytest.raises(KeyboardInterrupt):
            fresh.within(program, least)
    assert getattr(schedules, place) is made
    assert fresh.floor_bytes(program) == least
    assert fresh.smallest(program).plan.peak_bytes == expected.plan.peak_bytes


def _interrupt(*_: object, **__: object) -> None:
    raise KeyboardInterrupt
