"""hil doctor on this machine as it is, and with things taken away."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from harness.doctor import Check, checks, exit_code, report
from tinyhil.errors import EXIT_GATE, EXIT_OK

COMPILERS = ("avr-gcc", "arm-none-eabi-gcc", "g++")
FLASHERS = ("avrdude", "bossac", "stm32flash", "openocd")


def by_name() -> dict[str, Check]:
    found = checks()
    assert len({check.name for check in found}) == len(found)
    return {check.name: check for check in found}


def test_this_machine_can_compile() -> None:
    found = by_name()
    for name in ("Python", *COMPILERS, "PlatformIO", "libsimavr"):
        assert found[name].status == "ok", found[name]
    assert found["g++"].found.endswith("/g++")
    assert found["avr-gcc"].found[0].isdigit()


def test_a_remedy_for_everything_that_is_not_in_order() -> None:
    for check in checks():
        assert (check.status == "ok") == (check.remedy == ""), check


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
        (("ok", "missing", "old"), EXIT_GATE, "emulated runs: 2 thing(s) to mend"),
    ],
)
def test_the_report_and_its_verdict(statuses, code, verdict) -> None:
    results = [Check(f"thing {i}", status, "1.2", "type this") for i, status in enumerate(statuses)]
    out = io.StringIO()
    report(results, Console(file=out, width=100))
    assert exit_code(results) == code
    assert verdict in out.getvalue()
    assert all(f"thing {i}" in out.getvalue() for i in range(len(results)))
