"""The body of `run()`: pointers into the arena, loops, chains and calls in order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from tinyhil.codegen.identifiers import comment
from tinyhil.codegen.kernel_calls import as_codes, call_of, kernel_call, loaded_operand, result_of, wrapped
from tinyhil.codegen.profile_calls import number_of, timed
from tinyhil.codegen.value_log import is_logged, log_call
from tinyhil.language.program import Body, Loop, Op, Program, Role
from tinyhil.memplan import Plan
from tinyhil.memplan.arena.regions import symbol_of
from tinyhil.memplan.arena.views import is_done_by_plan
from tinyhil.passes.chains import Chain, locals_of, period_of
from tinyhil.passes.laid import Laid
from tinyhil.passes.stored import c_type

VALUES, OPERATIONS = "values", "operations"


@dataclass(frozen=True, slots=True)
class Where:
    """Loops around a body, and what its operations report to the host."""

    depth: int
    reports: str


def statements(laid: Laid, body: Body, names: Mapping[str, str], where: Where) -> list[str]:
    """The lines of C++ that carry out `body`, in order."""
    program, plan = laid.program, laid.plan
    indent = "    " * where.depth
    lines = []
    for item in laid.items(body):
        if isinstance(item, Chain):
            call = _chain(program, item, names)
            if where.reports == OPERATIONS:
                call = timed(number_of(program, item), call)
            lines += [part for line in call for part in wrapped(indent + line)]
            continue
        if isinstance(item, Op):
            if is_done_by_plan(program, plan, item):
                lines.append(f"{indent}// {comment(item.name)}: {names[item.inputs[0]]} is already in its place")
                continue
            call = kernel_call(program, item, names)
            if where.reports == OPERATIONS:
                call = timed(number_of(program, item), call)
            elif where.reports == VALUES and is_logged(program, item):
                call.append(log_call(program, item, names))
            lines += [part for line in call for part in wrapped(indent + line)]
            continue
        counter = f"step{where.depth}"
        lines.append(
            f"{indent}for (uint16_t {counter} = 0; {counter} < {item.count}; ++{counter}) {{  // {comment(item.name)}"
        )
        for sequence, row in item.slices:
            lines.append(f"{indent}    {row_line(program, sequence, row, counter, names)}")
        lines += statements(laid, item.body, names, Where(where.depth + 1, where.reports))
        lines.append(f"{indent}}}")
    return lines


def row_line(program: Program, sequence: str, row: str, counter: str, names: Mapping[str, str]) -> str:
    """The pointer to row `counter` of a sequence that a loop reads row by row."""
    tensor = program.tensors[row]
    kind = c_type(tensor)
    if sequence == program.input and program.streamable_loop() is not None:
        source = f"hil::input_row<{kind}>(input, {counter}, {tensor.count})"
    elif sequence == program.input:
        source = f"reinterpret_cast<const {kind} *>(input) + hil::Size({counter}) * {tensor.count}"
    else:
        source = f"{names[sequence]} + hil::Size({counter}) * {tensor.count}"
    return f"const {kind} *const {names[row]} = {source};"


def _chain(program: Program, chain: Chain, names: Mapping[str, str]) -> list[str]:
    """One loop over the elements of a chain."""
    own, repeats, body = locals_of(chain, names), dict[int, str](), list[str]()
    made: set[str] = set()
    for name in _shared(program, chain):  # counting saturation is a store, after which compilers load again
        body.append(f"const {c_type(program.tensors[name])} {own[name]} = {names[name]}[n];")
        made.add(name)
    for op in chain.ops:
        operands = []
        for at, name in enumerate(op.inputs):
            place = f"&{own[name]}" if name in made else names[name]
            text = loaded_operand(program.tensors[name], place, as_codes(op, at))
            period = period_of(op, at)
            if name not in made and period > 1:
                counter = "n" if period == chain.count else repeats.setdefault(period, f"n_{period}")
                text = f"{text} + {counter}"
            operands.append(text)
        one = {name: 1 for name in ("count", "a_period", "b_period") if name in op.params}
        single = replace(op, params={**op.params, **one})
        is_stored = op.output in chain.stored
        is_held = not is_stored or any(op.output in other.inputs for other in chain.ops)
        result = f"&{own[op.output]}" if is_held else f"{names[op.output]} + n"
        if is_held:
            body.append(f"{c_type(program.tensors[op.output])} {own[op.output]};")
        body += call_of(program, single, result_of(op, result), operands)
        if is_held and is_stored:
            body.append(f"{names[op.output]}[n] = {own[op.output]};")
        made.add(op.output)
    starts = "".join(f", {name} = 0" for name in repeats.values())
    steps = "".join(f", {name} = {name} == {period - 1} ? 0 : {name} + 1" for period, name in repeats.items())
    head = f"for (hil::Size n = 0{starts}; n < {chain.count}; ++n{steps}) {{"
    return [head, *(f"    {line}" for line in body), "}"]


def _shared(program: Program, chain: Chain) -> list[str]:
    """Tensors in RAM of which more than one operation of a chain reads the same element."""
    found: list[str] = []
    for op in chain.ops:
        for at, name in enumerate(op.inputs):
            if program.tensors[name].role in (Role.ARENA, Role.INPUT, Role.SLICE) and period_of(op, at) == chain.count:
                found.append(name)
    made = {op.output for op in chain.ops}
    return [name for name, times in Counter(found).items() if times > 1 and name not in made]


def tensors_of(laid: Laid, body: Body) -> dict[str, None]:
    """The names of all tensors that lie in memory and that the statements of `body` name, each once."""
    found: dict[str, None] = {}
    for item in laid.items(body):
        if isinstance(item, Loop):
            found |= tensors_of(laid, item.body)
            found |= dict.fromkeys(sequence for sequence, _ in item.slices)
        elif isinstance(item, Chain):
            inside = {op.output for op in item.ops} - item.stored
            found |= dict.fromkeys(name for op in item.ops for name in op.tensors if name not in inside)
        elif not is_done_by_plan(laid.program, laid.plan, item):
            found |= dict.fromkeys(item.tensors)
    return found


def pointer_lines(program: Program, plan: Plan, names: Mapping[str, str], used: Iterable[str]) -> list[str]:
    """A pointer to each of the tensors `used` that lies in the arena."""
    lines = []
    for tensor in (program.tensors[name] for name in used if program.tensors[name].role == Role.ARENA):
        kind = c_type(tensor)
        place = f"{symbol_of(plan.regions[tensor.name])} + {plan.offsets[tensor.name]}"
        lines.append(
            f"    {kind} *const {names[tensor.name]} = reinterpret_cast<{kind} *>({place});"
            f"  // {tensor.count} x {tensor.format}"
        )
    return lines
