"""`hil train`: samples and formats to a trained ONNX file, judged by its integers."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from tinyhil import data, files
from tinyhil.compiler.calibrate import save_ranges
from tinyhil.errors import ConfigError, DataError
from tinyhil.frontend.dead_channels import READ
from tinyhil.harness.job.inputs import read_inputs
from tinyhil.harness.job.job import Opened, Streamed, method_of, open_model
from tinyhil.language.assignment import Assignment
from tinyhil.language.graph import Graph
from tinyhil.notice import Say
from tinyhil.references.evaluate import shape_inputs
from tinyhil.search.engine.library import load_engine
from tinyhil.train.pace import SCALED_BITS, batch_for, rate_for, weight_bits

if TYPE_CHECKING:
    from tinyhil.train.schedule import Epoch, Trained

ABSOLUTE_RATE = 3e-3  # of training in limited precision
OF_NO_RESULT = (
    "out",
    "threads",
    "data",
    "held_out",
)  # options that do not change the weights: samples count, not their files


@dataclass(frozen=True, slots=True)
class TrainRequest:
    """What the user asked for; the fields are the options of `hil train`. `batch` None and `rate` None: as
    tinyhil/train/pace.py has them. `learn_scales`: "few": of weights in few bits, but in loops; None: wherever there
    are any."""

    model: str
    out: Path
    data: Path | None = None
    held_out: Path | None = None
    format: str = "fixed16"
    assignment: Path | None = None
    epochs: int = 10
    batch: int | None = 64
    rate: float | None = None
    seed: int = 0
    samples: int | None = None
    threads: int = 1
    arithmetic: str | None = None
    rounding: str = "nearest"
    loss_scale: str = "dynamic"
    teacher: float = 0.0
    entries: bool = False
    learn_scales: Literal["few"] | bool | None = "few"
    device: str = "auto"
    prune: tuple[str, ...] = ()
    progressive: bool = False
    calibrate_by: str | None = None
    augment: float = 0.0
    states: tuple[str, ...] | None = None
    steps: int | None = None

    @property
    def streamed(self) -> Streamed:
        """What is known of its states, and the file that shows how many steps a sample has."""
        return Streamed(self.states, self.steps, self.data)

    def check(self) -> None:
        """ConfigError names the option."""
        if self.out.suffix.lower() != ".onnx":
            raise ConfigError(f"--out {self.out}: the trained model is an ONNX file; name it *.onnx")
        if self.arithmetic is not None and (self.entries or self.learn_scales is True or self.progressive):
            what = "--entries, --learn-scales and --progressive"
            raise ConfigError(f"--arithmetic: nothing is in formats while training; leave out {what}")


@dataclass(frozen=True, slots=True)
class Split:
    """Samples to train on and, if there are any, others to report on."""

    name: str
    sha256: str
    x: np.ndarray
    y: np.ndarray | None
    x_test: np.ndarray | None
    y_test: np.ndarray | None


@dataclass(frozen=True, slots=True)
class Tested:
    """Accuracy on samples that training never saw: of the integers before and after, of the float model before."""

    samples: int
    before: float
    after: float
    float_before: float


@dataclass(frozen=True, slots=True)
class TrainOutcome:
    """`tested` is None where there are no samples that training never saw."""

    request: TrainRequest
    trained: Trained
    tested: Tested | None
    cpu_seconds: float
    zeros: Mapping[str, float]  # of each matrix that was pruned, the share

    @property
    def printed(self) -> dict[str, Any]:
        """What `--json` prints."""
        return {
            "out": str(self.request.out),
            "assignment_file": None if self.request.assignment is None else str(self.request.assignment),
            "best_epoch": self.trained.best.number,
            "accuracy_held_back": self.trained.best.accuracy,
            "test": None if self.tested is None else asdict(self.tested),
            "epochs": [
                {**asdict(epoch), "loss": epoch.loss if epoch.number else None} for epoch in self.trained.epochs
            ],
            "zeros": dict(self.zeros),
            "cpu_seconds": round(self.cpu_seconds, 1),
        }


def run_train(request: TrainRequest, cache_dir: Path, say: Say, tell: Callable[[Epoch], None]) -> TrainOutcome:
    """Train, write the file and its ranges, judge it on samples that training never saw."""
    request.check()
    require_torch("`hil train`")
    from tinyhil.train.fit import train
    from tinyhil.train.integers import Judge
    from tinyhil.train.limited_precision import parse
    from tinyhil.train.prune import parse_pruning
    from tinyhil.train.samples import divide
    from tinyhil.train.schedule import Job, Schedule

    begin = time.process_time()
    opened, split = _opened(request, say)
    samples = divide(split.x, split.y, request.seed)
    assignment = unclipped_only(opened.assignment(request.assignment, request.format), opened, "hil train")
    engine = load_engine(cache_dir, notice=say)
    judge = Judge(
        opened.model.graph, assignment, samples.calibration, engine, method_of(request.assignment, request.calibrate_by)
    )
    batch, rate, scales = _pace(request, len(samples.x), opened.model.graph, assignment)
    schedule = Schedule(
        request.epochs,
        batch,
        rate,
        request.seed,
        request.threads,
        request.teacher,
        request.entries,
        scales,
        request.device,
        request.progressive,
        request.augment,
    )
    checkpoint = request.out.with_suffix(".checkpoint.npz")
    request.out.parent.mkdir(parents=True, exist_ok=True)
    own = None if request.arithmetic is None else parse(request.arithmetic, request.rounding, request.loss_scale)
    pruning = parse_pruning(request.prune, opened.model.graph, request.epochs)
    job = Job(judge, samples, schedule, tell, checkpoint, _identity(request, opened, split, assignment), own, pruning)
    trained = train(job)
    _write(request, opened, trained, split, say)
    checkpoint.unlink(missing_ok=True)
    tested = None
    if split.x_test is not None and split.y_test is not None:
        x, y = split.x_test, split.y_test
        untrained = replace(judge, calibration=split.x)  # as `hil run --calibrate` has the model
        tested = Tested(
            len(x),
            judge.correct(untrained.program({}, untrained.ranges({})), x, y),
            judge.correct(judge.program(trained.constants, trained.ranges), x, y),
            judge.float_correct({}, x, y),
        )
    zeros = {name: float(np.mean(trained.constants[name] == 0)) for name in (() if pruning is None else pruning.shares)}
    return TrainOutcome(request, trained, tested, time.process_time() - begin, zeros)


def _pace(request: TrainRequest, samples: int, graph: Graph, assignment: Assignment) -> tuple[int, float, bool | None]:
    """Batch, rate, and whether scales are learned."""
    batch, bits = request.batch or batch_for(samples), weight_bits(graph, assignment)
    if request.arithmetic is not None:
        return batch, request.rate or ABSOLUTE_RATE, False
    scales = request.learn_scales
    if scales == "few":
        scales = None if bits < SCALED_BITS and not graph.has_loops and not request.entries else False
    return batch, request.rate or rate_for(batch, bits), scales


def unclipped_only(assignment: Assignment, opened: Opened, command: str) -> Assignment:
    """The same; ConfigError where it clips weights: they are written clipped, and would be clipped again."""
    constants = opened.model.graph.all_constants()
    clipped = sorted(name for name, offset in assignment.offsets.items() if offset < 0 and name in constants)
    if clipped:
        what = f"offset {assignment.offsets[clipped[0]]} of '{clipped[0]}' would clip these weights a second time"
        raise ConfigError(f"{command}: {what} once they are written; leave it out of the assignment")
    return assignment


def _opened(request: TrainRequest, say: Say) -> tuple[Opened, Split]:
    """The model and its samples. Where these have a label for every step, the model has outputs of every step."""

    def opened(streamed: Streamed) -> Opened:
        return open_model(request.model, say, streamed, without=[one.name for one in READ])

    found = opened(request.streamed)
    split = _split(found, request, say)
    labels, others = split.y, split.y_test
    if labels is not None and others is not None and labels.shape[1:] != others.shape[1:]:
        raise DataError(f"{request.held_out}: 'y' must hold as many labels a sample as {request.data} does")
    if labels is None or labels.ndim == 1:
        return found, split
    steps = found.model.graph.shapes[found.model.graph.inputs[0]][0]
    if labels.shape[1] != steps:
        what = f"{labels.shape[1]} labels a sample, a sample has {steps} steps"
        raise DataError(f"{request.data}: 'y' holds {what}; give a label for each, or one a sample")
    return opened(replace(request.streamed, every=True)), split


def _split(opened: Opened, request: TrainRequest, say: Say) -> Split:
    """The files, or training and test part of the model's data set."""
    if request.data is not None:
        graph, seen = opened.model.graph, read_inputs(request.data, opened.model, of_steps=True)
        unseen = None if request.held_out is None else read_inputs(request.held_out, opened.model, of_steps=True)
        test = (None, None) if unseen is None else (shape_inputs(graph, unseen.x), unseen.y)
        return _thinned(Split(seen.name, seen.sha256, shape_inputs(graph, seen.x), seen.y, *test), request.samples)
    if opened.source.dataset is None:
        raise DataError(f"{opened.source.path}: a model from a file needs --data train.npz (keys x and y)")
    found = data.load(opened.source.dataset)
    if found.source in ("bundled", "synthetic"):
        what = f"{found.message}; training on it would be meaningless"
        raise DataError(f"{request.model}: {what}: set HIL_DATA, or give --data")
    if found.message:
        say(found.message)
    return _thinned(
        Split(found.name, found.sha256, found.x_train, found.y_train, found.x_test, found.y_test), request.samples
    )


