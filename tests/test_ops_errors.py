"""Stated error bounds of functions, over every input."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx_models import given_ranges, load, model, node
from onnx_models import graph as onnx_graph

from tinyhil.compiler.lower import lower
from tinyhil.formats.fixed import Fixed
from tinyhil.language.assignment import Assignment
from tinyhil.language.form import Form
from tinyhil.language.program import Program
from tinyhil.ops import curve, exponential
from tinyhil.references.reference import run_reference


def everywhere(op: str, x: Fixed, out: Fixed, folder: Path, **attrs: Any) -> tuple[np.ndarray, np.ndarray, Program]:
    """(operands as reals, results in units of the last place) for every code of `x`."""
    codes = np.arange(x.lowest, x.highest + 1)
    opset = 20 if op == "Gelu" else 17
    made = model(onnx_graph([node(op, "x", "y", **attrs)], {"x": (1, len(codes))}, "y"), opset)
    ranges = given_ranges(x=0.75 * 2.0 ** (x.exponent + x.bits - 1), y=0.75 * 2.0 ** (out.exponent + out.bits - 1))
    assignment = Assignment("fixed16", {"x": f"fixed{x.bits}", "y": f"fixed{out.bits}"})
    program = lower(load(made, folder), assignment, ranges)
    assert program.tensors["y"].format == out
    return np.ldexp(codes.astype(np.float64), x.exponent), run_reference(program, codes[None]).outputs[0], program


def within(exact: np.ndarray, out: Fixed) -> np.ndarray:
    """Where the exact result, in units of the last place, does not saturate."""
    inside: np.ndarray = (exact > out.lowest + 1) & (exact < out.highest - 1)
    return inside


@pytest.mark.parametrize("exponent", range(-20, 4, 3))
@pytest.mark.parametrize("out", [Fixed(16, -15), Fixed(16, -8), Fixed(16, 3), Fixed(8, -7), Fixed(8, 2)], ids=str)
def test_every_exponential(exponent: int, out: Fixed, tmp_path: Path) -> None:
    with np.errstate(over="ignore"):
        for bits in (8, 16):
            x, got, _ = everywhere("Exp", Fixed(bits, exponent), out, tmp_path)
            exact = np.ldexp(np.exp(x), -out.exponent)
            assert np.abs(got - np.clip(exact, out.lowest, out.highest)).max() <= exponential.WORST_ULP


@pytest.mark.parametrize("factor", [-0.37, -1.0, 2.5, -1e-3, 40.0])
def test_every_exponential_of_a_factor(factor: float) -> None:
    """The factor that a product in front of an exponential becomes."""
    x = np.arange(-(1 << 15), 1 << 15)
    op = exponential.Op(Form("exp"), "e", (), "y", exponential.exp_params(factor, -12, -15))
    codes, _ = exponential.EXP.execute(op, [exponential.power_table()[None], x[None]], Fixed(16, -15))
    exact = np.exp(np.minimum(factor * x * 2.0**-12, 1)) * 2.0**15
    assert np.abs(codes[0] - np.minimum(exact, 32767)).max() <= exponential.WORST_ULP


@pytest.mark.parametrize("exponent", [-20, -15, -9, -3, 0, 7, 30])
@pytest.mark.parametrize("out", [Fixed(16, -15), Fixed(16, -11), Fixed(8, -3)], ids=str)
def test_every_logarithm(exponent: int, out: Fixed, tmp_path: Path) -> None:
    x, got, _ = everywhere("Log", Fixed(16, exponent), out, tmp_path)
    exact = np.ldexp(np.log(x[x > 0]), -out.exponent)
    error = np.abs(got[x > 0] - exact)[within(exact, out)]
    assert error.max(initial=0) <= 0.5 + exponential.LOG_ERROR * 2.0**-out.exponent
    assert (got[x <= 0] == out.lowest).all()


@pytest.mark.parametrize("exponent", [-16, -15, -8, -3, 0, 5])
@pytest.mark.parametrize("out", [Fixed(16, -15), Fixed(16, -7), Fixed(16, 2), Fixed(8, -4)], ids=str)
def test_every_square_root_is_rounded_once(exponent: int, out: Fixed, tmp_path: Path) -> None:
    x, got, _ = everywhere("Sqrt", Fixed(16, exponent), out, tmp_path)
    exact = np.ldexp(np.sqrt(np.maximum(x, 0)), -out.exponent)
    assert np.abs(got - np.minimum(exact, out.highest)).max() <= 0.5
    assert (got[x < 0] == 0).all()


@pytest.mark.parametrize("exponent", [-18, -13, -7, -2, 1])
@pytest.mark.parametrize("out", [Fixed(16, -15), Fixed(16, -9), Fixed(16, 1), Fixed(8, -6)], ids=str)
def test_every_quotient_is_rounded_once(exponent: int, out: Fixed, tmp_path: Path) -> None:
    x, got, _ = everywhere("Reciprocal", Fixed(16, exponent), out, tmp_path)
    exact = np.ldexp(1 / x[x != 0], -out.exponent)
    assert np.abs(got[x != 0] - np.clip(exact, out.lowest, out.highest)).max() <= 0.5


CURVES: dict[str, tuple[str, dict[str, Any], curve.Curve]] = {
    "erf": ("Erf", {}, curve.ERF),
    "gelu": ("Gelu", {}, curve.GELU),
    "gelu tanh": ("Gelu", {"approximate": "tanh"}, curve.GELU_TANH),
    "softplus": ("Softplus", {}, curve.SOFTPLUS),
    "elu": ("Elu", {}, curve.elu(1.0)),
    "elu 3.7": ("Elu", {"alpha": 3.7}, curve.elu(3.7)),
}


@pytest.mark.parametrize("exponent", [-20, -16, -13, -10, -5, 1])
@pytest.mark.parametrize("out", [Fixed(16, -15), Fixed(16, -12), Fixed(8, -5)], ids=str)
@pytest.mark.parametrize("name", CURVES)
def test_every_value_of_a_curve(name: str, exponent: int, out: Fixed, tmp_path: Path) -> None:
    op, attrs, shape = CURVES[name]
    x, got, _ = everywhere(op, Fixed(16, exponent), out, tmp_path, **attrs)
    h = shape.h(np.abs(x))
    exact = np.ldexp(shape.line * np.maximum(x, 0) + np.where(x < 0, shape.below, shape.above) * h, -out.exponent)
    error = np.abs(got - np.clip(exact, out.lowest, out.highest))
    # operands finer than 2^-17 lose their lowest bits before the look-up
    dropped = 2.0**-17 if exponent < -17 else 0.0
    assert error.max() <= 0.5 + np.ldexp(shape.worst_error + 1.2 * dropped, -out.exponent)
