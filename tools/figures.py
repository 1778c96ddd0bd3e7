"""All measured figures as one page of the site, each with record, command, commit, and how it changed over commits.

Instructions and bytes are exact on emulated boards: a change is a fact, not noise. Made when the site is built.
"""

from __future__ import annotations

import html
import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.figure_tables import TABLES, Key

ROOT = Path(__file__).resolve().parent.parent
GOLDEN = "results/golden"
PAGE = "measured/figures.md"
TITLES = ("model", "board", "format", "engine", "time", "RAM B", "flash B", "accuracy %", "record", "changes")


@dataclass(frozen=True, slots=True)
class State:
    """A figure as one commit left it; `ticks` in the unit of its board."""

    commit: str
    date: str
    ticks: float | None
    unit: str
    ram_bytes: int | None
    flash_bytes: int | None


@dataclass(frozen=True, slots=True)
class Figure:
    """A row: what was measured, where its record lies, how one measures it again; `history`: the oldest first."""

    model: str
    board: str
    format: str
    engine: str
    accuracy: float | None
    file: str
    command: str
    history: tuple[State, ...]


def git(*words: str, text: str | None = None) -> bytes:
    """What git prints in the checkout; nothing where this is none."""
    done = subprocess.run(
        ["git", *words], cwd=ROOT, input=None if text is None else text.encode(), capture_output=True, check=False
    )
    return done.stdout if done.returncode == 0 else b""


def commits(folder: str) -> dict[str, list[tuple[str, str]]]:
    """For every file below a folder the commits that wrote it, with their days, the oldest first."""
    found: dict[str, list[tuple[str, str]]] = {}
    commit = ("", "")
    shown = git("log", "--reverse", "--no-renames", "--format=@%H %cs", "--name-only", "--diff-filter=AM", "--", folder)
    for line in shown.decode().splitlines():
        if line.startswith("@"):
            commit = (line[1:41], line[42:])
        elif line:
            found.setdefault(line, []).append(commit)
    return found


def contents(wanted: Sequence[tuple[str, str]]) -> Iterator[bytes]:
    """Files as commits left them, in order, by one process."""
    out, at = git("cat-file", "--batch", text="".join(f"{commit}:{name}\n" for commit, name in wanted)), 0
    for _ in wanted:
        end = out.index(b"\n", at)
        head = out[at:end].split()
        size = 0 if head[-1] == b"missing" else int(head[2])
        yield out[end + 1 : end + 1 + size]
        at = end + 1 + (size + 1 if head[-1] != b"missing" else 0)


def golden_figures() -> list[Figure]:
    """The golden records, with every state in which a commit left them."""
    known = commits(GOLDEN)
    names = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / GOLDEN).glob("*/*.json"))
    wanted = [(commit, name) for name in names for commit, _ in known.get(name, ())]
    texts = dict(zip(wanted, contents(wanted), strict=True))
    found = []
    for name in names:
        record = json.loads((ROOT / name).read_text(encoding="utf-8"))
        states = [_state(commit, date, json.loads(texts[commit, name])) for commit, date in known.get(name, ())]
        history: list[State] = []
        for state in states:
            _append(history, state)
        order = record["order"]
        words = ["hil golden update", *(f"--{key} {order[key]}" for key in ("board", "model", "samples"))]
        words += [f"--{key} {order[key]}" for key in ("assignment", "inputs", "calibrate", "steps") if order.get(key)]
        if (states := order.get("states")) is not None:
            words += [f"--state {pair}" for pair in states or ("none",)]
        words += [] if order.get("assignment") else [f"--format {order['format']}"]
        found.append(
            Figure(
                record["model"], record["board"], record["format"], "tinyhil", record["accuracy"], name,
                " ".join(words), tuple(history) or (_state("", "", record),),
            )
        )  # fmt: skip
    return found


