"""Row-wise execution: smaller arenas, the same integers and saturations in the reference, on bytes and on boards."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import onnx
import pytest
from arena_machine import Arena, compiled_cases
from kernel_cases import SANITIZED, first_difference, run_natively, run_on_board
from onnx_models import compiled, load, node, samples_for, simple
from random_models import extreme_inputs

from tinyhil.codegen.kernel_calls import name_of
from tinyhil.formats.format import INTEGER
from tinyhil.harness.settings.config import load_boards
from tinyhil.language.form import Joined
from tinyhil.language.program import Loop, Op, Program, walk
from tinyhil.memplan import check, plan
from tinyhil.memplan.arena.execution_check import faults_of_plan
from tinyhil.memplan.arena.placement import Placement, place
from tinyhil.memplan.arena.row_choice import with_rows
from tinyhil.memplan.arena.row_schedule import schedule_of
from tinyhil.memplan.arena.row_stages import Stage, stages_of
from tinyhil.memplan.arena.row_wise import row_wise, rows_made
from tinyhil.memplan.arena.tensors import problem_of
from tinyhil.references.reference import quantize_inputs, run_reference

WITHOUT = frozenset({"rows"})


def weights(*shape: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape) / np.sqrt(np.prod(shape[1:]))


class Chain:
    """A network in one line, layer after layer."""

    def __init__(self, channels: int, side: int) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, np.ndarray] = {}
        self.shape = (1, channels, side, side)
        self.channels = channels
        self.last = "x"

    def add(self, op: str, operands: str = "", **attrs: object) -> Chain:
        out = f"v{len(self.nodes)}"
        self.nodes.append(node(op, f"{self.last} {operands}".strip(), out, **attrs))
        self.last = out
        return self

    def conv(
        self, outputs: int, kernel: int, stride: int = 1, pad: int = 0, group: int = 1, bias: int = 1, dilation: int = 1
    ) -> Chain:
        name = f"w{len(self.nodes)}"
        self.constants[name] = weights(outputs, self.channels // group, kernel, kernel, seed=len(self.nodes))
        operands = name
        if bias:
            self.constants[f"b{name}"] = weights(outputs, seed=len(self.nodes) + 50)
            operands += f" b{name}"
        self.channels = outputs
        return self.add("Conv", operands, strides=[stride] * 2, pads=[pad] * 4, group=group, dilations=[dilation] * 2)

    def pool(self, op: str, kernel: int, stride: int, pad: int = 0, **attrs: int) -> Chain:
        return self.add(op, kernel_shape=[kernel, kernel], strides=[stride, stride], pads=[pad] * 4, **attrs)

    def branch(self, begin: str, channels: int) -> Chain:
        """Go on from an earlier tensor."""
        self.last, self.channels = begin, channels
        return self

    def model(self) -> onnx.ModelProto:
        self.nodes[-1].output[0] = "y"
        return simple(self.nodes, {"x": self.shape}, self.constants)


def digits() -> Chain:
    """The CNN on 8 x 8 digits: two convolutions, each with its pooling."""
    first = Chain(1, 8).conv(8, 3, pad=1).add("Relu").pool("MaxPool", 2, 2)
    return first.conv(16, 3, pad=1).add("Relu").pool("MaxPool", 2, 2)


def mobile() -> Chain:
    """Depthwise separable layers, as long as a network for pictures has them."""
    chain = Chain(3, 20).conv(8, 3, stride=2, pad=1).add("Relu")
    for outputs, stride in ((12, 1), (16, 2), (16, 1), (24, 2)):
        chain = chain.conv(chain.channels, 3, stride=stride, pad=1, group=chain.channels).add("Relu")
        chain = chain.conv(outputs, 1).add("Relu")
    return chain


def odd() -> Chain:
    """Strides that leave rows over, no bias, overlapping pools, an average that counts no padding, a tanh."""
    chain = Chain(2, 17).conv(6, 5, stride=2, bias=0).add("Sigmoid").pool("AveragePool", 3, 1, pad=1)
    return chain.add("LeakyRelu", alpha=0.25).pool("AveragePool", 2, 2).conv(4, 2)


def gaps_between() -> Chain:
    """A kernel smaller than its stride: rows that nobody reads, whose saturations count all the same."""
    return Chain(2, 15).conv(5, 3, pad=1).add("Tanh").conv(4, 1, stride=2).conv(4, 2, stride=3, pad=1)


def residual() -> Chain:
    """Additions of what came before, with and without a layer on the way; of equal and of half the size."""
    chain = Chain(2, 16).conv(6, 3, pad=1).add("Relu")
    begin = chain.last
    chain.conv(6, 3, pad=1).add("Relu").conv(6, 3, pad=1).add("Add", begin).add("Relu")
    begin = chain.last
    chain.conv(8, 3, stride=2, pad=1).add("Relu").conv(8, 3, pad=1)
    longer = chain.last
    chain.branch(begin, 6).conv(8, 1, stride=2).add("Add", longer).add("Relu")
    begin = chain.last
    chain.conv(16, 1).add("Relu").conv(16, 3, pad=1, group=16).add("Relu").conv(8, 1).add("Add", begin)
    begin = chain.last
    return chain.pool("MaxPool", 3, 1, pad=1).add("Sub", begin).conv(4, 3, stride=2)


def fire() -> Chain:
    """Branches whose results lie beside each other, one after the other and of three."""
    chain = Chain(3, 15).conv(6, 3, stride=2).add("Relu")
    for width in (4, 5):
        begin = chain.conv(3, 1).add("Relu").last
        left = chain.conv(width, 1).add("Relu").last
        chain.branch(begin, 3).conv(width, 3, pad=1).add("Relu").add("Concat", left, axis=1)
        chain.channels = 2 * width
    begin, channels = chain.last, chain.channels
    again = chain.conv(3, 1).last  # read beside the concatenation, too
    chain.branch(again, 3).conv(2, 3, pad=1).add("Concat", f"{again} {begin}", axis=1)
    chain.channels = channels = channels + 5
    begin = chain.last
    first = chain.pool("MaxPool", 3, 1, pad=1).last
    second = chain.branch(begin, channels).conv(3, 3, pad=1).last
    chain.branch(begin, channels).conv(2, 1).add("Concat", f"{first} {second}", axis=1)
    chain.channels = channels + 5
    return chain.conv(4, 3)


def excite() -> Chain:
    """Blocks of MobileNetV3: the global mean of a block says what its channels count, the first adds its operand."""
    chain = Chain(3, 12).conv(6, 3, stride=2, pad=1).add("HardSwish")
    for stride, outputs in ((1, 6), (2, 8)):
        begin = chain.last
        chain.conv(24, 1).add("HardSwish").conv(24, 3, stride=stride, pad=1, group=24).add("HardSwish")
        planes = chain.last
        chain.add("GlobalAveragePool").conv(6, 1).add("Relu").conv(24, 1).add("HardSigmoid").add("Mul", planes)
        chain.conv(outputs, 1)
        chain = chain.add("Add", begin) if stride == 1 else chain
    return chain.conv(12, 1).add("HardSwish").conv(3, 2)


CHAINS = {"digits": digits, "mobile": mobile, "odd": odd, "gaps": gaps_between}
MODELS = {**CHAINS, "residual": residual, "fire": fire, "excite": excite}


def program_of(name: str, folder: Path, default: str = "fixed16") -> Program:
    loaded = load(MODELS[name]().model(), folder)
    return compiled(loaded, samples_for(loaded.shapes["x"]), default)


def runs(program: Program) -> list[list[Stage]]:
    """The longest runs of stages that follow each other at the top level."""
    stages = stages_of(program)
    found: list[list[Stage]] = []
    for index in sorted(stages):
        if index - 1 not in stages:
            found.append([])
        found[-1].append(stages[index])
    return [run for run in found if len(run) > 1]


def inputs_of(program: Program, seed: int) -> np.ndarray:
    """Extreme integers; numbers of other formats."""
    if program.tensors[program.input].format.domain == INTEGER:
        return extreme_inputs(program, seed)
    return quantize_inputs(program, samples_for(program.input_shape, seed=seed))[0]


def loops(program: Program) -> list[Loop]:
    return [item for item in program.body if isinstance(item, Loop)]


@pytest.mark.parametrize(
    ("name", "default"),
    [
        *itertools.product(CHAINS, ["fixed8", "fixed16", "fixed8pc"]),
        *(
            ("digits", "fp8e4m3pc"),
            ("odd", "fp8e4m3pc"),
            ("residual", "fixed8"),
            ("fire", "fixed16"),
            ("excite", "int8"),
        ),
    ],
)
def test_every_part_of_every_chain_computes_the_same(name: str, default: str, tmp_path: Path) -> None:
    program = program_of(name, tmp_path, default)
    inputs = inputs_of(program, 3)
    wanted = run_reference(program, inputs)
    made = 0
    for chain in runs(program):
        for first in range(len(chain)):
            for end in range(first + 2, len(chain) + 1):
                candidate = row_wise(program, chain[first:end])
                if candidate is None:
                    continue
                found = run_reference(candidate, inputs)
                assert np.array_equal(found.outputs, wanted.outputs), (first, end)
                assert np.array_equal(found.saturations, wanted.saturations), (first, end)
                made += 1
    assert made >= 3


@pytest.mark.parametrize("default", ["fixed8", "fixed16"])
@pytest.mark.parametrize("name", MODELS)
def test_on_real_bytes_and_never_a_larger_peak(name: str, default: str, tmp_path: Path) -> None:
    program = program_of(name, tmp_path, default)
    inputs = extreme_inputs(program, 4)
    wanted = run_reference(program, inputs).outputs
    placed, whole = place(program), place(program, WITHOUT)
    assert placed.plan.peak_bytes <= whole.plan.peak_bytes
    assert loops(whole.program) == []
    for found in (placed, place(program, {"in-place"}), place(program, {"order", "gaps"})):
        check(found.problem, found.plan)
        machine = Arena(found)
        assert np.array_equal([machine.run(sample) for sample in inputs], wanted)


@pytest.mark.parametrize("default", ["fixed8", "fixed8pc"])
@pytest.mark.parametrize(
    ("name", "share"),
    [("digits", 0.65), ("mobile", 0.5), ("odd", 0.55), ("residual", 0.65), ("fire", 0.85), ("excite", 0.65)],
)
def test_the_peak_falls(name: str, share: float, default: str, tmp_path: Path) -> None:
    program = program_of(name, tmp_path, default)
    placed, whole = place(program), place(program, WITHOUT | {"in-place"})
    assert placed.plan.peak_bytes <= share * whole.plan.peak_bytes
    assert loops(placed.program)
    assert any(op.kernel.rows for op in walk(placed.program.body))


def test_a_scale_per_channel_costs_no_ram(tmp_path: Path) -> None:
    """Patch and line buffers are the same, so the peak is that of one scale per tensor."""
    peaks = {place(program_of("mobile", tmp_path, name)).plan.peak_bytes for name in ("fixed8", "fixed8pc")}
    assert len(peaks) == 1


def test_a_line_buffer_holds_the_rows_of_one_window(tmp_path: Path) -> None:
    """Two 3 x 3 convolutions of stride 1: the rows between them are three."""
    chain = Chain(1, 12).conv(2, 3, pad=1).conv(2, 3, pad=1)
    program = compiled(load(chain.model(), tmp_path), samples_for(chain.shape))
    (found,) = runs(program)
    schedule = schedule_of(found)
    assert schedule.rings == {"v0": 3, "y": 12}
    assert schedule.spans[:, :, 1].tolist() == [[*range(1, 13), 0], [0, *range(1, 13)]]
    candidate = row_wise(program, found)
    assert candidate is not None
    assert candidate.tensors["v0"].count == 3 * 2 * 12


def test_schedules_are_remembered_whatever_the_formats(tmp_path: Path) -> None:
    one, other = (runs(program_of("mobile", tmp_path, name))[0] for name in ("fixed8", "fixed16"))
    assert schedule_of(one) is schedule_of(other)
    assert schedule_of(one) is not schedule_of(one[:-1])


def test_no_row_is_made_twice(tmp_path: Path) -> None:
    program = program_of("mobile", tmp_path)
    for chain in runs(program):
        candidate = row_wise(program, chain)
        assert candidate is not None
        (loop,) = loops(candidate)
        tables = {row: table for table, row in loop.slices}
        for op, stage in zip(loop.body, chain, strict=True):
            spans = candidate.constants[tables[op.inputs[0]]].reshape(-1, 2)
            assert [row for begin, end in spans for row in range(begin, end)] == list(range(stage.out.height))
            assert rows_made(candidate.constants, loop, op) == stage.out.height


def test_parts_of_a_concatenation_are_made_where_they_belong(tmp_path: Path) -> None:
    program = program_of("fire", tmp_path)
    (found,) = runs(program)
    candidate = row_wise(program, found)
    assert candidate is not None
    moved = [op.name for op in walk(candidate.body) if name_of(op.kernel) == "move_rows"]
    assert len(moved) == 2  # of tensors that others read, too
    assert len([op for op in walk(candidate.body) if op.params.get("out_first")]) == 6  # the first part of each is at 0


def test_a_tensor_read_outside_of_the_loop_is_whole(tmp_path: Path) -> None:
    program = program_of("residual", tmp_path)
    (found,) = runs(program)
    begin = found[2].target  # of which the next block adds a part
    assert begin in [one.name for one in found[5].reads]
    candidate = row_wise(program, found[1:4])
    assert candidate is not None
    assert candidate.tensors[begin].count == program.tensors[begin].count
    assert candidate.tensors[found[1].target].count < program.tensors[found[1].target].count


def test_nothing_changes_where_nothing_is_gained(tmp_path: Path) -> None:
    loaded = load(simple([node("Relu", "x", "y")], {"x": (1, 4)}), tmp_path)
    program = compiled(loaded, samples_for((1, 4)))
    assert with_rows(program) == []


def placements(folder: Path, *names: str) -> tuple[list[Placement], list[np.ndarray]]:
    found = []
    for name in names:
        more = {"digits": ["fixed16", "fixed8pc", "fp4e2m1pc"], "residual": [], "fire": [], "excite": ["int8"]}
        for width in ("fixed8", *more.get(name, ["fixed16", "fixed8pc"])):
            placed = place(program_of(name, folder, width))
            assert loops(placed.program)
            found.append(placed)
    return found, [inputs_of(placed.program, 5) for placed in found]


def test_natively_with_sanitizers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found, inputs = placements(tmp_path, "digits", "mobile", "odd", "residual", "fire", "excite")
    cases = compiled_cases(found, inputs, monkeypatch)
    assert first_difference(cases, run_natively(cases, tmp_path, *SANITIZED)) == ""


@pytest.mark.parametrize(
    ("board", "names"),
    [
        ("uno", ["digits"]),
        ("due", ["odd", "residual"]),
        pytest.param("due", ["digits", "fire", "excite"], marks=pytest.mark.slow),
    ],
)
def test_on_boards(board: str, names: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found, inputs = placements(tmp_path, *names)
    cases = compiled_cases(found, inputs, monkeypatch)
    for some in (cases[::2], cases[1::2]):  # all at once are more than an Uno's flash
        assert first_difference(some, run_on_board(some, load_boards().board(board), tmp_path / "cache")) == ""


def test_a_sum_takes_the_place_of_the_operand_that_its_block_began_with(tmp_path: Path) -> None:
    """Other layers of the loop read that operand, too; the oracle knows the rows that each step reads and writes."""
    chain = Chain(2, 10).conv(8, 3, pad=1).add("Relu")
    begin = chain.last
    chain.conv(24, 1).add("Relu").conv(24, 3, pad=1, group=24).add("Relu").conv(8, 1).add("Add", begin)
    chain.conv(8, 3, pad=1)
    program = compiled(load(chain.model(), tmp_path), samples_for(chain.shape), "fixed8")
    stages = stages_of(program)
    (whole,) = [at for at, op in enumerate(program.body) if isinstance(op, Op) and op.kernel.joined is Joined.SUM]
    found = row_wise(program, [stages[at] for at in range(whole - 2, whole + 1)])
    assert found is not None
    problem = problem_of(found)
    result, operand = stages[whole].target, stages[whole - 2].reads[0].name
    assert frozenset((result, operand)) in problem.alias_pairs()
    together = plan(problem)
    assert together.offsets[result] == together.offsets[operand]
    assert not list(faults_of_plan(found, together))
    inputs = extreme_inputs(program, 4)
    machine = Arena(Placement(found, problem, together))
    assert np.array_equal([machine.run(x) for x in inputs], run_reference(program, inputs).outputs)
    early = row_wise(program, [stages[at] for at in range(whole - 2, whole + 2)])  # the window behind needs older rows
    assert early is not None
    assert not list(faults_of_plan(early, plan(problem_of(early))))
