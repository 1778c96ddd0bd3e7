"""Model file -> Sources for a set of boards: front end, formats, lowering, planning, code generation."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from tinyhil import files
from tinyhil.codegen.constants import CONSTANTS
from tinyhil.codegen.model import Source, emit_models
from tinyhil.compiler.calibrate import Ranges
from tinyhil.compiler.lower import lower
from tinyhil.errors import DoesNotFit
from tinyhil.formats.format import Format
from tinyhil.frontend.listing import Model
from tinyhil.harness.build.platformio import MANIFESTS, project_files
from tinyhil.harness.build.weights import check_weights
from tinyhil.harness.settings.assets import asset
from tinyhil.harness.settings.config import BoardSpec
from tinyhil.language.assignment import Assignment, format_name
from tinyhil.language.program import Program
from tinyhil.memplan import Plan, Problem, check
from tinyhil.memplan.arena.passes import ROWS
from tinyhil.memplan.arena.placement import Placement
from tinyhil.memplan.arena.placement_preference import chosen, pays
from tinyhil.memplan.arena.regions import SYMBOL, arrays, main_ram_bytes, spread
from tinyhil.memplan.arena.transfer import Transfer, belongs_in_arena, choose_transfer
from tinyhil.memplan.problem import ARENA
from tinyhil.passes.arrange import arrange
from tinyhil.passes.hot import HotMemory, Target
from tinyhil.passes.laid import laid_out
from tinyhil.passes.row_pairs import for_time
from tinyhil.preference import Wish
from tinyhil.references.verify import checked
from tinyhil.reram.mapping import WITHOUT, on_crossbars

OWN_AVR_BYTES, OWN_BYTES = 112, 208  # at most, of the firmware of the zoo's models: frames, states, what is counted


@dataclass(frozen=True, slots=True)
class Compiled:
    """One model in one assignment: the program as it was lowered and with what saves memory done, its plan, and how its
    input gets into each board it fits."""

    model: Model
    assignment: Assignment
    lowered: Program
    program: Program
    problem: Problem
    plan: Plan
    transfers: dict[str, Transfer]
    sources: dict[str, Source]

    @property
    def formats(self) -> str:
        """See `format_name`."""
        return format_name(self.assignment, self.lowered)

    @property
    def output_format(self) -> Format:
        """Of what a sample's result is held in."""
        return self.program.tensors[self.program.output].format


def compile_model(
    model: Model,
    assignment: Assignment,
    ranges: Ranges,
    boards: Sequence[BoardSpec],
    required: Iterable[str],
    without: Collection[str] = (),
    wish: Wish | None = None,
) -> Compiled:
    """Lower, plan and generate for `boards`; those it does not fit are left out unless `required` (DoesNotFit).

    `without`: names of passes to leave out. `wish`: whether time or memory counts where they
    disagree, and how samples arrive. Weights are stored as each core reads them: with
    `required` boards the others are left out, too, if their core has another order. Program and plan of the result are
    those of the first board that is not left out.
    """
    required = set(required)
    boards = [board for board in boards if board.hardware is None or board.name in required]
    without = {*without, *(name for board in boards for name in passes_left_out(board))}
    lowered = lower(model.graph, assignment, ranges, without)
    groups = _by_core(lowered, boards, without)
    if required:
        groups = [(program, same) for program, same in groups if required & {board.name for board in same}]
    parts = [part for one, same in groups for part in _fastest(one, same, required, without, wish or Wish())]
    laid = [(laid_out(part.placed.program, part.placed.plan, part.targets, without), part.targets) for part in parts]
    sources = {**project_sources(boards), **emit_models(laid, bytes.fromhex(model.sha256)[:8])}
    first = parts[0].placed
    transfers = {name: transfer for part in parts for name, transfer in part.transfers.items()}
    return Compiled(model, assignment, lowered, first.program, first.problem, first.plan, transfers, sources)


def place_for(lowered: Program, board: BoardSpec, wish: Wish) -> tuple[Placement, Transfer]:
    """The lowered program as the board's core has it, planned, and how its input gets in, without its code; DoesNotFit
    as `compile_model`."""
    (program, _), *_ = _by_core(lowered, [board])
    return place_arranged(program, board, wish)


def place_arranged(
    program: Program, board: BoardSpec, wish: Wish, without: Collection[str] = ()
) -> tuple[Placement, Transfer]:
    """The same of a program that is arranged for the board's core already; `without`: names of passes to leave out."""
    part = _fastest(program, [board], {board.name}, without, wish)[0]
    return part.placed, part.transfers[board.name]


def _by_core(
    program: Program, boards: Sequence[BoardSpec], without: Collection[str] = ()
) -> list[tuple[Program, list[BoardSpec]]]:
    """The program as it is arranged for the boards' cores, in the boards' order: of each core one, and one as it was
    lowered, each with its boards.

    Without boards: as it was lowered, for any core.
    """
    groups: dict[str, tuple[Program, list[BoardSpec]]] = {}
    for board in boards:
        arranged = checked(arranged_for(program, board, without), "arrangement for a core")
        own = board.chip.core if board.hardware is None else board.name
        core = own if arranged is not program else ""
        groups.setdefault(core, (arranged, []))[1].append(board)
    return list(groups.values()) or [(program, [])]


