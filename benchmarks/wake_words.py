"""Networks of microWakeWord step by step beside TensorFlow Lite Micro, their arenas beside what their JSON declares.

    python -m benchmarks.wake_words FOLDER [--steps 1000]

Rows of features are random, the states go on from step to step; integers have to be equal in every step. The arena is
that of `hil plan` with the states in it; "declared" is `tensor_arena_size` of NAME.json. One row for each NAME.tflite;
exits with 1 if a step differs.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tinyhil import files
from tinyhil.compiler.calibrate import Ranges
from tinyhil.compiler.lower import lower
from tinyhil.errors import DataError
from tinyhil.frontend.ports import Stream
from tinyhil.frontend.tflite import load_tflite
from tinyhil.language.assignment import Assignment
from tinyhil.language.program import Op, Program
from tinyhil.memplan.arena.placement import place
from tinyhil.references.reference import run_reference


@dataclass(frozen=True, slots=True)
class Row:
    """What was found of one network; `declared` is 0 where no JSON says it, `unequal` counts steps."""

    name: str
    steps: int
    unequal: int
    arena_bytes: int
    is_optimal: bool
    declared: int

    def __str__(self) -> str:
        share = f"{self.declared:,} | {100 * self.arena_bytes / self.declared:.0f} %" if self.declared else "- | -"
        proof = "yes" if self.is_optimal else "no"
        equal = f"{self.steps - self.unequal} of {self.steps}"
        return f"| `{self.name}` | {equal} | {self.arena_bytes:,} | {proof} | {share} |"


HEAD = "| Network | Steps equal | Arena B | Placement proven optimal | Declared B | Share |\n|---|---|---|---|---|---|"


def program_of(path: Path, steps: int) -> Program:
    """The network over so many steps."""
    graph = load_tflite(path, Stream(steps=steps)).graph
    return lower(graph, Assignment("int8", {}), Ranges.any_of(graph))


def ours(path: Path, rows: np.ndarray) -> np.ndarray:
    """Codes (steps, outputs) of rows of features (steps, ...), by the reference."""
    program, shown = program_of(path, len(rows)), list[np.ndarray]()

    def observe(op: Op, codes: np.ndarray, _: np.ndarray) -> None:
        if op.output == program.output and op.inputs:
            shown.append(codes[0])

    run_reference(program, rows.reshape(1, -1).astype(np.int64), observe=observe)
    return np.stack(shown)


def theirs(path: Path, rows: np.ndarray) -> np.ndarray:
    """The same by TensorFlow Lite Micro; codes of uint8 less 128, as ours are."""
    from tflite_micro.python.tflite_micro import runtime

    data = files.read_bytes(path, "model", files.MOST_MODEL_BYTES, DataError)
    interpreter, found = runtime.Interpreter.from_bytes(data, arena_size=1 << 18), []
    for row in rows:
        interpreter.set_input(row[None] if row.ndim < 3 else row, 0)
        interpreter.invoke()
        output = interpreter.get_output(0).reshape(-1)
        found.append(output.astype(np.int64) - (128 if output.dtype == np.uint8 else 0))
    return np.stack(found)


def row_of(path: Path, steps: int, seed: int = 0) -> Row:
    """Compare and plan one network."""
    shape = load_tflite(path, Stream(steps=1)).graph
    rows = np.random.default_rng(seed).integers(-128, 128, (steps, *shape.shapes[shape.inputs[0]][1:])).astype(np.int8)
    unequal = int((ours(path, rows) != theirs(path, rows)).any(axis=1).sum())
    plan = place(program_of(path, 3)).plan
    declared = path.with_suffix(".json")
    said = json.loads(declared.read_text())["micro"].get("tensor_arena_size", 0) if declared.is_file() else 0
    return Row(path.stem, steps, unequal, plan.peak_bytes, plan.peak_bytes == plan.lower_bound_bytes, int(said))


def main() -> int:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", type=int, default=1000)
    arguments = parser.parse_args()
    print(HEAD)
    wrong = 0
    for path in sorted(arguments.folder.glob("*.tflite")):
        row = row_of(path, arguments.steps)
        wrong += row.unequal
        print(row, flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
