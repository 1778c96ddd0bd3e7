"""The learners behind `ppo` and `ddpg`, in PyTorch: an optional dependency that is imported when one is made."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from tinyhil.errors import ConfigError
from tinyhil.search.strategies.lazy_imports import missing

FORBIDDEN = -1e9  # the logit of an action that is masked
MOST_HIDDEN = 4096
MOST_REWARD = 1e6


def require_torch() -> Any:
    """The module, on one thread: the order of sums must not depend on the computer's cores. ConfigError without it."""
    try:
        import torch
    except ImportError:
        raise missing("ppo", "ddpg") from None
    torch.set_num_threads(1)
    return torch


def perceptron(torch: Any, sizes: tuple[int, ...], activation: Any, last: Any = None) -> Any:
    """A torch network of dense layers of these sizes."""
    parts: list[Any] = []
    for number, (inner, outer) in enumerate(pairwise(sizes)):
        parts.append(torch.nn.Linear(inner, outer))
        if number < len(sizes) - 2:
            parts.append(activation())
        elif last is not None:
            parts.append(last())
    return torch.nn.Sequential(*parts)


@dataclass(frozen=True, slots=True)
class Batch:
    """Steps of several episodes, first axis; `advantages` are standardised."""

    states: np.ndarray
    allowed: np.ndarray
    actions: np.ndarray
    log_chances: np.ndarray
    returns: np.ndarray
    advantages: np.ndarray


@dataclass(slots=True)
class Rollout:
    """Episodes as they happen, with generalised advantages (Schulman et al., 2016) at the end of each."""

    gamma: float
    gae: float
    _steps: list[tuple[np.ndarray, np.ndarray, int, float, float]] = field(default_factory=list)
    _begin: int = 0
    _returns: list[float] = field(default_factory=list)
    _advantages: list[float] = field(default_factory=list)

    def step(self, state: np.ndarray, allowed: np.ndarray, action: int, log_chance: float, value: float) -> None:
        """One decision: state (features,), mask of allowed actions (actions,), the action taken, its log
        probability, the value that the critic gave the state."""
        self._steps.append((state, allowed, action, log_chance, value))

    def end(self, reward: float) -> None:
        """The episode is over; all steps before its last earned nothing."""
        values = np.array([step[4] for step in self._steps[self._begin :]])
        rewards = np.zeros(len(values))
        rewards[-1] = reward
        advantages, following = np.zeros(len(values)), 0.0
        for at in reversed(range(len(values))):
            after = values[at + 1] if at + 1 < len(values) else 0.0
            following = rewards[at] + self.gamma * after - values[at] + self.gamma * self.gae * following
            advantages[at] = following
        discounts = reward * self.gamma ** np.arange(len(values))[::-1]
        self._returns += discounts.tolist()
        self._advantages += advantages.tolist()
        self._begin = len(self._steps)

    def batch(self) -> Batch:
        """All episodes since the last batch."""
        states, allowed, actions, log_chances, _ = zip(*self._steps, strict=True)
        advantages = np.array(self._advantages, np.float32)
        advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        made = Batch(
            np.stack(states).astype(np.float32),
            np.stack(allowed),
            np.array(actions, np.int64),
            np.array(log_chances, np.float32),
            np.array(self._returns, np.float32),
            advantages,
        )
        self._steps, self._returns, self._advantages, self._begin = [], [], [], 0
        return made


@dataclass(frozen=True, slots=True)
class PpoSettings:
    """Of the learner; a strategy's options begin with them. ConfigError for what can not be learnt with."""

    hidden: int = 256
    clip: float = 0.2
    gamma: float = 0.99
    gae: float = 0.97
    actor_rate: float = 3e-4
    critic_rate: float = 1e-3
    iterations: int = 80
    target_kl: float = 0.01

    def __post_init__(self) -> None:
        if not (1 <= self.hidden <= MOST_HIDDEN and self.iterations >= 1):
            raise ConfigError(f"ppo: hidden must be 1 to {MOST_HIDDEN}, iterations 1 or more")
        if not (0 < self.clip < 1 and 0 <= self.gamma <= 1 and 0 <= self.gae <= 1):
            raise ConfigError("ppo: clip must lie between 0 and 1, gamma and gae from 0 to 1")
        if not all(0 < value <= 1 for value in (self.actor_rate, self.critic_rate, self.target_kl)):
            raise ConfigError("ppo: actor_rate, critic_rate and target_kl must be above 0 and at most 1")


