"""Searches as runs: resumed after a kill, within budgets, no question asked twice, refusals."""

from __future__ import annotations

import json
from dataclasses import fields, make_dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from search_models import (
    network,
    network_problem,
    place_apart,
)
from test_search import least_bytes

from tinyhil.compiler.calibrate import calibrate
from tinyhil.errors import ConfigError, DataError
from tinyhil.harness.search.again import Again
from tinyhil.harness.search.device import Measured
from tinyhil.language.assignment import load_assignment
from tinyhil.memplan.arena.floor import floor_bytes
from tinyhil.memplan.arena.schedules import Schedules
from tinyhil.preference import Wish
from tinyhil.sealed import sealed
from tinyhil.search import strategies
from tinyhil.search.evaluator import make_examples, require_classes
from tinyhil.search.memory import Memory
from tinyhil.search.search_loop import Budget, search
from tinyhil.search.search_problem import Ask, Asking, SearchProblem
from tinyhil.search.space import Choice, make_space
from tinyhil.search.strategies import make_strategy
from tinyhil.search.strategies.haunter import Haunter
from tinyhil.search.trial import Device, Trial, TrialLog


@pytest.mark.parametrize("name", ["haunter", "lagrange", "random", "nsga2"])
def test_a_killed_search_goes_on_with_the_same_trials(name: str, tmp_path: Path) -> None:
    def run(path: Path | None, stop_at: int | None = None) -> tuple[Trial, ...]:
        problem = network_problem(tmp_path, 18)
        asked = []

        def watch(trial: Trial, best: Trial | None) -> None:
            asked.append(trial)
            if stop_at is not None and len(asked) == stop_at:
                raise KeyboardInterrupt

        log = TrialLog(path, problem.space, "key")
        return search(make_strategy(name, ()), problem, budget=Budget(evaluations=25), log=log, on_trial=watch).trials

    whole = run(None)
    path = tmp_path / "trials.jsonl"
    with pytest.raises(KeyboardInterrupt):
        run(path, stop_at=2)
    with path.open("a") as file:
        file.write('{"number": 2, "kind": "fu')  # what a kill in the middle of a write leaves
    assert run(path) == whole
    assert len(path.read_text().splitlines()) == len(whole) + 1


def test_the_log_of_another_search_is_not_used(tmp_path: Path) -> None:
    problem = network_problem(tmp_path, 18)
    path = tmp_path / "trials.jsonl"
    search(Haunter(), problem, log=TrialLog(path, problem.space, "one"))
    assert TrialLog(path, problem.space, "one").read()
    assert TrialLog(path, problem.space, "two").read() == []


def test_logged_trials_are_not_evaluated_again(tmp_path: Path) -> None:
    path = tmp_path / "trials.jsonl"
    problem = network_problem(tmp_path, 18)
    search(Haunter(), problem, log=TrialLog(path, problem.space, "key"))
    lines = path.read_text().splitlines()
    first = json.loads(lines[1])
    first["score"]["disagreements"] = 0
    del first["sum"]
    path.write_text("\n".join([lines[0], sealed(first), *lines[2:]]) + "\n")
    again = search(Haunter(), network_problem(tmp_path, 18), log=TrialLog(path, problem.space, "key"))
    assert again.trials[0].score.disagreements == 0


def test_a_log_takes_every_figure_that_a_board_measured() -> None:
    """Else it refuses its own rows as those of another version, and all is tried again."""
    assert {field.name for field in fields(Measured)} == set(Device.model_fields)


def test_budgets(tmp_path: Path) -> None:
    problem = network_problem(tmp_path, 18)
    few = search(make_strategy("random", ()), problem, budget=Budget(evaluations=5))
    assert (len(few.trials), few.finished) == (5, False)
    reached = search(make_strategy("random", ()), problem, budget=Budget(target=few.best.score.disagreements))
    assert len(reached.trials) <= 5
    assert search(make_strategy("random", ()), problem, budget=Budget(seconds=0.0)).best.fits


def test_a_budget_too_small_for_any_fitting_trial_still_gives_one(tmp_path: Path) -> None:
    problem = network_problem(tmp_path, 18)
    found = search(make_strategy("layerwise", ()), problem, budget=Budget(evaluations=1))
    assert found.best.fits


def test_the_same_question_is_answered_once(tmp_path: Path) -> None:
    class Twice:
        name: ClassVar[str] = "twice"
        source: ClassVar[str] = "test"

        def propose(self, problem: SearchProblem) -> Asking:
            low = problem.space.uniform(problem.space.low)
            first = yield Ask(low, complete=True)
            second = yield Ask(low)
            assert first is second
            return None

    assert len(search(Twice(), network_problem(tmp_path, 18)).trials) == 1


# --- bad input ----------------------------------------------------------------------------------------------------


