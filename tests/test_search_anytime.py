"""A search that is stopped early: by Ctrl-C or by `--seconds`, it gives the best answer so far."""

from __future__ import annotations

import io
import json
import re
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml
from rich.console import Console
from search_models import network_problem

from tinyhil import data, time_limit
from tinyhil.errors import EXIT_BUILD, ConfigError, Infeasible
from tinyhil.harness.build.compile import _run
from tinyhil.harness.search import each
from tinyhil.harness.search.first_answer import TooLate
from tinyhil.harness.search.phases import OutOfTime, Phases
from tinyhil.harness.search.request import SearchRequest
from tinyhil.harness.search.resource_limits import MOST_PILOTS
from tinyhil.harness.search.session import SearchOutcome, run_pareto, run_search
from tinyhil.harness.search.show import Watch, print_outcome
from tinyhil.harness.settings.config import load_boards
from tinyhil.harness.settings.progress import Progress
from tinyhil.language.program import Program
from tinyhil.memplan.arena.placement import Placement
from tinyhil.native import default_cache_dir
from tinyhil.search.search_loop import search
from tinyhil.search.strategies import make_strategy
from tinyhil.search.trial import Trial, TrialLog

TUTORIAL = (Path(__file__).resolve().parent.parent / "docs" / "tutorials" / "own.md").read_text()
(TUTORIAL,) = re.findall(r"```python\n(.*?)```", TUTORIAL, re.DOTALL)


class Interrupting:
    """Ctrl-C after so many trials, or as this phase begins; `best`: what was shown last."""

    def __init__(self, after: int | None = None, phase: str = "") -> None:
        self.left, self.at = after, phase
        self.best: Trial | None = None

    def __call__(self, trial: Trial, best: Trial | None) -> None:
        self.best = best
        if self.left is not None:
            self.left -= 1
            if self.left <= 0:
                self.left = None
                raise KeyboardInterrupt

    def phase(self, name: str) -> None:
        if name == self.at:
            self.at = ""
            raise KeyboardInterrupt


def searched(request: SearchRequest, watch: Interrupting) -> tuple[SearchOutcome, str]:
    said: list[str] = []
    outcome = run_search(request, default_cache_dir(), said.append, watch, load_boards())
    shown(outcome)
    return outcome, "\n".join(said)


def shown(outcome: SearchOutcome) -> dict[str, str]:
    """The lines of figures on the terminal, by their names."""
    page = io.StringIO()
    print_outcome(outcome, Console(file=page, width=120))
    lines = (line.split(maxsplit=1) for line in page.getvalue().splitlines())
    return {line[0]: line[1] for line in lines if len(line) == 2}


@pytest.mark.parametrize("after", [1, 5])
def test_an_interrupted_search_gives_the_best_so_far(after: int, tmp_path: Path) -> None:
    watch, out = Interrupting(after), tmp_path / "widths.yaml"
    request = SearchRequest("digits_mlp", 50, samples=100, results=tmp_path, out=out)
    outcome, said = searched(request, watch)
    assert "interrupted; the best so far is the answer" in said
    assert watch.best is not None
    assert outcome.found.best.score.disagreements <= watch.best.score.disagreements
    assert outcome.record["arena_bytes"] <= 50
    assert not outcome.record["search"]["finished"]
    assert yaml.safe_load(out.read_text())["default"] in outcome.space.formats
    assert outcome.record["sensitivity"]["tensors"] is not None


def test_what_boards_have_shown_by_then_is_said(tmp_path: Path) -> None:
    """Of a search that ends while it profiles: formats for all tensors were measured before, the answer is one."""
    given = SearchRequest("digits_mlp", board="uno", samples=20, latency_us=60_000, formats="fixed8,fixed16")
    outcome, _ = searched(replace(given, results=tmp_path), Interrupting(phase="profiling"))
    assert [row["format"] for row in outcome.record["uniform"]] == ["fixed8", "fixed16"]
    (own,) = (row for row in outcome.record["uniform"] if row["latency_us"] == outcome.record["latency_us"])
    assert own["ram_bytes"] == outcome.record["ram_bytes"]
    assert "us of 60,000 us (worst of " in shown(outcome)["latency"]


