"""`hil search --train`: the weights trained for the assignment that a search has found."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tinyhil.errors import ConfigError
from tinyhil.harness.train.session import TrainRequest

if TYPE_CHECKING:
    from tinyhil.harness.search.session import SearchRequest


def require_trainable(request: SearchRequest) -> None:
    """ConfigError, before anything is searched, for options with which nothing can be trained afterwards."""
    if request.inputs is not None and request.held_out is None:
        raise ConfigError("--train: the second half of --inputs reports on the search; give it as --held-out")
    if request.pareto is not None:
        raise ConfigError(
            "--train: --pareto finds many assignments; train for one of them: hil train --assignment FILE"
        )


def request_after(request: SearchRequest, record: dict[str, Any], epochs: int) -> TrainRequest:
    """A training on the samples that the search saw, reported on those it did not; the file lies beside the
    assignment."""
    assignment = Path(record["assignment_file"])
    return TrainRequest(
        model=request.model,
        out=assignment.with_suffix(".onnx"),
        data=request.inputs,
        held_out=request.held_out,
        assignment=assignment,
        epochs=epochs,
        seed=request.seed,
    )
