"""What mutants of planners, bounds and checker showed to be untested, each against its definition."""

from __future__ import annotations

import ctypes
import importlib
import random
import re
from dataclasses import replace
from itertools import combinations, permutations
from math import gcd, lcm
from pathlib import Path
from time import monotonic
from unittest import mock

import pytest
from test_memplan_plans import PROBLEMS

from tinyhil import memplan
from tinyhil.errors import DoesNotFit
from tinyhil.memplan import (
    Alias,
    Budget,
    Buffer,
    PlanError,
    Problem,
    ProblemError,
    Region,
    algorithm_x,
    bound,
    branch_and_bound,
    check,
    compiled_cores,
    cp_sat,
    exact_search,
    pile,
    placing,
    portfolio,
    promote,
    several,
    stack,
)
from tinyhil.memplan.account import Account, Solved
from tinyhil.memplan.blocks import EXHAUSTED, FOUND, NO_MEMORY, STOPPED, lcm_of, make_blocks, make_instance
from tinyhil.memplan.bound import Bound, fixed_height, heaviest_apart, joined_by_name
from tinyhil.memplan.compiled_cores import orders_compiled
from tinyhil.memplan.cores import parts_apart
from tinyhil.memplan.exact_search import SHAKEN, SPREADS, STRATEGIES, run_strategy
from tinyhil.memplan.orders import EFFORTS, improve, search_orders
from tinyhil.memplan.pile import least_pile, pile_of
from tinyhil.memplan.placing import make_plan

checker = importlib.import_module("tinyhil.memplan.check")  # the package has a function of this name


def drawn(source: random.Random, count: int) -> list[Buffer]:
    sizes = (source.randint(1, 20) for _ in range(count))
    return [Buffer(f"b{n}", size, 0, 1, alignment=source.choice((1, 2, 4, 8, 16))) for n, size in enumerate(sizes)]


def test_the_least_pile_is_that_of_the_best_order() -> None:
    source = random.Random(1)
    assert pile_of([Buffer("a", 3, 0, 1, alignment=4)]) == 3
    assert least_pile([Buffer("none", 0, 0, 1, alignment=8)]) == 0
    for _ in range(60):
        buffers = drawn(source, source.randint(1, 5))
        odd = [replace(buffer, alignment=source.choice((1, 3, 6, 10))) for buffer in buffers]
        for ones in (buffers, odd):
            assert least_pile(ones) == min(map(pile_of, permutations(ones)))


def test_a_pile_of_too_many_kinds_is_bounded_by_small_divisors(monkeypatch: pytest.MonkeyPatch) -> None:
    """As far as the limit permits: no more than the least pile, and no less with a higher limit."""
    source = random.Random(2)
    for _ in range(20):
        buffers = drawn(source, 6)
        bounds = []
        for most in (1, 10, 40, 1 << 18):
            monkeypatch.setattr(pile, "MOST_STATES", most)
            pile._most_padding.cache_clear()
            bounds.append(least_pile(buffers))
        assert bounds[0] == sum(buffer.size_bytes for buffer in buffers)
        assert bounds == sorted(bounds)
        assert bounds[-1] == min(map(pile_of, permutations(buffers)))
    pile._most_padding.cache_clear()


def test_the_height_of_what_is_fixed() -> None:
    fixed = (Buffer("a", 12, 0, 1, offset=8), Buffer("b", 4, 1, 2, offset=0), Buffer("c", 9, 2, 3))
    assert fixed_height(Problem(fixed)) == 20


