"""`hil diff`: one sample on a board whose firmware sends every tensor it computes, compared with the reference.

The first tensor that differs is where board and host part: what follows differs only because of it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from codegen.model import Target, emit_model
from codegen.value_log import is_logged
from codegen.views import is_done_by_plan
from harness import protocol
from harness.build import build
from harness.claim import claim
from harness.config import Boards
from harness.crash import explain_crash
from harness.image import Image, check_fits
from harness.inputs import load_inputs
from harness.link import Link
from harness.locate import Place
from harness.pipeline import Compiled, compile_model
from harness.protocol import Message, Values
from harness.run import (
    Request,
    blame_the_dead,
    check_weights,
    connect,
    find_assignment,
    find_place,
    find_ranges,
    flash_unless_running,
    log_folder,
)
from harness.stream import Options, check_identity, greet, stream
from harness.zoo import find_model
from tinyhil.errors import DataError, LinkError
from tinyhil.evaluate import shape_inputs
from tinyhil.formats.codec import storage_dtype
from tinyhil.frontend.load import load_model
from tinyhil.program import Loop, Op, Program
from tinyhil.reference import quantize_inputs, run_reference

Say = Callable[[str], None]


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
        return {**asdict(self), "equal": self.first is None}


@dataclass(frozen=True, slots=True)
class Device:
    """Where the sample is computed."""

    request: Request
    place: Place
    boards: Boards
    cache_dir: Path
    say: Say


class ValueLink(Link):
    """A link that keeps the tensors on the way; the session sees everything else."""

    def __init__(self, port: str, baud: int) -> None:
        super().__init__(port, baud)
        self.values: list[Values] = []

    def receive(self, timeout_s: float) -> Message | None:
        deadline = time.monotonic() + timeout_s
        while True:
            message = super().receive(max(0.0, deadline - time.monotonic()))
            if not isinstance(message, Values):
                return message
            self.values.append(message)
            deadline = time.monotonic() + timeout_s  # a board that sends values is alive


def diff(request: Request, sample: int, boards: Boards, cache_dir: Path, say: Say) -> Diff:
    """Compare sample number `sample` of the inputs; errors as those of `hil run`."""
    device = Device(request, find_place(request, boards), boards, cache_dir, say)
    source = find_model(request.model)
    model = load_model(source.path)
    inputs = load_inputs(source, request.inputs, None)
    if not 0 <= sample < len(inputs.x):
        raise DataError(f"{inputs.name}: has no sample {sample}, the last is {len(inputs.x) - 1}; see --sample")
    ranges = find_ranges(model, source, inputs, request.calibrate, say)
    board = device.place.board
    compiled = compile_model(
        model, find_assignment(request, model), ranges, list(boards.entries.values()), {board.name}
    )
    check_weights(compiled.program, board)
    x = shape_inputs(model.graph, inputs.x[sample : sample + 1])
    integers, _ = quantize_inputs(compiled.program, x)
    return diff_compiled(device, compiled, integers[0], sample)


def diff_compiled(device: Device, compiled: Compiled, integers: np.ndarray, sample: int) -> Diff:
    """Build with value logging, run `integers` (elements of one sample), compare."""
    board = device.place.board
    target = Target(board.name, board.chip.clock_hz, compiled.transfers[board.name])
    model_hash = bytes.fromhex(compiled.model.sha256)[:8]
    logged = emit_model(compiled.program, compiled.plan, [target], model_hash, logged=True)
    image = build({**compiled.sources, **logged}, board, cache_dir=device.cache_dir, log=device.say)
    check_fits(image, board)
    with claim(device.place, device.boards.bench.locks, device.request.wait_s, device.say) as port:
        if port is not None and not device.request.no_flash:
            flash_unless_running(image, board, port, device.say)
        values = _log(device, port, image, compiled.program, integers)
    wanted = list(_expected(compiled, integers))
    found = _assembled(compiled.program, [op.output for op, _ in wanted], values)
    return _compare(device, compiled.program, sample, wanted, found)


def _log(device: Device, port: str | None, image: Image, program: Program, integers: np.ndarray) -> list[Values]:
    """The tensors that the board sends for one sample."""
    request, board = device.request, device.place.board
    given = integers.astype(storage_dtype(program.tensors[program.input].format)).tobytes()
    patience_s = max(0.05, min(1.0, request.timeout_s / 4))
    options = Options(protocol.QUIET, request.timeout_s, patience_s)
    with log_folder(image.project_dir) as logs, connect(board, port, request, image, logs) as connection:
        opened = ValueLink(connection.port, board.baud)
        with explain_crash(image.elf), opened as link, blame_the_dead(connection):
            hello = greet(link, request.timeout_s, connection.banner_s, connection.alive)
            check_identity(hello, image.hash, connection.port)
            stream(link, hello, [given], options, lambda index, result: None, connection.alive)
        connection.finish()
    return opened.values


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
