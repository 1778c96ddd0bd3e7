"""Program + Plan + boards -> model/model.cpp and a header per board: data, calls and offsets, never arithmetic."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from tinyhil.codegen.arrange import in_blocks
from tinyhil.codegen.chains import Chain, in_chains, locals_of, period_of
from tinyhil.codegen.identifiers import comment, identifiers
from tinyhil.codegen.profile_calls import HEADER as PROFILE_HEADER
from tinyhil.codegen.profile_calls import empty_calls, kinds, number_of, timed
from tinyhil.codegen.transfer import Transfer
from tinyhil.codegen.value_log import HEADER, is_logged, log_call
from tinyhil.errors import ModelError
from tinyhil.formats.codebook import pack
from tinyhil.formats.codec import storage_dtype
from tinyhil.formats.format import CODED, INTEGER, SINGLE, Format
from tinyhil.kernel import QUIRE
from tinyhil.memplan import Plan
from tinyhil.memplan.arena.regions import declarations, symbol_of
from tinyhil.memplan.arena.views import is_done_by_plan
from tinyhil.ops import KERNEL_BY_NAME
from tinyhil.ops.rows import first_of
from tinyhil.program import Loop, Op, Program, Role, Tensor, walk
from tinyhil.reram.array import Mapped

MODEL_HPP, MODEL_CPP = "model/model.hpp", "model/model.cpp"
OTHER_BOARDS = ['#error "this model was generated for other boards"']
MAX_RANK = 16
NARROW_SUM_BITS = 24  # an AVR saves a cycle per term and loses about 40 per sum
TERMS_THAT_PAY = 48
OF_24_BITS = ("squared_distance",)  # what has loops for such sums whatever their length
VALUES, OPERATIONS = "values", "operations"
TOLD = {"": [], VALUES: HEADER, OPERATIONS: PROFILE_HEADER}
BINARY_BYTES, BINARY_ALIGNMENT = 64 * 1024, 4  # larger constants: as text a compiler takes minutes
CONSTANTS = "model/constants-*.bin"
Source = str | bytes  # what a generated file holds
MAX_OUTPUT_BYTES = 60_000  # one frame carries it; lengths are counted in 16 bits


@dataclass(frozen=True, slots=True)
class Target:
    """What the generated code needs to know of a board."""

    name: str
    clock_hz: int
    transfer: Transfer


def emit_model(
    program: Program, plan: Plan, targets: Iterable[Target], model_hash: bytes, *, told: str = ""
) -> dict[str, Source]:
    """The generated files, path -> content. `model_hash` (8 bytes) identifies the model file in HELLO.

    `told`: what the firmware sends to the host besides results: every tensor once it is computed (VALUES), the ticks
    of every operation (OPERATION), nothing; docs/protocol.md.
    """
    _check_limits(program)
    names = identifiers(program.tensors)
    targets = tuple(targets)
    headers = {header_of(target.name): _header(program, plan, target, model_hash) for target in targets}
    binary = Binary()
    source = _source(program, plan, names, told, binary)
    return {
        MODEL_HPP: chosen_header([target.name for target in targets], TOLD[told]),
        **headers,
        MODEL_CPP: source.replace(Binary.PATH, binary.path),
        **({binary.path: bytes(binary.content)} if binary.content else {}),
    }


@dataclass(slots=True)
class Binary:
    """The file of large constants, filled array by array; named by its content, so that builds see it change."""

    PATH: ClassVar[str] = "@BINARY@"
    content: bytearray = field(default_factory=bytearray)

    @property
    def path(self) -> str:
        return CONSTANTS.replace("*", hashlib.sha256(self.content).hexdigest()[:16])

    def array(self, kind: str, name: str, values: np.ndarray) -> list[str]:
        """A constant of C++ type `kind` whose elements, little endian, are bytes of the file."""
        self.content += bytes(-len(self.content) % BINARY_ALIGNMENT)
        start, symbol = len(self.content), f"constant_{name}"
        self.content += values.tobytes()
        steps = (
            '.pushsection .rodata.hil,\\"a\\",%progbits',
            f".balign {BINARY_ALIGNMENT}",
            f".type {symbol}, %object",
            f".size {symbol}, {values.nbytes}",
            f"{symbol}:",
            f'.incbin \\"{self.PATH}\\", {start}, {values.nbytes}',
            ".popsection",
        )
        return [
            f'extern "C" const {kind} {name}[{values.size}] __asm__("{symbol}");',
            "__asm__(" + "\n        ".join(f'"{step}\\n"' for step in steps) + ");",
        ]


def join(parts: Sequence[tuple[Sequence[str], dict[str, Source]]]) -> dict[str, Source]:
    """The generated files of programs that differ from board to board, each for the boards named with it.

    Boards whose text is the same share it, whatever their cores are called.
    """
    parts = [part for part in parts if part[0]] or list(parts[:1])
    if len(parts) == 1:
        return parts[0][1]
    joined: dict[str, Source] = {}
    boards_of: dict[str, list[str]] = {}
    for names, files in parts:
        joined |= files
        boards_of.setdefault(str(files[MODEL_CPP]), []).extend(names)
    joined[MODEL_HPP] = chosen_header([name for names, _ in parts for name in names], [])
    if len(boards_of) > 1:
        joined[MODEL_CPP] = _by_board(boards_of)
    return joined


def _by_board(boards_of: Mapping[str, Sequence[str]]) -> str:
    """One source of several, each for its boards."""
    lines: list[str] = []
    for text, names in boards_of.items():
        condition = " || ".join(f"defined(HIL_BOARD_{name.upper()})" for name in names)
        lines.append(f"#{'el' if lines else ''}if {condition}\n{text}")
    return "\n".join(["".join(lines) + "#else", *OTHER_BOARDS, "#endif", ""])


def header_of(board: str) -> str:
    return f"model/board_{board}.hpp"


def chosen_header(boards: Sequence[str], told: Sequence[str]) -> str:
    """model.hpp: the header of the board that is compiled for."""
    lines = ["// Generated by tinyhil: sizes and limits of the model on the board at hand.", "#pragma once", *told]
    for index, name in enumerate(boards):
        lines += [f"#{'el' if index else ''}if defined(HIL_BOARD_{name.upper()})", f'#include "{header_of(name)}"']
    lines += ["#else", *OTHER_BOARDS, "#endif", ""] if boards else [*OTHER_BOARDS, ""]
    return "\n".join(lines)


def _check_limits(program: Program) -> None:
    """ModelError where a field of HELLO or a counter of the firmware is too narrow for the model."""
    for what, name, shape in (
        ("input", program.input, program.input_shape),
        ("output", program.output, program.output_shape),
    ):
        tensor = program.tensors[name]
        if max(shape, default=1) > 0xFFFF or len(shape) > MAX_RANK:
            raise ModelError(f"{what} {list(shape)} of '{program.name}': limit: {MAX_RANK} axes of 65535 elements")
        if not -128 <= tensor.format.exponent <= 127:
            raise ModelError(
                f"{what} of '{program.name}': scale 2^{tensor.format.exponent}, limits: 2^-128 and 2^127; rescale it"
            )
    if program.tensors[program.output].size_bytes > MAX_OUTPUT_BYTES:
        raise ModelError(
            f"output of '{program.name}': {program.tensors[program.output].size_bytes} B, "
            f"at most {MAX_OUTPUT_BYTES} B are supported"
        )
    for loop in _loops(program.body):
        if loop.count > 0xFFFF:
            raise ModelError(f"loop '{loop.name}': {loop.count} steps, at most 65535 are supported")


def _loops(body: tuple[Op | Loop, ...]) -> Iterator[Loop]:
    for item in body:
        if isinstance(item, Loop):
            yield item
            yield from _loops(item.body)


def c_type(tensor: Tensor) -> str:
    if tensor.role == Role.TABLE:
        return f"uint{8 * tensor.format.storage_bytes}_t"
    return tensor.format.c_type


def _header(program: Program, plan: Plan, target: Target, model_hash: bytes) -> str:
    output = program.tensors[program.output]
    description = model_hash + _describe(program.tensors[program.input].format, program.input_shape)
    description += _describe(output.format, program.output_shape)
    lines = [
        f"// Generated by tinyhil from {comment(program.name)}. Sizes and limits of the model on {target.name}.",
        "#pragma once",
        "#include <stdint.h>",
        "",
        '#include "firmware/kernels/common/memory.hpp"',
        "",
        "namespace model {",
        "",
    ]
    lines += [
        *_transfer(target),
        "",
        f"constexpr uint16_t output_bytes = {output.size_bytes};",
        f"constexpr uint32_t arena_bytes = {plan.peak_bytes};",
        "",
        "// Model hash, then input and output: bytes per element, binary exponent, rank, dimensions (u16 each).",
        "const uint8_t description[] HIL_FLASH = {",
        *numbers(np.frombuffer(description, np.uint8)),
        "};",
        "",
        "// One inference. While streaming `input` is not read: rows come from hil::next_step().",
        "void run(const uint8_t *input, uint8_t *output);",
        "",
        "}  // namespace model",
        "",
    ]
    return "\n".join(lines)


def _transfer(target: Target) -> list[str]:
    t = target.transfer
    return [
        f"constexpr uint32_t clock_hz = {target.clock_hz};",
        f"constexpr bool streamed = {'true' if t.streamed else 'false'};",
        f"constexpr uint8_t slots = {t.slots};",
        f"constexpr uint32_t sample_bytes = {t.sample_bytes};",
        f"constexpr uint16_t chunk_bytes = {t.chunk_bytes};",
        f"constexpr uint16_t steps_per_chunk = {t.steps_per_chunk};",
        f"constexpr uint16_t step_bytes = {t.step_bytes};",
    ]


def _describe(fmt: Format, shape: tuple[int, ...]) -> bytes:
    head = bytes((fmt.storage_bytes, fmt.exponent & 0xFF, len(shape)))
    return head + b"".join(dim.to_bytes(2, "little") for dim in shape)


def _source(program: Program, plan: Plan, names: Mapping[str, str], told: str, binary: Binary) -> str:
    lines = [
        f"// Generated by tinyhil from {comment(program.name)}. Weights, calls and arena offsets.",
        '#include "model/model.hpp"',
        "",
        '#include "firmware/kernels/kernels.hpp"',
        *(['#include "firmware/kernels/common/crossbar.hpp"'] if any(op.crossbar for op in walk(program.body)) else []),
        '#include "firmware/wire/input.hpp"',
        "",
        "// Planned peak of all run-time tensors.",
        *declarations(plan),
        "",
        "namespace {",
        "",
    ]
    lines += constant_lines(program, names, binary)
    lines += ["}  // namespace", "", "namespace model {", ""]
    lines.append("void run(const uint8_t *input, uint8_t *output) {")
    lines.append("    (void)input;")
    lines += pointer_lines(program, plan, names, tensors_of(program, plan, program.body, told))
    if program.input == program.output or any(program.input in op.inputs for op in walk(program.body)):
        kind = c_type(program.tensors[program.input])
        lines.append(f"    const {kind} *const {names[program.input]} = reinterpret_cast<const {kind} *>(input);")
    if told == OPERATIONS:
        lines += [f"    {line}" for line in empty_calls(program)]
    lines += statements(program, plan, program.body, names, Where(1, told))
    result = program.tensors[program.output]
    lines.append(
        f"    hil::copy<int32_t>(reinterpret_cast<{c_type(result)} *>(output), "
        f"{operand_of(result, names[result.name])}, {result.count});"
    )
    lines += ["}", "", "}  // namespace model", ""]
    return "\n".join(lines)


def constant_lines(program: Program, names: Mapping[str, str], binary: Binary | None = None) -> list[str]:
    """The constants and tables of a program as arrays in flash; with `binary` the large ones lie in that file."""
    lines = []
    for name, values in program.constants.items():
        tensor = program.tensors[name]
        lines.append(f"// {comment(name)}: {tensor.format if tensor.role == 'constant' else 'look-up table'}")
        lines += [*_array(tensor, names[name], values, binary), ""]
    return lines


def tensors_of(program: Program, plan: Plan, body: tuple[Op | Loop, ...], told: str = "") -> dict[str, None]:
    """The names of all tensors that lie in memory and that operations of `body` touch, each once."""
    found: dict[str, None] = {}
    for item in body if told == VALUES else in_chains(program, plan, body):
        if isinstance(item, Loop):
            found |= tensors_of(program, plan, item.body, told)
        elif isinstance(item, Chain):
            inside = {op.output for op in item.ops} - item.stored
            found |= dict.fromkeys(name for op in item.ops for name in op.tensors if name not in inside)
        else:
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


def _array(tensor: Tensor, name: str, codes: np.ndarray, binary: Binary | None) -> list[str]:
    """A constant in flash: codes below 8 bits are packed, a codebook's entries follow its indices."""
    fmt = tensor.format
    if tensor.role == Role.TABLE:
        return _defined(c_type(tensor), name, codes.astype(f"<u{fmt.storage_bytes}"), binary)
    if tensor.blocks is not None:
        stored = in_blocks(codes, tensor.blocks).astype(storage_dtype(fmt))
        return _defined(c_type(tensor), name, stored, binary, "alignas(4) ")
    if fmt.bits >= 8 and fmt.entries_in_flash is None:
        return _defined(c_type(tensor), name, codes.astype(storage_dtype(fmt)), binary)
    lines = _defined("uint8_t", name, pack(codes, fmt.bits), binary)
    if fmt.entries_in_flash is not None:
        kind, entries = fmt.entries_in_flash
        lines += [f"const {kind} {name}_entries[{len(entries)}] HIL_FLASH = {{", *numbers(np.array(entries)), "};"]
    return lines


