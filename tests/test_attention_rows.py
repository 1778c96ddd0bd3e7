"""Attention some rows of queries at a time: the same integers, and no matrix of all tokens against all in RAM."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from given_data import data_file
from kernel_cases import SANITIZED, Case, first_difference, run_natively, run_on_board
from onnx_models import compiled, load, samples_for
from random_models import extreme_inputs

from benchmarks.attention import SHAPES
from benchmarks.transformers import Shape, compact
from tinyhil.compiler.calibrate import calibrate
from tinyhil.compiler.lower import lower
from tinyhil.frontend.onnx import load_onnx
from tinyhil.harness.settings.config import load_boards
from tinyhil.language.assignment import Assignment
from tinyhil.language.program import Loop, Program, walk
from tinyhil.memplan.arena.attention_rows import in_rows, packed_again
from tinyhil.memplan.arena.placement import place
from tinyhil.memplan.arena.schedules import front
from tinyhil.passes.arrange import arrange
from tinyhil.references.reference import run_reference

SMALL = Shape(image=24, channels=8, heads=2, encoders=1, kernel=3, hidden=8)  # 36 tokens
FORMATS = ("int8", "fixed8", "fixed16")


def program_of(shape: Shape, fmt: str, folder: Path) -> Program:
    loaded = load(compact(shape), folder)
    return compiled(loaded, samples_for(loaded.shapes["x"]), fmt)


@pytest.mark.parametrize("fmt", FORMATS)
def test_the_reference_computes_the_same(fmt: str, tmp_path: Path) -> None:
    program = program_of(SMALL, fmt, tmp_path)
    inputs = extreme_inputs(program, 1)
    wanted = run_reference(program, inputs)
    made = in_rows(program)
    assert [[item.body[0].count for item in one.body if isinstance(item, Loop)] for one in made] == [[3], [9]]
    for one in made:
        found = run_reference(one, inputs)
        assert np.array_equal(found.outputs, wanted.outputs)
        assert np.array_equal(found.saturations, wanted.saturations)
        assert max(one.tensors[op.output].count for op in walk(one.body)) < 2 * 36 * 36


def cases(core: str, folder: Path) -> list[Case]:
    found = []
    for fmt in FORMATS:
        program = program_of(SMALL, fmt, folder)
        made = in_rows(arrange(program, core))
        found += [Case(f"{fmt} {number}", one, extreme_inputs(program, 1)) for number, one in enumerate(made)]
    return found


@pytest.mark.parametrize("core", ["cortex-m7", "host"])
def test_natively_with_sanitizers(core: str, tmp_path: Path) -> None:
    found = cases(core, tmp_path)
    assert first_difference(found, run_natively(found, tmp_path, *SANITIZED, "-DHIL_DSP_PORTABLE")) == ""


@pytest.mark.slow
@pytest.mark.parametrize("board", ["nucleo_l4r5", "due"])
def test_on_boards(board: str, tmp_path: Path) -> None:
    spec = load_boards().board(board)
    found = cases(spec.chip.core, tmp_path)
    assert first_difference(found, run_on_board(found, spec, tmp_path / "cache")) == ""


def test_the_planner_takes_it_where_ram_counts(tmp_path: Path) -> None:
    """At most a third of layer by layer; each schedule is checked, and the more packing the slower."""
    program = program_of(SHAPES["ViT-196"], "int8", tmp_path)
    layers, rows = (place(program, without).plan for without in (["rows"], []))
    assert layers.proven
    assert 3 * rows.peak_bytes <= layers.peak_bytes
    steps = front(arrange(program, "cortex-m7"))
    assert len(steps) > 1
    assert packed_again(steps[0].placed.program) == 0 < packed_again(steps[-1].placed.program)


def test_a_network_without_attention_has_none(tmp_path: Path) -> None:
    program = program_of(SMALL, "fixed8", tmp_path)
    cut = next(at for at, op in enumerate(walk(program.body)) if op.kernel.base == "softmax")
    head = program.body[:cut]
    assert in_rows(Program(**{**{f: getattr(program, f) for f in program.__slots__}, "body": head})) == []


@pytest.mark.data("deeploy/Models/CCT/FP32/CCT_1_32_32_8/network.onnx")
def test_a_transformer_of_deeploy_needs_a_tenth() -> None:
    graph = load_onnx(data_file("deeploy/Models/CCT/FP32/CCT_1_32_32_8/network.onnx")).graph
    samples = np.random.default_rng(0).normal(size=(4, *graph.shapes[graph.inputs[0]]))
    program = lower(graph, Assignment("int8"), calibrate(graph, samples.astype(np.float32), {"name": "test"}))
    layers, rows = (place(program, without).plan.peak_bytes for without in (["rows"], []))
    assert 10 * rows < layers
