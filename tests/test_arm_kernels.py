"""Layers of bytes as ARM chips carry them out: their orders of weights, their blocks of sums, and instructions against
their portable forms in C++.

The blocks of either chip are C++ that the desktop compiles, too: there the sanitizers see every access, on an emulated
board the chip's own instructions run.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from boards_under_test import SESSION
from direct_build import direct_build
from kernel_cases import FIRMWARE, SANITIZED, Case, collect, first_difference, run_natively, run_on_board
from onnx_models import compiled, load, node, samples_for
from random_models import extreme_inputs
from test_rows import Chain, mobile, runs, weights

from tinyhil.codegen.kernel_calls import name_of
from tinyhil.harness.build.pipeline import project_sources
from tinyhil.harness.settings.config import load_boards
from tinyhil.language.program import Blocks, Op, Program, walk
from tinyhil.memplan.arena.row_wise import row_wise
from tinyhil.passes.arrange import arrange
from tinyhil.passes.row_pairs import with_row_pairs
from tinyhil.passes.stored import in_blocks
from tinyhil.passes.variants import ARM, LEFT_OUT, M0
from tinyhil.references.reference import run_reference

CORES = {"due": "cortex-m3", "h747": "cortex-m7", "nucleo_g0b1": "cortex-m0plus"}
PORTABLE = {"cortex-m3": (), "cortex-m7": ("-DHIL_DSP_PORTABLE",), "cortex-m0plus": ()}  # on the desktop
FORMATS = ("fixed8", "int8", "fixed8pc")
INSTRUCTIONS = {  # functions that tests/firmware_arm/instructions.cpp tries; the Cortex-M4 has loops of its own
    "due": 39,
    "h747": 49,
    "nucleo_l4r5": 49,
}


def clipped(chain: Chain) -> Chain:
    chain.constants |= {"low": np.float32(0), "high": np.float32(0.5)}
    return chain.add("Clip", "low high")


def convolutions() -> Iterator[tuple[str, Chain]]:
    """Every kind of window that blocks know, and what lies around them."""
    for channels, outputs, side in ((1, 2, 3), (3, 4, 5), (4, 5, 4), (7, 9, 6), (8, 3, 1)):
        yield f"1x1 {channels}-{outputs}", Chain(channels, side).conv(outputs, 1)
        yield f"3x3 {channels}-{outputs}", Chain(channels, side + 2).conv(outputs, 3, pad=1).add("Relu")
    yield "1x1 stride", Chain(5, 7).conv(6, 1, stride=2, bias=0)
    yield "1x1 pad", Chain(4, 3).conv(2, 1, pad=1)
    yield "3x3 stride", Chain(2, 9).conv(4, 3, stride=2, pad=1)
    yield "3x3 no pad", Chain(3, 6).conv(4, 3)
    yield "5x5", clipped(Chain(2, 7).conv(3, 5, pad=2))
    yield "dilated", Chain(3, 9).conv(2, 3, pad=2, dilation=2)
    yield "2x2", Chain(1, 4).conv(2, 2, stride=2)


def depthwise() -> Iterator[tuple[str, Chain]]:
    for side in (1, 2, 3, 4, 5, 6, 11):
        for stride in (1, 2):
            yield f"depthwise {side}/{stride}", Chain(3, side).conv(3, 3, stride=stride, pad=1, group=3)
    yield "depthwise no pad", Chain(2, 8).conv(2, 3, group=2, bias=0).add("Relu")
    yield "depthwise wide pad", Chain(2, 5).conv(2, 3, pad=2, group=2)
    yield "depthwise after", clipped(Chain(1, 6).conv(4, 1).conv(4, 3, stride=2, pad=1, group=4))


def along(
    channels: int, size: int, taps: int, pads: tuple[int, int] = (0, 0), *, is_column: bool, chain: Chain | None = None
) -> Chain:
    """A depthwise layer along one axis, after `chain`: planes of one column, or of one row as 1-D convolutions have."""
    axes = (1, *([] if is_column else [1]), taps, *([1] if is_column else []))
    if chain is None:
        chain = Chain(channels, 1)
        chain.shape = (1, channels, *((size, 1) if is_column else (1, size)))
    name = f"w{len(chain.nodes)}"
    chain.constants |= {name: weights(channels, *axes, seed=taps), f"b{name}": weights(channels, seed=size)}
    around = [pads[0], 0, pads[1], 0] if is_column else [0, pads[0], 0, pads[1]]
    return chain.add("Conv", f"{name} b{name}", pads=around, group=channels)


def lines() -> Iterator[tuple[str, Chain]]:
    """Every rest of four outputs and of four taps, planes longer than a line, and what joins a sum."""
    for is_column, side in ((True, "column"), (False, "row")):
        sizes = ((15, 15, (0, 0)), (6, 5, (0, 0)), (12, 10, (0, 0)), (5, 2, (1, 0)), (70, 3, (1, 1)), (33, 8, (7, 9)))
        for size, taps, pads in sizes:
            yield f"{side} {size}/{taps}", along(3, size, taps, pads, is_column=is_column)
        yield f"{side} after", clipped(along(2, 9, 4, (1, 2), is_column=is_column).conv(4, 1).conv(4, 1))
        chain = along(4, 41, 5, (2, 2), is_column=is_column).add("Relu")
        first = chain.last
        chain = along(4, 41, 7, (3, 3), is_column=is_column, chain=chain)
        yield f"{side} joined", chain.add("Add", first).add("Relu")


def temporal() -> Chain:
    """A column of time under pointwise layers and depthwise ones, as keyword spotting has it."""
    chain = along(4, 40, 3, is_column=True).conv(8, 1).add("Relu")
    chain = along(8, 38, 5, (4, 0), is_column=True, chain=chain).conv(8, 1).add("Relu")
    return along(8, 38, 10, is_column=True, chain=chain).conv(4, 1)


def layouts() -> Iterator[tuple[str, Chain]]:
    """Convolutions after convolutions, between which channels lie innermost on a Cortex-M7; samples that come so."""
    chain = Chain(4, 8).conv(8, 3, pad=1).add("Relu").conv(6, 1).add("Relu")
    yield "layouts", chain.conv(4, 3, stride=2, pad=1).conv(3, 3).conv(2, 1)
    yield "layouts wide", Chain(4, 9).conv(8, 3, pad=2, dilation=2).conv(5, 5, pad=2).conv(3, 2).conv(2, 3, pad=1)
    yield "layouts sample", clipped(sampled(3, 7).conv(4, 3, stride=2, pad=1)).conv(4, 1)
    yield "layouts pointwise sample", sampled(8, 4).conv(8, 1).add("Relu").conv(2, 3, pad=1)
    for pool in (0, 1):
        chain = Chain(4, 5).conv(8, 3, pad=1).add("Relu")
        first = chain.last
        chain.conv(8, 3, pad=1).add("Add", first).add("Relu").conv(8, 1)
        yield f"layouts residual {pool}", chain.add("GlobalAveragePool") if pool else chain
        yield f"layouts depthwise {pool}", branches(1 + pool)


def branches(stride: int) -> Chain:
    """A depthwise and a pointwise layer beside another one: what both branches read stays, and is not written over."""
    chain = Chain(4, 7).conv(8, 1).add("Relu")
    first = chain.last
    chain.conv(8, 3, stride=stride, pad=1, group=8).add("Relu").conv(8, 1)
    second, chain.last = chain.last, first
    return chain.conv(8, 1, stride=stride).add("Add", second)


def sampled(channels: int, side: int) -> Chain:
    """A network whose samples have their channels innermost."""
    chain = Chain(channels, side)
    chain.shape = (1, side, side, channels)
    return chain.add("Transpose", perm=[0, 3, 1, 2])


def dense(inner: int, outputs: int, rows: int = 1, after: str = "") -> Chain:
    """Matrix products: whole blocks of outputs and rests, whole words of elements and rests, several rows."""
    chain = Chain(1, 1)
    chain.shape = (1, rows, inner)
    chain.constants |= {"w": weights(inner, outputs, seed=inner), "b": weights(outputs, seed=outputs)}
    chain.add("MatMul", "w").add("Add", "b")
    return clipped(chain) if after == "Clip" else chain.add(after) if after else chain


def matrices() -> Iterator[tuple[str, Chain]]:
    sizes = (
        (1, 2),
        (3, 5),
        (4, 4),
        (7, 9, 2),
        (9, 8),
        (16, 13, 3),
        (33, 12),
        (12, 3),
        (8, 15),
        (5, 20),
        (64, 32),
        (2, 7),
    )
    for number, size in enumerate(sizes):
        after = ("", "Relu", "Clip")[number % 3]
        yield f"dense {size} {after}", dense(*size, after=after)
    yield from ((f"largest {inner}", largest(inner)) for inner in (501, 510, 600))


def largest(inner: int, outputs: int = 6) -> Chain:
    """A matrix product whose weights are the largest codes of either sign."""
    chain = dense(inner, outputs)
    chain.constants["w"] = np.where(weights(inner, outputs) < 0, -127, 127) / 128
    return chain


def residual() -> Chain:
    """A sum that joins a convolution, pointwise and depthwise."""
    chain = Chain(4, 5).conv(4, 3, pad=1).add("Relu")
    first = chain.last
    chain.conv(4, 3, pad=1).add("Add", first)
    second = chain.last
    return chain.conv(4, 3, pad=1, group=4).add("Add", second).add("Relu")


def program_of(chain: Chain, folder: Path, default: str, lowest: float = -np.inf) -> Program:
    loaded = load(chain.model(), folder)
    return compiled(loaded, samples_for(loaded.shapes["x"]).clip(lowest), default)


def often_zero(program: Program, share: float = 0.5) -> Program:
    """As if calibration had seen that share of all values to be 0."""
    return replace(program, tensors={name: replace(tensor, zeros=share) for name, tensor in program.tensors.items()})


def faster(program: Program, core: str) -> Program:
    """By two rows in one factor wherever a Cortex-M3 can, whether it pays or not."""
    return with_row_pairs(program, core, worth=np.inf, terms=1)


def long_rows() -> Iterator[tuple[str, Chain]]:
    """Convolutions for blocks of four rows, with every rest of their loop."""
    for channels in (64, 66, 69, 75):
        yield f"long rows {channels}", Chain(channels, 3).conv(8, 1).add("Relu")


def cases_for(core: str, folder: Path) -> list[Case]:
    """Each model as `core` has it, in the formats in turn; on the other core in another."""
    found = []
    for number, (name, chain) in enumerate(
        (*convolutions(), *depthwise(), *layouts(), *matrices(), ("residual", residual()), *long_rows(), *lines())
    ):
        default = FORMATS[(number + (*ARM, *M0).index(core)) % len(FORMATS)]
        program = program_of(chain, folder, default)
        if number % 2:  # by kernels that leave out the products of zeros, where the core has some
            program = often_zero(program)
        arranged, inputs = arrange(program, core), extreme_inputs(program, number)
        assert arranged is not program or core == "cortex-m0plus", name  # it has no loops along one axis
        arranged = faster(arranged, core) if number % 3 else arranged
        if number % 2:
            inputs[::2] *= np.random.default_rng(number).integers(0, 2, inputs[::2].shape)
        found.append(Case(f"{name} {default}", arranged, inputs))
    found += [*row_wise_cases(core, folder), *unsigned_cases(core, folder), *faster_cases(core, folder)]
    return [*found, *(above_least_cases(core, folder) if core == "cortex-m3" else ())]


def faster_cases(core: str, folder: Path) -> Iterator[Case]:
    """Two rows in one factor on a Cortex-M3, blocks and lists: weights and elements of either end, rows longer than a
    list's part, the last pixel alone, rows that fill no block, sums that begin with another one for each pixel."""
    chains = (Chain(31, 5).conv(9, 3, pad=1).conv(12, 3, stride=2), Chain(8, 3).conv(10, 1), residual_of_eight())
    for (number, chain), default, lowest in itertools.product(enumerate(chains), ("fixed8", "int8"), (-np.inf, 0)):
        program = program_of(chain, folder, default, lowest)
        codes = {
            op.inputs[0]: np.resize([-128, 127, -127, 0, -128], program.constants[op.inputs[0]].size)
            for op in walk(program.body)
            if default == "fixed8" and op.inputs[0] in program.constants
        }
        shaped = {name: made.reshape(program.constants[name].shape) for name, made in codes.items()}
        program = replace(program, constants=program.constants | shaped)
        arranged = arrange(often_zero(program, 0.9) if lowest == 0 else program, core)
        inputs = extreme_inputs(program, number)
        inputs[1] = np.abs(inputs[1].clip(-127))
        yield Case(f"{default} {number} {lowest}", faster(arranged, core), inputs)


