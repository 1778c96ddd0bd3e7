"""Face detection with RNNPool: MinUn's Face-A, -B and -C, with a detector and photos of our own, on an STM32H747."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from benchmarks.papers.faces import networks, photos, scores, write
from benchmarks.papers.faces.anchors import GRIDS
from benchmarks.papers.faces.photos import HEIGHT, WIDTH
from benchmarks.papers.faces.write import CARRIED, LINES
from benchmarks.papers.fp8 import host_engine
from benchmarks.papers.judge import above, all_above, difference
from benchmarks.papers.minun.facts import KINDS
from benchmarks.papers.paper import STACK_TRIES, Cell, Claim, Paper, Row, Rows, Verdict, table, under
from tinyhil.compiler.lower import lower
from tinyhil.errors import HilError
from tinyhil.harness.python import api
from tinyhil.language.assignment import Assignment
from tinyhil.language.program import Program
from tinyhil.memplan.arena.passes import ALL_NAMES
from tinyhil.memplan.arena.placement import place
from tinyhil.references.evaluate import evaluate
from tinyhil.search.search_problem import Strategy
from tinyhil.search.strategies.haunter import Haunter
from tinyhil.search.strategies.shiftry import Shiftry

LIMITS = {
    "Face-A": (258_720, 258_720, 200_000),
    "Face-B": (218_400, 230_400, 200_000),
    "Face-C": (224_400, 230_400, 200_000),
}  # bytes of RAM that MinUn was run with, by KINDS; an input of bytes apart
OFFERS = {
    "fixed": ("fixed8", "fixed16"),
    "posit": ("posit8es0", "posit8es2", "posit16es1", "posit16es2"),
    "pair": ("posit8es2", "posit9es2", "posit10es2", "posit12es2", "posit16es1"),
}
STRATEGIES: dict[str, Strategy] = {"haunter": Haunter(), "shiftry": Shiftry(until_it_fits=True)}
FORMATS = ("fixed8", "fixed8pc", "fixed16", "posit8es2", "posit16es1")
BOARD, BOARD_BYTES = "h747", 256 * 1024
WIDE = ("fixed16", "posit16es1", "posit16es2")
SLOWEST_S = 600.0  # of one sample on the emulated board: ten simulated seconds in posits
POINTS = 1.0  # of average precision that may be lost
FAR = 5.0  # points apart that pass as "far better"


def cells() -> Iterator[Cell]:
    yield Cell("float", partial(_float, None))
    for fmt in FORMATS:
        yield Cell(f"uniform/{fmt}", partial(_uniform, fmt, None))
    for fmt in ("fixed8", "fixed16"):
        yield Cell(f"arena/{fmt}", partial(_arenas, fmt))
    for (kind, limit), alike in _limits().items():
        yield Cell(f"search/{alike[0]}/{kind}/haunter", partial(_search, "haunter", kind, limit), tries=STACK_TRIES)
    for fmt in ("fixed8", "fixed16", "posit8es2"):
        yield Cell(f"row/{fmt}", partial(_row, fmt), tries=STACK_TRIES)
    for fmt in ("fixed8", "fixed8pc", "posit8es2"):
        yield Cell(f"board/{fmt}", partial(_on_board, fmt), tries=STACK_TRIES)
    yield Cell(
        "search/Face-A/fixed/shiftry", partial(_search, "shiftry", "fixed", LIMITS["Face-A"][0]), tries=STACK_TRIES
    )


def _limits() -> dict[tuple[str, int], list[str]]:
    """The networks of MinUn's by kind and limit: several were run with the same."""
    found: dict[tuple[str, int], list[str]] = {}
    for face, limits in LIMITS.items():
        for kind, limit in zip(KINDS, limits, strict=True):
            found.setdefault((kind, limit), []).append(face)
    return found


def quick() -> Iterator[Cell]:
    few = range(0, 4 * photos.EVERY, photos.EVERY)
    yield Cell("quick float", partial(_float, few))
    yield Cell("quick uniform/fixed8", partial(_uniform, "fixed8", few))
    yield Cell("arena/fixed8", partial(_arenas, "fixed8"))


def _float(chosen: Sequence[int] | None) -> Row:
    tested = photos.held_out() if chosen is None else chosen
    outputs = [evaluate(networks.graph(), networks.given([index])) for index in tested]
    return {"photos": len(tested), "ap": scores.precision(np.concatenate(outputs), tested), "of": photos.about()}


def _uniform(fmt: str, chosen: Sequence[int] | None) -> Row:
    return _scored(networks.uniform(fmt), chosen)


