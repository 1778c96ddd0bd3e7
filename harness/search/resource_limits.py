"""Limits of latency and flash in a search: what is measured before it, and after an answer that exceeds them."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import combinations, product
from typing import Any

import numpy as np

from tinyhil.errors import BuildError, DoesNotFit, ModelError
from tinyhil.harness.boards.fidelity import fidelity_of
from tinyhil.harness.job.job import Request
from tinyhil.harness.measure.run import find_place
from tinyhil.harness.search.cost_table import CostTable, Version, describer, rows_of
from tinyhil.harness.search.device import left_out
from tinyhil.harness.search.task import Task, make_bench
from tinyhil.language.program import walk
from tinyhil.search.costs import Costs, Described, Limits, Run
from tinyhil.search.search_problem import SearchProblem
from tinyhil.search.space import Candidate, Choice, Space
from tinyhil.search.trial import Trial, TrialLog, unjudged

PROFILED_SAMPLES = 5
MOST_PILOTS = 12
PILOTS_LEAVE = 0.5  # of `--seconds`, for the search
MATTERS = 0.02  # of an image's time: of operations that take less, no mixture is profiled
DRAWN = 24  # assignments among which each pilot is the one that covers most

Pair = tuple[str, int, int, str, str]


@dataclass(slots=True)
class Meter:
    """Measured costs of one search. `phase` grows with every decision that rests on new measurements, so that a resumed
    search decides by what was known at the time. `confirmed`: microseconds of candidates timed on many samples.
    `is_cut`: pilots were left out, to leave time for the search."""

    task: Task
    table: CostTable
    clock_hz: int
    phase: int = 0
    margin: float = 0.0
    refused: str = ""  # why an assignment that was left out does not run: the one that lacks least
    lacking: float = math.inf  # bytes
    is_cut: bool = False
    _describe: Callable[[Candidate], Described] = field(init=False)
    confirmed: dict[Candidate, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._describe = describer(self.task.problem.placed)

    def costs(self, limits: Limits, ram_bytes: int | None = None) -> Costs:
        """Estimates that rest on what was measured up to this phase. With less `ram_bytes` of arena than the task has,
        what must compute again to keep them is estimated as it then runs."""
        rows, runs = self.table.rows(self.phase), self.table.runs(self.phase)
        if ram_bytes is None or ram_bytes >= self.task.arena_bytes:
            return Costs(self._describe, rows, runs, self.clock_hz, limits, self.margin)
        tight = replace(self.task.problem, limit_bytes=ram_bytes)
        again = describer(tight.placed)

        def applies(candidate: Candidate) -> bool:
            with suppress(ModelError):
                return self.task.problem.ram_bytes(candidate) <= ram_bytes
            return True

        def describe(candidate: Candidate) -> Described:
            return self._describe(candidate) if applies(candidate) else again(candidate)

        return Costs(describe, rows, runs, self.clock_hz, limits, self.margin, applies)

    def problem(self, limits: Limits, ram_bytes: int) -> SearchProblem:
        """The task's problem under these limits and `ram_bytes` of arena."""
        return replace(self.task.problem, costs=self.costs(limits, ram_bytes), limit_bytes=ram_bytes)

    def measure(self, candidate: Candidate) -> None:
        """Profile it on the board, unless that is known. An image that does not fit, or can not be compiled, is
        remembered as one that keeps no limit, and said."""
        if self.knows(candidate):
            return
        arena = self._arena(candidate)
        bench = make_bench(self.task, TrialLog(None, self.task.problem.space, ""), PROFILED_SAMPLES)
        try:
            found = bench.profile(candidate)
        except BuildError as error:
            self.task.say(left_out(error))
            over = error.over[1] if isinstance(error, DoesNotFit) and error.over is not None else self.lacking
            if not self.refused or over < self.lacking:
                self.refused, self.lacking = str(error), over
            self.table.add([], Run(candidate, float("inf"), 0.0, 0.0, 0), [], self.phase, arena)
            return
        # the compiler sees other code around an operation than in the image that counts, to which the sum is scaled
        scale = found.whole / found.summed
        self.task.phases.shown(found.worst / self.clock_hz * 1e6, found.flash_bytes)
        run = Run(candidate, found.worst, found.whole, found.outside * scale, found.flash_bytes)
        rows = rows_of(found.operations, scale)
        self.table.add(rows, run, [row.operation.signature for row in rows], self.phase, arena)

    def knows(self, candidate: Candidate) -> bool:
        """Whether it has been measured, by whichever search."""
        return self.table.known(candidate, self.phase, self._arena(candidate))

    def recall(self) -> None:
        """Take over what other searches have measured of this one's candidates, planned as it plans them."""
        self.next_phase()
        space = self.task.problem.space
        for candidate in self.table.elsewhere():
            if len(candidate) == len(space.groups) and all(
                choice.format in space.offered(index) for index, choice in enumerate(candidate)
            ):
                self.knows(candidate)

    def _arena(self, candidate: Candidate) -> int | None:
        """The bytes of arena for which it computes products again; None if it does not, or can not be made at all."""
        with suppress(ModelError):
            return self.task.wish(unjudged(candidate)).arena_bytes
        return None

    def confirm(self, candidate: Candidate) -> bool:
        """Time it on as many samples as an answer; False if that is done already, or it does not run."""
        if candidate in self.confirmed:
            return False
        bench = make_bench(self.task, TrialLog(None, self.task.problem.space, ""))
        try:
            found = bench.measure(unjudged(candidate)).latency_us
        except BuildError:
            return False
        if found is not None:
            self.confirmed[candidate] = found
            self.correct(candidate, found)
        return found is not None

    def correct(self, candidate: Candidate, latency_us: float) -> None:
        """More samples than those of the profile have shown a worse one."""
        worst = round(latency_us * self.clock_hz / 1e6)
        for run in self.table.runs(self.phase):
            if run.candidate == candidate and worst > run.worst:
                self.table.add([], replace(run, worst=worst), [], self.phase, self._arena(candidate))

    def next_phase(self) -> None:
        """New measurements count from here on."""
        self.phase += 1


