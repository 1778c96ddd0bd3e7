"""NSGA-II (Deb et al., 2002) by Optuna's sampler: a control that knows nothing of tensors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from tinyhil.errors import ConfigError
from tinyhil.search.search_problem import Ask, Asking, SearchProblem
from tinyhil.search.space import Candidate, Choice, Space
from tinyhil.search.strategies.lazy_imports import missing


@dataclass(frozen=True, slots=True)
class Nsga2:
    """Objectives: disagreements, and RAM or, where costs have limits, by how much these are exceeded. What exceeds a
    limit is not evaluated: it counts as worse than all wrong, the more so the more it exceeds."""

    trials: int = 500
    population: int = 20

    name: ClassVar[str] = "nsga2"
    source: ClassVar[str] = "Deb et al. (IEEE TEC 2002), through Optuna; control"

    def __post_init__(self) -> None:
        if self.population < 2 or self.trials < 1:
            raise ConfigError("nsga2: population must be 2 or more, trials 1 or more")

    def propose(self, problem: SearchProblem) -> Asking:
        optuna = _optuna()
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        sampler = optuna.samplers.NSGAIISampler(seed=problem.seed, population_size=self.population)
        evolution = optuna.create_study(directions=["minimize", "minimize"], sampler=sampler)
        samples = len(problem.evaluator.examples)
        for _ in range(self.trials):
            drawn = evolution.ask()
            candidate = _candidate(problem.space, drawn)
            ram_bytes = problem.planned_bytes(candidate)
            # with other limits than that of RAM their excess takes its place
            needed = float(ram_bytes) if problem.costs is None else problem.excess(candidate)
            over = max(0, ram_bytes - problem.limit_bytes) if problem.costs is None else samples * max(0.0, needed)
            disagreements = samples + over
            if problem.fits(candidate):
                answer = yield Ask(candidate, complete=True)
                disagreements = answer.score.disagreements
            evolution.tell(drawn, [float(disagreements), needed])
        return None


def _candidate(space: Space, drawn: Any) -> Candidate:
    names = list(space.formats)
    return tuple(Choice(drawn.suggest_categorical(group.name, names)) for group in space.groups)


def _optuna() -> Any:
    try:
        import optuna
    except ImportError:
        raise missing("nsga2") from None
    return optuna
