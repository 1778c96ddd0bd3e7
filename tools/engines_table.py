"""The tables of engines in docs/measured/peers.md, from results/engines.json (benchmarks/engines.py)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from textwrap import fill

from tinyhil.harness.engines.standing import OURS, QUOTED, Row, losses, ratios, times_of
from tools.measured import line, read

BEGIN, END = "<!-- engines: begin -->", "<!-- engines: end -->"
WIDTH = 158  # of lines in an editor
NAMES = {
    "cmsis-nn": "CMSIS-NN",
    "cmsis-nn-calls": "CMSIS-NN without an interpreter",
    "tflm": "TensorFlow Lite Micro",
    "tinymaix": "TinyMaix",
    "executorch": "ExecuTorch",
}  # others as they are
# What TinyMaix publishes (its doc/porting/port_STM32H750.md: O1, SIMD), and the board with that core and those caches.
PUBLISHED_MS, PUBLISHED_HZ, PUBLISHED_ON = {"cifar10": 15, "vww96": 64}, 480_000_000, "h747"


def block() -> str:
    """What stands between the markers: losses, ratios, a line for each network and board, what failed."""
    rows = read("engines")
    lost = list(_lost(rows))
    said = [_listed(lost) if lost else "No cycles, RAM or flash are lost to any of them.", _listed(ratios(rows))]
    more = (list(_otherwise(rows)), list(_published(rows)), list(_failed(rows)))
    otherwise = [_listed(text) for text in more if text]
    return "\n\n".join([*said, _table(rows), *otherwise, line("engines")])


def _lost(rows: Sequence[Row]) -> Iterator[str]:
    """What another takes less of than ours: a line for each engine and figure, the boards of a network together."""
    found = losses(rows)
    for figure in QUOTED:
        for engine in dict.fromkeys(one.engine for one in found):
            places: dict[str, list[str]] = {}
            for one in found:
                if (one.figure, one.engine) == (figure, engine):
                    pair = f"{one.board} {one.theirs:,.0f} : {one.mine:,.0f}"
                    places.setdefault(one.network, []).append(pair)
            if places:
                words = (f"{network} ({', '.join(pairs)})" for network, pairs in places.items())
                yield f"lost to {engine}, {QUOTED[figure]}, theirs : ours: {', '.join(words)}"


def _table(rows: Sequence[Row]) -> str:
    """Cycles with their band, RAM and flash of every engine (a column), by network and board."""
    engines = list(dict.fromkeys(row["engine"] for row in rows))
    cells = {(row["network"], row["board"], row["engine"]): row for row in rows}
    places = sorted({(row["network"], row["board"]) for row in rows})
    lines = [["network", "board", *(f"{name}: cycles; RAM; flash" if name == OURS else name for name in engines)]]
    lines.append(["---"] * (2 + len(engines)))
    lines += [[*place, *(_figures(cells.get((*place, engine))) for engine in engines)] for place in places]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _figures(row: Row | None) -> str:
    if row is None or row["why"]:
        return ""
    cycles, *sizes = ("?" if row[name] is None else f"{row[name]:,.0f}" for name in ("cycles", "RAM", "flash"))
    return "; ".join([cycles + _band(row), *sizes])


def _band(row: Row) -> str:
    """Within how many per cent of the modelled cycles the chip's lie; nothing where no band is known."""
    if not row["cycles"] or row["low"] is None or row["high"] is None:
        return ""
    below, above = (abs(round(100 * (row[end] / row["cycles"] - 1))) for end in ("low", "high"))
    return f" ±{above} %" if below == above else f" -{below} +{above} %"


def _otherwise(rows: Sequence[Row]) -> Iterator[str]:
    """Whose decisions are not the float model's, whose bytes are not ours, whose tensors are or are not ours."""
    by_engine: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        if row["disagreements"]:
            by_engine.setdefault(("decides otherwise", row["engine"]), []).append(row["network"])
        if row["equal"] is not None and row["equal"] < row["samples"]:
            by_engine.setdefault(("other bytes than ours", row["engine"]), []).append(row["network"])
        if row["first"] == "none":
            by_engine.setdefault(("every tensor is as ours", row["engine"]), []).append(row["network"])
        elif row["first"] and not row["first"].startswith("not known"):
            by_engine.setdefault(("first tensor that is not as ours", row["engine"]), []).append(
                f"{row['network']}: {row['first'].removesuffix('.fakequantize')}"
            )
    found = ((what, engine, ", ".join(dict.fromkeys(places))) for (what, engine), places in by_engine.items())
    yield from (f"{what}: {engines} ({places})" for what, engines, places in _together(found))


