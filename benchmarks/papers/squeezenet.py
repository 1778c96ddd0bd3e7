"""SqueezeNet 1.1 on photos of ImageNet: MinUn's largest network, in its 1.16 MB and in ours, and on an STM32H747."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from benchmarks.papers import networks
from benchmarks.papers.fp8 import host_engine
from benchmarks.papers.fp8.scores import by_onnxruntime
from benchmarks.papers.judge import above, difference, paired
from benchmarks.papers.paper import STACK_TRIES, Cell, Claim, Paper, Row, Rows, Verdict, table, under
from benchmarks.shape_graphs import squeezenet_with
from tinyhil.compiler.calibrate import Ranges, calibrate
from tinyhil.compiler.lower import lower
from tinyhil.harness.python import api
from tinyhil.language.assignment import Assignment
from tinyhil.language.program import Program
from tinyhil.memplan.arena.passes import ALL_NAMES
from tinyhil.memplan.arena.placement import place
from tinyhil.references.evaluate import evaluate
from tinyhil.search.evaluator import Evaluator, make_examples
from tinyhil.search.memory import Memory
from tinyhil.search.search_loop import Budget, search
from tinyhil.search.search_problem import SearchProblem
from tinyhil.search.space import make_space
from tinyhil.search.strategies.haunter import Haunter

NAME = "squeezenet"
TESTED, SEARCHED = range(128), range(600, 632)  # pictures; the last 16 calibrate
EVERY = (*range(SEARCHED.start), *range(SEARCHED.stop, 1000 - networks.CALIBRATION))
AT_ONCE = 56
FORMATS = ("fixed8", "fixed8pc", "fixed16", "posit8es2", "posit16es1")
MINUN_BYTES, GOAL_BYTES = 1_160_000, 450_000
MARGIN = 1.0  # points of top-1 that pass as kept
FAMILIES = {"fixed": ("fixed8", "fixed16"), "posit": ("posit8es2", "posit16es1")}
EVALUATIONS = 12
WIDTHS = ("8", "mix a", "mix b", "16")
LAST = "conv10_w"  # 512,000 of 1,237,508 weights and biases
ON_BOARD = {"all 1,000 classes": ("kmeans16", 224, 1000), "100 classes, 112 x 112": ("fixed8", 112, 100)}


def cells() -> Iterator[Cell]:
    yield Cell("float", partial(_float, TESTED))
    for fmt in FORMATS:
        yield Cell(f"uniform/{fmt}", partial(_uniform, fmt, TESTED))
    for width in WIDTHS:
        yield Cell(f"arena/{width}", partial(_arena, width))
    for label in ON_BOARD:
        yield Cell(f"board/{label}", partial(_board, label), tries=STACK_TRIES)
    for family in reversed(FAMILIES):
        yield Cell(f"search/{MINUN_BYTES}/{family}", partial(_search, MINUN_BYTES, family))
    yield Cell("every/fixed8pc", partial(_every, lambda: Assignment("fixed8pc")))
    yield Cell(f"every/{MINUN_BYTES}/posit", partial(_every, partial(_found, MINUN_BYTES, "posit")))


def quick() -> Iterator[Cell]:
    yield Cell("quick float", partial(_float, range(4)))
    yield Cell("quick uniform/fixed8", partial(_uniform, "fixed8", range(4)))
    yield Cell("arena/mix a", partial(_arena, "mix a"))


@cache
def _pictures(chosen: range) -> networks.Pictures:
    return networks.pictures(NAME, chosen)


@cache
def _ranges() -> Ranges:
    return calibrate(networks.model(NAME).graph, networks.calibration(NAME), {"name": networks.IMAGENET})


def _right(outputs: np.ndarray, chosen: range) -> Row:
    """How often the label is the first, and among the first five."""
    best = np.argsort(-outputs.reshape(len(outputs), -1), axis=1, kind="stable")[:, :5]
    hit = best == _pictures(chosen).y[:, None]
    return {"pictures": len(chosen), "top1": int(hit[:, 0].sum()), "top5": int(hit.sum())}


def _float(chosen: range) -> Row:
    x = _pictures(chosen).x
    ours = np.concatenate([evaluate(networks.model(NAME).graph, x[at : at + 8]) for at in range(0, len(x), 8)])
    return {**_right(ours, chosen), "onnxruntime": _right(by_onnxruntime(NAME, x), chosen)}


def _uniform(fmt: str, chosen: range) -> Row:
    return _scored(lower(networks.model(NAME).graph, Assignment(fmt), _ranges()), chosen)


def _scored(program: Program, chosen: range) -> Row:
    """Of a program as boards get it: right answers on the host engine, and its arena."""
    ran = host_engine.run(program, _pictures(chosen).x)
    placed = place(program)
    found = {"arena": placed.plan.peak_bytes, "proven": placed.plan.proven, "saturations": ran.saturations}
    return {**_right(ran.outputs, chosen), **found}


def _arena(width: str) -> Row:
    """Bytes as MinUn plans, every tensor apart, the input included: first fit and optimal."""
    found: Row = {}
    for label, fused in (("unfused", False), ("fused", True)):
        program = squeezenet_with(width, fused=fused)
        plans = {
            "first fit": place(program, ALL_NAMES, "first-fit").plan,
            "optimal": place(program, ALL_NAMES).plan,
        }
        found[label] = {how: plan.peak_bytes for how, plan in plans.items()}
    return found


@cache
def _answer(limit: int, family: str) -> tuple[Assignment, int]:
    """HAUNTER's under a limit of the arena as MinUn plans it, and its bytes."""
    given, graph = _pictures(SEARCHED), networks.model(NAME).graph
    space = make_space(graph, _ranges(), FAMILIES[family])
    evaluator = Evaluator(host_engine.engine(), make_examples(graph, given.x, given.y))
    problem = SearchProblem(space, Memory(space, lambda program: place(program, ALL_NAMES)), evaluator, limit)
    best = search(Haunter(), problem, budget=Budget(evaluations=EVALUATIONS)).best.candidate
    return space.assignment(best), problem.memory.planned_bytes(best)


