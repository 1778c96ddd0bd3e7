"""The stack pointer of a Cortex-M, instruction by instruction: Thumb of ARMv6-M to v8-M, as objdump writes it.

A register is a number, or the entry's stack pointer plus a number, or the entry's return address; what is saved on the
stack is remembered as well, so that it is known again when it is loaded. Of an instruction without effect on SP it is
enough to know which registers it may write. Sources: ARMv7-M and ARMv8-M Architecture Reference Manuals; AAPCS.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tinyhil.harness.build.disassembly import Code, Instruction
from tinyhil.harness.build.stack_walk import Given, NotUnderstood, Walk

WORD = 4
CONDITIONS = ("eq", "ne", "cs", "cc", "mi", "pl", "vs", "vc", "hi", "ls", "ge", "lt", "gt", "le", "hs", "lo", "al")
BRANCH = re.compile(rf"^b(?:{'|'.join(CONDITIONS)})?$")
ALIASES = {"sb": 9, "sl": 10, "fp": 11, "ip": 12, "sp": 13, "lr": 14, "pc": 15}
SP, LR, PC = 13, 14, 15
REGISTER = re.compile(r"\b(r\d{1,2}|sb|sl|fp|ip|sp|lr|pc)\b")
NUMBER = re.compile(r"#(-?(?:0x[0-9a-f]+|\d+))")
SLOT = re.compile(r"^(?P<what>[^\[]*)\[(?P<base>\w+)(?:, #(?P<before>-?\d+))?\](?P<update>!)?(?:, #(?P<after>-?\d+))?$")
CALL_SAVED = (*range(4, 12), SP)  # by a call
ARGUMENTS, ON_STACK = range(4), range(100, 108)  # in r0 to r3; in words on the stack
NO_RESULT = ("cmp", "cmn", "tst", "teq", "nop", "cps", "dmb", "dsb", "isb", "pld", "wf", "sev", "yield", "vls", "vll")
ENDS = ("udf", "bkpt")  # a fault
SWITCH = re.compile(r"__gnu_thumb1_case_(?P<signed>[us])(?P<size>qi|hi|i)$")
TABLES = {"tbb": 1, "tbh": 2}
DANGEROUS = ("msp", "psp", "control")  # which stack is used, and where it is

Value = int | tuple[str, int]  # ("sp", n): the entry's stack pointer + n; ("return", 0)


@dataclass(slots=True)
class ArmState:
    """`saved`: words on the stack by their place from the entry's SP; `conditional`: what an IT block still governs."""

    registers: dict[int, Value] = field(default_factory=lambda: {SP: ("sp", 0), LR: ("return", 0)})
    saved: dict[int, Value] = field(default_factory=dict)
    conditional: int = 0

    @property
    def depth(self) -> int:
        """Bytes below the entry."""
        value = self.registers[SP]
        return -value[1] if isinstance(value, tuple) else 0

    def key(self) -> object:
        """The stack pointer and what else must be one."""
        return self.registers[SP], self.conditional

    def copy(self) -> ArmState:
        """One that changes alone."""
        return ArmState(dict(self.registers), dict(self.saved), self.conditional)

    def forget(self, other: ArmState) -> bool:
        """Keep what `other` holds as well; whether anything was given up."""
        registers = {r: v for r, v in self.registers.items() if other.registers.get(r) == v}
        saved = {place: v for place, v in self.saved.items() if other.saved.get(place) == v}
        changed = len(registers) != len(self.registers) or len(saved) != len(self.saved)
        self.registers, self.saved = registers, saved
        return changed

    def set(self, register: int, value: Value | None) -> None:
        """None: not known."""
        if value is None:
            self.registers.pop(register, None)
        else:
            self.registers[register] = value


