"""Many records at a glance: for each model a card per board and format, all on the same scales."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tinyhil.harness.records.figures import formats_by, planned_with, share_of
from tinyhil.harness.records.verdict import VALID, RecordLike, verdict_of
from tinyhil.harness.report.html import escape
from tinyhil.harness.report.sentence import percent, time_of

ABOUT = "A card per board and format; bars are shares of that board's RAM and flash. A card leads to all that is known."


def overview(runs: Sequence[tuple[str, RecordLike]], times: Sequence[str]) -> str:
    """One sentence over all, then the cards by model; `runs`: anchors and records; `times`: of distinct_times()."""
    models: dict[str, list[str]] = {}
    for (anchor, record), time in zip(runs, times, strict=True):
        models.setdefault(record["model"], []).append(_card(anchor, record, time))
    groups = "".join(
        f'<h3>{escape(model)}</h3><div class="multiples">{"".join(cards)}</div>' for model, cards in models.items()
    )
    said = escape(_sentence([record for _, record in runs]))
    about = f'<p class="about">{escape(ABOUT)}</p>'
    return f'<p class="verdict">{said}</p><section><h2>All records</h2>{about}{groups}</section>'


def _sentence(records: Sequence[RecordLike]) -> str:
    wrong = [record for record in records if verdict_of(record)["verdict"] != VALID]
    if not wrong:
        return f"All {len(records)} runs fit their boards and are right, bit for bit."
    names = ", ".join(
        f"{r['model']} in {r['format']} on {r['board']} ({verdict_of(r)['issues'][0]['code']})" for r in wrong[:3]
    )
    more = f" and {len(wrong) - 3} more" if len(wrong) > 3 else ""
    return f"{len(records) - len(wrong)} of {len(records)} runs fit and are right; to be looked at: {names}{more}."


def distinct_times(records: Sequence[RecordLike]) -> list[str]:
    """When a record was made, where others are of the same model, board and format; else nothing."""
    same = Counter(map(_of, records))
    return [when_of(record["provenance"].get("utc")) if same[_of(record)] > 1 else "" for record in records]


def when_of(utc: str | None) -> str:
    """A time of a record as a page has it."""
    return (utc or "").replace("T", " ").removesuffix("Z")


def _of(record: RecordLike) -> tuple[str, ...]:
    return tuple(str(record[key]) for key in ("model", "board", "format"))


def _card(anchor: str, record: RecordLike, time: str) -> str:
    memory, verdict = record["memory"], verdict_of(record)["verdict"]
    meters = _meter("RAM", memory.get("total_bytes"), memory.get("limit_bytes"))
    meters += _meter("flash", record["flash_bytes"], record.get("flash_limit_bytes"))
    right = None if record["accuracy"] is None else share_of(record["accuracy"], record["samples"])
    accuracy = "" if right is None else f'<span class="more">{right} right</span>'
    badge = "" if verdict == VALID else f' <span class="badge {verdict}">{verdict}</span>'
    how = record["format"] + formats_by(record) + planned_with(record)
    made = f'<span class="more">{escape(time)}</span>' if time else ""
    return (
        f'<a class="multiple" href="#{anchor}"><span class="what">{escape(record["board"])} · '
        f'{escape(how)}</span>{badge}{made}<span class="value">{escape(time_of(record["latency"]))}</span>'
        f"{meters}{accuracy}</a>"
    )


def _meter(what: str, used: int | None, limit: int | None) -> str:
    if used is None:
        return ""
    if not limit:
        return f'<span class="more">{what} {used:,} B</span>'
    share = used / limit
    full = " full" if share > 1 else ""
    return (
        f'<span class="more">{what} {percent(share)}</span>'
        f'<span class="meter{full}"><i style="width:{min(100, 100 * share):.1f}%"></i></span>'
    )
