"""The tables of docs/zoo.md that are measured: `python -m tools.docs` makes them from results/.

Accuracies are those of results/zoo.json and results/peers.json (`benchmarks/zoo.py`, `benchmarks/peers_models.py`);
times and bytes are those of the golden records, which tests hold to what is so today.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tools.measured import BOARDS, clocks, line, read

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "zoo.md"
# RAM that MinUn allowed, fixed 8/16, for a model of the same kind on the same data, in bytes (LCTES 2023, table 2).
LIMIT_BYTES = {
    "bonsai_usps2": 120,
    "bonsai_usps10": 84,
    "bonsai_letter26": 124,
    "bonsai_mnist10": 60,
    "protonn_usps2": 60,
    "protonn_usps10": 891,
    "protonn_letter26": 77,
    "protonn_mnist10": 61,
    "fastgrnn_usps10": 512,
    "fastgrnn_dsa19": 740,
    "fastgrnn_har": 792,
    "fastgrnn_mnist10": 1280,
}
Record = Mapping[str, Any]
TITLES = {"due": "Due", "nucleo_l4r5": "NUCLEO-L4R5ZI", "h747": "H747"}
CYCLES_PER_US = 16  # of the Uno


def page() -> str:
    """docs/zoo.md with its measured tables made anew."""
    text = PAGE.read_text()
    for name, lines in (("wake words", wake_words()), ("measured", measured()), ("peers", peers())):
        begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
        before, rest = text.split(begin)
        text = "\n".join([before + begin, *lines, end + rest.split(end)[1]])
    return text


def wake_words() -> list[str]:
    """Cycles of a step of each of microWakeWord's networks on each board, and whether every step was equal."""
    rows = read("wake_words")
    cycles = {(row["name"], row["board"]): row["cycles"] for row in rows}
    names, boards = (list(dict.fromkeys(key[place] for key in cycles)) for place in (0, 1))
    equal = "all" if not any(row["unequal"] for row in rows) else "NOT all"
    lines = [
        f"{rows[0]['steps']:,} steps of each, {equal} equal on {len(boards)} emulated boards. {line('wake_words')}",
        "Cycles of a step (30 ms, the first two 10 ms):",
        "",
        f"| Network | {' | '.join(TITLES[board] for board in boards)} |",
        f"|---{'|--:' * len(boards)}|",
    ]
    return [*lines, *(f"| `{name}` | {' | '.join(f'{cycles[name, board]:,}' for board in boards)} |" for name in names)]


def measured() -> list[str]:
    accuracies = read("zoo")
    records = golden_records()
    exact = "bit-exact" if all(record["bit_exact"] for record in records.values()) else "NOT bit-exact"
    lines = [
        f"Accuracy: all test samples. {line('zoo')} Boards (emulated): 16 random samples (real ones take other times), "
        f"{exact};",
        f"{clocks()}\nRAM is static + measured stack of the whole firmware, planned `balanced`, "
        "the arena with `--prefer ram`; -: does not fit.",
        "",
        "| Model | Width | Accuracy % | Arena B (MinUn) | Uno: ms, RAM B, flash B | Due | H747 |",
        "|---|---|---|---|---|---|---|",
    ]
    for model, by_width in accuracies.items():
        for width, row in by_width.items():
            of_boards = {board: records.get((model, width, board)) for board in BOARDS}
            lines.append(_row(model, width, row, of_boards))
    return lines


def _row(model: str, width: str, row: Record, records: Mapping[str, Record | None]) -> str:
    limit = LIMIT_BYTES.get(model)
    arena = f"{row['arena_bytes']:,}" + (f" ({limit:,})" if limit is not None else "")
    accuracy = f"{100 * row['correct'] / row['samples']:.2f}"
    name = f"`{width}.yaml`" if width.startswith("assignment") else width
    return f"| {' | '.join([f'`{model}`', name, accuracy, arena, *(cell(record) for record in records.values())])} |"


def cell(record: Record | None) -> str:
    """Time, RAM and flash."""
    if record is None:
        return "-"
    memory = record["memory"]
    ram = memory["static_bytes"] + memory["stack_bytes"]
    us = 1e6 * record["latency"]["median"] / record["latency"]["clock_hz"]
    return f"{_ms(us)}, {ram:,}, {record['flash_bytes']:,}"


def _ms(us: float) -> str:
    return f"{us / 1000:,.2f}" if us < 10_000 else f"{us / 1000:,.1f}"


def golden_records() -> dict[tuple[str, str, str], Record]:
    """By model, width and board."""
    found = {}
    for board in BOARDS:
        for path in sorted((ROOT / "results" / "golden" / board).glob("*.json")):
            model, width = path.stem.split("-", 1)
            found[model, width, board] = json.loads(path.read_text())
    return found


def peers() -> list[str]:
    """Shiftry's networks on the Uno beside what Shiftry itself made of them."""
    rows = read("peers")
    lines = [
        "| Network | Width | Accuracy (float) % | Arena B (MinUn allowed) | Uno: cycles, ms, RAM B, flash B "
        "| Shiftry: accuracy %, arena B, ms with -Os, with -O2, flash B |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        shiftry = row["shiftry"]
        count = row["samples"]
        lines.append(
            f"| `{row['network']}` | {row['format']} | {100 * row['correct'] / count:.2f} "
            f"({100 * row['float_correct'] / count:.2f}) | {row['arena_bytes']} ({row['limit_bytes']}) "
            f"| {row['cycles']:,.0f}, {_ms(row['cycles'] / CYCLES_PER_US)}, {row['ram_bytes']:,}, "
            f"{row['flash_bytes']:,} "
            f"| {shiftry['percent']:.2f}, {shiftry['arena_bytes']}, {shiftry['ms_os']}, {shiftry['ms_o2']}, "
            f"{shiftry['flash_bytes']:,} |"
        )
    return [*lines, "", line("peers")]
