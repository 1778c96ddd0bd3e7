"""A user's bench file: which boards stand on the desk or in a farm, and how they are reached (docs/bench.md). It may be
somebody else's: nothing in it is executed, or opened as anything but a port, or names a program.

It never describes kinds of boards, which is the duty of boards.yaml; it names instances of them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import yaml
from pydantic import AfterValidator, Field, model_validator

from tinyhil.harness.settings.spelled import Address, DottedWord, HostWord, Hub, Name, Place, UsbId
from tinyhil.harness.settings.yaml_file import Fault, NonEmpty, PositiveInt, Record, mark, parse


def _path(port: str) -> str:
    """No URL: pyserial knows some that write files."""
    if "://" in port:
        raise ValueError(f"{port!r} is no path; a board behind rfc2217:// or socket:// has an `address`")
    return port


class Power(Record):
    """A hub port that uhubctl can switch: `hub` and `port` as uhubctl prints them."""

    hub: Hub
    port: PositiveInt
    off_s: PositiveInt = 2


class Labgrid(Record):
    """A place of a labgrid coordinator. `coordinator`: HOST[:PORT], else that of LG_COORDINATOR."""

    place: Place
    coordinator: HostWord | None = None
    options: DottedWord | None = None  # of pyserial's URL: ign_set_control, for a port without modem lines


class Instance(Record):
    """One board. Local by `serial` number, `port` or both; or remote by `address`, or as a `labgrid` place."""

    board: Name
    serial: DottedWord | None = None
    usb: UsbId | None = None  # of an adapter that boards.yaml does not list
    port: Annotated[NonEmpty, AfterValidator(_path)] | None = None
    address: Address | None = None
    labgrid: Labgrid | None = None
    role: DottedWord | None = None
    power: Power | None = None
    lock: DottedWord | None = None  # boards that name the same lock are never used at the same time

    @model_validator(mode="after")
    def _one_way_to_reach_it(self) -> Instance:
        remote = [way for way in (self.address, self.labgrid) if way is not None]
        if len(remote) > 1 or (remote and self.port) or not (remote or self.port or self.serial):
            raise ValueError("needs one way to reach it: serial and/or port, address, or labgrid")
        return self


class Locks(Record):
    """How long a run waits for a busy board, how long it expects to hold one, and where locks are kept."""

    wait_s: Annotated[int, Field(ge=0)] = 30
    expiry_s: PositiveInt = 3600
    folder: NonEmpty | None = None


class Bench(Record):
    """All of a bench file; without one, empty."""

    boards: dict[Name, Instance] = Field(default_factory=dict)
    locks: Locks = Locks()


def default_bench() -> Path | None:
    """$HIL_BENCH, else tinyhil/bench.yaml in the user's configuration folder if it is there."""
    setting = os.environ.get("HIL_BENCH")
    if setting:
        return Path(setting).expanduser()
    base = os.environ.get("XDG_CONFIG_HOME")
    path = (Path(base) if base else Path.home() / ".config") / "tinyhil" / "bench.yaml"
    return path if path.is_file() else None


def parse_bench(text: str, source: Path, kinds: Iterable[str]) -> Bench:
    """The bench of a YAML text; `kinds` are the boards there are. ConfigError names every fault with its place."""
    known = tuple(kinds)
    return parse(text, source, Bench, check=lambda bench, root: _faults(bench, root, known))


def _faults(bench: Bench, root: yaml.Node, kinds: tuple[str, ...]) -> list[Fault]:
    faults: list[Fault] = []
    taken: dict[tuple[str, str], str] = {}
    for name, instance in bench.boards.items():
        if instance.board not in kinds:
            said = f"no board named {instance.board!r}; known: {', '.join(kinds)}"
            faults.append((*mark(root, ("boards", name, "board")), f"boards.{name}.board: {said}"))
        if name in kinds:
            said = f"boards.{name}: boards.yaml has a kind of board of this name; choose another"
            faults.append((*mark(root, ("boards", name)), said))
        for field in ("serial", "address"):
            value = getattr(instance, field)
            if value is None:
                continue
            other = taken.setdefault((field, value), name)
            if other != name:
                faults.append(
                    (*mark(root, ("boards", name, field)), f"boards.{name}.{field}: {other} has the same {field}")
                )
    return faults
