"""A board in a labgrid farm: its place is acquired for the time of a run, its serial port is reached over the network.

labgrid keeps the places and decides who may have one. Its client is a program here, in an environment of its own: it
brings a fork of pyserial under pyserial's name.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from tinyhil.errors import BoardError
from tinyhil.harness.settings.bench_file import Labgrid
from tinyhil.processes import Started, run

CLIENT_DEADLINE_S = 30.0
POLL_S = 1.0
TUNNEL_S = 20.0
SCHEMES = {"rfc2217": "rfc2217", "raw": "socket"}
PORT = "NetworkSerialPort"
HOST = re.compile(r"([A-Za-z0-9_][A-Za-z0-9_.-]*@)?[A-Za-z0-9\[][A-Za-z0-9_.:\]-]*")


@contextmanager
def acquired(name: str, place: Labgrid, wait_s: float) -> Iterator[str]:
    """Acquire the place (waiting up to `wait_s` for another user), yield the URL of its serial port, release it.

    BoardError if labgrid's client is missing or refuses.
    """
    if shutil.which(client()) is None:
        raise BoardError(
            f"{name}: labgrid place {place.place} needs {client()}, which is not there; install labgrid in an "
            "environment of its own (`hil docs bench`)"
        )
    deadline = time.monotonic() + wait_s
    while (refusal := _client(place, "acquire")).returncode != 0:
        said = _last_line(refusal)
        if "acquired" not in said or time.monotonic() >= deadline:
            raise BoardError(f"{name}: labgrid place {place.place} can not be acquired: {said}")
        time.sleep(POLL_S)
    try:
        with _reachable(name, place, find_port(name, place)) as url:
            yield url
    finally:
        _client(place, "release")


def client() -> str:
    """The program: HIL_LABGRID_CLIENT, else labgrid-client in PATH. No bench file names it."""
    return os.environ.get("HIL_LABGRID_CLIENT") or "labgrid-client"


def find_port(name: str, place: Labgrid) -> Mapping[str, Any]:
    """The parameters of the place's NetworkSerialPort; BoardError if it has none, or not exactly one."""
    shown = _client(place, "show")
    if shown.returncode != 0:
        raise BoardError(f"{name}: labgrid place {place.place}: {_last_line(shown)}")
    ports = list(_ports(shown.stdout))
    if len(ports) != 1 or not {"host", "port"} <= ports[0].keys():
        raise BoardError(f"{name}: labgrid place {place.place} has {len(ports)} serial ports ({PORT}), one is needed")
    if ports[0].get("protocol", "rfc2217") not in SCHEMES:
        raise BoardError(f"{name}: labgrid place {place.place}: protocol {ports[0]['protocol']!r} is not known")
    if not HOST.fullmatch(str(ports[0]["host"])) or not str(ports[0]["port"]).isdecimal():
        raise BoardError(f"{name}: labgrid place {place.place}: {ports[0]['host']!r} is no host with a port")
    return ports[0]


def _ports(shown: str) -> Iterator[Mapping[str, Any]]:
    """Of `labgrid-client show`: a line `Acquired resource 'NAME' (EXPORTER/GROUP/CLASS/NAME):`, then its dictionary."""
    for block in shown.split("\nAcquired resource ")[1:]:
        title, _, rest = block.partition("\n")
        lines = []
        for line in rest.split("\n"):
            if not line.startswith("  "):
                break
            lines.append(line)
        if f"/{PORT}/" not in title:
            continue
        with suppress(ValueError, SyntaxError):
            params = ast.literal_eval("\n".join(lines).strip()).get("params")
            if isinstance(params, dict) and params.get("port") is not None:
                yield params


@contextmanager
def _reachable(name: str, place: Labgrid, port: Mapping[str, Any]) -> Iterator[str]:
    """pyserial's URL of the port, through ssh if its exporter asks for a proxy."""
    scheme, extra = SCHEMES[port.get("protocol", "rfc2217")], port.get("extra") or {}
    options = f"?{place.options}" if place.options else ""
    proxy = extra.get("proxy") if extra.get("proxy_required") else os.environ.get("LG_PROXY")
    if not proxy:
        yield f"{scheme}://{port['host']}:{port['port']}{options}"
        return
    with socket.create_server(("127.0.0.1", 0)) as free:
        local = free.getsockname()[1]
    if not HOST.fullmatch(str(proxy)):  # what ssh_config makes of a name may be a shell's
        raise BoardError(f"{name}: labgrid place {place.place}: {proxy!r} is no host to go through")
    forward = f"127.0.0.1:{local}:{port['host']}:{port['port']}"
    how = ["-o", "BatchMode=yes", "-o", "ExitOnForwardFailure=yes"]
    tunnel = Started(
        ["ssh", *how, "-N", "-L", forward, "--", str(proxy)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        _await_tunnel(f"{name}: labgrid place {place.place}: ssh {proxy}", tunnel, local)
        yield f"{scheme}://127.0.0.1:{local}{options}"
    finally:
        tunnel.end()
        if tunnel.stderr is not None:
            tunnel.stderr.close()


def _await_tunnel(who: str, tunnel: Started, port: int) -> None:
    """Until somebody listens on our end of it."""
    deadline = time.monotonic() + TUNNEL_S
    while time.monotonic() < deadline:
        if tunnel.poll() is not None:
            assert tunnel.stderr is not None
            raise BoardError(f"{who}: {' '.join(tunnel.stderr.read().split())[:200] or 'ended'}")
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.1)
    raise BoardError(f"{who}: no tunnel within {TUNNEL_S:.0f} s")


def _client(place: Labgrid, what: str) -> subprocess.CompletedProcess[str]:
    """Have labgrid's own client do `what`."""
    coordinator = ["-x", place.coordinator] if place.coordinator else []
    command = [client(), *coordinator, "-p", place.place, what]
    try:
        return run(command, CLIENT_DEADLINE_S)
    except subprocess.TimeoutExpired:
        said = f"the coordinator does not answer within {CLIENT_DEADLINE_S:.0f} s"
        return subprocess.CompletedProcess(command, 1, "", said)


def _last_line(done: subprocess.CompletedProcess[str]) -> str:
    lines = [line.strip() for line in (done.stderr + done.stdout).splitlines() if line.strip()]
    return lines[-1] if lines else f"exit code {done.returncode}"
