"""The onnx package's own backend tests of single operators, through the front end and the float reference.

Every case whose operators we support passes, or is listed in onnx_backend.yaml with the reason for which it is refused;
`PYTHONPATH=tests python tests/test_onnx_backend.py` counts them.
A case of several inputs becomes a model of one: the inputs are packed into a vector and cut out of it again. What may
not be computed at run time is tried as a constant next.
"""

from __future__ import annotations

import fnmatch
import re
import warnings
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import onnx
import pytest
import yaml
from onnx import TensorProto, helper, numpy_helper

from tinyhil.compiler.calibrate import calibrate
from tinyhil.compiler.lower import lower
from tinyhil.errors import DataError, HilError, ModelError
from tinyhil.frontend.onnx import model_of
from tinyhil.frontend.onnx_versions import OLDEST_OPSET
from tinyhil.frontend.rewrites import CONTROL, REWRITE_BY_NAME
from tinyhil.frontend.whole_types import INTEGERS
from tinyhil.language.assignment import Assignment
from tinyhil.language.graph import Graph
from tinyhil.ops import LOOP_BY_NAME, OPERATOR_BY_NAME
from tinyhil.references.evaluate import evaluate

LISTED = yaml.safe_load(Path(__file__).with_name("onnx_backend.yaml").read_text())
SUPPORTED = {*OPERATOR_BY_NAME, *LOOP_BY_NAME, *REWRITE_BY_NAME, *CONTROL, "Constant"}
GROUPS = ("ab", "c", "def", "gh", "ijkl", "mno", "pq", "r", "s", "tuvwxyz")
FOLDED = {"Shape", "Size", "ConstantOfShape", "Range", "Constant"}  # whatever depends on shapes only
MAX_ELEMENTS = 1 << 18
LOWERED = ("fixed16", "fixed8", "int8", "float32", "posit8es1")


@dataclass(frozen=True)
class Case:
    name: str
    model: onnx.ModelProto
    inputs: list[np.ndarray]
    outputs: list[np.ndarray]
    rtol: float
    atol: float


def operators(graph: onnx.GraphProto) -> Iterator[str]:
    for node in graph.node:
        yield node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}.{node.op_type}"
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from operators(attribute.g)


@lru_cache
def cases() -> tuple[Case, ...]:
    """Those of supported operators on plain tensors."""
    from onnx.backend.test.case.node import collect_testcases

    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        collected = collect_testcases(None)
    for case in collected:
        if not set(operators(case.model.graph)) <= SUPPORTED:
            continue
        inputs, outputs = case.data_sets[0]
        if all(isinstance(a, np.ndarray | np.generic) for a in (*inputs, *outputs)):
            arrays = [[np.asarray(a) for a in side] for side in (inputs, outputs)]
            found.append(Case(case.name, case.model, *arrays, rtol=case.rtol, atol=case.atol))
    return tuple(found)


def is_number(array: np.ndarray) -> bool:
    return array.dtype.kind in "fiub" or array.dtype.name in ("bfloat16", "float16")


def is_real(array: np.ndarray) -> bool:
    return array.dtype.kind == "f" or array.dtype.name == "bfloat16"


def choices(case: Case) -> Iterator[tuple[int, ...]]:
    """Which inputs are computed at run time: all, the real ones, the first real one, the first."""
    numbers = tuple(i for i, array in enumerate(case.inputs) if is_number(array) and array.size)
    reals = tuple(i for i in numbers if is_real(case.inputs[i]))
    yield from dict.fromkeys(chosen for chosen in (numbers, reals, reals[:1], numbers[:1]) if chosen)
    if set(operators(case.model.graph)) <= FOLDED:
        yield ()


def packed(
    case: Case, run_time: Sequence[int], output: int, anchored: bool = False
) -> tuple[onnx.ModelProto, np.ndarray]:
    """A model of one input and one output, and its input. `anchored`: zero times the input is added to the output,
    which may be constant otherwise."""
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    for entry in model.opset_import:
        if entry.domain == "":
            entry.version = max(entry.version, OLDEST_OPSET)
    graph, infos = model.graph, list(model.graph.input)
    nodes, constants, at = [], [], 0
    for index, (info, array) in enumerate(zip(infos, case.inputs, strict=True)):
        if index not in run_time:
            constants.append(numpy_helper.from_array(array, info.name))
            continue
        ends = {"begin": [at], "end": [at + array.size], "axis": [0], "shape": list(array.shape)}
        for what, values in ends.items():
            constants.append(numpy_helper.from_array(np.array(values, np.int64), f"packed.{what}{index}"))
        kind = info.type.tensor_type.elem_type if not is_real(array) else TensorProto.FLOAT
        names = [f"packed.{what}{index}" for what in ("begin", "end", "axis")]
        nodes += [
            helper.make_node("Slice", ["packed", *names], [f"packed.cut{index}"]),
            helper.make_node("Reshape", [f"packed.cut{index}", f"packed.shape{index}"], [f"packed.real{index}"]),
            helper.make_node("Cast", [f"packed.real{index}"], [info.name], to=kind),
        ]
        at += array.size
    result = graph.output[output]
    if anchored:
        at = max(at, 1)
        constants.append(numpy_helper.from_array(np.zeros((), np.float32), "packed.zero"))
        tail = [helper.make_node("Cast", [result.name], ["packed.known"], to=TensorProto.FLOAT)]
        tail.append(helper.make_node("Mul", ["packed", "packed.zero"], ["packed.nothing"]))
        tail.append(helper.make_node("ReduceSum", ["packed.nothing"], ["packed.sum"], keepdims=0))
        tail.append(helper.make_node("Add", ["packed.known", "packed.sum"], ["packed.result"]))
        graph.node.extend(tail)
        result.name = "packed.result"
    result.type.tensor_type.elem_type = TensorProto.FLOAT
    del graph.input[:], graph.output[:]
    graph.input.append(helper.make_tensor_value_info("packed", TensorProto.FLOAT, [at]))
    graph.output.append(result)
    graph.initializer.extend(constants)
    nodes += graph.node
    del graph.node[:]
    graph.node.extend(nodes)
    given = [case.inputs[i].astype(np.float32).reshape(-1) for i in run_time] or [np.zeros(1, np.float32)]
    return model, np.concatenate(given)[None]


