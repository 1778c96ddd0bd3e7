"""`hil train` beside plain LSQ (Esser et al. 2020) and Brevitas: a table of benchmarks/training.py.

The same digits CNN as it is in the zoo, the same samples, held back and tested, the same epochs, batches, bits of
weights and values, and the epoch that is best on what is held back. Theirs keep scales, biases and scores in float32;
of ours the scores have 16 bits, all else is integers. `pip install brevitas`.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from benchmarks.bench import Bench, Row
from benchmarks.trained_networks import note
from tinyhil import data
from tinyhil.harness.job.job import open_model
from tinyhil.language.assignment import Assignment
from tinyhil.train.pace import SCALED_BITS, rate_for, weight_bits
from tinyhil.train.samples import Samples, divide
from tinyhil.train.schedule import Schedule

SEEDS, EPOCHS, BATCH = (0, 1, 2), 10, 64
CASES = ((2, False), (3, True), (3, False), (4, False))  # bits, and whether values behind a Relu have a sign
RATES = (3e-3, 1e-2)  # of Adam, absolute; theirs is the better one on what is held back
OURS = "hil train"
Tensor = torch.Tensor


class Lsq(nn.Module):
    """LSQ's quantiser: a step that is learnt, its gradient scaled by the root of elements and codes."""

    def __init__(self, bits: int, signed: bool) -> None:
        super().__init__()
        self.low = -(1 << bits - 1) if signed else 0
        self.high = (1 << bits - signed) - 1
        self.step = nn.Parameter(torch.zeros(()))
        self.begun = False

    def forward(self, x: Tensor) -> Tensor:
        """x on the grid of the step, straight through."""
        if not self.begun:
            self.step.data = 2 * x.detach().abs().mean() / math.sqrt(self.high)
            self.begun = True
        share = 1 / math.sqrt(x.numel() * self.high)
        step = self.step * share + (self.step - self.step * share).detach()
        units = (x / step).clamp(self.low, self.high)
        return (units + (units.round() - units).detach()) * step


class LsqNet(nn.Module):
    """The digits CNN: weights, input and values behind each Relu by LSQ."""

    def __init__(self, weights: dict[str, np.ndarray], bits: int, signed: bool) -> None:
        super().__init__()
        self.arrays = nn.ParameterDict({name: nn.Parameter(torch.tensor(array)) for name, array in weights.items()})
        self.of_weights = nn.ModuleDict({name: Lsq(bits, True) for name in ("conv1_w", "conv2_w", "fc1_w")})
        self.of_values = nn.ModuleList([Lsq(bits, True), Lsq(bits, signed), Lsq(bits, signed)])

    def forward(self, x: Tensor) -> Tensor:
        """Scores (samples, classes) of pictures (samples, 1, 8, 8)."""
        w = {name: quantize(self.arrays[name]) for name, quantize in self.of_weights.items()}
        x = self.of_values[0](x)
        x = self.of_values[1](functional.conv2d(x, w["conv1_w"], self.arrays["conv1_b"]).relu())
        x = self.of_values[2](functional.conv2d(x, w["conv2_w"], self.arrays["conv2_b"]).relu())
        return functional.max_pool2d(x, 2).flatten(1) @ w["fc1_w"] + self.arrays["fc1_b"]


def brevitas_net(weights: dict[str, np.ndarray], bits: int, signed: bool) -> nn.Module:
    """The same of Brevitas' layers with its usual quantisers: a float scale for each tensor, learnt of values."""
    import brevitas.nn as qnn
    from brevitas.quant import Int8ActPerTensorFloat, Int8WeightPerTensorFloat, Uint8ActPerTensorFloat

    of_values = Int8ActPerTensorFloat if signed else Uint8ActPerTensorFloat
    of_weights = {"weight_bit_width": bits, "weight_quant": Int8WeightPerTensorFloat}
    held = {"bit_width": bits, "return_quant_tensor": False}
    layers: tuple[Any, ...] = (
        qnn.QuantIdentity(act_quant=Int8ActPerTensorFloat, **held),
        qnn.QuantConv2d(1, 8, 3, **of_weights),
        qnn.QuantReLU(act_quant=of_values, **held),
        qnn.QuantConv2d(8, 16, 3, **of_weights),
        qnn.QuantReLU(act_quant=of_values, **held),
        nn.MaxPool2d(2),
        nn.Flatten(),
        qnn.QuantLinear(64, 10, bias=True, **of_weights),
    )
    with torch.no_grad():
        for at, name in ((1, "conv1"), (3, "conv2"), (7, "fc1")):
            array = weights[f"{name}_w"]
            layers[at].weight.copy_(torch.tensor(array.T if array.ndim == 2 else array))
            layers[at].bias.copy_(torch.tensor(weights[f"{name}_b"]))
    return nn.Sequential(*layers)


