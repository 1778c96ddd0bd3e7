"""The learners of `ppo` and `ddpg`: their losses and updates on one batch against stable-baselines3 and by hand."""

from __future__ import annotations

import numpy as np
import pytest

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("pytorch")]

FEATURES, ACTIONS, STEPS = 10, 7, 12


def a_batch(agent):
    from tinyhil.search.strategies.agents import Rollout

    random, rollout = np.random.default_rng(0), Rollout(0.99, 0.97)
    for reward in (0.3, -1.2, 0.7):
        for _ in range(STEPS // 3):
            state = random.random(FEATURES).astype(np.float32)
            rollout.step(state, np.ones(ACTIONS, bool), *agent.draw(state, np.ones(ACTIONS, bool)))
        rollout.end(reward)
    return rollout, rollout.batch()


def test_advantages_are_those_of_stable_baselines3() -> None:
    import gymnasium
    import torch
    from stable_baselines3.common.buffers import RolloutBuffer

    from tinyhil.search.strategies.agents import PpoAgent, PpoSettings, Rollout

    agent = PpoAgent(FEATURES, ACTIONS, PpoSettings(hidden=16), seed=3)
    random, rollout = np.random.default_rng(0), Rollout(0.99, 0.97)
    space = gymnasium.spaces.Box(0, 1, (FEATURES,)), gymnasium.spaces.Discrete(ACTIONS)
    theirs = RolloutBuffer(STEPS, *space, gamma=0.99, gae_lambda=0.97)
    for reward in (0.3, -1.2, 0.7):
        for at in range(STEPS // 3):
            state = random.random(FEATURES).astype(np.float32)
            action, log_chance, value = agent.draw(state, np.ones(ACTIONS, bool))
            rollout.step(state, np.ones(ACTIONS, bool), action, log_chance, value)
            earned = reward if at == STEPS // 3 - 1 else 0.0
            first, tensors = np.array([at == 0]), [torch.tensor([number]) for number in (value, log_chance)]
            theirs.add(state, np.array([action]), np.array([earned]), first, *tensors)
        rollout.end(reward)
    theirs.compute_returns_and_advantage(torch.zeros(1), np.array([True]))
    expected = theirs.advantages[:, 0]
    expected = (expected - expected.mean()) / (expected.std() + 1e-8)
    assert rollout.batch().advantages == pytest.approx(expected, abs=1e-5)


def test_the_clipped_loss_and_its_step_are_those_of_stable_baselines3() -> None:
    """The same weights, the same batch, one step of Adam: SB3's policy evaluates the actions."""
    import gymnasium
    import torch
    from stable_baselines3.common.policies import ActorCriticPolicy

    from tinyhil.search.strategies.agents import PpoAgent, PpoSettings

    settings = PpoSettings(hidden=16, iterations=1)
    agent = PpoAgent(FEATURES, ACTIONS, settings, seed=3)
    _, batch = a_batch(agent)
    moved = batch.log_chances + np.linspace(-0.4, 0.4, STEPS, dtype=np.float32)  # so that clipping matters
    batch = type(batch)(batch.states, batch.allowed, batch.actions, moved, batch.returns, batch.advantages)
    spaces = gymnasium.spaces.Box(0, 1, (FEATURES,)), gymnasium.spaces.Discrete(ACTIONS)
    net = {"pi": [16, 16], "vf": [16, 16]}
    policy = ActorCriticPolicy(*spaces, lambda _: settings.actor_rate, net_arch=net, ortho_init=False)
    ours = [*agent.actor.parameters()], [*agent.critic.parameters()]
    names = policy.mlp_extractor.policy_net, policy.action_net, policy.mlp_extractor.value_net, policy.value_net
    theirs = [*names[0].parameters(), *names[1].parameters()], [*names[2].parameters(), *names[3].parameters()]
    with torch.no_grad():
        for mine, its in zip((*ours[0], *ours[1]), (*theirs[0], *theirs[1]), strict=True):
            its.copy_(mine)
    values, log_chance, _ = policy.evaluate_actions(torch.tensor(batch.states), torch.tensor(batch.actions))
    ratio, advantages = torch.exp(log_chance - torch.tensor(moved)), torch.tensor(batch.advantages)
    clipped = torch.clamp(ratio, 1 - settings.clip, 1 + settings.clip)
    policy_loss = -torch.min(advantages * ratio, advantages * clipped).mean()
    value_loss = torch.nn.functional.mse_loss(torch.tensor(batch.returns), values.flatten())
    assert float(agent.actor_loss(batch)[0].detach()) == pytest.approx(float(policy_loss.detach()), abs=1e-6)
    assert float(agent.critic_loss(batch).detach()) == pytest.approx(float(value_loss.detach()), abs=1e-6)
    assert (ratio.detach() != clipped.detach()).any()

    steps = torch.optim.Adam(theirs[0], settings.actor_rate), torch.optim.Adam(theirs[1], settings.critic_rate)
    (policy_loss + value_loss).backward()
    for step in steps:
        step.step()
    agent.settings = PpoSettings(hidden=16, iterations=1, target_kl=1.0)
    agent.update(batch)
    for mine, its in zip((*ours[0], *ours[1]), (*theirs[0], *theirs[1]), strict=True):
        assert torch.allclose(mine, its, atol=1e-6)


def test_ddpg_learns_like_stable_baselines3() -> None:
    """Losses as in TD3.train with one critic and no smoothing, which is SB3's DDPG, on its own networks."""
    import torch
    from stable_baselines3.common.utils import polyak_update

    from tinyhil.search.strategies.agents import DdpgAgent, DdpgSettings

    agent = DdpgAgent(FEATURES, DdpgSettings(gamma=0.9, tau=0.1), seed=1)
    random = np.random.default_rng(2)
    agent.remember([random.random(FEATURES).astype(np.float32) for _ in range(8)], random.random(8).tolist(), 2.0)
    batch = agent.sample()
    states = torch.tensor(np.stack([one.state for one in batch]))
    following = torch.tensor(np.stack([one.following for one in batch]))
    actions = torch.tensor([[one.action] for one in batch], dtype=torch.float32)
    rewards = torch.tensor([[one.reward - 2.0] for one in batch])  # less the mean of the one episode
    done = torch.tensor([[float(one.done)] for one in batch])
    with torch.no_grad():
        following_q = agent.critic_target(torch.cat([following, agent.actor_target(following)], 1))
        target = rewards + (1 - done) * 0.9 * following_q
    critic_loss = torch.nn.functional.mse_loss(agent.critic(torch.cat([states, actions], 1)), target)
    actor_loss = -agent.critic(torch.cat([states, agent.actor(states)], 1)).mean()
    found = agent.losses(batch)
    assert [float(loss.detach()) for loss in found] == pytest.approx(
        [float(critic_loss.detach()), float(actor_loss.detach())], abs=1e-6
    )
    before = [parameter.clone() for parameter in agent.critic_target.parameters()]
    agent.learn(batch)
    polyak_update(agent.critic.parameters(), before, 0.1)
    for mine, its in zip(agent.critic_target.parameters(), before, strict=True):
        assert torch.allclose(mine, its, atol=1e-6)


def test_a_masked_action_is_never_drawn() -> None:
    from tinyhil.search.strategies.agents import PpoAgent, PpoSettings

    agent = PpoAgent(FEATURES, ACTIONS, PpoSettings(hidden=16), seed=0)
    allowed = np.array([True, False, False, True, False, False, False])
    drawn = {agent.draw(np.zeros(FEATURES, np.float32), allowed)[0] for _ in range(100)}
    assert drawn == {0, 3}


def test_ppo_learns_what_is_rewarded() -> None:
    from tinyhil.search.strategies.agents import PpoAgent, PpoSettings, Rollout

    agent = PpoAgent(FEATURES, ACTIONS, PpoSettings(hidden=32), seed=0)
    state, every = np.full(FEATURES, 0.5, np.float32), np.ones(ACTIONS, bool)
    rollout = Rollout(0.99, 0.97)
    for _ in range(40):
        for _ in range(10):
            action, log_chance, value = agent.draw(state, every)
            rollout.step(state, every, action, log_chance, value)
            rollout.end(float(action == 5))
        agent.update(rollout.batch())
    drawn = [agent.draw(state, every)[0] for _ in range(100)]
    assert drawn.count(5) > 60
