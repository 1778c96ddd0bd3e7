"""Fixed offsets, and many buffers with gaps: ejection in both of its forms, and what the portfolio makes of it."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_memplan_planners import SLOW_OK, buffers

from tinyhil.memplan import Alias, Budget, Buffer, Problem, check, cp_sat, eject, lower_bound, plan
from tinyhil.memplan.account import Account
from tinyhil.memplan.compiled_cores import eject_compiled
from tinyhil.memplan.eject_core import Limits, eject_python
from tinyhil.memplan.placing import place_in_order
from tinyhil.memplan.portfolio import SIMPLE
from tinyhil.memplan.problem import ProblemError


def planted(seed: int, height: int, cuts: int) -> Problem:
    """A rectangle of `height` bytes cut into buffers, always full; of those that lie at one
    offset and have one size some are one buffer with a gap."""
    chance = random.Random(seed)
    tiles = [(0, 40, 0, height)]  # start, end, low, high
    for _ in range(cuts):
        start, end, low, high = tiles.pop(chance.randrange(len(tiles)))
        by_time = end - start > 1 and (high - low < 2 or chance.random() < 0.5)
        at = chance.randrange(start + 1, end) if by_time else chance.randrange(low + 1, high) if high - low > 1 else low
        parts = (
            [(start, at, low, high), (at, end, low, high)]
            if by_time
            else [(start, end, low, at), (start, end, at, high)]
        )
        tiles += [part for part in parts if part[0] < part[1] and part[2] < part[3]]
    places: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for start, end, low, high in sorted(tiles):
        places.setdefault((low, high - low), []).append((start, end))
    found: list[Buffer] = []
    for (_, size), spans in places.items():
        for one, other in itertools.zip_longest(spans[::2], spans[1::2]):
            gaps = ((one[1], other[0]),) if other and one[1] < other[0] else ()
            end = one[1] if other is None else other[1]
            found.append(Buffer(f"b{len(found)}", size, one[0], end, gaps=gaps))
    return Problem(tuple(found))


def drawn(seed: int, count: int) -> Problem:
    chance = random.Random(seed)
    found = []
    for number in range(count):
        start = chance.randrange(40)
        end = start + chance.randint(1, 12)
        inner = ((start + 1, start + 2),) if end - start > 3 else ()
        found.append(Buffer(f"b{number}", chance.randint(1, 60), start, end, 1 + number % 3, gaps=inner))
    return Problem(tuple(found))


def fixed_some(problem: Problem, seed: int, lift: int = 12) -> Problem:
    """A third of the buffers fixed where they lie in some plan, some of them higher by `lift` bytes."""
    chance = random.Random(seed)
    places = place_in_order(problem, chance.sample(problem.buffers, len(problem.buffers)), "").offsets
    moved = {b.name: places[b.name] + lift * chance.randrange(2) for b in problem.buffers if chance.random() < 0.3}
    return replace(problem, buffers=tuple(replace(b, offset=moved.get(b.name)) for b in problem.buffers))


def lowest_by_orders(problem: Problem) -> int:
    """Of all orders: one of them is that of the best plan's offsets."""
    return min(place_in_order(problem, order, "").peak_bytes for order in itertools.permutations(problem.buffers))


def simple(problem: Problem) -> int:
    return min(one.run(problem, Budget()).peak_bytes for one in SIMPLE)


def test_the_order_beside_a_fixed_offset_matters() -> None:
    """Largest first gives 11."""
    problem = Problem((Buffer("a", 2, 0, 1, offset=0), Buffer("b", 4, 1, 3), Buffer("c", 5, 0, 2)))
    assert (simple(problem), plan(problem).peak_bytes, plan(problem).proven) == (11, 9, True)


@SLOW_OK
@given(found=buffers(6, (1, 2, 3)), seed=st.integers(0, 99))
def test_beside_fixed_offsets_the_optimum_is_found_and_proven(found: tuple[Buffer, ...], seed: int) -> None:
    try:
        problem = fixed_some(Problem(tuple(replace(b, alignment=1) for b in found)), seed)
    except ProblemError:  # moved into each other
        return
    best = plan(problem)
    assert (best.peak_bytes, best.proven) == (lowest_by_orders(problem), True)


