"""The table of an accelerator's constants in docs/reram.md, from boards.yaml."""

from __future__ import annotations

from pathlib import Path

from tinyhil.harness.settings.config import load_boards
from tools.stale import unmarked

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reram.md"
PAPER = " (Shafiee et al., ISCA 2016)"  # said once
BEGIN, END = "<!-- constants: begin -->", "<!-- constants: end -->"


def page() -> str:
    """docs/reram.md with its table of constants made anew."""
    before, rest = unmarked(PAGE.read_text()).split(BEGIN)
    return f"{before}{BEGIN}\n{_constants()}\n{END}{rest.split(END)[1]}"


def _constants() -> str:
    crossbars = load_boards().board("reram").chip.crossbars
    assert crossbars is not None
    said = False
    lines = ["| Constant | Value | What it is | Source |", "|---|---|---|---|"]
    for name, constant in crossbars.items():
        value = f"{constant.value:g} {constant.unit}".strip()
        source = constant.source.replace(PAPER, "") if said else constant.source
        said |= PAPER in source
        lines.append(f"| `{name}` | {value} | {constant.meaning} | {source} |")
    return "\n".join(lines)
