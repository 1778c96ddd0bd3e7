"""One format for all tensors, every one on offer: what an answer is printed beside, and must not be dominated by."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import Any

from tinyhil.codegen.profile_calls import constant_bytes
from tinyhil.errors import BuildError, ConfigError, Infeasible, ModelError
from tinyhil.harness.search.again import Again
from tinyhil.harness.search.device import Bench, Measured, arena_bytes
from tinyhil.harness.search.first_answer import foresee, judged, trial_of
from tinyhil.harness.search.phases import OutOfTime
from tinyhil.harness.search.task import Task, make_bench, trial_log
from tinyhil.passes.stored import bytes_in_flash
from tinyhil.search.accelerator import AcceleratorCosts
from tinyhil.search.evaluator import Evaluator
from tinyhil.search.memory import AT_LEAST, priced, whole_bytes
from tinyhil.search.search_loop import Found
from tinyhil.search.sensitivity import sensitivities
from tinyhil.search.slim import ROUNDED
from tinyhil.search.space import Candidate, Choice
from tinyhil.search.trial import Trial, TrialLog

MIXED = "a mixture"
MIXTURES = ", --minimize ram, which says what mixtures take,"
MOST_SCHEDULES = 6  # that are measured to see with which an image takes least
ORDERS = {"ram": (0, 1, 2), "latency": (1, 0, 2), "flash": (2, 0, 1)}  # of RAM, latency and flash


@dataclass(frozen=True, slots=True)
class Uniform:
    """`trial` None: `reason` says why no program of this format can be. `measured`: one of each board, in the order of
    the task's sides, None for `reason`; empty without a board."""

    format: str
    trial: Trial | None
    measured: tuple[Measured | None, ...] = ()
    reason: str = ""

    @property
    def on_all(self) -> tuple[Measured, ...]:
        """What every board said; empty if one did not, or there is none."""
        found = tuple(one for one in self.measured if one is not None)
        return found if len(found) == len(self.measured) else ()


def uniforms(task: Task) -> tuple[Uniform, ...]:
    """Every format on offer, evaluated on all samples and, where the board counts, measured on it; where `--seconds`
    are over, those up to the first answer, and OutOfTime before anything is built."""
    log = trial_log(task, f"uniform/{task.stem(task.ram_bytes)}")
    known = {trial.number: trial for trial in log.read()}
    log.start(list(known.values()))
    found: list[Uniform] = []
    names = task.problem.space.formats
    for at, name in enumerate(names):
        try:
            one = _evaluated(task, log, known.get(at), at, name)
        except OutOfTime:
            task.say(f"search: --seconds were over before {', '.join(names[at:])} for all tensors")
            break
        found.append(one if task.measures else _with_first_answer(task, one))
        if task.measures and one.trial is not None:
            foresee(task, one.trial)
    task.phases.judged = True
    if not task.measures:
        return tuple(found)
    return tuple(_with_first_answer(task, _measured_in_time(task, log, one)) for one in found)


def _measured_in_time(task: Task, log: TrialLog, one: Uniform) -> Uniform:
    """OutOfTime where `--seconds` are over."""
    if one.trial is None:
        return one
    if task.phases.seconds_left(task.request.seconds) == 0.0:
        raise OutOfTime
    return measured_on(task, log, one)


def _with_first_answer(task: Task, one: Uniform) -> Uniform:
    """A first answer, if it keeps the limits; known where somebody interrupts, too."""
    task.phases.beside.append(one)
    if one.trial is not None and len(one.on_all) == len(one.measured) and keeps(task, one):
        task.phases.held(one.trial, one.on_all)
        task.progress(one.trial, task.phases.best)
    elif one.trial is not None and one.trial is task.phases.best:  # foreseen to fit
        task.phases.failed()
    return one


