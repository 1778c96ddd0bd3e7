"""A search on the terminal: the best so far while it runs, the widths and figures at its end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.console import Console

from tinyhil.harness.records.band import us_text
from tinyhil.harness.records.bench_stats import ticks_text
from tinyhil.harness.records.search_schema import shown_name
from tinyhil.harness.settings.progress import Progress, progress_on
from tinyhil.preference import planned_by

if TYPE_CHECKING:
    from tinyhil.harness.search.device import Measured
    from tinyhil.harness.search.pareto import ParetoOutcome
    from tinyhil.harness.search.session import SearchOutcome
    from tinyhil.search.trial import Trial


@dataclass
class Watch:
    """Shows on a terminal, or says now and then elsewhere, which phase a search is in and its best trial."""

    shown: Progress
    evaluations: int

    def __call__(self, trial: Trial, best: Trial | None) -> None:
        self.shown.stage = _standing(trial, best)
        self.shown(self.shown.finished, self.shown.total)

    def evaluated(self, evaluations: float) -> None:
        """So many so far, as the outcome counts them; more than were asked for where one search follows another."""
        self.shown(int(evaluations), max(self.evaluations, int(evaluations)))

    def phase(self, name: str) -> None:
        """Show that the search has entered it."""
        self.shown.enter(name)


@contextmanager
def search_progress(console: Console, evaluations: int | None) -> Iterator[Watch]:
    """Yields what is called with every trial, and with every phase."""
    with progress_on(console, "search") as shown:
        shown.unit = "evaluations"
        yield Watch(shown, evaluations or 0)


def _standing(trial: Trial, best: Trial | None) -> str:
    """`trial 12: best 3 differ, 192 B of arena`."""
    known = "none fits yet" if best is None else f"best {best.score.disagreements} differ, {best.ram_bytes} B of arena"
    return f"trial {trial.number + 1}: {known}"


def print_outcome(outcome: SearchOutcome | ParetoOutcome, console: Console) -> None:
    """The table of widths, then the figures on held-out data; of a sweep the front."""
    from rich.table import Table

    from tinyhil.harness.search.pareto import ParetoOutcome

    if isinstance(outcome, ParetoOutcome):
        _print_front(outcome, console)
        return

    table, r, best = Table(title=None), outcome.record, outcome.found.best
    alone = {row["tensor"]: row["errors"] for row in r["sensitivity"]["tensors"]}
    narrow, samples = outcome.space.formats[0], r["sensitivity"]["samples"]
    errors = (
        (f"error, alone in {narrow}, {samples} samples",) if any(narrow in known for known in alone.values()) else ()
    )
    for title in ("tensor", "kind", "elements", "format", *errors):
        table.add_column(title, justify="right" if title.startswith(("elements", "error")) else "left")
    for group, choice in zip(outcome.space.groups, best.candidate, strict=True):
        tied = f" (+ {len(group.members) - 1} tied)" if len(group.members) > 1 else ""
        error = alone.get(group.name, {}).get(narrow)
        cells = group.name + tied, group.role, str(group.elements), choice.described
        table.add_row(*cells, *(["" if error is None else f"{100 * error:.2f} %"] if errors else []))
    console.print(table)
    in_all = sum(phase["seconds"] for phase in r["phases"])
    lines = {
        "strategy": f"{r['strategy']}, {r['evaluations']:g} evaluations, {r['seconds']:.1f} s of {in_all:.1f} s in all",
        **_memory(r),
        **_costs(r, outcome.request.minimize),
        "searched on": f"{outcome.search_samples} samples, {best.score.disagreements} differ from float",
        "held out": f"{r['samples']} samples, {r['disagreements']} differ from float",
        "accuracy": f"{_percent(r['accuracy'])} (float {_percent(r['float_accuracy'])}) held out of the search",
        "assignment": r["assignment_file"],
    }
    if len(outcome.measured) > 1:  # these three figures are of one of them
        first = outcome.measured[0].board
        lines |= {name: f"{lines[name]} on {first}" for name in ("RAM", "latency", "flash") if name in lines}
    for name, text in (*lines.items(), *(("on the board", _on_board(board)) for board in outcome.measured)):
        console.print(f"{name:14} {text}", soft_wrap=True, markup=False)
    if r["uniform"]:  # not where it was stopped before
        console.print(_beside(r))


def _print_front(outcome: ParetoOutcome, console: Console) -> None:
    """A line per point and board."""
    from rich.table import Table

    r = outcome.record
    several = len(r["boards"]) > 1
    table = Table(
        title=f"front of {', '.join(r['pareto'])}, on samples searched; held out beside; latency of the worst",
        title_justify="left",
    )
    board = ("board",) if several else ()
    for title in ("point", *board, "arena B", "RAM B", "latency us", "flash B", "searched", "differ", "accuracy"):
        table.add_column(title, justify="left" if title in ("point", "board") else "right")
    for point in r["points"]:
        name = str(point["number"]) + (f" ({point['format']})" if point["format"] else "")
        for at, known in enumerate(point["boards"] or [None]):
            cells = _numbers(point, known, at)
            own = [f"{point['searched_disagreements']:,}", f"{point['disagreements']:,}", _percent(point["accuracy"])]
            which = () if not several or known is None else (known["board"],)
            table.add_row(name if at == 0 else "", *which, *cells, *(own if at == 0 else [""] * len(own)))
    console.print(table)
    console.print(f"float {_percent(r['float_accuracy'])}; {r['evaluations']:g} evaluations, {r['seconds']:.1f} s")
    for point in r["points"]:
        console.print(f"point {point['number']:<8} {point['assignment_file']}", soft_wrap=True, markup=False)


def _numbers(planned: Mapping[str, Any], measured: Mapping[str, Any] | None, at: int) -> list[str]:
    """Arena as planned, without a sample that lies in it on a board, said once; RAM, latency and flash of the board
    number `at`; of short latencies a decimal, by which they keep a limit or do not."""
    needs = planned if measured is None else {**planned, **measured, "ram_bytes": measured["total_bytes"]}
    arena = planned["arena_bytes"] if at == 0 else None
    numbers = [arena, *(needs[field] for field in ("ram_bytes", "latency_us", "flash_bytes"))]
    texts = ["" if one is None else f"{one:,.{int(isinstance(one, float) and one < 1000)}f}" for one in numbers]
    return [*texts[:2], *(f"~{text}" if text and planned.get("estimated") else text for text in texts[2:])]


def _beside(r: dict[str, Any]) -> Any:
    """The answer, and each format alone: a table."""
    from rich.table import Table

    worst = f"of {r['device']['samples']} samples" if r.get("device") else "sample"
    title = f"held out, beside one format for all tensors; those searched decide; latency of the worst {worst}"
    unknown = any("arena_bytes" in row and row["flash_bytes"] is None for row in r["uniform"])
    title += "; empty: no board ran it" if unknown and r["flash_bytes"] is not None else ""
    table = Table(title=title, title_justify="left")
    several = len(r["boards"]) > 1
    board = ("board",) if several else ()
    for title in ("format", *board, "arena B", "RAM B", "latency us", "flash B", "searched", "differ", "accuracy"):
        table.add_column(title, justify="left" if title in ("format", "board") else "right")
    answer = {**r, "format": "the answer", "keeps_limits": True}
    answer["searched_disagreements"] = r["search"]["disagreements"]
    for row in (answer, *r["uniform"]):
        if "arena_bytes" not in row:
            table.add_row(row["format"], f"not possible: {row['reason']}")
            continue
        name = shown_name(row)
        for at, known in enumerate(row.get("boards") or [None]):
            cells = _numbers(row, known, at)
            own = [f"{row['searched_disagreements']:,}", f"{row['disagreements']:,}", _percent(row["accuracy"])]
            own = own if at == 0 else [""] * len(own)
            which = () if not several else ("" if known is None else known["board"],)
            table.add_row(name if at == 0 else "", *which, *cells, *own)
    return table


def _memory(r: dict[str, Any]) -> dict[str, str]:
    """What the limit is of first: all RAM of the board, or the arena alone."""
    by = planned_by(r["prefer"])
    if r["ram_limit_bytes"] is not None:
        known = "unknown (no image was built)" if r["ram_bytes"] is None else f"{r['ram_bytes']} B"
        return {"RAM": f"{known} of {r['ram_limit_bytes']} B{by}, arena {r['arena_bytes']} B"}
    limit = "" if r["arena_limit_bytes"] is None else f" of {r['arena_limit_bytes']} B"
    is_of_one = r["boards"] or r["flash_bytes"] is not None or "crossbars" in r
    boards = "" if is_of_one else "; boards may lay out more: --board NAME"
    return {"arena": f"{r['arena_bytes']} B{limit}{by}{boards}"} | (
        {} if r["ram_bytes"] is None else {"RAM": f"{r['ram_bytes']} B"}
    )


def _worst_of(r: dict[str, Any]) -> str:
    """Of which samples a latency is the worst, and that of samples that the search has not seen."""
    seen = f"worst of {r['device']['samples']} samples" if r.get("device") else "worst sample measured"
    held_out = r.get("held_out_latency_us")
    seen += "" if held_out is None else f"; {us_text(held_out)} of those held out"
    device = r.get("device") or {}
    if device.get("low") is None:
        return seen
    low, high = (us_text(r["latency_us"] * device[end]) for end in ("low", "high"))
    return f"{seen}; modelled, on the chip between {low} and {high}"


def _costs(r: dict[str, Any], minimize: str | None) -> dict[str, str]:
    """Latency of the worst sample, and flash, where they are known or asked for, with their limits."""
    lines = {}
    limit = "" if r["latency_limit_us"] is None else f" of {us_text(r['latency_limit_us'])}"
    if r["latency_us"] is None and (limit or minimize == "latency"):
        lines["latency"] = f"unknown (no board has run it){limit}"
    elif r["latency_us"] is None and r["flash_bytes"] is not None:
        lines["latency"] = "not counted; hil run --assignment counts it"
    if r["latency_us"] is not None:
        known = "modelled" if "crossbars" in r else _worst_of(r)
        lines["latency"] = f"{us_text(r['latency_us'])}{limit} ({known})"
    for name, unit in (("energy_uj", "uJ"), ("crossbars", ""), ("cost", "of that with 8 bits everywhere")):
        if name in r:
            limit = f" of {r[f'{name}_limit']:,.4g}" if f"{name}_limit" in r else ""
            lines[name.removesuffix("_uj")] = f"{r[name]:,.4g}{limit} {unit}".rstrip()
    limit = "" if r["flash_limit_bytes"] is None else f" of {r['flash_limit_bytes']:,} B"
    if r["flash_bytes"] is not None or limit or minimize == "flash":
        known = "unknown (no image was built)" if r["flash_bytes"] is None else f"{r['flash_bytes']:,} B"
        lines["flash"] = known + limit
    return lines


def _on_board(found: Measured) -> str:
    """What the board measured of the chosen widths."""
    stack = "stack unknown" if found.stack_bytes is None else f"{found.stack_bytes} B stack at worst"
    return (
        f"{found.board}: {found.samples} samples bit-exact, {found.disagreements} differ from float, median "
        f"{ticks_text(found.median)} {found.unit}, {found.static_bytes} B static + {stack}, {found.flash_bytes} B flash"
    )


def _percent(share: float | None) -> str:
    return "unknown" if share is None else f"{100 * share:.2f} %"
