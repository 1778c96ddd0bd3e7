"""Trains `alexnet_cifar.onnx`: AlexNet's kind of network for 32 x 32 pixels, of the size of Krizhevsky's cuda-convnet.

    python -m benchmarks.papers.embedded.train

Three convolutions with pools, two dense layers, ReLU; no local response normalisation, but batch normalisation, folded
when the file is written. Taught by the training part of CIFAR-10 in HIL_DATA without its first pictures, by which
ranges and widths are chosen; for a fixed number of epochs, so that the test part is not looked at. Six minutes of one
processor. Needs torch.
"""

from __future__ import annotations

import sys

import numpy as np
import torch
from torch.nn import functional

from benchmarks.bench import pictures_in
from benchmarks.papers.embedded import ALEXNET
from benchmarks.papers.networks import pictures_path
from models.training.fit import Schedule, fit, start
from models.training.nets import Conv, Dense, Norm, Pool, Relu, build, shifted, to_onnx
from tinyhil.compiler.calibrate import calibrate, save_ranges
from tinyhil.data import load
from tinyhil.data.cifar import CALIBRATION, LARGEST_PIXEL, MEAN, SPREAD
from tinyhil.errors import HilError
from tinyhil.frontend.load import load_model

LAYERS = (
    *(Conv(32, 5, 2), Norm(), Relu(), Pool()),
    *(Conv(32, 5, 2), Norm(), Relu(), Pool()),
    *(Conv(64, 3, 1), Norm(), Relu(), Pool()),
    *(Dense(64), Relu(), Dense(10)),
)
SCHEDULE = Schedule(epochs=10, batch=128, learning_rate=5e-3, weight_decay=1e-2)
MOVED = 2  # pixels, at most
FILE, PICTURES = "cifar10_train50k_jpeg.npz", 50_000


def train(x: np.ndarray, y: np.ndarray) -> torch.nn.Sequential:
    """Of standardised pictures (n, 3, 32, 32); moved and mirrored while they teach."""
    start(SCHEDULE.seed)
    random = torch.Generator().manual_seed(SCHEDULE.seed + 1)
    network = build(x.shape[1:], LAYERS).network
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def loss(inputs: torch.Tensor, labels: torch.Tensor, progress: float) -> torch.Tensor:
        is_mirrored = torch.rand(len(inputs), 1, 1, 1, generator=random) < 0.5
        seen = shifted(torch.where(is_mirrored, inputs.flip(3), inputs), MOVED, random)
        scores = network(seen.to(memory_format=torch.channels_last))
        return functional.cross_entropy(scores, labels, label_smoothing=SCHEDULE.label_smoothing)

    fit(network, (x, y), SCHEDULE, loss)
    return network.eval()


def main() -> None:
    pixels, labels = pictures_in(pictures_path(FILE), PICTURES)
    x = ((pixels / LARGEST_PIXEL - MEAN) / SPREAD)[CALIBRATION:]
    model = to_onnx(ALEXNET.stem, train(x, labels[CALIBRATION:]), x.shape[1:])
    ALEXNET.write_bytes(model.SerializeToString())
    data, opened = load("cifar10"), load_model(ALEXNET)
    source = {"name": data.name, "sha256": data.sha256, "split": "train", "samples": len(data.x_train)}
    save_ranges(ALEXNET.with_suffix(".ranges.json"), calibrate(opened.graph, data.x_train, source), opened.sha256)


if __name__ == "__main__":
    try:
        main()
    except HilError as error:
        sys.exit(f"train: {error}")
