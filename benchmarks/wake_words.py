"""Networks of microWakeWord step by step beside TensorFlow Lite Micro, their arenas beside what their JSON declares.

    python -m benchmarks.wake_words FOLDER [--steps 1000] [--board due ...]

Rows of features are random, the states go on from step to step; integers have to be equal in every step. The arena is
that of `hil plan` with the states in it; "declared" is `tensor_arena_size` of NAME.json. One row for each NAME.tflite;
exits with 1 if a step differs. With `--board` the same rows run on these boards, one sample of so many steps whose
output is that of every step: a row for each network and board, with the board's cycles per step. `--write` (HIL_DATA)
keeps those of all published ones in results/wake_words.json: `python -m tools.docs` makes the table of docs/zoo.md.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.given import given_data
from tinyhil import files
from tinyhil.compiler.calibrate import Ranges
from tinyhil.compiler.lower import lower
from tinyhil.errors import DataError
from tinyhil.formats.codec import storage_dtype
from tinyhil.frontend.load import load_model
from tinyhil.frontend.ports import Stream
from tinyhil.frontend.tflite import load_tflite
from tinyhil.harness.build.board_image import build_firmware, compile_for
from tinyhil.harness.build.toolchain import default_cache_dir
from tinyhil.harness.job.job import Request
from tinyhil.harness.measure.run import Clock, Sessions, stream_all
from tinyhil.harness.settings.config import load_boards
from tinyhil.language.assignment import Assignment
from tinyhil.language.program import Op, Program
from tinyhil.memplan.arena.placement import place
from tinyhil.references.reference import run_reference
from tools.measured import provenance, write


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


@dataclass(frozen=True, slots=True)
class BoardRow:
    """What one network did on one board: `cycles` of its clock for a step on average."""

    name: str
    board: str
    steps: int
    unequal: int
    cycles: int
    share: float  # of the time of a step, three rows of 10 ms

    def __str__(self) -> str:
        equal = f"{self.steps - self.unequal} of {self.steps}"
        return f"| `{self.name}` | {self.board} | {equal} | {self.cycles:,} | {100 * self.share:.2g} % |"


NAME, STEPS, ON_PAGE = "wake_words", 1000, ("due", "nucleo_l4r5", "h747")
FOLDER = "tflite/microwakeword"  # of HIL_DATA
BOARD_HEAD = "| Network | Board | Steps equal | Cycles a step | Of the processor |\n|---|---|---|--:|--:|"
ROW_SECONDS = 0.01


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


def on_board(path: Path, rows: np.ndarray, board_name: str) -> tuple[np.ndarray, int, int]:
    """Codes (steps, outputs) by the firmware of a board, the board's ticks for all steps, and their rate in Hz."""
    boards = load_boards()
    board, model = boards.board(board_name), load_model(path, Stream(steps=len(rows), every=True))
    compiled = compile_for(board, boards, model, Assignment("int8", {}), Ranges.any_of(model.graph))
    image = build_firmware(compiled, board, cache_dir=default_cache_dir(), log=lambda line: None)
    output = compiled.program.tensors[compiled.program.output]
    dtype = storage_dtype(output.format)
    with tempfile.TemporaryDirectory() as folder:
        request = Request(board.name, str(path), results=Path(folder))
        job = Sessions(request, board, None, image, Clock(), lambda line: None, lambda done, total: None)
        answers = stream_all(job, [rows.tobytes()], output.count * dtype.itemsize)
    codes = answers.outputs(dtype).astype(np.int64).reshape(len(rows), -1)
    return codes, int(answers.ticks[0]), answers.clock_hz


def random_rows(path: Path, steps: int, seed: int = 0) -> np.ndarray:
    """Codes of features (steps, rows of a step, channels)."""
    shape = load_tflite(path, Stream(steps=1)).graph
    size = (steps, *shape.shapes[shape.inputs[0]][1:])
    return np.random.default_rng(seed).integers(-128, 128, size).astype(np.int8)


def board_row_of(path: Path, steps: int, board: str) -> BoardRow:
    """Compare and time one network on one board."""
    rows = random_rows(path, steps)
    codes, ticks, clock_hz = on_board(path, rows, board)
    unequal = int((codes != theirs(path, rows)).any(axis=1).sum())
    seconds = rows.shape[-2] * ROW_SECONDS
    return BoardRow(path.stem, board, steps, unequal, round(ticks / steps), ticks / steps / clock_hz / seconds)


def row_of(path: Path, steps: int, seed: int = 0) -> Row:
    """Compare and plan one network."""
    rows = random_rows(path, steps, seed)
    unequal = int((ours(path, rows) != theirs(path, rows)).any(axis=1).sum())
    plan = place(program_of(path, 3)).plan
    declared = path.with_suffix(".json")
    said = json.loads(declared.read_text())["micro"].get("tensor_arena_size", 0) if declared.is_file() else 0
    return Row(path.stem, steps, unequal, plan.peak_bytes, plan.peak_bytes == plan.lower_bound_bytes, int(said))


def main() -> int:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--board", action="append", default=[])
    parser.add_argument("--write", action="store_true", help="all published ones on all boards of the page; keep them")
    arguments = parser.parse_args()
    if arguments.write:
        return write_page()
    if arguments.folder is None:
        parser.error("name the folder of the networks")
    print(BOARD_HEAD if arguments.board else HEAD)
    wrong = 0
    for path in sorted(arguments.folder.glob("*.tflite")):
        made = (board_row_of(path, arguments.steps, board) for board in arguments.board)
        for row in made if arguments.board else (row_of(path, arguments.steps),):
            wrong += row.unequal
            print(row, flush=True)
    return 1 if wrong else 0


def write_page() -> int:
    """results/wake_words.json, network by network; 1 if a step differs."""
    measured_at, rows = provenance(), list[dict[str, Any]]()
    for path in sorted((given_data() / FOLDER).glob("*.tflite")):
        rows += [asdict(board_row_of(path, STEPS, board)) for board in ON_PAGE]
        print(*rows[-len(ON_PAGE) :], sep="\n", flush=True)
    write(NAME, measured_at, rows)
    return 1 if any(row["unequal"] for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
