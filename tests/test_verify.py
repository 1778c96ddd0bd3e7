"""The verifier between passes: whole programs have no faults, and every kind of damage is named."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx_models import load, samples_for
from scan_models import SCANS

from tinyhil.compiler.calibrate import calibrate
from tinyhil.compiler.lower import lower
from tinyhil.compiler_pass import Malformed
from tinyhil.frontend import load as loading
from tinyhil.frontend.listing import Model
from tinyhil.language.assignment import Assignment
from tinyhil.language.graph import Graph, Node
from tinyhil.language.program import Loop, Op, Program, Role, walk
from tinyhil.memplan import Plan, Problem, check
from tinyhil.memplan.arena.execution_check import faults_of_plan
from tinyhil.memplan.arena.placement import place
from tinyhil.memplan.check import PlanError
from tinyhil.passes import arrange
from tinyhil.references.verify import checked, faults_of_graph, faults_of_program


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    return load(SCANS["two_states"](), tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def program(graph: Graph) -> Program:
    ranges = calibrate(graph, samples_for(graph.shapes["x"]), {})
    return lower(graph, Assignment("fixed16"), ranges)


def without_first(program: Program) -> Program:
    return replace(program, body=program.body[1:])


def longer_constant(program: Program) -> Program:
    name, array = next(iter(program.constants.items()))
    return replace(program, constants={**program.constants, name: np.append(array, 0)})


def other_code(program: Program) -> Program:
    name, array = next(iter(program.constants.items()))
    return replace(program, constants={**program.constants, name: np.full_like(array, 1 << 20)})


def other_role(program: Program) -> Program:
    name = next(iter(program.constants))
    return replace(program, tensors={**program.tensors, name: replace(program.tensors[name], role=Role.ARENA)})


def renamed(program: Program) -> Program:
    op = next(walk(program.body))
    return replace(program, tensors={**program.tensors, op.output: replace(program.tensors[op.output], name="other")})


def dangling(program: Program) -> Program:
    op = next(walk(program.body))
    return replace(program, body=(*program.body, replace(op, inputs=("nowhere",))))


def used_scratch(program: Program) -> Program:
    op = next(walk(program.body))
    return replace(program, body=(replace(op, scratch=op.output), *program.body[1:]))


def written_input(program: Program) -> Program:
    op = next(walk(program.body))
    return replace(program, body=(*program.body, replace(op, output=program.input)))


def longer_loop(program: Program) -> Program:
    body: list[Op | Loop] = [replace(i, count=i.count + 1) if isinstance(i, Loop) else i for i in program.body]
    return replace(program, body=tuple(body))


def row_outside(program: Program) -> Program:
    row = next(name for name, tensor in program.tensors.items() if tensor.role == Role.SLICE)
    op = next(walk(program.body))
    return replace(program, body=(*program.body, replace(op, inputs=(row,))))


def second_writer(program: Program) -> Program:
    op = next(walk(program.body))
    return replace(program, body=(op, *program.body))


PROGRAM_DAMAGE: dict[Callable[[Program], Program], str] = {
    without_first: "before it is written",
    longer_constant: "elements for",
    other_code: "is not made of codes",
    other_role: "do not go together",
    renamed: "is called 'other'",
    dangling: "no tensor 'nowhere'",
    used_scratch: "used as more than scratch",
    written_input: "which is input",
    longer_loop: "is no row of",
    row_outside: "outside of its loop",
    second_writer: "which has another writer",
}


def test_what_the_compiler_makes_has_no_faults(graph: Graph, program: Program) -> None:
    assert list(faults_of_graph(graph)) == []
    assert list(faults_of_program(program)) == []


@pytest.mark.parametrize("damage", PROGRAM_DAMAGE, ids=lambda damage: damage.__name__)
def test_damage_to_a_program_is_named(damage: Callable[[Program], Program], program: Program) -> None:
    found = list(faults_of_program(damage(program)))
    assert any(PROGRAM_DAMAGE[damage] in fault for fault in found), found
    with pytest.raises(Malformed, match=r"after a pass: "):
        checked(damage(program), "a pass")


def twice(graph: Graph) -> Graph:
    return replace(graph, nodes=(*graph.nodes, graph.nodes[0]))


def backwards(graph: Graph) -> Graph:
    return replace(graph, nodes=(Node("Relu", "early", (graph.outputs[0],), ("early",)), *graph.nodes))


def shapeless(graph: Graph) -> Graph:
    return replace(graph, shapes={name: shape for name, shape in graph.shapes.items() if name != graph.inputs[0]})


def open_end(graph: Graph) -> Graph:
    return replace(graph, outputs=("nowhere",))


def short_body(graph: Graph) -> Graph:
    def cut(node: Node) -> Node:
        return node if node.body is None else replace(node, body=replace(node.body, inputs=node.body.inputs[1:]))

    return replace(graph, nodes=tuple(cut(node) for node in graph.nodes))


def foreign_scale(graph: Graph) -> Graph:
    return replace(graph, steps={"nowhere": np.ones(1)})


GRAPH_DAMAGE: dict[Callable[[Graph], Graph], str] = {
    twice: "is defined twice",
    backwards: "before it is made",
    shapeless: "has no shape",
    open_end: "'nowhere' is never made",
    short_body: "other ends than the loop",
    foreign_scale: "which there is not",
}


@pytest.mark.parametrize("damage", GRAPH_DAMAGE, ids=lambda damage: damage.__name__)
def test_damage_to_a_graph_is_named(damage: Callable[[Graph], Graph], graph: Graph) -> None:
    found = list(faults_of_graph(damage(graph)))
    assert any(GRAPH_DAMAGE[damage] in fault for fault in found), found


def test_what_is_read_and_what_dead_channels_leave_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both steps of `load_model`, each with a graph that is damaged."""
    path = tmp_path / "net.onnx"
    onnx.save(SCANS["two_states"](), path)
    (dead,) = loading.READ
    monkeypatch.setattr(loading, "READ", (replace(dead, apply=damaged),))
    with pytest.raises(Malformed, match=r"after dead-channels: .*'nowhere' is never made"):
        loading.load_model(path)
    read = loading.READERS[".onnx"]
    monkeypatch.setitem(loading.READERS, ".onnx", lambda *given: damaged(read(*given)))
    with pytest.raises(Malformed, match=r"after reading: .*'nowhere' is never made"):
        loading.load_model(path)


