"""Every operator: its float reference against onnxruntime, its integers against exact arithmetic, its width proof."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx_models import given_ranges, load, node, onnxruntime_outputs, samples_for, simple

from tinyhil.codegen.kernel_calls import name_of
from tinyhil.compiler.calibrate import Ranges, calibrate
from tinyhil.compiler.lower import formats, lower
from tinyhil.errors import ModelError
from tinyhil.formats.codec import dequantize, quantize
from tinyhil.formats.fixed import Fixed
from tinyhil.language.assignment import Assignment
from tinyhil.language.form import Limit
from tinyhil.language.graph import Graph
from tinyhil.language.program import Op, Program
from tinyhil.ops import activation as activations
from tinyhil.ops import elementwise, linear, shape
from tinyhil.ops.activation import WORST_ULP
from tinyhil.references.evaluate import evaluate
from tinyhil.references.reference import dequantize_outputs, quantize_inputs, run_reference

Exact = Callable[[np.ndarray, Mapping[str, np.ndarray]], np.ndarray]


@dataclass(frozen=True)
class Case:
    """A model around one operator. `exact` is the same function in numpy."""

    name: str
    nodes: list[onnx.NodeProto]
    shape: tuple[int, ...]
    exact: Exact
    constants: Mapping[str, Any] = field(default_factory=dict)
    ulp: float = 0.5

    @property
    def model(self) -> onnx.ModelProto:
        return simple(self.nodes, {"x": self.shape}, self.constants)


def rnd(*shape: int, scale: float = 1.0) -> np.ndarray:
    return (np.random.default_rng(sum(shape) + len(shape)).normal(size=shape) * scale).astype(np.float32)


def views(*shapes: tuple[int, ...]) -> tuple[list[onnx.NodeProto], dict[str, Any]]:
    """Nodes that show the input x as a, b, ... of other shapes: several run-time operands without any arithmetic."""
    names = "ab"[: len(shapes)]
    nodes = [node("Reshape", f"x {n}_shape", n) for n in names]
    return nodes, {f"{n}_shape": list(shape) for n, shape in zip(names, shapes, strict=True)}


def matmul_cases() -> list[Case]:
    const_right = [((1, 5), (5, 3)), ((4, 5), (5, 3)), ((1, 4, 5), (5, 3)), ((2, 3, 4), (4, 1)), ((5,), (5, 3))]
    const_left = [((5, 1), (3, 5)), ((5,), (3, 5)), ((1, 5, 1), (3, 5)), ((5, 4), (3, 5))]
    cases = [
        Case(f"matmul {a} const {b}", [node("MatMul", "x w", "y")], a, lambda x, c: x @ c["w"], {"w": rnd(*b)})
        for a, b in [*const_right, ((1, 2, 4), (1, 4, 3)), ((4,), (1, 4, 3))]
    ]
    column = lambda x, c: x @ next(iter(c.values()))  # noqa: E731  (a vector is read as a column, under a name of its own)
    cases.append(Case("matmul (3, 4) const (4,)", [node("MatMul", "x w", "y")], (3, 4), column, {"w": rnd(4)}))
    cases += [
        Case(f"matmul const {b} {a}", [node("MatMul", "w x", "y")], a, lambda x, c: c["w"] @ x, {"w": rnd(*b)})
        for a, b in const_left
    ]
    for a, b in [((3, 4), (4, 3)), ((12,), (12,)), ((1, 12), (12, 1)), ((12, 1), (1, 12)), ((1, 3, 4), (4, 3))]:
        reshape, constants = views(a, b)
        exact = lambda x, c, a=a, b=b: x.reshape(a) @ x.reshape(b)  # noqa: E731
        cases.append(Case(f"matmul {a} {b}", [*reshape, node("MatMul", "a b", "y")], (1, 12), exact, constants))
    return cases


def gemm_cases() -> list[Case]:
    def gemm(x: np.ndarray, c: Mapping[str, np.ndarray]) -> np.ndarray:
        return x @ c["w"] + c["b"]

    cases = [
        Case(
            f"gemm {rows} bias {bias}", [node("Gemm", "x w b", "y")], (rows, 5), gemm, {"w": rnd(5, 3), "b": rnd(*bias)}
        )
        for rows, bias in [(1, (3,)), (1, (1, 3)), (4, (3,)), (4, (1,)), (1, ()), (1, (1, 1))]
    ]
    constants = {"w": rnd(3, 5), "b": rnd(3, scale=100.0)}
    transposed = lambda x, c: x @ c["w"].T + c["b"]  # noqa: E731
    cases.append(Case("gemm transB", [node("Gemm", "x w b", "y", transB=1)], (2, 5), transposed, constants))
    constants = {"w": rnd(5, 3, scale=100.0), "b": rnd(3, scale=1e-6)}
    cases.append(Case("gemm fine bias", [node("Gemm", "x w b", "y")], (2, 5), gemm, constants))
    plain = lambda x, c: x @ c["w"]  # noqa: E731
    cases.append(Case("gemm no bias", [node("Gemm", "x w", "y")], (2, 5), plain, {"w": rnd(5, 3)}))
    return cases


def elementwise_cases() -> list[Case]:
    cases = []
    for op, f in {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply}.items():
        for a, b in [
            ((1, 4), (4,)),
            ((3, 4), (1, 4)),
            ((1, 3, 4), (3, 4)),
            ((3, 4), ()),
            ((3, 4), (1, 1)),
            ((4,), (3, 4)),
        ]:
            for order, words in enumerate(("x w", "w x")):
                exact = lambda x, c, f=f, order=order: f(*((x, c["w"]) if order == 0 else (c["w"], x)))  # noqa: E731
                cases.append(Case(f"{op} {a} {b} {order}", [node(op, words, "y")], a, exact, {"w": rnd(*b, scale=7.0)}))
        for a, b in [((12,), (12,)), ((1, 12), (12,)), ((3, 4), (1, 3, 4))]:
            reshape, constants = views(a, b)
            exact = lambda x, c, f=f, a=a, b=b: f(x.reshape(a), x.reshape(b))  # noqa: E731
            cases.append(Case(f"{op} {a} {b} views", [*reshape, node(op, "a b", "y")], (1, 12), exact, constants))
        inner = lambda x, c, f=f: f(x, c["w"])  # noqa: E731
        cases.append(Case(f"{op} inner", [node(op, "x w", "y")], (3, 4), inner, {"w": rnd(3, 1)}))
    cases.append(Case("Relu", [node("Relu", "x", "y")], (3, 4), lambda x, c: np.maximum(x, 0)))
    return cases


def activation_cases() -> list[Case]:
    logistic = lambda x, c: 1 / (1 + np.exp(-x))  # noqa: E731
    return [
        Case("Sigmoid", [node("Sigmoid", "x", "y")], (1, 40), logistic, ulp=WORST_ULP["Sigmoid"]),
        Case("Tanh", [node("Tanh", "x", "y")], (1, 40), lambda x, c: np.tanh(x), ulp=WORST_ULP["Tanh"]),
    ]


def shape_cases() -> list[Case]:
    table: list[tuple[str, str, dict[str, Any], list[int] | None]] = [
        ("Identity", "x", {}, None),
        ("Dropout", "x", {}, None),
        ("Reshape", "x s", {}, [4, -1]),
        ("Reshape", "x s", {}, [0, 0, 3, 2]),
        ("Reshape", "x s", {"allowzero": 1}, [2, 6]),
        ("Flatten", "x", {}, None),
        ("Flatten", "x", {"axis": 0}, None),
        ("Flatten", "x", {"axis": 2}, None),
        ("Flatten", "x", {"axis": -1}, None),
        ("Squeeze", "x", {}, None),
        ("Squeeze", "x s", {}, [0]),
        ("Squeeze", "x s", {}, [-4]),
        ("Unsqueeze", "x s", {}, [0]),
        ("Unsqueeze", "x s", {}, [-1, 1]),
        ("Unsqueeze", "x s", {}, [2, 0, -1]),
    ]
    # the Add behind the view is exact in its own format: y = v + 0
    return [
        Case(
            f"{op} {attrs} {shape}",
            [node(op, words, "v", **attrs), node("Add", "v zero", "y")],
            (1, 2, 2, 3),
            lambda x, c: x,
            {"zero": 0.0, **({} if shape is None else {"s": shape})},
        )
        for op, words, attrs, shape in table
    ]


CASES = [*matmul_cases(), *gemm_cases(), *elementwise_cases(), *activation_cases(), *shape_cases()]
MIXES = [{}, {"x": "fixed8"}, {"y": "fixed8"}, {"w": "fixed8"}, {"x": "fixed8", "y": "fixed8"}, {"b": "fixed8"}]


def by_name(cases: list[Case]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", cases, ids=lambda case: case.name.replace(" ", "_"))


def test_the_table_covers_every_operator() -> None:
    families = (activations, elementwise, linear, shape)  # test_ops_shapes.py and test_ops_windows.py have the others
    operators = {operator.name for family in families for operator in family.OPERATORS}
    assert {n.op_type for case in CASES for n in case.nodes} == operators


@by_name(CASES)
def test_float_reference_against_onnxruntime(case: Case, tmp_path: Path) -> None:
    x = samples_for(case.shape, scale=2.0)
    graph = load(case.model, tmp_path)
    ours = evaluate(graph, x)
    assert ours.shape[1:] == graph.shapes["y"]
    np.testing.assert_allclose(ours.reshape(len(x), -1), onnxruntime_outputs(case.model, x), rtol=1e-5, atol=1e-5)


def exceptions_for(graph: Graph, mix: Mapping[str, str]) -> dict[str, str]:
    """Those entries of `mix` that this model has."""
    return {name: fmt for name, fmt in mix.items() if name in graph.all_shapes()}


def whole_tensors(graph: Graph, x: np.ndarray, source: dict[str, object]) -> Ranges:
    """One range for all columns of an input: what columns of their own do is for tests/test_columns.py."""
    return replace(calibrate(graph, x, source), columns={})


def check_against_exact(case: Case, graph: Graph, assignment: Assignment) -> None:
    """The integers are the exact result on the same quantized operands, rounded once (or within the stated bound)."""
    x = samples_for(case.shape, count=6, scale=2.0)
    ranges = whole_tensors(graph, x, {})
    program = lower(graph, assignment, ranges)
    chosen = formats(graph, assignment, ranges)
    integers, _ = quantize_inputs(program, x)
    run = run_reference(program, integers)
    out = program.tensors[program.output].format
    constants = {n: dequantize(quantize(a, chosen[n])[0], chosen[n]) for n, a in graph.constants.items()}
    step = 2.0**out.exponent
    tolerance = case.ulp * step
    if "b" in constants:  # a bias finer than the accumulator is rounded into its scale
        tolerance += 2.0 ** (chosen["x"].exponent + chosen["w"].exponent - 1)
    for sample, got in zip(dequantize(integers, chosen["x"]), dequantize_outputs(program, run.outputs), strict=True):
        wanted = case.exact(sample.reshape(case.shape), constants).reshape(-1)
        wanted = np.clip(wanted, out.lowest * step, out.highest * step)
        assert np.abs(got - wanted).max() <= tolerance * (1 + 1e-9)


@pytest.mark.parametrize("default", ["fixed8", "fixed16"])
@by_name(CASES)
def test_integers_against_exact_arithmetic(case: Case, default: str, tmp_path: Path) -> None:
    check_against_exact(case, load(case.model, tmp_path), Assignment(default))


@by_name(CASES)
def test_mixed_widths_against_exact_arithmetic(case: Case, tmp_path: Path) -> None:
    graph = load(case.model, tmp_path)
    seen = set()
    for mix in MIXES:
        exceptions = exceptions_for(graph, mix)
        if tuple(exceptions) not in seen:
            seen.add(tuple(exceptions))
            check_against_exact(case, graph, Assignment("fixed16", exceptions))


@pytest.mark.parametrize("default", ["fixed8", "fixed16"])
@by_name(CASES)
def test_integers_against_float(case: Case, default: str, tmp_path: Path) -> None:
    """|integer - float| <= the output's rounding + what half a step in every operand can move the result by."""
    x = samples_for(case.shape, count=6, scale=2.0)
    graph = load(case.model, tmp_path)
    ranges = whole_tensors(graph, x, {})
    assignment = Assignment(default)
    program = lower(graph, assignment, ranges)
    chosen = formats(graph, assignment, ranges)
    run = run_reference(program, quantize_inputs(program, x)[0])
    step = 2.0 ** program.tensors[program.output].format.exponent
    for sample, got in zip(x, dequantize_outputs(program, run.outputs), strict=True):
        wanted = case.exact(sample.astype(np.float64), graph.constants).reshape(-1)
        # first order: each operator is bilinear (or 1-Lipschitz), so |df| <= |f|(|x| + dx, |w| + dw) - |f|(|x|, |w|)
        dx = 2.0 ** chosen["x"].exponent  # a whole step: the largest value may be clipped by half of one
        grown = {n: np.abs(a) + (2.0 ** chosen[n].exponent) for n, a in graph.constants.items()}
        if case.name in ("Sigmoid", "Tanh", "Relu"):
            moved: np.ndarray | float = dx
        else:
            absolute = {n: np.abs(a) for n, a in graph.constants.items()}
            signed = case.name.startswith("Sub")
            exact = (lambda a, c: a + c["w"]) if signed and "w" in grown else case.exact
            moved = (exact(np.abs(sample) + dx, grown) - exact(np.abs(sample), absolute)).reshape(-1)
            moved = np.abs(moved) + (2 * dx if signed else 0)
        slack = 1.0 if "b" not in grown else 1.0 + 2.0 ** (chosen["x"].exponent + chosen["w"].exponent) / step
        assert (np.abs(got - wanted) <= moved + (case.ulp + slack) * step).all()


