"""Writes an image into a board with the program that its boot loader or probe is made for (docs/flashing.md).

The port is given, never searched for. What the program prints goes into a log; its failure becomes one line.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import serial

from tinyhil import files
from tinyhil.errors import FlashError, LinkError, WrongFirmware
from tinyhil.harness.boards.drives import find_drive, plain_image
from tinyhil.harness.boards.port_names import canonical, is_there, same_port
from tinyhil.harness.build.image import Image
from tinyhil.harness.settings.config import BoardSpec
from tinyhil.harness.wire.link import Link, reason
from tinyhil.harness.wire.stream import check_identity, greet
from tinyhil.processes import run
from tinyhil.quoting import tcl_word

OPENOCD_MINIMUM = (0, 12)  # knows `adapter serial`
BOOT_TRIES = 3
VERSION_S = 20.0
TOUCH_BAUD = 1200  # a Due's programming port erases the chip when it is closed at this speed
TOUCH_HOLD_S, ERASE_S = 0.1, 0.5
BOOT_S = 2.5  # an Uno's boot loader waits a second for a programmer before it starts the program
HELLO_S = 15.0
PROBE_S = 2.0  # for a board that may hold anything, or nothing; one that runs answers at once

Alive = Callable[[], None]


class BoardRefused(FlashError):
    """The flashing program ran, but the board did not answer or did not take the image."""


class NoAnswer(BoardRefused):
    """No boot loader answered."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A program that flashes. `no_answer`: why it may wait in vain; `complaints`: what it prints, what that means."""

    program: str
    package: str
    command: Callable[[Image, BoardSpec, str], list[str]]
    no_answer: str
    complaints: tuple[tuple[str, str], ...]
    serial_port: bool = True
    installer: str = "sudo apt-get install"
    failure: str | None = None  # what it prints when it has failed, if its exit code does not tell


def _avrdude(image: Image, board: BoardSpec, port: str) -> list[str]:
    what, baud = f"flash:w:{image.load_path}:i", str(board.upload_baud or board.baud)
    part = board.part
    return ["avrdude", "-p", part, "-c", "arduino", "-D", "-P", port, "-b", baud, "-U", what]


def _bossac(image: Image, board: BoardSpec, port: str) -> list[str]:
    """Without --reset: 1.8 to 1.9.1 reset the chip while it writes the boot bit, which is lost then (BOSSA #125).

    The next program that opens the port resets the chip through the board's USB processor, long after that.
    """
    return [*_bossac_does("--info", port), "--erase", "--write", "--verify", "--boot=1", str(image.load_path)]


def _bossac_does(job: str, port: str) -> list[str]:
    return ["bossac", f"--port={_bossac_name(port)}", "--usb-port=false", job]


def _bossac_name(port: str) -> str:
    return port.removeprefix("/dev/") if port.startswith("/dev/tty") else port


def _bossac_of_a_nano(image: Image, board: BoardSpec, port: str) -> list[str]:
    job = ["--usb-port", "--erase", "--write", "--verify", "--reset", str(image.load_path)]
    return ["bossac", f"--port={_bossac_name(port)}", *job]


def _stm32flash(image: Image, board: BoardSpec, port: str) -> list[str]:
    mode = "8n1" if port.startswith("/dev/pts/") else "8e1"  # a pseudo terminal has no parity bit, the ROM wants one
    wire = ["-b", str(board.upload_baud or board.baud), "-m", mode]
    return ["stm32flash", *wire, "-v", "-w", str(image.load_path), "-g", "0x0", port]


def _dd(image: Image, board: BoardSpec, drive: str) -> list[str]:
    return ["dd", f"if={image.load_path}", f"of={drive}/firmware.uf2", "conv=fsync", "status=none"]


# What the boot loader of a XIAO nRF52840 asks for: its kind of device, SoftDevice S140 7.3
NRF_DEVICE, NRF_SOFTDEVICE = "0x0052", "0x0123"


def _nrfutil(image: Image, board: BoardSpec, port: str) -> list[str]:
    wire = ["-p", port, "-b", "115200", "--singlebank", "--touch", str(TOUCH_BAUD)]
    return [*_NRF_DFU, "serial", "--package", str(_package(image)), *wire]


def _nrfutil_packs(image: Image) -> list[str]:
    """Makes the package that is sent, of the plain image that the UF2 file holds."""
    plain = image.load_path.with_suffix(".bin")
    files.write_bytes(plain, plain_image(files.read_bytes(image.load_path, "image", MOST_UF2_BYTES)))
    kind = ["--dev-type", NRF_DEVICE, "--sd-req", NRF_SOFTDEVICE]
    return [*_NRF_DFU, "genpkg", *kind, "--application", str(plain), str(_package(image))]