def test_what_does_not_keep_the_limit_is_no_answer(tmp_path: Path) -> None:
    """Of an interrupted search: posits need a deeper stack than the format that said what is left for the arena. What
    there is stays."""
    given = SearchRequest("digits_mlp", board="uno", samples=20, ram=600, formats="fixed8", results=tmp_path / "a")
    narrow = searched(given, Interrupting())[0].record["ram_bytes"]
    both = {"ram": narrow, "formats": "fixed8,posit8es1", "results": tmp_path / "b", "out": tmp_path / "b.yaml"}
    with pytest.raises(TooLate, match=rf"needs \d+ B of RAM of {narrow} B on uno; it is in .*; the same") as error:
        searched(replace(given, **both), Interrupting(8))
    assert error.value.exit_code == EXIT_BUILD
    assert (tmp_path / "b.yaml").is_file()
    (record,) = (tmp_path / "b").rglob("lagrange*.json")
    assert json.loads(record.read_text())["ram_bytes"] > narrow
    both |= {"formats": "fixed4,posit8es1", "results": tmp_path / "c"}
    outcome, _ = searched(replace(given, **both), Interrupting(3))  # posits are best, and measured to be too large
    record = outcome.record
    assert (record["uniform"][1]["keeps_limits"], record["ram_bytes"]) == (False, narrow)
    assert not record["search"]["finished"]


def test_where_no_time_is_left_to_build_a_measured_format_is_the_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a limit of all RAM: what no board has run may need more of it. The time is over as somebody interrupts."""
    given = SearchRequest("digits_mlp", board="uno", samples=20, ram=600, formats="fixed8", results=tmp_path / "a")
    narrow = searched(given, Interrupting())[0].record["ram_bytes"]
    watch = Interrupting(8)
    left = Phases.seconds_left
    monkeypatch.setattr(Phases, "seconds_left", lambda self, n: 0.0 if watch.left is None else left(self, n))
    both = {"ram": narrow, "formats": "fixed8,posit8es1", "results": tmp_path / "b", "seconds": 9999.0}
    outcome, said = searched(replace(given, **both), watch)
    assert "on no board was run what the search has found; fixed8 for all tensors keeps them" in said
    assert outcome.record["ram_bytes"] == narrow


@pytest.mark.every_cell
@pytest.mark.parametrize("limit", ["ram", "arena"])
@pytest.mark.parametrize("board", [None, "uno"])
def test_ram_and_arena_mean_the_same_interrupted_or_not(board: str | None, limit: str, tmp_path: Path) -> None:
    """RAM is what a run on the board needs in all, or unknown; the line of the arena is the arena's alone."""
    given = SearchRequest("digits_mlp", board=board, samples=60, formats="fixed8", results=tmp_path)
    given = replace(given, **{limit: 1500})
    whole = board is not None and limit == "ram"
    hurried = searched(replace(given, seconds=1e-6), Interrupting())[0]
    stopped = searched(given, Interrupting(2))[0]
    finished = searched(given, Interrupting())[0]
    limits = {"ram_limit_bytes": 1500 if whole else None, "arena_limit_bytes": None if whole else 1500}
    for outcome in (hurried, stopped, finished):
        record, lines = outcome.record, shown(outcome)
        assert limits.items() <= record.items()
        assert record["arena_bytes"] == finished.record["arena_bytes"]
        assert record["ram_bytes"] in (None, finished.record["ram_bytes"])
        assert ("RAM" in lines) == (whole or record["ram_bytes"] is not None)
        assert ("arena" in lines) != whole
        if "RAM" in lines:
            assert lines["RAM"].startswith("unknown" if record["ram_bytes"] is None else f"{record['ram_bytes']} B")
    assert hurried.record["ram_bytes"] is None  # nothing was built
    assert (finished.record["ram_bytes"] is None) == (board is None)
    if board is not None:
        assert stopped.record["ram_bytes"] == finished.record["ram_bytes"] > finished.record["arena_bytes"]


