"""What a trained teller of tales becomes: its file, its ranges, and how much its formats lose."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx

from models.training.tales import ALPHABET, TEXT, Network, Recipe, split_text, train
from models.training.teller import Teller, teller
from tinyhil.compiler.calibrate import Ranges, calibrate, save_ranges
from tinyhil.compiler.lower import lower
from tinyhil.frontend.load import load_model
from tinyhil.frontend.ports import Stream
from tinyhil.language.assignment import Assignment
from tinyhil.language.graph import Graph
from tinyhil.references.evaluate import evaluate
from tinyhil.references.reference import dequantize_outputs, quantize_inputs, run_reference

FORMATS = ("fixed16", "int8", "fixed8", "fixed4pc")
TEMPERATURES = (50, 70, 100)  # per cent, of the samples that ranges are observed on
CALIBRATED, MEASURED = 24, 32  # windows of the text
SEED = 1


def publish(folder: Path, recipe: Recipe) -> None:
    """Train, write the file and the ranges into `folder`, print the perplexities."""
    written(folder, train(recipe))


def written(folder: Path, network: Network) -> None:
    """What `publish` does once the network is trained."""
    made = teller_of(folder.name, network)
    path = folder / f"{folder.name}.onnx"
    onnx.save(teller(made), path)
    save_ranges(folder / "ranges.json", ranges_of(path, made), hashlib.sha256(path.read_bytes()).hexdigest())
    for name, found in perplexities(made, folder):
        print(f"{name}: perplexity {found:.3f} a letter")


def teller_of(name: str, network: Network) -> Teller:
    """The weights for row vectors; the root of a head's width is in those of the query."""
    shape, state = network.shape, {key: value.numpy() for key, value in network.state_dict().items()}
    weights = {"embedding": state["embedding.weight"], "head": state["head.weight"].T}
    for layer in range(shape.layers):
        for part in ("query", "key", "value", "out", "gate", "up", "down"):
            weights[f"{part}.{layer}"] = state[f"layers.{layer}.{part}.weight"].T
        weights[f"query.{layer}"] = weights[f"query.{layer}"] / np.float32(np.sqrt(shape.head))
    ready = {name: np.ascontiguousarray(array) for name, array in weights.items()}
    return Teller(name, shape.heads, shape.layers, ready, shape.angles.astype(np.float32))


def windows(codes: np.ndarray, window: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """`count` pieces (count, window, 3) as the model takes them, all letters given, and the letters that follow."""
    first = np.linspace(0, len(codes) - window - 1, count).astype(int)[:, None] + np.arange(window)
    samples = np.full((*first.shape, 3), SEED, np.float32)
    samples[:, :, 0] = codes[first]
    samples[:, :, 2] = np.resize(TEMPERATURES, count)[:, None]
    return samples, codes[first + 1]


def loop(path: Path, window: int, *, every: bool = True) -> Graph:
    """The model of `window` steps; its results are those of every step, or of the last."""
    return load_model(path, Stream(steps=window, every=every)).graph


def ranges_of(path: Path, made: Teller) -> Ranges:
    """The ends of every value on pieces of the text that was trained on: in the loop that shows all letters, and in the
    one that shows the newest alone, as libraries do."""
    samples, _ = windows(split_text()[0], made.window, CALIBRATED)
    source = {"name": TEXT.name, "sha256": hashlib.sha256(TEXT.read_bytes()).hexdigest(), "samples": CALIBRATED}
    newest, every = (calibrate(loop(path, made.window, every=shown), samples, source) for shown in (False, True))
    return replace(every, values={**newest.values, **every.values}, zeros={**newest.zeros, **every.zeros})


def perplexities(made: Teller, folder: Path) -> Iterator[tuple[str, float]]:
    """(format, perplexity of a letter) in float and by the integer reference: second halves of held out windows."""
    path = folder / "logits.onnx"
    onnx.save(teller(made, "logits"), path)
    graph, ranges = loop(path, made.window), ranges_of(path, made)
    path.unlink()
    samples, following = windows(split_text()[1], made.window, MEASURED)
    yield "float32", perplexity(evaluate(graph, samples), following)
    for name in FORMATS:
        program = lower(graph, Assignment(name), ranges)
        codes, _ = quantize_inputs(program, samples)
        yield name, perplexity(dequantize_outputs(program, run_reference(program, codes).outputs), following)


def perplexity(logits: np.ndarray, following: np.ndarray) -> float:
    """Of a letter: `logits` of windows, the second halves of which count, and the letters that follow."""
    rows = logits.reshape(*following.shape, len(ALPHABET)).astype(np.float64)
    half = following.shape[1] // 2
    distances = rows - rows.max(-1, keepdims=True)
    shares = distances - np.log(np.exp(distances).sum(-1, keepdims=True))
    chosen = np.take_along_axis(shares, following[:, :, None], axis=2)[:, half:]
    return float(np.exp(-chosen.mean()))
