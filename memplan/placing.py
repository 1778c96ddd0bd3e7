"""Placing buffers one after another in a given order: what every simple planner does.

Each buffer goes to the first region in which it finds a place below the region's end, at the lowest free
offset ("first") or into the tightest hole ("best"). Buffers with a fixed offset are placed before all others.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from time import monotonic

from tinyhil.errors import DoesNotFit
from tinyhil.memplan.bound import Bound, lower_bound
from tinyhil.memplan.compiled_cores import place_compiled
from tinyhil.memplan.problem import Buffer, Plan, Problem, first_shared_instant

Interval = tuple[int, int]

MANY = 100  # buffers, from which on the compiled form pays
BUFFERS_PER_BUCKET = 50
ALWAYS_EXACT = 1000  # buffers, whatever the time: some ten milliseconds


class Placing:
    """The buffers placed so far, indexed by the time they are live (buckets of equal width)."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.offsets: dict[str, int] = {}
        self.regions: dict[str, str] = {}
        self._shifts = problem.alias_shifts()
        self._origin = min((b.start for b in problem.buffers), default=0)
        horizon = max((b.end for b in problem.buffers), default=1) - self._origin
        buckets = 1 + len(problem.buffers) // BUFFERS_PER_BUCKET
        self._bucket_instants = max(1, -(-horizon // buckets))
        self._buckets: dict[int, list[Buffer]] = {}
        self._used: dict[int, list[Interval]] | None = None  # once time is over: bytes taken in each bucket

    def place_all(self, order: Iterable[Buffer], fit: str = "first", seconds: float | None = None) -> None:
        """Buffers with offsets of their own, then the others in `order`, by `fit` ("first", "best"), exactly
        for `seconds` and in less time from then on."""
        began, regions = monotonic(), self.problem.regions
        for buffer in self.problem.buffers:
            if buffer.offset is not None:
                self.put(buffer, buffer.region or regions[0].name, buffer.offset)
        hurries = seconds is not None and [region.size_bytes for region in regions] == [None]
        for index, buffer in enumerate(order):
            if buffer.offset is not None:
                continue
            if hurries and index >= ALWAYS_EXACT and monotonic() - began > (seconds or 0.0):
                self._place_quickly(buffer, fit)
            else:
                self._place(buffer, fit)

    def put(self, buffer: Buffer, region: str, offset: int) -> None:
        """Fix the buffer at `offset` bytes in `region`."""
        self.offsets[buffer.name] = offset
        self.regions[buffer.name] = region
        for bucket in self._buckets_of(buffer):
            self._buckets.setdefault(bucket, []).append(buffer)

    def _place(self, buffer: Buffer, fit: str) -> None:
        conflicts = self._conflicts(buffer)
        for region in self.problem.regions:
            if buffer.region not in (None, region.name):
                continue
            offset = self._offset_in(region.name, buffer, conflicts, fit)
            if region.size_bytes is None or offset + buffer.size_bytes <= region.size_bytes:
                self.put(buffer, region.name, offset)
                return
        sizes = ", ".join(f"{region.name} {region.size_bytes} B" for region in self.problem.regions)
        raise DoesNotFit(
            f"memory plan: no place is left for buffer {buffer.name!r} of {buffer.size_bytes} B ({sizes}); "
            "try another planner, a lower width or a larger memory"
        )

    def _place_quickly(self, buffer: Buffer, fit: str) -> None:
        """As if it were live in the whole of each bucket that it touches: there the bytes taken are few intervals."""
        if self._used is None:
            self._used = {}
            for bucket, placed in self._buckets.items():
                spans = [(self.offsets[other.name], self.offsets[other.name] + other.size_bytes) for other in placed]
                self._used[bucket] = _joined(spans)
        touched = self._buckets_of(buffer) if buffer.size_bytes else range(0)
        taken = [span for bucket in touched for span in self._used.get(bucket, ())]
        offset = find_hole(taken, buffer.size_bytes, buffer.alignment, fit)
        self.put(buffer, self.problem.regions[0].name, offset)
        for bucket in touched:
            _use(self._used.setdefault(bucket, []), offset, offset + buffer.size_bytes)

    def _offset_in(self, region: str, buffer: Buffer, conflicts: list[Buffer], fit: str) -> int:
        taken: list[Interval] = []
        shared: list[tuple[frozenset[int], Interval]] = []
        for other in conflicts:
            if self.regions[other.name] != region:
                continue
            offset = self.offsets[other.name]
            span = (offset, offset + other.size_bytes)
            shifts = self._shifts.get((other.name, buffer.name)) if self._shifts else None
            if shifts:
                shared.append((shifts, span))
            else:
                taken.append(span)
        if not shared:
            return find_hole(taken, buffer.size_bytes, buffer.alignment, fit)
        return self._with_aliases(buffer, taken, shared, fit)

    def _with_aliases(
        self, buffer: Buffer, taken: list[Interval], shared: list[tuple[frozenset[int], Interval]], fit: str
    ) -> int:
        """The lowest of: declining all aliases, or starting exactly where one of the aliases permits."""
        best = find_hole(taken + [span for _, span in shared], buffer.size_bytes, buffer.alignment, fit)
        for offset in {span[0] + shift for shifts, span in shared for shift in shifts}:
            if not 0 <= offset < best or offset % buffer.alignment:
                continue
            others = taken + [span for shifts, span in shared if offset - span[0] not in shifts]
            end = offset + buffer.size_bytes
            if all(b <= offset or a >= end for a, b in others):
                best = offset
        return best

    def _conflicts(self, buffer: Buffer) -> list[Buffer]:
        """Placed buffers of some size that are live together with this one, each once."""
        if not buffer.size_bytes:
            return []
        seen: dict[str, Buffer] = {}
        for bucket in self._buckets_of(buffer):
            for other in self._buckets.get(bucket, ()):
                if other.start < buffer.end and buffer.start < other.end and other.size_bytes:
                    seen[other.name] = other
        if any(other.gaps for other in seen.values()) or buffer.gaps:
            return [other for other in seen.values() if first_shared_instant(buffer, other) is not None]
        return list(seen.values())

    def _buckets_of(self, buffer: Buffer) -> range:
        first = (buffer.start - self._origin) // self._bucket_instants
        last = (buffer.end - 1 - self._origin) // self._bucket_instants
        return range(first, last + 1)


def _joined(spans: list[Interval]) -> list[Interval]:
    """The same bytes in disjoint intervals, lowest first."""
    found: list[Interval] = []
    for low, high in sorted(spans):
        if found and low <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], high))
        else:
            found.append((low, high))
    return found


