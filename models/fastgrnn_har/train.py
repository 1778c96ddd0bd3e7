"""Trains the FastGRNN activity classifier of this folder and writes fastgrnn_har.onnx and its figures.

    python models/fastgrnn_har/train.py                  re-create the model (about two minutes on one core)
    python models/fastgrnn_har/train.py --fold 0         train on three quarters of the subjects, validate on the rest

Needs the extra `train` (torch, onnxruntime). The cell is FastGRNN (Kusupati et al., NeurIPS 2018):

    c = x W + h U,  z = sigmoid(c + b_z),  h~ = tanh(c + b_h),  h' = z * h + (zeta (1 - z) + nu) * h~

with zeta = 1 and nu = 0. Rescaling h makes zeta = 1 for any FastGRNN (U and the classifier absorb the factor), and nu
went to its lower bound 0 when it was trained under a bound on |h|; with both fixed, |h| < 1 holds by construction.
"""

from __future__ import annotations

import argparse
import json
import math
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn

from models.training import fastgrnn
from models.training.fit import Schedule, fit, start
from models.training.publish import correct_of
from tinyhil.data import Dataset, load

HERE = Path(__file__).parent
STEPS, CHANNELS, CLASSES = 128, 9, 6
# Powers of two that bring g and rad/s near unit variance; folding them into W is exact in float32.
INPUT_GAIN = (4.0, 4.0, 4.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0)
# Some batches see 8-bit arithmetic: exponents the input may get (-5 and -6 saturate it).
INPUT_EXPONENTS = (-4, -5, -6)
FOLDS = 4


@dataclass(frozen=True, slots=True)
class Recipe:
    """Everything that decides the outcome besides the data."""

    hidden: int = 32
    rank: int = 8
    rotation_rad: float = 0.1
    amplitude: float = 0.1
    quantized_share: float = 0.4
    schedule: Schedule = field(default_factory=Schedule)


class Network(fastgrnn.Network):
    """The cell of the family with gains that are powers of two, and weights kept below the ends of their formats."""

    product_limit = 3.9

    def __init__(self, recipe: Recipe) -> None:
        nn.Module.__init__(self)
        hidden, rank = recipe.hidden, recipe.rank
        self.mean, self.gain = torch.zeros(CHANNELS), torch.tensor(INPUT_GAIN)
        self.w = nn.ParameterList([torch.randn(CHANNELS, hidden) * 0.3])
        first = torch.randn(hidden, rank) * 0.8 / math.sqrt(hidden)
        self.u = nn.ParameterList([first, torch.randn(rank, hidden) * 0.8 / math.sqrt(rank)])
        self.b_g = nn.Parameter(torch.ones(hidden))
        self.b_h = nn.Parameter(torch.zeros(hidden))
        self.classifier = nn.Parameter(torch.randn(hidden, CLASSES) * 0.3)
        self.bias = nn.Parameter(torch.zeros(CLASSES))

    @torch.no_grad()
    def clamp(self) -> None:
        """Keep the weights below the power of two their 8-bit formats are made for."""
        self.w[0].clamp_(-0.97, 0.97)
        for matrix in (*self.u, self.classifier):
            matrix.clamp_(-1.95, 1.95)


def augment(x: torch.Tensor, recipe: Recipe, random: torch.Generator) -> torch.Tensor:
    """Turn the phone a little and scale body motion, leaving gravity its length."""
    count = len(x)
    angle = torch.randn(count, 3, generator=random) * recipe.rotation_rad
    zero = torch.zeros(count)
    a, b, c = angle.unbind(1)
    turn = torch.matrix_exp(torch.stack([zero, -c, b, c, zero, -a, -b, a, zero], 1).view(count, 3, 3))
    body, gyro, total = (x.view(count, STEPS, 3, 3) @ turn[:, None]).unbind(2)
    gain = 1 + recipe.amplitude * torch.randn(count, 1, 1, generator=random)
    return torch.cat([body * gain, gyro * gain, total + body * (gain - 1)], 2)


def train(x_train: np.ndarray, y_train: np.ndarray, recipe: Recipe) -> Network:
    """A fixed number of epochs: nothing is selected on the way."""
    start(recipe.schedule.seed)
    random = torch.Generator().manual_seed(recipe.schedule.seed)
    choice = np.random.default_rng(recipe.schedule.seed)
    model = Network(recipe)
    criterion = nn.CrossEntropyLoss(label_smoothing=recipe.schedule.label_smoothing)

    def loss(inputs: torch.Tensor, labels: torch.Tensor, progress: float) -> torch.Tensor:
        narrow = progress >= 0.3 and choice.random() < recipe.quantized_share
        exponent = int(choice.choice(INPUT_EXPONENTS)) if narrow else None
        logits, penalty = model(augment(inputs, recipe, random), exponent)
        return criterion(logits, labels) + 0.3 * penalty

    fit(model, (x_train, y_train), recipe.schedule, loss, lambda progress: model.clamp(), random)
    return model


