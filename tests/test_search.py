"""Strategies: what the papers say they do, the limit kept, the same trials again, and errors that say the remedy."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from search_models import (
    FORMATS,
    STRATEGY_NAMES,
    formats_of,
    host_engine,
    network,
    network_problem,
    place_apart,
    search_problem,
    worked_example,
)

from tinyhil.errors import ConfigError
from tinyhil.frontend.load import load_model
from tinyhil.harness.build.toolchain import default_cache_dir
from tinyhil.language.program import Role
from tinyhil.memplan.arena.placement import place
from tinyhil.references.reference import run_reference
from tinyhil.search.evaluator import Score
from tinyhil.search.memory import Memory
from tinyhil.search.offer import formats_on_offer, stands_for
from tinyhil.search.search_loop import Budget, search
from tinyhil.search.search_problem import SearchProblem
from tinyhil.search.space import Candidate, Choice
from tinyhil.search.strategies import make_strategy
from tinyhil.search.strategies.haunter import Haunter, choose_pair, promotion_order, promotions
from tinyhil.search.strategies.lagrange import merit
from tinyhil.search.strategies.shiftry import Shiftry
from tinyhil.search.trial import Trial

LIMITS = (13, pytest.param(18, marks=pytest.mark.slow), 22)
ROOT = Path(__file__).resolve().parent.parent


def least_bytes(problem: SearchProblem) -> int:
    return problem.memory.planned_bytes(problem.space.uniform(problem.space.low))


# --- MinUn's worked example ---------------------------------------------------------------------------------------


def truncated(real: float, exponent: int) -> float:
    """Fixed point as the paper's compilers compute it: towards zero."""
    return float(np.trunc(np.ldexp(real, -exponent)) * 2.0**exponent)


def worked_errors() -> dict[str, float]:
    """|high - low| of t1 and t2 by the paper's arithmetic: products of rounded operands, results truncated."""
    found: dict[int, tuple[float, float]] = {}
    for bits in (16, 8):
        weight_scale, sum_scale, bias_scale = 3 - bits, 4 - bits, -2 - (bits - 1)
        w = [truncated(v, weight_scale) for v in (-2.139562, 1.885351)]
        x = [truncated(v, weight_scale) for v in (1.185109, -2.206466)]
        t1 = truncated(w[0] * x[0] + w[1] * x[1], sum_scale)
        t2 = truncated(t1 + truncated(truncated(0.146048, bias_scale), sum_scale), sum_scale)
        found[bits] = (t1, t2)
    return {name: abs(found[16][i] - found[8][i]) for i, name in enumerate(("t1", "t2"))}


def test_worked_example_of_appendix_b(tmp_path: Path) -> None:
    """3 B instead of 4: t1 keeps 16 bits at offsets 0 and 1, t2 has 8 at offset 2."""
    x = np.array([[[1.185109], [-2.206466]]], np.float32)
    problem = search_problem(worked_example(tmp_path), x, limit_bytes=3)
    space = problem.space
    assert float(problem.evaluator.examples.outputs[0, 0]) == pytest.approx(-6.549199, abs=1e-3)
    assert problem.memory.planned_bytes(space.uniform(space.high)) == 4
    errors = worked_errors()
    assert errors["t1"] > errors["t2"] > 0
    order = promotion_order(problem, [errors.get(group.name, 0.0) for group in space.groups])
    first = next(promotions(problem, order, space.low, space.high))
    widths = formats_of(problem, first.candidate)
    assert (widths["t1"], widths["t2"]) == ("fixed16", "fixed8")
    assert {widths[name] for name in ("W1", "X1", "B1")} == {"fixed16"}  # they take no RAM of the arena
    plan = place_apart(space.lower(first.candidate)).plan
    assert (plan.peak_bytes, plan.offsets["t1"], plan.offsets["t2"]) == (3, 0, 2)


