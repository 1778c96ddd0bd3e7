"""The passes that shrink the arena: the same integers with each of them, on real bytes, and never a larger peak."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from arena_machine import Arena, Body, Written, compiled_cases
from boards_under_test import EVERY, by_compiler
from kernel_cases import SANITIZED, first_difference, run_natively, run_on_board
from onnx_models import compiled, load, node, samples_for, simple
from random_models import extreme_inputs, random_cases
from random_programs import random_program
from scan_models import SCANS, cell, classifier, scan

from tinyhil.compiler.calibrate import load_ranges
from tinyhil.compiler.lower import lower
from tinyhil.formats.fixed import Fixed
from tinyhil.frontend.load import load_model
from tinyhil.frontend.onnx import load_onnx
from tinyhil.harness.build.compile import build
from tinyhil.harness.build.image import check_arena
from tinyhil.harness.build.pipeline import compile_model
from tinyhil.harness.job.job import Request
from tinyhil.harness.job.zoo import find_model
from tinyhil.harness.measure.record import make_record
from tinyhil.harness.measure.run import run as run_request
from tinyhil.harness.settings.config import load_boards
from tinyhil.language.assignment import Assignment
from tinyhil.language.form import Form
from tinyhil.language.program import Loop, Op, Program, Role, Tensor, walk
from tinyhil.memplan import load_bytes, lower_bound
from tinyhil.memplan.arena.floor import floor_bytes
from tinyhil.memplan.arena.level import Level, level_of
from tinyhil.memplan.arena.order import given_peak, order_body, reorder
from tinyhil.memplan.arena.passes import ALL_NAMES
from tinyhil.memplan.arena.placement import Placement, place
from tinyhil.memplan.arena.states import with_gaps
from tinyhil.memplan.arena.tensors import problem_of
from tinyhil.ops.movement import PLACE, PLACE_MORE
from tinyhil.references.reference import run_reference

SUBSETS = [set(itertools.compress(("in-place", "gaps", "order"), left)) for left in itertools.product((0, 1), repeat=3)]
SUBSETS += [{"rows"}, {"views"}, {"views", "rows"}]


def scan_program(name: str, folder: Path, default: str = "fixed16") -> Program:
    loaded = load(SCANS[name](), folder)
    return compiled(loaded, samples_for(loaded.shapes["x"]), default)


def fastgrnn(default: str) -> Program:
    source = find_model("fastgrnn_har")
    model = load_onnx(source.path)
    assert source.ranges is not None
    return lower(model.graph, Assignment(default), load_ranges(source.ranges, model.sha256))


# ---- the same integers on real bytes


def in_arena(placed: Placement, inputs: np.ndarray) -> np.ndarray:
    machine = Arena(placed)
    return np.array([machine.run(sample) for sample in inputs])


def reference_writes(program: Program, sample: np.ndarray) -> Written:
    found: Written = defaultdict(list)
    run_reference(program, sample[None, :], lambda name, values: found[name].append(values[0].tolist()))
    for name in {op.output for op in walk(program.body) if op.kernel in (PLACE.form, PLACE_MORE.form)}:
        del found[name]  # written part by part
    return found


def are_same(one: Placement, other: Placement) -> bool:
    """Equal in all that is carried out."""
    a, b = one.program, other.program
    return (
        (one.plan, one.problem, a.body, a.tensors) == (other.plan, other.problem, b.body, b.tensors)
        and a.constants.keys() == b.constants.keys()
        and all(np.array_equal(array, b.constants[name]) for name, array in a.constants.items())
    )


def check_passes(program: Program, inputs: np.ndarray) -> None:
    """With every combination of passes, and with the sample in the arena, each tensor takes on the reference's values,
    one after the other."""
    wanted = run_reference(program, inputs)
    writes = reference_writes(program, inputs[-1])
    shared = program.with_input_in_arena()
    cases = [(program, without) for without in SUBSETS] + [
        (shared, without) for without in (ALL_NAMES, frozenset[str]())
    ]
    seen: list[Placement] = []
    for case, without in cases:
        placed = place(case, without)
        if any(are_same(placed, other) for other in seen):
            continue  # that pass had nothing to do: what it leaves has been carried out
        seen.append(placed)
        machine = Arena(placed)
        assert np.array_equal([machine.run(sample) for sample in inputs], wanted.outputs), without
        assert machine.written == writes, without
        again = run_reference(placed.program, inputs)
        assert np.array_equal(again.outputs, wanted.outputs)
        assert np.array_equal(again.saturations, wanted.saturations)


@pytest.fixture
def several_writers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Random programs write one tensor several times, which no pass of the compiler does: the verifier forbids it."""
    monkeypatch.delenv("HIL_VERIFY")


