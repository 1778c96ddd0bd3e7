"""Latency of the zoo on Uno, Due and H747 beside Shiftry's and SeeDot's: golden records and results/peers.json.

Both are held to what is measured today by tests, so that nothing is measured a second time here.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.papers.judge import more_often
from benchmarks.papers.minun.facts import NETWORKS, SEEDOT
from benchmarks.papers.paper import Cell, Claim, Rows, Verdict, table
from benchmarks.peers_models import SHIFTRY, UNIFORM
from tools.measured import read
from tools.zoo_table import CYCLES_PER_US, golden_records

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
    found: dict[str, dict[str, str]] = {}
    for (model, width), times in _times().items():
        if NETWORKS.get(model) in SEEDOT and "uno" in times:
            found.setdefault(model, {})[width] = f"{times['uno']:,.2f}"
    lines = [
        (f"`{model}`", ours.get("fixed8"), ours.get("fixed16"), SEEDOT[NETWORKS[model]].uno_ms)
        for model, ours in sorted(found.items())
    ]
    return (
        "## Latency\n\nMilliseconds on the Uno at 16 MHz, exact cycles; other boards, and Shiftry's own weights beside "
        "its code: [the zoo](../zoo.md).\n\n" + table(("Network", "fixed8", "fixed16", "SeeDot, 16 bits"), lines)
    )


def _judge_shiftry(rows: Rows) -> Verdict:
    gains: dict[str, list[float]] = {}
    for row in read("peers"):
        gains.setdefault(row["format"], []).append(row["shiftry"]["ms_o2"] / (row["cycles"] / CYCLES_PER_MS))
    larger = [row["network"] for row in read("peers") if row["flash_bytes"] > row["shiftry"]["flash_bytes"]]
    said = ", ".join(f"{fmt} {min(found):.1f} to {max(found):.1f} times" for fmt, found in gains.items())
    known = {f"{row['network']} {row['format']}" for row in read("peers")}
    return Verdict(
        "confirmed" if min(map(min, gains.values())) > 1 else "refuted",
        f"faster than Shiftry at -O2: {said}; flash is larger in {len(larger)} of {len(read('peers'))} (ours with the "
        "wire)",
    ).without([name for name in (f"{network} {fmt}" for network in SHIFTRY for fmt in UNIFORM) if name not in known])


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
    outcome = more_often(len(wide) - len(slower), len(slower))
    timed = {NETWORKS[model] for model, width in _times() if width == "fixed16" and model in NETWORKS}
    untimed = [" ".join(row) for row in SEEDOT if row not in timed]
    return Verdict(outcome, f"{said} (sign test of 16 bits)").without(untimed, "no time of")


CLAIMS = (
    Claim(
        '"outperforms the prior TinyML frameworks" (Shiftry in 8/16 mixed, same weights)', _judge_shiftry, "abstract"
    ),
    Claim(
        "SeeDot's latencies on the Uno are met for the same data sets",
        _judge_seedot,
        "PLDI 2019, table",
        "below, Latency",
    ),
)
