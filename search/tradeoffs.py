"""Widths: what each tensor costs in bytes and in output error, and moves between assignments along them."""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from tinyhil.language.program import executions
from tinyhil.memplan.arena.row_costs import products_of_op
from tinyhil.search.layerwise_errors import layerwise_losses
from tinyhil.search.monotone import storage_bytes
from tinyhil.search.search_problem import Ask, SearchProblem
from tinyhil.search.space import ARENA, Candidate, Choice, Group
from tinyhil.search.trial import Trial

FEWEST = 8  # samples of a sensitivity
MOST_PRODUCTS = 500_000_000_000  # of all sensitivities by integer runs, about a minute


@dataclass(frozen=True, slots=True)
class Width:
    """A choice for one tensor: bits that an element takes, and the rise of the output error it causes alone."""

    choice: Choice
    bits: int
    loss: float


@dataclass(frozen=True, slots=True)
class Tradeoffs:
    """`wide`: what every tensor had while another was measured. `widths`: per group that counts from the widest storage
    to the narrowest (of constants bit by bit), the best choice of each; `losses`: every choice that was measured;
    `silent`: those of them that changed no output."""

    wide: Choice
    widths: Mapping[int, tuple[Width, ...]]
    losses: Mapping[tuple[int, Choice], float]
    silent: frozenset[tuple[int, Choice]]

    def loss(self, index: int, choice: Choice) -> float:
        """Rise of the output error by this choice for group `index`; 0 where it was not measured."""
        return self.losses.get((index, choice), 0.0)


def choices(problem: SearchProblem, index: int, lowest_offset: int) -> list[Choice]:
    """Every format on offer for a group, and the moved scales of fixed-point formats narrower than the widest."""
    widest = storage_bytes(problem.space.high)
    found = []
    for name in problem.space.offered(index):
        moved = name.removeprefix("fixed").removesuffix("u").isdigit() and storage_bytes(Choice(name)) < widest
        found += [Choice(name, offset) for offset in range(0, (lowest_offset if moved else 0) - 1, -1)]
    return found


def widest(problem: SearchProblem) -> list[Choice]:
    """The formats of the widest storage."""
    most = storage_bytes(problem.space.high)
    return [Choice(name) for name in problem.space.formats if storage_bytes(Choice(name)) == most]


def best_alone(problem: SearchProblem, probe: int) -> Generator[Ask, Trial, Choice]:
    """Of the formats of the widest storage the one that alone causes the least output error."""
    offered = widest(problem)
    if len(offered) == 1:
        return offered[0]
    found = []
    for number, choice in enumerate(offered):
        trial = yield Ask(problem.space.uniform(choice), probe=probe)
        found.append((trial.score.loss, number, choice))
    return min(found)[2]