def _scored(program: Program, chosen: Sequence[int] | None = None) -> Row:
    """Of a program as boards get it, run by the host engine: average precision, and its arena."""
    tested = photos.held_out() if chosen is None else chosen
    ran = host_engine.run(program, networks.given(tested))
    placed = place(program).plan
    return {
        "photos": len(tested),
        "ap": scores.precision(ran.outputs, tested),
        "saturations": ran.saturations,
        "arena": placed.peak_bytes,
        "input": program.tensors[program.input].size_bytes,
    }


def _arenas(fmt: str) -> Row:
    """Bytes, input not counted: as MinUn plans, first fit and optimal, and with our passes; without strips, too."""
    found: Row = {}
    for label, in_strips in (("layer by layer", False), ("in strips", True)):
        program = lower(networks.graph(in_strips), Assignment(fmt), networks.ranges(in_strips))
        plans = {
            "first fit": place(program, ALL_NAMES, "first-fit"),
            "optimal": place(program, ALL_NAMES),
            "ours": place(program),
        }
        found[label] = {how: placed.plan.peak_bytes for how, placed in plans.items()}
    return found


def _search(strategy: str, kind: str, limit: int) -> Row:
    """What a strategy finds in `limit` bytes as MinUn plans: on photos that it has not seen, and on the board."""
    found = networks.searched(STRATEGIES[strategy], OFFERS[kind], limit)
    program = lower(networks.graph(), found, networks.ranges())
    formats = {"default": found.default, "values": dict(found.values), "offsets": dict(found.offsets)}
    limits = {"limit": limit, "planned": networks.planned_apart(program)}
    row = {**_scored(program), **_widths(found), **limits}
    try:
        return {**row, **_on_board(formats)}
    except HilError as error:  # a photo may take longer than the board's counter counts
        return {**row, "not on the board": str(error)}


def _widths(found: Assignment) -> Row:
    graph = networks.graph()
    formats = [found.format_of((name,)) for name in set(graph.all_shapes()) - set(graph.all_constants())]
    return {"wide": sum(fmt in WIDE for fmt in formats), "values": len(formats)}


def _row(fmt: str) -> Row:
    """A row of patches alone, first convolution included, on the emulated board."""
    model = write.patch_row(networks.weights(), WIDTH)
    lines = [x[:, start : start + CARRIED + LINES] for x in networks.given(photos.to_train()[:4]) for start in (0, 96)]
    return _measured(api.load(model).calibrate(np.stack(lines)), np.stack(lines[:1]), fmt)


def _on_board(formats: api.Formats) -> Row:
    """A whole photo on the emulated board."""
    model = api.load(networks.FILE).calibrate(networks.calibration())
    return _measured(model, networks.given(photos.held_out()[:1]), formats)


def _measured(model: api.Model, x: np.ndarray, formats: api.Formats) -> Row:
    """One sample on the emulated board, compared with the reference."""
    record: Any = model.run(BOARD, x, formats=formats, prefer="ram", timeout_s=SLOWEST_S)
    return {
        "bit_exact": bool(record.bit_exact),
        "cycles": int(record.latency.median),
        "ms": round(record.latency.median_us / 1e3, 1),
        "mhz": round(record.latency.clock_hz / 1e6),
        "board arena": int(record.memory["arena_bytes"]),
        "stack": int(record.memory["stack_bytes"]),
        "ram": int(record.memory["total_bytes"]),
        "flash": int(record.flash_bytes),
    }


def body(rows: Rows) -> str:
    parts = (_setting(rows), _accuracy(rows), _memory(rows), _boards(rows))
    return "\n\n".join(part for part in parts if part)


def _setting(rows: Rows) -> str:
    """All figures are those of the code, the weights, the photos and the record of the training."""
    of = next((row["of"] for row in rows.values() if "of" in row), None)
    if of is None:
        return ""
    calibrating, searched = (part.stop - part.start for part in (networks.CALIBRATING, networks.SEARCHED))
    return (
        f"{of['photos']} photos of {WIDTH} x {HEIGHT} greys with {of['faces']:,} faces, half of them at most "
        f"{of['median_width']:g} pixels wide, many masked; every {photos.EVERY}th photo is for testing "
        f"({of['tested']}, {of['tested_faces']} faces), the others train; of these {calibrating} calibrate and "
        f"{searched} are searched on. {_detector()} {_training()} Boxes are decoded and overlapping ones suppressed on "
        "the host; average precision at an overlap of one half by pycocotools. Programs as boards get them, run by the "
        "host engine."
    )


