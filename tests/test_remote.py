"""Boards behind a network: an emulated board's port is served by RFC 2217 and by raw TCP, and used as a real one is."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import tty
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hil_command import check_failure, finished_samples, hil, record_of, wait_until
from remote_bench import SerialServer
from wire_bench import Bench, make_bench, powered

from tinyhil.errors import LinkError
from tinyhil.harness.job.inputs import load_inputs
from tinyhil.harness.job.zoo import find_model
from tinyhil.harness.settings.config import load_boards
from tinyhil.harness.wire import protocol
from tinyhil.harness.wire.link import MOST_DAMAGED_BYTES, Link
from tinyhil.harness.wire.stream import greet

SAMPLES = 40
both_ways = pytest.mark.parametrize("rfc2217", [True, False], ids=["rfc2217", "socket"])


@pytest.fixture(scope="module")
def due() -> Bench:
    x = load_inputs(find_model("digits_mlp"), None, 2).x
    return make_bench("due", "digits_mlp", x)


@pytest.fixture
def state(tmp_path: Path) -> dict[str, str]:
    return {"XDG_STATE_HOME": str(tmp_path / "state"), "HIL_BENCH": str(tmp_path / "bench.yaml")}


def write_bench(folder: Path, address: str) -> None:
    text = f'boards:\n  far:\n    board: due\n    serial: "7513"\n    address: {address}\n'
    (folder / "bench.yaml").write_text(text)


def run_far(folder: Path, state: dict[str, str], *more: object) -> subprocess.CompletedProcess[str]:
    options = ("--model", "digits_mlp", "--samples", SAMPLES, "--timeout", 300, "--json", *more)
    client = {"HIL_LABGRID_CLIENT": str(LABGRID / "labgrid-client")}
    return hil("run", "--board", "far", *options, cwd=folder, **{**client, **state})


def check_exact(record: dict[str, Any], url: str) -> None:
    assert record["bit_exact"]
    assert record["samples"] == SAMPLES
    assert record["emulator"] is None
    provenance = record["provenance"]
    assert (provenance["port"], provenance["instance"], provenance["serial_number"]) == (url, "far", "7513")


@both_ways
def test_a_remote_board_is_a_board(rfc2217: bool, due: Bench, state: dict[str, str], tmp_path: Path) -> None:
    with powered(due, tmp_path) as device, SerialServer(device.port, rfc2217) as server:
        write_bench(tmp_path, server.url)
        check_exact(record_of(run_far(tmp_path, state)), server.url)
        if rfc2217:
            assert server.serial.baudrate == 115200
        listed = json.loads(hil("boards", "--json", cwd=tmp_path, **state).stdout)
        assert [(one["state"], one["port"]) for one in listed if one["name"] == "far"] == [("remote", server.url)]
        assert "answers  far" in hil("boards", "scan", cwd=tmp_path, **state).stdout


@both_ways
def test_a_connection_that_is_cut_ends_the_run_and_the_next_resumes(
    rfc2217: bool, due: Bench, state: dict[str, str], tmp_path: Path
) -> None:
    with powered(due, tmp_path) as device, SerialServer(device.port, rfc2217) as server:
        write_bench(tmp_path, server.url)
        server.cut_after = 1000
        check_failure(run_far(tmp_path, state), 6, server.url, logs=True)
        assert 3 < finished_samples(tmp_path / "results") < SAMPLES
        (far,) = (
            one for one in json.loads(hil("boards", "--json", cwd=tmp_path, **state).stdout) if one["name"] == "far"
        )
        assert far["state"] == "wedged"
        done = run_far(tmp_path, state)
        assert "resuming" in done.stderr
        assert "failed the last time" in done.stderr
        check_exact(record_of(done), server.url)
        assert "wedged" not in hil("boards", cwd=tmp_path, **state).stdout


@both_ways
def test_a_server_that_floods_behind_a_frame_is_left(rfc2217: bool) -> None:
    """The deadline is far away: what comes is no frame, which is why it ends."""
    master, slave = os.openpty()
    tty.setraw(slave)
    noise = protocol.frame(b"\x85\x01") + b"\1" * (2 * MOST_DAMAGED_BYTES)
    with SerialServer(os.ttyname(slave), rfc2217) as server, Link(server.url, 115200) as link:
        threading.Thread(target=os.write, args=(master, noise), daemon=True).start()
        with pytest.raises(LinkError, match="babbles"):
            greet(link, 600.0, 600.0, lambda: None)
    os.close(slave)
    os.close(master)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


@both_ways
def test_nobody_listens(rfc2217: bool, state: dict[str, str], tmp_path: Path) -> None:
    url = f"{'rfc2217' if rfc2217 else 'socket'}://127.0.0.1:{free_port()}"
    write_bench(tmp_path, url)
    check_failure(run_far(tmp_path, state), 3, url, "can not be opened", logs=True)
    assert "does not answer  far" in hil("boards", "scan", cwd=tmp_path, **state).stdout


@pytest.mark.slow
def test_somebody_else_listens(state: dict[str, str], tmp_path: Path) -> None:
    """A server that takes a connection and says nothing: no telnet, no board."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"rfc2217://127.0.0.1:{listener.getsockname()[1]}"
        write_bench(tmp_path, url)
        check_failure(run_far(tmp_path, state), 3, url, "speaks no RFC 2217", logs=True)


