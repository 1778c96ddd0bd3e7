"""The verdict of a record as one sentence for somebody who knows neither arenas nor formats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tinyhil.harness.records.band import us_text
from tinyhil.harness.records.bench_stats import ticks_text
from tinyhil.harness.records.figures import share_of
from tinyhil.harness.records.search_schema import MIXTURE
from tinyhil.harness.records.side_by_side import APART, CHANGED, DECISIONS, EQUAL, OUTPUTS, changes
from tinyhil.harness.records.verdict import DEGRADED, INVALID, ISSUES, RecordLike, verdict_of

MEANINGS = {issue.code: issue.meaning for issue in ISSUES}
AS_GOOD = "No worse than the strategy's own answer is one format for all tensors,"
NEARER = "Nearer to float than the strategy's own answer is a mixture that it has not chosen,"
UNFIT = {"ram-exceeded", "stack-could-overflow", "flash-exceeded"}
FIGURES = {
    "median": "time",
    "RAM B": "RAM",
    "RAM at worst B": "RAM at worst",
    "flash B": "flash",
    "accuracy %": "accuracy",
}


def sentence(record: RecordLike) -> str:
    """Does it fit, is it right, how fast, against what. Of a run, bench, profile or golden record."""
    found = verdict_of(record)["issues"]
    codes = {issue["code"] for issue in found}
    fits = not codes & UNFIT and not _flash_exceeded(record)
    said = f"{record['model']} {_fits(record, fits)} and {_right(record)}"
    cost = f"one sample takes {time_of(record['latency'])}{_shares(record)}"
    others = [MEANINGS[i["code"]] for i in found if i["severity"] == DEGRADED and i["code"] not in UNFIT]
    worse = [MEANINGS[i["code"]] for i in found if i["severity"] == INVALID and i["code"] != "not-bit-exact"]
    but = "; but " + ", and ".join([*worse, *others]) if worse or others else ""
    return f"{said}: {cost}{_decided(record)}{but}."


def _fits(record: RecordLike, fits: bool) -> str:
    if record["board"] == "host":
        return "runs on this computer"
    return f"{'fits' if fits else 'does not fit'} the board {record['board']}"


def _flash_exceeded(record: RecordLike) -> bool:
    limit = record.get("flash_limit_bytes")
    return limit is not None and record["flash_bytes"] > limit


def _right(record: RecordLike) -> str:
    total = record["samples"]
    if not total:
        return "nothing is known of its results"
    if record["bit_exact"]:
        return f"is right ({total:,} of {total:,} results equal the reference bit for bit)"
    return f"is not right ({record.get('equal_samples', 'not all')} of {total:,} results equal the reference)"


def time_of(latency: Mapping[str, Any]) -> str:
    """The median in the unit that suits it; instructions stay instructions."""
    us = latency.get("median_us")
    if us is None and latency["unit"] != "instructions" and latency["clock_hz"]:
        us = latency["median"] / latency["clock_hz"] * 1e6
    if us is None:
        return f"{ticks_text(latency['median'])} {latency['unit']}"
    return f"{us / 1e6:,.2f} s" if us >= 1e6 else f"{us / 1e3:,.2f} ms" if us >= 1e3 else f"{us:,.1f} µs"


def _shares(record: RecordLike) -> str:
    memory = record["memory"]
    pairs = (
        ("RAM", memory.get("total_bytes"), memory.get("limit_bytes")),
        ("flash", record["flash_bytes"], record.get("flash_limit_bytes")),
    )
    known = [f"{percent(used / limit)} of the {what}" for what, used, limit in pairs if used is not None and limit]
    return f", with {' and '.join(known)}" if known else ""


def percent(share: float) -> str:
    """Two significant digits are enough for a share."""
    return f"{100 * share:.0f} %" if share >= 0.095 else f"{100 * share:.1f} %"


def _decided(record: RecordLike) -> str:
    accuracy, wanted, total = record["accuracy"], record.get("float_accuracy"), record["samples"]
    if accuracy is None:
        differ = record.get("disagreements")
        return "" if differ is None else f"; {differ} of {total:,} decisions differ from the float model's"
    beside = "" if wanted is None else f", in floating point {share_of(wanted, total)}"
    return f"; {share_of(accuracy, total)} are right by the labels{beside}"


def against_sentence(record: RecordLike, other: RecordLike) -> str:
    """How the record stands to another one that somebody asked to hold it against."""
    said = []
    for row in changes(other, record):
        if row.what in (OUTPUTS, DECISIONS) and row.status == CHANGED:
            said.append(f"{row.what.split()[0]} of {row.now} changed")
        what = FIGURES.get("median" if row.what.startswith("median ") and row.what != "median us" else row.what)
        if what is None or not (row.before and row.now):
            continue
        if row.status == APART:
            said.append(f"{what} is not comparable ({row.why})")
        elif row.status == EQUAL:
            said.append(f"{what} is the same")
        else:
            said.append(f"{what} is {row.status}, {row.change}")
    name = f"{other['model']} on {other['board']} in {other['format']}"
    return f"Against {name}: {'; '.join(said) or 'no figure is known of both'}."


def search_sentence(record: RecordLike) -> str:
    """What a search chose, beside the best it could have had with one format for all tensors."""
    points = record.get("points")
    if points is not None:
        if not points:
            return "The search found nothing that keeps the limits."
        held_out = [p["accuracy"] for p in points if p.get("accuracy") is not None]
        by = "right" if held_out else "as float decides"
        right = f"{_span([p['quality'] for p in points])} {by} on the samples searched"
        right += f", {_span(held_out)} on those held out" if held_out else ""
        if len(points) == 1:
            return f"The search found one choice that beats all others, {right}."
        return f"The search found {len(points)} choices that no other beats, {right}."
    quality = (record.get("search") or {}).get("quality")
    within = [u for u in record["uniform"] if u.get("keeps_limits", True) and u.get("quality") is not None]
    replaced = record.get("replaced")
    if replaced is not None and replaced.get("by") == MIXTURE:
        return f"{NEARER} which takes {_resources(record)}: {_differing(record, within)}"
    chose = "The search chose formats that take" if replaced is None else f"{AS_GOOD} which takes"
    said = f"{chose} {_resources(record)}"
    right = "right" if record.get("float_accuracy") is not None else "as float decides"
    said += "" if quality is None else f", {100 * quality:.1f} % {right} on the samples searched"
    if not within:
        return f"{said}; no single format for all tensors keeps the limits."
    best = max(within, key=lambda u: (u["quality"], -(u.get("arena_bytes") or 0)))
    return f"{said}; {best['format']} for all tensors takes {_resources(best)}, {100 * best['quality']:.1f} %."


def _span(shares: Sequence[float]) -> str:
    least, most = (f"{100 * end(shares):.1f}" for end in (min, max))
    return f"{least} %" if least == most else f"{least} to {most} %"


def _differing(record: RecordLike, within: Sequence[Mapping[str, Any]]) -> str:
    """By what a mixture was chosen: decisions on the samples searched that differ from float."""
    searched = record["search"]
    said = f"{searched['disagreements']} of {searched['samples']:,} samples searched differ"
    best = min(within, key=lambda u: (u["searched_disagreements"], u.get("arena_bytes") or 0), default=None)
    if best is None:
        return f"{said}; no single format for all tensors keeps the limits."
    return f"{said}, of {best['format']} for all tensors ({_resources(best)}) {best['searched_disagreements']}."


def _resources(found: RecordLike) -> str:
    parts = []
    if found.get("arena_bytes") is not None:
        parts.append(f"{found['arena_bytes']:,} B of arena")
    if found.get("latency_us") is not None:
        parts.append(us_text(found["latency_us"]).replace("us", "µs"))
    return " and ".join(parts) or "unknown memory"
