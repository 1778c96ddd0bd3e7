"""Pruning while training: which weights, how many, and what the integer program has of it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hil_command import hil

torch = pytest.importorskip("torch")

from test_train import goes_on_as_if_nothing_had_happened, graph_of, job  # noqa: E402

from tinyhil.compiler.lower import lower  # noqa: E402
from tinyhil.errors import ConfigError  # noqa: E402
from tinyhil.harness.energy.session import AS_LISTS  # noqa: E402
from tinyhil.language.assignment import Assignment  # noqa: E402
from tinyhil.train.fit import train  # noqa: E402
from tinyhil.train.network import with_constants  # noqa: E402
from tinyhil.train.prune import Pruning, mask, matrices, parse_pruning  # noqa: E402

HALF = Pruning({"fc1_w": 0.5, "fc2_w": 0.25}, 2)


def test_the_smallest_go_first() -> None:
    weights = torch.tensor([[0.5, -0.1, 0.0], [-2.0, 0.1, 1.0]])
    assert mask(weights, 0.5).tolist() == [[1, 0, 0], [1, 0, 1]]
    assert mask(weights, 1 / 3).tolist() == [[1, 0, 0], [1, 1, 1]]  # of equal ones the first
    assert mask(weights, 0).min() == 1


def test_the_share_grows_by_the_cube() -> None:
    pruning = Pruning({"w": 0.8}, 4)
    assert [round(pruning.at(epoch)["w"], 4) for epoch in (1, 2, 3, 4, 5)] == [0.4625, 0.7, 0.7875, 0.8, 0.8]


def test_shares_of_all_and_of_one() -> None:
    graph = graph_of("digits_cnn")
    assert matrices(graph) == {"conv1_w", "conv2_w", "fc1_w"}
    found = parse_pruning(("conv1_w=0", "0.8", "fc1_w=.9"), graph, 5)
    assert found == Pruning({"conv2_w": 0.8, "fc1_w": 0.9}, 3)
    assert parse_pruning((), graph, 5) is None


@pytest.mark.parametrize("name", ["fastgrnn_fsdd", "protonn_usps2", "bonsai_usps2"])
def test_matrices_of_other_networks(name: str) -> None:
    """Weights of products, in loops too; no bias, and no prototypes, of which a zero saves nothing."""
    found = matrices(graph_of(name))
    assert found
    assert not [n for n in found if n.startswith(("b", "prototypes")) and n != "branch"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1", "a share below 1"),
        ("-0.5", "a share below 1"),
        ("x=0.5", "no matrix 'x'; there are conv1_w"),
        ("", "a share"),
    ],
)
def test_what_is_no_share_is_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_pruning((text,), graph_of("digits_cnn"), 3)


def test_zeros_are_in_the_integers_and_an_interrupted_training_has_the_same(tmp_path: Path) -> None:
    given = replace(job(4), pruning=HALF)
    whole = train(given)
    assert whole.best.number >= 2  # before that fewer are zero
    program = lower(with_constants(given.judge.graph, whole.constants), given.judge.assignment, whole.ranges, AS_LISTS)
    for name, share in HALF.shares.items():
        assert np.mean(whole.constants[name] == 0) >= share
        assert np.mean(program.constants[name] == 0) >= share
    assert goes_on_as_if_nothing_had_happened(given, whole, 3, tmp_path)


def test_a_format_without_zero_is_refused() -> None:
    given = job(1)
    with pytest.raises(ConfigError, match="'fc1_w' does not hold zero"):
        train(replace(given, judge=replace(given.judge, assignment=Assignment("binary")), pruning=HALF))


def test_hil_train_says_what_is_zero(tmp_path: Path) -> None:
    options = ["--epochs", "2", "--format", "fixed8", "--prune", "0.6", "--prune", "fc2_w=0.3", "--samples", "300"]
    done = hil("train", "--model", "digits_mlp", "--out", tmp_path / "m.onnx", *options, "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    zeros = json.loads(done.stdout)["zeros"]
    assert zeros["fc1_w"] >= 0.6
    assert 0.3 <= zeros["fc2_w"] < 0.6
    refused = hil("train", "--model", "digits_mlp", "--out", "m.onnx", "--prune", "fc3_w=0.5", cwd=tmp_path)
    assert refused.returncode == 2
    assert "no matrix 'fc3_w'; there are fc1_w, fc2_w" in refused.stderr
