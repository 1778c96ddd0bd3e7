"""`hil search --pareto`: limits swept over two or three of RAM, latency, flash and accuracy, in one session.

Each limit is a search of its own; all share what they were told, so that sensitivities are measured once, and an answer
that keeps a tighter limit as well is not searched for again. What is left are the answers and uniform formats that no
other beats in all that was asked, by measurement where there is a board.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import product
from pathlib import Path
from typing import Any

from tinyhil.errors import BuildError, Infeasible
from tinyhil.harness.measure.record import here
from tinyhil.harness.search.device import Measured, arena_bytes, left_out
from tinyhil.harness.search.feasible import anchored, least_of, unbounded
from tinyhil.harness.search.offering import together
from tinyhil.harness.search.phases import OutOfTime
from tinyhil.harness.search.request import SearchRequest
from tinyhil.harness.search.resource_limits import Meter, as_tried, joined
from tinyhil.harness.search.rounds import search_once
from tinyhil.harness.search.task import Task, make_bench, replace_text, trial_log, write_assignment
from tinyhil.harness.search.unasked import simple_mixtures
from tinyhil.harness.search.uniform import MOST_SCHEDULES, Uniform, as_records, held_out, sensitivity_of
from tinyhil.search.costs import Limits
from tinyhil.search.slim import ROUNDED
from tinyhil.search.space import Candidate, Choice
from tinyhil.search.trial import Trial, TrialLog

Vector = tuple[float, ...]
Schedule = tuple[Candidate, int]  # and the bytes of arena that it is planned in
NO_LIMIT = float("inf")
MOST_ANEW = 4  # fronts, of what is left where points do not fit


@dataclass(frozen=True, slots=True)
class Needs:
    """What a candidate takes of one board, estimated or measured; the arena alone where no board counts."""

    ram: float
    latency: float = 0.0
    flash: float = 0.0


@dataclass(frozen=True, slots=True)
class Span:
    """The least and the most of one resource on one board that answers can need."""

    least: float
    most: float

    def at(self, share: float) -> float:
        """The value at `share` (0..1) of the way from least to most."""
        return self.least + share * (self.most - self.least)


@dataclass(frozen=True, slots=True)
class Point:
    """One that is or could be of the front: a candidate, and by the RAM it is given what it computes again. `needs` of
    each board; `measured` is empty without a board and before it is measured; `name` of a uniform format."""

    trial: Trial
    needs: tuple[Needs, ...]
    measured: tuple[Measured, ...] = ()
    name: str = ""


@dataclass(frozen=True, slots=True)
class ParetoOutcome:
    """The points of the front, and the record that was written."""

    request: SearchRequest
    points: tuple[Point, ...]
    record: dict[str, Any]

    @property
    def search_float_accuracy(self) -> float | None:
        """On the search's samples."""
        value: float | None = self.record["search"]["float_accuracy"]
        return value


def swept_over(task: Task, meters: Sequence[Meter]) -> Sweep:
    """Searches at every level of the limits, as far as `--seconds` go, or until somebody interrupts."""
    found = Sweep(task, meters)
    try:
        for shares in found.combinations():
            found.search(shares)
    except OutOfTime:
        pass
    except KeyboardInterrupt:
        if not found.answers:
            raise
        found.is_interrupted = True
        task.say("search: interrupted; the front so far is the answer; the same command goes on with it")
    return found


