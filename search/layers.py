"""What strategies made for accelerators choose: a width for the weights and for the inputs of each layer, in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tinyhil.errors import ConfigError, Infeasible
from tinyhil.formats import named
from tinyhil.search.accelerator import AcceleratorCosts, Site, layer_sites
from tinyhil.search.search_problem import SearchProblem
from tinyhil.search.space import Candidate, Choice

WIDTHS = (2, 8)  # bits
FEATURES = 10


@dataclass(frozen=True, slots=True)
class Decision:
    """One choice: the group of a layer's weights, or of its inputs."""

    group: int
    layer: int
    is_weight: bool


@dataclass(frozen=True)
class LayerSpace:
    """The decisions of a problem in the order of the layers, weights first; `choices` are narrowest first.

    The groups of the first and the last layer have the widest choice, all other groups the widest format on offer.
    """

    problem: SearchProblem
    sites: tuple[Site, ...]
    choices: tuple[Choice, ...]
    decisions: tuple[Decision, ...]

    def candidate(self, taken: Sequence[int]) -> Candidate:
        """With the choices of these numbers; decisions not yet taken have the narrowest."""
        changes = {decision.group: self.choices[0] for decision in self.decisions}
        changes |= {self.decisions[at].group: self.choices[number] for at, number in enumerate(taken)}
        return self.problem.space.with_choices(self.base, changes)

    @cached_property
    def base(self) -> Candidate:
        """The widest choice for the first and the last layer."""
        space = self.problem.space
        ends = (self.sites[0], self.sites[-1])
        fixed = {group: self.choices[-1] for site in ends for group in (site.weights, site.inputs) if group is not None}
        return space.with_choices(space.uniform(space.high), fixed)

    def require_reachable(self, name: str) -> None:
        """Infeasible names the least that the narrowest choices reach, where that exceeds the limits."""
        narrowest = self.candidate([])
        excess = self.problem.excess(narrowest)
        if excess <= 0.0:
            return
        costs, least = self.problem.costs, f"{100 * excess:.1f} % more than allowed"
        if isinstance(costs, AcceleratorCosts) and (cost := costs.cost(narrowest)) is not None:
            least = ", ".join(f"{key} {costs.value(cost, key):.4g} of {most:g}" for key, most in costs.limits.asked())
        raise Infeasible(
            f"{name}: the limits are not reachable, the least is {least}, with {self.choices[0]} for every layer but "
            f"the first and the last, which keep {self.choices[-1]}; raise them, or try --strategy lagrange"
        )

    def allowed(self, taken: Sequence[int]) -> np.ndarray:
        """Which choices of the next decision leave the limits reachable: bool per choice, at least the narrowest."""
        fits = [self.problem.fits(self.candidate([*taken, number])) for number in range(len(self.choices))]
        return np.array([True, *fits[1:]])

    @cached_property
    def _features(self) -> np.ndarray:
        """Per decision, without the last action: HAQ's state (Wang et al., CVPR 2019, section 3.1), each in 0..1."""
        rows = []
        for decision in self.decisions:
            site = self.sites[decision.layer]
            m = site.matrix
            rows.append(
                [
                    float(site.depthwise),
                    m.groups * m.inner / max(1, site.kernel**2),
                    m.groups * m.outputs,
                    site.stride,
                    site.kernel,
                    m.groups * m.inner * m.outputs,
                    site.input_side,
                    decision.layer,
                    float(decision.is_weight),
                ]
            )
        table = np.array(rows, np.float32)
        span = table.max(axis=0) - table.min(axis=0)
        return (table - table.min(axis=0)) / np.where(span > 0, span, 1.0).astype(np.float32)

    def state(self, at: int, last: float) -> np.ndarray:
        """The features of decision `at` with the `last` action, 0..1; float32 (FEATURES,)."""
        return np.append(self._features[at], np.float32(last))


def layer_space(problem: SearchProblem, name: str) -> LayerSpace:
    """ConfigError where there is nothing to choose between 2 and 8 bits."""
    sites = tuple(layer_sites(problem.space))
    ends = {group for site in (*sites[:1], *sites[-1:]) for group in (site.weights, site.inputs)}
    decisions: dict[int, Decision] = {}
    for index, site in enumerate(sites):
        for group, is_weight in ((site.weights, True), (site.inputs, False)):
            if group is not None and group not in ends:
                decisions.setdefault(group, Decision(group, index, is_weight))
    if not decisions:
        raise ConfigError(f"{name}: the model has no layer between its first and its last; try --strategy lagrange")
    offered = [Choice(fmt) for fmt in problem.space.formats if WIDTHS[0] <= named(fmt).bits <= WIDTHS[1]]
    if len(offered) < 2:
        raise ConfigError(
            f"{name}: chooses widths of {WIDTHS[0]} to {WIDTHS[1]} bits, of which --formats offers {len(offered)}; "
            "give --formats fixed2,fixed4,fixed8"
        )
    return LayerSpace(problem, sites, tuple(offered), tuple(decisions.values()))
