"""`--equalize --learn-rounding --correct-bias` of `hil calibrate` and `hil search`: weights for formats, untrained."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tinyhil import files
from tinyhil.compiler.calibrate import save_ranges
from tinyhil.errors import ConfigError, DataError
from tinyhil.frontend.dead_channels import READ
from tinyhil.harness.job.inputs import read_inputs, spread_over, training_part
from tinyhil.harness.job.job import Opened, method_of, open_model
from tinyhil.harness.train.session import require_torch, unclipped_only
from tinyhil.notice import Say
from tinyhil.search.engine.library import load_engine
from tinyhil.search.evaluator import Evaluator, Score, make_examples

if TYPE_CHECKING:
    from tinyhil.harness.search.session import SearchOutcome
    from tinyhil.train.corrections import Corrected
    from tinyhil.train.integers import Judge

SAMPLES = 128  # evenly spread, on which roundings and biases are found


@dataclass(frozen=True, slots=True)
class Chosen:
    """Which corrections; false where none is."""

    equalize: bool = False
    learn_rounding: bool = False
    correct_bias: bool = False

    def __bool__(self) -> bool:
        return self.equalize or self.learn_rounding or self.correct_bias


@dataclass(frozen=True, slots=True)
class CorrectionRequest:
    """The options of `hil calibrate` that make another model; `format` counts where there is no `assignment`."""

    model: str
    out: Path | None
    chosen: Chosen
    inputs: Path | None = None
    format: str = "fixed8"
    assignment: Path | None = None

    def check(self) -> Path:
        """The file to write; ConfigError names the option."""
        if self.out is None or self.out.suffix.lower() != ".onnx":
            given = "" if self.out is None else f" {self.out}"
            raise ConfigError(f"--out{given}: the corrected model is an ONNX file; name one *.onnx")
        return self.out


@dataclass(frozen=True, slots=True)
class CorrectedAnswer:
    """The model corrected for what a search found, what its integers are worth on the samples that the search reports
    on, and the record of that search."""

    out: Path
    assignment: Path
    score: Score
    searched: Mapping[str, Any]

    @property
    def printed(self) -> dict[str, Any]:
        """What `hil search --json` prints under `corrected`."""
        return {
            "out": str(self.out),
            "assignment_file": str(self.assignment),
            "accuracy": None if self.score.correct is None else self.score.correct / self.score.samples,
            "disagreements": self.score.disagreements,
        }


def correct_model(request: CorrectionRequest, cache_dir: Path, say: Say) -> Path:
    """Write the model with other constants, and beside it the ranges that its formats are fitted to. ConfigError for
    another file, for an assignment that clips weights whose rounding is to be learned, or without PyTorch; DataError
    without samples, ModelError without layers."""
    out = request.check()
    require_torch("hil calibrate: a correction")
    opened = open_model(request.model, say, without=[one.name for one in READ])
    x, source = _samples(opened, request)
    judge = _judge(opened, request, x, cache_dir, say)
    found = _corrected(judge, request.chosen)
    _write(out, opened, found, source)
    say(_gain(judge, found))
    return out


def correct_found(searched: SearchOutcome, chosen: Chosen, cache_dir: Path, say: Say) -> CorrectedAnswer:
    """Write the model corrected for the answer of a search beside its assignment, on the samples that the search saw.
    Where roundings are learned no weights are clipped: they are written as they are held, and would be clipped twice.
    Errors as those of correct_model."""
    from tinyhil.harness.search.splits import load_split
    from tinyhil.harness.train.after_search import assignments

    asked = searched.request
    assignment = Path(searched.record["assignment_file"])
    out = assignment.with_suffix(".onnx")
    if chosen.learn_rounding:
        assignment, _ = assignments(searched, 1)[0]
    opened = open_model(asked.model, None, asked.streamed, without=[one.name for one in READ])
    split = load_split(opened, asked.inputs, asked.held_out, say).reported_on(searched.record["samples"])
    request = CorrectionRequest(asked.model, out, chosen, assignment=assignment)
    judge = _judge(opened, request, spread_over(split.x, SAMPLES), cache_dir, say)
    found = _corrected(judge, chosen)
    _write(out, opened, found, {"name": split.name, "sha256": split.sha256, "split": "train"})
    program = judge.program(found.constants, found.ranges)
    score = Evaluator(judge.executor, split.held_out(opened.model.graph)).score(program)
    return CorrectedAnswer(out, assignment, score, searched.record)


def require_correctable(request: Any, trains: bool, each: bool) -> None:
    """ConfigError, before anything is searched, where there is no one answer whose weights could be corrected."""
    require_torch("hil search: a correction")
    for option, given in (("--train", trains), ("--each", each), ("--pareto", request.pareto is not None)):
        if given:
            what = "correct the model for one of the files: hil calibrate --assignment FILE"
            raise ConfigError(f"search: {option} and corrections of the answer exclude each other; {what}")


def _judge(opened: Opened, request: CorrectionRequest, x: np.ndarray, cache_dir: Path, say: Say) -> Judge:
    from tinyhil.train.integers import Judge

    formats = opened.assignment(request.assignment, request.format)
    if request.chosen.learn_rounding:
        unclipped_only(formats, opened, "hil calibrate --learn-rounding")
    engine = load_engine(cache_dir, notice=say)
    return Judge(opened.model.graph, formats, x, engine, method_of(request.assignment, None))


def _corrected(judge: Judge, chosen: Chosen) -> Corrected:
    from tinyhil.train.corrections import Corrections, corrected
    from tinyhil.train.rounding_up import Rounding

    rounding = Rounding() if chosen.learn_rounding else None
    return corrected(judge, Corrections(chosen.equalize, rounding, chosen.correct_bias))


def _gain(judge: Judge, found: Corrected) -> str:
    """How many decisions differ from float before and after."""
    score = Evaluator(judge.executor, make_examples(judge.graph, judge.calibration, None)).score
    before = score(judge.program({}, judge.ranges({}))).disagreements
    now = score(judge.program(found.constants, found.ranges)).disagreements
    seen = len(judge.calibration)
    return f"of the {seen} samples it was made on, {now} differ from float ({before} before); hil run counts others"


def _samples(opened: Opened, request: CorrectionRequest) -> tuple[np.ndarray, dict[str, str]]:
    """Evenly spread ones, and where they come from."""
    if request.inputs is not None:
        given = read_inputs(request.inputs, opened.model)
        x, source = given.x, {"name": given.name, "sha256": given.sha256}
    elif opened.source.dataset is not None:
        found = training_part(request.model, opened.source.dataset, "--inputs")
        x, source = found.x_train, {"name": found.name, "sha256": found.sha256, "split": "train"}
    else:
        raise DataError(f"{request.model}: give --inputs x.npz")
    return spread_over(x, SAMPLES), source


def _write(out: Path, opened: Opened, found: Corrected, source: dict[str, str]) -> None:
    from tinyhil.train.write import trained_onnx

    content = trained_onnx(opened.model, found.constants, out.stem)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        files.write_bytes(out, content)
    except OSError as error:
        raise DataError(f"{out}: the model cannot be written: {error.strerror}; choose another --out") from None
    ranges = replace(found.ranges, source={**found.ranges.source, **source, "by": "hil calibrate"})
    save_ranges(out.with_suffix(".ranges.json"), ranges, hashlib.sha256(content).hexdigest())
