"""What mutants of bounds and checker showed to be untested, each against its definition."""

from __future__ import annotations

import importlib
import random
from itertools import combinations, permutations

import pytest

from tinyhil.memplan import Alias, Buffer, PlanError, Problem, bound, check
from tinyhil.memplan.bound import fixed_height, heaviest_apart, joined_by_name, lowest_stack, stack_of
from tinyhil.memplan.placing import make_plan

checker = importlib.import_module("tinyhil.memplan.check")  # the package has a function of this name


def drawn(source: random.Random, count: int) -> list[Buffer]:
    sizes = (source.randint(1, 20) for _ in range(count))
    return [Buffer(f"b{n}", size, 0, 1, alignment=source.choice((1, 2, 4, 8, 16))) for n, size in enumerate(sizes)]


def test_the_lowest_stack_is_that_of_the_best_order() -> None:
    source = random.Random(1)
    assert stack_of([Buffer("a", 3, 0, 1, alignment=4)]) == 3
    for _ in range(60):
        buffers = drawn(source, source.randint(1, 5))
        assert lowest_stack(buffers) == min(map(stack_of, permutations(buffers)))


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
        assert all(not joined.get(name, set()) & chosen for name in chosen)
        assert all(joined.get(buffer.name, set()) & chosen for buffer in live if buffer.name not in chosen)
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
