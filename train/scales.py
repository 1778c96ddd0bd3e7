"""Learned scales: fixed point whose exponent training moves, too (LSQ, Esser et al. 2020; rounded to powers of two).

The parameter of a tensor is the logarithm of its step; values that the program gives one scale have one. Forward it is
rounded to a whole exponent, backward the gradient of the step goes straight through that. What is learned of a value
ends as its range, which the exponent is fitted to; weights lie on their grid, so that any fitted exponent holds them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from tinyhil.compiler.calibrate import Ranges
from tinyhil.compiler.lower import tied_values
from tinyhil.formats.format import INTEGER
from tinyhil.language.assignment import Assignment
from tinyhil.language.graph import Graph
from tinyhil.train.quantizers import Quantizers, is_fixed_point

Tensor = torch.Tensor
BELOW = 1 - 2.0**-20  # of a power of two, which would need the next exponent
FEW_BITS = 8  # wider formats hold what calibration saw, whatever the step


class _Learned(torch.autograd.Function):
    """Forward x on the grid of 2**round(step), backward LSQ's gradients of x and of the step's logarithm."""

    @staticmethod
    def forward(context: Any, x: Tensor, step: Tensor, lowest: int, highest: int) -> Tensor:
        unit = 2.0 ** torch.round(step)
        units = x / unit
        whole = torch.floor(units + 0.5)
        held = whole.clamp(lowest, highest)
        inside = held == whole
        context.save_for_backward(inside, torch.where(inside, held - units, held) * unit)
        context.share = math.log(2) / math.sqrt(x.numel() * max(highest, 1))
        made: Tensor = held * unit
        return made

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None, None]:
        inside, by_step = context.saved_tensors
        return gradients[0] * inside, (gradients[0] * by_step).sum() * context.share, None, None


@dataclass(frozen=True, slots=True)
class LearnedQuantizers(Quantizers):
    """Quantizers that have parameters for the steps of some tensors, by their leaders."""

    steps: Mapping[str, Tensor]

    def value(self, name: str, x: Tensor) -> Tensor:
        step = self.steps.get(self.leaders[name]) if name in self.values else None
        return Quantizers.value(self, name, x) if step is None else _learned(step, self.values[name], x)

    def constant(self, name: str, value: Tensor, others: Mapping[str, Any]) -> Tensor:
        step = self.steps.get(self.leaders[name]) if name in self.constants else None
        if step is None:
            return Quantizers.constant(self, name, value, others)
        return _learned(step, self.constants[name], value)


def _learned(step: Tensor, fmt: Any, x: Tensor) -> Tensor:
    made: Tensor = _Learned.apply(x, step, fmt.lowest, fmt.highest)
    return made


def started(used: Quantizers, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Logarithms of steps of all values and weights in few bits: values begin with what calibration chose, weights with
    twice their mean magnitude over the root of the largest code. What has one scale with the input keeps it."""
    found = {}
    for name, fmt in (*used.values.items(), *used.constants.items()):
        if not is_fixed_point(fmt) or fmt.domain != INTEGER or fmt.bits > FEW_BITS:
            continue
        if used.leaders[name] == used.leaders.get(used.program.input):
            continue
        if name in weights and weights[name].ndim < 2:
            continue  # a bias is never finer than the sum it joins
        size = float(weights[name].detach().abs().mean()) if name in weights else 0.0
        start = math.log2(2 * size / math.sqrt(max(fmt.highest, 1))) if size > 0 else float(fmt.exponent)
        found[used.leaders[name]] = torch.tensor(float(min(start, fmt.exponent))).requires_grad_()
    return found


def held(used: Quantizers, steps: Mapping[str, Tensor]) -> LearnedQuantizers:
    """`used` with the formats that the steps stand for now."""

    def scaled(formats: Mapping[str, Any]) -> dict[str, Any]:
        own = {name: steps.get(used.leaders[name]) for name in formats}
        return {n: f if (s := own[n]) is None else f.scaled(round(float(s.detach()))) for n, f in formats.items()}

    formats = scaled(used.values), scaled(used.constants)
    return LearnedQuantizers(used.program, *formats, used.rows, used.biases, used.ranges, used.leaders, steps)


def ends_of(used: LearnedQuantizers) -> dict[str, float]:
    """What each value of a learned scale reaches."""
    ends = {used.leaders[name]: (fmt.highest + 1) * 2.0**fmt.exponent for name, fmt in used.values.items()}
    return {name: ends[leader] for name, leader in used.leaders.items() if leader in ends and leader in used.steps}


def ranges_with(ranges: Ranges, graph: Graph, ends: Mapping[str, float], assignment: Assignment) -> Ranges:
    """`ranges` that formats are fitted to so that these values reach these ends: the larger end is moved there, the
    other cut to it."""
    values = dict(ranges.values)
    for group in tied_values(graph):
        below = BELOW * 2.0 ** -assignment.offset_of(group)  # which is added to what is fitted
        for name in (name for name in group if name in ends and name in values):
            (low, high), end = values[name], below * ends[name]
            values[name] = (max(low, -end), end) if high >= -low else (-end, min(high, end))
    return replace(ranges, values=values)
