"""What is left of a search that was interrupted, or whose time is over: the best that is known to keep the limits."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from operator import attrgetter

from tinyhil.errors import BuildError, ModelError
from tinyhil.harness.search.device import Measured
from tinyhil.harness.search.first_answer import judged, too_late
from tinyhil.harness.search.task import Task, make_bench
from tinyhil.harness.search.uniform import Uniform, keeps, keeps_on, uniform_instead
from tinyhil.search.search_loop import Found
from tinyhil.search.trial import Trial, TrialLog

MOST_RUN = 3  # of what was profiled, where nothing else keeps the limits


def best_so_far(task: Task) -> tuple[Task, Found, tuple[Measured, ...], tuple[Uniform, ...]]:
    """As `left`, as what a search has found, with what boards have said of it; and the formats for all tensors that
    were judged on the same samples. What a board has shown to exceed a limit, or can not be built in time where RAM
    is limited, is no answer where one of these keeps it."""
    known = tuple(task.phases.beside)
    if task.phases.least_run is not None:
        found, measured = task.phases.least_run
        why = "the time is over" if task.phases.seconds_left(task.request.seconds) == 0.0 else "interrupted"
        task.say(
            f"search: {why}; the least that was run so far is the answer; the same command goes on with the search"
        )
        return task, replace(found, finished=False), measured, known
    asked, best = left(task)
    beside = known if asked is task else ()
    found = Found(best, (best,), task.phases.evaluations, task.phases.searching(), False)
    measured = task.phases.measured.get(best.candidate, ()) if asked is task else ()
    known_of = (one for one in beside if one.trial is not None and one.trial.candidate == best.candidate)
    is_over = task.phases.seconds_left(task.request.seconds) == 0.0
    unknown = task.request.ram is not None and is_over  # no time is left to build it
    if not measured and (unknown or any(one.on_all and not keeps(task, one) for one in known_of)):
        instead = uniform_instead(task, beside, "on no board was run what the search has found")
        if instead is not None:
            return asked, replace(instead[0], finished=False), instead[1], beside
    return asked, found, measured, beside


def left(task: Task) -> tuple[Task, Trial]:
    """What an interruption leaves, that of a few samples, too, and the task it is of; if that is nothing,
    KeyboardInterrupt, or Infeasible where the time is over."""
    is_over = task.phases.seconds_left(task.request.seconds) == 0.0
    if task.request.own and task.phases.own is not None:
        best: Trial | None = task.phases.own
    else:
        task, best = task.phases.left(task)
    if best is None and is_over:
        best = _profiled(task)
    if best is None and is_over:
        raise too_late(task)
    if best is None:
        raise KeyboardInterrupt
    sure = "" if best is task.phases.sure or not task.request.costs else "; its latency and flash are estimates"
    why = "the time is over" if is_over else "interrupted"
    unrun = _unrun(task, best)
    task.say(f"search: {why}; the best so far is the answer{sure}{unrun}; the same command goes on with the search")
    return task, best


def _unrun(task: Task, best: Trial) -> str:
    """A trial of which fewer decisions differ, that no board has been asked about; empty where there is none."""
    own, request = task.phases.own, task.request
    if own is None or request.minimize or request.pareto or own.score.samples != best.score.samples:
        return ""
    if own.score.disagreements >= best.score.disagreements:
        return ""
    differ = own.score.disagreements
    return f"; one of which {differ} differ has not been held to the limits on the board yet (--own keeps it)"


def _profiled(task: Task) -> Trial | None:
    """As `profiled_instead`, held with what its board said."""
    if task.others or not task.phases.meters:
        return None
    meter, limits, trials = task.phases.meters[-1], task.request.limits, []
    meter.recall()
    costs = meter.costs(limits)
    for candidate in (run.candidate for run in costs.runs):
        if costs.excess(candidate) <= 0.0:
            with suppress(ModelError):
                trials.append(judged(task.problem, 0, candidate))
    bench = make_bench(task, TrialLog(None, task.problem.space, ""))
    for trial in sorted((one for one in trials if one.fits), key=attrgetter("rank"))[:MOST_RUN]:
        with suppress(BuildError):
            known = bench.measure(trial)
            if keeps_on(task, trial, known):
                task.phases.held(trial, (known,))
                return trial
    return None


def profiled_instead(task: Task) -> tuple[Found, tuple[Measured, ...]] | None:
    """Of what was profiled for costs, and keeps the limits by that, the best that also does on all samples; None if
    nothing does, or several boards have limits."""
    best = _profiled(task)
    if best is None:
        return None
    found = Found(best, (best,), task.phases.evaluations, task.phases.searching(), False)
    task.say("search: the time is over; of what was profiled by then this is the best that keeps the limits")
    return found, task.phases.measured[best.candidate]
