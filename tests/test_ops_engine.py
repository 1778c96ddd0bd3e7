"""The host engine on the operators' tables: the reference's integers in every mix of widths and in every format."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from onnx_models import load, samples_for
from ops_models import ALL, proto, shape_of
from random_models import extreme_inputs
from search_models import host_engine
from test_fuse_layers import MODELS as FUSED
from test_fuse_layers import graph_of as fused_graph
from test_ops_shapes import MODELS as SHAPES
from test_ops_shapes import proto as shapes_proto
from test_ops_windows import MODELS as WINDOWS

from tinyhil.agreement import agreement
from tinyhil.codegen.kernel_calls import name_of
from tinyhil.compiler.calibrate import calibrate
from tinyhil.compiler.lower import formats, lower, tied_values
from tinyhil.errors import ConfigError, ModelError
from tinyhil.formats.format import AFFINE, INTEGER
from tinyhil.harness.build.toolchain import default_cache_dir
from tinyhil.language.assignment import Assignment
from tinyhil.language.graph import Graph
from tinyhil.language.program import walk
from tinyhil.ops import affine_words
from tinyhil.references.reference import quantize_inputs, run_reference
from tinyhil.search.engine.flatten import Flattening
from tinyhil.search.engine.library import Engine
from tinyhil.search.engine.restart import from_the_start
from tinyhil.search.space import Choice, make_space

FORMATS = ("posit16es1", "float16", "int8")
MORE_FORMATS = (
    *(
        "fixed8",
        "fixed8u",
        "fixed16",
        "fixed32",
        "posit8es0",
        "posit8es2",
        "posit32es2",
        "fp8e4m3",
        "fp8e5m2",
        "fp4e2m1",
    ),
    *("bfloat16", "float32", "int16x8", "fixed8pc", "fixed16pc", "kmeans16", "ternary", "fp8e4m3pc"),
)
LAYERS = {"Conv", "MatMul", "Gemm"}
SORTED = {"top_values", "top_indices"}  # by numpy in every domain
OF_CODES = {
    *SORTED,
    "mod",
    "single_mod",
    "bitwise",
    "single_bitwise",
    *(name_of(kernel.form) for kernel in affine_words.KERNELS),
}  # by numpy in integers, too
BY_NUMPY = {"conv_transpose", *OF_CODES}  # the former for operands that are no integers


@pytest.fixture(scope="module")
def engine() -> Engine:
    return host_engine(default_cache_dir())


@pytest.mark.parametrize("name", ALL)
def test_each_operator_in_every_width(name: str, engine: Engine, tmp_path: Path) -> None:
    loaded = load(proto(name), tmp_path)
    space = make_space(loaded, calibrate(loaded, samples_for(shape_of(name), 4), {}), ("fixed8", "fixed16"))
    compared = 0
    for number in range(4):
        random = np.random.default_rng(number)
        candidate = tuple(Choice(str(random.choice(space.formats)), -number % 3) for _ in space.groups)
        try:
            program = space.lower(candidate)
        except ModelError as error:  # sums beyond 63 bits, slopes too coarse: a candidate that is none
            if not any(reason in str(error) for reason in ("exact sums need", "in units of")):
                raise
            continue
        inputs = extreme_inputs(program, number)
        found, wanted = engine.run(program, inputs), run_reference(program, inputs)
        np.testing.assert_array_equal(found.outputs, wanted.outputs)
        np.testing.assert_array_equal(found.saturations, wanted.saturations)
        compared += 1
    assert compared >= 2


def graphs(folder: Path) -> dict[str, Graph]:
    """Every model of the tables."""
    made = {f"more {name}": load(proto(name), folder) for name in ALL}
    made |= {f"window {name}": load(make(name)[0], folder) for name, make in WINDOWS.items()}
    made |= {f"shape {name}": load(shapes_proto(name), folder) for name in SHAPES}
    return made | {f"fused {name}": fused_graph(name, folder) for name in FUSED}


@pytest.mark.parametrize("default", [*FORMATS, *(pytest.param(f, marks=pytest.mark.slow) for f in MORE_FORMATS)])
def test_each_operator_in_every_format(default: str, engine: Engine, tmp_path: Path) -> None:
    """Only what is listed is left to numpy."""
    compared = saturated = 0
    for name, graph in graphs(tmp_path).items():
        x = samples_for(graph.shapes[graph.inputs[0]], 5, 8)
        try:
            program = lower(graph, Assignment(default), calibrate(graph, x[:4], {}))
        except (ModelError, ConfigError):  # no such kernel in this format
            continue
        left = Flattening(program).tables(from_the_start(program)).by_numpy
        assert {name_of(op.kernel) for op in left} <= BY_NUMPY, name
        assert INTEGER not in {op.domain for op in left if name_of(op.kernel) not in OF_CODES}, name
        inputs = quantize_inputs(program, x * np.float32(1.7))[0]
        found, wanted = engine.run(program, inputs), run_reference(program, inputs)
        np.testing.assert_array_equal(found.outputs, wanted.outputs, name)
        np.testing.assert_array_equal(found.saturations, wanted.saturations, name)
        compared += 1
        saturated += int(wanted.saturations.any())
    assert compared >= 100
    assert saturated >= 5 or default.startswith(("posit", "float", "bfloat"))


MULTIPLIED = ("int8", "int16x8", "fixed5", "fixed8", "fixed16", "fixed8pc", "fixed16pc")


def test_layers_of_fixed_point_beside_asymmetric_integers(engine: Engine, tmp_path: Path) -> None:
    """Multipliers and shifts where shifts alone say no scale: convolutions, and results of weights by channels."""
    found, refused = Counter[str](), list[str]()
    layers = {name: graph for name, graph in graphs(tmp_path).items() if any(node.op in LAYERS for node in graph.nodes)}
    for number, (name, graph) in enumerate(layers.items()):
        random, x = np.random.default_rng(number), samples_for(graph.shapes[graph.inputs[0]], 5, 8)
        mix = {group[0]: str(random.choice(MULTIPLIED)) for group in tied_values(graph)}
        assignment, ranges = Assignment("fixed8", mix), calibrate(graph, x, {})
        try:
            program = lower(graph, assignment, ranges)
        except ModelError as error:  # a spectrum's numbers are of very different scale
            refused.append(str(error))
            continue
        assert agreement(graph, program, formats(graph, assignment, ranges), x[:3]).findings == (), name
        inputs = quantize_inputs(program, x * np.float32(1.7))[0]
        made, wanted = engine.run(program, inputs), run_reference(program, inputs)
        np.testing.assert_array_equal(made.outputs, wanted.outputs, name)
        np.testing.assert_array_equal(made.saturations, wanted.saturations, name)
        of = {
            name_of(op.kernel): {program.tensors[n].format.domain for n in op.inputs[1:2]} for op in walk(program.body)
        }
        found.update(f"{kernel} {domain}" for kernel, domains in of.items() for domain in domains)
    assert [one for one in refused if "exact sums need" not in one] == []
    assert found[f"conv_affine {INTEGER}"] > 2
    assert found[f"dense_affine {INTEGER}"] > 0
    assert found[f"conv_affine {AFFINE}"] > 2
