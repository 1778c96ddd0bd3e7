"""Sensitivities without integer runs: what each tensor's own error foretells, held to what the runs say."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from search_models import network_problem

from tinyhil.formats import named
from tinyhil.formats.codec import dequantize, quantize
from tinyhil.search import tradeoffs
from tinyhil.search.layerwise_errors import layerwise_losses
from tinyhil.search.search_loop import Budget, search
from tinyhil.search.space import CONSTANT, Choice
from tinyhil.search.strategies import make_strategy

FORMATS = ("fixed4", "fixed6", "fixed8", "fixed8pc", "kmeans16", "posit8es1")


def test_a_constant_costs_its_own_error(tmp_path: Path) -> None:
    """One format for the whole tensor: its share by hand."""
    problem = network_problem(tmp_path, 40)
    space, outputs = problem.space, problem.evaluator.examples.outputs.astype(float)
    at = next(number for number, group in enumerate(space.groups) if group.role == CONSTANT and group.is_matrix)
    values = space.graph.all_constants()[space.groups[at].name].astype(float)
    for name in ("fixed4", "fixed8"):
        fmt = named(name).fit(float(np.abs(values).max()))
        share = ((dequantize(quantize(values, fmt)[0], fmt) - values) ** 2).sum() / (values**2).sum()
        found = layerwise_losses(space, problem.evaluator, [(at, Choice(name))])
        assert found[at, Choice(name)] == pytest.approx(share * (outputs**2).mean())


def test_fewer_bits_and_coarser_scales_cost_more(tmp_path: Path) -> None:
    problem = network_problem(tmp_path, 40)
    asked = [(at, Choice(name)) for at in range(len(problem.space.groups)) for name in FORMATS]
    found = layerwise_losses(problem.space, problem.evaluator, asked)
    for at in range(len(problem.space.groups)):
        assert found[at, Choice("fixed4")] > found[at, Choice("fixed6")] > found[at, Choice("fixed8")] > 0
        assert found[at, Choice("fixed8pc")] <= found[at, Choice("fixed8")]


@pytest.mark.parametrize("seed", range(3))
def test_what_matters_most_by_integer_runs_matters_by_its_own_error(seed: int, tmp_path: Path) -> None:
    """Rank correlation of both over tensors and formats."""
    problem = network_problem(tmp_path, 40, seed)
    space, wide = problem.space, problem.space.uniform(Choice("fixed16"))
    asked = [(at, Choice(name)) for at in sorted(space.present(wide)) for name in ("fixed4", "fixed6", "fixed8")]
    base = problem.evaluator.score(space.lower(wide)).loss
    runs = [problem.evaluator.score(space.lower(space.with_choices(wide, {a: c}))).loss - base for a, c in asked]
    own = [layerwise_losses(space, problem.evaluator, [which])[which] for which in asked]
    ranks = [np.argsort(np.argsort(values)) for values in (runs, own)]
    assert np.corrcoef(*ranks)[0, 1] > 0.7


def test_a_search_of_a_large_network_asks_about_no_tensor_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And still finds an answer that fits; the narrow tensors are those of least error."""
    problem = network_problem(tmp_path, 22)
    measured = search(make_strategy("lagrange", ()), problem, budget=Budget(evaluations=4))
    monkeypatch.setattr(tradeoffs, "MOST_PRODUCTS", 1)
    found = search(make_strategy("lagrange", ()), replace(problem, answers={}))
    before = [next(t.number for t in one.trials if t.kind != "probe") for one in (found, measured)]
    assert before[0] < before[1] - len(problem.memory.least()) // 2
    assert found.best.fits
    uniform = problem.evaluator.score(problem.space.lower(problem.space.uniform(Choice("fixed8"))))
    assert found.best.score.disagreements < uniform.disagreements
