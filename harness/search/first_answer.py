"""A first answer in seconds, before anything is built: what the table of costs of `hil fit` puts within the limits;
and what is said where `--seconds` end a search without any."""

from __future__ import annotations

from tinyhil.errors import DoesNotFit, Infeasible, ModelError
from tinyhil.harness.fit.core_costs import costs_of
from tinyhil.harness.fit.needs import Needs, needs_of
from tinyhil.harness.search.task import Task
from tinyhil.preference import Wish
from tinyhil.search.journal import Query
from tinyhil.search.search_loop import asked
from tinyhil.search.search_problem import SearchProblem
from tinyhil.search.space import Candidate, Choice
from tinyhil.search.trial import Trial

UNITS = (("B of RAM in all", "--ram"), ("us for the worst sample", "--latency-us"), ("B of flash", "--flash"))


class TooLate(Infeasible):
    """The time is over, and no assignment is known to keep the limits."""


def too_late(task: Task) -> TooLate:
    """With the least that a board has shown by then, where that exceeds a limit."""
    request, least = task.request, task.phases.least
    asked = (
        ("latency", request.latency_us, "us for the worst of few samples", "--latency-us"),
        ("flash", request.flash, "B of flash", "--flash"),
    )
    over = [
        f"the least of what was measured takes {least[name]:,.0f} {unit} ({option} {limit:,.0f})"
        for name, limit, unit, option in asked
        if limit is not None and least.get(name, 0.0) > limit
    ]
    over = over or _nearest(task)
    known = ", ".join(over) if over else "too little was measured to say more" if least else "nothing was measured yet"
    raised = "raise --seconds, or the limit" if over else "raise --seconds"
    return TooLate(
        f"search: the {request.seconds:g} s are over, and no assignment is known to keep the limits: {known}; {raised}"
    )


def _nearest(task: Task) -> list[str]:
    """What the format for all tensors that lacks least of the limits was measured to need beyond them; empty if none
    was measured, or exceeds one."""
    found = []
    for one in task.phases.beside:
        for side, known in zip(task.sides, one.measured, strict=False):
            if known is None:
                continue
            limits = (side.ram_bytes if side.whole else None, side.request.latency_us, side.request.flash)
            beyond = [
                (need / limit, f"{one.format} for all tensors needs {need:,.0f} {unit} ({option} {limit:,.0f})")
                for need, limit, (unit, option) in zip(known.needs, limits, UNITS, strict=True)
                if limit and need > limit
            ]
            if beyond:
                found.append((sum(share for share, _ in beyond), [said for _, said in beyond]))
    return min(found, default=(0.0, []))[1]


def is_foreseen(task: Task, trial: Trial) -> bool:
    """Whether a trial counts as an answer before a board has run it: its limits are of RAM alone, or the upper ends of
    its bands keep them."""
    if not task.request.costs or task.accelerated:
        return True
    best = task.phases.best
    is_better = trial.kind == "full" and trial.fits and (best is None or trial.rank < best.rank)
    return is_better and bool(_expected(task, trial.candidate))


def trial_of(problem: SearchProblem, number: int, name: str) -> Trial:
    """A format for all tensors, planned and evaluated on all samples; ModelError where it can not be."""
    return judged(problem, number, problem.space.uniform(Choice(name)))


def judged(problem: SearchProblem, number: int, candidate: Candidate) -> Trial:
    """A candidate, planned and evaluated on all samples; ModelError where it can not be."""
    planned, score = problem.planned_bytes(candidate), asked(problem, Query(candidate))
    return Trial(number, candidate, "full", planned, problem.fits(candidate), score)


def look(task: Task) -> None:
    """The first format for all tensors that keeps the limits, on the few samples of this task; nothing where costs of a
    board are not known."""
    if any(side.board is not None and (side.accelerated or not costs_of(side.board.chip.core)) for side in task.sides):
        return
    for number, name in enumerate(task.problem.space.formats):
        try:
            trial = trial_of(task.problem, number, name)
        except ModelError:
            continue
        if not trial.fits or (task.board is not None and not _expected(task, trial.candidate)):
            continue
        task.phases.looked_at(task, trial)
        by = "" if task.board is None else ", by estimates"
        differ = f"{trial.score.disagreements} of {trial.score.samples} samples differ"
        task.say(f"search: an answer after {task.phases.elapsed():.1f} s{by}: {name} for all tensors, {differ}")
        return
    task.phases.looked_at(task, None)


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