def measure(
    problem: SearchProblem, wide: Choice, probe: int, lowest_offset: int, most: float
) -> Generator[Ask, Trial, Tradeoffs]:
    """Each tensor of the arena alone in each choice, all others in `wide`, on at most `probe` samples; at most `most`
    evaluations in all, unless that left fewer than FEWEST samples. What is fused away is not asked about. Nothing is
    asked where that takes more than MOST_PRODUCTS: each tensor's own error foretells what it costs."""
    space = problem.space
    offered = {index: choices(problem, index, lowest_offset) for index in problem.free()}
    everywhere = space.uniform(wide)
    present = space.present(everywhere)
    asked = [(index, choice) for index, found in offered.items() if index in present for choice in found]
    probe = min(probe, max(FEWEST, int(len(problem.evaluator.examples) * most) // (1 + len(asked))))
    if is_long(problem, wide, probe * len(asked)):
        foretold = layerwise_losses(space, problem.evaluator, asked)
        losses = {(index, choice): foretold.get((index, choice), 0.0) for index in offered for choice in offered[index]}
        return _tradeoffs(problem, wide, offered, losses, set(losses) - set(asked))
    alone = {(index, choice): space.with_choices(everywhere, {index: choice}) for index, choice in asked}
    problem.foresee((everywhere, *alone.values()), probe)
    base = (yield Ask(everywhere, probe=probe)).score
    losses = {(index, choice): 0.0 for index, found in offered.items() for choice in found}
    silent = set(losses)
    for which, candidate in alone.items():
        score = (yield Ask(candidate, probe=probe)).score
        losses[which] = max(0.0, score.loss - base.loss)
        if score != base:
            silent.discard(which)
    return _tradeoffs(problem, wide, offered, losses, silent)


def is_long(problem: SearchProblem, wide: Choice, runs: int) -> bool:
    """Whether so many integer runs of one sample would take minutes."""
    program = problem.space.lower(problem.space.uniform(wide))
    return runs * sum(times * products_of_op(program, op) for op, times in executions(program.body)) > MOST_PRODUCTS


def _tradeoffs(
    problem: SearchProblem,
    wide: Choice,
    offered: Mapping[int, list[Choice]],
    losses: Mapping[tuple[int, Choice], float],
    silent: set[tuple[int, Choice]],
) -> Tradeoffs:
    groups = problem.space.groups
    widths = {
        index: _widths(groups[index], {choice: losses[index, choice] for choice in found}, wide)
        for index, found in offered.items()
    }
    return Tradeoffs(wide, widths, losses, frozenset(silent))


def _widths(group: Group, losses: Mapping[Choice, float], wide: Choice) -> tuple[Width, ...]:
    """The least sensitive choice of each storage size; of equals `wide`, then the first."""
    best: dict[int, Width] = {}
    for choice in sorted(losses, key=lambda choice: choice != wide):
        width = Width(choice, group.stored_bits(choice), losses[choice])
        if width.bits not in best or width.loss < best[width.bits].loss:
            best[width.bits] = width
    return tuple(best[size] for size in sorted(best, reverse=True))


def starts(problem: SearchProblem, tradeoffs: Tradeoffs, most: int, checks: int) -> Iterator[Candidate]:
    """Assignments that fit: from above, from below by two rules, each pair of a narrow and a wide format, and the least
    sums of the integer program."""
    space = problem.space
    wide = space.uniform(tradeoffs.wide)
    if problem.anchor is not None:
        yield widened(problem, tradeoffs, problem.anchor, sorted(tradeoffs.widths))
    yield repaired(problem, tradeoffs, wide)
    narrow = space.with_choices(wide, {index: widths[-1].choice for index, widths in tradeoffs.widths.items()})
    yield filled(problem, tradeoffs, narrow, per_byte=True)
    yield filled(problem, tradeoffs, narrow, per_byte=False)
    for narrow_choice in narrowest(problem, tradeoffs):
        for wide_choice in widest(problem):
            yield promoted(problem, tradeoffs, narrow_choice, wide_choice)
    found = 0
    for checked, candidate in enumerate(by_sum(problem, tradeoffs, wide)):
        if checked >= checks or found >= most:
            break
        if problem.seems_to_fit(candidate):
            found += 1
            yield candidate


def promoted(problem: SearchProblem, tradeoffs: Tradeoffs, narrow: Choice, wide: Choice) -> Candidate:
    """Two formats: constants in `wide`, the arena in `narrow`, from its most sensitive tensor on in `wide` as far as
    that fits. Where both beside each other need room for a conversion, `narrow` for everything."""
    start = problem.space.with_choices(problem.space.uniform(wide), dict.fromkeys(tradeoffs.widths, narrow))
    if not problem.seems_to_fit(start):
        start = problem.space.uniform(narrow)
    order = sorted(tradeoffs.widths, key=lambda index: (-tradeoffs.loss(index, narrow), index))
    return problem.promote(order, start, wide)[0]


def narrowest(problem: SearchProblem, tradeoffs: Tradeoffs) -> list[Choice]:
    """The measured choices of the narrowest storage, of those that every tensor may have."""
    offered = dict.fromkeys(choice for _, choice in tradeoffs.losses if choice.format in problem.space.formats)
    least = min(map(storage_bytes, offered), default=0)  # a model without an arena has none
    return [choice for choice in offered if storage_bytes(choice) == least]


def by_sum(problem: SearchProblem, tradeoffs: Tradeoffs, wide: Candidate) -> Iterator[Candidate]:
    """All assignments of the arena's tradeoffs in the order of their predicted loss, each once."""
    space = problem.space
    options = []
    for index, widths in tradeoffs.widths.items():
        options.append(sorted((width.loss, index, -width.bits, width.choice.format, width.choice) for width in widths))
    # sorted by the cost of the first step: then each assignment has one predecessor of smaller sum
    options.sort(key=lambda entries: entries[1][0] - entries[0][0] if len(entries) > 1 else 0.0)
    base = sum(entries[0][0] for entries in options)
    heap: list[tuple[float, int, tuple[int, ...]]] = [(base, -1, (0,) * len(options))]
    while heap:
        total, last, levels = heapq.heappop(heap)
        picked = [entries[level] for entries, level in zip(options, levels, strict=True)]
        yield space.with_choices(wide, {entry[1]: entry[4] for entry in picked})
        for position in range(max(last, 0), len(options)):
            level = levels[position] + 1
            if level < len(options[position]):
                step = options[position][level][0] - options[position][level - 1][0]
                raised = (*levels[:position], level, *levels[position + 1 :])
                heapq.heappush(heap, (total + step, position, raised))


def narrowed(problem: SearchProblem, tradeoffs: Tradeoffs, candidate: Candidate, free: set[int]) -> Candidate:
    """One width down at a time where it costs least per byte, until the limit holds or nothing is left."""
    downwards = _downwards(problem, tradeoffs, candidate, free)
    if problem.tries_together:  # each step needs less RAM than the one before
        path = list(downwards)
        first = bisect_left(path, True, key=problem.seems_to_fit)
        return path[first] if first < len(path) else problem.repaired(path[-1])
    for candidate in downwards:
        if problem.fits(candidate):
            return candidate
    return problem.repaired(candidate)


def _downwards(
    problem: SearchProblem, tradeoffs: Tradeoffs, candidate: Candidate, free: set[int]
) -> Iterator[Candidate]:
    """The candidate, and each step down from it."""
    space = problem.space
    while True:
        yield candidate
        steps = []
        for index in free:
            now = space.groups[index].stored_bits(candidate[index])
            below = next((width for width in tradeoffs.widths[index] if width.bits < now), None)
            saved = 0.0 if below is None else _saved(problem, candidate, index, below)
            if below is not None and saved > 0:
                steps.append(((below.loss - tradeoffs.loss(index, candidate[index])) / saved, index, below.choice))
        if not steps:
            return
        _, index, choice = min(steps, key=lambda step: step[:2])
        candidate = space.with_choices(candidate, {index: choice})


def _saved(problem: SearchProblem, candidate: Candidate, index: int, below: Width) -> float:
    """Bytes of RAM; where that fits, the share of a limit on latency or flash."""
    group = problem.space.groups[index]
    narrower = problem.space.with_choices(candidate, {index: below.choice})
    if problem.costs is None or not problem.fits_ram(candidate):
        beside = problem.beside_bytes(candidate) - problem.beside_bytes(narrower)
        bits = group.stored_bits(candidate[index]) - below.bits if group.role == ARENA else 0
        return beside + bits * group.elements // 8
    return problem.cost_excess(candidate) - problem.cost_excess(narrower)


def widened(problem: SearchProblem, tradeoffs: Tradeoffs, candidate: Candidate, order: list[int]) -> Candidate:
    """Each tensor in this order as wide as the limit allows."""
    wider: list[tuple[int, list[Choice]]] = []
    for index in order:
        now = problem.space.groups[index].stored_bits(candidate[index])
        found = [width.choice for width in tradeoffs.widths[index] if width.bits > now]
        wider += [(index, found)] if found else []
    return problem.raised(candidate, wider)[0]


def repaired(problem: SearchProblem, tradeoffs: Tradeoffs, candidate: Candidate) -> Candidate:
    """Narrow what costs least per byte until the limit holds, then widen again what still fits."""
    return filled(problem, tradeoffs, narrowed(problem, tradeoffs, candidate, set(tradeoffs.widths)), per_byte=False)


def filled(problem: SearchProblem, tradeoffs: Tradeoffs, candidate: Candidate, *, per_byte: bool) -> Candidate:
    """Widen within the limit, the most sensitive tensors (or those most sensitive per byte) first."""

    def gain(index: int) -> tuple[float, int]:
        elements = problem.space.groups[index].elements if per_byte else 1
        return -tradeoffs.loss(index, candidate[index]) / elements, index

    return widened(problem, tradeoffs, candidate, sorted(tradeoffs.widths, key=gain))


def neighbours(problem: SearchProblem, tradeoffs: Tradeoffs, centre: Candidate, most: int) -> list[Candidate]:
    """At most `most`: one tensor of the arena in another choice and the others made to fit, the moves that gain most
    first; then one constant in another format."""
    space = problem.space
    present = space.present(centre)
    moves = [move for move in tradeoffs.losses if move[0] in present and move[1] != centre[move[0]]]
    moves = [move for move in moves if not _idle(problem, tradeoffs, move, centre)]
    moves.sort(key=lambda move: (tradeoffs.losses[move] - tradeoffs.loss(move[0], centre[move[0]]), move[0]))
    found: dict[Candidate, None] = {}
    for index, choice in moves[: 2 * most]:  # every move costs plans
        candidate = fitting(problem, tradeoffs, space.with_choices(centre, {index: choice}), {index})
        if candidate is not None and candidate != centre:
            found[candidate] = None
        if len(found) == most:
            return list(found)
    near = list(found)
    for index in sorted(present - set(tradeoffs.widths)):
        near += [
            space.with_choices(centre, {index: Choice(n)}) for n in space.offered(index) if n != centre[index].format
        ]
    return near[:most] if problem.costs is None else [candidate for candidate in near if problem.fits(candidate)][:most]


def _idle(problem: SearchProblem, tradeoffs: Tradeoffs, move: tuple[int, Choice], centre: Candidate) -> bool:
    """Whether the move changes no output and saves no memory."""
    index, choice = move
    changes_nothing = move in tradeoffs.silent and (index, centre[index]) in tradeoffs.silent
    group = problem.space.groups[index]
    return changes_nothing and group.stored_bits(choice) >= group.stored_bits(centre[index])


def fitting(problem: SearchProblem, tradeoffs: Tradeoffs, candidate: Candidate, fixed: set[int]) -> Candidate | None:
    """The candidate made to fit and filled up without touching `fixed`; None if that can not be."""
    free = set(tradeoffs.widths) - fixed
    candidate = narrowed(problem, tradeoffs, candidate, free)
    if not problem.seems_to_fit(candidate):
        return None
    order = sorted(free, key=lambda index: (-tradeoffs.loss(index, candidate[index]), index))
    return widened(problem, tradeoffs, candidate, order)


def shaken(problem: SearchProblem, tradeoffs: Tradeoffs, centre: Candidate, random: np.random.Generator) -> Candidate:
    """Two or three random changes, made to fit."""
    present = problem.space.present(centre)
    measured = [move for move in tradeoffs.losses if move[0] in present]
    count = min(len(measured), int(random.integers(2, 4)))
    picked = [measured[int(number)] for number in random.choice(len(measured), count, replace=False)]
    return fitting(problem, tradeoffs, problem.space.with_choices(centre, dict(picked)), set()) or centre
