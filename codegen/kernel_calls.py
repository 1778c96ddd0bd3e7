"""The call of one operation's kernel: what it is called, operands, parameters by name, accumulator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tinyhil.codegen.identifiers import comment
from tinyhil.codegen.profile_calls import kinds
from tinyhil.crossbars.array import Mapped
from tinyhil.formats.format import CODED, INTEGER, SINGLE
from tinyhil.language.form import Arithmetic, Form, Joined, Limit, Weights
from tinyhil.language.kernel import QUIRE
from tinyhil.language.program import Blocks, Op, Program, Role, Tensor
from tinyhil.ops import KERNEL_OF, rows
from tinyhil.ops.conv import CONV
from tinyhil.ops.distance import SQUARED_DISTANCE
from tinyhil.passes.chains import Chain
from tinyhil.passes.layout import laid_operand

LINE = 120  # characters of generated calls
NARROW_SUM_BITS = 24  # an AVR saves a cycle per term and loses about 40 per sum
TERMS_THAT_PAY = 48
LEFT_OUT = {0: "hil::unless_zero", -128: "hil::unless_least"}
LIMITS = {Limit.CLIP: "within", Limit.RELU: "non_negative"}  # wrappers of results (common/limits.hpp)


def name_of(form: Form) -> str:
    """What a kernel is called, from its features in their order."""
    single = form.arithmetic is Arithmetic.SINGLE
    parts = (
        "" if form.weights is Weights.PLAIN else form.weights,
        "single" if single else "",
        form.base,
        "" if single or form.arithmetic is Arithmetic.EXACT else form.arithmetic,
        "bias" if form.bias else "",
        "" if form.joined is Joined.NOTHING else form.joined,
        "" if form.limit is Limit.NONE else form.limit,
        "rows" if form.rows else "",
    )
    return "_".join(part for part in parts if part)


def template_of(form: Form) -> str:
    """The C++ template: limits wrap the result, and what operands are their types say."""
    of_channels = form.arithmetic is Arithmetic.CODED_CHANNELS
    arithmetic = Arithmetic.CHANNELS if of_channels else form.arithmetic
    return f"hil::{name_of(replace(form, arithmetic=arithmetic, limit=Limit.NONE))}"


def operand_of(tensor: Tensor, name: str) -> str:
    """How kernels read a tensor."""
    if tensor.role not in (Role.CONSTANT, Role.TABLE):
        return f"hil::ram({name})"
    if tensor.stored is not None:
        return f"{tensor.stored.reader}({name})"
    if tensor.blocks is not None and tensor.blocks.word:
        return f"hil::binary_rows({name}, {tensor.blocks.axes[1]}, {int(tensor.format.largest)})"
    if tensor.blocks is not None:
        blocks = tensor.blocks
        operand = f"hil::blocks<{blocks.together}, {_step_of(blocks)}>({name})"
        if blocks.lanes:
            return f"hil::in_lanes({operand})"
        return f"hil::raised<{blocks.raised}>({operand})" if blocks.raised else operand
    return f"hil::flash({name})" if tensor.role == Role.TABLE else tensor.format.flash_operand(name)


def _step_of(blocks: Blocks) -> str:
    """How many elements of a row lie in turn, or what else its kernel has to know (firmware/kernels/arm/blocks.hpp)."""
    if blocks.left_out is not None:
        return LEFT_OUT[blocks.left_out]
    return "hil::in_pairs" if blocks.paired else "hil::in_parts" if blocks.part else str(blocks.step)


def on_crossbar(mapped: Mapped, weights: str) -> str:
    """Weights as crossbars hold them (firmware/kernels/common/crossbar.hpp)."""
    shape = (mapped.rows, mapped.cell_bits, mapped.dac_bits, mapped.adc_bits, mapped.weight_bits, mapped.input_bits)
    inputs = "" if mapped.signed else ", false"
    return f"hil::on_crossbar<{', '.join(map(str, shape))}{inputs}>({weights})"


def loaded_operand(tensor: Tensor, name: str, as_codes: bool) -> str:
    """An operand as its kernel computes with it: asymmetric integers outside their own kernels as floats."""
    operand = operand_of(tensor, name)
    return operand if as_codes or tensor.role == Role.TABLE else tensor.format.as_real(operand)


def as_codes(op: Op, index: int) -> bool:
    """Whether an operation takes operand `index` as codes, without decoding them."""
    return index in KERNEL_OF[op.kernel].codes


def kernel_call(program: Program, op: Op, names: Mapping[str, str]) -> list[str]:
    """An operation's kernel call, with the proof of its accumulator in front of it."""
    operands = [
        loaded_operand(program.tensors[n], _operand(program, op, at, names), as_codes(op, at))
        for at, n in enumerate(op.inputs)
    ]
    x = laid_operand(program, op)
    if x is not None:
        at = op.inputs.index(x)
        operands[at] = _laid(program, op, x, operands[at])
    if op.crossbar:
        operands[0] = on_crossbar(op.crossbar, operands[0])
    scratch = [names[op.scratch]] if op.scratch else _in_place(program, op)
    result = _from(program, op, rows.RESULT, op.output, names)
    return call_of(program, op, result_of(op, result), [*scratch, *operands])


def _in_place(program: Program, op: Op) -> list[str]:
    """What a convolution gets that reads its windows in place (firmware/kernels/common/windows_in_place.hpp)."""
    if op.kernel.base != CONV.form.base:
        return []
    x = program.tensors[op.inputs[1 + op.kernel.rows]]
    return [f"hil::in_place<{x.format.c_type}>()"]


def _operand(program: Program, op: Op, index: int, names: Mapping[str, str]) -> str:
    side, name = rows.side_of(op, index), op.inputs[index]
    return names[name] if side is None else _from(program, op, side, name, names)


