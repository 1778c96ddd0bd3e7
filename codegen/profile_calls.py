"""Calls that time every operation on its own: firmware for `hil profile`; and what decides the code of an operation."""

from __future__ import annotations

from tinyhil.language.program import Op, Program, Role, Tensor, walk
from tinyhil.passes.chains import Chain
from tinyhil.passes.stored import bytes_in_flash

HEADER = ["", "// The host is told what each operation costs.", "#define HIL_PROFILE"]
EMPTY_PAIRS = 2  # at the start: what reading the clock costs inside of an operation, and between two


def number_of(program: Program, item: Op | Chain) -> int:
    """Names the operation on the wire: its place in the program, loop bodies once; a chain has that of its first."""
    first = item.ops[0] if isinstance(item, Chain) else item
    return next(number for number, other in enumerate(walk(program.body)) if other is first)


def empty_number(program: Program) -> int:
    """The number of the operation that does nothing."""
    return sum(1 for _ in walk(program.body))


def empty_calls(program: Program) -> list[str]:
    """Pairs of marks with nothing between them: what reading the clock costs."""
    return timed(empty_number(program), []) * EMPTY_PAIRS


def timed(number: int, lines: list[str]) -> list[str]:
    """`lines` between the marks of operation `number`."""
    return [f"hil::begin_operation({number});", *lines, f"hil::end_operation({number});"]


def kinds(program: Program) -> dict[str, str]:
    """Tensor -> what its operations' code depends on: format without its scale, elements, and whether it is stored in
    flash."""
    return {name: _kind(tensor) for name, tensor in program.tensors.items()}


def format_name(tensor: Tensor) -> str:
    """The format without its scale."""
    return "table" if tensor.role == Role.TABLE else str(tensor.format).split(" * ")[0]


def constant_bytes(program: Program) -> int:
    """Bytes of the arrays that weights and tables become in flash, those that no operation reads not counted."""
    used = {name for op in walk(program.body) for name in op.inputs} | {program.output}
    return sum(bytes_in_flash(program.tensors[name]) for name in program.constants if name in used)


def _kind(tensor: Tensor) -> str:
    return f"{format_name(tensor)}[{tensor.count}]"
