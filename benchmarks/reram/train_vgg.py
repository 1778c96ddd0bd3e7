"""Trains networks in the style of VGG on CIFAR-10: 3x3 convolutions, a pool after every second, one dense layer.

    python -m benchmarks.reram.train_vgg vgg7|vgg13 cifar10_train50k_jpeg.npz

`vgg7` is small and committed; `vgg13` has the ten convolutions of Simonyan and Zisserman's configuration B and is too
large: it goes into the cache, its hash stands in the record of what is measured on it. The file holds the training part
of CIFAR-10 as JPEG bytes (`jpeg`, `offsets`, `y`). Pixels are standardised as `tinyhil.data` does; batch normalisation
is folded into the convolutions before they are written.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn

from benchmarks.bench import pictures_in
from tinyhil.data.cifar import MEAN, SPREAD
from tinyhil.native import default_cache_dir


@dataclass(frozen=True, slots=True)
class Recipe:
    """`pictures`: so many of the training part, the first. Steps are AdamW's, or those of Nesterov's momentum; `half`:
    in bfloat16, with float32 weights, which takes half the time. Both go up to the peak rate and down again."""

    name: str
    widths: tuple[int, ...]
    pictures: int
    epochs: int
    batch: int
    adam: bool
    peak_rate: float
    decay: float
    half: bool
    out: Path

    def optimizer(self, net: nn.Module) -> torch.optim.Optimizer:
        if self.adam:
            return torch.optim.AdamW(net.parameters(), self.peak_rate, weight_decay=self.decay)
        return torch.optim.SGD(net.parameters(), self.peak_rate, momentum=0.9, nesterov=True, weight_decay=self.decay)


VGG7 = Recipe(
    name="vgg7",
    widths=(16, 16, 24, 24, 32, 32),
    pictures=25_000,
    epochs=6,
    batch=128,
    adam=True,
    peak_rate=0.01,
    decay=0.02,
    half=False,
    out=Path(__file__).with_name("vgg7_cifar.onnx"),
)
VGG13 = Recipe(
    name="vgg13",
    widths=(64, 64, 128, 128, 256, 256, 512, 512, 512, 512),
    pictures=50_000,
    epochs=1,
    batch=64,
    adam=False,
    peak_rate=0.05,
    decay=5e-4,
    half=True,
    out=default_cache_dir() / "reram" / "vgg13_cifar.onnx",
)
RECIPES = {recipe.name: recipe for recipe in (VGG7, VGG13)}


class Vgg(nn.Module):
    def __init__(self, widths: tuple[int, ...]) -> None:
        super().__init__()
        ends = (3, *widths)
        self.convs = nn.ModuleList(nn.Conv2d(a, b, 3, padding=1, bias=False) for a, b in pairwise(ends))
        self.norms = nn.ModuleList(nn.BatchNorm2d(width) for width in widths)
        self.dense = nn.Linear(widths[-1] * (32 >> len(widths) // 2) ** 2, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for index, (conv, norm) in enumerate(zip(self.convs, self.norms, strict=True)):
            x = torch.relu(norm(conv(x)))
            if index % 2:
                x = torch.max_pool2d(x, 2)
        return self.dense(x.flatten(1))


def pictures(path: Path, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    x, labels = pictures_in(path, count)
    return torch.from_numpy((x / 255 - MEAN) / SPREAD), torch.from_numpy(labels.astype(np.int64))


def train(recipe: Recipe, x: torch.Tensor, y: torch.Tensor) -> Vgg:
    """A fixed number of epochs: nothing is chosen by looking at a test."""
    torch.manual_seed(0)
    net = Vgg(recipe.widths)
    net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimizer = recipe.optimizer(net)
    steps = len(x) // recipe.batch
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, recipe.peak_rate, total_steps=recipe.epochs * steps)
    for epoch in range(recipe.epochs):
        total = 0.0
        for number, chosen in enumerate(torch.randperm(len(x))[: steps * recipe.batch].view(steps, -1)):
            batch = _varied(x[chosen]).to(memory_format=torch.channels_last)
            with torch.autocast("cpu", torch.bfloat16, enabled=recipe.half):
                loss = nn.functional.cross_entropy(net(batch), y[chosen])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            total += float(loss.detach())
            if number % 50 == 49:
                print(f"epoch {epoch}, step {number + 1} of {steps}: {total / (number + 1):.3f}", flush=True)
    return net.eval()


def _varied(batch: torch.Tensor) -> torch.Tensor:
    """Half of them mirrored, all moved by up to two pixels."""
    flipped = torch.rand(len(batch), 1, 1, 1) < 0.5
    batch = torch.where(flipped, batch.flip(3), batch)
    dy, dx = (int(n) for n in torch.randint(0, 5, (2,)))
    return nn.functional.pad(batch, (2, 2, 2, 2))[:, :, dy : dy + 32, dx : dx + 32]


def as_onnx(recipe: Recipe, net: Vgg) -> onnx.ModelProto:
    nodes, constants, value = [], {}, "input"
    for index, (conv, norm) in enumerate(zip(net.convs, net.norms, strict=True)):
        assert isinstance(conv, nn.Conv2d)
        assert isinstance(norm, nn.BatchNorm2d)
        assert norm.running_var is not None
        assert norm.running_mean is not None
        scale = norm.weight / torch.sqrt(norm.running_var + norm.eps)
        constants[f"conv{index}.weight"] = conv.weight * scale.view(-1, 1, 1, 1)
        constants[f"conv{index}.bias"] = norm.bias - norm.running_mean * scale
        operands = [value, f"conv{index}.weight", f"conv{index}.bias"]
        nodes.append(helper.make_node("Conv", operands, [f"sum{index}"], f"conv{index}", pads=[1, 1, 1, 1]))
        nodes.append(helper.make_node("Relu", [f"sum{index}"], [f"relu{index}"], f"relu{index}"))
        value = f"relu{index}"
        if index % 2:
            pool = helper.make_node(
                "MaxPool", [value], [f"pool{index}"], f"pool{index}", kernel_shape=[2, 2], strides=[2, 2]
            )
            nodes.append(pool)
            value = f"pool{index}"
    nodes.append(helper.make_node("Flatten", [value], ["features"], "flatten"))
    constants |= {"dense.weight": net.dense.weight, "dense.bias": net.dense.bias}
    nodes.append(helper.make_node("Gemm", ["features", "dense.weight", "dense.bias"], ["logits"], "dense", transB=1))
    graph = helper.make_graph(
        nodes,
        recipe.out.stem,
        [helper.make_tensor_value_info("input", TensorProto.FLOAT, [1, 3, 32, 32])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [1, 10])],
        [
            numpy_helper.from_array(tensor.detach().numpy().astype(np.float32), name)
            for name, tensor in constants.items()
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def main(name: str, path: str) -> None:
    torch.set_num_threads(1)
    recipe = RECIPES[name]
    made = as_onnx(recipe, train(recipe, *pictures(Path(path), recipe.pictures)))
    recipe.out.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(made, recipe.out)
    print(recipe.out)


if __name__ == "__main__":
    main(*sys.argv[1:])
