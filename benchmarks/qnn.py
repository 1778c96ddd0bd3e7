"""Networks of 1 to 8 bits: a float network with batch normalisation, folded, then trained for its formats.

Run as tables of `benchmarks.training`. The first layer takes 8-bit values exactly, the last one has 8-bit weights and
16-bit results; between them weights and values have so many bits. 1 bit: weights -s and s, values signs.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

import tinyhil
from benchmarks.bench import Bench, Row, mlp, pictures
from benchmarks.trained_networks import note
from models.training.fit import Schedule as FloatSchedule
from models.training.nets import Conv, Dense, HardTanh, Layer, Norm, Pool, Recipe, to_onnx
from models.training.nets import train as train_float
from tinyhil import data
from tinyhil.errors import DoesNotFit
from tinyhil.frontend.listing import Model
from tinyhil.frontend.onnx import model_of
from tinyhil.language.assignment import Assignment
from tinyhil.train.samples import Samples, divide
from tinyhil.train.schedule import Schedule
from tinyhil.train.write import trained_onnx

MLP: tuple[Layer, ...] = (Dense(128), Norm(), HardTanh(), Dense(128), Norm(), HardTanh(), Dense(10))
CNN: tuple[Layer, ...] = (
    *(Conv(16, 3, 1), Norm(), HardTanh(), Pool(), Conv(32, 3, 1), Norm(), HardTanh(), Pool()),
    *(Conv(48, 3, 1), Norm(), HardTanh(), Pool(), Dense(10)),
)
MNIST_SAMPLES, CIFAR_SAMPLES, CIFAR_TESTS = 20000, 20000, 2000
CIFAR_TRAINED = 5000  # of these, for its formats
ON_MNIST = Schedule(epochs=4, batch=100, rate=2e-2, teacher=0.5)
ON_CIFAR = Schedule(epochs=1, batch=40, rate=1e-2, teacher=0.5)


def of_bits(bench: Bench, bits: int) -> Assignment:
    """Hidden weights and values of `bits`. Fixed point reaches from -1 to 1 - 2^(1 - bits), as hard tanh does."""
    constants = bench.graph.all_constants()
    weights = sorted(name for name in constants if name.endswith("_w"))
    hidden = {node.outputs[0] for node in bench.graph.nodes if node.op in ("Clip", "MaxPool")}
    flat = {node.outputs[0] for node in bench.graph.nodes if node.op == "Flatten" and node.inputs[0] in hidden}
    fmt = "sign" if bits == 1 else f"fixed{bits}"
    last = next(name for name in weights if name == bench.graph.nodes[-1].inputs[1])
    chosen = dict.fromkeys([*weights, *hidden, *flat], fmt) | {"x": "fixed8", last: "fixed8"}
    moved = {} if bits == 1 else dict.fromkeys([*hidden, *flat], -1)
    return Assignment("fixed16", chosen, moved)


def float_model(samples: Samples, layers: Sequence[Layer], epochs: int) -> Model:
    """A float network trained on these samples, its normalisation folded."""
    recipe = Recipe(tuple(layers), schedule=FloatSchedule(epochs=epochs, learning_rate=4e-3))
    built = train_float(samples.x, samples.y, recipe)
    model = model_of(to_onnx("qnn", built.network, samples.x.shape[1:]), Path("qnn.onnx"), "")
    note(model.graph.all_constants())
    return model


def rows(
    bench: Bench, schedule: Schedule, widths: Sequence[int], spent: float, scratch: Bench | None = None
) -> Iterator[Row]:
    """`scratch`: the same network with random weights, to be trained without a teacher."""
    accuracy = bench.judge(Assignment("float32")).float_correct({}, bench.x_test, bench.y_test)
    empty = dict.fromkeys((*(("from scratch",) if scratch else ()), "post-training", "trained", "learned scales"))
    yield {"bits": "float", **empty, "trained": accuracy, "seconds": round(spent)}
    for bits in widths:
        formats = of_bits(bench, bits)
        begin = time.process_time()
        row: Row = {"bits": str(bits), **empty, "post-training": bench.untrained(formats, {})}
        if scratch is not None:
            row["from scratch"] = scratch.trained(of_bits(scratch, bits), replace(schedule, teacher=0.0))[1]
        row["trained"] = bench.trained(formats, schedule)[1]
        if 1 < bits < 8:
            row["learned scales"] = bench.trained(formats, replace(schedule, scales=True))[1]
        yield {**row, "seconds": round(time.process_time() - begin)}


def mnist_samples() -> tuple[Samples, np.ndarray, np.ndarray]:
    """Digits as vectors: some to train on, those to test on with their labels."""
    found = data.load("mnist")
    assert found.y_train is not None
    assert found.y_test is not None
    x, x_test = (a.reshape(len(a), -1) for a in (found.x_train[:MNIST_SAMPLES], found.x_test))
    return divide(x, found.y_train[:MNIST_SAMPLES], ON_MNIST.seed), x_test, found.y_test


def mnist() -> Iterator[Row]:
    samples, x_test, y_test = mnist_samples()
    begin = time.process_time()
    bench = Bench(float_model(samples, MLP, 8).graph, samples, x_test, y_test)
    seconds = time.process_time() - begin
    scratch = replace(bench, graph=mlp((784, 128, 128, 10), "Clip", ON_MNIST.seed))
    yield from rows(bench, ON_MNIST, (8, 4, 2, 1), seconds, scratch)


def cifar() -> Iterator[Row]:
    x, y = pictures("cifar10_train50k_jpeg.npz", CIFAR_SAMPLES)
    x_test, y_test = pictures("cifar10_test10k_jpeg.npz", CIFAR_TESTS)
    x = x / 128 - 1
    samples = divide(x[:CIFAR_TRAINED], y[:CIFAR_TRAINED], ON_CIFAR.seed)
    begin = time.process_time()
    more = replace(samples, x=np.concatenate([samples.x, x[CIFAR_TRAINED:]]), y=np.r_[samples.y, y[CIFAR_TRAINED:]])
    bench = Bench(float_model(more, CNN, 6).graph, samples, x_test / 128 - 1, y_test)
    yield from rows(bench, ON_CIFAR, (8, 4, 2, 1), time.process_time() - begin)


def boards() -> Iterator[Row]:
    """The MLP, trained shortly, on emulated boards; a row where integers differ from the reference is none."""
    found = data.load("mnist")
    assert found.y_train is not None
    x = found.x_train[:4000].reshape(4000, -1)
    samples = divide(x, found.y_train[:4000], 0)
    model = float_model(samples, MLP, 4)
    bench = Bench(model.graph, samples, x, found.y_train[:4000])
    for bits in (8, 4, 2, 1):
        formats = of_bits(bench, bits)
        trained = bench.trained(formats, replace(ON_MNIST, epochs=1))[0]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "qnn.onnx"
            path.write_bytes(trained_onnx(model, trained.constants, "qnn"))
            loaded = tinyhil.load(str(path)).calibrate(samples.calibration)
            row: Row = {"bits": str(bits)}
            for board in ("uno", "due", "h747"):
                row |= measured(loaded, board, formats, found.x_test[:3].reshape(3, -1))
            yield row


def measured(loaded: tinyhil.Model, board: str, formats: Assignment, x: np.ndarray) -> Row:
    """Cycles of a sample and bytes of flash; None where it does not fit."""
    chosen = {"default": formats.default, "values": dict(formats.values), "offsets": dict(formats.offsets)}
    try:
        record = loaded.run(board, x, formats=chosen)
    except DoesNotFit:
        return {f"{board}: cycles": None, f"{board}: flash": None}
    assert record["bit_exact"], f"{board} differs from the reference"
    ticks = int(np.median(record["raw"]["ticks"]))
    return {f"{board}: cycles": f"{ticks:,}", f"{board}: flash": f"{record['flash_bytes']:,} B"}
