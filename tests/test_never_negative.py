"""Which values have no sign, and what fixed point without one holds of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx_models import graph as onnx_graph
from onnx_models import load, model, node, samples_for
from ops_models import ALL, proto
from search_models import host_engine

from tinyhil.compiler.calibrate import calibrate
from tinyhil.compiler.lower import formats, lower, tied_values
from tinyhil.compiler.never_negative import never_negative
from tinyhil.errors import HilError
from tinyhil.formats.codec import quantize
from tinyhil.formats.unsigned import Unsigned, fit
from tinyhil.harness.build.toolchain import default_cache_dir
from tinyhil.language.assignment import Assignment
from tinyhil.language.graph import Graph
from tinyhil.language.program import walk
from tinyhil.references.evaluate import evaluate
from tinyhil.references.reference import dequantize_outputs, quantize_inputs, run_reference

NODES = [
    ("Relu", "x", "r", {}, True),
    ("Sigmoid", "x", "s", {}, True),
    ("Neg", "r", "n", {}, False),
    ("Sub", "s r", "d", {}, False),
    ("Add", "s r", "a", {}, True),
    ("Add", "r up", "above", {}, True),
    ("Add", "r down", "below", {}, False),
    ("Mul", "x x", "square", {}, True),
    ("Mul", "x r", "product", {}, False),
    ("Max", "x s", "most", {}, True),
    ("Min", "x s", "least", {}, False),
    ("Clip", "x zero six", "cut", {}, True),
    ("Clip", "x down six", "open", {}, False),
    ("Clip", "r down six", "kept", {}, True),
    ("Reshape", "r row", "shown", {}, True),
    ("Reshape", "x row", "shape", {}, False),
    ("Tanh", "r", "t", {}, False),
]


def graph_of(folder: Path) -> Graph:
    nodes = [node(op, operands, out, **attrs) for op, operands, out, attrs, _ in NODES]
    nodes.append(node("Add", "shown shape", "both"))
    names = [out for _, _, out, _, _ in NODES if out not in ("shown", "shape")]
    nodes.append(node("Concat", " ".join([*names, "both"]), "y", axis=1))
    constants = {"up": np.float32(1), "down": np.float32(-1), "zero": np.float32(0), "six": np.float32(6)}
    return load(model(onnx_graph(nodes, {"x": (1, 4)}, "y", {**constants, "row": [1, 4]})), folder)


def test_what_operators_alone_say(tmp_path: Path) -> None:
    graph = graph_of(tmp_path)
    found = never_negative(graph, tied_values(graph))
    known = graph.all_shapes()
    for _, _, out, _, holds in NODES:
        assert out not in known or (out in found) == holds, out
    assert {"x", "y"}.isdisjoint(found)


def test_a_state_is_what_its_body_leaves(tmp_path: Path) -> None:
    for begin, ends_in, holds in ((1.0, "Relu", True), (-1.0, "Relu", False), (1.0, "Neg", False)):
        body = onnx_graph([node("Add", "h v", "s"), node(ends_in, "s", "g")], {"h": (1, 3), "v": (1, 3)}, "g", {})
        scan = node("Scan", "h0 x", "y", body=body, num_scan_inputs=1)
        start = np.full((1, 3), begin, np.float32)
        graph = load(model(onnx_graph([scan], {"x": (5, 1, 3)}, "y", {"h0": start})), tmp_path)
        assert ("y" in never_negative(graph, tied_values(graph))) is holds, (begin, ends_in)


@pytest.mark.parametrize("bits", range(2, 9))
def test_codes_begin_at_zero(bits: int) -> None:
    most = (1 << bits) - 1
    assert fit(0.999, bits) == Unsigned(bits, -bits)
    assert fit(1.0, bits) == Unsigned(bits, 1 - bits)
    codes, clipped = quantize(np.array([-0.01, 0.0, 0.49, 0.5, most + 0.4, most + 0.5, np.nan]), Unsigned(bits, 0))
    assert codes.tolist() == [0, 0, 0, 1, most, most, 0]
    assert clipped.tolist() == [False, False, False, False, False, True, True]


def test_a_relu_network_loses_less(tmp_path: Path) -> None:
    """Each bit more halves the error of what is rounded."""
    random = np.random.default_rng(0)
    weights = {f"w{n}": random.normal(size=(16, 16)).astype(np.float32) / 4 for n in range(4)}
    nodes, last = [], "x"
    for n in range(4):
        nodes += [node("MatMul", f"{last} w{n}", f"m{n}"), node("Relu", f"m{n}", f"r{n}")]
        last = f"r{n}"
    graph = load(model(onnx_graph(nodes, {"x": (1, 16)}, last, weights)), tmp_path)
    x = samples_for((1, 16), 200)
    ranges, wanted, errors = calibrate(graph, x, {}), evaluate(graph, x).reshape(200, -1), {}
    for name in ("fixed4", "fixed4u"):
        program = lower(graph, Assignment("fixed8", {f"r{n}": name for n in range(4)}), ranges)
        made = dequantize_outputs(program, run_reference(program, quantize_inputs(program, x)[0]).outputs)
        errors[name] = float(np.sqrt(((made - wanted) ** 2).mean()))
    assert errors["fixed4u"] < 0.7 * errors["fixed4"]


@pytest.mark.parametrize("default", ["fixed8u", "fixed3u"])
def test_the_search_engine_reads_them_in_every_operator(default: str, tmp_path: Path) -> None:
    """Every fourth operator, of what a Relu leaves of its input."""
    engine, compared = host_engine(default_cache_dir()), 0
    for name in sorted(ALL)[::4]:
        made = proto(name)
        for one in made.graph.node:
            one.input[:] = ["positive" if operand == "x" else operand for operand in one.input]
        made.graph.node.insert(0, node("Relu", "x", "positive"))
        try:
            graph = load(made, tmp_path)
            x = samples_for(graph.shapes[graph.inputs[0]], 5, 8)
            program = lower(graph, Assignment(default), calibrate(graph, x, {}))
        except HilError:  # no such kernel in this format, or numbers that float32 can not hold
            continue
        inputs = quantize_inputs(program, x * np.float32(1.7))[0]
        found, wanted = engine.run(program, inputs), run_reference(program, inputs)
        np.testing.assert_array_equal(found.outputs, wanted.outputs, name)
        np.testing.assert_array_equal(found.saturations, wanted.saturations, name)
        operands = {operand for op in walk(program.body) for operand in op.inputs}
        compared += any(program.tensors[operand].format.lowest == 0 for operand in operands)
    assert compared >= 20


def test_formats_of_a_group_follow(tmp_path: Path) -> None:
    graph = graph_of(tmp_path)
    ranges = calibrate(graph, samples_for((1, 4), 20), {})
    chosen = formats(graph, Assignment("fixed8u"), ranges)
    assert {str(chosen[name]).split(" ")[0] for name in ("r", "s", "square")} == {"fixed8u"}
    assert {str(chosen[name]).split(" ")[0] for name in ("x", "d", "y")} == {"fixed8"}
    assert not any(isinstance(fmt, Unsigned) for fmt in formats(graph, Assignment("fixed8"), ranges).values())
