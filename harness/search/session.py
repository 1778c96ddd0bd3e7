"""`hil search`: widths found on training data under limits, reported on data that the search has not seen."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, is_dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import filelock

from tinyhil.errors import BuildError, Infeasible
from tinyhil.harness.build.image import Image
from tinyhil.harness.measure.record import here
from tinyhil.harness.records.search_schema import MIXTURE
from tinyhil.harness.records.verdict import collapsed
from tinyhil.harness.search.board_fit import ram_of, require_fit
from tinyhil.harness.search.device import Measured, arena_bytes
from tinyhil.harness.search.earlier import with_earlier
from tinyhil.harness.search.feasible import anchored
from tinyhil.harness.search.first_answer import TooLate, look
from tinyhil.harness.search.late import best_so_far, left, profiled_instead
from tinyhil.harness.search.least_ram import in_a_mixture, least_ram
from tinyhil.harness.search.offering import (
    scheduled_instead,
    together,
    together_first,
    untried,
    with_all_offers,
    with_weights,
)
from tinyhil.harness.search.pareto import ParetoOutcome, Sweep, front_of, swept_over
from tinyhil.harness.search.phases import ANSWER, PROFILING, SCHEDULES, OutOfTime, began
from tinyhil.harness.search.replanned import at_their_least, relaxed, say_what_takes_less, within_limit
from tinyhil.harness.search.request import SearchRequest
from tinyhil.harness.search.resource_limits import Meter, as_tried, limited, make_meters
from tinyhil.harness.search.rounds import minimized, search_once, searched_on_device
from tinyhil.harness.search.splits import as_named
from tinyhil.harness.search.task import (
    Progress,
    Task,
    load_task,
    make_bench,
    replace_text,
    write_assignment,
)
from tinyhil.harness.search.unasked import with_unasked
from tinyhil.harness.search.uniform import (
    Uniform,
    arena_limits,
    as_records,
    held_out,
    mixtures,
    say_simpler,
    sensitivity_of,
    undominated,
    uniform_instead,
    uniforms,
)
from tinyhil.harness.search.workers import helped
from tinyhil.harness.settings.config import Boards
from tinyhil.notice import WARNING, Say
from tinyhil.search.accelerator import AcceleratorCosts
from tinyhil.search.memory import UNLIMITED
from tinyhil.search.search_loop import Found
from tinyhil.search.space import Candidate, Space
from tinyhil.search.trial import Trial, TrialLog, writing_into

__all__ = ["SearchOutcome", "SearchRequest", "run_search", "write_assignment"]


@dataclass(frozen=True, slots=True)
class SearchOutcome:
    """The search, and the final figures on held-out data. `measured`: of each board that was asked."""

    request: SearchRequest
    space: Space
    found: Found
    search_samples: int
    search_float_accuracy: float | None
    record: dict[str, Any]
    measured: tuple[Measured, ...]


Made = TypeVar("Made", SearchOutcome, ParetoOutcome)


def run_search(
    request: SearchRequest, cache_dir: Path, say: Say, progress: Progress, boards: Boards | None = None
) -> SearchOutcome:
    """Search, measure on the board if asked, evaluate on held-out data, write the assignment and the record."""
    return _outcome(_searched, request, cache_dir, say, progress, boards)


def run_pareto(
    request: SearchRequest, cache_dir: Path, say: Say, progress: Progress, boards: Boards | None = None
) -> ParetoOutcome:
    """Sweep the limits, measure the front on the board if one is named, write an assignment for every point."""
    return _outcome(_swept, request, cache_dir, say, progress, boards)


def _outcome(
    find: Callable[[Task], Made],
    request: SearchRequest,
    cache_dir: Path,
    say: Say,
    progress: Progress,
    boards: Boards | None,
) -> Made:
    since = began()

    def attempt(wanted: SearchRequest) -> Made:
        task = load_task(wanted, cache_dir, say, progress, boards, since, look)
        with _alone(task), helped(task) as shared:
            return find(shared)

    request.check()
    outcome = with_all_offers(request, boards, attempt, say)
    if request.plot is not None:
        from tinyhil.harness.search.plot import plot_search

        plot_search(outcome.record, outcome.search_float_accuracy, request.plot)
    return outcome


def _swept(task: Task) -> ParetoOutcome:
    """The front; of the best answer alone where the time is over before limits are swept over."""
    beside: tuple[Uniform, ...] = ()
    interrupted = False
    try:
        with task.phases.within(task.request.seconds):
            task.phases.press()
            task, meters, beside = prepared(task)
            found = swept_over(task, meters)
    except (KeyboardInterrupt, OutOfTime):
        found, interrupted = Sweep(task, ()), True
    if not found.answers and (interrupted or task.phases.is_over(task.request.seconds)):
        task, best = left(task)
        found = Sweep(task, ())
        found.hold((), best, [side.arena_bytes for side in task.sides])
    return front_of(found, beside)


@contextmanager
def _alone(task: Task) -> Iterator[None]:
    """One at a time writes these trials: another with the same questions waits, then goes on with them as they are."""
    lock = filelock.FileLock(task.folder / f"{task.stem(task.ram_bytes)}.lock")
    with writing_into(task.folder):
        task.folder.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire(timeout=0)
        except filelock.Timeout:
            task.say(f"search: another one with the same questions is under way ({lock.lock_file}); waiting for it")
            lock.acquire()
    try:
        yield
    finally:
        lock.release()


def prepared(task: Task) -> tuple[Task, tuple[Meter, ...], tuple[Uniform, ...]]:
    """The task with the limits of its arenas, what was profiled for costs, and every uniform format."""
    with task.phases.of("evaluating one format for all tensors"):
        own = uniforms(task)
        beside = (*own, *together_first(task, own))
        task = with_weights(task, own)
        task = limited(task, arena_limits(task, own))
    if not task.request.costs:
        return task, (), beside
    with task.phases.of(PROFILING):
        return task, make_meters(task), beside


def _searched(task: Task) -> SearchOutcome:
    request = task.request
    meters: tuple[Meter, ...] = ()
    beside: tuple[Uniform, ...] = ()
    interrupted = False
    try:
        with task.phases.within(request.seconds):
            task.phases.press()
            task, meters, beside = prepared(task)
            found, measured = _find(task, meters)
    except Infeasible as error:
        beside = beside or tuple(task.phases.beside)
        task, instead = (task, None) if task.accelerated and request.own else _instead(task, beside, error)
        if instead is None and isinstance(error, TooLate):
            instead = profiled_instead(task)
        if instead is None:
            raise
        found, measured = instead
    except (KeyboardInterrupt, OutOfTime):
        interrupted = True
        task, found, measured, known = best_so_far(task)
        beside = beside or known
    own, found, measured, beside, over = _held_to_others(task, meters, found, measured, beside, interrupted=interrupted)
    replaced = None if request.own or found.best.candidate == own.candidate else own
    found, measured = with_earlier(task, found, measured, is_over=over)
    say_simpler(task, found.best, measured, beside)
    if not over:
        task.phases.in_time(request.seconds, partial(say_what_takes_less, task, found.best, measured))
        task.phases.in_time(request.seconds, partial(_profile, meters, found.best.candidate))
    with task.phases.of("evaluating held-out samples"):
        record = _record(task, found, measured)
        record["uniform"] = as_records(task, beside)
    if alike := _undecided(record):
        task.say(f"{WARNING}{alike}")
    if lost := collapsed(record):
        task.say(
            f"{WARNING}on held-out samples {lost}: a run of it is degraded; raise a limit, or offer other --formats"
        )
    record["replaced"] = None if replaced is None else _replaced(task, replaced, found.best)
    record["held_out_latency_us"] = None if over or not measured else _held_out_latency_us(task, found.best)
    record["sensitivity"] = sensitivity_of(task, ask=not over)
    record["tried"] = as_tried(found.trials, meters[0].costs(request.limits) if meters else None)
    stem = task.stem(task.ram_bytes)
    out = request.out or task.folder / f"{stem}.yaml"
    wish = task.wish(found.best)
    record["less_ram"] = wish.arena_bytes is not None
    write_assignment(out, task.problem.space, found.best, wish)
    record["assignment_file"] = str(out)
    built, over_limit = _built(task, found.best, measured, out) if task.board is not None else ({}, "")
    record |= built
    record |= {"phases": task.phases.as_json(), "first_answer": task.phases.first_answer}
    replace_text(task.folder / f"{stem}.json", json.dumps(record, indent=1) + "\n")
    if over_limit:
        raise TooLate(over_limit)
    examples = task.problem.evaluator.examples
    return SearchOutcome(request, task.problem.space, found, len(examples), examples.float_accuracy, record, measured)


def _profile(meters: Sequence[Meter], candidate: Candidate) -> None:
    """For later searches: none refuses a limit that this answer keeps."""
    for meter in meters:
        meter.next_phase()
        meter.measure(candidate)


def _instead(
    task: Task, beside: tuple[Uniform, ...], error: Infeasible
) -> tuple[Task, tuple[Found, tuple[Measured, ...]] | None]:
    """Where nothing that was searched keeps the limits: a format for all tensors, a mixture of two where RAM is
    limited, or another schedule, with the task by which it is planned; None if there is none. Infeasible if less RAM
    was found to do than the `error` says, which an accelerator's strategy may have, that holds layers to a format."""
    instead = uniform_instead(task, beside, str(error)) if task.accelerated else uniform_instead(task, beside)
    least = None
    if instead is None and task.whole and task.measures and task.request.minimize is None:
        with task.phases.of(SCHEDULES):
            mixed = task.phases.in_time(task.request.seconds, lambda: [*mixtures(task)]) or []
        instead = uniform_instead(task, mixed)
        if instead is None:
            instead, least = least_ram(task, beside, mixed)
    if instead is not None:
        return task, instead
    task, instead = scheduled_instead(task)
    if instead is None and least is not None:
        raise in_a_mixture(error, least)
    return task, instead


