"""What each pass of the compiler gains: the zoo and MLPerf Tiny with all passes, and once more without each of them.

    python -m benchmarks.passes [MODEL ...]

into results/passes.json, of which `python -m tools.docs` makes docs/measured/passes.md. One sample on the emulated
board, outputs equal to the reference; a pass without which the sources stay the same is not built. Needs HIL_DATA.
Cycles: exact on the Uno, modelled on ARM (docs/cycle_model.md).
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.given import given_data
from benchmarks.quiet import quiet
from tests.direct_build import direct_build
from tinyhil.compiler_pass import watched
from tinyhil.errors import DoesNotFit
from tinyhil.formats.codec import storage_dtype
from tinyhil.harness.build.image import check_fits
from tinyhil.harness.build.pipeline import Compiled, compile_model
from tinyhil.harness.build.weights import check_weights
from tinyhil.harness.job.job import Job, Request, load_job, open_model
from tinyhil.harness.job.zoo import zoo_names
from tinyhil.harness.measure.run import Clock, Sessions, stream_all
from tinyhil.harness.settings.config import BoardSpec, load_boards
from tinyhil.passes.every import PASSES
from tinyhil.references.evaluate import shape_inputs
from tinyhil.references.reference import quantize_inputs, run_reference
from tools.measured import provenance, write

WAYS = (("fixed8", "uno"), ("int8", "due"), ("fixed8", "h747"))
TINY, OF_TINY = ("ad_autoencoder", "ic_resnet8", "kws_dscnn", "sww_streaming", "vww_mobilenetv1_025_96"), "h747"


OF_TINY_FILES = ("mlperftiny_", "_int8.tflite")


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one inference: cycles; bytes of the arena, and of flash with weights and runtime."""

    cycles: int
    arena: int
    flash: int


def cases(names: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """Model, format, board: every model in one of the ways, then in the others."""
    zoo = [name for name in zoo_names() if not names or name in names]
    tiny = [name for name in TINY if not names or name in names]
    yield from ((name, *WAYS[number % len(WAYS)]) for number, name in enumerate(zoo))
    yield from ((file_of(name), "int8", OF_TINY) for name in tiny)
    for turn in range(1, len(WAYS)):
        yield from ((name, *WAYS[(number + turn) % len(WAYS)]) for number, name in enumerate(zoo))


def file_of(name: str) -> str:
    """How commands call a model of the table: the zoo's by its name, MLPerf Tiny's by its file."""
    return str(given_data() / "models" / name.join(OF_TINY_FILES)) if name in TINY else name


def job_of(model: str, fmt: str, board: str, work: Path) -> Job:
    """The model and its first sample: of its data set, else noise."""
    opened, inputs = open_model(model), None
    if opened.source.dataset is None:
        inputs, shape = work / "x.npz", opened.model.graph.shapes[opened.model.graph.inputs[0]]
        np.savez(inputs, x=np.random.default_rng(1).normal(0, 1, (1, *shape)).astype(np.float32))
    return load_job(opened, Request(board, model, fmt, inputs=inputs, samples=1), quiet)


def compiled(job: Job, board: BoardSpec, without: Sequence[str]) -> Compiled:
    """For the board; DoesNotFit, of weights that its flash can not hold too."""
    made = compile_model(job.opened.model, job.assignment, job.ranges, [board], {board.name}, without)
    check_weights(made.program, board)
    return made


def cost_of(made: Compiled, job: Job, board: BoardSpec, work: Path) -> Cost:
    """Built and run; SystemExit if a result is another than the reference's."""
    image = direct_build(made.sources, board, work)
    check_fits(image, board)
    integers = quantize_inputs(made.program, shape_inputs(job.opened.model.graph, job.inputs.x))[0]
    tensors = made.program.tensors
    wanted, out = run_reference(made.program, integers), tensors[made.program.output]
    dtype = storage_dtype(out.format)
    request = Request(board.name, job.opened.source.name, results=work / "results", timeout_s=600.0)
    sessions = Sessions(request, board, None, image, Clock(), quiet, quiet)
    samples = [row.astype(storage_dtype(tensors[made.program.input].format)).tobytes() for row in integers]
    found = stream_all(sessions, samples, out.count * dtype.itemsize)
    if not np.array_equal(found.outputs(dtype).astype(np.int64), wanted.outputs.reshape(len(samples), -1)):
        raise SystemExit(f"{request.model} on {board.name}: other outputs than the reference")
    return Cost(int(found.ticks[0]), made.plan.peak_bytes, image.flash_bytes)


def measured(model: str, fmt: str, board: BoardSpec) -> dict[str, object] | None:
    """Costs with all passes, and without each that changes the sources; None where the model does not fit."""
    with tempfile.TemporaryDirectory() as folder:
        work, changing, latest = Path(folder), set[str](), dict[type, object]()

        def seen(name: str, made: object) -> None:
            if latest.get(type(made)) is not made:
                changing.add(name)
            latest[type(made)] = made

        try:
            with watched(seen):
                job = job_of(model, fmt, board.name, work)
                whole = compiled(job, board, ())
            cost = cost_of(whole, job, board, work)
        except DoesNotFit:
            return None
        costs = {one.name: without(one.name, model, job, board, whole, work) for one in PASSES if one.name in changing}
        name = Path(model).name.removeprefix(OF_TINY_FILES[0]).removesuffix(OF_TINY_FILES[1])
        found = {name: one for name, one in costs.items() if one != SAME}
        passes = [one.name for one in PASSES]
        return {
            "model": name,
            "format": fmt,
            "board": board.name,
            "passes": passes,
            "all": asdict(cost),
            "without": found,
        }


SAME: Mapping[str, int] = {}


def without(
    name: str, model: str, whole_job: Job, board: BoardSpec, whole: Compiled, work: Path
) -> Mapping[str, int] | None:
    """Costs without one pass; SAME if it changes no source, None if the model does not fit then."""
    try:
        job = replace(whole_job, opened=open_model(model, without=[name]))
        made = compiled(job, board, [name])
        return SAME if made.sources == whole.sources else asdict(cost_of(made, job, board, work))
    except DoesNotFit:
        return None


def main(names: Sequence[str]) -> None:
    measured_at, boards, rows = provenance(), load_boards(), []
    for model, fmt, board in cases(names):
        row = measured(model, fmt, boards.board(board))
        print(model, fmt, board, row, flush=True)
        rows += [] if row is None else [row]
        write("passes", measured_at, rows)  # whoever stops it keeps what there is


if __name__ == "__main__":
    main(sys.argv[1:])
