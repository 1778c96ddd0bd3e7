"""`hil run --engine`: a model computed by somebody else's engine; board, samples, wire and record are ours."""

from __future__ import annotations

import hashlib
import shlex
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tinyhil import files
from tinyhil.errors import ConfigError, DataError, DeviceCrashed, DoesNotFit
from tinyhil.harness.boards.claim import claim
from tinyhil.harness.boards.locate import Place
from tinyhil.harness.build.compile import build
from tinyhil.harness.build.emulators import compiled_emulator
from tinyhil.harness.build.image import Image, check_fits
from tinyhil.harness.build.toolchain import find_compiler
from tinyhil.harness.engines.engine import Built, Engine, Task, tree_hash, version_of
from tinyhil.harness.engines.engine_project import sources_of
from tinyhil.harness.engines.firmware_run import Bench
from tinyhil.harness.engines.measurement import Asked, EngineName, Measurement, make_record
from tinyhil.harness.engines.objects import engine_folder
from tinyhil.harness.engines.registry import engine_named
from tinyhil.harness.job.inputs import Inputs, load_inputs
from tinyhil.harness.job.job import Opened, Request, open_model
from tinyhil.harness.measure.record import latency_of, write_record
from tinyhil.harness.measure.run import Answers, Clock, Sessions, check_tools, find_place, is_simulated, stream_all
from tinyhil.harness.measure.talk import flash_unless_running
from tinyhil.harness.records.partial import require_writable
from tinyhil.language.graph import element_count


@dataclass(frozen=True, slots=True)
class EngineRun:
    """What the stages share."""

    request: Request
    bench: Bench
    place: Place
    engine: Engine
    task: Task
    clock: Clock


def run_engine(name: str, source: Path | None, request: Request, bench: Bench) -> tuple[dict[str, Any], Path]:
    """The record of `name` on the request's model and board, and its file. `source`: a checkout of the engine, None:
    one of HIL_ENGINES. HilError of what failed; ConfigError without a compiler."""
    job, inputs = prepare(name, source, request, bench)
    require_writable(request.results / job.place.board.name)
    with claim(job.place, bench.boards.bench.locks, request.wait_s, bench.say) as port:
        with job.clock.stage("build"):
            built = built_for(job, port)
            image = image_of(job, built)
        record, answers = _measured(job, built, image, inputs, port)
    file = write_record(record, request.results)
    answers.partial.discard()
    return record, file


def prepare(
    name: str, source: Path | None, request: Request, bench: Bench, *, tells: bool = False
) -> tuple[EngineRun, Inputs]:
    """What an engine needs on a board, and the samples; nothing is built yet. HilError of what is missing, ConfigError
    without a compiler."""
    engine_named(name)
    request = replace(request, load="direct")
    clock = Clock()
    with clock.stage("model"):
        opened = open_model(request.model, bench.say, request.streamed)
        job = engine_job(name, source, request, opened, bench, tells=tells)
        inputs = load_inputs(opened.source, request.inputs, request.samples, opened.model)
    return replace(job, clock=clock), inputs


def engine_job(
    name: str, source: Path | None, request: Request, opened: Opened, bench: Bench, *, tells: bool = False
) -> EngineRun:
    """An engine with a model on the request's board. ConfigError for an engine that is unknown or without sources, or
    without a compiler; ModelError for a file that it does not read."""
    engine = engine_named(name)
    engine.check_reads(opened.source.path)
    place = find_place(request, bench.boards)
    check_tools(place, request, bench.cache_dir)
    compiler = find_compiler(place.board, bench.cache_dir)
    if compiler.path is None:
        raise ConfigError(f"{place.board.name}: {compiler.name} is not installed; `hil doctor` says how to get it")
    task = Task(opened, place.board, compiler, engine.checkout(source), bench.cache_dir, bench.say, tells=tells)
    if is_simulated(place):
        compiled_emulator(place.board.chip, bench.cache_dir, bench.say)
    return EngineRun(request, bench, place, engine, task, Clock())