def _found(limit: int, family: str) -> Assignment:
    return _answer(limit, family)[0]


def _search(limit: int, family: str) -> Row:
    """What HAUNTER found, on pictures that it has not seen, and what the same widths take with our passes."""
    (found, planned), graph = _answer(limit, family), networks.model(NAME).graph
    program = lower(graph, found, _ranges())
    narrow = FAMILIES[family][0]
    values = set(graph.all_shapes()) - set(graph.all_constants())
    chosen = [found.format_of((name,)) for name in values]
    counts = {"narrow": sum(fmt == narrow for fmt in chosen), "values": len(chosen), "planned as theirs": planned}
    return {**_scored(program, TESTED), **counts}


def _every(chosen: Callable[[], Assignment]) -> Row:
    """On every picture that neither calibrates nor is searched on, beside float's decisions by onnxruntime: right
    answers of both, and how many pictures one of the two alone has right."""
    program = lower(networks.model(NAME).graph, chosen(), _ranges())
    row = dict.fromkeys(("pictures", "float", "top1", "one alone"), 0)
    for begin in range(0, len(EVERY), AT_ONCE):
        given = networks.pictures(NAME, EVERY[begin : begin + AT_ONCE])
        outputs = (by_onnxruntime(NAME, given.x), host_engine.run(program, given.x).outputs)
        floats, ours = (scores.reshape(len(given.y), -1).argmax(1) == given.y for scores in outputs)
        found = (len(given.y), floats.sum(), ours.sum(), (floats != ours).sum())
        row = {key: row[key] + int(count) for key, count in zip(row, found, strict=True)}
    return row


