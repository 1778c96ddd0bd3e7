"""`hil generate --protocol mlperf-tiny`."""

from __future__ import annotations

from tinyhil.errors import ConfigError
from tinyhil.harness.build.pipeline import write_sources
from tinyhil.harness.job.job import method_of, open_model
from tinyhil.harness.mlperf.benchmarks import benchmark_of
from tinyhil.harness.mlperf.firmware import OUR_SESSION, compile_mlperf
from tinyhil.harness.mlperf.session import ranges_at_hand
from tinyhil.harness.offline.generate import Project, check_project_folder, say_left_out
from tinyhil.harness.settings.config import Boards
from tinyhil.notice import Say


def generate_mlperf(wanted: Project, boards: Boards, say: Say) -> tuple[int, int]:
    """Write the project whose firmware answers MLPerf Tiny's runner; returns (files written, files in all).

    Boards that cannot speak the protocol are left out. ConfigError if the folder holds another project.
    """
    out = wanted.out
    check_project_folder(out)
    if (out / OUR_SESSION).is_file():
        raise ConfigError(f"{out}: holds a project that speaks our own protocol; choose a new folder")
    opened = open_model(wanted.model, say, by=method_of(wanted.assignment, wanted.calibrate_by))
    benchmark = benchmark_of(opened.model.graph, opened.model.path)
    ranges = ranges_at_hand(opened, benchmark, wanted.calibrate, say)
    formats, specs = opened.assignment(wanted.assignment, wanted.format), list(boards.entries.values())
    compiled = compile_mlperf(opened.model, formats, ranges, specs, (), energy=wanted.energy)
    say_left_out(wanted.model, boards, compiled, say)
    return write_sources(compiled.sources, out), len(compiled.sources)