def test_a_remote_board_is_reset_through_the_network(due: Bench, state: dict[str, str], tmp_path: Path) -> None:
    with powered(due, tmp_path) as device, SerialServer(device.port, True) as server:
        write_bench(tmp_path, server.url)
        done = hil("boards", "heal", "far", cwd=tmp_path, **state)
        assert (done.returncode, done.stdout) == (0, "far: answers again after: reset\n"), done.stderr
        assert server.serial.pulses == 1


@pytest.mark.slow
def test_a_socket_carries_no_reset(due: Bench, state: dict[str, str], tmp_path: Path) -> None:
    with powered(due, tmp_path) as device, SerialServer(device.port, False) as server:
        write_bench(tmp_path, server.url)
        done = hil("boards", "heal", "far", cwd=tmp_path, **state)
        assert done.returncode == 6
        for words in ("reset: not possible: a socket carries no reset line", "reflash: not possible: a remote port"):
            assert words in done.stderr


# ---- a labgrid place: a real coordinator and exporter, where labgrid is installed ----

LABGRID = Path(sys.prefix) / "labgrid" / "bin"  # an environment of its own: it brings a fork of pyserial
needs_labgrid = pytest.mark.skipif(not LABGRID.is_dir(), reason="labgrid is not installed; type: make setup-dev")


