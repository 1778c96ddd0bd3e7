"""Plans for the arena that the limit of RAM leaves, once the board has said what lies beside it: before, that was known
of another assignment. As few products as the limit asks for are computed again, and no format exceeds it that would
keep it so."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from tinyhil.errors import BuildError
from tinyhil.harness.search.device import Measured
from tinyhil.harness.search.phases import SCHEDULES
from tinyhil.harness.search.task import Task, make_bench
from tinyhil.harness.search.uniform import Uniform, at_any_price, keeps, schedules_of_each, smallest_of_each
from tinyhil.preference import BALANCED, LEAST, RAM
from tinyhil.search.search_loop import Found
from tinyhil.search.trial import Trial, TrialLog


def relaxed(task: Task, found: Found, measured: tuple[Measured, ...]) -> tuple[Found, tuple[Measured, ...]]:
    """The same answer with fewer products computed again, if it keeps the limits and is faster."""
    if len(measured) != 1 or task.request.minimize is not None or task.wish(found.best).arena_bytes is None:
        return found, measured
    other = _anew(task, found.best, measured[0])
    if other is None or other[1].needs[1] >= measured[0].needs[1]:
        return found, measured
    return replace(found, best=other[0]), (other[1],)


def within_limit(task: Task, beside: Sequence[Uniform], best: Trial) -> tuple[Uniform, ...]:
    """The uniform formats, those that differ no more than the `best` and exceed the RAM as they are planned, with
    products computed again, where that keeps the limits."""
    return tuple(_tightened(task, one, best) for one in beside)


def at_their_least(task: Task, beside: Sequence[Uniform]) -> tuple[Uniform, ...]:
    """The uniform formats, where the least RAM is looked for as the board needs least for them."""
    if task.request.minimize != "ram" or not task.whole:
        return tuple(beside)
    least = {one.format: one for one in smallest_of_each(task, [one.format for one in beside if one.on_all])}
    return tuple(least.get(one.format, one) for one in beside)


def say_what_takes_less(task: Task, best: Trial, measured: tuple[Measured, ...]) -> None:
    """Where more time than is permitted would need less than the least RAM that was found, or another plan of memory
    less than the least flash or latency."""
    if len(measured) != 1 or not task.whole:
        return
    with task.phases.of(SCHEDULES):
        if task.request.minimize == "ram":
            _say_less_ram(task, measured[0].total_bytes or 0)
        elif task.request.minimize in ("flash", "latency"):
            _say_other_plan(task, best, measured[0])


def _say_less_ram(task: Task, ram_bytes: int) -> None:
    less = at_any_price(replace(task, ram_bytes=ram_bytes - 1), ram_bytes)
    if less:
        task.say(f"search: {ram_bytes} B are the least found within --more-time; for less {less.removeprefix(', or ')}")


def _say_other_plan(task: Task, best: Trial, known: Measured) -> None:
    request = task.request
    prefer = BALANCED if request.prefer in (RAM, LEAST) else RAM
    other = replace(task, request=replace(request, prefer=prefer))
    with suppress(BuildError):
        found = make_bench(other, TrialLog(None, task.problem.space, "")).measure(best)
        is_faster = (found.latency_us or 0.0) < (known.latency_us or 0.0)
        if is_faster if request.minimize == "latency" else found.flash_bytes < known.flash_bytes:
            us = f"{found.latency_us:,.1f} us, " if request.minimize == "latency" else ""
            takes = f"{us}{found.flash_bytes} B of flash, {found.total_bytes} B of RAM"
            task.say(f"search: planned with --prefer {prefer} this answer takes {takes}")


def _tightened(task: Task, one: Uniform, best: Trial) -> Uniform:
    if one.trial is None or len(task.sides) != 1 or not task.measures or keeps(task, one):
        return one
    if one.trial.score.disagreements > best.score.disagreements or not task.request.computes_again:
        return one
    if "flash exceeded" in one.reason:  # other plans of memory take no less
        return one
    if not one.on_all:  # the board takes no such image, or was not asked
        return next((less for less in schedules_of_each(task, [one.format]) if keeps(task, less)), one)
    other = _anew(task, one.trial, one.on_all[0])
    return one if other is None else replace(one, trial=other[0], measured=(other[1],))


def _anew(task: Task, trial: Trial, known: Measured) -> tuple[Trial, Measured] | None:
    """In the arena that its own stack and static data leave; None where that is no other plan, or breaks a limit."""
    if not task.whole or known.total_bytes is None:
        return None
    arena = trial.ram_bytes + task.ram_bytes - known.total_bytes
    room = replace(task.problem, limit_bytes=arena + task.problem.beside_bytes(trial.candidate))
    other = replace(trial, ram_bytes=room.planned_bytes(trial.candidate))
    if other.ram_bytes > arena or other.ram_bytes == trial.ram_bytes:
        return None
    try:
        measured = make_bench(task, TrialLog(None, task.problem.space, "")).measure(other)
    except BuildError:  # more stack than there is room for
        return None
    return (other, measured) if measured.fits(task.ram_bytes, task.request.limits) else None