def _defined(kind: str, name: str, stored: np.ndarray, binary: Binary | None, alignment: str = "") -> list[str]:
    if binary is not None and stored.nbytes > BINARY_BYTES:
        return binary.array(kind, name, stored)
    return [f"{alignment}const {kind} {name}[{stored.size}] HIL_FLASH = {{", *numbers(stored.reshape(-1)), "};"]


def operand_of(tensor: Tensor, name: str) -> str:
    """How kernels read a tensor."""
    if tensor.role not in (Role.CONSTANT, Role.TABLE):
        return f"hil::ram({name})"
    if tensor.blocks is not None:
        return f"hil::blocks<{tensor.blocks.together}, {tensor.blocks.step}>({name})"
    return f"hil::flash({name})" if tensor.role == Role.TABLE else tensor.format.flash_operand(name)


def on_crossbar(mapped: Mapped, weights: str) -> str:
    """Weights as crossbars hold them (firmware/kernels/common/crossbar.hpp)."""
    shape = (mapped.rows, mapped.cell_bits, mapped.dac_bits, mapped.adc_bits, mapped.weight_bits, mapped.input_bits)
    return f"hil::on_crossbar<{', '.join(map(str, shape))}>({weights})"


def _loaded(tensor: Tensor, name: str, as_codes: bool) -> str:
    """An operand as its kernel computes with it: zero-skew integers outside their own kernels as floats."""
    operand = operand_of(tensor, name)
    return operand if as_codes or tensor.role == Role.TABLE else tensor.format.as_real(operand)


