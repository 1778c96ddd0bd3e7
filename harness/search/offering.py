"""What is on offer where the user names no formats, beside those that every tensor may have.

Formats for weights alone (per channel, packed below 8 bits, codebooks): where flash or latency is limited so that the
widest format does not keep the limit; elsewhere wide weights cost nothing that counts, and no more is profiled.
Formats that all tensors must have together, for their arithmetic knows no others: evaluated once, after the search.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import TypeVar

from tinyhil.errors import BuildError, ConfigError, Infeasible, ModelError
from tinyhil.formats import named
from tinyhil.harness.build.weights import ADVICE
from tinyhil.harness.search.again import Again
from tinyhil.harness.search.device import Measured, left_out
from tinyhil.harness.search.first_answer import TooLate
from tinyhil.harness.search.phases import SCHEDULES
from tinyhil.harness.search.request import SearchRequest
from tinyhil.harness.search.task import FOR_FLASH, FOR_LATENCY, Task
from tinyhil.harness.search.uniform import (
    Uniform,
    beside_answer,
    fast_in_arena,
    first_answers,
    keeps,
    schedules_of_each,
    uniform_instead,
)
from tinyhil.harness.settings.config import Boards
from tinyhil.notice import Say
from tinyhil.preference import BALANCED, LATENCY
from tinyhil.search.costs import Limits
from tinyhil.search.offer import formats_on_offer
from tinyhil.search.search_loop import Found
from tinyhil.search.strategies.lagrange import Lagrange

TOGETHER = ("int8",)
RANK = attrgetter("trial.rank")
AT_WILL = float("inf")  # of time that computing again may take where a limit of latency says so


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


Outcome = TypeVar("Outcome")


def _reserve(request: SearchRequest, error: BuildError) -> str:
    """What else may help where the stack's reserve leaves too little RAM: only a built image shows what it needs."""
    if "RAM exceeded by" not in str(error):
        return ""
    return f"; `hil run --board {request.board} --format fixed8` says whether a smaller stack_reserve_bytes would do"


def with_all_offers(
    request: SearchRequest, boards: Boards | None, attempt: Callable[[SearchRequest], Outcome], say: Say
) -> Outcome:
    """What `attempt` finds, within the board's flash if its answer was too large for that; where nothing on offer for
    each tensor keeps the limits, what it finds with a format for all tensors at once. Infeasible, of all that was tried
    the one that lacks least, if none does; BuildError where the board's flash holds nothing that was found."""
    board = None if request.board is None or boards is None else boards.board(request.board)
    try:
        return attempt(request)
    except TooLate:
        raise
    except Infeasible as error:
        nearest = error
    except BuildError as error:
        there_is = None if board is None or request.flash is not None else board.chip.flash_bytes
        if there_is is None or "flash" not in str(error):  # what boards said of uniform formats is text alone
            raise type(error)(
                str(error).replace(ADVICE, "offer narrower --formats") + _reserve(request, error)
            ) from None
        say(f"{left_out(error)}; again with --flash {there_is}")
        try:
            return with_all_offers(replace(request, flash=there_is), boards, attempt, say)
        except TooLate:
            raise
        except (BuildError, ConfigError):
            why = str(error).partition("; use a lower width")[0]
            raise BuildError(f"{why}; nothing found fits: offer narrower --formats, or take a larger board") from None
    if request.formats is not None or (board is not None and board.hardware is not None):
        raise nearest
    for name in TOGETHER:
        say(f"search: no format on offer for each tensor keeps the limits; trying {name} for all tensors")
        try:
            return attempt(replace(request, formats=name, weights=None))
        except Infeasible as error:
            if error.least and nearest.least and error.least[0] == nearest.least[0]:
                nearest = min(nearest, error, key=_lacking)
        except (ModelError, BuildError) as error:
            say(f"search: {name}: {error}")
    raise nearest


def _lacking(error: Infeasible) -> float:
    return error.least[1] if error.least is not None else float("inf")


def together(task: Task, found: Found | None, known: Sequence[Uniform] = ()) -> tuple[Uniform, ...]:
    """Formats that all tensors have or none, where the user names none, but those `known`; see `beside_answer`."""
    return beside_answer(task, untried(task, known), found)


def untried(task: Task, known: Sequence[Uniform]) -> tuple[str, ...]:
    """Formats that `together` would still judge."""
    judged = {one.format for one in known}
    return () if task.request.formats is not None or task.accelerated else tuple(n for n in TOGETHER if n not in judged)


def together_first(task: Task, own: Sequence[Uniform]) -> tuple[Uniform, ...]:
    """The same before anything is searched, measured, where no format of the task's `own` keeps the limits: an answer
    from which a search that finds none, or has no time for one, is saved."""
    if task.request.formats is not None or not task.measures or any(keeps(task, one) for one in own):
        return ()
    return first_answers(task, TOGETHER)


def scheduled_instead(task: Task) -> tuple[Task, tuple[Found, tuple[Measured, ...]] | None]:
    """Where no answer keeps all limits: a format for all tensors in another schedule. What does in less RAM than it is
    planned for may be faster, and take more time than `--more-time` permits; what is planned for time, with the sample
    in the arena, takes less RAM than in slots beside it. With the task by which it is planned; None if there is none.
    """
    request = task.request
    if not task.measures or request.minimize is not None:
        return task, None
    names = (*task.problem.space.formats, *(TOGETHER if request.formats is None else ()))
    if request.latency_us is not None:
        memory, limit = task.problem.memory, request.latency_us
        if isinstance(memory.again, Again):
            memory = memory.at_price(replace(memory.again, more_time=AT_WILL))
        free = replace(task, problem=replace(task.problem, memory=memory))
        with task.phases.of(SCHEDULES):
            measured = task.phases.in_time(request.seconds, lambda: [*schedules_of_each(free, names, limit)])
        if instead := uniform_instead(free, measured or ()):
            return free, instead
    is_for_time = request.latency_us is not None or request.prefer in (BALANCED, LATENCY)
    if not (is_for_time and task.whole and request.ram is not None) or task.others:
        return task, None
    with task.phases.of(SCHEDULES):
        fast = [task.phases.in_time(request.seconds, partial(fast_in_arena, task, name)) for name in names]
    keeping = [(within, one) for within, one in filter(None, fast) if keeps(within, one)]
    if not keeping:
        return task, None
    within, one = min(keeping, key=lambda pair: RANK(pair[1]))
    return within, uniform_instead(within, (one,))