def front_of(found: Sweep, beside: Sequence[Uniform]) -> ParetoOutcome:
    """What no other beats, measured as far as there is time; Infeasible if there is no point at all."""
    task, meters = found.task, found.meters
    # what formats that all tensors must share need could not be told beforehand: their estimates beat nothing
    may_judge = not found.is_interrupted
    may_ask = may_judge and not meters
    apart = task.phases.in_time(task.request.seconds, lambda: together(task, None)) or () if may_ask else ()
    answers = (*found.answers.values(), *_earlier(task, meters), *_scheduled(task, meters, beside))
    rams, trials = (
        [side.arena_bytes for side in task.sides],
        [] if found.is_interrupted else simple_mixtures(task, meters),
    )
    answers = (*answers, *(_point(task, meters, trial, rams) for trial in trials))
    front = _front(task, _points(task, meters, answers, beside))
    if may_judge and "accuracy" in task.request.objectives:
        near = [point.trial.candidate for point in front if point.trial.score.disagreements and not point.name]
        trials = simple_mixtures(task, meters, near) if near else []
        answers = (*answers, *(_point(task, meters, trial, rams) for trial in trials))
    estimated = _points(task, meters, answers, beside)
    front = _front(task, estimated)
    vectors = {_vector(task, point) for point in front}  # one format for all may need less stack beside as much
    known = [point for point in estimated if point.measured or (point.name and _vector(task, point) in vectors)]
    known = [point for point in known if point not in front]
    measured = _measured(found, (*front, *known, *_points(task, meters, (), apart)))
    points = _front(task, _with_next_best(found, estimated, front, measured))
    beside = (*beside, *apart)
    if not points:
        raise Infeasible(found.reason or "search: no point of the front fits the board; the lines above say why")
    record = _record(task, found, points, beside, task.phases.elapsed())
    replace_text(task.folder / f"{_stem(task)}.json", json.dumps(record, indent=1) + "\n")
    return ParetoOutcome(task.request, points, record)


def _with_next_best(
    found: Sweep, estimated: Sequence[Point], front: Sequence[Point], measured: list[Point]
) -> list[Point]:
    """What is measured, and what comes next where boards do not hold a point of the front."""
    for _ in range(MOST_ANEW):
        known = {_schedule(point.trial) for point in measured}
        lost = {_schedule(point.trial) for point in front} - known
        if not lost or found.is_interrupted:
            break
        estimated = [point for point in estimated if _schedule(point.trial) not in lost]
        front = _front(found.task, estimated)
        more = [point for point in front if _schedule(point.trial) not in known]
        measured = _measured(found, (*measured, *more)) if more else measured
    return measured


class Sweep:
    """The searches so far, and their answers by the shares of each span that they were allowed."""

    def __init__(self, task: Task, meters: Sequence[Meter]) -> None:
        self.task, self.meters = task, meters
        self.resources = tuple(name for name in task.request.objectives if name != "accuracy")
        self.answers: dict[tuple[float, ...], Point] = {}
        self.tried: list[Trial] = []
        self.infeasible, self.reason, self.is_interrupted = 0, "", False
        levels = task.request.levels
        shares = [1 - level / (levels - 1) for level in range(levels)]
        self._all = sorted(product(shares, repeat=len(self.resources)), key=lambda each: (-sum(each), each))

    @cached_property
    def _spans(self) -> list[dict[str, Span]]:
        """Of each board, by resource."""
        meters = self.meters or (None,) * len(self.task.sides)
        return [
            {name: _span(side, meter, name) for name in self.resources}
            for side, meter in zip(self.task.sides, meters, strict=True)
        ]

    def combinations(self) -> Iterator[tuple[float, ...]]:
        """Of shares of each span, the loosest first, so that an answer can serve tighter limits, too."""
        yield from self._all

    def search(self, shares: tuple[float, ...]) -> None:
        """The answer under these shares: an earlier one of looser limits that keeps these, else that of a search."""
        task, number = self.task, self._all.index(shares)
        limits, rams = self._limits(shares)
        try:
            problem = anchored(task, self.meters, limits, rams)
            for board in problem.boards:
                board.memory.require(board.limit_bytes)
        except Infeasible as error:
            self.infeasible, self.reason = self.infeasible + 1, str(error)
            return
        for looser, answer in self.answers.items():
            candidate = answer.trial.candidate
            if all(a >= b for a, b in zip(looser, shares, strict=True)) and problem.fits(candidate):
                trial = replace(answer.trial, ram_bytes=problem.planned_bytes(candidate))
                self.hold(shares, trial, rams)
                return
        task.say(f"search: {number + 1} of {len(self._all)}: at most {self._described(limits, rams)}")
        inside = replace(task, request=replace(task.request, seconds=self._seconds(number)))
        found = search_once(inside, problem, f"{_stem(task)}/{number}", None)
        self.tried += [trial for trial in found.trials if trial.kind == "full"]
        self.hold(shares, found.best, rams)

    def hold(self, shares: tuple[float, ...], trial: Trial, rams: Sequence[int]) -> None:
        """The answer under these shares, within so many bytes of each board's RAM."""
        self.answers[shares] = _point(self.task, self.meters, trial, rams)

    def _seconds(self, number: int) -> float | None:
        """Until when this search may go on: its share of what is left of --seconds, counted from the beginning."""
        phases = self.task.phases
        left = phases.seconds_left(self.task.request.seconds)
        return None if left is None else phases.elapsed() + left / (len(self._all) - number)

    def _limits(self, shares: tuple[float, ...]) -> tuple[list[Limits], list[int]]:
        """Of each board: latency and flash, and bytes of arena."""
        limits, rams = [], []
        for side, spans in zip(self.task.sides, self._spans, strict=True):
            given = {name: span.at(share) for (name, span), share in zip(spans.items(), shares, strict=True)}
            asked = side.request.limits
            flash = given.get("flash", asked.flash_bytes)
            limits.append(Limits(given.get("latency", asked.latency_us), None if flash is None else int(flash)))
            rams.append(int(given.get("ram", side.arena_bytes)))
        return limits, rams

    def _described(self, limits: Sequence[Limits], rams: Sequence[int]) -> str:
        parts = []
        for side, limit, ram in zip(self.task.sides, limits, rams, strict=True):
            values = {"ram": f"{ram} B of arena", "latency": f"{limit.latency_us or 0:,.0f} us"}
            values["flash"] = f"{limit.flash_bytes or 0:,} B of flash"
            name = "" if side.board is None else f" on {side.board.name}"
            parts.append(", ".join(values[resource] for resource in self.resources) + name)
        return "; ".join(parts)


