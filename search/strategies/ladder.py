"""Ladders of widths: what each tensor costs in bytes and in output error, and moves between assignments along them."""

from __future__ import annotations

import heapq
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from tinyhil.formats import named
from tinyhil.search.space import ARENA, Candidate, Choice
from tinyhil.search.study import Ask, Study
from tinyhil.search.trial import Trial

FEWEST = 8  # samples of a sensitivity


@dataclass(frozen=True, slots=True)
class Rung:
    """A choice for one tensor: bytes per element, and the rise of the output error it causes alone."""

    choice: Choice
    bytes: int
    loss: float


@dataclass(frozen=True, slots=True)
class Ladders:
    """`wide`: what every tensor had while another was measured. `rungs`: per group of the arena from the widest storage
    to the narrowest, the best choice of each; `losses`: every choice that was measured; `silent`: those of them that
    changed no output."""

    wide: Choice
    rungs: Mapping[int, tuple[Rung, ...]]
    losses: Mapping[tuple[int, Choice], float]
    silent: frozenset[tuple[int, Choice]]

    def loss(self, index: int, choice: Choice) -> float:
        return self.losses.get((index, choice), 0.0)


def storage_bytes(choice: Choice) -> int:
    """Bytes of one element in RAM."""
    bits = named(choice.format).bits
    return 1 if bits <= 8 else 2 if bits <= 16 else 4


def choices(study: Study, lowest_offset: int) -> list[Choice]:
    """Every format on offer, and the moved scales of fixed-point formats narrower than the widest storage."""
    widest = storage_bytes(study.space.high)
    found = []
    for name in study.space.formats:
        moved = name.removeprefix("fixed").isdigit() and storage_bytes(Choice(name)) < widest
        found += [Choice(name, offset) for offset in range(0, (lowest_offset if moved else 0) - 1, -1)]
    return found


def widest(study: Study) -> list[Choice]:
    """The formats of the widest storage."""
    most = storage_bytes(study.space.high)
    return [Choice(name) for name in study.space.formats if storage_bytes(Choice(name)) == most]


def best_alone(study: Study, probe: int) -> Generator[Ask, Trial, Choice]:
    """Of the formats of the widest storage the one that alone causes the least output error."""
    offered = widest(study)
    if len(offered) == 1:
        return offered[0]
    found = []
    for number, choice in enumerate(offered):
        trial = yield Ask(study.space.uniform(choice), probe=probe)
        found.append((trial.score.loss, number, choice))
    return min(found)[2]


