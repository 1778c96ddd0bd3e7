"""A new board of a known chip is one entry in a file of the user's; a chip like another says only what differs."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest
from hil_command import check_failure, hil, record_of
from wire_bench import ROOT

from tinyhil.errors import ConfigError
from tinyhil.harness.build.platformio import INI, MANIFESTS, defines, manifest, project_files
from tinyhil.harness.settings.config import Boards, load_boards
from tinyhil.harness.settings.emulator_entry import filled

NANO = """boards:
  nano: {title: Arduino Nano, chip: atmega328p, usb: ["1A86:7523"], upload_baud: 57600, reset: on_open, upload: arduino}
"""
LIKE = """chips:
  small: {like: sam3x8e, ram_bytes: 65536}
  smaller: {like: small, flash_bytes: 131072}
boards:
  mine: {title: Mine, chip: smaller, reset: on_open, upload: none}
"""


def boards_of(text: str, folder: Path) -> Boards:
    path = folder / "mine.yaml"
    path.write_text(text)
    return load_boards(path)


def test_one_entry_runs(tmp_path: Path) -> None:
    """Built, flashed into the emulator of its chip and compared, as the Uno is."""
    (tmp_path / "mine.yaml").write_text(NANO)
    run = ("run", "--model", "digits_mlp", "--samples", 1, "--json")
    mine = record_of(hil(*run, "--board", "nano", "--boards-file", "mine.yaml", cwd=tmp_path))
    uno = record_of(hil(*run, "--board", "uno", cwd=tmp_path))
    assert (mine["board"], mine["bit_exact"]) == ("nano", True)
    assert mine["raw"] == uno["raw"]
    command = mine["provenance"]["command"]
    assert "--boards-file" not in uno["provenance"]["command"]
    again = record_of(hil(*shlex.split(command)[1:], "--json", cwd=tmp_path))  # as it is kept
    assert again["raw"] == mine["raw"]


def test_a_command_knows_the_bench_that_it_was_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is read by itself is not said."""
    given, usual = tmp_path / "my bench.yaml", tmp_path / "usual.yaml"
    given.write_text("locks:\n  wait_s: 7\n")
    usual.write_text(given.read_text())
    monkeypatch.setenv("HIL_BENCH", str(usual))
    run = ("run", "--model", "digits_mlp", "--board", "uno", "--samples", 1, "--json")
    made = record_of(hil(*run, "--bench", given.name, cwd=tmp_path))
    command = made["provenance"]["command"]
    assert command.endswith("--bench 'my bench.yaml'")
    assert record_of(hil(*shlex.split(command)[1:], "--json", cwd=tmp_path))["raw"] == made["raw"]
    assert "--bench" not in record_of(hil(*run, cwd=tmp_path))["provenance"]["command"]


