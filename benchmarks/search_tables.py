"""Tables of the width search: results/search/<table>.json, and from these the tables in docs/search.md.

    python benchmarks/search_tables.py peers table1 truth posit     measures (needs HIL_DATA), a table at a time
    python benchmarks/search_tables.py --docs                       writes the tables into docs/search.md

RAM limits are those MinUn was run with: arena without the model input. Searches see the training part, figures are of
the test part.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers_models import RAM_LIMIT_BYTES, build_peers
from harness.search import SearchRequest, run_search
from harness.toolchain import default_cache_dir
from tinyhil.errors import ConfigError, HilError

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "results" / "search"
STRATEGIES = ("lagrange", "haunter", "shiftry", "accuracy_only", "size_only")
SEARCH_SAMPLES = 1000
# model -> bytes: fixed 8/16 and posit 8/16 (MinUn, LCTES 2023, as its authors' run scripts have them)
LIMITS = {
    "protonn_usps2": (60, 40),
    "bonsai_usps2": (120, 60),
    "fastgrnn_usps10": (512, 416),
    "protonn_usps10": (891, 891),
    "bonsai_usps10": (84, 43),
    "protonn_letter26": (77, 64),
    "bonsai_letter26": (124, 99),
    "protonn_mnist10": (61, 41),
    "bonsai_mnist10": (60, 45),
    "fastgrnn_mnist10": (1280, 768),
    "fastgrnn_har": (792, 360),
    "fastgrnn_dsa19": (740, 493),
}
PEERS = ("peer_protonn_usps2", "peer_bonsai_usps2", "peer_fastgrnn_usps10")
# Points of accuracy that Shiftry loses with these weights at these limits: its compiler run on the same 2007 points.
SHIFTRY_LOSES = {"peer_protonn_usps2": 1.35, "peer_bonsai_usps2": 0.45, "peer_fastgrnn_usps10": 1.04}
ALLOWED_POINTS = 0.2
SMALL = ("protonn_usps2", "protonn_usps10", "protonn_letter26", "digits_mlp")


def measured(request: SearchRequest) -> dict[str, Any]:
    """One search; what it found, or why there is nothing to find."""
    with tempfile.TemporaryDirectory() as folder:
        begin = time.perf_counter()
        try:
            record = run_search(
                _in(request, Path(folder)), default_cache_dir(), lambda line: None, lambda *_: None
            ).record
        except ConfigError as error:
            name = Path(request.model).stem
            return {"model": name, "strategy": request.strategy, "limit": request.ram, "error": str(error)}
    seconds = time.perf_counter() - begin
    found = {
        "model": Path(request.model).stem,
        "strategy": request.strategy,
        "limit": request.ram,
        "ram": record["ram_bytes"],
        "points_lost": round(100 * (record["float_accuracy"] - record["accuracy"]), 3),
        "disagreements": record["disagreements"],
        "samples": record["samples"],
        "searched": record["search"]["disagreements"],
        "search_samples": record["search"]["samples"],
        "evaluations": record["evaluations"],
        "seconds": round(seconds, 1),
    }
    print(json.dumps(found), flush=True)
    return found


def _in(request: SearchRequest, folder: Path) -> SearchRequest:
    from dataclasses import replace

    return replace(request, results=folder)


def table1(evaluations: int, models: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    """Every strategy at MinUn's limits for fixed point."""
    for model in models:
        for strategy in STRATEGIES:
            yield measured(
                SearchRequest(model, LIMITS[model][0], strategy, evaluations=evaluations, samples=SEARCH_SAMPLES)
            )


