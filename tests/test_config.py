"""boards.yaml: what is in it, and that every fault is reported at its place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from boards_under_test import EMULATED

from tinyhil import files
from tinyhil.errors import EXIT_NO_BOARD, EXIT_USAGE, BoardError, ConfigError
from tinyhil.harness.commands.schema import schema_text
from tinyhil.harness.settings.config import Boards, BoardSpec, load_boards, parse_boards

ROOT = Path(__file__).resolve().parent.parent
CHIP = """chips:
  tiny: {core: avr, machine: -mmcu=tiny, flash_bytes: 100, ram_bytes: 50, stack_reserve_bytes: 10, clock_hz: 16000000,
         compiler: avr-gcc, load: hex, tick: cycles, uart: {name: U}}
"""
BOARD = "title: T, chip: tiny, reset: on_open, upload: none"


def faults_of(text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        parse_boards(text, Path("/somewhere/boards.yaml"))
    assert caught.value.exit_code == EXIT_USAGE
    return str(caught.value).splitlines()


@pytest.fixture(scope="module")
def boards() -> Boards:
    return load_boards()


def test_the_boards_of_the_project(boards: Boards) -> None:
    assert {"uno", "due", "h747", "host", "qemu_m3", "nucleo_h745"} <= set(boards.names)
    assert [name for name in boards.names if boards.board(name).is_host] == ["host", "reram"]
    assert load_boards(ROOT / "boards.yaml") == boards


@pytest.mark.parametrize("name", EMULATED)
def test_every_microcontroller_has_limits_an_emulator_and_an_identity(name: str, boards: Boards) -> None:
    board = boards.board(name)
    chip = board.chip
    assert chip.ram_bytes is not None
    assert chip.stack_reserve_bytes is not None
    assert 0 < chip.stack_reserve_bytes < chip.ram_bytes
    assert chip.emulator is not None
    assert {"{image}", "{link}"} <= set(chip.emulator.args)
    assert (ROOT / chip.emulator.program).parent.parent.is_dir()
    assert (ROOT / "firmware/hal" / chip.name).is_dir()
    assert board.usb


def test_no_two_boards_share_a_usb_identity(boards: Boards) -> None:
    """Unless both say so: then neither is found by it alone."""
    kinds = [boards.board(name) for name in boards.names]
    identities = [usb for board in kinds if not board.usb_shared for usb in board.usb]
    shared = {usb for board in kinds if board.usb_shared for usb in board.usb}
    assert not shared & set(identities)
    assert len(identities) == len(set(identities))


def test_a_board_is_frozen(boards: Boards) -> None:
    with pytest.raises(ValueError, match="frozen"):
        boards.board("due").baud = 9600  # type: ignore[misc]


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("Dew", "did you mean due?"),
        ("h743", "did you mean h747?"),
        ("stm32h7", "did you mean h747?"),
        ("SAM3X8E", "did you mean due?"),
        ("zzz", "reram"),
    ],
)
def test_an_unknown_board_lists_the_known_ones(name: str, hint: str, boards: Boards) -> None:
    with pytest.raises(BoardError) as caught:
        boards.board(name)
    message = str(caught.value)
    assert message.startswith(f"no board named {name!r}; ")
    assert f"known: {', '.join(boards.names)}" in message
    assert hint in message
    assert caught.value.exit_code == EXIT_NO_BOARD


def test_a_new_board_is_one_entry() -> None:
    parsed = parse_boards(f'{CHIP}boards:\n  mine: {{{BOARD}, usb: ["1A86:7523"]}}\n', Path("boards.yaml"))
    mine = parsed.board("mine")
    assert isinstance(mine, BoardSpec)
    assert (mine.usb, mine.baud, mine.chip.ram_bytes) == (("1A86:7523",), 115200, 50)


def test_all_faults_are_reported_at_once() -> None:
    text = """chips:
  tiny: {core: avr, flash_bytes: "12", clock_hz: 1, compiler: avr-gcc, load: hex, tick: cycles}
  tiny: {core: avr}
boards:
  uno:
    title: T
    chip: tiny
    usb: [2341:0043, 2341:43, 0043, "2341:43", '2341:0043']
    baud: -1
    colour: red
    reset: on_open
  Bad:
    title: T
