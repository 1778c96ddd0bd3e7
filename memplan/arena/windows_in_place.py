"""Windows read in place: a convolution multiplies where its operand lies, without the patch that it gathers otherwise.

In small networks the patches, on ARM those of two pixels as halfwords, are a good part of the arena. Without them every
window is read element by element (firmware/kernels/common/windows_in_place.hpp), weights lie in the order of the
kernel, and bias, multiplier and shift of asymmetric layers are three constants again. The same integers, later.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np

from tinyhil.formats.format import INTEGER
from tinyhil.language.form import Arithmetic, Weights
from tinyhil.language.program import Loop, Op, Program, Role, Tensor, walk
from tinyhil.names import free_name
from tinyhil.ops.affine import BYTE, WORD
from tinyhil.ops.conv import CONV
from tinyhil.ops.rescaled import three_constants

ARITHMETICS = frozenset({Arithmetic.EXACT, Arithmetic.CHANNELS, Arithmetic.AFFINE, Arithmetic.RESCALED})


def may_read_in_place(program: Program, op: Op) -> bool:
    """Whether a convolution has a patch that it can do without: integers in planes, weights that are elements."""
    if op.kernel.base != CONV.form.base or not op.scratch or op.crossbar is not None or op.domain != INTEGER:
        return False
    if op.kernel.arithmetic not in ARITHMETICS or op.kernel.weights is not Weights.PLAIN:
        return False
    weights, x = (program.tensors[name] for name in op.inputs[int(op.kernel.rows) :][:2])
    stored = weights.format.bits % 8 == 0 and (weights.blocks is None or weights.blocks.raised is None)
    is_depthwise = op.params["groups"] == op.params["outputs"] > 1
    return (
        stored and weights.role == Role.CONSTANT and not (x.innermost or is_depthwise) and op.params["dilation_x"] == 1
    )


def weights_of(op: Op) -> str:
    """The weights of a convolution, by which it is known in whatever it was cut into."""
    return op.inputs[int(op.kernel.rows)]


def read_in_place(program: Program, layers: Collection[str]) -> Program:
    """The program whose convolutions with these weights read their windows in place."""
    if not layers:
        return program
    made = _Rewriting(program)
    body = tuple(made.item(item, layers) for item in program.body)
    used = {name for op in walk(body) for name in op.tensors}
    tensors = {name: tensor for name, tensor in made.tensors.items() if name in used or name not in made.left}
    constants = {name: array for name, array in made.constants.items() if name in tensors}
    return replace(program, tensors=tensors, constants=constants, body=body)


class _Rewriting:
    """Tensors and constants as operations change. `left`: those that nobody may need any more."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self.tensors: dict[str, Tensor] = dict(program.tensors)
        self.constants: dict[str, np.ndarray] = dict(program.constants)
        self.left: set[str] = set()
        self._known: dict[str, tuple[str, ...]] = {}  # of records, the three constants

    def item(self, item: Op | Loop, layers: Collection[str]) -> Op | Loop:
        if isinstance(item, Loop):
            return replace(item, body=tuple(self.item(inner, layers) for inner in item.body))
        if not may_read_in_place(self._program, item) or weights_of(item) not in layers:
            return item
        at, weights = int(item.kernel.rows), weights_of(item)
        self.tensors[weights] = replace(self.tensors[weights], blocks=None)
        self.left.add(item.scratch)
        item = replace(item, scratch="")
        if item.kernel.arithmetic is Arithmetic.RESCALED:
            return self._with_three_constants(item, at + 2)
        if item.kernel.arithmetic is Arithmetic.AFFINE:  # whose bias some chips store with what blocks add
            bias = item.inputs[at + 2]
            self.tensors[bias] = replace(self.tensors[bias], stored=None)
        return item

    def _with_three_constants(self, op: Op, at: int) -> Op:
        """Bias, multipliers and shifts in the place of the records at `at`."""
        records = op.inputs[at]
        if records not in self._known:
            arrays = three_constants(self.constants[records], op.params["doubled"])
            names = tuple(free_name(f"{records}.{what}", self.tensors) for what in ("bias", "multipliers", "shifts"))
            for name, array, fmt in zip(names, arrays, (WORD, WORD, BYTE), strict=True):
                self.tensors[name] = Tensor(name, array.size, fmt, Role.CONSTANT)
                self.constants[name] = array
            self._known[records] = names
            self.left.add(records)
        params = {name: value for name, value in op.params.items() if name != "doubled"}
        kernel = replace(op.kernel, arithmetic=Arithmetic.AFFINE)
        inputs = (*op.inputs[:at], *self._known[records], *op.inputs[at + 1 :])
        return replace(op, kernel=kernel, inputs=inputs, params=params)
