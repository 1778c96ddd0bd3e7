"""Every tensor that an engine computes for one sample, ours or another's, in the words of the model's graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path

import numpy as np

from tinyhil.errors import ConfigError, DataError, LinkError
from tinyhil.formats.codec import dequantize
from tinyhil.harness.boards.claim import claim
from tinyhil.harness.build.board_image import compile_for
from tinyhil.harness.engines.engine import Tap
from tinyhil.harness.engines.engine_run import built_for, image_of, prepare, samples_of
from tinyhil.harness.engines.firmware_run import Bench
from tinyhil.harness.engines.port import Port
from tinyhil.harness.engines.standing import OURS
from tinyhil.harness.job.job import Request, load_job, open_model
from tinyhil.harness.measure.diff import board_tensors
from tinyhil.harness.measure.run import find_place, wish_of
from tinyhil.harness.measure.variant import Device, run_reporting
from tinyhil.harness.wire.protocol import Values
from tinyhil.language.graph import Graph
from tinyhil.memplan.arena.passes import ROWS
from tinyhil.references.evaluate import evaluate, shape_inputs
from tinyhil.references.reference import quantize_inputs


@dataclass(frozen=True, slots=True)
class EngineTensor:
    """A tensor of the graph as an engine has it: `reals` (elements,) in the graph's order; `step`: what one unit of its
    codes is worth, None where it computes in floats."""

    reals: np.ndarray
    step: float | None


def tensors_of(
    engine: str, source: Path | None, request: Request, sample: int, bench: Bench
) -> dict[str, EngineTensor]:
    """By the names of the graph. HilError of what failed; ConfigError for an engine that tells of no tensors, DataError
    if there is no such sample."""
    return _of_ours(request, sample, bench) if engine == OURS else _of_other(engine, source, request, sample, bench)


def float_tensors(graph: Graph, x: np.ndarray) -> dict[str, np.ndarray]:
    """What the float model has for each of its tensors, (elements,), for one sample (1, ...)."""
    found: dict[str, np.ndarray] = {}
    evaluate(graph, x, lambda name, array: found.__setitem__(name, array[0].reshape(-1)))
    return found


def _of_ours(request: Request, sample: int, bench: Bench) -> dict[str, EngineTensor]:
    device = Device(request, find_place(request, bench.boards), bench.boards, bench.cache_dir, bench.say)
    opened = open_model(request.model, None, request.streamed)
    job = load_job(opened, replace(request, samples=None), bench.say)
    x = _chosen(job.inputs.x, job.inputs.name, sample)
    board, graph = device.place.board, opened.model.graph
    plain = (ROWS.name,)  # by rows no layer is ever there as a whole; its integers are the same
    compiled = compile_for(board, bench.boards, opened.model, job.assignment, job.ranges, wish_of(request), plain)
    integers, _ = quantize_inputs(compiled.program, shape_inputs(graph, x))
    shapes = graph.all_shapes()
    wanted, arrays = board_tensors(device, compiled, integers[0])
    formats = {op.output: compiled.program.tensors[op.output].format for op, _ in wanted}
    found = {}
    for (op, _), codes in zip(wanted, arrays, strict=True):
        if op.output not in shapes or prod(shapes[op.output]) != codes.size:
            continue  # a part of a tensor, or laid out for a kernel
        fmt = formats[op.output]
        step = None if fmt.grid is None else float(fmt.grid[0])
        found[op.output] = EngineTensor(dequantize(codes, fmt).astype(np.float32), step)
    return found


def _of_other(engine: str, source: Path | None, request: Request, sample: int, bench: Bench) -> dict[str, EngineTensor]:
    job, inputs = prepare(engine, source, replace(request, samples=None), bench, tells=True)
    x = _chosen(inputs.x, inputs.name, sample)
    with claim(job.place, bench.boards.bench.locks, request.wait_s, bench.say) as port:
        built = built_for(job, port)
        if not built.taps:
            raise ConfigError(f"{engine}: tells of no tensors between its ends; compare it by `hil run --engine`")
        image = image_of(job, built)
    sent = samples_of(job.task.opened, built, replace(inputs, x=x))
    device = Device(job.request, job.place, bench.boards, bench.cache_dir, bench.say)
    messages = [one for one in run_reporting(device, image, sent).messages if isinstance(one, Values)]
    graph = job.task.opened.model.graph
    return in_words_of(
        graph, built.taps, _assembled(built.taps, messages), float_tensors(graph, shape_inputs(graph, x))
    )


def _chosen(x: np.ndarray, name: str, sample: int) -> np.ndarray:
    if not 0 <= sample < len(x):
        raise DataError(f"{name}: has no sample {sample}, the last is {len(x) - 1}; see --sample")
    return x[sample : sample + 1]


def _assembled(taps: Sequence[Tap], messages: Sequence[Values]) -> list[np.ndarray]:
    """The codes of each tap. LinkError if frames are missing: the wire does not repeat them."""
    found = [b""] * len(taps)
    for message in messages:
        if message.tensor >= len(taps) or message.offset != len(found[message.tensor]):
            raise LinkError("the log of values lacks a part: a frame was lost; try again")
        found[message.tensor] += message.data
    for tap, data in zip(taps, found, strict=True):
        if len(data) != tap.size_bytes:
            raise LinkError(f"the log of values lacks part of tensor '{tap.name}': a frame was lost; try again")
    return [np.frombuffer(data, tap.port.dtype) for tap, data in zip(taps, found, strict=True)]


def in_words_of(
    graph: Graph, taps: Sequence[Tap], arrays: Sequence[np.ndarray], floats: Mapping[str, np.ndarray]
) -> dict[str, EngineTensor]:
    """Tensors of a file as those of the graph that was read from it. A file's maps have channels innermost, the graph's
    are planes: where a shape allows for both, what is nearer to the float model."""
    found, shapes = {}, graph.all_shapes()
    for tap, codes in zip(taps, arrays, strict=True):
        name = name_in(graph, tap.name)
        if name is None or name not in floats or prod(shapes[name]) != codes.size:
            continue
        reals = tap.port.reals(codes)
        ways = [reals]
        if len(tap.shape) == 4:
            ways.append(reals.reshape(tap.shape).transpose(0, 3, 1, 2).reshape(-1))
        nearest = min(ways, key=lambda one: float(np.square(one - floats[name]).sum()))
        found[name] = EngineTensor(nearest, _step(tap.port))
    return found


def name_in(graph: Graph, name: str) -> str | None:
    """The tensor of the graph, or of a loop's body, that holds what a file's tensor does: of what reading has made of
    one operator the last that is no rearrangement and no codes."""
    shapes = graph.all_shapes()
    for candidate in (f"{name}.fakequantize", name):
        if candidate in shapes:
            return candidate
    nodes = (node for node in graph.walk() if node.op not in ("Transpose", "ToCodes"))
    made = [out for node in nodes for out in node.outputs if out.startswith(f"{name}.")]
    return made[-1] if made else None


def _step(port: Port) -> float | None:
    return None if port.type == "float32" else port.scale