@dataclass(frozen=True, slots=True)
class Where:
    """Loops around a body, and what its operations tell the host."""

    depth: int
    told: str


def statements(
    program: Program, plan: Plan, body: tuple[Op | Loop, ...], names: Mapping[str, str], where: Where
) -> list[str]:
    indent = "    " * where.depth
    lines = []
    for item in body if where.told == VALUES else in_chains(program, plan, body):
        if isinstance(item, Chain):
            call = _chain(program, item, names)
            if where.told == OPERATIONS:
                call = timed(number_of(program, item), call)
            lines += [indent + line for line in call]
            continue
        if isinstance(item, Op):
            if is_done_by_plan(program, plan, item):
                lines.append(f"{indent}// {comment(item.name)}: {names[item.inputs[0]]} is already in its place")
                continue
            call = _call(program, item, names)
            if where.told == OPERATIONS:
                call = timed(number_of(program, item), call)
            elif where.told == VALUES and is_logged(program, item):
                call.append(log_call(program, item, names))
            lines += [indent + line for line in call]
            continue
        counter = f"step{where.depth}"
        lines.append(
            f"{indent}for (uint16_t {counter} = 0; {counter} < {item.count}; ++{counter}) {{  // {comment(item.name)}"
        )
        for sequence, row in item.slices:
            lines.append(f"{indent}    {row_line(program, sequence, row, counter, names)}")
        lines += statements(program, plan, item.body, names, Where(where.depth + 1, where.told))
        lines.append(f"{indent}}}")
    return lines


