"""The networks of the peer comparison and MLPerf Tiny's on the emulated boards, wins and losses alike.

`python -m benchmarks.peers` writes results/networks.json, which docs/measured/peers.md shows (python -m tools.docs).
Cycles on the Uno, instructions on Cortex-M3 and M7. Needs HIL_DATA with `models/peer_bench/` (an MLP 64-32-10 and a
small CNN on digits, and a FastGRNN with H = 32 over 128 x 9, here as a Scan instead of unrolled, same weights) and
`models/mlperftiny_*.onnx`. The peers' figures on the same files are constants here, from one measurement with the same
compilers and flags that no script of this repository repeats, CMSIS-NN 16x8 among them: their sources are not ours to
bring. X-CUBE-AI is closed: its figures are published cycles, and our modelled cycles are held against them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from benchmarks.given import given_data
from tinyhil.errors import DoesNotFit
from tinyhil.harness.build.toolchain import default_cache_dir
from tinyhil.harness.job.job import Request
from tinyhil.harness.measure.record import store
from tinyhil.harness.measure.run import run
from tinyhil.harness.settings.config import Boards, load_boards
from tools.measured import ARM, BOARDS, provenance, write


def fastgrnn_as_scan(weights: Path) -> onnx.ModelProto:
    """ONNX model of the cell c = xW + hU; z = sigmoid(c + bg); h = z h + (zeta (1 - z) + nu) tanh(c + bh)."""
    w = dict(np.load(weights))
    constants = {"W": w["W"], "U": w["U"], "bg": w["bg"], "bh": w["bh"], "F": w["F"], "f": w["f"]}
    constants["zeta"] = w["zeta"].reshape(1)
    constants["zeta_nu"] = (w["zeta"] + w["nu"]).reshape(1)
    constants["h0"] = np.zeros((1, 32), np.float32)
    steps = [
        ("MatMul", "x_t W", "wx"), ("MatMul", "h U", "uh"), ("Add", "wx uh", "c"), ("Add", "c bg", "cg"),
        ("Sigmoid", "cg", "z"), ("Add", "c bh", "ch"), ("Tanh", "ch", "h_tilde"), ("Mul", "z zeta", "zz"),
        ("Sub", "zeta_nu zz", "gate"), ("Mul", "gate h_tilde", "update"), ("Mul", "z h", "keep"),
        ("Add", "keep update", "h_next"),
    ]  # fmt: skip
    body = helper.make_graph(
        [helper.make_node(op, inputs.split(), [output], name=output) for op, inputs, output in steps],
        "cell",
        [_info("h", (1, 32)), _info("x_t", (1, 9))],
        [_info("h_next", (1, 32))],
    )
    scan = helper.make_node("Scan", ["h0", "x"], ["h_last"], "scan", body=body, num_scan_inputs=1, scan_input_axes=[1])
    graph = helper.make_graph(
        [scan, helper.make_node("Gemm", ["h_last", "F", "f"], ["y"], "fc")],
        "fastgrnn",
        [_info("x", (1, 128, 9))],
        [_info("y", (1, 6))],
        [numpy_helper.from_array(np.ascontiguousarray(a, np.float32), name) for name, a in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _info(name: str, shape: tuple[int, ...]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


@dataclass(frozen=True)
class Network:
    """A model with inputs it is calibrated and run on, and what the fastest peer takes on each board; `wide_peers`: of
    those with activations of 16 bits."""

    title: str
    model: Path
    inputs: Path
    samples: int
    peers: Mapping[str, tuple[str, float]]
    wide_peers: Mapping[str, tuple[str, float]]
    boards: tuple[str, ...] = ARM


CMSIS, HAND = "TFLM + CMSIS-NN int8", "hand-written C int8"
# X-CUBE-AI 9.0 on an STM32H7A3, measured in cycles (MLPerf Tiny v1.2); the others are counted in instructions
ST = "X-CUBE-AI int8, cycles"
# Activations of 16 bits: the functions of CMSIS-NN alone, without an interpreter, and plain C with weights of 16 bits
CMSIS_16, HAND_16 = "CMSIS-NN 16x8", "hand-written C int16"
FORMATS = ("fixed8", "int8", "fixed16")


def networks(work: Path) -> Iterator[Network]:
    data = given_data()
    source = data / "models" / "peer_bench"
    onnx.save(fastgrnn_as_scan(source / "rnn.npz"), work / "fastgrnn.onnx")
    digits, labels = np.load(source / "digits_x.npy"), np.load(source / "digits_y.npy").astype(np.int64)
    flat = _saved(work / "digits.npz", digits.reshape(-1, 64), labels)
    images = _saved(work / "images.npz", digits.reshape(-1, 1, 8, 8), labels)
    windows = _saved(work / "har.npz", np.load(source / "har_x.npy"), np.load(source / "har_y.npy").astype(np.int64))
    mlp = {"uno": (HAND, 85.1e3), "due": (CMSIS, 11.2e3), "h747": (CMSIS, 7.8e3)}
    mlp_16 = {"uno": (HAND_16, 179e3), "due": (HAND_16, 12.6e3), "h747": (CMSIS_16, 9.51e3)}
    yield Network("MLP 64-32-10", source / "mlp.onnx", flat, 450, mlp, mlp_16, BOARDS)
    cnn = {"uno": (HAND, 685e3), "due": (CMSIS, 116e3), "h747": (CMSIS, 98.8e3)}
    cnn_16 = {"uno": (HAND_16, 1.64e6), "due": (CMSIS_16, 113e3), "h747": (CMSIS_16, 99.6e3)}
    yield Network("CNN on 8 x 8 digits", source / "cnn.onnx", images, 450, cnn, cnn_16, BOARDS)
    cell = {"uno": (HAND, 7.49e6), "due": (HAND, 1.21e6), "h747": (HAND, 1.18e6)}
    cell_16 = {"uno": (HAND_16, 14.2e6), "due": (HAND_16, 1.22e6), "h747": (HAND_16, 1.19e6)}
    yield Network("FastGRNN H = 32, 128 x 9", work / "fastgrnn.onnx", windows, 20, cell, cell_16, BOARDS)
    with np.load(data / "small" / "kws12_mfcc_test.npz") as held:
        words = ((held["x"].astype(np.float32) - held["zero_point"]) * held["scale"]).astype(np.float32)
    with np.load(data / "small" / "cifar10_test500.npz") as held:
        pictures = held["x"].astype(np.float32).transpose(0, 3, 1, 2)
    noise = np.random.default_rng(1)  # costs do not depend on the inputs
    keywords = {"due": (CMSIS, 10.5e6), "h747": (CMSIS, 7.65e6)}
    objects = {"due": (CMSIS, 41.9e6), "h747": (CMSIS, 30.0e6)}
    for title, name, x, peers, wide in (
        ("DS-CNN (keywords)", "kws_dscnn", words.reshape(-1, 1, 49, 10), keywords, (18.6e6, 9.96e6)),
        ("ResNet-8 (CIFAR-10)", "ic_resnet8", pictures, objects, (40.2e6, 32e6)),
        (
            "MobileNetV1 .25 (person)",
            "vww_mobilenetv1_025_96",
            noise.random((40, 3, 96, 96)),
            {"h747": (ST, 6.67e6)},
            (None, 31.5e6),
        ),
        (
            "autoencoder (machine sounds)",
            "ad_autoencoder",
            noise.normal(-10, 3, (40, 640)),
            {"h747": (ST, 0.343e6)},
            (1.41e6, 0.738e6),
        ),
    ):
        of_16 = {board: (CMSIS_16, cost) for board, cost in zip(ARM, wide, strict=True) if cost}
        inputs = _saved(work / f"{name}.npz", x[:40].astype(np.float32))
        yield Network(title, data / "models" / f"mlperftiny_{name}.onnx", inputs, 2, peers, of_16)


def _saved(path: Path, x: np.ndarray, y: np.ndarray | None = None) -> Path:
    if y is None:
        np.savez(path, x=x)
    else:
        np.savez(path, x=x, y=y)
    return path


def main() -> None:
    measured_at, boards, rows = provenance(), load_boards(), []
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        for network in networks(work):
            for board in network.boards:
                rows.append(_row(network, board, boards, work))
                print(rows[-1], flush=True)
    write("networks", measured_at, rows)


def measured(title: str, board: str) -> dict[str, Any]:
    """The row of one network on one board."""
    with tempfile.TemporaryDirectory() as folder:
        (network,) = (one for one in networks(Path(folder)) if one.title == title)
        return _row(network, board, load_boards(), Path(folder))


def _row(network: Network, board: str, boards: Boards, work: Path) -> dict[str, Any]:
    costs = {fmt: _costs(_record(network, board, fmt, boards, work)) for fmt in FORMATS}
    peer, cost = network.peers.get(board, (None, None))
    wide, wide_cost = network.wide_peers.get(board, (None, None))
    beside = {"peer": peer, "cost": cost, "wide_peer": wide, "wide_cost": wide_cost}
    return {"network": network.title, "board": board, "formats": costs, **beside}


def _costs(record: Mapping[str, Any] | None) -> dict[str, int] | None:
    """Cycles and instructions of one inference, RAM and flash of the whole firmware in bytes."""
    if record is None:
        return None
    latency = record["latency"]
    return {
        "cycles": round(latency["median"]),
        "instructions": round(latency.get("instructions", 0)),
        "ram_bytes": record["memory"]["total_bytes"],
        "flash_bytes": record["flash_bytes"],
    }


def _record(network: Network, board: str, fmt: str, boards: Boards, work: Path) -> dict[str, Any] | None:
    """None where it does not fit."""
    request = Request(
        board, str(network.model), fmt, inputs=network.inputs, calibrate=network.inputs, samples=network.samples,
        results=work / "results",
    )  # fmt: skip
    try:
        record = store(run(request, boards, default_cache_dir(), lambda _: None, lambda *_: None))[0]
    except DoesNotFit:
        return None
    if not record["bit_exact"]:
        raise SystemExit(f"{network.title} on {board} in {fmt}: other outputs than the reference")
    return record


if __name__ == "__main__":
    main()