class Farm:
    """A coordinator with one exporter, whose only resource is a serial port; place `due-1` matches it."""

    def __init__(self, folder: Path, resource: str) -> None:
        self.coordinator = f"127.0.0.1:{free_port()}"
        self.folder = folder
        (folder / "exporter.yaml").write_text(f"desk:\n  {resource}\n")
        self.processes = [self._start("coordinator", "-l", self.coordinator)]

    def _start(self, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        log = (self.folder / f"{program}.log").open("wb")
        command = [LABGRID / f"labgrid-{program}", *arguments]
        return subprocess.Popen(command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def client(self, *arguments: str, user: str = "somebody") -> subprocess.CompletedProcess[str]:
        command = [LABGRID / "labgrid-client", "-x", self.coordinator, *arguments]
        env = {**os.environ, "LG_USERNAME": user}
        return subprocess.run(command, env=env, capture_output=True, text=True, timeout=1200, check=False)

    def __enter__(self) -> Farm:
        wait_until(lambda: self.client("places").returncode == 0)
        names = ("-n", "desk", "--hostname", "127.0.0.1")
        self.processes.append(self._start("exporter", "-c", self.coordinator, *names, "exporter.yaml"))
        wait_until(lambda: "NetworkSerialPort" in self.client("resources").stdout)
        for arguments in (["create"], ["add-match", "desk/desk/NetworkSerialPort"]):
            done = self.client("-p", "due-1", *arguments)
            assert done.returncode == 0, done.stderr
        return self

    def __exit__(self, *_: object) -> None:
        for process in reversed(self.processes):
            process.terminate()
            process.wait(10)


@pytest.fixture
def farm(due: Bench, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Farm]:
    """`request.param`: who serves the port: pyserial's code by a protocol, or ser2net, which the exporter starts."""
    with ExitStack() as stack:
        device = stack.enter_context(powered(due, tmp_path))
        resource = f"RawSerialPort: {{port: {os.path.realpath(device.port)}, speed: 115200}}"
        if request.param != "ser2net":
            server = stack.enter_context(SerialServer(device.port, request.param == "rfc2217"))
            port = server.url.rpartition(":")[2]
            resource = f"NetworkSerialPort: {{host: 127.0.0.1, port: {port}, protocol: {request.param}}}"
        running = stack.enter_context(Farm(tmp_path, resource))
        labgrid = f"place: due-1, coordinator: '{running.coordinator}'"
        labgrid += ", options: ign_set_control" if request.param == "ser2net" else ""  # ptys have no modem lines
        (tmp_path / "bench.yaml").write_text(f"boards:\n  far:\n    board: due\n    labgrid: {{{labgrid}}}\n")
        yield running


@pytest.mark.slow
@needs_labgrid
@pytest.mark.parametrize("farm", ["rfc2217", "raw", "ser2net"], indirect=True)
def test_a_labgrid_place_is_acquired_used_and_released(farm: Farm, state: dict[str, str], tmp_path: Path) -> None:
    record = record_of(run_far(tmp_path, state))
    assert record["bit_exact"]
    assert record["provenance"]["instance"] == "far"
    assert "acquired: None" in farm.client("-p", "due-1", "show").stdout


@pytest.mark.slow
@needs_labgrid
@pytest.mark.parametrize("farm", ["rfc2217"], indirect=True)
def test_a_labgrid_place_of_somebody_else_is_not_taken(farm: Farm, state: dict[str, str], tmp_path: Path) -> None:
    assert farm.client("-p", "due-1", "acquire", user="alice").returncode == 0
    check_failure(run_far(tmp_path, state, "--wait", 0), 3, "due-1", "alice", logs=True)
    assert "alice" in farm.client("-p", "due-1", "show").stdout


def test_without_labgrid_s_client_the_way_to_it_is_named(state: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "bench.yaml").write_text("boards:\n  far: {board: due, labgrid: {place: due-1}}\n")
    assert load_boards(bench=tmp_path / "bench.yaml").board("far").name == "due"
    check_failure(
        run_far(tmp_path, {**state, "HIL_LABGRID_CLIENT": "no-client"}),
        3,
        "needs no-client",
        "hil docs bench",
        logs=True,
    )


ACQUIRED = """Place 'due-1':
  acquired: host/user
  acquired resources:
    desk/desk/NetworkSerialPort/NetworkSerialPort
Acquired resource 'power' (desk/desk/NetworkPowerPort/NetworkPowerPort):
  {'cls': 'NetworkPowerPort', 'params': {'host': 'desk', 'port': 3}}
Acquired resource 'NetworkSerialPort' (desk/desk/NetworkSerialPort/NetworkSerialPort):
  {'acquired': 'due-1',
   'avail': True,
   'cls': 'NetworkSerialPort',
   'params': {'extra': EXTRA, 'host': 'desk', 'port': 4000, 'protocol': 'rfc2217'}}
"""


@pytest.mark.parametrize(
    ("shown", "said"),
    [
        (ACQUIRED.replace("EXTRA", "{'proxy': 'nowhere.invalid', 'proxy_required': True}"), "ssh nowhere.invalid"),
        (ACQUIRED.replace("EXTRA", "{'proxy': '-oProxyCommand=x', 'proxy_required': True}"), "no host to go through"),
        (ACQUIRED.replace("EXTRA", "{'proxy': 'a;touch x', 'proxy_required': True}"), "no host to go through"),
        (
            ACQUIRED.replace("EXTRA", "{}").replace("'host': 'desk', 'port': 4", "'host': '/x y', 'port': 4"),
            "no host with",
        ),
        (ACQUIRED.replace("EXTRA", "{}").replace("4000", "None"), "has 0 serial ports"),
        (ACQUIRED.replace("EXTRA", "{}").replace("rfc2217", "xmodem"), "protocol 'xmodem' is not known"),
        ("Acquired resource 'x' (a/b/NetworkSerialPort/x):\n  {'params': __import__('os')}\n", "has 0 serial ports"),
        ("", "has 0 serial ports"),
    ],
)
def test_what_a_client_says_is_taken_as_data(shown: str, said: str, state: dict[str, str], tmp_path: Path) -> None:
    client = tmp_path / "labgrid-client"
    (tmp_path / "shown").write_text(shown)
    client.write_text(f"#!/bin/sh\necho $3 >>{tmp_path}/asked\n[ $3 = show ] && cat {tmp_path}/shown\nexit 0\n")
    client.chmod(0o755)
    (tmp_path / "bench.yaml").write_text("boards:\n  far: {board: due, labgrid: {place: due-1}}\n")
    check_failure(run_far(tmp_path, {**state, "HIL_LABGRID_CLIENT": str(client)}), 3, said, logs=True)
    assert (tmp_path / "asked").read_text().split() == ["acquire", "show", "release"]