@dataclass(frozen=True)
class Arm:
    """`top`: where the stack begins after a reset."""

    code: Code
    top: int

    def entry(self, is_interrupt: bool, given: Given) -> ArmState:
        """Registers as the calling convention has them."""
        state = ArmState()
        for number, value in given:
            if number in ARGUMENTS:
                state.registers[number] = value
            else:
                state.saved[WORD * (number - ON_STACK[0])] = value
        return state

    def _given(self, state: ArmState) -> Given:
        values = [(number, state.registers.get(number)) for number in ARGUMENTS]
        values += [(number, state.saved.get(WORD * (number - ON_STACK[0]) - state.depth)) for number in ON_STACK]
        return tuple((n, value) for n, value in values if isinstance(value, int) and value & ~1 in self.code.functions)

    def step(self, at: Instruction, state: ArmState, walk: Walk) -> Sequence[tuple[int, ArmState]] | None:
        """As `Core.step`."""
        name = at.mnemonic.removesuffix(".n").removesuffix(".w")
        if not state.conditional:
            return self._execute(name, at, state, walk)
        state.conditional -= 1
        done, skipped = state, state.copy()
        ways = self._execute(_without_condition(name), at, done, walk)
        if ways is None and done.registers == skipped.registers and done.saved == skipped.saved:
            return None
        return [(at.next, skipped), *(ways if ways is not None else [(at.next, done)])]

    def _execute(
        self, name: str, at: Instruction, state: ArmState, walk: Walk
    ) -> Sequence[tuple[int, ArmState]] | None:
        before = state.registers[SP]
        ways = self._perform(name, at, state, walk)
        after = state.registers.get(SP)
        if after is None:
            raise NotUnderstood(self.code, at, "the stack pointer takes a value that is known at run time only")
        if isinstance(after, int) and after != before:
            if after != self.top:
                raise NotUnderstood(self.code, at, f"a stack that does not begin at the top, {self.top:#x}")
            walk.restarts.add(at.next)
            return ()
        return ways

    def _perform(
        self, name: str, at: Instruction, state: ArmState, walk: Walk
    ) -> Sequence[tuple[int, ArmState]] | None:
        if name.startswith("it") and set(name[2:]) <= {"t", "e"}:
            state.conditional = len(name) - 1
            return None
        if name in ENDS:
            return ()
        if BRANCH.match(name) or name in ("cbz", "cbnz", "le", "wls", "dls", "bl", "blx", "bx", "bxns", "blxns"):
            return self._branch(name, at, state, walk)
        if name in TABLES:
            return [(target, state.copy()) for target in self._table(at, name)]
        if name in ("msr", "mrs"):
            self._special(name, at, state)
            return None
        if name in ("push", "vpush", "pop", "vpop") or name.startswith(("stm", "ldm", "vstm", "vldm")):
            return self._many(name, at, state, walk)
        if name.startswith(("str", "ldr", "vstr", "vldr")):
            return self._one(name, at, state, walk)
        return self._compute(name, at, state, walk)

    # --- what goes elsewhere ---

    def _branch(self, name: str, at: Instruction, state: ArmState, walk: Walk) -> Sequence[tuple[int, ArmState]] | None:
        if name in ("bxns", "blxns"):
            if name == "bxns" and at.operands == "lr":
                return self._return(at, state)
            raise NotUnderstood(self.code, at, "what the non-secure side needs is not in this image")
        if name in ("bl", "blx"):
            return self._call(at, state, walk)
        if name == "bx":
            return self._go_to(at, state, walk, state.registers.get(_index(at.operands)))
        if name == "dls":
            return None
        if at.refers_to is None:
            raise NotUnderstood(self.code, at, "goes to an unknown place")
        ways = [(at.refers_to, state)]
        return ways if name == "b" else [*ways, (at.next, state.copy())]

    def _call(self, at: Instruction, state: ArmState, walk: Walk) -> Sequence[tuple[int, ArmState]] | None:
        target = at.refers_to
        if target is None:
            pointer = state.registers.get(_index(at.operands))
            target = pointer & ~1 if isinstance(pointer, int) else None
        if target is not None and (switch := SWITCH.match(self.code.name_of(target))):
            return [(place, state.copy()) for place in self._thumb1_switch(at, switch)]
        own = self.code.span_of(at.address)
        if target is not None and own is not None and own.start < target < own.end:
            state.set(LR, at.next | 1)  # Thumb-1 goes far within a function by it; a part that returns goes on here
            return [(target, state)]
        if target is None:
            walk.call_unknown(state.depth)
        else:
            walk.call(target, state.depth, self._given(state))
        state.registers = {r: v for r, v in state.registers.items() if r in CALL_SAVED}
        goes_on = self.code.at(at.next) is not None and (own is None or at.next < own.end)
        return None if goes_on else ()  # compilers end a function with a call that does not return

    def _return(self, at: Instruction, state: ArmState) -> Sequence[tuple[int, ArmState]]:
        if state.depth:
            raise NotUnderstood(self.code, at, f"returns with {state.depth} B still on the stack")
        return ()

    def _go_to(
        self, at: Instruction, state: ArmState, walk: Walk, value: Value | None
    ) -> Sequence[tuple[int, ArmState]]:
        """The program counter takes this value."""
        if isinstance(value, int):
            return [(value & ~1, state)]
        if value is not None and value[0] == "return":
            return self._return(at, state)
        own = self.code.span_of(at.address)
        named = [] if own is None else (word & ~1 for word in self.code.words_between(own.start + 1, own.end))
        inside = [place for place in named if place in self.code.lines]
        if state.depth:
            if not inside:
                raise NotUnderstood(self.code, at, "goes to an unknown place with bytes still on the stack")
        else:
            walk.call_unknown(0)  # the last thing a function does is to call another one
        walk.jumps.append((inside, state.copy()))
        return ()

    def _table(self, at: Instruction, name: str) -> list[int]:
        if not at.operands.startswith("[pc,"):
            raise NotUnderstood(self.code, at, "its table is not known")
        data, size = self.code.data_after(at.next), TABLES[name]
        return self._inside(at, [at.next + 2 * entry for entry in _entries(data, size, signed=False)])

    def _thumb1_switch(self, at: Instruction, switch: re.Match[str]) -> list[int]:
        size = {"qi": 1, "hi": 2, "i": 4}[switch["size"]]
        base = at.next if size < WORD else (at.next + 2) & ~3
        data = self.code.data_after(at.next)[base - at.next :]
        step = 2 if size < WORD else 1
        return self._inside(at, [base + step * entry for entry in _entries(data, size, switch["signed"] == "s")])

    def _inside(self, at: Instruction, targets: list[int]) -> list[int]:
        """All must be instructions; what fills up a table is none."""
        found = targets[:-1] if targets and targets[-1] not in self.code.lines else targets
        if not found or not all(target in self.code.lines for target in found):
            raise NotUnderstood(self.code, at, "its table is not known")
        return sorted(set(found))

    # --- what moves data ---

    def _special(self, name: str, at: Instruction, state: ArmState) -> None:
        first, _, second = (part.strip().lower() for part in at.operands.partition(","))
        if name == "mrs":
            _kill(state, first)
        elif first.startswith(("msp", "psp")) and "lim" not in first and first.removesuffix("_ns") == "msp":
            state.set(SP, state.registers.get(_index(second)))
        elif first.removesuffix("_ns") in DANGEROUS:
            raise NotUnderstood(self.code, at, "two stacks, of which one would have to be bounded")

    def _many(self, name: str, at: Instruction, state: ArmState, walk: Walk) -> Sequence[tuple[int, ArmState]] | None:
        text = at.operands
        if name in ("push", "pop", "vpush", "vpop"):
            text, name = f"sp!, {text}", {"push": "stmdb", "pop": "ldmia", "vpush": "vstmdb", "vpop": "vldmia"}[name]
        base_text, _, listed = text.partition(",")
        base, updates = _index(base_text.strip().rstrip("!")), "!" in base_text
        loads, down = "ld" in name[:3], name.endswith(("db", "ea" if "ld" in name[:3] else "fd"))
        registers = _listed(listed)
        size = _bytes_listed(listed)
        start = state.registers.get(base)
        place = start[1] - (size if down else 0) if isinstance(start, tuple) and start[0] == "sp" else None
        if updates and start is not None:
            state.set(base, _plus(start, -size if down else size))
        elif updates:
            state.set(base, None)
        found: Value | None = None
        for number, register in enumerate(registers):
            at_place = None if place is None else place + WORD * number
            if not loads:
                _save(state, at_place, state.registers.get(register) if register != base else start)
            elif register == PC:
                found = state.saved.get(at_place) if at_place is not None else None
            else:
                state.set(register, state.saved.get(at_place) if at_place is not None else None)
        if not loads and not registers and place is not None:  # of the FPU
            _forget_saved(state, place, size)
        return self._go_to_loaded(at, state, walk, found) if loads and PC in registers else None

    def _go_to_loaded(
        self, at: Instruction, state: ArmState, walk: Walk, value: Value | None
    ) -> Sequence[tuple[int, ArmState]]:
        if value is None and not state.depth and SP in state.registers:
            return ()  # what the entry's stack pointer stands above: only its caller's frame, so a return
        return self._go_to(at, state, walk, value)

    def _one(self, name: str, at: Instruction, state: ArmState, walk: Walk) -> Sequence[tuple[int, ArmState]] | None:
        """`str r0, [sp, #-4]!`, `ldrd r4, r5, [sp], #16`, `ldr pc, [r2, r3, lsl #2]`, literals."""
        loads, found = "ld" in name[:3], SLOT.match(at.operands)
        registers = [_index(r) for r in REGISTER.findall(at.operands.partition("[")[0])]
        if name.startswith("v"):
            registers = []
        whole_words = name in ("ldr", "str", "ldrd", "strd")
        place: int | None = None
        values: list[Value | None] = [None] * len(registers)
        if found is not None:
            place = self._update(state, found)
        elif "]!" in at.operands or re.search(r"\], ", at.operands):
            _kill(state, at.operands.partition("[")[2].split(",")[0].rstrip("]"))
        if loads and name == "ldr" and found is not None and found["base"] == "pc" and at.refers_to is not None:
            word = self.code.bytes_at(at.refers_to, WORD)
            values = [int.from_bytes(word, "little") if len(word) == WORD else None]
        elif loads and whole_words and place is not None:
            values = [state.saved.get(place + WORD * number) for number in range(len(registers))]
        if not loads:
            if "ex" in name:
                state.set(registers[0], None)  # whether it was stored
            self._store(name, state, place, registers)
            return None
        for register, value in zip(registers, values, strict=True):
            if register != PC:
                state.set(register, value)
        if PC not in registers:
            return None
        is_return = found is not None and found["base"] == "sp"
        value = values[registers.index(PC)]
        return self._go_to_loaded(at, state, walk, value) if is_return else self._go_to(at, state, walk, value)

    def _update(self, state: ArmState, found: re.Match[str]) -> int | None:
        """Moves the base; where the data are from the entry's SP, if that is known."""
        base = _index(found["base"])
        start = state.registers.get(base) if base != PC else None
        before, after = int(found["before"] or 0), int(found["after"] or 0)
        if base != PC and (found["update"] or found["after"] is not None):
            state.set(base, None if start is None else _plus(start, before if found["update"] else after))
        return start[1] + before if isinstance(start, tuple) and start[0] == "sp" else None

    def _store(self, name: str, state: ArmState, place: int | None, registers: list[int]) -> None:
        if place is None:
            return  # through a pointer: not into what a function has saved
        if name in ("str", "strd"):
            for number, register in enumerate(registers):
                _save(state, place + WORD * number, state.registers.get(register))
        else:
            _forget_saved(state, place, 2 * WORD)

    # --- what computes ---

    def _compute(
        self, name: str, at: Instruction, state: ArmState, walk: Walk
    ) -> Sequence[tuple[int, ArmState]] | None:
        if name.startswith(NO_RESULT) and name != "its":
            return None
        parts = [part.strip() for part in at.operands.split(",")]
        value = _result(name, parts, state)
        if name == "add" and parts[0] == "pc":
            own = self.code.span_of(at.address)
            walk.jumps.append(
                ([] if own is None else [p for p in range(own.start, own.end, 2) if self.code.at(p)], state)
            )
            return ()
        if parts[0] == "pc":
            return self._go_to(at, state, walk, value)
        if parts[0] == "sp":
            state.set(SP, value)
            return None
        _kill(state, at.operands if _has_many_results(name) else parts[0])
        if value is not None and REGISTER.fullmatch(parts[0]):
            state.set(_index(parts[0]), value)
        return None


