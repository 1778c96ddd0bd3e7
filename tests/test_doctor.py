"""hil doctor on this machine as it is, and with things taken away."""

from __future__ import annotations

import importlib.metadata
import io
import json
import os
import re
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from boards_under_test import EVERY, by_compiler
from flash_bench import Emulator
from hil_command import hil
from rich.console import Console

from tinyhil.errors import EXIT_GATE, EXIT_OK
from tinyhil.harness.cli import hil as commands
from tinyhil.harness.doctor import serial_ports
from tinyhil.harness.doctor.checks import Check
from tinyhil.harness.doctor.extras import DEVELOPERS, USES, extras
from tinyhil.harness.doctor.installed import checks, emulated_boards, exit_code, lines_to_type, report, verdict
from tinyhil.harness.settings.config import load_boards

COMPILERS = ("avr-gcc", "arm-none-eabi-gcc", "g++")
DOUBTFUL = [
    ("bossac", "Basic Open Source SAM-BA Application (BOSSA) Version 1.7.0", "ok"),
    ("bossac", "Basic Open Source SAM-BA Application (BOSSA) Version 1.8", "warn"),
    ("bossac", "Basic Open Source SAM-BA Application (BOSSA) Version 1.9.1", "warn"),
    ("bossac", "Basic Open Source SAM-BA Application (BOSSA) Version 1.9.2", "ok"),
    ("openocd", "Open On-Chip Debugger 0.11.0", "warn"),
    ("openocd", "Open On-Chip Debugger 0.12.0", "ok"),
]
FLASHERS = ("avrdude", "bossac", "stm32flash", "openocd")


def by_name() -> dict[str, Check]:
    found = checks()
    assert len({check.name for check in found}) == len(found)
    return {check.name: check for check in found}


def test_this_machine_can_compile() -> None:
    found = by_name()
    for name in ("Python", *COMPILERS, "PlatformIO", "emulator of uno"):
        assert found[name].status == "ok", found[name]
    assert found["g++"].found.endswith("/g++")
    assert found["avr-gcc"].found[0].isdigit()


def test_a_remedy_for_everything_that_is_not_in_order() -> None:
    for check in checks():
        assert (check.status == "ok") == (check.remedy == ""), check


def test_every_flashing_program_that_is_here_tells_its_version() -> None:
    here = [check for name, check in by_name().items() if name in FLASHERS and check.status == "ok"]
    assert here
    assert [check for check in here if not re.match(r"\d+\.\d", check.found)] == []