def beside_answer(task: Task, names: Sequence[str], found: Found | None) -> tuple[Uniform, ...]:
    """More formats, each for all tensors, that could be the answer instead of what the search has found: only where one
    differs less from float, or what is minimized may be less, is it measured on the board; without `found` none is."""
    log = TrialLog(None, task.problem.space, "")
    rows = []
    for number, name in enumerate(names):
        with task.phases.of(f"evaluating {name} for all tensors"):
            one = _evaluated(task, log, None, number, name)
        trial = one.trial
        if trial is not None and task.measures and found is not None:
            fewer = trial.score.disagreements <= found.best.score.disagreements
            if trial.fits and (fewer or task.request.minimize is not None):
                one = measured_on(task, log, one)
        rows.append(one)
    return tuple(rows)


def first_answers(task: Task, names: Sequence[str]) -> tuple[Uniform, ...]:
    """More formats for all tensors, each measured: first answers, where they keep the limits."""
    log = TrialLog(None, task.problem.space, "")
    evaluated = (_evaluated(task, log, None, number, name) for number, name in enumerate(names))
    return tuple(_with_first_answer(task, _measured_in_time(task, log, one)) for one in evaluated)


def _evaluated(task: Task, log: TrialLog, trial: Trial | None, number: int, name: str) -> Uniform:
    """`trial`: of an earlier run."""
    try:
        if trial is None:
            trial = trial_of(task.problem, number, name)
            log.add(trial)
    except ModelError as error:
        return Uniform(name, None, reason=str(error))
    return Uniform(name, trial)


def measured_on(task: Task, log: TrialLog, uniform: Uniform) -> Uniform:
    """With what every board says of it, or why one does not."""
    assert uniform.trial is not None
    found: list[Measured | None] = []
    reason = ""
    with task.phases.asking():
        for side in task.sides:
            try:
                found.append(known := make_bench(side, log).measure(uniform.trial))
                task.phases.shown(known.latency_us, known.flash_bytes)
            except BuildError as error:
                found.append(None)
                reason = reason or str(error)
    return replace(uniform, measured=tuple(found), reason=reason)


def arena_limits(task: Task, found: Sequence[Uniform]) -> tuple[int, ...]:
    """`arena_limit` of every board."""
    return tuple(
        arena_limit(side, [(one.trial, one.measured[at] if one.measured else None, one.reason) for one in found])
        for at, side in enumerate(task.sides)
    )


Side = tuple[Trial | None, Measured | None, str]  # one format on one board, and the reason why it is not


def arena_limit(task: Task, found: Sequence[Side]) -> int:
    """What of the limit of RAM is the arena's: all of it, or what is left beside static data and stack, which the
    narrowest format that fits the board shows there, of weights alone if need be. ConfigError if that is not enough.
    BuildError, ConfigError or Infeasible if none is known or left."""
    if not task.whole:
        return task.ram_bytes
    assert task.board is not None
    problem, chip = task.problem, task.board.chip
    measured = [(trial, known) for trial, known, _ in found if trial is not None and known is not None]
    measured = measured or [_of_another(task, [reason for _, _, reason in found if reason])]
    trial, narrowest = min(measured, key=lambda pair: pair[0].ram_bytes + problem.beside_bytes(pair[0].candidate))
    if narrowest.total_bytes is None:
        raise ConfigError(f"search: {narrowest.board} can not measure its stack; give --arena BYTES, or another board")
    wider = problem.beside_bytes(trial.candidate)  # the input's buffers, which the limit counts apart
    beside, static = (n - narrowest.arena_bytes - wider for n in (narrowest.total_bytes, narrowest.static_bytes))
    limit = min(task.ram_bytes - beside, (chip.static_ram_bytes or 0) - static)
    if limit < problem.memory.planned_bytes(trial.candidate, limit - wider) + wider:
        fewest, first = problem.memory.fewest_bytes(trial.candidate) + wider, trial.candidate[0].format
        total, arena, name = _least_of_all(task, first) or (beside + fewest, fewest, first)
        if total <= task.ram_bytes:
            return arena
        is_there = total <= (chip.ram_bytes or total)
        mixes = task.request.minimize != "ram" and len(problem.space.formats) > 1
        remedy = (
            f"try --ram {total}{MIXTURES if mixes else ''} or --arena for the arena alone"
            if is_there
            else "choose a board with more RAM"
        )
        raise Infeasible(
            f"search: {task.ram_bytes} B of RAM in all hold no format for all tensors on {task.board.name}: "
            f"{total - arena} B of stack and static data and {arena} B of arena are the least of one ({name})"
            f"{whole_bytes(problem.space)}; {remedy}{at_any_price(task, total)}",
            ("--ram", total) if is_there else None,
        )
    return limit


