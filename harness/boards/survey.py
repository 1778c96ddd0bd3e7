"""What there is: kinds of boards, instances of the bench, ports of this machine, and the state of each."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

from tinyhil.errors import BoardError
from tinyhil.harness.boards.attached import Device, devices
from tinyhil.harness.boards.locate import LABGRID, Place, find, locate
from tinyhil.harness.boards.locks import LockFolder
from tinyhil.harness.settings.config import Boards, BoardSpec
from tinyhil.quoting import yaml_word

REACH_S = 2.0


@dataclass(frozen=True, slots=True)
class Seen:
    """A line of `hil boards`. `state`: attached, remote, busy, reserved, wedged, emulated, absent or here."""

    name: str
    board: BoardSpec
    state: str
    where: str = ""
    detail: str = ""
    serial_number: str | None = None
    role: str | None = None


@dataclass(frozen=True, slots=True)
class Scanned:
    """A line of `hil boards scan`: a port or an address, the kinds it may be, the instance that it is."""

    where: str
    usb: str
    serial_number: str | None
    product: str
    kinds: tuple[str, ...]
    instance: str | None


def survey(boards: Boards) -> list[Seen]:
    """Every kind of board, each attached one on a line of its own, and every instance of the bench."""
    locks = LockFolder(boards.bench.locks)
    found: list[Seen] = []
    for kind, board in boards.entries.items():
        places = [place for place in find(boards, kind) if place.instance is None]
        found += [_seen(place, locks) for place in places]
        if not places:
            state = "here" if board.is_host else "emulated" if board.chip.emulator else "absent"
            found.append(Seen(kind, board, state))
    for name, instance in boards.bench.boards.items():
        try:
            found.append(_seen(locate(boards, name), locks))
        except BoardError as error:
            said = str(error).removeprefix(f"{name}: ")
            board = boards.board(name)
            found.append(Seen(name, board, "absent", "", said, instance.serial, instance.role))
    return found


def _seen(place: Place, locks: LockFolder) -> Seen:
    state, detail = state_of(place, locks)
    role = place.instance.role if place.instance else None
    return Seen(place.name, place.board, state, place.port or "", detail, place.serial_number, role)


def state_of(place: Place, locks: LockFolder) -> tuple[str, str]:
    """Who has it comes before how it is."""
    names = place.lock_names
    for name in names:
        holder = locks.holder(name)
        if holder:
            return "busy", holder.describe(place.name)
    for name in names:
        reservation = locks.reservation(name)
        if reservation:
            return "reserved", reservation.describe(place.name)
    wedged = locks.wedged(place.mark_names)
    if wedged:
        return "wedged", f"since {time.strftime('%Y-%m-%d %H:%M', time.localtime(wedged.since))}: {wedged.why}"
    if place.port is None or "://" not in place.port:
        return "attached", ""
    if place.port.startswith(LABGRID) or reachable(place.port):
        return "remote", ""
    return "absent", "nobody answers there"


def scan(boards: Boards) -> Iterator[Scanned]:
    """Every USB serial port of this machine, known or not, and the remote boards of the bench."""
    for device in devices():
        kinds = tuple(kind for kind, board in boards.entries.items() if device.usb in board.usb)
        instance = _instance_on(device, boards)
        yield Scanned(device.port, device.usb, device.serial_number, device.product, kinds, instance)
    for name, entry in boards.bench.boards.items():
        if entry.address:
            said = "answers" if reachable(entry.address) else "does not answer"
            yield Scanned(entry.address, "", entry.serial, said, (entry.board,), name)
        elif entry.labgrid:
            yield Scanned(LABGRID + entry.labgrid.place, "", entry.serial, "labgrid place", (entry.board,), name)


def _instance_on(device: Device, boards: Boards) -> str | None:
    for name in boards.bench.boards:
        try:
            if locate(boards, name).port == device.port:
                return name
        except BoardError:
            continue
    return None


def reachable(address: str) -> bool:
    """Whether something listens at an `rfc2217://` or `socket://` address; nothing is sent."""
    parts = urlsplit(address)
    try:
        socket.create_connection((parts.hostname or "", parts.port or 0), REACH_S).close()
    except OSError:
        return False
    return True


def stanza(found: Scanned, number: int) -> str:
    """The entry of a bench file for a port that has none yet. Kinds that share an identity are a choice to make."""
    kind = found.kinds[0]
    choice = f"    # or {', '.join(found.kinds[1:])}" if len(found.kinds) > 1 else ""
    key, value = ("serial", found.serial_number) if found.serial_number else ("port", found.where)
    return f"  my_{kind}_{number}:\n    board: {kind}{choice}\n    {key}: {yaml_word(value)}"
