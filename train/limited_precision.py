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
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import torch

from tinyhil.errors import ConfigError

Tensor = torch.Tensor
FIRST_SCALE, MOST_SCALE = 2.0**16, 2.0**24
VALUE_BITS = 6  # before the point of a layer's results, at least; of words below 16 bits three eighths
STEPS_TO_DOUBLE = 200


@dataclass(frozen=True, slots=True)
class Limited:
    """Fixed point of `integer` and `fraction` bits. Values are sums, which outgrow the weights' range: in as many bits
    they have at least VALUE_BITS before the point."""

    integer: int
    fraction: int
    stochastic: bool

    @property
    def of_values(self) -> Limited:
        """What a layer's results are rounded to."""
        bits = self.integer + self.fraction
        integer = max(self.integer, min(VALUE_BITS, 3 * bits // 8))
        return replace(self, integer=integer, fraction=bits - integer)

    @property
    def scale(self) -> float:
        """Of the loss, a quarter of the range, so that gradients are many units. Updates are taken out of it again
        before they are rounded."""
        return max(1.0, self.end / 4)

    def summed(self, samples: int) -> int:
        """Samples whose gradients a loss is the sum of: a mean would leave each a part that is few units. The mean is
        taken where weights' gradients are summed, before their one rounding."""
        return samples

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

    @property
    def of_values(self) -> Half:
        """What a layer's results are rounded to."""
        return self

    def summed(self, samples: int) -> int:
        """The loss is a mean; its scale is what keeps gradients."""
        return 1

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
    """Forward the value in an arithmetic, none of whose gradient passes where it saturated; backward that gradient, a
    part of it, in the holder's own."""

    @staticmethod
    def forward(context: Any, x: Tensor, holder: Arithmetical, held: Arithmetic, parts: int) -> Tensor:
        context.holder, context.parts = holder, parts
        context.save_for_backward(x.abs() <= held.end)
        return held.converted(x, holder.random)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        (inside,) = context.saved_tensors
        made = context.holder.converted(gradients[0] / context.parts)
        return torch.where(inside, made, 0.0), None, None, None


@dataclass(frozen=True, slots=True)
class Arithmetical:
    """What holds the values of a network while one step is taken, whose loss is the mean of the samples' times
    `summed`; `random` is of this step."""

    arithmetic: Arithmetic
    random: torch.Generator
    summed: int = 1

    def converted(self, x: Tensor) -> Tensor:
        """Rounded as this step's arithmetic does it."""
        return self.arithmetic.converted(x, self.random)

    def value(self, name: str, x: Tensor) -> Tensor:
        made: Tensor = _Converted.apply(x, self, self.arithmetic.of_values, 1)
        return made

    def constant(self, name: str, value: Tensor, others: Mapping[str, Any]) -> Tensor:
        made: Tensor = _Converted.apply(value, self, self.arithmetic, self.summed)
        return made


def holder(arithmetic: Arithmetic, seeds: tuple[int, ...], samples: int = 1) -> Arithmetical:
    """For the step of these numbers, of so many samples: what it draws depends on nothing before it."""
    seed = 0
    for part in seeds:
        seed = seed * 1_000_003 + part
    return Arithmetical(arithmetic, torch.Generator().manual_seed(seed % 2**63), arithmetic.summed(samples))


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
