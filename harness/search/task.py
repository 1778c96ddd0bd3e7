"""What the user asked a search for, and everything it names, loaded."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

from tinyhil import files
from tinyhil.codegen.profile_calls import constant_bytes
from tinyhil.compiler.calibrate import Ranges
from tinyhil.errors import ConfigError, Infeasible, ModelError
from tinyhil.harness.boards.locate import EMULATED
from tinyhil.harness.build.pipeline import passes_left_out
from tinyhil.harness.job.inputs import about_labels
from tinyhil.harness.job.job import Opened, Request, conditions, open_model
from tinyhil.harness.measure.run import find_place
from tinyhil.harness.records.figures import CANDIDATES
from tinyhil.harness.search.device import Bench
from tinyhil.harness.search.phases import OutOfTime, Phases, began
from tinyhil.harness.search.request import UNKEYED, UNSCORED, SearchRequest
from tinyhil.harness.search.splits import Split, affordable, as_named, load_split
from tinyhil.harness.search.total import memory_of, wider_input
from tinyhil.harness.search.tuning import fine_tuning, judged_on
from tinyhil.harness.settings.config import Boards, BoardSpec
from tinyhil.notice import WARNING, Say
from tinyhil.preference import LATENCY, Wish
from tinyhil.search.accelerator import AcceleratorCosts
from tinyhil.search.engine.library import load_engine
from tinyhil.search.engine.restart import work_of
from tinyhil.search.evaluator import Evaluator, Executor, NumpyExecutor, make_examples, require_classes
from tinyhil.search.latency_floor import floor_cycles, has_floor
from tinyhil.search.memory import UNLIMITED, Memory
from tinyhil.search.offer import formats_on_offer, stands_for
from tinyhil.search.search_problem import SearchProblem, Strategy
from tinyhil.search.space import Space, make_space
from tinyhil.search.strategies import make_strategy
from tinyhil.search.strategies.single_format import SingleFormat
from tinyhil.search.trial import Trial, TrialLog

Progress = Callable[[Trial, Trial | None], None]
FOR_FLASH, FOR_LATENCY = ("fixed8pc", "fixed6", "fixed4pc", "kmeans16"), ("fixed8pc",)  # for weights alone
USUAL, USUAL_ON_CROSSBARS = "fixed8,fixed16", ",".join(f"fixed{bits}" for bits in range(2, 9))
# Samples for a first answer, where all are LONG times as many
LOOKED_AT, LOOK_PRODUCTS, LONG = (50, 1000), 1_000_000_000, 5
TIMED_PRODUCTS, MOST_TIMED = 20_000_000, 600  # some ten seconds of an emulated Uno


@dataclass(frozen=True, slots=True)
class Task:
    """A request with everything it names loaded. `ram_bytes`: the limit that it means, of all RAM that `board` needs
    where `whole` says so, else of the arena. `arena_bytes`: what of it is the arena's. `board`: the one to fit;
    `others`: the same task on more boards that the answer is to fit as well. `fast_within`: an arena of so many bytes,
    with the sample in it, is planned for time, whatever the request prefers."""

    request: SearchRequest
    ram_bytes: int
    arena_bytes: int
    strategy: Strategy
    opened: Opened
    ranges: Ranges
    split: Split
    problem: SearchProblem
    boards: Boards | None
    board: BoardSpec | None
    cache_dir: Path
    say: Say
    progress: Progress
    phases: Phases
    others: tuple[Task, ...] = ()
    fast_within: int | None = None

    @property
    def sides(self) -> tuple[Task, ...]:
        """The task as each board has it."""
        return (self, *self.others)

    @property
    def whole(self) -> bool:
        """Whether RAM means arena, the input's buffers, static data and stack: where a board with a limit is named."""
        return self.request.arena is None and self.board is not None and self.board.chip.ram_bytes is not None

    @property
    def measures(self) -> bool:
        """Whether candidates run on the board; on an accelerator, whose costs a model gives, only if asked for."""
        if self.accelerated:  # whose costs are those of a model: what it would show is known
            return self.request.on_device or self.request.every is not None
        return self.whole or self.request.uses_board

    @property
    def accelerated(self) -> bool:
        """The board is a simulated accelerator, limited in other ways than memory."""
        return self.board is not None and self.board.hardware is not None

    @property
    def command(self) -> str:
        """The command that repeats it, or the call from Python that it was."""
        command = self.request.command()
        return command if self.boards is None else self.boards.repeated(command)

    @property
    def folder(self) -> Path:
        """Where records, logs and assignments of this model's searches lie."""
        return self.request.results / "search" / self.opened.source.name

    def stem(self, *limit_bytes: int) -> str:
        """`limit_bytes`: of each board that has one."""
        limits = [str(limit) for limit in limit_bytes if limit < UNLIMITED]
        return "-".join((self.strategy.name, *limits, self.key[:8]))

    @property
    def timed_samples(self) -> int:
        """On how many samples a board is asked: where latency counts more of a small network."""
        asked, chip = self.request.device_samples, None if self.board is None else self.board.chip
        counts = self.request.costs and self.request.port is None and chip is not None and chip.emulator is not None
        return max(asked, min(MOST_TIMED, TIMED_PRODUCTS // _products(self.problem.space))) if counts else asked

    def wish(self, trial: Trial) -> Wish:
        """What the memory of an answer is planned for, and within how many bytes of arena products are computed again,
        if any are; `--arena` counts the sample nowhere."""
        if self.fast_within is not None:
            return Wish(LATENCY, arena_bytes=self.fast_within)
        problem, candidate = self.problem, trial.candidate
        planned = trial.ram_bytes or problem.planned_bytes(candidate)  # of what is only profiled nobody has said
        within = problem.limit_bytes - problem.beside_bytes(candidate)
        again = problem.memory.schedule_limit(candidate, planned, within)
        apart = again is not None and self.request.arena is not None
        return Wish(self.request.prefer, arena_bytes=again, input_apart=apart)

    @property
    def key(self) -> str:
        """Names what may be resumed: the same questions about the same model on the same samples."""
        return self._digest(UNKEYED, repr(self.strategy))

    @property
    def scores_key(self) -> str:
        """Names what scores depend on, whatever the strategy and the limits."""
        return self._digest(UNSCORED)

    def _digest(self, left_out: Collection[str], *more: str) -> str:
        split, board = self.split, self.board
        given = {one.name: getattr(self.request, one.name) for one in fields(SearchRequest) if one.name not in left_out}
        hardware = None if board is None else board.hardware
        parts = (self.opened.model.sha256, split.sha256, len(split.x), self.problem.space.formats, self.ranges_text)
        text = " ".join(map(str, (*parts, hardware, json.dumps(given, sort_keys=True), *more)))
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def ranges_text(self) -> str:
        """The ranges as part of a key, with all that decides how they are cut."""
        ranges = self.ranges
        seen = {name: hashlib.sha256(values.tobytes()).hexdigest() for name, values in ranges.seen.items()}
        return json.dumps([dict(ranges.values), dict(ranges.columns), ranges.by, seen], sort_keys=True)


def load_task(
    request: SearchRequest,
    cache_dir: Path,
    say: Say,
    progress: Progress,
    boards: Boards | None,
    since: tuple[float, float] | None = None,
    look: Callable[[Task], object] = lambda task: None,
) -> Task:
    """ConfigError or DataError before anything slow: what needs no evaluation is checked before the engine is made.
    `since`: when the command began, from which `--seconds` count; None: now. `look` is shown the task on few samples
    where all of them take long; where the time is over, or somebody interrupts, before these are run, that is it."""
    tell, count = (getattr(progress, name, lambda value: None) for name in ("phase", "evaluated"))
    phases = Phases(tell, count=count, _begin=since or began())
    with phases.of("reading model and samples"):
        read = _read(request, boards, say, phases)
    loaded = partial(_loaded, read, boards, cache_dir, say, progress)
    few = _few(read)
    if few is None:
        return loaded(read.request, read.split)
    first = loaded(replace(read.request, samples=few), read.split.thinned(few).reported_on(few))
    phases.key = replace(first, split=read.split).key
    look(first)
    try:
        with phases.within(request.seconds):
            return loaded(read.request, read.split)
    except (KeyboardInterrupt, OutOfTime):
        phases.is_stopped = True
        return first


@dataclass(frozen=True, slots=True)
class _Read:
    """What a request names, before anything is run."""

    request: SearchRequest
    strategy: Strategy
    opened: Opened
    ranges: Ranges
    split: Split
    space: Space
    board: BoardSpec | None
    memory: Memory
    ram_bytes: int
    phases: Phases


def _read(request: SearchRequest, boards: Boards | None, say: Say, phases: Phases) -> _Read:
    strategy = make_strategy(request.strategy, request.set_)
    board = _board(request, boards)
    if board is not None and board.chip.ram_bytes is None and request.ram is not None:
        say(f"search: how much RAM {board.name} has is not said: --ram {request.ram} is of the arena")
    hardware = None if board is None else board.hardware
    usual = USUAL if hardware is None else USUAL_ON_CROSSBARS
    names = formats_on_offer(usual if request.formats is None else request.formats)
    if families := stands_for(",".join(filter(None, (request.formats, request.weights)))):
        say(f"search: {families}")
    opened = open_model(request.model, None, request.streamed, by=request.calibrate_by)
    if hardware is None and (stated := opened.stated_format()):
        say(f"search: the file states the formats of all values, {stated}: there is nothing to choose")
        names, request = [stated], replace(request, formats=stated, weights=None)
    split = load_split(opened, request.inputs, request.held_out, say)
    if request.held_out is not None and not opened.calibrates(request.calibrate):
        say("search: calibrating on all of --inputs, as `--calibrate` does")
        request = replace(request, calibrate=request.inputs)
    ranges = opened.ranges_for(split.as_inputs(), request.calibrate, say)
    space = make_space(opened.model.graph, ranges, names, passes_left_out(board))
    split = affordable(split, request.samples, request.seconds, _products(space), say)
    if split.y_held_out is not None and (alike := about_labels(split.y_held_out, split.y_held_out, None)):
        say(f"{WARNING}held out: {alike}")
    request = _within_flash(request, boards, space, say)
    memory = memory_of(space, board, request, phases.press)
    ram_bytes = _ram_bytes(request, board)
    if board is not None and request.ram is not None and ram_bytes < request.ram:
        say(f"search: --ram {request.ram} is more than {board.name} has: {ram_bytes} B count")
    memory.require(_at_most(request, board, ram_bytes))
    require_time(request, space, board)
    if len(space.formats) == 1 and request.weights is None:
        strategy = SingleFormat()
    return _Read(request, strategy, opened, ranges, split, space, board, memory, ram_bytes, phases)


def _loaded(
    read: _Read,
    boards: Boards | None,
    cache_dir: Path,
    say: Say,
    progress: Progress,
    request: SearchRequest,
    split: Split,
) -> Task:
    """The task on these samples, which the float model runs."""
    graph, space, ram_bytes, phases = read.opened.model.graph, read.space, read.ram_bytes, read.phases
    with phases.of("running the float model"):
        x, y = judged_on(request, split)
        examples = make_examples(graph, x, y)
        require_classes(examples)
    with phases.of("loading the host engine"):
        executor: Executor = NumpyExecutor() if request.evaluator == "reference" else load_engine(cache_dir)
    problem = _problem(request, read.board, read.memory, Evaluator(executor, examples), ram_bytes)
    if request.fine_tune:
        problem = replace(problem, trained=fine_tuning(request, split, space, executor))
    problem = replace(problem, charge=phases.charge)
    found = (request, ram_bytes, ram_bytes, read.strategy, read.opened, read.ranges, split, problem)
    task = Task(*found, boards, read.board, cache_dir, say, progress, phases)
    return replace(task, others=tuple(_on(task, name) for name in request.also))


def _few(read: _Read) -> int | None:
    """How many samples give a first answer soon; None where all of them do."""
    if read.request.fine_tune:
        return None
    least, most = LOOKED_AT
    few = max(least, min(most, LOOK_PRODUCTS // _products(read.space)))
    return few if len(read.split.x) > LONG * few else None


def _products(space: Space) -> int:
    """Of one sample; one where the widest format can not be: that is said where it is evaluated."""
    try:
        return max(1, work_of(space.lower(space.uniform(space.high))))
    except ModelError:
        return 1


def _problem(
    request: SearchRequest, board: BoardSpec | None, memory: Memory, evaluator: Evaluator, ram_bytes: int
) -> SearchProblem:
    whole = board is not None and board.chip.ram_bytes is not None and request.arena is None
    beside = wider_input(memory, board, request.prefer) if whole and board is not None else None
    problem = SearchProblem(memory.space, memory, evaluator, ram_bytes, request.seed, beside=beside)
    if board is None or board.hardware is None:
        return problem
    costs = AcceleratorCosts(memory.space, board.hardware, request.accelerator_limits)
    return replace(problem, costs=costs, anchor=costs.anchor())


def _within_flash(request: SearchRequest, boards: Boards | None, space: Space, say: Say) -> SearchRequest:
    """With a limit of flash, that of the boards, where constants alone exceed it in the widest format."""
    if request.board is None or boards is None or request.flash is not None:
        return request
    chips = [boards.board(name).chip for name in (request.board, *request.also) if boards.board(name).hardware is None]
    sizes = [chip.flash_bytes for chip in chips if chip.flash_bytes is not None]
    try:
        constants = constant_bytes(space.lower(space.uniform(space.high)))
    except ModelError:  # said where the format is evaluated
        return request
    if not sizes or constants <= min(sizes):
        return request
    say(f"search: constants in {space.high} take {constants:,} B, the flash has {min(sizes):,} B: --flash {min(sizes)}")
    return replace(request, flash=min(sizes))


def _on(task: Task, name: str) -> Task:
    """The same task on another board; ConfigError if that is an accelerator."""
    names = (task.request.board or "", *task.request.also)
    request = replace(task.request, board=name, also=tuple(other for other in names if other != name))
    board = _board(request, task.boards)
    if task.accelerated or board is None or board.hardware is not None:
        raise ConfigError("search: an accelerator and another board can not be served at once; give one --board")
    memory, ram_bytes = memory_of(task.problem.space, board, request, task.phases.press), _ram_bytes(request, board)
    memory.require(_at_most(request, board, ram_bytes))
    require_time(request, task.problem.space, board)
    whole = board.chip.ram_bytes is not None and request.arena is None
    beside = wider_input(memory, board, request.prefer) if whole else None
    problem = replace(task.problem, memory=memory, limit_bytes=ram_bytes, beside=beside)
    return replace(task, request=request, ram_bytes=ram_bytes, arena_bytes=ram_bytes, problem=problem, board=board)


def require_time(request: SearchRequest, space: Space, board: BoardSpec | None) -> None:
    """Infeasible, before anything is built, where products alone take longer than `--latency-us` on any firmware."""
    asked = request.latency_us
    if asked is None or board is None or not has_floor((*space.formats, *_weights_on_offer(request))):
        return
    floors = []
    for candidate in space.starts():
        with suppress(ModelError):  # said where the format is evaluated
            floors.append(floor_cycles(space.lower(candidate), board.chip.core) / board.clock_hz * 1e6)
    if floors and min(floors) > asked:
        raise Infeasible(
            f"search: {asked:,.0f} us for the worst sample are not feasible on {board.name}: its products alone take "
            f"{min(floors):,.0f} us on any {board.chip.core} at {board.clock_hz / 1e6:g} MHz; raise --latency-us, "
            "or choose a faster board or a smaller model",
            ("--latency-us", min(floors)),
        )


def _weights_on_offer(request: SearchRequest) -> Sequence[str]:
    """What weights alone may have where latency is limited; with a limit of flash, too, all that may come."""
    if request.weights is not None:
        return formats_on_offer(request.weights)
    return () if request.formats is not None else FOR_FLASH if request.flash is not None else FOR_LATENCY


def _board(request: SearchRequest, boards: Boards | None) -> BoardSpec | None:
    if request.board is None or boards is None:
        return None
    board = find_place(Request(request.board, request.model, port=request.port), boards).board
    if board.hardware is not None:
        if request.pareto is not None:
            raise ConfigError("search: --pareto is for chips; on an accelerator give --cost, or another limit")
        if request.flash is not None or request.minimize in ("flash", "latency"):
            asked = "--flash" if request.flash is not None else f"--minimize {request.minimize}"
            raise ConfigError(f"search: {asked} is for chips; on {board.name} give --latency-us, --energy-uj or --cost")
    elif request.energy_uj is not None or request.crossbars is not None or request.cost is not None:
        raise ConfigError(
            f"search: {board.name} has no crossbars; --energy-uj, --crossbars and --cost need --board reram"
        )
    timed = request.latency_us is not None or "latency" in (request.minimize, *request.objectives)
    if timed and board.chip.tick == "instructions":
        raise ConfigError(f"search: {board.name} counts instructions, which take no known time; latency needs cycles")
    return board


def _ram_bytes(request: SearchRequest, board: BoardSpec | None) -> int:
    given, chip = request.arena if request.ram is None else request.ram, None if board is None else board.chip
    if given is not None:
        return given if chip is None or chip.ram_bytes is None else min(given, chip.ram_bytes)
    if (board is None and request.pareto) or (board is not None and board.hardware is not None):
        return UNLIMITED
    if board is None or board.chip.ram_bytes is None:
        raise ConfigError(f"search: the RAM of {request.board} is not limited; give --ram BYTES")
    return board.chip.ram_bytes


def _at_most(request: SearchRequest, board: BoardSpec | None, ram_bytes: int) -> int:
    """What an arena may take before anything is measured: where stack and static data count, too, and are not known
    yet, all that the chip has."""
    chip_bytes = None if board is None or request.arena is not None else board.chip.ram_bytes
    return ram_bytes if chip_bytes is None else max(ram_bytes, chip_bytes)


def trial_log(task: Task, stem: str) -> TrialLog:
    """The file of trials of one search of a task."""
    return TrialLog(task.folder / f"{stem}.jsonl", task.problem.space, task.key)


def make_bench(task: Task, log: TrialLog, samples: int | None = None) -> Bench:
    """The board with the samples it measures on, `samples` of them; its emulator if the board itself is not wanted.
    What counts in planning, and for how many bytes, it reads in the assignments that it is given."""
    request, split = task.request, task.split
    assert task.boards is not None
    assert task.board is not None
    assert request.board is not None
    emulated = not request.uses_board and task.board.chip.emulator is not None
    run_request = Request(
        f"{task.board.name}@{EMULATED}" if emulated else request.board,
        request.model,
        inputs=request.inputs,
        calibrate=request.calibrate,
        calibrate_by=request.calibrate_by,
        port=request.port,
        wait_s=request.wait_s,
        results=task.folder / CANDIDATES,
        called=request.command(),  # what a candidate is run with goes when it has run
        tried=True,
    )
    thin = split.thinned(samples or task.timed_samples)
    calibration = None if task.opened.calibrates(request.calibrate) else split.calibration
    return Bench(
        run_request,
        task.boards,
        task.cache_dir,
        task.board.name,
        task.problem.space,
        thin.x,
        as_named(thin.y, task.opened.model.classes),
        calibration,
        log,
        lambda path, space, trial: write_assignment(path, space, trial, task.wish(trial)),
        task.say,
    )


def write_assignment(path: Path, space: Space, trial: Trial, wish: Wish) -> None:
    """What `hil run --assignment` takes, with the conditions under which the limits are kept."""
    import yaml

    chosen = space.assignment(trial.candidate)  # values that no group holds have its default in the search as well
    content: dict[str, Any] = {
        "default": chosen.default,
        "values": {name: fmt for name, fmt in chosen.values.items() if fmt != chosen.default},
    }
    if chosen.offsets:
        content["offsets"] = dict(chosen.offsets)
    content["found"] = conditions(space.ranges, wish).as_yaml()
    replace_text(path, yaml.safe_dump(content, sort_keys=False))


def replace_text(path: Path, text: str) -> None:
    """The file as a whole or, with a ConfigError, as it was."""
    path = path.resolve()
    special = path.exists() and not path.is_file()  # such as /dev/null, which nothing may take the place of
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if special:
            path.write_text(text, encoding="utf-8")
            return
        files.write_text(path, text)
    except OSError as error:
        raise ConfigError(
            f"search: {path} can not be written: {error.strerror}; choose another place with --out or --results, the "
            "trials are kept where they could be"
        ) from None
