"""Layers of bytes on ARM chips beside other kinds of formats, and in strips: what blocks and layouts know, and what is
left to the kernels that every core has."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from kernel_cases import UNDEFINED, Case, first_difference, run_natively
from onnx_models import compiled, load, samples_for
from test_arm_kernels import PORTABLE, dense, sampled
from test_rows import Chain, runs

from tinyhil.formats.format import INTEGER
from tinyhil.language.program import Program, walk
from tinyhil.memplan import plan
from tinyhil.memplan.arena.row_wise import row_wise
from tinyhil.memplan.arena.tensors import problem_of
from tinyhil.passes.arrange import arrange
from tinyhil.passes.layout import INNERMOST_ORDER, convolution_of, with_layouts
from tinyhil.passes.variants import ARM
from tinyhil.references.reference import quantize_inputs

OTHERS = ("int8", "bfloat16", "posit8es0", "float32", "fixed32")  # kinds of results that blocks do not round to


def wide_depthwise(kernel: int) -> Chain:
    return Chain(4, 6).conv(4, kernel, group=4).conv(2, 1)


def signs() -> Chain:
    """A difference, a product and a sum of which a sign is kept: no rest to clip, and no code of 0."""
    chain = Chain(4, 4).add("Tanh").add("Sigmoid")
    for op in ("Sub", "Mul", "Add"):
        chain.add(op, "v0")
    return chain.add("Neg")


def mixtures() -> Iterator[tuple[str, Chain, str, dict[str, str]]]:
    """Name, network, format of all values but those that are named."""
    for fmt in OTHERS:
        yield (
            f"convolution to {fmt}",
            Chain(4, 5).conv(4, 3, pad=1).add("Relu").add("Neg"),
            "fixed8",
            {"v0": fmt, "v1": fmt},
        )
        yield f"matrix to {fmt}", dense(8, 8).add("Abs"), "fixed8", {"v1": fmt}
    for weights in ("fixed8pc", "fixed16pc"):
        mix = {"w0": weights, "v0": "int8", "w1": weights, "v1": "int16x8"}
        yield f"{weights} to int8", Chain(4, 5).conv(4, 3, pad=1).conv(4, 1).add("Neg"), "fixed8", mix
        yield f"{weights} to int8, matrix", dense(8, 8).add("Abs"), "fixed8", {"w": weights, "v1": "int8"}
    for fmt in ("fixed5", "fixed8", "fixed16"):
        yield f"windows of int8, {fmt} weights", Chain(4, 5).conv(4, 3, pad=1).conv(8, 3, pad=1), fmt, {"v0": "int8"}
    yield "halves to int8", Chain(4, 5).conv(4, 3, pad=1).add("Neg"), "fixed16", {"v0": "int8"}
    yield "bias of float", Chain(4, 5).conv(4, 3, pad=1).conv(4, 1), "fixed8", {"bw0": "bfloat16"}
    yield "bias of float, matrix", dense(8, 8).add("Abs"), "fixed8", {"b": "float32"}
    for fmt in ("sign", "fixed5"):
        chain = Chain(4, 8).conv(8, 3, pad=1).conv(8, 3, pad=1).conv(4, 1)
        yield f"{fmt} between convolutions", chain, "fixed8", {"v0": fmt}
    yield "sums of signs", signs(), "fixed8", {f"v{n}": "sign" for n in range(2, 5)}
    yield from ((f"depthwise {kernel}", wide_depthwise(kernel), "fixed16", {}) for kernel in (1, 2, 4, 5))


def lowered(chain: Chain, folder: Path, default: str, mix: dict[str, str]) -> tuple[Program, np.ndarray]:
    loaded = load(chain.model(), folder)
    x = samples_for(loaded.shapes["x"], 6)
    program = compiled(loaded, x, default, **mix)
    return program, quantize_inputs(program, 3 * x)[0]


def in_strips(program: Program) -> Program:
    (chain,) = runs(program)
    found = row_wise(program, chain, 3)
    assert found is not None
    return found


def striped() -> Iterator[Chain]:
    """Convolutions whose weights are read once for every strip, the sample's channels innermost or not."""
    yield sampled(4, 11).conv(8, 3, pad=1).conv(8, 3, pad=1).conv(4, 3, pad=1)
    yield Chain(4, 11).conv(8, 3, pad=1).conv(8, 3, pad=1).conv(4, 3, stride=2)


def cases_for(core: str, folder: Path) -> list[Case]:
    found = []
    for name, chain, default, mix in mixtures():
        program, inputs = lowered(chain, folder, default, mix)
        found.append(Case(name, arrange(program, core), inputs))
    for chain in striped():
        program, inputs = lowered(chain, folder, "fixed8", {})
        found.append(Case("strips", in_strips(arrange(program, core)), inputs))
    return found


@pytest.mark.parametrize("core", PORTABLE)
def test_natively(core: str, tmp_path: Path) -> None:
    cases = cases_for(core, tmp_path)
    assert first_difference(cases, run_natively(cases, tmp_path, *UNDEFINED, *PORTABLE[core])) == ""


@pytest.mark.parametrize("core", [*ARM, "avr"])
def test_blocks_are_of_integer_sums_that_they_can_round(core: str, tmp_path: Path) -> None:
    in_blocks = 0
    for name, chain, default, mix in mixtures():
        program = arrange(lowered(chain, tmp_path, default, mix)[0], core)
        for op in walk(program.body):
            if any(program.tensors[tensor].blocks for tensor in op.inputs):
                in_blocks += 1
                out = program.tensors[op.output].format
                assert op.domain == INTEGER, name
                assert out.is_binary_point or "zero" in op.params, name
    assert in_blocks


def test_strips_read_their_weights_in_one_order(tmp_path: Path) -> None:
    for chain in striped():
        program = in_strips(arrange(lowered(chain, tmp_path, "fixed8", {})[0], "cortex-m7"))
        laid = with_layouts(program, plan(problem_of(program)))
        convolutions = [found for op in walk(laid.body) if (found := convolution_of(laid, op)) is not None]
        assert len(convolutions) == 9
        for one in convolutions:
            blocks = laid.tensors[one.weights].blocks
            assert blocks is not None
            assert (blocks.order == INNERMOST_ORDER) == bool(laid.tensors[one.x].innermost)
