"""Sigmoid and Tanh of 16-bit asymmetric integers in the integers of TensorFlow Lite Micro (cells.py).

The operand is brought to units of 1 / 12288 by a factor of 15 bits, a table of 256 entries in steps of 1/24 gives the
logistic function, lines lie between them; tanh is that of twice the operand. Results are in units of 2**-15, the one
grid for which there is such a kernel.

Error before the last rounding, in units of the result, of the logistic function s: 0.6 by lines (h**2 / 8 * max|s''|)
and entries, which are rounded against each other; 0.45 by the factor, which is cut by less than 2**-14 of it (times
max|x s'|); 0.34 by half a unit of the operand (times max|s'|). Of tanh 1.0, 0.9 and 1.34: `WORST_ERROR`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tinyhil.formats.affine import as_affine
from tinyhil.formats.format import Format
from tinyhil.language.graph import Node
from tinyhil.language.lowering_context import Lowering
from tinyhil.language.program import Op
from tinyhil.ops.cells import logistic, logistic_table, moved, tanh, units_of
from tinyhil.ops.operator import Arithmetic, Arrays, Form, Kernel, Lower

BITS = 16
RESULT = (2.0**-15, 0)  # scale and zero point
LARGEST = 32767 * RESULT[0]  # -LARGEST..LARGEST in 16 bits is that grid
TABLE_NAME = "logistic_table"
WORST_ERROR = {"Sigmoid": 1.4 * 2.0**-15, "Tanh": 3.3 * 2.0**-15}
SCALES = (2.0**-30, 2.0)  # of operands: the factor has 15 bits, and all of them


def in_words(kernel: Kernel, otherwise: Lower) -> Lower:
    """What lowers a function of 16 bits to `kernel` where the result has its grid, `otherwise` else."""

    def lower(node: Node, lowering: Lowering) -> None:
        x, out = (as_affine(lowering.format(name)) for name in (node.inputs[0], node.outputs[0]))
        is_known = x.zero == 0 and SCALES[0] <= x.scale <= SCALES[1]
        if x.bits != BITS or out.bits != BITS or out.grid != RESULT or not is_known:
            otherwise(node, lowering)
            return
        table = lowering.add_table(TABLE_NAME, logistic_table())
        source, made = lowering.operand(node.inputs[0]), lowering.define(node.outputs[0])
        factor, right = units_of(x.scale)
        params = {"count": made.count, "factor": factor, "right": right}
        lowering.emit(node, Op(kernel.form, node.name, (table, source), made.name, params))

    return lower


def _kernel(name: str, of: Callable[[np.ndarray, np.ndarray], np.ndarray], what: str) -> Kernel:
    """`of`: codes by the table's entries and operands in its units."""

    def execute(op: Op, arrays: Arrays, _: Format) -> tuple[np.ndarray, np.ndarray]:
        codes = of(arrays[0].reshape(-1), moved(arrays[1], op.params["factor"], op.params["right"]))
        return codes, np.zeros(codes.shape, bool)

    form, said = Form(name, Arithmetic.AFFINE), f"TensorFlow Lite Micro's integers of 16 bits: {what}"
    params, constant = ("count", "factor", "right"), ("count", "right")
    return Kernel(form, said, execute, params, constant, in_place=True, codes=(0, 1), rounds=())


SIGMOID = _kernel("sigmoid", logistic, "logistic function by table")
TANH = _kernel("tanh", tanh, "hyperbolic tangent by the same table")
KERNELS = (SIGMOID, TANH)
