"""Products computed again only as far as the limit of RAM asks for it, once the board has said what lies beside the
arena: before, that was known of another assignment."""

from __future__ import annotations

from dataclasses import replace

from tinyhil.errors import BuildError
from tinyhil.harness.search.device import Measured
from tinyhil.harness.search.task import Task, make_bench
from tinyhil.search.search_loop import Found
from tinyhil.search.trial import TrialLog


def relaxed(task: Task, found: Found, measured: tuple[Measured, ...]) -> tuple[Found, tuple[Measured, ...]]:
    """The same answer in the arena that its own stack and static data leave, if it keeps the limits there and is
    faster."""
    best, objective = found.best, task.request.minimize
    if objective is not None or len(measured) != 1 or not task.whole or task.wish(best).arena_bytes is None:
        return found, measured
    left = task.ram_bytes - (measured[0].total_bytes or task.ram_bytes)
    arena = best.ram_bytes + left
    wider = replace(task.problem, limit_bytes=arena + task.problem.beside_bytes(best.candidate))
    trial = replace(best, ram_bytes=wider.planned_bytes(best.candidate))
    if not best.ram_bytes < trial.ram_bytes <= arena:
        return found, measured
    try:
        known = make_bench(task, TrialLog(None, task.problem.space, "")).measure(trial)
    except BuildError:  # more stack than there is room for
        return found, measured
    is_faster = known.needs[1] < measured[0].needs[1]
    if not is_faster or not known.fits(task.ram_bytes, task.request.limits):
        return found, measured
    return replace(found, best=trial), (known,)