def residual_of_eight() -> Chain:
    chain = Chain(8, 5).conv(8, 3, pad=1).add("Relu")
    first = chain.last
    return chain.conv(8, 3, pad=1).add("Add", first).add("Relu")


def unsigned_cases(core: str, folder: Path) -> Iterator[Case]:
    """Operands without a sign, which need all of a byte."""
    every = [*convolutions(), *depthwise(), *layouts(), *matrices(), ("residual", residual()), *long_rows()]
    for number, (name, chain) in enumerate(every[::4]):
        program = program_of(behind_relu(chain), folder, "fixed8u")
        program = arrange(often_zero(program) if number % 2 else program, core)
        yield Case(f"{name} unsigned", program, extreme_inputs(program, number))


def behind_relu(chain: Chain) -> Chain:
    """`chain` of what a Relu leaves of its input."""
    for made in chain.nodes:
        made.input[:] = ["positive" if name == "x" else name for name in made.input]
    chain.nodes.insert(0, node("Relu", "x", "positive"))
    return chain


def above_least_cases(core: str, folder: Path) -> Iterator[Case]:
    """Asymmetric integers of numbers that are never negative: the code of 0 is the least."""
    for number, (name, chain) in enumerate((*[*convolutions()][1::3], *[*matrices()][2::3])):
        program = often_zero(program_of(chain, folder, "int8", 0))
        inputs = extreme_inputs(program, number)
        inputs[3:5][np.random.default_rng(number).random(inputs[3:5].shape) < 0.5] = -128
        arranged = arrange(program, core)
        yield Case(f"{name} least", arranged, inputs)
        faster_one = faster(often_zero(arranged, 0.9), core)
        if faster_one is not arranged:
            yield Case(f"{name} least, in lists", faster_one, inputs)


