"""`hil plan`: a planning instance or the arena of a model, planned, checked and held against the memory there is."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from tinyhil.compiler.calibrate import Ranges, load_ranges
from tinyhil.compiler.columns import assumed_ranges
from tinyhil.compiler.lower import lower
from tinyhil.errors import ConfigError, DoesNotFit
from tinyhil.harness.build.pipeline import (
    arranged_for,
    core_of,
    fit,
    limited,
    links,
    passes_left_out,
    place_arranged,
)
from tinyhil.harness.job.inputs import read_inputs
from tinyhil.harness.job.job import Opened, Streamed, method_of, open_model, preference_of, preferred, wish_for
from tinyhil.harness.job.zoo import SUFFIXES, ModelSource, zoo_names
from tinyhil.harness.offline.memory_map import MemoryMap, memory_map
from tinyhil.harness.settings.config import Boards, BoardSpec
from tinyhil.harness.settings.text import in_short
from tinyhil.language.assignment import format_name
from tinyhil.language.program import Program, walk
from tinyhil.memplan import DEFAULT, Budget, Plan, Problem, as_record, describe, find_planner, plan
from tinyhil.memplan.arena.core_times import OFF, CoreTime
from tinyhil.memplan.arena.passes import ROWS
from tinyhil.memplan.arena.placement import Placement, place
from tinyhil.memplan.arena.placement_preference import chosen
from tinyhil.memplan.arena.proof import ScheduleProof, prove_schedule
from tinyhil.memplan.arena.regions import SYMBOL, arrays
from tinyhil.memplan.arena.row_costs import products_again
from tinyhil.memplan.arena.schedules import cheapest_within
from tinyhil.memplan.arena.transfer import Transfer, belongs_in_arena
from tinyhil.memplan.csv import read_problem
from tinyhil.notice import Say
from tinyhil.preference import LEAST, RAM, Wish, planned_by

NODES_WITHIN_SECONDS = 10**12  # the clock stops the search, not the count
READINGS = 4  # reading, the checker, the map and Python's start together take so many times what reading does
LEAST_S = 1e-3
USUAL = "the least arena by layers or rows; --pareto: all schedules"
MOST_NAMED = 16  # operations
PLANS_PER_MODEL = 8  # as given, without views, with gaps, reordered, all of them by rows: they share the time


@dataclass(frozen=True, slots=True)
class Wanted:
    """The options of `hil plan`."""

    instance: Path | None = None
    model: str | None = None
    board: str | None = None
    format: str = "fixed16"
    assignment: Path | None = None
    capacity: int | None = None
    ram: int | None = None
    seconds: float | None = None
    planner: str = DEFAULT
    without: tuple[str, ...] = ()
    states: tuple[str, ...] | None = None
    steps: int | None = None
    prefer: str | None = None  # None: as the assignment file says, else the least arena
    inputs: Path | None = None
    calibrate: Path | None = None
    calibrate_by: str | None = None  # None: as the assignment file says, else minmax

    def opened(self, model: str) -> Opened:
        """The model, its steps as its samples show them."""
        streamed = Streamed(self.states, self.steps, self.inputs or self.calibrate)
        return open_model(model, None, streamed, self.without, by=method_of(self.assignment, self.calibrate_by))

    @property
    def preferred(self) -> str | None:
        """What the plan is of; None if the least arena, or where `--ram` or an assignment file's arena chooses."""
        return preferred(self.assignment, self.prefer, self.ram, "") or None

    @property
    def wish(self) -> Wish:
        """How its input gets into a board, as a run has it that prefers the same; of the least arena the usual way."""
        return Wish(ram_bytes=self.ram) if self.ram is not None else wish_for(self.assignment, self.prefer)

    def budget(self, seconds: float | None) -> Budget:
        """Nodes alone decide without `seconds`, so that a plan is the same on every machine."""
        return Budget() if seconds is None else Budget(NODES_WITHIN_SECONDS, seconds)


