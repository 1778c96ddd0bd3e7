"""What a placement is chosen for where time and memory disagree: layer by layer, or row by row.

Several are planned, from layer by layer to the least RAM; a model of time (memplan/arena/row_costs.py) says what their
rows lose.
"""

from __future__ import annotations

from tinyhil.memplan.arena.placement import Placement, Placements
from tinyhil.memplan.arena.row_costs import WORTH, time_lost
from tinyhil.preference import LATENCY, RAM
from tinyhil.program import Program

SHORT = 4  # memory is short where an arena takes more than this part of it


def preferred(found: Placements, ram_bytes: int | None, prefer: str) -> Placement:
    """The placement to use on a board with so much RAM (None: no limit)."""
    if prefer == RAM:
        return found.rows
    fitting = [option for option in found.options if ram_bytes is None or _needs(option) <= ram_bytes]
    if not fitting:
        return found.rows
    if prefer == LATENCY:
        return fitting[0]
    layers = found.layers.program
    cheap = [option for option in fitting if time_lost(option.program, layers) <= WORTH]
    is_short = ram_bytes is not None and (not cheap or cheap[-1].plan.peak_bytes * SHORT > ram_bytes)
    return found.rows if is_short else cheap[-1]


def _needs(option: Placement) -> int:
    return option.plan.peak_bytes + _input_bytes(option.program)


def _input_bytes(program: Program) -> int:
    return program.tensors[program.input].size_bytes
