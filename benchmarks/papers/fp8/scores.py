"""What the networks get right in each format and scale, in fake quantisation and on the host engine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache, partial
from typing import Any

import numpy as np

from benchmarks.papers import detection, networks
from benchmarks.papers.fp8 import host_engine
from benchmarks.papers.fp8.fake_quantize import (
    FORMATS,
    INT8,
    WHOLE_REACH,
    Reach,
    Scheme,
    fake_quantized,
    reaches,
    schemes,
)
from benchmarks.papers.paper import Cell, Row, Rows, under
from tinyhil.compiler.calibrate import Ranges, calibrate

BLOCK = 64  # pictures of a cell: a record grows block by block
BLOCKS = {"resnet20": 8}  # 2 for the others
ON_ENGINE = {"resnet20": 64}  # pictures; 16 for the others
EXACT = ("1.0", "power of two")  # the engine's scales are powers of two
SINGLE = "one picture"
# By kernels for eight processors 43 to 46 of 64 pictures were right, and a mAP50 was .2902, .3036 and .3105.
BLAS = {"correct": 3, "map50": 0.03, "apart": 1e-5}
# Scales come from ranges of floats: 12,841 and 12,769 saturations of yolov5n by two kernels, 182 and 180 of another.
SATURATIONS = {"yolov5n": 100}
CLOCK = {"engine_processor_s": float("inf")}


def cells() -> Iterator[Cell]:
    """Networks one after the other, the first block of all in front of the others."""
    names = [one.name for one in (*networks.NETWORKS, *(one for one in networks.OF_THE_USER if one.is_there))]
    for name in names:
        yield from _engine_cells(name)
    for block in range(max(BLOCKS.values())):
        for name in names:
            if block < BLOCKS.get(name, 2):
                yield from _block_cells(name, block)


def _block_cells(name: str, block: int) -> Iterator[Cell]:
    chosen = range(BLOCK * block, BLOCK * (block + 1))
    yield Cell(f"float/{name}/{block}", partial(float_row, name, chosen), BLAS)
    for scheme in schemes():
        yield Cell(f"fake/{name}/{key_of(scheme)}/{block}", partial(fake_row, name, scheme, chosen), BLAS)
    yield Cell(f"cause/{name}/{key_of(WHOLE_REACH)}/{block}", partial(fake_row, name, WHOLE_REACH, chosen), BLAS)


def _engine_cells(name: str) -> Iterator[Cell]:
    chosen = range(ON_ENGINE.get(name, 16))
    for fmt in FORMATS:
        for rule in EXACT:
            if fmt != INT8:
                yield Cell(f"engine/{name}/{fmt}/{rule}", partial(engine_row, name, Scheme(fmt, rule), chosen))
        apart = {**BLAS, "saturations": SATURATIONS.get(name, 4)} if fmt == INT8 else {}
        yield Cell(f"everywhere/{name}/{fmt}", partial(everywhere_row, name, fmt, chosen), apart)
    if name == "yolov5n":
        yield Cell(f"engine/{name}/{SINGLE}", partial(single_row, name), CLOCK)


def key_of(scheme: Scheme) -> str:
    return f"{scheme.format}/{scheme.rule}/{'channel' if scheme.by_channel else 'tensor'}"


@cache
def _pictures(name: str, chosen: range) -> networks.Pictures:
    return networks.pictures(name, chosen)


@cache
def _reaches(name: str) -> dict[str, Reach]:
    return reaches(networks.model(name).graph, networks.calibration(name))


@cache
def _ranges(name: str) -> Ranges:
    return calibrate(networks.model(name).graph, networks.calibration(name), {"name": networks.network(name).pictures})


def score(name: str, outputs: np.ndarray, chosen: range) -> Row:
    """Right answers of a classifier, or mAP at an overlap of one half."""
    of, found = networks.network(name), _pictures(name, chosen)
    if not of.is_detector:
        classes = outputs.reshape(len(outputs), -1)[:, of.first :].argmax(axis=1)
        return {"pictures": len(chosen), "correct": int((classes == found.y).sum())}
    graph = networks.model(name).graph
    planes = outputs.reshape(len(outputs), *graph.shapes[graph.outputs[0]][1:])
    boxes = [detection.boxes(plane) for plane in planes]
    truth = detection.true_boxes(found.y, found.sizes, of.side)
    return {"pictures": len(chosen), "map50": round(detection.average_precision(boxes, truth), 4)}


def float_row(name: str, chosen: range) -> Row:
    """Our float reference and onnxruntime on the file as it is: scores, and how far their outputs are apart."""
    x = _pictures(name, chosen).x
    ours = fake_quantized(networks.model(name).graph, None, {}, x)
    theirs = by_onnxruntime(name, x)
    apart = float(np.abs(ours - theirs).max() / np.abs(theirs).max())
    return {**score(name, ours, chosen), "onnxruntime": score(name, theirs, chosen), "apart": float(f"{apart:.1e}")}


def by_onnxruntime(name: str, x: np.ndarray) -> np.ndarray:
    """Outputs (samples, elements) of the network's file."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(networks.path_of(name)), options, providers=["CPUExecutionProvider"])
    (given,) = session.get_inputs()
    return np.concatenate([session.run(None, {given.name: one[None]})[0].reshape(1, -1) for one in x])


