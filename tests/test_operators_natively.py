"""Every operator on every kind of element: generated code compiles and gives the reference's integers."""

from __future__ import annotations

from pathlib import Path

import pytest
from kernel_cases import Case, first_difference, run_natively
from onnx_models import samples_for
from test_ops_engine import graphs
from test_rows_domains import KINDS

from tinyhil.compiler.calibrate import calibrate
from tinyhil.compiler.lower import lower
from tinyhil.errors import ConfigError, ModelError
from tinyhil.language.assignment import Assignment
from tinyhil.language.graph import Graph
from tinyhil.references.reference import quantize_inputs

QUICK = ("posit8es0", "float16")


def case(name: str, graph: Graph, default: str) -> Case | None:
    """None where the format is not possible."""
    x = samples_for(graph.shapes[graph.inputs[0]], 3, 8)
    try:
        program = lower(graph, Assignment(default), calibrate(graph, x, {}))
    except (ModelError, ConfigError):
        return None
    return Case(name, program, quantize_inputs(program, x)[0])


@pytest.mark.parametrize("default", [k if k in QUICK else pytest.param(k, marks=pytest.mark.slow) for k in KINDS])
def test_every_operator_natively(default: str, tmp_path: Path) -> None:
    tables = graphs(tmp_path)
    cases = [made for name, graph in tables.items() if (made := case(name, graph, default)) is not None]
    assert len(cases) > 0.9 * len(tables)
    assert first_difference(cases, run_natively(cases, tmp_path)) == ""
