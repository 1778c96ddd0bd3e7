"""What sections 6.1 and 6.2 vary, overflow and a third width, at the limits of table 2; and what compiling takes."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from functools import partial
from os import times
from pathlib import Path

from benchmarks.papers.judge import more_often
from benchmarks.papers.minun.facts import KINDS, LIMITS, NETWORKS, SHIFTRY_SEARCH
from benchmarks.papers.minun.widths import OFFERS, ORDERS, OURS, ZOO, points, searched
from benchmarks.papers.paper import Cell, Claim, Row, Rows, Verdict, table, under
from benchmarks.peers_models import RAM_LIMIT_BYTES, build_peers, write
from benchmarks.quiet import quiet
from benchmarks.search.tables import SEARCH_SAMPLES
from tinyhil.harness.build.board_image import build_firmware, compile_for
from tinyhil.harness.search.request import SearchRequest
from tinyhil.harness.search.task import load_task
from tinyhil.harness.settings.config import load_boards
from tinyhil.native import default_cache_dir
from tinyhil.search.search_loop import search

PERMITTED = "haunter permit_overflow=true"
THREE = {"fixed": "fixed8,fixed12,fixed16", "posit": "posit8,posit12,posit16"}
BOARD = "uno"
OF_A_CLOCK = {"search_s": float("inf"), "image_s": float("inf")}


def cells() -> Iterator[Cell]:
    """Overflow on every network, the third width on the zoo's; compiling on those of which Shiftry's time is known."""
    for network, row in NETWORKS.items():
        limits = dict(zip(KINDS, LIMITS[row], strict=True))
        yield Cell(f"overflow/{network}", partial(searched, network, limits["fixed"], OFFERS["fixed"], PERMITTED))
        for kind, offer in THREE.items() if network in ZOO else ():
            yield Cell(f"three/{network}/{kind}", partial(searched, network, limits[kind], offer, OURS))
    for network in SHIFTRY_SEARCH:
        yield Cell(f"compile/{network}", partial(_compiled, network), apart=OF_A_CLOCK)


def quick() -> Iterator[Cell]:
    return iter(())


def _compiled(network: str) -> Row:
    """The processor's seconds to HAUNTER's answer, reading and planning included, and from there to the Uno's image."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{network}.onnx"
        write(network, build_peers()[network], path.parent)
        seen, unseen = path.with_name(f"{network}_train.npz"), path.with_suffix(".npz")
        asked = SearchRequest(
            str(path), RAM_LIMIT_BYTES[network], ORDERS[0], (), OFFERS["fixed"],
            samples=SEARCH_SAMPLES, inputs=seen, held_out=unseen, calibrate=seen,
        )  # fmt: skip
        begin = time.process_time()
        task = load_task(asked, default_cache_dir(), quiet, quiet, None)
        found = search(task.strategy, task.problem)
        searched_s, begin = time.process_time() - begin, sum(times()[:4])
        boards = load_boards()
        board = boards.board(BOARD)
        formats = task.problem.space.assignment(found.best.candidate)
        compiled = compile_for(board, boards, task.opened.model, formats, task.ranges)
        image = build_firmware(compiled, board, cache_dir=path.parent, log=quiet)
        seconds = {"search_s": round(searched_s, 1), "image_s": round(sum(times()[:4]) - begin, 1)}
        arena = compiled.plan.peak_bytes
    return {"evaluations": round(found.evaluations, 2), "arena": arena, "flash": image.flash_bytes, **seconds}


def body(rows: Rows) -> str:
    return f"{_trades_table(rows)}\n\n{_compile_table(rows)}"


def _trades_table(rows: Rows) -> str:
    """Lines where an answer differs from that of table 2."""
    lines, alike = [], 0
    for network in NETWORKS:
        pairs = {f"overflow/{network}": f"ram/{network}/fixed/{ORDERS[0]}"}
        pairs |= {f"three/{network}/{kind}": f"ram/{network}/{kind}/{OURS}" for kind in THREE}
        if any(_differ(rows.get(one), rows.get(other)) for one, other in pairs.items()):
            lines.append([f"`{network}`", *(points(rows.get(key)) for key in pairs)])
        else:
            alike += f"overflow/{network}" in rows
    heads = ("Network", "fixed, overflow permitted", *(f"{kind} 8, 12, 16" for kind in THREE))
    return (
        "## Sections 6.1 and 6.2: overflow, a third width\n\nAs in table 2, points lost (bytes): HAUNTER with scales "
        "of 8 bits that are twice as fine and reach half as far, as Shiftry's may; `lagrange` with a third width. 12 "
        f"bits take two bytes here, as 16 do. On {alike} more networks nothing changes.\n\n{table(heads, lines)}"
    )


