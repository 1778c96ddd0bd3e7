"""Lower bounds on the peak: the maximum load with the instant that witnesses it, and fixed offsets.

The load of an instant is what the buffers live at it need beside each other. Buffers aligned to g (or multiples)
each pay for rounding up to g, but for the topmost one: the rounding is counted, less the largest one. Buffers
joined by aliases may share bytes: of each joined group only the largest counts.
"""

from __future__ import annotations

from dataclasses import dataclass

from memplan.problem import Buffer, Problem


@dataclass(frozen=True, slots=True)
class Bound:
    """No valid plan has a smaller peak. `how` is "load" (with its instant) or "fixed" (see Plan)."""

    bytes: int
    how: str
    witness: int | None = None


def lower_bound(problem: Problem) -> Bound:
    """The best of the bounds, with the earliest instant that witnesses it."""
    best = Bound(0, "load", None)
    for instant in _instants(problem):
        live = instant[1]
        load = live_load(live, problem)
        if load > best.bytes:
            best = Bound(load, "load", instant[0])
    fixed = fixed_height(problem)
    return Bound(fixed, "fixed") if fixed > best.bytes else best


def load_bytes(problem: Problem, instant: int) -> int:
    """The load at one instant, computed from the definition."""
    return live_load([buffer for buffer in problem.buffers if buffer.live_at(instant)], problem)


def fixed_height(problem: Problem) -> int:
    """The sum over the regions of the highest end of a buffer with a fixed offset."""
    tops: dict[str | None, int] = {}
    for buffer in problem.buffers:
        if buffer.offset is not None:
            top = buffer.offset + buffer.size_bytes
            tops[buffer.region] = max(tops.get(buffer.region, 0), top)
    return sum(tops.values())


def live_load(live: list[Buffer], problem: Problem) -> int:
    """What these buffers, all live at once, need at the least."""
    if problem.aliases:
        live = _largest_of_groups(live, problem)
    live = [buffer for buffer in live if buffer.size_bytes]
    if not live:
        return 0
    best = sum(buffer.size_bytes for buffer in live)
    for step in sorted({buffer.alignment for buffer in live} - {1}):
        aligned = [buffer for buffer in live if buffer.alignment % step == 0]
        paddings = sorted((-buffer.size_bytes % step for buffer in aligned), reverse=True)
        # Each region has a topmost buffer, whose rounding is not paid.
        paid = sum(paddings[len(problem.regions) :])
        best = max(best, sum(buffer.size_bytes for buffer in aligned) + paid)
    return best


def _largest_of_groups(live: list[Buffer], problem: Problem) -> list[Buffer]:
    leader = {buffer.name: buffer.name for buffer in live}

    def find(name: str) -> str:
        while leader[name] != name:
            name = leader[name]
        return name

    for alias in problem.aliases:
        if alias.first in leader and alias.second in leader:
            leader[find(alias.second)] = find(alias.first)
    largest: dict[str, Buffer] = {}
    for buffer in live:
        group = find(buffer.name)
        if group not in largest or buffer.size_bytes > largest[group].size_bytes:
            largest[group] = buffer
    return list(largest.values())


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
