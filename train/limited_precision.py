"""Training in limited precision: what every value, gradient and update is rounded to.

Fixed point <IL, FL> (Gupta et al. 2015): IL bits with the sign before the point and FL behind it; sums are wide and
rounded once, results saturate; the loss is scaled to a part of the range. FP16 (Micikevicius et al. 2018): weights,
values and gradients are float16, sums and the weights that are updated float32; the loss is scaled so that small
gradients stay above 2**-24.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch

from tinyhil.errors import ConfigError

Tensor = torch.Tensor
FIRST_SCALE, MOST_SCALE = 2.0**16, 2.0**24
STEPS_TO_DOUBLE = 200


@dataclass(frozen=True, slots=True)
class Limited:
    """Fixed point of `integer` and `fraction` bits."""

    integer: int
    fraction: int
    stochastic: bool

    @property
    def scale(self) -> float:
        """Of the loss, a quarter of the range: the loss is a mean, and its gradients would be few units. Updates are
        taken out of it again before they are rounded."""
        return max(1.0, self.end / 4)

    @property
    def end(self) -> float:
        """Magnitude from which on values saturate."""
        return float(2.0 ** (self.integer - 1))

    def converted(self, x: Tensor, random: torch.Generator) -> Tensor:
        """To the nearest number (of two the lower), or up with the probability of what is lost."""
        units = x * 2.0**self.fraction
        if self.stochastic:
            whole = torch.floor(
                units + torch.rand(units.shape, generator=random, device=random.device).to(units.device)
            )
        else:
            whole = torch.ceil(units - 0.5)
        end = 2.0 ** (self.integer - 1 + self.fraction)
        return whole.clamp(-end, end - 1) * 2.0**-self.fraction


@dataclass(frozen=True, slots=True)
class Half:
    """float16; `scale` of the loss: a number, or None for one that doubles until gradients overflow."""

    scale: float | None = None
    end: ClassVar[float] = math.inf  # what overflows has no gradient that is finite: the loss scale sees to it

    def converted(self, x: Tensor, random: torch.Generator) -> Tensor:
        """Rounded to float16 and back, infinities beyond 65,504; nothing is drawn."""
        return x.to(torch.float16).to(x.dtype)


Arithmetic = Limited | Half


def parse(text: str, rounding: str, loss_scale: str) -> Arithmetic:
    """`fixed16:IL.FL` or `fp16`; ConfigError says what is wrong."""
    if text == "fp16":
        if loss_scale != "dynamic" and not re.fullmatch(r"\d+(\.\d+)?", loss_scale):
            raise ConfigError(f"--loss-scale {loss_scale}: a number, or dynamic")
        return Half(None if loss_scale == "dynamic" else float(loss_scale))
    found = re.fullmatch(r"fixed(\d+):(\d+)\.(\d+)", text)
    if found is None:
        raise ConfigError(f"--arithmetic {text}: fixed16:IL.FL (such as fixed16:4.12) or fp16")
    bits, integer, fraction = map(int, found.groups())
    if integer + fraction != bits or integer < 1 or not 2 <= bits <= 24:
        raise ConfigError(
            f"--arithmetic {text}: {integer} and {fraction} bits are not {bits}; at most 24, one before the point"
        )
    return Limited(integer, fraction, rounding == "stochastic")


class _Converted(torch.autograd.Function):
    """Forward the value in the arithmetic, backward its gradient; none where the value saturated."""

    @staticmethod
    def forward(context: Any, x: Tensor, holder: Arithmetical) -> Tensor:
        context.holder = holder
        context.save_for_backward(x.abs() <= holder.arithmetic.end)
        return holder.converted(x)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (inside,) = context.saved_tensors
        return torch.where(inside, context.holder.converted(gradients[0]), 0.0), None


@dataclass(frozen=True, slots=True)
class Arithmetical:
    """What holds the values of a network while one step is taken; `random` is of this step."""

    arithmetic: Arithmetic
    random: torch.Generator

    def converted(self, x: Tensor) -> Tensor:
        """Rounded as this step's arithmetic does it."""
        return self.arithmetic.converted(x, self.random)

    def value(self, name: str, x: Tensor) -> Tensor:
        made: Tensor = _Converted.apply(x, self)
        return made

    def constant(self, name: str, value: Tensor, others: Mapping[str, Any]) -> Tensor:
        return self.value(name, value)


def holder(arithmetic: Arithmetic, seeds: tuple[int, ...]) -> Arithmetical:
    """For the step of these numbers: what it draws depends on nothing before it."""
    seed = 0
    for part in seeds:
        seed = seed * 1_000_003 + part
    return Arithmetical(arithmetic, torch.Generator().manual_seed(seed % 2**63))


@dataclass(slots=True)
class LossScale:
    """The factor of the loss, and the steps since it was changed."""

    factor: float = field(default=1.0)
    steps: int = 0

    def after(self, arithmetic: Arithmetic | None, finite: bool) -> None:
        """Half of it where a gradient overflowed, twice as much after a while without."""
        if not isinstance(arithmetic, Half) or arithmetic.scale is not None:
            return
        self.steps = self.steps + 1 if finite else 0
        if not finite:
            self.factor /= 2
        elif self.steps % STEPS_TO_DOUBLE == 0:
            self.factor = min(2 * self.factor, MOST_SCALE)


def first_scale(arithmetic: Arithmetic | None) -> LossScale:
    """The scale of the loss that training begins with."""
    if arithmetic is None:
        return LossScale()
    return LossScale(FIRST_SCALE if arithmetic.scale is None else arithmetic.scale)