def limited(task: Task, arenas: Sequence[int]) -> Task:
    """The task with what of each board's limit of RAM is the arena's."""
    own, *others = (within(side, limit) for side, limit in zip(task.sides, arenas, strict=True))
    return replace(own, others=tuple(others))


def within(side: Task, arena_bytes: int) -> Task:
    """The task of one board with so much of its RAM as the arena's."""
    return replace(side, arena_bytes=arena_bytes, problem=replace(side.problem, limit_bytes=arena_bytes))


def make_meters(task: Task) -> tuple[Meter, ...]:
    """One of each board; none for an accelerator, whose costs follow from the widths."""
    return () if task.accelerated else tuple(_make_meter(side) for side in task.sides)


def _make_meter(task: Task) -> Meter:
    """Profiles what the search needs to begin with, and says what that took."""
    assert task.board is not None
    assert task.boards is not None
    place = find_place(Request(task.request.board or "", task.request.model, port=task.request.port), task.boards)
    ranges = hashlib.sha256(task.ranges_text.encode()).hexdigest()
    model = f"{task.opened.model.sha256[:16]}-{ranges[:8]}-{task.request.prefer}"
    fidelity = fidelity_of(task.board, emulated=place.port is None)
    version = Version.of(task.board, fidelity, task.cache_dir, model)
    own = task.folder / f"{task.stem(task.ram_bytes)}.costs.jsonl"
    table = CostTable(task.request.results / "costs" / f"{task.board.name}.jsonl", own, version)
    meter = Meter(task, table, task.board.clock_hz)
    task.phases.meters.append(meter)
    profile_pilots(meter)
    return meter


def profile_pilots(meter: Meter, leave: float = PILOTS_LEAVE) -> None:
    """Each format for all tensors, or for all weights; then mixtures until every pair of formats of two operands was
    measured of each operation that counts (`_counting`), or MOST_PILOTS were, or no more than the share `leave` of
    `--seconds` is left. BuildError if none of them runs."""
    task, table, phase = meter.task, meter.table, meter.phase
    meter.is_cut = False
    assert task.board is not None
    space, random = task.problem.space, np.random.default_rng(task.request.seed)
    seen: set[Pair] = set()
    begin, measured, number = time.monotonic(), 0, 0
    first = [space.uniform(Choice(name)) for name in space.formats]
    for name in space.weights:  # beside the widest that the RAM holds
        wide = space.weighing(name, space.high)
        first.append(wide if task.problem.memory.fits(wide, task.arena_bytes) else space.weighing(name, space.low))
    wanted = set().union(*(_wanted(space, candidate) for candidate in first))
    while number < MOST_PILOTS and (number < len(first) or not wanted <= seen):
        left = task.phases.seconds_left(task.request.seconds)
        if left is not None and left <= leave * (task.request.seconds or 0.0) and table.runs(phase):
            meter.is_cut = True
            break
        if number == len(first):
            names = _counting(table, phase)
            wanted = {pair for pair in wanted if pair[0] in names}
            if wanted <= seen:
                break
        candidate = first[number] if number < len(first) else _covering(space, random, seen, wanted)
        number += 1
        if candidate is None:
            break
        if not meter.knows(candidate):
            measured += 1
            if measured == 1:
                task.say(f"search: profiling up to {MOST_PILOTS} assignments on {task.board.name}")
            meter.measure(candidate)
        if table.ran(candidate, phase):
            seen |= _pairs(space, candidate) or set()
    if not _runs_any(table, phase):  # wide formats beside narrow weights took too much
        for name in space.weights:
            number, measured = number + 1, measured + 1
            meter.measure(space.weighing(name, space.low))
    if measured:
        covered = f"{len(wanted & seen)} of {len(wanted)} pairs of formats covered"
        task.say(f"search: {measured} profiled in {time.monotonic() - begin:.0f} s, {covered}")
    if not _runs_any(table, phase):
        why = meter.refused or "an earlier search has measured and left them out; --results elsewhere measures anew"
        raise BuildError(f"search: none of {number} assignments runs on {task.board.name}: {why}")


