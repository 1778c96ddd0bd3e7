"""Every order in which the rows of small networks can be made, against the planner's schedules.

    python -m benchmarks.row_orders [--write docs/measured/memplan.md]

A state is how many rows of every tensor are made; what is live then follows from it, so the least of all orders is a
path through the states whose largest step is smallest. Each row is made once and may lie anywhere, a row in the place
of one that dies with it: no plan of any schedule of rows needs less. Plans hold the result whole from its first row on,
as planes; what that alone costs is told apart.
"""

from __future__ import annotations

import argparse
import heapq
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from benchmarks.marked import replace_between
from benchmarks.networks import Network
from tinyhil.compiler.calibrate import Ranges
from tinyhil.compiler.lower import lower
from tinyhil.frontend.load import load_model
from tinyhil.language.assignment import Assignment
from tinyhil.language.program import Program, walk
from tinyhil.memplan.arena.placement import place
from tinyhil.memplan.arena.row_stages import Stage, joined_parts, stages_of
from tinyhil.memplan.arena.schedules import front
from tinyhil.memplan.arena.windows_in_place import may_read_in_place, read_in_place, weights_of
from tools.measured import provenance

BEGIN, END = "<!-- benchmarks/row_orders.py begin -->", "<!-- benchmarks/row_orders.py end -->"
CHAINS, BRANCHES = 13, 7
Made = tuple[int, ...]  # rows of each stage


@dataclass(frozen=True)
class Orders:
    """The stages of a program as units of rows. `is_whole`: the result takes all of its bytes from its first row on."""

    program: Program
    stages: tuple[Stage, ...]
    is_whole: bool = False

    @staticmethod
    def of(program: Program, *, is_whole: bool = False) -> Orders:
        """ValueError unless all of its operations go row by row."""
        found = stages_of(program)
        joined = joined_parts(list(found.values()))
        if len(found) != len(program.body) or joined is None:
            raise ValueError(f"'{program.name}': some operations do not go row by row")
        return Orders(program, tuple(joined), is_whole)

    @cached_property
    def makers(self) -> dict[str, list[int]]:
        """Of each tensor the stages that make it."""
        found: dict[str, list[int]] = {}
        for at, stage in enumerate(self.stages):
            found.setdefault(stage.target, []).append(at)
        return found

    @cached_property
    def _readers(self) -> dict[str, list[tuple[int, int]]]:
        found: dict[str, list[tuple[int, int]]] = {}
        for at, stage in enumerate(self.stages):
            for number, one in enumerate(stage.reads):
                found.setdefault(one.name, []).append((at, number))
        return found

    def row_bytes(self, at: int) -> int:
        """Of a row of what the stage makes."""
        stage = self.stages[at]
        return stage.out.row_elements * self.program.tensors[stage.target].format.storage_bytes

    def scratch_bytes(self, at: int) -> int:
        """Of the stage while it makes a row."""
        scratch = self.stages[at].op.scratch
        return self.program.tensors[scratch].for_a_row.size_bytes if scratch else 0

    def first_needed(self, name: str, made: Made) -> int:
        """The first row of a tensor that somebody still needs."""
        if name == self.program.output:
            return 0
        still = [height := max(self.stages[at].whole.height for at in self.makers[name])]
        for at, number in self._readers.get(name, ()):
            if made[at] < self.stages[at].out.height:
                still.append(self.stages[at].reads[number].first(made[at]))
        return min(still) if len(still) > 1 else height

    def live_bytes(self, made: Made) -> int:
        """Between two rows."""
        first = {name: self.first_needed(name, made) for name in self.makers}
        lives = [max(0, n - first[self.stages[at].target]) for at, n in enumerate(made)]
        for at in self.makers[self.program.output] if self.is_whole else ():
            lives[at] = self.stages[at].out.height if lives[at] else 0
        return sum(self.row_bytes(at) * rows for at, rows in enumerate(lives))

    def may_make(self, made: Made, at: int) -> bool:
        """Whether the next row of a stage has all that it needs."""
        stage = self.stages[at]
        if made[at] >= stage.out.height:
            return False
        makers = ((one.needed(made[at] + 1), by) for one in stage.reads for by in self.makers.get(one.name, ()))
        return all(made[by] >= needed for needed, by in makers)

    def needs(self, made: Made, then: Made, at: int) -> int:
        """Bytes at once while a row is made; it may take the place of one that dies with it."""
        before, after = self.live_bytes(made), self.live_bytes(then)
        stage = self.stages[at]
        takes_place = (bool(stage.overwrites) or stage.by_channel) and after <= before
        is_there = self.is_whole and stage.target == self.program.output and made[at] > 0
        beside = 0 if takes_place or is_there else self.row_bytes(at)
        return max(before + beside, after) + self.scratch_bytes(at)

    def least_bytes(self) -> int:
        """Of all orders."""
        start, end = (0,) * len(self.stages), tuple(stage.out.height for stage in self.stages)
        best, waiting = {start: 0}, [(0, 0, start)]
        while waiting:
            peak, _, made = heapq.heappop(waiting)
            if made == end:
                return peak
            if peak > best[made]:
                continue
            for at in range(len(made)):
                if self.may_make(made, at):
                    then = (*made[:at], made[at] + 1, *made[at + 1 :])
                    most = max(peak, self.needs(made, then, at))
                    if most < best.get(then, most + 1):
                        best[then] = most
                        heapq.heappush(waiting, (most, -sum(then), then))
        raise ValueError(f"'{self.program.name}': no order makes all rows")