def test_the_worked_example_as_a_text() -> None:
    """examples/linear_classifier.dsl is the same model: the same widths by the paper's order, in 3 B."""
    graph = load_model(ROOT / "examples" / "linear_classifier.dsl").graph
    problem = search_problem(graph, np.array([[[1.185109], [-2.206466]]], np.float32), limit_bytes=3)
    errors = worked_errors()
    order = promotion_order(problem, [errors.get(group.name, 0.0) for group in problem.space.groups])
    first = next(promotions(problem, order, problem.space.low, problem.space.high))
    widths = formats_of(problem, first.candidate)
    assert (widths["t1"], widths["t2"]) == ("fixed16", "fixed8")
    assert place_apart(problem.space.lower(first.candidate)).plan.peak_bytes == 3


PRINTED = {"t2": 0.45117, "t1": 0.30469, "X1": 0.02197, "B1": 0.00543, "W1": 0.00513}


def test_appendix_b_in_posits_is_found_by_haunter(tmp_path: Path) -> None:
    """The five numbers of its heat map, the order, and the answer: t1 in 16 bits, t2 in 8, in 3 B."""
    x = np.array([[[1.185109], [-2.206466]]], np.float32)
    problem = search_problem(worked_example(tmp_path), x, limit_bytes=3, formats=("posit8es2", "posit16es2"))
    groups, heat = problem.space.groups, problem.heat(Choice("posit16es2"), Choice("posit8es2"))
    printed = {group.name: round(error / group.elements, 5) for group, error in zip(groups, heat, strict=True)}
    assert printed == PRINTED
    assert [groups[index].name for index in promotion_order(problem, heat)] == [*PRINTED]
    found = search(Haunter(), problem).best
    widths = formats_of(problem, found.candidate)
    assert (widths["t1"], widths["t2"]) == ("posit16es2", "posit8es2")
    plan = place_apart(problem.space.lower(found.candidate)).plan
    assert (plan.peak_bytes, plan.offsets["t1"], plan.offsets["t2"]) == (3, 0, 2)


# --- every strategy -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit_bytes", LIMITS)
@pytest.mark.parametrize("name", STRATEGY_NAMES)
def test_the_limit_holds_and_the_same_trials_come_again(name: str, limit_bytes: int, tmp_path: Path) -> None:
    runs = []
    for _ in range(2):
        problem = network_problem(tmp_path, limit_bytes)
        runs.append(search(make_strategy(name, ()), problem, budget=Budget(evaluations=25)))
    found = runs[0]
    assert found.trials == runs[1].trials
    assert found.best == runs[1].best
    assert found.best.fits
    assert found.best.kind == "full"
    planned = place_apart(problem.space.lower(found.best.candidate)).plan.peak_bytes
    assert found.best.ram_bytes == planned <= limit_bytes


@pytest.mark.parametrize("name", STRATEGY_NAMES)
def test_a_limit_of_the_widest_format_costs_nothing(name: str, tmp_path: Path) -> None:
    problem = network_problem(tmp_path, 10_000)
    found = search(make_strategy(name, ()), problem, budget=Budget(evaluations=25))
    wide = problem.evaluator.score(problem.space.lower(problem.space.uniform(problem.space.high)))
    allowed = 2 if name in ("shiftry", "layerwise", "random", "nsga2") else 0  # they demote although they need not
    assert found.best.score.disagreements <= wide.disagreements + allowed * len(problem.evaluator.examples) // 100


@pytest.mark.parametrize("seed", range(6))
def test_against_every_assignment(seed: int, tmp_path: Path) -> None:
    """Exhaustive is the optimum over the arena; ours comes within two samples of 400, and no worse than HAUNTER."""
    limit = 18
    results = {}
    for name in ("exhaustive", "haunter", "lagrange"):
        found = search(make_strategy(name, ()), network_problem(tmp_path, limit, seed), budget=Budget(evaluations=40))
        results[name] = found.best.score.disagreements
    assert results["exhaustive"] <= results["haunter"]
    assert results["lagrange"] <= results["exhaustive"] + 2
    assert results["lagrange"] <= results["haunter"]


