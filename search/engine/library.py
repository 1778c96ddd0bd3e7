"""The host engine: a shared library compiled once per machine and called through ctypes.

Programs run in batches over samples (batch.cpp), in every number format. Operations without a version in batches are
executed by numpy, and a line says so. Another assignment is another list of numbers: no compiler runs, no file is
written. Where samples are named, values are kept, and the next program runs only what differs (restart.py).
Results are bit-exact with `tinyhil.references.reference`, saturation counts included.
"""

from __future__ import annotations

import ctypes
import os
import shutil
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tinyhil.errors import BuildError
from tinyhil.language.program import Program
from tinyhil.native import Library, compiled, to_stderr
from tinyhil.references.reference import ReferenceRun
from tinyhil.search.engine.by_numpy import ByNumpy
from tinyhil.search.engine.cache import ArrayCache
from tinyhil.search.engine.flatten import Flattening
from tinyhil.search.engine.numbers import BATCH, DECODED, Unsupported, codes_of, given_inputs
from tinyhil.search.engine.restart import LEAST_WORK, from_the_start, restart, work_of
from tinyhil.search.engine.tables import BatchTables
from tinyhil.search.engine.versions import Stages, stages_of
from tinyhil.search.evaluator import NumpyExecutor

FOLDER = Path(__file__).resolve().parent
NO_INPUT = np.zeros(0, np.int8)
COMPILERS = ("g++", "c++", "clang++")


SOURCES = (
    "batch.cpp",
    *(f"batch{part}.hpp" for part in ("", "_store", "_sums", "_moves", "_elements", "_functions", "_integers")),
)
# Built where it runs; the order of floating-point operations is kept, their flags and traps nobody reads.
FLAGS = (
    *("-O3", "-std=c++17", "-march=native", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math"),
    *("-Wno-psabi", "-shared", "-fPIC", "-pthread"),
)
BY_NUMPY = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_int32))


class _Job(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_int64) for name in ("op_count", "tensor_count", "workspace_bytes", "input", "output")),
        ("given", ctypes.c_int64),
        *((name, ctypes.c_void_p) for name in ("ops", "tensors")),
        *((name, ctypes.c_int64) for name in ("samples", "log_values", "threads")),
        *((name, ctypes.c_void_p) for name in ("inputs", "outputs", "saturations", "log")),
        ("by_numpy", BY_NUMPY),
    )


def processors() -> int:
    """Those that this process may use; all of them where the system does not say."""
    allowed = getattr(os, "sched_getaffinity", None)
    return len(allowed(0)) if allowed is not None else os.cpu_count() or 1


