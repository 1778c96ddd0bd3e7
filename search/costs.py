"""Latency and flash of a candidate, from what a board has measured of others (`hil profile`).

An operation whose very code was timed costs what it took then; any other what an additive model says, fitted to the
rows of that operation: a base, an effect of each operand's format, of each pair of them and of the accumulator. The sum
is scaled by what the worst sample took on whole images against the mean. Flash is the bytes of the constants, which
follow from the formats, and an additive model of the code, fitted to whole images. An image that was measured itself is
known.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from statistics import mean, median

import numpy as np

from tinyhil.errors import ModelError
from tinyhil.search.space import Candidate

COMPUTED_IN = re.compile(r"hil::\w+<((?:hil::)?(\w+)(?:<[^>]*>)?)>\(")
FIRST, ACCUMULATOR = 8, 3  # weights of what explains most, against 1 of any other format or pair
RIDGE = 0.1  # of the code's model: pulls effects that no image tells apart towards each other


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of a placed program. `size`: products or elements of one execution; `formats`: of its operands and
    its result, without scales; `signature`: all that decides its code."""

    name: str
    kernel: str
    formats: tuple[str, ...]
    signature: str
    size: int
    executions: int


@dataclass(frozen=True, slots=True)
class Described:
    """What a candidate's image would hold."""

    operations: tuple[Operation, ...]
    constant_bytes: int


@dataclass(frozen=True, slots=True)
class Row:
    """`ticks` of one execution of an operation, measured, in proportion to what its image took in all."""

    operation: Operation
    ticks: float


@dataclass(frozen=True, slots=True)
class Run:
    """A whole image, measured: the `worst` ticks of a sample, in the mean `summed`, of these `outside` of operations.
    Ticks are infinite if the image did not fit the board."""

    candidate: Candidate
    worst: float
    summed: float
    outside: float
    flash_bytes: int


@dataclass(frozen=True, slots=True)
class Limits:
    """None: not asked for."""

    latency_us: float | None = None
    flash_bytes: int | None = None

    def __bool__(self) -> bool:
        return self.latency_us is not None or self.flash_bytes is not None


@dataclass(frozen=True, slots=True)
class Estimate:
    """`exact`: share of the latency that comes from operations measured as they are."""

    latency_us: float
    flash_bytes: float
    exact: float


@dataclass(frozen=True)
class Costs:
    """Estimates from `rows` and `runs`. `margin`: by which share estimates are raised before they are compared with the
    limits, grown when an answer turned out to exceed them."""

    describe: Callable[[Candidate], Described]
    rows: tuple[Row, ...]
    runs: tuple[Run, ...]
    clock_hz: int
    limits: Limits
    margin: float = 0.0
    applies: Callable[[Candidate], bool] = lambda candidate: True  # whether here, too, it would be as it was measured
    _known: dict[Candidate, Estimate | None] = field(default_factory=dict)

    def fits(self, candidate: Candidate) -> bool:
        """Whether the limits hold, by measurement or estimate; what can not be lowered does not fit."""
        return not self.limits or self.excess(candidate) <= 0.0

    def excess(self, candidate: Candidate) -> float:
        """By which share the limits are exceeded, the worst of them; at most 0 where they hold."""
        estimate = self.estimate(candidate)
        if estimate is None or self._is_impossible(candidate, estimate):
            return float("inf")
        raised = 1.0 if self.is_measured(candidate) else 1.0 + self.margin
        shares = [-1.0]
        if self.limits.latency_us is not None:
            shares.append(estimate.latency_us * raised / self.limits.latency_us - 1)
        if self.limits.flash_bytes is not None:
            shares.append(estimate.flash_bytes * (raised if raised == 1.0 else 1 + self.margin / 4))
            shares[-1] = shares[-1] / self.limits.flash_bytes - 1
        return max(shares)

    def value(self, candidate: Candidate) -> float:
        """The latency in us if that is limited, else the flash in bytes; infinite if it can not be had."""
        estimate = self.estimate(candidate)
        if estimate is None or self._is_impossible(candidate, estimate):
            return float("inf")
        return estimate.latency_us if self.limits.latency_us is not None else estimate.flash_bytes

    def _is_impossible(self, candidate: Candidate, estimate: Estimate) -> bool:
        """Whether it did not run, or takes what nobody knows where time is limited."""
        counts = self.limits.latency_us is not None or self.is_measured(candidate)
        return counts and estimate.latency_us == float("inf")

    def is_measured(self, candidate: Candidate) -> bool:
        """Whether the board has run it: then its cost is no estimate."""
        return candidate in self._measured

    def estimate(self, candidate: Candidate) -> Estimate | None:
        """None if the candidate can not be lowered."""
        if candidate not in self._known:
            try:
                self._known[candidate] = self._estimate(candidate)
            except ModelError:
                self._known[candidate] = None
        return self._known[candidate]

    def parts(self, candidate: Candidate) -> list[tuple[str, float]]:
        """Operations and their microseconds, the most expensive first."""
        ticks = [(op.name, self._ticks(op)[0] * self._scale) for op in self.describe(candidate).operations]
        return sorted(((name, self._us(spent)) for name, spent in ticks), key=lambda part: -part[1])

    def _estimate(self, candidate: Candidate) -> Estimate:
        run = self._measured.get(candidate)
        if run is not None:
            return Estimate(self._us(run.worst), run.flash_bytes, 1.0)
        described = self.describe(candidate)
        found = [self._ticks(operation) for operation in described.operations]
        total = sum(ticks for ticks, _ in found)
        exact = sum(ticks for ticks, known in found if known)
        outside = mean(run.outside for run in self._whole) if self._whole else 0.0
        code = self._code.predict(_features(described.operations)) if self._whole else 0.0
        latency_us = self._us((total + outside) * self._scale)
        return Estimate(latency_us, described.constant_bytes + code, exact / total if total else 1.0)

    def _us(self, ticks: float) -> float:
        return ticks / self.clock_hz * 1e6

    def _ticks(self, operation: Operation) -> tuple[float, bool]:
        """Of all executions, and whether its code was measured."""
        same = self._by_code.get((operation.name, operation.signature))
        if same is None:
            same = self._by_code.get(("", operation.signature))
        if same is not None:
            return operation.executions * mean(same), True
        key = (operation.name, operation.kernel)
        if key not in self._models:
            self._models[key] = self._model(operation)
        each = operation.size * self._models[key].predict(_operands(operation))
        return operation.executions * each, False

    def _model(self, operation: Operation) -> Additive:
        """Ticks per product or element, of which one execution may hold more or less where rows are cut otherwise: of
        rows of this operation; else of its kernel; else of the operation with other kernels; else as the median one.
        Infinite where nothing was measured: what nobody knows keeps no limit."""
        own = [row for row in self.rows if row.operation.name == operation.name]
        rows = [row for row in own if row.operation.kernel == operation.kernel]
        if not rows:
            rows = [row for row in self.rows if row.operation.kernel == operation.kernel] or own
        values = [row.ticks / max(1, row.operation.size) for row in rows or self.rows]
        if not rows:
            usual = median(values) if values else float("inf")
            return Additive(usual, {}, usual, usual)
        return Additive.fitted([_operands(row.operation) for row in rows], values)

    @cached_property
    def _models(self) -> dict[tuple[str, str], Additive]:
        return {}

    @cached_property
    def _by_code(self) -> dict[tuple[str, str], list[float]]:
        """By operation and signature, and by signature alone under the name ''."""
        found: dict[tuple[str, str], list[float]] = {}
        for row in self.rows:
            for name in (row.operation.name, ""):
                found.setdefault((name, row.operation.signature), []).append(row.ticks)
        return found

    @cached_property
    def _measured(self) -> dict[Candidate, Run]:
        return {run.candidate: run for run in self.runs if self.applies(run.candidate)}

    @cached_property
    def _whole(self) -> list[Run]:
        """Images that ran."""
        return [run for run in self.runs if run.worst != float("inf")]

    @cached_property
    def _scale(self) -> float:
        """What the worst sample takes on a whole image against the sum of its operations."""
        return median(run.worst / run.summed for run in self._whole) if self._whole else 1.0

    @cached_property
    def _code(self) -> Additive:
        described = [self.describe(run.candidate) for run in self._whole]
        code = [run.flash_bytes - found.constant_bytes for run, found in zip(self._whole, described, strict=True)]
        return Additive.fitted([_features(found.operations) for found in described], code, RIDGE)


