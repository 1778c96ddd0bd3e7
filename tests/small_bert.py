"""A transformer of two layers as torch exports it: what onnxruntime's optimizer of transformers fuses."""

from __future__ import annotations

import math
from pathlib import Path

import torch
from torch import nn

WIDTH, HEADS, WORDS, STEPS = 16, 2, 30, 8


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def apart(self, x: torch.Tensor) -> torch.Tensor:
        return x.view(x.size(0), x.size(1), HEADS, WIDTH // HEADS).permute(0, 2, 1, 3)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        key, value, query = (self.apart(layer(x)) for layer in (self.key, self.value, self.query))
        scores = torch.matmul(query, key.transpose(-1, -2)) / math.sqrt(WIDTH // HEADS) + mask
        context = torch.matmul(torch.softmax(scores, -1), value).permute(0, 2, 1, 3).contiguous()
        return context.view(context.size(0), context.size(1), WIDTH)


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention, self.out = Attention(), nn.Linear(WIDTH, WIDTH)
        self.wide, self.narrow = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)
        self.first, self.second = (nn.LayerNorm(WIDTH, eps=1e-12) for _ in range(2))

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        y = self.first(self.out(self.attention(x, mask)) + x)
        return self.second(self.narrow(nn.functional.gelu(self.wide(y))) + y)


class Bert(nn.Module):
    places: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.words, self.at, self.kinds = (nn.Embedding(rows, WIDTH) for rows in (WORDS, STEPS + 4, 2))
        self.norm, self.layers = nn.LayerNorm(WIDTH, eps=1e-12), nn.ModuleList([Layer(), Layer()])
        self.register_buffer("places", torch.arange(STEPS + 4).unsqueeze(0))

    def forward(self, ids: torch.Tensor, kinds: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        x = self.words(ids) + self.kinds(kinds)
        x = self.norm(x + self.at(self.places[:, : ids.size(1)]))
        far = (1.0 - mask.unsqueeze(1).unsqueeze(2).to(torch.float32)) * -10000.0
        for layer in self.layers:
            x = layer(x, far)
        return x


def write(path: Path) -> None:
    """With free batch and length, as its users export it: inputs ids, kinds and mask."""
    torch.manual_seed(0)
    x, names = torch.ones(1, STEPS, dtype=torch.int64), ["ids", "kinds", "mask"]
    free = {name: {0: "batch", 1: "steps"} for name in names}
    torch.onnx.export(
        Bert().eval(), (x, x, x), str(path), input_names=names, opset_version=14, dynamic_axes=free, dynamo=False
    )
