"""Calls that send a tensor to the host after the operation that wrote it: firmware for `hil diff`."""

from __future__ import annotations

from collections.abc import Mapping

from tinyhil.language.program import Op, Program, walk
from tinyhil.ops.index import PLACE_ROW
from tinyhil.ops.movement import PLACE, PLACE_MORE

PARTIAL = (PLACE.form, PLACE_MORE.form, PLACE_ROW.form)  # their output is whole only when all of them have run
HEADER = ["", "// Tensors are sent to the host as they are computed.", "#define HIL_LOG_VALUES"]


def is_logged(program: Program, op: Op) -> bool:
    """Whether the whole output of `op` is there after it: parts that are put together count with the last one."""
    if op.kernel not in PARTIAL:
        return True
    last = [other for other in walk(program.body) if other.output == op.output][-1]
    return op.kernel != PLACE_ROW.form and last is op


def log_call(program: Program, op: Op, names: Mapping[str, str]) -> str:
    """The tensor's place in `program.tensors` names it on the wire."""
    number = list(program.tensors).index(op.output)
    return f"hil::log_values({number}, {names[op.output]}, {program.tensors[op.output].size_bytes});"
