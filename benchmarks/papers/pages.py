"""docs/papers/: a page and figures for each paper, and README.md with every claim; all from the records alone."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.papers import elsewhere, record
from benchmarks.papers.paper import Claim, Paper, Rows, table
from tools.stale import marked

DOCS = Path(__file__).resolve().parent.parent.parent / "docs" / "papers"
MADE = "Made by `python -m benchmarks.papers`; not edited by hand."
OURS = "in our words"
WIDTH = 150  # of a line of text; rows of tables are as long as they are


def page(paper: Paper, folder: Path = record.FOLDER) -> str:
    """The text of docs/papers/<name>.md."""
    cells = record.read(paper.name, folder)
    rows = record.rows_of(cells)
    parts = [f"# {paper.title}", f"`{paper.command}`. {MADE}\n{_measured(paper, cells)}"]
    parts += [paper.differs, claims_table(paper.claims, rows, paper.keys())]
    parts.append(paper.body(record.timed_rows_of(cells)))
    parts += [f"![{name}]({paper.name}/{name}.svg)" for name in paper.figures]
    if paper.absent:
        parts += ["## Not to be had", table(("What", "Why"), paper.absent.items())]
    return _wrapped(parts)


def _wrapped(parts: Iterable[str]) -> str:
    """One text of parts, paragraphs in lines of WIDTH."""
    lines = "\n\n".join(part for part in parts if part).splitlines()
    plain = [[line] if line.startswith(("|", "#", "!")) or not line else textwrap.wrap(line, WIDTH) for line in lines]
    return "\n".join(line for part in plain for line in part) + "\n"


def _measured(paper: Paper, cells: record.Record) -> str:
    commits = dict.fromkeys(cell["commit"][:10] for cell in cells.values())
    seconds = sum(cell["processor_s"] for cell in cells.values())
    failed = [f"`{key}`: {cell['row']['failed']}" for key, cell in cells.items() if "failed" in cell["row"]]
    count, spent = len(paper.keys()), f"{seconds / 60:.1f} minutes of one processor"
    said = f"{len(cells)} of {count} cells, {spent}." + (f"\nMeasured at {', '.join(commits)}." if commits else "")
    return said + "".join(f"\nNot measured: {line}." for line in failed)


def claims_table(claims: Sequence[Claim], rows: Rows, keys: Sequence[str]) -> str:
    """A row each: where it stands in the paper, as far as that is known, whether its words are ours, its figures."""
    lines = []
    for claim in claims:
        verdict = claim.verdict(rows, keys)
        where = ", ".join(filter(None, (claim.where, "" if claim.quotes else OURS)))
        lines.append((claim.text, where, claim.theirs, f"**{verdict.outcome}**", verdict.ours))
    return table(("Claim", "Where", "Theirs", "Here", "Ours"), lines) if lines else ""


def overview(papers: Iterable[Paper], folder: Path = record.FOLDER) -> str:
    """The text of docs/papers/README.md."""
    parts = [
        "# The papers, claim by claim",
        "What papers say of themselves, run again on real data, 95 % intervals in brackets. *Confirmed* and *refuted*, "
        "of our networks, data and machines: the whole interval lies on one side of the margin, or "
        "a sign test at 5 % or exact figures say so; else *not shown*. "
        f"{MADE}",
    ]
    lines = []
    for paper in papers:
        cells, keys = record.read(paper.name, folder), paper.keys()
        outcomes = [claim.verdict(record.rows_of(cells), keys).outcome for claim in paper.claims]
        measured = f"{len(cells)} of {len(keys)}"
        found = (outcomes.count(outcome) for outcome in ("confirmed", "refuted", "not shown"))
        lines.append((f"[{paper.title}]({paper.name}.md)", f"`{paper.name}`", measured, *found))
    heads = ("Paper", "`python -m benchmarks.papers`", "Cells measured", "Confirmed", "Refuted", "Not shown")
    parts.append(table(heads, lines))
    for other in elsewhere.PAGES:
        parts.append(f"## [{other.title}]({other.page})\n\n`{other.command}`")
        parts.append(claims_table(other.claims, other.rows(), other.keys))
    return _wrapped(parts)


def save_svg(figure: Any, path: Path) -> None:
    """The same bytes for the same figure."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    matplotlib.rcParams["svg.hashsalt"] = "tinyhil"
    FigureCanvasAgg(figure)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})


def write(papers: Iterable[Paper], every: Iterable[Paper]) -> None:
    """Pages and figures of `papers`, and the overview of `every`."""
    DOCS.mkdir(parents=True, exist_ok=True)
    for paper in papers:
        (DOCS / f"{paper.name}.md").write_text(marked(page(paper), f"docs/papers/{paper.name}.md"))
        rows = record.rows_of(record.read(paper.name))
        for name, draw in paper.figures.items():
            save_svg(draw(rows), DOCS / paper.name / f"{name}.svg")
    (DOCS / "README.md").write_text(overview(every))
