"""Latency of the zoo on Uno, Due and H747 beside Shiftry's and SeeDot's: golden records and results/peers.json.

Both are held to what is measured today by tests, so that nothing is measured a second time here.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.papers.minun.facts import NETWORKS, SEEDOT
from benchmarks.papers.paper import Cell, Claim, Rows, Verdict, table
from tools.measured import clocks, read
from tools.zoo_table import BOARDS, CYCLES_PER_US, golden_records

CYCLES_PER_MS = 1000 * CYCLES_PER_US


def cells() -> Iterator[Cell]:
    return iter(())


quick = cells


def _times() -> dict[tuple[str, str], dict[str, float]]:
    """Milliseconds by network and width, then by board."""
    found: dict[tuple[str, str], dict[str, float]] = {}
    for (model, width, board), record in golden_records().items():
        clock_hz = record["latency"]["clock_hz"]
        found.setdefault((model, width), {})[board] = 1000 * record["latency"]["median"] / clock_hz
    return found


def body(rows: Rows) -> str:
    lines = []
    for (model, width), times in sorted(_times().items()):
        theirs = SEEDOT.get(NETWORKS.get(model, ("", "")))
        if theirs is not None:
            ours = [f"{times[board]:,.2f}" if board in times else "does not fit" for board in BOARDS]
            lines.append((f"`{model}`", width, *ours, theirs.uno_ms, theirs.mkr1000_ms))
    heads = ("Network", "Width", *(f"{board} ms" for board in BOARDS), "SeeDot: Uno ms", "SeeDot: MKR1000 ms")
    return (
        f"## Latency\n\n{clocks()} SeeDot's networks for the same data sets are others than ours, and its second board "
        "is an MKR1000 (Cortex-M0+, 48 MHz). Shiftry's own weights beside its code: "
        f"[the zoo](../zoo.md#networks-of-the-peers).\n\n{table(heads, lines)}"
    )


def _judge_shiftry(rows: Rows) -> Verdict:
    gains: dict[str, list[float]] = {}
    for row in read("peers"):
        gains.setdefault(row["format"], []).append(row["shiftry"]["ms_o2"] / (row["cycles"] / CYCLES_PER_MS))
    larger = [row["network"] for row in read("peers") if row["flash_bytes"] > row["shiftry"]["flash_bytes"]]
    said = ", ".join(f"{fmt} {min(found):.1f} to {max(found):.1f} times" for fmt, found in gains.items())
    return Verdict(
        "confirmed" if min(map(min, gains.values())) > 1 else "refuted",
        f"faster than Shiftry at -O2: {said}; flash is larger in {len(larger)} of {len(read('peers'))} (ours with the "
        "wire)",
    )


def _judge_seedot(rows: Rows) -> Verdict:
    gains = {
        f"`{model}` {width}": SEEDOT[NETWORKS[model]].uno_ms / times["uno"]
        for (model, width), times in _times().items()
        if NETWORKS.get(model) in SEEDOT and "uno" in times
    }
    wide = {name: gain for name, gain in gains.items() if name.endswith("fixed16")}
    slower = [name for name, gain in wide.items() if gain < 1]
    narrow = [gain for name, gain in gains.items() if name.endswith("fixed8")]
    said = f"in 16 bits, as SeeDot's, faster in {len(wide) - len(slower)} of {len(wide)}"
    said += (
        f", not {', '.join(slower)}" if slower else ""
    ) + f"; in 8 bits {min(narrow):.1f} to {max(narrow):.1f} times"
    return Verdict("refuted" if slower else "confirmed", f"{said} (other networks, emulated Uno)")


CLAIMS = (
    Claim(
        "The generated code outperforms prior TinyML frameworks (Shiftry in 8/16 mixed, same weights)", _judge_shiftry
    ),
    Claim("SeeDot's latencies on the Uno are met for the same data sets", _judge_seedot),
)
