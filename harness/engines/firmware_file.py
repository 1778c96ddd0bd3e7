"""A firmware that somebody else has built: what its file tells, and the form in which a board takes it."""

from __future__ import annotations

import hashlib
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tinyhil import files
from tinyhil.errors import BuildError, ConfigError
from tinyhil.harness.build.image import HASH_SYMBOL, Image, Symbol, read_contents
from tinyhil.harness.build.scripts import script
from tinyhil.harness.build.toolchain import Compiler, find_compiler
from tinyhil.harness.engines.bench_card import Card, card_of
from tinyhil.harness.settings.assets import asset
from tinyhil.harness.settings.config import BoardSpec
from tinyhil.processes import run

ENDINGS = {".elf": "elf", ".axf": "elf", ".out": "elf", ".hex": "hex", ".bin": "bin"}
CARD_SYMBOL = "hil_bench_card"  # firmware/bench/hil_bench.h
MOST_BYTES = 1 << 28
TEXT_OF_MLPERF = b"m-ready"
WIRE, MLPERF = "tinyhil's wire", "MLPerf Tiny's protocol"
OBJCOPY_S = 60.0
NO_COMPILER = Compiler("unknown", "unknown", "of others", None)


@dataclass(frozen=True, slots=True)
class FirmwareFile:
    """`image`: what is loaded; its sizes and symbols are an ELF file's, `known` says whether there was one.

    `card`: what the firmware says of itself.
    """

    path: Path
    sha256: str
    protocol: str
    image: Image
    known: bool
    card: Card


def read_firmware(path: Path, board: BoardSpec, cache_dir: Path) -> FirmwareFile:
    """The file at `path` as `board` takes it, in a folder of the cache. ConfigError or BuildError if it can not be."""
    kind = ENDINGS.get(path.suffix.lower())
    if kind is None:
        raise ConfigError(f"{path}: a firmware is an .elf, .hex or .bin file")
    content = files.read_bytes(path, "firmware", MOST_BYTES, ConfigError)
    sha256 = hashlib.sha256(content).hexdigest()
    folder = cache_dir / "firmware" / sha256[:16]
    for place in (folder.parent, folder):
        files.own_folder(place, BuildError)
    copy = folder / f"firmware.{kind}"
    files.write_bytes(copy, content)
    if kind == "elf":
        return _of_elf(path, sha256, copy, board, cache_dir)
    plain = unpacked_hex(path, content) if kind == "hex" else content
    if TEXT_OF_MLPERF not in plain:
        raise ConfigError(f"{path}: does not speak {MLPERF}; of firmware with firmware/bench/ give the .elf file")
    load = copy
    if kind == "hex" and board.chip.load == "bin":
        load = folder / "firmware.bin"
        files.write_bytes(load, plain)
    elif kind != board.chip.load:
        also = f" or .{board.chip.load}" if board.chip.load in ("hex", "bin") else ""
        raise ConfigError(f"{path}: {board.name} takes .elf{also} files")
    image = Image(board.name, folder, load, load, b"", 0, 0, (), NO_COMPILER, rebuilt=False)
    return FirmwareFile(path, sha256, MLPERF, image, known=False, card=Card())


def _of_elf(path: Path, sha256: str, elf: Path, board: BoardSpec, cache_dir: Path) -> FirmwareFile:
    """With the identity written into a copy, where there is a place for it."""
    _require_machine(path, elf, board)
    speaks_mlperf = TEXT_OF_MLPERF in elf.read_bytes() and HASH_SYMBOL.encode() not in elf.read_bytes()
    read_contents(elf, identified=False)  # refuses what was cut off
    if not speaks_mlperf:
        try:
            script("image_hash").patch(str(elf))
        except Exception as error:  # its own class, and those of a damaged file
            raise BuildError(
                f"{path}: {error}; add the two files of {asset('firmware')}/bench to the project, or speak {MLPERF}: "
                "`hil docs engines`"
            ) from None
    contents = read_contents(elf, identified=not speaks_mlperf)
    image = Image(
        board=board.name,
        project_dir=elf.parent,
        elf=elf,
        load_path=_loadable(elf, board, cache_dir),
        hash=contents.hash,
        flash_bytes=contents.flash_bytes,
        static_bytes=contents.static_bytes,
        symbols=contents.symbols,
        compiler=NO_COMPILER,
        rebuilt=False,
        copied_bytes=contents.copied_bytes,
    )
    card = Card() if speaks_mlperf else card_of(_card_text(elf, image.symbols), path, image.static_bytes)
    return FirmwareFile(path, sha256, MLPERF if speaks_mlperf else WIRE, image, known=True, card=card)


