"""Which stages of a program run, and which are taken from what earlier evaluations of the same samples left.

A stage is left out if its saturations are known and each of its results is kept or wanted by nobody: where tensors
changed, evaluation restarts from the values in front of them. Saturations are kept at once, results when a stage runs
for the second time: then others share it, while most of what one candidate changes is never asked for again.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tinyhil.formats.format import INTEGER
from tinyhil.language.program import Loop, Op, Program
from tinyhil.search.engine.cache import ArrayCache
from tinyhil.search.engine.numbers import BATCH, stored_dtype
from tinyhil.search.engine.versions import Stage, Stages

# Products below which a run is over before anything could be looked up; 10 to 30 take a nanosecond
LEAST_WORK = 8_000_000
OTHER_DOMAINS = 8  # an operation on other numbers than integers takes so many times as long
PER_RESULT = 10  # products in whose time one result is rounded and stored
NOTHING = np.zeros(0, np.int32)  # saturations of a stage that clips nothing on any sample
Named = tuple[Hashable, np.ndarray]


@dataclass(frozen=True, slots=True)
class Step:
    """`item` runs unless `load` says what to take in its place. `save`: results to keep, (blocks, numbers of a block);
    `tally` counts its saturations, (blocks, BATCH)."""

    item: Op | Loop
    runs: bool = True
    load: tuple[tuple[str, np.ndarray], ...] = ()
    save: tuple[tuple[str, np.ndarray], ...] = ()
    tally: np.ndarray | None = None


@dataclass(frozen=True, slots=True)
class Restart:
    """`saturations` (samples,) of what does not run; `values` and `tallies` are what the steps fill, by name."""

    steps: tuple[Step, ...]
    needs_input: bool
    saturations: np.ndarray | int = 0
    values: Sequence[Named] = ()
    tallies: Sequence[Named] = ()

    def finish(self, cache: ArrayCache) -> None:
        """Keep what has been computed; call after a run of all samples."""
        for key, array in self.values:
            cache.put(key, array)
        for key, counts in self.tallies:
            cache.put(key, counts if counts.any() else NOTHING)

    def counted(self, saturations: np.ndarray) -> np.ndarray:
        """Of the whole program, from those of what ran."""
        return saturations + self.saturations


def from_the_start(program: Program) -> Restart:
    """Everything runs, nothing is kept."""
    return Restart(tuple(Step(item) for item in program.body), True)


def restart(program: Program, staged: Stages, cache: ArrayCache, part: Hashable, samples: int) -> Restart:
    """The shortest way to the output. `part` names the samples: equal names, equal inputs in every format."""
    for version in staged.read:  # what this program has in common with the next ones stays longest
        cache.get((part, version))
    planning = _Planning(program, staged, cache, part, samples)
    steps = [planning.step(stage) for stage in reversed(staged.stages)]
    return Restart(
        tuple(reversed(steps)),
        staged.input in planning.wanted,
        sum(planning.saturations, np.zeros(samples, np.int64)),
        planning.values,
        planning.tallies,
    )


def work_of(program: Program) -> int:
    """Roughly the products of one sample."""
    return _work(program, program.body)


def _work(program: Program, body: Sequence[Op | Loop]) -> int:
    total = 0
    for item in body:
        if isinstance(item, Loop):
            total += item.count * _work(program, item.body)
        else:
            results = program.tensors[item.output].count
            total += results * (_terms(item.params) + PER_RESULT) * (1 if item.domain == INTEGER else OTHER_DOMAINS)
    return total


def _terms(params: Mapping[str, int]) -> int:
    """Of one result."""
    if "kernel_y" in params:
        channels = params["channels"] // params["groups"] if "groups" in params else 1
        return params["kernel_y"] * params["kernel_x"] * channels
    return params.get("along", params.get("inner", 1) + params.get("more_inner", 0))


class _Planning:
    """Walks the stages from the last to the first. `wanted`: versions that what runs behind reads."""

    def __init__(self, program: Program, staged: Stages, cache: ArrayCache, part: Hashable, samples: int) -> None:
        self.wanted = {staged.output}
        self.saturations: list[np.ndarray] = []
        self.values: list[Named] = []
        self.tallies: list[Named] = []
        self._program, self._staged, self._cache, self._part = program, staged, cache, part
        self._samples, self._blocks = samples, -(-samples // BATCH)

    def step(self, stage: Stage) -> Step:
        tally = self._cache.get((self._part, stage.key))
        results = [(name, self._cache.get((self._part, v))) for name, v in stage.writes.items() if v in self.wanted]
        found = tuple((name, array) for name, array in results if array is not None)
        if tally is not None and len(found) == len(results):
            if tally.size:
                self.saturations.append(tally.reshape(-1)[: self._samples].astype(np.int64))
            return Step(stage.item, False, load=found)
        self.wanted.update(stage.reads.values())
        counts = np.zeros((self._blocks, BATCH), np.int32)
        self.tallies.append(((self._part, stage.key), counts))
        return Step(stage.item, save=() if tally is None else self._saved(stage), tally=counts)

    def _saved(self, stage: Stage) -> tuple[tuple[str, np.ndarray], ...]:
        """Room for the results that are read later on and not kept yet."""
        saved = []
        for name, version in stage.writes.items():
            tensor, key = self._program.tensors[name], (self._part, version)
            shape, dtype = (self._blocks, tensor.count * BATCH), stored_dtype(tensor.format)
            room = self._cache.has_room(shape[0] * shape[1] * dtype.itemsize)
            if version in self._staged.read and room and key not in self._cache:
                saved.append((name, np.empty(shape, dtype)))
                self.values.append((key, saved[-1][1]))
        return tuple(saved)
