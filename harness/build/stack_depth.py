"""The deepest stack that an image can need: the longest path through its call graph, with the deepest interrupt on top.

What a board measures depends on when bytes arrive; this does not. Frames are read from the disassembly: pushes and
allocations of each function are added up whichever branch they are on, so the result is never too small. An indirect
call may go to every function whose address appears in the image. Recursion or a frame of a size that is not constant
makes the answer unknown.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile

from tinyhil.harness.build.image import Image
from tinyhil.processes import run

SECONDS = 60.0
HEAD = re.compile(r"^([0-9a-f]+) <([^>]+)>:$")
LINE = re.compile(r"^\s+([0-9a-f]+):\t(?:[0-9a-f]{2,8} ?)+\s*\t([\w.]+)(?:\t([^;@]*))?")
TARGET = re.compile(r"([0-9a-f]+) <")
NUMBER = re.compile(r"#(-?\d+)")
ISR_AVR = re.compile(r"^__vector_\d+$")
ISR_ARM = "uart_interrupt"
EXCEPTION_BYTES = {"cortex-m0": 32, "cortex-m0plus": 32, "cortex-m3": 32}  # eight words; with a floating point unit:
EXCEPTION_FPU_BYTES = 104
ALIGNMENT_BYTES = 4  # an exception aligns the stack to eight bytes
AVR_ADDRESS_BYTES = 2
BOOT_SECTION = ".boot"  # what a reset begins with, before the code is where it runs


@dataclass(frozen=True, slots=True)
class Function:
    """`frame`: bytes it takes for itself; `calls`: name -> bytes of its return address; `exact`: nothing is unknown."""

    name: str
    address: int
    frame: int = 0
    calls: Mapping[str, int] = field(default_factory=dict)
    indirect: bool = False
    exact: bool = True


def worst_stack_bytes(image: Image, core: str) -> int | None:
    """Bytes from the top of the stack at worst; None where it can not be told (this computer, recursion)."""
    tool = {"avr": "avr-objdump"}.get(core, "arm-none-eabi-objdump" if core.startswith("cortex") else None)
    beside = image.compiler.path.with_name(tool) if tool and image.compiler.path is not None else None
    program = str(beside) if beside is not None and beside.is_file() else shutil.which(tool or "")
    if not program:
        return None
    text = run([program, "-d", str(image.elf)], SECONDS).stdout
    functions = read_functions(text, core)
    try:
        with image.elf.open("rb") as stream:
            taken = _taken(ELFFile(stream), functions, text, core)
    except (ELFError, OSError):
        return None
    return _worst(functions, taken, core)


def _worst(functions: Mapping[str, Function], taken: frozenset[str], core: str) -> int | None:
    avr = core == "avr"
    served = [name for name in functions if (ISR_AVR.match(name) if avr else name == ISR_ARM)]
    main = _depth("main", functions, taken, ())
    interrupts = [_depth(name, functions, taken, ()) for name in served]
    if main is None or None in interrupts:
        return None
    before = AVR_ADDRESS_BYTES if avr else _depth_before_main(functions)
    on_top = max((depth for depth in interrupts if depth is not None), default=None)
    if on_top is None:
        return before + main
    entry = AVR_ADDRESS_BYTES if avr else EXCEPTION_BYTES.get(core, EXCEPTION_FPU_BYTES) + ALIGNMENT_BYTES
    return before + main + entry + on_top


def _depth_before_main(functions: Mapping[str, Function]) -> int:
    """What the start-up holds when it calls main."""
    return max((f.frame for f in functions.values() if "main" in f.calls), default=0)


def _depth(name: str, functions: Mapping[str, Function], taken: frozenset[str], path: tuple[str, ...]) -> int | None:
    """Bytes that a call of `name` needs, its own return address apart; None: unknown."""
    function = functions.get(name)
    if function is None or not function.exact or name in path:
        return None
    deepest = 0
    calls = dict(function.calls)
    if function.indirect:
        address_bytes = AVR_ADDRESS_BYTES if any(calls.values()) else 0
        calls |= {other: max(address_bytes, calls.get(other, 0)) for other in taken if other not in (*path, name)}
    for other, address_bytes in calls.items():
        below = _depth(other, functions, taken, (*path, name))
        if below is None:
            return None
        deepest = max(deepest, address_bytes + below)
    return function.frame + deepest


def read_functions(text: str, core: str) -> dict[str, Function]:
    """Frames and calls of every function in a disassembly."""
    bodies = dict(_bodies(text))
    starts = {address: name for name, (address, _) in bodies.items()}
    read = _read_avr if core == "avr" else _read_arm
    found = {}
    for name, (address, lines) in bodies.items():
        function = read(Function(name, address), lines, starts)
        # a label inside a function falls through into the next: hand-written start-up code, which nobody measures
        found[name] = replace(function, calls={k: v for k, v in function.calls.items() if k != name})
    return found


def _bodies(text: str) -> Iterator[tuple[str, tuple[int, list[tuple[str, str]]]]]:
    """Name, address, and mnemonics with operands of every function."""
    name, address = "", 0
    lines: list[tuple[str, str]] = []
    for line in text.splitlines():
        head = HEAD.match(line)
        if head is not None:
            if name:
                yield name, (address, lines)
            name, address, lines = head[2], int(head[1], 16), []
            continue
        found = LINE.match(line)
        if found is not None:
            comment = line.partition(";")[2]
            lines.append((found[2], f"{found[3] or ''} ;{comment}"))
    if name:
        yield name, (address, lines)


def _read_avr(function: Function, lines: list[tuple[str, str]], starts: Mapping[int, str]) -> Function:
    """Pushes, `rcall .+0` that makes room, and what is subtracted from Y before it becomes the stack pointer."""
    frame, indirect = 0, False
    calls: dict[str, int] = {}
    low = 0
    loaded = False  # Y holds the stack pointer
    for mnemonic, operands in lines:
        if mnemonic == "push":
            frame += 1
        elif mnemonic == "rcall" and operands.startswith(".+0"):
            frame += AVR_ADDRESS_BYTES
        elif mnemonic == "in" and operands.startswith("r28, 0x3d"):
            loaded = True
        elif loaded and mnemonic == "sbiw" and operands.startswith("r28"):
            frame += int(operands.split(",")[1].split()[0], 16)
            loaded = False
        elif loaded and mnemonic == "subi" and operands.startswith("r28"):
            low = int(operands.split(",")[1].split()[0], 16)
        elif loaded and mnemonic == "sbci" and operands.startswith("r29"):
            frame += low + 256 * int(operands.split(",")[1].split()[0], 16)
            loaded = False
        elif mnemonic in ("icall", "eicall", "ijmp"):
            indirect = True
        elif mnemonic in ("call", "rcall", "jmp", "rjmp"):
            target = re.search(r"0x([0-9a-f]+)", operands)
            other = starts.get(int(target[1], 16)) if target else None
            if other is not None:
                calls[other] = max(calls.get(other, 0), AVR_ADDRESS_BYTES if "call" in mnemonic else 0)
    return replace(function, frame=frame, calls=calls, indirect=indirect)


def _read_arm(function: Function, lines: list[tuple[str, str]], starts: Mapping[int, str]) -> Function:
    """Pushes of registers, constants subtracted from the stack pointer, calls and jumps to other functions."""
    frame, indirect, exact = 0, False, True
    calls: dict[str, int] = {}
    for mnemonic, operands in lines:
        if mnemonic.startswith(("push", "vpush")) or (mnemonic.startswith("stmdb") and operands.startswith("sp!")):
            frame += _registers(operands) * (8 if mnemonic.startswith("vpush") and "{d" in operands else 4)
        elif mnemonic.startswith("sub") and operands.startswith("sp,"):
            constant = NUMBER.search(operands)
            exact &= constant is not None
            frame += int(constant[1]) if constant else 0
        elif mnemonic.startswith("str") and "[sp, #-" in operands and "]!" in operands:
            frame += -int(re.search(r"#(-\d+)", operands)[1])  # type: ignore[index]
        elif mnemonic.startswith("mov") and operands.startswith("sp,"):
            exact = False
        elif mnemonic.startswith("blx") or (mnemonic.startswith("bx") and not operands.startswith("lr")):
            indirect = True
        elif mnemonic.startswith("b") or mnemonic.startswith("cb"):
            target = TARGET.search(operands)
            other = starts.get(int(target[1], 16)) if target else None
            if other is not None:
                calls[other] = 0
    return replace(function, frame=frame, calls=calls, indirect=indirect, exact=exact)


def _registers(operands: str) -> int:
    """How many registers `{r4, r5, r7-r11, lr}` names."""
    inside = operands[operands.index("{") + 1 : operands.index("}")]
    count = 0
    for part in inside.split(","):
        first, _, last = part.strip().partition("-")
        count += 1 if not last else _index(last) - _index(first) + 1
    return count


def _index(register: str) -> int:
    named = {"sl": 10, "fp": 11, "ip": 12, "sp": 13, "lr": 14, "pc": 15}
    return named[register] if register in named else int(register[1:])


def _taken(elf: ELFFile, functions: Mapping[str, Function], text: str, core: str) -> frozenset[str]:
    """Functions whose address is a constant of the image, the start-up's apart: where an indirect call may go."""
    if core == "avr":
        pairs = re.findall(r"\tldi\tr(\d+), 0x([0-9A-F]+)[^\n]*\n[^\n]*\tldi\tr(\d+), 0x([0-9A-F]+)", text)
        words = {int(low, 16) + 256 * int(high, 16) for a, low, b, high in pairs if int(b) == int(a) + 1}
        return frozenset(f.name for f in functions.values() if f.address // 2 in words and not f.name.startswith("__"))
    words = set()
    for section in elf.iter_sections():
        starts = section.name.endswith("vector") or section.name == BOOT_SECTION
        if section["sh_flags"] & 0x2 and section["sh_type"] == "SHT_PROGBITS" and not starts:
            data = section.data()
            words |= {int.from_bytes(data[at : at + 4], "little") for at in range(0, len(data) - 3, 2)}
    return frozenset(f.name for f in functions.values() if f.address | 1 in words)