def _has_many_results(name: str) -> bool:
    return name.startswith(("umull", "smull", "umlal", "smlal", "umaal", "smlsl", "vmov", "ldrex", "strex"))


def _result(name: str, parts: list[str], state: ArmState) -> Value | None:
    """Of sums, moves, shifts and negations of what is known."""
    plain = name.removesuffix("s")
    if len(parts) not in (2, 3):
        return None
    values = [state.registers.get(_index(part)) if REGISTER.fullmatch(part) else _number(part) for part in parts]
    first, second = values[-2], values[-1]
    if plain in ("mov", "movw") and len(parts) == 2:
        return second
    if plain in ("add", "addw"):
        return _plus(second, first) if isinstance(first, int) else _plus(first, second)
    if plain in ("sub", "subw"):
        return _plus(first, -second) if isinstance(second, int) else None
    if isinstance(second, int) and (plain in ("neg", "mvn") and len(parts) == 2):
        return (-second if plain == "neg" else ~second) & 0xFFFFFFFF
    if isinstance(first, int) and isinstance(second, int):
        return _of_numbers(plain, first, second)
    return None


def _of_numbers(name: str, first: int, second: int) -> int | None:
    if name == "lsl":
        return first << second & 0xFFFFFFFF
    if name == "rsb":
        return (second - first) & 0xFFFFFFFF
    if name == "movt":
        return (first & 0xFFFF) | second << 16
    return None