@pytest.mark.parametrize(("board", "ram"), [(None, 420), ("uno", 800)])
def test_going_on_keeps_the_better_answer(board: str | None, ram: int, tmp_path: Path) -> None:
    """Stopped again before what it had found comes up: the answer, its file and its figures stay."""
    out = tmp_path / "widths.yaml"
    request = SearchRequest("digits_cnn", ram, board=board, samples=120, formats="fixed3,fixed4,fixed8", out=out)
    request = replace(request, results=tmp_path, evaluations=40)
    best, _ = searched(request, Interrupting())
    file = out.read_text()
    worst, _ = searched(replace(request, results=tmp_path / "other"), Interrupting(1))
    assert worst.found.best.score.disagreements > best.found.best.score.disagreements  # else nothing is shown here
    again, said = searched(request, Interrupting(1))
    assert again.found.best.candidate == best.found.best.candidate
    assert "the answer is that found earlier: no worse than what the search had chosen" in said
    assert out.read_text() == file
    for figure in ("arena_bytes", "ram_bytes", "disagreements"):
        assert again.record[figure] == best.record[figure]


def test_what_no_time_was_left_for_is_said(tmp_path: Path) -> None:
    request = SearchRequest("digits_mlp", arena=1500, samples=60, seconds=1e-6, results=tmp_path)
    said = searched(request, Interrupting())[1]
    assert "no time was left for int8 for all tensors: raise --seconds" in said
    assert "no time was left" not in searched(replace(request, seconds=None, evaluations=4), Interrupting())[1]


def test_the_strategys_own_answer_stays_its_own(tmp_path: Path) -> None:
    """Ctrl-C after the three formats judged beside it and one trial of a strategy that begins with the worst."""
    text = TUTORIAL.replace("for name in reversed(problem.space.formats):", "for name in problem.space.formats:")
    (tmp_path / "mine.py").write_text(text.replace("disagreements == 0", "disagreements < 0"), encoding="utf-8")
    request = SearchRequest(
        "digits_mlp", arena=200, strategy=str(tmp_path / "mine.py"), formats="fixed3,fixed8,fixed16"
    )
    formats = []
    for own in (True, False):
        asked = replace(request, samples=120, own=own, results=tmp_path / str(own))
        best = searched(asked, Interrupting(4))[0].found.best
        formats.append({choice.format for choice in best.candidate})
    assert formats == [{"fixed3"}, {"fixed8"}]


def test_an_earlier_answer_that_no_longer_counts_is_said(tmp_path: Path) -> None:
    """What was the answer by its arena alone; the planner of today needs more for it."""
    request = SearchRequest("digits_cnn", 420, samples=100, formats="fixed3,fixed4,fixed8", results=tmp_path)
    best, _ = searched(request, Interrupting())
    (path,) = (tmp_path / "search" / "digits_cnn" / "answers").glob("*.jsonl")
    header = json.loads(path.read_text().splitlines()[0])
    trial = replace(best.found.best, number=0, ram_bytes=best.found.best.ram_bytes - 1)
    TrialLog(path, best.space, header["key"]).start([trial])
    again, said = searched(request, Interrupting(1))
    assert "the answer found earlier, " in said
    assert "no longer counts: its arena is planned otherwise now" in said
    assert again.found.best.candidate != best.found.best.candidate


def test_a_front_keeps_its_points(tmp_path: Path) -> None:
    request = SearchRequest("digits_mlp", 900, samples=60, evaluations=10, formats="fixed2,fixed16", results=tmp_path)
    request = replace(request, pareto="ram,accuracy")
    whole = run_pareto(request, default_cache_dir(), str, Interrupting(), load_boards())
    hurried = run_pareto(replace(request, seconds=1e-6), default_cache_dir(), str, Interrupting(), load_boards())
    lost = replace(request, seconds=1e-6, results=tmp_path / "other")
    assert len(run_pareto(lost, default_cache_dir(), str, Interrupting(), load_boards()).points) < len(whole.points)
    assert [p.trial.candidate for p in hurried.points] == [p.trial.candidate for p in whole.points]


class Counted(Interrupting):
    """Shows a bar, as on a terminal, until the search is over."""

    def __init__(self, after: int | None) -> None:
        super().__init__(after)
        self.bar, self.is_over = Progress(), False
        self.watch = Watch(self.bar, 20)

    def __call__(self, trial: Trial, best: Trial | None) -> None:
        self.watch(trial, best)
        super().__call__(trial, best)

    def evaluated(self, evaluations: float) -> None:
        if not self.is_over:
            self.watch.evaluated(evaluations)

    def phase(self, name: str) -> None:
        self.is_over = name == "measuring sensitivities"


