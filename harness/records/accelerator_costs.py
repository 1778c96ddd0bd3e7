"""What an accelerator's model says of a run, as JSON: the sums of one sample and its layers."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from tinyhil.harness.settings.config import BoardSpec
from tinyhil.language.program import Program
from tinyhil.reram.cost import cost_of


def accelerator_of(board: BoardSpec, program: Program) -> dict[str, Any] | None:
    """None for boards that are no accelerator."""
    hardware = board.hardware
    if hardware is None:
        return None
    cost = cost_of(program, hardware)
    return {
        "latency_us": cost.latency_us,
        "energy_uj": cost.energy_uj,
        "power_mw": cost.power_mw,
        "crossbars": cost.crossbars,
        "tiles": cost.tiles,
        "gops_per_watt": cost.gops_per_watt,
        "layers": [asdict(layer) for layer in cost.layers],
        "hardware": asdict(hardware),
    }