_NRF_DFU = ("adafruit-nrfutil", "dfu")
MOST_UF2_BYTES = 1 << 26


def _package(image: Image) -> Path:
    return image.load_path.with_suffix(".zip")


def _openocd(image: Image, board: BoardSpec, port: str) -> list[str]:
    elf = tcl_word(str(image.elf), "the path", FlashError)
    return _openocd_does(f"program {elf} verify reset exit", board, port)


FOREIGN_CHIP = "hil: foreign chip"


def identify(board: BoardSpec) -> str:
    """Tcl that ends openocd with a line of ours unless the chip behind the probe has the board's id code."""
    found = board.chip.debug_id
    if found is None:
        return "init"
    value = f"[expr {{[mrw {found.address:#x}] & {found.mask:#x}}}]"
    refuse = f'echo [format "{FOREIGN_CHIP} 0x%x, expected {found.value:#x}" $id]; shutdown error'
    return f"init; set id {value}; if {{$id != {found.value:#x}}} {{{refuse}}}"


def _openocd_does(job: str, board: BoardSpec, port: str) -> list[str]:
    found = usb_serial_number(port)
    which = ["-c", f"adapter serial {tcl_word(found, 'serial number', FlashError)}"] if found else []
    transport = {"stlink": "hla_swd", "cmsis-dap": "swd"}[board.upload]
    target = ["-c", f"transport select {transport}", "-f", f"target/{board.chip.openocd_target}.cfg"]
    reset = ["-c", f"reset_config {board.probe_reset}"] if board.probe_reset else []
    return ["openocd", "-f", f"interface/{board.upload}.cfg", *which, *target, *reset, "-c", identify(board), "-c", job]


NO_PORT = "the port can not be opened; see `hil boards` and the group dialout"
NO_UNO = "no boot loader answers; is an Uno on this port?"
NO_DUE = "no boot loader answers; use the programming port of a Due, or press ERASE"
NO_STM32 = "no boot loader answers; set BOOT0 high and reset the board"
NO_DRIVE = "no drive of its boot loader is mounted; hold BOOTSEL while you plug the board in, or press reset twice"
NO_NRF = "no boot loader answers; press reset twice, and give its serial port (upload_port in the board file)"
ARDUINOS_BOSSAC = "that of Arduino's core does (packages/arduino/tools/bossac/1.9.1-arduino2): put it first in PATH"
OTHER_AVR = "the chip has another signature than that of the board; is it this board?"
AVR_328PB = "the chip is an ATmega328PB: say `programmer_part: m328pb` in its entry of the board file"
OTHER_STM32 = "the chip behind this ST-LINK is another than the board's; nothing was written"
NO_PROBE = "no CMSIS-DAP probe answers; check the cable and the udev rules"
NO_ST_LINK = "no ST-LINK answers; check the cable and the udev rules"
MISMATCH = "what was read back differs from what was written: the flash is worn or the wire is bad"
TOOLS = {
    "arduino": Tool(
        "avrdude",
        "avrdude",
        _avrdude,
        NO_UNO,
        (
            (r"signature = 0x1e9516|1E 95 16", AVR_328PB),
            (r"Expected signature", OTHER_AVR),
            (r"can't open|cannot open|unable to open port|cannot set attributes for port", NO_PORT),
            (r"verification (error|mismatch)|mismatch", MISMATCH),
            (r"not responding|not in sync|unable to open programmer", NO_UNO),
        ),
    ),
    "sam-ba": Tool(
        "bossac",
        "bossa-cli",
        _bossac,
        NO_DUE,
        (
            (r"Verify failed|miscompare", MISMATCH),
            (r"No device found|SAM-BA operation failed", NO_DUE),
        ),
    ),
    "serial": Tool(
        "stm32flash",
        "stm32flash",
        _stm32flash,
        NO_STM32,
        (
            (r"Failed to verify", MISMATCH),
            (r"Failed to init device|Failed to read ACK", NO_STM32),
            (r"No such file|Failed to open|Permission denied|Cannot handle device", NO_PORT),
        ),
    ),
    "uf2": Tool("dd", "coreutils", _dd, NO_DRIVE, ((r"No space left", "the drive is full"),), serial_port=False),
    "nrfutil": Tool(
        "adafruit-nrfutil",
        "adafruit-nrfutil",
        _nrfutil,
        NO_NRF,
        ((r"could not be opened", NO_PORT), (r"No data received", NO_NRF)),
        installer="pip install",
        failure="Failed to upgrade target",
    ),
    "bossac": Tool(
        "bossac",
        "arduino:mbed_nano",
        _bossac_of_a_nano,
        NO_NRF,
        (
            (r"Verify failed|miscompare", MISMATCH),
            (r"No device found|SAM-BA operation failed", NO_NRF),
        ),
        installer="arduino-cli core install",
    ),
    "stlink": Tool(
        "openocd",
        "openocd",
        _openocd,
        NO_ST_LINK,
        (
            (FOREIGN_CHIP, OTHER_STM32),
            (r"Verify Failed|checksum mismatch", MISMATCH),
            (r"open failed|No ST-LINK|LIBUSB_ERROR", NO_ST_LINK),
            (r"init mode failed|unable to connect", "the ST-LINK does not reach the chip; press reset and try again"),
        ),
        serial_port=False,
    ),
    "cmsis-dap": Tool(
        "openocd",
        "openocd",
        _openocd,
        NO_PROBE,
        (
            (r"Verify Failed|checksum mismatch", MISMATCH),
            (r"unable to find.*CMSIS-DAP|LIBUSB_ERROR", NO_PROBE),
            (r"init mode failed|Error connecting DP", "the probe does not reach the chip; check its wires"),
        ),
        serial_port=False,
    ),
}