def fake_row(name: str, scheme: Scheme, chosen: range) -> Row:
    x = _pictures(name, chosen).x
    return score(name, fake_quantized(networks.model(name).graph, scheme, _reaches(name), x), chosen)


def engine_row(name: str, scheme: Scheme, chosen: range) -> Row:
    """The engine's integers beside fake quantisation of the same scales and biases, layers summed in float64."""
    graph, x = networks.model(name).graph, _pictures(name, chosen).x
    program = host_engine.operands_only(graph, scheme, _ranges(name))
    stored = host_engine.with_stored_biases(graph, program)
    fake = fake_quantized(stored, scheme, _reaches(name), x, exact=True)
    ran = host_engine.run(program, x)
    apart = np.abs(ran.outputs - fake)
    return {
        **score(name, ran.outputs, chosen),
        "fake": score(name, fake, chosen),
        "equal": round(float((apart == 0).mean()), 4),
        "apart": float(f"{apart.max() / np.abs(fake).max():.1e}"),
        "saturations": ran.saturations,
    }


def everywhere_row(name: str, fmt: str, chosen: range) -> Row:
    """Every value in the format, as `hil run --format` has it; int8 is TensorFlow Lite's."""
    graph, x = networks.model(name).graph, _pictures(name, chosen).x
    format_name = INT8 if fmt == INT8 else FORMATS[fmt]
    ran = host_engine.run(host_engine.everywhere(graph, format_name, _ranges(name)), x)
    return {**score(name, ran.outputs, chosen), "saturations": ran.saturations}


def single_row(name: str) -> Row:
    """One picture in FP8 on the engine: processor seconds, which are at least those by the clock of one core."""
    program = host_engine.operands_only(networks.model(name).graph, Scheme("E4M3", "power of two"), _ranges(name))
    ran = host_engine.run(program, _pictures(name, range(ON_ENGINE.get(name, 16))).x[:1])
    return {"engine_processor_s": ran.processor_s, "operations": len(program.body)}


def total(rows: Sequence[Row]) -> dict[str, Any]:
    """Of blocks: right answers as a share; mAP as the mean of the blocks'."""
    pictures = sum(row["pictures"] for row in rows)
    if "map50" in rows[0]:
        return {"pictures": pictures, "score": sum(row["map50"] * row["pictures"] for row in rows) / pictures}
    return {"pictures": pictures, "score": sum(row["correct"] for row in rows) / pictures}


Totals = dict[str, dict[str, Any]]  # by scheme


def blocks(rows: Rows, kind: str, name: str) -> dict[str, list[Row]]:
    """By scheme the blocks of pictures in their order; of a scheme whose name is 'float', the key is empty."""
    found: dict[str, list[Row]] = {}
    for key, row in under(rows, f"{kind}/{name}").items():
        if "failed" not in row:
            found.setdefault(key.rpartition("/")[0], []).append(row)
    return found


def totals(rows: Rows, kind: str, name: str) -> Totals:
    """Blocks taken together, of what has seen all pictures that the float network has."""
    found = {key: total(each) for key, each in blocks(rows, kind, name).items()}
    (whole,) = (total(each)["pictures"] for each in blocks(rows, "float", name).values())
    return {key: each for key, each in found.items() if each["pictures"] == whole}


def names_of(rows: Rows) -> list[str]:
    """Networks that were measured."""
    return list(dict.fromkeys(key.split("/")[1] for key in rows if key.startswith("float/")))