# ---- sigmoid and tanh: every input


def activation(op: str, x: Fixed, out: Fixed, folder: Path, count: int) -> Program:
    graph = load(simple([node(op, "x", "y")], {"x": (1, count)}), folder)
    ranges = given_ranges(x=0.75 * 2.0 ** (x.exponent + x.bits - 1), y=0.75 * 2.0 ** (out.exponent + out.bits - 1))
    program = lower(graph, Assignment("fixed16", {"x": f"fixed{x.bits}", "y": f"fixed{out.bits}"}), ranges)
    assert (program.tensors["x"].format, program.tensors["y"].format) == (x, out)
    return program


def worst_ulp(op: str, x: Fixed, out: Fixed, folder: Path) -> float:
    """Largest error over every input, in units of the output's last place."""
    integers = np.arange(x.lowest, x.highest + 1)
    program = activation(op, x, out, folder, len(integers))
    got = run_reference(program, integers[None, :]).outputs[0]
    real = dequantize(integers, x)
    exact = 0.5 * (1 + np.tanh(real / 2)) if op == "Sigmoid" else np.tanh(real)
    return float(np.abs(got - np.ldexp(exact, -out.exponent)).max())


@pytest.mark.parametrize("exponent", range(-20, 4))
@pytest.mark.parametrize("op", ["Sigmoid", "Tanh"])
def test_every_16_bit_input(op: str, exponent: int, tmp_path: Path) -> None:
    assert worst_ulp(op, Fixed(16, exponent), Fixed(16, -15), tmp_path) <= WORST_ULP[op]


