"""The answer that an earlier run of the same search has left: what goes on with it ends with no worse one unsaid.

An interrupted search goes on with its trials in their order, so that a second interruption may come before the best of
them is reached again; and what boards have measured since may lead elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tinyhil.harness.search.device import Measured
from tinyhil.harness.search.task import Task
from tinyhil.harness.search.uniform import Uniform, keeps, measured_on, undominated
from tinyhil.search.journal import Query
from tinyhil.search.search_loop import Found, asked
from tinyhil.search.trial import Trial, TrialLog

NAME = "the answer found earlier"


def with_earlier(
    task: Task, found: Found, measured: tuple[Measured, ...], *, is_over: bool
) -> tuple[Found, tuple[Measured, ...]]:
    """The answer, or the one that an earlier run has left if this one is no better; which it is, is left for the next.
    `is_over`: no time is left to measure an earlier one that no board has run."""
    key = task.phases.key or task.key
    offer = "usual" if task.request.formats is None else "own"  # to which int8 and weights alone may have come
    name = f"{task.strategy.name}-{task.ram_bytes}-{key[:8]}-{task.request.evaluations}-{offer}"
    log = TrialLog(task.folder / "answers" / f"{name}.jsonl", task.problem.space, key)
    for trial in log.read()[:1]:
        earlier = _earlier(task, log, trial)
        if measured and not earlier.on_all and not is_over:
            earlier = measured_on(task, TrialLog(None, task.problem.space, ""), earlier)
        why = _doubt(task, earlier, measured)
        best = found.best
        if not why:
            found, measured = undominated(task, found, measured, (earlier,), "that found earlier")
        elif trial.candidate != best.candidate and trial.score.disagreements < best.score.disagreements:
            task.say(f"search: {NAME}, {trial.score.disagreements} differ from float, no longer counts: {why}")
    if key == task.key:
        _write(log, replace(found.best, number=0), measured)
    return found, measured


def _earlier(task: Task, log: TrialLog, trial: Trial) -> Uniform:
    """With what every board has measured of it; judged anew on the samples of this task."""
    boards = [log.device(trial, side.board.name) for side in task.sides if side.board is not None]
    known = tuple(Measured(**one) for one in boards if one is not None)
    if len(task.problem.evaluator.examples) != trial.score.samples:
        trial = replace(trial, score=asked(task.problem, Query(trial.candidate)))
    return Uniform(NAME, trial, known if len(known) == len(boards) else ())


def _doubt(task: Task, earlier: Uniform, measured: Sequence[Measured]) -> str:
    """Why it is no answer now; empty if it is one."""
    trial = earlier.trial
    if trial is None or task.problem.memory.planned_bytes(trial.candidate, trial.ram_bytes) > trial.ram_bytes:
        return "its arena is planned otherwise now"
    if not keeps(task, earlier):
        return earlier.reason or "it does not keep the limits"
    is_sure = bool(measured) or task.phases.sure is not None
    return "no board has run it" if task.measures and is_sure and not earlier.on_all else ""


def _write(log: TrialLog, trial: Trial, measured: Sequence[Measured]) -> None:
    log.start([trial])
    for one in measured:
        log.add_device(trial, one.as_json())
