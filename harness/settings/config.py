"""boards.yaml: chips and boards as data, checked completely; every fault is reported at its line and column."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Literal

import yaml
from pydantic import Field, field_validator, model_validator

from tinyhil.crossbars.hardware import Hardware
from tinyhil.errors import BoardError, did_you_mean
from tinyhil.harness.settings.assets import asset
from tinyhil.harness.settings.bench_file import Bench, default_bench, parse_bench
from tinyhil.harness.settings.chip_like import complete_chips
from tinyhil.harness.settings.crossbars import WithCrossbars, make_hardware, require_known
from tinyhil.harness.settings.emulator_entry import Emulator, Machine, Upload
from tinyhil.harness.settings.spelled import Name, Pin, Reset, SerialPort, UartName, UsbId, Word
from tinyhil.harness.settings.yaml_file import (
    Fault,
    Line,
    NonEmpty,
    PositiveInt,
    Record,
    mark,
    parse,
    read_text,
)

Supply = Literal["smps", "ldo"]


class Uart(Record):
    """The serial port through which a chip talks."""

    name: UartName


class DebugId(Record):
    """What a debugger reads of the chip before it writes anything: word at `address`, and `mask`, is `value`."""

    address: PositiveInt
    mask: PositiveInt
    value: PositiveInt


class HotSpec(Record):
    """The region that constants are copied to, beside main RAM and `stack_bytes` of stack if these fit, or main RAM
    itself, where `code_bytes` of kernels may lie as well, and the size of the data cache before the flash
    (tinyhil/passes/hot.py)."""

    region: Name | None = None
    stack_bytes: PositiveInt
    code_bytes: PositiveInt | None = None
    cache_bytes: PositiveInt | None = None


STACK_ALIGNMENT = 8  # bytes; of an ARM's procedure call standard
OF_ANY_CLOCK = ("avr", "host")  # their clock is that of the board's crystal, or the computer's


class ChipSpec(WithCrossbars):
    """What a chip offers. The host has no limits of its own: no sizes, no UART, no emulator.

    `crossbars`: the constants of an accelerator, whose layers are carried out by crossbars and cost what they say.
    """

    name: Name
    like: Name | None = None  # has what that chip has, but what is said of this one
    hal: Name  # folder in firmware/hal/: the chip's name, or that of the one it is like
    emulated_as: Name  # a chip that ships, which its emulator knows: itself, or the one it is like
    core: Literal["avr", "cortex-m0plus", "cortex-m3", "cortex-m4", "cortex-m7", "cortex-m33", "host"]
    machine: Machine = ""  # the compiler's options for the core
    flash_bytes: PositiveInt | None = Field(None, description="that a program may use")
    flash_start: PositiveInt | None = Field(None, description="address of the program, where a boot loader says so")
    ram_bytes: PositiveInt | None = Field(None, description="of static data and the stack together")
    stack_reserve_bytes: PositiveInt | None = Field(None, description="of ram_bytes, that no static data may take")
    regions: dict[Name, PositiveInt] = Field(
        default_factory=dict, description="bytes of memories beside ram_bytes, for tensors alone"
    )
    hot: HotSpec | None = Field(None, description="where constants that are read most are copied to")
    clock_hz: PositiveInt = Field(description="what the firmware of the chip (hal) sets up; on AVR the crystal's")
    other_clocks_hz: tuple[PositiveInt, ...] = Field((), description="that a chip or board may choose as its clock_hz")
    reset_clock_hz: PositiveInt | None = Field(None, description="after a reset, where `supplies` decide on another")
    compiler: Literal["avr-gcc", "arm-none-eabi-gcc", "g++"]
    load: Literal["hex", "bin", "uf2", "elf"]
    tick: Literal["cycles", "instructions", "nanoseconds"]
    uart: Uart | None = None
    uf2_family: PositiveInt | None = None  # of chips that take an image as a UF2 file
    drive_id: Word | None = None  # of a UF2 boot loader in ROM; else the board's
    openocd_target: Word | None = None
    debug_id: DebugId | None = None
    supplies: tuple[Supply, ...] = ()  # regulators that may feed the core, if the firmware can choose
    emulator: Emulator | None = None
    # other emulators of the same chip, chosen by `hil run --emulator`
    cross_checks: dict[Name, Emulator] = Field(default_factory=dict)

    @property
    def static_ram_bytes(self) -> int | None:
        """RAM that static data may take, without the reserve for the stack; None: no limit."""
        return None if self.ram_bytes is None else self.ram_bytes - (self.stack_reserve_bytes or 0)

    @model_validator(mode="after")
    def _hot_constants_have_a_region(self) -> ChipSpec:
        if self.hot is not None and self.hot.region not in (None, *self.regions):
            raise ValueError(f"hot: no region '{self.hot.region}'; regions: {', '.join(self.regions) or 'none'}")
        return self

    @model_validator(mode="after")
    def _uf2_files_are_for_a_family(self) -> ChipSpec:
        if self.load == "uf2" and self.uf2_family is None:
            raise ValueError("load: uf2 needs uf2_family")
        return self

    @model_validator(mode="after")
    def _a_microcontroller_has_limits(self) -> ChipSpec:
        if self.core == "host":
            return self
        needed = ("machine", "flash_bytes", "ram_bytes", "stack_reserve_bytes", "uart")
        missing = [field for field in needed if not getattr(self, field)]
        if missing:
            raise ValueError(f"a chip needs {', '.join(missing)}")
        if (self.ram_bytes or 0) % STACK_ALIGNMENT and self.core != "avr":
            raise ValueError(
                f"ram_bytes {self.ram_bytes}: the stack begins at its end, a multiple of {STACK_ALIGNMENT}"
            )
        if (self.static_ram_bytes or 0) <= 0:
            reserve = f"stack_reserve_bytes, {self.stack_reserve_bytes}"
            raise ValueError(
                f"ram_bytes {self.ram_bytes}: the reserve for the stack ({reserve}) leaves none; give a smaller one"
            )
        return self


class _Board(Record):
    title: NonEmpty
    vendor: Line = ""
    url: Line = ""
    usb: tuple[UsbId, ...] = ()
    usb_shared: bool = False  # boards of other kinds have the same identity: one must be named to be used
    baud: PositiveInt = 115200
    reset: Literal["on_open", "by_probe", "on_start"]
    upload: Upload
    upload_baud: PositiveInt | None = None  # of the boot loader, if it is not `baud`
    upload_port: SerialPort | None = None  # of the boot loader, if it is not that of the wire
    programmer_part: Word | None = None  # the chip's name for avrdude, if it is not the chip's own
    drive_id: Word | None = None  # by which the drive of the board's UF2 boot loader is known
    probe_reset: Reset | None = None  # openocd's reset_config of this board
    flash_deadline_s: PositiveInt = 60
    supply: Supply | None = None  # how the board is wired; None: the firmware leaves it alone
    gate: Pin | None = None  # high while an inference is computed, for a power meter
    pulse: Pin | None = None  # an edge per timestamp of MLPerf Tiny's energy mode
    crossbars: dict[str, float] = Field(default_factory=dict)  # what this board's accelerator has otherwise

    @field_validator("crossbars")
    @classmethod
    def _crossbars_are_known(cls, given: dict[str, float]) -> dict[str, float]:
        require_known(given)
        return given


class _BoardEntry(_Board):
    chip: Name
    clock_hz: PositiveInt | None = None  # None: the chip's

    def chip_of(self, chips: Mapping[Name, ChipSpec]) -> ChipSpec:
        """The chip at the clock of this board."""
        chip = chips[self.chip]
        return chip if self.clock_hz is None else chip.model_copy(update={"clock_hz": self.clock_hz})


class BoardSpec(_Board):
    """A board with its chip; `name` is also its environment in platformio.ini."""

    name: Name
    chip: ChipSpec

    @property
    def is_host(self) -> bool:
        """This computer: no image, no flash, times of its own clock."""
        return self.chip.core == "host"

    @property
    def lacks_supply(self) -> bool:
        """Its firmware may not choose how the core is fed, so that it stays at another clock, that after reset."""
        return bool(self.chip.supplies) and self.supply is None and self.chip.clock_hz != self.chip.reset_clock_hz

    @property
    def clock_hz(self) -> int:
        """At which its core runs."""
        after_reset = self.chip.reset_clock_hz if self.lacks_supply else None
        return after_reset or self.chip.clock_hz

    @property
    def part(self) -> str:
        """What avrdude calls the chip: as said, else its name, or that of the one it is like."""
        return self.programmer_part or (self.chip.hal if self.chip.core == "avr" else self.chip.name)

    @property
    def hardware(self) -> Hardware | None:
        """The accelerator that this board is, if it is one; ConfigError for values that are not modelled."""
        return None if self.chip.crossbars is None else make_hardware(self.chip.crossbars, self.crossbars)

    def emulated_by(self, name: str | None) -> BoardSpec:
        """This board with another emulator of its chip; None: the usual one.

        BoardError if there is no such emulator.
        """
        if name is None:
            return self
        known = self.chip.cross_checks
        if name not in known:
            listing = ", ".join(known) or "none but the usual"
            raise BoardError(f"{self.name}: no emulator named {name!r}; known: {listing}")
        return self.model_copy(update={"chip": self.chip.model_copy(update={"emulator": known[name]})})


class Content(Record):
    """What a board file says."""

    chips: dict[Name, ChipSpec] = Field(default_factory=dict)
    boards: dict[Name, _BoardEntry]


class Boards(Record):
    """`entries`: kinds of boards; `bench`: those that stand on the user's desk, by the file `bench_source`."""

    source: Path
    entries: dict[str, BoardSpec]
    bench: Bench = Bench()
    bench_source: Path | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Kinds of boards, in the order of boards.yaml; none of the bench's."""
        return tuple(self.entries)

    def repeated(self, command: str) -> str:
        """A `hil` command with the files that say which boards there are, where they are not those that it reads by
        itself: without them it would not know these. Calls from Python stay as they are."""
        if not command.startswith("hil "):
            return command
        boards = [] if self.source == asset("boards.yaml") else ["--boards-file", str(self.source)]
        bench = [] if self.bench_source in (None, default_bench()) else ["--bench", str(self.bench_source)]
        return " ".join([command, *map(shlex.quote, [*boards, *bench])])

    def board(self, name: str) -> BoardSpec:
        """The kind of board that `name` means: a kind, an instance of the bench, or `kind@which`.

        BoardError lists the known names.
        """
        kind = name.partition("@")[0]
        if kind in self.bench.boards:
            kind = self.bench.boards[kind].board
        if kind in self.entries:
            return self.entries[kind]
        known = (*self.names, *self.bench.boards)
        chips = {board.chip.name: name for name, board in reversed(self.entries.items())}
        hint = did_you_mean(kind, known, chips)
        own = "; a board of yours: --boards-file FILE" if self.source == asset("boards.yaml") else ""
        raise BoardError(f"no board named {kind!r}; {hint}known: {', '.join(known)}{own}")


