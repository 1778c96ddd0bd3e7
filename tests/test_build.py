"""Real builds of a tiny firmware: PlatformIO, the linker's refusals, and the identity inside the image."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from boards_under_test import SPECS, by_compiler
from direct_build import direct_build

from tinyhil.errors import BuildError, ConfigError, DoesNotFit
from tinyhil.harness.build import image as image_module
from tinyhil.harness.build.build_log import explain
from tinyhil.harness.build.compile import build
from tinyhil.harness.build.image import Image, check_arena, check_fits
from tinyhil.harness.build.platformio import project_files
from tinyhil.harness.build.toolchain import find_compiler, platformio_command, platformio_environment
from tinyhil.harness.settings.config import Boards, load_boards

pytestmark = pytest.mark.platformio
ROOT = Path(__file__).resolve().parent.parent
TINY = ROOT / "tests" / "tiny_firmware"
PLATFORM = ROOT / "firmware" / "platform"
CHIP_BOARDS = tuple(name for name, board in SPECS.items() if (TINY / "firmware" / "hal" / board.chip.hal).is_dir())
ALL_BOARDS = (*CHIP_BOARDS, "host")
ARENA_BYTES = 256
PREFIX = {name: board.chip.compiler.removesuffix("gcc") for name, board in SPECS.items()} | {"host": ""}


def read_tree(folder: Path, base: Path) -> dict[str, str]:
    files = [p for p in folder.rglob("*") if p.is_file() and "__pycache__" not in p.parts]
    return {str(p.relative_to(base)): p.read_text() for p in files}


@pytest.fixture(scope="session")
def sources() -> dict[str, str]:
    """The tiny firmware as a generated project: our platform and platformio.ini, a model of its own."""
    project = project_files([load_boards().board(name) for name in ALL_BOARDS])
    return read_tree(TINY, TINY) | read_tree(PLATFORM, ROOT) | project


@pytest.fixture(scope="session")
def boards() -> Boards:
    return load_boards()


@pytest.fixture(scope="session")
def cache_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def image(request, sources, boards, cache_dir) -> Image:
    return build(sources, boards.board(request.param), cache_dir=cache_dir, log=print)


every_board = pytest.mark.parametrize("image", ALL_BOARDS, indirect=True)


def with_main(sources: dict[str, str], old: str, new: str) -> dict[str, str]:
    text = sources["firmware/main.cpp"]
    assert old in text
    return sources | {"firmware/main.cpp": text.replace(old, new)}


def with_arena(sources: dict[str, str], arena_bytes: int) -> dict[str, str]:
    return with_main(sources, "#define ARENA_BYTES 256", f"#define ARENA_BYTES {arena_bytes}")


def write_project(sources: dict[str, str], folder: Path) -> Path:
    for name, text in sources.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def nm(image: Image, name: str) -> int:
    listing = subprocess.run([PREFIX[image.board] + "nm", image.elf], capture_output=True, text=True, check=True)
    (address,) = (line.split()[0] for line in listing.stdout.splitlines() if line.split()[-1] == name)
    return int(address, 16)


def loadable(elf: bytes) -> list[tuple[int, int, int, int]]:
    """(physical address, virtual address, file offset, size) of the PT_LOAD entries, read without a library."""
    if elf[4] == 1:
        offset, entry_bytes, count = struct.unpack_from("<I10xHH", elf, 28)
        headers = [struct.unpack_from("<5I", elf, offset + i * entry_bytes) for i in range(count)]
        return [(p, v, o, size) for kind, o, v, p, size in headers if kind == 1]
    offset, entry_bytes, count = struct.unpack_from("<Q14xHH", elf, 32)
    wide = [struct.unpack_from("<IIQQQQ", elf, offset + i * entry_bytes) for i in range(count)]
    return [(p, v, o, size) for kind, _, o, v, p, size in wide if kind == 1]


def expected_hash(image: Image) -> bytes:
    elf, address = image.elf.read_bytes(), nm(image, "hil_image_hash")
    digest = hashlib.sha256()
    for _, virtual, offset, size in sorted(loadable(elf)):
        part = bytearray(elf[offset : offset + size])
        inside = address - virtual
        if 0 <= inside < size:
            part[inside : inside + 8] = bytes(8)
        digest.update(part)
    return digest.digest()[:8]


def decode_intel_hex(text: str) -> bytes:
    rows = [bytes.fromhex(line[1:]) for line in text.splitlines() if line.startswith(":")]
    assert all(sum(row) % 256 == 0 for row in rows)
    return b"".join(row[4:-1] for row in rows if row[3] == 0)


@every_board
def test_image_carries_the_hash_of_its_own_bytes(image: Image) -> None:
    assert image.hash == expected_hash(image) != bytes(8)
    loaded = image.load_path.read_bytes()
    if image.load_path.suffix == ".hex":
        loaded = decode_intel_hex(loaded.decode())
    assert loaded.count(image.hash) == 1
    assert image.load_path.with_suffix(".map").exists() or image.board == "host"


@every_board
def test_identifying_an_image_again_changes_nothing(image: Image, tmp_path: Path) -> None:
    copy = tmp_path / "copy.elf"
    copy.write_bytes(image.elf.read_bytes())
    result = subprocess.run(
        [sys.executable, PLATFORM / "image_hash.py", copy], capture_output=True, text=True, check=True
    )
    assert result.stdout == f"image {image.hash.hex()}\n"
    assert copy.read_bytes() == image.elf.read_bytes()


def test_one_changed_constant_changes_the_hash(sources, boards, cache_dir) -> None:
    changed = with_main(sources, "seed = 1234", "seed = 1235")
    images = [build(s, boards.board("uno"), cache_dir=cache_dir, log=print) for s in (sources, changed)]
    assert images[0].hash != images[1].hash


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("hil_image_hash", "other_name", "0 symbols named hil_image_hash"),
        ("hil_image_hash[8]", "hil_image_hash[4]", "has 4 bytes, need 8"),
        (
            "const volatile uint8_t hil_image_hash[8] = {0}",
            "volatile uint8_t hil_image_hash[8]",
            "not in the loaded image",
        ),
    ],
)
def test_an_image_that_cannot_carry_a_hash_is_refused(old, new, message, sources, boards, cache_dir) -> None:
    broken = with_main(sources, old, new)
    broken = (
        with_main(broken, "extern const volatile uint8_t hil_image_hash[8];\n", "") if "loaded" in message else broken
    )
    with pytest.raises(BuildError, match=message) as caught:
        build(broken, boards.board("host"), cache_dir=cache_dir, log=print)
    assert len(str(caught.value).splitlines()) == 1


@every_board
def test_sizes_agree_with_the_size_tool(image: Image) -> None:
    text = subprocess.run([PREFIX[image.board] + "size", image.elf], capture_output=True, text=True, check=True).stdout
    text_bytes, data_bytes, bss_bytes = map(int, text.splitlines()[1].split()[:3])
    assert image.flash_bytes == text_bytes + data_bytes
    if image.board != "host":  # there the tool counts .dynamic and the like as data
        assert image.static_bytes == data_bytes + bss_bytes
    assert image.symbol("hil_arena").size_bytes == ARENA_BYTES
    assert image.symbol("hil_arena").in_ram
    assert image.symbol("main").in_ram is False
    with pytest.raises(BuildError, match="0 symbols named nobody"):
        image.symbol("nobody")


@pytest.mark.parametrize("name", ALL_BOARDS)
def test_an_unchanged_build_starts_nothing(name, sources, boards, cache_dir, monkeypatch) -> None:
    first = build(sources, boards.board(name), cache_dir=cache_dir, log=print)
    log_time = (first.project_dir / "build.log").stat().st_mtime_ns
    said: list[str] = []
    monkeypatch.setattr(subprocess, "Popen", None)
    second = build(sources, boards.board(name), cache_dir=cache_dir, log=said.append)
    assert not second.rebuilt
    assert said == []
    assert second.hash == first.hash
    assert (first.project_dir / "build.log").stat().st_mtime_ns == log_time


@pytest.mark.parametrize("name", ["due", "host"])
@pytest.mark.parametrize("damage", ["altered image", "missing image", "altered source", "foreign source"])
def test_a_damaged_build_is_made_again(name, damage, sources, boards, tmp_path) -> None:
    first = build(sources, boards.board(name), cache_dir=tmp_path, log=print)
    if damage == "altered image":
        first.load_path.write_bytes(first.load_path.read_bytes()[:-1] + b"?")
    elif damage == "missing image":
        first.load_path.unlink()
    elif damage == "altered source":
        (first.project_dir / "model/model.cpp").write_text("#error altered")
    else:
        (first.project_dir / "model/foreign.cpp").write_text("#error foreign")
    again = build(sources, boards.board(name), cache_dir=tmp_path, log=print)
    assert again.rebuilt
    assert again.hash == first.hash
    assert not (first.project_dir / "model/foreign.cpp").exists()


DIRECT = {  # what firmware/platform is expected to say to the compiler, written down once more
    "uno": "-mmcu=atmega328p -O2 -DF_CPU=16000000L -DHIL_BOARD_UNO -DHIL_CHIP_ATMEGA328P",
    "due": "-mcpu=cortex-m3 -mthumb -falign-functions=16 -falign-loops=16 -O2 -DF_CPU=84000000L -DHIL_BOARD_DUE "
    "-DHIL_CHIP_SAM3X8E",
    "h747": "-mcpu=cortex-m7 -mthumb -mfloat-abi=hard -mfpu=fpv5-d16 -O2 -DF_CPU=400000000L -DHIL_BOARD_H747 "
    "-DHIL_CHIP_STM32H747",
}
COMMON = (
    "-std=gnu++14 -fno-exceptions -fno-rtti -fno-threadsafe-statics -ffunction-sections -fdata-sections "
    "-ffp-contract=off -fno-strict-aliasing -Wl,--gc-sections -I."
)
LINK = {
    "uno": "-Wl,--defsym=__DATA_REGION_LENGTH__=1792",
    "due": "-nostartfiles --specs=nano.specs --specs=nosys.specs -Wl,--defsym=_min_stack=2048 "
    "-Wl,--defsym=_ram_bytes=98304 -T firmware/hal/sam3x8e/sam3x8e.ld",
    "h747": "-nostartfiles --specs=nano.specs --specs=nosys.specs -Wl,--defsym=_min_stack=2048 "
    "-Wl,--defsym=_ram_bytes=524288 -T firmware/hal/stm32h747/stm32h747.ld",
}


@pytest.mark.parametrize("image", DIRECT, indirect=True)
def test_the_hex_file_equals_that_of_the_compiler_alone(image, sources, boards, tmp_path) -> None:
    project, prefix = write_project(sources, tmp_path), PREFIX[image.board]
    chip = boards.board(image.board).chip.name
    units = ["model/model.cpp", f"firmware/hal/{chip}/hal.cpp", "firmware/main.cpp"]
    flags = f"{DIRECT[image.board]} {COMMON} {LINK[image.board]}".split()
    subprocess.run([prefix + "gcc", *flags, *units, "-o", "direct.elf", "-lm"], cwd=project, check=True)
    subprocess.run([sys.executable, PLATFORM / "image_hash.py", "direct.elf"], cwd=project, check=True)
    subprocess.run([prefix + "objcopy", "-O", "ihex", "direct.elf", "direct.hex"], cwd=project, check=True)
    assert (project / "direct.hex").read_text() == image.elf.with_suffix(".hex").read_text()


@pytest.mark.parametrize("image", CHIP_BOARDS, indirect=True)
def test_images_that_tests_build_directly_are_those_of_platformio(image, sources, boards, tmp_path) -> None:
    direct = direct_build(sources, boards.board(image.board), tmp_path)
    assert direct.hash == image.hash
    assert direct.load_path.read_bytes() == image.load_path.read_bytes()


@pytest.mark.parametrize("image", ["host"], indirect=True)
def test_the_host_s_program_that_tests_build_is_that_of_users(image, sources, boards, tmp_path) -> None:
    """But for the ELF header, which says where lines of addresses lie, and the identity, which counts that."""
    direct = direct_build(sources, boards.board("host"), tmp_path)
    assert loaded(direct) == loaded(image) != []


def loaded(image: Image) -> list[bytes]:
    elf = image.elf.read_bytes().replace(image.hash, bytes(8))
    return [elf[max(offset, 64) : offset + size] for _, _, offset, size in loadable(elf)]


def largest_arena(image: Image, boards: Boards) -> int:
    chip = boards.board(image.board).chip
    return chip.ram_bytes - chip.stack_reserve_bytes - (image.static_bytes - ARENA_BYTES)


@pytest.mark.parametrize("image", CHIP_BOARDS, indirect=True)
def test_ram_is_full_at_exactly_the_stack_reserve(image, sources, boards, cache_dir) -> None:
    board, most = boards.board(image.board), largest_arena(image, boards)
    full = build(with_arena(sources, most), board, cache_dir=cache_dir, log=print)
    check_fits(full, board)
    beyond_reserve, beyond_chip = 4, 8000
    for excess_bytes in (beyond_reserve, beyond_chip):
        with pytest.raises(DoesNotFit, match=rf"RAM exceeded by {excess_bytes} B .*largest: hil_arena ") as caught:
            build(with_arena(sources, most + excess_bytes), board, cache_dir=cache_dir, log=print)
        assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("name", CHIP_BOARDS)
def test_too_much_flash_names_the_largest_constant(name, sources, boards, cache_dir) -> None:
    board = boards.board(name)
    table_bytes = 32000 if name == "uno" else board.chip.flash_bytes
    table = f'extern "C" {{ extern const uint8_t big_table[{table_bytes}] __attribute__((section(".text.big")));\n'
    table += f"const uint8_t big_table[{table_bytes}] = {{1, 2, 3}}; }}\n"
    use = "sink = uint8_t(big_table[seed] ^ "
    big = with_main(with_main(sources, "int main() {", table + "int main() {"), "sink = uint8_t(", use)
    with pytest.raises(DoesNotFit, match=r"flash exceeded by \d+ B .*largest: big_table ") as caught:
        build(big, board, cache_dir=cache_dir, log=print)
    assert str(board.chip.flash_bytes) in str(caught.value)


@pytest.mark.parametrize("name", ["uno", "due"])
def test_a_flash_smaller_than_the_linker_script_has_it(name, sources, boards, cache_dir) -> None:
    """A chip like another one, of which PlatformIO alone knows the size."""
    board = boards.board(name)
    small = board.model_copy(update={"chip": board.chip.model_copy(update={"flash_bytes": 200})})
    with pytest.raises(
        DoesNotFit, match=rf"{name}: flash exceeded by \d+ B \(200 B flash\); largest: [\w:]+(\(\))? \d+ B"
    ):
        build(sources | project_files([small]), small, cache_dir=cache_dir, log=print)


def test_symbols_are_written_as_in_the_source() -> None:
    names = (
        "_ZN5model3runEPKhPh _ZN12_GLOBAL__N_1L7conv2_wE _ZN4wire12_GLOBAL__N_14pollEv _ZN5modEl3runEv main _ZN1aC2Ev "
        "_ZN3hil5denseILi4ELm4EEEvPa"
    )
    found = [image_module._as_written(name) for name in names.split()]
    assert found == ["model::run()", "conv2_w", "wire::poll()", "modEl::run()", "main", "_ZN1aC2Ev", "hil::dense<>"]


@pytest.mark.parametrize("image", CHIP_BOARDS, indirect=True)
def test_the_arena_is_checked_against_the_map_file_too(image, tmp_path) -> None:
    check_arena(image, ARENA_BYTES)
    elf = tmp_path / "firmware.elf"
    elf.write_bytes(image.elf.read_bytes())
    text = image.elf.with_suffix(".map").read_text()
    assert hex(ARENA_BYTES) in text
    elf.with_suffix(".map").write_text(text.replace(hex(ARENA_BYTES), hex(ARENA_BYTES + 4)))
    with pytest.raises(BuildError, match=rf"{ARENA_BYTES + 4} B in firmware\.map, planned {ARENA_BYTES} B"):
        check_arena(dataclasses.replace(image, elf=elf), ARENA_BYTES)


@pytest.mark.parametrize("image", ["due"], indirect=True)
def test_an_image_is_checked_against_chip_and_plan(image, boards) -> None:
    board = boards.board("due")
    check_fits(image, board)
    check_arena(image, ARENA_BYTES)
    with pytest.raises(BuildError, match=r"hil_arena has 256 B in firmware\.elf, planned 255 B"):
        check_arena(image, ARENA_BYTES - 1)
    tight_ram = board.chip.model_copy(update={"ram_bytes": image.static_bytes + board.chip.stack_reserve_bytes - 1})
    with pytest.raises(DoesNotFit, match="1 B too much; largest: hil_arena 256 B"):
        check_fits(image, board.model_copy(update={"chip": tight_ram}))
    tight_flash = board.chip.model_copy(update={"flash_bytes": image.flash_bytes - 2})
    with pytest.raises(DoesNotFit, match="2 B too much; largest: "):
        check_fits(image, board.model_copy(update={"chip": tight_flash}))


@pytest.mark.parametrize(
    ("new", "message"),
    [
        ("int main() { wrong;", r"firmware/main.cpp:\d+:\d+: error: .*wrong"),
        ("void nowhere(); int main() { nowhere();", r"undefined reference to `nowhere\(\)'"),
        ('#include "none.hpp"\nint main() {', r"fatal error: none.hpp"),
    ],
)
@pytest.mark.parametrize("name", by_compiler(ALL_BOARDS))
def test_a_failed_build_shows_the_first_error(name, new, message, sources, boards, cache_dir) -> None:
    broken = with_main(sources, "int main() {", new)
    with pytest.raises(BuildError, match=message) as caught:
        build(broken, boards.board(name), cache_dir=cache_dir, log=print)
    line = str(caught.value)
    assert len(line.splitlines()) == 1
    assert Path(line.rsplit("log: ", 1)[1]).read_text()


def test_a_cache_may_be_moved_and_be_reached_by_several_paths(sources, boards, cache_dir, tmp_path) -> None:
    build(sources, boards.board("host"), cache_dir=cache_dir, log=print)
    (tmp_path / "cache").symlink_to(cache_dir)
    assert not build(sources, boards.board("host"), cache_dir=tmp_path / "cache", log=print).rebuilt


def test_a_build_is_ended_at_its_deadline(sources, boards, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("tinyhil.harness.build.compile.DEADLINE_S", 0.05)
    with pytest.raises(BuildError, match="no result after"):
        build(sources, boards.board("due"), cache_dir=tmp_path, log=print)
    monkeypatch.undo()
    assert build(sources, boards.board("due"), cache_dir=tmp_path, log=print).rebuilt


def test_a_source_may_not_leave_its_project(sources, boards, tmp_path) -> None:
    with pytest.raises(BuildError, match="leads out of the project"):
        build(sources | {"../outside.cpp": ""}, boards.board("host"), cache_dir=tmp_path / "cache", log=print)


def test_warnings_reach_the_log(sources, boards, tmp_path) -> None:
    said: list[str] = []
    noisy = with_main(sources, "int main() {", "int main() { int idle;")
    build(noisy, boards.board("due"), cache_dir=tmp_path, log=said.append)
    assert any("unused variable" in line for line in said)
    assert said[0].startswith("due: compiling with arm-none-eabi-gcc ")


@pytest.mark.parametrize("name", ALL_BOARDS)
def test_a_missing_compiler_is_one_line_at_once(name, sources, boards, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("HIL_OFFLINE", "1")
    with pytest.raises(BuildError, match=r"not in PATH.*run: sudo apt-get install \S*g") as caught:
        build(sources, boards.board(name), cache_dir=tmp_path, log=print)
    assert len(str(caught.value).splitlines()) == 1


def test_the_policy_decides_between_path_and_package(boards, tmp_path, monkeypatch) -> None:
    uno = boards.board("uno")
    installed = tmp_path / "platformio/packages/toolchain-atmelavr/bin/avr-gcc"
    installed.parent.mkdir(parents=True)
    installed.write_text(f'#!/bin/sh\nexec {shutil.which("avr-gcc")} "$@"\n')
    installed.chmod(0o755)
    assert find_compiler(uno, tmp_path).origin == "PlatformIO"
    monkeypatch.setenv("HIL_TOOLCHAIN", "path")
    assert find_compiler(uno, tmp_path).origin == "PATH"
    monkeypatch.setenv("HIL_TOOLCHAIN", "package")
    assert find_compiler(uno, tmp_path).path == installed
    monkeypatch.setenv("HIL_OFFLINE", "1")
    with pytest.raises(BuildError, match="not used by HIL_TOOLCHAIN=package"):
        find_compiler(boards.board("due"), tmp_path)
    monkeypatch.setenv("HIL_TOOLCHAIN", "newest")
    with pytest.raises(ConfigError, match="HIL_TOOLCHAIN is 'newest'"):
        find_compiler(uno, tmp_path)


NO_NETWORK = ["unshare", "-rn"]
needs_unshare = pytest.mark.skipif(
    not shutil.which("unshare")
    or subprocess.run([*NO_NETWORK, "true"], capture_output=True, check=False).returncode != 0,
    reason="unshare -rn is not permitted here",
)


def run_pio(project: Path, environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [*NO_NETWORK, *platformio_command(), "run", "-d", str(project), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@needs_unshare
def test_platformio_builds_all_boards_without_a_network(sources, cache_dir, tmp_path) -> None:
    result = run_pio(write_project(sources, tmp_path), platformio_environment(cache_dir))
    assert result.returncode == 0, result.stderr
    assert "3 succeeded" in result.stdout


@needs_unshare
def test_a_plain_pio_run_needs_no_network_and_leaves_the_user_s_core_directory_alone(sources, tmp_path) -> None:
    project = write_project(sources, tmp_path / "project")
    result = run_pio(project, {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}, "-e", "due")
    assert result.returncode == 0, result.stderr
    assert (project / ".pio" / "core").is_dir()
    assert not (tmp_path / ".platformio").exists()


@needs_unshare
def test_platformio_itself_reports_a_missing_compiler_at_once(sources, cache_dir, tmp_path) -> None:
    project = write_project(sources, tmp_path)
    environment = platformio_environment(cache_dir) | {"PATH": os.path.dirname(sys.executable)}
    command = [
        shutil.which("unshare") or "",
        *NO_NETWORK[1:],
        *platformio_command(),
        "run",
        "-d",
        str(project),
        "-e",
        "uno",
    ]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode != 0
    assert "compiler avr-gcc is not in PATH" in result.stderr
    assert "sudo apt-get install gcc-avr" in result.stderr


def test_a_changed_linker_script_relinks(sources, cache_dir, tmp_path) -> None:
    project, environment = write_project(sources, tmp_path), platformio_environment(cache_dir)
    command = [*platformio_command(), "run", "-d", str(project), "-e", "due"]
    outputs = []
    for size in ("96K", "64K"):
        script = project / "firmware/hal/sam3x8e/sam3x8e.ld"
        script.write_text(sources["firmware/hal/sam3x8e/sam3x8e.ld"].replace("96K", size))
        subprocess.run(command, env=environment, capture_output=True, check=True)
        outputs.append((project / ".pio/build/due/firmware.bin").read_bytes())
    assert outputs[0] != outputs[1]
    included = project / "firmware/hal/cortexm/sections.ld"
    included.write_text(included.read_text().replace("LENGTH(RAM)", "LENGTH(RAM) - 64"))
    subprocess.run(command, env=environment, capture_output=True, check=True)
    assert (project / ".pio/build/due/firmware.bin").read_bytes() not in outputs


def test_a_project_without_a_model_says_so(sources, cache_dir, tmp_path) -> None:
    project = write_project({k: v for k, v in sources.items() if not k.startswith("model/")}, tmp_path)
    command = [*platformio_command(), "run", "-d", str(project), "-e", "uno"]
    environment = platformio_environment(cache_dir)
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode != 0
    assert "no model/*.cpp" in result.stderr


def test_a_compiler_without_registers_is_told_what_to_try(tmp_path: Path) -> None:
    """Of avr-gcc 5.4.0, for 58 KB of a network in strips."""
    log = "dot_avr.hpp:43:65: error: can\u2019t find a register in class \u2018POINTER_X_REGS\u2019 while reloading"
    said = str(explain(log, tmp_path / "build.log", tmp_path, SPECS["uno"]))
    assert said.startswith("uno: avr-gcc finds no registers for a program of so many strips of layers; give more RAM")