@pytest.mark.parametrize(
    ("asked", "after"), [({}, None), ({}, 12), ({"minimize": "ram"}, None), ({"pareto": "ram,accuracy"}, None)]
)
def test_the_count_on_the_way_is_that_at_the_end(asked: dict[str, str], after: int | None, tmp_path: Path) -> None:
    request = SearchRequest("digits_mlp", 100, samples=100, evaluations=20, results=tmp_path, **asked)
    watch = Counted(after)
    if request.pareto is None:
        record = run_search(request, default_cache_dir(), str, watch, load_boards()).record
    else:
        record = run_pareto(request, default_cache_dir(), str, watch, load_boards()).record
    assert 0 < int(record["evaluations"]) == watch.bar.finished <= watch.bar.total


def test_an_interruption_before_any_answer_is_one(tmp_path: Path) -> None:
    request = SearchRequest("digits_mlp", 50, samples=100, results=tmp_path)
    with pytest.raises(KeyboardInterrupt):
        searched(request, Interrupting(phase="evaluating one format for all tensors"))


def many_digits(folder: Path) -> Path:
    """More samples than a first answer looks at."""
    x, file = data.load("digits").x_test, folder / "x.npz"
    np.savez(file, x=np.tile(x.reshape(-1, 1, 8, 8), (30, 1, 1, 1)))
    return file


class InterruptingLater(Interrupting):
    """When a phase comes for the second time."""

    def phase(self, name: str) -> None:
        if name == self.at and self.left is None:
            self.left = 1 << 30
        else:
            super().phase(name)


def test_few_samples_answer_where_many_take_long(tmp_path: Path) -> None:
    """A first answer before the float model has run on all samples; it is left of an interruption then, and where the
    time is over."""
    inputs = many_digits(tmp_path)
    for number, (seconds, watch) in enumerate(
        ((None, InterruptingLater(phase="running the float model")), (1e-6, Interrupting()))
    ):
        request = SearchRequest(
            "digits_mlp", board="uno", seconds=seconds, inputs=inputs, results=tmp_path / f"{number}"
        )
        outcome, said = searched(request, watch)
        assert "s, by estimates: fixed8 for all tensors, " in said
        assert " of 1000 samples differ" in said
        assert outcome.found.best.score.samples == 1000
        assert outcome.record["first_answer"]["disagreements"] == outcome.found.best.score.disagreements
        assert ("interrupted" if seconds is None else "the time is over") in said


def test_where_few_samples_have_no_answer_the_time_ends_a_search(tmp_path: Path) -> None:
    request = SearchRequest(
        "digits_mlp", board="uno", flash=500, seconds=1e-6, inputs=many_digits(tmp_path), results=tmp_path
    )
    with pytest.raises(TooLate, match="no assignment is known to keep the limits"):
        searched(request, Interrupting())


def test_an_interrupted_profile_leaves_what_was_measured(tmp_path: Path) -> None:
    """Before costs are known, formats for all tensors are: they ran on the board, within the limits."""
    request = SearchRequest(
        "digits_mlp", board="host", ram=4000, flash=10_000_000, samples=60, evaluations=3, results=tmp_path
    )
    outcome, said = searched(request, Interrupting(phase="profiling"))
    assert "interrupted; the best so far is the answer;" in said
    assert outcome.found.best.candidate in [
        outcome.space.uniform(choice) for choice in set(outcome.found.best.candidate)
    ]


def test_no_second_is_left_for_anything_but_an_answer(tmp_path: Path) -> None:
    """`--seconds` counts from the beginning: what remains to do is to evaluate an answer that fits."""
    request = SearchRequest("digits_mlp", 50, samples=100, seconds=1e-6, results=tmp_path)
    outcome, said = searched(request, Interrupting())
    assert len(outcome.found.trials) == 1
    assert outcome.found.best.fits
    shown = {row["format"] for row in outcome.record["uniform"]}
    missing = [name for name in outcome.space.formats if name not in shown]
    assert missing
    assert f"--seconds were over before {', '.join(missing)} for all tensors" in said
    assert not outcome.record["sensitivity"]["tensors"]
    assert [row["format"] for row in outcome.record["uniform"]] == list(outcome.space.formats[:1])


