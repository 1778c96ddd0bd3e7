"""Since when measured tables are stale: the first commit after the measured one that touched what they depend on.

A table names its commit, `DEPENDS` the paths. What was found is kept in results/stale.json, so that pages say it
without asking git; `python -m tools.claims` renews both. Cells of papers have commits and paths of their own, of which
`python -m tools.claims --list` says it. Stale means unproven, not wrong: figures may still be what a new measurement
gives.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LEDGER = ROOT / "results" / "stale.json"
PAPERS = ROOT / "results" / "papers"
BOARDS = ("boards.yaml", "codegen", "emulators", "firmware", "memplan", "tinyhil")
PLANS = ("memplan", "tinyhil")
LEARNT = ("search", "tinyhil", "train")
PAPER = (*BOARDS, "search")
# What the figures of a page, or of a cell of one, depend on; the first beginning that fits.
DEPENDS = (
    ("docs/papers/fp8.md: in place/", (*PLANS, "benchmarks/papers/fp8/in_place.py", "benchmarks/shape_graphs.py")),
    ("docs/papers/embedded.md: ", (*LEARNT, "benchmarks/papers/embedded")),
    ("docs/papers/faces.md: ", (*PAPER, "benchmarks/papers/faces")),
    ("docs/papers/fp8.md: ", ("firmware", "tinyhil", "benchmarks/papers/fp8")),
    ("docs/papers/minun.md: ", (*PAPER, "benchmarks/papers/minun")),
    ("docs/papers/squeezenet.md: ", (*PAPER, "benchmarks/papers/squeezenet")),
    ("docs/measured/memplan", PLANS),
    ("docs/measured/search", LEARNT),
    ("docs/training", LEARNT),
    ("docs/reram", LEARNT),
    ("docs/sweep", ("harness/sweep", "harness/wire")),
    ("docs/", BOARDS),
)
LINE = re.compile(r"(?:[Mm]easured at|commit) (?P<commits>[0-9a-f]{10}(?:,\s[0-9a-f]{10})*)(?:,\s\d{4}-\d\d-\d\d)?")
SAID = re.compile(r";\sstale since [0-9a-f]{10}, \d{4}-\d\d-\d\d \([^)]*\)")


def paths_of(page: str) -> tuple[str, ...]:
    """The folders and files that the figures of a page (relative to the root), or of a cell, `page: key`, depend on."""
    return next(paths for beginning, paths in DEPENDS if page.startswith(beginning))


def cell_changed(name: str, commit: str) -> str:
    """Since when the code of a cell, `page: key`, measured at `commit` has changed, by the ledger; '': it has not."""
    known: dict[str, str] = json.loads(LEDGER.read_text())
    return known.get(_key(commit, name), "")


def cells() -> Iterable[tuple[str, str]]:
    """Name and commit of every measured cell of a paper."""
    for path in sorted(PAPERS.glob("*.json")):
        page = f"docs/papers/{path.stem}.md"
        for key, cell in json.loads(path.read_text())["cells"].items() if (ROOT / page).is_file() else ():
            yield f"{page}: {key}", cell["commit"]


def _key(commit: str, name: str) -> str:
    return f"{commit[:10]} {' '.join(paths_of(name))}"


def since(commit: str, paths: Iterable[str]) -> str | None:
    """The first commit after `commit` that touched one of `paths`, its day, what it touched; None without one."""
    listed = _git("log", "--reverse", "--format=%h, %cs", "--abbrev=10", f"{commit}..HEAD", "--", *paths)
    if not listed:
        return None
    first = listed.splitlines()[0]
    touched = _git(
        "show", "-m", "--first-parent", "--format=", "--name-only", first.split(",")[0], "--", *paths
    ).split()
    return f"{first} ({', '.join(sorted({name.split('/')[0] for name in touched}))})"


def phrase(commits: Iterable[str], page: str) -> str:
    """What a page says behind the commits of a table, by the ledger: '' where nothing has changed since."""
    known = json.loads(LEDGER.read_text()) if LEDGER.is_file() else {}
    # Cells of several commits: what is said is of the oldest.
    found = [known[key] for commit in commits if (key := _key(commit, page)) in known]
    return f";\nstale since {min(found, key=_day)}" if found else ""


def _day(said: str) -> str:
    return said.split(", ")[1]


def _each(found: re.Match[str]) -> list[str]:
    return re.split(r",\s", found["commits"])  # long lists are wrapped


def tables(text: str) -> Iterable[tuple[str, ...]]:
    """The commits that each table of a page names."""
    return [tuple(_each(found)) for found in LINE.finditer(text)]


def unmarked(text: str) -> str:
    """The page as its generator writes it."""
    return SAID.sub("", text)


def marked(text: str, page: str) -> str:
    """The page with what the ledger says of each of its tables."""
    return LINE.sub(lambda found: found[0] + phrase(_each(found), page), unmarked(text))


def pages() -> list[Path]:
    """Pages with tables that name their commit."""
    return [path for path in sorted((ROOT / "docs").rglob("*.md")) if LINE.search(path.read_text())]


def renewed_ledger() -> dict[str, str]:
    """What git says today of every table of every page and every cell of a paper; commits that this clone does not have
    keep what was said."""
    known = json.loads(LEDGER.read_text()) if LEDGER.is_file() else {}
    found: dict[str, str | None] = {}
    for name, commit in (*_tables_of_pages(), *cells()):
        key = _key(commit, name)
        if key not in found:
            here = _git("cat-file", "-t", commit).strip() == "commit"
            found[key] = since(commit, paths_of(name)) if here else known.get(key)
    return {key: said for key, said in sorted(found.items()) if said}


def _tables_of_pages() -> Iterable[tuple[str, str]]:
    """Page and commit of every table."""
    for path in pages():
        for commits in tables(path.read_text()):
            yield from ((str(path.relative_to(ROOT)), commit) for commit in commits)


def renew() -> list[str]:
    """Write ledger and pages; the pages that changed."""
    LEDGER.write_text(json.dumps(renewed_ledger(), indent=1) + "\n")
    changed = []
    for path in pages():
        old, page = path.read_text(), str(path.relative_to(ROOT))
        new = marked(old, page)
        if new != old:
            path.write_text(new)
            changed.append(page)
    return changed


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True).stdout
