"""One level of a program as the search for an order sees it: who must precede whom, and what is live when.

The model: a tensor is live from its first to its last touch; one that the surroundings of a loop know is live for the
whole loop, except that a loop state is dead between its last reader and the operation that writes it anew. An
element-wise operation takes the place of an operand that dies with it, a copy the place of its source. Sets of items
are bit masks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tinyhil.language.program import Body, Loop, Op, Program, Role
from tinyhil.memplan.arena.tensors import overwritable
from tinyhil.ops.scan import COPY

ALWAYS, STATE, RESULT, LOCAL, GIVEN = "always", "state", "result", "local", "given"


@dataclass(frozen=True, slots=True)
class Held:
    """A tensor at this level. `readers` of a state are those before its `writer`."""

    size_bytes: int
    kind: str
    touched: int
    readers: int = 0
    writer: int = 0

    def live_between(self, done: int) -> bool:
        """Whether it holds a needed value after the items `done` and before the others."""
        if self.kind == ALWAYS:
            return True
        if self.kind == STATE:
            return bool(done & self.writer) or bool(self.readers & ~done)
        started = self.kind == GIVEN or bool(self.touched & done)
        return started and (self.kind == RESULT or bool(self.touched & ~done))


Sized = tuple[tuple[int, int], ...]  # bytes, and the items that have to do with them


@dataclass(frozen=True, slots=True)
class Item:
    """An operation or a loop: what it touches, what it needs itself; `saved`, its output's bytes, are not needed where
    it is the last of one of `ends`, the items that need a value whose place it may take.

    What it touches once more, as an order asks it: so many bytes are live `before` and `behind` it whatever is done,
    those `begun` if one of their items is done, those `wanted` as long as one is not; `states` know it themselves."""

    touches: tuple[Held, ...]
    own_bytes: int
    saved: int
    ends: tuple[int, ...]
    before: int
    behind: int
    begun: Sized
    wanted: Sized
    states: tuple[Held, ...]


def item_of(index: int, touches: tuple[Held, ...], own_bytes: int, output_bytes: int, places: tuple[Held, ...]) -> Item:
    """The item of a number, which may write its output over one of `places`."""

    def of(*kinds: str) -> tuple[Held, ...]:
        return tuple(held for held in touches if held.kind in kinds)

    mortal = [held for held in places if held.kind in (LOCAL, GIVEN)]
    states = [held.readers for held in places if held.kind == STATE and held.readers >> index & 1]
    return Item(
        touches,
        own_bytes,
        output_bytes if places else 0,
        (*(held.touched for held in mortal), *states),
        sum(held.size_bytes for held in of(ALWAYS, GIVEN)),
        sum(held.size_bytes for held in of(ALWAYS, RESULT)),
        tuple((held.size_bytes, held.touched) for held in of(LOCAL, RESULT)),
        tuple((held.size_bytes, held.touched) for held in of(LOCAL, GIVEN)),
        of(STATE),
    )


@dataclass(frozen=True, slots=True)
class Level:
    """Items of one body and, as bits, which of them each waits for and which wait for it."""

    items: tuple[Item, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    tensors: tuple[Held, ...]

    def members(self, mask: int) -> Iterator[int]:
        """Indices of the bits set, lowest first."""
        while mask:
            lowest = mask & -mask
            yield lowest.bit_length() - 1
            mask ^= lowest

    def ready_after(self, done: int) -> int:
        """Bits of the items that wait for nothing but `done` and are not among it."""
        return sum(1 << i for i, needed in enumerate(self.before) if not done >> i & 1 and not needed & ~done)

    def released(self, item: int, done: int) -> int:
        """What becomes ready by executing `item`, the last of `done`."""
        return sum(1 << i for i in self.members(self.after[item]) if not self.before[i] & ~done)

    def live_at_start(self) -> int:
        """Bytes that are live before any item."""
        return sum(held.size_bytes for held in self.tensors if held.live_between(0))

    def step(self, done: int, index: int, live_bytes: int) -> tuple[int, int]:
        """Bytes needed while `index` executes after `done`, and bytes live afterwards."""
        item, then = self.items[index], done | 1 << index
        others, held_after = live_bytes - item.before, item.behind
        for size, touched in item.begun:
            if touched & done:
                others -= size
        for size, touched in item.wanted:
            if touched & ~then:
                held_after += size
        for held in item.states:
            others -= held.size_bytes * held.live_between(done)
            held_after += held.size_bytes * held.live_between(then)
        needed = others + item.own_bytes
        for needing in item.ends:
            if not needing & ~then:
                needed -= item.saved
                break
        after = others + held_after
        return (needed if needed > after else after), after

    def peak_of(self, order: tuple[int, ...]) -> int:
        """The most bytes live at a time in this order."""
        done, live, peak = 0, self.live_at_start(), 0
        for index in order:
            during, live = self.step(done, index, live)
            peak, done = max(peak, during), done | 1 << index
        return peak

    def floor_bytes(self) -> int:
        """No order needs less: each item with what is always live, in the best place it could have."""
        always = sum(held.size_bytes for held in self.tensors if held.kind == ALWAYS)
        floors = [0]
        for item in self.items:
            beside = always - sum(held.size_bytes for held in item.touches if held.kind == ALWAYS)
            floors.append(beside + item.own_bytes - item.saved)
        return max(floors)


def level_of(program: Program, body: Body, weights: tuple[int, ...], is_top: bool) -> Level:
    """`weights`: of each loop, the most its body needs at once, everything it touches included."""
    sequence_of = _sequences(program.body)
    touches = [_touches(program, item, sequence_of) for item in body]
    inside = [name for reads, writes in touches for name in (*reads, *writes)]
    everywhere = _touch_counts(program.body, sequence_of)
    here = _touch_counts(body, sequence_of)
    index = _index(touches)
    tensors = {}
    for name in dict.fromkeys(inside):
        known_outside = not is_top and (everywhere[name] > here[name] or name == program.output)
        tensors[name] = _held(program, name, index, known_outside, is_top and name == program.output)
    items = []
    for number, (item, (reads, writes), weight) in enumerate(zip(body, touches, weights, strict=True)):
        held = tuple(tensors[name] for name in dict.fromkeys((*reads, *writes)))
        if isinstance(item, Loop):
            passing = {sequence_of.get(sequence, sequence) for sequence, _ in item.slices}
            passing -= set(_touch_counts(item.body, sequence_of))  # of no weight within: no operation reads the rows
            unread = sum(tensors[name].size_bytes for name in passing if name in tensors)
            items.append(item_of(number, held, weight + unread, 0, ()))
            continue
        replaced = item.inputs[:1] if item.kernel == COPY.form else tuple(overwritable(program, item))
        places = tuple(tensors[name] for name in replaced if name in tensors)
        scratch_bytes = program.tensors[item.scratch].size_bytes if item.scratch else 0
        own_bytes = scratch_bytes + sum(one.size_bytes for one in held)
        items.append(item_of(number, held, own_bytes, tensors[item.output].size_bytes, places))
    before = _before(touches)
    return Level(tuple(items), before, _inverse(before), tuple(tensors.values()))


Touches = tuple[frozenset[str], frozenset[str]]  # read, written


def _sequences(body: Body) -> dict[str, str]:
    """Every row tensor and the sequence it shows a part of, rows of rows traced back."""
    found: dict[str, str] = {}
    for item in body:
        if isinstance(item, Loop):
            found |= {row: sequence for sequence, row in item.slices} | _sequences(item.body)
    for row, sequence in found.items():
        while sequence in found:
            sequence = found[sequence]
        found[row] = sequence
    return found


def _touches(program: Program, item: Op | Loop, sequence_of: dict[str, str]) -> Touches:
    """Arena tensors; a row of a sequence counts as the sequence."""
    reads: set[str] = set()
    writes: set[str] = set()
    for name, written in _names(item, sequence_of):
        if program.tensors[name].role == Role.ARENA:
            (writes if written else reads).add(name)
    return frozenset(reads), frozenset(writes)


def _names(item: Op | Loop, sequence_of: dict[str, str]) -> Iterator[tuple[str, bool]]:
    if isinstance(item, Op):
        yield from ((sequence_of.get(name, name), False) for name in item.inputs)
        yield item.output, True
        return
    yield from ((sequence_of.get(sequence, sequence), False) for sequence, _ in item.slices)
    for inner in item.body:
        yield from _names(inner, sequence_of)


def _touch_counts(body: Body, sequence_of: dict[str, str]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for item in body:
        for name, _ in _names(item, sequence_of):
            counts[name] = counts.get(name, 0) + 1
    return counts


def _index(touches: list[Touches]) -> dict[str, tuple[list[int], list[int]]]:
    """The items that read each tensor, and those that write it."""
    found: dict[str, tuple[list[int], list[int]]] = {}
    for item, both in enumerate(touches):
        for kind, names in enumerate(both):
            for name in names:
                found.setdefault(name, ([], []))[kind].append(item)
    return found


def _held(
    program: Program, name: str, index: dict[str, tuple[list[int], list[int]]], known_outside: bool, is_result: bool
) -> Held:
    readers, writers = index[name]
    touched = sum(1 << i for i in {*readers, *writers})
    size = program.tensors[name].size_bytes
    if not known_outside:
        return Held(size, RESULT if is_result else LOCAL if writers else GIVEN, touched)
    earlier = [i for i in readers if writers and i < writers[0]]
    if len(writers) == 1 and earlier and writers[0] not in readers:
        return Held(size, STATE, touched, sum(1 << i for i in earlier), 1 << writers[0])
    return Held(size, ALWAYS, touched)


def _before(touches: list[Touches]) -> tuple[int, ...]:
    """For each item the earlier ones it must follow: one of the two writes what the other touches."""
    readers: dict[str, int] = {}
    writers: dict[str, int] = {}
    found = []
    for index, (reads, writes) in enumerate(touches):
        mask = 0
        for name in reads:
            mask |= writers.get(name, 0)
        for name in writes:
            mask |= writers.get(name, 0) | readers.get(name, 0)
        found.append(mask)
        for names, known in ((reads, readers), (writes, writers)):
            for name in names:
                known[name] = known.get(name, 0) | 1 << index
    return tuple(found)


def _inverse(before: tuple[int, ...]) -> tuple[int, ...]:
    """For each item the later ones that must follow it."""
    after = [0] * len(before)
    for index, mask in enumerate(before):
        while mask:
            lowest = mask & -mask
            after[lowest.bit_length() - 1] |= 1 << index
            mask ^= lowest
    return tuple(after)
