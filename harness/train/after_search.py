"""`hil search --train`: formats are chosen, the weights trained for them, formats chosen anew for these weights.

As in HAQ and HAWQ a search sees weights as they are and what is found is trained at the end (one round). With more
rounds the trained model is searched again: what moved may bear other widths. The best round is the one whose integers
are right most often on the samples that training held back; samples that report are never asked which.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tinyhil import data
from tinyhil.errors import ConfigError
from tinyhil.harness.search.request import SearchRequest
from tinyhil.harness.search.session import SearchOutcome
from tinyhil.harness.search.task import write_assignment
from tinyhil.harness.train.session import TrainOutcome, TrainRequest
from tinyhil.harness.zoo import find_model

TEACHER = 0.5  # share of the model as it was, which was good: formats are what is to be learned

Ask = Callable[[SearchRequest], SearchOutcome]
Train = Callable[[TrainRequest], TrainOutcome]


@dataclass(frozen=True, slots=True)
class Round:
    """A search, and the training for what it found."""

    searched: SearchOutcome
    trained: TrainOutcome

    @property
    def printed(self) -> dict[str, Any]:
        """What `hil search --rounds` says of it: the search's figures, then the training's."""
        searched = self.searched.record
        return {
            "assignment_file": str(self.trained.request.assignment),
            "arena_bytes": searched["arena_bytes"],
            "searched_accuracy": searched["accuracy"],
            **{key: value for key, value in self.trained.printed.items() if key != "epochs"},
        }


def require_trainable(request: SearchRequest) -> None:
    """ConfigError, before anything is searched, for options with which nothing can be trained afterwards."""
    if request.inputs is not None and request.held_out is None:
        raise ConfigError("--train: the second half of --inputs reports on the search; give it as --held-out")
    if request.pareto is not None:
        raise ConfigError(
            "--train: --pareto finds many assignments; train for one of them: hil train --assignment FILE"
        )


def alternate(request: SearchRequest, epochs: int, rounds: int, ask: Ask, train: Train) -> tuple[Round, ...]:
    """Rounds of search and training, until the formats stay or `rounds` are over."""
    found: list[Round] = []
    with _as_files(request) if rounds > 1 else _unchanged(request) as files:
        for number in range(1, rounds + 1):
            asked = request if number == 1 else _searched_again(request, files, found[-1], number)
            searched = ask(asked)
            if found and _formats(searched) == _formats(found[-1].searched):
                break
            wanted = _training(asked, searched, epochs)
            found.append(Round(searched, train(wanted)))
    return tuple(found)


def best_of(rounds: Sequence[Round]) -> Round:
    """The one most often right on what training held back; of equal ones the first."""
    return max(rounds, key=lambda found: found.trained.trained.best.accuracy)


def _training(request: SearchRequest, searched: SearchOutcome, epochs: int) -> TrainRequest:
    """On the samples that the search saw, reported on those it did not; the file lies beside the assignment. Scales are
    learned unless there are loops, each step of which would see a scale jump."""
    is_recurrent = any(node.body is not None for node in searched.space.graph.walk())
    assignment = _trainable(searched)
    return TrainRequest(
        model=request.model,
        out=Path(searched.record["assignment_file"]).with_suffix(".onnx"),
        data=request.inputs,
        held_out=request.held_out,
        assignment=assignment,
        epochs=epochs,
        batch=None,
        rate=None,
        seed=request.seed,
        teacher=TEACHER,
        learn_scales=False if is_recurrent else None,
    )


def _trainable(searched: SearchOutcome) -> Path:
    """The assignment; where it clips weights another one beside it that does not: training moves their scales, and
    what it writes would be clipped once more."""
    path, space = Path(searched.record["assignment_file"]), searched.space
    constants = space.graph.all_constants()
    best = searched.found.best
    whole = tuple(
        replace(choice, offset=max(choice.offset, 0)) if constants.keys() >= {*group.members} else choice
        for group, choice in zip(space.groups, best.candidate, strict=True)
    )
    if whole == best.candidate:
        return path
    path = path.with_name(f"{path.stem}.trained{path.suffix}")
    write_assignment(path, space, replace(best, candidate=whole))
    return path


def _searched_again(request: SearchRequest, files: Mapping[str, Path], last: Round, number: int) -> SearchRequest:
    """The same questions of the model as trained; ranges lie beside it."""
    out = Path(last.searched.record["assignment_file"])
    stem = out.stem.removesuffix(f".round{number - 1}")
    return replace(
        request,
        model=str(last.trained.request.out),
        inputs=files["data"],
        held_out=files["held_out"],
        calibrate=None,
        out=out.with_name(f"{stem}.round{number}{out.suffix}"),
    )


def _formats(searched: SearchOutcome) -> Any:
    return searched.found.best.candidate


@contextmanager
def _unchanged(request: SearchRequest) -> Iterator[Mapping[str, Path]]:
    yield {}


@contextmanager
def _as_files(request: SearchRequest) -> Iterator[Mapping[str, Path]]:
    """The samples to search and train on and those to report on, which a trained model has from files."""
    if request.inputs is not None and request.held_out is not None:
        yield {"data": request.inputs, "held_out": request.held_out}
        return
    source = find_model(request.model)
    if source.dataset is None:
        raise ConfigError(f"{request.model}: --train needs --inputs and --held-out for a model from a file")
    split = data.load(source.dataset)
    with tempfile.TemporaryDirectory() as folder:
        files = {"data": Path(folder) / "train.npz", "held_out": Path(folder) / "test.npz"}
        for path, x, y in (
            (files["data"], split.x_train, split.y_train),
            (files["held_out"], split.x_test, split.y_test),
        ):
            arrays: dict[str, Any] = {"x": x} if y is None else {"x": x, "y": y}
            np.savez(path, **arrays)
        yield files