@pytest.mark.parametrize("name", ["lagrange", "haunter", "accuracy_only", "random"])
def test_planning_ends_with_the_time(name: str, tmp_path: Path) -> None:
    """A search makes plans between its questions, too, of large networks for minutes."""
    problem, phases, plans = network_problem(tmp_path, 18), Phases(), 0

    def place(program: Program) -> Placement:
        nonlocal plans
        phases.press()
        plans += 1
        return problem.memory.place(program)

    def watch(trial: Trial, best: Trial | None) -> None:
        phases.answered(trial)

    hurried = replace(problem, memory=replace(problem.memory, place=place))
    with phases.within(0.0):
        found = search(make_strategy(name, ()), hurried, on_trial=watch)
        assert found.best is phases.best
        first = plans
        with pytest.raises(OutOfTime):
            phases.press()
    search(make_strategy(name, ()), network_problem(tmp_path, 18))
    phases.press()  # nothing is held to a time that is over
    search(make_strategy(name, ()), hurried)
    assert plans > first


def test_the_first_answer_comes_before_anything_is_built(tmp_path: Path) -> None:
    """By the table of costs of `hil fit`: what it says of an Uno within a limit of latency is within its band there."""
    request = SearchRequest(
        "digits_mlp", board="uno", latency_us=20_000, samples=60, evaluations=2, results=tmp_path, seconds=1e-6
    )
    said: list[str] = []
    outcome = run_search(request, default_cache_dir(), said.append, Interrupting(), load_boards())
    first = next(number for number, line in enumerate(said) if "an answer after" in line)
    built = [line for line in said[:first] if "built" in line or "compiling" in line]
    assert not built
    assert any(
        "the time is over; the best so far is the answer; its latency and flash are estimates" in x for x in said
    )
    assert outcome.found.best.fits
    assert {str(choice) for choice in outcome.found.best.candidate} == {"fixed16"}
    assert outcome.record["latency_us"] is None  # nothing but the image of the answer was built


def test_what_the_table_puts_beyond_a_limit_is_no_first_answer(tmp_path: Path) -> None:
    """Between what fixed8 and fixed16 may take by it, only fixed8 is one."""
    request = SearchRequest(
        "digits_mlp", board="uno", latency_us=4000, samples=60, evaluations=2, results=tmp_path, seconds=1e-6
    )
    said: list[str] = []
    outcome = run_search(request, default_cache_dir(), said.append, Interrupting(), load_boards())
    assert {str(choice) for choice in outcome.found.best.candidate} == {"fixed8"}
    assert sum("an answer after" in line for line in said) == 1


class Late(Interrupting):
    """The time is over as this phase begins."""

    def __init__(self, phase: str, monkeypatch: pytest.MonkeyPatch, by: float = 1e6) -> None:
        super().__init__()
        self.at, self.patch, self.by = phase, monkeypatch, by

    def phase(self, name: str) -> None:
        if name == self.at:
            now = time.monotonic() + self.by
            self.patch.setattr(time, "monotonic", lambda: now)


