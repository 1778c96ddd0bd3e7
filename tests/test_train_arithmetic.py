"""Training in limited precision: the rounding of values, gradients and updates."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from test_train import goes_on_as_if_nothing_had_happened, job  # noqa: E402

from benchmarks.gupta import AsPrinted, Stepped  # noqa: E402
from tinyhil.errors import ConfigError, TrainingError  # noqa: E402
from tinyhil.train.fit import train  # noqa: E402
from tinyhil.train.limited_precision import Half, Limited, LossScale, holder, parse  # noqa: E402
from tinyhil.train.loss import loss_of  # noqa: E402
from tinyhil.train.network import network, with_constants  # noqa: E402
from tinyhil.train.schedule import Schedule  # noqa: E402

NUMBERS = torch.tensor([-9.0, -0.375, -0.25, -0.1, 0.0, 0.124, 0.125, 0.126, 0.375, 0.5, 9.0])


def test_nearest_takes_the_lower_of_two_and_saturates() -> None:
    found = holder(Limited(3, 2, False), (0,)).converted(NUMBERS)
    assert found.tolist() == [-4.0, -0.5, -0.25, 0.0, 0.0, 0.0, 0.0, 0.25, 0.25, 0.5, 3.75]


def test_stochastic_rounding_is_right_on_average_and_repeats() -> None:
    arithmetic, x = Limited(3, 2, True), torch.full((40000,), 0.3)
    first, again, other = (holder(arithmetic, seeds).converted(x) for seeds in ((1, 2), (1, 2), (1, 3)))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert set(first.tolist()) == {0.25, 0.5}
    assert float(first.mean()) == pytest.approx(0.3, abs=4 * 0.1 / 200)  # four standard errors


def test_gradients_and_values_are_rounded() -> None:
    x = torch.tensor([0.3]).requires_grad_()
    held = holder(Limited(4, 2, False), (0,)).constant("v", x, {})
    (held * 0.6).sum().backward()
    assert held.item() == 0.25
    assert x.grad is not None
    assert x.grad.item() == 0.5


def test_what_saturates_has_no_gradient() -> None:
    x = torch.tensor([-2.5, -2.0, 1.0, 2.0, 2.5]).requires_grad_()
    holder(Limited(2, 4, False), (0,)).constant("v", x, {}).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [0.0, 1.0, 1.0, 1.0, 0.0]


@pytest.mark.parametrize(
    ("arithmetic", "least", "most"),
    [
        (Limited(2, 14, False), 2.0**-10, 32 - 2.0**-10),
        (Limited(8, 8, False), 2.0**-8, 128 - 2.0**-8),
        (Limited(2, 6, False), 2.0**-5, 4 - 2.0**-5),
    ],
)
def test_values_outgrow_the_range_of_weights(arithmetic: Limited, least: float, most: float) -> None:
    """A layer's results have bits of the fraction before the point; gradients and weights stay as they were."""
    x, held = torch.tensor([1000.0, least, 1.0]).requires_grad_(), holder(arithmetic, (0,))
    made = held.value("v", x)
    (made * 1.1 * 2.0**-arithmetic.fraction).sum().backward()
    assert made.tolist() == [most, least, 1.0]
    assert x.grad is not None
    assert x.grad.tolist() == [0.0, 2.0**-arithmetic.fraction, 2.0**-arithmetic.fraction]
    end = 2.0 ** (arithmetic.integer - 1)
    assert held.constant("w", x.detach(), {}).max() == end - 2.0**-arithmetic.fraction


def test_gradients_are_of_samples_until_weights_take_their_mean() -> None:
    """Each sample's part of a mean over 1000 would be below half a unit."""
    arithmetic, samples = Limited(4, 8, False), 1000
    held = holder(arithmetic, (0,), samples)
    weight, x = torch.tensor([0.5]).requires_grad_(), torch.full((samples, 1), 1.0)
    value = held.value("v", held.constant("w", weight, {}) * x)
    (value.mean() * held.summed).backward()
    assert weight.grad is not None
    assert weight.grad.item() == 1.0
    alone = torch.tensor([0.5]).requires_grad_()
    holder(arithmetic, (0,)).value("v", alone * x).mean().backward()
    assert alone.grad is not None
    assert alone.grad.item() == 0.0