def _held_to_others(
    task: Task,
    meters: Sequence[Meter],
    found: Found,
    measured: tuple[Measured, ...],
    beside: tuple[Uniform, ...],
    *,
    interrupted: bool,
) -> tuple[Trial, Found, tuple[Measured, ...], tuple[Uniform, ...], bool]:
    """The strategy's own answer; that or, without `--own`, a format for all tensors or a mixture that is no worse, with
    what boards have said of it; every format for all tensors that was judged; whether no time is left, or somebody
    interrupted."""
    over = interrupted or task.phases.seconds_left(task.request.seconds) == 0.0
    own = found.best
    try:
        if not over:
            found, measured, beside = _beside_others(task, found, measured, beside)
            own = found.best
        if names := untried(task, beside):
            task.say(
                f"search: no time was left for {', '.join(names)} for all tensors: raise --seconds, or `hil run` it"
            )
        if not task.request.own:
            found, measured = undominated(task, found, measured, beside)
        if not over:
            with task.phases.of(ANSWER):
                found, measured = with_unasked(task, meters, found, measured)
    except KeyboardInterrupt:
        over = True
        task.say("search: interrupted; the answer has not been held to all others; the same command does")
    return own, found, measured, beside, over


def _beside_others(
    task: Task, found: Found, measured: tuple[Measured, ...], beside: tuple[Uniform, ...]
) -> tuple[Found, tuple[Measured, ...], tuple[Uniform, ...]]:
    """The answer as the board's RAM leaves it room, and every format that could be one instead, as far as time goes."""
    seconds = task.request.seconds
    with task.phases.of(ANSWER):
        beside = (*beside, *(task.phases.in_time(seconds, partial(together, task, found, beside)) or ()))
        relax = partial(relaxed, task, found, measured)
        found, measured = task.phases.in_time(seconds, relax) or (found, measured)
        beside = task.phases.in_time(seconds, partial(within_limit, task, beside, found.best)) or beside
        beside = task.phases.in_time(seconds, partial(at_their_least, task, beside)) or beside
    return found, measured, beside