def at_any_price(task: Task, least_bytes: int) -> str:
    """What a refusal that names `least_bytes` says of a format for all tensors that keeps the limit, or takes least, in
    more time than is permitted, by measurement: what takes the least arena may need more stack. Empty if none takes
    less."""
    memory, found = task.problem.memory, list[tuple[int, str, str]]()
    if task.board is None or memory.at_any_price is None or not isinstance(memory.again, Again):
        return ""
    most = task.board.chip.ram_bytes
    for name in task.problem.space.formats:
        with suppress(ModelError):
            found += [one for one in _in_more_time(task, memory.again, name) if most is None or one[0] <= most]
    return priced(found, task.ram_bytes, least_bytes, " B")


def _in_more_time(task: Task, again: Again, name: str) -> Iterator[tuple[int, str, str]]:
    """The format for all tensors in plans that take more time than is permitted, the fastest first, until the limit is
    kept: bytes of RAM in all, the format, and the option that permits it."""
    candidate = task.problem.space.uniform(Choice(name))
    free = task.problem.memory.at_price(replace(again, more_time=math.inf))
    permitted, program = task.problem.memory.fewest_bytes(candidate), task.problem.space.lower(candidate)
    slower = [arena for arena in free.arenas(candidate) if arena < permitted]
    for arena in slower[-MOST_SCHEDULES:]:
        problem = replace(task.problem, memory=free, limit_bytes=arena + task.problem.beside_bytes(candidate))
        bench = make_bench(replace(task, problem=problem), TrialLog(None, task.problem.space, ""))
        few = replace(bench, x=bench.x[:1], y=None if bench.y is None else bench.y[:1])
        with suppress(BuildError):
            total = few.measure(trial_of(problem, 0, name)).total_bytes
            if total is not None:
                percent = math.ceil(100 * again.costs(program, arena))
                yield total, name, AT_LEAST if arena == slower[-1] else f"--more-time {percent}"
                if total <= task.ram_bytes:
                    return


def _least_of_all(task: Task, first: str) -> tuple[int, int, str] | None:
    """Bytes of RAM in all, and of arena with the input's buffers, of the format for all tensors that needs least, by
    measurement, with its name: that of the smallest arena, `first`, may need more beside it. Of the first that keeps
    the limit, if one does; None where none runs."""
    found = None
    for one in smallest_of_each(task, (first, *(name for name in task.problem.space.formats if name != first))):
        assert one.trial is not None
        total = one.on_all[0].total_bytes or 0
        if found is None or total < found[0]:
            found = total, one.trial.ram_bytes + task.problem.beside_bytes(one.trial.candidate), one.format
        if found[0] <= task.ram_bytes:
            break
    return found


def _of_another(side: Task, reasons: Sequence[str]) -> tuple[Trial, Measured]:
    """Where no format for all tensors fits the board as it is planned: weights in a format of their own, else what is
    made again in less RAM, else the smallest mixture of two formats. BuildError with the first of the `reasons` if none
    of these fits."""
    try:
        return narrow_weights(side, reasons)
    except BuildError:
        for one in smallest_of_each(side, side.problem.space.formats):
            if one.trial is not None:
                return one.trial, one.on_all[0]
        if "RAM" not in reasons[0]:  # but flash: of that another search is made
            raise
        mixed = min(mixtures(side), key=lambda one: one.on_all[0].total_bytes or 0, default=None)
        if mixed is not None and mixed.trial is not None:
            return mixed.trial, mixed.on_all[0]
        if side.request.computes_again:
            say = "search: --more-time PERCENT permits more products to be computed again, which takes less RAM"
            side.say(f"{say}; now {side.request.more_time:g}")
        raise


