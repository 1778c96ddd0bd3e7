"""What needs no training: equalized layers, corrected biases, learned roundings (a table of benchmarks/training.py).

ResNet-8 and MobileNetV1 of MLPerf Tiny in 8 and 4 bits: the share of test samples that the integers decide as the float
model does, in the formats as they are and with each correction, on samples of the calibration set.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np

from benchmarks.bench import Row
from benchmarks.trained_networks import note
from benchmarks.unsigned import CALIBRATED, TINY, Network, calibrated_on, networks
from tinyhil.compiler.lower import lower
from tinyhil.language.assignment import Assignment
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