def _thinned(split: Split, samples: int | None) -> Split:
    """So many of the samples to train on, evenly spread."""
    if samples is None or samples >= len(split.x):
        return split
    chosen = np.linspace(0, len(split.x) - 1, samples).astype(np.int64)
    y = None if split.y is None else split.y[chosen]
    return Split(split.name, split.sha256, split.x[chosen], y, split.x_test, split.y_test)


def _identity(request: TrainRequest, opened: Opened, split: Split, assignment: Assignment) -> str:
    """Of all that decides the weights."""
    options = {f.name: str(getattr(request, f.name)) for f in fields(request) if f.name not in OF_NO_RESULT}
    text = repr((opened.model.sha256, split.sha256, sorted(options.items()), assignment))
    return hashlib.sha256(text.encode()).hexdigest()


def _write(request: TrainRequest, opened: Opened, trained: Trained, split: Split, say: Say) -> None:
    """The model, and beside it the ranges it was judged with, where `hil run` finds them."""
    from tinyhil.train.write import trained_onnx, trained_step

    step = trained_step(opened.model, trained.constants)
    if step is None and opened.model.stream:
        say(f"{request.out}: a loop over all steps, since {opened.source.path} has its weights in another form")
    content = trained_onnx(opened.model, trained.constants, request.out.stem) if step is None else step
    source = {"name": split.name, "sha256": split.sha256, "split": "train", "by": "hil train"}
    digest = hashlib.sha256(content).hexdigest()
    try:
        save_ranges(request.out.with_suffix(".ranges.json"), trained.ranges_with(source), digest)
        files.write_bytes(request.out, content)
    except OSError as error:
        raise DataError(
            f"{request.out}: the trained model cannot be written: {error.strerror}; the same command goes on from the "
            "checkpoint beside it"
        ) from None


def require_torch(what: str) -> None:
    """ConfigError where PyTorch is not installed."""
    if find_spec("torch") is None:
        raise ConfigError(f"{what} needs PyTorch; install it: pip install 'tinyhil[train]'")
