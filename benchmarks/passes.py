"""What each pass of the compiler gains: networks with all passes, and once more without each of them.

    python -m benchmarks.passes [MODEL ...]

into results/passes.json, of which `python -m tools.docs` makes docs/measured/passes.md: the zoo, MLPerf Tiny, and for
passes of which these have no use passes_networks.py. With names only rows of these models are measured again; each row
has its commit. One sample on the emulated board, outputs equal to the reference; a pass without which the sources stay
the same is not built. Needs HIL_DATA. Cycles: exact on the Uno, modelled on ARM (docs/cycle_model.md).
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from benchmarks.given import given_data
from benchmarks.passes_networks import NETWORKS, Network
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
from tinyhil.language.graph import Part
from tinyhil.passes.every import PASSES
from tinyhil.references.evaluate import evaluate, shape_inputs
from tinyhil.references.reference import dequantize_outputs, quantize_inputs, run_reference
from tools.measured import provenance, read, write

Figures = Mapping[str, float]

WAYS = (("fixed8", "uno"), ("int8", "due"), ("fixed8", "h747"))
TINY, OF_TINY = ("ad_autoencoder", "ic_resnet8", "kws_dscnn", "sww_streaming", "vww_mobilenetv1_025_96"), "h747"
OF_TINY_FILES = ("mlperftiny_", "_int8.tflite")


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one inference: cycles; bytes of the arena, and of flash with weights and runtime; of the networks of
    passes_networks.py the error, too."""

    cycles: int
    arena: int
    flash: int
    error: float | None = None

    def figures(self) -> Figures:
        """By name, those there are."""
        return {name: value for name, value in asdict(self).items() if value is not None}


@dataclass(frozen=True, slots=True)
class Case:
    """A network, its format and board; `own`: of passes_networks.py."""

    name: str
    format: str
    board: str
    own: Network | None = None

    def request(self, work: Path) -> Request:
        """Its files are in `work`; its first sample is of its data set, else noise. Of its own networks all samples."""
        if self.own is not None:
            path, samples, formats = self.own.written(work)
            return Request(self.board, str(path), self.format, formats, samples, calibrate=samples)
        model, inputs = file_of(self.name), None
        opened = open_model(model)
        if opened.source.dataset is None:
            inputs, shape = work / "x.npz", opened.model.graph.shapes[opened.model.graph.inputs[0]]
            np.savez(inputs, x=np.random.default_rng(1).normal(0, 1, (1, *shape)).astype(np.float32))
        return Request(self.board, model, self.format, inputs=inputs, samples=1)


def cases(names: Sequence[str] = ()) -> Iterator[Case]:
    """Every model in one of the ways, then in the others."""
    zoo = list(enumerate(zoo_names()))
    for turn in range(len(WAYS)):
        found = [Case(name, *WAYS[(number + turn) % len(WAYS)]) for number, name in zoo]
        if turn == 0:
            found += [Case(name, "int8", OF_TINY) for name in TINY]
            found += [Case(own.name, own.format, own.board, own) for own in NETWORKS]
        yield from (case for case in found if not names or case.name in names)


def file_of(name: str) -> str:
    """How commands call a model of the table: the zoo's by its name, MLPerf Tiny's by its file."""
    return str(given_data() / "models" / name.join(OF_TINY_FILES)) if name in TINY else name


def compiled(request: Request, board: BoardSpec, without: Sequence[str] = ()) -> tuple[Job, Compiled]:
    """For the board; DoesNotFit, of weights that its flash can not hold too."""
    job = load_job(open_model(request.model, without=without), request, quiet)
    made = compile_model(job.opened.model, job.assignment, job.ranges, [board], {board.name}, without)
    check_weights(made.program, board)
    return job, made