@pytest.mark.parametrize("exponent", range(-12, 6))
@pytest.mark.parametrize("op", ["Sigmoid", "Tanh"])
def test_every_8_bit_input(op: str, exponent: int, tmp_path: Path) -> None:
    assert worst_ulp(op, Fixed(8, exponent), Fixed(16, -15), tmp_path) <= WORST_ULP[op]
    assert worst_ulp(op, Fixed(8, exponent), Fixed(8, -7), tmp_path) <= WORST_ULP[op]
    assert worst_ulp(op, Fixed(8, exponent), Fixed(16, -14), tmp_path) <= WORST_ULP[op]


@pytest.mark.parametrize("op", ["Sigmoid", "Tanh"])
def test_activations_are_monotone_and_symmetric(op: str, tmp_path: Path) -> None:
    integers = np.arange(-32767, 32768)
    program = activation(op, Fixed(16, -12), Fixed(16, -14), tmp_path, len(integers))
    got = run_reference(program, integers[None, :]).outputs[0]
    assert (np.diff(got) >= 0).all()
    centre = 1 << 14 if op == "Sigmoid" else 0
    assert np.abs(got + got[::-1] - centre).max() <= 1  # ties go up on both sides


# ---- accumulators: the stated width holds every intermediate sum


def intermediate_sums(op: Op, operands: list[np.ndarray]) -> list[int]:
    """Every exact intermediate value of one kernel call, in plain Python integers, requantize's own included."""
    p = op.params
    finals, partial = [], []
    lists = [operand.tolist() for operand in operands]
    if name_of(op.kernel) in ("dense", "dense_bias"):
        w, x = lists[0], lists[1]
        for n in range(p["outputs"]):
            total = lists[2][n] << p["bias_shift"] if len(lists) == 3 else 0
            partial.append(total)
            for k in range(p["inner"]):
                total += w[n * p["inner"] + k] * x[k]
                partial.append(total)
            finals.append(total)
    elif name_of(op.kernel) == "matmul":
        for c in range(p["columns"]):
            total = 0
            for k in range(p["inner"]):
                total += lists[0][k] * lists[1][k * p["columns"] + c]
                partial.append(total)
            finals.append(total)
    elif name_of(op.kernel) in ("add", "sub"):
        left, right = lists[0][0] << p["a_shift"], lists[1][0] << p["b_shift"]
        partial += [left, right]
        finals.append(left + right if name_of(op.kernel) == "add" else left - right)
    elif name_of(op.kernel) == "mul":
        finals.append(lists[0][0] * lists[1][0])
    else:
        assert name_of(op.kernel) == "relu"
        finals.append(max(lists[0][0], 0))
    partial += finals
    shift = p["shift"]
    partial += [f + (1 << (shift - 1)) if shift > 0 else f << -shift for f in finals]
    return partial