def _training() -> str:
    done, command = networks.training(), "`python -m benchmarks.papers.faces.train`"
    if done is None:
        return f"The weights are older than the records that {command} writes."
    height, width = done["crop"]
    return (
        f"Trained by {command} for {done['steps']:,} steps of {done['crops']} crops of {width} x {height} "
        f"({done['processor_s'] / 60:.1f} minutes of one processor)."
    )


def _detector() -> str:
    strides, (kinds,) = (grid.stride for grid in GRIDS), {len(grid.widths) for grid in GRIDS}
    patch, stride, units, planes = write.PATCH, write.STRIDE, write.HIDDEN, write.POOLED
    return (
        f"The detector: a 3 x 3 convolution of stride 2 to {write.CHANNELS} planes, RNNPool (patches of {patch} x "
        f"{patch} every {stride} pixels, two FastGRNN of {units} units: {planes} planes of {WIDTH // LINES} x "
        f"{HEIGHT // LINES}), {sum(map(len, write.STAGES))} MBConv blocks, SSD heads on grids of "
        f"{', '.join(map(str, strides))} pixels with {kinds} anchors each; "
        f"{sum(array.size for array in networks.weights().values()):,} weights."
    )


def _accuracy(rows: Rows) -> str:
    lines: list[tuple[object, ...]] = [
        (key.removeprefix("quick "), row["photos"], row["ap"]) + (None,) * 4
        for key, row in rows.items()
        if key.endswith("float")
    ]
    for key, row in rows.items():
        if "uniform/" in key or key.startswith("search/"):
            if "failed" in row:
                continue
            wide = f"{row['wide']} of {row['values']}" if "wide" in row else None
            limits = (f"{row['planned']:,}", f"{row['limit']:,}") if "limit" in row else (None, None)
            said = key.split("uniform/")[-1].removeprefix("search/")
            lines.append((said, row["photos"], row["ap"], f"{row['arena']:,}", wide, *limits))
    heads = ("Formats", "photos", "AP50 %", "our arena B", "values of 16 bits", "as MinUn plans B", "limit B")
    said = (
        "## Accuracy\n\nLimits are of the arena without the input, planned as MinUn plans: every tensor apart, layer "
        "after layer; an input of more than a byte per pixel counts with what it has more. A search counts the anchors "
        "whose decision (a score above 27 %) is not the float model's."
    )
    return f"{said}\n\n{table(heads, lines)}" if lines else ""


def _memory(rows: Rows) -> str:
    lines = [
        (fmt, label, *(f"{bytes_:,}" for bytes_ in plans.values()))
        for fmt, row in under(rows, "arena").items()
        if "failed" not in row
        for label, plans in row.items()
    ]
    said = (
        "## Memory\n\nBytes of the arena without the input (76,800 B in 8 bits). *In strips*: a loop over 30 rows of "
        f"patches takes {LINES} lines of the photo at a time and {CARRIED} that it saw before; what the first "
        "convolution makes is never there as a whole."
    )
    return f"{said}\n\n{table(('Format', 'Network', 'first fit', 'optimal', 'ours'), lines)}" if lines else ""


def _boards(rows: Rows) -> str:
    ap = {key: row.get("ap") for key, row in under(rows, "uniform").items()}
    found = {f"a row of patches, {key}": row for key, row in under(rows, "row").items()}
    found |= {key: {"ap": ap.get(key), **row} for key, row in under(rows, "board").items()}
    found |= under(rows, "search")
    lines = [
        (
            label,
            "yes" if row["bit_exact"] else "no",
            f"{row['cycles'] / 1e6:,.1f}",
            f"{row['ms']:,}",
            row.get("ap"),
            *(f"{row[key]:,}" for key in ("board arena", "stack", "ram", "flash")),
        )
        for label, row in found.items()
        if "bit_exact" in row
    ]
    said = (
        "## On the STM32H747\n\nOne photo, or the lines of one row of patches, on the emulated board, compared with "
        "the reference (`--prefer ram`); cycles are modelled. RAM is everything: arena, input, wire, stack and the "
        "result, which the wire keeps; the arena holds the input where it arrives within it."
    )
    heads = ("What", "bit-exact", "million cycles", "ms", "AP50 %", "arena B", "stack B", "RAM B", "flash B")
    missing = "".join(
        f"\n\nNot run, {label}: {row['not on the board']}." for label, row in found.items() if "not on the board" in row
    )
    return f"{said}\n\n{table(heads, lines)}{missing}" if lines else ""