def test_gradients_of_fixed_point_are_scaled_and_updates_are_not() -> None:
    """With 8 bits of fraction most gradients of a mean would be 0; with 16, the scale of the loss changes nothing."""
    given = job(1)
    graph, x, y = (
        given.judge.graph,
        torch.tensor(given.samples.x[:64]),
        torch.as_tensor(given.samples.y[:64].astype(int)),
    )
    alive = []
    for scale in (1.0, Limited(8, 8, False).scale):
        net = network(graph)
        scores = net.forward(x.reshape(64, *graph.shapes[graph.inputs[0]]), holder(Limited(8, 8, False), (0,)))
        (loss_of(scores, y) * scale).backward()
        gradients = [weights.grad for weights in net.weights.values() if weights.grad is not None]
        alive.append(sum(int((gradient != 0).sum()) for gradient in gradients))
    assert alive[1] > 3 * alive[0]
    found = [
        train(replace(given, arithmetic=Limited(24 - fraction, fraction, False), schedule=Schedule(1, rate=0.01)))
        for fraction in (16, 20)
    ]
    assert Limited(8, 16, False).scale == 16 * Limited(4, 20, False).scale
    for name, array in found[0].constants.items():
        assert array == pytest.approx(found[1].constants[name], abs=1e-3)


def test_layers_behind_tiny_weights_learn_with_a_scaled_loss_alone() -> None:
    """Gradients of the first layer lie below 2^-24: float16 loses them, unless the loss is scaled."""
    given = job(1)
    graph = given.judge.graph
    tiny = with_constants(graph, {"fc2_w": graph.all_constants()["fc2_w"] * np.float32(2.0**-24)})
    x, y = torch.tensor(given.samples.x[:64]).reshape(64, 1, 8, 8), torch.as_tensor(given.samples.y[:64].astype(int))
    for scale, alive in ((1.0, False), (2.0**20, True)):
        net = network(tiny)
        x = x.reshape(64, *tiny.shapes[tiny.inputs[0]])
        held = holder(Half(scale), (0,))
        (loss_of(net.forward(x, held), y) * scale).backward()
        gradient = net.weights["fc1_w"].grad
        assert gradient is not None
        assert bool(gradient.abs().max() > 0) is alive


def test_scaling_the_loss_saves_gradients_below_the_smallest_half() -> None:
    x = torch.tensor([1.0]).requires_grad_()
    for scale, alive in ((1.0, False), (2.0**16, True)):
        x.grad = None
        held = holder(Half(scale), (0,)).value("v", x)
        (held * 2.0**-30 * scale).sum().backward()
        assert x.grad is not None
        assert bool(x.grad.item() / scale == 2.0**-30) is alive


def test_a_dynamic_scale_halves_at_overflow_and_doubles_after_a_while() -> None:
    scale = LossScale(2.0**10)
    scale.after(Half(), finite=False)
    assert scale.factor == 2.0**9
    for _ in range(200):
        scale.after(Half(), finite=True)
    assert scale.factor == 2.0**10
    scale.after(Half(8.0), finite=False)
    assert scale.factor == 2.0**10


def test_a_loss_scaled_too_far_is_named_instead_of_leaving_out_all_steps() -> None:
    given = replace(job(1), schedule=Schedule(1, rate=0.01))
    with pytest.raises(
        TrainingError, match=r"epoch 1, step \d+: .* loss times 1e\+12 .* tensor 'fc.*loss-scale dynamic"
    ):
        train(replace(given, arithmetic=Half(1e12)))
    assert train(replace(given, arithmetic=Half())).epochs[1].loss > 0


@pytest.mark.parametrize("arithmetic", [Limited(4, 12, True), Half()])
def test_resumed_training_draws_the_same(arithmetic: Limited | Half, tmp_path: Path) -> None:
    given = replace(job(2), arithmetic=arithmetic, schedule=Schedule(2, rate=0.01))
    assert goes_on_as_if_nothing_had_happened(given, train(given), 2, tmp_path)


@pytest.mark.parametrize(
    ("text", "scale", "message"),
    [
        ("fixed16:4.13", "dynamic", "4 and 13 bits are not 16"),
        ("fixed16", "dynamic", "fixed16:IL.FL"),
        ("fp16", "lots", "a number, or dynamic"),
    ],
)
def test_what_is_no_arithmetic_is_refused(text: str, scale: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse(text, "nearest", scale)


def test_the_rate_falls_between_epochs_alone() -> None:
    """As Gupta et al. (2015) have it: of three epochs the first step and the last of each."""
    schedule = Stepped(epochs=3, rate=0.1, decay=0.5)
    assert [schedule.rate_at((epoch + step / 7) / 3) for epoch in range(3) for step in (0, 6)] == pytest.approx(
        [0.1, 0.1, 0.05, 0.05, 0.025, 0.025]
    )


def test_as_printed_values_have_six_bits_before_the_point_where_asked() -> None:
    """<2, 14> for weights; of 3.7 in <2, 14> is left what saturates, in <6, 10> the nearest of 1024ths."""
    one, random = torch.tensor([3.7]), torch.Generator()
    for before_point, expected in ((0, 2 - 2.0**-14), (6, round(3.7 * 1024) / 1024)):
        made = AsPrinted(2, 14, False, before_point).of_values.converted(one, random)
        assert float(made) == pytest.approx(expected, abs=1e-9)