@dataclass(frozen=True, slots=True)
class Found:
    """The plan of one subject. `complaint` says by how much it does not fit; None: it fits."""

    title: str
    problem: Problem
    plan: Plan
    seconds: float
    capacity_bytes: int | None
    complaint: str | None
    steps: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    extra: tuple[tuple[str, object], ...] = ()

    def record(self) -> dict[str, object]:
        """What `--json` prints."""
        record = as_record(self.plan, self.seconds, self.capacity_bytes)
        fits = {"fits": self.complaint is None, "capacity_bytes": self.capacity_bytes}
        return {**record, **fits, **dict(self.extra), **({"operations": list(self.steps)} if self.steps else {})}

    def lines(self) -> list[str]:
        """What `hil plan` prints of it."""
        return [self.title, *describe(self.plan).splitlines(), *self.notes, f"planned in {self.seconds:.3f} s"]

    def map(self) -> MemoryMap:
        """Offsets over instants, for `--plot`."""
        return memory_map(self.problem, self.plan, self.title, self.steps)


def find_plan(wanted: Wanted, boards: Boards | None, say: Say) -> Found:
    """Plan the instance or the model; ConfigError if it is not clear which."""
    if (wanted.instance is None) == (wanted.model is None):
        raise ConfigError("plan: give either a CSV of buffers or --model; see `hil plan --help`")
    find_planner(wanted.planner)
    if wanted.model is not None:
        return _plan_model(wanted, wanted.model, boards, say)
    if wanted.instance is not None and (wanted.instance.suffix in SUFFIXES or str(wanted.instance) in zoo_names()):
        raise ConfigError(f"plan: {wanted.instance} is a model, no CSV of buffers; hil plan --model {wanted.instance}")
    if wanted.board is not None or wanted.without or wanted.ram is not None:
        raise ConfigError("plan: --board, --ram and --without are for --model; an instance takes --capacity")
    if wanted.inputs or wanted.calibrate or wanted.calibrate_by:
        raise ConfigError("plan: --inputs, --calibrate and --calibrate-by are for --model; an instance has no values")
    assert wanted.instance is not None
    return _plan_instance(wanted, wanted.instance)


def _plan_instance(wanted: Wanted, path: Path) -> Found:
    """First until it fits, then on until it is optimal or the time is over."""
    began = time.perf_counter()
    problem = read_problem(path)
    wanted = _without_reading(wanted, time.perf_counter() - began)
    began = time.perf_counter()
    budget = replace(wanted.budget(wanted.seconds), enough_bytes=wanted.capacity)
    best = plan(problem, wanted.planner, budget)
    fit_seconds = time.perf_counter() - began
    fitted = wanted.capacity is not None and best.peak_bytes <= wanted.capacity
    left = None if wanted.seconds is None else wanted.seconds - fit_seconds
    if fitted and not best.proven and find_planner(wanted.planner).exact and (left is None or left > 0):
        further = plan(problem, wanted.planner, wanted.budget(left))
        best = further if further.peak_bytes <= best.peak_bytes else best
    seconds = time.perf_counter() - began
    title = f"{path.name}: {len(problem.buffers)} buffers"
    extra = (("instance", path.name), ("fit_seconds", round(fit_seconds, 6) if fitted else None))
    return Found(
        title, problem, best, seconds, wanted.capacity, _exceeds(path.name, wanted.capacity, best), extra=extra
    )


def _without_reading(wanted: Wanted, reading_s: float) -> Wanted:
    """What is left of `--time` once the buffers are read, the plan is to be checked and its map drawn."""
    if wanted.seconds is None:
        return wanted
    return replace(wanted, seconds=max(LEAST_S, wanted.seconds - READINGS * reading_s))


def _exceeds(what: str, capacity_bytes: int | None, found: Plan) -> str | None:
    if capacity_bytes is None or found.peak_bytes <= capacity_bytes:
        return None
    hopeless = found.lower_bound_bytes > capacity_bytes
    remedy = "no plan fits" if hopeless else f"the bound is {found.lower_bound_bytes} B: try a longer --time"
    excess_bytes = found.peak_bytes - capacity_bytes
    return f"{what}: peak {found.peak_bytes} B exceeds {capacity_bytes} B by {excess_bytes} B; {remedy}"