def _judge(kind: str, rows: Rows) -> Verdict:
    """Of all three limits, with the formats of a kind."""
    limits = {limit: alike for (each, limit), alike in _limits().items() if each == kind}
    found = {limit: rows.get(f"search/{alike[0]}/{kind}/haunter", {}) for limit, alike in limits.items()}
    if "float" not in rows or not all("ap" in row for row in found.values()):
        return Verdict("not testable here", "not all measured yet")
    whole = rows["float"]["ap"]
    said = ", ".join(f"{' and '.join(limits[limit])} {row['ap']:.1f} %" for limit, row in found.items())
    faces = rows["float"]["of"]["tested_faces"]
    lead = [difference(row["ap"] / 100, whole / 100, faces) for row in found.values()]
    furthest = min(lead, key=lambda one: one.found)
    said = f"AP50 {said}; float {whole:.1f} %; at worst {furthest} points, taken as a share of {faces} faces"
    return Verdict(all_above(lead, -POINTS), f"{said}, margin {POINTS}")


def _judge_shiftry(rows: Rows) -> Verdict:
    key = "search/Face-A/fixed/"
    found = {name: rows.get(f"{key}{name}", {}) for name in STRATEGIES}
    if "float" not in rows or not all("ap" in row for row in found.values()):
        return Verdict("not testable here", "not measured yet")
    ours, theirs = (found[name]["ap"] for name in STRATEGIES)
    ahead = difference(ours / 100, theirs / 100, rows["float"]["of"]["tested_faces"])
    said = f"Face-A: AP50 {ours:.1f} %, by Shiftry's search {theirs:.1f} %: {ahead} points"
    return Verdict(above(ahead, FAR), f"{said}, margin {FAR} (its compiler's kernels not tried)")


def _on_boards(rows: Rows, name: str) -> Verdict:
    """Whole photos under the key `name`/...: whether all are bit-exact and within the limit."""
    found = {key: row for key, row in under(rows, name).items() if "bit_exact" in row}
    if not found:
        return Verdict("not testable here", "not measured yet")
    said = ", ".join(f"{key} {row['ram']:,} B, {row['ms'] / 1e3:.1f} s" for key, row in found.items())
    clock = ", ".join(dict.fromkeys(f"{row['mhz']} MHz" for row in found.values()))
    equal = "bit-exact" if all(row["bit_exact"] for row in found.values()) else "not all bit-exact"
    fits = all(row["ram"] <= BOARD_BYTES and row["bit_exact"] for row in found.values())
    verdict = Verdict("confirmed" if fits else "refuted", f"whole photos, {equal}: {said} at {clock}")
    return verdict.without([key for key, row in under(rows, name).items() if "not on the board" in row], "not run")


def _of(kind: str) -> tuple[str, ...]:
    """Keys of all that is searched in a kind of formats, and of what it is compared with."""
    return ("float", *(f"search/{name}/{kind}/haunter" for name in LIMITS))


PAPER = Paper(
    "faces",
    "Face detection with RNNPool (MinUn's Face-A, -B and -C; RNNPool, NeurIPS 2020)",
    cells,
    quick,
    body,
    (
        Claim(
            'Face detection "for tiny ARM Cortex-M4 class microcontrollers with under 256 KB of RAM" (arena, photo, '
            "results, wire, stack)",
            partial(_on_boards, name="board"),
            "RNNPool, abstract",
            about=("board/",),
        ),
        Claim(
            "So does it in the formats searched at Face-A's, -B's and -C's limits",
            partial(_on_boards, name="search"),
            about=("search/",),
        ),
        Claim(
            "Fixed point 8/16 at the limits of Face-A, -B and -C keeps the float model's precision",
            partial(_judge, "fixed"),
            "MinUn",
            about=_of("fixed"),
        ),
        Claim("Posits 8/16 at these limits keep it", partial(_judge, "posit"), "MinUn", about=_of("posit")),
        Claim(
            "Posits of the best pair of widths in 200,000 B keep it",
            partial(_judge, "pair"),
            "MinUn",
            about=_of("pair"),
        ),
        Claim(
            "Fixed point: MinUn finds far better formats than Shiftry at the same RAM",
            _judge_shiftry,
            "MinUn",
            "+23.3 points of mAP",
            ("float", "search/Face-A/fixed/"),
        ),
    ),
    absent={
        "MinUn's detectors": "not public as files, nor are the photos (WIDER FACE, SCUT-HEAD); so precision can not be "
        "compared with theirs, but only with the float model",
        "mAP of WIDER FACE's easy, medium, hard": "the photos",
    },
)
