"""Every planner against the checker, exact ones against each other, the compiled core against the Python one."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from given_data import SHIPPED
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

from benchmarks import hard_planning
from benchmarks.planners import evenly_drawn
from tinyhil import memplan
from tinyhil.errors import DoesNotFit, HilError
from tinyhil.memplan import (
    PLANNERS,
    Alias,
    Budget,
    Buffer,
    Problem,
    ProblemError,
    Region,
    compiled_cores,
    cp_sat,
    skyline,
)
from tinyhil.memplan.algorithm_x import Links, cover, encode
from tinyhil.memplan.blocks import EXHAUSTED, FAILING, FOUND, Search, make_blocks, make_instance, split
from tinyhil.memplan.compiled_cores import backend, fill_compiled, place_compiled, search_compiled
from tinyhil.memplan.csv import read_problem
from tinyhil.memplan.exact_search import STRATEGIES, run_strategy
from tinyhil.memplan.placing import Placing, make_plan, place_in_order
from tinyhil.memplan.search_core import FIRST_RESTART, search_python
from tinyhil.memplan.skyline_core import fill_python
from tinyhil.memplan.stack import can_stack

ONE_REGION = {"algorithm-x", "branch-and-bound", "cp-sat"}
QUICK = [planner.name for planner in PLANNERS if planner.name != "cp-sat"]
EXACT = [planner.name for planner in PLANNERS if planner.exact and planner.name != "cp-sat"]
BUDGET = {name: Budget(nodes=200 if name == "algorithm-x" else 20_000) for name in QUICK}
SLOW_OK = settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))

INSTANCES = SHIPPED / "memplan"


@st.composite
def buffers(draw: st.DrawFn, most: int = 12, alignments: tuple[int, ...] = (1, 1, 2, 4)) -> tuple[Buffer, ...]:
    found = []
    for index in range(draw(st.integers(1, most))):
        start = draw(st.integers(0, 8))
        length = draw(st.integers(1, 6))
        gaps: tuple[tuple[int, int], ...] = ()
        if length >= 3 and draw(st.booleans()):
            hole = draw(st.integers(1, length - 2))
            gaps = ((start + hole, start + hole + 1),)
        size = draw(st.integers(0, 24))
        found.append(Buffer(str(index), size, start, start + length, draw(st.sampled_from(alignments)), gaps=gaps))
    return tuple(found)


@st.composite
def aliased(draw: st.DrawFn, alignments: tuple[int, ...] = (1,)) -> Problem:
    found = draw(buffers(8, alignments))
    names = st.sampled_from([buffer.name for buffer in found])
    links = draw(st.lists(st.tuples(names, names, st.sampled_from((0, 0, 1, 4, -3))), max_size=5))
    return Problem(found, aliases=tuple(Alias(a, b, shift) for a, b, shift in links if a != b))


@pytest.mark.parametrize("name", QUICK)
@SLOW_OK
@given(found=buffers())
def test_plans_pass_the_checker_and_never_beat_the_bound(name: str, found: tuple[Buffer, ...]) -> None:
    problem = Problem(found)
    plan = memplan.plan(problem, name, BUDGET[name])  # plan() checks
    assert plan.peak_bytes >= memplan.lower_bound(problem).bytes
    assert memplan.plan(problem, name, BUDGET[name]) == plan


@SLOW_OK
@given(found=buffers(14, (1, 1, 1, 4)))
def test_exact_planners_agree(found: tuple[Buffer, ...]) -> None:
    problem = Problem(found)
    budgets = {"algorithm-x": Budget(nodes=500)}
    plans = {name: memplan.plan(problem, name, budgets.get(name)) for name in EXACT}
    proven = {name: plan.peak_bytes for name, plan in plans.items() if plan.proven}
    assert len(set(proven.values())) <= 1
    assert "portfolio" in proven
    for plan in plans.values():
        assert plan.lower_bound_bytes <= proven["portfolio"] <= plan.peak_bytes


@settings(SLOW_OK, max_examples=25)
@given(found=buffers(14, (1, 1, 4)))
def test_cp_sat_agrees(found: tuple[Buffer, ...]) -> None:
    pytest.importorskip("ortools")
    problem = Problem(found)
    second = memplan.plan(problem, "cp-sat", Budget(seconds=5))
    first = memplan.plan(problem)
    assert first.proven
    assert second.lower_bound_bytes <= first.peak_bytes <= second.peak_bytes
    assert not second.proven or second.peak_bytes == first.peak_bytes


@settings(SLOW_OK, max_examples=30)
@given(problem=aliased())
def test_aliases_never_raise_the_peak(problem: Problem) -> None:
    pytest.importorskip("ortools")
    declined = memplan.plan(replace(problem, aliases=()))
    accepted = memplan.plan(problem)
    assert accepted.peak_bytes <= declined.peak_bytes
    optimum = memplan.plan(problem, "cp-sat", Budget(seconds=5))
    assert accepted.lower_bound_bytes <= optimum.peak_bytes
    assert accepted.peak_bytes >= optimum.lower_bound_bytes
    if accepted.proven and optimum.proven:
        assert accepted.peak_bytes == optimum.peak_bytes


@settings(SLOW_OK, max_examples=40)
@given(found=buffers(9, (1, 2, 4)), below=st.integers(0, 3))
def test_stacks_agree_with_cp_sat(found: tuple[Buffer, ...], below: int) -> None:
    """Trying every order, as the checker does, against OR-Tools."""
    pytest.importorskip("ortools")
    problem = Problem(found)
    optimum = memplan.plan(problem, "cp-sat", Budget(seconds=5))
    assert optimum.proven
    names = [buffer.name for buffer in found]
    assert can_stack(problem, names, optimum.peak_bytes)
    if optimum.peak_bytes > below:
        assert can_stack(problem, names, optimum.peak_bytes - 1 - below) is False


@settings(SLOW_OK, max_examples=60)
@given(problem=aliased((1, 2, 4)))
def test_no_bound_is_above_the_optimum(problem: Problem) -> None:
    """Of mixed alignments and of buffers that may share bytes."""
    pytest.importorskip("ortools")
    optimum = memplan.plan(problem, "cp-sat", Budget(seconds=5))
    assert optimum.proven
    assert memplan.lower_bound(problem).bytes <= optimum.peak_bytes
    for name in ("branch-and-bound", "portfolio"):
        plan = memplan.plan(problem, name)
        assert plan.lower_bound_bytes <= optimum.peak_bytes <= plan.peak_bytes


def test_a_bound_across_aliases() -> None:
    """A part of Bonsai at mixed widths: at two instants 65 B are live, some of them at both."""
    sizes = [("score", 1, 0, 27, 1), ("node", 2, 1, 23, 2), ("z", 20, 3, 24, 1), ("score_next", 1, 10, 20, 1)]
    sizes += [("branch", 40, 11, 13, 2), ("side", 2, 12, 14, 2), ("leaf_zw", 2, 21, 26, 2), ("leaf_v", 40, 22, 24, 2)]
    sizes += [("projected", 20, 2, 4, 1), ("leaf_term", 2, 25, 27, 2), ("total", 2, 26, 28, 2)]
    gaps = {"score": ((11, 19),), "node": ((16, 18),)}
    found = tuple(Buffer(n, size, start, end, align, gaps=gaps.get(n, ())) for n, size, start, end, align in sizes)
    links = (Alias("projected", "z"), Alias("leaf_zw", "leaf_term"), Alias("leaf_term", "total"))
    plan = memplan.plan(Problem(found, aliases=links))
    assert (plan.peak_bytes, plan.proven, plan.how) == (66, True, "set")
    assert memplan.lower_bound(Problem(found, aliases=links)).bytes == 65
    assert not {"projected", "leaf_term", "total"} & set(plan.witnesses)


@SLOW_OK
@given(found=buffers(9, (1, 1, 2)), slack=st.integers(-1, 2), choices=st.sampled_from((5, 60, 400)))
def test_compiled_cover_equals_the_python_one(found: tuple[Buffer, ...], slack: int, choices: int) -> None:
    assert backend() == "compiled"
    problem = Problem(found)
    bound = memplan.lower_bound(problem).bytes
    if not bound:
        return
    encoding = encode(problem, bound)
    height = max(1, bound // encoding.unit + slack)
    links = Links(encoding, height)
    state = links.search(choices, None)
    got = cover(encoding, height, choices, None)
    assert (got[0], got[2]) == (state, links.choices)
    assert state != FOUND or got[1] == links.offsets(encoding.unit)


@SLOW_OK
@given(found=buffers(10, (1, 1, 2, 6)), slack=st.integers(-1, 3))
def test_compiled_core_equals_the_python_one(found: tuple[Buffer, ...], slack: int) -> None:
    assert backend() == "compiled", "the test machine has a C compiler"
    problem = Problem(found)
    blocks = make_blocks(problem)
    height = memplan.lower_bound(problem).bytes + slack
    if not blocks or height < max(block.size_bytes for block in blocks):
        return
    for strategy in STRATEGIES:
        instance, limit = make_instance(blocks, height)
        search = Search(limit, 300, strategy.rule, strategy.tie)
        assert search_compiled(instance, search) == search_python(instance, search)


def test_a_search_that_begins_anew_is_the_same_in_both_forms() -> None:
    """18 buffers whose plan takes two restarts; the sections that failed are chosen first."""
    problem = hard_planning.instance(7, "both", (14, 40))
    instance, limit = make_instance(make_blocks(problem), memplan.lower_bound(problem).bytes)
    search = Search(limit, 2000, FAILING, 1)
    found = search_compiled(instance, search)
    assert found is not None
    assert found == search_python(instance, search)
    assert (found.state, found.nodes > 2 * FIRST_RESTART) == (FOUND, True)


@SLOW_OK
@given(found=buffers(30), fit=st.sampled_from(("first", "best")), bucket=st.sampled_from((2, 100)))
def test_compiled_placing_equals_the_python_one(found: tuple[Buffer, ...], fit: str, bucket: int) -> None:
    sized = tuple(replace(buffer, size_bytes=buffer.size_bytes + 1) for buffer in found)
    placing = Placing(Problem(sized))
    placing.place_all(sized, fit)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiled_cores, "BUFFERS_PER_BUCKET", bucket)
        assert place_compiled(sized, fit) == [placing.offsets[buffer.name] for buffer in sized]


def crowd(count: int) -> Problem:
    """Buffers of which some live long, so that no planner meets the bound at once."""
    chance = random.Random(count)
    found = []
    for index in range(count):
        start, mean = chance.randrange(count), 40 if chance.random() < 0.95 else count / 20
        length = int(chance.expovariate(1 / mean)) + 1
        found.append(Buffer(f"b{index}", chance.choice((16, 1024, chance.randrange(1, 5000))), start, start + length))
    return Problem(tuple(found))


def test_alignments_and_gaps_are_planned_as_well_as_by_cp_sat() -> None:
    """15 buffers that the exact search alone left at 161 B."""
    problem = read_problem(Path(__file__).parent / "instances" / "aligned_gapped_15.csv")
    for budget in (Budget(), Budget(10**12, 3600.0)):
        best = memplan.plan(problem, budget=replace(budget, nodes=min(budget.nodes, 1_000_000)))
        assert (best.peak_bytes, best.proven) == (158, True)


@settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(found=buffers(9, (1, 1, 1, 4)))
def test_proofs_with_gaps_hold_against_cp_sat(found: tuple[Buffer, ...]) -> None:
    """Backjumping over blocks with gaps leaves nothing out."""
    ours = memplan.plan(Problem(found), "branch-and-bound")
    theirs = memplan.plan(Problem(found), "cp-sat", Budget(seconds=600.0))
    assert ours.peak_bytes == theirs.peak_bytes or not ours.proven
    assert ours.lower_bound_bytes <= theirs.peak_bytes


@pytest.mark.parametrize("name", [planner.name for planner in PLANNERS])
@pytest.mark.parametrize("with_gap", [False, True])
def test_time_binds_every_planner(name: str, with_gap: bool) -> None:
    """In a nanosecond there is a valid plan (plan() checks) and no time for one better than a simple planner's."""
    buffers = crowd(400).buffers
    if with_gap:
        long = max(buffers, key=lambda b: b.end - b.start)
        gap = replace(long, name="gap", gaps=((long.start + 1, long.start + 2),))
        buffers = (*buffers, gap)
    problem = Problem(buffers)
    hurried = memplan.plan(problem, name, Budget(10**12, 1e-9))
    assert hurried.lower_bound_bytes == memplan.lower_bound(problem).bytes
    assert hurried.peak_bytes >= memplan.plan(problem, "greedy-by-size").peak_bytes


