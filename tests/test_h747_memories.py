"""Where the image of an STM32H747 lies: in closely coupled memory what fits there, elsewhere what does not."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from tests.test_emulator_cortexm import H747, Board, compiler_command, program, read_exactly
from tinyhil.harness.build.stack_depth import stack_bound
from tinyhil.harness.build.toolchain import default_cache_dir
from tinyhil.harness.job.job import Request
from tinyhil.harness.measure.flash_model import build_image
from tinyhil.harness.settings.config import load_boards

ITCM, DTCM, AXI, FLASH = (
    range(0, 0x10000),
    range(0x20000000, 0x20020000),
    range(0x24000000, 0x24080000),
    range(0x08000000, 0x08100000),
)
HOLD = '__attribute__((constructor)) static void hold_{0}() {{ __asm__ volatile("" ::"r"({0})); }}\n'
RAM = "static char ram[%d];\n" + HOLD.format("ram")
CONSTANT = "static const char constant[%d] = {1};\n" + HOLD.format("constant")
HOT = '__attribute__((section(".hot"))) static const char hot[%d] = {1};\n' + HOLD.format("hot")
CODE = '__attribute__((constructor)) static void code() { __asm__ volatile("b.w 1f\\n.space %d\\n1:"); }\n'


@pytest.mark.parametrize(
    ("extra", "places"),
    [
        ("", {".text": ITCM, ".rodata": DTCM, ".data": DTCM}),
        (CODE % 70_000, {".text": FLASH, ".rodata": DTCM, ".data": DTCM}),
        (RAM % 200_000, {".text": ITCM, ".rodata": DTCM, ".data": AXI}),
        (RAM % 128_000, {".rodata": DTCM, ".data": AXI}),
        (CONSTANT % 150_000, {".text": ITCM, ".rodata": FLASH, ".data": DTCM}),
        (CONSTANT % 100_000 + HOT % 60_000, {".hot": DTCM, ".rodata": FLASH, ".data": DTCM}),
        (RAM % 200_000 + CONSTANT % 100_000 + HOT % 20_000, {".hot": DTCM, ".rodata": DTCM, ".data": AXI}),
    ],
    ids=[
        "small",
        "much code",
        "much RAM",
        "too much RAM for the stack",
        "many constants",
        "hot ones first",
        "all but RAM",
    ],
)
def test_what_fits_is_where_nothing_waits(extra: str, places: dict[str, range], tmp_path: Path) -> None:
    program(H747, "echo")  # the emulator is built
    elf, source = tmp_path / "echo.elf", tmp_path / "extra.cpp"
    source.write_text(extra)
    subprocess.run([*compiler_command(H747, "echo", elf), source, "-Wno-unused"], check=True)
    subprocess.run(["arm-none-eabi-objcopy", "-O", "binary", elf, elf.with_suffix(".bin")], check=True)
    with elf.open("rb") as stream:
        found = {section.name: section["sh_addr"] for section in ELFFile(stream).iter_sections()}
    assert {name: found[name] in place for name, place in places.items()} == dict.fromkeys(places, True)
    board = Board(H747, elf.with_suffix(".bin"), tmp_path)
    with board.open() as port:
        assert read_exactly(port, 1) == b"R"
        port.write(b"abc")
        assert read_exactly(port, 3) == b"abc"
    board.end()


def test_copies_are_counted_in_flash_alone() -> None:
    boards = load_boards()
    request = Request(board="h747", model="digits_mlp", format="fixed8")
    image = build_image(request, boards.board("h747"), boards, default_cache_dir(), print)
    code = [symbol for symbol in image.symbols if symbol.address in ITCM]
    assert code
    assert not any(symbol.in_ram for symbol in code)
    assert image.static_bytes < 2048 < image.flash_bytes
    assert stack_bound(image, "cortex-m7").limit_bytes is not None