class PpoAgent:
    """A policy over a few actions and a value, two hidden layers each."""

    def __init__(self, features: int, actions: int, settings: PpoSettings, seed: int) -> None:
        self.torch = require_torch()
        self.settings = settings
        self._generator = self.torch.Generator().manual_seed(seed)
        with self.torch.random.fork_rng(devices=[]):
            self.torch.manual_seed(seed)
            hidden, tanh = settings.hidden, self.torch.nn.Tanh
            self.actor = perceptron(self.torch, (features, hidden, hidden, actions), tanh)
            self.critic = perceptron(self.torch, (features, hidden, hidden, 1), tanh)
        adam = self.torch.optim.Adam
        self._actor_steps = adam(self.actor.parameters(), settings.actor_rate)
        self._critic_steps = adam(self.critic.parameters(), settings.critic_rate)

    def draw(self, state: np.ndarray, allowed: np.ndarray) -> tuple[int, float, float]:
        """An action, the logarithm of its probability, the value of the state."""
        with self.torch.no_grad():
            given = self.torch.from_numpy(state)
            chances = self._log_chances(given[None], self.torch.from_numpy(allowed)[None])[0]
            action = int(self.torch.multinomial(chances.exp(), 1, generator=self._generator))
            return action, float(chances[action]), float(self.critic(given))

    def _log_chances(self, states: Any, allowed: Any) -> Any:
        return self.actor(states).masked_fill(~allowed, FORBIDDEN).log_softmax(-1)

    def actor_loss(self, batch: Batch) -> tuple[Any, Any]:
        """The clipped objective, negative, and an estimate of the divergence from the policy that drew the batch."""
        t = self.torch
        states, allowed = t.from_numpy(batch.states), t.from_numpy(batch.allowed)
        actions, before = t.from_numpy(batch.actions), t.from_numpy(batch.log_chances)
        now = self._log_chances(states, allowed).gather(1, actions[:, None])[:, 0]
        ratio, advantages = (now - before).exp(), t.from_numpy(batch.advantages)
        clipped = ratio.clamp(1 - self.settings.clip, 1 + self.settings.clip)
        return -t.min(ratio * advantages, clipped * advantages).mean(), (before - now).mean()

    def critic_loss(self, batch: Batch) -> Any:
        """Squared error of the critic's values of a batch."""
        values = self.critic(self.torch.from_numpy(batch.states))[:, 0]
        return ((values - self.torch.from_numpy(batch.returns)) ** 2).mean()

    def update(self, batch: Batch) -> None:
        """Several steps on the same episodes; the policy stops once it is far from the one that drew them."""
        for _ in range(self.settings.iterations):
            loss, divergence = self.actor_loss(batch)
            if float(divergence.detach()) > 1.5 * self.settings.target_kl:
                break
            self._actor_steps.zero_grad()
            loss.backward()
            self._actor_steps.step()
        for _ in range(self.settings.iterations):
            loss = self.critic_loss(batch)
            self._critic_steps.zero_grad()
            loss.backward()
            self._critic_steps.step()


@dataclass(frozen=True, slots=True)
class DdpgSettings:
    """Of the learner; a strategy's options begin with them. ConfigError for what can not be learnt with."""

    batch: int = 64
    memory: int = 2000
    actor_rate: float = 1e-4
    critic_rate: float = 1e-3
    tau: float = 0.01
    gamma: float = 1.0

    def __post_init__(self) -> None:
        if min(self.batch, self.memory) < 1:
            raise ConfigError("ddpg: batch and memory must be 1 or more")
        if not all(0 < value <= 1 for value in (self.tau, self.actor_rate, self.critic_rate)):
            raise ConfigError("ddpg: tau, actor_rate and critic_rate must be above 0 and at most 1")
        if not 0 <= self.gamma <= 1:
            raise ConfigError("ddpg: gamma must lie from 0 to 1")