def load_boards(path: Path | None = None, bench: Path | None = None) -> Boards:
    """The boards of boards.yaml, those of the board file `path` beside them (or in the place of a board of that name),
    and the instances of a user's bench file if one is named (docs/bench.md)."""
    shipped = asset("boards.yaml")
    content, boards = _shipped(read_text(shipped, "board file"), shipped)
    if path is not None:
        boards = _boards(_parse(read_text(path, "board file"), path, content), path)
    if bench is None:
        return boards
    found = parse_bench(read_text(bench, "bench file"), bench, boards.names)
    return boards.model_copy(update={"bench": found, "bench_source": bench})


def parse_boards(text: str, source: Path) -> Boards:
    """The boards of a YAML text alone; ConfigError with one `file:line:col: message` line per fault."""
    return _boards(_parse(text, source, None), source)


@lru_cache(maxsize=1)
def _shipped(text: str, source: Path) -> tuple[Content, Boards]:
    """The same text says the same, whoever asks next; nothing of it can be changed."""
    content = _parse(text, source, None)
    return content, _boards(content, source)


def _parse(text: str, source: Path, beside: Content | None) -> Content:
    """What `text` says, together with what it stands beside."""
    known = {} if beside is None else {name: chip.model_dump() for name, chip in beside.chips.items()}
    others = beside or Content(boards={})

    def both(own: Content) -> Content:
        return Content(chips={**others.chips, **own.chips}, boards={**others.boards, **own.boards})

    own = parse(
        text,
        source,
        Content,
        lambda data, root: complete_chips(data, root, known),
        lambda own, root: _contradictions(own, both(own).chips, root),
    )
    return both(own)


