"""PPO-clip over widths (Schulman et al., 2017) under the cost of an accelerator: one episode is one assignment.

Choices go layer by layer, weights first. Reward, at the end: lambda [(quality - quality of float) - mu max(0, excess)].
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tinyhil.errors import ConfigError
from tinyhil.search.layers import FEATURES, layer_space
from tinyhil.search.search_problem import Ask, Asking, SearchProblem
from tinyhil.search.strategies.agents import MOST_REWARD, PpoAgent, PpoSettings, Rollout


@dataclass(frozen=True, slots=True)
class Ppo(PpoSettings):
    """`trials` episodes, `batch` of them per update. `mask`: widths after which no others could keep the limits are
    never drawn. `scale` and `penalty` are lambda and mu of the reward."""

    trials: int = 300
    batch: int = 10
    mask: bool = True
    scale: float = 10.0
    penalty: float = 2.0

    name: ClassVar[str] = "ppo"
    source: ClassVar[str] = "Schulman et al. (2017); reward and settings of the ReRAM paper"

    def __post_init__(self) -> None:
        PpoSettings.__post_init__(self)
        if min(self.trials, self.batch) < 1:
            raise ConfigError("ppo: trials and batch must be 1 or more")
        if not (0 < self.scale <= MOST_REWARD and 0 <= self.penalty <= MOST_REWARD):
            raise ConfigError(f"ppo: scale must be above 0, penalty 0 or more, both at most {MOST_REWARD:g}")

    def propose(self, problem: SearchProblem) -> Asking:
        layers = layer_space(problem, self.name)
        if self.mask:
            layers.require_reachable(self.name)
        count = len(layers.choices)
        agent = PpoAgent(FEATURES, count, self, problem.seed)
        rollout = Rollout(self.gamma, self.gae)
        for episode in range(1, self.trials + 1):
            taken: list[int] = []
            for at in range(len(layers.decisions)):
                state = layers.state(at, taken[-1] / (count - 1) if taken else 0.0)
                allowed = layers.allowed(taken) if self.mask else np.ones(count, bool)
                action, log_chance, value = agent.draw(state, allowed)
                rollout.step(state, allowed, action, log_chance, value)
                taken.append(action)
            candidate = layers.candidate(taken)
            trial = yield Ask(candidate, complete=True)
            lost = trial.quality - problem.float_quality
            rollout.end(self.scale * (lost - self.penalty * max(0.0, problem.excess(candidate))))
            if episode % self.batch == 0:
                agent.update(rollout.batch())
        return None