@pytest.mark.parametrize("phase", ["evaluating one format for all tensors", "profiling"])
def test_a_limit_that_nothing_is_known_to_keep_is_refused_when_the_time_is_over(
    phase: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither estimates that rest on nothing nor builds after the time: what was measured by then is said."""
    request = SearchRequest(
        "digits_mlp", board="host", ram=4000, latency_us=1e-3, samples=60, evaluations=2, results=tmp_path, seconds=3600
    )
    said: list[str] = []
    with pytest.raises(TooLate, match="3600 s are over, and no assignment is known to keep the limits") as caught:
        run_search(request, default_cache_dir(), said.append, Late(phase, monkeypatch), load_boards())
    assert caught.value.exit_code == EXIT_BUILD
    measured = phase == "profiling"
    assert ("the least of what was measured takes" in str(caught.value)) == measured
    assert ("us for the worst of few samples (--latency-us" in str(caught.value)) == measured
    assert ("nothing was measured yet" in str(caught.value)) == (not measured)
    assert not any("int8" in line for line in said)
    assert not any("an answer after" in line for line in said)


def test_an_answer_of_other_formats_on_offer_is_no_earlier_one(tmp_path: Path) -> None:
    """int8 comes to the usual formats alone: an answer in int8 was that of a search for fixed8 and fixed16."""
    for number, formats in enumerate((None, "fixed8,fixed16", None)):
        request = SearchRequest("digits_mlp", arena=100, formats=formats, samples=60, evaluations=2, results=tmp_path)
        outcome, _ = searched(request, Interrupting())
        answers = sorted(path.stem.rpartition("-")[2] for path in tmp_path.glob("search/digits_mlp/answers/*.jsonl"))
        assert answers == (["usual"], ["own", "usual"], ["own", "usual"])[number]
        assert formats is None or {choice.format for choice in outcome.found.best.candidate} <= {"fixed8", "fixed16"}


def test_nothing_is_called_infeasible_before_all_is_profiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of the time is left for the search; a refusal takes that for what was left out."""
    request = SearchRequest(
        "digits_mlp", board="uno", latency_us=1100, samples=60, evaluations=2, results=tmp_path, seconds=3600
    )
    said: list[str] = []
    with pytest.raises(Infeasible, match="1,100 us for the worst sample were not found feasible on uno") as caught:
        run_search(request, default_cache_dir(), said.append, Late("profiling", monkeypatch, by=2000), load_boards())
    assert not isinstance(caught.value, TooLate)
    profiled = [int(count) for count in re.findall(r"search: (\d+) profiled in ", "\n".join(said))]
    assert profiled == [1, MOST_PILOTS - 1]


def test_the_limit_that_the_nearest_format_exceeds_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where each limit is kept by some format, but none keeps all of them."""
    request = SearchRequest(
        "digits_cnn", board="pico", ram=3000, latency_us=3000, samples=20, evaluations=2, results=tmp_path, seconds=3600
    )
    nearest = r"fixed8 for all tensors needs 3,\d\d\d B of RAM in all \(--ram 3,000\); raise --seconds, or the limit"
    with pytest.raises(TooLate, match=nearest):
        run_search(request, default_cache_dir(), lambda line: None, Late("profiling", monkeypatch), load_boards())


def test_a_compiler_ends_with_the_time(tmp_path: Path) -> None:
    def over() -> None:
        raise OutOfTime

    log = tmp_path / "log"
    with log.open("w") as out, time_limit.until(time.monotonic() + 0.2, over), pytest.raises(OutOfTime):
        _run(["sleep", "60"], {}, out.fileno(), tmp_path, time.monotonic() + 600)
    with time_limit.until(time.monotonic() - 1, over), pytest.raises(OutOfTime):
        time_limit.check()
    time_limit.check()
    assert time_limit.seconds_left(5.0) == 5.0


@pytest.mark.parametrize("asked", [{"pareto": "ram,accuracy"}, {"minimize": "ram"}])
def test_other_searches_keep_what_they_have(asked: dict[str, str], tmp_path: Path) -> None:
    request = SearchRequest("digits_mlp", 50, samples=100, seconds=1e-6, results=tmp_path, **asked)
    if request.pareto is None:
        outcome, _ = searched(request, Interrupting())
        assert outcome.found.best.fits
        return
    (point,) = run_pareto(request, default_cache_dir(), str, Interrupting(), load_boards()).points
    assert point.trial.fits
    assert point.needs[0].ram <= 50


def test_all_boards_share_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[float] = []

    def taken(request: SearchRequest, *_: object) -> SearchOutcome:
        given.append(request.seconds or 0.0)
        raise ConfigError("no answer")

    monkeypatch.setattr(each, "run_search", taken)
    boards = SearchRequest("digits_mlp", board="uno", also=("due", "pico"), seconds=90.0, results=tmp_path)
    each.run_each(boards, tmp_path, str, Interrupting(), load_boards())
    assert given[0] == pytest.approx(30, abs=0.1)
    assert 30 <= given[1] <= 45
    assert 45 <= given[2] <= 90
