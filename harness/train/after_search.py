"""`hil search --train`: formats are chosen, the weights trained for them, formats chosen anew for these weights.

A search sees weights as they are. By HAQ's schedule (Wang et al. 2019) its best answers are trained shortly, the one
that is then best for the rest of the epochs; by HAWQ's (Dong et al. 2019) its answer is, formats coming in by
sensitivity. With more rounds the trained model is searched again: what moved may bear other widths. Best is whose
integers are right most often on the samples that training held back; samples that report are never asked which.
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
from tinyhil.harness.job.zoo import find_model
from tinyhil.harness.search.request import SearchRequest
from tinyhil.harness.search.rounds import best_trials
from tinyhil.harness.search.session import SearchOutcome
from tinyhil.harness.search.task import write_assignment
from tinyhil.harness.search.tuning import TEACHER
from tinyhil.harness.train.session import TrainOutcome, TrainRequest, require_torch
from tinyhil.preference import Wish
from tinyhil.search.space import Candidate

ALL = 1.0  # of samples that are moved the model's scores are known, labels only guessed

HAQ, HAWQ, ONCE = "haq", "hawq", "once"
CANDIDATES = 3  # that HAQ's schedule trains for an epoch each, at most half of all epochs


@dataclass(frozen=True, slots=True)
class Afterwards:
    """How weights are trained for what was found: the options of `hil search --train`."""

    epochs: int
    rounds: int = 1
    schedule: str = HAQ
    augment: float = 0.0


Ask = Callable[[SearchRequest], SearchOutcome]
Train = Callable[[TrainRequest], TrainOutcome]


@dataclass(frozen=True, slots=True)
class Round:
    """A search, and the training for what it found."""

    searched: SearchOutcome
    trained: TrainOutcome
    arena_bytes: int

    @property
    def printed(self) -> dict[str, Any]:
        """What `hil search --rounds` says of it: the search's figures, then the training's."""
        return {
            "arena_bytes": self.arena_bytes,
            "searched_accuracy": self.searched.record["accuracy"],
            **{key: value for key, value in self.trained.printed.items() if key != "epochs"},
        }


def require_trainable(request: SearchRequest) -> None:
    """ConfigError, before anything is searched, for options with which nothing can be trained afterwards, and where
    nothing can."""
    require_torch("--train")
    if request.inputs is not None and request.held_out is None:
        raise ConfigError("--train: the second half of --inputs reports on the search; give it as --held-out")
    if request.pareto is not None:
        raise ConfigError(
            "--train: --pareto finds many assignments; train for one of them: hil train --assignment FILE"
        )


def alternate(request: SearchRequest, how: Afterwards, ask: Ask, train: Train) -> tuple[Round, ...]:
    """Rounds of search and training, until the formats stay or `how.rounds` are over."""
    found: list[Round] = []
    with _as_files(request) if how.rounds > 1 else _unchanged(request) as files:
        for number in range(1, how.rounds + 1):
            asked = request if number == 1 else _searched_again(request, files, found[-1], number)
            searched = ask(asked)
            if found and _formats(searched) == _formats(found[-1].searched):
                break
            found.append(_round(searched, _training(asked, searched, how), train, how.schedule))
    return tuple(found)


def best_of(rounds: Sequence[Round]) -> Round:
    """The one most often right on what training held back; of equal ones the first."""
    return max(rounds, key=lambda found: found.trained.trained.best.accuracy)


def _round(searched: SearchOutcome, wanted: TrainRequest, train: Train, schedule: str) -> Round:
    """Training as `schedule` has it. Only the answer itself was seen to fit a board, so there it alone is trained."""
    count = min(CANDIDATES, wanted.epochs // 2) if schedule == HAQ and searched.request.board is None else 1
    candidates = assignments(searched, count)
    path, arena_bytes = candidates[0]
    if len(candidates) > 1:
        with tempfile.TemporaryDirectory() as folder:
            short = replace(wanted, epochs=1, out=Path(folder) / "candidate.onnx")
            found = [train(replace(short, assignment=tried)).trained.best.accuracy for tried, _ in candidates]
        path, arena_bytes = candidates[found.index(max(found))]
        wanted = replace(wanted, epochs=wanted.epochs - len(candidates))
    return Round(searched, train(replace(wanted, assignment=path, progressive=schedule == HAWQ)), arena_bytes)


def _training(request: SearchRequest, searched: SearchOutcome, how: Afterwards) -> TrainRequest:
    """On the samples that the search saw, reported on those it did not; the file lies beside the assignment. Scales are
    learned unless there are loops, each step of which would see a scale jump."""
    return TrainRequest(
        model=request.model,
        out=Path(searched.record["assignment_file"]).with_suffix(".onnx"),
        data=request.inputs,
        held_out=request.held_out,
        epochs=how.epochs,
        batch=None,
        rate=None,
        seed=request.seed,
        teacher=ALL if how.augment > 0 else TEACHER,
        learn_scales=False if searched.space.graph.has_loops else None,
        calibrate_by=request.calibrate_by,
        augment=how.augment,
        states=request.states,
        steps=request.steps,
    )


def assignments(searched: SearchOutcome, count: int) -> list[tuple[Path, int]]:
    """The best `count` answers as files, and their arenas; the first is the search's own. Where one clips weights, what
    is trained does not: training moves their scales, and what it writes would be clipped once more."""
    path, best = Path(searched.record["assignment_file"]), searched.found.best
    found: dict[Candidate, tuple[Path, int]] = {}
    for number, trial in enumerate(best_trials(searched.found, count)):
        whole = searched.space.unclipped(trial.candidate)
        if whole in found:
            continue
        own = path
        if whole != best.candidate:
            own = path.with_name(f"{path.stem}.trained{number or ''}{path.suffix}")
            write_assignment(own, searched.space, replace(trial, candidate=whole), Wish(searched.request.prefer))
        found[whole] = own, trial.ram_bytes
    return list(found.values())


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