def cost_of(job: Job, made: Compiled, board: BoardSpec, work: Path, *, with_error: bool = False) -> Cost:
    """Built and run on the first sample; SystemExit if a result is another than the reference's."""
    image = direct_build(made.sources, board, work)
    check_fits(image, board)
    x = shape_inputs(job.opened.model.graph, job.inputs.x)
    integers = quantize_inputs(made.program, x)[0]
    tensors = made.program.tensors
    wanted, out = run_reference(made.program, integers), tensors[made.program.output]
    dtype = storage_dtype(out.format)
    request = Request(board.name, job.opened.source.name, results=work / "results", timeout_s=600.0)
    sessions = Sessions(request, board, None, image, Clock(), quiet, quiet)
    samples = [row.astype(storage_dtype(tensors[made.program.input].format)).tobytes() for row in integers[:1]]
    found = stream_all(sessions, samples, out.count * dtype.itemsize)
    if not np.array_equal(found.outputs(dtype).astype(np.int64), wanted.outputs[:1].reshape(1, -1)):
        raise SystemExit(f"{request.model} on {board.name}: other outputs than the reference")
    real = dequantize_outputs(made.program, wanted.outputs)
    error = error_of(real, evaluate(job.opened.model.graph, x), job.opened.model.graph.results) if with_error else None
    return Cost(int(found.ticks[0]), made.plan.peak_bytes, image.flash_bytes, error)


def error_of(real: np.ndarray, wanted: np.ndarray, results: Sequence[Part]) -> float:
    """The root mean square of the error over that of the float results, of the worst of several `results`."""
    real, wanted = real.reshape(len(real), -1), wanted.reshape(len(wanted), -1)
    parts = [slice(one.start, one.start + one.count) for one in results] or [slice(None)]
    norms = [np.linalg.norm(real[:, part] - wanted[:, part]) / np.linalg.norm(wanted[:, part]) for part in parts]
    return float(f"{max(norms):.4g}")


def measured(case: Case, board: BoardSpec) -> dict[str, object] | None:
    """Costs with all passes, and without each that changes the sources; None where the model does not fit."""
    with tempfile.TemporaryDirectory() as folder:
        work, changing, latest = Path(folder), set[str](), dict[type, object]()

        def seen(name: str, made: object) -> None:
            if latest.get(type(made)) is not made:
                changing.add(name)
            latest[type(made)] = made

        request = case.request(work)

        def cost(job: Job, made: Compiled) -> Figures:
            return cost_of(job, made, board, work, with_error=case.own is not None).figures()

        def without(name: str) -> Figures | None:
            """SAME if it changes no source, None if the model does not fit then."""
            try:
                job, made = compiled(request, board, [name])
                return SAME if made.sources == whole.sources else cost(job, made)
            except DoesNotFit:
                return None

        try:
            with watched(seen):
                job, whole = compiled(request, board)
            row: dict[str, object] = {"model": case.name, "format": case.format, "board": case.board}
            row["all"] = cost(job, whole)
        except DoesNotFit:
            return None
        costs = {one.name: without(one.name) for one in PASSES if one.name in changing}
        return row | {"without": {name: one for name, one in costs.items() if one != SAME}}


SAME: Figures = {}


def main(names: Sequence[str]) -> None:
    measured_at, boards = provenance(), load_boards()
    known = {key_of(row): row for row in read("passes")}
    order = [(case.name, case.format, case.board) for case in cases()]
    for case in cases(names):
        row = measured(case, boards.board(case.board))
        print(case.name, case.format, case.board, row, flush=True)
        known.pop((case.name, case.format, case.board), None)
        if row is not None:
            known[key_of(row)] = row | {"commit": measured_at["commit"]}
        rows = [known[key] for key in order if key in known]  # whoever stops it keeps what there is
        commits = dict.fromkeys(str(one["commit"]) for one in rows)
        write("passes", {**measured_at, "commit": " ".join(commits)}, rows)


def key_of(row: Mapping[str, object]) -> tuple[str, str, str]:
    """By which a row is found again."""
    return str(row["model"]), str(row["format"]), str(row["board"])


if __name__ == "__main__":
    main(sys.argv[1:])
