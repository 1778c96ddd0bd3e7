"""Small classifiers for the search: a dense network, and the worked example of MinUn's appendix B."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from onnx_models import load, node, simple

from tinyhil.compiler.calibrate import calibrate
from tinyhil.language.graph import Graph
from tinyhil.language.program import Program
from tinyhil.memplan.arena.placement import Placement, place
from tinyhil.search.engine.library import Engine, load_engine
from tinyhil.search.evaluator import Evaluator, Executor, NumpyExecutor, make_examples
from tinyhil.search.memory import Memory
from tinyhil.search.search_problem import SearchProblem
from tinyhil.search.space import make_space
from tinyhil.search.strategies import STRATEGIES
from tinyhil.search.strategies.ddpg import Ddpg
from tinyhil.search.strategies.milp import Milp
from tinyhil.search.strategies.ppo import Ppo

ROOT = Path(__file__).resolve().parent.parent
FORMATS = ("fixed8", "fixed16")
# Those that take any formats; the others choose 2 to 8 bits under an accelerator's costs (test_search_layers.py).
STRATEGY_NAMES = [strategy.name for strategy in STRATEGIES if strategy not in (Ddpg, Milp, Ppo)]
APART = frozenset({"in-place", "gaps", "order"})


def host_engine(cache: Path, threads: int | None = None) -> Engine:
    return load_engine(cache, threads)


def place_apart(program: Program) -> Placement:
    """No two live tensors share bytes, as in MinUn."""
    return place(program, APART)


def network(folder: Path, seed: int = 0, inner: int = 6) -> Graph:
    """x (1, 8) -> tanh -> relu -> 4 logits, with tensors of unequal size and range."""
    random = np.random.default_rng(seed)
    constants = {
        "W": random.normal(size=(8, inner)),
        "b": random.normal(size=(1, inner)),
        "V": 3 * random.normal(size=(inner, 5)),
        "R": random.normal(size=(5, 4)),
    }
    nodes = [
        node("MatMul", "x W", "t1"),
        node("Add", "t1 b", "t2"),
        node("Tanh", "t2", "t3"),
        node("MatMul", "t3 V", "t4"),
        node("Relu", "t4", "t5"),
        node("MatMul", "t5 R", "y"),
    ]
    return load(simple(nodes, {"x": (1, 8)}, constants), folder, f"net{seed}")


def worked_example(folder: Path) -> Graph:
    """t1 = W1 X1, t2 = t1 + B1 (MinUn, appendix B)."""
    constants = {"W1": [[-2.139562, 1.885351]], "B1": [[0.146048]]}
    nodes = [node("MatMul", "W1 X1", "t1"), node("Add", "t1 B1", "t2")]
    return load(simple(nodes, {"X1": (2, 1)}, constants, "t2"), folder, "worked")


def search_problem(
    graph: Graph,
    x: np.ndarray,
    limit_bytes: int,
    executor: Executor | None = None,
    formats: tuple[str, ...] = FORMATS,
) -> SearchProblem:
    space = make_space(graph, calibrate(graph, x, {"name": "test"}), formats)
    evaluator = Evaluator(executor or NumpyExecutor(), make_examples(graph, x, None))
    return SearchProblem(space, Memory(space, place_apart), evaluator, limit_bytes)


def network_problem(folder: Path, limit_bytes: int, seed: int = 0, executor: Executor | None = None) -> SearchProblem:
    x = np.random.default_rng(seed + 100).normal(size=(400, 1, 8)).astype(np.float32)
    return search_problem(network(folder, seed), x, limit_bytes, executor)


def formats_of(problem: SearchProblem, candidate: tuple[object, ...]) -> dict[str, str]:
    return {group.name: str(choice) for group, choice in zip(problem.space.groups, candidate, strict=True)}
