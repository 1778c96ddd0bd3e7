"""Strategies under the cost of a ReRAM accelerator, with the same number of evaluations for all.

    python -m benchmarks.reram [lenet5|resnet8|vgg7|vgg13 ...] | pages | pairs [NETWORK ...]

Agents go on to the paper's episodes; their answers are noted on the way. What was measured stays in
results/reram/<network>.jsonl; an interrupted run goes on behind its last line. `pages` writes the table and the
pictures of docs/reram.md; `pairs` runs answers again that were kept without which pictures they decide right.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any, ClassVar

from benchmarks.reram.cases import AGENTS, CASES, TUNED, VALUES, Case, Loaded, load_case
from benchmarks.reram.pairs import RIGHT, completed, packed, right
from benchmarks.reram.truth import COUNT, Table, load_table, tabled
from benchmarks.trained_networks import MACHINE, NETWORKS, hash_of, machine
from tinyhil.harness.search.tuning import TEACHER
from tinyhil.native import default_cache_dir
from tinyhil.search.accelerator import AcceleratorCosts, AcceleratorLimits
from tinyhil.search.engine.library import load_engine
from tinyhil.search.layers import layer_space
from tinyhil.search.search_loop import Budget, search
from tinyhil.search.search_problem import Ask, Asking, SearchProblem, Strategy
from tinyhil.search.space import Candidate, Choice
from tinyhil.search.strategies import make_strategy
from tinyhil.search.trial import Trial
from tinyhil.train.fine_tuning import FineTuning
from tinyhil.train.pace import batch_for, rate_for
from tinyhil.train.schedule import Schedule
from tools.measured import provenance

RESULTS = Path(__file__).resolve().parent.parent.parent / "results" / "reram"
TUNED_SEEDS = range(2)


@dataclass(frozen=True, slots=True)
class Grid:
    """One width for all weights, one for all inputs."""

    name: ClassVar[str] = "grid"
    source: ClassVar[str] = "control"

    def propose(self, problem: SearchProblem) -> Asking:
        layers = layer_space(problem, self.name)
        options = range(len(layers.choices))
        for weights in options:
            for inputs in options:
                candidate = layers.candidate([weights if d.is_weight else inputs for d in layers.decisions])
                if problem.fits(candidate):
                    yield Ask(candidate, complete=True)
        return None


@dataclass(frozen=True, slots=True)
class Watched:
    """A strategy; `noted`: the answer to each of its questions, repeated ones too, with the processor's seconds."""

    inner: Strategy
    noted: list[tuple[Trial, float]] = field(default_factory=list)

    name: ClassVar[str] = "watched"
    source: ClassVar[str] = "control"

    def propose(self, problem: SearchProblem) -> Asking:
        begin, asking = time.process_time(), self.inner.propose(problem)
        try:
            ask = next(asking)
            while True:
                trial = yield ask
                self.noted.append((trial, time.process_time() - begin))
                ask = asking.send(trial)
        except StopIteration as end:
            answer: Candidate | None = end.value
            return answer


def controls(evaluations: int) -> dict[str, tuple[Strategy, bool]]:
    """By name, with whether they draw."""
    most = (f"trials={4 * evaluations}",)
    return {
        "grid": (Grid(), False),
        "milp": (make_strategy("milp", ()), False),
        "random": (make_strategy("random", most), True),
        "nsga2": (make_strategy("nsga2", most), True),
    }


def agents(episodes: int) -> dict[str, Strategy]:
    """Those that learn, by name: a question an episode."""
    most = (f"trials={episodes}",)
    return {
        "ddpg": make_strategy("ddpg", most),
        "ppo": make_strategy("ppo", (*most, "mask=false")),
        "ppo with mask": make_strategy("ppo", most),
    }


