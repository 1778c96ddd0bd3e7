"""Tensors over several memories: planned, generated, linked where the plan says, and computed right there."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from onnx_models import compiled, load, node, samples_for, simple

from tinyhil.compiler.calibrate import calibrate
from tinyhil.errors import DoesNotFit
from tinyhil.frontend.onnx import load_onnx
from tinyhil.harness.build.pipeline import compile_model
from tinyhil.harness.cli import main
from tinyhil.harness.settings.config import load_boards
from tinyhil.language.assignment import Assignment
from tinyhil.language.program import Program
from tinyhil.memplan import Buffer, Problem, Region, check, plan
from tinyhil.memplan.arena.placement import Placement, place
from tinyhil.memplan.arena.regions import main_ram_bytes, spread

SIDE, CHANNELS = 128, 12  # three tensors of 196,608 B, live together: more than the AXI SRAM of 512 KiB


def wide_model(side: int = SIDE, channels: int = CHANNELS):
    """y = max(a * b + a + b): the product can take the place of neither factor. One axis: there are no rows."""
    chance = np.random.default_rng(1)
    nodes = [node("Conv", f"x w{name}", name) for name in "ab"]
    nodes += [node("Mul", "a b", "ab"), node("Add", "ab a", "s"), node("Add", "s b", "t")]
    nodes.append(node("GlobalMaxPool", "t", "y"))
    constants = {f"w{name}": chance.normal(size=(channels, 1, 1)) for name in "ab"}
    return simple(nodes, {"x": (1, 1, side * side)}, constants)


def small_program(folder: Path) -> Program:
    return compiled(load(wide_model(6, 4), folder), samples_for((1, 1, 36)), "fixed8")


def test_buffers_go_where_there_is_room() -> None:
    buffers = (Buffer("a", 60, 0, 4), Buffer("b", 60, 1, 4), Buffer("c", 30, 2, 4), Buffer("d", 60, 4, 5))
    found = plan(Problem(buffers, regions=(Region("dtcm", 64), Region("arena", 100), Region("sram", 40))))
    assert dict(found.regions) == {"a": "dtcm", "b": "arena", "c": "arena", "d": "dtcm"}
    assert dict(found.peaks) == {"dtcm": 60, "arena": 90, "sram": 0}
    with pytest.raises(DoesNotFit):
        plan(Problem(buffers, regions=(Region("dtcm", 64), Region("arena", 70))))


def test_regions_are_filled_where_the_first_with_room_is_wrong() -> None:
    """`a` meets both large ones, which share the arena; the simple planners give the small memory to `d`."""
    sizes = [("a", 16, 3, 6), ("b", 36, 4, 5), ("c", 4, 4, 5), ("d", 24, 1, 4)]
    problem = Problem(tuple(Buffer(*one) for one in sizes), regions=(Region("dtcm", 24), Region("arena", 40)))
    found = plan(problem)
    assert (found.peak_bytes, found.proven) == (56, True)
    assert dict(found.regions) == {"a": "dtcm", "b": "arena", "c": "arena", "d": "arena"}
    for name in ("first-fit", "greedy-by-size", "greedy-by-area", "greedy-by-duration", "best-fit"):
        with pytest.raises(DoesNotFit):
            plan(problem, name)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(chance=st.randoms(use_true_random=False))
def test_regions_against_cp_sat(chance: Random) -> None:
    """Whatever fits is found on these small problems; the peak is never below the optimum, the bound never above."""
    pytest.importorskip("ortools")
    starts = [chance.randint(0, 8) for _ in range(chance.randint(4, 8))]
    buffers = tuple(Buffer(str(k), chance.randint(4, 40), s, s + chance.randint(1, 6)) for k, s in enumerate(starts))
    total = sum(buffer.size_bytes for buffer in buffers)
    load = plan(Problem(buffers)).lower_bound_bytes
    largest = max(buffer.size_bytes for buffer in buffers)
    sizes = (max(largest, load // 2), load // 2 + chance.randint(0, 12))
    problem = Problem(buffers, regions=(Region("dtcm", sizes[0]), Region("arena", sizes[1])))
    optimum = least_total_peak(problem)
    if optimum is None:
        with pytest.raises(DoesNotFit):
            plan(problem)
        return
    found = plan(problem)
    assert found.lower_bound_bytes <= optimum <= found.peak_bytes <= total


def least_total_peak(problem: Problem) -> int | None:
    """By OR-Tools; None if nothing fits."""
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    peaks = {region.name: model.new_int_var(0, region.size_bytes or 0, region.name) for region in problem.regions}
    offsets, inside = {}, {}
    for buffer in problem.buffers:
        offsets[buffer.name] = model.new_int_var(0, 200, buffer.name)
        for name, peak in peaks.items():
            inside[buffer.name, name] = model.new_bool_var("")
            top = offsets[buffer.name] + buffer.size_bytes
            model.add(top <= peak).only_enforce_if(inside[buffer.name, name])
        model.add_exactly_one([inside[buffer.name, name] for name in peaks])
    for one, other in combinations(problem.buffers, 2):
        if one.start < other.end and other.start < one.end:
            below, above = model.new_bool_var(""), model.new_bool_var("")
            a, b = offsets[one.name], offsets[other.name]
            model.add(a + one.size_bytes <= b).only_enforce_if(below)
            model.add(b + other.size_bytes <= a).only_enforce_if(above)
            for name in peaks:
                apart = [inside[buffer.name, name].negated() for buffer in (one, other)]
                model.add_bool_or([below, above, *apart])
    model.minimize(sum(peaks.values()))
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.max_deterministic_time = 1.0
    state = solver.solve(model)
    assume(state in (cp_model.OPTIMAL, cp_model.INFEASIBLE))
    return round(solver.objective_value) if state == cp_model.OPTIMAL else None


def spread_small(folder: Path) -> Placement:
    placed = place(small_program(folder), {"rows"})
    wide = spread(placed, {"dtcm": 160, "sram": 160}, 200)
    assert len([size for size in wide.plan.peaks.values() if size]) == 3
    check(wide.problem, wide.plan)
    return wide


def test_a_model_too_large_for_all_memories_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(wide_model(256, 12).SerializeToString())
    model = load_onnx(path)
    ranges = calibrate(model.graph, samples_for((1, 1, 256 * 256), 1), {"name": "test"})
    with pytest.raises(DoesNotFit):
        compile_model(model, Assignment("fixed8"), ranges, [load_boards().board("h747")], {"h747"})


def test_what_the_main_memory_leaves(tmp_path: Path) -> None:
    program = small_program(tmp_path)
    assert main_ram_bytes(program, 100_000, 2048) == 100_000 - 2048 - 36 - 8192


def test_the_command_names_every_memory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "wide.onnx"
    path.write_bytes(wide_model().SerializeToString())
    with pytest.raises(SystemExit) as ended:
        main(["plan", "--model", str(path), "--board", "h747", "--format", "fixed8"])
    out = capsys.readouterr().out
    assert int(ended.value.code or 0) == 0
    assert "h747: 196608 B of 294912 B sram" in out
    assert "peak 606" in out  # the sample included
