"""Reads Renode's platform descriptions (.repl) and scripts (.resc), as far as ours use the two languages, and checks
them against the constructors of Renode 1.16: what it would refuse is found here without it.

Both return or raise `Fault`, which says file, line and reason.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, field
from pathlib import Path

NUMBER = r"0x[0-9A-Fa-f]+|[0-9]+"
NAME = r"[A-Za-z_][A-Za-z0-9_]*"
ENTRY = re.compile(rf"(?P<name>{NAME}):(?: (?P<type>{NAME}(?:\.{NAME})+) @ (?P<parent>{NAME})(?: (?P<at>{NUMBER}))?)?")
SETTING = re.compile(rf'(?P<key>{NAME}): (?P<value>"[^"]*"|true|false|{NUMBER}|{NAME})')
WIRE = re.compile(rf"(?:(?P<source>{NAME}) )?-> (?P<target>{NAME})@(?P<pin>[0-9]+)")
TAG = re.compile(rf'Tag <(?P<at>{NUMBER}) (?P<size>{NUMBER})> "(?P<name>[^"]+)"(?: (?P<value>{NUMBER}))?')


class Fault(Exception):
    pass


@dataclass(frozen=True, slots=True)
class Kind:
    """What Renode 1.16 knows of a peripheral: its size on the bus, its constructor's parameters, its outputs."""

    size: int | str | None  # bytes, or the parameter that says how many
    required: frozenset[str]
    optional: frozenset[str] = frozenset()
    outputs: frozenset[str | None] = frozenset()  # None: it has one and it needs no name


KINDS = {
    "CPU.CortexM": Kind(None, frozenset({"cpuType", "nvic"}), frozenset({"numberOfMPURegions", "cpuId"})),
    "CPU.ATmega328P": Kind(None, frozenset({"cpuType"})),  # ours, as the next
    "UART.ATmega328P_USART": Kind(7, frozenset({"cpu"})),
    "IRQControllers.NVIC": Kind(
        0x1000, frozenset(), frozenset({"systickFrequency", "priorityMask"}), frozenset({None, "IRQ"})
    ),
    "Miscellaneous.DWT": Kind(0x1000, frozenset({"frequency"})),
    "Memory.MappedMemory": Kind("size", frozenset({"size"})),
    "Memory.ArrayMemory": Kind("size", frozenset({"size"}), frozenset({"initialValue"})),
    "UART.SAM_USART": Kind(0x100, frozenset(), frozenset({"uartOnlyMode", "enablePdc"}), frozenset({None, "IRQ"})),
    "UART.STM32F7_USART": Kind(
        0x400, frozenset({"frequency"}), frozenset({"lowPowerMode"}), frozenset({"IRQ", "ReceiveDmaRequest"})
    ),
}
CPU_TYPES = {"CPU.CortexM": ("cortex-m3", "cortex-m7"), "CPU.ATmega328P": ("atmega328p",)}


@dataclass(slots=True)
class Entry:
    """One peripheral: where it is, its settings, its interrupt lines (output, target, pin)."""

    line: int
    name: str
    kind: str
    parent: str
    at: int | None
    settings: dict[str, str] = field(default_factory=dict)
    wires: list[tuple[str | None, str, int]] = field(default_factory=list)

    @property
    def size(self) -> int:
        size = KINDS[self.kind].size
        return int(self.settings[size], 0) if isinstance(size, str) else size or 0


@dataclass(frozen=True, slots=True)
class Tag:
    """A range of addresses without a model: reads give `value`."""

    line: int
    name: str
    at: int
    size: int
    value: int


@dataclass(slots=True)
class Platform:
    path: Path
    entries: dict[str, Entry] = field(default_factory=dict)
    tags: list[Tag] = field(default_factory=list)

    def ranges(self) -> list[tuple[int, int, str, int]]:
        """(first address, first beyond, name, line) of everything on the bus, in order."""
        placed = [(e.at, e.at + e.size, e.name, e.line) for e in self.entries.values() if e.at is not None]
        return sorted(placed + [(t.at, t.at + t.size, t.name, t.line) for t in self.tags])

    def what_is_at(self, address: int) -> str | None:
        return next((name for first, beyond, name, _ in self.ranges() if first <= address < beyond), None)


