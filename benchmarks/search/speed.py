"""Speed of the host engine against a program per candidate, with and without restart; prints Markdown.

    python -m benchmarks.search.speed

Needs HIL_DATA with the HAR and USPS data. Neighbours are compared in processor time of one thread, on noise: what is
computed does not depend on what the samples show.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from tinyhil import data
from tinyhil.errors import HilError
from tinyhil.harness.build.toolchain import default_cache_dir
from tinyhil.harness.job.job import Request, open_model
from tinyhil.harness.measure.run import run as run_request
from tinyhil.harness.search.session import write_assignment
from tinyhil.harness.settings.config import load_boards
from tinyhil.preference import Wish
from tinyhil.search.engine.cache import ArrayCache
from tinyhil.search.engine.library import Engine, load_engine
from tinyhil.search.evaluator import Evaluator, NumpyExecutor, Score, make_examples
from tinyhil.search.space import Candidate, Choice, Space, make_space
from tinyhil.search.trial import unjudged

MODEL = "fastgrnn_har"
SMALL = "protonn_usps2"
NEIGHBOURS = ("digits_cnn", "lenet5_mnist", "bonsai_usps2", "fastgrnn_har", "dscnn_kws")
FAMILIES = ("fixed8,fixed16", "posit8es0,posit16es1")
NEIGHBOUR_SAMPLES = 256
MOST_NEIGHBOURS = 30
REPEATS = 2


def drawn(space: Space, count: int) -> list[Candidate]:
    random = np.random.default_rng(0)
    return [tuple(Choice(str(random.choice(space.formats))) for _ in space.groups) for _ in range(count)]


def speed(assignments: int, programs: int) -> Engine:
    """Seconds per assignment: engine, numpy reference, and generate + compile + run."""
    opened = open_model(MODEL)
    source = opened.source
    model = opened.model
    assert source.dataset is not None
    space = make_space(model.graph, opened.required_ranges(None), ("fixed8", "fixed16"))
    found = data.load(source.dataset)
    examples = make_examples(model.graph, found.x_test, found.y_test)
    candidates = drawn(space, assignments)
    begin = time.perf_counter()
    engine = load_engine(default_cache_dir())
    print(f"host engine ready after {time.perf_counter() - begin:.2f} s (compiled once per machine)")
    seconds = {}
    for name, executor, count in (("host engine", engine, assignments), ("numpy reference", NumpyExecutor(), 10)):
        evaluator = Evaluator(executor, examples)
        begin = time.perf_counter()
        for candidate in candidates[:count]:
            evaluator.score(space.lower(candidate))
        seconds[name] = (time.perf_counter() - begin) / count
        print(f"{name}: {count} assignments on {len(examples)} windows in {seconds[name] * count:.2f} s")
    seconds["generate, compile, run"] = per_program(space, candidates[:programs])
    print("\n| evaluation of one assignment | seconds | slower than the engine |\n|---|---|---|")
    for name, value in seconds.items():
        print(f"| {name} | {value:.4f} | {value / seconds['host engine']:.1f} x |")
    return engine


def small(engine: Engine) -> None:
    """One assignment of a small model on the whole test part."""
    opened = open_model(SMALL)
    source = opened.source
    model = opened.model
    assert source.dataset is not None
    space = make_space(model.graph, opened.required_ranges(None), ("fixed8", "fixed16"))
    found = data.load(source.dataset)
    evaluator = Evaluator(engine, make_examples(model.graph, found.x_test, found.y_test))
    seconds = []
    for candidate in drawn(space, 20):
        begin = time.perf_counter()
        evaluator.score(space.lower(candidate))
        seconds.append(time.perf_counter() - begin)
    print(f"\n{SMALL}: one assignment on {len(found.x_test)} points in {1000 * float(np.median(seconds)):.2f} ms")


def neighbours(engine: Engine) -> None:
    """Assignments that differ from one in one tensor: processor time without and with what that one left."""
    print("\n| model | formats | neighbours | ms from the start | ms restarted | ratio | MB kept |")
    print("|---|---|---|---|---|---|---|")
    for name in NEIGHBOURS:
        for formats in FAMILIES:
            try:
                print(neighbour_row(engine, name, formats), flush=True)
            except HilError as error:
                print(f"| {name} | {formats} | {error} | | | | |")


def neighbour_row(engine: Engine, name: str, formats: str) -> str:
    opened = open_model(name)
    model = opened.model
    space = make_space(model.graph, opened.required_ranges(None), formats.split(","))
    shape = (NEIGHBOUR_SAMPLES, *model.graph.shapes[model.graph.inputs[0]])
    noise = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    examples, base = make_examples(model.graph, noise, None), drawn(space, 1)[0]
    changes = [{i: c} for i, old in enumerate(base) for c in map(Choice, space.formats) if c != old]
    chosen = changes[:: -(-len(changes) // MOST_NEIGHBOURS)]
    programs = [
        space.lower(candidate) for candidate in (base, *(space.with_choices(base, change) for change in chosen))
    ]
    best: dict[int, float] = {}
    scores: dict[str, list[Score]] = {}
    cache = ArrayCache()
    for limit in (0, cache.limit_bytes) * REPEATS:
        cache = ArrayCache(limit)
        evaluator = Evaluator(replace(engine, threads=1, cache=cache, _latest=[]), examples)
        evaluator.score(programs[0])
        begin = time.process_time()
        found = [evaluator.score(program) for program in programs[1:]]
        best[limit] = min(best.get(limit, np.inf), (time.process_time() - begin) / len(chosen))
        assert scores.setdefault("all", found) == found
    without, restarted = (1000 * seconds for seconds in best.values())
    numbers = f"{without:.2f} | {restarted:.2f} | {without / restarted:.1f} | {cache.bytes / 1e6:.0f}"
    return f"| {name} | {formats} | {len(chosen)} | {numbers} |"


def per_program(space: Space, candidates: Sequence[Candidate]) -> float:
    """`hil run --board host` for each, with a build of its own; without the reference and float runs."""
    boards, total = load_boards(), 0.0
    with tempfile.TemporaryDirectory() as folder:
        for number, candidate in enumerate(candidates):
            path = Path(folder) / f"{number}.yaml"
            write_assignment(path, space, unjudged(candidate), Wish())
            request = Request("host", MODEL, assignment=path, results=Path(folder))
            outcome = run_request(request, boards, Path(folder) / "cache", lambda line: None, lambda *_: None)
            total += sum(outcome.wall_seconds[stage] for stage in ("compile", "build", "stream"))
    return total / len(candidates)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--assignments", type=int, default=100)
    parser.add_argument("--programs", type=int, default=3)
    arguments = parser.parse_args()
    engine = speed(arguments.assignments, arguments.programs)
    small(engine)
    neighbours(engine)


if __name__ == "__main__":
    main()
