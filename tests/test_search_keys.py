"""What a search takes from an earlier one is kept under a name that holds all that a score, or a trial, depends on."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tinyhil.harness.search.request import HASHED_BY_CONTENT, UNKEYED, UNSCORED, SearchRequest
from tinyhil.harness.search.task import Task, load_task
from tinyhil.harness.search.workers import journal_path
from tinyhil.harness.settings.config import load_boards

STATES = (("h=h_out", "c=c_out"), ("h=c_out", "c=h_out"))
# What each field of a request is in one search and in another.
FIELDS: dict[str, tuple[Any, Any]] = {
    "model": ("net.onnx", "other.onnx"),
    "ram": (None, 900),
    "strategy": ("lagrange", "haunter"),
    "set_": ((), ("probe=7",)),
    "formats": ("fixed8,fixed16", "fixed7,fixed16"),
    "weights": (None, "fixed4pc"),
    "evaluations": (None, 3),
    "called": ("", "tinyhil.load(model).search(x)"),
    "seconds": (None, 1.0),
    "target": (None, 1),
    "samples": (None, 20),
    "seed": (0, 1),
    "inputs": (Path("x.npz"), Path("other.npz")),
    "held_out": (None, Path("other.npz")),
    "calibrate": (Path("x.npz"), Path("other.npz")),
    "calibrate_by": ("mse", "percentile"),
    "evaluator": ("reference", "engine"),
    "board": ("uno", "due"),
    "also": ((), ("h747",)),
    "on_device": (False, True),
    "every": (None, 2),
    "finalists": (3, 2),
    "device_samples": (50, 9),
    "latency_us": (None, 1e6),
    "energy_uj": (None, 1.0),
    "crossbars": (None, 1),
    "cost": (None, 0.5),
    "flash": (None, 9000),
    "arena": (None, 90),
    "minimize": (None, "ram"),
    "pareto": (None, "ram,flash"),
    "levels": (5, 4),
    "prefer": ("ram", "latency"),
    "points": (0.5, 0.3),
    "more_time": (50.0, 10.0),
    "port": (None, "/dev/null"),
    "wait_s": (None, 1.0),
    "out": (None, Path("widths.yaml")),
    "plot": (None, Path("picture")),
    "results": (Path("results"), Path("elsewhere")),
    "states": STATES,
    "steps": (5, None),
    "workers": (None, 2),
    "fine_tune": (False, True),
    "own": (False, True),
}
REFUSED = ("energy_uj", "crossbars", "cost", "fine_tune")  # for a chip, without labels


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cell with two states of one shape, another with other weights, and samples of five steps for both."""
    folder = tmp_path_factory.mktemp("keys")
    for seed, name in enumerate(("net", "other")):
        random = np.random.default_rng(seed)
        weights = [
            numpy_helper.from_array(random.normal(size=shape).astype(np.float32), key)
            for key, shape in (("W", (3, 4)), ("U", (4, 4)), ("V", (4, 4)), ("R", (4, 3)))
        ]
        nodes = [
            *(helper.make_node("MatMul", pair, [out]) for *pair, out in ("xWa", "hUb", "cVd")),
            helper.make_node("Add", ["a", "b"], ["e"]),
            helper.make_node("Tanh", ["e"], ["h_out"]),
            helper.make_node("Tanh", ["d"], ["c_out"]),
            helper.make_node("MatMul", ["h_out", "R"], ["y"]),
        ]
        values = {key: helper.make_tensor_value_info(key, TensorProto.FLOAT, [1, size])
                  for key, size in (("x", 3), ("h", 4), ("c", 4), ("h_out", 4), ("c_out", 4), ("y", 3))}  # fmt: skip
        graph = helper.make_graph(
            nodes, "net", [values[key] for key in "xhc"], [values[key] for key in ("y", "h_out", "c_out")], weights
        )
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
        onnx.save(made, folder / f"{name}.onnx")
        np.savez(folder / f"{name if seed else 'x'}.npz", x=random.normal(size=(60, 5, 1, 3)).astype(np.float32))
    return folder


@pytest.fixture(scope="module")
def base(folder: Path) -> Task:
    return task_of(folder)


def task_of(folder: Path, **given: Any) -> Task:
    request = SearchRequest(**{**{name: pair[0] for name, pair in FIELDS.items()}, **given})
    paths = {one.name: getattr(request, one.name) for one in fields(request)}
    placed = {name: folder / path for name, path in paths.items() if isinstance(path, Path)}
    request = replace(request, **placed, model=str(folder / request.model))
    return load_task(request, folder, lambda line: None, lambda trial, best: None, load_boards())


def scored(task: Task) -> tuple[object, ...]:
    """All that a score is made of: programs, samples, and what the float model says of them."""
    space, examples = task.problem.space, task.problem.evaluator.examples
    programs = [space.lower(space.uniform(choice)) for choice in (space.low, space.high)]
    constants = [array.tobytes() for program in programs for array in program.constants.values()]
    formats = [str(tensor.format) for program in programs for tensor in program.tensors.values()]
    return (
        constants,
        formats,
        [str(program.body) for program in programs],
        examples.x.tobytes(),
        examples.outputs.tobytes(),
    )


def planned(task: Task) -> tuple[object, ...]:
    """What a trial says beside its score."""
    low = task.problem.space.uniform(task.problem.space.low)
    return task.ram_bytes, task.problem.memory.planned_bytes(low), task.board, task.request.uses_board, task.measures


def test_every_option_is_spoken_of() -> None:
    assert set(FIELDS) == {one.name for one in fields(SearchRequest)}
    assert UNSCORED > UNKEYED
    assert set(FIELDS) >= UNSCORED


@pytest.mark.parametrize("name", [name for name in FIELDS if name != "evaluator"])
def test_what_changes_a_score_is_in_both_keys(name: str, base: Task, folder: Path) -> None:
    """And what changes a trial is in that of the trials. The evaluators are compared elsewhere."""
    if name in REFUSED:
        other = replace(base, request=replace(base.request, **{name: FIELDS[name][1]}))
    else:
        other = task_of(folder, **{name: FIELDS[name][1]})
    if scored(other) != scored(base):
        assert journal_path(other).name != journal_path(base).name
        assert other.key != base.key
    if planned(other) != planned(base) or name not in UNKEYED:
        assert other.key != base.key
    if name in UNSCORED.difference(HASHED_BY_CONTENT) and scored(other) == scored(base):
        assert journal_path(other).name == journal_path(base).name, "answers are shared"