def row_line(program: Program, sequence: str, row: str, counter: str, names: Mapping[str, str]) -> str:
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
            text = _loaded(program.tensors[name], f"&{own[name]}" if name in made else names[name], _as_codes(op, at))
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
        body += _call_of(program, single, _result(op, result), operands)
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


def _as_codes(op: Op, index: int) -> bool:
    return index in KERNEL_BY_NAME[op.kernel].codes


def _call(program: Program, op: Op, names: Mapping[str, str]) -> list[str]:
    operands = [
        _loaded(program.tensors[n], _from(op, at, names[n]), _as_codes(op, at)) for at, n in enumerate(op.inputs)
    ]
    if op.crossbar:
        operands[0] = on_crossbar(op.crossbar, operands[0])
    scratch = [names[op.scratch]] if op.scratch else []
    return _call_of(program, op, _result(op, names[op.output]), [*scratch, *operands])


def _from(op: Op, index: int, name: str) -> str:
    """An operand from where the rows begin that an operation reads."""
    first = first_of(op, index)
    return f"{name} + {first}" if first else name


def _call_of(program: Program, op: Op, result: str, operands: Sequence[str]) -> list[str]:
    """The call of an operation's kernel; `operands` as C++ expressions, scratch in front of them."""
    kernel = KERNEL_BY_NAME[op.kernel]
    arguments = [result, *operands]
    if kernel.struct is not None:
        record, fields = kernel.struct
        arguments.append(f"hil::{record}{{{', '.join(str(op.params[field]) for field in fields)}}}")
    for param in kernel.params:
        value = op.params[param]
        out = program.tensors[op.output].format
        rounding = out.result_shift(value) if param in kernel.rounds else None
        is_static = param in kernel.static_params
        arguments.append(rounding or (f"hil::{const_name(param)}<{value}>()" if is_static else f"/*{param}*/ {value}"))
    accumulator = _accumulator(program, op)
    lines = [f"hil::{kernel.template or op.kernel}<{accumulator}>({', '.join(arguments)});"]
    if kernel.static_params:
        lines.insert(0, f"// {comment(op.name)}: {_proof(op)}")
    if op.crossbar is not None:
        lines.insert(-1, f"hal::spend({op.crossbar.ticks});")
    return lines


