"""Crossbars: what they compute, what that costs, and the board that is made of them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from given_data import needs_set
from hil_command import check_failure, hil
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx_models import node, simple

from tinyhil.crossbars.array import Mapped, matmul, read, sliced_matmul
from tinyhil.crossbars.hardware import Hardware, column_bits
from tinyhil.errors import ConfigError, ModelError
from tinyhil.harness.settings.config import load_boards
from tinyhil.reram.cost import crossbar_mw, layer_cost
from tinyhil.reram.mapping import Matrix

HARDWARE = load_boards().board("reram").hardware
assert HARDWARE is not None


@st.composite
def products(draw: st.DrawFn) -> tuple[Mapped, np.ndarray, np.ndarray]:
    """Any crossbar with converters that are wide enough, and operands at the ends of their widths and within."""
    rows, cell, dac = draw(st.integers(1, 40)), draw(st.integers(1, 4)), draw(st.integers(1, 4))
    weight_bits, input_bits = draw(st.integers(2, 9)), draw(st.integers(2, 9))
    spare = draw(st.integers(0, 2))
    signed = draw(st.booleans())
    mapped = Mapped(rows, cell, dac, column_bits(rows, cell, dac) + spare, weight_bits, input_bits, signed=signed)
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, k, m = (draw(st.integers(1, most)) for most in (4, 90, 4))
    weights, inputs = (
        np.where(
            random.random(shape) < 0.3,
            random.choice([-(1 << (bits - 1)), (1 << (bits - 1)) - 1], shape),
            random.integers(-(1 << (bits - 1)), 1 << (bits - 1), shape),
        )
        for bits, shape in ((weight_bits, (n, k)), (input_bits, (k, m)))
    )
    return mapped, weights, inputs if signed else inputs + (1 << (input_bits - 1))


@given(products())
@settings(max_examples=150, deadline=None)
def test_bit_slices_are_the_integer_product_where_the_converter_is_wide_enough(case) -> None:
    mapped, weights, inputs = case
    assert mapped.is_exact
    assert (sliced_matmul(mapped, weights, inputs) == weights @ inputs).all()


@given(products(), st.integers(1, 4))
@settings(max_examples=100, deadline=None)
def test_a_narrow_converter_is_wrong_by_at_most_its_steps(case, missing: int) -> None:
    """Half a step per reading, or what lies beyond its highest code."""
    mapped, weights, inputs = case
    wanted = column_bits(mapped.rows, mapped.cell_bits, mapped.dac_bits)
    narrow = replace(mapped, adc_bits=max(1, wanted - missing))
    step = 1 << narrow.step_bits
    each = max(step / 2, (1 << wanted) - 1 - ((1 << narrow.adc_bits) - 1) * step, step - 1)
    blocks = -(-weights.shape[1] // mapped.rows)
    bound = blocks * each * 2 * (2**mapped.weight_bits - 1) * (2**mapped.input_bits - 1)
    error = sliced_matmul(narrow, weights, inputs) - weights @ inputs
    assert np.abs(error).max(initial=0) <= bound


def test_the_full_column_needs_the_last_bit() -> None:
    """128 rows of ones read 128 = 0b10000000: 8 bits tell it, 7 say 127 steps of 2, which is 254 at most, so exact for
    even sums and off by one for odd ones."""
    weights, inputs = np.ones((1, 128), int), np.ones((128, 1), int)
    exact = Mapped(128, 1, 1, 8, 2, 2)
    assert sliced_matmul(exact, weights, inputs).item() == 128
    inputs[0] = 0
    assert sliced_matmul(exact, weights, inputs).item() == 127
    assert sliced_matmul(replace(exact, adc_bits=7), weights, inputs).item() == 128  # a tie goes up
    assert matmul(replace(exact, adc_bits=7), weights, inputs).item() == 128
    assert read(replace(exact, adc_bits=6), np.array([0, 1, 2, 3, 126, 128])).tolist() == [0, 0, 4, 4, 128, 128]


@pytest.mark.parametrize(("rows", "bits"), [(128, 8), (256, 9), (512, 10)])
def test_bits_of_a_column(rows: int, bits: int) -> None:
    """One bit less than DAC + cell + log2 S, which counts 2^bits - 1 as 2^bits (ISAAC, section 5)."""
    assert column_bits(rows, 1, 1) == bits
    assert column_bits(rows, 2, 2) == bits + 4 - (1 if rows * 9 < 2 ** (bits + 3) else 0)


def test_a_layer_by_hand() -> None:
    """conv 3x3, 20 -> 50 channels, 8x8 pixels, 4-bit weights, 6-bit inputs, on arrays of 128 of one bit:

    inner 180: ceil(180/128) = 2 rows of arrays; 50 columns: 1; 4 cells, twice for the sign: 2 * 1 * 4 * 2 = 16 arrays;
    64 pixels * 6 cycles = 384 cycles of 100 ns = 38.4 us; 384 * 2 * 50 * 8 = 307,200 conversions;
    energy: conversions 307,200 * 2.025 mW / 1.28 GS/s = 486,000 pJ; rows 384 * 180 * 8 = 552,960 driven for 100 ns by
    3.9 uW + 10 nW: 552,960 * 0.391 pJ = 216,207 pJ; arrays 16 * 384 * 0.484 mW * 100 ns = 297,370 pJ; their share of a
    tile 16 * 384 * 40.9/96 mW * 100 ns = 261,760 pJ: 1.261337 uJ in all.
    """
    cost = layer_cost("layer", Matrix(1, 180, 50, 64, 4, 6), HARDWARE)
    assert (cost.crossbars, cost.cycles, cost.conversions, cost.macs) == (16, 384, 307_200, 576_000)
    assert cost.latency_us == pytest.approx(38.4)
    assert cost.energy_uj == pytest.approx(1.261337, rel=1e-5)


@pytest.mark.parametrize(
    ("matrix", "changes", "crossbars", "cycles"),
    [
        (Matrix(1, 128, 128, 1, 8, 8, signed=False), {"dac_bits": 4}, 8 * 2, 2),
        (Matrix(1, 400, 120, 1, 8, 8), {}, 4 * 1 * 8 * 2, 8),  # LeNet-5's first dense layer
        (Matrix(1, 400, 120, 1, 8, 8), {"cell_bits": 2}, 4 * 1 * 4 * 2, 8),
        (Matrix(1, 400, 120, 1, 7, 8), {"cell_bits": 2}, 4 * 1 * 4 * 2, 8),  # 7 bits fill 4 cells of 2
        (Matrix(1, 400, 120, 1, 8, 8), {"dac_bits": 2}, 64, 1 + 4),  # 7 bits of magnitude in 4 digits, and the sign
        (Matrix(1, 400, 300, 10, 2, 2), {"rows": 256}, 2 * 2 * 2 * 2, 20),
        (Matrix(8, 9, 1, 49, 8, 8), {}, 8 * 1 * 1 * 16, 49 * 8),  # depthwise: an array of its own per channel
    ],
)
def test_crossbars_and_cycles_by_hand(matrix: Matrix, changes: dict, crossbars: int, cycles: int) -> None:
    cost = layer_cost("layer", matrix, replace(HARDWARE, **changes))
    assert (cost.crossbars, cost.cycles) == (crossbars, cycles)


def test_a_large_array_waits_for_its_converter() -> None:
    assert replace(HARDWARE, rows=512).read_ns == 400.0  # 512 columns at 1.28 GS/s
    assert HARDWARE.read_ns == 100.0


def test_the_constants_are_those_of_isaac() -> None:
    """12 groups of 8 arrays with their converters take 24.1 mW each, a tile 330 mW (ISAAC, table 1), and a full tile of
    2-bit cells and 16-bit operands gives half of ISAAC's 96 * 128 * 16 * 2 operations in 1.6 us: signs take pairs."""
    h = HARDWARE
    assert 8 * crossbar_mw(h) == pytest.approx(24.08, rel=0.005)
    assert 96 * crossbar_mw(h) + h.tile_mw == pytest.approx(330, rel=0.005)
    assert h.crossbars_per_tile == 96
    isaac = replace(h, cell_bits=2, adc_bits=8)
    full = layer_cost("tile", Matrix(1, 128 * 96 // 16, 128, 1, 16, 16), isaac)  # fills the 96 arrays of a tile
    assert full.crossbars == 96
    gops = 2 * full.macs / (full.latency_us * 1e3)
    assert gops == pytest.approx(96 * 128 * 16 * 2 / 1600 / 2)


def test_out_of_range_hardware_is_refused() -> None:
    for name, value in {"rows": 0, "cell_bits": 9, "dac_bits": 0, "adc_bits": 17}.items():
        with pytest.raises(ConfigError, match=f"{name} {value} is out of range"):
            replace(HARDWARE, **{name: value})
    assert isinstance(HARDWARE, Hardware)


def board_file(folder: Path, **changes: float) -> Path:
    """A board file: the accelerator with other values."""
    values = ", ".join(f"{name}: {value}" for name, value in changes.items())
    entry = "  other:\n    title: changed\n    chip: reram\n    reset: on_start\n    upload: none\n"
    entry += f"    crossbars: {{{values}}}\n"
    path = folder / "boards.yaml"
    path.write_text(f"boards:\n{entry}")
    return path


def run_on(board: str, folder: Path, *options: str) -> dict:
    done = hil("run", "--board", board, "--samples", 20, "--results", folder, "--json", *options, cwd=folder)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("model", "fmt", "changes"),
    [
        ("digits_cnn", "fixed5", {}),
        ("digits_cnn", "fixed8", {"adc_bits": 4, "rows": 70}),
        ("digits_cnn", "fixed8pc", {"adc_bits": 6, "cell_bits": 2, "dac_bits": 3}),
        ("digits_cnn", "fixed8u", {}),
        ("digits_cnn", "fixed6u", {"adc_bits": 5, "dac_bits": 3, "rows": 70}),
    ],
)
def test_the_board_computes_what_numpy_says_of_its_readings(model, fmt, changes, tmp_path) -> None:
    record = run_on(
        "other", tmp_path, "--model", model, "--format", fmt, "--boards-file", str(board_file(tmp_path, **changes))
    )
    assert record["bit_exact"]
    accelerator = record["accelerator"]
    assert record["latency"]["median_us"] == pytest.approx(accelerator["latency_us"])  # the clock of the kernels
    assert record["latency"]["fidelity"].startswith("modelled")
    host = run_on("host", tmp_path, "--model", model, "--format", fmt)
    same = record["raw"]["outputs"] == host["raw"]["outputs"]
    assert same == (not changes)  # narrow converters change the outputs, wide ones do not
    assert host["accelerator"] is None


def test_depthwise_layers_are_read_window_by_window(tmp_path: Path) -> None:
    """Windows that hang over the edge, strides, groups; converters too narrow for them."""
    random = np.random.default_rng(3)
    depthwise = node("Conv", "x w", "z", group=4, pads=[1, 1, 1, 1], strides=[2, 1])
    grouped = node("Conv", "z v", "y", group=2, dilations=[1, 2])
    weights = {"w": random.normal(size=(4, 1, 3, 3)), "v": random.normal(size=(6, 2, 2, 2))}
    model = simple([depthwise, grouped], {"x": (1, 4, 7, 6)}, weights)
    path, inputs = tmp_path / "depthwise.onnx", tmp_path / "x.npz"
    onnx.save(model, path)
    np.savez(inputs, x=random.normal(size=(20, 4, 7, 6)).astype(np.float32))
    given = ("--model", str(path), "--inputs", str(inputs), "--format", "fixed6")
    record = run_on("other", tmp_path, *given, "--boards-file", str(board_file(tmp_path, adc_bits=2, rows=16)))
    assert record["bit_exact"]
    assert record["raw"]["outputs"] != run_on("host", tmp_path, *given)["raw"]["outputs"]


@pytest.mark.parametrize(
    ("model", "fmt", "said"),
    [
        ("digits_mlp", "int8", "'dense affine' is no product with a constant"),
        ("digits_mlp", "posit8es0", "are posit8es0"),
        ("digits_mlp", "kmeans16", "weights"),
        pytest.param(
            *("protonn_letter26", "fixed8", "'squared_distance' is no product with a constant matrix"),
            marks=needs_set("letter"),
        ),
    ],
)
def test_what_crossbars_can_not_hold_is_named_in_one_line(model, fmt, said, tmp_path) -> None:
    done = hil("run", "--board", "reram", "--model", model, "--format", fmt, "--results", tmp_path, cwd=tmp_path)
    check_failure(done, ModelError.exit_code, "reram: crossbars can not hold layer", said)


@pytest.mark.parametrize(
    ("changes", "said"),
    [({"adc_bits": 20}, "adc_bits 20 is out of range, 1 to 16"), ({"volts": 3}, "crossbars have no 'volts'")],
)
def test_a_board_file_with_other_crossbars_is_checked(changes: dict, said: str, tmp_path: Path) -> None:
    path = board_file(tmp_path, **changes)
    done = hil("run", "--board", "other", "--model", "digits_mlp", "--boards-file", path, cwd=tmp_path)
    check_failure(done, ConfigError.exit_code, said)


def test_the_profile_shows_energy_and_crossbars_per_layer(tmp_path: Path) -> None:
    options = ("--model", "digits_cnn", "--format", "fixed8", "--samples", 2, "--results", tmp_path, "--json")
    done = hil("profile", "--board", "reram", *options, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    layers = {layer["name"]: layer for layer in found["accelerator"]["layers"]}
    ticks = {operation["name"]: operation["ticks"] for operation in found["operations"]}
    assert layers
    assert all(ticks[name] == pytest.approx(layer["latency_us"] * 1e3) for name, layer in layers.items())
    assert sum(layer["energy_uj"] for layer in layers.values()) == pytest.approx(found["accelerator"]["energy_uj"])
