"""What layers of signs and binary weights cost beside the same layers in other formats, on the emulated boards.

    python -m benchmarks.signs [--board due]

Cycles of one layer (Uno, and the models of Cortex-M3 and M7), its outputs compared with the reference before they are
printed; docs/numerics.md has them.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import helper

from benchmarks.kernels import BOARDS, _model, _normal
from tinyhil.harness.build.toolchain import default_cache_dir
from tinyhil.harness.job.job import Request
from tinyhil.harness.measure.profile import profile
from tinyhil.harness.settings.config import load_boards

FORMATS = (("fixed8", "fixed8"), ("fixed4", "fixed4"), ("binary", "fixed8"), ("sign", "sign"))  # weights, values
ENDS: dict[str, np.ndarray] = {"low": np.asarray(-1, np.float32), "high": np.asarray(1, np.float32)}


def dense(inner: int, outputs: int) -> onnx.ModelProto:
    """The layer behind another one and a hard tanh, of which it takes the signs."""
    nodes = [
        helper.make_node("Gemm", ["x", "v"], ["z"], "first", transB=1),
        helper.make_node("Clip", ["z", "low", "high"], ["s"], "limit"),
        helper.make_node("Gemm", ["s", "w", "b"], ["y"], "layer", transB=1),
    ]
    constants = {"w": _normal((outputs, inner)), "b": _normal((outputs,)), "v": _normal((inner, 8)), **ENDS}
    return _model(nodes, (8,), (outputs,), constants)


def conv(channels: int, outputs: int, side: int) -> onnx.ModelProto:
    nodes = [
        helper.make_node("Conv", ["x", "v"], ["z"], "first"),
        helper.make_node("Clip", ["z", "low", "high"], ["s"], "limit"),
        helper.make_node("Conv", ["s", "w", "b"], ["y"], "layer", pads=[1] * 4),
    ]
    constants = {"w": _normal((outputs, channels, 3, 3)), "b": _normal((outputs,)), "v": _normal((channels, 1, 1, 1))}
    return _model(nodes, (1, side, side), (outputs, side, side), {**constants, **ENDS})


LAYERS = {"dense 128 to 64": dense(128, 64), "3 x 3, 32 to 8, 4 x 4": conv(32, 8, 4)}


def cycles(name: str, board: str, formats: tuple[str, str]) -> float:
    """Of the last operation."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        model, inputs, assignment = folder / "layer.onnx", folder / "x.npz", folder / "formats.yaml"
        onnx.save(LAYERS[name], model)
        shape = [dim.dim_value for dim in LAYERS[name].graph.input[0].type.tensor_type.shape.dim][1:]
        np.savez(inputs, x=_normal((16, *shape)))
        weights, values = formats
        assignment.write_text(f"default: fixed8\nvalues: {{w: {weights}, s: {values}, b: fixed16, y: fixed16}}\n")
        request = Request(
            board, str(model), assignment=assignment, inputs=inputs, calibrate=inputs, samples=2, results=folder
        )
        found = profile(request, load_boards(), default_cache_dir(), lambda _: None, lambda *_: None)
        return found.operations[-1].ticks


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--board", action="append", choices=BOARDS)
    boards = parser.parse_args().board or BOARDS
    print(f"| layer, weights · values | {' | '.join(boards)} |\n|{'---|' * (len(boards) + 1)}")
    for name in LAYERS:
        for formats in FORMATS:
            cells = " | ".join(f"{cycles(name, board, formats):,.0f}" for board in boards)
            print(f"| {name}, {' · '.join(formats)} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
