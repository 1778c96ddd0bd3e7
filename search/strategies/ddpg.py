"""DDPG over widths as in HAQ (Wang et al., CVPR 2019): one episode is one assignment, narrowed until it fits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tinyhil.errors import ConfigError
from tinyhil.search.layers import FEATURES, LayerSpace, layer_space
from tinyhil.search.strategies.agents import DdpgAgent, DdpgSettings
from tinyhil.search.study import Ask, Asking, Study


@dataclass(frozen=True, slots=True)
class Ddpg:
    """`trials` episodes, the first `warmup` of them at random. Where the limits are exceeded, one width after the other
    is decremented until they hold (HAQ, section 3.2). Reward: `scale` (quality - quality of float)."""

    trials: int = 300
    warmup: int = 20
    scale: float = 10.0
    noise: float = 0.5
    decay: float = 0.99
    batch: int = 64
    memory: int = 2000
    actor_rate: float = 1e-4
    critic_rate: float = 1e-3
    tau: float = 0.01
    gamma: float = 1.0

    name: ClassVar[str] = "ddpg"
    source: ClassVar[str] = "HAQ (Wang et al., CVPR 2019)"

    def __post_init__(self) -> None:
        if min(self.trials, self.batch, self.memory) < 1 or self.warmup < 0:
            raise ConfigError("ddpg: trials, batch and memory must be 1 or more, warmup 0 or more")
        if not (0 < self.tau <= 1 and 0 <= self.gamma <= 1 and self.noise >= 0 and 0 < self.decay <= 1):
            raise ConfigError("ddpg: tau and decay must lie in (0, 1], gamma from 0 to 1, noise from 0")

    def propose(self, study: Study) -> Asking:
        layers = layer_space(study, self.name)
        layers.require_reachable(self.name)
        settings = DdpgSettings(self.batch, self.memory, self.actor_rate, self.critic_rate, self.tau, self.gamma)
        agent = DdpgAgent(FEATURES, settings, study.seed)
        most = len(layers.choices) - 1
        for episode in range(self.trials):
            noise = self.noise * self.decay ** max(0, episode - self.warmup)
            states, taken, last = [], list[int](), 0.0
            for at in range(len(layers.decisions)):
                states.append(layers.state(at, last))
                last = agent.draw(states[-1], None if episode < self.warmup else noise)
                taken.append(round(last * most))
            taken = decremented(layers, taken)
            trial = yield Ask(layers.candidate(taken), complete=True)
            reward = self.scale * (trial.quality - study.float_quality)
            agent.remember(states, [number / most for number in taken], reward)
            if episode >= self.warmup:
                for _ in taken:
                    agent.update()
        return None


def decremented(layers: LayerSpace, taken: list[int]) -> list[int]:
    """One width after the other narrowed by one step, round by round, until the limits hold or all are narrowest."""
    found = list(taken)
    while any(found):
        for at, number in enumerate(found):
            if layers.study.fits(layers.candidate(found)):
                return found
            found[at] = max(0, number - 1)
    return found
