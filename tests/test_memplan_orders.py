"""The search over orders against the search over canonical positions; what it is for; budgets."""

from __future__ import annotations

from itertools import combinations, pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_memplan_planners import SLOW_OK, aliased, buffers, crowd

from benchmarks.hard_planning import instance
from tinyhil import memplan
from tinyhil.memplan import Alias, Budget, Buffer, Problem, Region, cp_sat, orders, portfolio
from tinyhil.memplan.account import Account, Solved
from tinyhil.memplan.blocks import EXHAUSTED, FOUND, STOPPED, Block, Result, accepted_groups, make_blocks
from tinyhil.memplan.cliques import heaviest_beside_gaps
from tinyhil.memplan.csv import read_problem
from tinyhil.memplan.exact_search import STRATEGIES, minimise, run_strategy
from tinyhil.memplan.orders import EFFORTS, Effort, in_the_way, search_orders
from tinyhil.memplan.problem import first_shared_instant

INSTANCES = Path(__file__).parent / "instances"
MOST_OVER = 50  # nodes: what is looked at between two looks at the limit


def lowest_peak(blocks: list[Block]) -> int:
    """By the search over canonical positions alone."""
    height = max(block.size_bytes for block in blocks)
    while run_strategy(blocks, STRATEGIES[0], height, 10**7)[0].state != FOUND:
        height += 1
    return height


def meet(one: Block, other: Block, offsets: dict[Block, int]) -> bool:
    """Whether any two pieces live at once share a byte."""
    a, b = offsets[one], offsets[other]
    return any(
        max(s, u) < min(e, v) and a < b + size_b and b < a + size_a
        for s, e, size_a in one.pieces
        for u, v, size_b in other.pieces
    )


def decide_alike(blocks: list[Block]) -> None:
    if not blocks:
        return
    peak = lowest_peak(blocks)
    for height, state in ((peak, FOUND), (peak - 1, EXHAUSTED), (peak + 3, FOUND)):
        for effort in (EFFORTS[0], Effort(8, 10**7)):  # with cliques looked at as a whole, and almost none
            found = search_orders(blocks, height, effort, Account(Budget(10**9)))
            assert found is not None
            assert found.state == state
            places = dict(zip(blocks, found.offsets, strict=False))
            for index, block in enumerate(blocks if state == FOUND else ()):
                assert places[block] % block.alignment == 0
                assert 0 <= places[block] <= height - block.size_bytes
                assert not any(meet(block, other, places) for other in blocks[:index])


@SLOW_OK
@given(found=buffers(9, (1, 2, 4, 6)))
def test_both_searches_decide_alike(found: tuple[Buffer, ...]) -> None:
    decide_alike(make_blocks(Problem(found)))


@SLOW_OK
@given(problem=aliased((1, 2)))
def test_both_searches_decide_alike_about_joined_buffers(problem: Problem) -> None:
    """Blocks of several sizes at one offset."""
    decide_alike(make_blocks(problem, accepted_groups(problem)))


def test_orders_prove_what_alignment_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    """29 buffers of mixed alignments: the search over canonical positions ended at 290 B."""
    monkeypatch.setattr(cp_sat, "is_installed", lambda: False)
    plan = memplan.plan(read_problem(INSTANCES / "aligned_29.csv"), budget=Budget(500_000))
    assert (plan.peak_bytes, plan.proven) == (281, True)


@given(
    peak=st.integers(20, 90),
    lower=st.integers(1, 19),
    enough=st.integers(0, 60),
    stops=st.sets(st.integers(1, 90), max_size=40),
    optimum=st.integers(20, 90),
)
def test_bisection_ends_and_never_loses_a_plan(
    peak: int, lower: int, enough: int, stops: set[int], optimum: int
) -> None:
    """Whatever heights give up; a search that finds a plan finds the lowest."""
    block = Block(("a",), (0,), ((0, 1, 1),), 1)
    tried: list[int] = []

    def search(blocks: object, height: int, *_: object) -> Result:
        tried.append(height)
        if height in stops:
            return Result(STOPPED, (), 1)
        return Result(FOUND, (min(optimum, peak) - 1,), 1) if height >= min(optimum, peak) else Result(EXHAUSTED, (), 1)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(orders, "search_orders", search)
        best = orders.improve([block], Solved((peak - 1,), peak, lower), enough, 1, EFFORTS[0], Account(Budget()))
    assert lower <= best.lower <= min(optimum, peak) <= best.peak <= peak
    assert len(tried) == len(set(tried))
    assert stops & set(tried) or best.peak <= max(best.lower, enough)


@pytest.mark.parametrize(("kind", "seed"), [("aligned", 0), ("aligned", 104), ("gapped", 0), ("both", 70)])
def test_more_work_never_gives_a_worse_plan(kind: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cp_sat, "is_installed", lambda: False)
    problem = instance(seed, kind)
    plans = [memplan.plan(problem, budget=Budget(nodes)) for nodes in (1, 2000, 40_000, 90_000, 400_000)]
    peaks = [plan.peak_bytes for plan in plans]
    bounds = [plan.lower_bound_bytes for plan in plans]
    assert peaks == sorted(peaks, reverse=True)
    assert bounds == sorted(bounds)
    assert plans[-1].proven