def measure(study: Study, wide: Choice, probe: int, lowest_offset: int, most: float) -> Generator[Ask, Trial, Ladders]:
    """Each tensor of the arena alone in each choice, all others in `wide`, on at most `probe` samples; at most `most`
    evaluations in all, unless that left fewer than FEWEST samples. What is fused away is not asked about."""
    space = study.space
    offered = choices(study, lowest_offset)
    everywhere = space.uniform(wide)
    present = space.present(everywhere)
    asked = [index for index in study.free() if index in present]
    probe = min(probe, max(FEWEST, int(len(study.evaluator.examples) * most) // (1 + len(asked) * len(offered))))
    alone = {(index, choice): space.having(everywhere, {index: choice}) for index in asked for choice in offered}
    study.foresee((everywhere, *alone.values()), probe)
    base = (yield Ask(everywhere, probe=probe)).score
    losses = {(index, choice): 0.0 for index in study.free() for choice in offered}
    silent = set(losses)
    for which, candidate in alone.items():
        score = (yield Ask(candidate, probe=probe)).score
        losses[which] = max(0.0, score.loss - base.loss)
        if score != base:
            silent.discard(which)
    rungs = {index: _rungs({choice: losses[index, choice] for choice in offered}, wide) for index in study.free()}
    return Ladders(wide, rungs, losses, frozenset(silent))


def _rungs(losses: Mapping[Choice, float], wide: Choice) -> tuple[Rung, ...]:
    """The least sensitive choice of each storage size; of equals `wide`, then the first."""
    best: dict[int, Rung] = {}
    for choice in sorted(losses, key=lambda choice: choice != wide):
        rung = Rung(choice, storage_bytes(choice), losses[choice])
        if rung.bytes not in best or rung.loss < best[rung.bytes].loss:
            best[rung.bytes] = rung
    return tuple(best[size] for size in sorted(best, reverse=True))


def starts(study: Study, ladders: Ladders, most: int, checks: int) -> Iterator[Candidate]:
    """Assignments that fit: from above, from below by two rules, each pair of a narrow and a wide format, and the least
    sums of the integer program."""
    space = study.space
    wide = space.uniform(ladders.wide)
    if study.anchor is not None:
        yield widened(study, ladders, study.anchor, sorted(ladders.rungs))
    yield repaired(study, ladders, wide)
    narrow = space.having(wide, {index: rungs[-1].choice for index, rungs in ladders.rungs.items()})
    yield filled(study, ladders, narrow, per_byte=True)
    yield filled(study, ladders, narrow, per_byte=False)
    for narrow_choice in narrowest(ladders):
        for wide_choice in widest(study):
            yield promoted(study, ladders, narrow_choice, wide_choice)
    found = 0
    for checked, candidate in enumerate(by_sum(study, ladders, wide)):
        if checked >= checks or found >= most:
            break
        if study.fits(candidate):
            found += 1
            yield candidate


def promoted(study: Study, ladders: Ladders, narrow: Choice, wide: Choice) -> Candidate:
    """Two formats: constants in `wide`, the arena in `narrow`, from its most sensitive tensor on in `wide` as far as
    that fits. Where both beside each other need room for a conversion, `narrow` for everything."""
    start = study.space.having(study.space.uniform(wide), dict.fromkeys(ladders.rungs, narrow))
    if not study.fits(start):
        start = study.space.uniform(narrow)
    order = sorted(ladders.rungs, key=lambda index: (-ladders.loss(index, narrow), index))
    return study.promote(order, start, wide)[0]


def narrowest(ladders: Ladders) -> list[Choice]:
    """The measured choices of the narrowest storage."""
    offered = dict.fromkeys(choice for _, choice in ladders.losses)
    least = min(map(storage_bytes, offered), default=0)  # a model without an arena has none
    return [choice for choice in offered if storage_bytes(choice) == least]


def by_sum(study: Study, ladders: Ladders, wide: Candidate) -> Iterator[Candidate]:
    """All assignments of the arena's ladders in the order of their predicted loss, each once."""
    space = study.space
    options = []
    for index, rungs in ladders.rungs.items():
        options.append(sorted((rung.loss, index, -rung.bytes, rung.choice.format, rung.choice) for rung in rungs))
    # sorted by the cost of the first step: then each assignment has one predecessor of smaller sum
    options.sort(key=lambda entries: entries[1][0] - entries[0][0] if len(entries) > 1 else 0.0)
    base = sum(entries[0][0] for entries in options)
    heap: list[tuple[float, int, tuple[int, ...]]] = [(base, -1, (0,) * len(options))]
    while heap:
        total, last, levels = heapq.heappop(heap)
        picked = [entries[level] for entries, level in zip(options, levels, strict=True)]
        yield space.having(wide, {entry[1]: entry[4] for entry in picked})
        for position in range(max(last, 0), len(options)):
            level = levels[position] + 1
            if level < len(options[position]):
                step = options[position][level][0] - options[position][level - 1][0]
                raised = (*levels[:position], level, *levels[position + 1 :])
                heapq.heappush(heap, (total + step, position, raised))


def narrowed(study: Study, ladders: Ladders, candidate: Candidate, free: set[int]) -> Candidate:
    """One rung down at a time where it costs least per byte, until the limit holds or nothing is left."""
    space = study.space
    while not study.fits(candidate):
        steps = []
        for index in free:
            now = storage_bytes(candidate[index])
            below = next((rung for rung in ladders.rungs[index] if rung.bytes < now), None)
            saved = 0.0 if below is None else _saved(study, candidate, index, below)
            if below is not None and saved > 0:
                steps.append(((below.loss - ladders.loss(index, candidate[index])) / saved, index, below.choice))
        if not steps:
            return study.repaired(candidate)
        _, index, choice = min(steps, key=lambda step: step[:2])
        candidate = space.having(candidate, {index: choice})
    return candidate


def _saved(study: Study, candidate: Candidate, index: int, below: Rung) -> float:
    """Bytes of RAM; where that fits, the share of a limit on latency or flash."""
    group = study.space.groups[index]
    narrower = study.space.having(candidate, {index: below.choice})
    if study.costs is None or not study.fits_ram(candidate):
        beside = study.beside_bytes(candidate) - study.beside_bytes(narrower)
        return beside + ((storage_bytes(candidate[index]) - below.bytes) * group.elements if group.role == ARENA else 0)
    return study.cost_excess(candidate) - study.cost_excess(narrower)


def widened(study: Study, ladders: Ladders, candidate: Candidate, order: list[int]) -> Candidate:
    """Each tensor in this order as wide as the limit allows."""
    for index in order:
        for rung in ladders.rungs[index]:
            if rung.bytes <= storage_bytes(candidate[index]):
                break
            wider = study.space.having(candidate, {index: rung.choice})
            if study.fits(wider):
                candidate = wider
                break
    return candidate


def repaired(study: Study, ladders: Ladders, candidate: Candidate) -> Candidate:
    """Narrow what costs least per byte until the limit holds, then widen again what still fits."""
    return filled(study, ladders, narrowed(study, ladders, candidate, set(ladders.rungs)), per_byte=False)


def filled(study: Study, ladders: Ladders, candidate: Candidate, *, per_byte: bool) -> Candidate:
    """Widen within the limit, the most sensitive tensors (or those most sensitive per byte) first."""

    def gain(index: int) -> tuple[float, int]:
        elements = study.space.groups[index].elements if per_byte else 1
        return -ladders.loss(index, candidate[index]) / elements, index

    return widened(study, ladders, candidate, sorted(ladders.rungs, key=gain))


def neighbours(study: Study, ladders: Ladders, centre: Candidate, most: int) -> list[Candidate]:
    """At most `most`: one tensor of the arena in another choice and the others made to fit, the moves that gain most
    first; then one constant in another format."""
    space = study.space
    present = space.present(centre)
    moves = [move for move in ladders.losses if move[0] in present and move[1] != centre[move[0]]]
    moves = [move for move in moves if not _idle(ladders, move, centre)]
    moves.sort(key=lambda move: (ladders.losses[move] - ladders.loss(move[0], centre[move[0]]), move[0]))
    found: dict[Candidate, None] = {}
    for index, choice in moves[: 2 * most]:  # every move costs plans
        candidate = kept(study, ladders, space.having(centre, {index: choice}), {index})
        if candidate is not None and candidate != centre:
            found[candidate] = None
        if len(found) == most:
            return list(found)
    near = list(found)
    for index in sorted(present - set(ladders.rungs)):
        near += [space.having(centre, {index: Choice(n)}) for n in space.formats if n != centre[index].format]
    return near[:most] if study.costs is None else [candidate for candidate in near if study.fits(candidate)][:most]


def _idle(ladders: Ladders, move: tuple[int, Choice], centre: Candidate) -> bool:
    """Whether the move changes no output and saves no memory."""
    index, choice = move
    changes_nothing = move in ladders.silent and (index, centre[index]) in ladders.silent
    return changes_nothing and storage_bytes(choice) >= storage_bytes(centre[index])


def kept(study: Study, ladders: Ladders, candidate: Candidate, fixed: set[int]) -> Candidate | None:
    """The candidate made to fit and filled up without touching `fixed`; None if that can not be."""
    free = set(ladders.rungs) - fixed
    candidate = narrowed(study, ladders, candidate, free)
    if not study.fits(candidate):
        return None
    order = sorted(free, key=lambda index: (-ladders.loss(index, candidate[index]), index))
    return widened(study, ladders, candidate, order)


def shaken(study: Study, ladders: Ladders, centre: Candidate, random: np.random.Generator) -> Candidate:
    """Two or three random changes, made to fit."""
    present = study.space.present(centre)
    measured = [move for move in ladders.losses if move[0] in present]
    count = min(len(measured), int(random.integers(2, 4)))
    picked = [measured[int(number)] for number in random.choice(len(measured), count, replace=False)]
    return kept(study, ladders, study.space.having(centre, dict(picked)), set()) or centre