def _span(side: Task, meter: Meter | None, resource: str) -> Span:
    """From the least that was found to what the widest format needs, or the limit that was asked for."""
    problem = side.problem
    if resource == "ram":
        least, asked = float(problem.memory.least_bytes()), float(side.arena_bytes)
        values = [_needs(side, None, candidate, side.arena_bytes).ram for candidate in _uniform_candidates(side)]
    else:
        assert meter is not None
        given = side.request.latency_us if resource == "latency" else side.request.flash
        asked = NO_LIMIT if given is None else given
        least = least_of(meter, unbounded(resource), side.arena_bytes, near=False)[1]
        needs = [_needs(side, meter, candidate, side.arena_bytes) for candidate in _uniform_candidates(side)]
        values = [getattr(one, resource) for one in needs]
    most = max((value for value in values if value != NO_LIMIT), default=least)
    return Span(least, max(least, min(most, asked)))


def _uniform_candidates(side: Task) -> list[Candidate]:
    space = side.problem.space
    return [space.uniform(Choice(name)) for name in space.formats]


def _point(task: Task, meters: Sequence[Meter], trial: Trial, rams: Sequence[int]) -> Point:
    """Within so many bytes of each board's RAM."""
    sides = zip(task.sides, meters or (None,) * len(task.sides), rams, strict=True)
    return Point(trial, tuple(_needs(side, meter, trial.candidate, ram) for side, meter, ram in sides))


def _schedule(trial: Trial) -> Schedule:
    """By which a point is told from others."""
    return trial.candidate, trial.ram_bytes


def _needs(side: Task, meter: Meter | None, candidate: Candidate, ram_bytes: int) -> Needs:
    """As estimated within so many bytes; infinite where it can not be."""
    problem = replace(side.problem, limit_bytes=ram_bytes)
    if not problem.memory.fits(candidate, 1 << 60):
        return Needs(NO_LIMIT, NO_LIMIT, NO_LIMIT)
    ram = problem.ram_bytes(candidate)
    estimate = None if meter is None else meter.costs(Limits(), ram_bytes).estimate(candidate)
    return Needs(ram) if estimate is None else Needs(ram, estimate.latency_us, estimate.flash_bytes)