Features = Sequence[str]


@dataclass(frozen=True, slots=True)
class Additive:
    """A base, and an effect per feature; features never seen have none. Predictions stay between the lowest and the
    highest value it was fitted to: uniform formats, the extremes, are always among them."""

    base: float
    effects: dict[str, float]
    lowest: float
    highest: float

    @classmethod
    def fitted(cls, seen: Sequence[Features], values: Iterable[float], ridge: float = 1e-6) -> Additive:
        """Least squares around the mean, effects as small as the measurements permit."""
        names = sorted({name for features in seen for name in features})
        y = np.array(list(values), float)
        table = np.array([[features.count(name) for name in names] for features in map(list, seen)], float)
        if not names or len(y) < 2:
            return cls(float(y.mean()), {}, float(y.min()), float(y.max()))
        centre = table.mean(axis=0)
        away = table - centre
        # as many unknowns as images: solved in the space of the fewer
        weights = away.T @ np.linalg.solve(away @ away.T + ridge * np.eye(len(y)), y - y.mean())
        base, effects = float(y.mean() - centre @ weights), dict(zip(names, weights.tolist(), strict=True))
        return cls(base, effects, float(y.min()), float(y.max()))

    def predict(self, features: Features) -> float:
        """The estimate, in the unit of what was measured, within what was measured."""
        found = self.base + sum(self.effects.get(name, 0.0) for name in features)
        return min(max(found, self.lowest), self.highest)


def _operands(operation: Operation) -> list[str]:
    """The format of each operand and of each pair of them, and what the operation computes in."""
    single = [f"{position}:{name}" for position, name in enumerate(operation.formats)]
    pairs = [f"{a} {b}" for a, b in combinations(single, 2)]
    first = [name for name in single[:-1] if not name.endswith("table")][:2]
    # repeated ones get the larger share of a difference that several could explain: inner loops are chosen by what is
    # multiplied, the first two operands, and by the accumulator
    return [*single, *pairs, *[f"first {' '.join(first)}"] * FIRST, *_computed_in(operation) * ACCUMULATOR]


def _computed_in(operation: Operation) -> list[str]:
    """The accumulator of the generated call, with and without its widths."""
    found = COMPUTED_IN.match(operation.signature)
    return [f"in {found[1]}", f"kind {found[2]}"] if found else []


def _features(operations: Sequence[Operation]) -> list[str]:
    """What is instantiated, once each (code that two calls share), and the formats around each operation."""
    once: dict[str, None] = {}
    for op in operations:
        inside = _computed_in(op)
        shared = [f"{op.kernel} {text}" for text in ("", *inside, f"of {', '.join(op.formats)}")]
        once.update(dict.fromkeys([*shared, *inside, *(f"any {name}" for name in op.formats)]))
    return [*once, *(f"{op.name} {op.kernel} {operand}" for op in operations for operand in ("", *_operands(op)))]