@dataclass(frozen=True, slots=True)
class _Planned:
    """A placement of `base`, how the input gets in (None: without a board, or it does not fit), what there is to say of
    it, and why it does not fit."""

    base: Program
    placed: Placement
    notes: list[str]
    transfer: Transfer | None = None
    complaint: str | None = None


def _plan_model(wanted: Wanted, name: str, boards: Boards | None, say: Say) -> Found:
    board = None if wanted.board is None or boards is None else boards.board(wanted.board)
    wanted = replace(wanted, without=(*wanted.without, *passes_left_out(board)))
    source, formats, arranged = arranged_program(wanted, name, board, say)
    began = time.perf_counter()
    if wanted.ram is not None and wanted.capacity is not None:
        raise ConfigError("plan: --ram and --capacity exclude each other; --ram chooses a schedule that fits")
    asked = wanted.ram or wanted.capacity
    capacity = asked if board is None or asked is not None else board.chip.ram_bytes
    if board is None:
        found = _Planned(arranged, *_without_board(wanted, arranged))
        found = replace(found, complaint=_exceeds(source.name, capacity, found.placed.plan))
    elif wanted.ram is None and wanted.preferred is None and wanted.wish.arena_bytes is None:
        found = _least(wanted, arranged, board)
        is_sure = found.transfer is not None and links(found.placed, found.transfer, board)
        if wanted.capacity is None and not is_sure:
            again = replace(wanted, prefer=RAM)  # which computes again what does not fit otherwise
            other = _as_run(again, arranged, board)
            wanted, found = (again, other) if other.complaint is None else (wanted, found)
    else:
        found = _as_run(wanted, arranged, board)
    if board is not None and wanted.capacity is None and found.complaint is None:
        found = replace(found, complaint=_without_reserve(found, board))
    placed, notes = found.placed, found.notes
    proof = _proof(wanted, found.base, placed)
    seconds = time.perf_counter() - began
    if (order := [op.name for op in walk(placed.program.body)]) != [op.name for op in walk(found.base.body)]:
        notes.append(f"operations reordered{_order(placed.program)}")
    extra: dict[str, object] = {"model": source.name, "format": formats, "schedule_proven": proof is not None}
    if proof is not None:
        notes.insert(0, f"optimal schedule and placement: {proof.statement()}")
    if board is not None:
        extra["board"] = board.name
    if board is not None and (transfer := found.transfer) is not None:
        extra |= {"input_bytes": transfer.input_bytes, "streamed": transfer.streamed, "prefer": wanted.preferred}
        notes += _on_board(wanted, arranged, board, found, transfer, capacity)
    title = f"{source.name}, {formats}"
    return Found(
        title, placed.problem, placed.plan, seconds, capacity, found.complaint, tuple(order), tuple(notes),
        tuple(extra.items()),
    )  # fmt: skip


def _without_reserve(found: _Planned, board: BoardSpec) -> str | None:
    """Why it does not link, whatever else the firmware has; None if it may."""
    chip, transfer = board.chip, found.transfer
    if transfer is None or chip.regions or chip.static_ram_bytes is None:
        return None
    arena_bytes = found.placed.plan.peak_bytes
    over = arena_bytes + transfer.input_bytes - chip.static_ram_bytes
    if over <= 0:
        return None
    return (
        f"{board.name}: arena {arena_bytes} B and input {transfer.input_bytes} B exceed {chip.static_ram_bytes} B of "
        f"RAM ({chip.ram_bytes} B less {chip.stack_reserve_bytes} B for the stack) by {over} B; use a lower width, "
        "less --ram, --prefer least or a larger board"
    )


def _least(wanted: Wanted, arranged: Program, board: BoardSpec) -> _Planned:
    """The least arena, with the sample in it where it has the only slot."""
    base, placed = arranged, _of_least(wanted, arranged)
    if belongs_in_arena(arranged, _beside(wanted, placed, board)):
        base = arranged.with_input_in_arena()
        placed = _of_least(wanted, base)
    try:
        placed, transfer = fit(placed, board, wanted.wish, wanted.capacity, may_spread=True)
    except DoesNotFit as error:
        return _Planned(base, placed, [], complaint=str(error))
    return _Planned(base, placed, [], transfer)


