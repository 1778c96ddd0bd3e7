"""What a search may not have asked: constants in a wider format than all else, and what boards have timed before.

A strategy follows estimates, of errors and of costs. Where its answer is not as good as one of these few, which keeps
the limits by measurement, that one is the answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import combinations, product

from tinyhil.errors import ModelError
from tinyhil.harness.search.device import Measured
from tinyhil.harness.search.resource_limits import Meter, joined
from tinyhil.harness.search.task import Task
from tinyhil.harness.search.uniform import Uniform, keeps, measured_on, undominated
from tinyhil.language.program import Role
from tinyhil.search.costs import Costs, Limits
from tinyhil.search.journal import Query
from tinyhil.search.search_loop import Found, asked
from tinyhil.search.search_problem import SearchProblem
from tinyhil.search.space import Candidate, Choice, Space
from tinyhil.search.trial import Trial, TrialLog

NAME = "a mixture that the strategy has not chosen"
MOST_ASKED, SHARE, MOST_MEASURED = 24, 8, 3  # candidates; no more than one for so many of --evaluations, but two


def with_unasked(
    task: Task, meters: Sequence[Meter], found: Found, measured: tuple[Measured, ...]
) -> tuple[Found, tuple[Measured, ...]]:
    """The answer, or one of these of which fewer decisions differ from float; not where each is trained, or of layers
    that an accelerator holds."""
    best = found.best.score.disagreements
    if task.request.minimize is not None or best == 0 or task.problem.trained is not None or task.accelerated:
        return found, measured
    trials = [*_judged(task, meters)]
    found = replace(found, evaluations=found.evaluations + len(trials))
    better = [trial for trial in trials if trial.score.disagreements < best]
    log = TrialLog(None, task.problem.space, "")
    for trial in sorted(better, key=lambda trial: trial.rank)[:MOST_MEASURED]:
        one = Uniform(NAME, trial)
        one = measured_on(task, log, one) if task.measures else one
        if keeps(task, one):
            return undominated(task, found, measured, (one,), NAME)
    return found, measured


def _judged(task: Task, meters: Sequence[Meter]) -> Iterator[Trial]:
    """Those that keep the limits as far as estimates tell, on all samples."""
    rams = [side.arena_bytes for side in task.sides]
    problem = _trusting(joined(task, meters, [task.request.limits for _ in meters], rams))
    candidates = dict.fromkeys((*_constants_apart(problem.space), *_timed(meters)))
    evaluations = task.request.evaluations
    most = MOST_ASKED if evaluations is None else min(MOST_ASKED, max(2, evaluations // SHARE))
    for number, candidate in enumerate([*candidates][:most]):
        if task.phases.seconds_left(task.request.seconds) == 0.0:
            return
        with suppress(ModelError):
            if problem.fits(candidate):
                score = asked(problem, Query(candidate))
                yield Trial(number, candidate, "full", problem.planned_bytes(candidate), True, score)


def _trusting(problem: SearchProblem) -> SearchProblem:
    """Estimates as they are: boards decide."""
    costs = replace(problem.costs, margin=0.0) if isinstance(problem.costs, Costs) else problem.costs
    return replace(problem, costs=costs, also=tuple(_trusting(other) for other in problem.also))


def _constants_apart(space: Space) -> Iterator[Candidate]:
    """One format for all but the constants, or but the biases, which have a wider one."""
    constants = [group.role is Role.CONSTANT for group in space.groups]
    biases = [is_constant and not group.is_matrix for is_constant, group in zip(constants, space.groups, strict=True)]
    for (narrow, wide), apart in product(combinations(space.formats, 2), (constants, biases)):
        yield tuple(Choice(wide if is_apart else narrow) for is_apart in apart)


def _timed(meters: Sequence[Meter]) -> Iterator[Candidate]:
    """What boards have run, in this search or another of the model."""
    for meter in meters:
        meter.recall()
        yield from (run.candidate for run in meter.costs(Limits()).runs)