@pytest.mark.parametrize("default", ["fixed8", "fixed16"])
@pytest.mark.parametrize("name", SCANS)
def test_every_pass_keeps_the_result_of_loops(name: str, default: str, tmp_path: Path) -> None:
    program = scan_program(name, tmp_path, default)
    check_passes(program, extreme_inputs(program, 2))


@pytest.mark.parametrize("seed", range(0, 100_000, 20_000))
def test_every_pass_keeps_the_result_of_random_models(seed: int, tmp_path: Path) -> None:
    for case in random_cases(200_000 + seed, 25, tmp_path):
        check_passes(case.program, case.inputs)


@pytest.mark.usefixtures("several_writers")
@pytest.mark.parametrize("seed", range(0, 10_000, 2000))
def test_every_pass_keeps_the_values_of_programs_no_front_end_makes(seed: int) -> None:
    for program in map(random_program, range(seed, seed + 40)):
        check_passes(program, np.random.default_rng(seed).integers(-99, 100, (2, program.tensors["x"].count)))


@pytest.mark.parametrize("default", ["fixed8", "fixed16"])
def test_every_pass_keeps_the_result_of_the_bundled_model(default: str) -> None:
    program = fastgrnn(default)
    check_passes(program, extreme_inputs(program, 3)[-1:])


def test_the_simulator_notices_a_state_that_is_overwritten_too_early(tmp_path: Path) -> None:
    """h shares the place of a tensor that lives while h is still read: the result must be wrong."""
    program = scan_program("two_states", tmp_path)
    placed = place(program, ALL_NAMES)
    inputs = extreme_inputs(program, 1)
    offsets = dict(placed.plan.offsets)
    offsets["hu"] = offsets["h"]
    offsets["c"] = offsets["h"]
    machine = Arena(placed, offsets)
    got = np.array([machine.run(sample) for sample in inputs])
    assert not np.array_equal(got, run_reference(program, inputs).outputs)


# ---- compiled


def shrunk(count: int, first: int, folder: Path) -> tuple[list[Placement], list[np.ndarray]]:
    """Random models and loops that the passes change."""
    placements, inputs = [], []
    cases = random_cases(first, 6 * count, folder)
    programs = [(case.program, case.inputs) for case in cases]
    programs += [(p, extreme_inputs(p, 4)) for p in (scan_program(name, folder) for name in SCANS)]
    for program, x in programs:
        placed = place(program)
        if placed.plan.peak_bytes < place(program, ALL_NAMES).plan.peak_bytes:
            # programs of their own: the same may occur twice
            placements.append(Placement(replace(placed.program), placed.problem, placed.plan))
            inputs.append(x)
    assert len(placements) >= count
    return placements, inputs


