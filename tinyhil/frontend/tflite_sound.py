"""The streaming wake word of MLPerf Tiny with the sound before it: what its reference firmware computes from samples.

A step takes 512 new samples of 16 kHz. The window of 1,024 with them is emphasised (less .96875 of the sample
before), weighted (Hamming), transformed; its power spectrum becomes 40 mel bands, 10 log10 of them plus 52, over 64,
within 0 and 1: one row of features. The network takes the newest 30 rows. Window and rows are part of the record,
which whoever calls moves on. Source: `th_compute_lfbe_f32` of the reference submission, and get_dataset.py, in
benchmark/ of github.com/mlcommons/tiny; features are cut to codes, as there.

The transform of 1,024 = 32 x 32 points is two of 32 with turns between them: products with small constant matrices.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tinyhil import files
from tinyhil.errors import ModelError
from tinyhil.frontend.builder import Builder
from tinyhil.frontend.listing import Model
from tinyhil.frontend.ports import Fill, Port, Stream, connect
from tinyhil.frontend.rewrites import rewritten
from tinyhil.frontend.tflite import rounding_notes
from tinyhil.frontend.tflite_file import read_file, whole
from tinyhil.frontend.tflite_operators import OPERATORS
from tinyhil.frontend.tflite_reader import Reader
from tinyhil.frontend.tflite_records import File
from tinyhil.frontend.tflite_signal import WHOLE as OF_WHOLES
from tinyhil.language.graph import element_count

INT32 = 6  # onnx.TensorProto's number of it
RATE_HZ, HOP, WINDOW, ROWS, BANDS, CLASSES = 16000, 512, 1024, 30, 40, 3
SIDE = 32  # of the square that a window is
COLUMNS = 17  # of 32, that hold the frequencies up to 8 kHz
EMPHASIS, LEAST, OFFSET, RANGE = 0.96875, 1e-30, 52.0, 64.0
BESIDE = WINDOW + 1  # with the sample before it


def load_sound(path: Path, rounding: str = "") -> Model:
    """The network in `path` behind its sound: a record is a window and the 29 rows before, its result the new row and
    what the network makes of all. ModelError for what is no .tflite file of 30 rows of 40 and three results."""
    if path.suffix.lower() != ".tflite":
        raise ModelError(f"{path}: sound is put before a .tflite file; convert it")
    data = files.read_bytes(path, "model", files.MOST_MODEL_BYTES, ModelError)
    try:
        return whole(lambda: _model(replace(read_file(data), runtime=rounding), path, data))
    except ModelError as error:
        raise ModelError(f"{path}: {' '.join(str(error).split())}") from None


def _model(file: File, path: Path, data: bytes) -> Model:
    sizes = [[element_count(file.tensors[n].shape) for n in numbers] for numbers in (file.inputs, file.outputs)]
    if sizes != [[ROWS * BANDS], [CLASSES]]:
        raise ModelError(f"takes {sizes[0]} and gives {sizes[1]} numbers; the wake word's network {ROWS * BANDS} and 3")

    def start() -> tuple[Builder, Fill]:
        builder = Builder(rewritten)

        def fill(values: Mapping[str, str]) -> tuple[str, ...]:
            reader = Reader(file, OPERATORS, OF_WHOLES, builder)
            features = _features(reader, values["window"])
            return features, _heard(reader, values["rows"], features)

        return builder, fill

    ports = [Port("window", (BESIDE,)), Port("rows", (ROWS - 1, BANDS))]
    builder, ends = connect(start, ports, ["features", "activations"], Stream(()))
    graph, listing = builder.finish(f"{path.stem}_sound", ends)
    digest = hashlib.sha256(b"sound" + data).hexdigest()
    return Model(graph, path, digest, listing, notes=(*ends.notes, *rounding_notes(file)), stream=ends.stream)


# ---- features


def _features(reader: Reader, window: str) -> str:
    """One row of 40, on the grid of the network's input, of samples between -1 and 1, the one before them first."""

    def cut(name: str, first: int) -> str:
        ends = [
            reader.number(name, part, np.array([at])) for part, at in (("s", first), ("e", first + WINDOW), ("a", 0))
        ]
        return reader.add("Slice", window, *ends, out=name)

    def constant(op: str, value: str, name: str, numbers: Any, **attrs: Any) -> str:
        return reader.add(op, value, reader.number(name, "by", np.asarray(numbers, np.float32)), out=name, **attrs)

    before = constant("Mul", cut("sound.before", 0), "sound.less", EMPHASIS)
    emphasised = reader.add("Sub", cut("sound.now", 1), before, out="sound.emphasised")
    weighted = constant("Mul", emphasised, "sound.weighted", np.hamming(WINDOW))
    power = _power(reader, _shaped(reader, weighted, (SIDE, SIDE), "sound.square"))
    bands = constant(
        "MatMul", _shaped(reader, power, (1, SIDE * COLUMNS), "sound.spectrum"), "sound.bands", mel_bands()
    )
    least = constant("Max", bands, "sound.least", LEAST)
    logarithm = reader.add("Log", least, out="sound.logarithm")
    moved = constant("Mul", logarithm, "sound.decibels", 10 / np.log(10) / RANGE)
    moved = constant("Add", moved, "sound.moved", OFFSET / RANGE)
    row = reader.clamped(moved, 0.0, 1.0, "sound.row")
    number = reader.file.inputs[0]
    tensor = reader.file.tensors[number]
    if tensor.scales is None or tensor.zeros is None:
        return row
    scale, zero = tensor.scales.reshape(-1)[0], float(tensor.zeros.reshape(-1)[0])
    units = constant("Add", constant("Div", row, "sound.units", scale), "sound.code", zero)
    whole_units = reader.add("Cast", units, out="sound.cut", to=INT32)  # towards zero
    distance = constant("Sub", whole_units, "sound.distance", zero)
    return reader.on_grid(number, constant("Mul", distance, "sound.features", scale))


