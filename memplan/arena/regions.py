"""A plan over several memories, for what does not fit into one: tensors are placed, nothing is split."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tinyhil.errors import DoesNotFit
from tinyhil.language.program import Program
from tinyhil.memplan import DEFAULT, Budget, Plan, Region, plan
from tinyhil.memplan.arena.execution_check import checked_plan
from tinyhil.memplan.arena.placement import Placement
from tinyhil.memplan.problem import ARENA, ProblemError

SYMBOL = "hil_arena"
OTHER_STATIC_BYTES = 8192  # of the firmware beside arena and input, generously: frames, statistics, tables in RAM


def spread(placed: Placement, regions: Mapping[str, int], main_bytes: int) -> Placement:
    """The same program with its tensors over `regions` (bytes by name) and `main_bytes` of the main RAM.

    The order is that of preference: the named ones first, as they hold nothing else. DoesNotFit if they are too small.
    """
    memories = (*(Region(name, size) for name, size in regions.items()), Region(ARENA, max(0, main_bytes)))
    try:
        problem = replace(placed.problem, regions=memories)
    except ProblemError as error:  # a tensor is larger than any of them
        raise DoesNotFit(str(error)) from None
    wide = replace(placed, problem=problem, plan=plan(problem, DEFAULT, Budget()))
    checked_plan(wide.program, wide.plan)
    return wide


def main_ram_bytes(program: Program, ram_bytes: int, stack_reserve_bytes: int) -> int:
    """What the main RAM has left for tensors beside one sample, the stack's reserve and the firmware itself."""
    sample_bytes = 0 if program.input_in_arena else program.tensors[program.input].size_bytes
    return ram_bytes - stack_reserve_bytes - sample_bytes - OTHER_STATIC_BYTES


def symbol_of(region: str) -> str:
    """The array that a region's tensors lie in."""
    return SYMBOL if region == ARENA else f"{SYMBOL}_{region}"


def arrays(plan: Plan) -> dict[str, int]:
    """Bytes of every array a plan needs by symbol; the main one, of a byte, if it needs none."""
    peaks = plan.peaks or {ARENA: plan.peak_bytes}
    return {symbol_of(region): size for region, size in peaks.items() if size} or {SYMBOL: 1}


def declarations(plan: Plan) -> list[str]:
    """The arrays in C++, each in the memory of its region (a section of that name in the chip's linker script)."""
    lines = ['extern "C" {']
    for symbol, size in arrays(plan).items():
        region = symbol.removeprefix(SYMBOL).removeprefix("_")
        where = f" HIL_REGION({region})" if region else ""
        lines.append(f"alignas(4){where} uint8_t {symbol}[{size}];")
    return ["\n".join([*lines, "}"])]
