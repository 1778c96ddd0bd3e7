"""The modelled time of schedules against their time on emulated boards, and the model's table.

    python -m benchmarks.schedule_times [--only h747] [--fit [--keep row,channel]]

Small networks go by `hil run --ram N` in several schedules of `hil plan --pareto`, from layer by layer to least RAM.
A row: the schedules that take longer than layer by layer, and how far the time that is modelled of them is off. `--fit`
profiles them and prints the table of memplan/arena/core_times.py: what all operations say, each weighed by the
share of its network's time that it takes; `--keep`: but for these costs, which stay as they are. Then also how far
off the costs are of a network that was left out.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, fields, replace
from pathlib import Path

import numpy as np
import onnx
from scipy.optimize import nnls

from benchmarks.networks import Network
from benchmarks.quiet import quiet
from tinyhil.errors import DoesNotFit, HilError
from tinyhil.harness.build.pipeline import arranged_for, core_of
from tinyhil.harness.job.job import Request
from tinyhil.harness.measure.profile import OperationCost, profile_run
from tinyhil.harness.measure.run import Outcome, run
from tinyhil.harness.settings.config import load_boards
from tinyhil.language.program import Op, Program, loops_of, walk
from tinyhil.memplan.arena.core_times import (
    EXACT,
    RESCALED,
    TABLE,
    WIDE,
    Cycles,
    arithmetic_of,
    counts_of,
    in_place,
    of_rows,
)
from tinyhil.memplan.arena.placement_preference import input_bytes
from tinyhil.memplan.arena.row_costs import is_depthwise
from tinyhil.memplan.arena.row_wise import rows_made
from tinyhil.memplan.arena.schedules import Schedules
from tinyhil.native import default_cache_dir
from tinyhil.preference import LATENCY

BOARDS = ("uno", "pico", "due", "nucleo_l4r5", "h747")
FORMATS = ("fixed8", "int8", "fixed16")
MOST = 5  # schedules of a network, beside layer by layer
NINE_IN_TEN = 0.9
LEAST = 0.03  # more time: less is not told from how code lies in memory
ARITHMETICS = (EXACT, RESCALED, WIDE)
NAMES = tuple(field.name for field in fields(Cycles))
Counts = dict[str, float]


def networks() -> dict[str, Network | None]:
    """Of random weights, and of the zoo."""
    two = Network(8, 1).conv(8, 3).relu().pool("MaxPool", 2, 2).conv(16, 3).relu().pool("MaxPool", 2, 2)
    separable = Network(16, 3).conv(8, 3, 2).relu().depthwise(1).relu().conv(16).relu().depthwise(2).relu().conv(24)
    wide = Network(10, 4).conv(12, 3).relu().conv(16).relu().conv(6, 5, 2).relu().conv(8, 3)
    joined = Network(12, 2).conv(8, 3).relu()
    begin = joined.last
    joined.conv(8, 3).relu().conv(8, 3).add("Add", begin).relu().pool("MaxPool", 2, 2).conv(12, 3, 2)
    mean = separable.relu().add("GlobalAveragePool").conv(10)
    inner = Network(18, 1).conv(6, 5, pad=0).relu().pool("MaxPool", 2, 2).conv(12, 3).relu().pool("AveragePool", 2, 2)
    valid = Network(14, 3).conv(8, 3, pad=0).relu().conv(12, 3, pad=0).relu().pool("MaxPool", 2, 2).conv(6, 3, pad=0)
    return {
        "digits_cnn": None,
        "two": two,
        "separable": mean,
        "joined": joined,
        "wide": wide,
        "lenet5_mnist": None,
        "inner": inner,
        "valid": valid,
    }


@dataclass(frozen=True)
class Measured:
    """A schedule that ran: `more`: of the time of layer by layer, modelled and measured; `counts`: of each operation
    what the model multiplies, by its arithmetic, with its cycles."""

    bytes: int
    cycles: float
    modelled: float
    measured: float
    counts: Sequence[tuple[str, Counts, float]]


def schedules(name: str, network: Network | None, board: str, fmt: str, folder: Path, *, fit: bool) -> list[Measured]:
    """Layer by layer, then others, as far as the board has room for them."""
    request = _request(name, network, board, fmt, folder)
    spec = load_boards(None).board(board)
    fastest = _ran(replace(request, prefer=LATENCY))  # with what takes more scratch for less time
    program = arranged_for(fastest.compiled.lowered, spec)
    beside, known = input_bytes(program), Schedules(program, core=core_of(spec))
    within = Schedules(program.with_input_in_arena(), core=core_of(spec))
    limits = sorted({one.peak_bytes + beside for one in known.front()} | {one.peak_bytes for one in within.front()})
    chosen = [limits[round(at)] for at in np.linspace(0, len(limits) - 1, MOST)]
    layers = _ran(replace(request, ram=limits[-1]))
    found = [_measured(layers, layers, 0.0, fit=fit)]
    for limit in dict.fromkeys(reversed(chosen[:-1])):
        try:
            outcome = _ran(replace(request, ram=limit))
        except DoesNotFit:  # beside the stack
            continue
        in_arena = outcome.compiled.program.input_in_arena
        one = within.within(limit) if in_arena else known.within(limit - beside)
        found.append(_measured(outcome, layers, one.more_time, fit=fit))
    return found


def _request(name: str, network: Network | None, board: str, fmt: str, folder: Path) -> Request:
    if network is None:
        return Request(board, name, fmt, samples=2, results=folder)
    path, samples = folder / f"{name}.onnx", folder / f"{name}.npz"
    if not path.is_file():
        model = network.model()
        shape = [axis.dim_value for axis in model.graph.input[0].type.tensor_type.shape.dim]
        onnx.save(model, path)
        np.savez(samples, x=np.random.default_rng(3).standard_normal((8, *shape[1:])).astype(np.float32))
    return Request(board, str(path), fmt, inputs=samples, calibrate=samples, samples=2, results=folder)


def _ran(request: Request) -> Outcome:
    return run(request, load_boards(None), default_cache_dir(), quiet, quiet)


def _measured(outcome: Outcome, layers: Outcome, modelled: float, *, fit: bool) -> Measured:
    cycles, program = float(outcome.ticks.mean()), outcome.compiled.program
    costs = profile_run(outcome, load_boards(None), default_cache_dir(), quiet).operations if fit else ()
    counts = list(_counts(program, {(cost.name, cost.output): cost for cost in costs}, core_of(outcome.board)))
    more = cycles / float(layers.ticks.mean()) - 1
    return Measured(outcome.compiled.plan.peak_bytes, cycles, modelled, more, counts)


def _counts(
    program: Program, costs: dict[tuple[str, str], OperationCost], core: str
) -> Iterator[tuple[str, Counts, float]]:
    """Of each operation that a profile has."""
    loops = list(loops_of(program.body))
    for op in walk(program.body):
        cost = costs.pop((op.name, op.output), None)
        if cost is None:
            continue
        calls, whole = 0, op
        if op.kernel.rows:
            loop = next(loop for loop in loops if any(item is op for item in loop.body))
            calls, whole = rows_made(program.constants, loop, op), replace(op, inputs=op.inputs[1:])
        yield arithmetic_of(program, whole), _made(program, whole, cost, calls, core), cost.ticks


def _made(program: Program, op: Op, cost: OperationCost, calls: int, core: str) -> Counts:
    """What an operation has made, all of it or in so many calls for a row."""
    p, elements = op.params, float(cost.elements)
    if cost.macs is None:
        whole = 0.0 if calls else counts_of(program, op)["element"]
        read = max(whole, elements * p.get("kernel_y", 1) * p.get("kernel_x", 1))
        return of_rows(op, calls, p.get("channels", 0)) | {"element": read}
    if "groups" not in p:
        return counts_of(program, op)
    made = of_rows(op, calls, p["outputs"]) | {"result": elements}
    if is_depthwise(op):
        return made | {"depthwise": cost.macs}
    placed, gathered = in_place(op, cost.macs, core), cost.macs * p["groups"] / p["outputs"]
    if not op.scratch:
        return made | placed
    return made | {"product": cost.macs, "gathered": gathered, "padded": gathered * (placed["outside"] > 0)}


def equations(found: Sequence[Measured]) -> Iterator[tuple[np.ndarray, float]]:
    """What the cycles of operations say of a core's costs, each weighed by the root of its share of the network's; and
    what schedules say that take longer than layer by layer, the first, each weighed alike."""
    layers = found[0]
    for one in found:
        for operation in one.counts:
            weight = (max(operation[2], 1.0) * layers.cycles) ** -0.5
            yield weight * _sums([operation]), weight * operation[2]
    for one in found[1:]:
        weight = 1 / max(one.cycles - layers.cycles, LEAST * layers.cycles)
        yield weight * (_sums(one.counts) - _sums(layers.counts)), weight * (one.cycles - layers.cycles)


def _sums(operations: Sequence[tuple[str, Counts, float]]) -> np.ndarray:
    found = np.zeros((len(ARITHMETICS), len(NAMES)))
    for arithmetic, counts, _ in operations:
        found[ARITHMETICS.index(arithmetic)] += [counts.get(name, 0.0) for name in NAMES]
    return found.ravel()


def suited(found: Sequence[tuple[np.ndarray, float]], core: str, keep: Sequence[str]) -> np.ndarray:
    """The costs that suit the equations best, none below zero, but for those of these names, as a row."""
    left, right = np.array([row for row, _ in found]), np.array([cycles for _, cycles in found])
    costs = np.array([astuple(TABLE[core, arithmetic]) for arithmetic in ARITHMETICS]).ravel()
    fixed = np.tile([name in keep for name in NAMES], len(ARITHMETICS))
    free = ~fixed & left.any(axis=0)
    costs[free] = nnls(left[:, free], right - left[:, fixed] @ costs[fixed])[0]
    return costs


def left_out(
    known: dict[str, list[tuple[np.ndarray, float]]], core: str, ran: Sequence[Measured], keep: Sequence[str]
) -> Iterator[float]:
    """Modelled over measured time of the schedules of one network, by costs that suit all others."""
    costs = suited([one for own in known.values() for one in own], core, keep)
    layers = float(_sums(ran[0].counts) @ costs)
    for one in ran[1:]:
        if one.measured > LEAST:
            yield float(_sums(one.counts) @ costs) / layers / (1 + one.measured)


def cycles_of(
    found: Sequence[tuple[np.ndarray, float]], core: str, keep: Sequence[str]
) -> Iterator[tuple[str, Cycles]]:
    """The costs of each arithmetic that suit the equations best, none below zero, but for those to `keep`. What none of
    them has costs as much as with one shift, and calls cost no less than there; depthwise rows that were not measured
    cost as others do, of another arithmetic or of what is no layer."""
    if keep:
        for arithmetic, own in zip(ARITHMETICS, suited(found, core, keep).reshape(-1, len(NAMES)), strict=True):
            yield arithmetic, Cycles(*(float(f"{cost:.3g}") for cost in own))
        return
    left, right = np.array([row for row, _ in found]), np.array([cycles for _, cycles in found])
    costs = nnls(left, right)[0].reshape(-1, len(NAMES))
    costs = np.where(left.any(axis=0).reshape(costs.shape), costs, costs[0])
    channel, lines = NAMES.index("channel"), NAMES.index("lines")
    known = costs[:, lines].max()
    costs[:, lines] = np.where(costs[:, lines] > 0, costs[:, lines], known or costs[:, channel])
    calls = [NAMES.index("row"), channel, lines]
    costs[:, calls] = np.maximum(costs[:, calls], costs[0, calls])
    for arithmetic, own in zip(ARITHMETICS, costs, strict=True):
        yield arithmetic, Cycles(*(float(f"{cost:.3g}") for cost in own))


def rows(found: dict[tuple[str, str], list[Measured]]) -> Iterator[str]:
    """The table: of each board and format the schedules that take longer, and how far their modelled time is off."""
    yield "| board | format | schedules | nine in ten within a factor of | modelled / measured, least to most |"
    yield "|---|---|---|---|---|"
    every = list[float]()
    for (board, fmt), schedules_of_it in found.items():
        ratios = [(1 + one.modelled) / (1 + one.measured) for one in schedules_of_it if one.measured > LEAST]
        every += ratios
        yield f"| {board} | {fmt} | {_row(ratios)} |"
    yield f"| all | | {_row(every)} |"


def _row(ratios: Sequence[float]) -> str:
    if not ratios:
        return "0 | | "
    off = float(np.quantile([max(ratio, 1 / ratio) for ratio in ratios], NINE_IN_TEN))
    return f"{len(ratios)} | {off:.2f} | {min(ratios):.2f} to {max(ratios):.2f}"


def main() -> None:
    """Run the schedules; print their table, or that of the model."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", help="boards and formats that have this, as 'due int8'")
    parser.add_argument("--fit", action="store_true", help="print the table of the model instead")
    parser.add_argument("--keep", default="", help="costs that stay, between commas")
    options = parser.parse_args()
    found = defaultdict[tuple[str, str], list[Measured]](list)
    known = defaultdict[str, dict[str, list[tuple[np.ndarray, float]]]](lambda: defaultdict(list))
    every = list[tuple[str, str, list[Measured]]]()
    with tempfile.TemporaryDirectory() as folder:
        for board, fmt in ((board, fmt) for board in BOARDS for fmt in FORMATS if options.only in f"{board} {fmt}"):
            core = core_of(load_boards(None).board(board))
            for name, network in networks().items():
                try:
                    ran = schedules(name, network, board, fmt, Path(folder), fit=options.fit)
                except HilError as error:  # too large, or a data set that is not here
                    print(f"{name} on {board}: {error}", flush=True)
                    continue
                found[board, fmt] += ran[1:]
                known[core][name] += equations(ran)
                every.append((core, name, ran))
                said = (f"{one.bytes} B {one.modelled:+.0%} ({one.measured:+.0%})" for one in ran[1:])
                print(f"{name}, {board}, {fmt}: modelled (measured): {', '.join(said)}", flush=True)
    keep = [name for name in options.keep.split(",") if name]
    if options.fit:
        for of_core, own in known.items():
            for arithmetic, cycles in cycles_of([one for each in own.values() for one in each], of_core, keep):
                print(f'    ("{of_core}", {arithmetic.upper()}): Cycles{astuple(cycles)},')
            ratios = list[float]()
            for name, ran in ((name, ran) for where, name, ran in every if where == of_core):
                others = {other: each for other, each in own.items() if other != name}
                ratios += left_out(others, of_core, ran, keep)
            print(f"{of_core}, networks left out: {_row(ratios)}")
    print("\n".join(rows(found)))


if __name__ == "__main__":
    main()