"""
    assert faults_of(text) == [
        "boards.yaml:2:34: chips.tiny.flash_bytes: Input should be a valid integer",
        "boards.yaml:3:3: duplicate key tiny",
        "boards.yaml:5:3: boards.uno.upload: missing",
        'boards.yaml:8:11: quote the USB identity: "2341:0043" (VID:PID, as in "2341:0043")',
        'boards.yaml:8:22: quote the USB identity: "2341:43" (VID:PID, as in "2341:0043")',
        'boards.yaml:8:31: quote the USB identity: "0043" (VID:PID, as in "2341:0043")',
        "boards.yaml:8:37: boards.uno.usb.3: '2341:43' is wrong; it takes "
        'VID:PID, four hexadecimal digits each: "2341:0043"',
        "boards.yaml:9:11: boards.uno.baud: Input should be greater than 0",
        "boards.yaml:10:13: boards.uno.colour: unknown key",
        "boards.yaml:12:3: boards.Bad.chip: missing",
        "boards.yaml:12:3: boards.Bad.reset: missing",
        "boards.yaml:12:3: boards.Bad.upload: missing",
        "boards.yaml:12:3: boards.Bad: 'Bad' is wrong; it takes lower-case letters, digits and _, a letter first",
    ]


@pytest.mark.parametrize("written", ["2341:003d", "2341:003D"])
def test_an_identity_of_usb_is_one_in_either_case(written: str) -> None:
    """As lsusb prints it, and as a port says it."""
    parsed = parse_boards(f'{CHIP}boards:\n  mine: {{{BOARD}, usb: ["{written}"]}}\n', Path("boards.yaml"))
    assert parsed.board("mine").usb == ("2341:003D",)


@pytest.mark.parametrize("kind", ["boards", "bench"])
def test_no_spelling_is_told_as_a_pattern_alone(kind: str) -> None:
    """Whoever mistypes a word reads what to write; an editor shows the same."""

    def patterns(part: object) -> list[dict]:
        if isinstance(part, dict):
            found = [part] if isinstance(part.get("pattern"), str) else []
            return found + [one for value in part.values() for one in patterns(value)]
        return [one for value in part for one in patterns(value)] if isinstance(part, list) else []

    found = patterns(json.loads(schema_text(kind)))
    assert len(found) > 5
    assert [one for one in found if not one.get("description")] == []


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "boards.yaml:1:1: the file is empty"),
        ("- a\n- b\n", "boards.yaml:1:1: "),
        ("chips: [1, 2\nboards: {}\n", "boards.yaml:2:7: expected ',' or ']'"),
        ("chips: {}\n\tboards: {}\n", "boards.yaml:2:1: found character"),
        (f"{CHIP}boards:\n  a: {{{BOARD}}}\n  a: {{{BOARD}}}\n", "boards.yaml:6:3: duplicate key a"),
        (
            f"{CHIP}boards:\n  a: {{{BOARD.replace('tiny', 'huge')}}}\n",
            "boards.yaml:5:23: boards.a.chip: no chip named 'huge'",
        ),
        (CHIP.replace("ram_bytes: 50, ", "") + "boards: {}\n", "boards.yaml:2:3: chips.tiny: a chip needs ram_bytes"),
        (f"{CHIP}boards:\n  a: {{{BOARD}, usb: [2341:0043]}}\n", 'quote the USB identity: "2341:0043"'),
        (f"{CHIP}boards:\n  a: {{{BOARD}, baud: 1e400}}\n", "boards.a.baud"),
        (f"{CHIP}boards:\n  a: {{{BOARD}, baud: yes}}\n", "boards.a.baud"),
        (f"{CHIP}boards:\n  a: {{{BOARD}, ? [x] : y}}\n", "a key must be a word"),
        (f"{CHIP}boards: 7\n", "boards.yaml:4:9: boards: "),
        (f"{CHIP}boards:\n  a: &x {{{BOARD}, usb: *x}}\n", "boards.yaml:"),
    ],
)
def test_each_fault_has_a_place(text: str, fault: str) -> None:
    assert any(fault in line for line in faults_of(text))
    assert all(line.startswith("boards.yaml:") for line in faults_of(text))


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.yaml: no such file"):
        load_boards(tmp_path / "none.yaml")
    (tmp_path / "bytes.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match=r"bytes\.yaml: no UTF-8 text"):
        load_boards(tmp_path / "bytes.yaml")


def test_a_number_in_powers_of_ten_without_a_point_is_one() -> None:
    """YAML 1.1 reads 1e-05 as text; JSON, YAML 1.2 and people mean a number."""
    assert files.compose_yaml("x: 1e-05").value[0][1].tag == "tag:yaml.org,2002:float"
    assert files.compose_yaml("x: 1e").value[0][1].tag == "tag:yaml.org,2002:str"
