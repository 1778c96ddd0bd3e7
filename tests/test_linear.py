"""Sums of asymmetric integers as indices: the linear form is TensorFlow Lite's sum for every code and constant."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from onnx_models import compiled, graph, load, model, node, samples_for
from random_models import extreme_inputs
from scan_models import cell, scan

from tinyhil.codegen.kernel_calls import name_of
from tinyhil.language.program import Op, Program, walk
from tinyhil.passes.arrange import arrange
from tinyhil.passes.linear_sums import _near, starts_of
from tinyhil.references.reference import run_reference

STEPS, WIDTH = 20, 16
SUMS = {
    "plus": ("Add", "h b"), "before": ("Add", "b h"), "minus": ("Sub", "h b"), "from": ("Sub", "b h"),
}  # fmt: skip


def recurrent(folder: Path, name: str, spread: float) -> Program:
    op, inputs = SUMS[name]
    steps = [node(op, inputs, "s"), node("Sigmoid", "s", "z"), node("Tanh", "s", "t"), node("Mul", "z t", "u")]
    constants = {"b": np.random.default_rng(5).normal(0.3, spread, (1, WIDTH)).astype(np.float32)}
    states = {"h": (1, WIDTH), "x_t": (1, WIDTH)}
    body = cell([*steps, node("Add", "u x_t", "h_next")], states, constants=constants)
    proto = model(graph([scan("h0 x", "y", body)], {"x": (STEPS, 1, WIDTH)}, "y", {"h0": np.zeros((1, WIDTH), "f4")}))
    return compiled(load(proto, folder), samples_for((STEPS, 1, WIDTH)), "int8")


@pytest.mark.parametrize("spread", [0.1, 1.0, 6.0])
@pytest.mark.parametrize("name", SUMS)
def test_every_code_and_constant_gives_the_same(name: str, spread: float, tmp_path: Path) -> None:
    program = recurrent(tmp_path, name, spread)
    made = arrange(program, "cortex-m7", ["joint-functions"])  # which makes one table of both
    looked_up = [op for op in walk(made.body) if name_of(op.kernel) == "linear_table"]
    assert [op.output for op in looked_up] == ["z", "t"]
    assert not any(name_of(op.kernel) == "sum_affine" and op.output == "s" for op in walk(made.body))
    sums = {op.output: op for op in walk(program.body)}
    codes = np.repeat(np.arange(-128, 128), WIDTH)[None, :]
    for op in looked_up:
        found = results_of(made, op, codes)
        at_first = results_of(program, sums["s"], codes)
        wanted = results_of(program, sums[op.output], at_first[0])
        assert np.array_equal(found[0], wanted[0])
        assert np.array_equal(found[1], wanted[1] + (at_first[1] if op.output == "z" else 0))


def results_of(program: Program, op: Op, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Results of `op` of many codes, and which are clipped."""
    constants = program.constants
    (source,) = [name for name in op.inputs if name not in constants]
    count = codes.shape[1]
    periods = {"a_period": op.inputs[-2:][0], "b_period": op.inputs[-1]}
    sizes = {key: count for key, name in periods.items() if key in op.params and name == source}
    body = (replace(op, params={**op.params, "count": count, **sizes}),)
    tensors = {name: program.tensors[name] for name in op.inputs if name in constants}
    ends = {name: replace(program.tensors[name], count=count) for name in (source, op.output)}
    alone = Program(
        op.name, {**tensors, **ends}, {n: constants[n] for n in tensors}, body, source, op.output, (count,), (count,)
    )
    clipped: list[np.ndarray] = []
    run = run_reference(alone, codes, observe=lambda _op, _codes, found: clipped.append(np.asarray(found)))
    return run.outputs.reshape(1, -1), clipped[0].astype(int).reshape(1, -1)


@pytest.mark.parametrize("core", ["avr", "cortex-m3", "cortex-m7"])
def test_the_whole_program_computes_the_same(core: str, tmp_path: Path) -> None:
    for name in SUMS:
        program = recurrent(tmp_path, name, 2.0)
        made, inputs = arrange(program, core), extreme_inputs(program, 3)
        wanted, found = run_reference(program, inputs), run_reference(made, inputs)
        assert np.array_equal(found.outputs, wanted.outputs)
        assert np.array_equal(found.saturations, wanted.saturations)


def test_what_no_linear_form_makes_stays() -> None:
    codes = np.arange(-128, 128)
    rounded_away = np.where(codes < 0, -((1 - codes) // 2), (codes + 1) // 2)[None, :]  # halves of both signs
    assert starts_of(codes * (1 << 15), rounded_away, 16) is None
    assert starts_of(codes * (1 << 15), (codes[None, :] + 1) >> 1, 16) is not None


def test_slopes_are_tried_from_the_nearest_on() -> None:
    for slope in (0.75, -1.3, 0.00001):
        tried = list(_near(slope, 16))
        assert sorted(tried) == list(range(min(tried), min(tried) + 9))
        away = [abs(one - round(slope * 65536)) for one in tried]
        assert away == sorted(away)