def read_platform(path: Path) -> Platform:
    """Parse and check; the first fault is raised."""
    platform = Platform(path)
    entry: Entry | None = None
    in_init = False
    for number, raw in enumerate(path.read_text().splitlines(), start=1):
        text = raw.split("//")[0].rstrip()
        if not text:
            continue
        depth, odd = divmod(len(text) - len(text.lstrip(" ")), 4)
        text = text.lstrip(" ")
        where = f"{path.name}:{number}"
        if odd or "\t" in raw:
            raise Fault(f"{where}: indent by four blanks")
        if depth == 0:
            entry, in_init = _begin(text, number, where, platform), False
        elif depth == 1 and entry is not None:
            in_init = text == "init:" and entry.name == "sysbus"
            if not in_init:
                _attribute(text, where, entry)
        elif depth == 2 and in_init:
            platform.tags.append(_tag(text, number, where))
        else:
            raise Fault(f"{where}: nothing to be inside of")
    _check(platform)
    return platform


def _begin(text: str, number: int, where: str, platform: Platform) -> Entry:
    match = ENTRY.fullmatch(text)
    if match is None:
        raise Fault(f"{where}: not `name: Type @ place`")
    name, kind = match["name"], match["type"]
    if kind is None:
        if name != "sysbus":
            raise Fault(f"{where}: {name} is nothing yet: it needs a type and a place")
        return Entry(number, name, "", "", None)
    if kind not in KINDS:
        raise Fault(f"{where}: unknown type {kind}")
    if name in platform.entries:
        raise Fault(f"{where}: {name} is there already")
    at = match["at"]
    platform.entries[name] = Entry(number, name, kind, match["parent"], None if at is None else int(at, 0))
    return platform.entries[name]


def _attribute(text: str, where: str, entry: Entry) -> None:
    if wire := WIRE.fullmatch(text):
        entry.wires.append((wire["source"], wire["target"], int(wire["pin"])))
    elif setting := SETTING.fullmatch(text):
        if setting["key"] in entry.settings:
            raise Fault(f"{where}: {setting['key']} twice")
        entry.settings[setting["key"]] = setting["value"].strip('"')
    else:
        raise Fault(f"{where}: neither `key: value` nor `-> target@pin`")


def _tag(text: str, number: int, where: str) -> Tag:
    match = TAG.fullmatch(text)
    if match is None:
        raise Fault(f'{where}: not `Tag <address size> "name" value`')
    return Tag(number, match["name"], int(match["at"], 0), int(match["size"], 0), int(match["value"] or "0", 0))


def _check(platform: Platform) -> None:
    for entry in platform.entries.values():
        where, kind = f"{platform.path.name}:{entry.line}: {entry.name}", KINDS[entry.kind]
        if missing := kind.required - set(entry.settings):
            raise Fault(f"{where}: needs {', '.join(sorted(missing))}")
        if unknown := set(entry.settings) - kind.required - kind.optional:
            raise Fault(f"{where}: {entry.kind} has no parameter {', '.join(sorted(unknown))}")
        if entry.parent != "sysbus" or (entry.at is None) != (entry.kind in CPU_TYPES):
            raise Fault(f"{where}: belongs on sysbus, at an address unless it is the processor")
        if entry.settings.get("cpuType") not in CPU_TYPES.get(entry.kind, (None,)):
            raise Fault(f"{where}: no processor {entry.settings['cpuType']}")
        references = [entry.settings[key] for key in ("nvic", "cpu") if key in entry.settings]
        references += [target for _, target, _ in entry.wires]
        if strangers := [name for name in references if name not in platform.entries]:
            raise Fault(f"{where}: no {', '.join(strangers)}")
        if wrong := [source for source, _, _ in entry.wires if source not in kind.outputs]:
            raise Fault(f"{where}: {entry.kind} has no output {wrong[0]}")
    ranges = platform.ranges()
    for (_, beyond, name, _), (first, _, other, line) in itertools.pairwise(ranges):
        if first < beyond:
            raise Fault(f"{platform.path.name}:{line}: {other} overlaps {name}")


# ---- scripts