@torch.no_grad()
def accuracy(model: Network, x: np.ndarray, y: np.ndarray, input_exponent: int | None = None) -> float:
    logits, _ = model(torch.tensor(x), input_exponent)
    return float((logits.argmax(1).numpy() == y).mean())


def scan_body(model: Network) -> onnx.GraphProto:
    """One step: (h, x_t) -> h_next. The weights are initializers of the graph around it."""
    hidden = model.b_g.numel()
    nodes = (
        ("MatMul", ("x_t", "W"), "wx"),
        ("MatMul", ("h", "U1"), "uh_low"),
        ("MatMul", ("uh_low", "U2"), "uh"),
        ("Add", ("wx", "uh"), "c"),
        ("Add", ("c", "b_z"), "c_z"),
        ("Sigmoid", ("c_z",), "z"),
        ("Add", ("c", "b_h"), "c_h"),
        ("Tanh", ("c_h",), "h_tilde"),
        ("Sub", ("one", "z"), "gate"),
        ("Mul", ("gate", "h_tilde"), "update"),
        ("Mul", ("z", "h"), "keep"),
        ("Add", ("keep", "update"), "h_next"),
    )
    return helper.make_graph(
        [helper.make_node(op, list(inputs), [output], name=output) for op, inputs, output in nodes],
        "fastgrnn_cell",
        [float_value("h", 1, hidden), float_value("x_t", 1, CHANNELS)],
        [float_value("h_next", 1, hidden)],
    )


def float_value(name: str, *shape: int) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def to_onnx(model: Network) -> onnx.ModelProto:
    """The classifier for one window; opset 17 and IR version 8 run on onnxruntime 1.12 and later."""
    hidden = model.b_g.numel()
    w, b_g, _ = model.folded()
    constants = {
        "W": w[0],
        "U1": model.u[0],
        "U2": model.u[1],
        "b_z": b_g,
        "b_h": model.b_h,
        "one": torch.ones(1),
        "h_0": torch.zeros(1, hidden),
        "fc_w": model.classifier,
        "fc_b": model.bias,
    }
    scan = helper.make_node(
        "Scan",
        ["h_0", "x"],
        ["h_final"],
        name="cell",
        body=scan_body(model),
        num_scan_inputs=1,
        scan_input_axes=[1],
    )
    fc = helper.make_node("MatMul", ["h_final", "fc_w"], ["fc"], name="fc")
    add = helper.make_node("Add", ["fc", "fc_b"], ["logits"], name="logits")
    graph = helper.make_graph(
        [scan, fc, add],
        "fastgrnn_har",
        [float_value("x", 1, STEPS, CHANNELS)],
        [float_value("logits", 1, CLASSES)],
        [numpy_helper.from_array(t.detach().numpy().astype(np.float32), n) for n, t in constants.items()],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, producer_name="tinyhil")
    onnx.checker.check_model(proto, full_check=True)
    return proto


def validate(data: Dataset, recipe: Recipe, fold: int) -> dict[str, float]:
    """Train without every fourth subject and measure on those; the test part is not touched."""
    assert data.y_train is not None
    assert data.groups_train is not None
    held_out = np.isin(data.groups_train, np.unique(data.groups_train)[fold::FOLDS])
    model = train(data.x_train[~held_out], data.y_train[~held_out], recipe)
    x, y = data.x_train[held_out], data.y_train[held_out]
    return {"float": accuracy(model, x, y), "simulated_8_bit": accuracy(model, x, y, INPUT_EXPONENTS[0])}


def main() -> None:
    standard = Recipe()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fold", type=int, choices=range(FOLDS), help="validate instead of writing the model")
    parser.add_argument("--hidden", type=int, default=standard.hidden)
    parser.add_argument("--rank", type=int, default=standard.rank)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=HERE / "fastgrnn_har.onnx")
    args = parser.parse_args()
    data = load("har6")
    if data.y_train is None:
        parser.error("training needs real data; set HIL_DATA or connect to the internet")
    recipe = Recipe(hidden=args.hidden, rank=args.rank, schedule=Schedule(seed=args.seed))
    if args.fold is not None:
        print(json.dumps(validate(data, recipe, args.fold)))
        return
    proto = to_onnx(train(data.x_train, data.y_train, recipe))
    args.out.write_bytes(proto.SerializeToString())
    report = {
        "file": args.out.name,
        "float_accuracy": correct_of(proto, data) / len(data.x_test),
        "n": len(data.x_test),
        "data": data.source,
        "data_sha256": data.sha256,
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main()