def tight(evaluations: int, models: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    """HAUNTER and ours where memory is short: the least feasible arena plus a quarter and a half of what is saved."""
    for model in models:
        for limit in _limits_between(model):
            haunter = measured(SearchRequest(model, limit, "haunter", evaluations=200, samples=SEARCH_SAMPLES))
            yield haunter
            spent = max(1, round(haunter["evaluations"]))
            for budget in sorted({spent, evaluations}):
                ours = SearchRequest(model, limit, "lagrange", evaluations=budget, samples=SEARCH_SAMPLES)
                yield {**measured(ours), "budget": budget, "haunter_evaluations": spent}


def _limits_between(model: str) -> list[int]:
    from harness.search import placed
    from harness.zoo import find_model
    from search.space import make_space
    from tinyhil.calibrate import load_ranges
    from tinyhil.frontend.load import load_model

    source = find_model(model)
    loaded = load_model(source.path)
    assert source.ranges is not None
    space = make_space(loaded.graph, load_ranges(source.ranges, loaded.sha256), ("fixed8", "fixed16"))
    low, high = (placed(space.lower(space.uniform(choice))).plan.peak_bytes for choice in (space.low, space.high))
    return sorted({low + (high - low) // 4, low + (high - low) // 2})


def truth(evaluations: int, models: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    """HAUNTER and ours against everything that fits, on models of at most 12 free tensors."""
    for model in models:
        for limit in _limits_between(model):
            for strategy in ("exhaustive", "haunter", "lagrange"):
                budget = 5000 if strategy == "exhaustive" else evaluations
                yield measured(SearchRequest(model, limit, strategy, evaluations=budget, samples=SEARCH_SAMPLES))


def posit(evaluations: int, models: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    """HAUNTER and ours with posits at MinUn's limits for posits, by the numpy reference."""
    for model in models:
        for strategy in ("haunter", "lagrange"):
            request = SearchRequest(
                model,
                LIMITS[model][1],
                strategy,
                formats="posit8,posit16",
                evaluations=evaluations,
                samples=300,
                evaluator="reference",
            )
            yield measured(request)


def peers(evaluations: int, models: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    """The peers' weights: calibrated and searched on all training points, reported on all 2007; then less and less."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for peer, content in build_peers().items():
            if peer not in models:
                continue
            (folder / f"{peer}.onnx").write_bytes(content.proto.SerializeToString())
            np.savez(folder / f"{peer}.npz", x=content.x_test, y=content.y_test)
            np.savez(folder / f"{peer}_train.npz", x=content.x_train, y=content.y_train)
            limit = RAM_LIMIT_BYTES[peer]
            while True:
                found = measured(_peer_request(folder, peer, limit, evaluations))
                yield {**found, "shiftry_loses": SHIFTRY_LOSES[peer]}
                if "error" in found or found["points_lost"] > ALLOWED_POINTS:
                    break
                limit = min(found["ram"] - 1, limit * 9 // 10)


def _peer_request(folder: Path, peer: str, limit: int, evaluations: int) -> SearchRequest:
    train = folder / f"{peer}_train.npz"
    return SearchRequest(
        str(folder / f"{peer}.onnx"),
        limit,
        "lagrange",
        evaluations=evaluations,
        samples=3000 if "fastgrnn" in peer else None,
        inputs=train,
        held_out=folder / f"{peer}.npz",
        calibrate=train,
    )


Measure = Callable[[int, tuple[str, ...]], Iterator[dict[str, Any]]]
TABLES: dict[str, tuple[Measure, tuple[str, ...], int]] = {
    "peers": (peers, PEERS, 20),
    "table1": (table1, tuple(LIMITS), 30),
    "tight": (tight, ("fastgrnn_har", "protonn_usps2", "bonsai_usps2", "fastgrnn_usps10", "bonsai_letter26"), 30),
    "truth": (truth, SMALL, 30),
    "posit": (posit, ("protonn_usps2", "bonsai_usps2", "bonsai_usps10"), 12),
}


def write(name: str, rows: list[dict[str, Any]]) -> None:
    RESULTS.mkdir(parents=True, exist_ok=True)
    text = "[\n" + ",\n".join(" " + json.dumps(row) for row in rows) + "\n]\n"
    (RESULTS / f"{name}.json").write_text(text)


# --- Markdown -----------------------------------------------------------------------------------------------------


def page(name: str) -> str:
    """The table as docs/search.md shows it."""
    path = RESULTS / f"{name}.json"
    rows = json.loads(path.read_text()) if path.is_file() else []
    return {"peers": _peers_page, "table1": _by_strategy, "posit": _by_strategy, "tight": _plain, "truth": _plain}[
        name
    ](rows)


def _by_strategy(rows: list[dict[str, Any]]) -> str:
    names = list(dict.fromkeys(row["strategy"] for row in rows))
    lines = [f"| Model | RAM limit B | {' | '.join(names)} |", "|---|---|" + "---|" * len(names)]
    for model in dict.fromkeys(row["model"] for row in rows):
        mine = {row["strategy"]: row for row in rows if row["model"] == model}
        limit = next(iter(mine.values()))["limit"]
        lines.append(f"| `{model}` | {limit} | {' | '.join(_cell(mine.get(name)) for name in names)} |")
    return "\n".join(lines)


def _cell(row: dict[str, Any] | None) -> str:
    if row is None:
        return "-"
    if "error" in row:
        return "not feasible"
    return f"{row['points_lost']:+.2f} ({row['disagreements']}; {row['evaluations']:.0f}; {row['seconds']:.0f})"


def _plain(rows: list[dict[str, Any]]) -> str:
    lines = [
        "| Model | RAM limit B | Strategy | Evaluations | s | RAM B | Differ: search | Held out | Points lost |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        if "error" not in row:
            lines.append(
                f"| `{row['model']}` | {row['limit']} | {row['strategy']} | {row['evaluations']:.1f} "
                f"| {row['seconds']:.0f} | {row['ram']} | {row['searched']} of {row['search_samples']} "
                f"| {row['disagreements']} of {row['samples']} | {row['points_lost']:+.2f} |"
            )
    return "\n".join(lines)


def _peers_page(rows: list[dict[str, Any]]) -> str:
    lines = [
        "| Network | RAM limit B | RAM B | Points lost | Differ | Shiftry loses (at MinUn's limit) |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        if "error" in row:
            lines.append(f"| `{row['model']}` | {row['limit']} | not feasible | | | |")
            continue
        at_limit = row["limit"] == RAM_LIMIT_BYTES[row["model"]]
        loses = f"{row['shiftry_loses']:.2f}" if at_limit else ""
        lines.append(
            f"| `{row['model']}` | {row['limit']} | {row['ram']} | {row['points_lost']:+.2f} "
            f"| {row['disagreements']} of {row['samples']} | {loses} |"
        )
    return "\n".join(lines)


def update_docs() -> None:
    """Replace what is between the markers of each table."""
    path = ROOT / "docs" / "search.md"
    text = path.read_text()
    for name in TABLES:
        begin, end = f"<!-- {name}: begin -->\n", f"\n<!-- {name}: end -->"
        if begin in text:
            head, _, rest = text.partition(begin)
            text = head + begin + page(name) + end + rest.partition(end)[2]
    path.write_text(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", metavar="TABLE", help=f"of {', '.join(TABLES)}")
    parser.add_argument("--models", help="only these, commas between")
    parser.add_argument("--evaluations", type=int, help="budget of every search")
    parser.add_argument("--docs", action="store_true", help="write the tables into docs/search.md")
    arguments = parser.parse_args()
    for name in arguments.tables:
        measure, models, evaluations = TABLES[name]
        chosen = tuple(arguments.models.split(",")) if arguments.models else models
        rows: list[dict[str, Any]] = []
        try:
            for row in measure(arguments.evaluations or evaluations, chosen):
                rows.append(row)
                write(name, rows)
        except HilError as error:
            print(f"{name}: {error}", flush=True)
    if arguments.docs:
        update_docs()


if __name__ == "__main__":
    main()