@pytest.mark.parametrize("exact", [0, 16])
def test_buffers_apart_share_no_bytes_and_are_many(exact: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The greedy set is one to which nothing can be added, the exact one the heaviest."""
    monkeypatch.setattr(bound, "EXACT_JOINED", exact)
    source = random.Random(2)
    for _ in range(40):
        live = drawn(source, 6)
        pairs = [pair for pair in combinations(live, 2) if source.random() < 0.4]
        problem = Problem(tuple(live), aliases=tuple(Alias(a.name, b.name) for a, b in pairs))
        joined = joined_by_name(problem)
        chosen = {buffer.name for buffer in heaviest_apart(live, joined)}
        assert all(not joined.get(name, {}).keys() & chosen for name in chosen)
        assert all(joined.get(buffer.name, {}).keys() & chosen for buffer in live if buffer.name not in chosen)
        if exact:
            sets = (some for n in range(1, 7) for some in combinations(live, n))
            apart = (some for some in sets if not any(b.name in joined.get(a.name, ()) for a in some for b in some))
            best = max(sum(buffer.size_bytes for buffer in some) for some in apart)
            assert sum(buffer.size_bytes for buffer in live if buffer.name in chosen) == best


def refused(problem: Problem, offsets: dict[str, int]) -> bool:
    try:
        check(problem, make_plan(problem, offsets, "by hand"))
    except PlanError as error:
        return "overlap" in str(error)
    return False


def test_very_many_buffers_are_compared_as_few_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sweep over neighbours finds just the overlaps that comparing all with all does."""
    source, found = random.Random(3), 0
    for _ in range(150):
        starts = [source.randrange(6) for _ in range(6)]
        buffers = [Buffer(f"b{n}", source.randint(0, 6), at, at + source.randint(1, 4)) for n, at in enumerate(starts)]
        problem, offsets = Problem(tuple(buffers)), {f"b{n}": source.randrange(24) for n in range(6)}
        monkeypatch.setattr(checker, "MOST_COMPARED", 5000)
        slow = refused(problem, offsets)
        monkeypatch.setattr(checker, "MOST_COMPARED", 0)
        assert refused(problem, offsets) is slow
        shared = any(
            a.start < b.end
            and b.start < a.end
            and {*range(offsets[a.name], offsets[a.name] + a.size_bytes)}
            & {*range(offsets[b.name], offsets[b.name] + b.size_bytes)}
            for a, b in combinations(buffers, 2)
        )
        assert slow is shared
        found += shared
    assert 30 < found < 130


def test_a_bound_may_not_count_what_shares_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two buffers at once that may lie in each other's place: who takes both for apart is found out."""
    problem = Problem((Buffer("a", 4, 0, 2), Buffer("b", 4, 0, 2)), aliases=(Alias("a", "b"),))
    placed = make_plan(problem, {"a": 0, "b": 0}, "by hand")
    check(problem, placed)
    monkeypatch.setattr(checker, "heaviest_apart", lambda live, joined: live)
    with pytest.raises(PlanError, match="counts 'a' and 'b' twice"):
        check(problem, placed)


# ---- planners


def some(source: random.Random, count: int) -> Problem:
    """Buffers of which some live at once."""
    starts = [source.randrange(count) for _ in range(count)]
    ends = [start + source.randint(1, 5) for start in starts]
    sizes = [source.choice((4, 12, 20, 28, 36)) for _ in starts]
    spans = enumerate(zip(sizes, starts, ends, strict=True))
    return Problem(tuple(Buffer(f"b{n}", size, start, end) for n, (size, start, end) in spans))


def test_only_a_plan_that_was_found_has_offsets() -> None:
    problem = some(random.Random(4), 12)
    blocks, height, states = make_blocks(problem), memplan.plan(problem).peak_bytes, set()
    for below, limit in ((0, 9000), (4, 9000), (0, 1)):
        instance, _ = make_instance(blocks, height - below)
        ordered = orders_compiled(instance, [-1] * len(blocks), (4096, limit), None)
        for result in (ordered, run_strategy(blocks, STRATEGIES[1], height - below, limit)[0]):
            assert result is not None
            assert len(result.offsets) == (len(blocks) if result.state == FOUND else 0)
            states.add(result.state)
    assert states == {FOUND, EXHAUSTED, STOPPED} != {NO_MEMORY}


def test_units_of_exact_covers_are_the_common_divisor() -> None:
    source = random.Random(5)
    for _ in range(20):
        problem = some(source, 8)
        encoding = algorithm_x.encode(problem, 40)
        assert encoding.unit == gcd(*(buffer.size_bytes for buffer in problem.buffers))
        assert encoding.exact
    assert algorithm_x.encode(Problem((Buffer("a", 8, 0, 1, alignment=4), Buffer("b", 8, 0, 1))), 16).unit == 4
    assert [lcm_of(values) for values in ((), (4, 6), (6, 4, 10))] == [1, lcm(4, 6), lcm(6, 4, 10)]


def test_covers_are_the_same_without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """And no table is made in Python where there is one."""
    problem = some(random.Random(6), 5)
    encoding = algorithm_x.encode(problem, 40)
    lowest = memplan.lower_bound(problem).bytes // encoding.unit

    def covers() -> list[tuple[int, dict[str, int], int]]:
        made = [algorithm_x.cover(encoding, lowest + more, 900, None) for more in (-1, 0, 1)]
        return [(state, offsets if state == FOUND else {}, choices) for state, offsets, choices in made]

    with monkeypatch.context() as patched:
        patched.setattr(algorithm_x, "Links", None)
        compiled = covers()
        assert {state for state, _, _ in compiled} == {EXHAUSTED, FOUND}
    monkeypatch.setattr(algorithm_x, "cover_compiled", lambda *_: None)
    assert covers() == compiled


def test_parts_apart_are_what_weighs_most_and_where_it_is_crowded() -> None:
    """By area, by size and by duration, as long as none shares bytes with one before."""
    source = random.Random(7)
    for _ in range(40):
        problem = some(source, 9)
        pairs = [source.sample(problem.buffers, 2) for _ in range(8)]
        shared = {frozenset((a.name, b.name)) for a, b in pairs}
        problem = Problem(problem.buffers, aliases=tuple(Alias(a.name, b.name) for a, b in pairs))
        height, wanted = memplan.lower_bound(problem).bytes, set()
        for rank in (
            lambda b: (b.size_bytes * (b.end - b.start), 0),
            lambda b: (b.size_bytes, b.end - b.start),
            lambda b: (b.end - b.start, b.size_bytes),
        ):
            chosen: list[Buffer] = []
            for one in sorted(problem.buffers, key=rank, reverse=True):
                if not any(frozenset((one.name, other.name)) in shared for other in chosen):
                    chosen.append(one)
            wanted.add(frozenset(one.name for one in chosen))
            full = [at for at in range(20) if 10 * sum(b.size_bytes for b in chosen if b.live_at(at)) >= 9 * height]
            wanted.add(frozenset(one.name for one in chosen if any(one.live_at(at) for at in full)))
        found = parts_apart(problem, height)
        assert {frozenset(one.name for one in part.buffers) for part in found} == wanted
        assert [len(part.buffers) for part in found] == sorted(map(len, wanted))


def test_orders_are_not_searched_where_nothing_is_left_or_asked_for() -> None:
    problem = some(random.Random(8), 12)
    blocks, best = make_blocks(problem), memplan.plan(problem, "first-fit")
    assert search_orders(blocks, best.peak_bytes, EFFORTS[0], Account(Budget(1000, 1e-9))) is None
    assert search_orders(blocks, best.peak_bytes, EFFORTS[0], Account(Budget(0))) is None
    account = Account(Budget(1000))
    start = Solved(tuple(best.offsets[block.names[0]] for block in blocks), best.peak_bytes, 0)
    assert improve(blocks, start, best.peak_bytes + 1, 4, EFFORTS[0], account) is start
    assert account.nodes == 0


def test_hill_climbing_swaps_two() -> None:
    two = Problem((Buffer("long", 5, 0, 1), Buffer("aligned", 4, 0, 1, alignment=4)))
    assert memplan.plan(two, "greedy-by-size").peak_bytes == 9 + 3
    assert memplan.plan(two, "hill-climb").peak_bytes == 9


def test_shaken_searches_differ() -> None:
    assert len(set(SHAKEN)) == len(SHAKEN) == 8
    made = exact_search._shaken(20_000)
    assert len(made) == 4 * len(STRATEGIES) * 20_000 // exact_search.SHAKEN_NODES
    assert len({one.seed for one in made}) == len(made)
    assert [one.spread for one in made[::8]] == [SPREADS[turn % 3] for turn in range(len(made[::8]))]


def test_ample_time_changes_no_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placing, "ALWAYS_EXACT", 0)
    monkeypatch.setattr(placing, "MANY", 1 << 30)  # those that Python places
    for seed in range(6):
        problem = some(random.Random(seed), 30)
        for name in ("portfolio", "first-fit", "greedy-by-area", "hill-climb"):
            timed = memplan.plan(problem, name, Budget(3000, 10_000.0))
            assert dict(timed.offsets) == dict(memplan.plan(problem, name, Budget(3000)).offsets)


