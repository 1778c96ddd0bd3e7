"""What a dense layer costs in each number format on the emulated boards; prints a Markdown table.

Uno: cycles per multiply-accumulate, exact. Due and H747: instructions, exact. `loop` is the slope between two lengths,
so without what an output costs; `ratio` is to fixed16's loop in the same run, `float` how many times faster than
float32's loop, which on Uno and Due is the compiler's software float. Every result is compared with numpy first.

SoftPosit's quire (q16_fdp_add, same compiler and flags) took 140 instructions per product of posit<16,1> on the
emulated Cortex-M3, regimes of at most three bits; it is no dependency of ours, so that figure is quoted.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

from tests.format_layers import Layer, layer, run
from tinyhil.formats.fixed import Fixed
from tinyhil.formats.minifloat import E2M1, E4M3, E5M2
from tinyhil.formats.posit import Posit
from tinyhil.formats.single import BFLOAT16, FLOAT16, FLOAT32
from tinyhil.harness.settings.config import load_boards

FORMATS = (
    (Fixed(16, 0), "int32_t"),
    (FLOAT32, "float"),
    (Fixed(8, 0), "int32_t"),
    (Posit(8, 0), ""),
    (Posit(8, 2), ""),
    (Posit(16, 1), ""),
    (Posit(16, 2), ""),
    (E4M3, ""),
    (E5M2, ""),
    (E2M1, ""),
    (BFLOAT16, "float"),
    (FLOAT16, "float"),
)
OUTPUTS = 8
LENGTHS = {"uno": (48, 112), "due": (64, 256), "h747": (64, 256)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("boards", nargs="*", default=list(LENGTHS))
    boards = parser.parse_args().boards
    print("| board | format | accumulator | layer, per product | loop | ratio | float |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as cache:
        for board in boards:
            _table(board, Path(cache))


def _table(board: str, cache: Path) -> None:
    short, long = LENGTHS[board]
    baseline: dict[str, Any] = {}
    for fmt, accumulator in FORMATS:
        layers = [layer(fmt, OUTPUTS, inner, accumulator) for inner in (short, long)]
        # the same window at both lengths, or the slope is between two kernels
        layers[0] = Layer(fmt, layers[0].weights, layers[0].x, layers[1].accumulator)
        costs = run(layers, load_boards().board(board), cache)
        for one, cost in zip(layers, costs, strict=True):
            want = one.expected() & ((1 << 8 * fmt.storage_bytes) - 1)
            assert cost.codes.tolist() == want.tolist(), f"{board}: {fmt} differs from numpy"
        loop = (costs[1].ticks - costs[0].ticks) / ((long - short) * OUTPUTS)
        baseline.setdefault("int16", loop)
        if fmt == FLOAT32:
            baseline["float"] = loop
        faster = f"{baseline['float'] / loop:.2f}" if "float" in baseline else ""
        kind = str(fmt).split(" ")[0]
        layer_cost = costs[1].ticks / (long * OUTPUTS)
        print(
            f"| {board} | {kind} | {layers[1].c_accumulator} | {layer_cost:.2f} | {loop:.2f} "
            f"| {loop / baseline['int16']:.2f} | {faster} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