def test_shrunk_arenas_natively(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernels themselves over shared bytes, with a guard behind the arena."""
    placements, inputs = shrunk(24, 300_000, tmp_path)
    cases = compiled_cases(placements[-24:], inputs[-24:], monkeypatch)  # the loops come last
    assert first_difference(cases, run_natively(cases, tmp_path, *SANITIZED)) == ""


@pytest.mark.parametrize("board", by_compiler(EVERY))
def test_shrunk_arenas_on_boards(board: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    placements, inputs = shrunk(4, 310_000, tmp_path)
    cases = compiled_cases(placements[:4], inputs[:4], monkeypatch)
    assert first_difference(cases, run_on_board(cases, load_boards().board(board), tmp_path / "cache")) == ""


# ---- never a larger peak


def peaks(program: Program) -> list[int]:
    """Without passes, then with one more each."""
    steps = [ALL_NAMES, ALL_NAMES - {"in-place"}, ALL_NAMES - {"in-place", "gaps"}, set()]
    return [place(program, without).plan.peak_bytes for without in steps]


def test_no_pass_ever_raises_the_peak(tmp_path: Path) -> None:
    programs = [case.program for case in random_cases(400_000, 75, tmp_path)]
    programs += [scan_program(name, tmp_path) for name in SCANS]
    gained = np.zeros(3, int)
    for program in programs:
        found = peaks(program)
        assert found == sorted(found, reverse=True)
        gained += np.diff(found) < 0
    assert (gained >= 10).all()  # each of the three is worth something on its own


@pytest.mark.parametrize(("default", "wanted"), [("fixed16", [320, 256, 256, 192]), ("fixed8", [160, 128, 128, 96])])
def test_the_bundled_model_needs_three_vectors(default: str, wanted: list[int]) -> None:
    """h, z and c are live together in every order; the state rests once keep = z * h is made."""
    assert peaks(fastgrnn(default)) == wanted
    placed = place(fastgrnn(default))
    assert placed.plan.proven
    assert placed.plan.offsets["keep"] == placed.plan.offsets["h"] == placed.plan.offsets["h_next"]


def test_a_gap_is_free_only_between_reader_and_writer(tmp_path: Path) -> None:
    problem = place(fastgrnn("fixed16")).problem
    state = next(buffer for buffer in problem.buffers if buffer.name == "h")
    order = [op.name for op in walk(place(fastgrnn("fixed16")).program.body)]
    writes = [i for i, name in enumerate(order) if name == "cell.h"]
    assert state.gaps == ((order.index("keep") + 1, writes[1]),)


def test_the_gap_begins_behind_the_last_reader(tmp_path: Path) -> None:
    body = cell([node("Add", "h x_t", "s"), node("MatMul", "s U3", "h_next")], {"h": (1, 3), "x_t": (1, 3)})
    constants = {"U3": np.eye(3, dtype=np.float32), "h3": np.zeros((1, 3)), "R3": np.ones((3, 2))}
    loaded = load(classifier([scan("h3 x", "h_n", body)], constants=constants, readout="R3"), tmp_path)
    program = compiled(loaded, samples_for(loaded.shapes["x"]))
    gapped = {b.name: b.gaps for b in with_gaps(program, problem_of(program)).buffers}
    assert gapped["h"] == ((2, 3),)  # 0: h = 0; 1: s = h + x_t; 2: h_next = s U3; 3: h = h_next
    assert gapped["s"] == gapped["h_next"] == ()


def test_a_state_read_by_an_inner_loop_is_not_overwritten_in_it() -> None:
    """d = h + e would fit into the place of h, which rests afterwards; but the inner loop needs h once more."""
    tensors = {name: Tensor(name, 2, Fixed(16, 0), Role.ARENA) for name in ("h", "d", "n", "y")}
    tensors |= {name: Tensor(name, 2, Fixed(16, 0), role) for name, role in (("row", "slice"), ("e", Role.SLICE))}
    tensors["x"] = Tensor("x", 6, Fixed(16, 0), Role.INPUT)
    add = {"count": 2, "a_period": 2, "b_period": 2, "a_shift": 0, "b_shift": 0, "shift": 0}
    inner = Loop("inner", 3, (("x", "e"),), (Op(Form("add"), "d", ("h", "e"), "d", add),))
    following = (Op(Form("add"), "n", ("row", "row"), "n", add), Op(Form("copy"), "h", ("n",), "h", {"count": 2}))
    body = (
        Op(Form("fill"), "start", (), "h", {"count": 2, "value": 5}),
        Loop("outer", 3, (("x", "row"),), (inner, *following)),
        Op(Form("add"), "y", ("h", "h"), "y", add),
    )
    program = Program("p", tensors, {}, body, "x", "y", (6,), (2,))
    gaps = {b.name: b.gaps for b in with_gaps(program, problem_of(program)).buffers}
    assert gaps["h"] == ((2, 3),)  # 0: start; 1: d; 2: n; 3: h; 4: y
    check_passes(program, np.arange(12).reshape(2, 6))


# ---- the order


def is_permutation(one: Body, other: Body) -> bool:
    if len(one) != len(other):
        return False
    ops = [sorted(item.name for item in body if isinstance(item, Op)) for body in (one, other)]
    loops = [
        sorted((item for item in body if isinstance(item, Loop)), key=lambda loop: loop.name) for body in (one, other)
    ]
    pairs = zip(*loops, strict=True)
    return ops[0] == ops[1] and all(a.slices == b.slices and is_permutation(a.body, b.body) for a, b in pairs)


def all_orders(level: Level, done: int = 0) -> list[tuple[int, ...]]:
    if done == (1 << len(level.items)) - 1:
        return [()]
    ready = [i for i, needed in enumerate(level.before) if not done >> i & 1 and not needed & ~done]
    return [(i, *rest) for i in ready for rest in all_orders(level, done | 1 << i)]


def levels(program: Program, body: Body) -> list[tuple[Body, bool]]:
    found = [(body, body is program.body)]
    for item in body:
        if isinstance(item, Loop):
            found += levels(program, item.body)
    return found


def straight_levels(program: Program) -> list[Body]:
    """Levels without loops in them."""
    return [body for body, _ in levels(program, program.body) if not any(isinstance(item, Loop) for item in body)]


def test_the_search_finds_the_best_of_all_orders(tmp_path: Path) -> None:
    compared = improved = 0
    for case in random_cases(500_000, 120, tmp_path):
        program = case.program
        for body in straight_levels(program):
            level = level_of(program, body, (0,) * len(body), is_top=body is program.body)
            orders = all_orders(level)
            if len(orders) > 3000:
                continue
            best = min(level.peak_of(order) for order in orders)
            found = order_body(program, body)
            assert found.exact
            assert found.peak_bytes == best
            assert level.floor_bytes() <= best
            compared += len(orders) > 1
            improved += best < level.peak_of(tuple(range(len(body))))
    assert compared > 40
    assert improved > 10


def shuffled(program: Program, body: Body, chance: np.random.Generator) -> Body:
    """Any order the levels allow."""
    level = level_of(program, body, (0,) * len(body), is_top=body is program.body)
    items: list[Op | Loop] = []
    done = 0
    while len(items) < len(body):
        ready = [i for i, needed in enumerate(level.before) if not done >> i & 1 and not needed & ~done]
        index = ready[int(chance.integers(len(ready)))]
        item, done = body[index], done | 1 << index
        items.append(item if isinstance(item, Op) else replace(item, body=shuffled(program, item.body, chance)))
    return tuple(items)


@pytest.mark.usefixtures("several_writers")
@pytest.mark.parametrize("orders", [1, pytest.param(5, marks=pytest.mark.slow)])
def test_every_order_the_levels_allow_computes_the_same(orders: int, tmp_path: Path) -> None:
    """Not only the one chosen: the dependences themselves are right, and the plans of such orders too."""
    chance = np.random.default_rng(1)
    programs = [random_program(seed) for seed in range(20_000, 20_012)]
    programs += [scan_program(name, tmp_path) for name in SCANS]
    moved = 0
    for program in programs:
        sample = chance.integers(-99, 100, program.tensors[program.input].count)
        wanted = reference_writes(program, sample)
        for _ in range(orders):
            other = replace(program, body=shuffled(program, program.body, chance))
            assert reference_writes(other, sample) == wanted
            check_passes(other, sample[None, :])
            moved += other.body != program.body
    assert moved > 20


@pytest.mark.parametrize("width", [1, 2, None])
def test_a_beam_of_any_width_gives_a_permutation_that_is_no_worse(width: int | None, tmp_path: Path) -> None:
    for case in random_cases(700_000, 40, tmp_path):
        found = reorder(case.program, width)
        assert is_permutation(case.program.body, found.body)
        assert given_peak(found) <= given_peak(case.program)
        assert reorder(case.program, width).body == found.body
        assert found is case.program or given_peak(found) < given_peak(case.program)


def test_the_model_of_the_search_is_the_planner_s_bound(tmp_path: Path) -> None:
    """Live bytes as the search counts them are the load of the planned problem, but for rare chains of aliases."""
    same, programs = 0, [case.program for case in random_cases(800_000, 75, tmp_path)]
    for program in programs:
        bound = lower_bound(with_gaps(program, problem_of(program))).bytes
        same += bound == given_peak(program)
        assert abs(bound - given_peak(program)) <= max(t.size_bytes for t in program.tensors.values())
    assert same >= 0.97 * len(programs)


@pytest.mark.parametrize("branches", [3, 12, 60])
def test_branches_are_closed_before_others_are_opened(branches: int, tmp_path: Path) -> None:
    """y = sum of r_i, r_i = (x W_i) V_i, first all x W_i: large, then all the rest. In the best order one is live."""
    nodes = [node("MatMul", f"x w{i}", f"a{i}") for i in range(branches)]
    nodes += [node("MatMul", f"a{i} v{i}", f"b{i}") for i in range(branches)]
    nodes += [node("Add", f"{'b0' if i == 1 else f's{i - 1}'} b{i}", f"s{i}") for i in range(1, branches)]
    nodes.append(node("Relu", f"s{branches - 1}", "y"))
    chance = np.random.default_rng(1)
    constants = {f"w{i}": chance.normal(size=(2, 50)) for i in range(branches)}
    constants |= {f"v{i}": chance.normal(size=(50, 2)) for i in range(branches)}
    loaded = load(simple(nodes, {"x": (1, 2)}, constants), tmp_path)
    program = compiled(loaded, samples_for((1, 2)))
    before, placed = place(program, {"order"}), place(program)
    assert before.plan.peak_bytes >= branches * 100
    assert placed.plan.peak_bytes <= 100 + 3 * 4
    inputs = extreme_inputs(program, 5)
    assert np.array_equal(in_arena(placed, inputs), run_reference(program, inputs).outputs)


# ---- symbol, plan and record


@pytest.mark.parametrize(("without", "peak"), [(ALL_NAMES, 320), (set(), 192)], ids=["no passes", "all passes"])
@pytest.mark.parametrize("board", by_compiler(EVERY))
def test_the_arena_in_the_image_is_the_plan_s(board: str, without: set[str], peak: int, tmp_path: Path) -> None:
    source = find_model("fastgrnn_har")
    model = load_onnx(source.path)
    assert source.ranges is not None
    spec = load_boards().board(board)
    ranges = load_ranges(source.ranges, model.sha256)
    found = compile_model(model, Assignment("fixed16"), ranges, [spec], {board}, without)
    image = build(found.sources, spec, cache_dir=tmp_path, log=lambda line: None)
    check_arena(image, found.plan.peak_bytes)
    assert image.symbol("hil_arena").size_bytes == found.plan.peak_bytes == peak


def test_the_record_says_what_was_planned(tmp_path: Path) -> None:
    inputs = tmp_path / "x.npy"
    np.save(inputs, samples_for((1, 128, 9), 2))
    request = Request(board="host", model="fastgrnn_har", inputs=inputs, results=tmp_path)
    outcome = run_request(request, load_boards(), tmp_path / "cache", lambda line: None, lambda done, total: None)
    record = make_record(outcome)
    assert record["bit_exact"]
    size = outcome.image.symbol("hil_arena").size_bytes
    assert record["memory"]["arena_bytes"] == record["plan"]["peak_bytes"] == size == 192
    assert record["plan"]["offsets"] == dict(outcome.compiled.plan.offsets)
    loads = [load_bytes(outcome.compiled.problem, instant) for instant in range(17)]
    assert max(loads) == size


def test_the_benchmark_prints_its_table() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.arena_mixes", "--mixes", "3", "--models", "fastgrnn_har"],
        cwd=Path(__file__).resolve().parents[1],
        capture_output=True,
        text=True,
        check=True,
    )
    (row,) = (line.split(" | ") for line in done.stdout.splitlines() if line.startswith("| fastgrnn_har"))
    assert row[1:5] == ["240", "224", "192", "3/3"]
    assert "5 arenas, those of 8 and of 16 bits alone among them: 5 proven optimal" in done.stdout


@pytest.mark.usefixtures("several_writers")
def test_no_plan_undercuts_the_floor(tmp_path: Path) -> None:
    """Of networks whose parts go row by row, are shown in place, in loops; reached where a chain is all there is."""
    random = [case.program for case in random_cases(700_000, 60, tmp_path)]
    for program in (*random, *map(random_program, range(700_000, 700_100))):
        assert floor_bytes(program) <= place(program).plan.peak_bytes
    reached = set()
    for name in ("digits_cnn", "lenet5_mnist", "bonsai_usps2", "fastgrnn_har"):
        source = find_model(name)
        model = load_model(source.path)
        assert source.ranges is not None
        ranges = load_ranges(source.ranges, model.sha256)
        for widths in ("fixed8", "fixed16"):
            program = lower(model.graph, Assignment(widths), ranges)
            peak = place(program).plan.peak_bytes
            assert 0 < floor_bytes(program) <= peak
            reached.add((name, floor_bytes(program) == peak))
    assert {("digits_cnn", True), ("lenet5_mnist", True)} <= reached
