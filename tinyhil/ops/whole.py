"""Operators of whole numbers: results are integers of 8, 16 or 32 bits that wrap, and nothing is ever scaled.

What comes before a network computes so: the sound of a wake word (signal.py, fourier.py). Such an operator states the
format of its result (`whole`: int8, int16, int32 or uint32), computes with codes as they are, and has no other float
model than itself. One `Routine` gives operator and kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tinyhil.formats.affine import Affine
from tinyhil.formats.fixed import Fixed
from tinyhil.formats.format import Format
from tinyhil.formats.unsigned import Unsigned
from tinyhil.language.graph import Node, Shape, element_count
from tinyhil.language.lowering_context import Lowering
from tinyhil.language.program import Op
from tinyhil.ops.operator import Arrays, Form, Kernel, Operator, by_domain, refuse

KIND, MOST_OPERANDS = "whole", 16
FORMATS: dict[str, Format] = {
    "int8": Affine(8, 1.0),
    "int16": Affine(16, 1.0),
    "int32": Fixed(32, 0),
    "uint32": Unsigned(32, 0),
}
Params = Mapping[str, int]
Table = tuple[str, np.ndarray, str]  # name, entries, kind


def format_of(kind: str) -> Format:
    """In which whole numbers of `kind` are held."""
    return FORMATS[kind]


def kind_of(fmt: Format) -> str:
    """The kind that `fmt` holds as they are; empty if it is none."""
    return next((kind for kind, known in FORMATS.items() if known == fmt), "")


def constant_format(numbers: np.ndarray) -> Format | None:
    """Of the first kind that holds all whole `numbers`; None if there is none."""
    for kind, fmt in FORMATS.items():
        ends = np.iinfo(kind)
        if numbers.size == 0 or (numbers.min() >= ends.min and numbers.max() <= ends.max):
            return fmt
    return None


def wrapped(numbers: np.ndarray, kind: str) -> np.ndarray:
    """What a cast to `kind` keeps of int64 `numbers`."""
    return numbers.astype(kind).astype(np.int64)


def no_tables(_: Params) -> Sequence[Table]:
    """Of routines that need none."""
    return ()


@dataclass(frozen=True, slots=True)
class Routine:
    """`compute` takes tables, then operands, as int64 (samples or 1, elements), and gives (samples, elements) before
    they are wrapped into the kind of the result; `params` are its numbers, in the order of the C++ arguments,
    from node and shapes."""

    name: str
    base: str
    summary: str
    infer: Callable[[Node, Sequence[Shape]], Shape]
    params: Callable[[Node, Sequence[Shape]], dict[str, int]]
    names: tuple[str, ...]
    compute: Callable[[Params, Sequence[np.ndarray]], np.ndarray]
    attributes: tuple[str, ...] = ()
    tables: Callable[[Params], Sequence[Table]] = no_tables
    operands: int = 1
    in_place: bool = False

    @property
    def kernel(self) -> Kernel:
        """What it is lowered to."""

        def execute(op: Op, arrays: Arrays, out: Format) -> tuple[np.ndarray, np.ndarray]:
            codes = wrapped(self.compute(op.params, [array.astype(np.int64) for array in arrays]), kind_of(out))
            return codes, np.zeros((len(codes), 0), bool)

        every = tuple(range(MOST_OPERANDS))
        return Kernel(
            Form(self.base), self.summary, execute, self.names, in_place=self.in_place, codes=every, rounds=()
        )

    @property
    def operator(self) -> Operator:
        """As the graph knows it."""

        def infer(node: Node, shapes: Sequence[Shape], _: Sequence[np.ndarray | None]) -> list[Shape]:
            if len(shapes) != self.operands or node.attrs[KIND] not in FORMATS:
                raise refuse(node, f"{len(shapes)} operands", f"it takes {self.operands}")
            self.params(node, shapes)
            return [self.infer(node, shapes)]

        def evaluate(node: Node, arrays: Arrays) -> list[np.ndarray]:
            shapes = [array.shape[1:] for array in arrays]
            params = self.params(node, shapes)
            codes = [np.rint(array.reshape(len(array), -1).astype(np.float64)).astype(np.int64) for array in arrays]
            tables = [entries.astype(np.int64)[None] for _, entries, _ in self.tables(params)]
            made = wrapped(self.compute(params, [*tables, *codes]), node.attrs[KIND])
            return [made.astype(np.float64).reshape(len(made), *self.infer(node, shapes))]

        return Operator(self.name, self.summary, infer, evaluate, by_domain(self._lower), (KIND, *self.attributes))

    def _lower(self, node: Node, lowering: Lowering) -> None:
        params = self.params(node, [lowering.shape(name) for name in node.inputs])
        names = [
            lowering.add_codes(f"{name}.table", entries, format_of(kind)) for name, entries, kind in self.tables(params)
        ]
        names += [whole_operand(node, lowering, value) for value in node.inputs]
        out = lowering.define(node.outputs[0])
        if out.format != format_of(node.attrs[KIND]):
            raise refuse(node, f"{node.attrs[KIND]} where {out.format} is needed", "cast it")
        lowering.emit(node, Op(Form(self.base), node.name, tuple(names), out.name, params))


def whole_operand(node: Node, lowering: Lowering, value: str) -> str:
    """The tensor of an operand, whose codes are the numbers themselves."""
    constant = lowering.constant(value)
    if constant is not None:
        numbers = np.rint(constant.astype(np.float64)).astype(np.int64)
        held = constant_format(numbers)
        if held is None:
            raise refuse(node, f"'{value}' holds numbers beside 32 bits", "the file is damaged")
        return lowering.add_constant(value, numbers, held)
    fmt = lowering.format(value)
    if fmt.grid != (1.0, 0):
        raise refuse(node, f"'{value}' is {fmt}", "whole numbers are needed; convert again")
    return lowering.operand(value)


def same_shape(node: Node, shapes: Sequence[Shape]) -> Shape:
    """Of results that have the shape of the first operand."""
    return shapes[0]


# ---- casts and sums


def _count(node: Node, shapes: Sequence[Shape]) -> dict[str, int]:
    return {"count": element_count(shapes[0])}


CAST = Routine(
    "WholeCast",
    "whole_cast",
    "whole numbers cut to the bits of another kind",
    same_shape,
    _count,
    ("count",),
    lambda p, arrays: arrays[0],
    in_place=True,
)
FUNCTIONS = ("add", "sub", "mul", "div", "min", "max", "sum16")


def _pair_shape(node: Node, shapes: Sequence[Shape]) -> Shape:
    return tuple(np.broadcast_shapes(*shapes))


def _pair_params(node: Node, shapes: Sequence[Shape]) -> dict[str, int]:
    out = _pair_shape(node, shapes)
    periods = [_period(node, shape, out) for shape in shapes]
    function = FUNCTIONS.index(node.attrs["function"])
    return {"count": element_count(out), "a_period": periods[0], "b_period": periods[1], "function": function}


def _period(node: Node, shape: Shape, out: Shape) -> int:
    """After how many elements an operand begins again: it is one number, or the last axes."""
    size = element_count(shape)
    tail = out[len(out) - len(shape) :]
    while shape and shape[0] == 1:
        shape, tail = shape[1:], tail[1:]
    if shape != tail:
        raise refuse(node, f"{list(shape)} along other than the last axes of {list(out)}", "broadcast it before")
    return size


def truncated(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The quotient of int64 without its fraction; 0 where there is none."""
    safe = np.where(b == 0, 1, b)
    quotient = np.abs(a) // np.abs(safe) * np.sign(a) * np.sign(safe)
    return np.where(b == 0, 0, quotient)


def _pair(p: Params, arrays: Sequence[np.ndarray]) -> np.ndarray:
    a, b = (np.tile(array, (1, p["count"] // array.shape[1])) for array in arrays)
    name = FUNCTIONS[p["function"]]
    if name == "div":
        return truncated(a, b)
    if name == "sum16":
        return np.clip(a + b, -(1 << 15), (1 << 15) - 1)
    functions = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "min": np.minimum, "max": np.maximum}
    return np.asarray(functions[name](a, b))


PAIR = Routine(
    "WholePair",
    "whole_pair",
    "sum, difference, product, quotient towards zero, smaller or larger of two whole numbers",
    _pair_shape,
    _pair_params,
    ("count", "a_period", "b_period", "function"),
    _pair,
    ("function",),
    operands=2,
    in_place=True,
)
ROUTINES = (CAST, PAIR)
KERNELS = tuple(routine.kernel for routine in ROUTINES)
OPERATORS = tuple(routine.operator for routine in ROUTINES)