def measure(case: Case) -> Iterator[dict[str, Any]]:
    """One line per threshold, strategy, seed and count of episodes that is not known yet; first what 8 bits give."""
    known = {(row["threshold"], row["strategy"], row["seed"]) for row in rows_of(case) if row.get("values") == VALUES}
    loaded = load_case(case)
    table = load_table(loaded, default_cache_dir() / "reram", _key(loaded)) if case.name == "lenet5" else None
    evaluator = None if table is None else tabled(loaded, table)
    if (None, "8 bits", 0) not in known:
        problem = loaded.problem(AcceleratorLimits(), 0, evaluator)
        candidate = problem.space.uniform(problem.space.high)
        yield _row(problem, loaded, candidate, {"threshold": None, "strategy": "8 bits", "seed": 0, "evaluations": 1})
    if (case.coarse, Grid.name, 0) not in known:
        problem = loaded.problem(AcceleratorLimits(cost=case.coarse), 0, evaluator)
        yield _searched(problem, loaded, Grid.name, Grid(), case.coarse)
    for threshold in case.thresholds:
        limits = AcceleratorLimits(cost=threshold)
        if table is not None and (threshold, "optimum", 0) not in known:
            problem = loaded.problem(limits, 0, evaluator)
            best = optimum(problem, table)
            facts = {"threshold": threshold, "strategy": "optimum", "seed": 0, "evaluations": COUNT}
            yield _row(problem, loaded, best, facts)
        for learner, seed in missing_learners(case, threshold):
            if learner.name == TUNED:
                problem = replace(loaded.problem(limits, seed), trained=fine_tuning(loaded))
            else:
                problem = loaded.problem(limits, seed, evaluator)
            yield from _learned(problem, loaded, learner)
        for name in case.controls_at(threshold):
            strategy, draws = controls(case.evaluations)[name]
            for seed in range(case.seeds) if draws else (0,):
                if (threshold, name, seed) not in known:
                    yield _searched(loaded.problem(limits, seed, evaluator), loaded, name, strategy, threshold)


def _key(loaded: Loaded) -> str:
    ranges = json.dumps({name: list(ends) for name, ends in loaded.space.ranges.values.items()}, sort_keys=True)
    weights = b"".join(array.tobytes() for array in loaded.space.graph.all_constants().values())
    return hashlib.sha256(ranges.encode() + weights + loaded.searched.x.tobytes()).hexdigest()[:12]


def _searched(
    problem: SearchProblem, loaded: Loaded, name: str, strategy: Strategy, threshold: float
) -> dict[str, Any]:
    begin = time.process_time()
    found = search(strategy, problem, budget=Budget(loaded.case.evaluations))
    facts = {"threshold": threshold, "strategy": name, "seed": problem.seed, "evaluations": round(found.evaluations)}
    row = _row(problem, loaded, _best(found.trials), facts)
    return {**row, "processor_s": round(time.process_time() - begin, 1)}


@dataclass(frozen=True, slots=True)
class Learner:
    """An agent under a threshold, and after how many episodes its answers are noted."""

    name: str
    agent: Strategy
    threshold: float
    counts: tuple[int, ...]


def learners(case: Case, threshold: float) -> Iterator[tuple[Learner, int]]:
    """With their seeds, seed by seed, so that what ends early has as many of each."""
    for seed, name in product(range(case.seeds), AGENTS):
        counts = case.episodes_of(name, threshold)
        yield Learner(name, agents(max(counts))[name], threshold, counts), seed
    for seed in TUNED_SEEDS if case.tuned and threshold == case.thresholds[0] else ():
        yield Learner(TUNED, agents(case.tuned)["ddpg"], threshold, (case.tuned,)), seed


def missing_learners(case: Case, threshold: float) -> list[tuple[Learner, int]]:
    """Those of which a count is not measured, with the counts that are not; first those of which none is."""
    known = {
        (row["strategy"], row["seed"], row.get("episodes")) for row in rows_of(case) if row["threshold"] == threshold
    }
    found = []
    for learner, seed in learners(case, threshold):
        counts = tuple(count for count in learner.counts if (learner.name, seed, count) not in known)
        if counts:
            found.append((len(counts) < len(learner.counts), replace(learner, counts=counts), seed))
    return [(learner, seed) for _, learner, seed in sorted(found, key=lambda each: each[0])]


def fine_tuning(loaded: Loaded) -> FineTuning:
    """An epoch for each assignment, as `hil search --fine-tune` has it."""
    batch = batch_for(len(loaded.training.x))
    schedule = Schedule(1, batch, rate_for(batch), teacher=TEACHER, scales=None)
    return FineTuning(loaded.space, loaded.training, load_engine(default_cache_dir()), schedule)


