"""The stack pointer of an AVR (8 bits, 16-bit program counter), instruction by instruction.

SP is two registers of I/O space, and Y a pair of bytes: a byte is a number, or the low or high half of the entry's
stack pointer plus a number. Sums carry: `subi r28, 64; sbc r29, r1` moves Y by 64, r1 being 0 by convention.
Source: AVR Instruction Set Manual (DS40002198); calling convention of avr-gcc.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from tinyhil.harness.build.disassembly import Code, Instruction
from tinyhil.harness.build.stack_walk import Given, NotUnderstood, Walk

ADDRESS_BYTES = 2
SPL, SPH = 0x3D, 0x3E
NUMBER = re.compile(r"0x([0-9A-Fa-f]+)|(\d+)")
CONDITIONAL = re.compile(r"br\w\w$")
SKIPS = ("cpse", "sbrc", "sbrs", "sbic", "sbis")
CALL_SAVED = (*range(2, 18), 28, 29)  # by a call
ARGUMENTS = range(8, 26, 2)
NO_RESULT = frozenset(
    (
        *("st", "std", "sts", "nop", "cp", "cpc", "cpi", "tst", "bst", "sbi", "cbi", "wdr", "sleep", "cli", "spm"),
        *("sec", "clc", "sen", "cln", "sez", "clz", "ses", "cls", "sev", "clv", "set", "clt", "seh", "clh", "break"),
    )
)
ONE_RESULT = frozenset(
    (
        *(
            "mov",
            "ldi",
            "and",
            "andi",
            "or",
            "ori",
            "eor",
            "com",
            "neg",
            "sbr",
            "cbr",
            "inc",
            "dec",
            "clr",
            "ser",
            "lsl",
        ),
        *(
            "lsr",
            "rol",
            "ror",
            "asr",
            "swap",
            "bld",
            "in",
            "ld",
            "ldd",
            "lds",
            "lpm",
            "pop",
            "add",
            "adc",
            "sub",
            "sbc",
        ),
        *("subi", "sbci"),
    )
)
PRODUCTS = ("mul", "muls", "mulsu", "fmul", "fmuls", "fmulsu")
KEEP_CARRY = ("mov", "movw", "ldi", "in", "out", "push", "pop", "ld", "ldd", "lds", "st", "std", "sts", "lpm", "nop")
TABLE_JUMP = "__tablejump2__"

# ("lo", n mod 256), ("hi", n): a half of the entry's stack pointer + n; ("?", n): what nobody knows + n
Byte = int | tuple[str, int]
UNKNOWN: Byte = ("?", 0)
Carry = int | tuple[str, int, int]  # of numbers; else the kind of the low byte, what it was, and what was added


@dataclass(slots=True)
class AvrState:
    """`carry`: what the last sum of low bytes leaves for the high ones."""

    low: Byte = ("lo", 0)
    high: Byte = ("hi", 0)
    registers: dict[int, Byte] = field(default_factory=dict)
    carry: Carry | None = None

    @property
    def depth(self) -> int | None:
        """Bytes below the entry; None between the halves of a new stack pointer."""
        low, high = self.low, self.high
        return -high[1] if isinstance(low, tuple) and isinstance(high, tuple) and low[1] == high[1] & 0xFF else None

    @property
    def offset(self) -> int | None:
        """Of SP from the entry's, if both halves are of one."""
        depth = self.depth
        return None if depth is None else -depth

    def move(self, by: int) -> None:
        """The stack pointer, by a push or a pop."""
        whole = self.offset
        assert whole is not None
        self.low, self.high = _halves(whole + by)

    def key(self) -> object:
        """The stack pointer and what else must be one."""
        return self.low, self.high

    def copy(self) -> AvrState:
        """One that changes alone."""
        return AvrState(self.low, self.high, dict(self.registers), self.carry)

    def forget(self, other: AvrState) -> bool:
        """Keep what `other` holds as well; whether anything was given up."""
        common = {r: value for r, value in self.registers.items() if other.registers.get(r) == value}
        changed = len(common) != len(self.registers) or (self.carry is not None and self.carry != other.carry)
        self.registers = common
        self.carry = self.carry if self.carry == other.carry else None
        return changed


