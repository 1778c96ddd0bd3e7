"""What is on offer where the user names no formats, beside those that every tensor may have.

Formats for weights alone (per channel, packed below 8 bits, codebooks): where flash or latency is limited so that the
widest format does not keep the limit; elsewhere wide weights cost nothing that counts, and no more is profiled.
Formats that all tensors must have together, for their arithmetic knows no others: evaluated once, after the search.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tinyhil.formats import named
from tinyhil.harness.search.task import Task
from tinyhil.harness.search.uniform import Uniform, beside_answer
from tinyhil.search.costs import Limits
from tinyhil.search.offer import formats_on_offer
from tinyhil.search.search_loop import Found
from tinyhil.search.strategies.lagrange import Lagrange

FOR_FLASH, FOR_LATENCY = ("fixed8pc", "fixed6", "fixed4pc", "kmeans16"), ("fixed8pc",)
TOGETHER = ("int8",)


def with_weights(task: Task, beside: Sequence[Uniform]) -> Task:
    """The task with the formats that its weights may have, too; `beside`: what the uniform formats need."""
    names = _weights(task, beside)
    if not names:
        return task
    if not task.request.weights:
        task.say(f"search: for weights alone there are {', '.join(names)}, too; --formats says what else to offer")
    space = replace(task.problem.space, weights=names)

    def offered(side: Task) -> Task:
        memory = replace(side.problem.memory, space=space)
        return replace(side, problem=replace(side.problem, space=space, memory=memory))

    return replace(offered(task), others=tuple(offered(side) for side in task.others))


def _weights(task: Task, beside: Sequence[Uniform]) -> tuple[str, ...]:
    request = task.request
    if request.weights is not None:
        names = (named(name).name for name in formats_on_offer(request.weights))
        return tuple(name for name in names if name not in task.problem.space.formats)
    if request.formats is not None or not isinstance(task.strategy, Lagrange) or task.accelerated:
        return ()
    counts = {request.minimize, *request.objectives}
    if "flash" in counts or not _keeps(beside[-1], Limits(flash_bytes=request.flash)):
        return FOR_FLASH
    return FOR_LATENCY if "latency" in counts or not _keeps(beside[-1], Limits(request.latency_us)) else ()


def _keeps(widest: Uniform, limits: Limits) -> bool:
    """Whether the widest format keeps what is limited, on every board."""
    return not limits or (bool(widest.on_all) and all(board.keeps(limits) for board in widest.on_all))


def together(task: Task, found: Found | None) -> tuple[Uniform, ...]:
    """Formats that all tensors have or none, where the user names none; see `beside_answer`."""
    if task.request.formats is not None or task.accelerated:
        return ()
    return beside_answer(task, TOGETHER, found)