def _undecided(record: dict[str, Any]) -> str:
    """Formats of which the samples searched tell none from another, as those do not that a model was trained on; empty
    where these are fewer than two, or the answer differs from them."""
    rows = [row for row in record["uniform"] if not row.get("reason") and not row["searched_disagreements"]]
    if len(rows) < 2 or record["search"]["disagreements"]:
        return ""
    text = f"no sample of {record['search']['samples']:,} searched tells {' from '.join(row['format'] for row in rows)}"
    if len({row["disagreements"] for row in rows}) > 1:
        return f"{text}, samples held out do: search more or others as --inputs than the model was trained on"
    return f"{text}: search more of them, or others as --inputs if the model was trained on them"


def _replaced(task: Task, own: Trial, best: Trial) -> dict[str, Any]:
    """The strategy's own answer, where a format for all tensors is no worse, or a mixture is better."""
    written, formats = task.problem.space.assignment(own.candidate), {choice.format for choice in best.candidate}
    return {
        "by": MIXTURE if len(formats) > 1 else best.candidate[0].format,
        "arena_bytes": own.ram_bytes,
        "disagreements": own.score.disagreements,
        "error": own.score.loss,
        "default": written.default,
        "formats": dict(written.values),
    }


def _held_out_latency_us(task: Task, best: Trial) -> float | None:
    """Of samples that the search has not seen, on the first board; None where latency does not count, or it fails."""
    if task.request.latency_us is None and task.request.minimize != "latency":
        return None
    split = task.split.reported_on(task.timed_samples)
    labels = None if split.y_held_out is None else as_named(split.y_held_out, task.opened.model.classes)
    bench = replace(make_bench(task, TrialLog(None, task.problem.space, "")), x=split.x_held_out, y=labels)
    with task.phases.of("measuring held-out samples"), suppress(BuildError):
        return bench.measure(best).latency_us
    return None


