"""Evaluation that restarts from kept values: outputs and saturations as from the start, whatever changed before."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from onnx_models import graph, load, model, node, samples_for
from random_models import random_model
from scan_models import weights
from search_models import host_engine, network

from tinyhil.codegen.kernel_calls import name_of
from tinyhil.compiler.calibrate import calibrate, load_ranges
from tinyhil.compiler.lower import lower
from tinyhil.errors import ConfigError, ModelError
from tinyhil.frontend.onnx import load_onnx
from tinyhil.harness.build.toolchain import default_cache_dir
from tinyhil.harness.job.zoo import find_model, zoo_names
from tinyhil.language.assignment import Assignment
from tinyhil.language.graph import Graph
from tinyhil.language.program import Program
from tinyhil.references.reference import quantize_inputs, run_reference
from tinyhil.search.engine.cache import ENTRY_BYTES, ArrayCache
from tinyhil.search.engine.flatten import MAKERS
from tinyhil.search.engine.library import Engine
from tinyhil.search.engine.restart import restart, work_of
from tinyhil.search.engine.versions import stages_of
from tinyhil.search.evaluator import Evaluator, NumpyExecutor, make_examples
from tinyhil.search.space import Candidate, Choice, Space, make_space

FAMILIES = (
    ("fixed8", "fixed16"),
    ("posit8es0", "posit16es1", "fp8e4m3", "fixed8", "fixed16"),
    ("float16", "bfloat16", "fixed12", "int8", "float32"),
)
ZOO_LIMITS = (ArrayCache().limit_bytes, 30_000, 0)  # bytes: all, some of it, nothing
SAMPLES = 21  # a whole batch and a part of one


@pytest.fixture(scope="module")
def engine() -> Engine:
    """It keeps values however short a run is."""
    return replace(host_engine(default_cache_dir(), threads=2), least_work=0)


def walk(space: Space, steps: int, seed: int) -> Iterator[Candidate]:
    """From a random assignment on, one to three tensors change at a time; often back to what they were."""
    random = np.random.default_rng(seed)

    def drawn() -> Choice:
        return Choice(str(random.choice(space.formats)), int(random.integers(-1, 1)))

    candidate = tuple(drawn() for _ in space.groups)
    former = [candidate]
    for _ in range(steps):
        yield candidate
        if random.random() < 0.2:
            candidate = former[random.integers(len(former))]
        chosen = random.choice(len(candidate), min(len(candidate), int(random.integers(1, 4))), replace=False)
        candidate = space.with_choices(candidate, {int(index): drawn() for index in chosen})
        former.append(candidate)


def programs(space: Space, steps: int, seed: int) -> Iterator[Program]:
    for candidate in walk(space, steps, seed):
        try:
            yield space.lower(candidate)
        except (ModelError, ConfigError):
            continue


def compare(engine: Engine, fresh: Engine, program: Program, x: np.ndarray, part: object, name: str) -> int:
    """With what was kept, without, and numpy; how often something saturated."""
    codes = quantize_inputs(program, x)[0]
    wanted = run_reference(program, codes)
    for found in (engine.run(program, codes, part), fresh.run(program, codes)):
        np.testing.assert_array_equal(found.outputs, wanted.outputs, name)
        np.testing.assert_array_equal(found.saturations, wanted.saturations, name)
    return int(wanted.saturations.sum())


def walked(engine: Engine, net: Graph, space: Space, steps: int, seed: int, limit: int) -> tuple[int, int]:
    """Programs compared on two parts of the samples, and saturations seen."""
    x = np.random.default_rng(seed).normal(scale=0.8, size=(2 * SAMPLES, *net.shapes[net.inputs[0]])).astype(np.float32)
    x[::3] *= 4  # what saturates is kept, too
    keeping, fresh = (
        replace(engine, cache=ArrayCache(limit), _latest=[]),
        replace(engine, cache=ArrayCache(0), _latest=[]),
    )
    compared = saturated = 0
    for program in programs(space, steps, seed):
        for part in (0, 1, 0):
            given = x[part * SAMPLES : (part + 1) * SAMPLES]
            saturated += compare(keeping, fresh, program, given, part, f"seed {seed}, step {compared}")
        assert keeping.cache.bytes <= limit
        compared += 1
    return compared, saturated


@pytest.mark.parametrize("numpy", ["", "dense add mul place_more single_tanh"])
@pytest.mark.parametrize("family", range(len(FAMILIES)))
def test_random_models(
    family: int, numpy: str, engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Loops, states, views, tensors put together from parts, in mixed formats; some of it executed by numpy."""
    engine = replace(engine, notice=lambda line: None, _announced=set())
    forms = {name_of(form): form for form in MAKERS}
    for kernel in numpy.split():
        monkeypatch.delitem(MAKERS, forms[kernel])
    compared = saturated = 0
    for seed in range(12):
        chance = np.random.default_rng([family, seed])
        try:
            net = load(random_model(chance), tmp_path)
            space = make_space(net, calibrate(net, samples_for(net.shapes["x"], 4), {}), FAMILIES[family])
        except (ModelError, ConfigError):
            continue
        limit = (ArrayCache().limit_bytes, 2000)[seed % 2]
        pair = walked(engine, net, space, 12, seed, limit)
        compared, saturated = compared + pair[0], saturated + pair[1]
    assert compared >= 60
    assert saturated >= 10


