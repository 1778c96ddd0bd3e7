"""What operations take on a core, whole, by rows, in groups of channels and with windows read in place, in cycles.

By this a schedule is chosen that computes products again (schedules.py). The table is what benchmarks/schedule_times.py
fits to profiles of small networks in several schedules on emulated Uno, Pico, Due, L4R5 and H747: first of two
convolutions, the CNN on 8 x 8 digits, depthwise layers, MobileNetV1 0.25 in int8 on M4 and M7, LeNet-5 on M0+; then,
with `--keep`, windows in place on M0+ and M3, on M4 and M7 all but depthwise layers and calls, with convolutions
without borders, LeNet-5 left out. Cores that were not measured count as a Cortex-M7.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from tinyhil.formats.format import INTEGER
from tinyhil.language.program import Op, Program, executions
from tinyhil.memplan.arena.attention_rows import packed_again
from tinyhil.memplan.arena.row_costs import NARROW_BITS, is_depthwise, products_of_op
from tinyhil.ops.window import Window, window_of

USUAL = "cortex-m7"
OFF = 1.9  # modelled over measured time, or the other way round: of nine in ten schedules of a network left out
TOGETHER = 4  # results for which firmware/kernels/common/windows_in_place.hpp reads an element once
EXACT, RESCALED, WIDE = "exact", "rescaled", "wide"  # bytes with one shift, with multipliers, and what has more bits


@dataclass(frozen=True, slots=True)
class Cycles:
    """Of a product of a layer, whose windows are gathered; of one of windows read in place, inside of the plane and
    outside, and of a row of such a window, for as many results as share its elements; of one of a depthwise layer; of a
    result; of an element that is gathered, and how much more where windows hang over; of an element of an operation
    that is no layer; of a call for a row, and in it of each channel of what is no layer, and of a depthwise one, which
    copies its lines."""

    product: float
    in_place: float
    outside: float
    run: float
    depthwise: float
    result: float
    gathered: float
    padded: float
    element: float
    row: float
    channel: float
    lines: float


TABLE = {
    ("avr", EXACT): Cycles(6.36, 62.8, 34.5, 0, 31.9, 50.9, 39.4, 5.15, 6.61, 1370, 595, 595),
    ("avr", RESCALED): Cycles(5.48, 78.4, 134, 0, 99.5, 105, 65.7, 0.571, 6.61, 3090, 595, 595),
    ("avr", WIDE): Cycles(39.8, 105, 0, 0, 31.9, 257, 38.6, 0, 13.5, 1370, 595, 595),
    ("cortex-m0plus", EXACT): Cycles(2.69, 3.06, 0, 107, 5.06, 88.7, 19.9, 0, 4.17, 2090, 0, 1650),
    ("cortex-m0plus", RESCALED): Cycles(2.27, 0, 19.1, 211, 4.13, 125, 17.6, 0, 4.17, 2760, 0, 1680),
    ("cortex-m0plus", WIDE): Cycles(18.8, 9.81, 0, 298, 17.9, 109, 69.1, 0, 31.2, 2090, 47.6, 1650),
    ("cortex-m3", EXACT): Cycles(2.08, 2.95, 0, 86.1, 5.78, 35.8, 23.3, 12.8, 4.13, 1010, 42.3, 649),
    ("cortex-m3", RESCALED): Cycles(2.23, 0, 24.2, 190, 5.75, 50.4, 20.8, 4.01, 4.13, 1760, 42.3, 649),
    ("cortex-m3", WIDE): Cycles(4.96, 0, 7.99, 145, 5.78, 118, 0, 0, 12.1, 1010, 79.7, 649),
    ("cortex-m4", EXACT): Cycles(1.05, 0.617, 0, 93.1, 1.45, 42.1, 6.92, 6.33, 2.47, 387, 64.6, 611),
    ("cortex-m4", RESCALED): Cycles(0.696, 0, 20.9, 143, 0, 64.1, 7.54, 5.83, 4.5, 769, 64.6, 611),
    ("cortex-m4", WIDE): Cycles(1.6, 0, 0.962, 158, 1.45, 61.4, 13.6, 4.02, 7.16, 387, 71.5, 611),
    ("cortex-m7", EXACT): Cycles(0.523, 1.44, 0, 42.4, 1.43, 18.8, 2.95, 4.64, 0.688, 339, 42.5, 287),
    ("cortex-m7", RESCALED): Cycles(0.434, 0, 12.9, 80.3, 1.53, 23.6, 3.27, 4.37, 2.86, 526, 42.5, 287),
    ("cortex-m7", WIDE): Cycles(0.0223, 2.73, 0, 67, 1.43, 31, 13.4, 0.603, 4.44, 339, 42.5, 287),
}


@dataclass(frozen=True, slots=True)
class CoreTime:
    """What parts of a program cost, in cycles of a core."""

    core: str = ""

    @property
    def measured(self) -> str:
        """The core whose cycles these are."""
        return self.core if (self.core, EXACT) in TABLE else USUAL

    def of(self, program: Program, op: Op) -> int:
        """Making the whole result."""
        return self._sum(program, op, counts_of(program, op))

    def in_place(self, program: Program, op: Op) -> int:
        """How much longer a convolution takes without its patch."""
        made = counts_of(program, op)
        gathered = {what: made[what] for what in ("product", "gathered", "padded")}
        placed = in_place(op, made["product"], self.core)
        return max(0, self._sum(program, op, placed) - self._sum(program, op, gathered))

    def of_row(self, program: Program, op: Op, channels: int) -> int:
        """One more call, for a row of all channels of the result."""
        return self._sum(program, op, of_rows(op, 1, channels))

    def of_group(self, program: Program, op: Op) -> int:
        """One more call, for a group of its channels: every window is gathered anew."""
        made = counts_of(program, op)
        return self._sum(program, op, {"row": 1} | {what: made.get(what, 0) for what in ("gathered", "padded")})

    def of_program(self, program: Program) -> int:
        """All of its operations."""
        again = packed_again(program) * self._cycles(EXACT).product
        return max(1, round(again) + sum(times * self.of(program, op) for op, times in executions(program.body)))

    def _cycles(self, arithmetic: str) -> Cycles:
        return TABLE[self.measured, arithmetic]

    def _sum(self, program: Program, op: Op, counts: Mapping[str, float]) -> int:
        each = self._cycles(arithmetic_of(program, op))
        return round(sum(count * getattr(each, what) for what, count in counts.items()))


def arithmetic_of(program: Program, op: Op) -> str:
    """By which an operation's cycles are known."""
    operands = op.inputs[: 2 if _is_product(op) else 1]
    if op.domain != INTEGER or any(program.tensors[name].format.bits > NARROW_BITS for name in operands):
        return WIDE
    return RESCALED if "zero" in op.params and _is_product(op) else EXACT