def test_the_command_in_a_search_record_knows_its_board(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(NANO)
    small = ("--samples", 20, "--evaluations", 2, "--formats", "fixed8", "--results", "r", "--arena", 400)
    done = hil("search", "--model", "digits_mlp", "--board", "nano", "--boards-file", "mine.yaml", *small, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    texts = [path.read_text() for path in (tmp_path / "r").rglob("*.json")]
    (command,) = (shlex.split(json.loads(text)["command"]) for text in texts if '"command"' in text)
    assert command[:2] == ["hil", "search"]
    assert hil(*command[1:], cwd=tmp_path).returncode == 0


def test_it_stands_beside_the_boards_there_are(tmp_path: Path) -> None:
    both, shipped = boards_of(NANO, tmp_path), load_boards()
    assert both.names == (*shipped.names, "nano")
    assert both.board("uno") == shipped.board("uno")
    assert both.board("nano").chip == shipped.board("uno").chip


def test_an_entry_of_a_name_there_is_replaces_it(tmp_path: Path) -> None:
    both = boards_of(NANO.replace("nano:", "uno:"), tmp_path)
    assert both.board("uno").title == "Arduino Nano"
    assert both.names == load_boards().names


def test_a_project_has_its_environment(tmp_path: Path) -> None:
    done = hil("generate", "fastgrnn_har", "--out", "p", "--boards-file", (tmp_path / "mine.yaml"), cwd=tmp_path)
    assert done.returncode == 2  # there is no such file yet
    (tmp_path / "mine.yaml").write_text(NANO)
    done = hil("generate", "fastgrnn_har", "--out", "p", "--boards-file", "mine.yaml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "\n[env:nano]\nboard = nano\n" in (tmp_path / "p" / INI).read_text()
    nano = load_boards(tmp_path / "mine.yaml").board("nano")
    assert (tmp_path / "p" / MANIFESTS / "nano.json").read_text() == manifest(nano)
    assert "HIL_BOARD_NANO" in "".join(path.read_text() for path in (tmp_path / "p" / "model").iterdir())


def test_a_chip_like_another(tmp_path: Path) -> None:
    boards = boards_of(LIKE, tmp_path)
    mine, due = boards.board("mine").chip, boards.board("due").chip
    assert (mine.name, mine.hal, mine.ram_bytes, mine.flash_bytes) == ("smaller", "sam3x8e", 65536, 131072)
    assert mine.emulated_as == "sam3x8e"
    other = {"name", "like", "ram_bytes", "flash_bytes"}
    assert mine.model_dump(exclude=other) == due.model_dump(exclude=other)
    assert "HIL_CHIP_SAM3X8E" in defines(boards.board("mine"))


def test_a_chip_like_another_is_emulated_as_that_one(tmp_path: Path) -> None:
    """Its emulator knows no other by name."""
    (tmp_path / "mine.yaml").write_text(LIKE)
    run = ("run", "--model", "digits_mlp", "--samples", 1, "--json")
    mine = record_of(hil(*run, "--board", "mine", "--boards-file", "mine.yaml", cwd=tmp_path))
    due = record_of(hil(*run, "--board", "due", cwd=tmp_path))
    assert mine["bit_exact"]
    assert mine["emulator"] == due["emulator"]
    assert mine["latency"]["median"] == pytest.approx(due["latency"]["median"], rel=0.01)  # code lies elsewhere


@pytest.mark.parametrize("boards_file", [None, ROOT / "benchmarks" / "published_boards.yaml"])
def test_the_emulator_of_a_chip_knows_it(boards_file: Path | None) -> None:
    usage = subprocess.run([ROOT / "emulators/cortexm/build/armsim"], capture_output=True, text=True).stderr
    known = set(usage.partition("chips: ")[2].partition(";")[0].split())
    assert {"sam3x8e", "stm32f746"} <= known
    for board in load_boards(boards_file).entries.values():
        emulator = board.chip.emulator
        if emulator is not None and emulator.program.endswith("armsim"):
            assert board.chip.name not in known or board.chip.emulated_as == board.chip.name
            for arguments in (emulator.args, emulator.foreign_args, emulator.loader_args):
                asked = filled(arguments, defaultdict(str, chip=board.chip.emulated_as))
                assert not asked or asked[asked.index("--chip") + 1] in known, board.name


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            LIKE.replace("like: small,", "like: large,"),
            "mine.yaml:3:19: chips.smaller.like: no chip named 'large'; known: ",
        ),
        (
            LIKE.replace("like: sam3x8e", "like: smaller"),
            "mine.yaml:2:17: chips.small.like: small -> smaller -> small is",
        ),
        (LIKE.replace("like: small,", "like: smaller,"), "chips.smaller.like: smaller -> smaller is a circle"),
        (LIKE.replace("like: small,", "like: [small],"), "chips.smaller.like: "),
        (LIKE.replace("65536", "-1"), "mine.yaml:2:37: chips.small.ram_bytes: Input should be greater than 0"),
        (LIKE.replace("65536", "65500"), "ram_bytes 65500: the stack begins at its end, a multiple of 8"),
        (LIKE.replace("chip: smaller", "chip: atmega2560"), "no chip named 'atmega2560'; known: atmega328p, sam3x8e, "),
    ],
)
def test_what_is_wrong_is_said_at_its_place(text: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        boards_of(text, tmp_path)
    assert why in str(caught.value)


def test_every_chip_has_its_folder_and_what_its_linker_needs() -> None:
    for board in load_boards().entries.values():
        folder = ROOT / "firmware" / "hal" / board.chip.hal
        assert list(folder.glob("*.cpp")), board.name
        if board.chip.compiler == "arm-none-eabi-gcc":
            assert (folder / f"{board.chip.hal}.ld").is_file(), board.name


def test_environments_are_those_of_the_microcontrollers() -> None:
    boards = load_boards().entries.values()
    chips = {board.name for board in boards if not board.is_host}
    files = project_files(list(boards))
    assert set(files) == {INI, *(f"{MANIFESTS}/{name}.json" for name in chips)}
    assert {path.stem for path in (ROOT / MANIFESTS).iterdir()} == chips  # and none of a board that is gone


@pytest.mark.parametrize(
    ("chip", "why"),
    [
        (
            "like: stm32h747, clock_hz: 480000000",
            "chips.mine.clock_hz: 480000000, but the firmware of stm32h747 sets up",
        ),
        ("like: stm32l4r5, clock_hz: 80000000", "chips.mine.clock_hz: 80000000, but the firmware of stm32l4r5 sets up"),
        (
            "like: atmega328p, ram_bytes: 8192",
            "chips.mine.ram_bytes: 8192, but it is emulated as atmega328p, which",
        ),
        ("like: stm32g0b1, flash_bytes: 524289", "chips.mine.flash_bytes: 524289, but it is emulated as stm32g0b1"),
        ("like: atmega328p, clock_hz: 1000000", "at 1 MHz the nearest is 125,000 (+8.5 %); give baud: 9600"),
        ("like: stm32l4r5, ram_bytes: 1024", "ram_bytes 1024: the reserve for the stack (stack_reserve_bytes, 2048)"),
    ],
)
def test_what_the_firmware_can_not_be_is_refused_where_it_is_written(chip: str, why: str, tmp_path: Path) -> None:
    board = "boards:\n  mine: {title: Mine, chip: mine, reset: by_probe, upload: stlink}\n"
    with pytest.raises(ConfigError) as caught:
        boards_of(f"chips:\n  mine: {{{chip}}}\n{board}", tmp_path)
    assert why in str(caught.value)


@pytest.mark.parametrize(
    ("like", "ram_bytes", "reserve_bytes", "option", "named"),
    [
        ("atmega328p", 620, 256, (), r"try ()(\d+) as stack_reserve_bytes of short, not 256"),
        ("stm32g0b1", 1008, 256, (), r"try (--prefer least), with which it takes"),
        ("stm32g0b1", 1200, 256, ("--prefer", "ram"), r"try (--ram \d+), with which it takes"),
        ("stm32g0b1", 1040, 640, (), r"try ()(\d+) as stack_reserve_bytes of short, not 640"),
        ("stm32g0b1", 1040, 640, ("--prefer", "least"), r"try ()(\d+) as stack_reserve_bytes of short, not 640"),
        ("stm32g0b1", 1000, 256, (), r"no plan of these formats was found that fits, the least takes 440 B static"),
    ],
)
def test_where_ram_is_short_what_is_named_was_tried(
    like: str, ram_bytes: int, reserve_bytes: int, option: tuple[str, ...], named: str, tmp_path: Path
) -> None:
    """`--prefer ram` was named to whom had given it, then `--ram N`, whose stack is deeper, then the first again."""

    def run(*more: object, reserve_bytes: object = reserve_bytes) -> subprocess.CompletedProcess[str]:
        chip = f"{{like: {like}, ram_bytes: {ram_bytes}, stack_reserve_bytes: {reserve_bytes}}}"
        board = "{title: Mine, chip: short, reset: on_open, upload: none}"
        (tmp_path / "own.yaml").write_text(f"chips:\n  short: {chip}\nboards:\n  mine: {board}\n")
        asked = ("--boards-file", "own.yaml", "--board", "mine", "--model", "digits_cnn", "--format", "fixed8")
        return hil("run", *asked, "--samples", 1, *more, "--json", cwd=tmp_path)

    refused = run(*option)
    check_failure(refused, 4, logs=True)
    found = re.search(named, refused.stderr)
    assert found is not None, refused.stderr
    if found.groups():
        remedy, *reserve = found.groups()
        again = run(*(remedy or " ".join(option)).split(), reserve_bytes=(*reserve, reserve_bytes)[0])
        assert record_of(again)["bit_exact"]


def test_where_flash_is_short_a_plan_that_fits_is_named(tmp_path: Path) -> None:
    """Rows take code, slots for samples do, too: a lower width was advised, or a larger board."""
    own = "boards:\n  mine: {title: Mine, chip: short, reset: on_open, upload: none}\n"
    (tmp_path / "own.yaml").write_text(f"chips:\n  short: {{like: atmega328p, flash_bytes: 7700}}\n{own}")
    asked = ("run", "--boards-file", "own.yaml", "--board", "mine", "--model", "digits_mlp", "--samples", 1)
    refused = hil(*asked, "--format", "fixed8", cwd=tmp_path)
    check_failure(refused, 4, logs=True)
    (option, flash_bytes) = re.findall(r"try (--prefer ram), with which it takes (\d+) B of flash", refused.stderr)[0]
    ran = record_of(hil(*asked, "--format", "fixed8", *option.split(), "--json", cwd=tmp_path))
    assert ran["flash_bytes"] == int(flash_bytes)
    refused = hil(*asked, "--format", "fixed16", cwd=tmp_path)
    check_failure(refused, 4, "use a lower width", logs=True)
    assert "try --prefer" not in refused.stderr


@pytest.mark.parametrize(("ram_bytes", "advice"), [(640, "or --ram 288"), (480, "or a larger board")])
def test_a_limit_that_the_chip_can_not_take_is_not_named(ram_bytes: int, advice: str, tmp_path: Path) -> None:
    chip = f"{{like: atmega328p, ram_bytes: {ram_bytes}, stack_reserve_bytes: 200}}"
    own = "boards:\n  mine: {title: Mine, chip: short, reset: on_open, upload: none}\n"
    (tmp_path / "own.yaml").write_text(f"chips:\n  short: {chip}\n{own}")
    asked = ("run", "--boards-file", "own.yaml", "--board", "mine", "--model", "digits_cnn", "--format", "fixed8")
    check_failure(hil(*asked, "--samples", 1, "--ram", 100, cwd=tmp_path), 4, advice, logs=True)


def test_an_avr_of_another_crystal_is_its_part_for_avrdude(tmp_path: Path) -> None:
    text = "chips:\n  slow: {like: atmega328p, clock_hz: 8000000, ram_bytes: 1024}\n"
    board = "boards:\n  mini: {title: Mini, chip: slow, reset: on_open, upload: arduino}\n"
    assert boards_of(text + board, tmp_path).board("mini").part == "atmega328p"
    (tmp_path / "own.yaml").write_text(text + board.replace("}", ", baud: 38400}"))
    run = ("run", "--boards-file", "own.yaml", "--board", "mini", "--model", "digits_mlp", "--format", "fixed8")
    record = record_of(hil(*run, "--samples", 1, "--json", cwd=tmp_path))
    lowest, ram_end = record["provenance"]["emulator_exit"]["min_sp"], 0x100 + 1024 - 1
    assert ram_end - lowest == record["memory"]["stack_bytes"], "the stack begins where this chip's RAM ends"
    own = "boards:\n  mini: {title: Mini, chip: atmega328p, clock_hz: 12000000, reset: on_open, upload: arduino}\n"
    assert boards_of(own, tmp_path).board("mini").chip.clock_hz == 12_000_000


def test_an_own_pico_is_flashed_by_the_drive_of_its_rom(tmp_path: Path) -> None:
    """Without a drive_id of its own; a boot loader that is no ROM's needs one."""
    entry = "{{title: Mine, chip: {}, reset: by_probe, upload: uf2}}"
    (tmp_path / "own.yaml").write_text(f"boards:\n  mine: {entry.format('rp2040')}\n")
    run = ("run", "--boards-file", "own.yaml", "--board", "mine", "--model", "digits_mlp", "--samples", "2", "--json")
    done = hil(*run, cwd=tmp_path, HIL_LOAD="flash")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["link"]["load"] == "flash"
    with pytest.raises(ConfigError, match="upload: uf2 needs the drive_id"):
        boards_of(f"boards:\n  mine: {entry.format('nrf52840')}\n", tmp_path)


def test_a_probe_writes_past_the_drive_of_a_boot_loader(tmp_path: Path) -> None:
    """Emulated, such a board is given its image directly."""
    board = "boards:\n  mine: {title: Mine, chip: nrf52840, reset: by_probe, upload: cmsis-dap}\n"
    (tmp_path / "mine.yaml").write_text(board)
    asked = ("--board", "mine", "--boards-file", "mine.yaml", "--model", "digits_mlp", "--samples", 1, "--json")
    assert record_of(hil("run", *asked, cwd=tmp_path))["bit_exact"]
