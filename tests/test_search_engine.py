"""The host engine: the same integers as the reference, whatever the assignment, model and number of threads."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx_models import graph, load, model, node, samples_for
from random_models import extreme_inputs, random_cases, random_model
from scan_models import weights
from search_models import host_engine, network, network_problem

from tinyhil.codegen.kernel_calls import name_of
from tinyhil.compiler.calibrate import Ranges, calibrate, load_ranges
from tinyhil.compiler.lower import lower, tied_values
from tinyhil.errors import BuildError, ConfigError, ModelError
from tinyhil.formats.fixed import Fixed
from tinyhil.frontend.onnx import load_onnx
from tinyhil.harness.build.toolchain import default_cache_dir
from tinyhil.harness.job.zoo import find_model, zoo_names
from tinyhil.language.assignment import Assignment
from tinyhil.language.form import Form
from tinyhil.language.graph import Graph
from tinyhil.language.program import Program, Role, walk
from tinyhil.references.reference import quantize_inputs, run_reference
from tinyhil.search.engine.flatten import MAKERS
from tinyhil.search.engine.library import FOLDER, SOURCES, Engine, load_engine
from tinyhil.search.engine.tables import KERNELS, Own
from tinyhil.search.evaluator import Evaluator, NumpyExecutor, make_examples
from tinyhil.search.space import Choice, make_space

SEEDS = (0, 1000)


@pytest.fixture(scope="module")
def engine() -> Engine:
    """From the user's cache: building it takes as long as all tests here."""
    return host_engine(default_cache_dir())


def exact(engine: Engine, program: Program, inputs: np.ndarray, name: str = "") -> int:
    """Outputs and saturations are the reference's; how many samples saturated."""
    found, wanted = engine.run(program, inputs), run_reference(program, inputs)
    np.testing.assert_array_equal(found.outputs, wanted.outputs, name)
    np.testing.assert_array_equal(found.saturations, wanted.saturations, name)
    return int(wanted.saturations.sum() > 0)


IMAGE = (1, 4, 5, 6)
ROWS = (3, 8)
ONE_NODE: dict[str, tuple[onnx.NodeProto, tuple[int, ...], dict[str, object]]] = {
    "conv": (node("Conv", "x w", "y", pads=[1, 0, 1, 1]), IMAGE, {"w": weights(3, 4, 3, 2)}),
    "conv_bias": (node("Conv", "x w b", "y", group=2), IMAGE, {"w": weights(6, 2, 2, 2), "b": weights(6)}),
    "max_pool": (node("MaxPool", "x", "y", kernel_shape=[2, 2], strides=[2, 1]), IMAGE, {}),
    "average_pool": (node("AveragePool", "x", "y", kernel_shape=[3, 3]), IMAGE, {}),
    "average_pool_inside": (node("AveragePool", "x", "y", kernel_shape=[3, 3], pads=[1, 1, 1, 1]), IMAGE, {}),
    "move": (node("Transpose", "x", "y", perm=[1, 0]), ROWS, {}),
    "place_more": (node("Concat", "x c x", "y", axis=1), ROWS, {"c": weights(3, 2)}),
    "gather_rows": (node("Gather", "x i", "y", axis=1), ROWS, {"i": [5, 0, 0, 2]}),
    "softmax": (node("Softmax", "x", "y", axis=1), ROWS, {}),
    "clip": (node("Clip", "x low high", "y"), ROWS, {"low": -0.3, "high": 0.8}),
    "slopes": (node("LeakyRelu", "x", "y", alpha=0.17), ROWS, {}),
    "hard_sigmoid": (node("HardSigmoid", "x", "y"), ROWS, {}),
    "hard_swish": (node("HardSwish", "x", "y"), ROWS, {}),
    "minimum": (node("Min", "x c", "y"), ROWS, {"c": weights(8)}),
    "maximum": (node("Max", "x c", "y"), ROWS, {"c": weights(8)}),
    "reduce_sum": (node("ReduceSum", "x i", "y"), ROWS, {"i": [0]}),
    "reduce_max": (node("ReduceMax", "x", "y", axes=[1]), ROWS, {}),
    "reduce_min": (node("ReduceMin", "x", "y", axes=[1]), ROWS, {}),
    "arg_max": (node("ArgMax", "x", "y", axis=1), ROWS, {}),
    "matmul": (node("MatMul", "x c", "y"), ROWS, {"c": weights(8, 2)}),
}