def _as_run(wanted: Wanted, arranged: Program, board: BoardSpec) -> _Planned:
    """As a run has it that prefers or is given the same; where that does not fit, the least arena with why."""
    try:
        placed, transfer = place_arranged(arranged, limited(board, wanted.capacity), wanted.wish, wanted.without)
        if wanted.planner != DEFAULT or wanted.seconds is not None:
            placed = replace(placed, plan=plan(placed.problem, wanted.planner, wanted.budget(wanted.seconds)))
            placed, transfer = fit(placed, board, wanted.wish, wanted.capacity, may_spread=False)
    except DoesNotFit as error:
        return _Planned(*_nearest(wanted, arranged, board), [], complaint=str(error))
    base = arranged.with_input_in_arena() if placed.program.input_in_arena else arranged
    notes = [] if wanted.prefer else [f"as found{planned_by(preference_of(wanted.assignment))}"]
    if wanted.ram is not None:
        notes = [_schedule_said(products_again(placed.program, base), placed.more_time, board)]
    return _Planned(base, placed, notes, transfer)


def _nearest(wanted: Wanted, arranged: Program, board: BoardSpec) -> tuple[Program, Placement]:
    """What is shown where nothing fits: of `--ram` what takes least of it, whatever is computed again."""
    if wanted.ram is not None:
        with suppress(DoesNotFit):
            placed = place_arranged(arranged, board, Wish(LEAST), wanted.without)[0]
            return arranged.with_input_in_arena() if placed.program.input_in_arena else arranged, placed
    return arranged, _of_least(wanted, arranged)


def _on_board(
    wanted: Wanted, arranged: Program, board: BoardSpec, found: _Planned, transfer: Transfer, capacity: int | None
) -> list[str]:
    """What lies where on the board, and what others place there."""
    placed = found.placed
    how = "streamed" if transfer.streamed else "in the arena" if transfer.in_arena else "whole samples"
    limit = "" if capacity is None else f" of {capacity} B RAM"
    is_least = wanted.preferred is None and wanted.ram is None and wanted.wish.arena_bytes is None
    by = f" ({USUAL})" if is_least else planned_by(wanted.preferred)
    arena_bytes = arrays(placed.plan).get(SYMBOL, 0)
    lines = [f"{board.name}: arena {arena_bytes} B + input {transfer.input_bytes} B ({how}){limit}{by}"]
    lines += _otherwise(wanted, arranged, board, placed)
    for region in board.chip.regions if len(placed.problem.regions) > 1 else ():
        lines.append(f"{board.name}: {placed.plan.peaks[region]} B of {board.chip.regions[region]} B {region}")
    return lines


def _otherwise(wanted: Wanted, arranged: Program, board: BoardSpec, placed: Placement) -> list[str]:
    """What others place instead of the least arena: `hil run` prefers time where RAM is free, `hil fit` and `hil
    search` the least RAM, input included."""
    usual = preference_of(wanted.assignment)
    if wanted.prefer or wanted.ram is not None or wanted.capacity is not None or usual == RAM:
        return []
    found = []
    with suppress(DoesNotFit):
        run, _ = place_arranged(arranged, board, Wish(usual), wanted.without)
        if run.plan.peak_bytes != placed.plan.peak_bytes:
            found.append(
                f"`hil run` and `hil export --board {board.name}` take less time while RAM is free: arena "
                f"{run.plan.peak_bytes} B{planned_by(usual)}"
            )
    least = replace(wanted, prefer=RAM)
    if wanted.assignment is None and belongs_in_arena(arranged, _beside(least, placed, board)):
        within = _of_least(least, arranged.with_input_in_arena()).plan.peak_bytes
        found.append(f"`hil fit` and `hil search` count the input: arena {within} B with the input{planned_by(RAM)}")
    return found