def zoo_space(name: str, formats: tuple[str, ...]) -> tuple[Graph, Space]:
    source = find_model(name)
    zoo = load_onnx(source.path)
    assert source.ranges is not None
    return zoo.graph, make_space(zoo.graph, load_ranges(source.ranges, zoo.sha256), formats)


QUICK = ("digits_cnn", "bonsai_usps2", "protonn_usps10", "fastgrnn_usps10")
SLOW = tuple(pytest.param(name, marks=pytest.mark.slow) for name in zoo_names() if name not in QUICK)


@pytest.mark.parametrize("limit", ZOO_LIMITS)
@pytest.mark.parametrize("name", [*QUICK, *SLOW])
def test_zoo_models(name: str, limit: int, engine: Engine) -> None:
    compared = 0
    for number, formats in enumerate(FAMILIES):  # asymmetric integers and others seldom go together
        net, space = zoo_space(name, formats)
        compared += walked(engine, net, space, 8, 40 + number, limit)[0]
    assert compared >= 8


def test_only_what_depends_on_a_change_runs(engine: Engine) -> None:
    """The last layer's bias of a convolutional network: neither convolution runs again."""
    net, space = zoo_space("digits_cnn", ("fixed8", "fixed16"))
    keeping = replace(engine, cache=ArrayCache(), _latest=[])
    base = space.uniform(space.high)
    x = np.random.default_rng(0).normal(size=(SAMPLES, *net.shapes[net.inputs[0]])).astype(np.float32)
    neighbour = space.with_choices(base, {len(base) - 1: space.low})
    for candidate, running in ((base, 4), (base, 4), (base, 0), (neighbour, 1), (neighbour, 1), (neighbour, 0)):
        program = space.lower(candidate)
        way = restart(program, stages_of(program), keeping.cache, "part", SAMPLES)
        assert sum(step.runs for step in way.steps) == running
        assert way.needs_input == (running == 4)
        keeping.run(program, quantize_inputs(program, x)[0], "part")


def test_nobody_needs_the_whole_prefix(engine: Engine, tmp_path: Path) -> None:
    """Two branches: a change in one takes the other's result, not what that was made of."""
    nodes = [
        *(node("MatMul", "x v", "a"), node("Tanh", "a", "b"), node("MatMul", "x w", "c"), node("Sigmoid", "c", "d")),
        node("Mul", "b d", "y"),
    ]
    net = load(model(graph(nodes, {"x": (2, 6)}, "y", {"v": weights(6, 5), "w": 2 * weights(6, 5)})), tmp_path)
    x = samples_for((2, 6), SAMPLES)
    space = make_space(net, calibrate(net, x, {}), ("fixed8", "fixed16"))
    base = space.uniform(space.high)
    index = next(n for n, group in enumerate(space.groups) if "d" in group.members)
    cache = ArrayCache()
    for candidate in (base, base, space.with_choices(base, {index: space.low})):
        program = space.lower(candidate)
        way = restart(program, stages_of(program), cache, 0, SAMPLES)
        replace(engine, cache=cache, _latest=[]).run(program, quantize_inputs(program, x)[0], 0)
    assert [(step.item.output, step.runs) for step in way.steps] == [  # type: ignore[union-attr]
        *(("a", False), ("b", False), ("c", False), ("d", True), ("y", True))
    ]
    loaded = [name for step in way.steps for name, _ in step.load]
    assert loaded == ["b", "c"]


