"""`hil run`: model -> firmware -> board -> measurements -> record, each stage real and timed."""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from tinyhil.agreement import Agreement
from tinyhil.compiler.calibrate import Ranges
from tinyhil.errors import ConfigError, DataError, LinkError
from tinyhil.formats.codec import storage_dtype
from tinyhil.formats.format import Domain
from tinyhil.harness.boards import simulated
from tinyhil.harness.boards.claim import claim
from tinyhil.harness.boards.locate import Place, locate
from tinyhil.harness.build.board_image import build_firmware, compile_for
from tinyhil.harness.build.emulators import check_emulator, compiled_emulator
from tinyhil.harness.build.image import Image
from tinyhil.harness.build.pipeline import Compiled
from tinyhil.harness.build.toolchain import find_compiler, platformio_command
from tinyhil.harness.build.weights import weigh
from tinyhil.harness.job.inputs import Inputs, about_labels, check_labels
from tinyhil.harness.job.job import LOADS, Request, load_job, method_of, open_model, preferred, wish_for
from tinyhil.harness.job.prompts import teller
from tinyhil.harness.job.zoo import ModelSource
from tinyhil.harness.measure.counter import check_sample, check_session, compare_clocks
from tinyhil.harness.measure.crash import check_memory
from tinyhil.harness.measure.expected import Expected, expected
from tinyhil.harness.measure.other_plans import naming_what_fits
from tinyhil.harness.measure.talk import connect, flash_unless_running, log_folder, talk
from tinyhil.harness.records.partial import PartialRun, SampleResult, require_writable
from tinyhil.harness.settings.config import Boards, BoardSpec
from tinyhil.harness.settings.progress import Progress as Shown
from tinyhil.harness.wire import protocol
from tinyhil.harness.wire.link import Link, wait_for_port
from tinyhil.harness.wire.protocol import Stats
from tinyhil.harness.wire.stream import Distrusted, Options, stream
from tinyhil.harness.wire.trace import SampleTrace, TraceReader
from tinyhil.language.graph import Graph
from tinyhil.language.program import Program
from tinyhil.notice import Say
from tinyhil.preference import Wish
from tinyhil.references.classes import class_count, classes_of
from tinyhil.references.evaluate import shape_inputs
from tinyhil.references.reference import ReferenceRun, quantize_inputs

Progress = Callable[[int, int], None]  # finished samples, all samples


@dataclass(frozen=True, slots=True)
class Sessions:
    """What the sessions of one run share: the board they take place on, and who is told."""

    request: Request
    board: BoardSpec
    port: str | None
    image: Image
    clock: Clock
    say: Say
    progress: Progress
    foreign: bool = False  # the image is not ours
    tell: Callable[[int, bytes], None] = lambda index, output: None  # a sample's number and result, as it comes


@dataclass(frozen=True, slots=True)
class Outcome:
    """Everything the record is made of. Arrays are in sample order."""

    request: Request
    command: str  # that repeats it
    board: BoardSpec
    source: ModelSource
    compiled: Compiled
    ranges: Ranges
    image: Image
    inputs: Inputs
    integers: np.ndarray
    reference: ReferenceRun
    float_outputs: np.ndarray
    agreement: Agreement
    node_saturations: Mapping[int, int]  # by the number of the operation
    outputs: np.ndarray
    ticks: np.ndarray
    saturations: np.ndarray
    input_saturations: int
    stats: Stats
    clock_hz: int  # of the ticks, as the board says
    traces: list[SampleTrace]
    surroundings: Mapping[str, Any]
    port: str | None
    emulated: bool
    attempts: int
    partial: PartialRun
    place: Place
    prefer: str | None  # of which the plan is, while the files of the request are there
    wall_seconds: dict[str, float] = field(default_factory=dict)