def narrow_weights(side: Task, reasons: Sequence[str]) -> tuple[Trial, Measured]:
    """Of the formats on offer for weights alone, that of the fewest bytes that the board takes, beside the narrowest
    for all else; a first answer, if it keeps the limits. BuildError with why the narrowest does not fit, else the first
    of the `reasons`, if there is none."""
    space, problem = side.problem.space, side.problem
    sizes: list[tuple[int, Candidate]] = []
    for name in space.weights:
        with suppress(ModelError):
            candidate = space.weighing(name, space.low)
            sizes.append((constant_bytes(space.lower(candidate)), candidate))
    why = ""
    for _, candidate in sorted(sizes, key=itemgetter(0)):
        trial = judged(problem, 0, candidate)
        try:
            known = make_bench(side, TrialLog(None, space, "")).measure(trial)
        except BuildError as error:
            why = why or str(error)
            continue
        if not side.request.also and keeps_on(side, trial, known):
            side.phases.held(trial, (known,))
            side.progress(trial, side.phases.best)
        return trial, known
    raise BuildError(why or reasons[0])


def smallest_of_each(task: Task, names: Sequence[str]) -> Iterator[Uniform]:
    """These formats, each for all tensors, as the first board needs least RAM in all: that of the smallest arena may
    need more stack. Not those that can not be, or fit no board."""
    for _, schedules in groupby(schedules_of_each(task, names), attrgetter("format")):
        yield min(schedules, key=lambda one: one.on_all[0].total_bytes or 0)


def trials_apart(task: Task) -> Iterator[Trial]:
    """Mixtures of two formats, constants or biases in one of their own, on all samples. Not those that can not be."""
    for number, candidate in enumerate(task.problem.space.apart()):
        with suppress(ModelError):
            trial = judged(task.problem, number, candidate)
            task.problem.charge(1.0)
            yield trial


def mixtures(task: Task) -> Iterator[Uniform]:
    """The same as every board has them. Not those that fit no board."""
    for trial in trials_apart(task):
        benches = [make_bench(side, TrialLog(None, task.problem.space, "")) for side in task.sides]
        with suppress(BuildError):
            yield Uniform(MIXED, trial, tuple(bench.measure(trial) for bench in benches))


def schedules_of_each(task: Task, names: Sequence[str], latency_us: float = math.inf) -> Iterator[Uniform]:
    """These formats, each for all tensors, measured as they are planned, then in ever less RAM: what takes less of it
    may be faster, too. Not those that can not be, fit no board, or take longer for one of the samples."""
    space, memory = task.problem.space, task.problem.memory
    for number, name in enumerate(names):
        candidate = space.uniform(Choice(name))
        with suppress(ModelError):
            for arena in [*memory.arenas(candidate)][-MOST_SCHEDULES:]:
                limit = arena + task.problem.beside_bytes(candidate)
                trial = trial_of(replace(task.problem, limit_bytes=limit), number, name)
                benches = [make_bench(side, TrialLog(None, space, "")) for side in task.sides]
                with suppress(BuildError):
                    if latency_us == math.inf or all(_of_first(bench, trial) <= latency_us for bench in benches):
                        yield Uniform(name, trial, tuple(bench.measure(trial) for bench in benches))


def fast_in_arena(task: Task, name: str) -> tuple[Task, Uniform] | None:
    """The format for all tensors, planned for time with the sample in the arena, in ever less of it until the board's
    limit of RAM is kept, with the task by which it is planned. None where it can not be, or fits no board."""
    arena = task.arena_bytes
    with suppress(ModelError, BuildError):
        trial = trial_of(task.problem, 0, name)
        for _ in range(MOST_SCHEDULES):
            within = replace(task, fast_within=arena)
            known = make_bench(within, TrialLog(None, task.problem.space, "")).measure(trial)
            over = (known.total_bytes or 0) - task.ram_bytes
            if over <= 0:
                trial = replace(trial, ram_bytes=known.arena_bytes, fits=True)
                return replace(task, fast_within=known.arena_bytes), Uniform(name, trial, (known,))
            arena = max(1, min(arena, known.arena_bytes) - over)
    return None