def _points(task: Task, meters: Sequence[Meter], answers: Sequence[Point], beside: Sequence[Uniform]) -> list[Point]:
    """The answers, and uniform formats that keep the limits asked for; each once."""
    limits, rams = [side.request.limits for side in task.sides], [side.arena_bytes for side in task.sides]
    problem = joined(task, meters, limits, rams)
    points = {}
    for one in beside:
        if one.trial is not None and problem.fits(one.trial.candidate):
            point = _point(task, meters, one.trial, rams)
            points[_schedule(point.trial)] = replace(point, measured=one.on_all, name=one.format)
    for answer in answers:
        points.setdefault(_schedule(answer.trial), answer)
    return list(points.values())


def _earlier(task: Task, meters: Sequence[Meter]) -> list[Point]:
    """Points of an earlier run of the same sweep, which an interruption of this one is not to lose."""
    if task.phases.key not in ("", task.key):
        return []
    others = [side.arena_bytes for side in task.others]
    trials = trial_log(task, f"{_stem(task)}/points").read()
    beside = task.problem.beside_bytes
    return [_point(task, meters, trial, [trial.ram_bytes + beside(trial.candidate), *others]) for trial in trials]


def _scheduled(task: Task, meters: Sequence[Meter], beside: Sequence[Uniform]) -> list[Point]:
    """Uniform formats in less RAM than they are planned for, by computing products again."""
    memory, points = task.problem.memory, list[Point]()
    if memory.again is None or memory.plans_slowly:
        return points
    for one in beside:
        if one.trial is None:
            continue
        candidate = one.trial.candidate
        arenas = [arena for arena in memory.arenas(candidate) if arena < one.trial.ram_bytes]
        for arena in arenas[-MOST_SCHEDULES:]:
            ram_bytes = arena + task.problem.beside_bytes(candidate)
            if ram_bytes <= task.arena_bytes:
                point = _point(task, meters, replace(one.trial, ram_bytes=arena), [ram_bytes])
                points.append(replace(point, name=one.format))
    return points


def _front(task: Task, points: Sequence[Point]) -> tuple[Point, ...]:
    """Those that no other beats: no more of any resource asked for on any board and, with `accuracy`, no more decisions
    that differ from float; without, of those that lose at most --points."""
    objectives = task.request.objectives
    good = list(points)
    if "accuracy" not in objectives:
        wanted = task.problem.float_quality - task.request.points / 100 - ROUNDED
        good = [point for point in points if point.trial.quality >= wanted]
    front: dict[Vector, Point] = {}
    for point in sorted(good, key=lambda point: (_vector(task, point), point.trial.score.loss)):
        own = _vector(task, point)
        if not any(all(a <= b for a, b in zip(other, own, strict=True)) for other in front):
            front[own] = point
    return tuple(front.values())


def _vector(task: Task, point: Point) -> Vector:
    """What counts of it, the less the better."""
    objectives = task.request.objectives
    needs = [getattr(board, name) for board in point.needs for name in objectives if name != "accuracy"]
    return (*needs, point.trial.score.disagreements) if "accuracy" in objectives else tuple(needs)


def _measured(sweep: Sweep, points: Sequence[Point]) -> list[Point]:
    """The points with what each board needs for them; one that does not fit a board is said and left out. A later run
    begins with them, too."""
    task = sweep.task
    log = trial_log(task, f"{_stem(task)}/points")
    earlier = [_schedule(trial) for trial in log.read()]
    numbered = [replace(point.trial, number=number) for number, point in enumerate(points)]
    if [_schedule(trial) for trial in numbered[: len(earlier)]] != earlier:
        log = trial_log(task, f"{_stem(task)}/points")
    log.start(numbered)
    if not task.measures:
        return list(points)
    found, estimated = list[Point](), 0
    for point, trial in zip(points, numbered, strict=True):
        try:
            boards = point.measured or _asked(sweep, log, trial)
        except BuildError as error:
            task.say(left_out(error))
            continue
        if not boards:
            found.append(point)
            estimated += 1
        elif all(_keeps(side, board) for side, board in zip(task.sides, boards, strict=True)):
            needs = tuple(_needed(*each, trial) for each in zip(task.sides, boards, strict=True))
            found.append(replace(point, needs=needs, measured=boards))
        else:
            task.say("search: a point that needs more on the board than was asked for is left out")
    if estimated:
        how = "are estimates (~); `hil run --assignment` measures one, the same command all"
        task.say(f"search: no time was left to run {estimated} of the front on the board: their needs {how}")
    return found


