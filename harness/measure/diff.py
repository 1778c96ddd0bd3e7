"""`hil diff`: one sample on a board whose firmware sends every tensor it computes, compared with the reference.

The first tensor that differs is where board and host part: what follows differs only because of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tinyhil.codegen.body import VALUES
from tinyhil.codegen.value_log import is_logged
from tinyhil.errors import DataError, LinkError
from tinyhil.formats.codec import storage_dtype
from tinyhil.harness.build.board_image import compile_for
from tinyhil.harness.build.pipeline import Compiled
from tinyhil.harness.job.job import Request, load_job, method_of, open_model
from tinyhil.harness.measure.run import find_place, wish_of
from tinyhil.harness.measure.variant import Device, run_variant
from tinyhil.harness.settings.config import Boards
from tinyhil.harness.wire.protocol import Values
from tinyhil.language.program import Loop, Op, Program
from tinyhil.memplan.arena.views import is_done_by_plan
from tinyhil.notice import Say
from tinyhil.references.evaluate import shape_inputs
from tinyhil.references.reference import quantize_inputs, run_reference


@dataclass(frozen=True, slots=True)
class Difference:
    """The first element that differs: when the tensor was written (0: the first time), where, and both integers."""

    tensor: str
    node: str
    execution: int
    element: int
    board: int
    host: int

    def __str__(self) -> str:
        again = f", written for the {self.execution + 1}. time" if self.execution else ""
        return (
            f"tensor '{self.tensor}' (node '{self.node}'{again}): element {self.element} is {self.board} on the "
            f"board, {self.host} on the host"
        )


@dataclass(frozen=True, slots=True)
class TensorDiff:
    """All executions of the operations that write one tensor. `different` counts elements."""

    tensor: str
    format: str
    executions: int
    elements: int
    different: int


@dataclass(frozen=True, slots=True)
class Diff:
    """Tensors in the order in which they are first written; `first` is None where all are equal."""

    board: str
    model: str
    sample: int
    tensors: tuple[TensorDiff, ...]
    first: Difference | None

    def as_json(self) -> dict[str, Any]:
        """As the record has it, with `equal` for all tensors."""
        return {**asdict(self), "equal": self.first is None}


def diff(request: Request, sample: int, boards: Boards, cache_dir: Path, say: Say) -> Diff:
    """Compare sample number `sample` of the inputs; errors as those of `hil run`.

    DataError if there is no such sample.
    """
    device = Device(request, find_place(request, boards), boards, cache_dir, say)
    opened = open_model(request.model, None, request.streamed, by=method_of(request.assignment, request.calibrate_by))
    job = load_job(opened, replace(request, samples=None), say)
    model, inputs = opened.model, job.inputs
    if not 0 <= sample < len(inputs.x):
        raise DataError(f"{inputs.name}: has no sample {sample}, the last is {len(inputs.x) - 1}; see --sample")
    board = device.place.board
    compiled = compile_for(board, boards, model, job.assignment, job.ranges, wish_of(request))
    x = shape_inputs(model.graph, inputs.x[sample : sample + 1])
    integers, _ = quantize_inputs(compiled.program, x)
    return diff_compiled(device, compiled, integers[0], sample)


def diff_compiled(device: Device, compiled: Compiled, integers: np.ndarray, sample: int) -> Diff:
    """Build with value logging, run `integers` (elements of one sample), compare."""
    wanted, found = board_tensors(device, compiled, integers)
    return _compare(device, compiled.program, sample, wanted, found)


def board_tensors(
    device: Device, compiled: Compiled, integers: np.ndarray
) -> tuple[list[tuple[Op, np.ndarray]], list[np.ndarray]]:
    """Every tensor of one sample, as the reference has it with the operation that writes it, and as the board says."""
    values = run_variant(device, compiled, VALUES, integers[None]).messages
    wanted = list(_expected(compiled, integers))
    names = [op.output for op, _ in wanted]
    return wanted, _assembled(compiled.program, names, [value for value in values if isinstance(value, Values)])


def _expected(compiled: Compiled, integers: np.ndarray) -> Iterator[tuple[Op, np.ndarray]]:
    """What a board must send, in order: the operation and the integers of its output."""
    program, plan = compiled.program, compiled.plan
    written: list[np.ndarray] = []
    run_reference(program, integers[None].astype(np.int64), lambda name, array: written.append(array[0].copy()))
    for op, array in zip(_executed(program.body), written, strict=True):
        if not is_done_by_plan(program, plan, op) and is_logged(program, op):
            yield op, array


def _executed(body: Sequence[Op | Loop]) -> Iterator[Op]:
    for item in body:
        if isinstance(item, Op):
            yield item
        else:
            for _ in range(item.count):
                yield from _executed(item.body)


def _assembled(program: Program, names: Sequence[str], values: Sequence[Values]) -> list[np.ndarray]:
    """The integers of each tensor; LinkError if frames are missing: the wire does not repeat them."""
    numbers = {name: number for number, name in enumerate(program.tensors)}
    frames = iter(values)
    found = []
    for name in names:
        tensor, data = program.tensors[name], b""
        while len(data) < tensor.size_bytes:
            frame = next(frames, None)
            if frame is None or frame.tensor != numbers[name] or frame.offset != len(data):
                raise LinkError(f"the log of values lacks part of tensor '{name}': a frame was lost; try again")
            data += frame.data
        found.append(np.frombuffer(data, storage_dtype(tensor.format)).astype(np.int64))
    return found


def _compare(
    device: Device, program: Program, sample: int, wanted: list[tuple[Op, np.ndarray]], found: list[np.ndarray]
) -> Diff:
    first = None
    counts: dict[str, list[int]] = {}  # executions, elements, different
    for (op, host), board in zip(wanted, found, strict=True):
        entry = counts.setdefault(op.output, [0, 0, 0])
        places = np.flatnonzero(host != board)
        if first is None and len(places):
            at = int(places[0])
            first = Difference(op.output, op.name, entry[0], at, int(board[at]), int(host[at]))
        entry[0] += 1
        entry[1] += len(host)
        entry[2] += len(places)
    tensors = tuple(TensorDiff(name, str(program.tensors[name].format), *entry) for name, entry in counts.items())
    return Diff(device.place.board.name, device.request.model, sample, tensors, first)
