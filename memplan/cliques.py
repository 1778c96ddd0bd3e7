"""The heaviest buffers of which every two meet. With gaps they need not all be live at any one instant: one of them is
absent while two others meet. Branch and bound: of buffers of which no two meet a clique has at most one."""

from __future__ import annotations

from collections.abc import Sequence

from tinyhil.memplan.problem import Buffer

MOST_BUFFERS = 1000
MOST_LOOKS = 60_000  # at a buffer, some hundredths of a second; what was found until then is a clique, too


def heaviest_beside_gaps(buffers: Sequence[Buffer], floor_bytes: int) -> tuple[Buffer, ...]:
    """Buffers that take more than this beside each other, the most that was found; none if there are no such.

    Where they do not share an instant one of them has a gap, so each of those is looked at with what meets it.
    """
    ordered = sorted((buffer for buffer in buffers if buffer.size_bytes), key=lambda buffer: -buffer.size_bytes)
    if len(ordered) > MOST_BUFFERS or not any(buffer.gaps for buffer in ordered):
        return ()
    best = _Cliques(ordered, floor_bytes).best
    names = {buffer.name for index, buffer in enumerate(ordered) if best >> index & 1}
    return tuple(buffer for buffer in buffers if buffer.name in names)


def _meeting(buffers: Sequence[Buffer]) -> list[int]:
    """Of each buffer, as bits, those that are live at an instant at which it is."""
    events = sorted(
        (time, begins, index)
        for index, buffer in enumerate(buffers)
        for section in buffer.sections
        for begins, time in enumerate(reversed(section))  # ends come first
    )
    meets, live = [0] * len(buffers), 0
    for _, begins, index in events:
        if begins:
            meets[index] |= live
            for other in _members(live):
                meets[other] |= 1 << index
        live ^= 1 << index
    return meets


def _members(bits: int) -> list[int]:
    return [index for index, bit in enumerate(reversed(f"{bits:b}")) if bit == "1"]


class _Cliques:
    """The heaviest clique with a gap, as bits; 0 if none takes more than the floor. Buffers come largest first."""

    def __init__(self, buffers: Sequence[Buffer], floor_bytes: int) -> None:
        self.sizes = [buffer.size_bytes for buffer in buffers]
        self.meets = _meeting(buffers)
        self.most_bytes, self.best, self.looks = floor_bytes, 0, 0
        left = (1 << len(buffers)) - 1
        for index in [index for index, buffer in enumerate(buffers) if buffer.gaps]:
            left &= ~(1 << index)
            self._extend(1 << index, self.sizes[index], left & self.meets[index])

    def _extend(self, chosen: int, size_bytes: int, left: int) -> None:
        if size_bytes > self.most_bytes:
            self.most_bytes, self.best = size_bytes, chosen
        for index, rest_bytes in reversed(self._ranked(left)):
            if size_bytes + rest_bytes <= self.most_bytes or self.looks > MOST_LOOKS:
                return
            left &= ~(1 << index)
            self._extend(chosen | 1 << index, size_bytes + self.sizes[index], left & self.meets[index])

    def _ranked(self, left: int) -> list[tuple[int, int]]:
        """Each of them, and what a clique of those up to it takes at the most."""
        found, total = [], 0
        while left:
            apart = left  # of which no two meet
            total += self.sizes[_lowest(apart)]
            while apart:
                index = _lowest(apart)
                found.append((index, total))
                left &= ~(1 << index)
                apart &= ~(1 << index) & ~self.meets[index]
        self.looks += len(found)
        return found


def _lowest(bits: int) -> int:
    return (bits & -bits).bit_length() - 1
