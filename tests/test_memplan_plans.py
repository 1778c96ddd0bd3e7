"""Plans of every planner for drawn problems, as golden text: what heuristics choose, what is proven and why."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

import pytest
from conftest import Golden

from tinyhil import memplan
from tinyhil.errors import HilError
from tinyhil.memplan import PLANNERS, Alias, Budget, Buffer, Problem, Region, as_record, describe, portfolio
from tinyhil.memplan.account import Account, Solved
from tinyhil.memplan.algorithm_x import Links, encode
from tinyhil.memplan.blocks import FOUND, Search, accepted_groups, make_blocks, make_instance, peak_step, sections_of
from tinyhil.memplan.csv import parse_problem, write_plan, write_problem
from tinyhil.memplan.exact_search import IN_SLOTS, SHAKEN, STRATEGIES, _Round, _shake, minimise, run_strategy
from tinyhil.memplan.promote import promoted
from tinyhil.memplan.search_core import search_python
from tinyhil.memplan.several import fill_regions

PLANNED = [planner.name for planner in PLANNERS if planner.name != "cp-sat"]
NODES = {"algorithm-x": 300, "hill-climb": 2000}


def drawn(seed: int, count: int, *, gaps: bool = False, aligned: bool = False) -> tuple[Buffer, ...]:
    source, found = random.Random(seed), []
    for index in range(count):
        start, length = source.randrange(count), 1 + int(source.expovariate(2 / count))
        hole = ((start + 1, start + 2),) if gaps and length > 2 else ()
        step = source.choice((1, 2, 4, 8)) if aligned else 1
        found.append(Buffer(f"b{index}", source.choice((1, 7, 12, 30, 31)), start, start + length, step, gaps=hole))
    return tuple(found)


def problems() -> Iterator[tuple[str, Problem]]:
    for seed in range(3):
        yield f"plain {seed}", Problem(drawn(seed, 12))
        yield f"aligned {seed}", Problem(drawn(seed + 10, 10, aligned=True))
        yield f"gapped {seed}", Problem(drawn(seed + 20, 12, gaps=True))
    for seed in range(3):
        found, source = drawn(seed + 30, 11, aligned=seed == 2), random.Random(seed)
        pairs = [source.sample(found, 2) for _ in range(6)]
        aliases = tuple(Alias(a.name, b.name, source.choice((0, 0, 7))) for a, b in pairs)
        yield f"joined {seed}", Problem(found, aliases=aliases)
        sizes = 12 * (seed + 4)
        yield f"regions {seed}", Problem(found, (Region("fast", sizes), Region("slow"), Region("far", 70)))
        fixed = (replace(found[0], offset=16), replace(found[1], offset=56))
        yield f"fixed {seed}", Problem((*fixed, *found[2:]))
        yield f"limited {seed}", Problem(found, (Region("arena", 60 + 20 * seed),))
    yield "many", Problem(drawn(99, 60, aligned=True))
    yield "nothing", Problem((Buffer("none", 0, 0, 1),))


PROBLEMS = dict(problems())


def as_text(problem: Problem, planner: str) -> str:
    try:
        made = memplan.plan(problem, planner, Budget(NODES.get(planner, 4000)))
    except HilError as error:
        return f"  {planner}: {error}"
    text = describe(made).replace("\n", " | ")
    places = " ".join(f"{offset}{made.regions[name][0]}" for name, offset in made.offsets.items())
    return f"  {text} | {made.how} {made.witness} {','.join(made.witnesses)} | {places}"


def test_plans(golden: Golden) -> None:
    lines = []
    for name, problem in PROBLEMS.items():
        lines += [f"{name}: {memplan.lower_bound(problem)}", *(as_text(problem, planner) for planner in PLANNED)]
    golden.check("plans.txt", "\n".join(lines) + "\n")


def test_what_is_stopped_when_it_is_enough(golden: Golden) -> None:
    lines = []
    for name in ("plain 1", "aligned 0", "gapped 2", "joined 1", "many"):
        problem = PROBLEMS[name]
        bound = memplan.lower_bound(problem).bytes
        for budget in (Budget(4000, None, bound + 12), Budget(1), Budget(40), Budget(4000, 600.0)):
            made = [memplan.plan(problem, planner, budget) for planner in PLANNED if planner != "algorithm-x"]
            lines.append(f"{name} {budget}: {' '.join(f'{one.peak_bytes}>{one.lower_bound_bytes}' for one in made)}")
    golden.check("plans-budgets.txt", "\n".join(lines) + "\n")


def test_the_search_in_python_node_by_node(golden: Golden) -> None:
    """As without a compiler: states, places and nodes of every strategy."""
    lines = []
    for name in ("plain 0", "aligned 1", "gapped 0", "joined 0", "joined 2"):
        blocks = make_blocks(PROBLEMS[name], accepted_groups(PROBLEMS[name]))
        bound = max(memplan.lower_bound(PROBLEMS[name]).bytes, *(block.size_bytes for block in blocks))
        lines.append(
            f"{name}: {sections_of(blocks)} {[(block.names, block.pieces, block.alignment) for block in blocks]}"
        )
        for strategy in STRATEGIES:
            for slack in (0, 4, 30):
                instance, limit = make_instance(blocks, bound + slack)
                lines.append(f"  {slack} {search_python(instance, Search(limit, 60, strategy.rule, strategy.tie))}")
    for name in ("plain 1", "plain 2", "joined 1", "gapped 2"):
        height = memplan.lower_bound(PROBLEMS[name]).bytes
        encoding = encode(replace(PROBLEMS[name], aliases=()), height)
        for slack in (0, 3):
            links = Links(encoding, max(1, height // encoding.unit + slack))
            lines.append(f"{name} {slack} {links.search(60, None)} {links.choices} {links.offsets(encoding.unit)}")
    golden.check("plans-search.txt", "\n".join(lines) + "\n")
    assert f"state={FOUND}" in "\n".join(lines)


def test_searches_towards_the_optimum(golden: Golden) -> None:
    """Orders of blocks, searches shaken by chance and over orders, and rounds of very many buffers."""
    lines = []
    shaken = (replace(SHAKEN[1], seed=3, spread=4), replace(SHAKEN[6], seed=4, spread=9))
    for name in ("plain 1", "aligned 0", "gapped 2", "many"):
        problem = PROBLEMS[name]
        blocks, bound = make_blocks(problem), memplan.lower_bound(problem)
        first = memplan.plan(problem, "first-fit")
        for strategy in (*STRATEGIES, *shaken, *IN_SLOTS):
            result, offsets = run_strategy(blocks, strategy, first.peak_bytes - 4, 90)
            lines.append(f"{name}: {result.state} {result.nodes} {offsets}")
        start = Solved(tuple(first.offsets[block.names[0]] for block in blocks), first.peak_bytes, bound.bytes)
        for nodes in (500, 5000, 20_000):
            account = Account(Budget(nodes))
            made = minimise(blocks, start, 0, account)
            lines.append(f"{name}: {nodes} {account.nodes} {made.lower} {made.peak}")
        for goal in (bound.bytes, first.peak_bytes - 9):
            account = Account(Budget(40_000))
            made = _shake(blocks, start, goal, _Round(2500, peak_step(blocks), goal_only=False), account)
            lines.append(f"{name}: shaken {account.nodes} {made.lower} {made.peak}")
        for enough in (None, first.peak_bytes - 1):
            account = Account(Budget(9000, None, enough))
            plan = promoted(problem, first, bound, account)
            lines.append(f"{name}: promoted {account.nodes} {plan.peak_bytes}")
    for name in ("regions 0", "regions 1", "regions 2"):
        filled = fill_regions(PROBLEMS[name], portfolio.plan_within, Account(Budget(100_000)))
        assert filled is not None
        lines.append(f"{name}: {filled.peak_bytes} {dict(filled.offsets)} {dict(filled.regions)}")
    golden.check("plans-optimum.txt", "\n".join(lines) + "\n")


@pytest.mark.parametrize("name", ["regions 1", "joined 1", "gapped 1", "fixed 0", "nothing"])
def test_records_and_files(name: str, golden: Golden) -> None:
    problem = PROBLEMS[name]
    plan = memplan.plan(problem)
    text = write_problem(problem)
    again = parse_problem(text, "problem.csv")
    assert again.buffers == problem.buffers
    record = as_record(plan, 0.12345678, plan.peak_bytes), as_record(plan, 1.0, plan.peak_bytes - 1)
    assert [one["fits"] for one in record] == [True, False]
    assert as_record(plan, 1.0)["fits"]
    golden.check(f"plan-{name.replace(' ', '-')}.txt", f"{text}\n{write_plan(problem, plan)}\n{record[0]}\n")
