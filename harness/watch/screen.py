"""A snapshot as tables of a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

STYLES = {"valid": "green", "degraded": "yellow", "invalid": "red", "busy": "yellow", "wedged": "red"}


def tables(found: Mapping[str, Any], every_board: bool) -> RenderableType:
    """Boards, unfinished runs, last records; `every_board`: emulated and absent ones, too."""
    usual = ("emulated", "absent", "here")
    boards = Table(title="Boards", title_justify="left", expand=True)
    for title in ("board", "state", "where", ""):
        boards.add_column(title, overflow="fold")
    shown = [one for one in found["boards"] if every_board or one["state"] not in usual or one["detail"]]
    for one in shown:
        boards.add_row(one["name"], _word(one["state"]), one["where"], Text(one["detail"]))
    others = len(found["boards"]) - len(shown)
    parts: list[RenderableType] = [boards if shown else Text("no board is attached, busy or wedged", style="dim")]
    parts.append(Text(f"{others} more are emulated or absent: --all", style="dim") if others else Text(""))
    running = Table(title="Unfinished runs", title_justify="left", expand=True)
    for title in ("samples on disk in", "samples", "the last came"):
        running.add_column(title, overflow="fold")
    for one in found["running"]:
        running.add_row(Text(one["file"]), f"{one['samples']:,}", f"{one['idle_s']:,.0f} s ago")
    parts.append(running if found["running"] else Text("no unfinished run", style="dim"))
    records = Table(title=f"Last records of {found['results']}", title_justify="left", expand=True)
    for title in ("when", "verdict", "what"):
        records.add_column(title, overflow="fold")
    for one in found["records"]:
        records.add_row(one.get("utc") or "", _word(one["verdict"]), Text(one["said"]))
    parts.append(records if found["records"] else Text(f"no record in {found['results']}", style="dim"))
    return Group(*parts)


def _word(word: str) -> Text:
    return Text(word, style=STYLES.get(word, ""))
