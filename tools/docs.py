"""Tables of the documentation that come from records and results: `python -m tools.docs` writes them anew."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import onnx

from tinyhil.formats import FORMATS
from tinyhil.frontend.onnx_functions import is_function
from tinyhil.frontend.onnx_versions import PREVIEW
from tinyhil.frontend.rewrite import Rewrite
from tinyhil.frontend.rewrites import CONTROL, REWRITE_BY_NAME, REWRITES
from tinyhil.harness.build.platformio import MANIFESTS, project_files
from tinyhil.harness.commands.schema import SCHEMAS, schema_text
from tinyhil.harness.offline import formats
from tinyhil.harness.settings.config import load_boards
from tinyhil.ops import KERNELS, LOOPS, OPERATOR_BY_NAME, OPERATORS
from tools import calibration_table, networks_table, passes_table, reram_page, tables, zoo_table
from tools.measured import clocks, line, read
from tools.stale import marked
from tools.tables import BOARDS, HOST

INNER = frozenset(
    {
        "BatchMatMul",
        "FakeQuantize",
        "FloatCast",
        "FromCodes",
        "GatherAt",
        "Interpolate",
        "LayerPair",
        "LayerSum",
        "MatMulAt",
    }
    | {"Normalize", "Repeat", "SquaredDistance", "ToCodes", "TopIndices", "TopValues"}
    | {"LstmCell", "LstmOutput", "Svdf", "SvdfMemory", "Truncate"}
)
INNER_KINDS = ("Byte", "Code", "Signal", "Whole", "Word")  # how names of inner operators begin


def _of_domain(rewrite: Rewrite) -> str:
    return f"{rewrite.domain}; {rewrite.summary}" if rewrite.domain else rewrite.summary


def _is_inner(name: str) -> bool:
    return name in INNER or name.startswith(INNER_KINDS)


def _summary(name: str, summary: str) -> str:
    """Operators that say the same but for their own name say it once."""
    alike = f"as {name.removeprefix('QLinear')} between"
    return summary.replace(alike, "as the operator of that name between") if summary.startswith("com") else summary


def operators_page() -> str:
    """Text of docs/operators.md."""
    lines = [
        "# Operators",
        "",
        "What of ONNX is read. Made from the records in `tinyhil/ops/` by `python -m tools.docs`.",
    ]
    lines += [
        "Whatever depends on constants only is folded when the model is read. PACTOps is the dialect of PULP.",
        "",
    ]
    lines += ["| ONNX operator | Supported |", "|---|---|"]
    entries = [(operator.name, operator.summary) for operator in OPERATORS]
    entries += [(loop.name, loop.summary) for loop in LOOPS]
    standard = {rewrite.name: _of_domain(rewrite) for rewrite in REWRITES} | CONTROL
    entries = [(name, text) for name, text in entries if not _is_inner(name) and name not in standard]
    entries += standard.items()
    entries.append(("Constant", "folded"))
    alike: dict[str, list[str]] = {}
    for name, summary in sorted(entries):
        alike.setdefault(_summary(name, summary), []).append(name)
    lines += [f"| {', '.join(names)} | {summary} |" for summary, names in alike.items()]
    lines += ["", "## What ONNX defines by others", "", *_wrapped(_functions()), "", "## ONNX's own tests", ""]
    lines += _wrapped(_backend())
    text = "While a model is read some become operators of our own, which `hil inspect` names (`tinyhil/ops/`)."
    lines += ["", "## Inner operators", "", *_wrapped(text), ""]
    text = "What becomes one operation when a program is lowered, and what it gains: [passes](measured/passes.md)."
    lines += ["## Fusions", "", *_wrapped(text), ""]
    lines += ["## Kernels", "", *_kernels()]
    return "\n".join(lines) + "\n"


def _functions() -> str:
    """What is read as the nodes that ONNX gives for it."""
    lacking = {*OPERATOR_BY_NAME, *REWRITE_BY_NAME, *CONTROL, "Bernoulli", "SequenceMap"}  # which need what we lack
    schemas = [schema for schema in onnx.defs.get_all_schemas() if schema.domain in ("", PREVIEW)]
    names = sorted({schema.name: schema.domain for schema in schemas if schema.name not in lacking}.items())
    opset = onnx.defs.onnx_opset_version()
    known = [name for name, domain in names if is_function(f"{domain}.{name}" if domain else name, opset)]
    return f"Read as the nodes that ONNX itself gives for them: {', '.join(known)}."


def _backend() -> str:
    """How many of the node tests of the onnx package are equal, as benchmarks/onnx_backend.py counted them."""
    found = read("onnx_backend")
    return (
        f"Of the {found['cases']:,} node tests of the onnx package {found['onnx']} {found['equal']:,} are equal, "
        f"{found['refused']} are refused, each in a sentence, and {found['wrong']} differ on purpose "
        "(`python -m benchmarks.onnx_backend --list` says which, `tests/onnx_backend.yaml` why). "
        "The float reference alone is given NaN and infinities."
    )


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, 150, break_on_hyphens=False)


def _kernels() -> list[str]:
    """How the names of kernels are made."""
    words = sorted({f"`{word}`" for kernel in KERNELS for word in kernel.form.features})
    text = (
        "What profiles and records name: a base and features (`tinyhil/language/form.py`), as in "
        f"`conv_bias_sum_relu_rows`, explained in `tinyhil/ops/`. Features: {', '.join(words)}."
    )
    return _wrapped(text)


ROOT = Path(__file__).resolve().parent.parent
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"


FORMATS_PAGE = "docs/measured/formats.md"


def measured_page() -> str:
    """docs/measured/formats.md with its table made anew."""
    text = (ROOT / FORMATS_PAGE).read_text()
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    return f"{before}{BEGIN}\n{_measured()}\n{END}{after}"


Row = Mapping[str, Any]


def _rows() -> dict[tuple[str, str], Row]:
    """The table of formats (tools/tables.py) by format and board."""
    return {(row["format"], row["board"]): row for row in read(tables.NAME)}


def _measured() -> str:
    rows = _rows()
    counts = sorted({row["samples"] for (_, board), row in rows.items() if board != HOST})
    span = f"{counts[0]} to {counts[-1]}" if len(counts) > 1 else str(counts[0] if counts else 0)
    whole = max((row["samples"] for row in rows.values()), default=0)
    exact = all(row["bit_exact"] for row in rows.values())
    names = [fmt.name for fmt in FORMATS if all((fmt.name, board) in rows for board in (HOST, *BOARDS))]
    lines = [
        f"`{formats.MODEL}` in {len(names)} formats. "
        f"Accuracy and changed decisions: {whole} test windows, on the host.",
        f"Time, RAM, flash: {span} windows, emulated, {'every output bit-exact' if exact else 'NOT bit-exact'}.",
        f"{clocks()} {line(tables.NAME)}",
        "",
        "| Format | Accuracy % | Changed | Uno: ms, RAM B, flash B | Due | H747 |",
        "|---|---|---|---|---|---|",
    ]
    return "\n".join([*lines, *(_row(name, rows) for name in names)])


def _row(name: str, rows: Mapping[tuple[str, str], Row]) -> str:
    whole = rows[name, HOST]
    cells = [f"`{name}`", f"{100 * whole['accuracy']:.2f}", str(whole["disagreements"])]
    for board in BOARDS:
        row = rows[name, board]
        cells.append(f"{row['median_us'] / 1000:,.1f}, {row['ram_bytes']:,}, {row['flash_bytes']:,}")
    return f"| {' | '.join(cells)} |"


def costs_file() -> str:
    """Text of tinyhil/formats/costs.json: ticks per sample by format and chip, exact cycles or instructions."""
    found: dict[str, dict[str, float]] = {}
    for (name, board), row in sorted(_rows().items()):
        if board != HOST:
            found.setdefault(name, {})[board] = row["ticks"]
    return json.dumps(found, indent=1) + "\n"


def _project_file(name: str) -> Callable[[], str]:
    return lambda: project_files(list(load_boards().entries.values()), bundled=True)[name]


PAGES: dict[str, Callable[[], str]] = {
    "tinyhil/formats/costs.json": costs_file,
    "docs/formats.md": calibration_table.page,
    "docs/operators.md": operators_page,
    "docs/reram.md": reram_page.page,
    "docs/zoo.md": zoo_table.page,
    "docs/measured/passes.md": passes_table.page,
    "docs/measured/peers.md": networks_table.page,
    FORMATS_PAGE: measured_page,
    **{f"docs/schemas/{name}.json": partial(schema_text, name) for name in SCHEMAS},
    **{name: _project_file(name) for name in project_files(list(load_boards().entries.values()))},
}


def main() -> None:
    for old in (ROOT / MANIFESTS).glob("*.json"):
        if f"{MANIFESTS}/{old.name}" not in PAGES:
            old.unlink()
    for name, page in PAGES.items():
        (ROOT / name).write_text(marked(page(), name) if name.endswith(".md") else page())
        formats.costs.cache_clear()


if __name__ == "__main__":
    main()
