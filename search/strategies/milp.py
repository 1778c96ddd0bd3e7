"""An integer program over widths: what each costs alone is measured once, then HiGHS chooses (scipy's `milp`).

The squared error of the outputs, with one width alone and all others widest, is taken to add up. What a layer costs
depends on both of its widths, so there is a variable for each pair, tied to those of the two groups.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from tinyhil.errors import ConfigError
from tinyhil.search.accelerator import AcceleratorCosts
from tinyhil.search.layers import LayerSpace, layer_space
from tinyhil.search.search_problem import Ask, Asking, SearchProblem
from tinyhil.search.strategies.lazy_imports import missing
from tinyhil.search.trial import Trial

TIGHTER = 0.995  # bounds after an answer that the rounding up of tiles makes exceed a limit
ATTEMPTS = 40
Better = tuple[Trial, list[int]]


@dataclass(frozen=True, slots=True)
class Milp:
    """`solutions`: the best assignments of the program that are evaluated; then neighbours of the best, one width
    changed, as long as one improves."""

    solutions: int = 20
    neighbours: bool = True

    name: ClassVar[str] = "milp"
    source: ClassVar[str] = "integer program (HiGHS), own"

    def __post_init__(self) -> None:
        if self.solutions < 1:
            raise ConfigError("milp: solutions must be 1 or more")

    def propose(self, problem: SearchProblem) -> Asking:
        """ConfigError without costs by layer."""
        layers = layer_space(problem, self.name)
        if not isinstance(problem.costs, AcceleratorCosts):
            raise ConfigError("milp: needs costs by layer, which --board reram has; elsewhere use --strategy lagrange")
        layers.require_reachable(self.name)
        _scipy()
        losses = yield from _alone(layers)
        program = _Program(layers, problem.costs, losses)
        best: Better | None = None
        for _ in range(self.solutions):
            taken = program.next()
            if taken is None:
                break
            trial = yield Ask(layers.candidate(taken), complete=True)
            if best is None or trial.rank < best[0].rank:
                best = trial, taken
        while self.neighbours and best is not None:
            better = yield from _improved(layers, *best)
            if better is None:
                break
            best = better
        return None


def _alone(layers: LayerSpace) -> Generator[Ask, Trial, np.ndarray]:
    """The error of every choice of every decision, the others widest: (decisions, choices)."""
    most = len(layers.choices) - 1
    widest = [most] * len(layers.decisions)
    trial = yield Ask(layers.candidate(widest), complete=True)
    losses = np.full((len(widest), most + 1), trial.score.loss)
    for at in range(len(widest)):
        for number in range(most):
            trial = yield Ask(layers.candidate([*widest[:at], number, *widest[at + 1 :]]), complete=True)
            losses[at, number] = trial.score.loss
    return losses


def _improved(layers: LayerSpace, best: Trial, taken: list[int]) -> Generator[Ask, Trial, Better | None]:
    """The first neighbour that is better: one decision a step wider or narrower, or one wider and another narrower."""
    moves: list[dict[int, int]] = [{at: step} for at in range(len(taken)) for step in (1, -1)]
    moves += [{up: 1, down: -1} for up in range(len(taken)) for down in range(len(taken)) if up != down]
    for move in moves:
        near = [number + move.get(at, 0) for at, number in enumerate(taken)]
        if not all(0 <= number < len(layers.choices) for number in near):
            continue
        candidate = layers.candidate(near)
        if layers.problem.fits(candidate):
            trial = yield Ask(candidate, complete=True)
            if trial.rank < best.rank:
                return trial, near
    return None


class _Program:
    """Variables: one per decision and choice, then one per layer and pair of choices. Each answer is cut off once it
    was given, so that the next best follows."""

    def __init__(self, layers: LayerSpace, costs: AcceleratorCosts, losses: np.ndarray) -> None:
        self._layers, self._costs, self._choices = layers, costs, len(layers.choices)
        self._place = {decision.group: at for at, decision in enumerate(layers.decisions)}
        self._singles = losses.size
        pairs = len(layers.sites) * self._choices**2
        self._objective = np.concatenate([losses.reshape(-1) / max(float(losses.max()), 1e-30), np.zeros(pairs)])
        self._rows, self._low, self._high = list[np.ndarray](), list[float](), list[float]()
        self._tighter = 1.0
        self._structure()

    def next(self) -> list[int] | None:
        """The best assignment not yet given that keeps the limits; None if there is none."""
        for _ in range(ATTEMPTS):
            taken = self._solve()
            if taken is None:
                return None
            if self._layers.problem.fits(self._layers.candidate(taken)):
                self._cut(taken)
                return taken
            self._tighter *= TIGHTER
        return None

    def _single(self, decision: int, choice: int) -> int:
        return decision * self._choices + choice

    def _pair(self, site: int, weights: int, inputs: int) -> int:
        return self._singles + (site * self._choices + weights) * self._choices + inputs

    def _row(self, terms: dict[int, float], low: float, high: float) -> None:
        row = np.zeros(len(self._objective))
        for column, factor in terms.items():
            row[column] += factor
        self._rows.append(row)
        self._low.append(low)
        self._high.append(high)

    def _structure(self) -> None:
        choices = range(self._choices)
        for decision in range(len(self._layers.decisions)):
            self._row({self._single(decision, choice): 1.0 for choice in choices}, 1.0, 1.0)
        base = self._layers.base
        for number, site in enumerate(self._layers.sites):
            for group, pair in ((site.weights, lambda a, b: (a, b)), (site.inputs, lambda a, b: (b, a))):
                for choice in choices:
                    terms = {self._pair(number, *pair(choice, other)): 1.0 for other in choices}
                    at = None if group is None else self._place.get(group)
                    if at is not None:
                        self._row({**terms, self._single(at, choice): -1.0}, 0.0, 0.0)
                        continue
                    fixed = self._layers.choices[-1] if group is None else base[group]
                    held = float(self._layers.choices[choice] == fixed)
                    self._row(terms, held, held)

    def _limits(self) -> tuple[list[np.ndarray], list[float]]:
        rows, most = [], []
        for name, value in self._costs.limits.asked():
            row = np.zeros(len(self._objective))
            for number, site in enumerate(self._layers.sites):
                for a, weights in enumerate(self._layers.choices):
                    for b, inputs in enumerate(self._layers.choices):
                        layer = self._costs.layer(site, weights.bits, inputs.bits)
                        row[self._pair(number, a, b)] = self._costs.share(layer, name)
            rows.append(row)
            most.append(value * self._tighter)
        return rows, most

    def _solve(self) -> list[int] | None:
        optimize = _scipy()
        rows, most = self._limits()
        table = np.stack([*self._rows, *rows])
        low = np.concatenate([self._low, np.full(len(rows), -np.inf)])
        found = optimize.milp(
            self._objective,
            constraints=optimize.LinearConstraint(table, low, np.concatenate([self._high, most])),
            integrality=np.ones(len(self._objective)),
            bounds=optimize.Bounds(0, 1),
        )
        if found.x is None:
            return None
        singles = found.x[: self._singles].reshape(-1, self._choices)
        return [int(number) for number in singles.argmax(axis=1)]

    def _cut(self, taken: list[int]) -> None:
        columns = {self._single(at, number): 1.0 for at, number in enumerate(taken)}
        self._row(columns, -np.inf, len(taken) - 1.0)


def _scipy() -> Any:
    try:
        import scipy.optimize as optimize
    except ImportError:
        raise missing("milp") from None
    return optimize
