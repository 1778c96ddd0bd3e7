"""What a search may not have asked, or has asked and then lost: constants in a wider format than all else, what boards
have timed before, what differs from the answer in one group, and trials that a later round held to be too large.

A strategy follows estimates, of errors and of costs. Where its answer is not as good as one of these few, which keeps
the limits by measurement, that one is the answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from contextlib import suppress
from dataclasses import replace

from tinyhil.codegen.profile_calls import format_name
from tinyhil.errors import ModelError
from tinyhil.harness.search.device import Measured
from tinyhil.harness.search.resource_limits import Meter, joined
from tinyhil.harness.search.task import Task
from tinyhil.harness.search.uniform import Uniform, keeps, measured_on, undominated
from tinyhil.language.program import Program, walk
from tinyhil.search.costs import Costs, Limits
from tinyhil.search.journal import Query
from tinyhil.search.search_loop import Found, asked
from tinyhil.search.search_problem import SearchProblem
from tinyhil.search.space import Candidate
from tinyhil.search.trial import Trial, TrialLog

NAME = "a mixture that the strategy has not chosen"
MOST_ASKED, SHARE, MOST_MEASURED = 24, 8, 3  # candidates; no more than one for so many of --evaluations, but two
MOST_STEPS = 3


def with_unasked(
    task: Task, meters: Sequence[Meter], found: Found, measured: tuple[Measured, ...]
) -> tuple[Found, tuple[Measured, ...]]:
    """The answer, or one of these of which fewer decisions differ from float, step by step; not where each is trained,
    or of layers that an accelerator holds, or where the strategy's own is asked for."""
    request = task.request
    if request.own or request.minimize is not None or task.problem.trained is not None or task.accelerated:
        return found, measured
    rams = [side.arena_bytes for side in task.sides]
    held, left = set[Candidate](), _most_asked(task)
    best, chosen = found.best, None
    for step in range(MOST_STEPS):
        if best.score.disagreements == 0:
            break
        problem = _trusting(joined(task, meters, [task.request.limits for _ in meters], rams))
        others = () if step else (*problem.space.apart(), *_timed(meters))
        asked_now = _judged(task, problem, (*others, *problem.space.neighbours(best.candidate)), left)
        found, left = replace(found, evaluations=found.evaluations + asked_now), left - asked_now
        better = [trial for trial in task.phases.tried.values() if _is_better(trial, best, held)]
        one = _first_fitting(task, problem, [trial for trial in better if problem.fits(trial.candidate)], held)
        if one is None or one.trial is None:
            break
        best, chosen = one.trial, one
    return (found, measured) if chosen is None else undominated(task, found, measured, (chosen,), NAME)


def simple_mixtures(task: Task, meters: Sequence[Meter], near: Sequence[Candidate] = ()) -> list[Trial]:
    """Mixtures of two formats, and what boards have timed before, or what differs in one group from each of those that
    are `near`, on all samples, as far as there is time; none where only the strategy's own count, or as
    `with_unasked`."""
    if task.request.own or task.problem.trained is not None or task.accelerated:
        return []
    rams = [side.arena_bytes for side in task.sides]
    problem = _trusting(joined(task, meters, [task.request.limits for _ in meters], rams))
    space, found = problem.space, list[Trial]()
    for others in map(space.neighbours, near) if near else [(*space.apart(), *_timed(meters))]:
        candidates = list(dict.fromkeys(others))
        _judged(task, problem, candidates, _most_asked(task) if near else MOST_ASKED)
        found += [task.phases.tried[one] for one in candidates if one in task.phases.tried]
    return found


def _most_asked(task: Task) -> int:
    """How many candidates beside one answer are judged."""
    evaluations = task.request.evaluations
    return MOST_ASKED if evaluations is None else min(MOST_ASKED, max(2, evaluations // SHARE))


def _is_better(trial: Trial, best: Trial, held: Set[Candidate]) -> bool:
    is_same = trial.score.samples == best.score.samples
    return is_same and trial.score.disagreements < best.score.disagreements and trial.candidate not in held


def _first_fitting(task: Task, problem: SearchProblem, trials: Sequence[Trial], held: set[Candidate]) -> Uniform | None:
    """The best of these trials that keeps the limits on the boards, of equals what is likeliest to: by estimates, then
    by how few kernels it has, whose stack and tables no estimate knows. What was `held` to them is noted."""
    likely = {
        trial.candidate: (
            trial.score.disagreements,
            problem.excess(trial.candidate),
            len(kernels(problem.space.lower(trial.candidate))),
        )
        for trial in trials
    }
    for trial in sorted(trials, key=lambda trial: (likely[trial.candidate], trial.rank))[:MOST_MEASURED]:
        held.add(trial.candidate)
        one = Uniform(NAME, replace(trial, fits=True))
        one = measured_on(task, TrialLog(None, task.problem.space, ""), one) if task.measures else one
        if keeps(task, one):
            return one
    return None


def kernels(program: Program) -> frozenset[tuple[object, ...]]:
    """Those that there are: of one name in other formats another one."""
    tensors = program.tensors
    return frozenset((op.kernel, *(format_name(tensors[name]) for name in op.tensors)) for op in walk(program.body))


def _judged(task: Task, problem: SearchProblem, candidates: Iterable[Candidate], most: int) -> int:
    """Of those not tried yet the first `most` that keep the limits as far as estimates tell, on all samples."""
    tried, number = task.phases.tried, 0
    for candidate in dict.fromkeys(candidates):
        if number >= most or task.phases.seconds_left(task.request.seconds) == 0.0:
            break
        if candidate in tried:
            continue
        with suppress(ModelError):
            if problem.fits(candidate):
                score = asked(problem, Query(candidate))
                tried[candidate] = Trial(number, candidate, "full", problem.planned_bytes(candidate), True, score)
                number += 1
    return number


def _trusting(problem: SearchProblem) -> SearchProblem:
    """Estimates as they are: boards decide."""
    costs = replace(problem.costs, margin=0.0) if isinstance(problem.costs, Costs) else problem.costs
    return replace(problem, costs=costs, also=tuple(_trusting(other) for other in problem.also))


def _timed(meters: Sequence[Meter]) -> Iterator[Candidate]:
    """What boards have run, in this search or another of the model."""
    for meter in meters:
        meter.recall()
        yield from (run.candidate for run in meter.costs(Limits()).runs)