def row_wise_cases(core: str, folder: Path) -> Iterator[Case]:
    """Chains of depthwise and pointwise layers, and of other convolutions, through line buffers."""
    inner = sampled(4, 11).conv(8, 3, pad=1).add("Relu").conv(8, 3, stride=2, pad=1).add("Relu").conv(4, 1).conv(2, 3)
    for default, network in itertools.product(("fixed8", "int8"), (mobile(), inner, temporal())):
        program = program_of(network, folder, default)
        program = arrange(often_zero(program) if default == "int8" else program, core)
        program = faster(program, core) if default == "int8" else program
        (chain,) = runs(program)
        by_rows = row_wise(program, chain)
        assert by_rows is not None
        yield Case(f"rows {default}", by_rows, extreme_inputs(program, 7))


@pytest.mark.parametrize("code", LEFT_OUT)
def test_the_cortex_m3_has_kernels_for_zeros(code: int, tmp_path: Path) -> None:
    cases = cases_for("cortex-m3", tmp_path)
    blocks = [(case.name, t.blocks) for case in cases for t in case.program.tensors.values() if t.blocks]
    sparse = [(name, one) for name, one in blocks if one.left_out == code]
    assert sum(name.startswith("dense") for name, _ in sparse) > 2
    assert sum("x" in name for name, _ in sparse) > 2
    assert any(one.rest == 2 and one.axes[0] > one.together for _, one in sparse)  # rows with a test and without
    assert code == 0 or any(name.startswith("rows") for name, _ in sparse)


