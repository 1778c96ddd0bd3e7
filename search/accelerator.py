"""Limits of an accelerator: what a candidate costs follows from its widths, layer by layer; nothing is measured."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from functools import cached_property
from math import ceil, floor, log10
from typing import Any

from tinyhil.crossbars.hardware import Hardware
from tinyhil.errors import ConfigError, Infeasible, ModelError
from tinyhil.formats import named
from tinyhil.language.program import executions
from tinyhil.reram.cost import Cost, LayerCost, cost_of, crossbar_mw, layer_cost, total_cost
from tinyhil.reram.mapping import Matrix, matrix_of
from tinyhil.search.anchor import least
from tinyhil.search.space import Candidate, Choice, Space, stored_names

REFERENCE_BITS = 8  # of weights and inputs: what `cost` is a share of
NAMED = 3
UNITS = {"latency_us": "us", "energy_uj": "uJ", "crossbars": "crossbars", "cost": "of the cost with 8 bits"}
SAME = 1e-9  # of a limit: sums of floating-point numbers


@dataclass(frozen=True, slots=True)
class AcceleratorLimits:
    """None: not asked for. `cost`: the mean of latency, energy and power, each as a share of what it is with 8 bits for
    all weights and inputs."""

    latency_us: float | None = None
    energy_uj: float | None = None
    crossbars: int | None = None
    cost: float | None = None

    def __bool__(self) -> bool:
        return any(getattr(self, one.name) is not None for one in fields(self))

    def asked(self) -> Iterator[tuple[str, float]]:
        """Names and values of the limits that there are."""
        for one in fields(self):
            value = getattr(self, one.name)
            if value is not None:
                yield one.name, value


@dataclass(frozen=True, slots=True)
class Site:
    """A layer of the model: the numbers of the groups of its weights and of its inputs, None where they are no group's
    (which has the widest format then)."""

    name: str
    matrix: Matrix
    times: int
    weights: int | None
    inputs: int | None
    depthwise: bool
    kernel: int
    stride: int
    input_side: int


@dataclass(frozen=True)
class AcceleratorCosts:
    """Costs of candidates of `space` on `hardware`, and whether they keep to `limits`."""

    space: Space
    hardware: Hardware
    limits: AcceleratorLimits
    _known: dict[Candidate, Cost | None] = field(default_factory=dict)

    def fits(self, candidate: Candidate) -> bool:
        """All limits are kept to."""
        return self.excess(candidate) <= 0.0

    def excess(self, candidate: Candidate) -> float:
        """By which share the limits are exceeded, the worst of them; at most 0 where they hold."""
        cost = self.cost(candidate)
        if cost is None:
            return float("inf")
        shares = (self.value(cost, name) / most - 1 for name, most in self.limits.asked())
        return max((0.0 if abs(share) < SAME else share for share in shares), default=-1.0)

    def value(self, cost: Cost, name: str) -> float:
        """One of the limits' quantities of a cost."""
        return self.relative(cost) if name == "cost" else float(getattr(cost, name))

    def relative(self, cost: Cost) -> float:
        """The mean of latency, energy and power as shares of those with 8 bits everywhere."""
        unit = self.reference
        shares = (cost.latency_us / unit.latency_us, cost.energy_uj / unit.energy_uj, cost.power_mw / unit.power_mw)
        return sum(shares) / len(shares)

    def cost(self, candidate: Candidate) -> Cost | None:
        """None where crossbars can not hold it."""
        if candidate not in self._known:
            self._known[candidate] = self._cost(candidate)
        return self._known[candidate]

    def share(self, layer: LayerCost, name: str) -> float:
        """What one layer adds to a quantity of the limits; tiles that are begun count as the share of them in use."""
        if name != "cost":
            return float(getattr(layer, name))
        unit, h = self.reference, self.hardware
        power_mw = layer.crossbars * (crossbar_mw(h) + h.tile_mw / h.crossbars_per_tile)
        return (layer.latency_us / unit.latency_us + layer.energy_uj / unit.energy_uj + power_mw / unit.power_mw) / 3

    @cached_property
    def reference(self) -> Cost:
        """ConfigError without a layer for crossbars."""
        cost = self._by_sites([REFERENCE_BITS] * len(self.space.groups), REFERENCE_BITS)
        if not cost.layers:
            raise ConfigError("search: the model has no layer that crossbars could hold; search it for another board")
        return cost

    @cached_property
    def sites(self) -> tuple[Site, ...]:
        """The layers in order, found in a program of the widest format."""
        return tuple(layer_sites(self.space))

    def least(self, limits: AcceleratorLimits) -> tuple[Candidate, float]:
        """The candidate that exceeds `limits` least, and by which share."""
        alone = AcceleratorCosts(self.space, self.hardware, limits, self._known)
        best = least(self.space, alone.excess, enough=0.0)
        return best, alone.excess(best)

    def anchor(self) -> Candidate:
        """A candidate that keeps all limits; Infeasible names the least that can be reached, and what makes it."""
        candidate, excess = self.least(self.limits)
        if self.cost(candidate) is None:
            raise Infeasible("search: crossbars can hold none of these formats; give --formats fixed2,fixed4,fixed8")
        if excess > 0.0:
            raise Infeasible(self._why())
        return candidate

    def _why(self) -> str:
        for name, most in self.limits.asked():
            limit: Any = {name: most}
            alone = AcceleratorCosts(self.space, self.hardware, AcceleratorLimits(**limit), self._known)
            lowest = least(self.space, alone.excess)
            cost = self.cost(lowest)
            if cost is not None and alone.excess(lowest) > 0.0:
                found = self.value(cost, name)
                return (
                    f"search: {most:g} {UNITS[name]} are not reachable on this accelerator, the least is {found:.4g}: "
                    f"{_largest(cost, name)}; try --{name.replace('_', '-')} {_rounded_up(found):.10g}"
                )
        return "search: each limit can be kept alone, but not all of them together; raise one of them"

    def _cost(self, candidate: Candidate) -> Cost | None:
        bits = [_bits(choice) for choice in candidate]
        if any(width is None for width in bits):
            try:
                return cost_of(self.space.lower(candidate), self.hardware)
            except ModelError:
                return None
        return self._by_sites([width or 0 for width in bits], named(self.space.formats[-1]).bits)

    def _by_sites(self, bits: list[int], other: int) -> Cost:
        layers = []
        for site in self.sites:
            weight_bits = other if site.weights is None else bits[site.weights]
            input_bits = other if site.inputs is None else bits[site.inputs]
            layers.append(self.layer(site, weight_bits, input_bits))
        return total_cost(layers, self.hardware)

    def layer(self, site: Site, weight_bits: int, input_bits: int) -> LayerCost:
        """What one layer costs with these widths."""
        key = (site.name, weight_bits, input_bits)
        if key not in self._layers:
            m = site.matrix
            matrix = Matrix(m.groups, m.inner, m.outputs, m.pixels, weight_bits, input_bits, m.signed)
            self._layers[key] = layer_cost(site.name, matrix, self.hardware, site.times)
        return self._layers[key]

    @cached_property
    def _layers(self) -> dict[tuple[str, int, int], LayerCost]:
        return {}


