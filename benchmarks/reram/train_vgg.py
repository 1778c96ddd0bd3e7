"""Trains `vgg7_cifar.onnx`, a small network in the style of VGG: six 3x3 convolutions, three pools, one dense layer.

    python -m benchmarks.reram.train_vgg cifar10_train50k_jpeg.npz

The file holds the training part of CIFAR-10 as JPEG bytes (`jpeg`, `offsets`, `y`). Pixels are standardised as
`tinyhil.data` does; batch normalisation is folded into the convolutions before they are written.
"""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn

from benchmarks.bench import pictures_in
from tinyhil.data.cifar import MEAN, SPREAD

WIDTHS = (16, 16, 24, 24, 32, 32)  # a pool after every second
EPOCHS, BATCH, PEAK_RATE = 6, 128, 0.01
PICTURES = 25_000  # of the training part
OUT = Path(__file__).with_name("vgg7_cifar.onnx")


class Vgg(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        ends = (3, *WIDTHS)
        self.convs = nn.ModuleList(nn.Conv2d(a, b, 3, padding=1, bias=False) for a, b in pairwise(ends))
        self.norms = nn.ModuleList(nn.BatchNorm2d(width) for width in WIDTHS)
        self.dense = nn.Linear(WIDTHS[-1] * 16, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for index, (conv, norm) in enumerate(zip(self.convs, self.norms, strict=True)):
            x = torch.relu(norm(conv(x)))
            if index % 2:
                x = torch.max_pool2d(x, 2)
        return self.dense(x.flatten(1))


def pictures(path: Path) -> tuple[torch.Tensor, torch.Tensor]:
    x, labels = pictures_in(path, PICTURES)
    return torch.from_numpy((x / 255 - MEAN) / SPREAD), torch.from_numpy(labels.astype(np.int64))


def train(x: torch.Tensor, y: torch.Tensor) -> Vgg:
    """A fixed number of epochs: nothing is chosen by looking at a test."""
    torch.manual_seed(0)
    net = Vgg()
    net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimizer = torch.optim.AdamW(net.parameters(), PEAK_RATE, weight_decay=0.02)
    steps = len(x) // BATCH
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, PEAK_RATE, total_steps=EPOCHS * steps)
    for epoch in range(EPOCHS):
        total = 0.0
        for chosen in torch.randperm(len(x))[: steps * BATCH].view(steps, BATCH):
            batch = x[chosen]
            flipped = torch.rand(BATCH, 1, 1, 1) < 0.5
            batch = torch.where(flipped, batch.flip(3), batch)
            dy, dx = (int(n) for n in torch.randint(0, 5, (2,)))
            batch = nn.functional.pad(batch, (2, 2, 2, 2))[:, :, dy : dy + 32, dx : dx + 32]
            loss = nn.functional.cross_entropy(net(batch.to(memory_format=torch.channels_last)), y[chosen])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            total += float(loss)
        print(f"epoch {epoch}: {total / steps:.3f}", flush=True)
    return net.eval()


def as_onnx(net: Vgg) -> onnx.ModelProto:
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
        "vgg7_cifar",
        [helper.make_tensor_value_info("input", TensorProto.FLOAT, [1, 3, 32, 32])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [1, 10])],
        [
            numpy_helper.from_array(tensor.detach().numpy().astype(np.float32), name)
            for name, tensor in constants.items()
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def main(path: str) -> None:
    torch.set_num_threads(1)
    onnx.save(as_onnx(train(*pictures(Path(path)))), OUT)


if __name__ == "__main__":
    main(sys.argv[1])