def test_the_cortex_m3_has_two_rows_in_one_factor(tmp_path: Path) -> None:
    cases = cases_for("cortex-m3", tmp_path)
    found = [t.blocks for case in cases for t in case.program.tensors.values() if t.blocks and t.blocks.lanes]
    assert {(one.together, one.left_out) for one in found} == {(4, None), (8, 0), (8, -128)}
    rows = [case.program for case in cases if case.name == "rows int8"]
    assert any(t.blocks and t.blocks.lanes for program in rows for t in program.tensors.values())


def check_natively(cases: list[Case], core: str, folder: Path) -> None:
    assert first_difference(cases, run_natively(cases, folder, *SANITIZED, *PORTABLE[core])) == ""


def check_on_board(cases: list[Case], board: str, folder: Path) -> None:
    half = cases[::2]  # all of them natively
    assert first_difference(half, run_on_board(half, load_boards().board(board), folder / "cache")) == ""


@pytest.mark.parametrize("core", PORTABLE)
def test_natively_with_sanitizers(core: str, tmp_path: Path) -> None:
    check_natively(cases_for(core, tmp_path), core, tmp_path)


@pytest.mark.parametrize("board", CORES)
def test_on_boards(board: str, tmp_path: Path) -> None:
    check_on_board(cases_for(CORES[board], tmp_path), board, tmp_path)