def needed_bits(values: list[int]) -> int:
    return max(v.bit_length() if v >= 0 else (-v - 1).bit_length() for v in values) + 1


def extremes(op: Op, program: Program) -> list[list[np.ndarray]]:
    """Operand sets that drive the sums of `op` to their ends: all lowest, all highest, and the signs that add up."""
    sets = []
    first, second = ((op.inputs[1],), op.inputs[0]) if op.kernel.base == "dense" else (op.inputs, "")
    weights = program.constants.get(second)
    for choice in range(4):
        found: dict[str, np.ndarray] = dict(program.constants)
        for position, name in enumerate(first):
            fmt, count = program.tensors[name].format, program.tensors[name].count
            if name not in program.constants:
                found[name] = np.full(count, fmt.lowest if choice >> min(position, 1) & 1 else fmt.highest)
        sets.append([found[name] for name in op.inputs])
    if weights is not None:
        x = program.tensors[op.inputs[1]]
        for row in weights.reshape(op.params["outputs"], -1):
            for sign in (1, -1):
                worst = np.where(sign * row >= 0, x.format.highest, x.format.lowest)
                tail = [program.constants[name] for name in op.inputs[2:]]
                sets.append([weights, np.resize(worst, x.count), *tail])
    return sets


@pytest.mark.parametrize("inner", [1, 3, 50])
@pytest.mark.parametrize("bits", ["88", "816", "168", "1616"])
@pytest.mark.parametrize("out_magnitude", [1e-6, 0.01, 1.0, 700.0])
def test_sums_fit_the_stated_width(inner: int, bits: str, out_magnitude: float, tmp_path: Path) -> None:
    first, second = ("fixed8" if bits[0] == "8" else "fixed16"), ("fixed8" if bits.endswith("8") else "fixed16")
    w = np.where(rnd(inner, 3) > 0, 1.0, -1.0) * 0.99999
    w[:, 0] = -0.99999  # one row drives the sum to its end
    models = {
        "dense": ([node("MatMul", "x w", "y")], {"w": w}),
        "dense_bias": ([node("Gemm", "x w b", "y")], {"w": w, "b": [1.0, -30.0, 500.0]}),
        "matmul": (
            [node("Reshape", "x s", "v"), node("Relu", "x", "r"), node("MatMul", "r v", "y")],
            {"s": [inner, 1]},
        ),
        "add": ([node("Relu", "x", "r"), node("Add", "x r", "y")], {}),
        "sub": ([node("Relu", "x", "r"), node("Sub", "x r", "y")], {}),
        "mul": ([node("Relu", "x", "r"), node("Mul", "x r", "y")], {}),
        "relu": ([node("Relu", "x", "y")], {}),
    }
    wanted = [
        kernel for family in (elementwise, linear) for kernel in family.KERNELS if kernel.form.limit is Limit.NONE
    ]
    assert set(models) == {name_of(kernel.form) for kernel in wanted}
    ranges = given_ranges(x=3.0, y=out_magnitude, r=20000.0, v=3.0)
    for kernel, (nodes, constants) in models.items():
        graph = load(simple(nodes, {"x": (1, inner)}, constants), tmp_path)
        exceptions = exceptions_for(graph, {"x": first, "w": second, "r": second, "b": second})
        program = lower(graph, Assignment("fixed16", exceptions), ranges)
        op = program.body[-1]
        assert isinstance(op, Op)
        assert name_of(op.kernel) == kernel
        used = max(needed_bits(intermediate_sums(op, operands)) for operands in extremes(op, program))
        assert used <= op.accumulator_bits <= used + 1, kernel


