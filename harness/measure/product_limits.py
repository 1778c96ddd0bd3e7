"""The fewest ticks that a core can need per product, whatever the kernel: what the instruction set allows.

Counted are the multiplication, the addition into the accumulator, and the load of the weight at the widest access;
activations are taken to stay in registers. Sources: AVR Instruction Set Manual (DS40002198), Cortex-M3 TRM
(DDI 0337), Cortex-M7 TRM (DDI 0489); QADD-like forms are not used by integer kernels.
"""

from __future__ import annotations

from tinyhil.formats.format import AFFINE, INTEGER
from tinyhil.harness.settings.config import ChipSpec
from tinyhil.language.program import Op, Program, Role

LEAST = {
    ("avr", 8): 7.0,  # LPM 3, MULS 2, ADD and ADC 2
    ("avr", 16): 26.0,  # LPM 6, four multiplications 8, their sums in four bytes 12
    ("cortex-m3", 8): 2.25,  # MLA 2, a quarter of LDR
    ("cortex-m3", 16): 2.5,  # MLA 2, half of LDR
    ("cortex-m7", 8): 0.625,  # four products: two SMLAD, two SXTB16, one LDR, two instructions per cycle
    ("cortex-m7", 16): 0.5,  # two products: SMLAD and LDR in the same cycle
}


def least_ticks(chip: ChipSpec, program: Program, op: Op) -> float | None:
    """Cycles per product of `op` that no kernel on this core goes below; None where no limit is known."""
    weights = [program.tensors[name] for name in op.inputs if program.tensors[name].role == Role.CONSTANT]
    if not weights or "word" in op.params or chip.tick != "cycles" or op.domain not in (INTEGER, AFFINE):
        return None
    widest = max(weights, key=lambda tensor: tensor.count)
    return LEAST.get((chip.core, 8 if widest.format.bits <= 8 else 16))