def within_bytes(program: Program) -> Program:
    """`program` whose activations cut off what is above a byte, so that nothing saturates."""
    body = [
        replace(op, params=op.params | {"high": 127}) if isinstance(op, Op) and op.params.get("high", 0) > 127 else op
        for op in program.body
    ]
    return replace(program, body=tuple(body))


def test_asymmetric_integers_on_a_cortex_m4(tmp_path: Path) -> None:
    """Its blocks with the rounding behind them, and depthwise layers by columns; what else it runs are the M7's."""
    cases = []
    for number, (name, chain) in enumerate((*convolutions(), *depthwise(), *layouts(), *long_rows(), *lines())):
        program = arrange(within_bytes(program_of(chain, tmp_path, "int8")), "cortex-m4")
        cases.append(Case(name, program, extreme_inputs(program, number)))
    blocks = [t.blocks for case in cases for t in case.program.tensors.values() if t.blocks and t.blocks.paired]
    assert {one.together for one in blocks} == {2, 4}
    assert first_difference(cases, run_on_board(cases, load_boards().board("nucleo_l4r5"), tmp_path / "cache")) == ""


@pytest.mark.parametrize("board", INSTRUCTIONS)
def test_instructions_compute_what_their_portable_forms_do(board: str, tmp_path: Path) -> None:
    spec = load_boards().board(board)
    sources = {name: text for name, text in project_sources([spec]).items() if name not in SESSION}
    sources |= {
        "model/model.hpp": "#pragma once\nnamespace model { constexpr bool streamed = false; }\n",
        "model/cases.hpp": (FIRMWARE / "cases.hpp").read_text(),
        "model/model.cpp": (FIRMWARE.parent / "firmware_arm" / "instructions.cpp").read_text(),
        "firmware/main.cpp": (FIRMWARE / "board.cpp").read_text(),
    }
    image = direct_build(sources, spec, tmp_path)
    assert np.frombuffer(collect(image, spec, 4 * INSTRUCTIONS[board]), "<u4").tolist() == [0] * INSTRUCTIONS[board]