def _use(used: list[Interval], low: int, high: int) -> None:
    """Joins an interval with those of disjoint ones that touch it."""
    first = bisect_left(used, low, key=lambda span: span[1])
    beyond = bisect_right(used, high, lo=first, key=lambda span: span[0])
    if first < beyond:
        low, high = min(low, used[first][0]), max(high, used[beyond - 1][1])
    used[first:beyond] = [(low, high)]


def find_hole(taken: list[Interval], size_bytes: int, alignment: int, fit: str) -> int:
    """The offset of the lowest ("first") or tightest ("best") hole that is large enough."""
    taken.sort()
    top = 0
    tightest: tuple[int, int] | None = None
    for start, end in taken:
        offset = -(-top // alignment) * alignment
        if offset + size_bytes <= start:
            if fit == "first":
                return offset
            if tightest is None or start - top < tightest[0]:
                tightest = (start - top, offset)
        top = max(top, end)
    return tightest[1] if tightest else -(-top // alignment) * alignment


def place_in_order(
    problem: Problem,
    order: Iterable[Buffer],
    planner: str,
    fit: str = "first",
    bound: Bound | None = None,
    seconds: float | None = None,
) -> Plan:
    """The plan that placing in this order gives, with the load bound as its certificate. Where Python does it, in one
    region without a limit, the rest is placed coarsely after `seconds`: quickly, and not as low."""
    order = list(order)
    if len(order) >= MANY and is_plain(problem):
        sized = [buffer for buffer in order if buffer.size_bytes]
        placed = place_compiled(sized, fit, seconds)
        if placed is not None:
            offsets = dict.fromkeys((buffer.name for buffer in order), 0)
            offsets.update((buffer.name, offset) for buffer, offset in zip(sized, placed, strict=True))
            return make_plan(problem, offsets, planner, bound=bound)
    placing = Placing(problem)
    placing.place_all(order, fit, seconds)
    return make_plan(problem, placing.offsets, planner, placing.regions, bound)


def is_plain(problem: Problem) -> bool:
    """One region without a limit, no aliases or fixed offsets: what placing_core.c can do."""
    plain = all(buffer.offset is None for buffer in problem.buffers)
    return plain and not problem.aliases and [region.size_bytes for region in problem.regions] == [None]


def make_plan(
    problem: Problem,
    offsets: dict[str, int],
    planner: str,
    regions: dict[str, str] | None = None,
    bound: Bound | None = None,
    statement: str = "",
) -> Plan:
    """Wrap offsets into a Plan with its peaks and certificate; one region unless `regions` says otherwise."""
    regions = regions or dict.fromkeys(offsets, problem.regions[0].name)
    bound = bound or lower_bound(problem)
    peaks = {region.name: 0 for region in problem.regions}
    for buffer in problem.buffers:
        if buffer.size_bytes:
            region = regions[buffer.name]
            peaks[region] = max(peaks[region], offsets[buffer.name] + buffer.size_bytes)
    peak = sum(peaks.values())
    return Plan(
        offsets=offsets,
        regions=regions,
        peak_bytes=peak,
        lower_bound_bytes=bound.bytes,
        proven=peak == bound.bytes,
        how=bound.how,
        witness=bound.witness,
        planner=planner,
        statement=statement,
        peaks=peaks,
        witnesses=bound.names,
    )
