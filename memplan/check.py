"""The checker: is this plan a valid answer to this problem? It knows nothing of planners.

It recomputes everything a plan claims: overlap, bounds, alignment, fixed offsets, aliases, peaks and the
certificate. Loads and the height of fixed offsets it adds up for itself, and it tries every order of the few buffers
that are said not to fit (stack.can_stack); no planner's code. From the planners' bounds it takes a suggestion alone:
which of the buffers that are live at once share no bytes, and looks whether that is so.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import combinations

from tinyhil.errors import HilError
from tinyhil.memplan.bound import heaviest_apart, joined_by_name
from tinyhil.memplan.problem import Buffer, Plan, Problem, first_shared_instant
from tinyhil.memplan.stack import can_stack

MOST_COMPARED = 5000  # buffers, each with all that are live with it


class PlanError(HilError):
    """A plan that is not a valid answer to its problem."""


def check(problem: Problem, plan: Plan) -> None:
    """Raise PlanError with the first thing wrong; return nothing when all is right."""
    _check_complete(problem, plan)
    for buffer in problem.buffers:
        _check_place(problem, plan, buffer)
    _check_overlap(problem, plan)
    _check_peaks(problem, plan)
    _check_certificate(problem, plan)


def _check_complete(problem: Problem, plan: Plan) -> None:
    names = {buffer.name for buffer in problem.buffers}
    regions = {region.name for region in problem.regions}
    for title, given in (("offset", plan.offsets), ("region", plan.regions)):
        for name in names - given.keys():
            raise PlanError(f"plan: buffer {name!r} has no {title}")
        for name in given.keys() - names:
            raise PlanError(f"plan: {title} of {name!r}, which is no buffer of the problem")
    for name, region in plan.regions.items():
        if region not in regions:
            raise PlanError(f"plan: buffer {name!r} is in region {region!r}, which does not exist")


def _check_place(problem: Problem, plan: Plan, buffer: Buffer) -> None:
    offset, region_name = plan.offsets[buffer.name], plan.regions[buffer.name]
    what = f"plan: buffer {buffer.name!r} at offset {offset}"
    if offset < 0:
        raise PlanError(f"{what} lies below its region")
    if offset % buffer.alignment:
        raise PlanError(f"{what} is not aligned to {buffer.alignment}")
    if buffer.offset is not None and offset != buffer.offset:
        raise PlanError(f"{what} should be at its fixed offset {buffer.offset}")
    if buffer.region is not None and region_name != buffer.region:
        raise PlanError(f"{what} is in region {region_name!r} and should be in {buffer.region!r}")
    (limit,) = (region.size_bytes for region in problem.regions if region.name == region_name)
    if limit is not None and offset + buffer.size_bytes > limit:
        end = offset + buffer.size_bytes
        raise PlanError(f"{what} ends at {end} B, beyond region {region_name!r} of {limit} B")


def _check_overlap(problem: Problem, plan: Plan) -> None:
    """Sweep over time; whatever begins is compared with everything still live, of very many plain buffers with the two
    neighbours in memory: those live are apart, so a third one can not be met."""
    if len(problem.buffers) > MOST_COMPARED and not problem.aliases and not any(b.gaps for b in problem.buffers):
        _check_neighbours(problem, plan)
        return
    shifts = problem.alias_shifts()
    live: list[tuple[int, int, Buffer]] = []
    for index, buffer in enumerate(sorted(problem.buffers, key=lambda b: b.start)):
        while live and live[0][0] <= buffer.start:
            heapq.heappop(live)
        for _, _, other in live:
            if _share_bytes(plan, buffer, other) and not _aliased(plan, shifts, buffer, other):
                _report_overlap(plan, other, buffer)
        heapq.heappush(live, (buffer.end, index, buffer))


def _check_neighbours(problem: Problem, plan: Plan) -> None:
    live: dict[str, list[tuple[int, str]]] = {region.name: [] for region in problem.regions}
    by_name = {buffer.name: buffer for buffer in problem.buffers if buffer.size_bytes}
    events = [(b.end, 0, b.name) for b in by_name.values()] + [(b.start, 1, b.name) for b in by_name.values()]
    for _, begins, name in sorted(events):
        there, key = live[plan.regions[name]], (plan.offsets[name], name)
        place = bisect_left(there, key)
        if not begins:
            del there[place]
            continue
        for _, other in there[max(0, place - 1) : place + 1]:
            if _share_bytes(plan, by_name[name], by_name[other]):
                _report_overlap(plan, by_name[other], by_name[name])
        there.insert(place, key)


def _share_bytes(plan: Plan, one: Buffer, other: Buffer) -> bool:
    a, b = plan.offsets[one.name], plan.offsets[other.name]
    return (
        a < b + other.size_bytes
        and b < a + one.size_bytes
        and one.size_bytes > 0
        and other.size_bytes > 0
        and plan.regions[one.name] == plan.regions[other.name]
    )


def _aliased(plan: Plan, shifts: Mapping[tuple[str, str], frozenset[int]], one: Buffer, other: Buffer) -> bool:
    apart = plan.offsets[other.name] - plan.offsets[one.name]
    return apart in shifts.get((one.name, other.name), ())


def _report_overlap(plan: Plan, one: Buffer, other: Buffer) -> None:
    instant = first_shared_instant(one, other)
    if instant is None:
        return  # one lives in the other's gaps
    spans = " and ".join(
        f"{b.name!r} [{plan.offsets[b.name]}, {plan.offsets[b.name] + b.size_bytes})" for b in (one, other)
    )
    raise PlanError(f"plan: buffers {spans} overlap in region {plan.regions[one.name]!r} at instant {instant}")


def _check_peaks(problem: Problem, plan: Plan) -> None:
    peaks = {region.name: 0 for region in problem.regions}
    for buffer in problem.buffers:
        region = plan.regions[buffer.name]
        if buffer.size_bytes:
            peaks[region] = max(peaks[region], plan.offsets[buffer.name] + buffer.size_bytes)
    total = sum(peaks.values())
    if plan.peak_bytes != total:
        raise PlanError(f"plan: it claims a peak of {plan.peak_bytes} B, its offsets reach {total} B")
    for name, peak in plan.peaks.items():
        if peaks.get(name) != peak:
            raise PlanError(f"plan: it claims {peak} B of region {name!r}, its offsets reach {peaks.get(name)} B")


def _check_certificate(problem: Problem, plan: Plan) -> None:
    bound, peak = plan.lower_bound_bytes, plan.peak_bytes
    if bound > peak:
        raise PlanError(f"plan: it claims a lower bound of {bound} B above its own peak of {peak} B")
    if plan.proven and bound != peak:
        raise PlanError(f"plan: it claims to be optimal, but the bound of {bound} B is below the peak of {peak} B")
    if plan.how == "load":
        load = 0 if plan.witness is None else _load_at(problem, plan.witness)
        if load != bound:
            raise PlanError(f"plan: the load at instant {plan.witness} is {load} B, not the bound {bound} B")
    elif plan.how == "fixed":
        height = _fixed_height(problem, plan)
        if height != bound:
            raise PlanError(f"plan: the fixed offsets reach {height} B, not the bound {bound} B")
    elif plan.how == "set":
        _check_set(problem, plan)
    elif plan.how == "search":
        load = max((_load_at(problem, buffer.start) for buffer in problem.buffers), default=0)
        if not plan.statement:
            raise PlanError("plan: the bound rests on a search, but there is no statement of what was exhausted")
        if load > bound:
            raise PlanError(f"plan: the searched bound of {bound} B is below the maximum load of {load} B")
    else:
        raise PlanError(f"plan: unknown kind of certificate {plan.how!r}; there are load, fixed, set and search")


def _fixed_height(problem: Problem, plan: Plan) -> int:
    """The tops of what the problem fixes, over the regions."""
    tops = dict.fromkeys(plan.regions.values(), 0)
    for buffer in problem.buffers:
        if buffer.offset is not None and buffer.size_bytes:
            region = plan.regions[buffer.name]
            tops[region] = max(tops[region], buffer.offset + buffer.size_bytes)
    return sum(tops.values())


def _load_at(problem: Problem, instant: int) -> int:
    """Bytes that the buffers live at this instant take at least, however they lie: their sizes or, of those aligned to
    a common step, whole steps for all but the topmost one of each region."""
    live = [b for b in problem.buffers if b.live_at(instant) and b.size_bytes]
    outside = 0
    if problem.aliases:
        everyone = live
        live, pairs = heaviest_apart(live, joined_by_name(problem)), problem.alias_pairs()
        for one, other in combinations(live, 2):
            if frozenset((one.name, other.name)) in pairs:
                raise PlanError(f"plan: the bound counts {one.name!r} and {other.name!r} twice, which may share bytes")
        outside = sum(_outside(problem, b, everyone, live) for b in everyone if b not in live)
    best = outside + sum(b.size_bytes for b in live)
    for step in {b.alignment for b in live}:
        stepped = [b.size_bytes for b in live if b.alignment % step == 0]
        whole = [-(-size // step) * step for size in stepped]
        saved = sorted((a - b for a, b in zip(whole, stepped, strict=True)), reverse=True)
        best = max(best, sum(whole) - sum(saved[: len(problem.regions)]))
    return best


def _outside(problem: Problem, buffer: Buffer, live: Sequence[Buffer], counted: Sequence[Buffer]) -> int:
    """Bytes of a buffer that can not be those of one that is counted, where it may share bytes with that one alone."""
    sizes, names = {b.name: b.size_bytes for b in live}, {b.name for b in counted}
    met = [alias for alias in problem.aliases if buffer.name in (alias.first, alias.second)]
    met = [alias for alias in met if alias.first in sizes and alias.second in sizes]
    others = {alias.first if alias.second == buffer.name else alias.second for alias in met}
    if len(others) != 1 or not others <= names:
        return 0
    unions = [max(sizes[a.first], a.shift_bytes + sizes[a.second]) - min(0, a.shift_bytes) for a in met]
    together = sizes[buffer.name] + sizes[others.pop()]
    return min(together, *unions) - together + buffer.size_bytes


def _check_set(problem: Problem, plan: Plan) -> None:
    """The witnesses do not lie below the bound in any order."""
    known = {buffer.name for buffer in problem.buffers}
    for name in plan.witnesses:
        if name not in known:
            raise PlanError(f"plan: the bound rests on {name!r}, which is no buffer of the problem")
    if len(problem.regions) > 1:
        raise PlanError("plan: that few buffers do not fit proves nothing about several regions")
    fits = can_stack(problem, plan.witnesses, plan.lower_bound_bytes - 1)
    if fits is not False:
        how = "can" if fits else "may, as far as could be checked,"
        names = ", ".join(plan.witnesses)
        raise PlanError(f"plan: {names} {how} lie within {plan.lower_bound_bytes - 1} B, below the bound")
