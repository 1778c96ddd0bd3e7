"""The operations of a program as a board carries them out: which, how often, how many results and products."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from tinyhil.codegen.kernel_calls import name_of
from tinyhil.codegen.profile_calls import format_name, number_of
from tinyhil.language.kernel import Kernel
from tinyhil.language.program import Loop, Op, Program, Role, loops_of, walk
from tinyhil.memplan import Plan
from tinyhil.memplan.arena.views import is_done_by_plan
from tinyhil.ops import KERNEL_OF
from tinyhil.passes.chains import Chain, in_chains
from tinyhil.references.reference import Observe

CHAIN = "chain"  # what stands for the kernel of a chain


def executed(program: Program, plan: Plan, body: Sequence[Op | Loop]) -> Iterator[int]:
    """Numbers of the operations that the board carries out, in order."""
    numbers = {id(op): number_of(program, op) for op in walk(program.body)}

    def visit(items: Sequence[Op | Loop]) -> Iterator[int]:
        for item in in_chains(program, plan, items):
            if isinstance(item, Loop):
                inner = list(visit(item.body))
                yield from inner * item.count
            elif isinstance(item, Chain):
                yield numbers[id(item.ops[0])]
            elif not is_done_by_plan(program, plan, item):
                yield numbers[id(item)]

    return visit(body)


def executions_of(program: Program, plan: Plan) -> Counter[int]:
    """How often the board carries out each operation, by its number."""
    return Counter(executed(program, plan, program.body))


def last_of(item: Op | Chain) -> Op:
    """The operation that a chain ends with; an operation itself."""
    return item.ops[-1] if isinstance(item, Chain) else item


def described(program: Program, item: Op | Chain) -> tuple[str, str, tuple[str, ...]]:
    """Name, kernel and formats of what is carried out; a chain's formats are those of its results."""
    if isinstance(item, Chain):
        return item.name, CHAIN, tuple(format_name(program.tensors[op.output]) for op in item.ops)
    formats = (format_name(program.tensors[name]) for name in (*item.inputs, item.output))
    return item.name, name_of(item.kernel), tuple(formats)


def elements_of(program: Program, item: Op | Chain, times: int) -> int:
    """Results that `times` executions write, which are all of one sample. One that goes row by row is told in a table
    which rows it makes; its buffer may hold more of them, or fewer."""
    op = last_of(item)
    if not op.kernel.rows:
        return program.tensors[op.output].count * times
    sequences = {row: sequence for loop in loops_of(program.body) for sequence, row in loop.slices}
    bounds = program.constants[sequences.get(op.inputs[0], op.inputs[0])].reshape(-1, 2)
    p = op.params
    channels, width = p.get("outputs", p["channels"]), p.get("out_width", p.get("width", 1))
    return int((bounds[:, 1] - bounds[:, 0]).sum()) * channels * width


def macs_of(program: Program, item: Op | Chain, elements: int) -> int | None:
    """Products summed into so many elements; None for operations that are no layer. Zeros that a sparse layer leaves
    out count."""
    op = last_of(item)
    kernel: Kernel = KERNEL_OF[op.kernel]
    if not kernel.is_sum:
        return None
    if "inner" in op.params:
        return elements * (op.params["inner"] + op.params.get("more_inner", 0))
    if "word" in op.params:  # bits, of which words of several products are stored
        return elements * op.params["channels"] * op.params["kernel_y"] * op.params["kernel_x"]
    weights = [program.tensors[name].count for name in op.inputs if program.tensors[name].role == Role.CONSTANT]
    outputs = op.params.get("outputs", 0)
    return elements * max(weights) // outputs if weights and outputs else None


def ops_of(item: Op | Chain) -> tuple[Op, ...]:
    """The operations of a chain; an operation alone."""
    return item.ops if isinstance(item, Chain) else (item,)


def saturation_counter(program: Program) -> tuple[Counter[int], Observe]:
    """Counts of clipped results by the number of the operation, and what the reference is to be observed with."""
    numbers = {id(op): number for number, op in enumerate(walk(program.body))}
    counts: Counter[int] = Counter()

    def observe(op: Op, codes: np.ndarray, clipped: np.ndarray) -> None:
        counts[numbers[id(op)]] += int(np.count_nonzero(clipped))

    return counts, observe
