"""A profile on the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console

from tinyhil.harness.settings.text import in_short

if TYPE_CHECKING:
    from tinyhil.harness.measure.profile import OperationCost, Profile


def print_profile(found: Profile, console: Console) -> None:
    """One row per operation in the order of computation, then the sum against the image without a profile."""
    from rich.table import Table
    from rich.text import Text

    counted = found.whole_instructions is not None
    each = "instructions/MAC" if counted else f"{found.unit}/MAC"
    titles = ["operation", "kernel", "formats", "times", "MACs", found.unit, "share", each, "best loop"]
    table = Table(title=None)
    layers = {layer["name"]: layer for layer in (found.accelerator or {}).get("layers", [])}
    for title in (*titles, *(["instructions"] if counted else []), *(["uJ", "crossbars"] if layers else [])):
        table.add_column(title, justify="left" if title in titles[:3] else "right")
    for operation in found.operations:
        row = _row(operation, found.summed)
        more = [f"{operation.instructions:,.0f}"] if operation.instructions is not None else []
        if operation.name in layers:
            more += [f"{layers[operation.name]['energy_uj']:.4g}", f"{layers[operation.name]['crossbars']:,}"]
        table.add_row(*map(Text, (*row, *more)))
    table.add_row(
        "", "between operations", "", "", "", f"{found.outside:,.0f}", _share(found.outside, found.summed), "", ""
    )
    console.print(table)
    difference = f"{found.whole - found.summed:+,.0f} ({_share(found.whole - found.summed, found.summed)})"
    cold = "" if found.warm is None else f" (the first, with nothing in a cache: others {found.warm:,.0f} on average)"
    lines = {
        "sum": f"{found.summed:,.0f} {found.unit} per sample (mean of {found.samples})",
        "whole": f"{found.whole:,.0f} {found.unit} without a profile, {difference}; worst sample {found.worst:,}{cold}",
        "subtracted": f"{found.reading:,.0f} {found.unit} per operation for reading the clock",
        "fidelity": found.fidelity,
        "record": found.record,
    }
    if found.whole_instructions is not None:
        total = sum(operation.instructions or 0 for operation in found.operations)
        lines["instructions"] = f"{total:,.0f} in operations, {found.whole_instructions:,.0f} without a profile"
    if found.accelerator is not None:
        cost = found.accelerator
        lines["energy"] = f"{cost['energy_uj']:.4g} uJ, {cost['power_mw']:,.0f} mW with all layers at work"
        lines["crossbars"] = f"{cost['crossbars']:,} in {cost['tiles']:,} tiles"
    for name, text in (*lines.items(), *(("verdict", text) for text in found.issues)):
        console.print(f"{name:14} {text}", soft_wrap=True, markup=False)


def _row(operation: OperationCost, total: float) -> tuple[str, ...]:
    *inputs, output = operation.formats
    macs = "" if operation.macs is None else f"{operation.macs:,}"
    each = "" if operation.per_product is None else f"{operation.per_product:.2f}"
    known = operation.best_loop
    limit = "" if known is None or operation.per_product is None else f"{known:.4g}"
    return (
        in_short(operation.name),
        operation.kernel,
        f"{', '.join(inputs) or 'none'} → {output}",
        str(operation.executions),
        macs,
        f"{operation.ticks:,.0f}",
        _share(operation.ticks, total),
        each,
        limit,
    )


def _share(part: float, whole: float) -> str:
    return f"{100 * part / whole:.1f} %" if whole else ""
