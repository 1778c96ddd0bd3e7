"""A record as a table for people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from tinyhil.harness.records.band import band, time_text
from tinyhil.harness.records.bench_stats import ticks_text
from tinyhil.harness.records.figures import at_worst, slow_first
from tinyhil.harness.records.verdict import issue_texts, off_float
from tinyhil.harness.settings.text import in_short
from tinyhil.preference import planned_by

NAMES = 3  # of tensors in one line; the record has all


def print_rows(record: Mapping[str, Any], lines: Iterable[tuple[str, str]], console: Console) -> None:
    """What was run and where, then name and text of each line."""
    title = f"{record['model']} on {record['board']}"
    if record["emulator"]:
        title += f" (emulated: {record['emulator']['fidelity']})"
    console.print(Text(title, "italic"), soft_wrap=True)
    for name, text in lines:
        console.print(Text.assemble((f"{name:15}", "bold"), text), soft_wrap=True)


def rows(record: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Name and text of each line."""
    memory, latency = record["memory"], record["latency"]
    verdict = "yes" if record["bit_exact"] else "NO"
    return [
        ("format", record["format"]),
        ("data", f"{record['data']['name']} ({record['data']['source']}), {record['samples']} samples"),
        ("bit-exact", f"{verdict}: {record['equal_samples']} of {record['samples']} equal to the reference"),
        ("float", agreement_text(record)),
        ("accuracy", f"{_fraction(record['accuracy'])}, float {_fraction(record['float_accuracy'])}"),
        ("disagreements", f"{record['disagreements']} with float32, {_saturations(record)}"),
        ("latency", _latency(latency, record["raw"]["ticks"])),
        *_accelerator(record.get("accelerator")),
        ("RAM", _memory(memory)),
        ("arena", f"{memory['arena_bytes']} B{_input(memory)}{_plan(record['plan'])}"),
        ("flash", f"{record['flash_bytes']} B{copied(memory)}"),
        *[("verdict", text) for text in issue_texts(record)],
        ("wall", ", ".join(f"{stage} {seconds:.1f} s" for stage, seconds in record["wall_seconds"].items())),
    ]


def _saturations(record: Mapping[str, Any]) -> str:
    """A value that clips in a halo counts as often as it is computed."""
    again = 100 * (record.get("plan") or {}).get("products_again", 0.0)
    more = f", those of the {again:.1f} % of products that are computed again included" if again else ""
    clipped = f", {n} elements of inputs clipped" if (n := record.get("input_saturations")) else ""
    inside = n and record.get("input_beyond") == 0
    why = ", none beyond the calibrated range: `offsets` narrow it" if inside else ""
    return f"{record['saturations']} saturations{more}{clipped}{why}"


def agreement_text(record: Mapping[str, Any]) -> str:
    """Whether every operation agrees with the float model within the resolution of its formats."""
    check, found = record["float_check"], record["degraded"]
    if found:
        return f"DEGRADED: {off_float(record)}"
    text = f"{check['tensors']} tensors of {check['samples']} samples within the resolution of their formats"
    names = [in_short(name) for name in check["unchecked"][:NAMES]]
    more = f" and {len(check['unchecked']) - NAMES} more" if len(check["unchecked"]) > NAMES else ""
    return f"{text}; not compared: {', '.join(names)}{more}" if names else text


def _fraction(value: float | None) -> str:
    return "not available" if value is None else f"{100 * value:.2f} %"


def _latency(latency: Mapping[str, Any], ticks: Sequence[int]) -> str:
    """`ticks` of each sample: after a reset the first one may be the slowest, since nothing is in a cache."""
    us = latency["median_us"]
    time = "" if us is None else f" ({time_text(us)}{band(latency)})"
    text = f"median {ticks_text(latency['median'])} {latency['unit']}{time}, max {latency['max']:,}"
    if slow_first(ticks):
        text += f" (the first sample, others {max(ticks[1:]):,})"
    if "instructions" in latency:
        text += f"; {latency['instructions']:,.0f} instructions"
    return text


def _accelerator(found: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    if found is None:
        return []
    crossbars = f"{found['crossbars']:,} in {found['tiles']:,} tiles"
    return [("energy", f"{found['energy_uj']:.4g} uJ, {found['power_mw']:,.0f} mW"), ("crossbars", crossbars)]


def _memory(memory: Mapping[str, Any]) -> str:
    if memory["total_bytes"] is None:
        return f"{memory['static_bytes']} B static; stack not measured"
    text = f"{memory['total_bytes']} B = {memory['static_bytes']} static + {memory['stack_bytes']} stack"
    text += f" + {memory['heap_bytes']} heap"
    text = text if memory["limit_bytes"] is None else f"{text} of {memory['limit_bytes']} B"
    worst = at_worst(memory)
    if worst is None:
        unknown = memory.get("stack_limit_unknown")
        return f"{text}; at worst unknown: {unknown}" if unknown else text
    return f"{text}; at worst {worst} B"


def copied(memory: Mapping[str, Any]) -> str:
    """What of the flash lies in RAM, too, or in a memory beside it, because there is room: no part of RAM's figures."""
    copied_bytes = memory.get("copied_bytes", 0)
    return f", {copied_bytes} B of it copied where RAM is free" if copied_bytes else ""


def _input(memory: Mapping[str, Any]) -> str:
    """Whether the sample lies in the arena."""
    return "" if memory["input_bytes"] else " with the input"


def _plan(plan: Mapping[str, Any]) -> str:
    how = "optimal placement" if plan["proven"] else f"lower bound {plan['lower_bound_bytes']} B"
    return f"{planned_by(plan.get('prefer'))}, {how}"