def _differ(one: Row | None, other: Row | None) -> bool:
    keys = ("points_lost", "ram", "disagreements")
    return one is not None and other is not None and any(one.get(key) != other.get(key) for key in keys)


def _compile_table(rows: Rows) -> str:
    found = under(rows, "compile")
    lines = [
        (f"`{name}`", f"{row['evaluations']:.0f}", row["search_s"], row["image_s"], *SHIFTRY_SEARCH[name])
        for name, row in found.items()
        if "failed" not in row
    ]
    heads = ("Network", "executions", "search", "image", "Shiftry: executions", "Shiftry: search")
    return (
        "## Compile time\n\nSeconds of the processor, the same weights: `haunter` in fixed point at MinUn's limit, "
        "then planning, code and avr-gcc for the Uno with nothing cached.\n\n" + table(heads, lines)
    )


def _fewer(rows: Rows, pairs: dict[str, str]) -> tuple[int, int, int]:
    """Of pairs of cells: how many both have an answer; in which of them the first changes fewer decisions, or more."""
    both = [
        (rows[one]["disagreements"], rows[other]["disagreements"])
        for one, other in pairs.items()
        if "disagreements" in rows.get(one, {}) and "disagreements" in rows.get(other, {})
    ]
    return len(both), sum(a < b for a, b in both), sum(a > b for a, b in both)


def _judge_overflow(rows: Rows) -> Verdict:
    count, fewer, more = _fewer(rows, {f"ram/{name}/fixed/{ORDERS[0]}": f"overflow/{name}" for name in NETWORKS})
    said = f"of {count} networks HAUNTER without overflow changes fewer decisions than with it in {fewer}, more in"
    return Verdict(more_often(fewer, more), f"{said} {more}; sign test, ties left out") if count else _unmeasured()


def _judge_three(rows: Rows) -> Verdict:
    said, wins, losses = [], 0, 0
    for kind in THREE:
        pairs = {f"three/{name}/{kind}": f"ram/{name}/{kind}/{OURS}" for name in ZOO}
        count, fewer, more = _fewer(rows, pairs)
        wins, losses = wins + fewer, losses + more
        said.append(f"{kind}: of {count} networks fewer decisions change in {fewer}, more in {more}")
    outcome = more_often(wins, losses)
    return Verdict(outcome, f"{'; '.join(said)}; sign test, ties left out") if under(rows, "three") else _unmeasured()


def _judge_compile(rows: Rows) -> Verdict:
    found = {name: row for name, row in under(rows, "compile").items() if "failed" not in row}
    if not found:
        return _unmeasured()
    spent = {name: row["search_s"] + row["image_s"] for name, row in found.items()}
    faster = sum(seconds < SHIFTRY_SEARCH[name][1] for name, seconds in spent.items())
    said = f"search and image together {min(spent.values()):.0f} to {max(spent.values()):.0f} s"
    return Verdict(
        "confirmed" if faster == len(spent) else "refuted", f"{said}; less in {faster} of {len(spent)}, one run each"
    )


def _unmeasured() -> Verdict:
    return Verdict("not testable here", "not measured yet")


WITH_OVERFLOW = ("overflow/", *(f"ram/{network}/fixed/{ORDERS[0]}" for network in NETWORKS))
WITH_THREE = ("three/", *(f"ram/{network}/{kind}/{OURS}" for network in ZOO for kind in THREE))
CLAIMS = (
    Claim(
        "Scales in which nothing overflows do better than those that permit it",
        _judge_overflow,
        "section 6.1",
        about=WITH_OVERFLOW,
    ),
    Claim("A third width, 12 bits, does better than 8 and 16 alone", _judge_three, "section 6.2", about=WITH_THREE),
    Claim(
        "Compiling takes no longer than Shiftry's",
        _judge_compile,
        theirs="Shiftry's search alone, run here: 56 to 129 s",
        about=("compile/",),
    ),
)
