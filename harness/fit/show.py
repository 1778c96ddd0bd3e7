"""What `hil fit` prints: one table, a row for every board and format."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from tinyhil.harness.fit.core_costs import Estimate
from tinyhil.harness.fit.session import Fit, FitOutcome
from tinyhil.preference import planned_by

TITLES = ("board", "format", "fits", "flash B", "of", "RAM B,\nlikely below", "of", "median\nlatency", "band")


def print_fit(outcome: FitOutcome, console: Console) -> None:
    """One row for every board and format, and what its marks mean."""
    judged = any(row.agreement is not None for row in outcome.rows)
    table = Table(title=f"RAM and latency{planned_by(outcome.request.prefer)}", title_justify="left")
    for number, title in enumerate((*TITLES, *(("disagree", "accuracy") if judged else ()))):
        table.add_column(title, justify="left" if number < 3 else "right", no_wrap=True)
    for row in outcome.rows:
        table.add_row(*_cells(row), *(_judged(row) if judged else ()))
    console.print(table)
    for row in outcome.rows:
        if row.reason:
            console.print(f"{row.board:12} {row.format:9} {row.reason}", soft_wrap=True, markup=False, highlight=False)
    console.print(
        "* what to take on that board. Estimated but for arena and constants; nine in ten networks lie in the band. As "
        f"`hil run --board NAME --prefer {outcome.request.prefer}` measures it on an emulated board; + flash waits: "
        "how far a chip's differ nobody measured, a run says bounds. `hil search` limits the worst sample "
        "(--latency-us), not the median, and the deepest stack that an image can need (--ram), which a run says beside "
        "what it measures; `hil docs fit` says how it is known",
        soft_wrap=True,
    )
    for said in dict.fromkeys(_judged_on(row) for row in outcome.rows):
        if said:
            console.print(said, soft_wrap=True, markup=False, highlight=False)
    if outcome.next_command:
        console.print(f"to see it run: {outcome.next_command}", soft_wrap=True, markup=False, highlight=False)


def _cells(row: Fit) -> tuple[str, ...]:
    latency = row.latency_us
    return (
        row.board,
        f"{row.format}{' *' if row.chosen else ''}",
        row.fits,
        _bytes(row.flash_bytes),
        "" if row.flash_limit_bytes is None else f"{row.flash_limit_bytes:,}",
        "" if row.ram_bytes is None else f"{row.ram_bytes.high:,.0f}",
        "" if row.ram_limit_bytes is None else f"{row.ram_limit_bytes:,}",
        "" if latency is None else _time(latency.value),
        "" if latency is None else f"{_time(latency.low)} to {_time(latency.high)}{_more(row)}",
    )


def _more(row: Fit) -> str:
    return f" + {row.beside_latency}" if row.beside_latency else ""


def _bytes(found: Estimate | None) -> str:
    return "" if found is None else f"{found.value:,.0f}"


def _time(us: float) -> str:
    return f"{us:,.0f} us" if us < 1e4 else f"{us / 1e3:,.0f} ms" if us < 1e7 else f"{us / 1e6:,.0f} s"


def _judged_on(row: Fit) -> str:
    """Of which samples decisions and accuracy are, and what float has of them; empty where there is nothing to say."""
    found = row.agreement
    if found is None:
        return ""
    known = "" if found.float_accuracy is None else f"float has {100 * found.float_accuracy:.1f} %"
    if found.samples == found.given:
        return f"{known} of these samples right" if known else ""
    said = f"decisions and accuracy are of {found.samples} of {found.given} samples, evenly spread (--samples)"
    return f"{said}; {known} of them right" if known else said


def _judged(row: Fit) -> tuple[str, str]:
    found = row.agreement
    if found is None:
        return "", ""
    accuracy = "" if found.accuracy is None else f"{100 * found.accuracy:.1f} %"
    return f"{found.disagreements} of {found.samples}", accuracy