@pytest.mark.parametrize("op", ["Sigmoid", "Tanh"])
@pytest.mark.parametrize("exponent", [-24, -15, -11, -6, 0, 5])
@pytest.mark.parametrize("out_magnitude", [1e-3, 0.9, 1.0, 300.0])
def test_activations_fit_the_stated_width(op: str, exponent: int, out_magnitude: float, tmp_path: Path) -> None:
    graph = load(simple([node(op, "x", "y")], {"x": (1, 4)}), tmp_path)
    ranges = given_ranges(x=0.75 * 2.0 ** (exponent + 15), y=out_magnitude)
    only = lower(graph, Assignment("fixed16"), ranges).body[0]
    assert isinstance(only, Op)
    p = only.params
    # no input makes half a logistic larger than 1/2: table entries are below 2^16
    largest = 0xFFFF << p["fraction_bits"]
    finals = [largest, -largest]
    if op == "Sigmoid":
        half = 1 << (16 + p["fraction_bits"])
        finals = [half + largest, half - largest]
    shift = p["shift"]
    values = finals + [f + (1 << (shift - 1)) if shift > 0 else f << -shift for f in finals]
    assert needed_bits(values) <= only.accumulator_bits


def test_sums_beyond_63_bits_are_refused(tmp_path: Path) -> None:
    graph = load(simple([node("Add", "x w", "y")], {"x": (1, 4)}, {"w": [1e-9] * 4}), tmp_path)
    with pytest.raises(ModelError, match=r"node 'Add_y' \(Add\): exact sums need \d+ bits, the limit is 63"):
        lower(graph, Assignment("fixed16"), given_ranges(x=1e9, y=1e9))
