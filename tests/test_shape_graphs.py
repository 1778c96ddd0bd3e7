"""Published networks and small models: what the passes and Algorithm X are worth on them."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.shape_graphs import MIXES, NETWORKS, Shapes, squeezenet_with
from benchmarks.small_models import MODELS, REPORTED, instance
from tinyhil import memplan
from tinyhil.memplan.algorithm_x import cover, encode
from tinyhil.memplan.arena.passes import ALL_NAMES
from tinyhil.memplan.arena.placement import place
from tinyhil.memplan.arena.tensors import problem_of
from tinyhil.memplan.blocks import FOUND
from tinyhil.memplan.csv import read_problem

ROOT = Path(__file__).resolve().parents[1]

NONE, IN_PLACE = ALL_NAMES, ALL_NAMES - {"in-place"}


@pytest.fixture(autouse=True)
def _sizes_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """These programs have shapes and no weights."""
    monkeypatch.delenv("HIL_VERIFY")


@pytest.mark.parametrize(("name", "saved"), [("SqueezeNet 1.1", 0.35), ("ResNet-50", 0.2), ("YOLOv5s", 0.2)])
def test_in_place_lowers_the_peak_of_unfused_networks(name: str, saved: float) -> None:
    program = dict(NETWORKS)[name](Shapes())
    plain, shared = place(program, NONE).plan, place(program, IN_PLACE).plan
    assert shared.peak_bytes <= (1 - saved) * plain.peak_bytes
    assert plain.proven
    assert shared.proven


@pytest.mark.parametrize("name", [name for name, _ in NETWORKS])
def test_no_pass_raises_a_network_s_peak(name: str) -> None:
    program = dict(NETWORKS)[name](Shapes())
    steps = [NONE, IN_PLACE, ALL_NAMES - {"in-place", "views"}, {"rows"}, set()]
    peaks = [place(program, passes).plan.peak_bytes for passes in steps]
    assert peaks == sorted(peaks, reverse=True)


@pytest.mark.parametrize("width", ["8", *MIXES])
def test_squeezenet_needs_less_than_published(width: str) -> None:
    """MinUn: 1.44 MB with first-fit, 1.16 MB with Algorithm X."""
    program = squeezenet_with(width, fused=True)
    plain = problem_of(program, in_place=False, views=False)
    first_fit, cover = (memplan.plan(plain, name).peak_bytes for name in ("first-fit", "algorithm-x"))
    ours = place(program).plan.peak_bytes
    assert ours < cover < first_fit
    assert ours < 850_000
    assert place(program, {"views"}).plan.peak_bytes >= ours


def test_published_sizes_of_the_small_instances() -> None:
    found = {}
    for name in REPORTED:
        problem = read_problem(ROOT / "benchmarks" / "instances" / f"{name}.csv")
        found[name] = tuple(memplan.plan(problem, planner).peak_bytes for planner in ("first-fit", "algorithm-x"))
    assert found == REPORTED


@pytest.mark.parametrize("name", MODELS)
def test_algorithm_x_alone_is_optimal_within_20_000_steps(name: str) -> None:
    """The planner, and the exact cover without a greedy plan to begin with."""
    problem = read_problem(ROOT / "benchmarks" / "instances" / f"{name}.csv")
    assert problem == instance(name)
    best = memplan.plan(problem)
    assert best.proven
    assert best.peak_bytes < memplan.plan(problem, "first-fit").peak_bytes
    found = memplan.plan(problem, "algorithm-x")
    assert (found.peak_bytes, found.proven) == (best.peak_bytes, True)
    encoding = encode(problem, best.peak_bytes)
    assert cover(encoding, best.peak_bytes // encoding.unit, 20_000, None)[0] == FOUND