def passes_left_out(board: BoardSpec | None) -> tuple[str, ...]:
    """Names of passes that have no place on the board: crossbars round each product and hold whole windows."""
    return () if board is None or board.hardware is None else (*WITHOUT, ROWS.name)


def arranged_for(program: Program, board: BoardSpec, without: Collection[str] = ()) -> Program:
    """The program as the board's core or accelerator carries it out; ModelError for layers that this can not hold.
    `without`: names of passes to leave out."""
    hardware = board.hardware
    return arrange(program, board.chip.core, without) if hardware is None else on_crossbars(program, hardware)


def core_of(board: BoardSpec | None) -> str:
    """Whose time counts; empty for an accelerator and for no board."""
    return board.chip.core if board is not None and board.hardware is None else ""


def target_of(board: BoardSpec, transfer: Transfer) -> Target:
    """What code generation has to know of a board."""
    hot, regions = board.chip.hot, board.chip.regions
    memory = None
    if hot is not None:
        size_bytes = regions[hot.region] if hot.region else board.chip.ram_bytes or 0
        reserved_bytes = hot.stack_bytes + (hot.code_bytes or 0)
        memory = HotMemory(hot.region or ARENA, size_bytes, reserved_bytes, hot.cache_bytes or 0)
    return Target(board.name, transfer, memory)


@dataclass(frozen=True, slots=True)
class _Part:
    """A program with the boards that run it, and why others do not."""

    placed: Placement
    boards: Sequence[BoardSpec]
    transfers: dict[str, Transfer]
    misfits: dict[str, DoesNotFit]

    @property
    def targets(self) -> list[Target]:
        return [target_of(b, self.transfers[b.name]) for b in self.boards if b.name in self.transfers]

    def is_roomy(self, board: BoardSpec) -> bool:
        """Whether arena and input surely link on the board, if it is one of the part's."""
        transfer = self.transfers.get(board.name)
        return transfer is None or links(self.placed, transfer, board)

    def without(self, names: Collection[str]) -> _Part:
        return replace(self, transfers={name: one for name, one in self.transfers.items() if name not in names})


def _fastest(
    program: Program, boards: Sequence[BoardSpec], required: set[str], without: Collection[str], wish: Wish
) -> list[_Part]:
    """`_compile` of the program with what takes more scratch for less time, where RAM does not count and all fits; else
    without."""
    faster = for_time(program, core_of(next(iter(boards), None)), wish.prefer, without)
    if faster is not program:
        with suppress(DoesNotFit):
            parts = _compile(checked(faster, "what takes less time"), boards, required, without, wish)
            fitted = {name for part in parts for name in part.transfers}
            peak_bytes = max(part.placed.plan.peak_bytes for part in parts)
            are_roomy = wish.ram_bytes is not None or all(part.is_roomy(b) for part in parts for b in boards)
            if len(fitted) == len(boards) and are_roomy and peak_bytes <= (wish.arena_bytes or peak_bytes):
                return parts
    return _compile(program, boards, required, without, wish)


def _compile(
    program: Program, boards: Sequence[BoardSpec], required: set[str], without: Collection[str], wish: Wish
) -> list[_Part]:
    """Programs for the boards, those of `required` boards in front: with slots beside the arena, or with the sample in
    the arena where it would have the only slot, or nothing fits, or the bytes that were said are better used so."""
    without = {*without, *(name for board in boards for name in passes_left_out(board))}
    is_last = wish.keeps_input or not belongs_in_arena(program, None)  # no other way takes less
    part = _planned(program, boards, required, without, wish, again=is_last)
    parts, sharing, able = [part], list[BoardSpec](), list[BoardSpec]()
    if not wish.keeps_input:
        able = [board for board in boards if _may_hold(program, board)]
        sharing = [board for board in able if belongs_in_arena(program, part.transfers.get(board.name))]
    limited_to = wish.ram_bytes is not None or (wish.arena_bytes is not None and not wish.input_apart)
    if may_pay := not sharing and limited_to and belongs_in_arena(program, None):
        sharing = able
    if sharing:
        if wish.arena_bytes is not None and wish.input_apart:
            wish = replace(wish, arena_bytes=wish.arena_bytes + program.tensors[program.input].size_bytes)
        within = _planned(program.with_input_in_arena(), sharing, required, without, wish, again=True)
        if not may_pay or pays(within.placed, part.placed, wish):
            parts = [within, part.without(within.transfers)]
    fitted = {name for part in parts for name in part.transfers}
    for name in required - fitted:
        for one in parts:
            if name in one.misfits:
                raise one.misfits[name]
    parts.sort(key=lambda one: not required & set(one.transfers))
    return [one for one in parts if one.transfers] or parts[-1:]