@pytest.mark.parametrize(
    ("blocks", "rows"),
    [
        (Blocks(2, 4, 4, (5, 3, 3, 3), (2, 1, 3)), 5),
        (Blocks(4, 1, 4, (6, 7, 1, 1), (2, 1, 3)), 6),
        (Blocks(4, 1, 4, (4, 2, 2, 3), (2, 1, 3)), 4),
        (Blocks(1, 9, 1, (3, 9), (1,)), 3),
        (Blocks(4, 4, 4, (10, 9), (1,), 4), 10),
        (Blocks(2, 4, 4, (5, 3, 3, 3), (2, 1, 3), paired=True), 5),
        (Blocks(4, 4, 4, (10, 9), (1,), 4, paired=True), 10),
        (Blocks(4, 4, 4, (8, 3, 3, 3), (2, 1, 3), paired=True), 8),
        (Blocks(8, 1, 1, (21, 9), (1,), 4), 21),
        (Blocks(8, 1, 1, (6, 3), (1,), 4), 6),
        (Blocks(8, 1, 1, (21, 9), (1,), 2), 21),
    ],
)
def test_orders_hold_every_weight_in_its_place(blocks: Blocks, rows: int) -> None:
    shape = blocks.axes
    codes = np.arange(1, 1 + np.prod(shape)) % 127 * (-1) ** (np.arange(np.prod(shape)) // 3)
    stored = unpaired(in_blocks(codes, blocks), blocks) if blocks.paired else in_blocks(codes, blocks)
    whole = rows - rows % blocks.together if blocks.rest else rows
    groups = [(first, blocks.together) for first in range(0, whole, blocks.together)]
    groups += [(first, blocks.rest) for first in range(whole, rows, blocks.rest or 1)]
    by_row: list[list[int]] = [[] for _ in range(sum(groups[-1]))]
    inner = -(-codes.size // rows // blocks.multiple) * blocks.multiple
    at = 0
    for first, together in groups:
        for _ in range(0, inner, blocks.step):
            for row in range(first, first + together):
                by_row[row] += stored[at : at + blocks.step].tolist()
                at += blocks.step
    assert at == stored.size
    expected = codes.reshape(shape) if len(shape) == 2 else codes.reshape(shape).transpose(0, 2, 1, 3)
    for row, elements in enumerate(by_row):
        wanted = expected[row].reshape(-1).tolist() if row < rows else []
        assert elements == wanted + [0] * (inner - len(wanted))


def unpaired(stored: np.ndarray, blocks: Blocks) -> np.ndarray:
    """Rows and elements of paired blocks in turn, as they lie where they are not paired."""
    both = stored.astype(np.int8).view("<i2").astype(np.int64)
    row = both.astype(np.int8).astype(np.int64)
    by_row = np.stack([row, (both - row) >> 8], axis=1).reshape(-1, 4, 2)[:, [0, 2, 1, 3]]
    return by_row.transpose(0, 2, 1).reshape(-1)


def dense_program(folder: Path, inner: int, smallest: int = -127, outputs: int = 6) -> Program:
    program = program_of(largest(inner, outputs), folder, "fixed8")
    op = next(walk(program.body))
    codes = program.constants[op.inputs[0]].copy()
    codes.flat[0], codes.flat[inner] = -127, smallest  # of a row and the one that is paired with it
    return replace(program, constants={**program.constants, op.inputs[0]: codes})


@pytest.mark.parametrize(
    ("core", "inner", "smallest", "paired"),
    [
        ("cortex-m7", 510, -127, True),
        ("cortex-m7", 600, -127, False),  # sums of 25 bits
        ("cortex-m7", 510, -128, False),  # -128 * 256 - 1 has more than 16 bits
        ("cortex-m3", 510, -127, False),
    ],
)
def test_rows_are_paired_where_no_sum_and_no_weight_is_too_large(
    core: str, inner: int, smallest: int, paired: bool, tmp_path: Path
) -> None:
    arranged = arrange(dense_program(tmp_path, inner, smallest), core)
    op = next(walk(arranged.body))
    assert op.accumulator_bits == (24 if inner == 510 else 25)
    blocks = arranged.tensors[op.inputs[0]].blocks
    assert blocks is not None
    assert blocks.paired == paired


def test_nothing_changes_where_a_core_has_no_blocks(tmp_path: Path) -> None:
    chain = Chain(3, 6).conv(4, 3)
    program = program_of(chain, tmp_path, "fixed8")
    assert arrange(program, "host") is program
    wide = program_of(chain, tmp_path, "float32")
    assert all(arrange(wide, core) is wide for core in (*ARM, *M0, "avr"))


@pytest.mark.parametrize(("bias", "paired"), [(1 << 20, True), (-(1 << 29), False)])
def test_rows_whose_sums_begin_with_large_biases_are_not_paired(bias: int, paired: bool, tmp_path: Path) -> None:
    program = program_of(dense(8, 4), tmp_path, "int8")
    op = next(walk(program.body))
    biases = program.constants[op.inputs[2]].copy()
    biases[1] = bias
    program = replace(program, constants={**program.constants, op.inputs[2]: biases})
    arranged = arrange(program, "cortex-m7")
    op = next(walk(arranged.body))
    blocks = arranged.tensors[op.inputs[0]].blocks
    assert name_of(op.kernel) == "dense_rescaled"
    assert blocks is not None
    assert blocks.paired == paired


@pytest.mark.parametrize("core", [*ARM, *M0])
def test_flash_grows_by_padding_alone(core: str, tmp_path: Path) -> None:
    """Rows up to a multiple of four elements, outputs up to a multiple of the block's rows."""
    program = program_of(mobile(), tmp_path, "fixed8")
    arranged = arrange(program, core)
    for op in walk(arranged.body):
        tensor = arranged.tensors[op.inputs[0]]
        if tensor.blocks is None:
            continue
        outputs = op.params["outputs"]
        inner = tensor.count // outputs
        assert tensor.blocks.rest == 0
        padded = -(-outputs // tensor.blocks.together) * tensor.blocks.together * -(-inner // 4) * 4
        assert in_blocks(arranged.constants[op.inputs[0]], tensor.blocks).size == (
            padded if tensor.blocks.together > 1 or tensor.blocks.order == (2, 1, 3) else tensor.count
        )
    assert replace(arranged, tensors=program.tensors) == program  # all else is the same


def test_the_reference_computes_the_same(tmp_path: Path) -> None:
    program = program_of(mobile(), tmp_path, "fixed8")
    inputs = extreme_inputs(program, 3)
    wanted = run_reference(program, inputs)
    for core in (*ARM, *M0):
        found = run_reference(arrange(program, core), inputs)
        assert np.array_equal(found.outputs, wanted.outputs)
        assert np.array_equal(found.saturations, wanted.saturations)
