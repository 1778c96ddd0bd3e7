"""When the first answer of a search comes for a network of 24.7M parameters: python -m benchmarks.search.first_answer

MobileNetV2 of 3.65 times the width on 96 x 96 pictures, random weights, 10 classes whose outputs are centred and scaled
over the samples, so that each wins; 40 pictures of waves. Prints seconds, of the processor too, of the first answer and
of all phases under `--ram 2000000 --seconds` (60).
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

from benchmarks.networks import mobilenet_v2
from tinyhil.harness.search.request import SearchRequest
from tinyhil.harness.search.session import run_search
from tinyhil.native import default_cache_dir

SIDE, WIDTH, CLASSES, SAMPLES, RAM_BYTES = 96, 3.65, 10, 40, 2_000_000


def pictures() -> np.ndarray:
    """(samples, 3, side, side) float32: one wave of random direction, length and strength a channel."""
    random = np.random.default_rng(0)
    y, x = np.mgrid[0:SIDE, 0:SIDE] / SIDE
    found = np.zeros((SAMPLES, 3, SIDE, SIDE), np.float32)
    for plane in found.reshape(-1, SIDE, SIDE):
        across, down, phase = random.integers(0, 12, 3)
        wave = np.sin(2 * np.pi * (across * x + down * y) + phase)
        plane[:] = random.uniform(-1, 1) + random.uniform(0, 1) * wave
    return found


def network(x: np.ndarray) -> onnx.ModelProto:
    """The network with its outputs less their mean, over their deviation."""
    made = mobilenet_v2(SIDE, WIDTH, classes=CLASSES)
    session = onnxruntime.InferenceSession(made.SerializeToString())
    raw = np.concatenate([session.run(None, {"x": one[None]})[0] for one in x])
    last = made.graph.node[-1]
    output, last.output[0] = last.output[0], "raw"
    for name, values in (("mean", raw.mean(0, keepdims=True)), ("scale", 1 / raw.std(0, keepdims=True))):
        made.graph.initializer.append(numpy_helper.from_array(values.astype(np.float32), name))
    made.graph.node.append(helper.make_node("Sub", ["raw", "mean"], ["centred"]))
    made.graph.node.append(helper.make_node("Mul", ["centred", "scale"], [output]))
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder, x = Path(name), pictures()
        made = network(x)
        onnx.save(made, folder / "network.onnx")
        np.savez(folder / "x.npz", x=x)
        parameters = sum(int(np.prod(one.dims)) for one in made.graph.initializer)
        request = SearchRequest(
            str(folder / "network.onnx"), RAM_BYTES, inputs=folder / "x.npz", seconds=given.seconds, results=folder
        )
        found = run_search(request, default_cache_dir(), print, lambda trial, best: None)
        print(f"{parameters / 1e6:.1f}M parameters; first answer: {json.dumps(found.record['first_answer'])}")
        for phase in found.record["phases"]:
            print(f"{phase['phase']}: {phase['seconds']:.1f} s, {phase['processor_seconds']:.1f} s of processor")


if __name__ == "__main__":
    main()
