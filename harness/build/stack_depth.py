"""The deepest stack that an image can need: the longest path through its call graph, with interrupts on top.

What a board measures depends on when bytes arrive; this does not. Every path from the reset is followed
(`stack_walk.py`); an indirect call may go to every function whose address appears in the image. What is not understood,
a call of itself, an amount that only the program knows, leaves no bound but the reason.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elftools.common.exceptions import ELFError

from tinyhil.harness.build.disassembly import Code, read_code
from tinyhil.harness.build.image import Image
from tinyhil.harness.build.stack_arm import NUMBER, Arm
from tinyhil.harness.build.stack_avr import ADDRESS_BYTES, Avr
from tinyhil.harness.build.stack_walk import Core, Given, NotUnderstood, Walk, walk
from tinyhil.processes import run

SECONDS = 60.0
BEHIND_VECTORS = "__trampolines_start"  # of avr-libc's linker scripts
VECTORS = ".isr_vector"
FIRST_SERVED = 11  # exceptions below are faults
LOADED = re.compile(r"r(\d+), 0x([0-9A-Fa-f]+)")
CLONE = re.compile(r"\.(constprop|isra|part)\.\d+")
NEAR = 12  # instructions between the two halves of an address
WITHOUT_FPU = ("cortex-m0", "cortex-m0plus", "cortex-m3", "cortex-m23")
FRAME_BYTES, FPU_FRAME_BYTES = 32, 104  # eight words; with the registers of the floating point unit
ALIGNMENT_BYTES = 4  # an exception aligns the stack to eight bytes
BOOT = (VECTORS, ".boot")  # hold the addresses of what a reset and exceptions begin with


@dataclass(frozen=True, slots=True)
class StackBound:
    """`limit_bytes` from the top of the stack; None where it is not known, and `unknown` says why.

    Both are empty where no image is looked into: this computer's.
    """

    limit_bytes: int | None
    unknown: str = ""


@dataclass(frozen=True, slots=True)
class Entry:
    """A function, and what is known when it is entered."""

    start: int
    is_interrupt: bool = False
    given: Given = ()


class Depths:
    """Bounds of the functions of one image, by the addresses that they begin at."""

    def __init__(self, core: Core[Any], taken: Collection[int]) -> None:
        self._core = core
        self._taken = taken
        self._walks: dict[Entry, Walk] = {}
        self._limits: dict[Entry, int] = {}

    def walk(self, entry: Entry) -> Walk:
        """Of the function itself. NotUnderstood."""
        if entry not in self._walks:
            self._walks[entry] = walk(self._core, entry.start, entry.is_interrupt, entry.given)
        return self._walks[entry]

    def limit_bytes(self, entry: Entry, path: tuple[Entry, ...] = ()) -> int:
        """With all that it calls, below the stack pointer that it is entered with. NotUnderstood."""
        known = self._limits.get(entry)
        if known is not None:
            return known
        if entry in path:
            names = " > ".join(self._core.code.name_of(e.start) for e in (*path[path.index(entry) :], entry))
            raise NotUnderstood(self._core.code, entry.start, f"calls itself: {names}")
        found = self.walk(entry)
        deepest = found.deepest
        for callee, depth in self._calls(found):
            deepest = max(deepest, depth + self.limit_bytes(callee, (*path, entry)))
        self._limits[entry] = deepest
        return deepest

    def _calls(self, found: Walk) -> Iterator[tuple[Entry, int]]:
        """What it is given matters to a function that calls through pointers, and to those that hand it on."""
        for (target, given), depth in found.calls.items():
            yield Entry(target, given=given), depth
        if found.indirect is not None:
            for target in self._taken:
                yield Entry(target), found.indirect

    def reached(self, entry: Entry) -> list[Walk]:
        """Of a function and all that it calls. NotUnderstood."""
        found = {entry: self.walk(entry)}
        waiting = [entry]
        while waiting:
            for callee, _ in self._calls(found[waiting.pop()]):
                if callee not in found:
                    found[callee] = self.walk(callee)
                    waiting.append(callee)
        return list(found.values())

    def functions(self) -> dict[int, tuple[int, int]]:
        """Bytes of each that was looked at, by its address: its own, and with all that it calls; what begins the stack
        anew is part of it."""
        found: dict[int, tuple[int, int]] = {}
        for entry in self._limits:
            parts = [entry, *map(Entry, self._walks[entry].restarts)]
            own, everything = found.get(entry.start, (0, 0))
            own = max(own, *(self._walks[part].deepest for part in parts))
            found[entry.start] = own, max(everything, *(self._limits[part] for part in parts))
        return found

    def program_bytes(self, start: int) -> int:
        """From a reset on, or whatever else begins the stack anew. NotUnderstood."""
        limits, waiting = {}, [start]
        while waiting:
            one = waiting.pop()
            if one not in limits:
                limits[one] = self.limit_bytes(Entry(one))
                waiting += [place for walked in self.reached(Entry(one)) for place in walked.restarts]
        return max(limits.values())


def stack_bound(image: Image, core: str) -> StackBound:
    """Of an image for a core as boards.yaml names it."""
    if core != "avr" and not core.startswith("cortex"):
        return StackBound(None)
    try:
        return StackBound(bound_bytes(disassemble(image, core), core)[0])
    except (NotUnderstood, ELFError, OSError) as problem:
        return StackBound(None, str(problem))


def disassemble(image: Image, core: str) -> Code:
    """OSError without objdump; ELFError if the image is no ELF file."""
    return _code_of(image.elf, core, image.compiler.path)


def _code_of(elf: Path, core: str, compiler: Path | None = None) -> Code:
    tool = "avr-objdump" if core == "avr" else "arm-none-eabi-objdump"
    beside = compiler.with_name(tool) if compiler is not None else None
    program = str(beside) if beside is not None and beside.is_file() else tool
    return read_code(run([program, "-d", str(elf)], SECONDS).stdout, elf)


def call_bound(elf: Path, core: str, function: str) -> StackBound:
    """Of one call of a function in a linked program, its return address included, interrupts not."""
    try:
        code = _code_of(elf, core)
        entry = Entry(code.symbols[function] & ~1)
        if core == "avr":
            return StackBound(ADDRESS_BYTES + _depths_avr(code).limit_bytes(entry))
        return StackBound(Depths(Arm(code, 0), _taken_arm(code)).limit_bytes(entry))
    except (NotUnderstood, ELFError, OSError) as problem:
        return StackBound(None, str(problem))


def bound_bytes(code: Code, core: str) -> tuple[int, Depths]:
    """Of a whole image, and of its functions. NotUnderstood."""
    if core == "avr":
        depths = _depths_avr(code)
        return _avr_bytes(code, depths), depths
    vectors = _vectors(code)
    depths = Depths(Arm(code, vectors[0]), _taken_arm(code))
    return _arm_bytes(vectors, depths, core), depths


def _depths_avr(code: Code) -> Depths:
    return Depths(Avr(code, code.symbols.get("__stack", 0), _constructors(code)), _taken_avr(code))


def _avr_bytes(code: Code, depths: Depths) -> int:
    """One interrupt at a time: it keeps others out until it returns."""
    on_top = 0
    for slot in _slots(code)[1:]:
        entry = Entry(slot, is_interrupt=True)
        for walked in depths.reached(entry):
            if walked.enables is not None:
                raise NotUnderstood(code, walked.enables, "interrupts interrupt each other")
        on_top = max(on_top, ADDRESS_BYTES + depths.limit_bytes(entry))
    return depths.program_bytes(0) + on_top


def _slots(code: Code) -> list[int]:
    """Of the vector table: jumps from address 0 on, up to where constants begin, of which some look like jumps.
    NotUnderstood without that place."""
    end = code.symbols.get(BEHIND_VECTORS)
    if end is None:
        raise NotUnderstood(code, 0, f"no symbol {BEHIND_VECTORS}: where the vector table ends is not known")
    found, at = [], code.at(0)
    while at is not None and at.address < end and at.mnemonic in ("jmp", "rjmp"):
        found.append(at.address)
        at = code.at(at.next)
    return found


def _arm_bytes(vectors: Sequence[int], depths: Depths, core: str) -> int:
    """Priorities are not looked at: each of the exceptions that are served may interrupt all others, once. Faults end
    the program; what they need after that counts if it is more."""
    entry_bytes = ALIGNMENT_BYTES + (FRAME_BYTES if core in WITHOUT_FPU else FPU_FRAME_BYTES)
    program, on_top = depths.program_bytes(vectors[1] & ~1), 0
    faults = {vector & ~1 for vector in vectors[2:FIRST_SERVED] if vector}
    for handler in {vector & ~1 for vector in vectors[2:] if vector}:
        if handler in faults and any(walked.restarts for walked in depths.reached(Entry(handler))):
            program = max(program, depths.program_bytes(handler))
        else:
            on_top += entry_bytes + depths.limit_bytes(Entry(handler))
    return program + on_top


def _vectors(code: Code) -> list[int]:
    """First the stack pointer, then the handlers by their number. NotUnderstood without a table."""
    for name, _, data in code.contents:
        if name == VECTORS:
            return [int.from_bytes(data[at : at + 4], "little") for at in range(0, len(data), 4)]
    raise NotUnderstood(code, 0, f"no section {VECTORS}: where a reset begins is not known")


def _taken_arm(code: Code) -> list[int]:
    """Functions whose address is a constant of the image: where an indirect call may go. Not the vectors, and not the
    start-up, which calls main and is entered once; nor GCC's clones, made for direct calls alone: code that is copied
    to an address such as 0x40 looks like a small number of the data."""
    if not code.spans:
        return []
    main = code.symbols.get("main", 0) & ~1
    calls_main = {at.address for at in map(code.at, code.lines) if at and at.refers_to == main and at.mnemonic == "bl"}
    start_up = {span.start for span in code.spans if any(span.start <= address < span.end for address in calls_main)}
    words = {word for word in code.words_between(code.spans[0].start, code.spans[-1].end, but=BOOT) if word & 1}
    found = {word & ~1 for word in words | _moved_words(code)} & code.functions - start_up
    return sorted(start for start in found if not CLONE.search(code.name_of(start)))


def _moved_words(code: Code) -> set[int]:
    """`movw r3, #0x1234`, `movt r3, #0x800`: all halves that could be one's."""
    halves: dict[str, set[int]] = {"movw": set(), "movt": set()}
    for _, mnemonic, operands in code.lines.values():
        number = NUMBER.search(operands) if mnemonic in halves else None
        if number is not None:
            halves[mnemonic].add(int(number[1], 0))
    return {low + (high << 16) for low in halves["movw"] for high in halves["movt"]}