def test_an_extra_that_is_not_here_is_named_with_its_use_and_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a user meets it who has installed the wheel alone; `--fix | sh` fetches none of them."""
    project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())["project"]
    assert {*USES, *DEVELOPERS} == set(project["optional-dependencies"])
    needed = {re.split(r"[><=]", one)[0] for extra in USES for one in project["optional-dependencies"][extra]}
    known = importlib.metadata.version

    def version(name: str) -> str:
        if name in needed:
            raise importlib.metadata.PackageNotFoundError(name)
        return known(name)

    monkeypatch.setattr(importlib.metadata, "version", version)
    found = extras("tinyhil")
    assert [check.name for check in found] == [f"extra {name}" for name in USES]
    assert {check.status for check in found} == {"optional"}
    report_ = found[0]
    assert report_.found == "for `hil report`: pages for a browser; not here: vl-convert-python>=1.7"
    assert report_.remedy == "pip install 'tinyhil[report]'"
    report(found, Console(file=(out := io.StringIO()), width=200))
    assert all(check.remedy in out.getvalue() for check in found), "brackets are no markup"
    assert lines_to_type(found) == []
    assert exit_code(found) == EXIT_OK
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "2030.1")
    every, other = extras("tinyhil")
    assert (every.status, every.found) == ("ok", ", ".join(USES).replace(", emulators", ""))
    assert other.name == "extra emulators", "of exactly one version"


def test_what_an_extra_is_for_is_there_to_be_typed() -> None:
    """Every command and option that the uses of extras name."""
    for extra, use in USES.items():
        for words in map(str.split, re.findall(r"`hil ([^`]+)`", use)):
            command = commands.commands[words[0]]
            options = {name for parameter in command.params for name in parameter.opts}
            assert {word for word in words if word.startswith("--")} <= options, extra


def test_without_programs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("HIL_CACHE", str(tmp_path))
    found = by_name()
    assert {found[name].status for name in COMPILERS} == {"missing"}
    assert found["arm-none-eabi-gcc"].remedy == "sudo apt-get install gcc-arm-none-eabi libnewlib-arm-none-eabi"
    assert {found[name].status for name in FLASHERS} == {"warn"}
    assert exit_code(found.values()) == EXIT_GATE


def test_an_old_compiler_is_not_good_enough(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in COMPILERS:
        (tmp_path / name).write_text("#!/bin/sh\necho 4.8.1\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    found = by_name()
    assert {found[name].status for name in COMPILERS} == {"old"}
    assert "need 5.4: sudo apt-get install" in found["avr-gcc"].remedy


def test_data_are_found_where_hil_data_points(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HIL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HIL_DATA", str(tmp_path))
    assert by_name()["UCI HAR data"].status == "warn"
    (tmp_path / "small").mkdir()
    (tmp_path / "small" / "har6_subset.npz").write_bytes(b"")
    assert by_name()["UCI HAR data"].status == "ok"


@pytest.mark.parametrize(
    ("statuses", "code", "verdict"),
    [
        (("ok", "warn"), EXIT_OK, "emulated runs: ready"),
        (("ok", "missing", "old"), EXIT_GATE, "emulated runs: 2 thing(s) to fix"),
    ],
)
def test_the_report_and_its_verdict(statuses, code, verdict) -> None:
    results = [Check(f"thing {i}", status, "1.2", "type this") for i, status in enumerate(statuses)]
    out = io.StringIO()
    report(results, Console(file=out, width=100))
    assert exit_code(results) == code
    assert verdict in out.getvalue()
    assert all(f"thing {i}" in out.getvalue() for i in range(len(results)))


@pytest.mark.parametrize("taken", ["arm-none-eabi-gcc", "avr-gcc", "g++", "PlatformIO"])
def test_the_verdict_tells_boards_that_run_from_those_that_lack_something(taken: str) -> None:
    entries = load_boards().entries.values()
    results = [replace(by_name()[taken], status="missing")]
    lacking = {spec.name for spec in entries if taken == "PlatformIO" or spec.chip.compiler == taken}
    said = verdict(results, emulated_boards())
    if taken == "PlatformIO":
        assert said == "emulated runs: 1 thing(s) to fix, see above"
        return
    ready = said.partition("ready on ")[2].partition(";")[0].split(", ")
    assert set(ready) == set(emulated_boards()) - lacking
    assert ("uno" in ready) == (taken != "avr-gcc")
    assert "1 thing(s) to fix" in said


# ---- ports: folders laid out as the kernel lays out /sys and /proc ----


def test_a_slow_latency_timer_is_named_with_its_remedy(tmp_path: Path) -> None:
    (fine,) = serial_ports.latencies(tmp_path)
    assert (fine.status, fine.found) == ("ok", "no FTDI adapter attached")
    for port, milliseconds in {"ttyUSB0": "16", "ttyUSB1": "1", "ttyUSB2": "unreadable"}.items():
        folder = tmp_path / "bus/usb-serial/devices" / port
        folder.mkdir(parents=True)
        (folder / "latency_timer").write_text(f"{milliseconds}\n")
    (slow,) = serial_ports.latencies(tmp_path)
    assert (slow.name, slow.status) == ("latency of ttyUSB0", "warn")
    assert slow.found.startswith("16 ms")
    path = tmp_path / "bus/usb-serial/devices/ttyUSB0/latency_timer"
    assert slow.remedy == f"echo 1 | sudo tee {path}"
    path.write_text("1\n")
    (fine,) = serial_ports.latencies(tmp_path)
    assert fine.found == "1 ms: ttyUSB0, ttyUSB1"


def test_modem_manager_is_found_among_the_processes(tmp_path: Path) -> None:
    for pid, name in {"1": "init", "77": "ModemManager2", "78": "bash"}.items():
        (tmp_path / pid).mkdir()
        (tmp_path / pid / "comm").write_text(f"{name}\n")
    assert serial_ports.modem_manager(tmp_path).status == "ok"
    (tmp_path / "78" / "comm").write_text("ModemManager\n")
    found = serial_ports.modem_manager(tmp_path)
    assert (found.status, "process 78" in found.found) == ("warn", True)
    assert "ID_MM_DEVICE_IGNORE" in found.remedy


def test_a_user_outside_the_group_is_told_how_to_join(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 12345)
    monkeypatch.setattr("os.getegid", lambda: 12345)
    monkeypatch.setattr("os.getgroups", lambda: [12345])
    found = serial_ports.group([])
    assert (found.status, found.found) == ("warn", "not a member of dialout")
    assert found.remedy == "sudo usermod -aG dialout $USER; log in again"
    monkeypatch.setattr("os.getgroups", lambda: [__import__("grp").getgrnam("dialout").gr_gid])
    assert serial_ports.group([]).status == "ok"


# ---- the echo test of a wire ----

ECHO = re.compile(r"^echo on (\S+) \((.*)\): (\d+) B there and back in ([\d.]+) s, ([\d,]+) B/s, (\d+) errors", re.M)


@pytest.mark.parametrize("board", by_compiler(EVERY))
def test_echo(board: str, tmp_path: Path) -> None:
    done = hil("doctor", "--board", board, "--seconds", 0.5, cwd=tmp_path)
    name, where, sent, seconds, rate, errors = ECHO.search(done.stdout).groups()
    assert (name, where, errors) == (board, "this computer" if board == "host" else "emulated", "0")
    assert int(sent) >= 6400
    assert int(rate.replace(",", "")) == pytest.approx(2 * int(sent) / float(seconds), rel=0.2)
    assert done.returncode == EXIT_OK, done.stderr


def test_what_was_found_as_json(tmp_path: Path) -> None:
    done = hil("doctor", "--json", "--board", "host", "--seconds", 0.5, cwd=tmp_path)
    found = json.loads(done.stdout)
    assert (done.returncode, found["ready"], found["echo"]["wrong_samples"]) == (EXIT_OK, True, 0)
    assert [list(check) for check in found["checks"]] == [["name", "status", "found", "remedy", "boards"]] * len(
        found["checks"]
    )
    assert found["checks"][0]["name"] == "Python"


def test_echo_on_a_port_flashes_and_locks(tmp_path: Path) -> None:
    with Emulator("due", tmp_path) as due:
        options = ("doctor", "--board", "due", "--port", due.port, "--seconds", 0.5)
        done = hil(*options, cwd=tmp_path, XDG_STATE_HOME=str(tmp_path / "state"))
        assert done.returncode == EXIT_OK, done.stderr
        assert f"due: flashing {due.port}" in done.stderr
        assert ECHO.search(done.stdout)[2] == due.port
    assert list((tmp_path / "state" / "tinyhil" / "locks").iterdir())


@pytest.mark.parametrize(("name", "says", "status"), DOUBTFUL)
def test_versions_with_known_faults(
    name: str, says: str, status: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / name
    program.write_text(f"#!/bin/sh\necho '{says}'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    (check,) = (check for check in checks() if check.name == name)
    assert (check.status, bool(check.remedy)) == (status, status == "warn")


@pytest.mark.parametrize(("user", "sudo"), [(0, ""), (1000, "sudo ")])
def test_the_lines_that_get_what_is_missing(user: int, sudo: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line of apt-get for all, which asks nothing since `| sh` cannot answer and needs no sudo where root types it;
    other commands once, the rest as remarks; nothing where all is there."""
    monkeypatch.setattr("os.geteuid", lambda: user)
    found = [
        Check("avr-gcc", "missing", "", "sudo apt-get install gcc-avr avr-libc"),
        Check("openocd", "old", "0.11", "too old: sudo apt-get install openocd (0.12 or newer)"),
        Check("avrdude", "warn", "", "sudo apt-get install avrdude avr-libc"),
        Check("PlatformIO", "missing", "", "python3 -m pip install platformio"),
        Check("unicorn", "missing", "", "pip install 'unicorn>=2.1.1'"),
        Check("Python", "old", "3.9", "install Python 3.11 or newer"),
        Check("g++", "ok", "12", "sudo apt-get install g++"),
    ]
    assert lines_to_type(found) == [
        f"{sudo}apt-get update && {sudo}apt-get install -y --no-install-recommends gcc-avr avr-libc openocd avrdude",
        "python3 -m pip install platformio",
        "pip install 'unicorn>=2.1.1'",
        "# Python: install Python 3.11 or newer",
    ]
    assert lines_to_type(found[-1:]) == []
