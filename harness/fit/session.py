"""`hil fit`: for every board and format whether the model fits, what it takes, and how long a sample may take."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from tinyhil.compiler.lower import lower
from tinyhil.errors import ConfigError, DoesNotFit, ModelError
from tinyhil.formats import named
from tinyhil.harness.build.pipeline import arranged_for
from tinyhil.harness.build.toolchain import default_cache_dir
from tinyhil.harness.fit.core_costs import Estimate, costs_of
from tinyhil.harness.fit.features import flash_constants
from tinyhil.harness.fit.needs import Rows, needs_of, ram_of
from tinyhil.harness.job.inputs import about_labels, read_inputs
from tinyhil.harness.job.job import Opened, Request, Streamed, method_of, open_model
from tinyhil.harness.offline.plan import planning_ranges
from tinyhil.harness.settings.config import Boards, BoardSpec
from tinyhil.language.assignment import Assignment
from tinyhil.language.program import Program
from tinyhil.memplan.arena.placement import place
from tinyhil.notice import Say
from tinyhil.preference import RAM, Wish
from tinyhil.references.classes import class_count
from tinyhil.search.engine.library import load_engine
from tinyhil.search.engine.restart import work_of
from tinyhil.search.evaluator import Evaluator, make_examples
from tinyhil.search.offer import formats_on_offer

AVR_STACK_BYTES, ARM_STACK_BYTES = 90, 160  # the least of all golden records; of others the stack is not known apart
FORMATS = "fixed8,int8,fixed16"
ALL = "all"
SAMPLES, MOST_PRODUCTS = 200, 2_000_000_000  # judged per format: a second or two
EASY_PRODUCTS = 500_000_000  # more samples of a model that is as quick
PLENTY_BYTES = 1 << 30  # of RAM
NARROWEST_BITS = 4  # that a search offers to weights where flash is short
YES, TIGHT, NO = "yes", "tight", "no"
WAITS, MODELLED = "flash waits", "exact instructions, modelled cycles"


@dataclass(frozen=True, slots=True)
class FitRequest:
    """What the user asked for; the fields are the options of `hil fit`. `formats`: names with commas between; None: the
    usual ones."""

    model: str
    boards: tuple[str, ...] = (ALL,)
    formats: str | None = None
    inputs: Path | None = None
    calibrate: Path | None = None
    calibrate_by: str | None = None
    samples: int | None = None
    prefer: str = RAM
    states: tuple[str, ...] | None = None
    steps: int | None = None


@dataclass(frozen=True, slots=True)
class Agreement:
    """Of one format with the float model, on so many samples of those `given`."""

    samples: int
    disagreements: int
    accuracy: float | None
    float_accuracy: float | None
    given: int


@dataclass(frozen=True, slots=True)
class Fit:
    """One model in one format on one board. `fits`: yes, no, or tight: as much as estimates can tell. Bytes of flash
    and RAM with their bands, against what the chip has; `latency_us` of the median sample, None where the core was
    never measured, or nothing fits; `beside_latency`: what of a chip's time the band does not hold. `reason`: why not.
    `chosen`: what to take on this board."""

    board: str
    format: str
    fits: str
    flash_bytes: Estimate | None = None
    flash_limit_bytes: int | None = None
    ram_bytes: Estimate | None = None
    ram_limit_bytes: int | None = None
    arena_bytes: int | None = None
    latency_us: Estimate | None = None
    beside_latency: str = ""
    agreement: Agreement | None = None
    reason: str = ""
    chosen: bool = False


@dataclass(frozen=True, slots=True)
class FitOutcome:
    """A row for every board and format, boards in the order asked for."""

    request: FitRequest
    model: str
    rows: tuple[Fit, ...]
    next_command: str = ""  # the run that gives the RAM of the first row to be taken; empty where nothing fits

    @property
    def printed(self) -> dict[str, Any]:
        """What `--json` prints."""
        return {"model": self.model, "prefer": self.request.prefer, "rows": [asdict(row) for row in self.rows]}


def run_fit(request: FitRequest, boards: Boards, say: Say) -> FitOutcome:
    """Plan for every board and format, estimate flash and time, judge formats where there are samples.

    ConfigError for a board that has no limits.
    """
    specs = boards_of(request.boards, boards)
    streamed = Streamed(request.states, request.steps, request.inputs or request.calibrate)
    opened = open_model(request.model, say, streamed, by=method_of(None, request.calibrate_by))
    is_given = request.calibrate is not None or request.inputs is not None
    tell = say if is_given else lambda line: None  # sizes do not need any
    ranges = planning_ranges(opened, tell, request.calibrate, request.inputs)
    for board in specs:
        if board.lacks_supply:
            say(
                f"{board.name}: without `supply:` it runs at its clock after reset, {board.clock_hz / 1e6:g} MHz, and "
                f"these are its times there, not at {board.chip.clock_hz / 1e6:g} MHz (`hil docs flashing`)"
            )
    names = _names(request, opened, say)
    rows: list[Fit] = []
    notes: dict[str, None] = {}
    for name in names:
        try:
            lowered = lower(opened.model.graph, Assignment(named(name).name), ranges)
        except ModelError as error:
            rows += [Fit(board.name, name, NO, reason=str(error)) for board in specs]
            continue
        agreement = _agreement(opened, request, lowered, notes) if request.inputs is not None else None
        rows += _on_boards(lowered, name, specs, request.prefer, agreement)
    for note in notes:
        say(f"{opened.source.name}: {note}")
    chosen = tuple(_with_choice(rows, [board.name for board in specs], names))
    return FitOutcome(request, opened.source.name, chosen, _next(request, opened, chosen, boards))


def _names(request: FitRequest, opened: Opened, say: Say) -> tuple[str, ...]:
    """Formats to judge; one where the model states those of all its values, which no other can replace."""
    names = tuple(formats_on_offer(FORMATS if request.formats is None else request.formats))
    own = opened.stated_format()
    if not own:
        return names
    name = own if own in names else names[0]
    say(f"{opened.source.name}: the file states the formats of all values: one row, `{name}`, stands for all")
    return (name,)


def _next(request: FitRequest, opened: Opened, rows: Sequence[Fit], boards: Boards) -> str:
    """As it is to be typed, with what is preferred here: a run prefers otherwise, and needs samples."""
    row = next((one for one in rows if one.chosen), None)
    if row is None:
        return ""
    names = ("inputs", "calibrate", "calibrate_by", "prefer", "states", "steps")
    same = {name: getattr(request, name) for name in names}
    if same["calibrate_by"] == method_of(None, None):
        same["calibrate_by"] = None  # as a run does by itself
    if request.inputs is None and opened.source.dataset is None and opened.source.text is None:
        same["inputs"] = "SAMPLES.npz"
    return boards.repeated(Request(row.board, request.model, row.format, **same).command())


def boards_of(wanted: Sequence[str], boards: Boards) -> list[BoardSpec]:
    """Those named; `all` are those that somebody can hold in a hand: chips with limits and a clock. ConfigError for a
    board without limits."""
    if ALL in wanted:
        every = (boards.board(name) for name in boards.entries)
        return [board for board in every if _is_chip(board) and board.chip.tick == "cycles"]
    found = [boards.board(name) for name in wanted]
    for board in found:
        if not _is_chip(board):
            raise ConfigError(f"fit: {board.name} has no limits to fit into; name a chip's board, see `hil boards`")
    return found


def _is_chip(board: BoardSpec) -> bool:
    return board.hardware is None and board.chip.flash_bytes is not None and board.chip.ram_bytes is not None


def _agreement(opened: Opened, request: FitRequest, lowered: Program, notes: dict[str, None]) -> Agreement:
    """Decisions on samples, evenly spread, that differ from those of the float model; `notes` takes what there is to
    say of these samples."""
    assert request.inputs is not None
    given = read_inputs(request.inputs, opened.model)
    work = max(1, work_of(lowered))
    most = request.samples or max(2, min(SAMPLES, MOST_PRODUCTS // work), EASY_PRODUCTS // work)
    step = -(-len(given.x) // most)
    labels = None if given.y is None else given.y[::step]
    examples = make_examples(opened.model.graph, given.x[::step], labels)
    graph, outputs = opened.model.graph, examples.outputs
    if alike := about_labels(labels, examples.classes, class_count(graph, outputs[0].size)):
        notes[alike] = None
    score = Evaluator(load_engine(default_cache_dir()), examples).score(lowered)
    accuracy = None if score.correct is None else score.correct / score.samples
    return Agreement(score.samples, score.disagreements, accuracy, examples.float_accuracy, len(given.x))


def _on_boards(
    lowered: Program, name: str, specs: Sequence[BoardSpec], prefer: str, agreement: Agreement | None
) -> Iterator[Fit]:
    """Boards of one core and one memory share a plan."""
    known: dict[tuple[Any, ...], Fit] = {}
    times: dict[Rows, float] = {}
    for board in specs:
        chip = board.chip
        key = chip.core, chip.ram_bytes, chip.flash_bytes, chip.stack_reserve_bytes, str(chip.regions), board.clock_hz
        if key not in known:
            known[key] = _fit(lowered, name, board, prefer, times)
        yield replace(known[key], board=board.name, agreement=agreement)


def _fit(lowered: Program, name: str, board: BoardSpec, prefer: str, times: dict[Rows, float]) -> Fit:
    chip = board.chip
    assert chip.flash_bytes is not None
    base = Fit(board.name, name, NO, flash_limit_bytes=chip.flash_bytes, ram_limit_bytes=chip.ram_bytes)
    constants = flash_constants(lowered)
    if constants > chip.flash_bytes:  # as a rule a core has no shorter form of them
        constants = flash_constants(arranged_for(lowered, board))
    if constants > chip.flash_bytes:
        why = f"constants take {constants:,} B of flash"
        if constants * NARROWEST_BITS / named(name).bits <= chip.flash_bytes:
            why += "; `hil search` narrows weights alone, too"
        return replace(base, flash_bytes=_exactly(constants), reason=why)
    try:
        needs = needs_of(lowered, board, Wish(prefer), times)
    except DoesNotFit:
        return replace(base, **_too_much_ram(lowered, board, prefer), reason="RAM is too small")
    flash, ram = needs.flash_bytes, needs.ram_bytes
    fits, reason = _verdict(flash, chip.flash_bytes, ram, chip.ram_bytes or 0)
    reserve = chip.stack_reserve_bytes or 0
    stack = AVR_STACK_BYTES if chip.core == "avr" else ARM_STACK_BYTES
    if fits == YES and ram.high - stack + reserve > (chip.ram_bytes or 0):
        fits, reason = TIGHT, f"{reserve:,} B of RAM are kept for the stack (stack_reserve_bytes): build it"
    if fits == YES and needs.latency_us is None:  # its code is unknown, too: an attention's took 2.3 times the estimate
        fits = TIGHT
        reason = "no measured image of this core has such operations: code and time are not known; build it"
    found = replace(base, fits=fits, flash_bytes=flash, ram_bytes=ram, arena_bytes=needs.arena_bytes)
    beside = WAITS if needs.latency_us is not None and _waits_unbounded(board) else ""
    return replace(found, latency_us=needs.latency_us, beside_latency=beside, reason=reason)


def _too_much_ram(lowered: Program, board: BoardSpec, prefer: str) -> dict[str, Any]:
    """What it takes on such a chip with more RAM, nothing copied there; of a network that nothing so large holds the
    arena alone."""
    large = board.chip.model_copy(update={"ram_bytes": PLENTY_BYTES, "regions": {}, "hot": None})
    try:
        needs = needs_of(lowered, board.model_copy(update={"chip": large}), Wish(prefer))
        return {"ram_bytes": needs.ram_bytes, "arena_bytes": needs.arena_bytes}
    except DoesNotFit:
        arena = place(arranged_for(lowered, board)).plan.peak_bytes
        return {"ram_bytes": ram_of(arena, costs_of(board.chip.core)), "arena_bytes": arena}


def _waits_unbounded(board: BoardSpec) -> bool:
    """Its cycles are modelled, and nobody has measured by how much a chip's differ: a run says no more than that they
    lie between a flash that is never waited for and one that always is."""
    emulator = board.chip.emulator
    return emulator is not None and emulator.fidelity == MODELLED and emulator.error is None


def _exactly(value: float) -> Estimate:
    return Estimate(value, value, value)


def _verdict(flash: Estimate | None, flash_limit: int, ram: Estimate, ram_limit: int) -> tuple[str, str]:
    pairs = [("flash", flash or _exactly(0), flash_limit), ("RAM", ram, ram_limit)]
    for what, found, limit in pairs:
        if found.low > limit:
            return NO, f"{what} is too small"
    if flash is None:
        return TIGHT, "no image was measured on this core: code, stack and time are not known; build it"
    tight = [what for what, found, limit in pairs if found.high > limit]
    return (TIGHT, f"{' and '.join(tight)} may be too small: build it") if tight else (YES, "")


def _with_choice(rows: Sequence[Fit], boards: Sequence[str], formats: Sequence[str]) -> Iterator[Fit]:
    """By board; where samples tell, the format with the fewest disagreements that fits, the faster of equals, then the
    one of less flash; without samples the most bits that fit, among equals likewise. Where all may be too large:
    what is by least."""
    for board in boards:
        own = [row for row in rows if row.board == board]
        fitting = [row for row in own if row.fits == YES] or [row for row in own if row.fits == TIGHT]
        best = min(fitting, key=lambda row: (_beyond(row), _merit(row)), default=None)
        for row in own:
            yield replace(row, chosen=row is best)


def _beyond(row: Fit) -> float:
    """By which share of the limits the upper ends of its bands lie beyond them."""
    pairs = ((row.flash_bytes, row.flash_limit_bytes), (row.ram_bytes, row.ram_limit_bytes))
    return sum(max(0.0, found.high / limit - 1) for found, limit in pairs if found is not None and limit)


def _merit(row: Fit) -> tuple[float, float, float]:
    quality = -named(row.format).bits if row.agreement is None else row.agreement.disagreements
    flash_bytes = row.flash_bytes.value if row.flash_bytes is not None else float("inf")
    return quality, row.latency_us.value if row.latency_us is not None else float("inf"), flash_bytes
