"""The host engine: the firmware's kernels as a shared library, compiled once per machine and called through ctypes.

Another assignment is another list of numbers: no compiler runs and no file is written. Results are bit-exact with
`tinyhil.reference`, saturation counts included.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from search.flatten import Flat, flatten
from tinyhil.errors import BuildError, ModelError
from tinyhil.formats.codec import storage_dtype
from tinyhil.program import Program
from tinyhil.reference import ReferenceRun

SOURCE = Path(__file__).with_name("engine.cpp")
FLAGS = ("-O3", "-std=c++17", "-ffp-contract=off", "-Wno-parentheses", "-shared", "-fPIC", "-pthread")
BUILD_SECONDS = 300
COMPILERS = ("g++", "c++", "clang++")


class _Job(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_int64) for name in ("op_count", "tensor_count", "workspace_bytes", "input", "output")),
        *((name, ctypes.c_void_p) for name in ("ops", "tensors")),
        *((name, ctypes.c_int64) for name in ("samples", "log_values", "threads")),
        *((name, ctypes.c_void_p) for name in ("inputs", "outputs", "saturations", "log")),
    )


@dataclass(frozen=True, slots=True)
class Engine:
    """`root` holds `firmware/kernels/`; `cache_dir` keeps the library."""

    library: ctypes.CDLL
    threads: int

    def run(self, program: Program, inputs: np.ndarray) -> ReferenceRun:
        """What `run_reference` returns for the same integers."""
        return _run(self, program, flatten(program), inputs, None)

    def values(self, program: Program, inputs: np.ndarray) -> dict[str, np.ndarray]:
        """Every element that every operation wrote: output tensor -> (samples, elements of all its executions)."""
        flat = flatten(program)
        counts = [program.tensors[name].count for name in flat.logged]
        log = np.empty((len(inputs), sum(counts)), np.int16)
        _run(self, program, flat, inputs, log)
        starts = np.cumsum([0, *counts])
        parts: dict[str, list[np.ndarray]] = {}
        for name, start, count in zip(flat.logged, starts, counts, strict=False):
            parts.setdefault(name, []).append(log[:, start : start + count])
        return {name: np.concatenate(arrays, axis=1) for name, arrays in parts.items()}


def load_engine(root: Path, cache_dir: Path, threads: int | None = None) -> Engine:
    """The engine of this machine, built on first use; BuildError without a C++ compiler."""
    compiler = os.environ.get("CXX") or next((found for name in COMPILERS if (found := shutil.which(name))), None)
    if compiler is None:
        raise BuildError(
            "search: no C++ compiler found for the host engine; install g++, or evaluate with the slower numpy "
            "reference (--evaluator reference)"
        )
    path = cache_dir / f"engine-{_fingerprint(root, compiler)}.so"
    if not path.exists():
        _build(compiler, root, path)
    library = ctypes.CDLL(str(path))
    library.hil_engine_run.restype = ctypes.c_int64
    return Engine(library, threads or len(os.sched_getaffinity(0)))


def _fingerprint(root: Path, compiler: str) -> str:
    digest = hashlib.sha256(repr((compiler, FLAGS, os.uname().machine)).encode())
    for source in (SOURCE, *sorted((root / "firmware" / "kernels").glob("*.hpp"))):
        digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


def _build(compiler: str, root: Path, path: Path) -> None:
    """Compile next to the final name and rename: two processes may build at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        made = Path(folder) / path.name
        command = [*compiler.split(), *FLAGS, f"-I{root}", "-o", str(made), str(SOURCE)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=BUILD_SECONDS, check=False)
            lines = [line for line in done.stderr.splitlines() if "error" in line] or done.stderr.splitlines()
            reason = lines[0] if done.returncode and lines else ""
        except (OSError, subprocess.TimeoutExpired) as error:
            reason = str(error)
        if reason or not made.exists():
            raise BuildError(f"search: {command[0]} could not build the host engine ({reason or 'no output'})")
        made.replace(path)


def _run(engine: Engine, program: Program, flat: Flat, inputs: np.ndarray, log: np.ndarray | None) -> ReferenceRun:
    source, result = program.tensors[program.input], program.tensors[program.output]
    given = np.ascontiguousarray(inputs, storage_dtype(source.format))
    outputs = np.empty((len(given), result.count), storage_dtype(result.format))
    saturations = np.empty(len(given), np.uint32)
    job = _Job(
        op_count=len(flat.ops),
        tensor_count=len(flat.tensors),
        workspace_bytes=flat.workspace_bytes,
        input=flat.input,
        output=flat.output,
        ops=flat.ops.ctypes.data,
        tensors=flat.tensors.ctypes.data,
        samples=len(given),
        log_values=0 if log is None else log.shape[1],
        threads=max(1, min(engine.threads, len(given))),
        inputs=given.ctypes.data,
        outputs=outputs.ctypes.data,
        saturations=saturations.ctypes.data,
        log=None if log is None else log.ctypes.data,
    )
    failed = engine.library.hil_engine_run(ctypes.byref(job))
    if failed:
        raise ModelError(f"search: the host engine has no kernel for operation {failed - 1} of '{program.name}'")
    return ReferenceRun(outputs.astype(np.int64), saturations.astype(np.int64))