def flash(image: Image, board: BoardSpec, port: str, log: Path, drives: Iterable[Path] | None = None) -> None:
    """Write `image` into the board on `port` and have the program verify it; FlashError if that fails.

    `drives`: folders one of which is the board's boot loader, in place of all that are mounted. They verify nothing.
    """
    tool = required_tool(board.name, board.upload)
    if tool.program == "openocd":
        check_openocd(board)
    if board.upload == "bossac":
        check_bossac(board)
    device = _local_port(board, (tool.serial_port and board.upload_port) or port)
    if board.upload == "uf2":
        device = str(_drive(board, drives))
    if board.upload == "sam-ba":
        touch(device)
    if board.upload == "nrfutil":
        _run(tool, _nrfutil_packs(image), board, device, log.with_name(f"{log.stem}-package.log"))
    _run(tool, tool.command(image, board, device), board, port, log)
    if board.upload == "sam-ba":
        leave_boot_loader(image, board, device, log)


def _drive(board: BoardSpec, drives: Iterable[Path] | None) -> Path:
    drive = find_drive(board, drives)
    if drive is None:
        raise NoAnswer(f"{board.name}: {NO_DRIVE}")
    return drive


def required_tool(board: str, upload: str) -> Tool:
    """What flashes by the way `upload`; FlashError if there is none, or it is not installed."""
    tool = TOOLS.get(upload)
    if tool is None:
        raise FlashError(f"{board}: boards.yaml knows no way to flash it (upload: {upload})")
    if shutil.which(tool.program) is None:
        raise FlashError(f"{board}: {tool.program} is not installed; type: {tool.installer} {tool.package}")
    return tool


def leave_boot_loader(image: Image, board: BoardSpec, port: str, log: Path) -> None:
    """See that a Due starts the program just written; while its boot bit is still unset, set it again.

    BoardRefused if the board stays in it.
    """
    tool = TOOLS["sam-ba"]
    state, log = (log.with_name(f"{log.stem}-{what}.log") for what in ("state", "boot"))
    for _ in range(BOOT_TRIES):
        if runs(image, board, port):
            return
        try:
            _run(tool, _bossac_does("--info", port), board, port, state)
        except BoardRefused:
            return  # no boot loader is there: a program runs, and what it says is looked at next
        if re.search(r"Boot Flash\s*: true", _printed(state)):
            return
        _run(tool, _bossac_does("--boot=1", port), board, port, log)
    if not runs(image, board, port):
        stays = f"{board.name} on {port}: stays in its boot loader"
        raise BoardRefused(f"{stays}; press ERASE, then flash again; log: {log}")


def check_openocd(board: BoardSpec) -> None:
    """FlashError if openocd is older than what its command line here needs."""
    done = run(["openocd", "--version"], VERSION_S)
    found = re.search(r"Open On-Chip Debugger (\d+)\.(\d+)", done.stdout + done.stderr)
    if found and (int(found[1]), int(found[2])) < OPENOCD_MINIMUM:
        wanted = ".".join(map(str, OPENOCD_MINIMUM))
        raise FlashError(f"{board.name}: openocd {found[1]}.{found[2]} is too old, {wanted} or newer is needed")


