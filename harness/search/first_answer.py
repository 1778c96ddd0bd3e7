"""A first answer in seconds, before anything is built: what the table of costs of `hil fit` puts within the limits."""

from __future__ import annotations

from tinyhil.errors import DoesNotFit, ModelError
from tinyhil.harness.fit.needs import Needs, needs_of
from tinyhil.harness.search.task import Task
from tinyhil.preference import Wish
from tinyhil.search.space import Candidate
from tinyhil.search.trial import Trial


def foresee(task: Task, trial: Trial) -> None:
    """Tell the task's phases, and say, where what a trial needs keeps the limits of every board up to the upper ends of
    its bands; nothing where the table does not know a core or a kind of layer."""
    expected = _expected(task, trial.candidate)
    if not expected:
        return
    task.phases.answered(trial)
    needs, parts = expected[0], [f"{trial.candidate[0].format} for all tensors, {trial.score.disagreements} differ"]
    if needs.latency_us is not None:
        parts.append(f"{needs.latency_us.value:,.0f} us for the median sample (at most {needs.latency_us.high:,.0f})")
    if needs.flash_bytes is not None:
        parts.append(f"{needs.flash_bytes.value:,.0f} B of flash (at most {needs.flash_bytes.high:,.0f})")
    parts.append(f"at most {needs.ram_bytes.high:,.0f} B of RAM")
    task.say(f"search: an answer after {task.phases.elapsed():.1f} s, by estimates: {', '.join(parts)}")
    task.progress(trial, task.phases.best)


def _expected(task: Task, candidate: Candidate) -> tuple[Needs, ...]:
    """What it needs on every board; empty if it may exceed a limit of one, or too little is known of it."""
    found = []
    for side in task.sides:
        if side.board is None or side.accelerated:
            return ()
        try:
            needs = needs_of(side.problem.space.lower(candidate), side.board, Wish(side.request.prefer))
        except (DoesNotFit, ModelError):
            return ()
        if not _keeps(side, needs):
            return ()
        found.append(needs)
    return tuple(found)


def _keeps(side: Task, needs: Needs) -> bool:
    """Whether the upper ends of all bands are within the limits; the board's flash is one, too."""
    limits, chip = side.request.limits, side.board.chip if side.board is not None else None
    if needs.flash_bytes is None or chip is None:
        return False
    if limits.latency_us is not None and (needs.latency_us is None or needs.latency_us.high > limits.latency_us):
        return False
    flash = min(limit for limit in (limits.flash_bytes, chip.flash_bytes, 1 << 40) if limit is not None)
    ram = needs.ram_bytes.high if side.whole else needs.arena_bytes
    return needs.flash_bytes.high <= flash and ram <= side.ram_bytes
