"""Names of serial ports of every system: links, COM ports, which no file system knows."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from serial.tools import list_ports

from tinyhil.errors import BoardError
from tinyhil.harness.boards.locate import locate
from tinyhil.harness.boards.port_names import canonical, is_there, same_port
from tinyhil.harness.settings.bench_file import Bench, Instance
from tinyhil.harness.settings.config import Boards, load_boards


@pytest.mark.parametrize(
    ("port", "name"), [("COM3", "COM3"), ("com12", "COM12"), (r"\\.\COM12", "COM12"), (r"\\?\com4", "COM4")]
)
def test_a_com_port_has_one_name(port: str, name: str) -> None:
    assert canonical(port) == name
    assert same_port(port, name)
    assert not same_port(port, "COM99")


@pytest.mark.parametrize("port", ["COM0", "COMx", "COM3/x", "COM"])
def test_what_looks_like_one_is_a_path(port: str) -> None:
    assert canonical(port) == os.path.realpath(port)


@pytest.mark.skipif(os.name == "nt", reason="Windows makes links for administrators alone")
def test_links_are_followed(tmp_path: Path) -> None:
    (tmp_path / "tty").touch()
    (tmp_path / "by-id").symlink_to(tmp_path / "tty")
    assert same_port(str(tmp_path / "by-id"), str(tmp_path / "tty"))
    assert is_there(str(tmp_path / "by-id"))
    assert not is_there(str(tmp_path / "none"))


def bench_with(port: str) -> Boards:
    return load_boards().model_copy(update={"bench": Bench(boards={"left": Instance(board="uno", port=port)})})


def test_a_board_of_the_bench_on_a_com_port(monkeypatch: pytest.MonkeyPatch) -> None:
    """As pyserial lists them on Windows: found whatever its case, refused when it is not listed."""
    found = SimpleNamespace(device="COM7", vid=0x2341, pid=0x0043, serial_number="A1", product="Uno")
    monkeypatch.setattr(list_ports, "comports", lambda: [found])
    place = locate(bench_with("com7"), "left")
    assert (place.port, place.serial_number) == ("com7", "A1")
    assert locate(load_boards(), "uno", "com7").serial_number == "A1"
    with pytest.raises(BoardError, match="COM8 does not exist"):
        locate(bench_with("COM8"), "left")