def _boards(content: Content, source: Path) -> Boards:
    entries = {
        name: BoardSpec(name=name, chip=entry.chip_of(content.chips), **entry.model_dump(exclude={"chip", "clock_hz"}))
        for name, entry in content.boards.items()
    }
    return Boards(source=source, entries=entries)


MOST_BAUD_ERROR = 0.042  # either side, that eight bits tolerate
USUAL_BAUD = (1_000_000, 500_000, 250_000, 115_200, 57_600, 38_400, 19_200, 9_600, 4_800, 2_400, 1_200, 300)
REMEDY = "; give that, or leave clock_hz out: another clock needs a firmware/hal/ of its own"


def _contradictions(own: Content, chips: dict[Name, ChipSpec], root: yaml.Node) -> list[Fault]:
    faults = []
    for name, model in own.chips.items():
        shipped = chips.get(model.hal, model)
        clocks = (shipped.clock_hz, *shipped.other_clocks_hz)
        if model.core not in OF_ANY_CLOCK and model.clock_hz not in clocks:
            known = " or ".join(map(str, clocks))
            why = f"chips.{name}.clock_hz: {model.clock_hz}, but the firmware of {model.hal} sets up {known}{REMEDY}"
            faults.append((*mark(root, ("chips", name, "clock_hz")), why))
        faults += [(*mark(root, ("chips", name, key)), why) for key, why in _more_than_emulated(name, model, shipped)]
    for name, entry in own.boards.items():
        chip = chips.get(entry.chip)
        if chip is None:
            why = f"boards.{name}.chip: no chip named {entry.chip!r}; known: {', '.join(chips)}"
            faults.append((*mark(root, ("boards", name, "chip")), why))
            continue
        if entry.upload == "uf2" and not (entry.drive_id or chip.drive_id):
            why = f"boards.{name}.upload: uf2 needs the drive_id, a boot loader's Board-ID in its INFO_UF2.TXT"
            faults.append((*mark(root, ("boards", name, "upload")), why))
        if entry.supply is not None and entry.supply not in chip.supplies:
            known = " or ".join(chip.supplies) or "none"
            why = f"boards.{name}.supply: {entry.supply!r}, but {entry.chip} lets the firmware choose {known}"
            faults.append((*mark(root, ("boards", name, "supply")), why))
        if why := _baud_off(entry.baud, entry.clock_hz or chip.clock_hz) if chip.core == "avr" else "":
            faults.append((*mark(root, ("boards", name, "baud")), f"boards.{name}.baud: {why}"))
        clocks = (chip.clock_hz, *chip.other_clocks_hz)
        if entry.clock_hz is not None and chip.core not in OF_ANY_CLOCK and entry.clock_hz not in clocks:
            known = " or ".join(map(str, clocks))
            why = f"boards.{name}.clock_hz: {entry.clock_hz}, but the firmware of {entry.chip} sets up {known}{REMEDY}"
            faults.append((*mark(root, ("boards", name, "clock_hz")), why))
    return faults