def built_for(job: EngineRun, port: str | None) -> Built:
    """The engine with the model, and with as much working memory as it has said that it needs."""
    built = job.engine.build(job.task)
    return built if built.resized is None else built.resized(_arena_used(job, built, port))


def image_of(job: EngineRun, built: Built, *, probes: bool = False) -> Image:
    """Compiled and linked; DoesNotFit if it has no room."""
    board = job.place.board
    image = build(sources_of(built, board, probes=probes), board, cache_dir=job.bench.cache_dir, log=lambda line: None)
    check_fits(image, board)
    return image


def _arena_used(job: EngineRun, built: Built, port: str | None) -> int:
    """What the engine says it needs, asked of it once on the board. DoesNotFit if it can not begin there."""
    board = job.place.board
    identity = hashlib.sha256(built.archive + board.name.encode()).hexdigest()[:16]
    known = engine_folder(job.task) / f"arena-{identity}.txt"
    if known.is_file():
        return int(known.read_text(encoding="utf-8"))
    image = image_of(job, built, probes=True)
    if port is not None:
        flash_unless_running(image, board, port, job.bench.say)
    with tempfile.TemporaryDirectory(prefix="hil-arena-") as folder:
        request = replace(job.request, results=Path(folder))
        session = Sessions(request, board, port, image, Clock(), job.bench.say, lambda done, total: None)
        try:
            answers = stream_all(session, [bytes(built.input_count * built.input.dtype.itemsize)], None)
        except DeviceCrashed as error:
            why = f"does not begin with as much working memory as there is: {error}; choose a board with more RAM"
            raise DoesNotFit(f"{board.name}: {job.engine.name} {why}") from None
        used = int.from_bytes(answers.results[0].output, "little")
        answers.partial.discard()
    files.write_text(known, f"{used}\n")
    return used


def samples_of(opened: Opened, built: Built, inputs: Inputs) -> list[bytes]:
    """As they are sent. DataError for samples of another size."""
    sizes = {row.size for row in inputs.x}
    if sizes != {built.input_count}:
        shape = opened.model.graph.shapes[opened.model.graph.inputs[0]]
        raise DataError(f"{inputs.name}: {min(sizes)} numbers per sample, the model takes {element_count(shape)}")
    return [built.input.codes(row.reshape(-1)).tobytes() for row in inputs.x]


def _measured(
    job: EngineRun, built: Built, image: Image, inputs: Inputs, port: str | None
) -> tuple[dict[str, Any], Answers]:
    request, board, bench, opened = job.request, job.place.board, job.bench, job.task.opened
    sent = samples_of(opened, built, inputs)
    if port is not None and not request.no_flash:
        with job.clock.stage("flash"):
            flash_unless_running(image, board, port, bench.say)
    session = Sessions(request, board, port, image, job.clock, bench.say, bench.progress)
    answers = stream_all(session, sent, built.output_count * built.output.dtype.itemsize)
    asked = Asked(request, job.place, port, opened.source.name, inputs, opened.model.graph, opened.model.sha256)
    beside = {f"{folder.name}_sha256": tree_hash(folder) for folder in built.beside}
    versions = {**version_of(job.task.source), **beside}
    outputs = [result.output for result in answers.results]
    found = Measurement(
        engine=EngineName(job.engine.name, versions.get("commit"), versions),
        input=built.input,
        output=built.output,
        sent=sent,
        outputs=outputs,
        reals=built.output.reals_of(outputs, job.engine.name),
        latency=latency_of(
            board, answers.ticks, answers.traces, answers.clock_hz, request.mode, emulated=asked.emulated
        ),
        ticks=answers.ticks.tolist(),
        instructions=[trace.instructions for trace in answers.traces],
        image=image,
        identity=image.hash.hex(),
        stack_bytes=answers.stats.stack_bytes,
        heap_bytes=answers.stats.heap_bytes,
        arena_bytes=built.arena_bytes,
        surroundings=answers.surroundings,
    )
    command = f"{request.command()} --engine {job.engine.name} --engine-source {shlex.quote(str(job.task.source))}"
    return make_record(asked, found, bench.boards.repeated(command), job.clock.seconds), answers
