"""Which board is meant by a name: `due`, `due@SERIAL`, `due@emulated`, or an instance of the user's bench file.

Exactly one board matches, or none (then the emulator), or an error lists the candidates; nothing is guessed.
"""

from __future__ import annotations

from dataclasses import dataclass

from tinyhil.errors import BoardError, ConfigError
from tinyhil.harness.boards.attached import Device, devices
from tinyhil.harness.boards.port_names import canonical, is_there, same_port
from tinyhil.harness.settings.bench_file import Instance
from tinyhil.harness.settings.config import Boards, BoardSpec

EMULATED = "emulated"
LABGRID = "labgrid://"


@dataclass(frozen=True, slots=True)
class Place:
    """A board that a run may use. `port`: path, URL or `labgrid://place`; None for an emulator and the host."""

    name: str
    board: BoardSpec
    port: str | None = None
    serial_number: str | None = None
    instance: Instance | None = None

    @property
    def lock_names(self) -> tuple[str, ...]:
        """What must be locked to use it: the board by its serial number, else by its port, and what it shares."""
        if self.port is None:
            return ()
        own = f"serial-{self.serial_number}" if self.serial_number else f"port-{_stable(self.port)}"
        shared = self.instance.lock if self.instance else None
        return tuple(sorted({own, *([f"shared-{shared}"] if shared else [])}))

    @property
    def mark_names(self) -> tuple[str, ...]:
        """Under what it is remembered as wedged; nothing for a port whose name the next board may get."""
        if self.serial_number:
            return (f"serial-{self.serial_number}",)
        if self.instance:
            return (f"instance-{self.name}",)
        passing = self.port is None or canonical(self.port).startswith("/dev/pts/")
        return () if passing else self.lock_names

    def describe(self) -> str:
        """For lists of candidates."""
        serial = f", serial number {self.serial_number}" if self.serial_number else ""
        return f"{self.name} ({self.port}{serial})"


def locate(boards: Boards, name: str, port: str | None = None) -> Place:
    """The board that `name` and --port mean. BoardError: none, several, or the wrong one is there.

    ConfigError for half a name, BoardError if several boards may be meant.
    """
    kind, at, which = name.partition("@")
    board = boards.board(kind)
    if at and not which:
        raise ConfigError(f"{name}: nothing after @; give a serial number, a role, or {kind}@{EMULATED}")
    if port == "":
        raise ConfigError("--port is empty; give a path or URL, or leave it out")
    if kind in boards.bench.boards:
        if port or which:
            raise ConfigError(f"{name}: the bench file says where {kind} is; leave out {'--port' if port else '@'}")
        return _instance(kind, board, boards.bench.boards[kind], devices())
    if board.is_host or port or which == EMULATED:
        return _as_requested(kind, which, board, port, boards)
    candidates = find(boards, kind)
    if which:
        chosen = [place for place in candidates if which in (place.serial_number, _role(place))]
        if not chosen:
            there = ", ".join(place.describe() for place in candidates) or "none"
            raise BoardError(f"no {kind} with serial number or role {which!r}; attached: {there}")
        candidates = chosen
    unnamed = [place for place in candidates if place.instance is None]
    if board.usb_shared and unnamed and not which:
        listed = ", ".join(place.describe() for place in unnamed)
        raise BoardError(
            f"{listed} may be a {kind} or any other board with such a probe; name it: --board {kind}@SERIAL, --port or "
            f"the bench file (or --board {kind}@{EMULATED})"
        )
    if len(candidates) > 1:
        listed = ", ".join(place.describe() for place in candidates)
        raise BoardError(f"{len(candidates)} boards match {name}: {listed}; choose one: --board {kind}@SERIAL, --port")
    return candidates[0] if candidates else Place(kind, board)


def find(boards: Boards, kind: str) -> list[Place]:
    """Every board of this kind that is attached or known by an address: those of the bench, then the others."""
    board, there = boards.board(kind), devices()
    places, claimed = [], set()
    for name, instance in boards.bench.boards.items():
        if instance.board != kind:
            continue
        try:
            place = _instance(name, board, instance, there)
        except BoardError:  # not attached
            continue
        places.append(place)
        claimed.add(canonical(place.port or ""))
    for device in there:
        if device.usb in board.usb and canonical(device.node) not in claimed:
            places.append(Place(kind, board, device.port, device.serial_number))
    return places


def _as_requested(kind: str, which: str, board: BoardSpec, port: str | None, boards: Boards) -> Place:
    """A board that needs no search."""
    if port is None:
        if which and which != EMULATED:
            raise BoardError(f"{kind}@{which}: the host is this computer; leave out @{which}")
        return Place(kind, board)
    if board.is_host:
        raise BoardError("the host board has no serial port; leave out --port")
    if which:
        raise ConfigError(f"{kind}@{which} and --port {port}: one of them is enough")
    if port.startswith(LABGRID):
        raise ConfigError(f"{port}: a labgrid place needs an entry in the bench file")
    node = canonical(port)
    known = next((device for device in devices() if canonical(device.node) == node), None)
    for instance in boards.bench.boards.values():  # what it shares with others is written there
        same_serial = known and known.serial_number and instance.serial == known.serial_number
        if same_serial or port == instance.address or (instance.port and canonical(instance.port) == node):
            return Place(kind, board, port, known.serial_number if known else instance.serial, instance)
    return Place(kind, board, port, known.serial_number if known else None)


def _instance(name: str, board: BoardSpec, instance: Instance, there: list[Device]) -> Place:
    """Where an instance of the bench is; BoardError if it is not attached, or another board is in its place."""
    if instance.labgrid:
        return Place(name, board, LABGRID + instance.labgrid.place, instance.serial, instance)
    if instance.address:
        return Place(name, board, instance.address, instance.serial, instance)
    at_port = instance.port and next((d for d in there if same_port(d.node, instance.port)), None)
    if instance.serial is None:
        assert instance.port is not None
        if not is_there(instance.port):
            raise BoardError(f"{name}: not attached: {instance.port} does not exist; see `hil boards scan`")
        return Place(name, board, instance.port, at_port.serial_number if at_port else None, instance)
    matching = [d for d in there if d.serial_number == instance.serial and instance.usb in (None, d.usb)]
    if at_port and at_port in matching:
        matching = [at_port]
    if len(matching) > 1:
        listed = ", ".join(f"{device.port} ({device.usb})" for device in matching)
        raise BoardError(
            f"{name}: {len(matching)} ports have serial number {instance.serial}: {listed}; add port: or usb:"
        )
    if not matching:
        found = f"{instance.port} has serial number {at_port.serial_number}" if at_port else "not attached"
        raise BoardError(f"{name}: {found}, no port has {instance.serial}; see `hil boards scan`")
    return Place(name, board, matching[0].port, instance.serial, instance)


def _role(place: Place) -> str | None:
    return place.instance.role if place.instance else None


def _stable(port: str) -> str:
    return port if "://" in port else canonical(port)
