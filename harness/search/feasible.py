"""What keeps the limits of latency and flash, by measurement, before a search; the least found where nothing does."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from operator import itemgetter

from tinyhil.errors import BuildError, Infeasible
from tinyhil.harness.search.first_answer import too_late
from tinyhil.harness.search.resource_limits import Meter, joined, measured_costs, profile_pilots
from tinyhil.harness.search.task import Task, make_bench
from tinyhil.passes.stored import bytes_in_flash
from tinyhil.preference import BALANCED, LEAST, RAM
from tinyhil.search.anchor import least
from tinyhil.search.costs import Limits
from tinyhil.search.journal import Query
from tinyhil.search.search_loop import asked as asked_of
from tinyhil.search.search_problem import SearchProblem
from tinyhil.search.space import Candidate
from tinyhil.search.trial import TrialLog, unjudged

Accepts = Callable[[Candidate], bool]
NAMED = 3
CONFIRMED = 8  # candidates, before one's latency is named as the least
NEAR, MOST_NEAR = 1.05, 4  # of a latency: estimates are so far off; candidates beside the least that are timed, too
MISSED, MOST_MISSED = 1.02, 16  # times a limit of latency, up to which so many are timed: a compiler's whims decide
NEAR_FLASH, MOST_NEAR_FLASH = 1.1, 8  # of flash: what a compiler shares between kernels no estimate knows
OTHER_SAMPLES = 1.02  # times the worst of a few samples: what more of them may take


def anchored(task: Task, meters: Sequence[Meter], limits: Sequence[Limits], rams: Sequence[int]) -> SearchProblem:
    """The problem with a candidate that keeps all limits, by measurement where estimates are against it.

    Infeasible with the least values found, if there is none; TooLate where time has left too little measured to say so.
    """
    if not meters and not task.others:
        return joined(task, meters, limits, rams)
    for _ in range(2 if meters else 1):
        problem = joined(task, meters, limits, rams)
        known = [run.candidate for meter in meters for run in meter.costs(Limits()).runs]
        candidate = least(problem.space, problem.excess, known, enough=0.0)
        if problem.excess(candidate) <= 0.0:
            return replace(problem, anchor=candidate)
        for meter in meters:
            meter.next_phase()
            meter.measure(candidate)
    for meter in meters:
        meter.recall()
    if cut := [meter for meter in meters if meter.is_cut]:
        for meter in cut:
            profile_pilots(meter, leave=0.0)
        if any(meter.is_cut for meter in cut):
            raise too_late(task)
        return anchored(task, meters, limits, rams)
    refused = refusal(task, meters, limits, rams)
    problem = joined(task, meters, limits, rams)  # with what was measured to find the reason
    for run in (run for meter in meters for run in meter.costs(Limits()).runs):
        if problem.excess(run.candidate) <= 0.0:
            return replace(problem, anchor=run.candidate)
    raise refused


def refusal(task: Task, meters: Sequence[Meter], limits: Sequence[Limits], rams: Sequence[int]) -> Infeasible:
    """Of the first board that can not keep its limits; else that no assignment was found that serves all."""
    for meter, limit, ram in zip(meters, limits, rams, strict=False):
        if why := _why(meter, limit, ram):
            return why
    names = " and ".join(side.board.name for side in task.sides if side.board is not None)
    return Infeasible(
        f"search: no assignment was found that keeps the limits of {names} at once; raise one, or give each its own"
    )


def _why(meter: Meter, limits: Limits, ram_bytes: int) -> Infeasible | None:
    """The limit that can not be kept, the least value found, and what makes it."""
    assert meter.task.board is not None
    alone = (
        (
            Limits(latency_us=limits.latency_us),
            limits.latency_us,
            "us for the worst sample",
            "--latency-us",
            OTHER_SAMPLES,
        ),
        (Limits(flash_bytes=limits.flash_bytes), limits.flash_bytes, "B of flash", "--flash", 1.0),
    )
    request = meter.task.request
    arena = f" with {ram_bytes} B of arena" if request.ram is not None or request.arena is not None else ""
    for limit, asked, unit, option, slack in alone:
        if asked is None:
            continue
        is_timed = option == "--latency-us"  # by more samples, what is near, too
        candidate, value = least_of(meter, limit, ram_bytes, near=not is_timed)
        for _ in range(CONFIRMED if is_timed else 0):  # a profile has seen few samples
            if not meter.confirm(candidate):
                break
            candidate, _ = least_of(meter, limit, ram_bytes, near=False)
        timed = _timed(meter, ram_bytes) if is_timed else []
        if timed:
            _confirm_near(meter, limit, ram_bytes, asked)
            value, candidate = min(_timed(meter, ram_bytes), key=lambda pair: pair[0])
        if value <= asked:
            continue
        enough = math.ceil(value if timed else value * slack)
        is_free = request.ram is None and request.arena is None  # of what it would take more
        is_slower = is_timed and request.prefer in (RAM, LEAST) and is_free
        faster = ", or --prefer latency, which takes more RAM" if is_slower else ""
        by_rows = request.prefer not in (RAM, LEAST)
        if by_rows or (is_free and not is_timed):
            faster = _otherwise(meter, candidate, limit, RAM if by_rows else BALANCED, value if is_timed else 0.0)
        limited = f"{asked:,.1f}".removesuffix(".0")
        score = asked_of(meter.task.problem, Query(candidate))
        further = f"; --minimize {'latency' if is_timed else 'flash'} looks further" if request.minimize is None else ""
        return Infeasible(
            f"search: {limited} {unit} were not found feasible on {meter.task.board.name}{arena}, the "
            f"least found is {value:,.0f} (as profiled, {_parts(meter, limit, candidate)}); "
            f"try {option} {enough}, where {score.disagreements} of {score.samples} samples differ from float{faster}"
            f"{further}",
            (option, enough),
        )
    if meter.task.request.also:
        return None
    feasible = [f"{asked:,.0f} {unit}" for _, asked, unit, _, _ in alone if asked is not None]
    return Infeasible(
        f"search: {' and '.join(feasible)} are feasible alone on {meter.task.board.name}, but no assignment was found "
        f"that keeps to them{arena}; raise one of them"
    )


def _otherwise(meter: Meter, candidate: Candidate, limit: Limits, prefer: str, least_us: float) -> str:
    """What to type where another plan of memory keeps the limit or is faster than the least, by measurement: rows take
    code, and less of the RAM; a compiler may make faster code of them. Empty where it is neither."""
    task, log = meter.task, TrialLog(None, meter.task.problem.space, "")
    other = replace(task, request=replace(task.request, prefer=prefer))
    with suppress(BuildError):
        found = make_bench(other, log).measure(unjudged(candidate))
        if found.keeps(limit) or (found.latency_us or least_us) < least_us:
            took = f"{found.flash_bytes:,} B" if limit.latency_us is None else f"{found.latency_us:,.1f} us"
            return f", or --prefer {prefer}, whose plan of memory takes {took}"
    return ""


def _timed(meter: Meter, ram_bytes: int) -> list[tuple[float, Candidate]]:
    """Microseconds of the candidates that were timed on many samples and take at most `ram_bytes` of arena."""
    memory = meter.task.problem.memory
    return [(us, one) for one, us in meter.confirmed.items() if memory.fits(one, ram_bytes)]


def _confirm_near(meter: Meter, limit: Limits, ram_bytes: int, asked_us: float) -> None:
    """Time what differs in one group from the least that was timed, or is a mixture of two formats, and is estimated to
    take nearly as long, until something keeps the limit."""
    space = meter.task.problem.space
    for number in range(MOST_MISSED):
        value, best = min(_timed(meter, ram_bytes), key=lambda pair: pair[0])
        if value <= asked_us or (number >= MOST_NEAR and value > asked_us * MISSED):
            return
        costs = measured_costs(meter.problem(limit, ram_bytes))
        others = (one for one in (*space.neighbours(best), *space.apart()) if one not in meter.confirmed)
        memory = meter.task.problem.memory
        near = {one: costs.value(one) for one in others if memory.fits(one, ram_bytes)}
        candidate = min(near, key=lambda one: near[one], default=best)
        if near.get(candidate, math.inf) > value * NEAR:
            return
        meter.measure(candidate)  # for later searches, too
        if not meter.confirm(candidate):
            return


def unbounded(resource: str) -> Limits:
    """Of latency or flash alone, such that every value keeps it."""
    return Limits(latency_us=float("inf")) if resource == "latency" else Limits(flash_bytes=1 << 40)


def least_of(meter: Meter, limit: Limits, ram_bytes: int, *, near: bool = True) -> tuple[Candidate, float]:
    """The candidate of least latency or flash that was found under the limit of RAM, and its measured value. What code
    takes is estimated from few images: of flash each format for all, or for all weights, is measured, and what is then
    estimated to be less, until that is none, and mixtures of two formats that are near by estimates. Then, if `near`,
    what differs in one group from the least."""
    problem = meter.problem(limit, ram_bytes)
    if limit.flash_bytes is not None:
        for start in problem.space.starts():
            if problem.memory.fits(start, ram_bytes):
                meter.measure(start)
    for _ in range(CONFIRMED if limit.flash_bytes is not None else 1):
        problem = meter.problem(limit, ram_bytes)
        value = _value_within(problem, ram_bytes)
        candidate = least(problem.space, value, [run.candidate for run in measured_costs(problem).runs])
        meter.next_phase()
        if meter.knows(candidate):
            break
        meter.measure(candidate)
    if limit.flash_bytes is not None:
        _measure_mixtures(meter, limit, ram_bytes, candidate)
    problem = meter.problem(limit, ram_bytes)
    value = _value_within(problem, ram_bytes)
    best = min((run.candidate for run in measured_costs(problem).runs), key=value, default=candidate)
    best = stepped_down(meter, limit, ram_bytes, best) if near else best
    return best, _value_within(meter.problem(limit, ram_bytes), ram_bytes)(best)


def _measure_mixtures(meter: Meter, limit: Limits, ram_bytes: int, best: Candidate) -> None:
    """Those of two formats, as far as estimates are near the best: kernels of few formats share more code than is
    known of each."""
    problem = meter.problem(limit, ram_bytes)
    value = _value_within(problem, ram_bytes)
    near = [one for one in problem.space.apart() if value(one) <= NEAR_FLASH * value(best)]
    meter.next_phase()
    for candidate in near:
        meter.measure(candidate)


def stepped_down(
    meter: Meter, limit: Limits, ram_bytes: int, best: Candidate, accepts: Accepts = lambda candidate: True
) -> Candidate:
    """What is measured to need less of the latency or flash that is limited, and is accepted, format by format, as long
    as estimates are near and few of what differs in one from the best are measured."""
    within, most = (NEAR, MOST_NEAR) if limit.flash_bytes is None else (NEAR_FLASH, MOST_NEAR_FLASH)
    while True:
        problem = meter.problem(limit, ram_bytes)
        costs, value = measured_costs(problem), _value_within(problem, ram_bytes)
        others = list(problem.space.neighbours(best))
        unknown = [(value(one), one) for one in others if not costs.is_measured(one)]
        nearest, other = min(unknown, key=itemgetter(0), default=(math.inf, best))
        if len(others) - len(unknown) >= most or nearest > within * value(best) or other == best:
            return best
        meter.next_phase()
        meter.measure(other)
        value = _value_within(meter.problem(limit, ram_bytes), ram_bytes)
        if value(other) < value(best) and accepts(other):
            best = other


def _value_within(problem: SearchProblem, ram_bytes: int) -> Callable[[Candidate], float]:
    """What is limited, of candidates within so much RAM; infinite for others."""
    costs = measured_costs(problem)
    return lambda candidate: costs.value(candidate) if problem.memory.fits(candidate, ram_bytes) else math.inf


def _parts(meter: Meter, limit: Limits, candidate: Candidate) -> str:
    """The operations or constants that take most of it."""
    if limit.latency_us is not None:
        return ", ".join(f"{name} {us:,.0f} us" for name, us in meter.costs(limit).parts(candidate)[:NAMED])
    program = meter.task.problem.memory.placed(candidate).program
    sizes = sorted(((bytes_in_flash(program.tensors[name]), name) for name in program.constants), reverse=True)
    largest = ", ".join(f"{name} {size:,} B" for size, name in sizes[:NAMED])
    return f"{meter.costs(limit).describe(candidate).constant_bytes:,} B of constants ({largest})"
