"""Tables of the documentation that come from the records themselves: `python -m harness.docs` writes them anew."""

from __future__ import annotations

from pathlib import Path

from tinyhil.formats import FORMATS
from tinyhil.ops import KERNELS, LOOPS, OPERATORS


def operators_page() -> str:
    """Text of docs/operators.md."""
    lines = ["# Operators", "", "Made from the records in `tinyhil/ops/` by `python -m harness.docs`.", ""]
    lines += ["| ONNX operator | Supported |", "|---|---|"]
    entries = [(item.name, item.summary) for item in (*OPERATORS, *LOOPS)]
    entries.append(("Constant", "folded"))
    lines += [f"| {name} | {summary} |" for name, summary in sorted(entries)]
    lines += ["", "Whatever depends on constants only is folded when the model is read.", ""]
    lines += ["## Kernels", "", "| Kernel | Computes |", "|---|---|"]
    lines += [f"| `{kernel.name}` | {kernel.summary} |" for kernel in KERNELS]
    lines += ["", "## Number formats", "", "| Format | Values |", "|---|---|"]
    lines += [f"| `{fmt.name}` | {fmt.summary} |" for fmt in FORMATS]
    return "\n".join(lines) + "\n"


PAGES = {"docs/operators.md": operators_page}


def main() -> None:
    root = Path(__file__).resolve().parent.parent
    for name, page in PAGES.items():
        (root / name).write_text(page())


if __name__ == "__main__":
    main()
