"""Language models on the emulated H747: python -m benchmarks.language_models

Deeploy's microLlama (HIL_DATA), its FP32 file in two formats and its twin in PULP's integers, and the zoo's `story`
with the format's weights and with 4 bits and a scale for each block of BLOCK (com.microsoft's MatMulNBits). Each row is
a run whose integers equal the reference's; rows of this commit that results/language_models.json has are not measured
again. Puts the table into docs/measured/attention.md. Needs the extra `train`.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from benchmarks import attention
from benchmarks.marked import replace_between
from benchmarks.quiet import quiet
from benchmarks.story_gains import telling
from benchmarks.weight_blocks import BITS, BLOCK, with_blocks
from models.training import tales_published
from models.training.tales import Shape, split_text
from models.training.teller import Teller, teller
from tinyhil.compiler.lower import lower
from tinyhil.harness.job.job import Request
from tinyhil.harness.python import calls
from tinyhil.harness.settings.config import load_boards
from tinyhil.language.assignment import Assignment
from tinyhil.references.reference import dequantize_outputs, quantize_inputs, run_reference
from tools.measured import RESULTS, ROOT, provenance

BEGIN, END = "<!-- language_models: begin -->", "<!-- language_models: end -->"
HEAD = "| model | weights | format | cycles of a token | tokens/s at 400 MHz | RAM B | flash B |"
CLOCK = 400e6
STORY, SHAPE = ROOT / "models" / "story" / "story.onnx", Shape(96, 3, 4, 128, 192)
FILE = RESULTS / "language_models.json"


@dataclass(frozen=True, slots=True)
class Row:
    """A model in a format; `blocks`: its weights have 4 bits and scales of blocks."""

    model: str
    format: str
    blocks: bool = False


ROWS = (
    Row("microLlama", "int8"),
    Row("microLlama", "fixed8"),
    Row("microLlama, PULP's integers", "int8"),
    Row("story", "int8"),
    Row("story", "int8", blocks=True),
)


def perplexity(made: Teller, path: Path, fmt: str, *, blocks: bool) -> float:
    """Of a letter of held out text, by the integer reference."""
    proto = teller(made, "logits")
    onnx.save(with_blocks(proto) if blocks else proto, path)
    graph, ranges = tales_published.loop(path, made.window), tales_published.ranges_of(path, made)
    samples, following = tales_published.windows(split_text()[1], made.window, tales_published.MEASURED)
    program = lower(graph, Assignment(fmt), ranges)
    outputs = run_reference(program, quantize_inputs(program, samples)[0]).outputs
    return tales_published.perplexity(dequantize_outputs(program, outputs), following)


def story_record(made: Teller, folder: Path, fmt: str, *, blocks: bool) -> dict[str, Any]:
    """A run over a held out window, letters given."""
    proto = onnx.load(STORY)
    onnx.save(with_blocks(proto) if blocks else proto, folder / "story.onnx")
    for name, part in (("x", split_text()[1]), ("seen", split_text()[0])):
        np.savez(folder / f"{name}.npz", x=tales_published.windows(part, made.window, tales_published.CALIBRATED)[0])
    return measured(folder, folder / "story.onnx", fmt, folder / "x.npz", folder / "seen.npz")


def measured(folder: Path, model: Path, fmt: str, inputs: Path, calibrate: Path) -> dict[str, Any]:
    """The record of one sample; AssertionError where integers differ from the reference."""
    wanted = Request("h747", str(model), fmt, inputs=inputs, calibrate=calibrate, samples=1)
    record, _ = calls.run(replace(wanted, results=folder), load_boards(None), quiet, quiet)
    assert record["bit_exact"], (model, fmt)
    return dict(record)


def run_of(row: Row, folder: Path) -> dict[str, Any] | None:
    """The figures of a row; None if its files are not here."""
    if row.model == "story":
        record, tokens = story_record(telling(STORY, SHAPE), folder, row.format, blocks=row.blocks), SHAPE.window
    else:
        found = attention.files(row.model, folder)
        if found is None:
            return None
        record, tokens = measured(folder, found[0], row.format, found[1], found[1]), 1
    return asdict(row) | {
        "cycles": record["latency"]["median"] / tokens,
        "ram": record["memory"]["total_bytes"],
        "flash": record["flash_bytes"],
    }


def line(row: dict[str, Any]) -> str:
    """Of the table."""
    weights = f"{BITS} bits, blocks of {BLOCK}" if row["blocks"] else "the format's"
    figures = f"{row['cycles']:,.0f} | {CLOCK / row['cycles']:,.0f} | {row['ram']:,} | {row['flash']:,}"
    return f"| {row['model']} | {weights} | {row['format']} | {figures} |"


def main() -> None:
    """Measure what is missing of this commit's rows, note each as it is done, make the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=len(ROWS), help="how many to measure at most")
    parser.add_argument("--perplexity", action="store_true", help="that of story in blocks instead, and nothing else")
    arguments = parser.parse_args()
    before = provenance()
    with tempfile.TemporaryDirectory() as folder:
        if arguments.perplexity:
            print(f"{perplexity(telling(STORY, SHAPE), Path(folder) / 'logits.onnx', 'int8', blocks=True):.3f}")
            return
    known = json.loads(FILE.read_text(encoding="utf-8")) if FILE.is_file() else {"provenance": {}, "rows": []}
    rows = known["rows"] if known["provenance"].get("commit") == before["commit"] else []
    left = [row for row in ROWS if not any(asdict(row).items() <= one.items() for one in rows)]
    for row in left[: arguments.rows]:
        with tempfile.TemporaryDirectory() as folder:
            found = run_of(row, Path(folder))
        if found is not None:
            rows.append(found)
            FILE.write_text(json.dumps({"provenance": before, "rows": rows}, indent=1) + "\n", encoding="utf-8")
            print(line(found), flush=True)
    table = [HEAD, "|" + "---|" * (HEAD.count(" | ") + 1), *(line(row) for row in rows)]
    replace_between(attention.PAGE, BEGIN, END, "\n".join(table), before)


if __name__ == "__main__":
    main()
