"""What the doctor says of this machine's serial ports: who may open them, who else does, how slow they are."""

from __future__ import annotations

import glob
import os
from contextlib import suppress
from pathlib import Path

from tinyhil.harness.doctor.checks import Check

GROUPS = ("dialout", "uucp", "plugdev")  # Debian, Arch, some others: the group that owns serial ports
LATENCY_MS = 1  # FTDI's default of 16 ms halves what a stop-and-wait protocol carries
SYS = Path("/sys")
PROC = Path("/proc")


with suppress(ImportError):  # on Windows ports belong to nobody
    import grp


def checks() -> list[Check]:
    """Whether serial ports may be opened; nothing on systems without users."""
    if not hasattr(os, "geteuid"):
        return []
    ports = serial_ports()
    return [permissions(ports), group(ports), modem_manager(PROC), *latencies(SYS)]


def serial_ports() -> list[str]:
    """The serial ports of this computer."""
    return sorted(glob.glob("/dev/ttyACM*") + glob.glob("/dev/ttyUSB*"))


def permissions(ports: list[str]) -> Check:
    """Whether all ports may be read and written."""
    refused = [port for port in ports if not os.access(port, os.R_OK | os.W_OK)]
    if refused:
        remedy = f"sudo usermod -aG {owning_group(refused[0])} $USER; log in again"
        return Check("serial ports", "warn", f"no access to {', '.join(refused)}", remedy)
    return Check("serial ports", "ok", ", ".join(ports) or "none attached")


def owning_group(port: str) -> str:
    """The group that a port belongs to."""
    try:
        return grp.getgrgid(os.stat(port).st_gid).gr_name
    except (OSError, KeyError):
        return GROUPS[0]


def group(ports: list[str]) -> Check:
    """Membership matters before the first board is attached; root needs none."""
    name = "group of serial ports"
    wanted = owning_group(ports[0]) if ports else _first_known_group()
    if os.geteuid() == 0:
        return Check(name, "ok", f"{wanted} (root needs no group)")
    if wanted in my_groups():
        return Check(name, "ok", wanted)
    return Check(name, "warn", f"not a member of {wanted}", f"sudo usermod -aG {wanted} $USER; log in again")


def my_groups() -> set[str]:
    """Names of the groups this process has; a group joined after log-in is not among them."""
    found = set()
    for gid in {os.getegid(), *os.getgroups()}:
        try:
            found.add(grp.getgrgid(gid).gr_name)
        except KeyError:
            continue
    return found


def _first_known_group() -> str:
    known = {entry.gr_name for entry in grp.getgrall()}
    return next((name for name in GROUPS if name in known), GROUPS[0])


def modem_manager(proc: Path) -> Check:
    """ModemManager opens every new port and talks to it, which resets boards and disturbs boot loaders."""
    name = "ModemManager"
    for path in proc.glob("[0-9]*/comm"):
        try:
            running = path.read_text().strip() == name
        except OSError:
            continue
        if running:
            remedy = "sudo systemctl disable --now ModemManager, or ID_MM_DEVICE_IGNORE in a udev rule"
            return Check(name, "warn", f"runs (process {path.parent.name}) and probes new ports", remedy)
    return Check(name, "ok", "does not run")


def latencies(sys: Path) -> list[Check]:
    """The latency timer of FTDI adapters, one line for each that is slow; other adapters have none."""
    slow, fine = [], []
    for path in sorted(sys.glob("bus/usb-serial/devices/*/latency_timer")):
        port = path.parent.name
        try:
            milliseconds = int(path.read_text())
        except (OSError, ValueError):
            continue
        if milliseconds > LATENCY_MS:
            remedy = f"echo {LATENCY_MS} | sudo tee {path}"
            slow.append(Check(f"latency of {port}", "warn", f"{milliseconds} ms before bytes are handed over", remedy))
        else:
            fine.append(port)
    if slow:
        return slow
    return [Check("port latency", "ok", f"{LATENCY_MS} ms: {', '.join(fine)}" if fine else "no FTDI adapter attached")]
