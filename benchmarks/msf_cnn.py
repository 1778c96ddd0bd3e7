"""msf-CNN's three networks beside ours: the least arena at no more products than each of its published settings.

    python -m benchmarks.msf_cnn [--write docs/measured/memplan.md]

Its figures are those of its repository (TinyPART/msf-CNN, evaluated models; arXiv:2505.11483): bytes without the input,
and products over those of the network layer by layer. Ours are what `hil plan --pareto --format fixed8` prints.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from benchmarks.marked import replace_between
from benchmarks.networks import NETWORKS
from tinyhil.compiler.calibrate import Ranges
from tinyhil.compiler.lower import lower
from tinyhil.frontend.load import load_model
from tinyhil.language.assignment import Assignment
from tinyhil.language.program import Program
from tinyhil.memplan.arena.schedules import Scheduled, front
from tools.measured import provenance

BEGIN, END = "<!-- benchmarks/msf_cnn.py begin -->", "<!-- benchmarks/msf_cnn.py end -->"
PUBLISHED: Mapping[str, tuple[tuple[int, float], ...]] = {  # bytes, times the products
    "MobileNetV2 0.35, 144 x 144, as msf-CNN has it": (
        *((25_674, 1.25), (21_288, 1.30), (15_340, 1.38), (13_926, 1.56), (7_887, 1.68)),
    ),
    "MCUNet-VWW 5 fps, 80 x 80": ((38_576, 1.02), (26_128, 1.11), (13_376, 1.35), (12_000, 1.96)),
    "MCUNet-320KB, 176 x 176": ((247_808, 1.0), (94_184, 1.45), (62_880, 2.02), (42_643, 2.69)),
}


def program_of(name: str) -> Program:
    """The network in fixed8, whose ranges nobody knows: its sizes are the same."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "network.onnx"
        path.write_bytes(dict(NETWORKS)[name]().SerializeToString())
        graph = load_model(path).graph
    return lower(graph, Assignment("fixed8"), Ranges(dict.fromkeys(graph.all_shapes(), (-1.0, 1.0)), {}))


def ours(found: list[Scheduled], products: float) -> Scheduled:
    """The least arena with at most so many times the products."""
    return min((one for one in found if 1 + one.more_products <= products), key=lambda one: one.peak_bytes)


def rows() -> Iterator[str]:
    yield "| network | msf-CNN B | products | ours B | products |"
    yield "|---|---|---|---|---|"
    for name, published in PUBLISHED.items():
        found = front(program_of(name))
        for size, products in published:
            best = ours(found, products)
            yield f"| {name} | {size:,} | x{products:.2f} | {best.peak_bytes:,} | x{1 + best.more_products:.2f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path, help="replace the table in this Markdown file")
    options = parser.parse_args()
    measured_at = provenance() if options.write else {}
    table = "\n".join(rows())
    print(table)
    if options.write is not None:
        replace_between(options.write, BEGIN, END, table, measured_at)


if __name__ == "__main__":
    main()
