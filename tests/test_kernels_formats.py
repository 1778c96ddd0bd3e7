"""Every number format through the same kernels: generated code against the numpy reference, natively and on boards."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from boards_under_test import ARM, each
from kernel_cases import Case, first_difference, run_natively, run_on_board
from onnx_models import compiled, load, model, node, samples_for, simple
from onnx_models import graph as onnx_graph

from tinyhil.compiler.calibrate import Ranges, calibrate
from tinyhil.compiler.lower import lower, tied_values
from tinyhil.errors import ModelError
from tinyhil.formats import FORMATS, named
from tinyhil.formats.affine import Affine
from tinyhil.formats.codec import dequantize, quantize
from tinyhil.formats.fixed import Fixed
from tinyhil.formats.format import CODED, INTEGER, Domain, Format
from tinyhil.harness.settings.config import load_boards
from tinyhil.language.assignment import Assignment
from tinyhil.language.graph import Graph
from tinyhil.references.reference import dequantize_outputs, quantize_inputs, run_reference

SAMPLES = 12
BOARD_FORMATS = (
    *("fixed5", "fixed12", "fixed8u", "fixed3u", "posit8es0", "posit8es2", "posit16es1"),
    *("fp8e4m3", "fp4e2m1", "bfloat16", "nf4"),
)
UNO_FORMATS = ("fixed5", "fixed8u", "posit8es2", "bfloat16")


def slow_unless(name: str, quick: tuple[str, ...]) -> object:
    return name if name in quick else pytest.param(name, marks=pytest.mark.slow)


@pytest.fixture(scope="module")
def build_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("format_builds")


def layers(folder: Path) -> tuple[Graph, Ranges, np.ndarray]:
    """One of everything that computes in every format."""
    random = np.random.default_rng(1)
    constants = {
        "K": random.normal(size=(3, 2, 3, 3)) * 0.3,
        "k": random.normal(size=3),
        "W": random.normal(size=(12, 5)),
        "b": random.normal(size=5),
        "c": random.normal(size=(1, 5)),
        "shape": [1, 12],
        "five": [5, 1],
    }
    nodes = [
        node("Conv", "x K k", "v", pads=[1, 1, 1, 1]),
        node("Relu", "v", "r"),
        node("MaxPool", "r", "p", kernel_shape=[2, 2], strides=[2, 2]),
        node("Reshape", "p shape", "f"),
        node("Gemm", "f W b", "d"),
        node("Sigmoid", "d", "s"),
        node("Tanh", "d", "t"),
        node("Add", "s c", "a"),
        node("Sub", "a t", "u"),
        node("Mul", "u a", "m"),
        node("Max", "m u", "g"),
        node("Concat", "g a", "w", axis=1),
        node("Softmax", "w", "y"),
    ]
    graph = load(model(onnx_graph(nodes, {"x": (1, 2, 4, 4)}, "y", constants)), folder)
    x = random.normal(size=(64, 1, 2, 4, 4)).astype(np.float32)
    return graph, calibrate(graph, x, {}), x


def inputs(fmt: Format, x: np.ndarray, seed: int) -> np.ndarray:
    """Real inputs, and codes from the whole of the format, NaN and the like included."""
    lowest, end = (fmt.lowest, fmt.highest + 1) if isinstance(fmt, Fixed | Affine) else (0, 1 << fmt.bits)
    codes = np.random.default_rng(seed).integers(lowest, end, (SAMPLES, x[0].size))
    return np.concatenate([quantize(x[:SAMPLES].reshape(SAMPLES, -1), fmt)[0], codes])


def case(name: str, assignment: Assignment, made: tuple[Graph, Ranges, np.ndarray], seed: int = 0) -> Case:
    graph, ranges, x = made
    program = lower(graph, assignment, ranges)
    return Case(name, program, inputs(program.tensors[program.input].format, x, seed))


def mixed(made: tuple[Graph, Ranges, np.ndarray], seed: int) -> Case | None:
    """A format of its own for every value, of any family; None where the families do not go together."""
    random = np.random.default_rng(seed)
    names = [fmt.name for fmt in FORMATS]
    values = {group[0]: str(random.choice(names)) for group in tied_values(made[0])}
    try:
        return case(f"mix {seed}", Assignment("fixed16", values), made, seed)
    except ModelError as error:
        if "asymmetric" not in str(error):
            raise
        return None


@pytest.mark.parametrize("first", [0, *(pytest.param(first, marks=pytest.mark.slow) for first in (1, 2, 3))])
def test_every_format_natively(first: int, tmp_path: Path) -> None:
    """The mixtures below draw from every format, too."""
    made = layers(tmp_path)
    cases = [case(fmt.name, Assignment(fmt.name), made) for fmt in FORMATS[first::4]]
    assert first_difference(cases, run_natively(cases, tmp_path)) == ""


def by_channel(domain: Domain) -> list[str]:
    """Names of the formats with a scale per channel."""
    return [fmt.name for fmt in FORMATS if fmt.fit(1.0).is_per_channel and fmt.fit(1.0).domain == domain]


def test_scales_per_channel_with_asymmetric_results(tmp_path: Path) -> None:
    """A multiplier for each channel: a shift is not all that such a result needs."""
    made = layers(tmp_path)
    cases = [
        case(f"{weights} to {result}", Assignment(given, {"W": weights, "d": result}), made)
        for weights in by_channel(INTEGER)
        for result, given in (("int8", "fixed8"), ("int8", "fixed16"), ("int16x8", "fixed16"))
    ]
    assert len(cases) >= 6
    assert first_difference(cases, run_natively(cases, tmp_path)) == ""


def test_wide_weights_with_asymmetric_results_on_the_uno(build_cache: Path, tmp_path: Path) -> None:
    """The sums of a window and their rescaling share the registers of one function."""
    nodes, x = [node("Conv", "x w b", "c"), node("Neg", "c", "y")], samples_for((1, 2, 1, 1), 4)
    constants = {"w": samples_for((8, 2, 1, 1), 1)[0], "b": np.arange(8) / 8}
    network = load(simple(nodes, {"x": (1, 2, 1, 1)}, constants), tmp_path)
    program = compiled(network, x, "fixed8", w="fixed16pc", c="int16x8")
    made = [Case("wide", program, quantize_inputs(program, x)[0])]
    assert first_difference(made, run_on_board(made, load_boards().board("uno"), build_cache)) == ""


@pytest.mark.parametrize("weights", by_channel(CODED))
@pytest.mark.parametrize("result", ["int8", "int16x8"])
def test_minifloats_by_channels_make_no_asymmetric_result(weights: str, result: str, tmp_path: Path) -> None:
    """Kernels have a shift for each channel."""
    with pytest.raises(ModelError, match=r"'d' is an asymmetric integer, .* with a scale per channel"):
        case("mix", Assignment("fixed16", {"W": weights, "d": result}), layers(tmp_path))


@pytest.mark.parametrize("seeds", [range(5), pytest.param(range(5, 40), marks=pytest.mark.slow)])
def test_mixtures_natively(seeds: range, tmp_path: Path) -> None:
    made = layers(tmp_path)
    cases = [made_case for seed in seeds if (made_case := mixed(made, seed)) is not None]
    assert len(cases) > 3 * len(seeds) // 4
    assert first_difference(cases, run_natively(cases, tmp_path)) == ""


@pytest.mark.parametrize("board", each(ARM))
def test_on_arm(board: str, build_cache: Path, tmp_path: Path) -> None:
    made = layers(tmp_path)
    cases = [case(name, Assignment(name), made) for name in BOARD_FORMATS]
    assert first_difference(cases, run_on_board(cases, load_boards().board(board), build_cache)) == ""


@pytest.mark.parametrize(
    "name", [slow_unless(name, ("fixed5", "fixed8u", "posit8es2", "bfloat16")) for name in BOARD_FORMATS]
)
def test_on_the_uno(name: str, build_cache: Path, tmp_path: Path) -> None:
    cases = [case(name, Assignment(name), layers(tmp_path))]
    assert first_difference(cases, run_on_board(cases, load_boards().board("uno"), build_cache)) == ""


@pytest.mark.parametrize(
    ("name", "tolerance"),
    [
        *(("fixed16", 2e-3), ("fixed32", 1e-6), ("fixed12", 2e-2), ("posit16es1", 2e-3), ("posit16es2", 4e-3)),
        *(("posit32es2", 1e-6), ("float32", 1e-6), ("float16", 2e-3), ("bfloat16", 2e-2), ("posit8es0", 0.1)),
        *(("posit8es2", 0.3), ("fp8e4m3", 0.3), ("fixed8", 0.1), ("fixed8u", 0.05), ("kmeans256", 2e-3)),
    ],
)
def test_accuracy_is_what_the_width_gives(name: str, tolerance: float, tmp_path: Path) -> None:
    """The outputs are probabilities of ten classes."""
    from tinyhil.references.evaluate import evaluate

    graph, ranges, x = layers(tmp_path)
    program = lower(graph, Assignment(name), ranges)
    codes = quantize(x.reshape(len(x), -1), program.tensors[program.input].format)[0]
    outputs = dequantize_outputs(program, run_reference(program, codes).outputs)
    assert np.abs(outputs - evaluate(graph, x).reshape(len(x), -1)).max() < tolerance


@pytest.mark.parametrize("fmt", FORMATS, ids=lambda fmt: fmt.name)
def test_fitted_formats_hold_the_magnitude(fmt: object) -> None:
    fitted = named(getattr(fmt, "name", "")).fit(3.7)
    codes, saturated = quantize(np.array([-3.7]), fitted)
    assert not saturated.any()
    assert -6 < dequantize(codes, fitted)[0] < -2


@pytest.mark.parametrize(("name", "tolerance"), [("float32", 1e-6), ("posit32es2", 1e-6), ("posit16es1", 5e-4)])
def test_means_of_many_are_as_precise_as_their_format(name: str, tolerance: float, tmp_path: Path) -> None:
    from tinyhil.references.evaluate import evaluate

    nodes = [node("ReduceMean", "x", "m", axes=[2], keepdims=1), node("AveragePool", "m", "y", kernel_shape=[1, 3])]
    graph = load(model(onnx_graph(nodes, {"x": (1, 1, 100, 3)}, "y", {})), tmp_path)
    x = np.abs(np.random.default_rng(3).normal(size=(SAMPLES, 1, 1, 100, 3))).astype(np.float32)
    made = case(name, Assignment(name), (graph, calibrate(graph, x, {}), x))
    wanted = evaluate(graph, x).reshape(SAMPLES, -1)
    outputs = dequantize_outputs(made.program, run_reference(made.program, made.inputs[:SAMPLES]).outputs)
    assert np.abs(outputs / wanted - 1).max() < tolerance
    assert first_difference([made], run_natively([made], tmp_path)) == ""


@pytest.mark.parametrize(
    ("name", "tolerance"), [("fixed16", 1e-3), ("posit16es1", 1e-3), ("fp8e4m3", 0.1), ("float32", 1e-6)]
)
def test_constants_made_of_others_are_fitted_too(name: str, tolerance: float, tmp_path: Path) -> None:
    """A BatchNormalization that nothing is in front of becomes a factor and an offset, values of no model."""
    from tinyhil.references.evaluate import evaluate

    random = np.random.default_rng(3)
    statistics = {key: random.uniform(0.5, 2.0, 3) for key in ("scale", "bias", "mean", "variance")}
    nodes = [node("BatchNormalization", "x scale bias mean variance", "y")]
    graph = load(model(onnx_graph(nodes, {"x": (1, 3, 2, 2)}, "y", statistics)), tmp_path)
    x = random.normal(size=(40, 1, 3, 2, 2)).astype(np.float32)
    program = lower(graph, Assignment(name), calibrate(graph, x, {}))
    codes = quantize(x.reshape(len(x), -1), program.tensors[program.input].format)[0]
    wanted = evaluate(graph, x).reshape(len(x), -1)
    outputs = dequantize_outputs(program, run_reference(program, codes).outputs)
    assert np.abs(outputs - wanted).max() < tolerance * np.abs(wanted).max()