def _order(program: Program) -> str:
    """What is carried out after what, where that is not too much for people; the record has all of it."""
    names = [in_short(op.name) for op in walk(program.body)]
    return ": " + " ".join(names) if len(names) <= MOST_NAMED else f" ({len(names)}; --json lists them)"


def _beside(wanted: Wanted, placed: Placement, board: BoardSpec) -> Transfer | None:
    """How the input gets into the board beside this arena; None if it does not fit."""
    try:
        return fit(placed, board, wanted.wish, wanted.capacity, may_spread=True)[1]
    except DoesNotFit:
        return None


def arranged_program(wanted: Wanted, name: str, board: BoardSpec | None, say: Say) -> tuple[ModelSource, str, Program]:
    """The model, what its formats are called, and its program as the board's core has it."""
    opened = wanted.opened(name)
    assignment = opened.assignment(wanted.assignment, wanted.format)
    ranges = planning_ranges(opened, say, wanted.calibrate, wanted.inputs)
    program = lower(opened.model.graph, assignment, ranges, wanted.without)
    arranged = program if board is None else arranged_for(program, board, wanted.without)
    return opened.source, format_name(assignment, program), arranged


def _of_least(wanted: Wanted, program: Program) -> Placement:
    """The least RAM that layers or rows take."""
    return place(program, wanted.without, wanted.planner, _budget(wanted))


def _without_board(wanted: Wanted, program: Program) -> tuple[Placement, list[str]]:
    """The least RAM, what an assignment file asks for, or the fastest within a limit, and what to say of it."""
    if wanted.ram is not None:
        found = cheapest_within(program, wanted.ram, wanted.without, wanted.planner, _budget(wanted))
        return found.placed, [_schedule_said(found.more_products, found.more_time, None)]
    prefer = preference_of(wanted.assignment, wanted.prefer, RAM)
    wish = replace(wanted.wish, prefer=prefer)
    if prefer == RAM and wish.arena_bytes is None:
        return _of_least(wanted, program), []
    as_found = [] if wanted.prefer else [f"as found{planned_by(prefer)}"]
    return chosen(program, wish, None, wanted.without, budget=_budget(wanted)), as_found


def _budget(wanted: Wanted) -> Budget:
    return wanted.budget(None if wanted.seconds is None else wanted.seconds / PLANS_PER_MODEL)


def _schedule_said(more_products: float, more_time: float, board: BoardSpec | None) -> str:
    said = f"{100 * more_products:+.1f} % products, {100 * more_time:+.1f} % time as {modelled(board)}"
    return f"fastest schedule found: {said}"


def modelled(board: BoardSpec | None) -> str:
    """Whose time a schedule is chosen by, and how far off that is."""
    core = CoreTime(core_of(board)).measured
    whose = "its own core needs --board" if board is None else board.name
    if board is not None and core != core_of(board):
        whose = f"nothing is known of {board.name}'s core"
    return f"modelled for {core} ({whose}), nine in ten within a factor of {OFF}: `hil run` measures it"


def _proof(wanted: Wanted, program: Program, placed: Placement) -> ScheduleProof | None:
    """That no schedule needs less, where that was asked for and can be shown: not of what computes products again."""
    is_once = wanted.ram is None and wanted.preferred != LEAST
    is_least = is_once and ROWS.name not in wanted.without and placed.plan.proven
    return prove_schedule(program, placed.plan.peak_bytes) if is_least else None


def planning_ranges(opened: Opened, say: Say, calibrate: Path | None = None, inputs: Path | None = None) -> Ranges:
    """Of the samples there are, as a run takes them; else the committed ranges, else any: sizes depend on formats
    alone. DataError names a file of samples that is none."""
    if calibrate is not None:
        return opened.required_ranges(calibrate)
    if inputs is not None:
        return opened.ranges_for(read_inputs(inputs, opened.model), None, say)
    source, model = opened.source, opened.model
    if source.ranges is not None and source.ranges.is_file():
        return load_ranges(source.ranges, model.sha256)
    if opened.ranges_that_do_not_matter() is None:
        say(f"{source.path}: no calibrated ranges; planned as if every value were within 1: sizes are the same")
    return assumed_ranges(model.graph)
