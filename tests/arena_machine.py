"""Executes a placement on real bytes as the generated code does, and compiles placements as they were planned."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import kernel_cases
import numpy as np
import pytest
from kernel_cases import Case

from tinyhil.formats.codec import storage_dtype
from tinyhil.language.program import Body, Op
from tinyhil.memplan.arena.placement import Placement
from tinyhil.memplan.arena.views import PLACES, is_done_by_plan
from tinyhil.ops import KERNEL_OF
from tinyhil.ops.movement import indices
from tinyhil.references.reference import operand

Written = dict[str, list[list[int]]]  # every value a tensor takes on, in order


class Arena:
    """Executes a placement as the generated code does: planned offsets, and copies left out where both lie together."""

    def __init__(self, placed: Placement, offsets: dict[str, int] | None = None) -> None:
        self.program = placed.program
        self.offsets = offsets or dict(placed.plan.offsets)
        self.plan = replace(placed.plan, offsets=self.offsets)
        self.bytes = np.random.default_rng(1).integers(0, 256, placed.plan.peak_bytes, np.uint8)

    def run(self, sample: np.ndarray) -> np.ndarray:
        self.rows = {}
        if self.program.input_in_arena:
            self._place(self.program.input)[:] = sample
        else:
            self.rows[self.program.input] = lambda: sample
        self.written: Written = defaultdict(list)
        self._execute(self.program.body)
        return self._value(self.program.output).astype(np.int64)

    def _place(self, name: str) -> np.ndarray:
        tensor = self.program.tensors[name]
        start = self.offsets[name]
        return self.bytes[start : start + tensor.size_bytes].view(storage_dtype(tensor.format))

    def _value(self, name: str) -> np.ndarray:
        if name in self.program.constants:
            return self.program.constants[name]
        return self.rows[name]() if name in self.rows else self._place(name)

    def _execute(self, body: Body) -> None:
        for item in body:
            if isinstance(item, Op):
                self._operation(item)
                continue
            for step in range(item.count):
                for sequence, row in item.slices:  # rows are pointers: read when an operation reads them
                    count = self.program.tensors[row].count
                    part = slice(step * count, (step + 1) * count)
                    self.rows[row] = lambda sequence=sequence, part=part: self._value(sequence)[part]
                self._execute(item.body)

    def _operation(self, op: Op) -> None:
        if not is_done_by_plan(self.program, self.plan, op):
            values = {name: self._value(name).astype(np.int64)[None, :] for name in op.inputs}
            arrays = [operand(self.program, op, index, values) for index in range(len(op.inputs))]
            fmt = self.program.tensors[op.output].format
            made = KERNEL_OF[op.kernel].execute(op, arrays, fmt)[0][0]
            written = indices(dict(op.params)) if op.kernel in PLACES else slice(None)
            self._place(op.output)[written] = made[written]
        if op.kernel not in PLACES:  # until the last part is in place, the rest is anything
            self.written[op.output].append(self._place(op.output).tolist())


def compiled_cases(
    placements: list[Placement], inputs: list[np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> list[Case]:
    """Cases that are emitted with these plans, not with those the helper would make."""
    plans = {id(placed.program): placed for placed in placements}
    monkeypatch.setattr(kernel_cases, "problem_of", lambda program: plans[id(program)])
    monkeypatch.setattr(kernel_cases, "plan", lambda placed: placed.plan)
    return [Case(f"case {i}", p.program, x) for i, (p, x) in enumerate(zip(placements, inputs, strict=True))]
