"""The onnx package's own backend tests of single operators (benchmarks/onnx_backend.py).

Every case whose operators we support passes, or is listed in onnx_backend.yaml with the reason for which it is refused.
"""

from __future__ import annotations

import fnmatch
import re
from pathlib import Path

import numpy as np
import onnx
import pytest
import yaml

from benchmarks.onnx_backend import MAX_ELEMENTS, SUPPORTED, Case, cases, is_known, operators, verdict
from tinyhil.errors import HilError, ModelError
from tinyhil.frontend.onnx import model_of
from tinyhil.frontend.whole_types import INTEGERS
from tinyhil.references.evaluate import evaluate

LISTED = yaml.safe_load(Path(__file__).with_name("onnx_backend.yaml").read_text())
GROUPS = ("ab", "c", "def", "gh", "ijkl", "mno", "pq", "r", "s", "tuvwxyz")


def reason_for(name: str) -> dict[str, str] | None:
    return next((entry for entry in LISTED if fnmatch.fnmatchcase(name, entry["cases"])), None)


@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.slow)])  # a third of them is usual
@pytest.mark.parametrize("letters", GROUPS)
def test_cases_pass_or_are_refused_for_the_reason_listed(letters: str, every: int) -> None:
    wrong = []
    begun = [case for case in cases() if is_known(case) and case.name.removeprefix("test_")[0] in letters]
    for case in begun[::every]:
        said, listed = verdict(case), reason_for(case.name)
        if listed is None:
            if said:
                wrong.append(f"{case.name}: {said}")
        elif not re.search(listed["says"], said):
            wrong.append(f"{case.name}: listed, but {said or 'passes'}")
    assert not wrong, "\n".join(wrong)


FOLDED_WHOLE = {"test_melweightmatrix"}  # from constant sizes, before anybody asks for its operator


def test_what_we_lack_is_refused_in_a_sentence() -> None:
    lacking = [case for case in cases() if not is_known(case)]
    said = {case.name: verdict(case) for case in lacking}
    assert {name for name, one in said.items() if not one.startswith("refused: ") or "\n" in one} == FOLDED_WHOLE


def test_cases_of_integers_give_integers_or_are_refused() -> None:
    """As they are, with inputs of the types that they have: 7 / 2 is 3 there."""
    compared = set()
    for case in cases():
        kinds = {info.type.tensor_type.elem_type for info in case.model.graph.input}
        if not kinds <= INTEGERS or not case.inputs or max(a.size for a in case.inputs) > MAX_ELEMENTS:
            continue
        try:
            graph = model_of(case.model, Path(case.name), "").graph
        except HilError:
            continue
        flat = np.concatenate([array.reshape(-1).astype(np.int64) for array in case.inputs])
        found = evaluate(graph, flat.reshape(1, *graph.shapes[graph.inputs[0]]))[0].reshape(-1)
        wanted = np.concatenate([array.reshape(-1) for array in case.outputs])
        np.testing.assert_array_equal(found, wanted, case.name)
        compared.add(case.name)
    assert len(compared) > 30
    assert compared >= {f"test_div_{kind}" for kind in ("int8", "uint8", "int16", "int32_trunc")}


def test_every_entry_of_the_list_is_needed_and_explained() -> None:
    names = [case.name for case in cases()]
    for entry in LISTED:
        assert set(entry) == {"cases", "says", "reason"}
        assert len(entry["reason"]) > 10
        assert fnmatch.filter(names, entry["cases"]), entry


def test_the_suite_is_large_and_new() -> None:
    """Every operator of ours that the package tests is in it, up to the newest opset."""
    assert len(cases()) > 700
    versions = {entry.version for case in cases() for entry in case.model.opset_import if entry.domain == ""}
    assert max(versions) == onnx.defs.onnx_opset_version() or max(versions) >= 23
    used = {op for case in cases() for op in operators(case.model.graph)}
    standard = {op for op in SUPPORTED if onnx.defs.has(op)}
    assert standard - used <= {"GlobalLpPool", "Upsample"}  # the package has no case of these


def test_a_function_that_onnx_has_no_nodes_for_is_one_line() -> None:
    """A body without results: FlexAttention's scores would go nowhere."""
    case = next(case for case in cases() if case.name == "test_flexattention_score_mod")
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    (body,) = (attribute.g for attribute in model.graph.node[0].attribute if attribute.g.node)
    del body.output[:]
    with pytest.raises(ModelError, match=r"\(FlexAttention\): ONNX has no nodes for these operands and attributes"):
        model_of(model, Path("m.onnx"), "")


def test_a_wrong_result_would_be_found() -> None:
    case = next(case for case in cases() if case.name == "test_exp")
    assert verdict(case) == ""
    moved = Case(case.name, case.model, case.inputs, [case.outputs[0] * 1.01], case.rtol, case.atol)
    assert verdict(moved).startswith("wrong")
