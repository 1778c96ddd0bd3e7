"""`hil energy`: operations counted and priced, held to a network calculated by hand and to what must always hold."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from hil_command import hil
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx_models import node, simple

from tinyhil.compiler.lower import lower
from tinyhil.errors import ConfigError
from tinyhil.harness.energy.counts import Operand, Operation, count_operations
from tinyhil.harness.energy.sample_energy import energy_of
from tinyhil.harness.energy.session import AS_LISTS
from tinyhil.harness.energy.technology import Technology, find_technology
from tinyhil.harness.job.job import open_model
from tinyhil.language.form import Joined
from tinyhil.references.reference import quantize_inputs

PRICES = find_technology("embedded40", None)[1]
W = np.array([[0.5, -0.25], [0.0, 0.75], [0.5, 0.0], [0.25, -0.5]])  # 2 of 8 are zero
X = np.array([[0.0, 0.5, 0.25, 0.75], [0.0, 0.0, -0.5, 0.5]])  # 3 of 8 are zero


@pytest.fixture
def model(tmp_path: Path) -> Path:
    onnx.save(simple([node("Gemm", "x w b", "y")], {"x": (1, 4)}, {"w": W, "b": [0.1, 0.2]}), tmp_path / "m.onnx")
    np.savez(tmp_path / "x.npz", x=X.astype(np.float32))
    return tmp_path / "m.onnx"


def energy(model: Path, *options: str) -> dict:
    inputs = model.with_name("x.npz")
    done = hil(
        "energy", "--model", model, "--inputs", inputs, "--calibrate", inputs, "--json", *options, cwd=model.parent
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def test_a_layer_by_hand(model: Path) -> None:
    """8 products of 8 bits; x (4) and W (8) are fetched once, the bias (2) read, 2 results written; x is in DRAM."""
    found = energy(model, "--format", "fixed8")
    (layer,) = found["operations"]
    assert (layer["products"], layer["results"], layer["executions"]) == (8, 2, 1)
    assert [(f["name"], f["zeros"], f["count"]) for f in layer["factors"]] == [("w", 2 / 8, 8), ("x", 3 / 8, 4)]
    product = 3.7 * 0.5**1.25  # 8 bits of 16
    assert layer["product_pj"] == pytest.approx(8 * product)
    assert layer["sram_pj"] == pytest.approx((8 + 4 + 2 + 2) * 8 * 20 / 64)
    assert (layer["dram_pj"], found["input_pj"]) == (0, 4 * 8 * 20)
    assert layer["skipped_pj"] == pytest.approx(8 * product * (1 - 6 / 8 * 5 / 8))
    total = layer["product_pj"] + layer["sram_pj"] + found["input_pj"]
    assert found["energy_pj"] == pytest.approx(total)
    assert found["energy_zeros_skipped_pj"] == pytest.approx(total - layer["skipped_pj"])
    assert found["fidelity"] == "modelled"
    if_ = {each["constant"]: (each["halved_pj"] - total, each["doubled_pj"] - total) for each in found["sensitivity"]}
    assert set(if_) == set(Technology.model_fields) - {"title", "source", "mac_bits"}
    for constant, part in ("mac_pj", layer["product_pj"]), ("sram_pj_per_bit", layer["sram_pj"]):
        assert if_[constant] == pytest.approx((-part / 2, part))
    assert if_["dram_pj_per_bit"] == pytest.approx((-found["input_pj"] / 2, found["input_pj"]))
    assert if_["sram_bytes"] == if_["reuse"] == (0, 0)  # all fits in half of it; every factor is fetched once


def parts_of(codes: np.ndarray, bits: int, part_bits: int) -> tuple[np.ndarray, ...]:
    """Two's complement `codes` of `bits` as numbers of `part_bits`, the lowest first; the last alone has a sign."""
    count = -(-bits // part_bits)
    lower = [codes >> part_bits * n & (1 << part_bits) - 1 for n in range(count - 1)]
    return (*lower, codes >> part_bits * (count - 1))


@pytest.mark.parametrize(("bits", "part"), [(8, 2), (8, 3), (8, 8), (16, 4), (5, 2)])
def test_parts_of_values_are_exact(bits: int, part: int) -> None:
    random = np.random.default_rng(bits * part)
    codes = np.arange(-(1 << bits - 1), 1 << bits - 1)
    parts = parts_of(codes, bits, part)
    assert len(parts) == -(-bits // part)
    assert all(each.min() >= 0 and each.max() < 1 << part for each in parts[:-1])
    weights = random.integers(-3, 4, (5, len(codes)))
    assert (sum((weights @ each) << part * n for n, each in enumerate(parts)) == weights @ codes).all()


def test_a_layer_in_parts_by_hand(model: Path) -> None:
    """4 parts of 2 bits: 32 products, 3 shifts per result of 8 bits, weights fetched 4 times."""
    (model.parent / "a.yaml").write_text("default: fixed8\nvalues: {w: fixed2}\n")
    found = energy(model, "--assignment", "a.yaml")
    (layer,) = found["layers_in_parts"]
    assert (layer["name"], layer["parts"], layer["bits"]) == (found["operations"][0]["name"], 4, 2)
    two, eight = (PRICES.product_pj(bits) for bits in (2, 8))
    assert layer["product_pj"] == pytest.approx(32 * two + 2 * 3 * eight)
    assert layer["whole_product_pj"] == pytest.approx(8 * eight)
    assert layer["sram_pj"] - layer["whole_sram_pj"] == pytest.approx(3 * 8 * 2 * 20 / 64)
    assert energy(model, "--format", "fixed8")["layers_in_parts"] == []


def test_chips_that_others_have_measured(tmp_path: Path) -> None:
    """Their joules per cycle, the cycles of `hil fit`; ST's L4R5 takes about .276 nJ a cycle, its U385 a fifth."""
    done = hil("energy", "--model", "digits_cnn", "--format", "fixed8", "--samples", "1", "--json", cwd=tmp_path)
    found = {each["chip"]: each for each in json.loads(done.stdout)["chips"]}
    middles = {name: sum(each["nj_per_cycle"]) / 2 for name, each in found.items()}
    assert middles == pytest.approx({"stm32l4r5": 0.276, "stm32u575": 0.146, "stm32u385": 0.055}, rel=0.05)
    (fit,) = json.loads(
        hil("fit", "digits_cnn", "--boards", "nucleo_l4r5", "--formats", "fixed8", "--json", cwd=tmp_path).stdout
    )["rows"]
    cycles, uj = found["stm32l4r5"]["cycles"], found["stm32l4r5"]["uj"]
    assert cycles["value"] == pytest.approx(fit["latency_us"]["value"] * 120, rel=0.2)  # another preference
    assert uj["low"] < uj["value"] < uj["high"]
    assert uj["value"] == pytest.approx(cycles["value"] * middles["stm32l4r5"] / 1e3)


@pytest.mark.parametrize("name", ["protonn_usps2", "digits_cnn", "bonsai_usps2", "fastgrnn_har"])
@pytest.mark.parametrize("fmt", ["fixed8", "int8", "kmeans16"])
def test_layers_of_the_zoo_multiply_two_factors(name: str, fmt: str) -> None:
    """Of each layer a bias or an index is no factor; weights come first, and their zeros are those of the model."""
    opened = open_model(name)
    program = lower(opened.model.graph, opened.assignment(None, fmt), opened.required_ranges(None), AS_LISTS)
    x = np.random.default_rng(0).normal(size=(2, *program.input_shape)).astype(np.float32)
    constants = opened.model.graph.all_constants()
    layers = [op for op in count_operations(program, quantize_inputs(program, x)[0]) if op.products]
    assert layers
    for op in layers:
        assert len(op.pairs) == (2 if op.kernel.joined is Joined.PAIR else 1)
        assert sum(count for count, _ in op.pairs) == op.products
        for count, (weights, values) in op.pairs:
            assert weights.is_constant
            assert weights.count * (op.executions if op.kernel.rows else 1) <= max(count, weights.count)
            given = constants.get(weights.name.split(".")[0])
            if given is not None and given.size == weights.count and fmt != "kmeans16":  # entries need not hold 0
                assert weights.zeros >= np.mean(given == 0) - 1e-9
            if op.kernel.base == "dense":
                assert weights.count % op.results == 0
                assert values.count * op.results == count


def test_both_products_of_a_pair_are_priced_by_their_own_factors() -> None:
    """6 products of 8 bits with half of one factor zero, and 2 of 4 bits by 16 without zeros."""
    factors = [("w", 8, 6, 0.5), ("x", 8, 3, 0.0), ("u", 4, 2, 0.0), ("h", 16, 1, 0.0)]
    operands = tuple(Operand(*factor, factor[0] in "wu") for factor in factors)
    (found,) = energy_of([Operation("p", "dense_pair", 1, 8, 2, 8, operands, (), 2)], 0, PRICES).operations
    assert found.product_pj == pytest.approx(6 * PRICES.product_pj(8) + 2 * PRICES.product_pj(16))
    assert found.skipped_pj == pytest.approx(3 * PRICES.product_pj(8))
    read = sum(
        bits * max(count / PRICES.reuse, own) for (_, bits, own, _), count in zip(factors, (6, 6, 2, 2), strict=True)
    )
    assert found.sram_pj == pytest.approx((read + 2 * 8) * PRICES.sram_pj_per_bit)


OPERANDS = st.builds(
    Operand,
    st.sampled_from("abcd"),
    st.integers(1, 32),
    st.integers(1, 5000),
    st.floats(0, 1),
    st.booleans(),
)
OPERATIONS = st.builds(
    Operation,
    st.just("op"),
    st.sampled_from(["dense", "squared_distance", "add"]),
    st.integers(1, 100),
    st.integers(0, 5000),
    st.integers(1, 500),
    st.integers(1, 32),
    st.tuples(OPERANDS, OPERANDS),
    st.tuples(OPERANDS),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(OPERATIONS, min_size=1, max_size=4), st.integers(1, 8), st.integers(0, 2))
def test_more_bits_never_cost_less(operations: list[Operation], more: int, which: int) -> None:
    first = operations[0]
    if which < 2:
        factors = list(first.factors)
        factors[which] = replace(factors[which], bits=factors[which].bits + more)
        wider = replace(first, factors=tuple(factors))
    else:
        wider = replace(first, bits=first.bits + more)
    named = [_named(op, number) for number, op in enumerate([wider, *operations])]
    for technology in (PRICES, find_technology("horowitz45", None)[1]):
        before, after = (energy_of([op, *named[2:]], 8, technology) for op in (named[1], _named(wider, 1)))
        assert after.total_pj >= before.total_pj
        assert before.skipping_pj <= before.total_pj * (1 + 1e-12)


def _named(op: Operation, number: int) -> Operation:
    """Operands that no other operation has."""
    factors = tuple(replace(operand, name=f"{operand.name}{number}.{i}") for i, operand in enumerate(op.factors))
    return replace(op, factors=factors)


def test_a_network_costs_more_the_more_bits_it_has() -> None:
    opened = open_model("digits_cnn")
    x = np.random.default_rng(0).uniform(0, 16, (3, 64)).astype(np.float32)
    totals = []
    for bits in (2, 3, 4, 6, 8, 12, 16):
        assignment = opened.assignment(None, f"fixed{bits}")
        program = lower(opened.model.graph, assignment, opened.required_ranges(None), AS_LISTS)
        operations = count_operations(program, quantize_inputs(program, x)[0])
        totals.append(energy_of(operations, 64 * bits, PRICES).total_pj)
    assert totals == sorted(totals)
    assert totals[-1] > 5 * totals[0]


def test_the_law_of_the_source() -> None:
    assert PRICES.product_pj(16) == 3.7
    assert PRICES.product_pj(8) / PRICES.product_pj(4) == pytest.approx(2**1.25)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--technology", "embeded40"], "did you mean embedded40"),
        (["--technologies", "none.yaml"], "none.yaml"),
        (["--technologies", "bad.yaml"], "technologies.x.mac_pj"),
        (["--format", "fixd8"], "did you mean fixed8"),
        (["--inputs", "none.npz"], "none.npz"),
    ],
)
def test_refusals_are_one_line(options: list[str], message: str, model: Path) -> None:
    given = {field: 1 for field in Technology.model_fields if field not in ("title", "source")}
    bad = {"title": "t", "source": "s", **given, "mac_pj": -1}
    (model.parent / "bad.yaml").write_text(json.dumps({"technologies": {"x": bad}}))
    inputs = [] if "--inputs" in options else ["--inputs", "x.npz"]
    done = hil("energy", "--model", model, *inputs, *options, cwd=model.parent)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") <= 2  # the first may say on what was calibrated
    assert "Traceback" not in done.stderr


def test_an_empty_table_names_its_lack(tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text("default: embedded40\n")
    with pytest.raises(ConfigError, match="technologies: missing"):
        find_technology(None, tmp_path / "t.yaml")


def test_what_is_printed_says_that_it_is_a_model(model: Path) -> None:
    done = hil("energy", "--model", model, "--inputs", "x.npz", "--calibrate", "x.npz", cwd=model.parent)
    assert done.returncode == 0, done.stderr
    assert "by a model: nothing is measured" in done.stdout
    assert "37.5 %" in done.stdout