def test_parts_and_input_formats_do_not_mix(engine: Engine, tmp_path: Path) -> None:
    net = network(tmp_path)
    x = np.random.default_rng(1).normal(size=(300, 1, 8)).astype(np.float32)
    space = make_space(net, calibrate(net, x, {}), ("posit8es0", "fixed8", "fixed16"))
    keeping = replace(engine, cache=ArrayCache(), _latest=[])
    scores = {}
    for executor in (keeping, NumpyExecutor()):
        examples = make_examples(net, x, None)
        evaluators = [Evaluator(executor, examples), Evaluator(executor, replace(examples, x=-examples.x))]
        scores[type(executor)] = [
            (evaluator.score(program), evaluator.probe(program, 40))
            for choice in (*map(Choice, space.formats), Choice("fixed8"))
            for program in [space.lower(space.uniform(choice))]
            for evaluator in evaluators
        ]
    assert scores[Engine] == scores[NumpyExecutor]


def test_short_runs_are_not_worth_it(engine: Engine, tmp_path: Path) -> None:
    net = network(tmp_path)
    x = np.random.default_rng(1).normal(size=(SAMPLES, 1, 8)).astype(np.float32)
    space = make_space(net, calibrate(net, x, {}), ("fixed8", "fixed16"))
    program = space.lower(space.uniform(space.low))
    for least, is_cached in ((SAMPLES * work_of(program) + 1, False), (SAMPLES * work_of(program), True)):
        keeping = replace(engine, cache=ArrayCache(), least_work=least, _latest=[])
        keeping.run(program, quantize_inputs(program, x)[0], 0)
        assert (keeping.cache.bytes > 0) == is_cached


def test_constants_and_parameters_tell_programs_apart(engine: Engine, tmp_path: Path) -> None:
    """Models whose tensors have the same names, sizes and formats, on the same samples."""
    keeping = replace(engine, cache=ArrayCache(), _latest=[])
    fresh = replace(engine, cache=ArrayCache(0), _latest=[])
    x = samples_for((3, 6), SAMPLES)
    w = weights(6, 6)
    for matrix, start in ((w, 0), (w[::-1], 0), (w[::-1], 1), (w, 1), (w, 0)):
        nodes = [node("MatMul", "x w", "a"), node("Slice", "a s e i", "b"), node("Tanh", "b", "y")]
        constants = {"w": matrix, "s": [start], "e": [start + 2], "i": [0]}
        net = load(model(graph(nodes, {"x": (3, 6)}, "y", constants)), tmp_path)
        ranges = calibrate(net, x, {})
        ranges = replace(ranges, values=dict.fromkeys(ranges.values, (-4.0, 4.0)))
        compare(keeping, fresh, lower(net, Assignment("fixed8"), ranges), x, 0, f"{start}")


def test_a_failure_keeps_nothing(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What numpy executes for the engine may raise: half a run is not taken for a whole one."""
    net = network(tmp_path)
    x = np.random.default_rng(1).normal(size=(SAMPLES, 1, 8)).astype(np.float32)
    program = make_space(net, calibrate(net, x, {}), ("fixed8", "fixed16")).lower(
        make_space(net, calibrate(net, x, {}), ("fixed8", "fixed16")).uniform(Choice("fixed16"))
    )
    keeping = replace(engine, cache=ArrayCache(), _latest=[])

    def broken(self: object) -> None:
        raise MemoryError("out of memory")

    with monkeypatch.context() as patch:
        patch.setattr("tinyhil.search.engine.library.ByNumpy.check", broken)
        with pytest.raises(MemoryError):
            keeping.run(program, quantize_inputs(program, x)[0], 0)
    assert keeping.cache.bytes == 0


def test_the_least_recently_used_is_forgotten() -> None:
    cache = ArrayCache(3 * (100 + ENTRY_BYTES))
    for key in "abc":
        cache.put(key, np.zeros(100, np.int8))
    assert cache.get("a") is not None
    cache.put("d", np.zeros(100, np.int8))
    assert [key for key in "abcd" if key in cache] == ["a", "c", "d"]
    cache.put("e", np.zeros(2000, np.int8))  # more than all that may be kept
    assert "e" not in cache
    cache.put("d", np.zeros(0, np.int8))
    assert cache.bytes == 200 + 3 * ENTRY_BYTES