class Clock:
    """Wall seconds per stage; `enter` is told when one begins."""

    def __init__(self, enter: Callable[[str], None] = lambda name: None) -> None:
        self.seconds: dict[str, float] = {}
        self._enter = enter

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time what happens inside, added to what the same stage took before."""
        begin = time.monotonic()
        self._enter(name)
        try:
            yield
        finally:
            self.seconds[name] = round(self.seconds.get(name, 0.0) + time.monotonic() - begin, 4)


def wish_of(request: Request) -> Wish:
    """What a request asks of the plan of memory."""
    wish = wish_for(request.assignment, request.prefer)
    return replace(wish, overlapped=request.mode == "stream", ram_bytes=request.ram)


def run(request: Request, boards: Boards, cache_dir: Path, say: Say, progress: Progress) -> Outcome:
    """Run one model on one board. Raises HilError of the stage that failed; finished samples survive on disk.

    ConfigError for a time-out that is no number.
    """
    if not 0 < request.timeout_s < float("inf"):
        raise ConfigError(f"--timeout {request.timeout_s}: a number of seconds is needed")
    clock = Clock(progress.enter) if isinstance(progress, Shown) else Clock()
    place = find_place(request, boards)
    board = place.board
    request = replace(request, load=how_loaded(request.load, board))
    check_tools(place, request, cache_dir)
    require_writable(request.results / board.name)
    with clock.stage("model"):
        by = method_of(request.assignment, request.calibrate_by)
        opened = open_model(request.model, say, request.streamed, by=by)
        weigh(opened.model.graph, opened.assignment(request.assignment, request.format), board)
    with clock.stage("data"):
        job = load_job(opened, request, say)
        model, inputs = opened.model, job.inputs
        x = _shaped(model.graph, inputs, request)
    with clock.stage("compile"):
        made = functools.partial(compile_for, board, boards, model, job.assignment, job.ranges)
        compiled = made(wish := wish_of(request))
        integers, clipped = quantize_inputs(compiled.program, x)
    with clock.stage("reference"):
        wanted = expected(compiled, job.ranges, x, integers, speaks=opened.source.text is not None)
        _check(wanted, compiled, inputs)
        for line in _advice(wanted, compiled, inputs, request) if opened.source.text is None else ():
            say(f"{opened.source.name}: {line}")
    with nullcontext() if request.tried else naming_what_fits(wish, compiled, board, made, cache_dir):
        with clock.stage("build"):
            image = build_firmware(compiled, board, cache_dir=cache_dir, log=say)
            if is_simulated(place):
                compiled_emulator(board.chip, cache_dir, say)
        tell = teller(opened.source, x, storage_dtype(compiled.output_format), say)
        sessions = Sessions(request, board, None, image, clock, say, progress, tell=tell)
        measured = _claimed(sessions, place, boards, compiled.program, integers)
    return Outcome(
        request=request,
        command=boards.repeated(request.command()),
        board=board,
        place=place,
        source=opened.source,
        compiled=compiled,
        ranges=job.ranges,
        image=image,
        inputs=inputs,
        integers=integers,
        reference=wanted.reference,
        float_outputs=wanted.float_outputs,
        agreement=wanted.agreement,
        node_saturations=wanted.node_saturations,
        input_saturations=clipped,
        wall_seconds=clock.seconds,
        prefer=preferred(request.assignment, request.prefer, request.ram),
        **measured,
    )


def _shaped(graph: Graph, inputs: Inputs, request: Request) -> np.ndarray:
    """`shape_inputs`; DataError names the file."""
    try:
        return shape_inputs(graph, inputs.x)
    except DataError as error:
        raise DataError(f"{request.inputs or inputs.name}: {error}") from None


def _check(wanted: Expected, compiled: Compiled, inputs: Inputs) -> None:
    """DataError for labels that name no class."""
    check_labels(inputs.name, inputs.y, class_count(compiled.model.graph, wanted.float_outputs.shape[1]))


def _advice(wanted: Expected, compiled: Compiled, inputs: Inputs, request: Request) -> Iterator[str]:
    """What there is to say of samples of one class, and of a format in which nothing is decided."""
    graph, outputs = compiled.model.graph, wanted.float_outputs
    if request.tried:
        return
    if request.drawn:
        if wanted.advice is not None:
            differ = wanted.advice.partition(";")[0]
            yield f"{differ}, of samples drawn at random, which says nothing of real ones: `hil run --inputs` does"
        return
    # Constants may be stored by other names: one that has no effect is no result
    named = compiled.lowered.tensors.keys() | graph.all_constants().keys()
    if merged := sorted(compiled.assignment.values.keys() - named):
        yield f"no effect in {request.assignment}: {', '.join(merged)} became part of a layer's result, which is named"
    if strange := _no_codes(compiled, inputs):
        yield strange
        return
    if alike := about_labels(inputs.y, classes_of(graph, outputs), class_count(graph, outputs.shape[1])):
        yield alike
    if wanted.advice is not None:
        yield wanted.advice


def _no_codes(compiled: Compiled, inputs: Inputs) -> str:
    """What there is to say of samples of a quantized model that are no codes of its input; empty if they are."""
    program = compiled.program
    fmt = program.tensors[program.input].format
    is_stated = compiled.model.graph.inputs[0] in compiled.model.graph.pinned
    if not is_stated or fmt.domain is not Domain.AFFINE or fmt.grid != (1.0, 0):
        return ""
    x, low, high = inputs.x, fmt.lowest, fmt.highest
    strange = np.mean((x != np.round(x)) | (x < low) | (x > high))
    if strange == 0:
        return ""
    return (
        f"{strange:.0%} of the samples' numbers are no codes of its input, whole numbers from {low} to {high}; the "
        "file takes codes: give round(x / scale) + zero, with the scale and zero that it was quantized with"
    )


@dataclass(frozen=True, slots=True)
class Answers:
    """What a board gave: a result for every sample in their order, and what its sessions know beside."""

    results: list[SampleResult]
    attempts: int
    partial: PartialRun
    stats: Stats
    clock_hz: int
    surroundings: Mapping[str, Any]

    @property
    def traces(self) -> list[SampleTrace]:
        """What an emulator counted, where it did."""
        return [result.trace for result in self.results if result.trace is not None]

    def outputs(self, dtype: np.dtype[Any]) -> np.ndarray:
        """(samples, elements) as the board stores them."""
        return np.array([np.frombuffer(result.output, dtype) for result in self.results])

    @property
    def ticks(self) -> np.ndarray:
        """Of each sample."""
        return np.array([result.ticks for result in self.results], np.int64)

    @property
    def saturations(self) -> np.ndarray:
        """Of each sample, as the board counts."""
        return np.array([result.saturations for result in self.results], np.int64)


def stream_all(job: Sessions, samples: list[bytes], output_bytes: int | None) -> Answers:
    """All `samples` through the board, tried again as often as the request allows; LinkError of the last try.

    `output_bytes` None: the board alone knows. DataError if foreign firmware takes samples of another size.
    """
    request, board, port = job.request, job.board, job.port
    with PartialRun(request.results / board.name, run_key(request, port, job.image, samples)) as partial:
        if output_bytes is not None:
            partial.keep(len(samples), output_bytes)
        if partial.results:
            job.say(f"{board.name}: resuming, {len(partial.results)} of {len(samples)} samples are there already")
        for attempt in range(request.retries + 1):
            try:
                found = _session(job, samples, partial)
                break
            except LinkError as error:
                if attempt == request.retries:
                    raise
                job.say(f"{board.name}: {error}; trying again ({attempt + 1} of {request.retries})")
                wait_for_port(port, request.timeout_s)
    results = [partial.results[index] for index in range(len(samples))]
    return Answers(results, attempt + 1, partial, **found)


def _claimed(job: Sessions, place: Place, boards: Boards, program: Program, integers: np.ndarray) -> dict[str, Any]:
    """`_measure` on the board that is claimed for it, flashed first."""
    with claim(place, boards.bench.locks, job.request.wait_s, job.say) as port:
        if port is not None and not job.request.no_flash:
            with job.clock.stage("flash"):
                flash_unless_running(job.image, job.board, port, job.say)
        return _measure(replace(job, port=port), program, integers)


def _measure(job: Sessions, program: Program, integers: np.ndarray) -> dict[str, Any]:
    storage = storage_dtype(program.tensors[program.input].format)
    output = program.tensors[program.output]
    dtype = storage_dtype(output.format)
    answers = stream_all(job, [row.astype(storage).tobytes() for row in integers], output.count * dtype.itemsize)
    return {
        "outputs": answers.outputs(dtype).astype(np.int64),
        "ticks": answers.ticks,
        "saturations": answers.saturations,
        "traces": answers.traces,
        "port": job.port,
        "emulated": job.port is None and not job.board.is_host,
        "attempts": answers.attempts,
        "partial": answers.partial,
        "stats": answers.stats,
        "clock_hz": answers.clock_hz,
        "surroundings": answers.surroundings,
    }


def run_key(request: Request, port: str | None, image: Image, samples: list[bytes]) -> str:
    """Names what may be resumed: this image, on these inputs, measured in this way."""
    import hashlib

    how = f"{request.mode} {request.uart} {request.realtime} {request.emulator} {port} "
    return hashlib.sha256(b"".join([image.hash, how.encode(), *samples])).hexdigest()[:16]


def _session(job: Sessions, samples: list[bytes], partial: PartialRun) -> dict[str, Any]:
    request, board, image = job.request, job.board, job.image
    # never none: the stack's watermark is of this session
    todo = [index for index in range(len(samples)) if index not in partial.results] or [len(samples) - 1]
    mode = protocol.STREAM if request.mode == "stream" else protocol.QUIET
    retry_s = max(0.05, min(1.0, request.timeout_s / 4))
    real_time = job.port is not None
    options = Options(mode, request.timeout_s, retry_s, len(samples) - len(todo), real_time)
    starting = "flash" if job.port is None and request.load == "flash" else "stream"
    with log_folder(image.project_dir) as logs, ExitStack() as stack:
        with job.clock.stage(starting):
            device = stack.enter_context(connect(board, job.port, request, image, logs, foreign=job.foreign))
        trace = TraceReader(logs / "trace.txt")

        def on_result(index: int, result: protocol.Result) -> None:
            counted = trace.sample(index)
            check_sample(board.name, todo[index], counted)
            partial.add(todo[index], result, counted)
            job.tell(todo[index], result.output)
            job.progress(len(partial.results), len(samples))

        with job.clock.stage("stream"):
            with talk(device, board, image, request.timeout_s, Link) as (link, hello):
                if job.foreign:
                    _check_samples(hello, samples, request)
                else:
                    compare_clocks(hello, board, job.say)
                try:
                    stats = stream(link, hello, [samples[index] for index in todo], options, on_result, device.alive)
                except Distrusted:
                    partial.forget()
                    raise
                check_memory(stats, image, board, partial.forget)
            surroundings = device.finish()
            if request.uart == "lifted" and not request.realtime:  # no time passes there while the board waits
                ticks = [partial.results[index].ticks for index in todo]
                check_session(board.name, ticks, surroundings, partial.forget)
            return {"stats": stats, "clock_hz": hello.clock_hz, "surroundings": surroundings}


def _check_samples(hello: protocol.Hello, samples: list[bytes], request: Request) -> None:
    """DataError unless samples have the size that foreign firmware takes."""
    if {len(sample) for sample in samples} != {hello.sample_bytes}:
        raise DataError(
            f"{request.inputs}: samples of {len(samples[0])} B, the firmware takes {hello.sample_bytes} B; "
            "give samples of its shape and type"
        )


def find_place(request: Request, boards: Boards) -> Place:
    """The board that the request means: attached, of the bench, emulated or this computer.

    ConfigError for an emulator on a port.
    """
    if not request.emulator:
        return locate(boards, request.board, request.port)
    if request.port:
        raise ConfigError("--emulator and --port exclude each other: a board on a port is not emulated")
    return Place(request.board, boards.board(request.board).emulated_by(request.emulator))


def is_simulated(place: Place) -> bool:
    """Whether a program of ours will be the board."""
    emulator = place.board.chip.emulator
    return place.port is None and emulator is not None and emulator.kind == "process"


def check_tools(place: Place, request: Request, cache_dir: Path) -> None:
    """BoardError or BuildError, before anything slow is done, if what the run needs is not installed."""
    find_compiler(place.board, cache_dir)
    if not place.board.is_host:
        platformio_command()
    if is_simulated(place):
        check_emulator(place.board.chip)
        if request.load == "flash":
            simulated.check_flasher(place.board)


def how_loaded(wanted: str | None, board: BoardSpec) -> str:
    """How an emulated board gets its image: as `wanted` (`direct` but in `hil run` and sweeps), else as HIL_LOAD says,
    else as a real one: flashed.

    An emulator without a boot loader, QEMU say, is always given its image directly.
    ConfigError if HIL_LOAD says something unknown.
    """
    usual = os.environ.get("HIL_LOAD") or "flash"
    if usual not in LOADS:
        raise ConfigError(f"HIL_LOAD={usual}: it is one of {', '.join(LOADS)}")
    if wanted is not None:
        return wanted
    emulator = board.chip.emulator
    return usual if emulator is not None and emulator.has_loader(board.upload) else "direct"