@pytest.mark.parametrize("name", ONE_NODE)
def test_each_operator_in_every_width(name: str, engine: Engine, tmp_path: Path) -> None:
    made, shape, constants = ONE_NODE[name]
    main = graph([made, node("Add", "y one", "z")], {"x": shape}, "z", {**constants, "one": 1.0})
    if name == "matmul":  # two operands of run time
        second = [node("Transpose", "x", "t", perm=[1, 0]), node("MatMul", "x t", "y"), node("Relu", "y", "z")]
        main = graph(second, {"x": shape}, "z", {})
    if name == "conv":  # an addition would be its bias
        main = graph([made, node("Abs", "y", "z")], {"x": shape}, "z", constants)
    if name == "arg_max":
        main = graph([made], {"x": shape}, "y", constants)
    loaded = load(model(main), tmp_path)
    ranges = calibrate(loaded, samples_for(shape, 4), {})
    space = make_space(loaded, ranges, ("fixed8", "fixed16"))
    seen = set()
    for number in range(8):
        random = np.random.default_rng(number)
        program = space.lower(tuple(Choice(str(random.choice(space.formats)), -number % 3) for _ in space.groups))
        seen |= {name_of(op.kernel) for op in walk(program.body)}
        inputs = extreme_inputs(program, number)
        found, wanted = engine.run(program, inputs), run_reference(program, inputs)
        np.testing.assert_array_equal(found.outputs, wanted.outputs)
        np.testing.assert_array_equal(found.saturations, wanted.saturations)
    assert name in seen


@pytest.mark.parametrize("first", SEEDS)
def test_random_models_in_random_widths(first: int, engine: Engine, tmp_path: Path) -> None:
    """Loops, broadcasts and ranges that are wrong by orders of magnitude: saturations are compared too."""
    saturated = 0
    for case in random_cases(first, 40, tmp_path):
        found, wanted = engine.run(case.program, case.inputs), run_reference(case.program, case.inputs)
        np.testing.assert_array_equal(found.outputs, wanted.outputs, case.name)
        np.testing.assert_array_equal(found.saturations, wanted.saturations, case.name)
        saturated += int(wanted.saturations.sum() > 0)
    assert saturated > 5


# One domain after the other, widths that fill no byte, 32 bits, weights per channel and from codebooks
MIXES = (
    ("fixed3", "fixed5", "fixed8", "fixed12", "fixed16"),
    ("posit8es0", "posit8es2", "posit10es1", "posit16es1", "fp8e4m3", "fp8e5m2", "fp4e2m1", "fp4e3m0", "fixed8"),
    ("float32", "bfloat16", "float16", "posit16es1", "fixed16", "posit8es0"),
    ("fixed32", "posit32es2", "posit32es3", "fixed16", "fixed8"),
    ("int8",),
    ("int16x8",),
    ("fixed8pc", "fixed16pc", "kmeans16", "fixed16", "ternary", "fp8e4m3pc"),
)


def mixed_program(graph: Graph, ranges: Ranges, names: tuple[str, ...], seed: int) -> Program | None:
    """Random formats of `names` for all values, with ranges as given; None where they do not go together."""
    random = np.random.default_rng(seed)
    values = {group[0]: str(random.choice(names)) for group in tied_values(graph)}
    try:
        return lower(graph, Assignment(names[0], values), ranges)
    except (ModelError, ConfigError):
        return None