def _of_first(bench: Bench, trial: Trial) -> float:
    """Microseconds of the first sample, which the worst can not undercut."""
    one = replace(bench, x=bench.x[:1], y=None if bench.y is None else bench.y[:1])
    found = replace(one, log=TrialLog(None, bench.space, "")).measure(trial).latency_us
    return 0.0 if found is None else found


def undominated(
    task: Task, found: Found, measured: tuple[Measured, ...], others: Sequence[Uniform], name: str = ""
) -> tuple[Found, tuple[Measured, ...]]:
    """The answer, or a uniform format that keeps the limits and is no worse: by the objective if there is one, then
    RAM, latency and flash, then disagreements; else by disagreements, then these, what is limited first, then the
    outputs' error. `name`: what the others are, where they are no uniform formats."""
    objective = task.request.minimize
    wanted = task.problem.float_quality - task.request.points / 100
    enough = found.best.quality >= wanted - ROUNDED
    limited = ORDERS[_limited(task)] if measured else ORDERS["ram"]

    def key(trial: Trial, known: tuple[Measured, ...]) -> tuple[float, ...]:
        needs = _resources(task, trial, known if measured else ())
        if objective is None or not enough:
            in_order = (needs[board + place] for board in range(0, len(needs), 3) for place in limited)
            return (trial.score.disagreements, *in_order, trial.score.loss)
        return (*(needs[place] for place in ORDERS[objective]), trial.score.disagreements)

    best, what = (key(found.best, measured), found.best, measured), ""
    for other in others:
        trial = other.trial
        if trial is None or (measured and not other.on_all) or not keeps(task, other):
            continue
        good = objective is None or not enough or trial.quality >= wanted - ROUNDED
        if good and (own := key(trial, other.on_all)) <= best[0]:
            best, what = (own, trial, other.on_all), name or f"{other.format} for all tensors"
    if best[1].candidate != found.best.candidate:
        chosen = f"{found.best.ram_bytes} B of arena, {found.best.score.disagreements} differ"
        task.say(f"search: the answer is {what}: no worse than what the search had chosen ({chosen})")
    elif best[1].ram_bytes == found.best.ram_bytes:
        return found, best[2]
    return replace(found, best=best[1]), best[2]


def _limited(task: Task) -> str:
    """What counts first of equals: what somebody has limited; RAM, where that is among them."""
    request = task.request
    if request.ram is not None or request.arena is not None or not request.limits:
        return "ram"
    return "flash" if request.limits.latency_us is None else "latency"


def say_simpler(task: Task, best: Trial, measured: tuple[Measured, ...], others: Sequence[Uniform]) -> None:
    """Where the answer is before a uniform format for its RAM alone, which the limits leave open."""
    if task.request.minimize is not None or task.request.own or len(measured) != 1:
        return
    (_, latency, flash) = measured[0].needs
    for other in others:
        if other.trial is None or not other.on_all or other.trial.candidate == best.candidate or not keeps(task, other):
            continue
        (_, its_latency, its_flash) = other.on_all[0].needs
        if other.trial.score.disagreements <= best.score.disagreements and its_latency < latency and its_flash < flash:
            faster, smaller = 100 * (1 - its_latency / latency), 100 * (1 - its_flash / flash)
            task.say(
                f"search: {other.format} for all tensors takes more RAM, within the limits, {faster:.0f} % less time, "
                f"{smaller:.0f} % less flash, and no more of the samples searched differ: if that counts for you, "
                "--minimize latency"
            )
            return


