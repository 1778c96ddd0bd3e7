"""What a program does with a sample: products, results, operands of each operation, and how many of them are zero."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tinyhil.formats.codec import dequantize
from tinyhil.formats.format import Format
from tinyhil.harness.measure.operations import macs_of
from tinyhil.language.form import Form
from tinyhil.language.program import Op, Program, Role, loops_of, walk
from tinyhil.ops import KERNEL_OF
from tinyhil.ops.distance import SQUARED_DISTANCE
from tinyhil.references.reference import run_reference


@dataclass(frozen=True, slots=True)
class Operand:
    """`count` numbers of `bits` that one execution reads; `zeros`: the share of them that is zero."""

    name: str
    bits: int
    count: int
    zeros: float
    is_constant: bool


@dataclass(frozen=True, slots=True)
class Operation:
    """Per execution: `products` summed (0: it is no layer), `results` of `bits`. `factors`: what is multiplied, weights
    in front if there are any, and the two of the `second` products behind the two of all others; `others`: what else it
    reads."""

    name: str
    kernel: Form
    executions: int
    products: int
    results: int
    bits: int
    factors: tuple[Operand, ...]
    others: tuple[Operand, ...]
    second: int = 0

    @property
    def operands(self) -> tuple[Operand, ...]:
        """All that is fetched: what is multiplied, then the rest."""
        return (*self.factors, *self.others)

    @property
    def pairs(self) -> tuple[tuple[int, tuple[Operand, ...]], ...]:
        """How many products are of which two factors."""
        first = (self.products - self.second, self.factors[:2])
        return (first, (self.second, self.factors[2:])) if self.second else (first,)

    def nonzero(self, factors: tuple[Operand, ...]) -> float:
        """Share of the products of these factors without one that is zero, as if zeros of both were independent; a
        squared difference has none to leave out."""
        if self.kernel == SQUARED_DISTANCE.form:
            return 1.0
        return float(np.prod([1 - factor.zeros for factor in factors]))


def count_operations(program: Program, codes: np.ndarray) -> tuple[Operation, ...]:
    """Of each operation that runs at all, in order; zeros are those of the samples `codes` (samples, count)."""
    times: Counter[int] = Counter()
    seen, zero = Counter({program.input: codes.size}), Counter({program.input: _zeros(program, program.input, codes)})

    def observe(op: Op, results: np.ndarray, clipped: np.ndarray) -> None:
        times[id(op)] += 1
        seen[op.output] += results.size
        zero[op.output] += _zeros(program, op.output, results)

    run_reference(program, codes.astype(np.int64), observe=observe)
    shares = {name: zero[name] / seen[name] for name in seen}
    for name, array in program.constants.items():
        shares[name] = _zeros(program, name, array) / array.size
    sliced = {row: sequence for loop in loops_of(program.body) for sequence, row in loop.slices}
    shares |= {row: shares.get(sequence, 0.0) for row, sequence in sliced.items()}
    return tuple(_operation(program, op, times[id(op)], shares) for op in walk(program.body) if times[id(op)])


def _zeros(program: Program, name: str, codes: np.ndarray) -> int:
    return codes.size - int(np.count_nonzero(dequantize(codes, program.tensors[name].format)))


def _operation(program: Program, op: Op, executions: int, shares: Mapping[str, float]) -> Operation:
    kernel = KERNEL_OF[op.kernel]
    results = program.tensors[op.output].count
    products = macs_of(program, op, results) or 0
    roles = [program.tensors[name].role for name in op.inputs]
    numbers = [index for index, role in enumerate(roles) if role != Role.TABLE]
    without_index = [index for index in numbers if index not in kernel.codes]  # of affine kernels all are codes
    second = results * op.params.get("more_inner", 0) if products else 0
    candidates = without_index if len(without_index) > 1 else numbers
    pairs = [candidates[:2], *([candidates[-2:]] if second else [])] if products else []
    factors = [index for pair in pairs for index in pair]
    operands = []
    for index, name in enumerate(op.inputs):
        tensor = program.tensors[name]
        most = products if index in factors else results if roles[index] == Role.TABLE else tensor.count
        is_constant = roles[index] in (Role.CONSTANT, Role.TABLE)
        bits = _bits(tensor.format)
        operands.append(Operand(name, bits, min(tensor.count, most), shares.get(name, 0.0), is_constant))
    multiplied = [operands[i] for pair in pairs for i in sorted(pair, key=lambda i: not operands[i].is_constant)]
    others = [operand for i, operand in enumerate(operands) if i not in factors]
    bits = _bits(program.tensors[op.output].format)
    return Operation(op.name, op.kernel, executions, products, results, bits, tuple(multiplied), tuple(others), second)


def _bits(fmt: Format) -> int:
    return int(fmt.bits)
