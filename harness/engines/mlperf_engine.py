"""`hil mlperf --engine`: MLPerf Tiny's protocol around an engine of somebody else's."""

from __future__ import annotations

from math import prod
from pathlib import Path

from tinyhil.codegen.benchmark import Meaning, emit_ends
from tinyhil.errors import ConfigError, ModelError
from tinyhil.formats.affine import Affine
from tinyhil.formats.format import Format
from tinyhil.formats.single import Single
from tinyhil.harness.boards.claim import claim
from tinyhil.harness.build.compile import build
from tinyhil.harness.build.image import check_fits
from tinyhil.harness.engines.engine import version_of
from tinyhil.harness.engines.engine_project import served_sources
from tinyhil.harness.engines.engine_run import built_for, engine_job
from tinyhil.harness.engines.firmware_run import Bench
from tinyhil.harness.engines.port import Port
from tinyhil.harness.job.job import Request, open_model
from tinyhil.harness.mlperf.benchmarks import benchmark_of
from tinyhil.harness.mlperf.evaluation_sets import evaluation
from tinyhil.harness.mlperf.firmware import for_energy, refusal
from tinyhil.harness.mlperf.session import Ready, Wanted
from tinyhil.harness.settings.config import Boards
from tinyhil.language.program import Role, Tensor
from tinyhil.notice import Say


def prepare_engine(
    engine: str, source: Path | None, wanted: Wanted, boards: Boards, cache_dir: Path, say: Say
) -> Ready:
    """As session.prepare, with the inference of `engine` from the checkout `source`. HilError of what failed;
    ConfigError for a board that does not speak the protocol."""
    opened = open_model(wanted.model, say)
    benchmark, graph = benchmark_of(opened.model.graph, opened.model.path), opened.model.graph
    if wanted.accuracy:
        evaluation(benchmark)  # DataError before anything is built and timed
    bench = Bench(boards, cache_dir, say, lambda done, total: None)
    request = Request(wanted.board, wanted.model, port=wanted.port, load="direct", wait_s=wanted.wait_s)
    job = engine_job(engine, source, request, opened, bench)
    board = job.place.board
    why = refusal(board)
    if why:
        raise ConfigError(f"{board.name}: does not speak MLPerf Tiny's protocol: {why}")
    board = for_energy(board) if wanted.energy else board
    with claim(job.place, boards.bench.locks, wanted.wait_s, say) as port:
        built = built_for(job, port)
    greets = () if board.reset == "on_open" else (board.name,)
    meaning = Meaning(benchmark.id, benchmark.input_bytes, benchmark.channels, benchmark.values, wanted.energy, greets)
    source_end = _end("input", built.input, graph.shapes[graph.inputs[0]], Role.INPUT)
    result_end = _end("output", built.output, graph.shapes[graph.outputs[0]], Role.ARENA)
    header = emit_ends(graph, source_end, result_end, meaning)
    image = build(served_sources(built, board, header), board, cache_dir=cache_dir, log=lambda line: None)
    check_fits(image, board)
    name = {"name": engine, **version_of(job.task.source)}
    return Ready(wanted, job.place, board, opened, benchmark, None, image, built.arena_bytes, name)


def _end(name: str, port: Port, shape: tuple[int, ...], role: Role) -> Tensor:
    return Tensor(name, prod(shape), _format_of(port), role)


def _format_of(port: Port) -> Format:
    """ModelError for a type that the protocol's table of codes has not."""
    if port.type == "float32":
        return Single(8, 23)
    if port.type in ("int8", "int16"):
        return Affine(8 if port.type == "int8" else 16, port.scale, port.zero)
    raise ModelError(f"ends of {port.type}: the runner's bytes become int8, int16 or float32")
