"""`hil run --firmware`: an image that somebody else has built, on a board, measured as ours."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tinyhil.errors import ConfigError, DataError, DeviceCrashed
from tinyhil.harness.boards.claim import claim
from tinyhil.harness.build.emulators import compiled_emulator
from tinyhil.harness.engines import published
from tinyhil.harness.engines.firmware_file import WIRE, FirmwareFile, read_firmware
from tinyhil.harness.engines.measurement import Asked, EngineName, Measurement, make_record
from tinyhil.harness.job.inputs import Inputs, read_inputs
from tinyhil.harness.job.job import Request, open_model
from tinyhil.harness.measure.record import latency_of, write_record
from tinyhil.harness.measure.run import Answers, Clock, Progress, Sessions, find_place, is_simulated, stream_all
from tinyhil.harness.measure.talk import flash_unless_running
from tinyhil.harness.records.partial import require_writable
from tinyhil.harness.settings.config import Boards
from tinyhil.notice import Say

NOISE_SEED = 0
UNKNOWN = "not told"


@dataclass(frozen=True, slots=True)
class Bench:
    """Where it takes place: boards, cache, who is told. `counts`: of firmware that speaks MLPerf Tiny's protocol."""

    boards: Boards
    cache_dir: Path
    say: Say
    progress: Progress
    counts: published.Counts = published.TWICE


def run_firmware(path: Path, request: Request, bench: Bench) -> tuple[dict[str, Any], Path]:
    """The record of the firmware at `path` on the request's board, and its file. `request.model` may be empty: nothing
    is then compared with a float model. HilError of what failed."""
    clock = Clock()
    record, done = measured(path, request, bench, clock)
    file = write_record(record, request.results)
    if done is not None:
        done.partial.discard()
    return record, file


def measured(path: Path, request: Request, bench: Bench, clock: Clock) -> tuple[dict[str, Any], Answers | None]:
    """The record, and the answers whose finished samples may go when it is stored. ConfigError for this computer."""
    request = replace(request, load="direct")
    place = find_place(request, bench.boards)
    board = place.board
    if board.is_host:
        raise ConfigError(f"{board.name}: a firmware is an image for a microcontroller; choose another board")
    require_writable(request.results / board.name)
    with clock.stage("model"):
        opened = open_model(request.model, bench.say, request.streamed) if request.model else None
        inputs = _inputs(request, opened)
        firmware = read_firmware(path, board, bench.cache_dir)
    if is_simulated(place):
        compiled_emulator(board.chip, bench.cache_dir, bench.say)
    with claim(place, bench.boards.bench.locks, request.wait_s, bench.say) as port:
        if port is not None and not request.no_flash:
            with clock.stage("flash"):
                flash_unless_running(firmware.image, board, port, bench.say)
        asked = Asked(
            request,
            place,
            port,
            opened.source.name if opened else firmware.card.model or path.stem,
            inputs or Inputs(f"noise, seed {NOISE_SEED}", "synthetic", "", np.zeros((0,), np.float32), None),
            graph=None if opened is None or inputs is None else opened.model.graph,
            model_sha256=opened.model.sha256 if opened else None,
        )
        if firmware.protocol == WIRE:
            found, answers = _by_wire(asked, firmware, inputs, bench, clock)
        else:
            with clock.stage("stream"):
                found, answers = published.measured(asked, firmware, inputs, bench.counts), None
    command = bench.boards.repeated(_command(path, request))
    return make_record(asked, found, command, clock.seconds), answers


def _command(path: Path, request: Request) -> str:
    words = request.command().replace(" --model ''", "", 1)
    return f"{words} --firmware {shlex.quote(str(path))}"


def _inputs(request: Request, opened: Any) -> Inputs | None:
    """The first `--samples` of a file; None: noise will do."""
    if request.inputs is None:
        return None
    found = read_inputs(request.inputs, opened.model if opened else None)
    limit = request.samples
    return replace(found, x=found.x[:limit], y=None if found.y is None else found.y[:limit])


def _by_wire(
    asked: Asked, firmware: FirmwareFile, inputs: Inputs | None, bench: Bench, clock: Clock
) -> tuple[Measurement, Answers]:
    """ConfigError or DataError where it is not known what to send; outputs of a type that is not told stay bytes."""
    card, image, board = firmware.card, firmware.image, asked.board
    if inputs is None:
        raise DataError(f"{firmware.path}: needs --inputs x.npz, samples to send it")
    if card.input is None:
        raise ConfigError(f"{firmware.path}: does not tell the type of its input; say input= in HIL_BENCH_CARD")
    source, target = card.input, card.output
    sent = [source.codes(row.reshape(-1)).tobytes() for row in inputs.x]
    job = Sessions(asked.request, board, asked.port, image, clock, bench.say, bench.progress, foreign=True)
    try:
        answers = stream_all(job, sent, None)
    except DeviceCrashed as error:
        emulator = board.chip.emulator
        if not asked.emulated or emulator is None or emulator.foreign_args or board.chip.core == "avr":
            raise
        less = f"the emulated {board.chip.name} has no more than tinyhil's own firmware touches: try it on a board"
        raise DeviceCrashed(f"{error}; {less}", error.pc) from None
    outputs = [result.output for result in answers.results]
    found = Measurement(
        engine=EngineName(card.engine or UNKNOWN, card.version, {firmware.path.name: firmware.sha256}),
        input=source,
        output=target,
        sent=sent,
        outputs=outputs,
        reals=None if target is None else target.reals_of(outputs, str(firmware.path)),
        latency=_latency(asked, answers),
        ticks=answers.ticks.tolist(),
        instructions=[trace.instructions for trace in answers.traces],
        image=image,
        identity=image.hash.hex(),
        stack_bytes=answers.stats.stack_bytes,
        heap_bytes=answers.stats.heap_bytes,
        arena_bytes=card.arena_bytes,
        surroundings=answers.surroundings,
    )
    return found, answers


def _latency(asked: Asked, answers: Answers) -> dict[str, Any]:
    """The key `latency`. Ticks of another clock than the one that the chip runs at are no cycles."""
    board, hz, mode = asked.board, answers.clock_hz, asked.request.mode
    found = latency_of(board, answers.ticks, answers.traces, hz, mode, emulated=asked.emulated)
    if hz != answers.surroundings.get("clock_hz", board.chip.clock_hz):
        found["unit"] = published.MICROSECONDS if hz == 1_000_000 else "ticks"
    return found