def damaged(model: Model) -> Model:
    return replace(model, graph=open_end(model.graph))


def test_nothing_is_looked_at_without_the_setting(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HIL_VERIFY")
    assert checked(without_first(program), "a pass") is not None


STAGES = {
    "without_constant_channels": "constant-channels",
    "with_tables": "tables",
    "folded": "folds",
    "with_joint_functions": "joint-functions",
    "with_linear_forms": "linear-sums",
    "with_linear_channels": "linear-channels",
    "without_needless_clipping": "ranges",
    "with_signs": "signs",
    "with_records": "blocks",
    "with_matrices": "matrices",
    "with_streams": "streams",
    "with_softmax_tables": "softmax-tables",
}


@pytest.mark.parametrize("function", STAGES)
def test_every_stage_of_an_arrangement_is_looked_at(
    function: str, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrange, function, lambda program, *_: longer_constant(program))
    with pytest.raises(Malformed, match=f"after {STAGES[function]}: constant"):
        arrange.arrange(program, "avr" if function == "with_streams" else "cortex-m7")


def test_a_plan_that_overwrites_what_is_still_read_is_named(program: Program) -> None:
    """Every pair of tensors that a plan keeps apart, moved onto each other: what the planner's own checker says of live
    ranges, this one finds by running the program."""
    placed = place(program)
    assert list(faults_of_plan(placed.program, placed.plan)) == []
    named = 0
    for moved, onto in itertools.permutations(placed.plan.offsets, 2):
        offsets = {**placed.plan.offsets, moved: placed.plan.offsets[onto]}
        plan = replace(placed.plan, offsets=offsets)
        found = list(faults_of_plan(placed.program, plan))
        if is_legal(placed.problem, plan):
            assert found == []
        named += bool(found)
    assert named >= 3


def is_legal(problem: Problem, plan: Plan) -> bool:
    try:
        check(problem, plan)
    except PlanError:
        return False
    return True


def test_a_plan_reads_what_nobody_wrote(program: Program) -> None:
    placed = place(program)
    body = tuple(item for item in placed.program.body if isinstance(item, Loop))
    found = list(faults_of_plan(replace(placed.program, body=body), placed.plan))
    assert any("before it is written" in fault for fault in found)
