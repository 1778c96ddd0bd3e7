"""Brings a board back that does not answer, by the mildest means that helps: docs/bench.md."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import serial

from tinyhil import files
from tinyhil.errors import BoardError, FlashError, HilError, LinkTimeout
from tinyhil.harness.boards import flash
from tinyhil.harness.boards.attached import connect
from tinyhil.harness.boards.locate import Place
from tinyhil.harness.build.image import Image
from tinyhil.harness.settings.bench_file import Power
from tinyhil.harness.settings.config import BoardSpec
from tinyhil.harness.wire.link import Link, reason
from tinyhil.harness.wire.stream import greet
from tinyhil.notice import Say
from tinyhil.processes import run

RESET_HOLD_S = 0.1
HELLO_S = 3.0
RETURN_S = 20.0  # for a port to come back after the power was off
POWER_DEADLINE_S = 30.0


@dataclass(frozen=True, slots=True)
class Patient:
    """A board that is locked by us: where it is, the program that may be written into it, a folder for logs."""

    place: Place
    port: str
    image: Callable[[], Image]
    logs: Path

    @property
    def board(self) -> BoardSpec:
        """What kind of board it is."""
        return self.place.board


@dataclass(frozen=True, slots=True)
class Step:
    """One means. `applies` says why not, or nothing; `act` may raise; `leaves_program`: a HELLO may follow."""

    name: str
    applies: Callable[[Patient], str]
    act: Callable[[Patient], None]
    leaves_program: bool = True


def heal(patient: Patient, names: tuple[str, ...], say: Say) -> str:
    """Try the steps in `names` from mild to harsh until the board says HELLO; the name of the one that helped.

    LinkTimeout lists what was tried in vain. A cut of the power is followed by another try to write the program.
    """
    tried: list[str] = []
    for step in (step for step in STEPS if step.name in names):
        why_not = step.applies(patient)
        if why_not:
            say(f"{patient.place.name}: {step.name}: not possible: {why_not}")
            continue
        outcome = _take(step, patient)
        if outcome is None:
            return step.name
        if step.name == "power" and "reflash" in names and _take(REFLASH, patient) is None:
            return "power, then reflash"
        say(f"{patient.place.name}: {step.name}: {outcome}")
        tried.append(f"{step.name}: {outcome}")
    raise LinkTimeout(f"{patient.place.name}: not healed ({'; '.join(tried) or 'nothing could be tried'}); unplug it")


def _take(step: Step, patient: Patient) -> str | None:
    """What went wrong, or None if the board says HELLO now."""
    try:
        step.act(patient)
        if not step.leaves_program:
            return "done, no program left to answer"
        say_hello(patient)
    except HilError as error:
        return str(error)
    return None


def say_hello(patient: Patient) -> None:
    """Wait for a HELLO of whatever program of ours; LinkTimeout if there is none."""
    with connect(patient.board, patient.port) as device, Link(patient.port, patient.board.baud) as link:
        greet(link, HELLO_S, device.banner_s, lambda: None)


def _can_reset(patient: Patient) -> str:
    if patient.port.startswith("socket:"):
        return "a socket carries no reset line"
    by_probe = flash.has_probe(patient.board)
    return "openocd is not installed" if by_probe and shutil.which("openocd") is None else ""


def _reset(patient: Patient) -> None:
    """Pulse DTR, which is wired to the reset pin, or have the probe do it."""
    board = patient.board
    if flash.has_probe(board):
        flash.reset_by_probe(board, patient.port, patient.logs / "reset.log")
        return
    try:
        with serial.serial_for_url(patient.port, board.baud, timeout=0) as opened:
            for level in (False, True):
                with suppress(OSError):  # a pseudo terminal has no such line; opening it is the pulse
                    opened.dtr = level
                time.sleep(RESET_HOLD_S)
    except (OSError, ValueError) as error:
        raise BoardError(f"{patient.port} can not be opened: {reason(error)}") from None


def _can_touch(patient: Patient) -> str:
    if patient.board.upload != "sam-ba":
        return "only a Due knows the 1200-baud touch"
    return "a remote port" if "://" in patient.port else ""


def _touch(patient: Patient) -> None:
    flash.touch(patient.port)


def _can_flash(patient: Patient) -> str:
    if patient.board.upload not in flash.TOOLS:
        return f"no way to flash it (upload: {patient.board.upload})"
    return "a remote port" if "://" in patient.port else ""


def _reflash(patient: Patient) -> None:
    image = patient.image()
    flash.flash(image, patient.board, patient.port, patient.logs / "flash.log")
    flash.confirm(image, patient.board, patient.port)


def _can_switch(patient: Patient) -> str:
    if patient.place.instance is None or patient.place.instance.power is None:
        return "the bench file names no power switch for it"
    return "" if find_uhubctl() else "uhubctl is not installed; type: sudo apt-get install uhubctl"


def _switch(patient: Patient) -> None:
    assert patient.place.instance is not None
    assert patient.place.instance.power is not None
    cycle_power(patient.place.instance.power, patient.logs / "power.log")
    deadline = time.monotonic() + RETURN_S
    while "://" not in patient.port and not Path(patient.port).exists():
        if time.monotonic() > deadline:
            raise LinkTimeout(f"{patient.port} did not come back within {RETURN_S:.0f} s after the power was off")
        time.sleep(0.1)


def find_uhubctl() -> str | None:
    """Debian puts it where only root's PATH leads."""
    return shutil.which("uhubctl") or shutil.which("uhubctl", path="/usr/sbin")


def cycle_power(power: Power, log: Path) -> None:
    """Switch a hub's port off and on by uhubctl; FlashError if it can not."""
    where = f"uhubctl, hub {power.hub} port {power.port}"
    command = [
        find_uhubctl() or "uhubctl",
        "-l",
        power.hub,
        "-p",
        str(power.port),
        "-a",
        "cycle",
        "-d",
        str(power.off_s),
    ]
    try:
        done = run(command, POWER_DEADLINE_S)
    except subprocess.TimeoutExpired:
        raise FlashError(f"{where}: no end within {POWER_DEADLINE_S:.0f} s") from None
    files.write_text(log, f"$ {' '.join(command)}\n{done.stdout}{done.stderr}")
    if done.returncode != 0:
        lines = [line.strip() for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        raise FlashError(f"{where}: {lines[0] if lines else f'exit code {done.returncode}'}; log: {log}")


REFLASH = Step("reflash", _can_flash, _reflash)
STEPS = (
    Step("reset", _can_reset, _reset),
    Step("touch", _can_touch, _touch, leaves_program=False),
    REFLASH,
    Step("power", _can_switch, _switch),
)
STEP_NAMES = tuple(step.name for step in STEPS)