def _state(commit: str, date: str, record: Mapping[str, Any]) -> State:
    memory, latency = record["memory"], record["latency"]
    return State(
        commit, date, latency["median"], latency["unit"], memory.get("total_bytes") or memory["static_bytes"],
        record["flash_bytes"],
    )  # fmt: skip


def _moved(before: State, now: State) -> bool:
    return (before.ticks, before.ram_bytes, before.flash_bytes) != (now.ticks, now.ram_bytes, now.flash_bytes)


def tabled_figures() -> list[Figure]:
    """What the files of TABLES hold today, each row with every state in which a commit left it."""
    known = commits("results")
    found = []
    for name, command, read in TABLES:
        versions = known.get(name, [])
        texts = contents([(commit, name) for commit, _ in versions])
        states: dict[Key, list[State]] = {}
        for (commit, date), text in zip(versions, texts, strict=True):
            for key, cost in read(json.loads(text)):
                _append(states.setdefault(key, []), State(commit, date, *cost.exact))
        for key, cost in read(json.loads((ROOT / name).read_text(encoding="utf-8"))):
            history = tuple(states.get(key, ())) or (State("", "", *cost.exact),)
            found.append(Figure(*key, cost.accuracy, name, command, history))
    return found


def _append(states: list[State], state: State) -> None:
    """States that changed nothing are left out."""
    if not states or _moved(states[-1], state):
        states.append(state)


def figures_page(repository: str) -> str:
    """The page's Markdown: a table in HTML that the site's script sorts and filters."""
    rows = [*golden_figures(), *tabled_figures()]
    body = "\n".join(_row(one, repository.rstrip("/")) for one in rows)
    head = "".join(f'<th scope="col">{title}</th>' for title in TITLES)
    about = (
        f"{len(rows)} figures: models, boards, formats, engines. Type to filter, choose a title to sort. *changes*: "
        "how often a commit changed the figure; opened, the command that measures it, and each. Times of emulated ARM "
        "boards are modelled cycles, where it says so instructions; golden records take samples drawn from a seed, not "
        "those of `hil run`; [why trust these numbers](../trust.md)."
    )
    table = f"<table><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table>"
    return f'---\nhide: [toc]\n---\n# Every figure\n\n{about}\n\n<div class="figures" markdown="0">{table}</div>\n'


def _row(one: Figure, repository: str) -> str:
    last = one.history[-1]
    accuracy = "" if one.accuracy is None else f"{100 * one.accuracy:.2f}"
    link = f"{repository}/blob/{last.commit or 'main'}/{one.file}"
    cells = (
        *map(html.escape, (one.model, one.board, one.format, one.engine)),
        f"{_figure(last.ticks)} {last.unit}",
        _figure(last.ram_bytes),
        _figure(last.flash_bytes),
        accuracy,
        f'<a href="{html.escape(link)}">record</a>',
        _history(one, repository),
    )
    keys = ("", "", "", "", last.ticks, last.ram_bytes, last.flash_bytes, one.accuracy, "", len(one.history) - 1)
    marked = (f' data-key="{key}"' if isinstance(key, int | float) else "" for key in keys)
    titled = zip(TITLES, marked, cells, strict=True)
    body = "".join(f'<td data-title="{title}"{mark}>{cell}</td>' for title, mark, cell in titled)
    return f"<tr>{body}</tr>"


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"


def _history(one: Figure, repository: str) -> str:
    items = "".join(
        f'<li><a href="{html.escape(f"{repository}/commit/{state.commit}")}">{state.date} {state.commit[:8]}</a>: '
        f"{_figure(state.ticks)}, RAM {_figure(state.ram_bytes)}, flash {_figure(state.flash_bytes)}</li>"
        for state in reversed(one.history)
        if state.commit
    )
    command = f"<code>{html.escape(one.command)}</code>"
    return f"<details><summary>{len(one.history) - 1}</summary>{command}<ul>{items}</ul></details>"
