"""Which constants lie in memory without wait states, on a chip that has some for a part of them.

What is read once a sample is fetched from flash once, line by line; so is what the data cache holds from one pass over
it to the next. What it can not hold is fetched in every pass: the weights of a convolution as often as it has blocks of
pixels. So constants are chosen by the bytes that are fetched of each of theirs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tinyhil.language.program import Program, executions
from tinyhil.memplan import Plan
from tinyhil.memplan.arena.row_costs import products_of_op
from tinyhil.memplan.arena.transfer import Transfer
from tinyhil.memplan.problem import ARENA
from tinyhil.passes.stored import stored_bytes

FIRMWARE_BYTES = 1024  # static RAM beside arena and input, guards included: 600 in the zoo
TABLES_BYTES = 4096  # constants of the firmware itself
CACHED = 0.75  # of the cache: one of four ways is for activations


@dataclass(frozen=True, slots=True)
class HotMemory:
    """`region` of `size_bytes`, where main RAM lies as well if it fits with `reserved_bytes` for stack and code, or
    that is main RAM, and a data cache of `cache_bytes` before what is not there: what the chip's linker script does."""

    region: str
    size_bytes: int
    reserved_bytes: int
    cache_bytes: int


@dataclass(frozen=True, slots=True)
class Target:
    """What whoever lays out a program and writes it down needs to know of a board."""

    name: str
    transfer: Transfer
    hot: HotMemory | None = None


def hot_constants(program: Program, plan: Plan, memory: HotMemory, transfer: Transfer) -> frozenset[str]:
    """Names of the constants that have a place in `memory`; none if it holds all of them anyway."""
    sizes = {name: stored_bytes(program.tensors[name], codes) for name, codes in program.constants.items()}
    results_bytes = 2 * program.tensors[program.output].size_bytes  # those that the wire holds
    room_bytes = room_for_constants(plan, memory, transfer, results_bytes)
    if sum(sizes.values()) + TABLES_BYTES <= room_bytes:
        return frozenset()
    return most_fetched(sizes, _passes(program), room_bytes, int(CACHED * memory.cache_bytes))


def room_for_constants(plan: Plan, memory: HotMemory, transfer: Transfer, results_bytes: int = 0) -> int:
    """Bytes that the linker has for sure: beside main RAM, or all where that is certainly elsewhere."""
    peaks = plan.peaks or {ARENA: plan.peak_bytes}
    left_bytes = memory.size_bytes - peaks.get(memory.region, 0)
    is_main = memory.region == ARENA
    beside_bytes = left_bytes - memory.reserved_bytes - (0 if is_main else peaks.get(ARENA, 0)) - transfer.input_bytes
    if beside_bytes < 0 and not is_main:
        return left_bytes
    return max(0, beside_bytes - results_bytes - FIRMWARE_BYTES)


def most_fetched(
    sizes: Mapping[str, int], passes: Mapping[str, float], room_bytes: int, cached_bytes: int
) -> frozenset[str]:
    """Those of the most fetches per byte that fit, the larger first. `passes`: how often a sample reads each as a
    whole; one of at most `cached_bytes` is fetched once at most."""

    def fetches(name: str) -> float:
        return passes.get(name, 0.0) if sizes[name] > cached_bytes else min(1.0, passes.get(name, 0.0))

    chosen = set()
    for name in sorted(sizes, key=lambda name: (-fetches(name), -sizes[name], name)):
        padded_bytes = sizes[name] + -sizes[name] % 8
        if padded_bytes <= room_bytes:
            chosen.add(name)
            room_bytes -= padded_bytes
    return frozenset(chosen)


def _passes(program: Program) -> dict[str, float]:
    """How often one sample reads each constant as a whole."""
    reads: Counter[str] = Counter()
    for op, times in executions(program.body):
        found = [name for name in op.inputs if name in program.constants]
        for name in set(found):
            is_weights = name == found[0]  # beside them lie biases and records, one for an output
            reads[name] += times * (products_of_op(program, op) if is_weights else program.tensors[op.output].count)
    return {name: count / program.constants[name].size for name, count in reads.items()}


def hot_on_all(program: Program, plan: Plan, targets: Iterable[Target]) -> frozenset[str]:
    """The constants that each target with such a memory has room for there: targets share one text."""
    found = [hot_constants(program, plan, one.hot, one.transfer) for one in targets if one.hot is not None]
    return frozenset.intersection(*found) if found else frozenset()
