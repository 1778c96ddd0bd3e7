"""How much each tensor alone matters: the rise of the outputs' error when it has another format than all others."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from tinyhil.errors import ModelError
from tinyhil.search.evaluator import Score
from tinyhil.search.search_problem import SearchProblem
from tinyhil.search.space import Candidate, Choice
from tinyhil.search.tradeoffs import FEWEST, is_long, widest

MOST = 0.5  # evaluations that the table may take beside what the search has asked anyway


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """`errors`: by choice, root of the rise of the mean squared error, as a share of the outputs' root mean square."""

    tensor: str
    kind: str
    elements: int
    errors: dict[str, float]


@dataclass(frozen=True, slots=True)
class Sensitivities:
    """`others`: the format that all other tensors had; `samples`: on how many; a row per tensor that is stored then."""

    others: str
    samples: int
    tensors: tuple[Sensitivity, ...]


def sensitivities(problem: SearchProblem, *, ask: bool = True) -> Sensitivities:
    """Of every tensor alone in every choice on offer.

    What the search has asked is taken from its answers; the rest is measured on as many samples, unless not to `ask`,
    or that would take minutes.
    """
    wide, samples = _asked(problem)
    everywhere = problem.space.uniform(wide)
    ask = ask and not is_long(problem, wide, samples * len(problem.space.groups))
    if not ask and (everywhere, samples, None) not in problem.answers:
        return Sensitivities(str(wide), samples, ())
    base = _score(problem, everywhere, samples)
    size = float(np.sqrt((problem.evaluator.examples.outputs.astype(float) ** 2).mean())) or 1.0
    rows = []
    for index in sorted(problem.space.present(everywhere)):
        group, errors = problem.space.groups[index], dict[str, float]()
        offered = {Choice(name) for name in problem.space.offered(index)} | _moved(problem, everywhere, index, samples)
        for choice in sorted(offered - {wide}, key=lambda choice: (choice.bits, choice.format, -choice.offset)):
            alone = problem.space.with_choices(everywhere, {index: choice})
            if not ask and (alone, samples, None) not in problem.answers:
                continue
            try:
                score = _score(problem, alone, samples)
            except ModelError:  # no program has this format here
                continue
            errors[str(choice)] = float(np.sqrt(max(0.0, score.loss - base.loss)) / size)
        rows.append(Sensitivity(group.name, group.role, group.elements, errors))
    return Sensitivities(str(wide), samples, tuple(rows))


def _asked(problem: SearchProblem) -> tuple[Choice, int]:
    """The format around which most tensors were asked about alone, and on how many samples; else what MOST permits."""
    counts: Counter[tuple[Choice, int]] = Counter()
    for candidate, probe, _ in problem.answers:
        common, times = Counter(candidate).most_common(1)[0]
        if probe is not None and times == len(candidate) - 1 and common in widest(problem):
            counts[common, probe] += 1
    if counts:
        return counts.most_common(1)[0][0]
    many = sum(len(problem.space.offered(index)) - 1 for index in range(len(problem.space.groups)))
    return problem.space.high, max(FEWEST, int(len(problem.evaluator.examples) * MOST) // (1 + many))


def _moved(problem: SearchProblem, everywhere: Candidate, index: int, samples: int) -> set[Choice]:
    """Choices with a moved scale that the search has asked about."""
    return {
        candidate[index]
        for candidate, probe, _ in problem.answers
        if probe == samples
        and candidate[index] != everywhere[index]
        and problem.space.with_choices(candidate, {index: everywhere[index]}) == everywhere
    }


def _score(problem: SearchProblem, candidate: Candidate, samples: int) -> Score:
    known = problem.answers.get((candidate, samples, None))
    if known is not None:
        return known[1]
    return problem.evaluator.probe(problem.space.lower(candidate), samples)