def results(case: Case, run_time: Sequence[int]) -> list[np.ndarray]:
    """Every output the case names; HilError if the model is refused."""
    found = []
    for number, info in enumerate(case.model.graph.output):
        path = Path(f"{case.name}.{info.name}")
        try:
            model, x = packed(case, run_time, number, not run_time)
            graph = model_of(model, path, "").graph
        except ModelError as error:
            if "does not depend on the input" not in str(error):
                raise
            model, x = packed(case, run_time, number, True)
            graph = model_of(model, path, "").graph
        found.append(evaluate(graph, x)[0])
        require_lowered(case.name, graph, x)
    return found


def require_lowered(name: str, graph: Graph, x: np.ndarray) -> None:
    """Whatever loads compiles: nothing is refused only then. In one of several formats."""
    chosen = LOWERED[zlib.crc32(name.encode()) % len(LOWERED)]
    try:
        ranges = calibrate(graph, x, {})
    except DataError:  # results that are not finite
        return
    try:
        lower(graph, Assignment(chosen), ranges)
    except HilError as error:
        raise AssertionError(f"{name} loads, but in {chosen}: {error}") from None


def tolerance(case: Case, wanted: np.ndarray) -> tuple[float, float]:
    """Relative and absolute: the case's own, or what its narrower type permits; we compute in float32."""
    if wanted.dtype.name == "bfloat16":
        return 2e-2, 2e-2
    if wanted.dtype == np.float16:
        return 2e-3, 2e-3
    return max(case.rtol, 1e-4), max(case.atol, 1e-5)


def verdict(case: Case) -> str:
    """Empty, 'refused: ...' or what is wrong."""
    if max((a.size for a in (*case.inputs, *case.outputs)), default=0) > MAX_ELEMENTS:
        return "refused: too large for a test"
    reasons = []
    for run_time in choices(case):
        try:
            found = results(case, run_time)
        except HilError as error:
            reasons.append(str(error))
            continue
        for got, wanted in zip(found, case.outputs, strict=True):
            if got.shape != wanted.shape:
                return f"wrong: shape {got.shape}, not {wanted.shape}"
            rtol, atol = tolerance(case, wanted)
            if not np.allclose(got, wanted.astype(np.float64), rtol, atol, equal_nan=True):
                return f"wrong: {np.abs(got - wanted.astype(np.float64)).max()} off with {run_time} at run time"
        return ""
    if any(is_number(array) and not array.size for array in case.inputs):
        reasons.append("a tensor has no elements")
    return f"refused: {' | '.join(reasons) if reasons else 'no input of numbers'}"


def reason_for(name: str) -> dict[str, str] | None:
    return next((entry for entry in LISTED if fnmatch.fnmatchcase(name, entry["cases"])), None)


@pytest.mark.parametrize("letters", GROUPS)
def test_cases_pass_or_are_refused_for_the_reason_listed(letters: str) -> None:
    wrong = []
    for case in cases():
        if case.name.removeprefix("test_")[0] not in letters:
            continue
        said, listed = verdict(case), reason_for(case.name)
        if listed is None:
            if said:
                wrong.append(f"{case.name}: {said}")
        elif not re.search(listed["says"], said):
            wrong.append(f"{case.name}: listed, but {said or 'passes'}")
    assert not wrong, "\n".join(wrong)


def test_cases_of_integers_give_integers_or_are_refused() -> None:
    """As they are, with inputs of the types that they have: 7 / 2 is 3 there, or nothing."""
    compared, refused = 0, set()
    for case in cases():
        kinds = {info.type.tensor_type.elem_type for info in case.model.graph.input}
        if not kinds <= INTEGERS or not case.inputs or max(a.size for a in case.inputs) > MAX_ELEMENTS:
            continue
        try:
            graph = model_of(case.model, Path(case.name), "").graph
        except HilError as error:
            refused.add(case.name if "whole numbers at run time" in str(error) else "")
            continue
        flat = np.concatenate([array.reshape(-1) for array in case.inputs]).astype(np.float32)
        found = evaluate(graph, flat.reshape(1, *graph.shapes[graph.inputs[0]]))[0].reshape(-1)
        wanted = np.concatenate([array.reshape(-1) for array in case.outputs])
        np.testing.assert_array_equal(found, wanted, case.name)
        compared += 1
    assert compared > 20
    assert not [name for name in refused if "div" in name]


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
    assert standard - used <= {"Upsample"}


def test_a_wrong_result_would_be_found() -> None:
    case = next(case for case in cases() if case.name == "test_exp")
    assert verdict(case) == ""
    moved = Case(case.name, case.model, case.inputs, [case.outputs[0] * 1.01], case.rtol, case.atol)
    assert verdict(moved).startswith("wrong")


def main() -> None:
    """Prints how many of the package's node tests pass, are refused, and have operators that are not supported."""
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        total = len(collect_testcases(None))
    said = [verdict(case) for case in cases()]
    counts = {kind: sum(one.startswith(kind) for one in said) for kind in ("refused", "wrong")}
    equal, others = sum(not one for one in said), total - len(said)
    print(
        f"{equal} of {total} equal, {counts['refused']} refused, {counts['wrong']} wrong, {others} of other operators"
    )


if __name__ == "__main__":
    main()