def _board(label: str) -> Row:
    """One picture on the emulated STM32H747."""
    last, side, classes = ON_BOARD[label]
    model = api.load(_cut(side, classes)).calibrate(_shrunk(networks.calibration(NAME), side))
    given = _pictures(TESTED)
    x, y = _shrunk(given.x[:1], side), given.y[:1]
    record: Any = model.run("h747", x, y, formats={"default": "fixed8", "values": {LAST: last}})
    memory = record.memory
    return {
        "bit_exact": bool(record.bit_exact),
        "cycles": int(record.latency.median),
        "arena": int(memory["arena_bytes"]),
        "ram": int(memory["static_bytes"]) + int(memory["stack_bytes"]),
        "flash": int(record.flash_bytes),
    }


def _shrunk(x: np.ndarray, side: int) -> np.ndarray:
    """Pictures of fewer pixels, each the mean of a square."""
    by = x.shape[-1] // side
    return x.reshape(*x.shape[:2], side, by, side, by).mean(axis=(3, 5), dtype=np.float32)


def _cut(side: int, classes: int) -> onnx.ModelProto:
    """The network for pictures of `side`, with the first `classes` of its outputs."""
    proto = onnx.load(str(networks.path_of(NAME)))
    for one in proto.graph.initializer:
        if one.name in (LAST, LAST.replace("_w", "_b")):
            one.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(one)[:classes].copy(), one.name))
    for dim in proto.graph.input[0].type.tensor_type.shape.dim[2:]:
        dim.dim_value = side
    proto.graph.output[0].type.tensor_type.shape.dim[1].dim_value = classes
    del proto.graph.value_info[:]
    return proto


def _share(row: Row, key: str) -> str:
    return f"{100 * row[key] / row['pictures']:.1f}"


def _kilobytes(count: int) -> str:
    return f"{count / 1000:.0f}"


def body(rows: Rows) -> str:
    parts = [
        "1,000 photos, one of each class, probably of ImageNet's training part: accuracies are optimistic. "
        f"{len(TESTED)} are tested, {networks.CALIBRATION} others calibrate, {len(SEARCHED)} others are searched on. "
        "Run by the host engine."
    ]
    return "\n\n".join(part for part in (*parts, _accuracy(rows), _memory(rows), _boards(rows)) if part)


def _accuracy(rows: Rows) -> str:
    lines: list[tuple[object, ...]] = [
        (key.removeprefix("quick "), row["pictures"], _share(row, "top1"), _share(row, "top5"), *(None,) * 3)
        for key, row in rows.items()
        if key.endswith("float")
    ]
    for key, row in rows.items():
        if key.startswith(("uniform/", "quick uniform/", "search/")) and "failed" not in row:
            narrow = f"{row['narrow']} of {row['values']}" if "values" in row else None
            theirs = _kilobytes(row["planned as theirs"]) if "values" in row else None
            said = key.replace("uniform/", "").replace("search/", "HAUNTER in ")
            lines.append(
                (
                    said,
                    row["pictures"],
                    _share(row, "top1"),
                    _share(row, "top5"),
                    _kilobytes(row["arena"]),
                    narrow,
                    theirs,
                )
            )
    heads = ("Formats", "pictures", "top-1 %", "top-5 %", "arena, KB", "values of 8 bits", "as MinUn plans, KB")
    return "## Accuracy\n\n" + table(heads, lines) + _on_every(rows) if lines else ""


def _on_every(rows: Rows) -> str:
    lines = [
        (key, row["pictures"], *(_share(row, one) for one in ("float", "top1")), row["one alone"])
        for key, row in under(rows, "every").items()
        if "failed" not in row
    ]
    heads = ("On all but 48 pictures", "pictures", "float top-1 %", "top-1 %", "right by one alone")
    return f"\n\n{table(heads, lines)}" if lines else ""


