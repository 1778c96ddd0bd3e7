"""DDPG over widths as in HAQ (Wang et al., CVPR 2019): one episode is one assignment, narrowed until it fits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tinyhil.errors import ConfigError
from tinyhil.search.layers import FEATURES, LayerSpace, layer_space
from tinyhil.search.search_problem import Ask, Asking, SearchProblem
from tinyhil.search.strategies.agents import MOST_REWARD, DdpgAgent, DdpgSettings

MOST_NOISE = 10.0  # more is hardly ever drawn within 0..1


@dataclass(frozen=True, slots=True)
class Ddpg(DdpgSettings):
    """`trials` episodes, the first `warmup` of them at random. Where the limits are exceeded, one width after the other
    is decremented, from the last layer backwards, until they hold (HAQ, section 3.2). Reward: `scale` (quality -
    quality of float)."""

    trials: int = 300
    warmup: int = 20
    scale: float = 10.0
    noise: float = 0.5
    decay: float = 0.99

    name: ClassVar[str] = "ddpg"
    source: ClassVar[str] = "HAQ (Wang et al., CVPR 2019)"

    def __post_init__(self) -> None:
        DdpgSettings.__post_init__(self)
        if self.trials < 1 or self.warmup < 0:
            raise ConfigError("ddpg: trials must be 1 or more, warmup 0 or more")
        if not (0 <= self.noise <= MOST_NOISE and 0 < self.decay <= 1):
            raise ConfigError(f"ddpg: noise must be 0 to {MOST_NOISE:g}, decay above 0 and at most 1")
        if not 0 < self.scale <= MOST_REWARD:
            raise ConfigError(f"ddpg: scale must be above 0 and at most {MOST_REWARD:g}")

    def propose(self, problem: SearchProblem) -> Asking:
        layers = layer_space(problem, self.name)
        layers.require_reachable(self.name)
        agent = DdpgAgent(FEATURES, self, problem.seed)
        count = len(layers.choices)
        for episode in range(self.trials):
            noise = self.noise * self.decay ** max(0, episode - self.warmup)
            states, taken, last = [], list[int](), 0.0
            for at in range(len(layers.decisions)):
                states.append(layers.state(at, last))
                last = agent.draw(states[-1], None if episode < self.warmup else noise)
                taken.append(nearest(last, count))
            taken = decremented(layers, taken)
            trial = yield Ask(layers.candidate(taken), complete=True)
            reward = self.scale * (trial.quality - problem.float_quality)
            agent.remember(states, [(number + 0.5) / count for number in taken], reward)
            if episode >= self.warmup:
                for _ in taken:
                    agent.update()
        return None


def nearest(action: float, count: int) -> int:
    """The number of the choice for an action in 0..1, each having as much of it (HAQ: of b_min - 0.5 + a (b_max - b_min
    + 1) the nearest)."""
    return min(max(round(action * count - 0.5), 0), count - 1)


def decremented(layers: LayerSpace, taken: list[int]) -> list[int]:
    """One width after the other narrowed by one step, the last decision first, round by round, until the limits hold
    or all are narrowest."""
    found = list(taken)
    while any(found):
        for at in reversed(range(len(found))):
            if layers.problem.fits(layers.candidate(found)):
                return found
            found[at] = max(0, found[at] - 1)
    return found
