"""One board with one model's firmware for MLPerf Tiny: compiled, flashed or emulated, and ready to be asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tinyhil.codegen.benchmark import codes_at
from tinyhil.compiler.calibrate import Ranges
from tinyhil.errors import DataError
from tinyhil.frontend.tflite_sound import load_sound
from tinyhil.harness.boards import attached, host, simulated
from tinyhil.harness.boards.claim import claim
from tinyhil.harness.boards.connection import PINS, Connection, Session
from tinyhil.harness.boards.flash import flash
from tinyhil.harness.boards.locate import Place, locate
from tinyhil.harness.build.board_image import build_firmware
from tinyhil.harness.build.image import Image
from tinyhil.harness.build.weights import check_weights
from tinyhil.harness.job.inputs import calibrated
from tinyhil.harness.job.job import Opened, method_of, open_model
from tinyhil.harness.job.zoo import find_model
from tinyhil.harness.measure.run import is_simulated
from tinyhil.harness.measure.talk import log_folder
from tinyhil.harness.mlperf.benchmarks import HEARD, Benchmark, benchmark_of, graph_inputs, real_outputs, report_of
from tinyhil.harness.mlperf.evaluation_sets import calibration, evaluation
from tinyhil.harness.mlperf.firmware import compile_mlperf, for_energy
from tinyhil.harness.mlperf.listening import SECONDS, records, some_sound
from tinyhil.harness.settings.config import Boards, BoardSpec
from tinyhil.language.program import Program
from tinyhil.notice import Say
from tinyhil.references.reference import dequantize_outputs, quantize_inputs, run_reference


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the user asked for; the fields are options of `hil mlperf`."""

    board: str
    model: str
    format: str = "int8"
    assignment: Path | None = None
    calibrate: Path | None = None
    calibrate_by: str | None = None
    port: str | None = None
    no_flash: bool = False
    energy: bool = False
    accuracy: bool = False
    sound: bool = False
    uart: str = "lifted"
    realtime: bool = False
    wait_s: float | None = None


@dataclass(frozen=True, slots=True)
class Ready:
    """A compiled model and where it will run. `program` None: an engine of somebody else's computes, which `engine`
    names, and what it should report is not known beforehand."""

    wanted: Wanted
    place: Place
    board: BoardSpec
    opened: Opened
    benchmark: Benchmark
    program: Program | None
    image: Image
    arena_bytes: int | None
    engine: Mapping[str, Any] | None = None

    @property
    def emulated(self) -> bool:
        """No port was found or given."""
        return self.place.port is None

    def reported(self, raw: np.ndarray) -> np.ndarray | None:
        """What the board must report (samples, numbers) for what it is sent (samples, input_bytes): the reference."""
        graph, program = self.opened.model.graph, self.program
        if program is None:
            return None
        integers, _ = quantize_inputs(program, graph_inputs(self.benchmark, graph, raw))
        outputs = dequantize_outputs(program, run_reference(program, integers).outputs)
        return report_of(self.benchmark, real_outputs(outputs, codes_at(graph, "ToCodes")), raw)


def prepare(wanted: Wanted, boards: Boards, cache_dir: Path, say: Say) -> Ready:
    """Compile and build; raises HilError of the stage that failed."""
    opened = heard(wanted, say) if wanted.sound else open_model(wanted.model, say, by=_method(wanted))
    benchmark = HEARD if wanted.sound else benchmark_of(opened.model.graph, opened.model.path)
    if wanted.accuracy:
        evaluation(benchmark)  # DataError before anything is built and timed
    place = locate(boards, wanted.board, wanted.port)
    assignment = opened.assignment(wanted.assignment, wanted.format)
    if wanted.sound:
        ranges = calibrated(opened.model, records(some_sound(SECONDS)), {"name": "noise and tones"}, opened.by)
    else:
        ranges = ranges_at_hand(opened, benchmark, wanted.calibrate, say)
    others = [board for board in boards.entries.values() if board.name == place.board.name]
    required = {place.board.name}
    compiled = compile_mlperf(
        opened.model, assignment, ranges, others, required, energy=wanted.energy, benchmark=benchmark
    )
    board = for_energy(place.board) if wanted.energy else place.board
    check_weights(compiled.program, board)
    image = build_firmware(compiled, board, cache_dir=cache_dir, log=say)
    if is_simulated(place):
        simulated.compiled_emulator(board.chip, cache_dir, say)
    return Ready(wanted, place, board, opened, benchmark, compiled.program, image, compiled.plan.peak_bytes)


def _method(wanted: Wanted) -> str:
    return method_of(wanted.assignment, wanted.calibrate_by)


def heard(wanted: Wanted, say: Say) -> Opened:
    """The wake word's network with the sound before it; ModelError for another one."""
    source = find_model(wanted.model)
    model = load_sound(source.path, source.rounding)
    for note in model.notes:
        say(f"{source.name}: {note}")
    return Opened(source, model, _method(wanted))


def ranges_at_hand(opened: Opened, benchmark: Benchmark, given: Path | None, say: Say) -> Ranges:
    """Known ranges, else from data at hand (said); DataError if there is neither."""
    known = opened.known_ranges(given)
    if known is not None:
        return known
    try:
        data = calibration(benchmark)
    except DataError as error:
        unused = opened.ranges_that_do_not_matter()
        if unused is not None:
            return unused
        raise DataError(f"{opened.source.path}: no calibrated ranges; give --calibrate inputs.npz, {error}") from None
    x = graph_inputs(benchmark, opened.model.graph, data.raw)
    if codes_at(opened.model.graph, "FromCodes") is None:
        say(f"no calibrated ranges: calibrating on {len(x)} inputs of {data.name} (choose others: --calibrate)")
    return calibrated(opened.model, x, {"name": data.name}, opened.by)


@dataclass(frozen=True, slots=True)
class Running:
    """`pins`: the file in which an emulator writes the edges of its outputs."""

    connection: Connection
    pins: Path


@contextmanager
def switched_on(ready: Ready, boards: Boards, say: Say) -> Iterator[Running]:
    """The board with the firmware in it. Opening the port resets an emulated one only if it resets the real one."""
    wanted, board = ready.wanted, ready.board
    with ExitStack() as stack:
        port = stack.enter_context(claim(ready.place, boards.bench.locks, wanted.wait_s, say))
        logs = stack.enter_context(log_folder(ready.image.project_dir))
        if port is not None:
            if not wanted.no_flash:
                say(f"{board.name}: flashing {port}")
                flash(ready.image, board, port, logs / "flash.log")
            yield Running(stack.enter_context(attached.connect(board, port)), logs / PINS)
            return
        image = ready.image
        settings = Session(
            image.load_path, logs, wanted.uart, wanted.realtime, image.static_bytes, keeps_running=True, watch_pins=True
        )
        start = host.connect if board.is_host else simulated.connect
        yield Running(stack.enter_context(start(board, settings)), logs / PINS)
