"""What is planned: buffers with sizes and live ranges, the memory they go into, and the plan itself.

Time is counted in instants. A buffer is live in the half-open range [start, end): it holds its bytes during
start, start + 1, ..., end - 1. Memory is counted in bytes; a buffer at offset o owns [o, o + size_bytes).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from tinyhil.errors import ConfigError

ARENA = "arena"
MOST = 1 << 53  # bytes of all buffers, and the farthest instant: compiled cores count in 64 bits, weights are doubles


class ProblemError(ConfigError):
    """The planning problem contradicts itself: no plan of it could be valid."""


@dataclass(frozen=True, slots=True)
class Buffer:
    """`size_bytes` live in [start, end) except in `gaps`; a given `offset` is kept as it is."""

    name: str
    size_bytes: int
    start: int
    end: int
    alignment: int = 1
    offset: int | None = None
    gaps: tuple[tuple[int, int], ...] = ()
    region: str | None = None  # the only region it may go to; None: any

    def __post_init__(self) -> None:
        object.__setattr__(self, "gaps", tuple(sorted((int(a), int(b)) for a, b in self.gaps)))
        _check_buffer(self)

    @property
    def sections(self) -> tuple[tuple[int, int], ...]:
        """The live range without its gaps, as half-open intervals in order."""
        if not self.gaps:
            return ((self.start, self.end),)
        parts = []
        begin = self.start
        for gap_start, gap_end in self.gaps:
            if gap_start > begin:
                parts.append((begin, gap_start))
            begin = gap_end
        if begin < self.end:
            parts.append((begin, self.end))
        return tuple(parts)

    def live_at(self, instant: int) -> bool:
        """Whether it holds something then; not within a gap."""
        return any(start <= instant < end for start, end in self.sections)


def _check_buffer(buffer: Buffer) -> None:
    what = f"buffer {buffer.name!r}"
    if buffer.size_bytes < 0:
        raise ProblemError(f"{what}: size {buffer.size_bytes} B is negative; sizes are 0 B or more")
    if buffer.start >= buffer.end:
        raise ProblemError(f"{what}: live range [{buffer.start}, {buffer.end}) is empty; the end must be later")
    if buffer.alignment < 1:
        raise ProblemError(f"{what}: alignment {buffer.alignment} is not positive; 1 means none")
    if buffer.offset is not None and buffer.offset < 0:
        raise ProblemError(f"{what}: fixed offset {buffer.offset} is negative")
    if buffer.offset is not None and buffer.offset % buffer.alignment:
        raise ProblemError(f"{what}: fixed offset {buffer.offset} is no multiple of alignment {buffer.alignment}")
    farthest = max(buffer.size_bytes, buffer.alignment, buffer.offset or 0, buffer.end, -buffer.start)
    if farthest > MOST:
        raise ProblemError(f"{what}: {farthest} is too large a number; sizes, offsets and instants go up to {MOST}")
    previous_end = buffer.start
    for start, end in buffer.gaps:
        if not previous_end <= start < end <= buffer.end:
            raise ProblemError(
                f"{what}: gap [{start}, {end}) is empty, overlaps another or leaves [{buffer.start}, {buffer.end})"
            )
        previous_end = end
    if not buffer.sections:
        raise ProblemError(f"{what}: its gaps leave no instant in which it is live")


@dataclass(frozen=True, slots=True)
class Region:
    """A memory of its own; `size_bytes` None: as much as the plan takes."""

    name: str = ARENA
    size_bytes: int | None = None

    def __post_init__(self) -> None:
        if self.size_bytes is not None and self.size_bytes < 0:
            raise ProblemError(f"region {self.name!r}: size {self.size_bytes} B is negative")


@dataclass(frozen=True, slots=True)
class Alias:
    """Both buffers may hold the same bytes while both are live, provided `second` starts `shift_bytes` above `first`:
    0 for an operator that works in place, more for a view of a part. A planner may decline it."""

    first: str
    second: str
    shift_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Problem:
    """Buffers in program order, the regions in order of preference, and the aliases permitted."""

    buffers: tuple[Buffer, ...]
    regions: tuple[Region, ...] = (Region(),)
    aliases: tuple[Alias, ...] = ()

    def __post_init__(self) -> None:
        for name in ("buffers", "regions", "aliases"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        _check_names(self)
        _check_sizes(self)
        _check_fixed(self)

    def region_of(self, fixed: Buffer) -> str:
        """Where a buffer with a fixed offset lies: the only region need not be named."""
        return fixed.region or self.regions[0].name

    def in_region(self, size_bytes: int | None, name: str = ARENA) -> Problem:
        """The same buffers in one region of this size."""
        return replace(self, regions=(Region(name, size_bytes),))

    def alias_pairs(self) -> frozenset[frozenset[str]]:
        """Names of any two that may share bytes while both are live."""
        return frozenset(frozenset((alias.first, alias.second)) for alias in self.aliases)

    def alias_shifts(self) -> dict[tuple[str, str], frozenset[int]]:
        """How many bytes the second of a pair may start above the first; every pair both ways round."""
        found: dict[tuple[str, str], set[int]] = {}
        for alias in self.aliases:
            found.setdefault((alias.first, alias.second), set()).add(alias.shift_bytes)
            found.setdefault((alias.second, alias.first), set()).add(-alias.shift_bytes)
        return {pair: frozenset(shifts) for pair, shifts in found.items()}


def _check_names(problem: Problem) -> None:
    names: set[str] = set()
    for buffer in problem.buffers:
        if buffer.name in names:
            raise ProblemError(f"buffer {buffer.name!r} is given twice; names must differ")
        names.add(buffer.name)
    regions = {region.name for region in problem.regions}
    if not regions or len(regions) != len(problem.regions):
        raise ProblemError("a problem needs at least one region, each with a name of its own")
    for buffer in problem.buffers:
        if buffer.region is not None and buffer.region not in regions:
            raise ProblemError(f"buffer {buffer.name!r}: there is no region {buffer.region!r}")
        if buffer.offset is not None and buffer.region is None and len(regions) > 1:
            raise ProblemError(f"buffer {buffer.name!r}: a fixed offset among several regions needs its region")
    for alias in problem.aliases:
        for name in (alias.first, alias.second):
            if name not in names:
                raise ProblemError(f"alias {alias.first!r} = {alias.second!r}: there is no buffer {name!r}")
        if alias.first == alias.second:
            raise ProblemError(f"alias {alias.first!r} = {alias.second!r}: a buffer can not alias itself")


def _check_sizes(problem: Problem) -> None:
    total = sum(buffer.size_bytes + buffer.alignment for buffer in problem.buffers)
    if total > MOST:
        raise ProblemError(f"sizes and alignments of all buffers add up to {total} B; at most {MOST} B can be planned")
    sizes = {region.name: region.size_bytes for region in problem.regions}
    for buffer in problem.buffers:
        allowed = [buffer.region] if buffer.region is not None else list(sizes)
        limits = [sizes[name] for name in allowed]
        if any(limit is None or (buffer.offset or 0) + buffer.size_bytes <= limit for limit in limits):
            continue
        where = f" at fixed offset {buffer.offset}" if buffer.offset else ""
        largest = max(limit for limit in limits if limit is not None)
        raise ProblemError(
            f"buffer {buffer.name!r}: {buffer.size_bytes} B{where} is larger than region "
            f"{allowed[limits.index(largest)]!r} of {largest} B; use a lower width or a larger memory"
        )


def _check_fixed(problem: Problem) -> None:
    shifts = problem.alias_shifts()
    fixed = [buffer for buffer in problem.buffers if buffer.offset is not None]
    for index, one in enumerate(fixed):
        for other in fixed[:index]:
            apart = (one.offset or 0) - (other.offset or 0)
            same_place = apart in shifts.get((other.name, one.name), ())
            if problem.region_of(one) != problem.region_of(other) or same_place or not _bytes_meet(one, other):
                continue
            instant = first_shared_instant(one, other)
            if instant is not None:
                raise ProblemError(
                    f"buffers {other.name!r} and {one.name!r}: fixed offsets {other.offset} and {one.offset} "
                    f"overlap at instant {instant}"
                )


def _bytes_meet(one: Buffer, other: Buffer) -> bool:
    a, b = one.offset or 0, other.offset or 0
    return a < b + other.size_bytes and b < a + one.size_bytes and one.size_bytes > 0 and other.size_bytes > 0


def first_shared_instant(one: Buffer, other: Buffer) -> int | None:
    """The earliest instant at which both are live, if there is one."""
    shared = [
        max(a, c) for a, b in one.sections for c, d in other.sections if max(a, c) < min(b, d)
    ]  # sections are few: one more than the gaps
    return min(shared, default=None)


@dataclass(frozen=True, slots=True)
class Plan:
    """Where every buffer goes, and what is known about how good that is.

    `peak_bytes` is the sum over the regions of the highest byte used (with one region: the arena's size).
    `how` says where `lower_bound_bytes` comes from: "load" (everything live at instant `witness` must fit
    beside each other), "fixed" (a fixed offset reaches that high), "set" (the few buffers named in `witnesses` can not
    lie lower, whatever their order) or "search" (an exhausted search; `statement` says of what).
    """

    offsets: Mapping[str, int]
    regions: Mapping[str, str]
    peak_bytes: int
    lower_bound_bytes: int
    proven: bool
    how: str
    witness: int | None = None
    planner: str = ""
    statement: str = ""
    peaks: Mapping[str, int] = field(default_factory=dict)
    witnesses: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("offsets", "regions", "peaks"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))

    @property
    def gap_bytes(self) -> int:
        """How far the peak may still be from the optimum."""
        return self.peak_bytes - self.lower_bound_bytes
