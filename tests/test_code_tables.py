"""Tables of codes stand for functions of one element, and for nothing else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx_models import compiled, load, node, samples_for, simple
from random_models import extreme_inputs

from tinyhil.language.program import walk
from tinyhil.ops.code_table import CODE_TABLE
from tinyhil.passes.code_tables import with_tables
from tinyhil.references.reference import run_reference


@pytest.mark.parametrize("default", ["fixed8", "int8"])
@pytest.mark.parametrize(
    ("op", "tables", "attrs"),
    [("Softmax", False, {"axis": -1}), ("Sigmoid", True, {}), ("Tanh", True, {}), ("Elu", True, {})],
)
@pytest.mark.parametrize("elements", [2, 4, 10])
def test_the_program_with_tables_computes_the_same(
    elements: int, op: str, tables: bool, attrs: dict[str, int], default: str, tmp_path: Path
) -> None:
    loaded = load(simple([node(op, "x", "y", **attrs)], {"x": (1, elements)}), tmp_path)
    program = compiled(loaded, samples_for(loaded.shapes["x"]), default)
    made = with_tables(program)
    inputs = extreme_inputs(program, elements)
    wanted, found = run_reference(program, inputs), run_reference(made, inputs)
    assert np.array_equal(found.outputs, wanted.outputs)
    assert np.array_equal(found.saturations, wanted.saturations)
    names = {one.kernel for one in walk(made.body)}
    if default == "fixed8":
        assert (CODE_TABLE.form in names) == tables
    elif not tables:
        assert CODE_TABLE.form not in names
