"""docs/measured/passes.md says of every pass that runs what it gains."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from benchmarks.passes_networks import NETWORKS
from tinyhil.passes.every import PASSES
from tools.measured import read
from tools.passes_table import LEAST

ROWS: list[Mapping[str, Any]] = read("passes")


@pytest.mark.parametrize("name", [one.name for one in PASSES])
def test_every_pass_gains_something_somewhere(name: str) -> None:
    """Cycles, bytes or error; or a network that fits with it alone. What gains nothing goes."""
    found = [(row["all"], row["without"][name]) for row in ROWS if name in row["without"]]
    assert any(
        other is None or any(value < other[figure] * (1 - LEAST) for figure, value in whole.items())
        for whole, other in found
    ), f"{name}: python -m benchmarks.passes, of a network of benchmarks/passes_networks.py that it is for"


def test_rows_are_of_passes_and_networks_that_there_are() -> None:
    assert {name for row in ROWS for name in row["without"]} <= {one.name for one in PASSES}
    assert {network.name for network in NETWORKS} <= {row["model"] for row in ROWS}