def _runs_any(table: CostTable, phase: int) -> bool:
    return any(run.worst != float("inf") for run in table.runs(phase))


def _counting(table: CostTable, phase: int) -> set[str]:
    """Operations that took MATTERS of the time of one of the images measured so far, or more."""
    most = max((run.summed for run in table.runs(phase)), default=0.0)
    rows = table.rows(phase)
    return {row.operation.name for row in rows if row.ticks * row.operation.executions >= MATTERS * most}


def _covering(space: Space, random: np.random.Generator, seen: set[Pair], wanted: set[Pair]) -> Candidate | None:
    """Of some random assignments the one with the most of the pairs `wanted` not `seen` yet; None if none has any."""
    best: tuple[int, Candidate | None] = (0, None)
    for _ in range(DRAWN):
        drawn = random.integers(0, [len(space.offered(index)) for index in range(len(space.groups))])
        candidate = tuple(Choice(space.offered(index)[number]) for index, number in enumerate(drawn))
        found = _pairs(space, candidate)
        if found is not None and len(found & wanted - seen) > best[0]:
            best = len(found & wanted - seen), candidate
    return best[1]


def _pairs(space: Space, candidate: Candidate) -> set[Pair] | None:
    """Which pairs of formats the operations of a candidate have, by the groups of their operands; None if it can not be
    lowered."""
    try:
        operands = list(_operands(space, candidate))
    except ModelError:
        return None
    return {(name, i, j, candidate[a].format, candidate[b].format) for name, i, j, a, b in operands}


def _wanted(space: Space, candidate: Candidate) -> set[Pair]:
    """Which pairs of formats its operations could have."""
    try:
        operands = list(_operands(space, candidate))
    except ModelError:
        return set()
    return {
        (name, i, j, *pair) for name, i, j, a, b in operands for pair in product(space.offered(a), space.offered(b))
    }


def _operands(space: Space, candidate: Candidate) -> Iterator[tuple[str, int, int, int, int]]:
    """Name of an operation, positions of two operands, their groups."""
    group_of = {name: index for index, group in enumerate(space.groups) for name in group.members}
    for op in walk(space.lower(candidate).body):
        for (i, a), (j, b) in combinations(enumerate((*op.inputs, op.output)), 2):
            if a in group_of and b in group_of and a != b:
                yield op.name, i, j, group_of[a], group_of[b]


def measured_costs(problem: SearchProblem) -> Costs:
    """Those of a meter's problem."""
    assert isinstance(problem.costs, Costs)
    return problem.costs


def joined(task: Task, meters: Sequence[Meter], limits: Sequence[Limits], rams: Sequence[int]) -> SearchProblem:
    """The problem under these limits and bytes of arena, one of each board; without `meters` those of RAM alone."""
    if meters:
        problems = [meter.problem(limit, ram) for meter, limit, ram in zip(meters, limits, rams, strict=True)]
    else:
        problems = [replace(side.problem, limit_bytes=ram) for side, ram in zip(task.sides, rams, strict=True)]
    return replace(problems[0], also=tuple(problems[1:]))


def as_tried(trials: Sequence[Trial], costs: Costs | None) -> list[dict[str, Any]]:
    """What was evaluated in full: RAM, quality and, where a board was profiled, latency and flash as estimated."""
    found = []
    for trial in trials:
        if trial.kind != "full":
            continue
        row: dict[str, Any] = {"number": trial.number, "arena_bytes": trial.ram_bytes, "quality": trial.quality}
        estimate = None if costs is None else costs.estimate(trial.candidate)
        if estimate is not None and estimate.latency_us != float("inf"):
            row |= {"latency_us": estimate.latency_us, "flash_bytes": estimate.flash_bytes}
        found.append(row)
    return found