def _memory(rows: Rows) -> str:
    lines = [
        (width, *(_kilobytes(row[label][how]) for label in ("unfused", "fused") for how in row[label]))
        for width, row in under(rows, "arena").items()
    ]
    heads = ("Widths", *(f"{how}{more}" for more in ("", ", fused") for how in ("first fit", "optimal")))
    said = (
        "## Memory\n\nKB of the arena, from shapes; *optimal*: every live tensor apart, the input included, as MinUn "
        "plans; *fused*: activations inside of layers. Mixes: two random halves of the tensors in 16 bits."
    )
    return f"{said}\n\n{table(heads, lines)}" if lines else ""


def _boards(rows: Rows) -> str:
    lines = [
        (
            label,
            "yes" if row["bit_exact"] else "no",
            f"{row['cycles'] / 1e6:,.0f}",
            *(f"{row[key]:,}" for key in ("arena", "ram", "flash")),
        )
        for label, row in under(rows, "board").items()
        if "failed" not in row
    ]
    said = (
        "## On the STM32H747\n\nThe arena fits the AXI SRAM (524,288 B). Weights of 8 bits take 1,237,508 B, the flash "
        "bank of the Cortex-M7 has 1,048,576 B. With the last layer's weights as 16 clusters of 4 bits (`kmeans16`) "
        "the whole network fits there; and cut, in 8 bits throughout. One picture each on the emulated board; cycles "
        "are modelled."
    )
    heads = ("Network", "bit-exact", "million cycles", "arena B", "RAM B", "flash B")
    return f"{said}\n\n{table(heads, lines)}" if lines else ""


def _less_memory(rows: Rows) -> Verdict:
    """The claim is MinUn's: planning takes a fifth off first fit."""
    found = under(rows, "arena")
    if not found:
        return Verdict("not testable here", "not measured yet")
    ratios = {width: row["unfused"]["first fit"] / row["unfused"]["optimal"] for width, row in found.items()}
    said = ", ".join(f"{width} {ratio:.2f}" for width, ratio in ratios.items())
    confirmed = min(ratios.values()) > 1.0
    return Verdict("confirmed" if confirmed else "refuted", f"first fit over optimal: {said}")


def _same_accuracy(rows: Rows) -> Verdict:
    """Posits of 8 and 16 bits in 1.16 MB, beside ours below 0.45 MB."""
    key = f"{MINUN_BYTES}/posit"
    whole, row, every = rows.get("float"), rows.get(f"search/{key}", {"failed": ""}), rows.get(f"every/{key}")
    if whole is None or "failed" in row:
        return Verdict("not testable here", "not measured yet")
    count = row["pictures"]
    lead = difference(row["top1"] / count, whole["top1"] / count, count)
    if every is not None and "failed" not in every:
        count = every["pictures"]
        lead = paired(100 * (every["top1"] - every["float"]) / count, every["one alone"], count)
    said = f"top-1 {lead} points above float over {count} pictures, margin {MARGIN}"
    ours = f"{said}; arena {_kilobytes(row['arena'])} KB (theirs 1,160; our goal 450)"
    return Verdict(above(lead, -MARGIN) if row["arena"] <= GOAL_BYTES else "refuted", ours)


PAPER = Paper(
    NAME,
    "SqueezeNet in posits on ImageNet (MinUn, section 6)",
    cells,
    quick,
    body,
    (
        Claim(
            "Optimal planning of SqueezeNet's mixed widths needs less than first fit",
            _less_memory,
            "section 6",
            "1.16 MB against 1.44",
            ("arena/",),
        ),
        Claim(
            "Posits of 8 and 16 bits in 1.16 MB keep the accuracy of float32",
            _same_accuracy,
            "section 6",
            "6.5 points above Shiftry's",
            about=("float", f"search/{MINUN_BYTES}/posit", f"every/{MINUN_BYTES}/posit"),
        ),
    ),
    absent={
        "accuracy 6.5 points above Shiftry's": "their validation pictures, and Shiftry's SqueezeNet",
    },
)
