"""Few buffers that can not all lie below a height: a reason for a bound that anyone can repeat.

Every plan can be pushed down until each buffer rests on the floor or on another one, taken in the order of their
offsets. So trying the buffers in every order, each on top of what it meets, finds the lowest plan there is. This is
the whole search: no planner's code is used, and a set of buffers that it exhausts needs no trust in one.

Where every two of them meet, what the best order needs at least is counted instead (pile.py), of any number.

Leaving buffers out only makes a problem easier, so what a set needs the whole problem needs. Buffers joined by an alias
may share bytes; here they are taken not to meet at all, which is easier still.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from tinyhil.memplan.pile import least_pile
from tinyhil.memplan.problem import Buffer, Problem, first_shared_instant

MOST_BUFFERS = 14
MOST_STATES = 60_000  # about half a second


def can_stack(problem: Problem, names: Sequence[str], height: int) -> bool | None:
    """Whether these buffers can lie within `height` bytes of one region; None if that takes too long to tell."""
    wanted = set(names)
    buffers = [buffer for buffer in problem.buffers if buffer.name in wanted and buffer.size_bytes]
    may_share = problem.alias_pairs()
    if all(_meet(one, other, may_share) for one, other in combinations(buffers, 2)) and least_pile(buffers) > height:
        return False
    return _Stack(buffers, may_share, height).fits() if len(buffers) <= MOST_BUFFERS else None


def _meet(one: Buffer, other: Buffer, may_share: frozenset[frozenset[str]]) -> bool:
    """Whether they are live at once and may not share bytes then."""
    return first_shared_instant(one, other) is not None and frozenset((one.name, other.name)) not in may_share


class _Stack:
    def __init__(self, buffers: Sequence[Buffer], may_share: frozenset[frozenset[str]], height: int) -> None:
        self.buffers = buffers
        self.height = height
        self.states = 0
        self.seen: set[tuple[int, tuple[int, ...]]] = set()
        self.meets = [[one is not other and _meet(one, other, may_share) for other in buffers] for one in buffers]
        self.cliques = self._cliques()

    def _cliques(self) -> list[list[int]]:
        """Buffers of which every two meet, instant by instant."""
        found: list[list[int]] = []
        for instant in sorted({start for buffer in self.buffers for start, _ in buffer.sections}):
            clique: list[int] = []
            for index, buffer in enumerate(self.buffers):
                if buffer.live_at(instant) and all(self.meets[index][other] for other in clique):
                    clique.append(index)
            found.append(clique)
        return found

    def fits(self) -> bool | None:
        everything = (1 << len(self.buffers)) - 1
        return self._place_rest(everything, [0] * len(self.buffers))

    def _place_rest(self, left: int, floors: list[int]) -> bool | None:
        """Place the buffers in the set `left`, each not below its floor."""
        if not left:
            return True
        self.states += 1
        if self.states > MOST_STATES:
            return None
        if self._too_high(left, floors) or (left, tuple(floors)) in self.seen:
            return False
        self.seen.add((left, tuple(floors)))
        for index, buffer in enumerate(self.buffers):
            if not left >> index & 1:
                continue
            offset = -(-floors[index] // buffer.alignment) * buffer.alignment
            if offset + buffer.size_bytes > self.height:
                return False  # whatever comes before it
            # The next ones lie no lower: buffers come in the order of their offsets.
            above = [
                max(floor, offset + buffer.size_bytes if self.meets[index][other] else offset)
                if left >> other & 1 and other != index
                else 0
                for other, floor in enumerate(floors)
            ]
            found = self._place_rest(left & ~(1 << index), above)
            if found is not False:
                return found
        return False

    def _too_high(self, left: int, floors: list[int]) -> bool:
        """Whether what is left can not fit: what is live at once lies side by side above the lowest floor."""
        for clique in self.cliques:
            rest = [index for index in clique if left >> index & 1]
            if rest and min(floors[i] for i in rest) + sum(self.buffers[i].size_bytes for i in rest) > self.height:
                return True
        return False