def _may_hold(program: Program, board: BoardSpec) -> bool:
    """Whether the board's RAM is large enough for a sample."""
    room = board.chip.static_ram_bytes
    return bool(board.chip.regions) or room is None or program.tensors[program.input].size_bytes <= room


def _planned(
    program: Program,
    boards: Sequence[BoardSpec],
    required: set[str],
    without: Collection[str],
    wish: Wish,
    *,
    again: bool,
) -> _Part:
    """One plan for all of these boards; `again`: halos may be computed again if nothing else fits."""
    rooms = [room_bytes(program, b) for b in boards if not required or b.name in required]
    limits = [room for room in rooms if room is not None]
    spreads = any(board.chip.regions for board in boards)
    again = again and bool(required) and not spreads
    core = core_of(next(iter(boards), None))
    placed = chosen(program, wish, min(limits, default=None), without, again=again, core=core)
    part = _Part(placed, boards, {}, {})
    for board in boards:
        try:
            check_weights(placed.program, board)
            may_spread = board.name in required and wish.ram_bytes is None
            placed, part.transfers[board.name] = fit(placed, board, wish, wish.ram_bytes, may_spread=may_spread)
        except DoesNotFit as error:
            part.misfits[board.name] = error
    check(placed.problem, placed.plan)
    return replace(part, placed=placed)


def limited(board: BoardSpec, ram_bytes: int | None) -> BoardSpec:
    """The board as if it had no more RAM than that."""
    limits = [limit for limit in (board.chip.ram_bytes, ram_bytes) if limit is not None]
    return board.model_copy(update={"chip": board.chip.model_copy(update={"ram_bytes": min(limits, default=None)})})


def room_bytes(program: Program, board: BoardSpec) -> int | None:
    """RAM for arena and input, so that the image surely links: less the reserve for the stack and what firmware keeps
    beside them, which depends on how long a result is. None: no limit; what needs more than this may still fit."""
    room, output = board.chip.static_ram_bytes, program.tensors[program.output]
    own = OWN_AVR_BYTES if board.chip.core == "avr" else OWN_BYTES
    return None if room is None else max(0, room - own - 2 * output.size_bytes)


def links(placed: Placement, transfer: Transfer, board: BoardSpec) -> bool:
    """Whether arena and input surely leave the board's firmware and its stack their room."""
    room = None if board.chip.regions else room_bytes(placed.program, board)
    return room is None or placed.plan.peak_bytes + transfer.input_bytes <= room


def fit(
    placed: Placement, board: BoardSpec, wish: Wish | None = None, ram_bytes: int | None = None, *, may_spread: bool
) -> tuple[Placement, Transfer]:
    """How the input gets into a board, within `ram_bytes` where that is said; where one memory is too small, with a
    plan over all that its chip has."""
    program, chip = placed.program, limited(board, ram_bytes).chip
    room = room_bytes(program, board) if ram_bytes is None else None
    try:
        arena_bytes = arrays(placed.plan).get(SYMBOL, 0) if chip.regions else placed.plan.peak_bytes
        return placed, choose_transfer(
            program, arena_bytes, chip.ram_bytes, board.name, wish, room, board.chip.static_ram_bytes
        )
    except DoesNotFit:
        if not (may_spread and chip.regions) or chip.ram_bytes is None:
            raise
    main_bytes = main_ram_bytes(program, chip.ram_bytes, chip.stack_reserve_bytes or 0)
    wide = spread(placed, chip.regions, main_bytes)
    return wide, choose_transfer(program, arrays(wide.plan).get(SYMBOL, 0), chip.ram_bytes, board.name, wish)


OF_OTHERS = "firmware/bench/"  # for their own projects


@lru_cache
def runtime_sources() -> dict[str, str]:
    """The part of a project that depends neither on the model nor on the boards: `firmware/`."""
    root = asset("firmware").parent
    sources = {}
    for path in sorted((root / "firmware").rglob("*")):
        name = path.relative_to(root).as_posix()
        if path.is_file() and "__pycache__" not in path.parts and not name.startswith((MANIFESTS, OF_OTHERS)):
            sources[name] = path.read_text(encoding="utf-8")
    return sources


def project_sources(boards: Sequence[BoardSpec]) -> dict[str, str]:
    """A project without its model: the firmware, and what PlatformIO must know of `boards`."""
    return runtime_sources() | project_files(boards)


def write_sources(sources: Mapping[str, Source], folder: Path) -> int:
    """Write the files whose content differs; returns how many. Equal files are left alone, so nothing is rebuilt.

    Constants of another model that lay in `folder` go.
    """
    for path in folder.glob(CONSTANTS):
        if path.relative_to(folder).as_posix() not in sources:
            path.unlink()
    written = 0
    for name, content in sources.items():
        path, data = folder / name, files.as_bytes(content)
        if path.is_file() and path.read_bytes() == data:
            continue
        with files.naming(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            files.write_bytes(path, data)
        written += 1
    return written
