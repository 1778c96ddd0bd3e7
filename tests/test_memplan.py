"""Problems, the checker against deliberately bad plans, bounds, and input errors."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import permutations, product

import pytest

from tinyhil import memplan
from tinyhil.errors import ConfigError, DataError, DoesNotFit
from tinyhil.memplan import Alias, Buffer, Plan, PlanError, Problem, ProblemError, Region, check, plan
from tinyhil.memplan.bound import load_bytes, lower_bound
from tinyhil.memplan.csv import parse_problem, read_problem, write_plan, write_problem
from tinyhil.memplan.placing import make_plan
from tinyhil.memplan.stack import can_stack

A = Buffer("a", 4, 0, 3)
B = Buffer("b", 4, 2, 5)
C = Buffer("c", 2, 4, 6, alignment=2)
CHAIN = Problem((A, B, C))
GOOD = make_plan(CHAIN, {"a": 0, "b": 4, "c": 0}, "by hand")


def test_good_plan_passes() -> None:
    check(CHAIN, GOOD)
    assert GOOD.peak_bytes == GOOD.lower_bound_bytes == 8
    assert GOOD.proven
    assert GOOD.witness == 2


def _at(**offsets: int) -> Plan:
    return make_plan(CHAIN, {**GOOD.offsets, **offsets}, "by hand")


BAD_PLANS = {
    "overlap": (_at(b=3), "overlap in region 'arena' at instant 2"),
    "below": (_at(a=-1), "lies below its region"),
    "misaligned": (_at(c=1), "not aligned to 2"),
    "missing": (replace(GOOD, offsets={"a": 0, "b": 4}), "'c' has no offset"),
    "unknown": (replace(GOOD, offsets={**GOOD.offsets, "z": 0}), "no buffer of the problem"),
    "no region": (replace(GOOD, regions={"a": "arena", "b": "arena"}), "'c' has no region"),
    "other region": (replace(GOOD, regions={**GOOD.regions, "c": "dtcm"}), "which does not exist"),
    "peak": (replace(GOOD, peak_bytes=9, proven=False), "claims a peak of 9 B, its offsets reach 8 B"),
    "peaks": (replace(GOOD, peaks={"arena": 7}), "claims 7 B of region 'arena'"),
    "bound above peak": (replace(GOOD, lower_bound_bytes=9), "above its own peak"),
    "bound below peak": (replace(GOOD, lower_bound_bytes=7), "claims to be optimal"),
    "false load": (replace(GOOD, witness=4), "load at instant 4 is 6 B, not the bound 8 B"),
    "no witness": (replace(GOOD, witness=None), "load at instant None is 0 B"),
    "false fixed": (replace(GOOD, how="fixed"), "fixed offsets reach 0 B"),
    "no statement": (replace(GOOD, how="search"), "no statement"),
    "weak search": (
        replace(GOOD, how="search", lower_bound_bytes=6, proven=False, statement="x"),
        "below the maximum load of 8 B",
    ),
    "weak set": (replace(GOOD, how="set", witnesses=("a", "c")), "a, c can lie within 7 B"),
    "empty set": (replace(GOOD, how="set"), "can lie within 7 B"),
    "unknown in set": (replace(GOOD, how="set", witnesses=("a", "z")), "'z', which is no buffer"),
    "unknown proof": (replace(GOOD, how="faith"), "unknown kind of certificate"),
}


@pytest.mark.parametrize("name", BAD_PLANS)
def test_bad_plan_is_refused(name: str) -> None:
    plan, message = BAD_PLANS[name]
    with pytest.raises(PlanError) as caught:
        check(CHAIN, plan)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_bad_plans_of_fixed_offsets_regions_and_limits() -> None:
    fixed = Problem((Buffer("a", 4, 0, 2, offset=4),))
    with pytest.raises(PlanError, match="fixed offset 4"):
        check(fixed, make_plan(fixed, {"a": 0}, "by hand"))
    small = CHAIN.in_region(9)
    with pytest.raises(PlanError, match="beyond region 'arena' of 9 B"):
        check(small, make_plan(small, {"a": 0, "b": 6, "c": 0}, "by hand"))
    two = Problem((Buffer("a", 4, 0, 2, region="fast"),), (Region("fast", 8), Region("slow")))
    with pytest.raises(PlanError, match="should be in 'fast'"):
        check(two, make_plan(two, {"a": 0}, "by hand", regions={"a": "slow"}))


def test_alias_needs_the_same_offset() -> None:
    problem = Problem((A, B), aliases=(Alias("a", "b"),))
    check(problem, make_plan(problem, {"a": 0, "b": 0}, "by hand"))
    check(problem, make_plan(problem, {"a": 0, "b": 4}, "by hand"))
    with pytest.raises(PlanError, match="overlap"):
        check(problem, make_plan(problem, {"a": 0, "b": 1}, "by hand"))


def test_a_gap_lets_others_in() -> None:
    outer = Buffer("outer", 8, 0, 6, gaps=((2, 4),))
    inside, beyond = Buffer("in", 8, 2, 4), Buffer("beyond", 8, 2, 5)
    fits, clashes = Problem((outer, inside)), Problem((outer, beyond))
    check(fits, make_plan(fits, {"outer": 0, "in": 0}, "by hand"))
    with pytest.raises(PlanError, match="at instant 4"):
        check(clashes, make_plan(clashes, {"outer": 0, "beyond": 0}, "by hand"))
    assert memplan.plan(fits).peak_bytes == 8
    assert memplan.plan(clashes).peak_bytes == 16


def test_bounds() -> None:
    assert lower_bound(CHAIN) == memplan.Bound(8, "load", 2)
    assert lower_bound(Problem(())).bytes == 0
    aligned = Problem(tuple(Buffer(str(k), 5, 0, 1, alignment=8) for k in range(3)))
    assert load_bytes(aligned, 0) == 8 + 8 + 5
    assert memplan.plan(aligned).peak_bytes == 21
    shared = Problem((A, B), aliases=(Alias("a", "b"),))
    assert load_bytes(shared, 2) == 4
    check(CHAIN, replace(GOOD, how="set", witnesses=("a", "b")))


def test_what_can_not_stack() -> None:
    """Two of different alignment, each with padding above the other; a set too large to try is no proof."""
    pair = Problem((Buffer("a", 6, 0, 2, alignment=2), Buffer("b", 9, 1, 3, alignment=8), Buffer("c", 5, 4, 5)))
    assert load_bytes(pair, 1) == 15
    assert lower_bound(pair) == memplan.Bound(16, "set", 1, ("a", "b")), "10 + 6 or 8 + 9"
    plan = memplan.plan(pair)
    assert (plan.peak_bytes, plan.proven, plan.witnesses) == (16, True, ("a", "b"))
    assert "a, b can not lie within 15 B" in memplan.describe(plan)
    with pytest.raises(PlanError, match="several regions"):
        check(Problem(pair.buffers, (Region(), Region("more"))), replace(plan, peaks={}))
    many = Problem(tuple(Buffer(str(k), 3, k // 19, 1 + k // 19) for k in range(20)))  # the last one meets no other
    names = tuple(b.name for b in many.buffers)
    assert can_stack(many, names[:19], 56) is False
    assert can_stack(many, names[:19], 57) is None
    assert can_stack(many, names, 56) is None
    with pytest.raises(PlanError, match="may, as far as could be checked"):
        check(many, replace(memplan.plan(many), how="set", witnesses=names))


def test_what_is_fixed_lies_in_the_only_region_and_nothing_takes_no_room() -> None:
    named = Buffer("b", 4, 1, 2, offset=16, region="arena")
    assert plan(Problem((Buffer("a", 4, 0, 1, offset=8), named))).peak_bytes == 20
    assert plan(Problem((Buffer("a", 0, 0, 2, offset=18), named))).peak_bytes == 20
    assert plan(Problem((Buffer("a", 0, 0, 1, offset=100), Buffer("b", 4, 0, 1)))).peak_bytes == 4
    with pytest.raises(ProblemError, match="fixed offsets 16 and 18 overlap at instant 1"):
        Problem((named, Buffer("a", 4, 0, 2, offset=18)))


def test_fixed_offsets_bound() -> None:
    assert lower_bound(Problem((Buffer("a", 4, 0, 2, offset=96),))) == memplan.Bound(100, "fixed")


BAD_PROBLEMS = {
    "negative size": (lambda: Buffer("x", -1, 0, 1), "'x': size -1 B is negative"),
    "empty range": (lambda: Buffer("x", 1, 3, 3), "live range [3, 3) is empty"),
    "endless": (lambda: Buffer("x", 1, 0, 10**20), "'x': 100000000000000000000 is too large a number"),
    "before all time": (lambda: Buffer("x", 1, -(10**20), 1), "'x': 100000000000000000000 is too large a number"),
    "huge": (lambda: Buffer("x", 2**53 + 1, 0, 1), "'x': 9007199254740993 is too large a number"),
    "huge alignment": (lambda: Buffer("x", 1, 0, 1, alignment=2**54), "is too large a number; sizes, offsets and"),
    "huge offset": (lambda: Buffer("x", 1, 0, 1, offset=2**54), "is too large a number; sizes, offsets and"),
    "huge together": (
        lambda: Problem(tuple(Buffer(name, 2**52, 0, 1) for name in "xy")),
        "all buffers add up to 9007199254740994 B; at most 9007199254740992 B",
    ),
    "alignment": (lambda: Buffer("x", 1, 0, 1, alignment=0), "alignment 0"),
    "fixed below": (lambda: Buffer("x", 1, 0, 1, offset=-4), "fixed offset -4 is negative"),
    "fixed misaligned": (lambda: Buffer("x", 1, 0, 1, alignment=4, offset=2), "no multiple of alignment 4"),
    "gap outside": (lambda: Buffer("x", 1, 0, 4, gaps=((3, 5),)), "gap [3, 5)"),
    "gap everything": (lambda: Buffer("x", 1, 0, 4, gaps=((0, 4),)), "no instant"),
    "twice": (lambda: Problem((A, A)), "'a' is given twice"),
    "too large": (lambda: Problem((A,), (Region("ram", 3),)), "4 B is larger than region 'ram' of 3 B"),
    "fixed too high": (
        lambda: Problem((Buffer("x", 2, 0, 1, offset=2),), (Region("ram", 3),)),
        "larger than",
    ),
    "fixed overlap": (
        lambda: Problem((Buffer("x", 4, 0, 3, offset=0), Buffer("y", 4, 2, 5, offset=3))),
        "fixed offsets 0 and 3 overlap at instant 2",
    ),
    "no such region": (lambda: Problem((Buffer("x", 1, 0, 1, region="q"),)), "no region 'q'"),
    "no such alias": (lambda: Problem((A,), aliases=(Alias("a", "z"),)), "no buffer 'z'"),
}


@pytest.mark.parametrize("name", BAD_PROBLEMS)
def test_bad_problem_is_refused(name: str) -> None:
    make, message = BAD_PROBLEMS[name]
    with pytest.raises(ProblemError) as caught:
        make()
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


BAD_CSV = {
    "empty": ("", "is empty"),
    "unknown column": ("id,lower,upper,size,colour\n", "line 1: unknown column 'colour'"),
    "missing column": ("id,lower,upper\n", "line 1: column 'size'"),
    "no end": ("id,lower,size\n", "line 1: column 'upper'"),
    "many ends": ("id,lower,size,upper,upper,upper,end,end\n", "line 1: column 'upper'"),
    "short line": ("id,lower,upper,size\na,0,1,4\nb,0,1\n", "line 3: 3 fields, the header has 4"),
    "not a number": ("id,lower,upper,size\na,0,1,4k\n", "line 2: size '4k' is not an integer"),
    "empty range": ("id,lower,upper,size\n\na,1,1,4\n", "line 3: buffer 'a': live range [1, 1) is empty"),
    "negative": ("id,lower,upper,size\na,0,1,-4\n", "line 2: buffer 'a': size -4 B"),
    "twice": ("id,lower,upper,size\na,0,1,4\na,0,1,4\n", "'a' is given twice"),
    "gap": ("id,lower,upper,size,gaps\na,0,9,4,3\n", "line 2: gap '3'"),
}


@pytest.mark.parametrize("name", BAD_CSV)
def test_bad_csv_is_refused(name: str) -> None:
    text, message = BAD_CSV[name]
    with pytest.raises(DataError) as caught:
        parse_problem(text, "x.csv")
    assert str(caught.value).startswith("x.csv")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_unreadable_file(tmp_path) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(DataError, match="no such file"):
        read_problem(tmp_path / "none.csv")
    (tmp_path / "binary.csv").write_bytes(b"id,\xff\xfe")
    with pytest.raises(DataError, match="no UTF-8 text at byte 3"):
        read_problem(tmp_path / "binary.csv")


def test_csv_round_trip() -> None:
    buffers = (Buffer("p", 8, 0, 9, 4, None, ((2, 4), (6, 7))), Buffer("q", 3, 1, 2, 1, 16))
    problem = Problem(buffers)
    assert parse_problem(write_problem(problem)) == problem
    planned = parse_problem(write_plan(problem, memplan.plan(problem)))
    assert all(buffer.offset is not None for buffer in planned.buffers)
    inclusive = parse_problem("id,begin,end,size\na,0,2,4\n")
    assert inclusive.buffers == (Buffer("a", 4, 0, 3),)


def test_too_small_region_and_unknown_planner() -> None:
    with pytest.raises(DoesNotFit, match=r"8 B > 7 B of region 'arena'; no plan can need less than 8 B"):
        memplan.plan(CHAIN.in_region(7))
    with pytest.raises(DoesNotFit, match="no place is left"):
        memplan.plan(CHAIN.in_region(7), "first-fit")
    with pytest.raises(ConfigError, match="there are first-fit"):
        memplan.plan(CHAIN, "magic")


def test_describe_and_record() -> None:
    found = memplan.plan(CHAIN)
    assert "optimal placement: at instant 2 buffers of 8 B are live at once" in memplan.describe(found)
    record = memplan.as_record(found, 0.5, 7)
    assert (record["peak_bytes"], record["proven"], record["fits"]) == (8, True, False)
    gap = replace(GOOD, peak_bytes=10, proven=False)
    assert "gap 2 B (25.0 %)" in memplan.describe(gap)


def stacks(problem: Problem) -> int:
    """The least total of buffers that all live at once, over all ways to part them among regions, in all orders."""
    best = 1 << 60
    names = [region.name for region in problem.regions]
    for homes in product(names, repeat=len(problem.buffers)):
        total = 0
        for name in names:
            there = [b for b, home in zip(problem.buffers, homes, strict=True) if home == name]
            tops = []
            for order in permutations(there):
                top = 0
                for b in order:
                    top = -(-top // b.alignment) * b.alignment + b.size_bytes
                tops.append(top)
            total += min(tops)
        best = min(best, total)
    return best


@pytest.mark.parametrize("regions", [1, 2, 3])
def test_bounds_of_several_regions_are_bounds(regions: int) -> None:
    """Against every order in every region; the checker, which adds up for itself, agrees with the planners."""
    chance = random.Random(regions)
    for _ in range(60):
        sizes = [(chance.randrange(1, 14), chance.choice((1, 2, 4, 8))) for _ in range(chance.randrange(1, 5))]
        buffers = tuple(Buffer(str(k), size, 0, 1, step) for k, (size, step) in enumerate(sizes))
        problem = Problem(buffers, tuple(Region(f"r{k}", 200) for k in range(regions)))
        assert lower_bound(problem).bytes <= stacks(problem), sizes
        plan(problem)  # checks


def test_the_checker_knows_a_false_bound() -> None:
    """Two aligned buffers in two regions need no padding: who claims 13 B is told so by the checker's own sum."""
    problem = Problem((Buffer("a", 5, 0, 1, 4), Buffer("b", 5, 0, 1, 4)), (Region("r", 20), Region("s", 20)))
    honest = plan(problem, "first-fit")
    assert lower_bound(problem).bytes == 10
    with pytest.raises(PlanError, match="the load at instant 0 is 10 B, not the bound 13 B"):
        check(problem, replace(honest, lower_bound_bytes=13, peak_bytes=honest.peak_bytes, how="load", witness=0))