class _Latest:
    """The program that ran last: it often runs on several parts of the samples."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.flattening = Flattening(program)
        self.work = work_of(program)
        self._stages: Stages | None = None

    def stages(self) -> Stages:
        """Named when they are first asked for."""
        if self._stages is None:
            self._stages = stages_of(self.program)
        return self._stages


@dataclass(frozen=True, slots=True)
class Engine:
    """`notice` is told, once for each reason, what does not run in batches. `cache` is for the next programs, where a
    run takes `least_work` products or more."""

    library: ctypes.CDLL
    threads: int
    notice: Callable[[str], None] = to_stderr
    cache: ArrayCache = field(default_factory=ArrayCache)
    least_work: int = LEAST_WORK
    _announced: set[str] = field(default_factory=set)
    _latest: list[_Latest] = field(default_factory=list)

    def run(self, program: Program, inputs: np.ndarray, part: Hashable = None) -> ReferenceRun:
        """What `run_reference` returns for the same codes. `part`: see `Executor`."""
        return self._dispatched(program, inputs, part, logs=False)[0]

    def values(self, program: Program, inputs: np.ndarray) -> dict[str, np.ndarray]:
        """Codes of every element that every operation wrote: output tensor -> (samples, elements of all executions)."""
        return self._dispatched(program, inputs, None, logs=True)[1]

    def _dispatched(
        self, program: Program, inputs: np.ndarray, part: Hashable, logs: bool
    ) -> tuple[ReferenceRun, dict[str, np.ndarray]]:
        try:
            latest = self._prepared(program)
            way = from_the_start(program)
            if part is not None and self.cache.limit_bytes and latest.work * len(inputs) >= self.least_work:
                way = restart(program, latest.stages(), self.cache, part, len(inputs))
            tables = latest.flattening.tables(way)
            given = self._given(program, inputs, part) if way.needs_input else (NO_INPUT, 0)
        except Unsupported as reason:
            self._tell(f"search: '{program.name}' runs in numpy ({reason}): evaluations are slower")
            numpy = NumpyExecutor()
            return numpy.run(program, inputs), (numpy.values(program, inputs) if logs else {})
        if tables.by_numpy:
            names = ", ".join(sorted({f"{op.kernel} ({op.domain})" for op in tables.by_numpy}))
            self._tell(f"search: '{program.name}' has operations that run in numpy: {names}; evaluations are slower")
        run, values = _run(self, program, tables, (given, len(inputs)), logs)
        way.finish(self.cache)
        return ReferenceRun(run.outputs, way.counted(run.saturations)), values

    def _prepared(self, program: Program) -> _Latest:
        if not self._latest or self._latest[0].program is not program:
            self._latest[:] = [_Latest(program)]
        return self._latest[0]

    def _given(self, program: Program, inputs: np.ndarray, part: Hashable) -> tuple[np.ndarray, int]:
        """Inputs as the engine reads them; decoded ones are kept."""
        fmt = program.tensors[program.input].format
        known = None if part is None else self.cache.get((part, fmt))
        if known is not None:
            return known, DECODED
        numbers, kind = given_inputs(inputs, fmt)
        if part is not None and kind == DECODED:
            self.cache.put((part, fmt), numbers)
        return numbers, kind

    def _tell(self, line: str) -> None:
        if line not in self._announced:
            self._announced.add(line)
            self.notice(line)


def load_engine(cache_dir: Path, threads: int | None = None, notice: Callable[[str], None] = to_stderr) -> Engine:
    """The engine of this machine, built on first use into the cache, which `notice` is told; BuildError without a C++
    compiler.
    """
    compiler = os.environ.get("CXX") or next((found for name in COMPILERS if (found := shutil.which(name))), None)
    if compiler is None:
        raise BuildError(
            "search: no C++ compiler found for the host engine; install g++, or evaluate with the slower numpy "
            "reference (--evaluator reference)"
        )
    sources = [FOLDER / name for name in SOURCES]
    what = Library("the host engine", "engine", (sources[0],), FLAGS, tuple(sources[1:]), _processor())
    path = compiled(what, compiler, cache_dir, lambda line: notice(f"search: {line}"))
    library = ctypes.CDLL(str(path))
    library.hil_batch_run.restype = None
    return Engine(library, threads or processors(), notice)


def _processor() -> str:
    """What the processor can do: a library built for one is no use on another that shares the cache."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return ""
    return next((line for line in lines if line.lower().startswith(("flags", "features"))), "")


def _run(
    engine: Engine, program: Program, tables: BatchTables, inputs: tuple[tuple[np.ndarray, int], int], logs: bool
) -> tuple[ReferenceRun, dict[str, np.ndarray]]:
    ((given, kind), samples), result = inputs, program.tensors[program.output]
    helper = ByNumpy(program, tables.by_numpy)
    counts = [program.tensors[name].count for name in tables.logged]
    log = np.empty((samples, sum(counts) if logs else 0))
    outputs = np.empty((samples, result.count))
    saturations = np.empty(samples, np.uint32)
    job = _Job(
        op_count=len(tables.ops),
        tensor_count=len(tables.tensors),
        workspace_bytes=tables.workspace_bytes,
        input=tables.input,
        output=tables.output,
        given=kind,
        ops=tables.ops.ctypes.data,
        tensors=tables.tensors.ctypes.data,
        samples=samples,
        log_values=log.shape[1],
        threads=max(1, min(engine.threads, -(-samples // BATCH))),
        inputs=given.ctypes.data,
        outputs=outputs.ctypes.data,
        saturations=saturations.ctypes.data,
        log=log.ctypes.data if logs else None,
        by_numpy=BY_NUMPY(helper),
    )
    engine.library.hil_batch_run(ctypes.byref(job))
    helper.check()
    run = ReferenceRun(codes_of(outputs, result.format), saturations.astype(np.int64))
    values = {n: codes_of(a, program.tensors[n].format) for n, a in _by_tensor(log, tables.logged, counts).items()}
    return run, values if logs else {}


def _by_tensor(log: np.ndarray, names: tuple[str, ...], counts: list[int]) -> dict[str, np.ndarray]:
    if log.shape[1] == 0:
        return {}
    starts = np.cumsum([0, *counts])
    parts: dict[str, list[np.ndarray]] = {}
    for name, start, count in zip(names, starts, counts, strict=False):
        parts.setdefault(name, []).append(log[:, start : start + count])
    return {name: np.concatenate(arrays, axis=1) for name, arrays in parts.items()}