def test_exhaustive_tries_everything_that_fits(tmp_path: Path) -> None:
    problem = network_problem(tmp_path, 18)
    found = search(make_strategy("exhaustive", ()), problem)
    space, wide = problem.space, problem.space.uniform(problem.space.high)
    possible = {
        space.with_choices(wide, dict(zip(space.arena(), choices, strict=True)))
        for choices in itertools.product((space.low, space.high), repeat=len(space.arena()))
    }
    fitting = {c for c in possible if place_apart(space.lower(c)).plan.peak_bytes <= 18}
    assert {trial.candidate for trial in found.trials} == fitting
    assert 1 < len(fitting) < len(possible)


def test_exhaustive_refuses_large_models(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="tensors are free"):
        search(make_strategy("exhaustive", ["most_groups=2"]), network_problem(tmp_path, 30))


# --- HAUNTER ------------------------------------------------------------------------------------------------------


def test_heat_is_the_percentile_of_the_difference(tmp_path: Path) -> None:
    problem = network_problem(tmp_path, 20)
    space = problem.space
    errors = problem.heat(space.high, space.low, 95.0)
    values = []
    for choice in (space.high, space.low):
        program = space.lower(space.uniform(choice))
        seen: dict[str, np.ndarray] = {}
        run_reference(program, problem.evaluator._quantized(program).astype(np.int64), seen.__setitem__)
        values.append({n: np.ldexp(a.astype(float), program.tensors[n].format.exponent) for n, a in seen.items()})
    for group, error in zip(space.groups, errors, strict=True):
        if group.role == Role.ARENA:
            name = group.members[0]
            differences = np.abs(values[0][name] - values[1][name])
            assert error == pytest.approx(np.percentile(differences, 95, method="lower"), rel=1e-5)
    assert min(errors) > 0


def test_phase_three_has_three_passes(tmp_path: Path) -> None:
    problem = network_problem(tmp_path, 17)
    space = problem.space
    order = list(range(len(space.groups)))
    first, overshooting = problem.promote(order, space.uniform(space.low), space.high)
    assert len(overshooting) >= 2
    asked = [ask.candidate for ask in promotions(problem, order, space.low, space.high)]
    assert asked[0] == first
    starts = [space.with_choices(space.uniform(space.low), {index: space.high}) for index in overshooting]
    expected = [problem.promote(order, start, space.high)[0] for start in starts if problem.fits(start)]
    assert asked[1 : 1 + len(expected)] == expected
    fitting = [index for index, start in zip(overshooting, starts, strict=True) if problem.fits(start)]
    assert fitting
    for index, candidate in zip(fitting, expected, strict=True):
        assert candidate[index] == space.high
    together, _ = problem.promote([*overshooting, *order], space.uniform(space.low), space.high)
    assert asked[1 + len(expected) :] == [together]


def test_a_soft_limit_promotes_further_but_is_never_the_result(tmp_path: Path) -> None:
    found = search(Haunter(soft_limit_factor=1.3), network_problem(tmp_path, 17))
    assert any(trial.ram_bytes > 17 for trial in found.trials)
    assert found.best.ram_bytes <= 17


def test_a_soft_limit_below_one_leaves_room(tmp_path: Path) -> None:
    found = search(Haunter(soft_limit_factor=0.8), network_problem(tmp_path, 17))
    assert max(trial.ram_bytes for trial in found.trials) <= 0.8 * 17
    plain = search(Haunter(), network_problem(tmp_path, 17))
    assert max(trial.ram_bytes for trial in plain.trials) > 0.8 * 17


def test_the_run_of_all_low_is_a_candidate(tmp_path: Path) -> None:
    problem = network_problem(tmp_path, 17)
    tried = [trial.candidate for trial in search(Haunter(), problem).trials]
    assert problem.space.uniform(problem.space.low) in tried


