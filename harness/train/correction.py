"""`hil calibrate --equalize --learn-rounding --correct-bias`: weights that suit their formats, without training."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tinyhil import files
from tinyhil.compiler.calibrate import save_ranges
from tinyhil.errors import ConfigError, DataError
from tinyhil.frontend.dead_channels import READ
from tinyhil.harness.job.inputs import read_inputs, training_part
from tinyhil.harness.job.job import Opened, Say, method_of, open_model
from tinyhil.search.engine.library import load_engine

if TYPE_CHECKING:
    from tinyhil.train.corrections import Corrected, Corrections

SAMPLES = 128  # evenly spread, on which roundings and biases are found


@dataclass(frozen=True, slots=True)
class CorrectionRequest:
    """The options of `hil calibrate` that make another model; `format` counts where there is no `assignment`."""

    model: str
    out: Path | None
    inputs: Path | None = None
    format: str = "fixed8"
    assignment: Path | None = None
    equalize: bool = False
    learn_rounding: bool = False
    correct_bias: bool = False

    def __bool__(self) -> bool:
        return self.equalize or self.learn_rounding or self.correct_bias

    def check(self) -> Path:
        """The file to write; ConfigError names the option."""
        if self.out is None or self.out.suffix.lower() != ".onnx":
            given = "" if self.out is None else f" {self.out}"
            raise ConfigError(f"--out{given}: the corrected model is an ONNX file; name one *.onnx")
        return self.out


def correct_model(request: CorrectionRequest, cache_dir: Path, say: Say) -> Path:
    """Write the model with other constants, and beside it the ranges that its formats are fitted to. ConfigError for
    another file, or without PyTorch; DataError without samples, ModelError without layers."""
    out = request.check()
    try:
        from tinyhil.train.corrections import Corrections, corrected
        from tinyhil.train.integers import Judge
        from tinyhil.train.rounding_up import Rounding
    except ImportError:
        raise ConfigError("hil calibrate: corrections need PyTorch; install it: pip install 'tinyhil[train]'") from None
    opened = open_model(request.model, say, without=[one.name for one in READ])
    x, source = _samples(opened, request)
    formats = opened.assignment(request.assignment, request.format)
    engine = load_engine(cache_dir, notice=say)
    judge = Judge(opened.model.graph, formats, x, engine, method_of(request.assignment, None))
    wanted: Corrections = Corrections(
        request.equalize, Rounding() if request.learn_rounding else None, request.correct_bias
    )
    _write(out, opened, corrected(judge, wanted), source)
    return out


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
    return x[:: max(1, len(x) // SAMPLES)][:SAMPLES], source


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
