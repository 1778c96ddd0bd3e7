"""`hil search`: widths found on training data under a RAM limit, reported on data that the search has not seen."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, is_dataclass, replace
from pathlib import Path
from typing import Any

from codegen.arena import problem_of
from codegen.floor import floor_bytes
from codegen.placement import Placement, place
from harness.assets import asset
from harness.config import Boards
from harness.run import Request, find_ranges
from harness.search_data import Split, load_split
from harness.search_device import Bench, Measured, decide, overhead_bytes
from harness.zoo import ModelSource, find_model
from memplan import Budget as PlanBudget
from memplan import Plan, plan
from search.engine import load_engine
from search.evaluate import Evaluator, Executor, NumpyExecutor, Score, make_examples, require_classes
from search.memory import Memory
from search.offer import formats_on_offer
from search.run import Budget, Found, search
from search.space import Space, make_space
from search.strategies import make_strategy
from search.study import Strategy, Study
from search.trial import Trial, TrialLog
from tinyhil.errors import ConfigError
from tinyhil.frontend.listing import Model
from tinyhil.frontend.load import load_model
from tinyhil.program import Program

Say = Callable[[str], None]
PLAN_NODES = 20_000  # of one plan: a search makes thousands, and the bound is nearly always met before
MOST_ROUNDS = 4  # with --ram-total: the limit of the arena follows from what the board needs beside it
PRINTED = (
    *("strategy", "evaluations", "seconds", "ram_bytes", "ram_limit_bytes", "accuracy", "float_accuracy"),
    *("disagreements", "assignment_file"),
)
Progress = Callable[[Trial, Trial | None], None]


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """What the user asked for; the fields are the options of `hil search`."""

    model: str
    ram: int
    strategy: str = "lagrange"
    set_: tuple[str, ...] = ()
    formats: str = "fixed8,fixed16"
    evaluations: int | None = None
    seconds: float | None = None
    target: int | None = None
    samples: int | None = None
    seed: int = 0
    inputs: Path | None = None
    held_out: Path | None = None
    calibrate: Path | None = None
    evaluator: str = "engine"
    board: str | None = None
    on_device: bool = False
    every: int | None = None
    finalists: int = 3
    device_samples: int = 50
    ram_total: bool = False
    port: str | None = None
    wait_s: float | None = None
    out: Path | None = None
    plot: Path | None = None
    results: Path = Path("results")

    def check(self) -> None:
        """ConfigError for options that make no sense together."""
        needs = {"--on-device": self.on_device, "--every": self.every, "--ram-total": self.ram_total}
        missing = [name for name, given in needs.items() if given]
        if missing and self.board is None:
            raise ConfigError(f"search: {missing[0]} needs a board; give --board NAME, see `hil boards`")
        if self.held_out is not None and self.inputs is None:
            raise ConfigError("search: --held-out needs --inputs, the samples to search on")

    @property
    def measures(self) -> bool:
        return self.on_device or self.every is not None or self.ram_total


@dataclass(frozen=True, slots=True)
class SearchOutcome:
    """The search, and the final figures on held-out data. `measured`: of the board, if one was asked."""

    request: SearchRequest
    space: Space
    found: Found
    search_samples: int
    search_float_accuracy: float | None
    record: dict[str, Any]
    measured: Measured | None

    @property
    def printed(self) -> dict[str, Any]:
        """What `--json` prints."""
        return {key: self.record[key] for key in PRINTED}


@dataclass(frozen=True, slots=True)
class Task:
    """A request with everything it names loaded."""

    request: SearchRequest
    strategy: Strategy
    source: ModelSource
    model: Model
    split: Split
    study: Study
    boards: Boards | None
    cache_dir: Path
    say: Say
    progress: Progress

    @property
    def folder(self) -> Path:
        return self.request.results / "search" / self.source.name

    def stem(self, limit_bytes: int) -> str:
        return f"{self.strategy.name}-{limit_bytes}-{self.key[:8]}"

    @property
    def key(self) -> str:
        """Names what may be resumed: the same questions about the same model on the same samples."""
        r, split = self.request, self.split
        device = f" {r.board} {r.port} {r.device_samples}" if r.measures else ""
        how = (
            f"{self.model.sha256} {split.sha256} {len(split.x)} {r.ram} {r.formats} {r.seed} {self.strategy!r}{device}"
        )
        calibration = "" if r.calibrate is None else hashlib.sha256(r.calibrate.read_bytes()).hexdigest()
        return hashlib.sha256(f"{how} {calibration}".encode()).hexdigest()


def run_search(
    request: SearchRequest, cache_dir: Path, say: Say, progress: Progress, boards: Boards | None = None
) -> SearchOutcome:
    """Search, measure on the board if asked, evaluate on held-out data, write the assignment and the record."""
    request.check()
    task = _load(request, cache_dir, say, progress, boards)
    found, measured = _search_on_device(task) if request.measures else (_search(task, request.ram, None), None)
    record = _record(task, found, measured)
    stem = task.stem(request.ram)
    out = request.out or task.folder / f"{stem}.yaml"
    write_assignment(out, task.study.space, found.best)
    record["assignment_file"] = str(out)
    task.folder.mkdir(parents=True, exist_ok=True)
    (task.folder / f"{stem}.json").write_text(json.dumps(record, indent=1) + "\n")
    examples = task.study.evaluator.examples
    outcome = SearchOutcome(request, task.study.space, found, len(examples), examples.float_accuracy, record, measured)
    if request.plot is not None:
        from harness.search_plot import plot_search

        plot_search(outcome, request.plot)
    return outcome


def _load(request: SearchRequest, cache_dir: Path, say: Say, progress: Progress, boards: Boards | None) -> Task:
    names = formats_on_offer(request.formats)
    strategy = make_strategy(request.strategy, request.set_)
    source = find_model(request.model)
    model = load_model(source.path)
    split = load_split(source, request.inputs, request.held_out, say).thinned(request.samples)
    ranges = find_ranges(model, source, split.as_inputs(), request.calibrate, say)
    space = make_space(model.graph, ranges, names)
    executor: Executor = (
        NumpyExecutor() if request.evaluator == "reference" else load_engine(asset("firmware").parent, cache_dir)
    )
    examples = make_examples(model.graph, split.x, split.y)
    require_classes(examples)
    memory = Memory(space, placed, quick_plan, floor_bytes)
    study = Study(space, memory, Evaluator(executor, examples), request.ram, request.seed)
    return Task(request, strategy, source, model, split, study, boards, cache_dir, say, progress)


def _search(task: Task, limit_bytes: int, bench: Callable[[TrialLog], Bench] | None) -> Found:
    """One search under a limit of the arena; every k-th full trial is measured on the way if asked."""
    log = _log(task, limit_bytes)
    device = bench(log) if bench is not None else None
    count = 0

    def on_trial(trial: Trial, best: Trial | None) -> None:
        nonlocal count
        task.progress(trial, best)
        if device is not None and task.request.every is not None and trial.kind == "full" and trial.fits:
            count += 1
            if count % task.request.every == 0:
                device.measure(trial)

    request = task.request
    budget = Budget(request.evaluations, request.seconds, request.target)
    study = replace(task.study, limit_bytes=limit_bytes)
    return search(task.strategy, study, budget=budget, log=log, on_trial=on_trial)


def _log(task: Task, limit_bytes: int) -> TrialLog:
    return TrialLog(task.folder / f"{task.stem(limit_bytes)}.jsonl", task.study.space, task.key)


def _search_on_device(task: Task) -> tuple[Found, Measured]:
    """Search, measure the finalists; with --ram-total again under a smaller arena while none of them fits."""
    request, limit = task.request, task.request.ram
    total = request.ram if request.ram_total else None
    if total is not None:
        limit = total - _overhead(task)
    for _ in range(MOST_ROUNDS):
        benches: list[Bench] = []

        def bench(log: TrialLog, made: list[Bench] = benches) -> Bench:
            made.append(_bench(task, log))
            return made[0]

        found = _search(task, limit, bench)
        finalists = _finalists(found, request.finalists)
        kept = decide(benches[0], finalists, total)
        if kept:
            return replace(found, best=kept[0][0]), kept[0][1]
        limit -= min((benches[0].measure(trial).total_bytes or 0) for trial in finalists) - request.ram
        task.say(f"search: no finalist keeps to {request.ram} B in all; again with {limit} B of arena")
    raise ConfigError(f"search: after {MOST_ROUNDS} searches none keeps to {request.ram} B in all; raise --ram")


def _overhead(task: Task) -> int:
    """Bytes the firmware needs beside the arena; ConfigError if nothing is left for that."""
    request, study = task.request, task.study
    narrowest = study.space.uniform(study.space.low)
    least = study.memory.planned_bytes(narrowest)
    trial = Trial(0, narrowest, "full", least, True, Score(0, 0, None, 0, 0.0))
    beside = overhead_bytes(_bench(task, TrialLog(None, study.space, "")), trial)
    if request.ram - beside < least:
        raise ConfigError(
            f"search: {request.ram} B of RAM in all are not feasible on {request.board}: "
            f"{beside} B of stack and static data "
            f"and {least} B of arena are the least; try --ram {beside + least}"
        )
    return beside


def _bench(task: Task, log: TrialLog) -> Bench:
    request, split = task.request, task.split
    assert task.boards is not None
    assert request.board is not None
    run_request = Request(
        request.board,
        request.model,
        calibrate=request.calibrate,
        port=request.port,
        wait_s=request.wait_s,
        results=request.results,
    )
    thin = split.thinned(request.device_samples)
    known = request.calibrate is not None or (task.source.ranges is not None and task.source.ranges.is_file())
    calibration = None if known else split.x[: max(1, len(split.x) // 2)]
    return Bench(
        run_request,
        task.boards,
        task.cache_dir,
        task.study.space,
        thin.x,
        thin.y,
        calibration,
        log,
        write_assignment,
        task.say,
    )


def _finalists(found: Found, count: int) -> list[Trial]:
    """The answer and the best other trials that fit."""
    others = [trial for trial in found.trials if trial.kind == "full" and trial.fits and trial != found.best]
    return [found.best, *sorted(others, key=lambda trial: trial.rank)[: max(0, count - 1)]]


def placed(program: Program) -> Placement:
    """The arena as `hil run` plans it: bounds first, then simple planners, then a short exact search."""
    return place(program, budget=PlanBudget(nodes=PLAN_NODES))


def quick_plan(program: Program) -> Plan:
    """A plan without the passes that take time: the arena is never larger."""
    return plan(problem_of(program), budget=PlanBudget(nodes=PLAN_NODES))


def _held_out(task: Task, found: Found) -> dict[str, Any]:
    space, split = task.study.space, task.split
    examples = make_examples(space.graph, split.x_held_out, split.y_held_out)
    score = Evaluator(task.study.evaluator.executor, examples).score(space.lower(found.best.candidate))
    return {
        "accuracy": None if score.correct is None else score.correct / score.samples,
        "float_accuracy": examples.float_accuracy,
        "disagreements": score.disagreements,
        "samples": score.samples,
        "saturations": score.saturations,
    }


def _record(task: Task, found: Found, measured: Measured | None) -> dict[str, Any]:
    best, strategy = found.best, task.strategy
    total = measured.total_bytes if measured is not None and task.request.ram_total else None
    return {
        "strategy": strategy.name,
        "evaluations": round(found.evaluations, 2),
        "seconds": round(found.seconds, 3),
        "ram_bytes": best.ram_bytes if total is None else total,
        "ram_limit_bytes": task.request.ram,
        **_held_out(task, found),
        "search": {
            "samples": len(task.study.evaluator.examples),
            "accuracy": best.accuracy,
            "disagreements": best.score.disagreements,
            "trials": len(found.trials),
            "finished": found.finished,
        },
        "device": None if measured is None else measured.as_json(),
        "options": asdict(strategy) if is_dataclass(strategy) else {},
        "formats": list(task.study.space.formats),
        "seed": task.request.seed,
        "utc": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def write_assignment(path: Path, space: Space, trial: Trial) -> None:
    """What `hil run --assignment` takes."""
    import yaml

    pairs = list(zip(space.groups, trial.candidate, strict=True))
    formats = [choice.format for _, choice in pairs]
    default = max(set(formats), key=lambda name: (formats.count(name), name))
    content: dict[str, Any] = {
        "default": default,
        "values": {group.name: choice.format for group, choice in pairs if choice.format != default},
    }
    offsets = {group.name: choice.offset for group, choice in pairs if choice.offset}
    if offsets:
        content["offsets"] = offsets
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(content, sort_keys=False))
