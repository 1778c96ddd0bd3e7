"""A transformer of letters with a window of the newest ones: its network, and how it is trained. Needs torch.

Two or three layers of attention with rotary positions (Su et al., 2021), RMS normalisation and gated feed-forward
(SwiGLU, Shazeer 2020). Positions turn whole times in one window, so that a ring of keys and values needs no others and
a text has no end; norms have no gains, the matrices behind them take these.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from models.training.fit import start

TEXT = Path(__file__).parent.parent / "story" / "tales.txt"
ALPHABET = "\n !'(),-.:;?ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
HELD_OUT = 0.05  # of the text, its end: perplexity is measured there


@dataclass(frozen=True, slots=True)
class Shape:
    """What the network is made of. `window` characters are looked back at."""

    width: int
    layers: int
    heads: int
    window: int
    hidden: int  # of the feed-forward part

    @property
    def head(self) -> int:
        """Numbers of one head."""
        return self.width // self.heads

    @property
    def turns(self) -> np.ndarray:
        """How often the pairs of a head turn within one window: whole numbers from 1 to once in 2 pi characters."""
        return np.round(np.geomspace(1, self.window / (2 * math.pi), self.head // 2))

    @property
    def angles(self) -> np.ndarray:
        """(window, head / 2) by which a key at each place of the ring is turned."""
        return 2 * np.pi * np.arange(self.window)[:, None] * self.turns / self.window


@dataclass(frozen=True, slots=True)
class Recipe:
    """Everything that decides the outcome besides the text."""

    shape: Shape
    steps: int
    batch: int = 32
    learning_rate: float = 3e-3
    weight_decay: float = 0.1
    seed: int = 0


def codes_of(text: str) -> np.ndarray:
    """Places in the alphabet; ValueError for a character that is not there."""
    return np.array([ALPHABET.index(letter) for letter in text], np.int64)


def split_text() -> tuple[np.ndarray, np.ndarray]:
    """The codes trained on, and those held out."""
    codes = codes_of(TEXT.read_text(encoding="ascii"))
    cut = int(len(codes) * (1 - HELD_OUT))
    return codes[:cut], codes[cut:]


def normalised(x: torch.Tensor) -> torch.Tensor:
    """Rows over their root mean square."""
    return functional.rms_norm(x, x.shape[-1:], eps=1e-5)


class Layer(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.query, self.key, self.value, self.out = (nn.Linear(shape.width, shape.width, bias=False) for _ in range(4))
        self.gate, self.up = (nn.Linear(shape.width, shape.hidden, bias=False) for _ in range(2))
        self.down = nn.Linear(shape.hidden, shape.width, bias=False)

    def forward(self, x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
        rows = normalised(x)
        heads = (*x.shape[:2], self.shape.heads, self.shape.head)
        query, key, value = (part(rows).reshape(heads).transpose(1, 2) for part in (self.query, self.key, self.value))
        query, key = (_turned(part, cosine, sine) for part in (query, key))
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(x.shape))
        rows = normalised(x)
        return x + self.down(functional.silu(self.gate(rows)) * self.up(rows))


def _turned(x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cosine - second * sine, second * cosine + first * sine], dim=-1)


class Network(nn.Module):
    """Logits (batch, steps, letters) of codes (batch, steps), each of the next character."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.embedding = nn.Embedding(len(ALPHABET), shape.width)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.head = nn.Linear(shape.width, len(ALPHABET), bias=False)
        angles = torch.tensor(shape.angles, dtype=torch.float32)
        self.register_buffer("cosine", angles.cos(), persistent=False)
        self.register_buffer("sine", angles.sin(), persistent=False)
        for name, parameter in self.named_parameters():
            std = 0.5 if name.startswith("embedding") else parameter.shape[-1] ** -0.5
            nn.init.normal_(parameter, std=std * (0.5 if name.endswith(("out.weight", "down.weight")) else 1))

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        x, steps = self.embedding(codes), codes.shape[1]
        for layer in self.layers:
            x = layer(x, self.cosine[:steps], self.sine[:steps])
        return self.head(normalised(x))


def train(recipe: Recipe) -> Network:
    """One pass of one-cycle AdamW over random pieces of the text; prints how the loss goes."""
    start(recipe.seed)
    known, held = (torch.tensor(part) for part in split_text())
    network, random = Network(recipe.shape), torch.Generator().manual_seed(recipe.seed)
    decay, parameters = recipe.weight_decay, network.parameters()
    optimizer = torch.optim.AdamW(parameters, recipe.learning_rate, (0.9, 0.99), weight_decay=decay)
    rate = torch.optim.lr_scheduler.OneCycleLR(optimizer, recipe.learning_rate, recipe.steps, pct_start=0.05)
    pieces, began = torch.arange(recipe.shape.window + 1), time.monotonic()
    for step in range(recipe.steps):
        first = torch.randint(len(known) - len(pieces), (recipe.batch, 1), generator=random)
        rows = known[first + pieces]
        loss = functional.cross_entropy(network(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        rate.step()
        if (step + 1) % max(1, recipe.steps // 20) == 0:
            found, seconds = held_out(network, held), time.monotonic() - began
            print(f"step {step + 1}: loss {loss.item():.3f}, held out {found:.3f}, {seconds:.0f} s", flush=True)
    return network


@torch.no_grad()
def held_out(network: Network, held: torch.Tensor) -> float:
    """Mean loss in nats a character of the second half of windows, one after the other."""
    window = network.shape.window
    pieces = held[: (len(held) - 1) // window * window].reshape(-1, window)
    following = held[1 : pieces.numel() + 1].reshape(-1, window)
    logits = network(pieces)[:, window // 2 :]
    return functional.cross_entropy(logits.flatten(0, 1), following[:, window // 2 :].flatten()).item()