def test_the_solver_is_asked_of_few_buffers_and_in_ample_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cp_sat, "is_installed", lambda: True)
    monkeypatch.setattr(portfolio, "search_plan", lambda problem, account, name: plan)
    asked: list[Account] = []

    def improved(problem: Problem, plan: memplan.Plan, account: Account, effort: float) -> memplan.Plan:
        asked.append(account)
        return plan

    monkeypatch.setattr(cp_sat, "improved", improved)
    counts = ((119, 1_000_000, True), (120, 1_000_000, True), (121, 1 << 40, False), (9, 999_999, False))
    for count, nodes, few in counts:
        problem = some(random.Random(9), count)
        plan = make_plan(problem, {b.name: 40 * n for n, b in enumerate(problem.buffers)}, "by hand")
        for seconds, left in ((None, True), (1000.0, True), (-1.0, False)):
            for enough in (None, plan.peak_bytes):
                asked.clear()
                account = Account(Budget(nodes, seconds, enough))
                portfolio._exact(problem, plan, account)
                assert len(asked) == (few and left and not enough)
                assert account.nodes == (500_000 if asked else 0)


def test_rounds_are_begun_while_time_is_left_for_one() -> None:
    """One placing took the time so far; a round takes as much."""
    problem = PROBLEMS["many"]
    first, limit = memplan.plan(problem, "first-fit"), Bound(437, "load")
    for elapsed, works in ((0, True), (450, True), (550, False)):
        account = Account(Budget(9000, 1000.0), started=monotonic() - elapsed)
        made = promote.promoted(problem, first, limit, account)
        assert (made.peak_bytes < first.peak_bytes) is works
        assert account.nodes % (4 * 60) == 0
        assert (account.nodes > 0) is works