def _require_machine(path: Path, elf: Path, board: BoardSpec) -> None:
    """BuildError for a file that is no ELF file, or whose code is another processor's."""
    from elftools.common.exceptions import ELFError
    from elftools.elf.elffile import ELFFile

    wanted = "EM_AVR" if board.chip.core == "avr" else "EM_ARM"
    try:
        with elf.open("rb") as stream:
            machine = ELFFile(stream)["e_machine"]
    except ELFError as error:
        raise BuildError(f"{path}: not a readable ELF file: {error}") from None
    if machine != wanted:
        raise BuildError(f"{path}: code for {machine}, {board.name} runs {wanted}; compile it for {board.name}")


def _loadable(elf: Path, board: BoardSpec, cache_dir: Path) -> Path:
    """What a flasher or an emulator of the board takes."""
    if board.chip.load == "elf":
        return elf
    load = elf.with_suffix(f".{board.chip.load}")
    if board.chip.load == "uf2":
        uf2 = script("uf2")
        files.write_bytes(load, uf2.blocks_of(uf2.pages_of(str(elf)), board.chip.uf2_family))
        return load
    objcopy = Path(str(find_compiler(board, cache_dir).path).removesuffix("gcc") + "objcopy")
    kind = {"hex": "ihex", "bin": "binary"}[board.chip.load]
    try:
        done = run([objcopy, "-O", kind, "-R", ".eeprom", elf, load], OBJCOPY_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BuildError(f"{objcopy} does not run: {error}") from None
    if done.returncode:
        raise BuildError(f"{elf}: {done.stderr.strip().splitlines()[-1:] or 'objcopy failed'}")
    return load


def _card_text(elf: Path, symbols: tuple[Symbol, ...]) -> str:
    from elftools.elf.elffile import ELFFile

    symbol = next((one for one in symbols if one.name == CARD_SYMBOL), None)
    if symbol is None:
        return ""
    with elf.open("rb") as stream:
        for segment in ELFFile(stream).iter_segments("PT_LOAD"):
            inside = symbol.address - segment["p_vaddr"]
            if inside >= 0 and inside + symbol.size_bytes <= segment["p_filesz"]:
                text = segment.data()[inside : inside + symbol.size_bytes].split(b"\0")[0]
                return str(text.decode("utf-8", "replace"))
    return ""


def unpacked_hex(path: Path, content: bytes) -> bytes:
    """The bytes of an Intel HEX file from its lowest address on, gaps as erased flash. ConfigError names a bad line."""
    parts: dict[int, bytes] = {}
    upper = 0
    for number, line in enumerate(content.decode("ascii", "replace").split(), 1):
        try:
            record = bytes.fromhex(line.removeprefix(":"))
        except ValueError:
            record = b""
        if len(record) < 5 or len(record) != record[0] + 5 or sum(record) & 0xFF:
            raise ConfigError(f"{path}: line {number} of the HEX file has a wrong checksum")
        if record[3] in (2, 4):
            upper = int.from_bytes(record[4:-1]) << (16 if record[3] == 4 else 4)
        elif record[3] == 0:
            parts[upper + int.from_bytes(record[1:3])] = record[4:-1]
    if not parts:
        raise ConfigError(f"{path}: a HEX file without data")
    start, end = min(parts), max(at + len(data) for at, data in parts.items())
    if end - start > MOST_BYTES:
        raise ConfigError(f"{path}: data from {start:#x} to {end:#x}, which is no flash of a microcontroller")
    image = bytearray(b"\xff" * (end - start))
    for at, data in parts.items():
        image[at - start : at - start + len(data)] = data
    return bytes(image)