@dataclass(frozen=True, slots=True)
class Rival:
    """A network of a rival, by its weights at first, bits, and whether values behind a Relu have a sign."""

    title: str
    make: Callable[[dict[str, np.ndarray], int, bool], nn.Module]


RIVALS = (Rival("LSQ", LsqNet), Rival("Brevitas", brevitas_net))


def trained(net: nn.Module, samples: Samples, seed: int, rate: float) -> tuple[nn.Module, float]:
    """The epoch that is best on what is held back, of equal ones the last, and its accuracy there."""
    x, y = _tensors(samples.x, samples.y)
    steps, total = torch.optim.Adam(net.parameters(), rate), EPOCHS * (len(x) // BATCH)
    with torch.no_grad():
        net.train()(x)  # scales begin with what all samples show
    falling = torch.optim.lr_scheduler.LambdaLR(
        steps, lambda done: 0.01 + 0.99 * (1 + math.cos(math.pi * done / total)) / 2
    )
    best, known = net, -1.0
    for epoch in range(1, EPOCHS + 1):
        order = torch.as_tensor(np.random.default_rng([seed, epoch]).permutation(len(x)))
        for begin in range(0, len(x) - BATCH + 1, BATCH):
            rows = order[begin : begin + BATCH]
            steps.zero_grad()
            functional.cross_entropy(net.train()(x[rows]), y[rows]).backward()
            steps.step()
            falling.step()
        accuracy = correct(net, samples.x_chosen_by, samples.y_chosen_by)
        if accuracy >= known:
            best, known = copy.deepcopy(net), accuracy
    note({name: value.numpy() for name, value in best.state_dict().items()})
    return best, known


@torch.no_grad()
def correct(net: nn.Module, x: np.ndarray, y: np.ndarray) -> float:
    """Share of the samples."""
    given, labels = _tensors(x, y)
    return float((net.eval()(given).argmax(1) == labels).float().mean())


def _tensors(x: np.ndarray, y: np.ndarray) -> tuple[Tensor, Tensor]:
    return torch.as_tensor(x.astype(np.float32)).reshape(-1, 1, 8, 8), torch.as_tensor(y.astype(np.int64))


def of_rival(rival: Rival, bench: Bench, case: tuple[int, bool, int]) -> tuple[float, float]:
    """Accuracy on the test samples at the rate that is best on what is held back; seconds of a training."""
    bits, signed, seed = case
    begin, tried = time.process_time(), []
    for rate in RATES:
        net = rival.make(bench.graph.all_constants(), bits, signed)
        tried.append(trained(net, bench.samples, seed, rate))
    best, _ = max(tried, key=lambda pair: pair[1])
    return correct(best, bench.x_test, bench.y_test), (time.process_time() - begin) / len(RATES)


def of_ours(bench: Bench, case: tuple[int, bool, int]) -> tuple[float, float]:
    """As `hil train` does by default: rate and scales follow the bits."""
    bits, signed, seed = case
    formats = Assignment(f"fixed{bits}{'' if signed else 'u'}", {"logits": "fixed16"})
    of_weights = weight_bits(bench.graph, formats)
    scales = None if of_weights < SCALED_BITS else False
    _, accuracy, seconds = bench.trained(
        formats, Schedule(EPOCHS, BATCH, rate_for(BATCH, of_weights), seed, scales=scales)
    )
    return accuracy, seconds


def rows() -> Iterator[Row]:
    """A row for each width, with a sign behind Relus and without: means and standard deviations of seeds."""
    if find_spec("brevitas") is None:
        raise SystemExit("rivals: no brevitas here, which is one of them; pip install brevitas")
    torch.set_num_threads(1)
    torch.optim.Adam([torch.zeros(1, requires_grad=True)])  # whoever makes the first one waits for torch's compiler
    graph, found = open_model("digits_cnn").model.graph, data.load("digits")
    assert found.y_train is not None
    assert found.y_test is not None
    for bits, signed in CASES:
        made: dict[str, list[tuple[float, float]]] = {}
        for seed in SEEDS:
            bench = Bench(graph, divide(found.x_train, found.y_train, seed), found.x_test, found.y_test)
            case = (bits, signed, seed)
            made.setdefault(OURS, []).append(of_ours(bench, case))
            for rival in RIVALS:
                made.setdefault(rival.title, []).append(of_rival(rival, bench, case))
        yield _row(bits, signed, made)


def _row(bits: int, signed: bool, made: dict[str, list[tuple[float, float]]]) -> Row:
    row: dict[str, Any] = {"bits": bits, "behind a Relu": "with a sign" if signed else "without"}
    for title in (OURS, *(rival.title for rival in RIVALS)):
        shares = [share for share, _ in made[title]]
        row[title] = float(np.mean(shares))
        row[f"{title}: standard deviation"] = float(np.std(shares, ddof=1))
    for title in (OURS, *(rival.title for rival in RIVALS)):
        row[f"s: {title}"] = f"{np.mean([spent for _, spent in made[title]]):.1f}"
    return row