@dataclass(frozen=True)
class Avr:
    """`top`: where the stack begins after a reset; `constructors`: what runs before main, from a table."""

    code: Code
    top: int
    constructors: Collection[int]

    def entry(self, is_interrupt: bool, given: Given) -> AvrState:
        """Registers as the calling convention has them."""
        state = AvrState(registers={} if is_interrupt else {1: 0})
        for register, function in given:
            state.registers[register], state.registers[register + 1] = function // 2 & 0xFF, function // 512
        return state

    def _given(self, state: AvrState) -> Given:
        pairs = ((register, _pair_number(state, register, 2)) for register in ARGUMENTS)
        return tuple((register, number) for register, number in pairs if number in self.code.functions and number)

    def step(self, at: Instruction, state: AvrState, walk: Walk) -> Sequence[tuple[int, AvrState]] | None:
        """As `Core.step`."""
        name = at.mnemonic
        if name in ("call", "rcall", "icall"):
            self._call(at, state, walk)
            return None
        if name in ("jmp", "rjmp", "ijmp", "ret", "reti") or name in SKIPS or CONDITIONAL.match(name):
            return self._go(at, state, walk)
        if name in ("push", "pop"):
            self._whole(at, state)
            state.move(-1 if name == "push" else 1)
            if name == "pop":
                state.registers.pop(_register(at), None)
        elif name == "out":
            return self._out(at, state, walk)
        elif name == "sei":
            walk.enables = at.address
        elif name not in NO_RESULT:
            self._compute(at, state)
        elif name in ("st", "std") and (pointer := _moved_pointer(at)) is not None:
            _drop(state, pointer, pointer + 1)
        if name not in KEEP_CARRY and name not in ("subi", "sbci", "sub", "sbc", "add", "adc"):
            state.carry = None
        return None

    def _whole(self, at: Instruction, state: AvrState) -> int:
        whole = state.offset
        if whole is None:
            raise NotUnderstood(self.code, at, "uses the stack between the two halves of a new stack pointer")
        return whole

    def _call(self, at: Instruction, state: AvrState, walk: Walk) -> None:
        whole = self._whole(at, state)
        target = at.refers_to if at.mnemonic != "icall" else _pair_number(state, 30, 2)
        if target == at.next:  # room for two bytes
            state.move(-ADDRESS_BYTES)
            return
        if target is None and at.mnemonic != "icall":
            target = _relative(at)
        if target is None:
            walk.call_unknown(ADDRESS_BYTES - whole)
        else:
            walk.call(target, ADDRESS_BYTES - whole, self._given(state))
        state.registers = {r: value for r, value in state.registers.items() if r in CALL_SAVED} | {1: 0}
        state.carry = None

    def _go(self, at: Instruction, state: AvrState, walk: Walk) -> Sequence[tuple[int, AvrState]]:
        name = at.mnemonic
        if name in ("ret", "reti"):
            if self._whole(at, state):
                raise NotUnderstood(self.code, at, f"returns with {-(state.offset or 0)} B still on the stack")
            return ()
        if name == "ijmp":
            return self._go_to_pointer(at, state, walk)
        if name in SKIPS:
            return [(at.next, state), (at.next + self._size_at(at.next), state.copy())]
        target = at.refers_to if at.refers_to is not None else _relative(at)
        if target is None:
            raise NotUnderstood(self.code, at, "goes to an unknown place")
        if name in ("jmp", "rjmp"):
            if self.code.name_of(target) == TABLE_JUMP and isinstance(state.registers.get(30), tuple):
                return self._go_by_table(at, state)
            return [(target, state)]
        return [(at.next, state), (target, state.copy())]

    def _size_at(self, address: int) -> int:
        skipped = self.code.at(address)
        return skipped.size if skipped is not None else 2

    def _go_to_pointer(self, at: Instruction, state: AvrState, walk: Walk) -> Sequence[tuple[int, AvrState]]:
        target = _pair_number(state, 30, 2)
        if target is not None:
            return [(target, state)]
        if self._whole(at, state):
            raise NotUnderstood(self.code, at, "goes to an unknown place with bytes still on the stack")
        if self.code.name_of(at.address) == TABLE_JUMP:
            for constructor in self.constructors:
                walk.call(constructor, 0)
        else:
            walk.call_unknown(0)  # the last thing a function does is to call another one
        return ()

    def _go_by_table(self, at: Instruction, state: AvrState) -> Sequence[tuple[int, AvrState]]:
        """`switch`: Z holds an index, plus the table's place in words. Its entries are places of this function."""
        low, high, own = state.registers[30], state.registers.get(31), self.code.span_of(at.address)
        targets: set[int] = set()
        if isinstance(low, tuple) and isinstance(high, tuple) and low[0] == high[0] == "?" and own is not None:
            place = 2 * ((low[1] & 0xFF) + 256 * (high[1] & 0xFF))
            while own.start <= (target := 2 * int.from_bytes(self.code.bytes_at(place, 2), "little")) < own.end:
                targets.add(target)
                place += 2
        if not targets:
            raise NotUnderstood(self.code, at, "its table is not known")
        return [(target, state.copy()) for target in sorted(targets)]

    def _out(self, at: Instruction, state: AvrState, walk: Walk) -> Sequence[tuple[int, AvrState]] | None:
        port, _, source = at.operands.partition(",")
        which = int(port, 0)
        if which not in (SPL, SPH):
            return None
        value = state.registers.get(_number_of(source))
        if value is None or (isinstance(value, tuple) and value[0] != ("lo" if which == SPL else "hi")):
            raise NotUnderstood(self.code, at, "the stack pointer takes a value that is known at run time only")
        if which == SPL:
            state.low = value
        else:
            state.high = value
        if isinstance(state.low, int) and isinstance(state.high, int):
            if state.low + 256 * state.high != self.top:
                raise NotUnderstood(self.code, at, f"a stack that does not begin at the top of RAM, {self.top:#x}")
            walk.restarts.add(at.next)
            return ()
        return None

    def _compute(self, at: Instruction, state: AvrState) -> None:
        name, values = at.mnemonic, state.registers
        if name in PRODUCTS:
            _drop(state, 0, 1)
        elif name == "movw":
            to, source = _registers(at)
            for half in (0, 1):
                _set(state, to + half, values.get(source + half))
        elif name in ("adiw", "sbiw"):
            _add_to_pair(state, _register(at), _operand(at) * (1 if name == "adiw" else -1))
        elif name in ("subi", "sub", "add"):
            self._low_sum(at, state)
        elif name in ("sbci", "sbc", "adc"):
            self._high_sum(at, state)
        elif name in ONE_RESULT:
            _set(state, _register(at), _result(at, state))
            if name in ("ld", "lpm") and (pointer := _moved_pointer(at)) is not None:
                _drop(state, pointer, pointer + 1)
        else:
            raise NotUnderstood(self.code, at, "this instruction is not known")

    def _low_sum(self, at: Instruction, state: AvrState) -> None:
        left = state.registers.get(_register(at), UNKNOWN)
        right = _second(at, state)
        state.carry = None
        value: Byte | None = None
        if isinstance(right, int):
            by = right if at.mnemonic == "add" else -right
            value, state.carry = _low_byte(left, by)
        _set(state, _register(at), value)

    def _high_sum(self, at: Instruction, state: AvrState) -> None:
        left = state.registers.get(_register(at), UNKNOWN)
        right = _second(at, state)
        value = None
        if isinstance(right, int) and state.carry is not None:
            value = _high_byte(left, right if at.mnemonic == "adc" else -right, state.carry)
        state.carry = None
        _set(state, _register(at), value)


