"""Operators of whole numbers: results are integers of 8, 16 or 32 bits that wrap, and nothing is ever scaled.

What comes before a network computes so: the sound of a wake word (signal.py, fourier.py). Such an operator states the
format of its result (`whole`: int8, int16, int32 or uint32), computes with codes as they are, and has no other float
model than itself. So does what a file's runtime defines code by code, between tensors of scales that the file states
(`grids`: bits, scale and zero point of every operand and of the result, 0 bits for whole numbers; cells.py). One
`Routine` gives operator and kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tinyhil.formats.affine import Affine
from tinyhil.formats.codec import quantize, storage_dtype
from tinyhil.formats.fixed import Fixed
from tinyhil.formats.format import Format
from tinyhil.formats.unsigned import Unsigned
from tinyhil.language.graph import Node, Shape, element_count
from tinyhil.language.lowering_context import Lowering
from tinyhil.language.program import Op
from tinyhil.ops.operator import Arrays, Form, Kernel, Operator, by_domain, refuse

KIND, GRIDS, MOST_OPERANDS = "whole", "grids", 16
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


def result_format(node: Node) -> Format | None:
    """What the result of `node` is held in, if it states that."""
    if KIND in node.attrs:
        return FORMATS[node.attrs[KIND]]
    return _grid(node, -1) if GRIDS in node.attrs else None


def _grid(node: Node, index: int) -> Format | None:
    """The stated format of an operand, or of the result (-1); None for whole numbers."""
    numbers = node.attrs.get(GRIDS, ())
    triples = [numbers[at : at + 3] for at in range(0, len(numbers), 3)]
    bits, scale, zero = triples[index] if triples else (0, 0.0, 0)
    return Affine(int(bits), float(scale), int(zero)) if bits else None


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


def wrapped(numbers: np.ndarray, fmt: Format) -> np.ndarray:
    """What a cast to the codes of `fmt` keeps of int64 `numbers`."""
    return numbers.astype(storage_dtype(fmt)).astype(np.int64)


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
            codes = wrapped(self.compute(op.params, [array.astype(np.int64) for array in arrays]), out)
            return codes, np.zeros((len(codes), 0), bool)

        every = tuple(range(MOST_OPERANDS))
        return Kernel(
            Form(self.base), self.summary, execute, self.names, in_place=self.in_place, codes=every, rounds=()
        )

    @property
    def operator(self) -> Operator:
        """As the graph knows it."""

        def infer(node: Node, shapes: Sequence[Shape], _: Sequence[np.ndarray | None]) -> list[Shape]:
            if len(shapes) != self.operands or result_format(node) is None:
                raise refuse(node, f"{len(shapes)} operands", f"it takes {self.operands}")
            self.params(node, shapes)
            return [self.infer(node, shapes)]

        def evaluate(node: Node, arrays: Arrays) -> list[np.ndarray]:
            shapes = [array.shape[1:] for array in arrays]
            params = self.params(node, shapes)
            codes = [_codes(node, index, array.reshape(len(array), -1)) for index, array in enumerate(arrays)]
            tables = [entries.astype(np.int64)[None] for _, entries, _ in self.tables(params)]
            out = _stated(node)
            made = out.decode(wrapped(self.compute(params, [*tables, *codes]), out))
            return [made.reshape(len(made), *self.infer(node, shapes))]

        return Operator(
            self.name, self.summary, infer, evaluate, by_domain(self._lower), (KIND, GRIDS, *self.attributes)
        )

    def _lower(self, node: Node, lowering: Lowering) -> None:
        params = self.params(node, [lowering.shape(name) for name in node.inputs])
        names = [_table(lowering, *table) for table in self.tables(params)]
        names += [_operand(node, lowering, index) for index in range(len(node.inputs))]
        out = lowering.define(node.outputs[0])
        if out.format != _stated(node):
            raise refuse(node, f"{_stated(node)} where {out.format} is needed", "convert it with one scale")
        lowering.emit(node, Op(Form(self.base), node.name, tuple(names), out.name, params))


def _table(lowering: Lowering, name: str, entries: np.ndarray, kind: str) -> str:
    if kind == "uint16":
        return lowering.add_table(name, entries)
    return lowering.add_codes(f"{name}.table", entries, format_of(kind))


def _stated(node: Node) -> Format:
    fmt = result_format(node)
    assert fmt is not None
    return fmt


def _codes(node: Node, index: int, numbers: np.ndarray) -> np.ndarray:
    """Codes of an operand of the float model, (samples, elements)."""
    fmt = _grid(node, index)
    return np.rint(numbers.astype(np.float64)).astype(np.int64) if fmt is None else quantize(numbers, fmt)[0]


def _operand(node: Node, lowering: Lowering, index: int) -> str:
    """The tensor of an operand, with the codes that the operator computes with."""
    value, grid = node.inputs[index], _grid(node, index)
    constant = lowering.constant(value)
    if grid is not None and constant is not None:
        return lowering.add_constant(value, constant, grid)
    if grid is not None and lowering.format(value) != grid:
        raise refuse(node, f"'{value}' is {lowering.format(value)}", f"{grid} is stated; convert again")
    if grid is not None:
        return lowering.operand(value)
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


def pair_shape(node: Node, shapes: Sequence[Shape]) -> Shape:
    """Of two operands that are broadcast."""
    return tuple(np.broadcast_shapes(*shapes))


def _pair_params(node: Node, shapes: Sequence[Shape]) -> dict[str, int]:
    out = pair_shape(node, shapes)
    periods = [period_of(node, shape, out) for shape in shapes]
    function = FUNCTIONS.index(node.attrs["function"])
    return {"count": element_count(out), "a_period": periods[0], "b_period": periods[1], "function": function}


def period_of(node: Node, shape: Shape, out: Shape) -> int:
    """After how many elements an operand begins again: it is one number, or the last axes. ModelError
    for other shapes."""
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
    pair_shape,
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
