"""Calls that time every operation on its own: firmware for `hil profile`; and what decides the code of an operation."""

from __future__ import annotations

from tinyhil.program import Op, Program, Tensor, walk

HEADER = ["", "// The host is told what each operation costs.", "#define HIL_PROFILE"]
EMPTY_PAIRS = 2  # at the start: what reading the clock costs inside of an operation, and between two


def number_of(program: Program, op: Op) -> int:
    """Names the operation on the wire: its place in the program, loop bodies once."""
    return next(number for number, other in enumerate(walk(program.body)) if other is op)


def empty_number(program: Program) -> int:
    """The number of the operation that does nothing."""
    return sum(1 for _ in walk(program.body))


def empty_calls(program: Program) -> list[str]:
    return timed(empty_number(program), []) * EMPTY_PAIRS


def timed(number: int, lines: list[str]) -> list[str]:
    return [f"hil::begin_operation({number});", *lines, f"hil::end_operation({number});"]


def kinds(program: Program) -> dict[str, str]:
    """Tensor -> what its operations' code depends on: format without its scale, elements, and whether it is stored in
    flash."""
    return {name: _kind(tensor) for name, tensor in program.tensors.items()}


def format_name(tensor: Tensor) -> str:
    """The format without its scale."""
    return "table" if tensor.role == "table" else str(tensor.format).split(" * ")[0]


def _kind(tensor: Tensor) -> str:
    return f"{format_name(tensor)}[{tensor.count}]"
