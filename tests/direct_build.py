"""Images by the compilers alone, as tests build them: SCons and PlatformIO around them cost 1.4 s of processor each.

Commands, flags and files are those of firmware/platform/builder/main.py; test_build.py holds that both make the same
bytes. `build` and the commands of hil_command.py build so; tests marked `platformio`, and what a test starts as a
process of its own, build as users do. The lines of addresses that harness/measure/crash.py reads are a quarter of a
compilation, and no byte that is loaded: sabotage.py alone asks for them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path

from compiled_once import compiling

from tinyhil.codegen.model import Source
from tinyhil.harness.build import compile as compile_stage
from tinyhil.harness.build.compile import Recipe, Step, build
from tinyhil.harness.build.image import Image
from tinyhil.harness.build.platformio import defines
from tinyhil.harness.settings.config import BoardSpec

SWITCH = "TESTS_BUILD"
UF2_SCRIPT = "firmware/platform/uf2.py"
BARE, WITH_LINES, LINES = "bare", "with lines", "-gdwarf-4"
FLAGS = (
    *("-std=gnu++14", "-O2", "-Wall", "-Wextra", "-fno-exceptions", "-fno-rtti"),
    *("-fno-threadsafe-statics", "-ffunction-sections", "-fdata-sections", "-ffp-contract=off", "-fno-strict-aliasing"),
)
# Sources, in the order of PlatformIO's links, and the folder of their objects.
UNITS = {"model/*.cpp": "", "firmware/hal/{hal}/*.cpp": "src", "firmware/main.cpp": "src", "firmware/wire/*.cpp": "src"}
as_users_do, host_as_users_do = compile_stage._platformio_steps, compile_stage._host_steps


def direct_build(sources: Mapping[str, str | bytes], board: BoardSpec, folder: Path) -> Image:
    """The image of `sources`, as `build` makes it, inside of `folder`."""
    with building(BARE):
        return build(sources, board, cache_dir=folder, log=lambda line: None)


@contextmanager
def building(how: str) -> Iterator[None]:
    """Images are built `BARE`, `WITH_LINES` or, with an empty string, as users do."""
    before, os.environ[SWITCH] = os.environ.get(SWITCH, ""), how
    try:
        yield
    finally:
        os.environ[SWITCH] = before


def steps(sources: Mapping[str, Source], recipe: Recipe) -> list[Step]:
    """What PlatformIO would run; PlatformIO itself where the switch is off or it has yet to download a compiler."""
    path, switch, chip = recipe.compiler.path, os.environ.get(SWITCH), recipe.board.chip
    if path is None or not switch:
        return as_users_do(sources, recipe)
    out = recipe.elf.parent.relative_to(recipe.project_dir)
    flags = [*chip.machine.split(), *(FLAGS if switch == BARE else (*FLAGS, LINES))]
    made, objects = _compiled(sources, recipe, flags, out)
    elf = str(recipe.elf.relative_to(recipe.project_dir))
    machine = [str(path), *chip.machine.split()]
    made.append([*machine, "-O2", *_linking(recipe, out), *objects, "-o", elf, "-lm"])
    made.append(recipe.elf)
    objcopy = str(path).removesuffix("gcc") + "objcopy"
    for suffix, kind in ((".hex", "ihex"), (".bin", "binary")):
        made.append([objcopy, "-O", kind, "-R", ".eeprom", elf, elf.replace(".elf", suffix)])
    if chip.uf2_family is not None:
        made.append([sys.executable, UF2_SCRIPT, elf, elf.replace(".elf", ".uf2"), hex(chip.uf2_family)])
    return made


def host_steps(sources: Mapping[str, Source], recipe: Recipe) -> list[Step]:
    """The host's program by several commands instead of one."""
    switch, given = os.environ.get(SWITCH), compile_stage.HOST_FLAGS
    if not switch:
        return host_as_users_do(sources, recipe)
    linking = [flag for flag in given if flag.startswith("-Wl,")]
    flags = [flag for flag in given if flag not in (*linking, "-g" if switch == BARE else "")]
    made, objects = _compiled(sources, recipe, flags, Path("build"))
    made.append([str(recipe.compiler.path), "-O2", *linking, *objects, "-o", str(recipe.elf), "-lm"])
    return [*made, recipe.elf]


def _compiled(
    sources: Mapping[str, Source], recipe: Recipe, flags: list[str], out: Path
) -> tuple[list[Step], list[str]]:
    """Steps, and what they leave to be linked: for the host in the order of its command."""
    project, chip = recipe.project_dir, recipe.board.chip
    definitions = [f"-D{name}" for name in (f"F_CPU={chip.clock_hz}L", *defines(recipe.board))]
    globs = {glob.format(hal=chip.hal): below for glob, below in UNITS.items()}
    units = [(name, below) for glob, below in globs.items() for name in sorted(sources) if _is_of(glob, name)]
    made, objects = list[Step](), list[str]()
    for unit, below in sorted(units) if recipe.board.is_host else units:
        objects.append(str(out / below / f"{unit.removeprefix('firmware/' if below else '')}.o"))
        command = [str(recipe.compiler.path), *flags, *definitions]
        made += compiling(command, unit, project, project / objects[-1], sources)
    return made, [*objects, *(name for name in sorted(sources) if _is_of("model/*.a", name))]


def _is_of(glob: str, name: str) -> bool:
    return fnmatch(name, glob) and name.count("/") == glob.count("/")


def _linking(recipe: Recipe, out: Path) -> list[str]:
    chip = recipe.board.chip
    limits: dict[str, object]
    if chip.compiler == "avr-gcc":
        ram = chip.ram_bytes - chip.stack_reserve_bytes
        limits, flags = {"__DATA_REGION_LENGTH__": ram, "__TEXT_REGION_LENGTH__": chip.flash_bytes}, []
        limits |= {"__stack": 0x100 + chip.ram_bytes - 1} if chip.like else {}
    else:
        limits = {"_min_stack": chip.stack_reserve_bytes, "_ram_bytes": chip.ram_bytes}
        if chip.flash_start is not None:
            limits["_flash_start"] = f"{chip.flash_start:#x}"
        flags = ["--specs=nano.specs", "--specs=nosys.specs", "-nostartfiles", "-L."]
        flags += ["-T", f"firmware/hal/{chip.hal}/{chip.hal}.ld"]
    flags += [f"-Wl,--defsym={name}={value}" for name, value in limits.items()]
    return [*flags, "-Wl,--gc-sections", f"-Wl,-Map={out}/firmware.map"]


compile_stage._platformio_steps, compile_stage._host_steps = steps, host_steps
