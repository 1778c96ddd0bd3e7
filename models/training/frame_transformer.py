"""Trains a transformer small enough for 2 KB of RAM: frames are embedded as they arrive. Needs torch.

A Scan averages the frames of a token and embeds them, so that a board whose memory holds no whole sample may be
streamed to. Sums are normalised, not operands (as in Vaswani et al., 2017): while scores are made there are tokens,
queries, keys and scores in memory, and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper
from torch import nn
from torch.nn import functional

from models.training.fit import Schedule, fit, start
from models.training.publish import About, publish
from models.training.sequences import HEADS, OPSET, WIDTH, Encoder, Writer, loop
from models.training.words import TRANSFORMER
from tinyhil.data import load


@dataclass(frozen=True, slots=True)
class Recipe:
    """`together`: frames of a token; `noise`: in deviations of a channel; `moved`: most frames a sequence moves by."""

    classes: int
    together: int
    moved: int
    noise: float
    schedule: Schedule


class Summed(Encoder):
    """The encoder of models/training/sequences.py with norms behind its sums."""

    def __init__(self, tokens: int) -> None:
        super().__init__(tokens)
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.places
        q, k, v = (self._heads(part(x)) for part in (self.q, self.k, self.v))
        mixed = functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(x.shape)
        x = self.norms[0](x + self.out(mixed))
        return self.norms[1](x + self.less(torch.relu(self.more(x)))).mean(dim=1)

    def write(self, g: Writer, x: str, steps: int) -> str:
        x = g.add("Add", x, g.constant(self.places))
        parts = [
            g.add("Transpose", g.shaped(g.dense(x, layer), 1, steps, HEADS, WIDTH // HEADS), perm=[0, 2, 1, 3])
            for layer in (self.q, self.k, self.v)
        ]
        mixed = g.add("Transpose", self._softmax(g, *parts), perm=[0, 2, 1, 3])
        x = g.add("Add", x, g.dense(g.shaped(mixed, 1, steps, WIDTH), self.out))
        x = g.normalized(x, self.norms[0])
        x = g.add("Add", x, g.dense(g.add("Relu", g.dense(x, self.more)), self.less))
        return g.add("ReduceMean", g.normalized(x, self.norms[1]), axes=[1], keepdims=0)


class Network(nn.Module):
    """Logits of averaged, scaled frames (samples, tokens, channels)."""

    def __init__(self, tokens: int, channels: int, classes: int) -> None:
        super().__init__()
        self.embed, self.encoder = nn.Linear(channels, WIDTH), Summed(tokens)
        self.head = nn.Linear(WIDTH, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.encoder(self.embed(x)))


def train(x: np.ndarray, y: np.ndarray, recipe: Recipe) -> tuple[Network, np.ndarray, np.ndarray]:
    """The network for frames `x` (samples, frames, channels), and mean and deviation of each channel."""
    start(recipe.schedule.seed)
    tokens = x.shape[1] // recipe.together
    mean, deviation = x.mean(axis=(0, 1)), x.std(axis=(0, 1)) + 1e-6
    model = Network(tokens, x.shape[2], recipe.classes)
    random = torch.Generator().manual_seed(recipe.schedule.seed)

    def loss(rows: torch.Tensor, labels: torch.Tensor, progress: float) -> torch.Tensor:
        by = int(torch.randint(-recipe.moved, recipe.moved + 1, (1,), generator=random))
        frames = torch.roll(rows, by, dims=1).unflatten(1, (tokens, recipe.together)).mean(dim=2)
        noisy = frames + recipe.noise * torch.randn(frames.shape, generator=random)
        return functional.cross_entropy(model(noisy), labels, label_smoothing=recipe.schedule.label_smoothing)

    scaled = ((x - mean) / deviation)[:, : tokens * recipe.together].astype(np.float32)
    fit(model, (scaled, y), recipe.schedule, loss, random=random)
    return model.eval(), mean, deviation


def onnx_of(name: str, model: Network, scaling: tuple[np.ndarray, np.ndarray], together: int) -> onnx.ModelProto:
    """The file: frames `x` [1, tokens * together, channels] to `logits`."""
    mean, deviation = scaling
    channels, tokens = len(mean), model.encoder.places.shape[1]
    weights = model.embed.weight.detach().numpy() / deviation
    body = Writer("frames_")
    frames = body.shaped("row", together, channels)
    average = body.add("ReduceMean", frames, axes=[0], keepdims=1)
    product = body.add("MatMul", average, body.constant(weights.T))
    bias = model.embed.bias.detach().numpy() - weights @ mean
    body.add("Add", product, body.constant(bias), outputs=("token",))
    scan = loop(body, "embed", {"row": (1, together * channels)}, {"token": (1, WIDTH)})
    g = Writer()
    x = g.shaped("x", 1, tokens, together * channels)
    rows = g.add("Scan", x, outputs=("tokens",), body=scan, num_scan_inputs=1, scan_input_axes=[1])
    scores = g.dense(model.encoder.write(g, g.shaped(rows, 1, tokens, WIDTH), tokens), model.head)
    g.nodes[-1].output[0] = "logits"
    assert scores
    graph = helper.make_graph(
        g.nodes,
        name,
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, tokens * together, channels])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [1, model.head.out_features])],
        g.weights,
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)
    onnx.checker.check_model(proto, full_check=True)
    return proto


def make(folder: Path, dataset: str, what: str, recipe: Recipe) -> None:
    """Train on `dataset` and write the zoo folder."""
    data = load(dataset)
    assert data.y_train is not None
    model, *scaling = train(data.x_train, data.y_train, recipe)
    tokens, channels = model.encoder.places.shape[1], data.x_train.shape[2]
    proto = onnx_of(folder.name, model, (scaling[0], scaling[1]), recipe.together)
    facts = {"Tokens, channels, heads": f"{tokens} of {recipe.together} frames, {WIDTH}, 2"}
    tiles = f"{tokens} tokens of {recipe.together} frames of {channels}"
    title = f"{what[0].upper()}{what[1:]} with a transformer ({tiles})"
    publish(folder, proto, About(title, dataset, f"Recognises {what}.", TRANSFORMER, facts))
