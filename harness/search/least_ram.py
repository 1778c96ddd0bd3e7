"""The least RAM, before a limit of RAM is refused: formats for all tensors may have more beside the arena than others,
of whom nobody knows before they are built."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

from tinyhil.errors import BuildError, ConfigError, Infeasible
from tinyhil.harness.search.device import Measured
from tinyhil.harness.search.resource_limits import limited
from tinyhil.harness.search.rounds import minimized
from tinyhil.harness.search.task import Task
from tinyhil.harness.search.uniform import MIXTURES, Uniform, arena_limits
from tinyhil.search.search_loop import Found

Answer = tuple[Found, tuple[Measured, ...]]

ANY_POINTS = 100.0
LEAST_BESIDE = 4


def least_ram(task: Task, own: Sequence[Uniform], mixed: Sequence[Uniform]) -> tuple[Answer | None, int | None]:
    """What `--minimize ram` finds, or would with any loss of accuracy, if that keeps the limit; and the least bytes
    that it, or one of these mixtures, needs. Neither where the limit leaves beside the smallest arena less than a
    LEAST_BESIDE-th of what the mixtures have there. `own`: formats for all tensors."""
    problem, request, board = task.problem, task.request, task.board
    known = [(one.trial, one.on_all[0].total_bytes or 0) for one in mixed if one.trial is not None and one.on_all]
    room = task.ram_bytes - problem.memory.least_bytes() - problem.beside_bytes(problem.memory.least())
    if request.costs or len(task.sides) != 1 or not known or board is None:
        return None, None
    if room * LEAST_BESIDE < min(total - trial.ram_bytes for trial, total in known):
        return None, None
    least = min(total for _, total in known)
    for points in dict.fromkeys((request.points, ANY_POINTS)):
        free = replace(task, ram_bytes=board.chip.ram_bytes or task.ram_bytes)
        free = replace(free, request=replace(request, ram=None, minimize="ram", points=points))
        with suppress(ConfigError, BuildError):
            free = limited(free, arena_limits(free, own))
            found = task.phases.in_time(request.seconds, partial(minimized, free, (), "ram"))
            if found is not None and found[1] and found[1][0].total_bytes is not None:
                least = min(least, found[1][0].total_bytes)
                if found[1][0].total_bytes <= task.ram_bytes:
                    return found, least
    return None, least


def in_a_mixture(error: Infeasible, least_bytes: int) -> Infeasible:
    """The error with these bytes, if that names more of a format for all tensors."""
    why = str(error)
    if error.least is None or MIXTURES not in why or least_bytes >= error.least[1]:
        return error
    named = f"--ram {error.least[1]}{MIXTURES}"
    return Infeasible(why.replace(named, f"--ram {least_bytes}, which a mixture takes,"), ("--ram", least_bytes))