def coded_inputs(program: Program, x: np.ndarray) -> np.ndarray:
    """The samples, three times too large in part: what saturates is compared, too."""
    loud = x * np.where(np.arange(len(x)) % 3 == 0, 4.0, 1.0).reshape(-1, *(1,) * (x.ndim - 1))
    return quantize_inputs(program, loud)[0]


@pytest.mark.parametrize("mix", range(len(MIXES)))
def test_random_models_in_every_format(mix: int, engine: Engine, tmp_path: Path) -> None:
    compared = saturated = 0
    for seed in range(30):
        chance = np.random.default_rng([mix, seed])
        try:
            net = load(random_model(chance), tmp_path)
        except ModelError:
            continue
        x = chance.normal(size=(19, *net.shapes["x"])).astype(np.float32)
        program = mixed_program(net, calibrate(net, x, {}), MIXES[mix], seed)
        if program is None:
            continue
        compared += 1
        saturated += exact(engine, program, coded_inputs(program, x), f"mix {mix}, seed {seed}")
    assert compared >= 8
    assert saturated >= 1


@pytest.mark.parametrize("name", zoo_names())
def test_zoo_models_in_every_format(name: str, engine: Engine) -> None:
    source = find_model(name)
    zoo = load_onnx(source.path)
    assert source.ranges is not None
    ranges = load_ranges(source.ranges, zoo.sha256)
    x = np.random.default_rng(7).normal(scale=0.5, size=(3, *zoo.graph.shapes[zoo.graph.inputs[0]])).astype(np.float32)
    compared = 0
    for number, names in enumerate(MIXES):
        program = mixed_program(zoo.graph, ranges, names, number)
        if program is not None and sum(a.size for a in program.constants.values()) < 40_000:
            compared += 1
            exact(engine, program, coded_inputs(program, x), f"{name}, mix {number}")
    assert compared or sum(a.size for a in zoo.graph.all_constants().values()) >= 40_000