def _together(said: Iterable[tuple[str, str, str]]) -> Iterator[tuple[str, str, str]]:
    """(what, engine, where): engines of which the same is said of the same places in one."""
    engines: dict[tuple[str, str], list[str]] = {}
    for what, engine, where in said:
        engines.setdefault((what, where), []).append(engine)
    yield from ((what, ", ".join(names), where) for (what, where), names in engines.items())


def published(rows: Sequence[Row]) -> list[tuple[float, Row]]:
    """Cycles that TinyMaix publishes of a network, and its row on the board with that core, where it is measured."""
    found = {row["network"]: row for row in rows if (row["engine"], row["board"]) == ("tinymaix", PUBLISHED_ON)}
    measured = [(ms, found[name]) for name, ms in PUBLISHED_MS.items() if name in found]
    return [(ms * PUBLISHED_HZ / 1000, row) for ms, row in measured if row["cycles"]]


def _published(rows: Sequence[Row]) -> Iterator[str]:
    words = [f"{row['network']} {theirs:,.0f} : {row['cycles']:,.0f}{_band(row)}" for theirs, row in published(rows)]
    if words:
        yield f"published by TinyMaix of an STM32H750, cycles, theirs : here on {PUBLISHED_ON}: {', '.join(words)}"


def _failed(rows: Sequence[Row]) -> Iterator[str]:
    """What could not be measured: networks and boards of one cause together, first what an engine has not at all; no
    boards where it is all of a network's but those that are a cause themselves."""
    every, others = dict[str, set[str]](), dict[tuple[str, str], set[str]]()
    for row in rows:
        every.setdefault(row["network"], set()).add(row["board"])
        if not _is_of_board(row):
            others.setdefault((row["network"], row["engine"]), set()).add(row["board"])
    places: dict[tuple[str, str], dict[str, dict[str, str]]] = {}
    for row in sorted((row for row in rows if row["why"]), key=_is_of_board):
        cause, by = _cause(row)
        places.setdefault((row["engine"], cause), {}).setdefault(row["network"], {})[row["board"]] = by
    said = []
    for (engine, cause), of_network in places.items():
        networks: dict[str, list[str]] = {}
        for network, found in of_network.items():
            is_all = set(found) in (every[network], others.get((network, engine))) and not any(found.values())
            where = "" if is_all else f" on {', '.join(f'{board}{by}' for board, by in found.items())}"
            networks.setdefault(where, []).append(network)
        said.append((cause, engine, "; ".join(f"{', '.join(names)}{where}" for where, names in networks.items())))
    yield from (f"not by {engines}: {where}: {cause}" for cause, engines, where in _together(said))


def _is_of_board(row: Row) -> bool:
    return bool(row["why"].startswith(f"{row['board']}: "))


def _cause(row: Row) -> tuple[str, str]:
    """Without the names of the board, or of the file and its node; by how many bytes a memory is exceeded."""
    why = row["why"].removeprefix(f"{row['board']}: ").partition(";")[0]
    exceeded = re.match(r"(\w+ exceeded) by (\d+) B", why)
    if exceeded:
        return exceeded[1], f" by {int(exceeded[2]):,} B"
    why = re.sub(r"onnx2c-\w+\.c (is not compiled: )\S+ |(for ExecuTorch): .*", r"\1\2", why)
    why = re.sub(rf"^{row['engine']} (does not begin)", r"it \1", why)
    return (why if _is_of_board(row) else re.sub(r"^\S+: (\w+ '[^']*': )?", "", why)), ""


def sentence(rows: Sequence[Row]) -> str:
    """What README quotes of it: how many times our cycles each engine takes, and how often it takes fewer."""
    words = []
    for engine in dict.fromkeys(row["engine"] for row in rows if row["engine"] != OURS):
        times = times_of(rows, engine, "cycles")
        if times:
            words.append(f"{NAMES.get(engine, engine)} {min(times):.2g} to {max(times):.2g}")
    fewer = sum(one.figure == "cycles" for one in losses(rows))
    return f"{', '.join(words)} times our cycles; fewer than ours in {fewer} of {_others(rows)} measurements"


def _others(rows: Sequence[Row]) -> int:
    return sum(row["engine"] != OURS and row["cycles"] is not None for row in rows)


def _listed(lines: Sequence[str]) -> str:
    return "\n".join(fill(f"- {text}", WIDTH, subsequent_indent="  ", break_long_words=False) for text in lines)
