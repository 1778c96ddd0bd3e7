"""The detector in torch: convolution, RNNPool, MBConv blocks, three SSD heads. Needs torch; write.py has it in ONNX."""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional

from benchmarks.papers.faces.anchors import GRIDS, NUMBERS
from benchmarks.papers.faces.write import CHANNELS, EDGE, HIDDEN, PATCH, STAGES, STRIDE


class FastGrnn(nn.Module):
    """c = x w + h u, g = sigmoid(c + b_g), h' = g h + (1 - g) tanh(c + b_h): zeta = 1, nu = 0, so |h| < 1."""

    def __init__(self, inputs: int, hidden: int, steps: int) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.randn(inputs, hidden) / math.sqrt(inputs))
        self.u = nn.Parameter(torch.randn(hidden, hidden) * 0.5 / math.sqrt(hidden))
        self.b_g = nn.Parameter(torch.log(1 + torch.rand(hidden) * (steps - 2)))
        self.b_h = nn.Parameter(torch.zeros(hidden))

    def forward(self, steps: list[torch.Tensor]) -> torch.Tensor:
        """The last state over `steps`, each (..., hidden) and multiplied by w already."""
        h = torch.zeros(())
        for number, wx in enumerate(steps):
            c = wx if number == 0 else wx + h @ self.u
            gate, candidate = torch.sigmoid(c + self.b_g), torch.tanh(c + self.b_h)
            h = candidate + gate * (h - candidate)
        return h


class RnnPool(nn.Module):
    """(n, channels, height, width) to (n, 4 hidden, patches down, patches across) (Saha et al., NeurIPS 2020, 3)."""

    def __init__(self, channels: int, hidden: int, patch: int, stride: int) -> None:
        super().__init__()
        self.patch, self.stride = patch, stride
        self.sweep = FastGrnn(channels, hidden, patch)
        self.summary = FastGrnn(hidden, hidden, patch)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        pixels = x.permute(0, 2, 3, 1) @ self.sweep.w
        rows = self.sweep(self._along(pixels, 2))  # (n, height, patches across, hidden): patches share rows
        columns = self.sweep(self._along(pixels, 1))  # (n, patches down, width, hidden)
        parts = []
        for summary, axis in ((rows, 1), (columns, 2)):
            steps = self._along(summary @ self.summary.w, axis)
            parts += [self.summary(steps), self.summary(steps[::-1])]
        return torch.cat(parts, dim=3).permute(0, 3, 1, 2)

    def _along(self, x: torch.Tensor, axis: int) -> list[torch.Tensor]:
        """Step by step, that of all patches along an axis at once."""
        last = x.shape[axis] - self.patch + 1
        index = [slice(None)] * 4
        steps = []
        for step in range(self.patch):
            index[axis] = slice(step, step + last, self.stride)
            steps.append(x[tuple(index)])
        return steps


class MbConv(nn.Module):
    """Expand, depthwise 3 x 3, project; added to its input where shapes are alike."""

    def __init__(self, inputs: int, outputs: int, stride: int, expansion: int) -> None:
        super().__init__()
        wide = inputs * expansion
        self.expand = nn.Conv2d(inputs, wide, 1, bias=False)
        self.depthwise = nn.Conv2d(wide, wide, 3, stride, padding=1, groups=wide, bias=False)
        self.project = nn.Conv2d(wide, outputs, 1, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(count) for count in (wide, wide, outputs))
        self.is_residual = stride == 1 and inputs == outputs

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.norms[0](self.expand(x)))
        y = torch.relu(self.norms[1](self.depthwise(y)))
        y = self.norms[2](self.project(y))
        return x + y if self.is_residual else y


class Detector(nn.Module):
    """Photos (n, 1, height, width) to the heads' numbers (n, anchors, NUMBERS), in the order of `anchors`."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(1, CHANNELS, 3, 2, padding=1)
        self.pool = RnnPool(CHANNELS, HIDDEN, PATCH, STRIDE)
        self.stages = nn.ModuleList(nn.Sequential(*(MbConv(*block) for block in stage)) for stage in STAGES)
        self.heads = nn.ModuleList(
            nn.Conv2d(stage[-1][1], len(grid.widths) * NUMBERS, 1) for stage, grid in zip(STAGES, GRIDS, strict=True)
        )
        for head, grid in zip(self.heads, GRIDS, strict=True):
            assert isinstance(head, nn.Conv2d)
            nn.init.normal_(head.weight, std=0.01)
            head.bias = nn.Parameter(torch.tensor([-4.0, 0, 0, 0, 0]).repeat(len(grid.widths)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.pad(x, (EDGE, 0, EDGE, 0))
        x = self.pool(torch.relu(self.first(x)))
        said = []
        for stage, head, grid in zip(self.stages, self.heads, GRIDS, strict=True):
            x = stage(x)
            planes = head(x).unflatten(1, (len(grid.widths), NUMBERS)).flatten(3)
            said.append(planes.transpose(2, 3).flatten(1, 2))
        return torch.cat(said, dim=1)