def test_what_numpy_executes_is_said_and_exact(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An operation without a version in batches, in blocks of samples and threads."""
    monkeypatch.delitem(MAKERS, Form("div"))
    main = graph([node("Div", "x c", "y"), node("Div", "c y", "z")], {"x": ROWS}, "z", {"c": weights(8)})
    net = load(model(main), tmp_path)
    program = lower(net, Assignment("fixed16"), calibrate(net, samples_for(ROWS, 4), {}))
    said: list[str] = []
    announcing = replace(engine, threads=2, notice=said.append, _announced=set())
    for _ in range(2):
        exact(announcing, program, np.repeat(extreme_inputs(program, 3), 9, axis=0))
    assert len(said) == 1
    assert "div (integer)" in said[0]


@pytest.mark.parametrize("name", zoo_names())
def test_zoo_models_in_random_assignments(name: str, engine: Engine) -> None:
    source = find_model(name)
    zoo = load_onnx(source.path)
    assert source.ranges is not None
    space = make_space(zoo.graph, load_ranges(source.ranges, zoo.sha256), ("fixed8", "fixed16"))
    random = np.random.default_rng(5)
    x = random.normal(scale=0.5, size=(12, *zoo.graph.shapes[zoo.graph.inputs[0]])).astype(np.float32)
    for _ in range(6):
        candidate = tuple(Choice(str(random.choice(space.formats)), int(random.integers(-2, 1))) for _ in space.groups)
        program = space.lower(candidate)
        integers, _ = quantize_inputs(program, x)
        found, wanted = engine.run(program, integers), run_reference(program, integers)
        np.testing.assert_array_equal(found.outputs, wanted.outputs)
        np.testing.assert_array_equal(found.saturations, wanted.saturations)


def test_logged_values_are_the_reference_s(engine: Engine, tmp_path: Path) -> None:
    for case in random_cases(300, 8, tmp_path):
        found, wanted = engine.values(case.program, case.inputs), NumpyExecutor().values(case.program, case.inputs)
        assert found.keys() == wanted.keys()
        for name, values in wanted.items():
            np.testing.assert_array_equal(found[name], values, f"{case.name} {name}")


def test_threads_change_nothing(engine: Engine, tmp_path: Path) -> None:
    case = random_cases(40, 1, tmp_path)[0]
    inputs = np.repeat(case.inputs, 50, axis=0)
    alone = replace(engine, threads=1).run(case.program, inputs)
    for threads in (2, 7):
        several = replace(engine, threads=threads).run(case.program, inputs)
        np.testing.assert_array_equal(alone.outputs, several.outputs)
        np.testing.assert_array_equal(alone.saturations, several.saturations)


def test_an_early_stop_depends_on_the_samples_only(engine: Engine, tmp_path: Path) -> None:
    net = network(tmp_path)
    x = np.random.default_rng(1).normal(size=(1500, 1, 8)).astype(np.float32)
    space = make_space(net, calibrate(net, x, {}), ("fixed8", "fixed16"))
    program = space.lower(space.uniform(space.low))
    scores = []
    for executor in (engine, replace(engine, threads=3), NumpyExecutor()):
        evaluator = Evaluator(executor, make_examples(net, x, None))
        whole, early = evaluator.score(program), evaluator.score(program, stop_above=3)
        assert whole.samples == 1500
        assert early.samples < 1500
        assert early.disagreements > 3
        scores.append((whole, early))
    assert scores[0] == scores[1] == scores[2]


def test_no_second_compilation(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = sorted(default_cache_dir().glob("engine-*"))
    assert made

    def never(*arguments: object, **options: object) -> None:
        raise AssertionError(f"a program was started: {arguments}")

    monkeypatch.setattr("subprocess.run", never)
    problem = network_problem(tmp_path, 1000, executor=host_engine(default_cache_dir()))
    for choice in (problem.space.low, problem.space.high):
        problem.evaluator.score(problem.space.lower(problem.space.uniform(choice)))
    assert sorted(default_cache_dir().glob("engine-*")) == made


def test_kernels_have_the_same_numbers_on_both_sides() -> None:
    source = (FOLDER / SOURCES[0]).read_text()
    listed = source.split("const Function KERNELS[] = {")[1].split("};")[0]
    names = [str(kernel) if isinstance(kernel, Own) else name_of(kernel) for kernel in KERNELS]
    assert [name.strip() for name in listed.split(",") if name.strip()] == names


def test_the_first_compilation_is_announced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before it begins: it takes seconds. A library of one function, here."""
    monkeypatch.setattr("tinyhil.search.engine.library.FOLDER", tmp_path)
    for name in SOURCES:
        (tmp_path / name).write_text("")
    (tmp_path / SOURCES[0]).write_text('extern "C" void hil_batch_run() {}')
    said: list[str] = []

    def notice(line: str) -> None:
        said.append(line)
        assert bool(list(tmp_path.glob("cache/engine-*.so"))) == (len(said) > 1)

    for _ in range(2):
        load_engine(tmp_path / "cache", notice=notice)
    assert said[0] == "search: compiling the host engine, once per machine"
    assert re.fullmatch(r"search: compiled the host engine in \d+ s", said[1])
    assert len(said) == 2


def test_no_compiler_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BuildError, match="--evaluator reference"):
        host_engine(tmp_path)


def test_a_compiler_that_fails_is_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "false")
    with pytest.raises(BuildError, match="false could not build the host engine"):
        host_engine(tmp_path)


def test_offsets_move_the_exponent_only(tmp_path: Path) -> None:
    net = network(tmp_path)
    ranges = calibrate(net, np.ones((2, 1, 8), np.float32), {})
    space = make_space(net, ranges, ("fixed8", "fixed16"))
    plain = lower(net, Assignment("fixed8"), ranges)
    moved = space.lower(space.uniform(Choice("fixed8", -1)))
    for name, tensor in plain.tensors.items():
        if tensor.role != Role.TABLE:
            assert moved.tensors[name].format == Fixed(8, tensor.format.exponent - 1)
    same = space.lower(space.uniform(Choice("fixed8")))
    assert same.tensors == plain.tensors
    assert same.body == plain.body
