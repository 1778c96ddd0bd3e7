"""What each kind of layer costs per product on each chip, beside what its inner loop can reach; a Markdown table.

    python -m benchmarks.kernels [--board due --board h747] [--format fixed8]

Cycles on the Uno, instructions on Cortex-M; one layer each, outputs compared with the reference before anything is
printed. Limits: tinyhil/harness/measure/loop_limits.py; `hil profile` shows the same for the layers of a model.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tinyhil.harness.build.toolchain import default_cache_dir
from tinyhil.harness.job.job import Request
from tinyhil.harness.measure.profile import OperationCost, profile
from tinyhil.harness.settings.config import load_boards
from tools.measured import BOARDS

FORMATS = ("fixed8", "fixed8pc", "int8", "fixed16", "float32")
SAMPLES = 2


def dense(inner: int, outputs: int) -> onnx.ModelProto:
    constants = {"w": _normal((outputs, inner)), "b": _normal((outputs,))}
    return _model(
        [helper.make_node("Gemm", ["x", "w", "b"], ["y"], "layer", transB=1)], (inner,), (outputs,), constants
    )


def conv(channels: int, outputs: int, side: int, kernel: int, stride: int = 1, group: int = 1) -> onnx.ModelProto:
    constants = {"w": _normal((outputs, channels // group, kernel, kernel)), "b": _normal((outputs,))}
    ways: dict[str, Any] = {"strides": [stride] * 2, "pads": [kernel // 2] * 4, "group": group}
    after = -(-side // stride)
    node = helper.make_node("Conv", ["x", "w", "b"], ["y"], "layer", **ways)
    return _model([node], (channels, side, side), (outputs, after, after), constants)


def _normal(shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(len(shape)).normal(size=shape).astype(np.float32)


def _model(
    nodes: list[onnx.NodeProto], x: tuple[int, ...], y: tuple[int, ...], constants: dict[str, np.ndarray]
) -> onnx.ModelProto:
    inputs, outputs = (
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, *shape))] for name, shape in (("x", x), ("y", y))
    )
    held = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "layer", inputs, outputs, held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


LAYERS = {
    "fully connected 64 to 32": dense(64, 32),
    "pointwise 32 to 32, 6 x 6": conv(32, 32, 6, 1),
    "3 x 3, 8 to 16, 8 x 8": conv(8, 16, 8, 3),
    "3 x 3 stride 2, 3 to 8, 12 x 12": conv(3, 8, 12, 3, stride=2),
    "depthwise 3 x 3, 8 of 8 x 8": conv(8, 8, 8, 3, group=8),
}


def cost_of(name: str, board: str, fmt: str, folder: Path) -> OperationCost:
    """The layer alone, in a model of nothing else."""
    model, inputs = folder / "layer.onnx", folder / "x.npz"
    onnx.save(LAYERS[name], model)
    shape = [dim.dim_value for dim in LAYERS[name].graph.input[0].type.tensor_type.shape.dim][1:]
    np.savez(inputs, x=_normal((16, *shape)))
    request = Request(board, str(model), fmt, inputs=inputs, calibrate=inputs, samples=SAMPLES, results=folder)
    found = profile(request, load_boards(), default_cache_dir(), lambda _: None, lambda *_: None)
    return max(found.operations, key=lambda operation: operation.macs or 0)


def cell(cost: OperationCost) -> str:
    if cost.per_product is None:
        return "no layer"
    beside = f" ({cost.per_product / cost.limit:.2f})" if cost.limit else ""
    return f"{cost.per_product:.2f}{beside}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--board", action="append", choices=BOARDS, help="default: all")
    parser.add_argument("--format", action="append", help=f"default: {', '.join(FORMATS)}")
    args = parser.parse_args()
    print("Per product, in brackets as a multiple of the best loop known.\n")
    formats = args.format or FORMATS
    print("\n".join(["| layer | board | " + " | ".join(formats) + " |", "|---|---|" + "---|" * len(formats)]))
    for name in LAYERS:
        for board in args.board or BOARDS:
            with tempfile.TemporaryDirectory() as folder:
                cells = [cell(cost_of(name, board, fmt, Path(folder))) for fmt in formats]
            print(f"| {name} | {board} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
