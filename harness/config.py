"""boards.yaml: chips and boards as data, checked completely; every fault is reported at its line and column."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from harness.assets import asset
from tinyhil.errors import BoardError, ConfigError

NonEmpty = Annotated[str, StringConstraints(min_length=1)]
Name = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]*$")]
UsbId = Annotated[str, StringConstraints(pattern=r"^[0-9A-F]{4}:[0-9A-F]{4}$")]
PositiveInt = Annotated[int, Field(gt=0)]
Upload = Literal["arduino", "sam-ba", "stlink", "serial", "none"]
# What an emulator's numbers mean (docs/emulators.md). "function only": outputs are right, times say nothing.
Truth = Literal["exact cycles", "exact instructions, modelled cycles", "exact instructions", "function only"]
Location = tuple[str | int, ...]
Fault = tuple[int, int, str]
MAX_DEPTH = 8  # twice what a board file needs


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Emulator(_Record):
    """`process`: a program under emulators/; `{image}` and `{link}` in its arguments are filled in when it is started.

    `qemu`, `renode`: a program in PATH with a driver of its own in harness/boards/.
    """

    kind: Literal["process", "qemu", "renode"] = "process"
    program: NonEmpty
    truth: Truth
    args: tuple[str, ...]
    loader_args: tuple[str, ...] = ()  # instead of `args`: erased, in its boot loader
    upload: Upload = "none"  # how that boot loader is flashed


class Uart(_Record):
    name: NonEmpty
    rx_fifo_bytes: PositiveInt


class ChipSpec(_Record):
    """What a chip offers. The host has no limits of its own: no sizes, no UART, no emulator."""

    name: Name
    core: Literal["avr", "cortex-m3", "cortex-m7", "host"]
    flash_bytes: PositiveInt | None = None
    ram_bytes: PositiveInt | None = None
    stack_reserve_bytes: PositiveInt | None = None
    clock_hz: PositiveInt
    compiler: Literal["avr-gcc", "arm-none-eabi-gcc", "g++"]
    load: Literal["hex", "bin", "elf"]
    tick: Literal["cycles", "instructions", "nanoseconds"]
    uart: Uart | None = None
    openocd_target: NonEmpty | None = None
    emulator: Emulator | None = None
    cross_checks: dict[Name, Emulator] = {}  # other emulators of the same chip, chosen by `hil run --emulator`

    @model_validator(mode="after")
    def _a_microcontroller_has_limits(self) -> ChipSpec:
        if self.core == "host":
            return self
        needed = ("flash_bytes", "ram_bytes", "stack_reserve_bytes", "uart")
        missing = [field for field in needed if getattr(self, field) is None]
        if missing:
            raise ValueError(f"a chip needs {', '.join(missing)}")
        return self


class _BoardEntry(_Record):
    title: NonEmpty
    chip: Name
    usb: tuple[UsbId, ...] = ()
    baud: PositiveInt = 115200
    reset: Literal["on_open", "by_probe", "on_start"]
    upload: Upload
    flash_deadline_s: PositiveInt = 60


class BoardSpec(_Record):
    """A board with its chip; `name` is also the environment in platformio.ini."""

    name: Name
    title: NonEmpty
    chip: ChipSpec
    usb: tuple[UsbId, ...]
    baud: PositiveInt
    reset: Literal["on_open", "by_probe", "on_start"]
    upload: Upload
    flash_deadline_s: PositiveInt

    @property
    def is_host(self) -> bool:
        return self.chip.core == "host"

    def emulated_by(self, name: str | None) -> BoardSpec:
        """This board with another emulator of its chip; None: the usual one."""
        if name is None:
            return self
        known = self.chip.cross_checks
        if name not in known:
            listing = ", ".join(known) or "none but the usual"
            raise BoardError(f"{self.name}: no emulator named {name!r}; known: {listing}")
        return self.model_copy(update={"chip": self.chip.model_copy(update={"emulator": known[name]})})


class _File(_Record):
    chips: dict[Name, ChipSpec]
    boards: dict[Name, _BoardEntry]


class Boards(_Record):
    source: Path
    entries: dict[str, BoardSpec]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.entries)

    def board(self, name: str) -> BoardSpec:
        if name in self.entries:
            return self.entries[name]
        close = difflib.get_close_matches(name.lower(), self.names, n=1, cutoff=0.5)
        hint = f"; did you mean {close[0]}?" if close else ""
        raise BoardError(f"no board named {name!r}; known: {', '.join(self.names)}{hint}")


def load_boards(path: Path | None = None) -> Boards:
    source = path or asset("boards.yaml")
    try:
        text = source.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{source}: cannot read the board file: {error}") from error
    return parse_boards(text, source)


def parse_boards(text: str, source: Path) -> Boards:
    """The boards of a YAML text; ConfigError with one `file:line:col: message` line per fault."""
    root = _compose(text, source)
    faults: list[Fault] = []
    data = _plain(root, faults)
    unquoted = _unquoted_usb_ids(root)
    for chip_name, chip in (data.get("chips") or {}).items() if isinstance(data, dict) else ():
        if isinstance(chip, dict):
            chip.setdefault("name", chip_name)
    content = None
    try:
        content = _File.model_validate(data)
    except ValidationError as error:
        said = {(line, col) for line, col, _ in unquoted}
        found = [(*_mark(root, e["loc"]), _wording(e)) for e in error.errors()]
        faults += [fault for fault in found if fault[:2] not in said]
    if content:
        faults += _unknown_chips(content, root)
    faults += unquoted
    if faults or not content:
        raise ConfigError("\n".join(f"{source.name}:{line}:{col}: {m}" for line, col, m in sorted(set(faults))))
    entries = {
        name: BoardSpec(name=name, **{**dict(entry), "chip": content.chips[entry.chip]})
        for name, entry in content.boards.items()
    }
    return Boards(source=source, entries=entries)


def _compose(text: str, source: Path) -> yaml.Node:
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f":{mark.line + 1}:{mark.column + 1}" if mark else ""
        raise ConfigError(f"{source.name}{where}: {error.problem or error.context}") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{source.name}: {error}") from error
    if root is None:
        raise ConfigError(f"{source.name}:1:1: the file is empty")
    return root


def _fault(node: yaml.Node, message: str) -> Fault:
    return node.start_mark.line + 1, node.start_mark.column + 1, message


def _plain(node: yaml.Node, faults: list[Fault], depth: int = 0) -> Any:
    """The node as dicts, tuples (pydantic is strict) and scalars; what YAML permits and we do not becomes a fault."""
    if depth > MAX_DEPTH:
        faults.append(_fault(node, "nested too deeply (an alias that contains itself?)"))
        return None
    if isinstance(node, yaml.MappingNode):
        result: dict[Any, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                faults.append(_fault(key_node, "a key must be a word"))
                continue
            key = _scalar(key_node, faults)
            if key in result:
                faults.append(_fault(key_node, f"duplicate key {key}"))
            else:
                result[key] = _plain(value_node, faults, depth + 1)
        return result
    if isinstance(node, yaml.SequenceNode):
        return tuple(_plain(item, faults, depth + 1) for item in node.value)
    return _scalar(node, faults)


def _scalar(node: yaml.Node, faults: list[Fault]) -> Any:
    loader = yaml.SafeLoader("")
    try:
        return loader.construct_object(node)
    except (ValueError, yaml.YAMLError) as error:
        faults.append(_fault(node, str(error).splitlines()[0]))
        return None
    finally:
        loader.dispose()


def _children(node: yaml.Node) -> Iterator[tuple[str | int, yaml.Node, yaml.Node]]:
    """(key, the node to point at, the value) of a mapping or sequence."""
    if isinstance(node, yaml.MappingNode):
        for key_node, value_node in node.value:
            yield str(key_node.value), key_node, value_node
    elif isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            yield index, item, item


def _mark(root: yaml.Node, location: Location) -> tuple[int, int]:
    """Line and column of the deepest existing node on the way to `location`: the value, or the key of a mapping."""
    node, point = root, root
    for step in location:
        found = next(((p, v) for key, p, v in _children(node) if key == step), None)
        if found is None:
            break
        point, node = found
    if isinstance(node, yaml.ScalarNode):
        point = node
    return point.start_mark.line + 1, point.start_mark.column + 1


def _unquoted_usb_ids(root: yaml.Node) -> list[Fault]:
    """YAML reads 0043 as an octal number and 2341:43 as sexagesimal: identities must be quoted."""
    faults = []
    for _, _, boards in _children(root):
        for _, _, board in _children(boards):
            for key, _, ids in _children(board):
                if key != "usb":
                    continue
                for _, _, item in _children(ids):
                    if isinstance(item, yaml.ScalarNode) and item.style not in ("'", '"'):
                        said = f'quote the USB identity: "{item.value}" (VID:PID, as in "2341:0043")'
                        faults.append(_fault(item, said))
    return faults


def _unknown_chips(content: _File, root: yaml.Node) -> list[Fault]:
    known = ", ".join(content.chips)
    return [
        (*_mark(root, ("boards", name, "chip")), f"boards.{name}.chip: no chip named {entry.chip!r}; known: {known}")
        for name, entry in content.boards.items()
        if entry.chip not in content.chips
    ]


def _wording(error: Any) -> str:
    location = ".".join(str(step) for step in error["loc"] if step != "[key]")
    message = {
        "missing": "missing",
        "extra_forbidden": "unknown key",
        "string_pattern_mismatch": f"{error['input']!r} does not match {error.get('ctx', {}).get('pattern')}",
    }.get(error["type"], str(error["msg"]).removeprefix("Value error, "))
    return f"{location}: {message}" if location else message