def test_baselines_demote_from_all_high_until_it_fits(tmp_path: Path) -> None:
    """By size, and by the accuracy of each demoted alone; nothing that takes no RAM, and not one more than needed."""
    problem = network_problem(tmp_path, 19)
    space, high, low = problem.space, problem.space.high, problem.space.low
    free = problem.free()
    alone = {i: problem.evaluator.score(space.lower(space.with_choices(space.uniform(high), {i: low}))) for i in free}
    orders = {
        "size_only": sorted(free, key=lambda i: (-space.groups[i].elements, i)),
        "accuracy_only": sorted(free, key=lambda i: (alone[i].disagreements, i)),
    }
    for name, order in orders.items():
        expected = space.uniform(high)
        for index in order:
            if not problem.fits(expected):
                expected = space.with_choices(expected, {index: low})
        found = search(make_strategy(name, ()), problem)
        assert found.best.candidate == expected, name
        assert 0 < sum(choice == low for choice in expected) < len(free)
        promoted = search(make_strategy(name, ("promote=true",)), problem)
        assert problem.fits(promoted.best.candidate)


def test_shiftry_may_stop_where_it_fits(tmp_path: Path) -> None:
    problem = network_problem(tmp_path, 22)
    papers, ours = (search(make_strategy("shiftry", (f"until_it_fits={text}",)), problem) for text in ("false", "true"))
    assert papers.best.ram_bytes < ours.best.ram_bytes <= 22
    assert ours.best.score.disagreements <= papers.best.score.disagreements


@pytest.mark.parametrize(("good_from", "expected"), [(0, (0, 1)), (1, (0, 1)), (2, (1, 2)), (3, (2, 3)), (9, (2, 3))])
def test_the_pair_encloses_the_float_accuracy(good_from: int, expected: tuple[int, int], tmp_path: Path) -> None:
    """One homogeneous run per width on offer; then the neighbours of which the wider is the first as good as float."""
    problem = network_problem(tmp_path, 10_000)
    offered = ("fixed8", "fixed9", "fixed12", "fixed16")
    pair, asked = phase_one(problem, offered, [int(number >= good_from) for number in range(4)])
    assert pair == tuple(Choice(offered[place]) for place in expected)
    assert asked == [problem.space.uniform(Choice(name)) for name in offered]


def test_a_pair_that_fits_nowhere_gives_way(tmp_path: Path) -> None:
    problem = network_problem(tmp_path, 12)  # 12-bit values take two bytes each
    pair, _ = phase_one(problem, ("fixed8", "fixed12", "fixed16"), [0, 0, 1])
    assert pair == (Choice("fixed8"), Choice("fixed12"))


def test_es_of_posits_is_chosen_by_homogeneous_runs(tmp_path: Path) -> None:
    problem = network_problem(tmp_path, 10_000)
    names = tuple(formats_on_offer("posit8, posit16"))
    assert stands_for("fixed8,posit8") == "posit8 stands for posit8es0, posit8es2"
    assert stands_for("fixed8,posit8es1") == ""
    assert names == ("posit8es0", "posit8es2", "posit16es1", "posit16es2")
    for good, expected in (([1, 0, 0, 1], (0, 3)), ([0, 1, 1, 0], (1, 2)), ([0, 0, 0, 0], (1, 3))):
        pair, asked = phase_one(problem, names, good)
        assert pair == tuple(Choice(names[place]) for place in expected)
        assert asked == [problem.space.uniform(Choice(name)) for name in names]


def phase_one(
    problem: SearchProblem, offered: tuple[str, ...], good: list[int]
) -> tuple[tuple[Choice, ...], list[Candidate]]:
    """The pair that phase I chooses, and what it asks; `good` says which answers are as good as float."""
    asking = choose_pair(replace(problem, space=replace(problem.space, formats=offered)))
    score = problem.evaluator.score(problem.space.lower(problem.space.uniform(problem.space.high)))
    asked: list[Candidate] = []
    try:
        asked.append(next(asking).candidate)
        while True:
            disagreements = 0 if good[len(asked) - 1] else score.samples // 2
            answer = Trial(0, asked[-1], "full", 0, True, replace(score, disagreements=disagreements))
            asked.append(asking.send(answer).candidate)
    except StopIteration as end:
        return end.value, asked


