"""`hil search --pareto` and several boards: points that no other beats, sensitivities measured once, limits of all."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

import hil_command
import numpy as np
import onnx_models
import pytest
from search_models import STRATEGY_NAMES, network_problem

from tinyhil.data import load
from tinyhil.errors import EXIT_BUILD, EXIT_USAGE
from tinyhil.harness.build.toolchain import default_cache_dir
from tinyhil.harness.records.figures import CANDIDATES
from tinyhil.harness.search import splits
from tinyhil.harness.search.device import Measured
from tinyhil.harness.search.request import SearchRequest
from tinyhil.harness.search.session import run_search
from tinyhil.harness.search.splits import Split
from tinyhil.language.program import Program
from tinyhil.references.reference import ReferenceRun, run_reference
from tinyhil.search.engine.restart import work_of
from tinyhil.search.evaluator import NumpyExecutor
from tinyhil.search.search_loop import Budget, search
from tinyhil.search.search_problem import SearchProblem
from tinyhil.search.sensitivity import sensitivities
from tinyhil.search.space import Choice
from tinyhil.search.strategies import make_strategy

SWEEP = ("search", "--model", "digits_mlp", "--samples", "150", "--evaluations", "8", "--json")


@dataclass
class Counting:
    """The reference, and how many samples it ran."""

    samples: int = 0

    def run(self, program: Program, inputs: np.ndarray, part: object = None) -> ReferenceRun:
        self.samples += len(inputs)
        return run_reference(program, inputs.astype(np.int64))

    def values(self, program: Program, inputs: np.ndarray) -> dict[str, np.ndarray]:
        return NumpyExecutor().values(program, inputs)


def widest_bytes(problem: SearchProblem) -> int:
    return problem.memory.planned_bytes(problem.space.uniform(problem.space.high))


@pytest.mark.parametrize("limit_bytes", [18, 22])
def test_what_was_told_before_costs_nothing(limit_bytes: int, tmp_path: Path) -> None:
    """A second search under another limit runs no sample of what the first has asked; its answer is the same."""
    alone, counted = Counting(), Counting()
    separate = search(make_strategy("lagrange", ()), network_problem(tmp_path, limit_bytes, executor=alone))
    problem = network_problem(tmp_path, 26, executor=counted)
    first = search(make_strategy("lagrange", ()), problem)
    before = counted.samples
    second = search(make_strategy("lagrange", ()), replace(problem, limit_bytes=limit_bytes))
    assert second.best.candidate == separate.best.candidate
    assert second.best.score == separate.best.score
    asked = {trial.candidate for trial in first.trials if trial.kind == "probe"}
    shared = [trial for trial in second.trials if trial.kind == "probe" and trial.candidate in asked]
    assert len(shared) > 5
    assert counted.samples - before <= alone.samples - sum(trial.score.samples for trial in shared)
    assert second.evaluations < separate.evaluations


@pytest.mark.parametrize("strategy", ["lagrange", "haunter"])
def test_sensitivities_are_what_one_tensor_alone_does(strategy: str, tmp_path: Path) -> None:
    """Every row against the reference, whether the search had asked for it or not."""
    problem = network_problem(tmp_path, 22, executor=Counting())
    search(make_strategy(strategy, ()), problem)
    found = sensitivities(problem)
    space, outputs = problem.space, problem.evaluator.examples.outputs.astype(float)
    base = space.uniform(Choice(found.others))
    present = sorted(space.present(base))
    assert [row.tensor for row in found.tensors] == [space.groups[index].name for index in present]
    before = problem.evaluator.probe(space.lower(base), found.samples).loss
    for index, row in zip(present, found.tensors, strict=True):
        assert "fixed8" in row.errors
        for text, error in row.errors.items():
            alone = space.with_choices(base, {index: Choice("fixed8", int(text.removeprefix("fixed8") or 0))})
            after = problem.evaluator.probe(space.lower(alone), found.samples).loss
            assert error == pytest.approx(np.sqrt(max(0.0, after - before) / (outputs**2).mean()))


def test_a_large_network_is_searched_on_fewer_samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = network_problem(tmp_path, 22)
    products = work_of(problem.space.lower(problem.space.uniform(problem.space.high)))
    split = Split("net", "file", "0", np.zeros((500, 1, 8)), None, np.zeros((1, 1, 8)), None, np.zeros((500, 1, 8)))
    monkeypatch.setattr(splits, "MOST_PRODUCTS", 300 * products)
    said: list[str] = []
    assert len(splits.affordable(split, None, None, products, said.append).x) == 300
    assert len(said) == 1
    assert "300 of 500 samples" in said[0]
    assert len(splits.affordable(split, 450, None, products, said.append).x) == 450


def test_the_record_says_what_took_how_long(tmp_path: Path) -> None:
    """Each phase in order; they are told as they begin, the first before anything is read."""
    announced: list[str] = []

    class Watch:
        def __call__(self, trial: object, best: object) -> None:
            announced.append("trial")

        def phase(self, name: str) -> None:
            announced.append(name)

    request = SearchRequest("digits_mlp", 50, evaluations=3, samples=100, results=tmp_path)
    record = run_search(request, default_cache_dir(), lambda line: None, Watch()).record
    names = [phase["phase"] for phase in record["phases"]]
    assert names == [*dict.fromkeys(name for name in announced if name != "trial"), "all else"]
    assert (names[0], announced[0]) == ("reading model and samples", "reading model and samples")
    assert {"running the float model", "searching", "measuring sensitivities"} <= set(names)
    assert all(phase["seconds"] >= 0 and phase["processor_seconds"] >= 0 for phase in record["phases"])
    assert record["first_answer"]["disagreements"] >= record["search"]["disagreements"]
    (path,) = (tmp_path / "search").rglob("lagrange-*.json")
    page = hil_command.hil("report", str(path), "-o", "page.html", cwd=tmp_path)
    assert page.returncode == 0, page.stderr
    shown = (tmp_path / "page.html").read_text()
    assert "What each tensor alone costs" in shown
    assert "measuring sensitivities" in shown


@pytest.mark.parametrize("name", STRATEGY_NAMES)
def test_every_strategy_keeps_the_limits_of_all_boards(name: str, tmp_path: Path) -> None:
    """The second board needs three bytes beside the arena for each wide tensor, so that its limit is another one."""
    own = network_problem(tmp_path, 22)
    high = own.space.high

    def beside(candidate: tuple) -> int:
        return 3 * sum(choice.format == high.format for choice in candidate)

    other = replace(own, limit_bytes=28, beside=beside)
    found = search(make_strategy(name, ()), replace(own, also=(other,)), budget=Budget(evaluations=25))
    bytes_ = own.memory.planned_bytes(found.best.candidate)
    assert bytes_ <= 22
    assert bytes_ + beside(found.best.candidate) <= 28


def sweep(folder: Path, *arguments: str) -> dict:
    done = hil_command.hil(*SWEEP, *arguments, cwd=folder)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def test_the_front_of_a_real_model(tmp_path: Path) -> None:
    """No point beats another, each file gives what its point says, and nothing is asked twice after an interruption."""
    digits = load("digits")
    np.savez(tmp_path / "unseen.npz", x=digits.x_test, y=digits.y_test)  # of the others none differs
    unseen = ("--inputs", "unseen.npz", "--held-out", "unseen.npz")
    formats = ("--formats", "fp8e5m2,fixed16", "--levels", "3", *unseen, "--samples", "450")
    record = sweep(tmp_path, "--pareto", "ram,accuracy", *formats, "--plot", "front")
    points = record["points"]
    assert len(points) > 1
    assert [p["arena_bytes"] for p in points] == sorted({p["arena_bytes"] for p in points})
    differ = [p["searched_disagreements"] for p in points]
    assert differ == sorted(set(differ), reverse=True)
    assert (tmp_path / "front.svg").is_file()
    for point in points:
        run = hil_command.hil(
            "run", "--board", "host", "--model", "digits_mlp", "--inputs", "unseen.npz", "--assignment",
            point["assignment_file"], "--json",
            cwd=tmp_path,
        )  # fmt: skip
        assert run.returncode == 0, run.stderr
        measured = json.loads(run.stdout)
        assert measured["memory"]["arena_bytes"] == point["arena_bytes"]
        assert (measured["accuracy"], measured["disagreements"]) == (point["accuracy"], point["disagreements"])
    logs = sorted((tmp_path / "results").rglob("pareto-*/*.jsonl"))
    text = [path.read_text() for path in logs]
    logs[-1].write_text("".join(text[-1].splitlines(keepends=True)[:-3]))
    again = sweep(tmp_path, "--pareto", "ram,accuracy", *formats)
    assert [path.read_text() for path in logs] == text
    assert again["points"] == points
    (path,) = (tmp_path / "results").rglob("pareto-*.json")
    page = hil_command.hil("report", str(path), "-o", "page.html", cwd=tmp_path)
    assert page.returncode == 0, page.stderr
    assert all(point["assignment_file"] in (tmp_path / "page.html").read_text() for point in points)


def test_what_was_measured_decides_on_a_board(tmp_path: Path) -> None:
    """No uniform format that the board holds has less RAM and no more disagreements than every point of the front."""
    rng = np.random.default_rng(0)
    nodes = [onnx_models.node("MatMul", "x w", "s"), onnx_models.node("Softmax", "s", "y")]
    proto = onnx_models.simple(nodes, {"x": [1, 8]}, {"w": rng.normal(size=(8, 3))})
    (tmp_path / "net.onnx").write_bytes(proto.SerializeToString())
    np.savez(tmp_path / "x.npz", x=rng.normal(size=(60, 8)))
    samples = ("--inputs", "x.npz", "--held-out", "x.npz")
    asked = ("search", "--model", "net.onnx", *samples, "--board", "uno", "--pareto", "ram,accuracy", "--levels", "2")
    done = hil_command.hil(*asked, "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    points = [(one["ram_bytes"], one["disagreements"]) for one in record["points"]]
    alone = [(one["ram_bytes"], one["disagreements"]) for one in record["uniform"] if one["ram_bytes"] is not None]
    assert len(alone) > 1
    for ram, differ in alone:
        assert any(a <= ram and b <= differ for a, b in points), (ram, differ, points)
    (path,) = (tmp_path / "results").rglob("pareto-*.json")
    page = hil_command.hil("report", path, "--md", "-", cwd=tmp_path)  # boards are named there in another way
    assert page.returncode == 0, page.stderr
    assert page.stdout.count("Search: net on uno") == len(record["points"])


def test_one_assignment_for_two_boards(tmp_path: Path) -> None:
    """Measured on both, within the RAM of both; the limit is that of the larger one's stack and statics."""
    boards = ("--board", "uno", "--board", "due", "--ram", "1900")
    done = hil_command.hil(*SWEEP, *boards, "--out", "widths.yaml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (path,) = (tmp_path / "results" / "search").glob("*/*.json")
    found = [Measured(**board) for board in json.loads(path.read_text())["boards"]]
    assert [board.board for board in found] == ["uno", "due"]
    assert all((board.total_bytes or 0) <= 1900 for board in found)
    assert all((path.parent / CANDIDATES / board.board).is_dir() for board in found)


@pytest.mark.parametrize(
    ("arguments", "message", "code"),
    [
        (("--pareto", "ram"), "two or three of", EXIT_USAGE),
        (("--pareto", "ram,weight"), "two or three of", EXIT_USAGE),
        (("--pareto", "ram,ram"), "two or three of", EXIT_USAGE),
        (("--pareto", "ram,latency"), "needs a board", EXIT_USAGE),
        (("--pareto", "ram,accuracy", "--minimize", "ram"), "exclude each other", EXIT_USAGE),
        (("--pareto", "ram,accuracy", "--ram", "10"), "not feasible", EXIT_BUILD),
        (("--board", "uno", "--board", "uno"), "given twice", EXIT_USAGE),
        (("--board", "uno", "--board", "due", "--minimize", "ram"), "is for one board", EXIT_USAGE),
        (("--board", "due", "--board", "reram"), "accelerator", EXIT_USAGE),
    ],
)
def test_what_makes_no_sense_is_one_line(arguments: tuple[str, ...], message: str, code: int, tmp_path: Path) -> None:
    done = hil_command.hil(*SWEEP, *arguments, cwd=tmp_path)
    assert done.returncode == code, done.stderr
    assert message in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