def _low_byte(left: Byte, by: int) -> tuple[Byte | None, Carry | None]:
    """A sum, and what the high byte must know of it. A frame of whole pages is made with the high byte alone."""
    if isinstance(left, int):
        return (left + by) & 0xFF, (left + by) >> 8
    kind, offset = left
    if kind == "hi":
        return ("hi", _signed(offset + 256 * by)), None
    if kind == "lo":
        return ("lo", (offset + by) & 0xFF), ("lo", offset, by)
    return ("?", (offset + by) & 0xFF), ("?", 0, (offset + by) >> 8)


def _high_byte(left: Byte, by: int, carry: Carry) -> Byte | None:
    if isinstance(left, int) or isinstance(carry, int):
        return (left + by + carry) & 0xFF if isinstance(left, int) and isinstance(carry, int) else None
    kind, offset = left
    if kind == "hi" and carry[0] == "lo" and offset & 0xFF == carry[1]:
        return "hi", _signed(offset + carry[2] + 256 * by)
    return ("?", offset + by + carry[2]) if kind == carry[0] == "?" else None


def _result(at: Instruction, state: AvrState) -> Byte | None:
    """Of an instruction with one result."""
    name = at.mnemonic
    if name == "ldi":
        return _operand(at)
    if name == "ser":
        return 0xFF
    if name == "clr":
        return 0
    if name == "mov":
        return state.registers.get(_registers(at)[1])
    if name in ("inc", "dec"):
        return _one_more(state.registers.get(_register(at)), 1 if name == "inc" else -1)
    if name == "eor" and len(set(_registers(at))) == 1:
        return 0
    if name == "in" and _operand(at) in (SPL, SPH):
        return state.low if _operand(at) == SPL else state.high
    return None