def _built(task: Task, best: Trial, measured: Sequence[Measured], assignment: Path) -> tuple[dict[str, int], str]:
    """Flash and RAM of the first board's image, as far as there is time to build it and nothing was measured; and
    which board's limit of RAM the answer of an interrupted search does not keep."""
    build = partial(_images, task, best, assignment)
    with task.phases.of("building the firmware"):
        images = task.phases.in_time(task.request.seconds, build)
    if not images:
        if not measured:
            task.say(
                "search: no time is left to build the firmware; `hil run --assignment` does, and says what it takes"
            )
        return {}, ""
    found, over = {"flash_bytes": images[0].flash_bytes}, ""
    for side, image in zip(task.sides, images, strict=True) if not measured else ():
        needed = ram_of(side, image)
        if needed is not None and side is task.sides[0]:
            found["ram_bytes"] = needed
        if needed is not None and side.whole and needed > side.ram_bytes and not over:
            over = (
                f"search: the best so far needs {needed} B of RAM of {side.ram_bytes} B on {image.board}; it is in "
                f"{assignment}; the same command goes on with the search"
            )
    return found, over


def _images(task: Task, best: Trial, assignment: Path) -> list[Image]:
    return [require_fit(side, best, assignment) for side in task.sides]


def _find(task: Task, meters: Sequence[Meter]) -> tuple[Found, tuple[Measured, ...]]:
    request = task.request
    if request.minimize is not None:
        return minimized(task, meters, request.minimize)
    limits = [request.limits] * len(task.sides)
    if task.measures:
        return searched_on_device(task, meters, limits, limits)
    problem = anchored(task, meters, limits, [side.arena_bytes for side in task.sides])
    return search_once(task, problem, task.stem(task.ram_bytes), None), ()


def _accelerator(task: Task, candidate: Candidate) -> dict[str, Any]:
    """What the answer costs on an accelerator."""
    costs = task.problem.costs
    cost = costs.cost(candidate) if isinstance(costs, AcceleratorCosts) else None
    if cost is None or not isinstance(costs, AcceleratorCosts):
        return {}
    relative = costs.relative(cost)
    figures = {"energy_uj": cost.energy_uj, "power_mw": cost.power_mw, "crossbars": cost.crossbars}
    limits = {f"{name}_limit": value for name, value in costs.limits.asked() if name != "latency_us"}
    return {"latency_us": cost.latency_us, **figures, "cost": relative, **limits}


def _record(task: Task, found: Found, boards: tuple[Measured, ...]) -> dict[str, Any]:
    best, strategy = found.best, task.strategy
    measured = boards[0] if boards else None
    limit = task.ram_bytes if task.ram_bytes < UNLIMITED else None
    return {
        "strategy": strategy.name,
        "evaluations": round(task.phases.evaluations, 2),
        "seconds": round(task.phases.searching(), 3),
        "ram_bytes": None if measured is None else measured.total_bytes,
        "ram_limit_bytes": limit if task.whole else None,
        "arena_bytes": arena_bytes(best, boards),
        "arena_limit_bytes": None if task.whole else limit,
        "prefer": task.request.prefer if task.wish(best).arena_bytes is None else None,
        **held_out(task, best.candidate),
        "latency_us": None if measured is None else measured.latency_us,
        **_accelerator(task, best.candidate),
        "latency_limit_us": task.request.latency_us,
        "flash_bytes": None if measured is None else measured.flash_bytes,
        "flash_limit_bytes": task.request.flash,
        "search": {
            "samples": len(task.problem.evaluator.examples),
            "accuracy": best.accuracy,
            "quality": best.quality,
            "disagreements": best.score.disagreements,
            "trials": len(found.trials),
            "finished": found.finished,
        },
        "device": None if measured is None else measured.as_json(),
        "boards": [board.as_json() for board in boards],
        "planned_for": [side.board.name for side in task.sides if side.board is not None],
        "model": task.request.model,
        "command": task.command,
        "options": asdict(strategy) if is_dataclass(strategy) else {},
        "formats": list(task.problem.space.formats),
        "weights": list(task.problem.space.weights),
        "seed": task.request.seed,
        **here(),
    }
