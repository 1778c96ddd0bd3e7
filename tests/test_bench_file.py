"""A user's bench file: what is in it, faults at their places, and which board a name means. USB ports are described."""

from __future__ import annotations

import os
import pty
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from serial.tools import list_ports
from serial.tools.list_ports_common import ListPortInfo

from tinyhil.errors import EXIT_NO_BOARD, EXIT_USAGE, BoardError, ConfigError
from tinyhil.harness.boards import attached
from tinyhil.harness.boards.locate import Place, find, locate
from tinyhil.harness.boards.survey import scan, stanza
from tinyhil.harness.settings.bench_file import default_bench, parse_bench
from tinyhil.harness.settings.config import Boards, load_boards

KINDS = load_boards().names
BENCH = """
locks: {wait_s: 5, expiry_s: 600, folder: /run/lock/tinyhil}
boards:
  left:
    board: due
    serial: "75130303532351A0C0E1"
    role: ci
    power: {hub: "1-1.4", port: 2}
    lock: hub
  right: {board: due, serial: "75130303532351A0C0E2", role: desk}
  clone: {board: uno, usb: "1A86:7523", port: /dev/serial/by-path/pci-0, serial: "0001"}
  far: {board: h747, address: "rfc2217://lab.example:4000", serial: "0042"}
  farm: {board: due, labgrid: {place: due-1, coordinator: "lab:20408"}}
"""