@pytest.mark.parametrize("seed", range(6))
def test_more_work_never_fills_regions_worse(seed: int) -> None:
    found = instance(seed, "plain").buffers
    half = memplan.lower_bound(Problem(found)).bytes * 5 // 8
    problem = Problem(found, (Region("dtcm", half), Region("axi")))
    peaks = [memplan.plan(problem, budget=Budget(nodes)).peak_bytes for nodes in (10, 1000, 5000, 20_000, 50_000)]
    assert peaks == sorted(peaks, reverse=True)


@pytest.mark.parametrize(("kind", "seed"), [("gapped", 26), ("gapped", 102), ("both", 72), ("both", 86), ("both", 99)])
def test_many_buffers_with_gaps_are_proven(kind: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """42 to 51 buffers: parts of a plan are searched anew while the rest keeps its order, of several plans."""
    monkeypatch.setattr(cp_sat, "is_installed", lambda: False)
    assert memplan.plan(instance(seed, kind, (30, 54)), budget=Budget(400_000)).proven


@SLOW_OK
@given(found=buffers(9, (1,)))
def test_what_meets_without_an_instant_is_a_bound(found: tuple[Buffer, ...]) -> None:
    def take(some: tuple[Buffer, ...]) -> int:
        meeting = all(first_shared_instant(one, other) is not None for one, other in combinations(some, 2))
        return sum(buffer.size_bytes for buffer in some) if meeting else 0

    most = max(take(some) for count in range(len(found) + 1) for some in combinations(found, count))
    problem = Problem(found)
    bound = memplan.lower_bound(problem)
    assert bound.bytes == most
    if bound.how == "set":
        assert heaviest_beside_gaps(found, most) == ()
        assert take(heaviest_beside_gaps(found, most - 1)) == most
    memplan.check(problem, memplan.plan(problem))


@pytest.mark.parametrize("kind", ["plain", "aligned", "gapped", "both"])
def test_no_plan_is_lower_while_all_that_is_in_the_way_keeps_its_order(kind: str) -> None:
    blocks = make_blocks(instance(3, kind))
    plan = memplan.plan(instance(3, kind), "greedy-by-size")
    offsets = [plan.offsets[block.names[0]] for block in blocks]
    for height in (plan.peak_bytes - 1, plan.peak_bytes - 9):
        freed = in_the_way(blocks, offsets, height)
        assert 0 < len(freed) < len(blocks)
        previous = [offset if index in freed else -1 for index, offset in enumerate(offsets)]
        found = search_orders(blocks, height, EFFORTS[1], Account(Budget(10**9)), previous)
        assert found is not None
        assert found.state == EXHAUSTED
    assert in_the_way(blocks, offsets, plan.peak_bytes) == list(range(len(blocks)))


@pytest.mark.parametrize(("kind", "seed"), [("both", 1), ("both", 14), ("aligned", 3)])
def test_many_buffers_of_different_alignments_are_proven(kind: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is live at once needs 4 to 9 bytes of padding in any order: the certificate is that, and plans reach it."""
    monkeypatch.setattr(cp_sat, "is_installed", lambda: False)
    problem = instance(seed, kind, (30, 54))
    plan = memplan.plan(problem, budget=Budget(100_000))
    assert plan.proven
    assert plan.how == "set"
    assert plan.lower_bound_bytes == memplan.lower_bound(problem).bytes


def of_kind(kind: str) -> Problem:
    """Hard instances, some over several regions, with permitted aliases or of very many buffers."""
    if kind == "many":
        return crowd(4500)
    found = instance(7, "both" if kind == "gapped" else "aligned", (30, 54)).buffers
    if kind == "regions":
        half = memplan.lower_bound(Problem(found)).bytes // 2
        return Problem(found, (Region("dtcm", half), Region("axi", half), Region("slow")))
    aliases = [Alias(one.name, other.name) for one, other in pairwise(found) if one.size_bytes % 3 == 0]
    return Problem(found, aliases=tuple(aliases) if kind == "aliases" else ())


@pytest.mark.parametrize("kind", ["aligned", "gapped", "aliases", "regions", "many"])
def test_nodes_bind_and_more_of_them_never_give_a_worse_plan(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cp_sat, "is_installed", lambda: False)
    problem, peaks, bounds = of_kind(kind), [], []
    for nodes in (1, 60, 3000, 20_000, 45_000):
        account = Account(Budget(nodes))
        plan = portfolio.plan_within(problem, account)
        memplan.check(problem, plan)
        assert account.nodes <= nodes + MOST_OVER
        peaks.append(plan.peak_bytes)
        bounds.append(plan.lower_bound_bytes)
    assert peaks == sorted(peaks, reverse=True)
    assert bounds == sorted(bounds)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("nodes", [1, 300, 20_000])
def test_no_search_takes_more_nodes_than_it_has(seed: int, nodes: int) -> None:
    blocks = make_blocks(instance(seed, "both", (30, 54)))
    greedy = memplan.plan(instance(seed, "both", (30, 54)), "first-fit")
    start = Solved(tuple(greedy.offsets[block.names[0]] for block in blocks), greedy.peak_bytes, 1)
    account = Account(Budget(nodes))
    minimise(blocks, start, 0, account)
    assert account.nodes <= nodes + MOST_OVER
