"""Every operator in other formats than fixed point: kernels, the host engine, boards, results in yet another format."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from boards_under_test import ARM, each
from kernel_cases import UNDEFINED, Case, first_difference, run_natively, run_on_board
from onnx_models import compiled, load, samples_for
from ops_models import MODELS, proto, shape_of
from search_models import host_engine
from test_kernels_formats import inputs

from tinyhil.compiler.calibrate import calibrate
from tinyhil.compiler.lower import lower, tied_values
from tinyhil.harness.build.toolchain import default_cache_dir
from tinyhil.harness.settings.config import load_boards
from tinyhil.language.assignment import Assignment
from tinyhil.references.evaluate import evaluate
from tinyhil.references.reference import dequantize_outputs, quantize_inputs, run_reference

CODED = ["less", "greater or equal", "equal", "and", "sign", "where", "where per row", "tree", "loop", "if"]
CODED += ["rnn backward", "gru", "lstm both", "exp", "div", "top 1 index", "smallest two of rows"]
SUMS = ["p relu", "p relu per channel", "layer normalization", "instance normalization", "unit length", "batches"]
SUMS += ["batches of a constant", "batches of the left", "transposed conv", "transposed conv padded", "resize linear"]
SUMS += ["transposed conv in groups", "transposed conv of a shape", "transposed conv 1-D", "resize linear to sizes"]
SUMS += ["cast to whole", "gather a row"]
ON_SMALL = ["p relu per channel", "layer normalization", "batches", "transposed conv in groups", "resize linear"]
QUICK = ("posit16es1", "float16", "int8")
SLOW = (
    "posit8es2",
    "fixed5",
    "posit8es0",
    "posit6es3",
    "posit32es2",
    "fp8e4m3",
    "fp8e5m2",
    "fp4e2m1",
    "float32",
    "bfloat16",
    "fixed32",
)
SLOW += ("int16x8", "nf4", "kmeans16", "ternary", "fixed8pc", "fp8e4m3pc", "fixed12")


def in_format(names: Sequence[str], default: str, folder: Path, rows: int = 24) -> list[Case]:
    """On real inputs and on codes of all sorts."""
    made = []
    for name in names:
        x = samples_for(shape_of(name), 12)
        program = compiled(load(proto(name), folder), x, default)
        codes = inputs(program.tensors[program.input].format, 2 * x, 8)
        made.append(Case(f"{name} {default}", program, codes[:: max(1, len(codes) // rows)]))
    return made


@pytest.mark.parametrize("default", [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)])
def test_kernels_in_other_formats(default: str, tmp_path: Path) -> None:
    made = in_format([*CODED, *SUMS], default, tmp_path)
    assert first_difference(made, run_natively(made, tmp_path, *UNDEFINED)) == ""


@pytest.mark.slow
@pytest.mark.parametrize("default", [*QUICK, *SLOW])
def test_every_model_in_other_formats(default: str, tmp_path: Path) -> None:
    made = in_format(list(MODELS), default, tmp_path)
    assert first_difference(made, run_natively(made, tmp_path, *UNDEFINED)) == ""


@pytest.mark.parametrize("default", [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)])
def test_the_host_engine_in_other_formats(default: str, tmp_path: Path) -> None:
    engine = host_engine(default_cache_dir())
    for case in in_format([*CODED, *SUMS], default, tmp_path):
        found, wanted = engine.run(case.program, case.inputs), run_reference(case.program, case.inputs)
        np.testing.assert_array_equal(found.outputs, wanted.outputs, case.name)
        np.testing.assert_array_equal(found.saturations, wanted.saturations, case.name)


def test_terms_beyond_a_wide_window_are_cut_alike(tmp_path: Path) -> None:
    """Its limit of 61 bits is no double."""
    (case,) = in_format(["resize linear"], "posit32es2", tmp_path)
    found, wanted = (
        host_engine(default_cache_dir()).run(case.program, case.inputs),
        run_reference(case.program, case.inputs),
    )
    np.testing.assert_array_equal(found.outputs, wanted.outputs)
    np.testing.assert_array_equal(found.saturations, wanted.saturations)


@pytest.mark.parametrize("board", each(ARM))
def test_sums_in_other_formats_on_arm(board: str, tmp_path: Path) -> None:
    made = [case for default in ("posit8es0", "bfloat16") for case in in_format(SUMS, default, tmp_path, 8)]
    assert first_difference(made, run_on_board(made, load_boards().board(board), tmp_path / "cache")) == ""


@pytest.mark.parametrize(
    ("name", "default"),
    [
        ("layer normalization", "posit8es0"),
        *(
            pytest.param(n, f, marks=pytest.mark.slow)
            for n in ON_SMALL
            for f in ("posit8es2", "posit16es1", "bfloat16")
        ),
    ],
)
def test_sums_in_other_formats_on_the_uno(name: str, default: str, tmp_path: Path) -> None:
    made = in_format([name], default, tmp_path, 4)
    assert first_difference(made, run_on_board(made, load_boards().board("uno"), tmp_path / "cache")) == ""


@pytest.mark.parametrize(
    ("default", "tolerance"),
    [("fixed16", 2e-4), ("posit16es1", 5e-4), ("float16", 1e-3), ("float32", 2e-5), ("int8", 0.05)],
)
def test_sums_in_other_formats_are_near_the_float_model(default: str, tolerance: float, tmp_path: Path) -> None:
    for name in SUMS[:-2]:
        graph, x = load(proto(name), tmp_path), samples_for(shape_of(name), 12)
        program = compiled(graph, x, default)
        outputs = dequantize_outputs(program, run_reference(program, quantize_inputs(program, x)[0]).outputs)
        wanted = evaluate(graph, x).reshape(len(x), -1)
        assert np.abs(outputs - wanted).max() < tolerance * np.abs(wanted).max(), name


# ---- integers whose results are something else

RESULTS = ["exp", "log", "sqrt", "reciprocal", "div", "pow 1.5", "log softmax", "layer normalization", "unit length"]
RESULTS += [name for name in SUMS if name not in RESULTS] + ["where", "erf", "gelu", "elu"]


@pytest.mark.parametrize(
    ("default", "result"), [("fixed16", "posit12es1"), ("fixed8", "float16"), ("fixed16", "fixed32")]
)
def test_integers_round_into_other_formats(default: str, result: str, tmp_path: Path) -> None:
    made = []
    for name in RESULTS:
        graph, x = load(proto(name), tmp_path), samples_for(shape_of(name), 12)
        formats = {group[0]: result for group in tied_values(graph) if graph.outputs[0] in group}
        program = lower(graph, Assignment(default, formats), calibrate(graph, x, {}))
        made.append(Case(name, program, quantize_inputs(program, 2 * x)[0]))
    assert first_difference(made, run_natively(made, tmp_path, *UNDEFINED)) == ""
