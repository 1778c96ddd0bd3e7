"""What needs no training: equalized layers, corrected biases, learned roundings (tables of benchmarks/training.py).

ResNet-8 and MobileNetV1 of MLPerf Tiny: the share of test samples that the integers decide as the float model does,
with each correction, on samples of the calibration set. `rows`: formats as they are, 8 and 4 bits; `searched`: those
that a search finds under a limit of cost; `mixed`: in the arena of 8 bits, of two formats on offer.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.bench import Row
from benchmarks.given import given_data
from benchmarks.quiet import quiet
from benchmarks.trained_networks import note
from benchmarks.unsigned import CALIBRATED, TINY, Network, calibrated_on, networks
from tinyhil.compiler.lower import lower
from tinyhil.frontend.dead_channels import READ
from tinyhil.harness.job.job import method_of, open_model
from tinyhil.harness.python import calls
from tinyhil.harness.search.request import SearchRequest
from tinyhil.harness.search.session import SearchOutcome
from tinyhil.harness.search.splits import load_split
from tinyhil.harness.settings.config import load_boards
from tinyhil.harness.train.after_search import assignments
from tinyhil.language.assignment import Assignment
from tinyhil.memplan.arena.placement import place
from tinyhil.native import default_cache_dir
from tinyhil.search.engine.library import load_engine
from tinyhil.search.evaluator import Evaluator, make_examples
from tinyhil.train.corrections import Corrections, corrected
from tinyhil.train.integers import Judge
from tinyhil.train.network import with_constants
from tinyhil.train.rounding_up import Rounding

NETWORKS = (TINY["ic01"], TINY["vww01"])
FORMATS = ("fixed8u", "fixed4u")
SAMPLES = 96  # of those calibrated on
BRIEF = Rounding(steps=60, batch=8)  # a fifth of `hil calibrate`'s steps, a quarter of its batch
WAYS = {
    "as it is": Corrections(),
    "equalized": Corrections(equalize=True),
    "bias": Corrections(correct_bias=True),
    "rounding": Corrections(rounding=BRIEF),
    "equalized, bias": Corrections(equalize=True, correct_bias=True),
    "all": Corrections(True, BRIEF, True),
}


def rows() -> Iterator[Row]:
    """A row for each network and format."""
    for name in NETWORKS:
        (one,) = networks(name)
        inputs = calibrated_on(name)[:: CALIBRATED // SAMPLES]
        for fmt in FORMATS:
            begin = time.process_time()
            row: Row = {"model": name, "format": fmt, "samples": len(one.x)}
            row |= {title: agreeing(one, inputs, fmt, way) for title, way in WAYS.items()}
            yield {**row, "seconds": round(time.process_time() - begin)}


def agreeing(one: Network, inputs: np.ndarray, fmt: str, way: Corrections) -> float:
    """Share of the decisions of the float model as it was given."""
    engine = load_engine(default_cache_dir())
    judge = Judge(one.graph, Assignment(fmt), inputs, engine)
    found = corrected(judge, way)
    note(found.constants)
    program = lower(with_constants(one.graph, found.constants), judge.assignment, found.ranges)
    score = Evaluator(engine, make_examples(one.graph, one.x, one.y)).score(program)
    return 1 - score.disagreements / score.samples


# ---- for what a search finds

EVALUATIONS, COSTS = 40, (0.75, 0.5)  # of the ReRAM accelerator, as a share of 8 bits everywhere
ON_OFFER = ",".join(f"fixed{bits}u" for bits in range(2, 9))
OFFERS = ("fixed7,fixed8", "fixed8,fixed16")  # weights are a byte; or two where that keeps more


def searched() -> Iterator[Row]:
    """A row for each network and cost."""
    for name in NETWORKS:
        for cost in COSTS:
            accelerated = {"formats": ON_OFFER, "board": "reram", "cost": cost, "strategy": "milp"}
            yield corrected_answer({"model": name, "cost at most": f"{cost:g}"}, accelerated)


def mixed() -> Iterator[Row]:
    """A row for each network and offer, in the arena that 8 bits everywhere need."""
    for name in NETWORKS:
        (one,) = networks(name)
        ram = place(lower(one.graph, Assignment("fixed8"), one.ranges)).plan.peak_bytes
        for offer in OFFERS:
            head = {"model": name, "RAM": f"{ram} B", "on offer": offer}
            yield corrected_answer(head, {"formats": offer, "ram": ram})


def corrected_answer(head: Row, options: dict[str, Any]) -> Row:
    """The answer as it is, and corrected as `hil search --equalize ...` does."""
    begin = time.process_time()
    with TemporaryDirectory() as folder:
        wanted = replace(request(head["model"], Path(folder)), **options)
        found = calls.search(wanted, load_boards(), quiet, quiet_progress)
        row = {**head, "bits of weights": mean_bits(found, True), "of values": mean_bits(found, False)}
        row |= {title: agreement(found, way) for title, way in WAYS.items()}
    return {**row, "seconds": round(time.process_time() - begin)}


def request(name: str, folder: Path) -> SearchRequest:
    """On the samples that are calibrated on, reported on those that `networks` tests."""
    (one,) = networks(name)
    inputs, tested = folder / f"{name}.npz", folder / f"{name}.tested.npz"
    np.savez(inputs, x=calibrated_on(name))
    np.savez(tested, x=one.x)
    return SearchRequest(
        str(given_data() / "models" / f"mlperftiny_{name}.onnx"),
        inputs=inputs,
        held_out=tested,
        evaluations=EVALUATIONS,
        results=folder,
    )


def quiet_progress(trial: Any, best: Any) -> None:
    """Says nothing."""


def mean_bits(found: SearchOutcome, weights: bool) -> str:
    """Of an element of the answer's weights, or of its other values."""
    pairs = zip(found.space.groups, found.found.best.candidate, strict=True)
    sizes = [(group.elements, choice.bits) for group, choice in pairs if group.is_matrix == weights]
    return f"{sum(size * bits for size, bits in sizes) / sum(size for size, _ in sizes):.1f}"


def agreement(found: SearchOutcome, way: Corrections) -> float:
    """Share of the decisions held out. Learned roundings clip no weights, as the command's."""
    path = Path(found.record["assignment_file"]) if way.rounding is None else assignments(found, 1)[0][0]
    opened = open_model(found.request.model, None, without=[one.name for one in READ])
    split = load_split(opened, found.request.inputs, found.request.held_out, quiet)
    engine = load_engine(default_cache_dir())
    judge = Judge(opened.model.graph, opened.assignment(path, "fixed8"), split.x, engine, method_of(path, None))
    made = corrected(judge, way)
    note(made.constants)
    score = Evaluator(engine, split.held_out(opened.model.graph)).score(judge.program(made.constants, made.ranges))
    return 1 - score.disagreements / score.samples
