"""`hil search`: widths found on training data under a RAM limit, reported on data that the search has not seen."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from codegen.arena import problem_of
from codegen.placement import Placement, place
from harness.assets import asset
from harness.inputs import read_inputs
from harness.run import find_ranges
from harness.zoo import ModelSource, find_model
from memplan import Budget as PlanBudget
from memplan import Plan, plan
from search.engine import load_engine
from search.evaluate import Evaluator, Executor, NumpyExecutor, make_examples, require_classes
from search.memory import Memory
from search.run import Budget, Found, search
from search.space import Space, make_space
from search.strategies import make_strategy
from search.study import Strategy, Study
from search.trial import Trial, TrialLog
from tinyhil import data
from tinyhil.errors import DataError
from tinyhil.frontend.listing import Model
from tinyhil.frontend.load import load_model
from tinyhil.program import Program

Say = Callable[[str], None]
PLAN_NODES = 20_000  # of one plan: a search makes thousands, and the bound is nearly always met before
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
    calibrate: Path | None = None
    evaluator: str = "engine"
    out: Path | None = None
    results: Path = Path("results")


@dataclass(frozen=True, slots=True)
class Split:
    """Samples to search on, and others to report on. `name` and `sha256` say where they come from."""

    name: str
    source: str
    sha256: str
    x: np.ndarray
    y: np.ndarray | None
    x_held_out: np.ndarray
    y_held_out: np.ndarray | None


@dataclass(frozen=True, slots=True)
class SearchOutcome:
    """The search, and the final figures on held-out data."""

    request: SearchRequest
    space: Space
    found: Found
    search_samples: int
    search_float_accuracy: float | None
    record: dict[str, Any]


def run_search(request: SearchRequest, cache_dir: Path, say: Say, progress: Progress) -> SearchOutcome:
    """Search, evaluate the answer on held-out data, write the assignment and the record."""
    strategy = make_strategy(request.strategy, request.set_)
    source = find_model(request.model)
    model = load_model(source.path)
    split = _split(source, request, say)
    ranges = find_ranges(model, source, _as_inputs(split), request.calibrate, say)
    space = make_space(model.graph, ranges, [name.strip() for name in request.formats.split(",")])
    executor: Executor = (
        NumpyExecutor() if request.evaluator == "reference" else load_engine(asset("firmware").parent, cache_dir)
    )
    examples = make_examples(model.graph, split.x, split.y)
    require_classes(examples)
    study = Study(space, Memory(space, placed, quick_plan), Evaluator(executor, examples), request.ram, request.seed)
    folder = request.results / "search" / source.name
    key = _key(request, strategy, model, split)
    budget = Budget(request.evaluations, request.seconds, request.target)
    log = TrialLog(folder / f"{strategy.name}-{request.ram}-{key[:8]}.jsonl", space, key)
    found = search(strategy, study, budget=budget, log=log, on_trial=progress)
    record = _record(request, strategy, found, _held_out(executor, space, split, found), len(examples))
    out = request.out or folder / f"{strategy.name}-{request.ram}-{key[:8]}.yaml"
    write_assignment(out, space, found.best)
    if any(choice.offset for choice in found.best.candidate):
        say(f"{out}: moves scales by offsets, which `hil run --assignment` does not take")
    record["assignment_file"] = str(out)
    (folder / f"{strategy.name}-{request.ram}-{key[:8]}.json").write_text(json.dumps(record, indent=1) + "\n")
    return SearchOutcome(request, space, found, len(examples), examples.float_accuracy, record)


def placed(program: Program) -> Placement:
    """The arena as `hil run` plans it: bounds first, then simple planners, then a short exact search."""
    return place(program, budget=PlanBudget(nodes=PLAN_NODES))


def quick_plan(program: Program) -> Plan:
    """A plan without the passes that take time: the arena is never larger."""
    return plan(problem_of(program), budget=PlanBudget(nodes=PLAN_NODES))


def _split(source: ModelSource, request: SearchRequest, say: Say) -> Split:
    """Training and test part of the data set, or the two halves of a file (said)."""
    if request.inputs is not None:
        given = read_inputs(request.inputs)
        half = len(given.x) // 2
        if half == 0:
            raise DataError(f"{request.inputs}: {len(given.x)} samples; searching and reporting need two or more")
        say(f"searching on the first {half} of {len(given.x)} inputs, reporting on the others")
        y = (None, None) if given.y is None else (given.y[:half], given.y[half:])
        parts = Split(given.name, given.source, given.sha256, given.x[:half], y[0], given.x[half:], y[1])
    elif source.dataset is not None:
        found = data.load(source.dataset)
        if found.message:
            say(found.message)
        parts = Split(found.name, found.source, found.sha256, found.x_train, found.y_train, found.x_test, found.y_test)
    else:
        raise DataError(f"{source.path}: a model from a file needs --inputs x.npz (key x, labels y) or x.npy")
    if request.samples is None or request.samples >= len(parts.x):
        return parts
    chosen = np.linspace(0, len(parts.x) - 1, request.samples).astype(np.int64)
    y_chosen = None if parts.y is None else parts.y[chosen]
    return Split(parts.name, parts.source, parts.sha256, parts.x[chosen], y_chosen, parts.x_held_out, parts.y_held_out)


def _as_inputs(split: Split) -> Any:
    from harness.inputs import Inputs

    return Inputs(split.name, split.source, split.sha256, split.x, split.y)


def _held_out(executor: Executor, space: Space, split: Split, found: Found) -> dict[str, Any]:
    examples = make_examples(space.graph, split.x_held_out, split.y_held_out)
    score = Evaluator(executor, examples).score(space.lower(found.best.candidate))
    return {
        "accuracy": None if score.correct is None else score.correct / score.samples,
        "float_accuracy": examples.float_accuracy,
        "disagreements": score.disagreements,
        "samples": score.samples,
        "saturations": score.saturations,
    }


def _record(
    request: SearchRequest, strategy: Strategy, found: Found, held_out: dict[str, Any], samples: int
) -> dict[str, Any]:
    best = found.best
    return {
        "strategy": strategy.name,
        "evaluations": round(found.evaluations, 2),
        "seconds": round(found.seconds, 3),
        "ram_bytes": best.ram_bytes,
        "ram_limit_bytes": request.ram,
        **held_out,
        "search": {
            "samples": samples,
            "accuracy": best.accuracy,
            "disagreements": best.score.disagreements,
            "trials": len(found.trials),
            "finished": found.finished,
        },
        "options": asdict(strategy) if is_dataclass(strategy) else {},
        "seed": request.seed,
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


def _key(request: SearchRequest, strategy: Strategy, model: Model, split: Split) -> str:
    """Names what may be resumed: the same questions about the same model on the same samples."""
    how = f"{model.sha256} {split.sha256} {len(split.x)} {request.ram} {request.formats} {request.seed} {strategy!r}"
    calibration = "" if request.calibrate is None else hashlib.sha256(request.calibrate.read_bytes()).hexdigest()
    return hashlib.sha256(f"{how} {calibration}".encode()).hexdigest()