def test_an_infeasible_limit_names_the_least_and_the_tensors(tmp_path: Path) -> None:
    problem = network_problem(tmp_path, 5)
    least = least_bytes(problem)
    with pytest.raises(ConfigError, match=rf"5 B of RAM are not feasible, the least is {least} B.*t2 6 B") as caught:
        search(Haunter(), problem)
    assert f"--ram {least}" in str(caught.value)


def test_unknown_strategies_and_options_list_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="known: lagrange, haunter"):
        make_strategy("hunter", ())
    with pytest.raises(ConfigError, match="it has: soft_limit_factor, percentile"):
        make_strategy("haunter", ["factor=2"])
    with pytest.raises(ConfigError, match="percentile=high is no float"):
        make_strategy("haunter", ["percentile=high"])
    with pytest.raises(ConfigError, match="above 0 and at most a million"):
        make_strategy("haunter", ["soft_limit_factor=0"])
    assert make_strategy("haunter", ["permit_overflow=true"]) == Haunter(permit_overflow=True)


def test_annotations_of_an_own_strategy_may_be_types(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where its file does not begin with `from __future__ import annotations`."""
    fields = [("name", ClassVar[str], "ours"), ("most", int, 5)]
    ours = make_dataclass("Ours", fields, namespace={"name": "ours"}, frozen=True)
    monkeypatch.setattr(strategies, "STRATEGIES", (*strategies.STRATEGIES, ours))
    assert make_strategy("ours", ["most=3"]).most == 3
    with pytest.raises(ConfigError, match="most=x is no int"):
        make_strategy("ours", ["most=x"])


def test_one_format_is_no_choice(tmp_path: Path) -> None:
    graph = network(tmp_path)
    space = make_space(graph, calibrate(graph, np.ones((1, 1, 8), np.float32), {}), ["fixed8", "fixed8"])
    assert space.formats == ("fixed8",)
    with pytest.raises(ConfigError, match="needs a format"):
        make_space(graph, space.ranges, [])


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (np.zeros((0, 1, 8), np.float32), "no samples"),
        (np.full((3, 1, 8), np.nan, np.float32), "NaN"),
        (np.ones((3, 1, 8), np.float32), "constant"),
    ],
)
def test_data_that_decide_nothing(x: np.ndarray, message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=message):
        make_examples(network(tmp_path), x, None)


def test_a_single_class(tmp_path: Path) -> None:
    graph = network(tmp_path)
    x = np.random.default_rng(0).normal(size=(200, 1, 8)).astype(np.float32)
    examples = make_examples(graph, x, None)
    require_classes(examples)
    same = examples.x[examples.classes == examples.classes[0]]
    with pytest.raises(DataError, match="one class"):
        require_classes(make_examples(graph, same, None))


def test_assignment_files_are_what_run_takes(tmp_path: Path) -> None:
    from tinyhil.harness.search.session import write_assignment

    problem = network_problem(tmp_path, 18)
    found = search(Haunter(), problem)
    write_assignment(tmp_path / "a.yaml", problem.space, found.best, Wish("ram"))
    loaded = load_assignment(tmp_path / "a.yaml", problem.space.graph)
    for group, choice in zip(problem.space.groups, found.best.candidate, strict=True):
        assert loaded.format_of(group.members) == choice.format


def test_memory_is_planned_once_per_candidate_and_not_where_the_bound_decides(tmp_path: Path) -> None:
    problem = network_problem(tmp_path, 18)
    calls = []

    def counting(program):  # type: ignore[no-untyped-def]
        calls.append(program)
        return place_apart(program)

    memory = Memory(problem.space, counting)
    space = problem.space
    for _ in range(2):
        for choice in (space.low, space.high, Choice("fixed8", -1)):
            memory.planned_bytes(space.uniform(choice))
    assert len(calls) == 3, "another scale may end a view"
    bounded = Memory(problem.space, counting, floor=floor_bytes)
    least = floor_bytes(space.lower(space.uniform(space.high)))
    assert 0 < least <= memory.planned_bytes(space.uniform(space.high))
    assert not bounded.fits(space.uniform(space.high), least - 1)
    assert len(calls) == 3, "the bound said no"


def test_nothing_is_planned_where_not_even_computing_again_can_fit(tmp_path: Path) -> None:
    problem = network_problem(tmp_path, 18)
    space, planned = problem.space, []
    again = Again(lambda program: planned.append(program) or program, more_time=10.0)  # type: ignore[func-returns-value]
    memory = Memory(space, place_apart, floor=floor_bytes, again=again)
    wide = space.uniform(space.high)
    assert not memory.fits(space.uniform(space.low), 1), "what computing again saves is known"
    once, least = floor_bytes(space.lower(wide)), Schedules(space.lower(wide)).floor_bytes
    assert 0 < least <= once
    planned.clear()
    assert not memory.fits(wide, least - 1)
    assert len(planned) <= 1, "the bound of computing again said no"
    assert least <= again.smallest(space.lower(wide)).plan.peak_bytes
