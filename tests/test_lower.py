"""Graph to program: formats and who shares them, live ranges, streaming, and the arena as real bytes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from onnx_models import compiled, given_ranges, load, node, samples_for, simple
from random_models import extreme_inputs, random_cases
from scan_models import SCANS, STREAMABLE

from tinyhil.compiler.calibrate import Ranges, calibrate, load_ranges, save_ranges
from tinyhil.compiler.lower import formats, lower, tied_values
from tinyhil.errors import ConfigError, DataError, ModelError
from tinyhil.formats.codec import storage_dtype
from tinyhil.formats.fixed import Fixed
from tinyhil.language.assignment import Assignment, format_name, load_assignment
from tinyhil.language.form import Form
from tinyhil.language.graph import Graph
from tinyhil.language.program import Body, Loop, Op, Program, Role, Tensor, walk
from tinyhil.memplan import Plan, check, plan
from tinyhil.memplan.arena.liveness import live_ranges
from tinyhil.memplan.arena.tensors import problem_of
from tinyhil.ops import KERNEL_OF
from tinyhil.references.reference import run_reference


@pytest.fixture
def viewed(tmp_path: Path) -> Graph:
    """x, shown as v, doubled."""
    nodes = [node("Reshape", "x s", "v"), node("Add", "v v", "d"), node("MatMul", "d w", "y")]
    return load(simple(nodes, {"x": (1, 6)}, {"s": [2, 3], "w": np.ones((3, 2))}), tmp_path)


# ---- assignments


def test_values_that_share_memory_need_one_format(viewed: Graph) -> None:
    with pytest.raises(ConfigError, match=r"'x' is fixed8, '?v'? is fixed16, but they share memory"):
        lower(viewed, Assignment("fixed16", {"x": "fixed8", "v": "fixed16"}), given_ranges(x=1, v=1, d=2, y=4))


@pytest.mark.parametrize("exceptions", [{"x": "fixed8"}, {"v": "fixed8"}, {"x": "fixed8", "v": "fixed8"}])
def test_one_name_decides_for_all_that_share_its_memory(viewed: Graph, exceptions: dict[str, str]) -> None:
    found = formats(viewed, Assignment("fixed16", exceptions), given_ranges(x=1.5, v=0.5, d=2, y=4))
    assert found["x"] == found["v"] == Fixed(8, -6)
    assert found["d"].bits == found["y"].bits == 16


def test_describe() -> None:
    assert Assignment("fixed8").describe() == "fixed8"
    assert Assignment("fixed8", {"x": "fixed8"}).describe() == "fixed8"
    assert Assignment("fixed8", {"x": "fixed16"}).describe() == "mixed"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("default: fixed1", "unknown number format 'fixed1'"),
        ("default: fixed8\nvalues: {x: fixed99}", "unknown number format 'fixed99'"),
        ("default: fixed8\nvalues: {x: }", "unknown number format 'None'"),
        ("default: fixed8\nvalues: {ghost: fixed8}", "the model has no value 'ghost'"),
        ("default: fixed8\nvalues: [x]", "'values' must map"),
        ("default: fixed8\nother: 1", "unknown key 'other'"),
        ("values: {x: fixed8}", "needs the key 'default'"),
        ("fixed8", "needs the key 'default'"),
        ("", "needs the key 'default'"),
        ("default: [", "not YAML or JSON"),
        ("default: 2001-99-99", "not YAML or JSON"),
        ("default: \x00", "not YAML or JSON"),
    ],
)
def test_bad_assignment_files(text: str, message: str, viewed: Graph, tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message) as caught:
        load_assignment(path, viewed)
    assert "\n" not in str(caught.value)


def test_assignment_files_that_can_not_be_read(viewed: Graph, tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x80")
    for path in (tmp_path / "none.yaml", tmp_path, tmp_path / "binary"):
        with pytest.raises(ConfigError, match=str(path)):
            load_assignment(path, viewed)


def test_assignment_file(viewed: Graph, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"default": "fixed16", "values": {"d": "fixed8"}}))
    assert load_assignment(path, viewed) == Assignment("fixed16", {"d": "fixed8"})


# ---- ranges


def test_a_missing_range_is_named(viewed: Graph) -> None:
    with pytest.raises(ModelError, match="no calibrated range for value 'd'"):
        lower(viewed, Assignment("fixed16"), given_ranges(x=1, v=1, y=4))


def test_observed_ranges(viewed: Graph) -> None:
    x = samples_for((1, 6))
    found = calibrate(viewed, x, {"name": "here"})
    assert found.values["x"] == found.values["v"] == (x.min(), x.max())
    assert found.values["d"] == (2 * x.min(), 2 * x.max())
    assert set(found.values) == {"x", "v", "d", "y"}
    assert found.magnitude("x") == np.abs(x).max()


def test_ranges_cover_every_step_of_a_loop(tmp_path: Path) -> None:
    loaded = load(SCANS["last_row"](), tmp_path)
    x = samples_for(loaded.shapes["x"])
    assert calibrate(loaded, x, {}).values["x_t"] == (x.min(), x.max())


def test_a_model_that_overflows_float32_is_not_calibrated(tmp_path: Path) -> None:
    loaded = load(simple([node("Mul", "x x", "y")], {"x": (1, 3)}), tmp_path)
    with pytest.raises(DataError, match="value 'y' is not finite"), np.errstate(over="ignore"):
        calibrate(loaded, np.full((1, 1, 3), 1e30, np.float32), {})


def test_ranges_file(viewed: Graph, tmp_path: Path) -> None:
    path = tmp_path / "ranges.json"
    found = calibrate(viewed, samples_for((1, 6)), {"name": "here"})
    save_ranges(path, found, "ab" * 32)
    assert load_ranges(path, "ab" * 32) == found
    with pytest.raises(ModelError, match="made for another version of the model"):
        load_ranges(path, "cd" * 32)


@pytest.mark.parametrize(
    "values",
    ['{"x": [1]}', '{"x": 1}', "[]", '{"x": ["a", "b"]}', '{"x": [NaN, 1]}', '{"x": [0, Infinity]}', '{"x": [2, 1]}'],
)
def test_bad_ranges_files(values: str, tmp_path: Path) -> None:
    path = tmp_path / "ranges.json"
    path.write_text(f'{{"model_sha256": "00", "source": {{}}, "values": {values}}}')
    with pytest.raises(ModelError, match="run `hil calibrate` again") as caught:
        load_ranges(path, "00")
    assert "\n" not in str(caught.value)
    for text in ("", "{", '{"values": {}}', "\xff"):
        path.write_text(text, encoding="latin-1")
        with pytest.raises(ModelError, match=r"ranges file.*run `hil calibrate` again"):
            load_ranges(path, "00")


# ---- who shares memory


@pytest.mark.parametrize(
    ("name", "groups"),
    [
        (
            "two_states",
            {("h0", "h", "h_next", "h_n"), ("c0", "c", "c_next", "c_n"), ("x", "x_t")},
        ),
        ("view_before", {("x", "r", "x_t"), ("h0", "h", "h_next", "h_n")}),
        ("last_row", {("z0", "h", "h_next", "a", "x", "x_t"), ("c0", "c", "c_next", "b")}),
        ("two_loops", {("h0", "h", "h_next", "h_m", "k", "k_next", "h_n"), ("x", "x_t", "r")}),
    ],
)
def test_tied_values(name: str, groups: set[tuple[str, ...]], tmp_path: Path) -> None:
    found = {frozenset(group) for group in tied_values(load(SCANS[name](), tmp_path)) if len(group) > 1}
    assert found == {frozenset(group) for group in groups}


@pytest.mark.parametrize("name", SCANS)
def test_every_value_is_in_one_group(name: str, tmp_path: Path) -> None:
    loaded = load(SCANS[name](), tmp_path)
    members = [value for group in tied_values(loaded) for value in group]
    assert sorted(members) == sorted(loaded.all_shapes())


@pytest.mark.parametrize("name", SCANS)
def test_streamable(name: str, tmp_path: Path) -> None:
    loaded = load(SCANS[name](), tmp_path)
    program = compiled(loaded, samples_for(loaded.shapes["x"]))
    assert (program.streamable_loop() is not None) == (name in STREAMABLE)


# ---- names and constants


def test_constants_stored_twice_do_not_take_other_names(tmp_path: Path) -> None:
    """w is needed in two layouts, and the model already has a value called w.2."""
    nodes = [
        node("MatMul", "x w", "a"),
        node("Reshape", "a column", "c"),
        node("MatMul", "w c", "b"),
        node("Relu", "b", "w.2"),
        node("Reshape", "w.2 row", "r"),
        node("Add", "r a", "y"),
    ]
    w = np.arange(16.0).reshape(4, 4) / 16
    loaded = load(simple(nodes, {"x": (1, 4)}, {"w": w, "column": [4, 1], "row": [1, 4]}), tmp_path)
    x = samples_for((1, 4))
    program = compiled(loaded, x)
    stored = [tensor.name for tensor in program.tensors.values() if tensor.role == Role.CONSTANT]
    assert len(stored) == 2
    assert program.tensors["w.2"].role == Role.ARENA
    assert not np.array_equal(program.constants[stored[0]], program.constants[stored[1]])


def test_the_same_constant_in_the_same_layout_is_stored_once(tmp_path: Path) -> None:
    nodes = [node("MatMul", "x w", "a"), node("Relu", "a", "b"), node("MatMul", "b w", "y")]
    loaded = load(simple(nodes, {"x": (1, 4)}, {"w": np.ones((4, 4))}), tmp_path)
    program = compiled(loaded, samples_for((1, 4)))
    assert list(program.constants) == ["w"]


def test_a_value_may_be_called_like_the_table(tmp_path: Path) -> None:
    nodes = [node("Relu", "x", "sigmoid_table"), node("Sigmoid", "sigmoid_table", "y")]
    loaded = load(simple(nodes, {"x": (1, 4)}), tmp_path)
    x = samples_for((1, 4))
    program = compiled(loaded, x)
    assert [tensor.role for tensor in program.tensors.values()].count("table") == 1
    assert program.tensors["sigmoid_table"].role == Role.ARENA


# ---- live ranges


def tensor(name: str, count: int = 2, role: Role = Role.ARENA, bits: int = 16) -> Tensor:
    return Tensor(name, count, Fixed(bits, 0), role)


def op(output: str, *inputs: str) -> Op:
    return Op(Form("copy"), output, inputs, output, {"count": 2})


def program_of(body: list[Op | Loop], output: str, *extra: Tensor) -> Program:
    names = dict.fromkeys(name for item in walk(tuple(body)) for name in (*item.inputs, item.output))
    tensors = {name: tensor(name) for name in names} | {"x": tensor("x", role=Role.INPUT)}
    tensors |= {item.name: item for item in extra}
    return Program("p", tensors, {}, tuple(body), "x", output, (2,), (2,))


LIVENESS = {
    "a chain": ([op("a", "x"), op("b", "a"), op("c", "b")], "c", {"a": (0, 2), "b": (1, 3), "c": (2, 4)}),
    "a skip": ([op("a", "x"), op("b", "a"), op("c", "b", "a")], "c", {"a": (0, 3), "b": (1, 3), "c": (2, 4)}),
    "unused": ([op("a", "x"), op("b", "x")], "b", {"a": (0, 1), "b": (1, 3)}),
    "an early result": ([op("a", "x"), op("b", "x")], "a", {"a": (0, 3), "b": (1, 2)}),
    "a loop": (
        # 0: h = 0; loop { 1: a = row; 2: b = a + h + w; 3: h = b }; 4: y = h
        [
            op("h"),
            op("w"),
            Loop("l", 5, (("x", "row"),), (op("a", "row"), op("b", "a", "h", "w"), op("h", "b"))),
            op("y", "h"),
        ],
        "y",
        {"h": (0, 6), "w": (1, 5), "a": (2, 4), "b": (3, 5), "y": (5, 7)},
    ),
    "used behind the loop": (
        # b is made in the loop and read behind it: it lives as long as the loop and beyond
        [op("h"), Loop("l", 5, (("x", "row"),), (op("a", "row"), op("b", "a"), op("h", "b"))), op("y", "b")],
        "y",
        {"h": (0, 4), "a": (1, 3), "b": (1, 5), "y": (4, 6)},
    ),
    "a loop over a computed sequence": (
        [
            op("s", "x"),
            op("h"),
            Loop("l", 5, (("s", "row"),), (op("a", "row"), op("b", "a"), op("h", "b"))),
            op("y", "h"),
        ],
        "y",
        {"s": (0, 5), "h": (1, 6), "a": (2, 4), "b": (3, 5), "y": (5, 7)},
    ),
    "nested": (
        # 0: h; 1: w; loop { 2: g = h; inner { 3: q = g + w; 4: g = q }; 5: u = g; 6: h = u }; 7: y = h
        [
            op("h"),
            op("w"),
            Loop(
                "outer",
                3,
                (("x", "row"),),
                (
                    op("g", "h"),
                    Loop("inner", 2, (("row", "e"),), (op("q", "g", "w", "e"), op("g", "q"))),
                    op("u", "g"),
                    op("h", "u"),
                ),
            ),
            op("y", "h"),
        ],
        "y",
        {"h": (0, 8), "w": (1, 7), "g": (2, 6), "q": (3, 5), "u": (5, 7), "y": (7, 9)},
    ),
    "made between the borders of an inner loop": (
        # t is made before the inner loop and read in it: it lives through the inner loop, not through the outer one
        [
            Loop(
                "outer",
                3,
                (("x", "row"),),
                (op("t", "row"), Loop("inner", 2, (("row", "e"),), (op("q", "t"), op("r", "q"))), op("u", "r")),
            ),
            op("y", "u"),
        ],
        "y",
        {"t": (0, 3), "q": (1, 3), "r": (1, 4), "u": (0, 5), "y": (4, 6)},
    ),
}


@pytest.mark.parametrize("name", LIVENESS)
def test_live_ranges(name: str) -> None:
    body, output, wanted = LIVENESS[name]
    rows = [tensor("row", role=Role.SLICE), tensor("e", role=Role.SLICE)]
    program = program_of(body, output, *rows)
    assert {r.name: (r.start, r.end) for r in live_ranges(program)} == wanted


def test_live_ranges_carry_sizes() -> None:
    program = program_of([op("a", "x"), op("b", "a")], "b", tensor("a", 5, bits=8), tensor("b", 3))
    assert [(r.size_bytes, r.element_bytes) for r in live_ranges(program)] == [(5, 1), (6, 2)]


# ---- the arena as real bytes


class Machine:
    """Executes a program one sample at a time, every run-time tensor at its planned place in one block of bytes."""

    def __init__(self, program: Program, placed: Plan) -> None:
        self.program, self.plan = program, placed
        self.arena = np.random.default_rng(0).integers(0, 256, placed.peak_bytes, np.uint8)

    def view(self, name: str) -> np.ndarray:
        held = self.program.tensors[name]
        start = self.plan.offsets[name]
        return self.arena[start : start + held.size_bytes].view(storage_dtype(held.format))

    def run(self, sample: np.ndarray) -> np.ndarray:
        self.rows: dict[str, np.ndarray] = {self.program.input: sample}
        self._body(self.program.body)
        return self._read(self.program.output)

    def _read(self, name: str) -> np.ndarray:
        if name in self.program.constants:
            return self.program.constants[name]
        return self.rows[name] if name in self.rows else self.view(name)

    def _body(self, body: Body) -> None:
        for item in body:
            if isinstance(item, Loop):
                for step in range(item.count):
                    for sequence, row in item.slices:
                        count = self.program.tensors[row].count
                        self.rows[row] = self._read(sequence)[step * count : (step + 1) * count]
                    self._body(item.body)
                continue
            arrays = [self._read(name).astype(np.int64)[None, :] for name in item.inputs]
            fmt = self.program.tensors[item.output].format
            self.view(item.output)[:] = KERNEL_OF[item.kernel].execute(item, arrays, fmt)[0][0]


def check_in_arena(program: Program, inputs: np.ndarray) -> None:
    wanted = run_reference(program, inputs).outputs
    for in_place in (False, True):
        problem = problem_of(program, in_place=in_place)
        placed = plan(problem)
        check(problem, placed)
        machine = Machine(program, placed)
        for sample, output in zip(inputs, wanted, strict=True):
            assert np.array_equal(machine.run(sample), output)


@pytest.mark.parametrize("name", SCANS)
@pytest.mark.parametrize("default", ["fixed8", "fixed16"])
def test_loops_in_their_arena(name: str, default: str, tmp_path: Path) -> None:
    loaded = load(SCANS[name](), tmp_path)
    program = compiled(loaded, samples_for(loaded.shapes["x"]), default)
    check_in_arena(program, extreme_inputs(program, 1))


def test_random_programs_in_their_arena(tmp_path: Path) -> None:
    for case in random_cases(7000, 60, tmp_path):
        check_in_arena(case.program, case.inputs)


def test_the_machine_notices_a_bad_plan(tmp_path: Path) -> None:
    """Two tensors that live together at one place: the result is wrong, so a missed overlap would be seen."""
    loaded = load(SCANS["two_states"](), tmp_path)
    program = compiled(loaded, samples_for(loaded.shapes["x"]))
    good = plan(problem_of(program, in_place=False))
    bad = Plan({**good.offsets, "c": good.offsets["h"]}, good.regions, good.peak_bytes, 0, False, "")
    inputs = extreme_inputs(program, 1)
    wanted = run_reference(program, inputs).outputs
    got = np.array([Machine(program, bad).run(sample) for sample in inputs])
    assert not np.array_equal(got, wanted)


def test_ranges_are_by_name() -> None:
    with pytest.raises(ModelError, match="no calibrated range for value 'a'"):
        Ranges({}, {}).magnitude("a")


@pytest.mark.parametrize("name", ["int8", "int16x8", "fixed16", "posit8es1", "float32"])
def test_a_uniform_assignment_is_called_by_its_name(name: str, tmp_path: Path) -> None:
    """In records, so that the name can be asked for again."""
    program = compiled(load(simple([node("Relu", "x", "y")], {"x": (1, 4)}, {}), tmp_path), samples_for((1, 4)), name)
    assert format_name(Assignment(name), program) == name