def test_the_first_region_takes_whatever_keeps_the_load_within_it() -> None:
    source = random.Random(11)
    for _ in range(60):
        size = source.choice((12, 28, 30, 50))
        problem = some(source, 9)
        named = [
            replace(b, region="fast") if b.size_bytes < size and source.random() < 0.2 else b for b in problem.buffers
        ]
        regions = Region("fast", size), Region("slow")
        problem, wanted = Problem(tuple(named), regions), [b for b in named if b.region]
        for one in named:
            held = [*wanted, one]
            load = max(sum(b.size_bytes for b in held if b.live_at(at)) for at in range(20))
            if not one.region and load <= size:
                wanted.append(one)
        assert several._take(problem, regions[0], named) == wanted
        assert len(several._take(problem, regions[1], named)) == len(named) - sum(b.region == "fast" for b in named)


@pytest.mark.parametrize("nodes", [100_000, 1_000_000])
def test_regions_share_a_budget(nodes: int) -> None:
    """Every part takes as many nodes and as much time, also what fails; all together no more than there are."""
    given: list[Budget] = []

    def pack(problem: Problem, within: Account) -> memplan.Plan:
        given.append(within.budget)
        within.nodes += within.budget.nodes
        return memplan.plan(problem, "first-fit")  # what does not fit is asked again of fewer buffers

    problem = some(random.Random(12), 30)
    problem = Problem(problem.buffers, (Region("fast", 40), Region("far", 60), Region("slow")))
    account = Account(Budget(nodes, 960.0))
    made = several.fill_regions(problem, pack, account)
    assert made is not None
    assert len({budget.nodes for budget in given}) > 1
    assert nodes / 16 < sum(budget.nodes for budget in given) == account.nodes <= nodes
    assert max(budget.seconds or 0 for budget in given) <= 960 / 24