def faults_of(text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        parse_bench(text, Path("/home/me/bench.yaml"), KINDS)
    assert caught.value.exit_code == EXIT_USAGE
    return str(caught.value).splitlines()


def test_a_bench() -> None:
    bench = parse_bench(BENCH, Path("bench.yaml"), KINDS)
    assert list(bench.boards) == ["left", "right", "clone", "far", "farm"]
    left = bench.boards["left"]
    assert left.power is not None
    assert (left.serial, left.power.hub, left.power.port, left.lock) == ("75130303532351A0C0E1", "1-1.4", 2, "hub")
    assert (bench.locks.wait_s, bench.locks.expiry_s) == (5, 600)
    assert parse_bench("boards: {}\n", Path("bench.yaml"), KINDS).locks.wait_s == 30


def test_all_faults_are_reported_at_once() -> None:
    text = """boards:
  left:
    board: dew
    serial: 75130303532351
    usb: 2341:003D
    colour: red
  left:
    board: due
  due: {board: due, port: /dev/ttyACM0}
  nowhere: {board: due}
  both: {board: due, port: /dev/ttyACM1, address: "socket://h:1"}
  Far: {board: due, address: "http://h:1"}
  hub: {board: due, port: /dev/a, power: {hub: "usb", port: 0}}
locks: {wait_s: -1}
"""
    assert faults_of(text) == [
        "bench.yaml:4:13: boards.left.serial: Input should be a valid string",
        'bench.yaml:5:10: quote the USB identity: "2341:003D" (VID:PID, as in "2341:0043")',
        "bench.yaml:6:13: boards.left.colour: unknown key",
        "bench.yaml:7:3: duplicate key left",
        "bench.yaml:10:3: boards.nowhere: needs one way to reach it: serial and/or port, address, or labgrid",
        "bench.yaml:11:3: boards.both: needs one way to reach it: serial and/or port, address, or labgrid",
        "bench.yaml:12:3: boards.Far: 'Far' is wrong; it takes lower-case letters, digits and _, a letter first",
        "bench.yaml:12:30: boards.Far.address: 'http://h:1' is wrong; it takes rfc2217://HOST:PORT or "
        "socket://HOST:PORT",
        "bench.yaml:13:48: boards.hub.power.hub: 'usb' is wrong; it takes a hub as uhubctl prints it, such as 1-1.4",
        "bench.yaml:13:61: boards.hub.power.port: Input should be greater than 0",
        "bench.yaml:14:17: locks.wait_s: Input should be greater than or equal to 0",
    ]


def test_what_only_the_whole_shows() -> None:
    text = """boards:
  a: {board: dew, serial: "1"}
  b: {board: due, serial: "1"}
  due: {board: due, serial: "2"}
"""
    assert faults_of(text) == [
        f"bench.yaml:2:14: boards.a.board: no board named 'dew'; known: {', '.join(KINDS)}",
        "bench.yaml:3:27: boards.b.serial: a has the same serial",
        "bench.yaml:4:3: boards.due: boards.yaml has a kind of board of this name; choose another",
    ]


def test_where_it_is_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HIL_BENCH", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert default_bench() is None
    path = tmp_path / "tinyhil" / "bench.yaml"
    path.parent.mkdir()
    path.write_text("boards: {}\n")
    assert default_bench() == path
    monkeypatch.setenv("HIL_BENCH", str(tmp_path / "other.yaml"))
    with pytest.raises(ConfigError, match=r"other\.yaml: no such file"):
        load_boards(bench=default_bench())


# ---- which board is meant ----

Plug = Callable[..., str]


@pytest.fixture
def plug(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Plug]:
    """Attach USB serial ports: pseudo terminals that the system lists as devices, with links by id."""
    ports: list[ListPortInfo] = []
    masters = []
    by_id = tmp_path / "by-id"
    by_id.mkdir()

    def attach(usb: str, serial_number: str | None) -> str:
        master, slave = pty.openpty()
        masters.extend((master, slave))
        port = ListPortInfo(os.ttyname(slave))
        port.vid, port.pid = (int(part, 16) for part in usb.split(":"))
        port.serial_number, port.product = serial_number, "Board\x1b[2J"
        link = by_id / f"usb-{usb.replace(':', '_')}_{serial_number}-{len(ports)}"
        link.symlink_to(port.device)
        ports.append(port)
        return str(link)

    monkeypatch.setattr(list_ports, "comports", lambda: ports)
    monkeypatch.setattr(attached, "BY_ID", by_id)
    yield attach
    for descriptor in masters:
        os.close(descriptor)


DUE, UNO = "2341:003D", "2341:0043"
LEFT, RIGHT = "75130303532351A0C0E1", "75130303532351A0C0E2"


def bench(text: str = "boards: {}\n") -> Boards:
    boards = load_boards()
    return boards.model_copy(update={"bench": parse_bench(text, Path("bench.yaml"), boards.names)})


def refused(boards: Boards, name: str, port: str | None = None) -> str:
    with pytest.raises(BoardError) as caught:
        locate(boards, name, port)
    assert caught.value.exit_code == EXIT_NO_BOARD
    return str(caught.value)


def test_none_is_the_emulator_one_is_taken_two_are_an_error(plug: Plug) -> None:
    assert locate(bench(), "due") == Place("due", load_boards().board("due"))
    left = plug(DUE, LEFT)
    plug(UNO, "U1")
    one = locate(bench(), "due")
    assert (one.port, one.serial_number, one.lock_names) == (left, LEFT, (f"serial-{LEFT}",))
    right = plug(DUE, RIGHT)
    said = refused(bench(), "due")
    assert said.startswith("2 boards match due: ")
    for words in (left, right, f"serial number {LEFT}", f"serial number {RIGHT}", "--board due@SERIAL"):
        assert words in said
    assert locate(bench(), f"due@{RIGHT}").port == right
    assert locate(bench(), "due@emulated").port is None
    assert LEFT in refused(bench(), "due@nobody")


def test_namesakes_are_distinguished_by_name_and_role(plug: Plug) -> None:
    boards = bench(f'boards:\n  left: {{board: due, serial: "{LEFT}", role: ci}}\n')
    assert "left: not attached" in refused(boards, "left")
    assert locate(boards, "due").port is None  # what is not attached is no candidate
    left, right = plug(DUE, LEFT), plug(DUE, RIGHT)
    assert locate(boards, "left").port == locate(boards, "due@ci").port == left
    assert [(place.name, place.port) for place in find(boards, "due")] == [("left", left), ("due", right)]
    assert "left (" in refused(boards, "due")


def test_a_port_with_another_serial_number_is_another_board(plug: Plug) -> None:
    port = plug(DUE, RIGHT)
    boards = bench(f'boards:\n  left: {{board: due, serial: "{LEFT}", port: {port}}}\n')
    assert f"has serial number {RIGHT}, no port has {LEFT}" in refused(boards, "left")
    moved = plug(DUE, LEFT)  # the cable went into another socket
    assert locate(boards, "left").port == moved


def test_equal_serial_numbers_need_a_port(plug: Plug) -> None:
    """Cheap adapters all have the same one."""
    first, second = plug("1A86:7523", "0001"), plug("1A86:7523", "0001")
    only = 'boards:\n  mine: {board: uno, usb: "1A86:7523", serial: "0001"}\n'
    said = refused(bench(only), "mine")
    assert first in said
    assert second in said
    assert locate(bench(only.replace("}", f", port: {second}}}")), "mine").port == second


def test_one_board_has_one_lock_however_it_is_named(plug: Plug) -> None:
    port = plug(DUE, LEFT)
    boards = bench(f'boards:\n  left: {{board: due, serial: "{LEFT}", lock: hub}}\n')
    names = {locate(boards, name).lock_names for name in ("left", "due", f"due@{LEFT}")}
    names |= {locate(boards, "due", named).lock_names for named in (port, os.path.realpath(port))}
    assert names == {(f"serial-{LEFT}", "shared-hub")}


def test_a_mark_is_of_one_board_and_of_no_passing_port(plug: Plug) -> None:
    """Boards that share a lock are not wedged together; the next pseudo terminal may have the name of the last."""
    plug(DUE, LEFT)
    boards = bench(f'boards:\n  left: {{board: due, serial: "{LEFT}", lock: hub}}\n')
    assert locate(boards, "left").mark_names == (f"serial-{LEFT}",)
    bare = plug("1A86:7523", None)
    assert locate(boards, "uno", bare).mark_names == ()
    assert locate(boards, "uno", bare).lock_names == (f"port-{os.path.realpath(bare)}",)
    named = bench(f"boards:\n  mine: {{board: uno, port: {bare}}}\n")
    assert locate(named, "mine").mark_names == ("instance-mine",)
    assert locate(boards, "due", "socket://h:1").mark_names == ("port-socket://h:1",)
    assert locate(boards, "due@emulated").mark_names == locate(boards, "host").mark_names == ()


@pytest.mark.parametrize(
    ("name", "port", "words"),
    [
        ("host", "/dev/ttyS0", "no serial port"),
        ("host@me", None, "this computer"),
        ("due", "", "--port is empty"),
        ("far", "/dev/ttyS0", "leave out --port"),
        ("due@X", "/dev/ttyS0", "one of them is enough"),
        ("due", "labgrid://due-1", "needs an entry in the bench file"),
        ("lef", None, "did you mean left?"),
    ],
)
def test_what_contradicts_itself_is_refused(name: str, port: str | None, words: str) -> None:
    with pytest.raises((BoardError, ConfigError), match=words):
        locate(bench(BENCH), name, port)


def test_scan_shows_every_port_and_writes_entries(plug: Plug) -> None:
    left, unknown = plug(DUE, LEFT), plug("1234:5678", None)
    plug("0483:374B", "0042")
    boards = bench(f'boards:\n  left: {{board: due, serial: "{LEFT}"}}\n')
    found = {one.where: one for one in scan(boards)}
    assert (found[left].instance, found[left].kinds) == ("left", ("due",))
    assert found[unknown].kinds == ()
    assert found[left].product == "Board?[2J"  # what a device says moves no cursor
    new = [one for one in found.values() if one.kinds and one.instance is None]
    entries = "\n".join(["boards:", *(stanza(one, number) for number, one in enumerate(new, 1))])
    (instance,) = bench(entries).bench.boards.values()
    assert instance.serial == "0042"


def test_the_example_of_the_page_is_a_bench() -> None:
    page = (Path(__file__).resolve().parent.parent / "docs" / "bench.md").read_text()
    example = page.split("```yaml\n")[1].split("```")[0]
    found = parse_bench(example, Path("bench.md"), KINDS)
    assert list(found.boards) == ["left", "right", "clone", "nucleo", "far", "farm"]
    assert (found.locks.wait_s, found.locks.expiry_s) == (30, 3600)


@pytest.mark.parametrize(
    ("kind", "usb"), [("h747", "0483:374E"), ("nucleo_h745", "0483:374E"), ("nucleo_l4r5", "0483:374B")]
)
def test_a_probe_that_other_boards_have_too_is_never_guessed(kind: str, usb: str, plug: Plug) -> None:
    """Every Nucleo's ST-LINK has the identity of the Discovery board's: a run would overwrite a foreign board."""
    port = plug(usb, "0042")
    boards = bench("boards: {}\n")
    with pytest.raises(BoardError, match=rf"serial number 0042\) may be a {kind} or any other board.*{kind}@SERIAL"):
        locate(boards, kind)
    assert locate(boards, f"{kind}@0042").port == port
    assert locate(boards, kind, port).port == port
    assert locate(boards, f"{kind}@emulated").port is None
    named = bench(f'boards:\n  mine: {{board: {kind}, serial: "0042"}}\n')
    assert locate(named, kind).port == locate(named, "mine").port == port
    assert locate(boards, "due").port is None