def _one_more(value: Byte | None, by: int) -> Byte | None:
    """Frames of 256 bytes are made by `dec r29`."""
    if isinstance(value, int):
        return (value + by) & 0xFF
    return None if value is None or value[0] != "hi" else ("hi", _signed(value[1] + 256 * by))


def _second(at: Instruction, state: AvrState) -> Byte | None:
    if at.mnemonic in ("subi", "sbci"):
        return _operand(at)
    return state.registers.get(_registers(at)[1])


def _add_to_pair(state: AvrState, low: int, by: int) -> None:
    whole = (state.registers.get(low), state.registers.get(low + 1))
    number = _pair_number(state, low, 1)
    state.carry = None
    if number is not None:
        state.registers[low], state.registers[low + 1] = (number + by) & 0xFF, (number + by) >> 8 & 0xFF
        return
    if isinstance(whole[1], tuple) and whole == _halves(whole[1][1]):
        state.registers[low], state.registers[low + 1] = _halves(whole[1][1] + by)
        return
    _drop(state, low, low + 1)


def _halves(offset: int) -> tuple[Byte, Byte]:
    """Of the entry's stack pointer + offset."""
    return ("lo", offset & 0xFF), ("hi", _signed(offset))


def _pair_number(state: AvrState, low: int, times: int) -> int | None:
    halves = state.registers.get(low), state.registers.get(low + 1)
    if isinstance(halves[0], int) and isinstance(halves[1], int):
        return times * (halves[0] + 256 * halves[1])
    return None


def _set(state: AvrState, register: int, value: Byte | None) -> None:
    if value is None:
        state.registers.pop(register, None)
    else:
        state.registers[register] = value


def _drop(state: AvrState, *registers: int) -> None:
    for register in registers:
        state.registers.pop(register, None)


def _signed(value: int) -> int:
    return (value + 0x8000) % 0x10000 - 0x8000


@functools.lru_cache(1 << 10)
def _number_of(register: str) -> int:
    return int(register.strip().lstrip("r"))


def _register(at: Instruction) -> int:
    first = at.operands.partition(",")[0]
    return _number_of(first) if first else 0  # `lpm` alone loads r0


def _registers(at: Instruction) -> tuple[int, int]:
    """Of one that is written once, `eor r1, r1` as `clr r1`: the same twice."""
    first, _, second = at.operands.partition(",")
    return _number_of(first), _number_of(second or first)


def _operand(at: Instruction) -> int:
    return int(at.operands.split(",")[1].strip(), 0)


def _moved_pointer(at: Instruction) -> int | None:
    """`ld r24, Z+`: the pair that moves."""
    found = re.search(r"(?:-([XYZ]))|(?:([XYZ])\+(?!\d))", at.operands)
    return None if found is None else {"X": 26, "Y": 28, "Z": 30}[found[1] or found[2]]


def _relative(at: Instruction) -> int | None:
    """`.+4`: from the next instruction."""
    found = re.match(r"\.([+-]\d+)$", at.operands)
    return None if found is None else at.next + int(found[1])