def _constructors(code: Code) -> list[int]:
    first, last = (code.symbols.get(f"__ctors_{end}", 0) for end in ("start", "end"))
    words = code.bytes_at(first, last - first)
    return [2 * int.from_bytes(words[at : at + 2], "little") for at in range(0, len(words), 2)]


def _taken_avr(code: Code) -> list[int]:
    """The same by addresses of words: loaded as two bytes, or in data."""
    words = _loaded_words(code)
    for section, _, data in code.contents:
        if section == ".data":
            words |= {int.from_bytes(data[at : at + 2], "little") for at in range(len(data) - 1)}
    return sorted({2 * word for word in words} & code.functions - {0})


def _loaded_words(code: Code) -> set[int]:
    """`ldi r24, 0x12` and, not far behind, `ldi r25, 0x34`."""
    found: set[int] = set()
    low: dict[int, tuple[int, int]] = {}
    for number, (_, mnemonic, operands) in enumerate(code.lines.values()):
        loaded = LOADED.match(operands) if mnemonic == "ldi" else None
        if loaded is None:
            continue
        register, value = int(loaded[1]), int(loaded[2], 16)
        low[register] = (number, value)
        at, below = low.get(register - 1, (-NEAR, 0))
        if register % 2 and number - at < NEAR:
            found.add(below + 256 * value)
    return found
