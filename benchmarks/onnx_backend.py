"""The onnx package's own backend tests of single operators, through the front end and the float reference.

    python -m benchmarks.onnx_backend [--list] [--only PATTERN] [--write]

Prints how many are equal and refused, `--list` what the refusals say, of those whose names `--only` matches; exits with
1 if one is wrong. A case of several inputs becomes a model of one: the inputs are packed into a vector and cut out of
it again. What may not be computed at run time is tried as a constant next. Whatever loads has to compile, in one of
several formats, too. The float reference alone is given NaN and infinities, which no board takes as inputs.
"""

from __future__ import annotations

import argparse
import re
import sys
import warnings
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tinyhil.compiler.calibrate import calibrate
from tinyhil.compiler.lower import lower
from tinyhil.errors import DataError, HilError, ModelError
from tinyhil.frontend.classical import REWRITES as CLASSICAL
from tinyhil.frontend.onnx import model_of
from tinyhil.frontend.onnx_functions import is_function
from tinyhil.frontend.onnx_outputs import ML_DOMAIN
from tinyhil.frontend.onnx_versions import OLDEST_OPSET
from tinyhil.frontend.rewrites import CONTROL, REWRITE_BY_NAME
from tinyhil.language.assignment import Assignment
from tinyhil.language.graph import Graph
from tinyhil.ops import LOOP_BY_NAME, OPERATOR_BY_NAME
from tinyhil.references.evaluate import evaluate
from tools.measured import provenance, write

SUPPORTED = {*OPERATOR_BY_NAME, *LOOP_BY_NAME, *REWRITE_BY_NAME, *CONTROL, "Constant"}
SUPPORTED |= {f"{ML_DOMAIN}.{name}" for name in CLASSICAL}
# Whatever depends on shapes only
FOLDED = {"Shape", "Size", "ConstantOfShape", "Range", "Constant", "OptionalHasElement"}
SIZES = re.compile("test_(range|(blackman|hamming|hann)window|melweightmatrix)")  # what sizes alone make
MAX_ELEMENTS = 1 << 18
LOWERED = ("fixed16", "fixed8", "int8", "float32", "posit8es1")
EQUAL, REFUSED, WRONG = "equal", "refused", "wrong"


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
    """All of them, but for those on sequences and optionals, and those of training (`of_other_types`)."""
    return tuple(case for case in _collected() if isinstance(case, Case))


def of_other_types() -> tuple[str, ...]:
    """Names of cases whose values are no tensors."""
    return tuple(case for case in _collected() if isinstance(case, str))


@lru_cache
def _collected() -> tuple[Case | str, ...]:
    from onnx.backend.test.case.node import collect_testcases

    found: list[Case | str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        collected = list[Any](collect_testcases(None))
    for case in collected:
        inputs, outputs = case.data_sets[0]
        if all(isinstance(a, np.ndarray | np.generic | TensorProto) for a in (*inputs, *outputs)):
            given, wanted = ([_array(a) for a in side] for side in (inputs, outputs))
            found.append(Case(case.name, case.model, given, wanted, rtol=case.rtol, atol=case.atol))
        else:
            found.append(case.name)
    return tuple(found)


def _array(value: np.ndarray | np.generic | TensorProto) -> np.ndarray:
    return numpy_helper.to_array(value) if isinstance(value, TensorProto) else np.asarray(value)


def is_known(case: Case) -> bool:
    """Whether we have all its operators, or what ONNX defines them by."""
    opset = max((entry.version for entry in case.model.opset_import if not entry.domain), default=OLDEST_OPSET)
    return all(op in SUPPORTED or is_function(op, opset) for op in operators(case.model.graph))


def is_number(array: np.ndarray) -> bool:
    return array.dtype.kind in "fiub" or array.dtype.name.startswith(("bfloat16", "float8", "float4", "int", "uint"))


def is_real(array: np.ndarray) -> bool:
    return array.dtype.name in ("float16", "bfloat16", "float32", "float64")


def choices(case: Case) -> Iterator[tuple[int, ...]]:
    """Which inputs are computed at run time: all, the real ones, the first real one, the first."""
    numbers = tuple(i for i, array in enumerate(case.inputs) if is_number(array) and array.size)
    reals = tuple(i for i in numbers if is_real(case.inputs[i]))
    yield from dict.fromkeys(chosen for chosen in (numbers, reals, reals[:1], numbers[:1]) if chosen)
    if set(operators(case.model.graph)) <= FOLDED or SIZES.match(case.name):
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
    if all(entry.domain for entry in model.opset_import):  # of ai.onnx.ml alone
        model.opset_import.append(helper.make_opsetid("", OLDEST_OPSET))
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
        found.append(evaluate(graph, x, finite=False)[0])
        require_lowered(case.name, graph, np.where(np.isfinite(x), x, 0))
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


def is_defined(case: Case, wanted: np.ndarray) -> np.ndarray:
    """Which elements ONNX says something about: of a real number that an integer does not hold, Cast says nothing."""
    is_cast = {*operators(case.model.graph)} <= {"Cast", "CastLike"}
    if not is_cast or not is_number(wanted) or "float" in wanted.dtype.name or not is_real(case.inputs[0]):
        return np.ones(wanted.shape, bool)
    ends, real = ml_dtypes.iinfo(wanted.dtype), case.inputs[0].astype(np.float64)
    return (real > int(ends.min) - 1) & (real < int(ends.max) + 1)


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
            got, real = np.where(is_defined(case, wanted), (got, wanted.astype(np.float64)), 0)
            if not np.allclose(got, real, rtol, atol, equal_nan=True):
                return f"wrong: {np.abs(got - real).max()} off with {run_time} at run time"
        return ""
    if any(is_number(array) and not array.size for array in case.inputs):
        reasons.append("a tensor has no elements")
    return f"refused: {' | '.join(reasons) if reasons else 'no input of numbers'}"


def table(pattern: str = "") -> dict[str, str]:
    """Name of every case that `pattern` matches somewhere -> empty, or what is said of it."""
    said = {case.name: verdict(case) for case in cases() if re.search(pattern, case.name)}
    others = [name for name in of_other_types() if re.search(pattern, name)]
    return said | dict.fromkeys(others, f"{REFUSED}: values that are no tensors")


def kind_of(said: str) -> str:
    """EQUAL, REFUSED or WRONG."""
    return said.split(":")[0] or EQUAL


def main() -> int:
    """Prints the counts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--list", action="store_true", help="a line for every case that is not equal")
    parser.add_argument("--only", default="", help="a pattern of names")
    parser.add_argument("--write", action="store_true", help="keep the counts in results/onnx_backend.json")
    arguments = parser.parse_args()
    measured_at = provenance() if arguments.write else {}
    said = table(arguments.only)
    counts = Counter(kind_of(one) for one in said.values())
    if arguments.list:
        print(*(f"{name}: {one}" for name, one in said.items() if one), sep="\n")
    print(f"{counts[EQUAL]} of {len(said)} equal, {counts[REFUSED]} refused, {counts[WRONG]} wrong")
    if arguments.write:
        kinds = {kind: counts[kind] for kind in (EQUAL, REFUSED, WRONG)}
        write("onnx_backend", measured_at, {"onnx": onnx.__version__, "cases": len(said), **kinds})
    return 1 if counts[WRONG] else 0


if __name__ == "__main__":
    sys.exit(main())