def test_haunter_with_posits(tmp_path: Path) -> None:
    """The whole of it on real posits: es from the runs, two widths, the limit kept."""
    x = np.random.default_rng(3).normal(size=(80, 1, 8)).astype(np.float32)
    problem = search_problem(network(tmp_path), x, 18, formats=tuple(formats_on_offer("posit8,posit16")))
    found = search(Haunter(), problem)
    used = {choice.format for choice in found.best.candidate}
    assert len(used) == 2
    assert {name[: name.index("es")] for name in used} == {"posit8", "posit16"}
    assert found.best.ram_bytes <= 18


# --- ours ---------------------------------------------------------------------------------------------------------


def test_formats_and_scales_mix(tmp_path: Path) -> None:
    """Fixed point and posits side by side: every choice on offer is measured, the answer takes what is best."""
    x = np.random.default_rng(3).normal(size=(120, 1, 8)).astype(np.float32)
    problem = search_problem(network(tmp_path), x, 14, formats=("fixed8", "posit8es0", "fixed16"))
    found = search(make_strategy("lagrange", ["probe=20"]), problem, budget=Budget(evaluations=20))
    tried = {str(choice) for trial in found.trials for choice in trial.candidate}
    assert tried >= {"fixed8", "fixed8-1", "posit8es0", "fixed16"}
    assert found.best.ram_bytes <= 14
    fixed = search(make_strategy("size_only", ()), network_problem(tmp_path, 14))
    assert found.best.score.disagreements / 120 <= fixed.best.score.disagreements / 400


def test_only_one_format_for_everything_fits() -> None:
    """Beside posits an operation of this FastGRNN needs room for a conversion: with wide constants nothing fits that
    does with fixed8 alone."""
    graph = load_model(ROOT / "models" / "fastgrnn_dsa19" / "fastgrnn_dsa19.onnx").graph
    x = np.random.default_rng(4).normal(size=(24, 1, 125, 45)).astype(np.float32)
    problem = search_problem(
        graph, x, 192, host_engine(default_cache_dir()), formats=("posit8es0", "fixed8", "posit16es1")
    )
    problem = replace(problem, memory=Memory(problem.space, place))
    narrow = dict.fromkeys(problem.space.arena(), Choice("fixed8"))
    assert not problem.fits(problem.space.with_choices(problem.space.uniform(Choice("posit16es1")), narrow))
    assert problem.fits(problem.space.uniform(Choice("fixed8")))
    found = search(make_strategy("lagrange", ["probe=8"]), problem, budget=Budget(evaluations=30))
    assert found.best.ram_bytes <= 192


def test_what_one_format_fuses_and_another_stores_is_chosen_too() -> None:
    """Fixed point fuses a Bonsai's choice of weights, posits store it: beside them fixed8 keeps its RAM."""
    graph = load_model(ROOT / "models" / "bonsai_usps2" / "bonsai_usps2.onnx").graph
    x = np.random.default_rng(5).normal(size=(30, 1, 16, 16)).astype(np.float32)
    alone, beside = (
        search_problem(graph, x, 26, formats=(*FORMATS, *more)) for more in ((), ("posit8es0", "posit16es1"))
    )
    assert len(beside.space.groups) > len(alone.space.groups)
    planned = [problem.memory.planned_bytes(problem.space.uniform(Choice("fixed8"))) for problem in (alone, beside)]
    assert planned[0] == planned[1]