def without_patches(program: Program) -> Program:
    """With every window that can be read in place."""
    return read_in_place(program, {weights_of(op) for op in walk(program.body) if may_read_in_place(program, op)})


def networks() -> Iterator[tuple[str, Network]]:
    """Small chains of layers, and branches that are added or lie beside each other, drawn at random."""
    for number in range(CHAINS):
        draw = np.random.default_rng(number)
        net = Network(int(draw.integers(6, 11)), int(draw.integers(1, 4)))
        for _ in range(int(draw.integers(2, 4))):
            _layer(net, draw)
        yield f"chain {number + 1}", net
    for number in range(BRANCHES):
        draw = np.random.default_rng(100 + number)
        net = Network(int(draw.integers(6, 9)), int(draw.integers(1, 4))).conv(int(draw.integers(2, 5)), 3)
        begin, channels = net.last, net.channels
        left = net.conv(int(draw.integers(2, 6)), 3).conv(width := int(draw.integers(2, 6)), 1).last
        net.last, net.channels = begin, channels
        net.conv(width, int(draw.choice((1, 3))))
        if number % 2:
            net.add("Add", left)
        else:
            net.add("Concat", left, axis=1)
            net.channels = 2 * width
        net.conv(int(draw.integers(1, 4)), 3, int(draw.integers(1, 3)))
        yield f"branches {number + 1}", net


def _layer(net: Network, draw: np.random.Generator) -> None:
    kind = draw.choice(("conv", "conv", "pointwise", "depthwise", "pool"))
    if kind == "conv":
        net.conv(int(draw.integers(2, 7)), 3, int(draw.integers(1, 3)))
    elif kind == "pointwise":
        net.conv(int(draw.integers(2, 9)), 1)
    elif kind == "depthwise":
        net.depthwise(1)
    else:
        net.pool("MaxPool", 2, 1)


def program_of(net: Network) -> Program:
    """In fixed8, of ranges that nobody knows."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "network.onnx"
        path.write_bytes(net.model().SerializeToString())
        graph = load_model(path).graph
    return lower(graph, Assignment("fixed8"), Ranges(dict.fromkeys(graph.all_shapes(), (-1.0, 1.0)), {}))


def rows() -> Iterator[str]:
    yield "| network | ours | result whole | every order | once: ours | result whole | every order | least |"
    yield "|---|---|---|---|---|---|---|---|"
    for name, net in networks():
        program, figures = program_of(net), list[int]()
        in_place, schedules = without_patches(program), front(program)
        once = [one for one in (*schedules, *front(in_place)) if not one.more_products]
        least_once = min(place(in_place).plan.peak_bytes, *(one.peak_bytes for one in once))
        for one, ours in ((program, place(program).plan.peak_bytes), (in_place, least_once)):
            orders = (Orders.of(one, is_whole=is_whole).least_bytes() for is_whole in (True, False))
            figures += [ours, *orders]
        yield f"| {name} | {' | '.join(map(str, (*figures, schedules[-1].peak_bytes)))} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path, help="replace the table in this Markdown file")
    options = parser.parse_args()
    measured_at = provenance() if options.write else {}
    made = list[str]()
    for row in rows():
        print(row, flush=True)
        made.append(row)
    if options.write is not None:
        replace_between(options.write, BEGIN, END, "\n".join(made), measured_at)


if __name__ == "__main__":
    main()