def _asked(sweep: Sweep, log: TrialLog, trial: Trial) -> tuple[Measured, ...] | None:
    """What boards say of it, as far as there is time, and until somebody interrupts."""
    task = sweep.task
    if sweep.is_interrupted:
        return None
    try:
        return task.phases.in_time(task.request.seconds, partial(_on_boards, task, log, trial))
    except KeyboardInterrupt:
        sweep.is_interrupted = True
        return None


def _on_boards(task: Task, log: TrialLog, trial: Trial) -> tuple[Measured, ...]:
    return tuple(make_bench(side, log).measure(trial) for side in task.sides)


def _keeps(side: Task, board: Measured) -> bool:
    return board.fits(side.ram_bytes if side.whole else None, side.request.limits)


def _needed(side: Task, board: Measured, trial: Trial) -> Needs:
    ram, latency, flash = board.needs
    return Needs(ram if side.whole else trial.ram_bytes, latency, flash)


def _record(
    task: Task, sweep: Sweep, points: Sequence[Point], beside: Sequence[Uniform], seconds: float
) -> dict[str, Any]:
    folder = task.request.out or task.folder / _stem(task)
    rows = []
    for number, point in enumerate(points, 1):
        path = folder / f"{number}.yaml"
        write_assignment(path, task.problem.space, point.trial, task.wish(point.trial))
        rows.append(_row(task, number, path, point))
    figures, examples = held_out(task, points[0].trial.candidate), task.problem.evaluator.examples
    return {
        "strategy": task.strategy.name,
        "pareto": list(task.request.objectives),
        "evaluations": round(task.phases.evaluations, 2),
        "seconds": round(seconds, 3),
        "infeasible": sweep.infeasible,
        "float_accuracy": figures["float_accuracy"],
        "samples": figures["samples"],
        "points": rows,
        "uniform": as_records(task, beside),
        "sensitivity": sensitivity_of(
            task, ask=not (sweep.is_interrupted or task.phases.is_over(task.request.seconds))
        ),
        "phases": task.phases.as_json(),
        "first_answer": task.phases.first_answer,
        "tried": as_tried(sweep.tried, sweep.meters[0].costs(Limits()) if sweep.meters else None),
        "search": {"samples": len(examples), "float_accuracy": examples.float_accuracy},
        "boards": [{"board": side.board.name} for side in task.sides if side.board is not None],
        "model": task.request.model,
        "command": task.command,
        "formats": list(task.problem.space.formats),
        "weights": list(task.problem.space.weights),
        "seed": task.request.seed,
        **here(),
    }


def _row(task: Task, number: int, path: Path, point: Point) -> dict[str, Any]:
    """One point: what it needs of the first board, all boards' measurements, held-out figures, its file."""
    board, needs = point.measured[0] if point.measured else None, point.needs[0]
    estimated = board is None and 0.0 < needs.latency < NO_LIMIT
    figures = held_out(task, point.trial.candidate)
    return {
        "number": number,
        "format": point.name or None,
        "assignment_file": str(path),
        "arena_bytes": arena_bytes(point.trial, point.measured),
        "ram_bytes": None if board is None else board.total_bytes,
        "latency_us": board.latency_us if board is not None else needs.latency if estimated else None,
        "flash_bytes": board.flash_bytes if board is not None else round(needs.flash) if estimated else None,
        "estimated": estimated,
        "quality": point.trial.quality,
        "searched_disagreements": point.trial.score.disagreements,
        "accuracy": figures["accuracy"],
        "disagreements": figures["disagreements"],
        "boards": [one.as_json() for one in point.measured],
    }


def _stem(task: Task) -> str:
    return f"pareto-{task.strategy.name}-{task.key[:8]}"
