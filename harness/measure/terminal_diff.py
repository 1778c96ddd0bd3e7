"""A comparison of board and host on the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console

if TYPE_CHECKING:
    from tinyhil.harness.measure.diff import Diff


def print_diff(found: Diff, console: Console) -> None:
    """One row per tensor in the order of computation."""
    from rich.table import Table
    from rich.text import Text

    table = Table(title=None)
    for title in ("tensor", "format", "written", "elements", "different"):
        table.add_column(title, justify="left" if title in ("tensor", "format") else "right")
    for tensor in found.tensors:
        row = (tensor.executions, tensor.elements, tensor.different)
        table.add_row(Text(tensor.tensor), tensor.format, *(str(number) for number in row))
    console.print(table)
    equal = sum(tensor.different == 0 for tensor in found.tensors)
    console.print(f"{equal} of {len(found.tensors)} tensors equal (sample {found.sample})", soft_wrap=True)