def _number(text: str) -> int | None:
    found = NUMBER.fullmatch(text)
    return int(found[1], 0) if found else None


def _plus(value: Value | None, by: Value | None) -> Value | None:
    if not isinstance(by, int) or value is None:
        return None
    if isinstance(value, int):
        return (value + by) & 0xFFFFFFFF
    if value[0] != "sp":
        return None
    return ("sp", (value[1] + by + 0x80000000) % (1 << 32) - 0x80000000)


def _save(state: ArmState, place: int | None, value: Value | None) -> None:
    if place is None:
        return
    if value is None:
        state.saved.pop(place, None)
    else:
        state.saved[place] = value


def _forget_saved(state: ArmState, place: int, size: int) -> None:
    state.saved = {at: value for at, value in state.saved.items() if not place - WORD < at < place + size}


def _kill(state: ArmState, text: str) -> None:
    """Registers that are written, or may be; SP never is without being seen."""
    for register in REGISTER.findall(text):
        if register != "sp":
            state.registers.pop(_index(register), None)


def _without_condition(name: str) -> str:
    """Of an instruction in an IT block, `popne` and `vaddne.f32` alike."""
    stem, dot, rest = name.partition(".")
    return (stem[:-2] if stem[-2:] in CONDITIONS else stem) + dot + rest


