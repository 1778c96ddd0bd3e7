"""What `hil mlperf` does with its options, model by model."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, TextIO

from tinyhil.errors import ConfigError
from tinyhil.harness.build.toolchain import default_cache_dir
from tinyhil.harness.config import Boards
from tinyhil.harness.job import open_model
from tinyhil.harness.mlperf import submission
from tinyhil.harness.mlperf.benchmark_run import ACCURACY, ENERGY, PERFORMANCE, Rules, carry_out
from tinyhil.harness.mlperf.benchmarks import benchmark_of
from tinyhil.harness.mlperf.evaluation_sets import evaluation, official_folder
from tinyhil.harness.mlperf.session import Ready, Wanted, prepare, switched_on

Say = Callable[[str], None]
USUAL = (PERFORMANCE, ACCURACY)


def run_all(models: Sequence[str], boards: Boards, options: Mapping[str, Any], say: Say) -> list[dict[str, Any]]:
    """One record per model, in order. HilError of the first that fails; nothing of it is left in the submission.

    ConfigError if energy mode is not alone.
    """
    modes = tuple(options["modes"]) or USUAL
    if ENERGY in modes and modes != (ENERGY,):
        raise ConfigError("--mode energy is firmware of its own (9600 Bd, timestamps on a pin): run it alone")
    if options["datasets"] is not None:
        for model in models:
            _write_datasets(model, options["datasets"], options["samples"], say)
        return []
    rules = Rules(modes, options["samples"], options["runs"], options["seconds"])
    records = []
    for model in models:
        ready = prepare(_wanted(model, modes, options), boards, default_cache_dir(), say)
        if options["serve"]:
            with switched_on(ready, boards, say) as running:
                print(running.connection.port, flush=True)
                sys.stdin.read()  # until it is closed
            return []
        with _logs(options["submission"], ready, modes) as logs:
            records.append(carry_out(ready, rules, boards, logs, say))
    if options["submission"] is not None:
        submission.write(options["submission"], records)
    return records


def _wanted(model: str, modes: tuple[str, ...], options: Mapping[str, Any]) -> Wanted:
    same = ("board", "assignment", "calibrate", "calibrate_by", "port", "no_flash", "realtime", "wait_s")
    named = {name: options[name] for name in same}
    accuracy = ACCURACY in modes and not options["serve"]
    return Wanted(model=model, format=options["format_"], energy=modes == (ENERGY,), accuracy=accuracy, **named)


def _write_datasets(model: str, folder: Path, samples: int, say: Say) -> None:
    opened = open_model(model)
    benchmark = benchmark_of(opened.model.graph, opened.model.path.name)
    data = evaluation(benchmark)
    place = official_folder(benchmark, data, folder, samples)
    say(f"{place}: {min(samples, len(data.raw))} inputs of {data.name}")


def _logs(folder: Path | None, ready: Ready, modes: tuple[str, ...]) -> AbstractContextManager[dict[str, TextIO]]:
    if folder is None:
        return nullcontext({})
    return submission.logs(folder, ready.board.name, ready.emulated, ready.benchmark.id, modes)
