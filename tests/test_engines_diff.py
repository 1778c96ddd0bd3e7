"""`hil diff A B`: engines layer by layer, and whose rounding a layer has, by the book and by TFLM's own interpreter."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from given_data import data_file
from hil_command import hil
from tflite_files import classifier

from tests.test_engines import BY_HAND, bench, build_by_hand, request
from tests.test_engines_firmware import MODEL, ROOT, WEIGHTS, X
from tinyhil.errors import ConfigError, DataError
from tinyhil.frontend.tflite_file import read_file
from tinyhil.harness.engines import registry
from tinyhil.harness.engines.difference import diff_engines
from tinyhil.harness.engines.engine import Built, Tap, Task
from tinyhil.harness.engines.engine_tensors import tensors_of
from tinyhil.harness.engines.port import Port
from tinyhil.harness.engines.rounding_rules import NEAREST, ONCE, TWICE, explained, multiplier_of, nearest, once, twice
from tinyhil.harness.engines.tflite_ends import with_all_outputs
from tinyhil.harness.job.job import Request

TELLS = "#include <stdint.h>\nuint32_t hil_engine_arena_bytes = 100; extern const void *hil_engine_output(void);\n"
TELLS += "uint8_t work[SIZE]; const void *hil_engine_tensor(uint16_t number) { return hil_engine_output(); }\n"


def half_up(x: Fraction) -> int:
    return (2 * x.numerator + x.denominator) // (2 * x.denominator)


def half_away(x: Fraction) -> int:
    return half_up(x) if x >= 0 else -half_up(-x)


def test_rules_of_rounding_are_those_of_their_books() -> None:
    """By exact fractions: a doubling high product (ties up) and a shift (ties away), or one rounding (ties up)."""
    random = np.random.default_rng(0)
    sums = random.integers(-(1 << 20), 1 << 20, (400, 3))
    factors = np.array([0.00031, 0.0271, 1.5])
    got = {rule: made(sums, factors) for rule, made in ((TWICE, twice), (ONCE, once), (NEAREST, nearest))}
    for column, factor in enumerate(factors):
        m, shift = multiplier_of(float(factor))
        assert 1 << 30 <= m < 1 << 31
        for row, value in enumerate(map(int, sums[:, column])):
            high = half_up(Fraction((value << max(shift, 0)) * m, 1 << 31))
            assert got[TWICE][row, column] == half_away(Fraction(high, 1 << max(-shift, 0)))
            assert got[ONCE][row, column] == half_up(Fraction(value * m, 1 << 31 - shift))
            assert abs(got[NEAREST][row, column] - value * factor) <= 0.5 + 1e-9
    assert (got[TWICE] != got[ONCE]).any()


def test_two_roundings_are_tensorflow_lite_micros() -> None:
    """Convolution with padding and RELU6, and a dense layer, by its own interpreter."""
    micro = pytest.importorskip("tflite_micro", reason="tflite-micro is not installed")
    data = classifier(quantized=True)
    content = read_file(data)
    numbers = {one.name: number for number, one in enumerate(content.tensors)}
    keep = micro.runtime.InterpreterConfig.kPreserveAllTensors
    for sample in range(20):
        interpreter = micro.runtime.Interpreter.from_bytes(data, intrepreter_config=keep)
        x = np.random.default_rng(sample).integers(-128, 128, (1, 6, 5, 2)).astype(np.int8)
        interpreter.set_input(x, 0)
        interpreter.invoke()
        c, r, d = (interpreter.GetTensor(numbers[name], 0)["tensor_data"].reshape(-1) for name in "crd")
        assert explained(content, "c", x.reshape(-1))[TWICE].tolist() == c.tolist()
        assert explained(content, "d", r)[TWICE].tolist() == d.tolist()
    assert explained(content, "y", d) == {}  # a softmax


def test_a_file_tells_every_tensor() -> None:
    data = classifier(quantized=True)
    changed, taps = with_all_outputs(data, read_file(data))
    again = read_file(changed)
    assert [again.tensors[number].name for number in again.outputs] == ["y", "c", "p", "r", "d", "y"]
    assert [(tap.name, tap.shape, tap.port.type) for tap in taps[:1]] == [("c", (1, 3, 3, 3), "int8")]
    assert again.operations == read_file(data).operations


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    def build(task: Task) -> Built:
        taps = (Tap("result", Port.parse("int16 0.25 0"), (3,)),) if task.tells else ()
        return replace(build_by_hand(task, 100), taps=taps)

    monkeypatch.setattr(registry, "ENGINES", (*registry.ENGINES, replace(BY_HAND, build=build)))
    (tmp_path / "hand").mkdir()
    (tmp_path / "hand/engine.c").write_text((ROOT / "tests/firmware_bench/engine.c").read_text())
    (tmp_path / "hand/arena.c").write_text(TELLS)
    (tmp_path / "dense.dsl").write_text(MODEL.format(WEIGHTS.T.astype(float).tolist()))
    np.savez(tmp_path / "x.npz", x=X)
    return tmp_path


def test_an_engine_by_hand_is_held_to_ours_tensor_by_tensor(folder: Path) -> None:
    """Its quarters are exact; ours of 8 bits are not, so the float model says who is nearer."""
    asked = replace(request(folder, "host"), format="fixed8")
    found = diff_engines(("tinyhil", "by-hand"), folder, asked, 2, bench())
    assert [(pair.tensor, pair.elements, pair.errors[1]) for pair in found.tensors] == [("result", 3, 0.0)]
    assert found.first is not None
    assert found.first.errors[0] > 0
    assert found.rounding is None
    exact = diff_engines(("by-hand", "by-hand"), folder, asked, 2, bench())
    assert (exact.first, exact.tensors[0].step) == (None, 0.25)
    with pytest.raises(DataError, match=r"x.npz: has no sample 5, the last is 4; see --sample"):
        diff_engines(("by-hand", "tinyhil"), folder, asked, 5, bench())


def test_our_layers_are_whole_where_the_plan_goes_by_rows(tmp_path: Path) -> None:
    """On this computer it makes half of relu2 at a time."""
    asked = Request("host", "digits_cnn", "int8", inputs=None, results=tmp_path)
    found = tensors_of("tinyhil", None, asked, 0, bench())
    assert {name: one.reals.size for name, one in found.items()} == {
        "relu1": 288, "relu2": 256, "pool1": 64, "logits": 10,
    }  # fmt: skip
    assert diff_engines(("tinyhil", "tinyhil"), None, asked, 0, bench()).first is None


@pytest.mark.slow
def test_an_emulated_board_tells_what_this_computer_does(folder: Path) -> None:
    asked = request(folder, "due@emulated")
    there = diff_engines(("tinyhil", "by-hand"), folder, asked, 2, bench())
    here = diff_engines(("tinyhil", "by-hand"), folder, replace(asked, board="host"), 2, bench())
    assert there.tensors == here.tensors


def test_an_engine_that_tells_nothing_is_one_line(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "ENGINES", (replace(BY_HAND, build=lambda task: build_by_hand(task, 100)),))
    with pytest.raises(ConfigError, match="by-hand: tells of no tensors between its ends"):
        diff_engines(("by-hand", "tinyhil"), folder, request(folder, "host"), 0, bench())


def test_the_command_names_the_first_tensor_that_differs(tmp_path: Path) -> None:
    example = ROOT / "examples/vibration"
    given = ("--model", str(example / "models/vibration.onnx"), "--inputs", str(example / "data/test.npz"))
    done = hil("diff", "tinyhil", "emlearn", *given, "--json", cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    assert "tinyhil and emlearn: first to differ is tensor 'active'" in done.stderr
    record = json.loads(done.stdout)
    assert [one["tensor"] for one in record["tensors"]] == ["active", "logits"]
    ours, theirs = record["first"]["errors"]
    assert theirs < 1e-6 < ours < 1e-3
    done = hil("diff", "tinyhil", *given, cwd=tmp_path)
    assert done.returncode == 2
    assert "give --board, or two engines" in done.stderr


@pytest.mark.data("engines")
def test_onnx2c_tells_what_it_computes(tmp_path: Path) -> None:
    asked = Request("host", "digits_mlp", inputs=None, results=tmp_path)
    found = diff_engines(("tinyhil", "onnx2c"), data_file("engines"), asked, 0, bench())
    assert len(found.tensors) >= 2
    assert max(pair.errors[1] for pair in found.tensors) < 1e-5
    assert found.first is not None


AUTOENCODER = "models/mlperftiny_ad_autoencoder_int8.tflite"


@pytest.mark.data("engines", AUTOENCODER, "small/ad01_normal_sample.npz")
def test_whose_rounding_a_dense_layer_has(tmp_path: Path) -> None:
    frames = np.load(data_file("small/ad01_normal_sample.npz"))["x"]
    np.savez(tmp_path / "x.npz", x=frames[:5].reshape(1, -1))
    asked = Request("host", str(data_file(AUTOENCODER)), inputs=tmp_path / "x.npz", results=tmp_path)
    for engine in ("tflm", "cmsis-nn"):
        found = diff_engines(("tinyhil", engine), data_file("engines"), asked, 0, bench())
        assert found.first is not None
        assert (found.first.different, found.first.elements, round(found.first.largest, 3)) == (1, 128, 1.0)
        assert found.rounding == {"tinyhil": (ONCE, NEAREST), engine: (TWICE,)}
        assert found.first.errors[0] < found.first.errors[1]


LARGE = "models/mlperftiny_ic02_resnet_large_int8.tflite"


@pytest.mark.slow
@pytest.mark.data("engines", LARGE)
def test_whose_rounding_a_dense_layer_behind_a_reshape_has(tmp_path: Path) -> None:
    """It reads codes that another tensor of the file has in another shape."""
    x = np.random.default_rng(0).integers(-128, 128, (1, 32, 32, 3)).astype(np.float32)
    np.savez(tmp_path / "x.npz", x=x)
    asked = Request("host", str(data_file(LARGE)), inputs=tmp_path / "x.npz", results=tmp_path)
    found = diff_engines(("tinyhil", "tflm"), data_file("engines"), asked, 0, bench())
    assert found.first is not None
    assert (found.first.different, found.first.elements, round(found.first.largest, 3)) == (1, 10, 1.0)
    assert found.rounding == {"tinyhil": (ONCE, NEAREST), "tflm": (TWICE,)}