def _entries(data: bytes, size: int, signed: bool) -> Iterator[int]:
    for at in range(0, len(data) - size + 1, size):
        yield int.from_bytes(data[at : at + size], "little", signed=signed)


@functools.lru_cache(1 << 10)
def _index(register: str) -> int:
    name = register.strip()
    return ALIASES[name] if name in ALIASES else int(name[1:])


@functools.lru_cache(1 << 10)
def _listed(operands: str) -> tuple[int, ...]:
    """Of `{r4, r5, r7-r11, lr}`; none of the FPU's."""
    found: list[int] = []
    for part in operands.partition("{")[2].partition("}")[0].split(","):
        first, _, last = part.strip().partition("-")
        if REGISTER.fullmatch(first):
            found += range(_index(first), _index(last or first) + 1)
    return tuple(found)


@functools.lru_cache(1 << 10)
def _bytes_listed(operands: str) -> int:
    """On the stack, of either kind of register."""
    size = WORD * len(_listed(operands))
    for part in operands.partition("{")[2].partition("}")[0].split(","):
        first, _, last = part.strip().partition("-")
        if first[:1] in ("s", "d") and first[1:].isdigit():
            size += (int((last or first)[1:]) - int(first[1:]) + 1) * (2 * WORD if first[0] == "d" else WORD)
    return size