def _power(reader: Reader, square: str) -> str:
    """Power / 1024 of frequency k1 + 32 k2 at (k1, k2), k2 < 17, of sample 32 n1 + n2 at (n1, n2)."""
    k, n = np.arange(SIDE)[:, None], np.arange(SIDE)
    first, turn = np.exp(-2j * np.pi * k * n / SIDE), np.exp(-2j * np.pi * k * n / WINDOW)
    last = first[:, :COLUMNS] / np.sqrt(WINDOW)

    def named(name: str, array: np.ndarray) -> str:
        return reader.number(name, "matrix", array.astype(np.float32))

    def add(op: str, a: str, b: str, name: str) -> str:
        return reader.add(op, a, b, out=f"sound.{name}")

    re = add("MatMul", named("sound.first.re", first.real), square, "first.re")
    im = add("MatMul", named("sound.first.im", first.imag), square, "first.im")
    for name, factor, op in (("turned", turn, "Mul"), ("last", last, "MatMul")):
        c, s = named(f"sound.{name}.c", factor.real), named(f"sound.{name}.s", factor.imag)
        parts = [add(op, a, b, f"{name}.{at}") for at, (a, b) in enumerate(((re, c), (im, s), (re, s), (im, c)))]
        re = add("Sub", parts[0], parts[1], f"{name}.re")
        im = add("Add", parts[2], parts[3], f"{name}.im")
    return add("Add", add("Mul", re, re, "re.squared"), add("Mul", im, im, "im.squared"), "power")


def mel_bands() -> np.ndarray:
    """(544, 40): triangles of equal width in mel from 0 to 8 kHz over frequency k1 + 32 k2 at 17 k1 + k2; none of 0."""

    def mel(hertz: np.ndarray) -> np.ndarray:
        return 1127.0 * np.log1p(hertz / 700.0)

    at = mel(np.arange(1, WINDOW // 2 + 1) * (RATE_HZ / WINDOW))[:, None]
    edges = np.linspace(0.0, float(mel(np.array(RATE_HZ / 2))), BANDS + 2)
    rising = (at - edges[:-2]) / (edges[1:-1] - edges[:-2])
    falling = (edges[2:] - at) / (edges[2:] - edges[1:-1])
    weights = np.zeros((SIDE * COLUMNS, BANDS))
    weights[1 : WINDOW // 2 + 1] = np.maximum(0.0, np.minimum(rising, falling))
    return weights.reshape(COLUMNS, SIDE, BANDS).transpose(1, 0, 2).reshape(-1, BANDS)


# ---- the network


def _heard(reader: Reader, rows: str, features: str) -> str:
    """What the network makes of the rows before and the new one."""
    joined = reader.add("Concat", rows, features, out="sound.rows", axis=0)
    source, result = reader.file.inputs[0], reader.file.outputs[0]
    tensor = reader.file.tensors[source]
    taken = _shaped(reader, joined, tensor.shape, "sound.taken")
    reader.take(source, taken if tensor.scales is None else reader.to_codes(source, taken))
    reader.results(False)
    return _shaped(reader, reader.value(result), (CLASSES,), "sound.activations")


def _shaped(reader: Reader, value: str, shape: tuple[int, ...], out: str) -> str:
    return reader.add("Reshape", value, reader.number(out, "shape", np.array(shape, np.int64)), out=out)
