"""What a search hands to training."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch")

from test_train import DIGITS, graph_of

from tinyhil.compiler.calibrate import calibrate
from tinyhil.errors import ConfigError
from tinyhil.harness.search.request import SearchRequest
from tinyhil.harness.search.task import write_assignment
from tinyhil.harness.train.after_search import Afterwards, alternate, require_trainable
from tinyhil.harness.train.session import TrainRequest
from tinyhil.language.assignment import Assignment, load_assignment
from tinyhil.preference import Wish
from tinyhil.search.evaluator import Evaluator, NumpyExecutor, Score, make_examples
from tinyhil.search.memory import UNLIMITED
from tinyhil.search.search_problem import SearchProblem
from tinyhil.search.space import Choice, make_space
from tinyhil.search.trial import Trial
from tinyhil.train import fine_tuning
from tinyhil.train.fine_tuning import FineTuning
from tinyhil.train.fit import train
from tinyhil.train.samples import divide
from tinyhil.train.schedule import Schedule

GRAPH = graph_of("digits_mlp")
SPACE = make_space(GRAPH, calibrate(GRAPH, DIGITS.x_train[:100], {}), ("fixed4", "fixed8"))


def found(path: Path, *clipped: tuple[str, ...]) -> SimpleNamespace:
    """A search whose answers clip these values, the best first."""
    trials = tuple(
        Trial(
            number,
            tuple(Choice("fixed4", -1) if {*g.members} & {*names} else Choice("fixed8") for g in SPACE.groups),
            *("full", 42 + number, True, Score(100, 3 + number, 97, 0, 0.1)),
        )
        for number, names in enumerate(clipped)
    )
    write_assignment(path, SPACE, trials[0], Wish("ram"))
    request, record = SearchRequest("digits_mlp"), {"assignment_file": str(path), "accuracy": None}
    answer = SimpleNamespace(best=trials[0], trials=trials)
    return SimpleNamespace(request=request, record=record, space=SPACE, found=answer)


class Recorded:
    """Says of each training how good it was, the assignment deciding."""

    def __init__(self, *accuracies: float) -> None:
        self.asked: list[TrainRequest] = []
        self.formats: list[Assignment] = []
        self.accuracies = iter(accuracies)

    def __call__(self, request: TrainRequest) -> SimpleNamespace:
        assert request.assignment is not None
        self.asked.append(request)
        self.formats.append(load_assignment(request.assignment, GRAPH))
        best = SimpleNamespace(accuracy=next(self.accuracies))
        return SimpleNamespace(request=request, trained=SimpleNamespace(best=best))


def rounds_of(outcome: SimpleNamespace, train: Recorded, epochs: int, schedule: str) -> Any:
    return alternate(outcome.request, Afterwards(epochs, schedule=schedule), lambda _: outcome, train)  # type: ignore[arg-type, return-value]


@pytest.mark.parametrize("clipped", [(), ("fc1_w",), ("fc1_w", "relu1")])
def test_weights_are_not_clipped_twice(clipped: tuple[str, ...], tmp_path: Path) -> None:
    """What is clipped besides weights stays so, and the file that was found stays as it is."""
    path, train = tmp_path / "found.yaml", Recorded(0.9)
    outcome = found(path, clipped)
    before, wanted = path.read_bytes(), load_assignment(path, GRAPH)
    rounds_of(outcome, train, 3, "once")
    others = {name: offset for name, offset in wanted.offsets.items() if name not in GRAPH.all_constants()}
    assert path.read_bytes() == before
    assert train.formats == [replace(wanted, offsets=others)]
    assert (train.asked[0].assignment == path) == ("fc1_w" not in clipped)


def test_the_candidate_that_a_short_training_suits_best_is_trained_on(tmp_path: Path) -> None:
    path, train = tmp_path / "found.yaml", Recorded(0.8, 0.9, 0.7, 0.95)
    outcome = found(path, (), ("relu1",), ("fc1_w",))
    (made,) = rounds_of(outcome, train, 8, "haq")
    assert train.formats[-1].offsets == {"relu1": -1}
    assert train.asked[-1].out == path.with_suffix(".onnx")
    assert sum(request.epochs for request in train.asked) == 8
    assert made.arena_bytes == 43


def test_other_schedules_train_what_was_found(tmp_path: Path) -> None:
    for schedule, epochs in (("hawq", 8), ("once", 8), ("haq", 2)):
        train = Recorded(0.9)
        rounds_of(found(tmp_path / "found.yaml", (), ("relu1",)), train, epochs, schedule)
        assert [(request.epochs, request.progressive) for request in train.asked] == [(epochs, schedule == "hawq")]


def test_weights_are_trained_before_they_are_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    """HAQ's loop: at 3 bits an epoch is worth much; the same program each time, in the candidate's formats, at the rate
    of its bits."""
    rates: list[float] = []
    monkeypatch.setattr(fine_tuning, "train", lambda job: (rates.append(job.schedule.rate), train(job))[1])
    space = make_space(GRAPH, calibrate(GRAPH, DIGITS.x_train[:100], {}), ("fixed3", "fixed8"))
    samples = divide(DIGITS.x_train[:400], DIGITS.y_train[:400], 0)
    judged = Evaluator(NumpyExecutor(), make_examples(GRAPH, samples.x_chosen_by, samples.y_chosen_by))
    tuning = FineTuning(space, samples, NumpyExecutor(), Schedule(1, 32, 1e-2, scales=None))
    problem = SearchProblem(space, None, judged, UNLIMITED, trained=tuning)  # type: ignore[arg-type]
    candidate = space.uniform(Choice("fixed3"))
    program = problem.program(candidate)
    tuned, plain = (judged.score(one).correct or 0 for one in (program, space.lower(candidate)))
    assert tuned > plain + 30
    assert {tensor.format.bits for name, tensor in program.tensors.items() if not name.endswith(".lists")} == {3}
    again = problem.program(candidate)
    assert all((again.constants[name] == array).all() for name, array in program.constants.items())
    problem.program(space.uniform(Choice("fixed8")))
    assert rates == pytest.approx([6e-2, 6e-2, 1e-2])


@pytest.mark.parametrize(("augment", "teacher"), [(0.0, 0.5), (0.2, 1.0)])
def test_training_cuts_ranges_as_the_search_did(augment: float, teacher: float, tmp_path: Path) -> None:
    """Of moved samples the model's own scores are known, labels are not."""
    train, outcome = Recorded(0.9), found(tmp_path / "found.yaml", ())
    request = replace(outcome.request, calibrate_by="percentile")
    alternate(request, Afterwards(2, 1, "once", augment), lambda _: outcome, train)  # type: ignore[arg-type, return-value]
    (asked,) = train.asked
    assert (asked.calibrate_by, asked.augment, asked.teacher) == ("percentile", augment, teacher)


def test_nothing_is_searched_where_nothing_can_be_trained(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was said when the search had ended, whose answer was lost."""
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ConfigError, match=r"--train needs PyTorch; install it: pip install 'tinyhil\[train\]'"):
        require_trainable(SearchRequest("digits_mlp", 90))