@pytest.mark.parametrize("count", [20_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_very_many_buffers_in_no_time(count: int) -> None:
    """Whatever else the machine has to do: no plan is cut short so that buffers are stacked."""
    best = memplan.plan(crowd(count), budget=Budget(10**12, 1e-9))
    assert best.gap_bytes <= 0.035 * best.lower_bound_bytes


@pytest.mark.parametrize(("count", "longest", "percent"), [(5000, 100, 1.0), (5000, 1000, 3.0), (10_000, 2000, 2.0)])
def test_one_plan_from_below_is_near_the_bound(count: int, longest: int, percent: float) -> None:
    """A single node pays for no second one; by size alone these are 7 to 12 % above the bound."""
    problem = evenly_drawn(count, longest)
    best = memplan.plan(problem, budget=Budget(1))
    assert best.gap_bytes <= percent / 100 * best.lower_bound_bytes
    assert memplan.plan(problem, "greedy-by-size").gap_bytes > 2 * best.gap_bytes


@pytest.mark.slow
@pytest.mark.parametrize("count", [18_692, 100_000])
@pytest.mark.parametrize(("longest", "seed"), [(10, 1), (100, 1), (100, 2), (1000, 1), (2000, 1), (2000, 2)])
def test_very_many_even_buffers_in_little_time(count: int, longest: int, seed: int) -> None:
    """At most 3 % above the bound, whatever else the machine has to do: no second plan is paid for."""
    best = memplan.plan(evenly_drawn(count, longest, seed), budget=Budget(10**12, 1e-9))
    assert best.gap_bytes <= 0.03 * best.lower_bound_bytes


def test_more_plans_from_below_never_give_a_worse_one() -> None:
    problem = evenly_drawn(5000, 1000)
    peaks = [memplan.plan(problem, budget=Budget(nodes)).peak_bytes for nodes in (1, 10_000, 30_000)]
    assert peaks == sorted(peaks, reverse=True)
    assert peaks[-1] < peaks[0]


@SLOW_OK
@given(found=buffers(40), setting=st.sampled_from(skyline.SETTINGS))
def test_compiled_skylines_equal_the_python_ones(found: tuple[Buffer, ...], setting: tuple[float, ...]) -> None:
    _same_skyline([replace(buffer, size_bytes=buffer.size_bytes + 1) for buffer in found], setting)


@pytest.mark.parametrize("setting", skyline.SETTINGS)
def test_compiled_skylines_equal_the_python_ones_in_a_crowd(setting: tuple[float, ...]) -> None:
    """More buffers begin and end in a valley than are looked at."""
    _same_skyline([replace(b, alignment=1 + int(b.name) % 3) for b in evenly_drawn(600, 300).buffers], setting)


def _same_skyline(found: Sequence[Buffer], setting: tuple[float, ...]) -> None:
    ordered, crowd = skyline.crowd_of(found)
    weights = skyline.weighing(crowd, *setting)
    offsets, compiled = fill_python(crowd, weights, None), fill_compiled(crowd, weights)
    assert offsets is not None
    assert compiled is not None
    assert offsets.tolist() == compiled.tolist()
    problem, names = Problem(tuple(found)), [buffer.name for buffer in ordered]
    memplan.check(problem, make_plan(problem, dict(zip(names, offsets.tolist(), strict=True)), "skyline"))


def test_a_skyline_without_a_compiler_keeps_to_the_time() -> None:
    _, crowd = skyline.crowd_of(evenly_drawn(600, 300).buffers)
    assert fill_python(crowd, skyline.weighing(crowd, *skyline.SETTINGS[0]), 1e-9) is None


def test_very_many_buffers_with_gaps_and_alignments_are_laid_from_below() -> None:
    """plan() checks; gaps count as live, what no length has lies at 0."""
    found = list(evenly_drawn(5000, 1000).buffers)
    found[::3] = [
        replace(b, alignment=64, gaps=((b.start, b.start + 1),) if b.end > b.start + 1 else ()) for b in found[::3]
    ]
    best = memplan.plan(Problem((*found, Buffer("nothing", 0, 1, 2))), budget=Budget(1))
    assert best.gap_bytes <= 0.05 * best.lower_bound_bytes
    assert best.offsets["nothing"] == 0


def test_more_rounds_over_very_many_buffers_never_give_a_worse_plan() -> None:
    problem = crowd(5000)
    peaks = [memplan.plan(problem, budget=Budget(nodes)).peak_bytes for nodes in (1, 250_000, 500_000)]
    assert peaks == sorted(peaks, reverse=True)
    assert peaks[-1] < peaks[0]


def test_buffers_that_only_python_can_place_are_not_stacked_when_time_is_over() -> None:
    buffers = crowd(3000).buffers
    problem = Problem(buffers, aliases=(Alias(buffers[0].name, buffers[1].name),))
    order = sorted(buffers, key=lambda buffer: -buffer.size_bytes)
    hurried = place_in_order(problem, order, "hurried", seconds=1e-9)
    memplan.check(problem, hurried)
    assert hurried.peak_bytes <= 2 * hurried.lower_bound_bytes


def test_python_core_gives_the_same_plan() -> None:
    """Without a compiler: the same plan, and the report says which core searched."""
    text = (
        "import memplan; from memplan.compiled_cores import backend; from memplan import *\n"
        "b = [Buffer(str(k), 7 + k * 5 % 11, k % 6, k % 6 + 1 + k % 4) for k in range(14)]\n"
        "p = memplan.plan(Problem(tuple(b)), 'branch-and-bound')\n"
        "print(backend(), sorted(p.offsets.items()), p.statement)"
    )
    outputs = {}
    for core in ("python", "compiled"):
        env = {**os.environ, "HIL_MEMPLAN_CORE": core}
        done = subprocess.run([sys.executable, "-c", text], env=env, capture_output=True, text=True, check=True)
        outputs[core] = done.stdout.split(" ", 1)
    assert outputs["python"][0] == "python"
    assert outputs["compiled"][0] == "compiled"
    assert outputs["python"][1] == outputs["compiled"][1]


def test_a_proof_by_exhausted_search_says_so() -> None:
    problem = _above_its_load()
    plan = memplan.plan(problem)
    assert plan.proven
    assert plan.how == "set"  # few buffers are why
    assert can_stack(problem, plan.witnesses, 6) is False
    assert (plan.peak_bytes, memplan.lower_bound(problem).bytes) == (7, 6)
    assert memplan.plan(problem, "algorithm-x").statement.startswith("no plan below 7 B")
    assert "can not lie within 6 B" in memplan.describe(plan)
    for name in plan.witnesses:  # none of them is there for nothing
        assert can_stack(problem, [other for other in plan.witnesses if other != name], 6)
    blocks = make_blocks(problem)
    for strategy in STRATEGIES:
        for height, state in ((plan.peak_bytes, FOUND), (plan.peak_bytes - 1, EXHAUSTED)):
            assert run_strategy(blocks, strategy, height, 10**6)[0].state == state


def _above_its_load() -> Problem:
    """A load of 6 B at most, and yet no plan below 7 B (CP-SAT agrees)."""
    sizes = [("a", 1, 5, 7), ("b", 4, 0, 2), ("c", 2, 6, 10), ("d", 4, 8, 9), ("e", 4, 3, 5)]
    sizes += [("f", 2, 5, 7), ("g", 1, 4, 8), ("h", 2, 0, 4), ("i", 4, 2, 3), ("j", 1, 4, 6)]
    return Problem(tuple(Buffer(name, size, start, end) for name, size, start, end in sizes))


def test_parts_between_cut_points_are_planned_alone() -> None:
    blocks = make_blocks(Problem((Buffer("a", 4, 0, 3), Buffer("b", 4, 2, 5), Buffer("c", 2, 5, 6))))
    assert [[block.names[0] for block in part] for part in split(blocks)] == [["a", "b"], ["c"]]


def test_fixed_offsets_are_kept() -> None:
    problem = Problem((Buffer("a", 4, 0, 3, offset=4), Buffer("b", 4, 1, 4), Buffer("c", 5, 2, 5)))
    for name in [*QUICK, *(["cp-sat"] if cp_sat.is_installed() else [])]:
        assert memplan.plan(problem, name).offsets["a"] == 4


@SLOW_OK
@given(found=buffers(8), offsets=st.lists(st.integers(0, 9), min_size=8), few=st.data())
def test_whatever_is_fixed_is_kept(found: tuple[Buffer, ...], offsets: list[int], few: st.DataObject) -> None:
    """Some buffers of a plan that is known, with or without a name of the only region, and sizes of nothing."""
    known = {b.name: at * b.alignment for b, at in zip(found, offsets, strict=False)}
    named = few.draw(st.lists(st.sampled_from((None, "arena")), min_size=8, max_size=8))
    whose = [
        replace(b, offset=known[b.name], region=name) if few.draw(st.booleans()) else b
        for b, name in zip(found, named, strict=False)
    ]
    try:
        problem = Problem(tuple(whose))
    except ProblemError:  # what is fixed overlaps
        reject()
    for name in sorted(set(QUICK) - ONE_REGION):
        memplan.check(problem, memplan.plan(problem, name, BUDGET[name]))


def test_regions_are_filled_in_order_of_preference() -> None:
    found = tuple(Buffer(name, 6, 0, 2) for name in "abc")
    problem = Problem(found, (Region("dtcm", 12), Region("axi", 8)))
    plan = memplan.plan(problem)
    assert sorted(plan.regions.values()) == ["axi", "dtcm", "dtcm"]
    assert plan.peaks == {"dtcm": 12, "axi": 6}
    assert plan.proven
    with pytest.raises(DoesNotFit, match="dtcm 12 B, axi 4 B"):
        memplan.plan(
            replace(
                problem,
                regions=(Region("dtcm", 12), Region("axi", 4)),
                buffers=(*found[:2], Buffer("c", 5, 0, 2)),
            )
        )
    for name in ONE_REGION:
        with pytest.raises(HilError, match="2 regions"):
            memplan.plan(problem, name)


def test_in_place_chain_needs_one_buffer() -> None:
    """Element-wise operators: each output may take its input's place."""
    chain = tuple(Buffer(f"t{k}", 100, k, k + 2) for k in range(6))
    aliases = tuple(Alias(f"t{k}", f"t{k + 1}") for k in range(5))
    assert memplan.plan(Problem(chain)).peak_bytes == 200
    plan = memplan.plan(Problem(chain, aliases=aliases))
    assert plan.peak_bytes == 100
    assert plan.proven


def test_enough_stops_early() -> None:
    problem = _above_its_load()
    optimum = memplan.plan(problem)
    relaxed = memplan.plan(problem, budget=Budget(enough_bytes=optimum.peak_bytes + 3))
    assert optimum.peak_bytes <= relaxed.peak_bytes <= optimum.peak_bytes + 3


def test_ten_thousand_buffers() -> None:
    found = tuple(Buffer(str(k), 16 + k * 7919 % 4096, k, k + 1 + k * 104729 % 100) for k in range(10_000))
    plan = memplan.plan(Problem(found))
    assert plan.lower_bound_bytes <= plan.peak_bytes <= 1.3 * plan.lower_bound_bytes


@pytest.mark.parametrize("name", "ABCDEFGHIJK")
def test_minimalloc_instances_fit(name: str) -> None:
    from tinyhil.memplan.csv import read_problem

    problem = read_problem(INSTANCES / "minimalloc" / f"{name}.1048576.csv")
    plan = memplan.plan(problem.in_region(1_048_576), budget=Budget(enough_bytes=1_048_576))
    assert plan.peak_bytes <= 1_048_576


@pytest.mark.parametrize("name", "ABCDEFGHIJK")
def test_the_table_says_what_hil_plan_gives(name: str) -> None:
    page = Path(__file__).parent.parent / "docs" / "measured" / "memplan.md"
    rows = [line for line in page.read_text().splitlines() if line.startswith(f"| {name} |")]
    problem = read_problem(INSTANCES / "minimalloc" / f"{name}.1048576.csv")
    plan = memplan.plan(problem)
    assert len(rows) == 2  # beside other planners, beside minimalloc
    assert all(f"| {plan.peak_bytes} |" in row for row in rows)
    assert plan.proven