def check_bossac(board: BoardSpec) -> None:
    """FlashError if the installed bossac has never heard of the chip: it would fail as if nobody answered."""
    program = shutil.which("bossac")
    content = Path(program).read_bytes() if program else b"#!"
    if not content.startswith(b"#!") and b"nRF52840" not in content:  # a script may start any
        raise FlashError(f"{board.name}: {program} does not know an nRF52840; {ARDUINOS_BOSSAC}")


def confirm(image: Image, board: BoardSpec, port: str, alive: Alive = lambda: None) -> None:
    """Wait for the HELLO of the program just written; WrongFirmware unless it is this image."""
    with Link(port, board.baud) as link:
        hello = greet(link, HELLO_S, _banner_s(board), alive)
    check_identity(hello, image.hash, port)


def runs(image: Image, board: BoardSpec, port: str) -> bool:
    """Whether the board on `port` says HELLO with this image's hash. A board that says nothing does not."""
    try:
        with Link(port, board.baud) as link:
            check_identity(greet(link, PROBE_S, _banner_s(board), lambda: None), image.hash, port)
    except (LinkError, WrongFirmware):
        return False
    return True


def touch(port: str) -> None:
    """Open and close the port at 1200 baud: the board's USB processor then erases and resets the chip.

    FlashError if the port can not be opened.
    """
    try:
        with serial.Serial(port, TOUCH_BAUD, exclusive=True) as opened:
            with suppress(OSError):  # a pseudo terminal has no such line
                opened.dtr = False
            time.sleep(TOUCH_HOLD_S)
    except OSError as error:
        raise FlashError(f"port {port} can not be opened: {reason(error)}; see `hil boards`") from None
    time.sleep(ERASE_S)


def has_probe(board: BoardSpec) -> bool:
    """Whether the board is reset by the probe that flashes it."""
    return board.reset == "by_probe" and board.upload in ("stlink", "cmsis-dap")


def reset_by_probe(board: BoardSpec, port: str, log: Path) -> None:
    """Have the board's probe reset the chip; FlashError if it does not."""
    _run(TOOLS[board.upload], _openocd_does("reset run; shutdown", board, port), board, port, log)


def usb_serial_number(port: str) -> str | None:
    """Serial number of the USB device behind `port`: it tells two probes of the same kind apart."""
    from serial.tools import list_ports

    return next((found.serial_number for found in list_ports.comports() if same_port(found.device, port)), None)


def _banner_s(board: BoardSpec) -> float:
    return BOOT_S if board.reset == "on_open" else 0.0


def _local_port(board: BoardSpec, port: str) -> str:
    if "://" in port:
        raise FlashError(f"{board.name}: {port} is remote; flash it there and run with --no-flash")
    if not is_there(port):
        raise FlashError(f"{board.name}: port {port} does not exist; `hil boards` lists the attached ones")
    return canonical(port)


def _run(tool: Tool, command: list[str], board: BoardSpec, port: str, log: Path) -> None:
    where = f"{board.name} on {port}: {tool.program}"
    with files.opened(log, "wb") as output:
        output.write(f"$ {' '.join(command)}\n".encode())
        output.flush()
        try:
            code = run(command, board.flash_deadline_s, stdout=output, stderr=subprocess.STDOUT).returncode
        except subprocess.TimeoutExpired:
            why = known_complaint(tool, log) or tool.no_answer
            kind = NoAnswer if why == tool.no_answer else BoardRefused
            raise kind(f"{where} did not finish within {board.flash_deadline_s} s: {why}; log: {log}") from None
    if code != 0 or (tool.failure and tool.failure in _printed(log)):
        why = known_complaint(tool, log) or last_line(log) or f"exit code {code}, nothing printed"
        kind = NoAnswer if why == tool.no_answer else BoardRefused
        raise kind(f"{where} failed: {why}; log: {log}")


def known_complaint(tool: Tool, log: Path) -> str | None:
    """What a known message in the log means; None without one."""
    printed = _printed(log)
    return next((means for pattern, means in tool.complaints if re.search(pattern, printed, re.IGNORECASE)), None)


def last_line(log: Path) -> str:
    """The last line of a log that says something, at most 200 characters."""
    lines = [line.strip() for line in re.split(r"[\r\n]+", _printed(log)) if line.strip()]
    return lines[-1][:200] if lines else ""


def _printed(log: Path) -> str:
    return log.read_text(errors="replace").split("\n", 1)[1]  # after the command line