@dataclass(frozen=True, slots=True)
class Transition:
    """What an agent did, and what came of it."""

    state: np.ndarray
    action: float
    reward: float
    following: np.ndarray
    done: bool


class DdpgAgent:
    """One continuous action in 0..1 (Lillicrap et al., 2016) with HAQ's networks of 400 and 300, and a baseline: the
    moving mean of rewards, which is subtracted in a batch's targets."""

    def __init__(self, features: int, settings: DdpgSettings, seed: int) -> None:
        torch = self.torch = require_torch()
        self.settings = settings
        self._random = np.random.default_rng(seed)
        relu, squash = torch.nn.ReLU, torch.nn.Sigmoid
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.actor, self.actor_target = (perceptron(torch, (features, 400, 300, 1), relu, squash) for _ in range(2))
            self.critic, self.critic_target = (perceptron(torch, (features + 1, 400, 300, 1), relu) for _ in range(2))
        self.actor_target.load_state_dict(self.actor.state_dict())
        self.critic_target.load_state_dict(self.critic.state_dict())
        self._actor_steps = torch.optim.Adam(self.actor.parameters(), settings.actor_rate)
        self._critic_steps = torch.optim.Adam(self.critic.parameters(), settings.critic_rate)
        self._seen: list[Transition] = []
        self._baseline: float | None = None

    def draw(self, state: np.ndarray, noise: float | None) -> float:
        """The action with truncated normal noise; None: one at random."""
        if noise is None:
            return float(self._random.random())
        with self.torch.no_grad():
            mean = float(self.actor(self.torch.from_numpy(state)))
        if noise == 0.0:
            return mean
        while True:
            drawn = self._random.normal(mean, noise)
            if 0.0 <= drawn <= 1.0:
                return float(drawn)

    def remember(self, states: list[np.ndarray], actions: list[float], reward: float) -> None:
        """An episode, each step with the reward of its end, as HAQ does."""
        for at, (state, action) in enumerate(zip(states, actions, strict=True)):
            done = at + 1 == len(states)
            self._seen.append(Transition(state, action, reward, state if done else states[at + 1], done))
        del self._seen[: -self.settings.memory]
        self._baseline = reward if self._baseline is None else 0.95 * self._baseline + 0.05 * reward

    def sample(self) -> list[Transition]:
        """Different transitions drawn from memory, at most a batch."""
        chosen = self._random.choice(len(self._seen), min(len(self._seen), self.settings.batch), replace=False)
        return [self._seen[number] for number in chosen]

    def update(self) -> None:
        """One step of critic and actor on a sample of what was seen, then of their targets."""
        self.learn(self.sample())

    def losses(self, batch: list[Transition]) -> tuple[Any, Any]:
        """Of the critic and of the actor."""
        t = self.torch
        states, following = (
            t.from_numpy(np.stack([getattr(one, name) for one in batch])) for name in ("state", "following")
        )
        actions = t.tensor([[one.action] for one in batch], dtype=t.float32)
        rewards = t.tensor([[one.reward - (self._baseline or 0.0)] for one in batch], dtype=t.float32)
        more = t.tensor([[0.0 if one.done else 1.0] for one in batch])
        with t.no_grad():
            after = self.critic_target(t.cat([following, self.actor_target(following)], 1))
            targets = rewards + self.settings.gamma * more * after
        critic = ((self.critic(t.cat([states, actions], 1)) - targets) ** 2).mean()
        actor = -self.critic(t.cat([states, self.actor(states)], 1)).mean()
        return critic, actor

    def learn(self, batch: list[Transition]) -> None:
        """One step of critic and actor, and of the slow copies of both."""
        self._critic_steps.zero_grad()
        self.losses(batch)[0].backward()
        self._critic_steps.step()
        self._actor_steps.zero_grad()
        self.losses(batch)[1].backward()
        self._actor_steps.step()
        with self.torch.no_grad():
            for net, target in ((self.actor, self.actor_target), (self.critic, self.critic_target)):
                for mine, its in zip(net.parameters(), target.parameters(), strict=True):
                    its.mul_(1 - self.settings.tau).add_(mine, alpha=self.settings.tau)
