"""Scales of asymmetric integers in loops: powers of two and common ones, where nobody states them."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
from onnx_models import graph, load, model, node, samples_for
from scan_models import cell, scan

from tinyhil.codegen.kernel_calls import name_of
from tinyhil.compiler.calibrate import calibrate
from tinyhil.compiler.lower import lower
from tinyhil.formats.affine import Affine, as_affine, fit_power
from tinyhil.language.assignment import Assignment
from tinyhil.language.form import Joined
from tinyhil.language.graph import Graph
from tinyhil.language.program import Program, walk
from tinyhil.ops.code_table import SUM_TABLE, TABLES
from tinyhil.passes.arrange import arrange

STEPS, WIDTH = 40, 8


def gated(folder: Path) -> Graph:
    """c = x W + h U; z = sigmoid(c + b); h = z h + (1.1 - z) tanh(c + d)"""
    names = ("MatMul x_t w m", "MatMul h u n", "Add m n c", "Add c b cb", "Sigmoid cb z", "Add c d cd", "Tanh cd t",
             "Sub one z gate", "Mul gate t new", "Mul z h keep", "Add keep new h_next")  # fmt: skip
    nodes = [node(op, " ".join(inputs), out) for op, *inputs, out in (name.split() for name in names)]
    rng = np.random.default_rng(4)
    constants = {name: rng.normal(0, 0.9, (WIDTH, WIDTH)).astype(np.float32) for name in "wu"}
    constants |= {name: rng.normal(0.7, 0.4, (1, WIDTH)).astype(np.float32) for name in "bd"}
    constants["one"] = np.full(1, 1.1, np.float32)
    body = cell(nodes, {"h": (1, WIDTH), "x_t": (1, WIDTH)}, constants=constants)
    outer = graph([scan("h0 x", "y", body)], {"x": (STEPS, 1, WIDTH)}, "y", {"h0": np.zeros((1, WIDTH), "f4")})
    return load(model(outer), folder)


def program_of(loaded: Graph, assignment: Assignment) -> Program:
    return lower(loaded, assignment, calibrate(loaded, samples_for((STEPS, 1, WIDTH)), {}))


def formats_of(program: Program) -> dict[str, Affine]:
    return {op.output: as_affine(program.tensors[op.output].format) for op in walk(program.body)}


def test_sums_and_products_need_no_multiplier(tmp_path: Path) -> None:
    made = formats_of(program_of(gated(tmp_path), Assignment("int8")))
    for name in ("z", "t", "gate", "new", "keep", "h_next"):
        assert math.frexp(made[name].scale)[0] == 0.5, name
    assert made["keep"].scale == made["new"].scale == made["h_next"].scale
    assert made["c"].scale == made["cb"].scale == made["cd"].scale


def test_cells_are_look_ups_and_shifts(tmp_path: Path) -> None:
    for core in ("avr", "cortex-m3"):
        arranged = arrange(program_of(gated(tmp_path), Assignment("int8")), core)
        ops = {op.output: op for op in walk(arranged.body)}
        assert [ops[name].kernel for name in "zt"] == [SUM_TABLE.form] * 2
        assert ops["gate"].kernel in TABLES
        assert ops["c"].kernel.joined is Joined.PAIR
        products = [op.params["multiplier"] for op in ops.values() if name_of(op.kernel) == "mul_affine"]
        assert products == [1 << 30] * 2
        assert not ops["keep"].clips


def test_what_is_stated_stays(tmp_path: Path) -> None:
    loaded = gated(tmp_path)
    pinned = Affine(8, 0.0113, -9)
    body = next(node.body for node in loaded.walk() if node.body is not None)
    named = {name for name in body.shapes if name in ("keep", "z")}
    made = formats_of(program_of(replace(loaded, pinned=dict.fromkeys(named, pinned)), Assignment("int8")))
    assert made["keep"] == made["z"] == pinned
    moved = formats_of(program_of(loaded, Assignment("int8", offsets={"t": 1})))
    free = formats_of(program_of(loaded, Assignment("int8")))
    assert moved["t"].scale not in (free["t"].scale, made["keep"].scale)


def test_ranges_fit_but_for_a_unit() -> None:
    rng = np.random.default_rng(6)
    for low, high in [(0.0, 1.0), (-1.0, 1.0), (-0.77, 3.0), (0.2, 0.9), (-4.0, -1.0), *rng.normal(0, 9, (200, 2))]:
        low, high = min(low, high, 0.0), max(low, high, 0.0)
        fmt = fit_power(low, high)
        ends = np.array([low, high]) / fmt.scale + fmt.zero
        assert ends[0] >= -129
        assert ends[1] <= 128.5
        assert high - low > 127 * fmt.scale or high == low
