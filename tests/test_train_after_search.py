"""What a search hands to training."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

pytest.importorskip("torch")

from test_train import DIGITS, graph_of

from tinyhil.assignment import load_assignment
from tinyhil.calibrate import calibrate
from tinyhil.harness.search.request import SearchRequest
from tinyhil.harness.search.task import write_assignment
from tinyhil.harness.train.after_search import alternate
from tinyhil.search.evaluator import Score
from tinyhil.search.space import Choice, make_space
from tinyhil.search.trial import Trial


@pytest.mark.parametrize("clipped", [(), ("fc1_w",), ("fc1_w", "relu1")])
def test_weights_are_not_clipped_twice(clipped: tuple[str, ...], tmp_path: Path) -> None:
    """What is clipped besides weights stays so, and the file that was found stays as it is."""
    graph = graph_of("digits_mlp")
    space = make_space(graph, calibrate(graph, DIGITS.x_train[:100], {}), ("fixed4", "fixed8"))
    candidate = tuple(
        Choice("fixed4", -1) if {*group.members} & {*clipped} else Choice("fixed8") for group in space.groups
    )
    best = Trial(0, candidate, "full", 42, True, Score(100, 3, 97, 0, 0.1))
    path = tmp_path / "found.yaml"
    write_assignment(path, space, best)
    before = path.read_bytes()
    asked = []
    outcome = SimpleNamespace(record={"assignment_file": str(path)}, space=space, found=SimpleNamespace(best=best))
    alternate(SearchRequest("digits_mlp"), 3, 1, lambda _: outcome, asked.append)  # type: ignore[arg-type]
    given = load_assignment(asked[0].assignment, graph)
    wanted = load_assignment(path, graph)
    expected = {name: offset for name, offset in wanted.offsets.items() if name not in graph.all_constants()}
    assert path.read_bytes() == before
    assert given == replace(wanted, offsets=expected)
    assert (asked[0].assignment == path) == ("fc1_w" not in clipped)
    assert ("offsets" in yaml.safe_load(asked[0].assignment.read_text())) == bool(expected)
