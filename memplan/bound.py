"""Lower bounds on the peak: the maximum load with the instant that witnesses it, fixed offsets, and stacks.

The load of an instant is what the buffers live at it need beside each other. Buffers aligned to g (or multiples)
each pay for rounding up to g, but for the topmost one: the rounding is counted, less the largest one. Buffers
joined by an alias may share bytes, all others live at the same time may not: the heaviest set in which no two are
joined counts, and of each that is joined with one of it alone what must lie outside of that.

Where alignments differ, two buffers may not stack without a gap whichever lies below. What the best order of all that
is live at once needs (pile.py) is a bound with these buffers as its witness. So is what buffers need of which every two
meet, though no instant has all of them (cliques.py): that takes gaps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from tinyhil.memplan.cliques import heaviest_beside_gaps
from tinyhil.memplan.pile import least_pile, pile_of
from tinyhil.memplan.problem import Buffer, Problem

Joined = Mapping[str, Mapping[str, frozenset[int]]]  # by name: partners, how far their starts may lie apart

MOST_LISTED = 5000  # buffers, beyond which paddings are not looked at
EXACT_JOINED = 16  # up to this many joined buffers at an instant the heaviest set is found exactly


@dataclass(frozen=True, slots=True)
class Bound:
    """No valid plan has a smaller peak. `how` is "load" (with its instant), "fixed", or "set" (with `names`)."""

    bytes: int
    how: str
    witness: int | None = None
    names: tuple[str, ...] = ()


def lower_bound(problem: Problem) -> Bound:
    """The best of the bounds, with the earliest instant that witnesses it; of very many buffers the load alone."""
    best = Bound(0, "load", None)
    joined = joined_by_name(problem)
    plain = not joined and (len(problem.buffers) > MOST_LISTED or all(b.alignment == 1 for b in problem.buffers))
    if plain:
        best = _most_live(problem)
    for instant, live in () if plain else _instants(problem):
        load = live_load(live, problem, joined)
        if load > best.bytes:
            best = Bound(load, "load", instant)
        if len(problem.regions) == 1:
            best = _stacked(instant, live, joined, best)
    if len(problem.regions) == 1 and not joined:
        best = _beside_gaps(problem, best)
    fixed = fixed_height(problem)
    return Bound(fixed, "fixed") if fixed > best.bytes else best


def _most_live(problem: Problem) -> Bound:
    """The largest sum of sizes live at once, without listing who is."""
    changes: dict[int, int] = {}
    ends: set[int] = set()
    for buffer in problem.buffers:
        for start, end in buffer.sections:
            changes[start] = changes.get(start, 0) + buffer.size_bytes
            changes[end] = changes.get(end, 0) - buffer.size_bytes
            ends.add(end)
    best, load = Bound(0, "load", None), 0
    times = sorted(changes)
    for time, following in pairwise(times):
        load += changes[time]
        if following in ends and load > best.bytes:
            best = Bound(load, "load", time)
    return best


def _stacked(instant: int, live: list[Buffer], joined: Joined, best: Bound) -> Bound:
    """The bound that the best order of what is live gives, if it is a better one."""
    if all(buffer.alignment == 1 for buffer in live):
        return best
    apart = [buffer for buffer in heaviest_apart(live, joined) if buffer.size_bytes]
    by_alignment = sorted(apart, key=lambda buffer: -buffer.alignment)
    if pile_of(by_alignment) <= best.bytes:  # this order already needs no more
        return best
    needed = least_pile(apart)
    return Bound(needed, "set", instant, tuple(b.name for b in apart)) if needed > best.bytes else best


def _beside_gaps(problem: Problem, best: Bound) -> Bound:
    """The bound that buffers give of which every two meet, but not all at one instant, if it is a better one."""
    meeting = heaviest_beside_gaps(problem.buffers, best.bytes)
    needed = least_pile(meeting)
    return Bound(needed, "set", None, tuple(buffer.name for buffer in meeting)) if needed > best.bytes else best


def load_bytes(problem: Problem, instant: int) -> int:
    """The load at one instant, computed from the definition."""
    return live_load([buffer for buffer in problem.buffers if buffer.live_at(instant)], problem)


def fixed_height(problem: Problem) -> int:
    """The sum over the regions of the highest end of a buffer with a fixed offset."""
    tops: dict[str, int] = {}
    for buffer in problem.buffers:
        if buffer.offset is not None and buffer.size_bytes:
            top, region = buffer.offset + buffer.size_bytes, problem.region_of(buffer)
            tops[region] = max(tops.get(region, 0), top)
    return sum(tops.values())


def live_load(live: list[Buffer], problem: Problem, joined: Joined | None = None) -> int:
    """What these buffers, all live at once, need at the least."""
    beside = 0
    if problem.aliases:
        joined = joined_by_name(problem) if joined is None else joined
        apart = heaviest_apart(live, joined)
        beside, live = _overhang(live, {buffer.name for buffer in apart}, joined, problem), apart
    live = [buffer for buffer in live if buffer.size_bytes]
    if not live:
        return beside
    best = beside + sum(buffer.size_bytes for buffer in live)
    for step in sorted({buffer.alignment for buffer in live} - {1}):
        aligned = [buffer for buffer in live if buffer.alignment % step == 0]
        paddings = sorted((-buffer.size_bytes % step for buffer in aligned), reverse=True)
        # Each region has a topmost buffer, whose rounding is not paid.
        paid = sum(paddings[len(problem.regions) :])
        best = max(best, sum(buffer.size_bytes for buffer in aligned) + paid)
    return best


def _overhang(live: list[Buffer], apart: set[str], joined: Joined, problem: Problem) -> int:
    """Bytes of buffers that may share bytes with one of the others alone, as far as they lie outside of it at least."""
    sizes, found = {buffer.name: buffer.size_bytes for buffer in live}, 0
    for name in sizes.keys() - apart:
        partners = joined[name].keys() & sizes.keys()
        if len(partners) == 1 and partners <= apart:
            (other,) = partners
            shifts = joined[other][name]
            outside = [max(0, -shift) + max(0, shift + sizes[name] - sizes[other]) for shift in shifts]
            found += min(sizes[name], *outside)
    return found if found and any(alias.shift_bytes for alias in problem.aliases) else 0


def joined_by_name(problem: Problem) -> Joined:
    """The buffers that each one may share bytes with, and how many bytes above it they may start."""
    found: dict[str, dict[str, frozenset[int]]] = {}
    for (first, second), shifts in problem.alias_shifts().items():
        found.setdefault(first, {})[second] = shifts
    return found


def heaviest_apart(live: list[Buffer], partners: Joined) -> list[Buffer]:
    """Live buffers of which no two are joined by an alias: the heaviest such set (a heavy one where many are)."""
    sizes = {buffer.name: buffer.size_bytes for buffer in live}
    joined = {name: partners.get(name, {}).keys() & sizes.keys() for name in sizes}
    contested = sorted((name for name in sizes if joined[name]), key=lambda name: -sizes[name])
    chosen = _heaviest(contested, sizes, joined) if len(contested) <= EXACT_JOINED else _heavy(contested, joined)
    chosen |= {name for name in sizes if not joined[name]}
    return [buffer for buffer in live if buffer.name in chosen]


def _heaviest(names: list[str], sizes: dict[str, int], joined: dict[str, set[str]]) -> set[str]:
    """Maximum weight independent set by trying both choices for the first name."""
    if not names:
        return set()
    first, rest = names[0], names[1:]
    taken = {first} | _heaviest([name for name in rest if name not in joined[first]], sizes, joined)
    if not joined[first] & set(rest):
        return taken
    left = _heaviest(rest, sizes, joined)
    return max(taken, left, key=lambda chosen: sum(sizes[name] for name in chosen))


def _heavy(names: list[str], joined: dict[str, set[str]]) -> set[str]:
    """An independent set, largest names first: a valid bound, if not always the best one."""
    chosen: set[str] = set()
    for name in names:
        if not joined[name] & chosen:
            chosen.add(name)
    return chosen


def _instants(problem: Problem) -> list[tuple[int, list[Buffer]]]:
    """The instants at which something begins to be live after something ended, with what is live then.

    Between two such instants buffers only leave or only come, so no load is missed.
    """
    begins: dict[int, list[Buffer]] = {}
    ends: dict[int, list[Buffer]] = {}
    for buffer in problem.buffers:
        for start, end in buffer.sections:
            begins.setdefault(start, []).append(buffer)
            ends.setdefault(end, []).append(buffer)
    times = sorted(begins.keys() | ends.keys())
    live: dict[str, Buffer] = {}
    found = []
    for index, time in enumerate(times):
        for buffer in ends.get(time, ()):
            del live[buffer.name]
        for buffer in begins.get(time, ()):
            live[buffer.name] = buffer
        last_before_an_end = index + 1 < len(times) and times[index + 1] in ends
        if last_before_an_end and live:
            found.append((time, list(live.values())))
    return found