def _laid(program: Program, op: Op, x: str, operand: str) -> str:
    """The operand of a convolution, with how it and the result lie (firmware/kernels/arm/conv_blocks.hpp)."""
    layouts = ("true" if program.tensors[tensor].innermost else "false" for tensor in (x, op.output))
    return f"hil::laid<{', '.join(layouts)}>({operand})"


def _from(program: Program, op: Op, which: str, name: str, names: Mapping[str, str]) -> str:
    """An operand or the result from where the rows begin that an operation reads or makes."""
    first = op.params.get(f"{which}_first", 0) * (program.tensors[name].innermost or 1)
    place, moves = names[name], rows.moves_of(op, which)
    if moves is not None:
        table = operand_of(program.tensors[op.inputs[0]], names[op.inputs[0]])
        place = f"{place} + hil::moved({table}, {moves.pace}, {moves.phase}, {moves.slots}) * {moves.row}"
    return f"{place} + {first}" if first else place


def call_of(program: Program, op: Op, result: str, operands: Sequence[str]) -> list[str]:
    """The call of an operation's kernel; `operands` as C++ expressions, scratch in front of them."""
    kernel = KERNEL_OF[op.kernel]
    arguments = [result, *operands]
    if kernel.struct is not None:
        arguments.append(_record(*kernel.struct, op.params))
    for param in kernel.params:
        value = op.params[param]
        out = program.tensors[op.output].format
        rounding = out.result_shift(value) if param in kernel.rounds else None
        is_static = param in kernel.static_params
        arguments.append(rounding or (f"hil::{const_name(param)}<{value}>()" if is_static else f"/*{param}*/ {value}"))
    accumulator = _accumulator(program, op)
    lines = [f"{template_of(op.kernel)}<{accumulator}>({', '.join(arguments)});"]
    if kernel.static_params:
        lines.insert(0, f"// {comment(op.name)}: {_proof(op)}")
    if op.crossbar is not None:
        lines.insert(-1, f"hal::spend({op.crossbar.ticks});")
    return lines


def _record(kind: str, fields: Sequence[str], params: Mapping[str, int]) -> str:
    """A record whose fields C++11 can only give in their order: named in comments."""
    return f"hil::{kind}{{{', '.join(f'/*{name}*/ {params[name]}' for name in fields)}}}"


def wrapped(line: str) -> list[str]:
    """A statement of generated code in lines of at most LINE characters, where it has commas to break it at."""
    if len(line) <= LINE or not line.endswith(");"):
        return [line]
    indent = line[: len(line) - len(line.lstrip())]
    lines: list[str] = []
    row, depth = "", 0
    for part in line.split(", "):
        joint = ", " if depth else ",\n"  # arguments of templates stay together
        row = f"{row}{joint}{part}" if row else part
        depth += part.count("<") - part.count(">")
    for argument in row.split(",\n"):
        if lines and len(lines[-1]) + len(argument) + 2 <= LINE:
            lines[-1] += f" {argument},"
        else:
            lines.append(f"{indent}    {argument}," if lines else f"{argument},")
    return [*lines[:-1], lines[-1].removesuffix(",")]


def const_name(param: str) -> str:
    """What a number known at compile time is called in C++ (firmware/kernels/common/constants.hpp)."""
    return "ToPower" if param == "power" else "".join(word.capitalize() for word in param.split("_"))


def signature_of(program: Program, item: Op | Chain) -> str:
    """The call with the kinds of its operands instead of their names: equal ones make equal code."""
    return "; ".join(
        kernel_call(program, op, kinds(program))[-1] for op in (item.ops if isinstance(item, Chain) else (item,))
    )


def result_of(op: Op, name: str) -> str:
    """Where an operation writes: with the limits of its activation, if it has one inside."""
    ends = f"<{op.params['low']}, {op.params['high']}>" if "high" in op.params else ""
    if op.kernel.limit in LIMITS:
        return f"hil::{LIMITS[op.kernel.limit]}{ends}({name})"
    return name if op.clips else f"hil::unclipped({name})"


def _accumulator(program: Program, op: Op) -> str:
    """The C++ type an operation computes in."""
    kernel = KERNEL_OF[op.kernel]
    if op.domain == SINGLE:
        return "float"
    if op.domain == CODED and kernel.coded == QUIRE:
        return f"hil::Quire<{op.accumulator_bits}, {op.low}, {op.guard}>"
    if op.domain == CODED:
        wide = any(program.tensors[name].format.storage_bytes == 4 for name in op.inputs)
        return "hil::LongReal" if wide else "hil::Real"
    bits = op.accumulator_bits
    if kernel.is_sum:
        terms = op.params.get("inner", op.params.get("kernel_y", 0) * op.params.get("kernel_x", 0))
        narrow = (
            terms >= TERMS_THAT_PAY
            or op.kernel == SQUARED_DISTANCE.form  # which has loops for such sums whatever their length
            or any(program.tensors[name].blocks is not None for name in op.inputs)
        )
        return f"hil::Sum<{bits if narrow else max(bits, NARROW_SUM_BITS + 1)}>"
    return f"hil::Wide<{bits}>"


def _proof(op: Op) -> str:
    """Why nothing overflows unnoticed."""
    if op.domain == INTEGER:
        return f"every intermediate value fits {op.accumulator_bits} bits"
    if op.domain == SINGLE:
        return "single precision in element order"
    if KERNEL_OF[op.kernel].coded != QUIRE:
        return "exact, one rounding"
    top = (
        "no sum can exceed it"
        if op.guard == 0
        else f"products saturate at 2^{op.accumulator_bits - 1 - op.guard} units"
    )
    return f"sums in units of 2^{op.low}, {op.accumulator_bits} bits: {top}"
