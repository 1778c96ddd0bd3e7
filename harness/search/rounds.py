"""Searches whose answer is measured on the board, again until all limits are kept to; and the least of one cost."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence, Set
from contextlib import suppress
from dataclasses import fields, is_dataclass, replace
from typing import Any

from tinyhil.errors import BuildError, ConfigError, DoesNotFit, Infeasible
from tinyhil.harness.search.device import Bench, Measured, decide
from tinyhil.harness.search.feasible import (
    MOST_NEAR_FLASH,
    anchored,
    least_of,
    refusal,
    stepped_down,
    unbounded,
)
from tinyhil.harness.search.first_answer import is_foreseen, judged
from tinyhil.harness.search.phases import FEASIBLE, MEASURING, PROFILING, SCHEDULES, SEARCHING, OutOfTime
from tinyhil.harness.search.resource_limits import Meter, joined, within
from tinyhil.harness.search.task import Task, make_bench, trial_log
from tinyhil.harness.search.unasked import kernels
from tinyhil.harness.search.uniform import ORDERS, at_any_price, smallest_of_each, trials_apart, uniform_instead
from tinyhil.search.costs import Limits
from tinyhil.search.search_loop import MOST_REPEATS, Budget, Found, search
from tinyhil.search.search_problem import SearchProblem
from tinyhil.search.slim import slimmed
from tinyhil.search.space import Candidate
from tinyhil.search.trial import Trial, TrialLog, unjudged

MOST_ROUNDS = 6
MOST_TRIES, NEARLY = 3, 1.02  # of the least; times the estimate, which a measurement may exceed
STEPS = 5  # of halving between the least value and that of an answer without the limit
SMALLEST_STEP, LARGEST_STEP = 0.01, 0.05  # by which estimates are raised after an answer that exceeds a limit
SLACKS = (1.0, 1.02, 1.1)  # times the least estimate, under which the answer is searched that is measured
PROFILED = 8  # assignments that are judged because a profile has shown that they need less
MOST_NEIGHBOURS = 24  # of mixtures that are not good enough
MOST_KINDS = 8  # of kernels, of which one is measured for its stack
FITTING = 3  # measured assignments that are tried where no answer keeps to the limits

MakeBench = Callable[[TrialLog], Bench]


def search_once(task: Task, problem: SearchProblem, stem: str, bench: MakeBench | None) -> Found:
    """One search; every k-th full trial is measured on the way if asked."""
    request, log = task.request, trial_log(task, stem)
    device = bench(log) if bench is not None else None
    count = 0

    def on_trial(trial: Trial, best: Trial | None) -> None:
        nonlocal count
        task.phases.own = best
        if trial.kind == "full":
            task.phases.tried[trial.candidate] = trial
        if is_foreseen(task, trial):
            task.phases.answered(trial)
        one_answer = request.pareto is None and request.minimize is None
        task.progress(trial, best or task.phases.best if one_answer else best)
        if device is not None and task.request.every is not None and trial.kind == "full" and trial.fits:
            count += 1
            if count % task.request.every == 0:
                device.measure(trial)

    images = _finalists(task) + 1 if task.measures else 0  # and a format that is no worse
    budget = Budget(request.evaluations, task.phases.seconds_to_search(request.seconds, images), request.target)
    with task.phases.of(SEARCHING):
        found = search(task.strategy, problem, budget=budget, log=log, on_trial=on_trial)
    if found.is_stalled:
        task.say(
            f"search: {task.strategy.name} was ended: it asked {MOST_REPEATS:,} times in a row what it had asked before"
        )
    if found.is_fallback and found.finished:
        options = ", ".join(field.name for field in fields(task.strategy)) if is_dataclass(task.strategy) else ""
        task.say(
            f"search: {task.strategy.name} has asked nothing that keeps the limits; the answer is what is known to"
            + (f" (--set changes its {options})" if options else "")
        )
    return found


def _finalists(task: Task) -> int:
    """How many answers of a search are measured: several where estimates are least sure, of what a compiler makes."""
    request = task.request
    return request.finalists if request.on_device or request.every or request.flash is not None else 1


def searched_on_device(
    task: Task, meters: Sequence[Meter], limits: Sequence[Limits], required: Sequence[Limits], tag: str = ""
) -> tuple[Found, tuple[Measured, ...]]:
    """Search under `limits` and measure the finalists on every board; again with what was learnt from them while none
    keeps to those `required`. Meters (none: only RAM counts) and limits are one of each board.
    Infeasible if no search keeps to the RAM, or nothing to a limit."""
    try:
        return _in_rounds(task, meters, limits, required, tag)
    except Infeasible:
        with task.phases.of(SCHEDULES):
            instead = _timed_for_refusal(task, meters, required)
        if instead:
            task.say(
                "search: the limit is near the least measured: this is the best that keeps it; the same command "
                "again begins with what was measured, and may find a better one"
            )
            return instead
        raise


def _in_rounds(
    task: Task, meters: Sequence[Meter], limits: Sequence[Limits], required: Sequence[Limits], tag: str
) -> tuple[Found, tuple[Measured, ...]]:
    request, totals = task.request, [side.ram_bytes if side.whole else None for side in task.sides]
    rams = [side.arena_bytes for side in task.sides]
    count, needed = _finalists(task), list[int]()
    for number in range(MOST_ROUNDS):
        with task.phases.of(FEASIBLE):
            problem = anchored(task, meters, limits, rams)
        made: list[Bench] = []
        sides = [within(*each) for each in zip(task.sides, rams, strict=True)]

        def bench(log: TrialLog, made: list[Bench] = made, sides: Sequence[Task] = sides) -> Bench:
            made.extend(make_bench(side, log) for side in sides)
            return made[0]

        stem = f"{task.stem(*rams)}{tag}" + (f"-{number}" if meters and number else "")
        found = search_once(task, problem, stem, bench)
        finalists = best_trials(found, count)
        with task.phases.of(MEASURING):
            fitting = decide(made, finalists, totals, required)
        if fitting:
            return replace(found, best=fitting[0][0]), fitting[0][1]
        task.phases.failed()
        needed += _needed(made[0], finalists)
        if meters and task.phases.seconds_left(request.seconds) == 0.0:
            break
        lowered = [_lowered(*each, finalists, number) for each in zip(task.sides, made, rams, strict=True)]
        if lowered == rams and not meters:  # the same search would find the same
            break
        rams = lowered
        with task.phases.of(PROFILING):
            for meter, limit, one in zip(meters, limits, made, strict=False):
                _learn(meter, limit, finalists, one)
    if not meters:
        with task.phases.of(SCHEDULES):
            smallest = [*smallest_of_each(task, task.problem.space.formats)]
        if instead := uniform_instead(task, smallest):
            return instead
        needed += [one.on_all[0].total_bytes or 0 for one in smallest]
        least = f"the least measured needs {min(needed)} B: --ram {min(needed)}" if needed else "raise --ram"
        raise Infeasible(
            f"search: after {number + 1} searches none keeps to {totals[0]} B in all; {least}"
            f"{at_any_price(task, min(needed, default=sys.maxsize))}"
        )
    return _measured_before(task, meters, required, rams, found)


def _lowered(side: Task, bench: Bench, ram_bytes: int, finalists: list[Trial], number: int) -> int:
    """The limit of the arena, less by what the best finalist takes too much of the board's whole RAM, twice as much in
    each round `number`: less of the arena may be more of the stack."""
    over = _over(bench, finalists, side.ram_bytes) if side.whole else 0
    if over <= 0:
        return ram_bytes
    lower = max(ram_bytes - (over << number), side.problem.memory.least_bytes())
    if lower < ram_bytes:
        side.say(f"search: no finalist keeps to {side.ram_bytes} B in all; again with {lower} B of arena")
    return lower


def _over(bench: Bench, finalists: list[Trial], total: int) -> int:
    """By how much the best of them exceeds the RAM of the board, or what its image has of it; 0 if that is unknown."""
    over = []
    for trial in finalists:
        try:
            over.append((bench.measure(trial).total_bytes or 0) - total)
        except DoesNotFit as error:
            over += [too_much for region, too_much in (error.over,) if region == "RAM"] if error.over else []
        except BuildError:  # said when it was measured
            continue
    return min(over, default=0)


def _needed(bench: Bench, finalists: list[Trial]) -> list[int]:
    """Bytes of all RAM that they were measured to need."""
    needed = []
    for trial in finalists:
        with suppress(BuildError):  # said when it was measured
            needed.append(bench.measure(trial).total_bytes or 0)
    return needed


def _learn(meter: Meter, limits: Limits, finalists: list[Trial], bench: Bench) -> None:
    """What exceeded the limits is profiled, and estimates are trusted less by as much as they were wrong."""
    expected = meter.costs(limits)
    meter.next_phase()
    for trial in finalists:
        meter.measure(trial.candidate)
        known = bench.log.device(trial, bench.board)
        if known is not None and known["latency_us"] is not None:
            meter.correct(trial.candidate, known["latency_us"])
    after = meter.costs(limits)
    meter.margin += min(LARGEST_STEP, max(SMALLEST_STEP, *(after.excess(trial.candidate) for trial in finalists)))
    was, now = expected.estimate(finalists[0].candidate), after.estimate(finalists[0].candidate)
    if was is not None and now is not None:
        bench.say(
            f"search: the answer takes {now.latency_us:,.1f} us and {now.flash_bytes:,.0f} B of flash, expected were "
            f"{was.latency_us:,.1f} us and {was.flash_bytes:,.0f} B; going on with what was learnt"
        )


def _measured_before(
    task: Task, meters: Sequence[Meter], limits: Sequence[Limits], rams: Sequence[int], found: Found
) -> tuple[Found, tuple[Measured, ...]]:
    """The best of the assignments that were measured and kept to the limits."""
    problem = joined(task, meters, limits, rams)
    profiled = (run.candidate for run in meters[0].costs(limits[0]).runs)
    fitting = _keeping(task, problem, filter(problem.fits, profiled), limits, rams)
    if not fitting:
        raise refusal(task, meters, limits, rams)
    task.say("search: the answers of all rounds exceed a limit; this is the best assignment measured that does not")
    return replace(found, best=fitting[0][0]), fitting[0][1]


def _timed_for_refusal(
    task: Task, meters: Sequence[Meter], limits: Sequence[Limits]
) -> tuple[Found, tuple[Measured, ...]] | None:
    """What was timed to name the least latency, and is within the limits: estimates were against it."""
    if len(meters) != 1 or limits[0].latency_us is None:
        return None
    rams = [side.arena_bytes for side in task.sides]
    timed = [candidate for candidate, us in meters[0].confirmed.items() if us <= limits[0].latency_us]
    fitting = _keeping(task, joined(task, meters, limits, rams), timed, limits, rams)
    if not fitting:
        return None
    best, measured = fitting[0]
    return Found(best, (best,), task.phases.evaluations, task.phases.searching(), True), measured


def _keeping(
    task: Task, problem: SearchProblem, candidates: Iterable[Candidate], limits: Sequence[Limits], rams: Sequence[int]
) -> list[tuple[Trial, tuple[Measured, ...]]]:
    """The best of these by agreement, as far as boards say that they keep the limits."""
    trials = []
    for number, candidate in enumerate(candidates):
        score, ram = problem.evaluator.score(problem.program(candidate)), problem.planned_bytes(candidate)
        trials.append(Trial(number, candidate, "full", ram, True, score))
    sides = [within(*each) for each in zip(task.sides, rams, strict=True)]
    benches = [make_bench(side, TrialLog(None, problem.space, "")) for side in sides]
    totals = [side.ram_bytes if side.whole else None for side in task.sides]
    return decide(benches, sorted(trials, key=lambda trial: trial.rank)[:FITTING], totals, limits)


def minimized(task: Task, meters: Sequence[Meter], objective: str) -> tuple[Found, tuple[Measured, ...]]:
    """The least RAM, flash or latency whose search loses at most `points` of accuracy against float on its samples;
    again with what was learnt where the board says that it takes more than was estimated."""
    meter = meters[0] if meters and objective != "ram" else None
    answers: list[tuple[Found, tuple[Measured, ...]]] = []
    for number in range(MOST_TRIES):
        try:
            found, high = _least_found(task, meters, objective, f"-{number}" if number else "")
        except (ConfigError, OutOfTime):  # of an earlier round there is an answer
            if not answers:
                raise
            break
        if not task.measures:
            return found, ()
        try:
            answers.append(_measured_least(task, meters, found, objective, high))
        except OutOfTime:
            if not answers:
                task.say("search: the time is over before the least was measured: what it needs is an estimate")
                return found, ()
            break
        task.phases.least_run = min(answers, key=lambda answer: _order(objective, *answer))
        took = answers[-1][1][0].needs[ORDERS[objective][0]]
        is_late = task.phases.seconds_left(task.request.seconds) == 0.0
        if meter is None or took is None or took <= high * NEARLY or is_late or number == MOST_TRIES - 1:
            break
        meter.next_phase()
        with task.phases.of(PROFILING):
            for candidate in dict.fromkeys((found.best.candidate, answers[-1][0].best.candidate)):
                meter.measure(candidate)
        unit = "us" if objective == "latency" else "B of flash"
        task.say(
            f"search: the answer takes {took:,.0f} {unit}, expected were {high:,.0f}; going on with what was learnt"
        )
    return min(answers, key=lambda answer: _order(objective, *answer))


def _order(objective: str, found: Found, measured: tuple[Measured, ...]) -> tuple[Any, ...]:
    """Which of several answers is the least: by what is minimized and the other resources, then by quality."""
    return [measured[0].needs[place] for place in ORDERS[objective]], found.best.rank


def _least_found(task: Task, meters: Sequence[Meter], objective: str, tag: str) -> tuple[Found, float]:
    """The least as estimates have it, and its value."""
    request, limits = task.request, task.request.limits
    meter = meters[0] if meters else None
    wanted = _wanted(task)

    def attempt(bound: float | None, name: str) -> Found:
        """A search with `bound` on the objective as well."""
        ram = task.arena_bytes if objective != "ram" or bound is None else int(bound)
        both = _with(limits, objective, bound)
        problem = anchored(task, meters, [both], [ram])
        if meter is None:
            problem.memory.require(ram)
        return search_once(task, problem, f"{task.stem(task.ram_bytes)}{name}{tag}", None)

    found = attempt(None, "-min")
    high = _value(task, meter, objective, found.best)
    with task.phases.of(FEASIBLE):
        low = _least(task, meter, objective)
    if found.best.quality < wanted:
        task.say(f"search: more than {request.points:g} points are lost without a bound on {objective}, too")
        low = high
    for step in range(STEPS):
        if high - low <= 1:
            break
        bound = (low + high) / 2
        try:
            other = attempt(bound, f"-min{step}")
        except OutOfTime:
            break
        except ConfigError:
            low = bound
            continue
        if other.best.quality >= wanted:
            found, high = other, min(bound, _value(task, meter, objective, other.best))
        else:
            low = bound
    if objective == "ram" and task.phases.seconds_left(request.seconds) != 0.0:
        problem = replace(task.problem, limit_bytes=int(high))
        with suppress(OutOfTime):
            found = replace(found, best=slimmed(problem, found.best, wanted))
        high = _value(task, meter, objective, found.best)
    what = "B of arena" if objective == "ram" else "us" if objective == "latency" else "B of flash"
    lost = f"with at most {request.points:g} points lost"
    further = "; what needs least is measured next" if task.measures else ""
    task.say(f"search: by estimates {task.strategy.name} needs {high:,.0f} {what} {lost}{further}")
    return found, high


def _wanted(task: Task) -> float:
    """The quality that an answer must have at least."""
    return task.problem.float_quality - task.request.points / 100


def _measured_least(
    task: Task, meters: Sequence[Meter], found: Found, objective: str, high: float
) -> tuple[Found, tuple[Measured, ...]]:
    """Of what was found with `high` as estimated, and others that are right often enough, what the board says takes
    least; where all exceed a limit, what is found when the board is asked whether that holds."""
    limits = task.request.limits
    bench = make_bench(task, TrialLog(None, task.problem.space, ""))
    trials = _least_trials(task, meters, found, objective, high)
    totals = [task.ram_bytes if task.whole else None]
    with task.phases.of(MEASURING):
        fitting = decide([bench], trials, totals, [limits])
        if objective == "ram" and task.whole:
            again = make_bench(task, TrialLog(None, task.problem.space, ""))
            with suppress(OutOfTime):
                fitting += decide([again], _in_less(task, trials, int(high)), totals, [limits])
    if fitting:
        answers = [(replace(found, best=best), measured) for best, measured in fitting]
        return min(answers, key=lambda answer: _order(objective, *answer))
    if objective == "ram":
        task = replace(task, arena_bytes=int(high))
    slacks = SLACKS if objective != "ram" else SLACKS[:1]
    for slack in slacks:
        try:
            tight = _with(limits, objective, high * slack)
            return searched_on_device(task, meters, [tight], [limits], f"-min{slack:g}")
        except ConfigError:  # measurements have made the bound infeasible
            if slack == slacks[-1]:
                raise
    raise AssertionError("the last slack returns or raises")


def _least_trials(task: Task, meters: Sequence[Meter], found: Found, objective: str, high: float) -> list[Trial]:
    """The answer, those trials that are estimated to need least of what is minimized and are good enough, and of what
    was profiled, in other searches, too, that which needs least, or what differs from it in one format and needs less,
    whatever estimates promise of others; of RAM, `high` of arena in mind, mixtures of two formats, too."""
    meter, wanted = meters[0] if meters else None, _wanted(task)
    if meter is not None and objective != "ram":
        meter.recall()

    def needs(trial: Trial) -> float:
        return _value(task, meter, objective, trial)

    good = [trial for trial in found.trials if trial.kind == "full" and trial.fits and trial.quality >= wanted]
    good.sort(key=lambda trial: (needs(trial), trial.rank))
    profiled = [unjudged(run.candidate) for run in meter.costs(Limits()).runs] if meter and objective != "ram" else []
    for one in sorted(profiled, key=needs)[:PROFILED]:
        task.problem.charge(1.0)
        trial = judged(task.problem, 0, one.candidate)
        if trial.fits and trial.quality >= wanted:
            assert meter is not None
            good.insert(0, _stepped_down(task, meter, objective, trial))
            break
    if objective == "ram" and task.whole:
        kinds: dict[Set[object], Trial] = {}
        for trial in good:  # of the same kernels the stack is as deep
            kinds.setdefault(kernels(task.problem.space.lower(trial.candidate)), trial)
            if len(kinds) == MOST_KINDS:
                break
        good = [*kinds.values(), *_mixtures_within(task, int(high), wanted)]
    else:
        good = good[:FITTING]
    return [*{trial.candidate: trial for trial in (found.best, *good)}.values()]


def _in_less(task: Task, trials: Sequence[Trial], arena_bytes: int) -> list[Trial]:
    """Those that are planned in less where they are to take so little, with more to be computed again."""
    tight = replace(task.problem, limit_bytes=arena_bytes)
    planned = [(trial, tight.planned_bytes(trial.candidate)) for trial in trials]
    return [
        replace(trial, ram_bytes=planned_bytes) for trial, planned_bytes in planned if planned_bytes < trial.ram_bytes
    ]


def _mixtures_within(task: Task, arena_bytes: int, wanted: float) -> list[Trial]:
    """Mixtures of two formats that are good enough: less may lie beside their arena. Of those that are not, what
    differs in one group, is, and takes no more."""
    tight = replace(task.problem, limit_bytes=arena_bytes)
    mixed = [trial for trial in trials_apart(task) if trial.fits]
    good = [trial for trial in mixed if trial.quality >= wanted]
    tried, left = {trial.candidate for trial in mixed}, MOST_NEIGHBOURS
    for trial in sorted(mixed, key=lambda trial: -trial.quality):
        for candidate in task.problem.space.neighbours(trial.candidate) if trial.quality < wanted else ():
            if left == 0 or task.phases.seconds_left(task.request.seconds) == 0.0:
                break
            if candidate not in tried and tight.fits(candidate):
                tried.add(candidate)
                left -= 1
                task.problem.charge(1.0)
                other = judged(tight, 0, candidate)
                if other.quality >= wanted:
                    good.append(other)
                    break
    return good


def _stepped_down(task: Task, meter: Meter, objective: str, trial: Trial) -> Trial:
    """The trial, or what needs less and is good enough, where there is time to measure that and then the answer."""
    left = task.phases.seconds_left(task.request.seconds)
    if left is not None and left < task.phases.slowest * (MOST_NEAR_FLASH + FITTING):
        return trial
    trials = {trial.candidate: trial}

    def is_good(candidate: Candidate) -> bool:
        task.problem.charge(1.0)
        found = trials[candidate] = judged(task.problem, 0, candidate)
        return found.fits and found.quality >= _wanted(task)

    return trials[stepped_down(meter, unbounded(objective), task.arena_bytes, trial.candidate, is_good)]


def _with(limits: Limits, objective: str, bound: float | None) -> Limits:
    """The limits and, on latency or flash, the bound where it is the tighter one."""
    if bound is None or objective == "ram":
        return limits
    if objective == "flash":
        return replace(limits, flash_bytes=int(min(bound, limits.flash_bytes or bound)))
    return replace(limits, latency_us=min(bound, limits.latency_us or bound))


def _value(task: Task, meter: Meter | None, objective: str, trial: Trial) -> float:
    if objective == "ram" or meter is None:
        return trial.ram_bytes + task.problem.beside_bytes(trial.candidate)
    return meter.costs(unbounded(objective)).value(trial.candidate)


def _least(task: Task, meter: Meter | None, objective: str) -> float:
    if objective == "ram" or meter is None:
        memory = task.problem.memory
        return memory.least_bytes() + task.problem.beside_bytes(memory.least())
    return least_of(meter, unbounded(objective), task.arena_bytes)[1]


def best_trials(found: Found, count: int) -> list[Trial]:
    """The answer and the best other trials that fit."""
    others = [trial for trial in found.trials if trial.kind == "full" and trial.fits and trial != found.best]
    return [found.best, *sorted(others, key=lambda trial: trial.rank)[: max(0, count - 1)]]