def counts_of(program: Program, op: Op) -> dict[str, float]:
    """How many of what an operation makes its whole result of, by the names of Cycles."""
    p, made = op.params, program.tensors[op.output].count
    if op.output in op.inputs:  # a row that is put in its place
        return {"element": p.get("inner", 1)}
    if "groups" not in p and _is_product(op):
        return {"product": made * (p["inner"] + p.get("more_inner", 0)), "result": made}
    if "groups" not in p:
        reads = (program.tensors[name].count for name in op.inputs[:1])
        return {"element": max((made * p.get("kernel_y", 1) * p.get("kernel_x", 1), *reads))}
    products = products_of_op(program, op)
    if is_depthwise(op):
        return {"depthwise": products, "result": made}
    gathered = products * p["groups"] / p["outputs"]
    return {"product": products, "result": made, "gathered": gathered, "padded": gathered * (inside(window_of(p)) < 1)}


def of_rows(op: Op, calls: int, channels: int) -> dict[str, float]:
    """So many calls, each for a row of all channels of the result."""
    if "outputs" in op.params and not is_depthwise(op):
        return {"row": calls}
    return {"row": calls, "lines" if "outputs" in op.params else "channel": calls * channels}


def in_place(op: Op, products: float, core: str) -> dict[str, float]:
    """Products of a convolution whose windows are read in place, and the rows of windows, each read for TOGETHER
    results, those left over each for itself."""
    window, results = window_of(op.params), op.params["outputs"] // op.params["groups"]
    share, together = inside(window), 1 if core == "avr" else TOGETHER
    rows = products / (window.kernel_x * results) * (results // together + results % together)
    return {"in_place": products * share, "outside": products * (1 - share), "run": rows}


@lru_cache(maxsize=4096)
def inside(window: Window) -> float:
    """The share of the places under all windows that are elements of the plane."""
    return float(window.valid_counts().mean()) / window.positions


def _is_product(op: Op) -> bool:
    """Whether each result is a sum of products."""
    return "groups" in op.params or ("inner" in op.params and ("columns" in op.params or "outputs" in op.params))