def test_stacks_are_decided_in_few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is live at once and no longer fits ends a branch; nothing is placed twice."""
    source = random.Random(13)
    for _ in range(40):
        problem = some(source, 9)
        names = [buffer.name for buffer in problem.buffers]
        peak = memplan.plan(problem).peak_bytes
        monkeypatch.setattr(stack, "MOST_STATES", 60)
        assert stack.can_stack(problem, names, peak)
        assert stack.can_stack(problem, names, peak - 1) is False


class Recorder:
    """In place of the compiled library: the last three arguments of what places buffers."""

    def memplan_place(self, record: object, *span: ctypes.c_int64) -> int:
        self.span = tuple(number.value for number in span)
        return 1


def test_long_lived_buffers_lie_in_few_buckets(monkeypatch: pytest.MonkeyPatch) -> None:
    library = Recorder()
    monkeypatch.setattr(compiled_cores, "_library", lambda: library)
    for count, lives, buckets in ((90, 1, 1), (3000, 1, 31), (3000, 900, 31), (30_000, 100, 301), (30_000, 600, 84)):
        buffers = [Buffer(str(n), 4, 7 + n % (1001 - lives), 7 + n % (1001 - lives) + lives) for n in range(count)]
        compiled_cores.place_compiled(buffers)
        assert library.span == (7, min(1007, 7 + count - 1 + lives), buckets)


def test_states_are_those_of_the_compiled_search() -> None:
    text = (Path(compiled_cores.__file__).with_name("search_core.c")).read_text()
    found = dict(re.findall(r"\b(FOUND|EXHAUSTED|STOPPED|NO_MEMORY) = (-?\d)", text))
    assert {name: int(number) for name, number in found.items()} == {
        "FOUND": FOUND, "EXHAUSTED": EXHAUSTED, "STOPPED": STOPPED, "NO_MEMORY": NO_MEMORY,
    }  # fmt: skip


def test_planners_that_prove_and_what_they_may_spend() -> None:
    exact = {planner.name for planner in memplan.PLANNERS if planner.exact}
    assert exact == {"portfolio", "branch-and-bound", "algorithm-x", "cp-sat"}
    assert Budget() == Budget(1_000_000, None, None)  # docs/measured/memplan.md


def is_refused(buffers: list[Buffer], alias: Alias) -> bool:
    try:
        Problem(tuple(buffers), aliases=(alias,))
    except ProblemError as error:
        return "overlap at instant 0" in str(error)
    return False


def bytes_of(buffer: Buffer) -> set[int]:
    assert buffer.offset is not None
    return {*range(buffer.offset, buffer.offset + buffer.size_bytes)}


def test_what_is_fixed_may_share_bytes_as_an_alias_says_only() -> None:
    source, seen = random.Random(14), set()
    for _ in range(600):
        buffers = [Buffer(name, source.randrange(4), 0, 1, offset=source.randrange(5)) for name in "abc"]
        alias = Alias(source.choice(("a", "b")), "c", source.randrange(-4, 5))
        shared = any(
            bytes_of(one) & bytes_of(other)
            and ((one.name, other.name, (other.offset or 0) - (one.offset or 0)))
            != (alias.first, alias.second, alias.shift_bytes)
            for one, other in combinations(buffers, 2)
        )
        assert is_refused(buffers, alias) is shared
        seen.add(shared)
    assert len(seen) == 2


@pytest.mark.parametrize(("count", "variants"), [(3, 8), (4, 16), (5, 7), (40, 42), (41, 2)])
def test_which_aliases_are_accepted(count: int, variants: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any of few, all but one of many, else all or none; and no more is tried once the bound is met."""
    pairs = [(Buffer(f"a{n}", 8, 2 * n, 2 * n + 2), Buffer(f"b{n}", 8, 2 * n + 1, 2 * n + 2)) for n in range(count)]
    aliases = tuple(Alias(one.name, other.name) for one, other in pairs)
    problem = Problem(tuple(one for pair in pairs for one in pair), aliases=aliases)
    assert len(branch_and_bound._variants(problem)) == variants
    solve = mock.Mock(wraps=branch_and_bound._solve)
    monkeypatch.setattr(branch_and_bound, "parts_apart", lambda *_: ())
    monkeypatch.setattr(branch_and_bound, "_solve", solve)
    made = branch_and_bound.search_plan(problem, Account(Budget(9)), "any")
    assert (made.peak_bytes, made.proven, solve.call_count) == (8, True, 1)


def test_what_is_known_of_a_plan_too_large() -> None:
    two = (Buffer("a", 4, 0, 1), Buffer("b", 4, 0, 1))
    for limit, known in ((7, "no plan can need less than 8 B"), (8, "lower bound is 8 B: a longer search"), (9, "8 B")):
        problem = Problem(two, (Region("r", limit),))
        loose = make_plan(problem.in_region(None, "r"), {"a": 0, "b": 10}, "any", bound=Bound(8, "load"))
        with pytest.raises(DoesNotFit, match=known):
            branch_and_bound.checked_size(problem, loose)