def _more_than_emulated(name: str, model: ChipSpec, shipped: ChipSpec) -> list[tuple[str, str]]:
    """Memory that the chip has not as which this one is emulated: the key, and why."""
    if model.emulator is None or model.emulator != shipped.emulator:
        return []
    sizes = ((key, getattr(model, key), getattr(shipped, key)) for key in ("ram_bytes", "flash_bytes"))
    return [
        (key, f"chips.{name}.{key}: {own}, but it is emulated as {model.hal}, which has {has}; give at most that")
        for key, own, has in sizes
        if own is not None and has is not None and own > has
    ]


def _baud_off(baud: int, clock_hz: int) -> str:
    """Why an AVR at this clock can not receive at this rate (ATmega328P, sections 19.3 and 19.8: a byte tolerates
    4.2 %); empty if it can."""

    def nearest(asked: int) -> float:
        divider = (clock_hz // 4 // asked + 1) // 2  # as firmware/hal/atmega328p/hal.cpp has it, one less in 12 bits
        return clock_hz / 8 / min(max(divider, 1), 4096)

    def error(asked: int) -> float:
        return nearest(asked) / asked - 1

    if abs(error(baud)) <= MOST_BAUD_ERROR:
        return ""
    fits = next((f"; give baud: {rate}" for rate in USUAL_BAUD if abs(error(rate)) <= MOST_BAUD_ERROR), "")
    return (
        f"{baud}, but at {clock_hz / 1e6:g} MHz the nearest is {nearest(baud):,.0f} ({100 * error(baud):+.1f} %){fits}"
    )