def _learned(problem: SearchProblem, loaded: Loaded, learner: Learner) -> Iterator[dict[str, Any]]:
    """Of one run a line after each count of episodes; of all at once, so that none is known without the others."""
    watched = Watched(learner.agent)
    search(watched, problem)
    rows = []
    for episodes in learner.counts:
        trials = [trial for trial, _ in watched.noted[:episodes]]
        distinct = len({trial.candidate for trial in trials})
        facts = {"threshold": learner.threshold, "strategy": learner.name, "seed": problem.seed}
        row = _row(problem, loaded, _best(trials), {**facts, "evaluations": distinct, "episodes": episodes})
        rows.append({**row, "processor_s": round(watched.noted[len(trials) - 1][1], 1)})
    yield from rows


def _best(trials: Sequence[Trial]) -> Candidate:
    return min((trial for trial in trials if trial.fits), key=_order).candidate


def _order(trial: Trial) -> tuple[float, float]:
    """The most accurate; of equals the one whose outputs are closest."""
    return -trial.quality, trial.score.loss


def optimum(problem: SearchProblem, table: Table) -> Candidate:
    """Of every configuration that keeps the limits the most accurate; of equals the one whose outputs are closest."""
    best, chosen = (-1, float("-inf")), None
    for at, widths in enumerate(product(problem.space.formats, repeat=len(problem.space.groups))):
        key = int(table["correct"][at]), -float(table["loss"][at])
        if key > best:
            candidate = tuple(Choice(fmt) for fmt in widths)
            if problem.costs is None or problem.costs.fits(candidate):
                best, chosen = key, candidate
    assert chosen is not None
    return chosen


def _row(problem: SearchProblem, loaded: Loaded, candidate: Candidate, facts: dict[str, Any]) -> dict[str, Any]:
    program = problem.program(candidate)
    if problem.trained is not None:
        facts = {**facts, NETWORKS: hash_of(program.constants), MACHINE: machine()}
    if loaded.case.trained_here:
        facts = {**facts, NETWORKS: hash_of(loaded.space.graph.all_constants()), MACHINE: machine()}
    costs = problem.costs
    assert isinstance(costs, AcceleratorCosts)
    cost = costs.cost(candidate)
    assert cost is not None
    seen = problem.evaluator.score(program)
    held_out = right(loaded, program)
    assert seen.correct is not None
    return {
        **facts,
        "values": VALUES,
        "accuracy": seen.correct / seen.samples,
        "held_out": float(held_out.mean()),
        RIGHT: packed(held_out),
        "float_accuracy": loaded.searched.float_accuracy,
        "float_held_out": loaded.held_out.float_accuracy,
        "cost": costs.relative(cost),
        "latency_us": cost.latency_us,
        "energy_uj": cost.energy_uj,
        "power_mw": cost.power_mw,
        "crossbars": cost.crossbars,
        "gops_per_watt": cost.gops_per_watt,
        "layers": [[layer.name, layer.energy_uj, layer.crossbars] for layer in cost.layers],
        "widths": {g.name: choice.bits for g, choice in zip(problem.space.groups, candidate, strict=True)},
    }


def rows_of(case: Case) -> list[dict[str, Any]]:
    """What was measured of a case; a torn last line is dropped."""
    path = RESULTS / f"{case.name}.jsonl"
    lines = path.read_text().split("\n")[:-1] if path.is_file() else []
    return [json.loads(line) for line in lines]


def _keep(case: Case, rows: Iterable[dict[str, Any]]) -> None:
    (RESULTS / f"{case.name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def main(arguments: list[str]) -> None:
    if arguments == ["pages"]:
        from benchmarks.reram.pages import write_pages

        write_pages({case: rows_of(case) for case in CASES})
        return
    if arguments[:1] == ["pairs"]:
        for case in CASES:
            if case.name in arguments or len(arguments) == 1:
                _keep(case, list(completed(rows_of(case), load_case(case))))
        return
    measured_at = provenance()
    RESULTS.mkdir(parents=True, exist_ok=True)
    for case in CASES:
        if arguments and case.name not in arguments:
            continue
        _keep(case, rows_of(case))
        for row in measure(case):
            with (RESULTS / f"{case.name}.jsonl").open("a") as file:
                file.write(json.dumps({**row, **measured_at}) + "\n")
            facts = (row[name] for name in ("threshold", "strategy", "seed", "accuracy", "held_out"))
            print(case.name, *facts, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