def layer_sites(space: Space) -> Iterator[Site]:
    """The layers of constant weights of a model, whatever the board."""
    program = space.lower(space.uniform(space.high))
    number = {name: index for index, group in enumerate(space.groups) for name in stored_names(group.members)}
    for op, times in executions(program.body):
        matrix = matrix_of(program, op)
        if matrix is None:
            continue
        weights, inputs = (number.get(name) for name in op.inputs[:2])
        p = op.params
        conv = "kernel_y" in p
        yield Site(
            op.name,
            matrix,
            times,
            weights,
            inputs,
            depthwise=conv and matrix.groups > 1,
            kernel=p["kernel_x"] if conv else 1,
            stride=p["stride_x"] if conv else 1,
            input_side=p["width"] if conv else matrix.inner,
        )


def _bits(choice: Choice) -> int | None:
    """The width of plain fixed point, with a sign or without; None for all else."""
    digits = choice.format.removeprefix("fixed").removesuffix("u")
    return int(digits) if choice.format.startswith("fixed") and digits.isdigit() and int(digits) <= 16 else None


def _rounded_up(value: float) -> float:
    """To four significant digits."""
    unit = 10.0 ** (floor(log10(value)) - 3)
    return ceil(value / unit - 1e-9) * unit


def _largest(cost: Cost, name: str) -> str:
    """The layers that make most of it."""
    unit = "latency_us" if name == "cost" else name
    layers = sorted(cost.layers, key=lambda layer: -float(getattr(layer, unit)))[:NAMED]
    return ", ".join(f"{layer.name} {getattr(layer, unit):.4g} {UNITS[unit]}" for layer in layers)
