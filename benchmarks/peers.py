"""The networks of the peer comparison on all three emulated boards; prints a Markdown table.

Needs HIL_DATA with `models/peer_bench/`: an MLP 64-32-10 and a small CNN on digits, and a FastGRNN with H = 32 over
128 x 9, here as a Scan instead of unrolled, same weights. The peers' figures on the same files are quoted in
docs/measured/peers.md from one measurement.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tinyhil.harness.build.toolchain import default_cache_dir
from tinyhil.harness.config import load_boards
from tinyhil.harness.job import Request
from tinyhil.harness.measure.run import run
from tinyhil.harness.records.record import store


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


def main() -> None:
    source = Path(os.environ["HIL_DATA"]) / "models" / "peer_bench"
    boards = load_boards()
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        onnx.save(fastgrnn_as_scan(source / "rnn.npz"), work / "fastgrnn.onnx")
        digits = np.load(source / "digits_x.npy").reshape(-1, 64)
        np.savez(work / "digits.npz", x=digits, y=np.load(source / "digits_y.npy").astype(np.int64))
        np.savez(work / "har.npz", x=np.load(source / "har_x.npy"), y=np.load(source / "har_y.npy").astype(np.int64))
        np.savez(work / "images.npz", x=digits.reshape(-1, 1, 8, 8), y=np.load(work / "digits.npz")["y"])
        cases = [
            (source / "mlp.onnx", work / "digits.npz", 450),
            (source / "cnn.onnx", work / "images.npz", 450),
            (work / "fastgrnn.onnx", work / "har.npz", 60),
        ]
        print("| network | board | format | time | flash B | RAM B | accuracy (float) | bit-exact |")
        print("|---|---|---|---|---|---|---|---|")
        for model, inputs, samples in cases:
            for board in ("uno", "due", "h747"):
                for fmt in ("fixed8", "fixed16"):
                    request = Request(board, str(model), fmt, None, inputs, inputs, samples, results=work / "results")
                    outcome = run(request, boards, default_cache_dir(), lambda _: None, lambda *_: None)
                    print(_row(store(outcome)[0]))


def _row(record: dict) -> str:
    latency = record["latency"]
    on_uno = record["board"] == "uno"
    time = f"{latency['median']:,.0f} cycles" if on_uno else f"{latency['instructions']:,.0f} instructions"
    accuracy = f"{record['accuracy']:.3f} ({record['float_accuracy']:.3f})"
    return (
        f"| {record['model']} | {record['board']} | {record['format']} | {time} | {record['flash_bytes']} "
        f"| {record['memory']['total_bytes']} | {accuracy} | {record['bit_exact']} |"
    )


if __name__ == "__main__":
    main()
