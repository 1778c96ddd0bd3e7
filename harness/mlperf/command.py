"""What `hil mlperf` does with its options, model by model."""

from __future__ import annotations

import os
import select
import stat
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, TextIO

from tinyhil.errors import ConfigError
from tinyhil.harness.build.toolchain import default_cache_dir
from tinyhil.harness.job.job import open_model
from tinyhil.harness.mlperf import submission
from tinyhil.harness.mlperf.benchmark_run import ACCURACY, ENERGY, PERFORMANCE, STREAM, Rules, carry_out
from tinyhil.harness.mlperf.benchmarks import benchmark_of
from tinyhil.harness.mlperf.evaluation_sets import evaluation, official_folder
from tinyhil.harness.mlperf.listening import sound_of
from tinyhil.harness.mlperf.session import Ready, Wanted, prepare, switched_on
from tinyhil.harness.settings.config import Boards
from tinyhil.notice import Say

USUAL = (PERFORMANCE, ACCURACY)
LOOK_S = 0.5  # at the board that is served


Prepare = Callable[[Wanted, Boards, Path, Say], Ready]


def run_all(
    models: Sequence[str], boards: Boards, options: Mapping[str, Any], say: Say, prepared: Prepare = prepare
) -> list[dict[str, Any]]:
    """One record per model, in order. HilError of the first that fails; nothing of it is left in the submission.
    `prepared`: what compiles and builds.

    ConfigError if energy mode is not alone.
    """
    modes = tuple(options["modes"]) or USUAL
    if ENERGY in modes and modes != (ENERGY,):
        raise ConfigError("--mode energy is firmware of its own (9600 Bd, timestamps on a pin): run it alone")
    if STREAM in modes and (modes != (STREAM,) or options["submission"] is not None or prepared is not prepare):
        raise ConfigError("--mode stream is firmware of its own, and of no submission: run it alone, by our own engine")
    if options["audio"] is not None and STREAM not in modes:
        raise ConfigError("--audio is what --mode stream hears; say both")
    if options["datasets"] is not None:
        for model in models:
            _write_datasets(model, options["datasets"], options["samples"], say)
        return []
    if options["audio"] is not None:
        sound_of(options["audio"])  # DataError before anything is built
    rules = Rules(modes, options["samples"], options["runs"], options["seconds"], options["audio"])
    records = []
    for model in models:
        ready = prepared(_wanted(model, modes, options), boards, default_cache_dir(), say)
        if options["serve"]:
            with switched_on(ready, boards, say) as running:
                print(running.connection.port, flush=True)
                _serve(running.connection.alive)
            return []
        with _logs(options["submission"], ready, modes) as logs:
            records.append(carry_out(ready, rules, boards, logs, say))
    if options["submission"] is not None:
        submission.write(options["submission"], records)
    return records


def _serve(alive: Callable[[], None]) -> None:
    """Until whoever started us closes our stdin, or a signal, or the board's end (DeviceCrashed).

    Only a pipe that somebody holds says so by its end: /dev/null, a file and a closed stdin are at theirs from the
    beginning, and a terminal is not read by who runs in the background.
    """
    held = _is_held(sys.stdin)
    while not (held and select.select([sys.stdin], [], [], LOOK_S)[0] and not os.read(sys.stdin.fileno(), 4096)):
        alive()
        if not held:
            time.sleep(LOOK_S)


def _is_held(stream: TextIO | None) -> bool:
    try:
        descriptor = -1 if stream is None else stream.fileno()
        if os.isatty(descriptor):
            return os.tcgetpgrp(descriptor) == os.getpgrp()
        mode = os.fstat(descriptor).st_mode
    except (OSError, ValueError):  # closed
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def _wanted(model: str, modes: tuple[str, ...], options: Mapping[str, Any]) -> Wanted:
    same = ("board", "assignment", "calibrate", "calibrate_by", "port", "no_flash", "realtime", "wait_s")
    named = {name: options[name] for name in same}
    accuracy = ACCURACY in modes and not options["serve"]
    sound = modes == (STREAM,)  # the network keeps its integers, what is before it is float32
    format_ = "float32" if sound else options["format_"]
    return Wanted(model=model, format=format_, energy=modes == (ENERGY,), accuracy=accuracy, sound=sound, **named)


def _write_datasets(model: str, folder: Path, samples: int, say: Say) -> None:
    opened = open_model(model)
    benchmark = benchmark_of(opened.model.graph, opened.model.path)
    data = evaluation(benchmark)
    place = official_folder(benchmark, data, folder, samples)
    say(f"{place}: {min(samples, len(data.raw))} inputs of {data.name}")


def _logs(folder: Path | None, ready: Ready, modes: tuple[str, ...]) -> AbstractContextManager[dict[str, TextIO]]:
    if folder is None:
        return nullcontext({})
    return submission.logs(folder, ready.board.name, ready.emulated, ready.benchmark.id, modes)