TOKENS = (
    ("comment", r"#.*|:[a-z]+: .*"),
    ("string", r'"[^"\\]*"'),
    ("path", r"(?:@|\$ORIGIN/)[^\s;]+"),
    ("variable", r"\$[A-Za-z_]+"),
    ("number", r"0x[0-9A-Fa-f]+|[0-9]+(?![\w.])"),
    ("boolean", r"true|false"),
    ("word", r"[A-Za-z_][\w.]*"),
    ("blank", r"\s+"),
)
TOKEN = re.compile("|".join(f"(?P<{name}>{pattern})" for name, pattern in TOKENS))
# What the monitor understands: words that are literal, else the kind of the token.
STATEMENTS = (
    ("using", "sysbus"),
    ("include", "<path>"),
    ("mach", "create", "<string>"),
    ("machine", "LoadPlatformDescription", "<path>"),
    ("cpu", "PerformanceInMips", "<number>"),
    ("cpu", "VectorTableOffset", "<number>"),
    ("emulation", "SetGlobalAdvanceImmediately", "<boolean>"),
    ("emulation", "CreateServerSocketTerminal", "<variable>", "<string>", "<boolean>"),
    ("connector", "Connect", "<word>", "<word>"),
    ("sysbus", "LoadBinary", "<variable>", "<number>"),
    ("sysbus", "LoadHEX", "<variable>"),
    ("start",),
    ("log", "<string>"),
)
ANY_NUMBER = ("include", "log")
LOADS = ({("sysbus", "LoadBinary"), ("cpu", "VectorTableOffset")}, {("sysbus", "LoadHEX")})  # one way or the other


@dataclass(frozen=True, slots=True)
class Script:
    path: Path
    statements: tuple[tuple[str, ...], ...]

    def arguments(self, *words: str) -> tuple[str, ...]:
        """What follows `words` in the one statement that begins with them."""
        (found,) = (s[len(words) :] for s in self.statements if s[: len(words)] == words)
        return found

    @property
    def platform(self) -> Path:
        return self._file(self.arguments("machine", "LoadPlatformDescription")[0])

    @property
    def sources(self) -> tuple[Path, ...]:
        """What is compiled, in order."""
        return tuple(self._file(statement[1]) for statement in self.statements if statement[0] == "include")

    def _file(self, path: str) -> Path:
        return self.path.parent / path.removeprefix("$ORIGIN/")


def read_script(path: Path, variables: frozenset[str]) -> Script:
    """Parse and check a script that is given `variables`; the first fault is raised."""
    statements = []
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        where = f"{path.name}:{number}"
        tokens = _tokens(line, where)
        if not tokens:
            continue
        if not any(_fits(tokens, form) for form in STATEMENTS):
            raise Fault(f"{where}: not a statement of ours: {line}")
        unset = [text for kind, text in tokens if kind == "variable" and text not in variables]
        if unset:
            raise Fault(f"{where}: {unset[0]} is never set")
        statements.append(tuple(text.strip('"') for _, text in tokens))
    script = Script(path, tuple(statements))
    _check_script(script)
    return script


def _tokens(line: str, where: str) -> list[tuple[str, str]]:
    found, at = [], 0
    while at < len(line):
        match = TOKEN.match(line, at)
        if match is None:
            raise Fault(f"{where}: the monitor can not read {line[at:]!r}")
        if match.lastgroup not in ("comment", "blank"):
            found.append((str(match.lastgroup), match[0]))
        at = match.end()
    return found


def _fits(tokens: list[tuple[str, str]], form: tuple[str, ...]) -> bool:
    return len(tokens) == len(form) and all(
        wanted in (text, f"<{kind}>") for (kind, text), wanted in zip(tokens, form, strict=True)
    )


def _check_script(script: Script) -> None:
    order = [statement[: 2 if len(statement) > 1 else 1] for statement in script.statements]
    beginnings = sorted(first for first in order if first[0] not in ANY_NUMBER)
    known = {form[: 2 if len(form) > 1 else 1] for form in STATEMENTS if form[0] not in ANY_NUMBER}
    if not any(beginnings == sorted(known - other) for other in LOADS):
        raise Fault(f"{script.path.name}: a statement is missing, or there twice")
    if order[0] != ("using", "sysbus") or order[-2][0] != "start" or order[-1][0] != "log":
        raise Fault(f"{script.path.name}: begins with `using sysbus`, ends with `start` and `log`")
    if order.index(("machine", "LoadPlatformDescription")) > order.index(("connector", "Connect")):
        raise Fault(f"{script.path.name}: connects a peripheral before there is one")
    between = order[order.index(("mach", "create")) : order.index(("machine", "LoadPlatformDescription"))]
    if len(script.sources) != sum(first[0] == "include" for first in between):
        raise Fault(f"{script.path.name}: compiles without a machine, or what the platform should have had")
    for path in (script.platform, *script.sources):
        if not path.is_file():
            raise Fault(f"{script.path.name}: no {path.name}")
