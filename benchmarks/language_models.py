"""Language models on the emulated H747: python -m benchmarks.language_models

Deeploy's microLlama (HIL_DATA), its FP32 file in two formats and its twin in PULP's integers, and the zoo's `story`
with the format's weights and with 4 bits and a scale for each block of BLOCK (com.microsoft's MatMulNBits). Each row is
a run whose integers equal the reference's; perplexities are those of the integer reference on held out text. Puts the
table into docs/measured/attention.md. Needs the extra `train`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from benchmarks import attention
from benchmarks.bench import quiet
from benchmarks.marked import replace_between
from models.training import tales_published
from models.training.tales import Shape, split_text
from models.training.teller import Teller, teller
from tinyhil.compiler.lower import lower
from tinyhil.harness.job.job import Request
from tinyhil.harness.python import calls
from tinyhil.harness.settings.config import load_boards
from tinyhil.language.assignment import Assignment
from tinyhil.references.reference import dequantize_outputs, quantize_inputs, run_reference
from tools.measured import ROOT, provenance

BEGIN, END = "<!-- language_models: begin -->", "<!-- language_models: end -->"
HEAD = "| model | weights | format | cycles of a token | tokens/s at 400 MHz | RAM B | flash B | perplexity |"
CLOCK = 400e6
BLOCK, BITS = 32, 4
SHARES = np.arange(0.7, 1.01, 0.05)  # of the scale that holds a block's largest weight: the best by squared error
STORY, SHAPE = ROOT / "models" / "story" / "story.onnx", Shape(96, 3, 4, 128, 192)
MICRO = (("microLlama", ("int8", "fixed8")), ("microLlama, PULP's integers", ("int8",)))


def in_blocks(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Codes (outputs, blocks, BLOCK) of weights (inner, outputs), of which 8 is 0, and scales (outputs, blocks)."""
    rows = np.pad(weights.T, ((0, 0), (0, -len(weights) % BLOCK))).reshape(weights.shape[1], -1, BLOCK)
    farthest = np.take_along_axis(rows, np.abs(rows).argmax(axis=2, keepdims=True), axis=2)
    whole = np.where(farthest == 0, 1.0, farthest) / -(1 << (BITS - 1))
    best, codes, scales = np.full(whole.shape, np.inf), np.zeros(rows.shape), whole
    for share in SHARES:
        tried = np.clip(np.rint(rows / (whole * share)), -8, 7)
        error = ((tried * whole * share - rows) ** 2).sum(axis=2, keepdims=True)
        codes, scales = np.where(error < best, tried, codes), np.where(error < best, whole * share, scales)
        best = np.minimum(best, error)
    return (codes + 8).astype(np.uint8), scales[..., 0].astype(np.float32)


def with_blocks(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Each product with a constant matrix as a MatMulNBits."""
    made = onnx.ModelProto()
    made.CopyFrom(proto)
    weights = {one.name: numpy_helper.to_array(one) for one in proto.graph.initializer}
    for node in made.graph.node:
        if node.op_type != "MatMul" or node.input[1] not in weights or weights[node.input[1]].ndim != 2:
            continue
        name = node.input[1]
        codes, scales = in_blocks(weights[name])
        packed = codes[..., 0::2] | codes[..., 1::2] << BITS
        made.graph.initializer.extend(
            [numpy_helper.from_array(packed, f"{name}.codes"), numpy_helper.from_array(scales, f"{name}.scales")]
        )
        inner, outputs = weights[name].shape
        attrs = {"K": inner, "N": outputs, "bits": BITS, "block_size": BLOCK}
        node.CopyFrom(
            helper.make_node(
                "MatMulNBits",
                [node.input[0], f"{name}.codes", f"{name}.scales"],
                list(node.output),
                node.name,
                domain="com.microsoft",
                **attrs,
            )
        )
    used = {name for node in made.graph.node for name in node.input}
    left = [one for one in made.graph.initializer if one.name in used]
    del made.graph.initializer[:]
    made.graph.initializer.extend(left)
    made.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    return made


def story() -> Teller:
    """The zoo's model, by the weights of its file."""
    weights = {one.name: numpy_helper.to_array(one) for one in onnx.load(STORY).graph.initializer}
    known = {"embedding", "head"} | {
        name for name in weights if name.rpartition(".")[2].isdigit() and weights[name].ndim == 2
    }
    return Teller("story", SHAPE.heads, SHAPE.layers, {k: weights[k] for k in known}, SHAPE.angles.astype(np.float32))


def perplexity(made: Teller, path: Path, fmt: str, *, blocks: bool) -> float:
    """Of a letter, by the integer reference."""
    proto = teller(made, "logits")
    onnx.save(with_blocks(proto) if blocks else proto, path)
    graph, ranges = tales_published.loop(path, made.window), tales_published.ranges_of(path, made)
    samples, following = tales_published.windows(split_text()[1], made.window, tales_published.MEASURED)
    program = lower(graph, Assignment(fmt), ranges)
    outputs = run_reference(program, quantize_inputs(program, samples)[0]).outputs
    return tales_published.perplexity(dequantize_outputs(program, outputs), following)


def told(made: Teller, folder: Path, fmt: str, *, blocks: bool) -> dict[str, Any]:
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


def rows() -> Iterator[str]:
    """Lines of the table."""
    for name, formats in MICRO:
        for fmt in formats:
            with tempfile.TemporaryDirectory() as folder:
                found = attention.files(name, Path(folder))
                if found is not None:
                    record = measured(Path(folder), found[0], fmt, found[1], found[1])
                    yield line(name.split(",")[0], "PULP's bytes" if "," in name else "the format's", fmt, record, 1)
    made = story()
    for blocks, fmt in ((False, "int8"), (True, "int8")):
        with tempfile.TemporaryDirectory() as folder:
            record = told(made, Path(folder), fmt, blocks=blocks)
            found_perplexity = perplexity(made, Path(folder) / "logits.onnx", fmt, blocks=blocks)
        what = f"{BITS} bits, blocks of {BLOCK}" if blocks else "the format's"
        yield line("story", what, fmt, record, made.window, f"{found_perplexity:.3f}")


def line(model: str, weights: str, fmt: str, record: dict[str, Any], tokens: int, text: str = "") -> str:
    """A row; `tokens` of the sample."""
    cycles = record["latency"]["median"] / tokens
    sizes = f"{record['memory']['total_bytes']:,} | {record['flash_bytes']:,}"
    return f"| {model} | {weights} | {fmt} | {cycles:,.0f} | {CLOCK / cycles:,.0f} | {sizes} | {text} |"


if __name__ == "__main__":
    before = provenance()
    table = [HEAD, "|" + "---|" * (HEAD.count(" | ") + 1)]
    for row in rows():
        print(row, flush=True)
        table.append(row)
    replace_between(attention.PAGE, BEGIN, END, "\n".join(table), before)
