"""Ours: sensitivities measured once, the best widths by them under the planner's true RAM, then local search.

Every tensor alone is narrowed on a few samples; the rise of the output error is its sensitivity. If these added up, the
best assignment would be the one of least sum that fits: candidates come in that order (a best-first integer program
whose constraint is the planner itself) and from two greedy rules by sensitivity per byte. Real evaluations decide among
them, and neighbours of the best follow until nothing improves or the budget ends. It can be stopped at any time.
"""

from __future__ import annotations

import heapq
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from search.space import Candidate, Choice
from search.study import Ask, Asking, Study
from search.trial import Trial

Losses = Mapping[tuple[int, Choice], float]  # (group, narrower choice) -> rise of the output error


@dataclass(frozen=True, slots=True)
class Lagrange:
    """`probe`: samples per sensitivity. `checks`: assignments of the integer program that the planner may see."""

    probe: int = 64
    finalists: int = 4
    checks: int = 1000
    rounds: int = 1000

    name: ClassVar[str] = "lagrange"
    source: ClassVar[str] = "own: integer program over measured sensitivities, then local search"

    def propose(self, study: Study) -> Asking:
        space = study.space
        wide = space.uniform(space.high)
        losses = yield from self._sensitivities(study, wide)
        starts = {c: predicted(losses, c) for c in self._starts(study, losses, wide)}
        best: Trial | None = None
        for candidate in sorted(starts, key=lambda c: starts[c])[: self.finalists]:
            best = better((yield Ask(candidate)), best)
        random = np.random.default_rng(study.seed)
        for _ in range(self.rounds):
            assert best is not None
            before = best
            for candidate in neighbours(study, losses, before.candidate):
                best = better((yield Ask(candidate)), best)
                if best is not before:
                    break
            if best is before:
                best = better((yield Ask(shaken(study, losses, before.candidate, random))), best)
        return None

    def _sensitivities(self, study: Study, wide: Candidate) -> Generator[Ask, Trial, Losses]:
        space = study.space
        base = yield Ask(wide, probe=self.probe)
        losses: dict[tuple[int, Choice], float] = {}
        for index in space.arena():
            for name in space.formats[:-1]:
                choice = Choice(name)
                trial = yield Ask(space.having(wide, {index: choice}), probe=self.probe)
                losses[index, choice] = max(0.0, trial.score.loss - base.score.loss)
        return losses

    def _starts(self, study: Study, losses: Losses, wide: Candidate) -> Iterator[Candidate]:
        yield repaired(study, losses, wide)
        space = study.space
        others = {index: space.high for index in range(len(wide)) if index not in space.arena()}
        narrow = space.having(space.uniform(space.low), others)
        yield filled(study, losses, narrow, per_byte=True)
        yield filled(study, losses, narrow, per_byte=False)
        found = 0
        for checked, candidate in enumerate(by_sum(study, losses, wide)):
            if checked >= self.checks or found >= self.finalists:
                break
            if study.fits(candidate):
                found += 1
                yield candidate


def better(trial: Trial, best: Trial | None) -> Trial:
    if trial.kind != "full" or not trial.fits:
        return best or trial
    return trial if best is None or trial.rank < best.rank else best


def predicted(losses: Losses, candidate: Candidate) -> float:
    return sum(losses.get((index, choice), 0.0) for index, choice in enumerate(candidate))


def by_sum(study: Study, losses: Losses, wide: Candidate) -> Iterator[Candidate]:
    """All assignments of the arena's tensors in the order of their predicted loss, each once."""
    space = study.space
    options = []
    for index in space.arena():
        found = sorted((losses[index, Choice(name)], index, Choice(name)) for name in space.formats[:-1])
        options.append([(0.0, index, space.high), *found])
    # sorted by the cost of the first step away from wide: then each assignment has one predecessor of smaller sum
    options.sort(key=lambda entries: entries[1][0])
    heap: list[tuple[float, int, tuple[int, ...]]] = [(0.0, -1, (0,) * len(options))]
    while heap:
        total, last, levels = heapq.heappop(heap)
        changes = {entries[level][1]: entries[level][2] for entries, level in zip(options, levels, strict=True)}
        yield space.having(wide, changes)
        for position in range(max(last, 0), len(options)):
            level = levels[position] + 1
            if level < len(options[position]):
                step = options[position][level][0] - options[position][level - 1][0]
                raised = (*levels[:position], level, *levels[position + 1 :])
                heapq.heappush(heap, (total + step, position, raised))


def repaired(study: Study, losses: Losses, candidate: Candidate) -> Candidate:
    """Narrow what costs least per byte until the limit holds, then widen again what still fits."""
    space = study.space
    arena = [index for index in space.arena() if candidate[index] != space.low]
    arena.sort(key=lambda index: (losses[index, space.low] / space.groups[index].elements, index))
    for index in arena:
        if study.fits(candidate):
            break
        candidate = space.having(candidate, {index: space.low})
    return filled(study, losses, candidate, per_byte=False)


def filled(study: Study, losses: Losses, candidate: Candidate, *, per_byte: bool) -> Candidate:
    """Widen within the limit, the most sensitive tensors (or those most sensitive per byte) first."""
    space = study.space

    def gain(index: int) -> tuple[float, int]:
        elements = space.groups[index].elements if per_byte else 1
        return -losses[index, space.low] / elements, index

    order = sorted(space.arena(), key=gain)
    for name in reversed(space.formats[1:]):
        wanted = [index for index in order if candidate[index].bits < Choice(name).bits]
        candidate, _ = study.promote(wanted, candidate, Choice(name))
    return candidate


def neighbours(study: Study, losses: Losses, centre: Candidate) -> Iterator[Candidate]:
    """One tensor widened and others narrowed for it, one narrowed and others widened, one constant changed."""
    space = study.space
    found: dict[Candidate, float] = {}
    for index in space.arena():
        for name in space.formats:
            if name == centre[index].format:
                continue
            moved = space.having(centre, {index: Choice(name)})
            candidate = kept(study, losses, moved, {index})
            if candidate is not None and candidate != centre:
                found[candidate] = predicted(losses, candidate)
    yield from sorted(found, key=lambda candidate: found[candidate])
    for index in range(len(centre)):
        if index not in space.arena():
            for name in space.formats:
                if name != centre[index].format:
                    yield space.having(centre, {index: Choice(name)})


def kept(study: Study, losses: Losses, candidate: Candidate, fixed: set[int]) -> Candidate | None:
    """The candidate made to fit and filled up without touching `fixed`; None if that can not be."""
    space = study.space
    free = [index for index in space.arena() if index not in fixed]
    free.sort(key=lambda index: (losses[index, space.low] / space.groups[index].elements, index))
    for index in free:
        if study.fits(candidate):
            break
        candidate = space.having(candidate, {index: space.low})
    if not study.fits(candidate):
        return None
    for name in reversed(space.formats[1:]):
        wanted = [index for index in reversed(free) if candidate[index].bits < Choice(name).bits]
        candidate, _ = study.promote(wanted, candidate, Choice(name))
    return candidate


def shaken(study: Study, losses: Losses, centre: Candidate, random: np.random.Generator) -> Candidate:
    """Two or three random changes, made to fit."""
    space = study.space
    chosen = random.choice(len(centre), size=min(len(centre), int(random.integers(2, 4))), replace=False)
    changes = {int(index): Choice(str(random.choice(space.formats))) for index in chosen}
    return kept(study, losses, space.having(centre, changes), set()) or centre