@pytest.mark.skipif(not cp_sat.is_installed(), reason="OR-Tools is not installed")
@pytest.mark.parametrize("count", [12, 20, 30])
def test_beside_fixed_offsets_no_plan_of_cp_sat_is_lower(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = 0
    for seed in range(12):
        try:
            problem = fixed_some(drawn(seed, count), seed)
        except ProblemError:
            continue
        other = plan(problem, "cp-sat", Budget(seconds=20))
        with monkeypatch.context() as alone:
            alone.setattr(cp_sat, "is_installed", lambda: False)
            best = plan(problem, budget=Budget(200_000))
        assert best.peak_bytes <= other.peak_bytes
        assert best.lower_bound_bytes <= other.peak_bytes
        seen += best.proven and other.proven
    assert seen >= 4


def test_fixed_offsets_beside_aliases_are_kept() -> None:
    """The buffer with an alias may be fixed or not; plan() checks."""
    for fixed in ("a", "b", "c"):
        three = (Buffer("a", 8, 0, 2), Buffer("b", 8, 1, 3), Buffer("c", 5, 0, 3))
        moved = tuple(replace(b, offset=8 if b.name == fixed else None) for b in three)
        best = plan(Problem(moved, aliases=(Alias("a", "b"),)))
        assert best.offsets[fixed] == 8
        assert best.peak_bytes == (13 if fixed == "c" else 16)


@pytest.mark.parametrize("seed", range(3))
def test_of_many_gaps_plans_are_near_the_optimum(seed: int) -> None:
    """The optimum is the rectangle's height; simple planners are 10 % above it."""
    problem = planted(seed, 100_000, 320)
    assert eject.suits(problem)
    assert plan(problem, budget=Budget(60_000)).peak_bytes <= 1.03 * lower_bound(problem).bytes < simple(problem)


@pytest.mark.parametrize("fixed", [False, True])
def test_both_forms_eject_alike(fixed: bool) -> None:
    problem = drawn(3, 60)
    problem = fixed_some(problem, 11, lift=0) if fixed else problem
    first = place_in_order(problem, problem.buffers, "")
    movables = eject.movables_of(problem.buffers)
    offsets = [first.offsets[b.name] for b in problem.buffers]
    states = set()
    for height, steps in itertools.product(range(lower_bound(problem).bytes - 1, first.peak_bytes, 9), (5, 400)):
        for largest in (False, True):
            limits = Limits(height, steps, height, largest=largest)
            compiled, slowly = eject_compiled(movables, offsets, limits), eject_python(movables, offsets, limits)
            assert compiled == slowly
            states.add(slowly[0] is None)
    assert states == {False, True}


def test_ejection_depends_on_nodes_alone_and_keeps_to_its_share() -> None:
    problem = drawn(5, 130)
    bound = lower_bound(problem)
    first = place_in_order(problem, problem.buffers, "", bound=bound)
    spent = []
    for _ in range(2):
        account = Account(Budget(nodes=3000))
        found = eject.ejected(problem, first, bound, account)
        check(problem, found)
        spent.append((found.offsets, account.nodes))
    assert spent[0] == spent[1]
    assert found.peak_bytes < first.peak_bytes
    assert spent[0][1] <= 1950 + len(eject.LONG.lower) + len(eject.SHORT.lower)
    assert eject.ejected(problem, first, bound, Account(Budget(nodes=0))).peak_bytes <= first.peak_bytes


def test_enough_is_enough() -> None:
    problem = drawn(5, 130)
    bound = lower_bound(problem)
    first = place_in_order(problem, problem.buffers, "", bound=bound)
    account = Account(Budget(enough_bytes=first.peak_bytes))
    eject.ejected(problem, first, bound, account)
    assert account.nodes == 0


def test_few_buffers_without_fixed_offsets_are_searched_exactly() -> None:
    assert not eject.suits(drawn(0, 40))
    assert not eject.suits(Problem(tuple(replace(b, gaps=()) for b in drawn(0, 200).buffers)))
