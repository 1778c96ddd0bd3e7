"""Cycles of MLPerf Tiny's visual wake words with channels that the weights prove constant computed, and left out.

    python -m benchmarks.constant_channels [--board nucleo_l4r5 --board h747]

One sample of noise on the emulated boards, outputs equal to the reference in both. docs/mlperf.md quotes them, and
docs/claims.yaml holds them to this command. Needs HIL_DATA.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from benchmarks.passes import Case, compiled, cost_of
from tinyhil.harness.settings.config import load_boards

MODEL, PASS = "vww_mobilenetv1_025_96", "constant-channels"


def cycles(board_name: str, folder: Path) -> tuple[int, int]:
    """With these channels computed, and without them."""
    board = load_boards().board(board_name)
    request = Case(MODEL, "int8", board.name).request(folder)
    found = []
    for number, without in enumerate(((PASS,), ())):
        work = folder / f"{board.name}{number}"
        work.mkdir()
        found.append(cost_of(*compiled(request, board, without), board, work).cycles)
    return found[0], found[1]


def main() -> int:
    """Prints a line for each board."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--board", action="append", help="nucleo_l4r5 and h747 without it")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for board in arguments.board or ("nucleo_l4r5", "h747"):
            computed, left_out = cycles(board, Path(folder))
            share = 100 * (computed - left_out) / computed
            print(f"{board}: {computed:,} cycles computed, {left_out:,} left out, {share:.1f} % fewer")
    return 0


if __name__ == "__main__":
    sys.exit(main())