def const_name(param: str) -> str:
    """What a number known at compile time is called in C++ (firmware/kernels/common/numeric.hpp)."""
    return "ToPower" if param == "power" else "".join(word.capitalize() for word in param.split("_"))


def signature_of(program: Program, item: Op | Chain) -> str:
    """The call with the kinds of its operands instead of their names: equal ones make equal code."""
    return "; ".join(
        _call(program, op, kinds(program))[-1] for op in (item.ops if isinstance(item, Chain) else (item,))
    )


def _result(op: Op, name: str) -> str:
    """Where an operation writes: with the limits of its activation, if it has one inside."""
    limit = KERNEL_BY_NAME[op.kernel].limit
    name = f"{name} + {op.params['out_first']}" if op.params.get("out_first") else name
    ends = f"<{op.params['low']}, {op.params['high']}>" if "high" in op.params else ""
    return f"hil::{limit}{ends}({name})" if limit else name


def _accumulator(program: Program, op: Op) -> str:
    """The C++ type an operation computes in."""
    kernel = KERNEL_BY_NAME[op.kernel]
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
            or op.kernel in OF_24_BITS
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
    if KERNEL_BY_NAME[op.kernel].coded != QUIRE:
        return "exact, one rounding"
    top = (
        "no sum can exceed it"
        if op.guard == 0
        else f"products saturate at 2^{op.accumulator_bits - 1 - op.guard} units"
    )
    return f"sums in units of 2^{op.low}, {op.accumulator_bits} bits: {top}"


def numbers(values: np.ndarray) -> list[str]:
    """Rows of numbers of at most 100 characters."""
    lines, row = [], "   "
    for value in values.tolist():
        text = f" {value},"
        if len(row) + len(text) > 100:
            lines.append(row)
            row = "   "
        row += text
    return [*lines, row]
