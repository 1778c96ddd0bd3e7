"""Signs: values of one bit, and layers that count differing bits, on numpy, the host engine and emulated boards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from kernel_cases import SANITIZED, Case, first_difference, run_natively, run_on_board
from onnx_models import load, samples_for
from search_models import host_engine
from test_arm_kernels import dense
from test_ops_engine import graphs
from test_rows import Chain

from tinyhil.compiler.calibrate import calibrate
from tinyhil.compiler.lower import lower
from tinyhil.formats.codebook import Codebook, binary
from tinyhil.formats.codec import requantize
from tinyhil.formats.exact import Exact
from tinyhil.formats.fixed import Fixed
from tinyhil.formats.format import Format
from tinyhil.formats.sign import Sign, fit
from tinyhil.harness.build.toolchain import default_cache_dir
from tinyhil.harness.settings.config import load_boards
from tinyhil.language.assignment import Assignment
from tinyhil.language.form import Form, Weights
from tinyhil.language.program import Op, Program, Role, Tensor, walk
from tinyhil.ops.signs import from_words, in_words
from tinyhil.passes.arrange import arrange
from tinyhil.passes.binary_layers import MOST_TERMS
from tinyhil.references.reference import quantize_inputs, run_reference

WIDE = ("fixed8", "float32", "posit8es0", "fixed16")  # of what lies around the signs


def limited(chain: Chain) -> Chain:
    chain.constants |= {"low": np.float32(-1), "high": np.float32(1)}
    return chain.add("Clip", "low high")


def chains() -> dict[str, tuple[Chain, int]]:
    """Networks with layers of signs, and how many of them count bits: widths around a word, windows that hang over."""
    windows = limited(limited(Chain(3, 3).conv(33, 3, pad=1)).conv(9, 3, pad=1)).conv(20, 1, stride=2, bias=0)
    pooled = limited(Chain(2, 9).conv(8, 3)).pool("MaxPool", 2, 2).conv(5, 2, pad=1, dilation=2)
    strided = limited(Chain(1, 5).conv(32, 2)).conv(7, 5, stride=3, pad=2)
    grouped = limited(Chain(2, 5).conv(6, 3)).conv(6, 3, group=2)
    matrices = limited(limited(dense(9, 65)).add("MatMul", "v")).add("Relu").add("MatMul", "u")
    matrices.constants |= {"v": _normal(65, 32), "u": _normal(32, 3)}
    rows = limited(dense(5, 40, rows=3)).add("MatMul", "v")
    rows.constants |= {"v": _normal(40, 6)}
    return {
        "windows": (limited(windows), 2),
        "pooled": (pooled, 1),
        "strided": (strided, 1),
        "grouped": (grouped, 0),
        "matrices": (matrices, 1),
        "rows": (rows, 1),
    }


def _normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(shape[0]).normal(size=shape).astype(np.float32)


CHAINS = chains()


def program_of(name: str, folder: Path, wide: str) -> Program:
    """Clipped values are signs, all matrices but the first binary."""
    chain = CHAINS[name][0]
    limits = [made.output[0] for made in chain.nodes if made.op_type in ("Clip", "MaxPool")]
    loaded = load(chain.model(), folder)
    matrices = [n for n, a in loaded.all_constants().items() if sum(d > 1 for d in a.shape) > 1]
    vectors = [n for n, a in loaded.all_constants().items() if a.ndim == 1]  # which become fixed16
    chosen = dict.fromkeys([*limits, *matrices, *vectors], "sign") | {"y": wide, matrices[0]: "fixed8"}
    ranges = calibrate(loaded, samples_for(loaded.shapes["x"]), {})
    return lower(loaded, Assignment(wide, {n: f for n, f in chosen.items() if n in loaded.all_shapes()}), ranges)


def inputs_of(program: Program) -> np.ndarray:
    tensor = program.tensors[program.input]
    return quantize_inputs(program, np.random.default_rng(1).normal(size=(6, tensor.count)).astype(np.float32))[0]


def counting(program: Program) -> int:
    return sum(op.kernel.weights is Weights.SIGNS for op in walk(program.body))


def with_bytes(name: str, folder: Path, wide: str) -> Program:
    """The same networks with values of eight bits beside all binary weights."""
    loaded = load(CHAINS[name][0].model(), folder)
    constants = loaded.all_constants()
    chosen = {n: "sign" for n, a in constants.items() if sum(d > 1 for d in a.shape) > 1}
    ranges = calibrate(loaded, samples_for(loaded.shapes["x"]), {})
    return lower(loaded, Assignment("fixed8", {**chosen, "y": wide, "x": "fixed6"}), ranges)


def bits(program: Program) -> int:
    return sum(tensor.blocks is not None and tensor.blocks.word > 0 for tensor in program.tensors.values())


def test_on_the_desktop_with_sanitizers(tmp_path: Path) -> None:
    """As the desktop and as an ARM chip have them."""
    cases = []
    for name in CHAINS:
        program = with_bytes(name, tmp_path, "fixed16")
        arranged = arrange(program, "cortex-m3")
        assert bits(arranged) == {"windows": 3, "matrices": 3}.get(name, 1 if name == "grouped" else 2)
        cases.append(Case(f"{name} bytes", arranged, inputs_of(program)))
        for wide in ("fixed8", "posit8es0"):
            program = program_of(name, tmp_path, wide)
            cases.append(Case(f"{name} {wide} m3", arrange(program, "cortex-m3"), inputs_of(program)))
        cases.append(Case(name, program, inputs_of(program)))
    assert first_difference(cases, run_natively(cases, tmp_path, *SANITIZED)) == ""


@pytest.mark.parametrize("name", CHAINS)
def test_layers_of_signs_count_bits_and_change_nothing(name: str, tmp_path: Path) -> None:
    engine = host_engine(default_cache_dir())
    for wide in WIDE:
        program = program_of(name, tmp_path, wide)
        inputs = inputs_of(program)
        wanted = run_reference(program, inputs)
        assert len(np.unique(wanted.outputs)) > 2 or name == "windows"
        found = engine.run(program, inputs)
        assert np.array_equal(found.outputs, wanted.outputs)
        assert np.array_equal(found.saturations, wanted.saturations)
        for core in ("avr", "cortex-m3"):
            arranged = arrange(program, core)
            assert counting(arranged) == CHAINS[name][1]
            assert np.array_equal(run_reference(arranged, inputs).outputs, wanted.outputs)


@pytest.mark.parametrize(("board", "core"), [("uno", "avr"), ("due", "cortex-m3"), ("h747", "cortex-m7")])
def test_layers_of_signs_on_boards(board: str, core: str, tmp_path: Path) -> None:
    found = []
    for number, name in enumerate(CHAINS):
        program = program_of(name, tmp_path, WIDE[number % 2 * 3])
        found.append(Case(name, arrange(program, core), inputs_of(program)[:3]))
    for name in ("grouped", "matrices", "rows"):
        program = with_bytes(name, tmp_path, "fixed8")
        found.append(Case(f"{name} bytes", arrange(program, core), inputs_of(program)[:3]))
    signs = into_signs("int8", LAYERS, tmp_path)
    found += [replace(case, program=arrange(case.program, core)) for case in signs]
    assert first_difference(found, run_on_board(found, load_boards().board(board), tmp_path / "cache")) == ""


ROUNDED = ("more div", "more sqrt", "more exp", "more log", "shape softmax", "more unit length")
LAYERS = ("window 3x3", "window depthwise", "shape batch norm after gemm", "more rows times a vector")


def into_signs(default: str, names: Sequence[str], folder: Path) -> list[Case]:
    """Operations that round by themselves with signs for results."""
    found, tables = [], graphs(folder)
    for name in names:
        x = samples_for(tables[name].shapes[tables[name].inputs[0]], 3, 8)
        chosen = Assignment(default, dict.fromkeys(tables[name].outputs, "sign"))
        program = lower(tables[name], chosen, calibrate(tables[name], x, {}))
        found.append(Case(f"{name} {default}", program, quantize_inputs(program, x)[0]))
    return found


def test_operations_that_round_by_themselves(tmp_path: Path) -> None:
    engine, cases = host_engine(default_cache_dir()), into_signs("fixed16", ROUNDED, tmp_path)
    cases += into_signs("int8", LAYERS, tmp_path)
    for case in cases:
        found, wanted = engine.run(case.program, case.inputs), run_reference(case.program, case.inputs)
        assert set(wanted.outputs.flat) <= {-1, 1}
        np.testing.assert_array_equal(found.outputs, wanted.outputs, case.name)
    assert first_difference(cases, run_natively(cases, tmp_path)) == ""


def test_a_sign_is_that_of_the_exact_number() -> None:
    least = np.array([-1, 0, 1, -(1 << 62), 1 << 62])
    assert requantize(least, 40, Sign(3))[0].tolist() == [-1, 1, 1, -1, 1]
    beyond = Exact(np.array([0.0, 0.0, 0.0]), np.array([-1e-300, 0.0, 1e-300]))
    assert requantize(beyond, 0, Sign())[0].tolist() == [-1, 1, 1]
    codes, saturated = Sign().encode(np.array([np.nan, np.inf, -np.inf]))
    assert codes.tolist() == [1, 1, -1]
    assert saturated.tolist() == [True, False, False]
    assert [fit(size).exponent for size in (1.0, 0.98, 1.5, 6.0, 0.0)] == [0, 0, 1, 3, 0]


@pytest.mark.parametrize("word", [8, 32])
@pytest.mark.parametrize("count", [1, 7, 8, 31, 32, 33, 65])
def test_words_hold_every_sign_and_no_more(word: int, count: int) -> None:
    signs = np.random.default_rng(count).choice([-1, 1], (3, count))
    words = in_words(signs, word)
    assert words.shape == (3, -(-count // word))
    assert np.array_equal(from_words(words, count, word), signs)
    assert sum(int(w).bit_count() for w in words.reshape(-1)) == (signs < 0).sum()


def test_the_two_entries_of_binary_weights_are_opposite() -> None:
    """Even where the mean lies between two integers, which a tie would round to different sizes."""
    for scale in (0.1, 2.5 / 128, 64.5, 0.99999999, 3.0):
        low, high = binary(np.array([scale, -scale], np.float64)).entries
        assert low == -high < 0
    assert binary(np.zeros(3)).entries == (0,)


def layer(terms: int, entries: tuple[int, int], fmt: Format) -> Program:
    """One row of weights from a codebook of two."""
    tensors = {
        "x": Tensor("x", terms, fmt, Role.INPUT),
        "w": Tensor("w", terms, Codebook(entries, 8), Role.CONSTANT),
        "y": Tensor("y", 1, Fixed(16, 0), Role.ARENA),
    }
    params = {"rows": 1, "outputs": 1, "inner": terms, "shift": 0}
    op = Op(Form("dense"), "layer", ("w", "x"), "y", params, accumulator_bits=32)
    return Program("layer", tensors, {"w": np.arange(terms) % 2}, (op,), "x", "y", (terms,), (1,))


@pytest.mark.parametrize(
    ("terms", "entries"), [(MOST_TERMS, (-3, 3)), (MOST_TERMS + 1, (-3, 3)), (64, (-1, 2)), (64, (-2, 1))]
)
def test_bits_are_counted_in_16_bits_and_weights_are_opposite(terms: int, entries: tuple[int, int]) -> None:
    """Of signs, and beside bytes."""
    binary_and_few = terms <= 16383 and entries[0] == -entries[1]
    for core, word in (("avr", 8), ("cortex-m3", 32)):
        counted = arrange(layer(terms, entries, Sign()), core)
        assert counting(counted) == binary_and_few
        assert not binary_and_few or counted.tensors["y.signs"].format.bits == word
        blocks = arrange(layer(terms, entries, Fixed(8, 0)), core).tensors["w"].blocks
        assert (blocks is not None) == binary_and_few
        assert blocks is None or (blocks.word, blocks.axes) == (word, (1, terms))
