"""Memory: the worked example of appendix B, and the planner switched off (fragmentation, first fit)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from statistics import mean, median

import numpy as np

from benchmarks import arena_mixes
from benchmarks.papers.judge import more_often
from benchmarks.papers.paper import Cell, Claim, Row, Rows, Verdict, under
from tinyhil.compiler.calibrate import calibrate
from tinyhil.frontend.load import load_model
from tinyhil.harness.job.zoo import zoo_names
from tinyhil.memplan.arena.placement import place
from tinyhil.search.evaluator import Evaluator, NumpyExecutor, make_examples
from tinyhil.search.memory import Memory
from tinyhil.search.search_loop import search
from tinyhil.search.search_problem import SearchProblem
from tinyhil.search.space import Choice, make_space
from tinyhil.search.strategies.haunter import Haunter, promotion_order
from tools.measured import ROOT

MIXES = 200  # random 8/16 assignments per network
QUICK_MIXES, QUICK = 12, "fastgrnn_har"
EXAMPLE = ROOT / "examples" / "linear_classifier.dsl"
EXAMPLE_INPUT = np.array([[[1.185109], [-2.206466]]], np.float32)
APART = frozenset({"in-place", "gaps", "order"})  # no two live tensors share bytes, as in MinUn
POSITS = ("posit8es2", "posit16es2")
LIMIT_BYTES = 3
PRINTED = {"W1": 0.00513, "B1": 0.00543, "X1": 0.02197, "t1": 0.30469, "t2": 0.45117}  # error per element, appendix B


def cells() -> Iterator[Cell]:
    yield Cell("worked example", _worked_example)
    for name in zoo_names():
        yield Cell(f"planner/{name}", partial(_planner, name, MIXES))


def quick() -> Iterator[Cell]:
    yield Cell("worked example", _worked_example)
    yield Cell(f"quick planner/{QUICK}", partial(_planner, QUICK, QUICK_MIXES))


def _worked_example() -> Row:
    """HAUNTER on the example in posits: its heat map, its order, its answer under 3 B; bytes with 16 bits for all."""
    graph = load_model(EXAMPLE).graph
    space = make_space(graph, calibrate(graph, EXAMPLE_INPUT, {"name": "appendix B"}), POSITS)
    evaluator = Evaluator(NumpyExecutor(), make_examples(graph, EXAMPLE_INPUT, None))
    problem = SearchProblem(space, Memory(space, partial(place, without=APART)), evaluator, LIMIT_BYTES)
    low, high = map(Choice, POSITS)
    heat = problem.heat(high, low)
    found = search(Haunter(), problem).best
    plan = place(space.lower(found.candidate), APART).plan
    wide = space.lower(space.uniform(high))
    return {
        "promotability": {g.name: round(e / g.elements, 5) for g, e in zip(space.groups, heat, strict=True)},
        "order": [space.groups[index].name for index in promotion_order(problem, heat)],
        "formats": {group.name: str(choice) for group, choice in zip(space.groups, found.candidate, strict=True)},
        "wide": place(wide, APART).plan.peak_bytes,
        "mixed": plan.peak_bytes,
        "offsets": {name: plan.offsets[name] for name in ("t1", "t2")},
        "ours wide": place(wide).plan.peak_bytes,
    }


def _planner(name: str, mixes: int) -> Row:
    """Bytes by first fit, planned, with all passes; first fit over the bound: mean and worst. Per kind of widths."""
    found: dict[str, list[arena_mixes.Row]] = {}
    for label, program in arena_mixes.programs(name, mixes):
        found.setdefault(label, []).append(arena_mixes.measure(program))
    return {label: _summary(rows) for label, rows in found.items()}


def _summary(rows: list[arena_mixes.Row]) -> Row:
    ratios = [row.first_fit_ratio for row in rows]
    return {
        "first_fit": median(row.first_fit_bytes for row in rows),
        "planned": median(row.plain_bytes for row in rows),
        "all_passes": median(row.all_bytes for row in rows),
        "bound": median(row.bound_bytes for row in rows),
        "ratio_mean": round(mean(ratios), 3),
        "ratio_worst": round(max(ratios), 3),
        "proven": sum(row.proven for row in rows),
        "count": len(rows),
    }


def body(rows: Rows) -> str:
    found = under(rows, "planner") | under(rows, "quick planner")
    networks = {name: labels for name, labels in found.items() if "failed" not in labels}
    every = [row for labels in networks.values() for row in labels.values()]
    proven, count = (sum(row[key] for row in every) for key in ("proven", "count"))
    uniform = [row["ratio_worst"] for labels in networks.values() for label, row in labels.items() if label != "mixed"]
    mixed = [labels["mixed"]["ratio_mean"] for labels in networks.values() if "mixed" in labels]
    return (
        "## Planner off: fragmentation\n\n"
        f"{count} arenas of {len(networks)} networks, up to {MIXES} random mixtures of 8 and 16 bits each: {proven} "
        "plans are proven optimal. First fit, no two live tensors sharing bytes as in the paper, takes "
        f"{min(mixed, default=1):.2f} to {max(mixed, default=1):.2f} times the bound by network in the mean, with one "
        f"width for all at most {max(uniform, default=1):.2f} times ([all arenas](../measured/memplan.md))."
    )


def _judge_example(rows: Rows) -> Verdict:
    row = rows.get("worked example")
    if row is None:
        return Verdict("not testable here", "not measured yet")
    widths = [row["formats"][name] for name in ("t1", "t2")]
    bytes_agree = (row["wide"], row["mixed"], row["offsets"]) == (4, 3, {"t1": 0, "t2": 2})
    same = bytes_agree and widths == [*reversed(POSITS)] and row["promotability"] == PRINTED
    heat = ", ".join(f"{name} {row['promotability'][name]:.5f}" for name in row["order"])
    said = f"HAUNTER itself: {heat}; {row['wide']} B and {row['mixed']} B, t2 at offset {row['offsets']['t2']}"
    return Verdict("confirmed" if same else "refuted", f"{said}; computed in place {row['ours wide']} B suffice")


def _judge_fragmentation(rows: Rows) -> Verdict:
    mixed = {name: row["mixed"] for name, row in under(rows, "planner").items() if "mixed" in row}
    if not mixed:
        return Verdict("not testable here", "not measured yet")
    worst = max(mixed, key=lambda name: mixed[name]["ratio_worst"])
    average = mean(row["ratio_mean"] for row in mixed.values())
    more = sum(row["first_fit"] > row["planned"] for row in mixed.values())
    return Verdict(
        more_often(more, sum(row["first_fit"] < row["planned"] for row in mixed.values())),
        f"mixtures of 8 and 16 bits: first fit takes {average:.2f} times the bound on average and "
        f"{mixed[worst]['ratio_worst']:.2f} times at worst (`{worst}`); more than optimal on {more} of {len(mixed)} "
        "networks; sign test, ties left out",
    )


CLAIMS = (
    Claim(
        "Appendix B in posits: heat map and order; 4 B in 16 bits; in 3 B t1 keeps 16 bits at offset 0, t2 gets 8 at 2",
        _judge_example,
        "appendix B",
        "the same",
        ("worked example",),
    ),
    Claim(
        '"avoid memory fragmentation": first fit fragments, an exact planner does not',
        _judge_fragmentation,
        "abstract",
        "SqueezeNet 1.44 MB, planned 1.16",
        ("planner/",),
    ),
)
