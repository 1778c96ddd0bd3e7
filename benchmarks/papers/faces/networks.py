"""The detector as programs: trained weights (`faces.onnx`), calibration, and what searches choose its formats by."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from benchmarks.papers.faces import photos, scores, write
from benchmarks.papers.faces.photos import HEIGHT, WIDTH
from benchmarks.papers.fp8 import host_engine
from tinyhil.compiler.calibrate import Ranges, calibrate
from tinyhil.compiler.lower import lower
from tinyhil.frontend.load import load_model
from tinyhil.language.assignment import Assignment
from tinyhil.language.graph import Graph
from tinyhil.language.program import Program
from tinyhil.memplan.arena.passes import ALL_NAMES
from tinyhil.memplan.arena.placement import Placement, place
from tinyhil.search.evaluator import Evaluator, make_examples
from tinyhil.search.memory import Memory
from tinyhil.search.search_loop import Budget, search
from tinyhil.search.search_problem import SearchProblem, Strategy
from tinyhil.search.space import INPUT, Candidate, Space, make_space
from tools import measured

FILE = Path(__file__).with_name("faces.onnx")
TRAINING = "papers/faces_training"  # of results/: what train.py did
CALIBRATING, SEARCHED = slice(0, 16), slice(16, 40)  # of the photos that taught
EVALUATIONS = 500  # HAUNTER ends long before; Shiftry tries each of a hundred values alone
Formats = tuple[str, ...]


@cache
def weights() -> dict[str, np.ndarray]:
    return write.weights_of(onnx.load(FILE))


def saved(model: onnx.ModelProto) -> Path:
    """A file with the model, for what takes files."""
    path = Path(tempfile.mkdtemp(prefix="faces-")) / "faces.onnx"
    onnx.save(model, path)
    return path


def sha256() -> str:
    return hashlib.sha256(FILE.read_bytes()).hexdigest()


def training() -> dict[str, Any] | None:
    """How the weights came about; None if the record is of others, or there is none."""
    if not (measured.RESULTS / f"{TRAINING}.json").is_file():
        return None
    found: dict[str, Any] = measured.read(TRAINING)
    return found if found["sha256"] == sha256() else None


@cache
def graph(in_strips: bool = True) -> Graph:
    path = FILE if in_strips else saved(write.detector(weights(), HEIGHT, WIDTH, in_strips=False))
    return load_model(path).graph


def given(chosen: Sequence[int]) -> np.ndarray:
    """(photos, 1, 240, 320)"""
    return photos.inputs(chosen)[:, None]


@cache
def calibration() -> np.ndarray:
    return given(photos.to_train()[CALIBRATING])


@cache
def ranges(in_strips: bool = True) -> Ranges:
    return calibrate(graph(in_strips), calibration(), {"name": photos.FILE})


def uniform(fmt: str) -> Program:
    return lower(graph(), Assignment(fmt), ranges())


def planned_apart(program: Program) -> int:
    """Bytes as MinUn plans: every tensor apart, layer after layer; the input not counted."""
    return _apart(program).plan.peak_bytes


def _apart(program: Program) -> Placement:
    return place(program, ALL_NAMES)


def searched(strategy: Strategy, offered: Formats, limit: int) -> Assignment:
    """The formats that keep most of the float model's decisions on photos that taught, in `limit` bytes as MinUn
    plans; those that the photo takes beyond a byte per pixel are among them."""
    space = make_space(graph(), ranges(), offered)
    x = given(photos.to_train()[SEARCHED])
    evaluator = Evaluator(host_engine.engine(), make_examples(graph(), x, None, scores.decisions))
    problem = SearchProblem(space, Memory(space, _apart), evaluator, limit, beside=_wider_input(space))
    return space.assignment(search(strategy, problem, budget=Budget(evaluations=EVALUATIONS)).best.candidate)


def _wider_input(space: Space) -> Callable[[Candidate], int]:
    """Bytes of the photo beyond those of a camera, one per pixel."""
    (photo,) = (number for number, group in enumerate(space.groups) if group.role == INPUT)
    group = space.groups[photo]
    return lambda candidate: group.elements * (group.stored_bits(candidate[photo]) // 8 - 1)
