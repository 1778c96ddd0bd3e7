"""What a board must give, and how far that is from float32: computed once for boards that run the same program."""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from pydantic import TypeAdapter

from tinyhil import files
from tinyhil.agreement import Agreement, Lowered, agreement, whole_run
from tinyhil.compiler.calibrate import Ranges
from tinyhil.compiler.columns import scaled_columns
from tinyhil.compiler.lower import formats
from tinyhil.errors import DataError
from tinyhil.harness.build.pipeline import Compiled
from tinyhil.harness.measure.collapse import explain_collapse
from tinyhil.harness.measure.operations import saturation_counter
from tinyhil.harness.measure.parallel import SHARED
from tinyhil.language.program import walk
from tinyhil.references.classes import classes_of
from tinyhil.references.evaluate import evaluate
from tinyhil.references.reference import ReferenceRun, dequantize_outputs, run_reference

CHECKED_SAMPLES, CHECKED_ELEMENTS = 4, 400_000  # of the comparison of each operation with the float model


@dataclass(frozen=True, slots=True)
class Expected:
    """Of the samples that are streamed, in their order; `node_saturations`: results clipped, by the
    number of the operation; `advice`: what to say of a format that loses decisions."""

    reference: ReferenceRun
    float_outputs: np.ndarray
    agreement: Agreement
    node_saturations: Mapping[int, int]
    advice: str | None


def expected(
    compiled: Compiled,
    ranges: Ranges,
    x: np.ndarray,
    integers: np.ndarray,
    environment: Mapping[str, str] = os.environ,
    *,
    speaks: bool = False,
) -> Expected:
    """Of samples `x` whose codes are `integers`; taken from the process of another board if that has computed it.
    `speaks`: the model draws letters and reads its own, so one that rounding changed changes all that follow: each
    operation is compared with the float model, what comes out in the end is not."""
    folder = environment.get(SHARED)
    if not folder:
        return _compute(compiled, ranges, x, integers, speaks)
    import filelock

    files.require_own(Path(folder))
    path = Path(folder) / _key(compiled, ranges, integers)
    with filelock.FileLock(f"{path}.lock"):
        if path.is_file():
            return _read(path)
        made = _compute(compiled, ranges, x, integers, speaks)
        files.write_bytes(path, _as_bytes(made))
        return made


def _as_bytes(made: Expected) -> bytes:
    """Its arrays beside the JSON text of all else: data, which nothing executes."""
    known = {"agreement": asdict(made.agreement), "saturations": dict(made.node_saturations), "advice": made.advice}
    rest = np.frombuffer(json.dumps(known).encode(), np.uint8)
    reference, packed = made.reference, io.BytesIO()
    np.savez(
        packed,
        outputs=reference.outputs,
        saturations=reference.saturations,
        float_outputs=made.float_outputs,
        rest=rest,
    )
    return packed.getvalue()


def _read(path: Path) -> Expected:
    """What `_as_bytes` made; DataError for anything else."""
    arrays = files.read_arrays(path)
    try:
        assert isinstance(arrays, dict)
        outputs, saturations, float_outputs = (arrays[key] for key in ("outputs", "saturations", "float_outputs"))
        rest = json.loads(arrays["rest"].tobytes())
        given = TypeAdapter(Agreement).validate_python(rest["agreement"])
        counts = {int(number): int(count) for number, count in rest["saturations"].items()}
        return Expected(ReferenceRun(outputs, saturations), float_outputs, given, counts, rest["advice"])
    except (AssertionError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise DataError(
            f"{path}: not what a process of this run has left ({type(error).__name__}); run again"
        ) from None


def _key(compiled: Compiled, ranges: Ranges, integers: np.ndarray) -> str:
    """Names program and samples. How a core stores weights is no part of it, how often rows are computed is."""
    lowered = (compiled.model.sha256, compiled.assignment, ranges, compiled.program.body)
    return hashlib.sha256(repr(lowered).encode() + integers.tobytes()).hexdigest()[:16]


def _compute(compiled: Compiled, ranges: Ranges, x: np.ndarray, integers: np.ndarray, speaks: bool) -> Expected:
    graph = compiled.model.graph
    clipped, observe = saturation_counter(compiled.program)
    reference = run_reference(compiled.program, integers, observe=observe)
    float_outputs = evaluate(graph, x).reshape(len(x), -1)
    real = dequantize_outputs(compiled.program, reference.outputs)
    decided = (classes_of(graph, real), classes_of(graph, float_outputs))
    held = any(op.crossbar is not None for op in walk(compiled.program.body))
    advice = None if speaks else explain_collapse(graph, compiled.assignment, ranges, x, decided, on_crossbars=held)
    agreed = _agreement(compiled, ranges, x, None if speaks else (real, float_outputs))
    return Expected(reference, float_outputs, agreed, clipped, advice)


def checked_samples(compiled: Compiled) -> int:
    """On how many samples operations are compared with the float model: fewer of larger models."""
    written = sum(compiled.lowered.tensors[op.output].count for op in walk(compiled.lowered.body))
    return max(1, min(CHECKED_SAMPLES, CHECKED_ELEMENTS // max(1, written)))


def _agreement(
    compiled: Compiled, ranges: Ranges, x: np.ndarray, outputs: tuple[np.ndarray, np.ndarray] | None
) -> Agreement:
    """Whether every operation gives what the float model gives, within its formats' resolution, on a few samples; and
    whether all `outputs`, of the program and of the float model, do (None: they are not compared)."""
    samples = checked_samples(compiled)
    graph, assignment = compiled.model.graph, compiled.assignment
    scaled = scaled_columns(graph, assignment, ranges)  # what was lowered
    lowered = Lowered(scaled.graph, compiled.lowered, formats(scaled.graph, scaled.assignment, scaled.ranges))
    made = agreement(lowered.graph, lowered.program, lowered.formats, x[:samples])
    if outputs is None:
        return replace(made, unchecked=(*made.unchecked, graph.outputs[0]))
    whole = whole_run(lowered, x, *outputs, samples)
    return replace(made, findings=(*made.findings, *whole.findings), explained_output_error=whole.explained)
