"""Layers whose operand is signs and whose weights are -s and s -> layers that count differing bits.

On every core: there is none on which multiplying unpacked weights would be cheaper (docs/numerics.md). A dense layer
needs the bits of one row of its operand, a convolution those of the lines that a window covers.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tinyhil.formats.fixed import Fixed
from tinyhil.formats.format import INTEGER
from tinyhil.language.form import Weights
from tinyhil.language.program import Op, Program, Role, Tensor, walk
from tinyhil.ops import conv, linear
from tinyhil.ops.signs import in_words
from tinyhil.ops.window import window_of
from tinyhil.passes.exchange import exchanged

LAYERS = (linear.DENSE.form, conv.CONV.form)  # with a bias, an activation, or without
MOST_TERMS = (1 << 14) - 1  # twice as many fit the 16 bits in which they are counted


def with_signs(program: Program, word: int) -> Program:
    """`program` with such layers; words of `word` bits. The same object if there are none."""
    found = {
        (op.kernel, op.output): made for op in walk(program.body) if (made := _made(program, op, word)) is not None
    }
    if not found:
        return program
    tensors = dict[str, Tensor]()
    for op, words, scratch in found.values():
        stored = Tensor(op.inputs[0], words.size, Fixed(word, 0), Role.TABLE)
        tensors |= {stored.name: stored, op.scratch: Tensor(op.scratch, scratch, Fixed(word, 0), Role.ARENA)}
    constants = {op.inputs[0]: words.reshape(-1) for op, words, _ in found.values()}
    return exchanged(program, {place: op for place, (op, *_) in found.items()}, tensors, constants)


def _made(program: Program, op: Op, word: int) -> tuple[Op, np.ndarray, int] | None:
    """The operation, its weights as words and the words of its scratch; None if it stays as it is."""
    if op.kernel.bare not in LAYERS or op.domain != INTEGER or op.crossbar is not None:
        return None
    weights, x = (program.tensors[name] for name in op.inputs[:2])
    if not x.format.is_sign or not is_binary(weights):
        return None
    p = op.params
    is_dense = op.kernel.bare == linear.DENSE.form
    inner = p["inner"] if is_dense else p["channels"] * p["kernel_y"] * p["kernel_x"]
    if inner > MOST_TERMS or p.get("groups", 1) != 1:
        return None
    signs: np.ndarray = 2 * program.constants[weights.name].reshape(p["outputs"], -1) - 1
    if is_dense:
        scratch = -(-inner // word)
    else:
        w = window_of(p)
        signs = signs.reshape(p["outputs"], w.channels, w.kernel_y, w.kernel_x).transpose(0, 2, 3, 1)
        scratch = w.kernel_y * w.width * -(-w.channels // word)
    made = replace(
        op,
        kernel=replace(op.kernel, weights=Weights.SIGNS),
        inputs=(f"{op.output}.signs", *op.inputs[1:]),
        params={**p, "entry": int(weights.format.largest), "word": word},
        scratch=f"{op.output}.bits",
    )
    return made, in_words(signs, word), scratch


def is_binary(weights: Tensor) -> bool:
    """Whether a constant is -s and s."""
    entries = weights.format.entries_in_flash
    if weights.role != Role.CONSTANT or entries is None or len(entries[1]) != 2:
        return False
    return entries[1][0] == -entries[1][1]
