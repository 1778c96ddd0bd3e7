"""Firmware that answers MLPerf Tiny's runner: the model of `hil run`, with another program around it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from tinyhil.codegen.benchmark import MAIN, MAIN_TEXT, Meaning, Sound, emit_benchmark
from tinyhil.compiler.calibrate import Ranges
from tinyhil.errors import ConfigError
from tinyhil.frontend.listing import Model
from tinyhil.frontend.tflite_sound import BANDS, BESIDE, HOP, ROWS
from tinyhil.harness.build.pipeline import Compiled, compile_model
from tinyhil.harness.build.platformio import project_files
from tinyhil.harness.mlperf.benchmarks import WAKE_SCALE, WAKE_ZERO, Benchmark, benchmark_of
from tinyhil.harness.settings.config import BoardSpec
from tinyhil.language.assignment import Assignment
from tinyhil.preference import Wish

ENERGY_BAUD = 9600
OUR_SESSION = "firmware/wire/session.cpp"  # its own firmware, which this one takes the place of


def refusal(board: BoardSpec) -> str | None:
    """Why a board cannot speak the protocol, if it cannot."""
    if board.hardware is not None:
        return "an accelerator that only runs of `hil run` know"
    if board.chip.core == "avr":
        return "no clock that runs on between sections; the benchmarks' networks need more than its RAM"
    if board.chip.tick == "instructions":
        return "it counts instructions, and the protocol reports seconds"
    return None


def for_energy(board: BoardSpec) -> BoardSpec:
    """The board at the rate of energy mode; its boot loader keeps its own. ConfigError without a pin for timestamps."""
    if board.pulse is None and not board.is_host:
        raise ConfigError(f"{board.name}: energy mode needs a pin for timestamps; say `pulse: PF13` in its entry")
    return board.model_copy(update={"baud": ENERGY_BAUD, "upload_baud": board.upload_baud or board.baud})


def with_room(board: BoardSpec, received_bytes: int) -> BoardSpec:
    """The board with so much less of its memory without wait states for constants: what the runner sends lies there."""
    hot = board.chip.hot
    if hot is None:
        return board
    hot = hot.model_copy(update={"stack_bytes": hot.stack_bytes + received_bytes})
    return board.model_copy(update={"chip": board.chip.model_copy(update={"hot": hot})})


def compile_mlperf(
    model: Model,
    assignment: Assignment,
    ranges: Ranges,
    boards: Sequence[BoardSpec],
    required: Iterable[str],
    *,
    energy: bool = False,
    benchmark: Benchmark | None = None,
) -> Compiled:
    """As compile_model, for the boards that can speak the protocol; ConfigError for a required one that can not.
    `benchmark`: if it is not told by the model."""
    benchmark = benchmark or benchmark_of(model.graph, model.path)
    required = set(required)
    for board in boards:
        why = refusal(board)
        if why and board.name in required:
            raise ConfigError(f"{board.name}: does not speak MLPerf Tiny's protocol: {why}")
    able = [board for board in boards if not refusal(board)]
    able = [for_energy(board) if energy and (board.pulse or board.name in required) else board for board in able]
    able = [board for board in able if not energy or board.baud == ENERGY_BAUD]
    if benchmark.values is None:  # real numbers are kept as they came
        able = [with_room(board, benchmark.input_bytes) for board in able]
    compiled = compile_model(model, assignment, ranges, able, required, wish=Wish(whole=True, keeps_input=True))
    greets = [board.name for board in able if board.reset != "on_open"]
    sound = Sound(BESIDE, HOP, ROWS - 1, BANDS, WAKE_SCALE, WAKE_ZERO) if benchmark.is_heard else None
    meaning = Meaning(benchmark.id, benchmark.input_bytes, benchmark.channels, benchmark.values, energy, greets, sound)
    protocol = {
        "model/benchmark.hpp": emit_benchmark(model.graph, compiled.program, meaning),
        MAIN: MAIN_TEXT,
        **project_files(able),
    }
    sources = {path: text for path, text in compiled.sources.items() if path != OUR_SESSION}
    return replace(compiled, sources={**sources, **protocol})