def uniform_instead(
    task: Task, others: Sequence[Uniform], why: str = "no other assignment was found within the limits"
) -> tuple[Found, tuple[Measured, ...]] | None:
    """Where a search gave up, the best uniform format that keeps the limits, by measurement where boards count: stacks
    differ between assignments, so that its arena may be larger than what another one would leave. `why`: it is said."""
    known = (one for one in others if one.on_all or not task.measures)
    fitting = [(one.trial.rank, one.trial, one) for one in known if one.trial and keeps(task, one)]
    if not fitting:
        return None
    _, trial, best = min(fitting, key=lambda each: each[0])
    task.say(f"search: {why}; {best.format}{'' if best.format == MIXED else ' for all tensors'} keeps them")
    return Found(trial, (trial,), 0.0, 0.0, True), best.on_all


def keeps(task: Task, other: Uniform) -> bool:
    """Whether it keeps to the limits of all boards, by measurement where there is one."""
    trial = other.trial
    if trial is None or (other.measured and not other.on_all):  # a board takes no such image
        return False
    pairs = zip(task.sides, other.measured or (None,) * len(task.sides), strict=True)
    return all(keeps_on(side, trial, known) for side, known in pairs)


def keeps_on(task: Task, trial: Trial, known: Measured | None) -> bool:
    """Whether it keeps to the limits of the task's first board, as that has said or, of RAM alone, by its plan."""
    if known is None:
        return task.problem.fits(trial.candidate)
    need = known.total_bytes if task.whole else trial.ram_bytes
    return (need or 0) <= task.ram_bytes and known.keeps(task.request.limits)


def _resources(task: Task, trial: Trial, measured: Sequence[Measured]) -> tuple[float, ...]:
    """RAM, latency and flash of each board, if they were measured; else arena and input, and bytes of constants."""
    if measured:
        return tuple(number for one in measured for number in one.needs)
    program = task.problem.space.lower(trial.candidate)
    constants = sum(bytes_in_flash(program.tensors[name]) for name in program.constants)
    return trial.ram_bytes + program.tensors[program.input].size_bytes, 0, constants


def held_out(task: Task, candidate: Candidate) -> dict[str, Any]:
    """Figures on the samples that no search has looked at."""
    space = task.problem.space
    examples = task.split.held_out(space.graph)
    score = Evaluator(task.problem.evaluator.executor, examples).score(space.lower(candidate))
    return {
        "accuracy": None if score.correct is None else score.correct / score.samples,
        "float_accuracy": examples.float_accuracy,
        "disagreements": score.disagreements,
        "samples": score.samples,
        "saturations": score.saturations,
    }


def as_records(task: Task, found: Sequence[Uniform]) -> list[dict[str, Any]]:
    """For the record, and the table beside the answer."""
    records = []
    for one in found:
        record: dict[str, Any] = {"format": one.format, "reason": one.reason or None}
        if one.trial is not None:
            figures, known = held_out(task, one.trial.candidate), one.measured
            board = known[0] if known else None
            less = replace(task, fast_within=None).wish(one.trial).arena_bytes is not None
            record |= {"arena_bytes": arena_bytes(one.trial, known), "keeps_limits": keeps(task, one), "less_ram": less}
            record["quality"] = one.trial.quality  # on the search's samples
            record["searched_disagreements"] = one.trial.score.disagreements
            record |= {name: figures[name] for name in ("accuracy", "disagreements")}
            record |= {
                "ram_bytes": None if board is None else board.total_bytes,
                "latency_us": None if board is None else board.latency_us,
                "flash_bytes": None if board is None else board.flash_bytes,
            }
            if len(known) > 1:
                record["boards"] = [None if board is None else board.as_json() for board in known]
            costs = task.problem.costs
            cost = costs.cost(one.trial.candidate) if isinstance(costs, AcceleratorCosts) else None
            if cost is not None:
                record |= {"latency_us": cost.latency_us, "energy_uj": cost.energy_uj, "crossbars": cost.crossbars}
        records.append(record)
    return records


def sensitivity_of(task: Task, *, ask: bool = True) -> dict[str, Any]:
    """What each tensor alone costs in each choice, for the record; only what is known unless to `ask`."""
    with task.phases.of("measuring sensitivities"):
        return asdict(sensitivities(task.problem, ask=ask))
