"""What `hil energy` prints."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from tinyhil.codegen.kernel_calls import name_of
from tinyhil.harness.energy.chips import ChipEnergy
from tinyhil.harness.energy.counts import Operand
from tinyhil.harness.energy.decomposition import InParts
from tinyhil.harness.energy.sample_energy import OperationEnergy
from tinyhil.harness.energy.session import EnergyOutcome
from tinyhil.harness.energy.what_if import Sensitivity

TITLES = ("operation", "kernel", "bits", "products", "zero weights", "zero values", "products nJ", "SRAM nJ", "DRAM nJ")


def print_energy(outcome: EnergyOutcome, console: Console) -> None:
    """A row per operation, the sums, and what they are."""
    found = outcome.energy
    table = Table()
    for title in (*TITLES, "share"):
        table.add_column(title, justify="left" if title in TITLES[:3] else "right")
    for priced in found.operations:
        table.add_row(*_row(priced), f"{100 * priced.total_pj / found.total_pj if found.total_pj else 0:.1f} %")
    console.print(table)
    where = "in DRAM: they do not fit" if found.is_off_chip else "on chip"
    saved = 100 * (1 - found.skipping_pj / found.total_pj) if found.total_pj else 0.0
    lines = {
        "energy": f"{found.total_pj / 1e3:,.4g} nJ per sample, by a model: nothing is measured",
        "zeros skipped": f"{found.skipping_pj / 1e3:,.4g} nJ, {saved:.1f} % less",
        "sample": f"{found.input_pj / 1e3:,.4g} nJ to fetch it; constants {where}",
        "zeros": f"of {outcome.samples} samples of {outcome.data}",
        "prices": f"{outcome.technology_name}: {outcome.technology.title} ({outcome.technology.source})",
    }
    lines |= {f"if {each.constant}": _if(each, found.total_pj) for each in outcome.sensitivities}
    lines |= {f"{each.name} in parts": _in_parts(each) for each in outcome.in_parts}
    lines |= {each.name: _on_chip(each) for each in outcome.chips}
    for name, text in lines.items():
        console.print(f"{name:18} {text}", soft_wrap=True, markup=False)


def _if(found: Sensitivity, total_pj: float) -> str:
    changes = [100 * (pj / total_pj - 1) if total_pj else 0.0 for pj in (found.halved_pj, found.doubled_pj)]
    half = "half as much" if 2 * found.less == found.value else f"{found.less:g}"
    less = f"{found.value:g} were {half}: {changes[0]:+.1f} % energy"
    if found.less == found.value:
        less = f"{found.value:g} can not be less"
    more = "twice" if found.more == 2 * found.value else f"{found.more:g}"
    return f"{less}; {more}: {changes[1]:+.1f} %"


def _in_parts(found: InParts) -> str:
    pairs = (found.product_pj, found.whole_product_pj), (found.sram_pj, found.whole_sram_pj)
    products, sram = (f"{part / 1e3:,.4g} nJ where whole values take {whole / 1e3:,.4g}" for part, whole in pairs)
    return f"values as {found.parts} of {found.bits} bits: products {products}, SRAM of the factors alone {sram}"


def _on_chip(found: ChipEnergy) -> str:
    least, most = found.chip.nj_per_cycle
    price = f"{least:.3f} to {most:.3f} nJ a cycle: {found.chip.source}"
    if found.uj is None:
        return f"not known: {found.reason} ({price})"
    return f"{found.uj.value:,.4g} uJ ({found.uj.low:,.4g} to {found.uj.high:,.4g}), cycles estimated ({price})"


def _row(priced: OperationEnergy) -> tuple[str, ...]:
    op = priced.operation
    weights = [factor for factor in op.factors if factor.is_constant]
    values = [factor for factor in op.factors if not factor.is_constant]
    bits = " + ".join(" x ".join(str(factor.bits) for factor in pair) for _, pair in op.pairs) or str(op.bits)
    products = f"{op.executions * op.products:,}" if op.products else ""
    parts = (priced.product_pj, priced.sram_pj, priced.dram_pj)
    shares = _share(weights), _share(values)
    return (op.name, name_of(op.kernel), bits, products, *shares, *(f"{p / 1e3:,.4g}" for p in parts))


def _share(factors: list[Operand]) -> str:
    return " / ".join(f"{100 * factor.zeros:.1f} %" for factor in factors)