@pytest.mark.parametrize(("limit_bytes", "seed"), [(14, 1), (16, 2)])
def test_what_local_search_found_is_kept_when_the_budget_ends(limit_bytes: int, seed: int, tmp_path: Path) -> None:
    """The answer is the last that was better than the best before it on the fitted part, and no worse on the others."""
    problem = network_problem(tmp_path, limit_bytes, seed)
    found = search(make_strategy("lagrange", ["probe=8"]), problem, budget=Budget(6))
    assert not found.finished
    fitted, accepted = dict[Candidate, Score](), list[tuple[tuple[float, float], Candidate]]()
    for trial in found.trials:
        if trial.kind == "fit":
            fitted[trial.candidate] = trial.score
        elif trial.kind == "full":
            fit, whole = fitted[trial.candidate], trial.score
            rest = whole.samples - fit.samples
            loss = (whole.samples * whole.loss - fit.samples * fit.loss) / rest
            own = merit(fit.disagreements, fit.loss), merit(whole.disagreements - fit.disagreements, loss)
            if not accepted or (own[0] < accepted[-1][0][0] and own[1] <= accepted[-1][0][1]):
                accepted.append((own, trial.candidate))
    assert len(accepted) > 1
    assert found.best.candidate == accepted[-1][1]


def test_what_fits_its_noise_is_not_better(tmp_path: Path) -> None:
    """The answer is better on the fitted part than what was tried in full, or than it on the others."""
    problem = network_problem(tmp_path, 18)
    found = search(make_strategy("lagrange", ["probe=8"]), problem, budget=Budget(evaluations=30))
    fitted = {trial.candidate: trial.score for trial in found.trials if trial.kind == "fit"}
    full = {t.candidate: t.score for t in found.trials if t.kind == "full" and t.candidate in fitted}
    assert {score.samples for score in fitted.values()} == {267}
    assert {score.samples for score in full.values()} == {400}

    def merits(candidate: Candidate) -> tuple[float, float]:
        fit, whole = fitted[candidate], full[candidate]
        loss = (400 * whole.loss - 267 * fit.loss) / 133
        return merit(fit.disagreements, fit.loss), merit(whole.disagreements - fit.disagreements, loss)

    answer = merits(found.best.candidate)
    others = [merits(candidate) for candidate in full if candidate != found.best.candidate]
    assert len(others) >= 1
    assert all(fit >= answer[0] or rest > answer[1] for fit, rest in others)
    whole = problem.evaluator.score(problem.space.lower(found.best.candidate))
    assert found.best.score.disagreements == whole.disagreements
    assert found.best.score.loss == pytest.approx(whole.loss)


def test_nsga2_never_evaluates_what_does_not_fit(tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    found = search(make_strategy("nsga2", ["trials=40", "population=8"]), network_problem(tmp_path, 18))
    assert all(trial.fits for trial in found.trials)
    assert len(found.trials) > 3


# --- Shiftry ------------------------------------------------------------------------------------------------------


def test_shiftry_tries_each_tensor_at_each_offset(tmp_path: Path) -> None:
    problem = network_problem(tmp_path, 10_000)
    found = search(Shiftry(points=100.0), problem)
    groups = problem.space.groups
    alone = [t for t in found.trials if sum(choice.format == "fixed8" for choice in t.candidate) == 1]
    for index, group in enumerate(groups):
        offsets = {t.candidate[index].offset for t in alone if t.candidate[index].format == "fixed8"}
        assert offsets == set(range(-8 if group.role == Role.INPUT else -2, 1))
    assert all(choice.format == "fixed8" for choice in found.best.candidate)  # no loss is too much


def test_shiftry_stops_at_the_first_prefix_that_loses_too_much(tmp_path: Path) -> None:
    problem = network_problem(tmp_path, 10_000)
    found = search(Shiftry(points=1.0), problem)
    count = len(problem.space.groups)
    prefixes = found.trials[3 * count + 6 :]  # behind stage III: three offsets each, nine for the input
    lost = [problem.float_quality - trial.quality for trial in prefixes]
    assert all(points <= 0.01 + 1e-9 for points in lost[:-1])
    assert lost[-1] > 0.01 + 1e-9
    assert found.best.candidate == prefixes[-2].candidate


# --- interruption, budgets ----------------------------------------------------------------------------------------
