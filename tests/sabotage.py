"""Firmware that goes wrong on purpose, under the identity of the good one: the harness believes its HELLO.

Sources are changed, the image is built as usual, and the hash of the good image is written over its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import yaml
from direct_build import WITH_LINES, building
from wire_bench import ROOT

from tinyhil.compiler.calibrate import load_ranges
from tinyhil.frontend.onnx import load_onnx
from tinyhil.harness.build.compile import build
from tinyhil.harness.build.image import Image
from tinyhil.harness.build.pipeline import compile_model
from tinyhil.harness.build.toolchain import default_cache_dir
from tinyhil.harness.job.zoo import find_model
from tinyhil.harness.settings.config import load_boards
from tinyhil.language.assignment import Assignment

INFERENCE = "    model::run(slot(state.read_slot), output_memory[place]);\n"
HEADER = '#include "firmware/wire/session.hpp"\n'
SESSION = "firmware/wire/session.cpp"
AT_SAMPLE = 3


@dataclass(frozen=True, slots=True)
class Sabotage:
    """`code` runs at the start of the inference of sample AT_SAMPLE; `before` stands at its top."""

    code: str
    before: str = ""

    def apply(self, sources: dict[str, str]) -> dict[str, str]:
        session = sources[SESSION]
        assert session.count(INFERENCE) == session.count(HEADER) == 1
        call = f"    if (state.computed == {AT_SAMPLE}) sabotage();\n"
        body = f"{self.before}\n__attribute__((noinline)) static void sabotage() {{ {self.code} }}\n"
        return {**sources, SESSION: session.replace(INFERENCE, call + INFERENCE).replace(HEADER, body + HEADER)}


# A frame of 40 bytes per call that no compiler turns into a loop.
DESCEND = """#include <stdint.h>
static volatile uint16_t endless = 1;
__attribute__((noinline)) static uint16_t descend(uint16_t depth) {
    volatile uint8_t frame[40];
    frame[depth % 40] = 1;
    return endless ? static_cast<uint16_t>(descend(static_cast<uint16_t>(depth + 1)) + frame[0]) : 0;
}"""
EXHAUST = """#include <stdlib.h>
#include <stdint.h>
static uint8_t *volatile block;
static volatile uint16_t blocks;
__attribute__((noinline)) static void deep() {
    volatile uint8_t frame[100];
    for (uint8_t i = 0; i < sizeof frame; ++i) frame[i] = i;
}"""
DEEP_FRAME = """#include <stdint.h>
__attribute__((noinline)) static void once(volatile uint8_t *frame) {
    for (uint16_t i = 0; i < 600; ++i) frame[i] = static_cast<uint8_t>(i);
}"""
SABOTAGES = {
    "deep frame": Sabotage("volatile uint8_t frame[600]; once(frame);", DEEP_FRAME),
    "frame beyond RAM": Sabotage("volatile uint8_t frame[1900]; once(frame);", DEEP_FRAME),
    "stack overflow": Sabotage("descend(0);", DESCEND),
    "heap exhaustion": Sabotage(
        "while ((block = static_cast<uint8_t *>(malloc(16))) != nullptr) blocks = static_cast<uint16_t>(blocks + 1);\n"
        "*block = 1; deep();",
        EXHAUST,
    ),
    "watchdog": Sabotage("wdt_enable(WDTO_15MS); for (;;) {}", "#include <avr/wdt.h>"),
    "bad access": Sabotage(
        "*bad = 1;", "#include <stdint.h>\nstatic volatile uint32_t *volatile bad = (uint32_t *)0x90000000;"
    ),
    "undefined instruction": Sabotage('__asm__ volatile("udf #0");'),
    "endless loop": Sabotage('for (;;) __asm__ volatile("");'),
    "reset": Sabotage(
        "*reinterpret_cast<volatile uint32_t *>(0xE000ED0C) = 0x05FA0004; for (;;) {}", "#include <stdint.h>"
    ),
}


def build_both(board_name: str, model: Path, ranges: Path, sabotage: Sabotage) -> tuple[Image, Image]:
    """The image `hil run` builds of `model`, and the sabotaged one with its identity."""
    boards = load_boards()
    loaded = load_onnx(find_model(str(model)).path)
    entries = list(boards.entries.values())
    compiled = compile_model(loaded, Assignment("fixed16"), load_ranges(ranges, loaded.sha256), entries, {board_name})
    board = boards.board(board_name)

    def make(sources: dict[str, str]) -> Image:
        return build(sources, board, cache_dir=default_cache_dir(), log=lambda line: None)

    good = make(compiled.sources)
    with building(WITH_LINES):
        return good, make(sabotage.apply(compiled.sources))


def disguised(good: Image, bad: Image, folder: Path) -> Path:
    """The file to load of `bad`, with the hash of `good`."""
    path = folder / f"disguised{bad.load_path.suffix}"
    if path.suffix == ".hex":
        path.write_text(_with_hash_in_hex(bad.load_path.read_text(), bad.hash, good.hash))
        return path
    data = bad.load_path.read_bytes()
    assert data.count(bad.hash) == 1
    path.write_bytes(data.replace(bad.hash, good.hash))
    return path


def _with_hash_in_hex(text: str, old: bytes, new: bytes) -> str:
    """Intel hex with `old` replaced by `new`; all of it lies below 64 KiB."""
    data = bytearray()
    for line in text.split():
        count, address, kind = int(line[1:3], 16), int(line[3:7], 16), int(line[7:9], 16)
        if kind == 0:
            data += b"\xff" * (address - len(data)) + bytes.fromhex(line[9 : 9 + 2 * count])
    assert data.count(old) == 1
    data = data.replace(old, new)
    lines = []
    for address in range(0, len(data), 16):
        record = (
            bytes((len(data[address : address + 16]), *address.to_bytes(2, "big"), 0)) + data[address : address + 16]
        )
        lines.append(f":{record.hex().upper()}{-sum(record) & 0xFF:02X}")
    return "\n".join([*lines, ":00000001FF\n"])


def board_file(folder: Path, chip: str, image: Path) -> Path:
    """boards.yaml whose emulator of `chip`, `sabotaged` beside it, loads `image`, whatever it is told to load."""
    boards = yaml.safe_load((ROOT / "boards.yaml").read_text())
    emulator = boards["chips"][chip]["emulator"]
    program = folder / "sabotaged"
    program.write_text(
        "#!/usr/bin/env python3\nimport os, sys\n"
        'sys.argv[sys.argv.index("--image") + 1] = ' + repr(str(image)) + "\n"
        f"program = {str(ROOT / emulator['program'])!r}\nos.execv(program, [program, *sys.argv[1:]])\n"
    )
    program.chmod(0o755)
    emulator["program"] = str(program)
    path = folder / "boards.yaml"
    path.write_text(yaml.dump(boards, Dumper=_Quoting))
    return path


class _Quoting(yaml.SafeDumper):
    """USB identities must be quoted."""


_Quoting.add_representer(
    str, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"' if ":" in text else None)
)
