"""A board in a labgrid farm: its place is acquired for the time of a run, its serial port is reached over the network.

labgrid keeps the places, decides who may have one, and forwards ports through ssh where its exporter asks for that.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tinyhil.errors import BoardError
from tinyhil.harness.boards.bench_file import Labgrid
from tinyhil.processes import run

CLIENT_DEADLINE_S = 30.0
POLL_S = 1.0
SCHEMES = {"rfc2217": "rfc2217", "raw": "socket"}


@contextmanager
def acquired(name: str, place: Labgrid, wait_s: float) -> Iterator[str]:
    """Acquire the place (waiting up to `wait_s` for another user), yield the URL of its serial port, release it."""
    if importlib.util.find_spec("labgrid") is None:
        raise BoardError(f"{name}: labgrid place {place.place} needs labgrid; type: pip install 'tinyhil[labgrid]'")
    deadline = time.monotonic() + wait_s
    while (refusal := _client(place, "acquire")) is not None:
        if "acquired" not in refusal or time.monotonic() >= deadline:
            raise BoardError(f"{name}: labgrid place {place.place} can not be acquired: {refusal}")
        time.sleep(POLL_S)
    try:
        yield find_port(name, place)
    finally:
        _client(place, "release")


def find_port(name: str, place: Labgrid) -> str:
    """pyserial's URL of the place's NetworkSerialPort; BoardError if it has none, or not exactly one."""
    from labgrid import Target
    from labgrid.exceptions import NoResourceFoundError
    from labgrid.resource.remote import RemotePlace
    from labgrid.util.proxy import proxymanager

    if place.coordinator:
        os.environ["LG_COORDINATOR"] = place.coordinator  # the only way in for a target without a configuration file
    try:
        target = Target(name)
        RemotePlace(target, name=place.place)
        resource = target.get_resource("NetworkSerialPort")
        host, port = proxymanager.get_host_and_port(resource)
        scheme = SCHEMES[resource.protocol]
    except NoResourceFoundError as error:
        raise BoardError(f"{name}: labgrid place {place.place} has no single serial port: {error}") from None
    except Exception as error:  # whatever labgrid and gRPC raise
        said = (str(error).splitlines() or [type(error).__name__])[0]
        raise BoardError(f"{name}: labgrid place {place.place}: {said}") from None
    return f"{scheme}://{host}:{port}"


def _client(place: Labgrid, what: str) -> str | None:
    """Have labgrid's own client do `what`; None, or its complaint."""
    coordinator = ["-x", place.coordinator] if place.coordinator else []
    command = [sys.executable, "-m", "labgrid.remote.client", *coordinator, "-p", place.place, what]
    try:
        done = run(command, CLIENT_DEADLINE_S)
    except subprocess.TimeoutExpired:
        return f"the coordinator does not answer within {CLIENT_DEADLINE_S:.0f} s"
    lines = [line.strip() for line in (done.stderr + done.stdout).splitlines() if line.strip()]
    return None if done.returncode == 0 else (lines[-1] if lines else f"exit code {done.returncode}")
