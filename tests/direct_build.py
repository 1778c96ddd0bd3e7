"""Images by the compilers alone, as tests build them: SCons and PlatformIO around them cost 1.4 s of processor each.

Commands, flags and files are those of firmware/platform/builder/main.py; test_build.py holds that both make the same
bytes. `build` and the commands of hil_command.py build so; tests marked `platformio`, and what a test starts as a
process of its own, build as users do. `direct_build` leaves out the lines of addresses that harness/measure/crash.py
reads: a quarter of a compilation, and no byte that is loaded.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from tinyhil.harness.build import compile as compile_stage
from tinyhil.harness.build.compile import Recipe, Step, build
from tinyhil.harness.build.image import Image
from tinyhil.harness.build.platformio import defines
from tinyhil.harness.settings.config import BoardSpec

SWITCH = "TESTS_BUILD"
UF2_SCRIPT = "firmware/platform/uf2.py"
BARE, LINES = "bare", "-gdwarf-4"
FLAGS = (
    *("-std=gnu++14", "-O2", "-Wall", "-Wextra", "-fno-exceptions", "-fno-rtti", "-I."),
    *("-fno-threadsafe-statics", "-ffunction-sections", "-fdata-sections", "-ffp-contract=off", "-fno-strict-aliasing"),
)
# Sources, in the order of PlatformIO's links, and the folder of their objects.
UNITS = {"model/*.cpp": "", "firmware/hal/{hal}/*.cpp": "src", "firmware/main.cpp": "src", "firmware/wire/*.cpp": "src"}
as_users_do = compile_stage._platformio_steps


def direct_build(sources: Mapping[str, str | bytes], board: BoardSpec, folder: Path) -> Image:
    """The image of `sources`, as `build` makes it, inside of `folder`."""
    before, os.environ[SWITCH] = os.environ.get(SWITCH, ""), BARE
    try:
        return build(sources, board, cache_dir=folder, log=lambda line: None)
    finally:
        os.environ[SWITCH] = before


def steps(recipe: Recipe) -> list[Step]:
    """What PlatformIO would run; PlatformIO itself where the switch is off or it has yet to download a compiler."""
    path = recipe.compiler.path
    switch = os.environ.get(SWITCH)
    if path is None or not switch:
        return as_users_do(recipe)
    flags = FLAGS if switch == BARE else (*FLAGS, LINES)
    project, out, chip = recipe.project_dir, recipe.elf.parent.relative_to(recipe.project_dir), recipe.board.chip
    elf = str(recipe.elf.relative_to(project))
    machine = [str(path), *chip.machine.split()]
    definitions = [f"-D{name}" for name in (f"F_CPU={chip.clock_hz}L", *defines(recipe.board))]
    made, objects = list[Step](), list[str]()
    for pattern, below in UNITS.items():
        for unit in sorted(project.glob(pattern.format(hal=chip.hal))):
            inside = unit.relative_to(project / "firmware" if below else project)
            target = project / out / below / f"{inside}.o"
            target.parent.mkdir(parents=True, exist_ok=True)
            objects.append(str(target.relative_to(project)))
            made.append([*machine, *flags, *definitions, "-c", str(unit.relative_to(project)), "-o", objects[-1]])
    archives = [str(one.relative_to(project)) for one in sorted(project.glob("model/*.a"))]
    made.append([*machine, "-O2", *_linking(recipe, out), *objects, *archives, "-o", elf, "-lm"])
    made.append(recipe.elf)
    objcopy = str(path).removesuffix("gcc") + "objcopy"
    for suffix, kind in ((".hex", "ihex"), (".bin", "binary")):
        made.append([objcopy, "-O", kind, "-R", ".eeprom", elf, elf.replace(".elf", suffix)])
    if chip.uf2_family is not None:
        made.append([sys.executable, UF2_SCRIPT, elf, elf.replace(".elf", ".uf2"), hex(chip.uf2_family)])
    return made


def _linking(recipe: Recipe, out: Path) -> list[str]:
    chip = recipe.board.chip
    limits: dict[str, object]
    if chip.compiler == "avr-gcc":
        ram = chip.ram_bytes - chip.stack_reserve_bytes
        limits, flags = {"__DATA_REGION_LENGTH__": ram, "__TEXT_REGION_LENGTH__": chip.flash_bytes}, []
    else:
        limits = {"_min_stack": chip.stack_reserve_bytes}
        if chip.flash_start is not None:
            limits["_flash_start"] = f"{chip.flash_start:#x}"
        flags = ["--specs=nano.specs", "--specs=nosys.specs", "-nostartfiles", "-L."]
        flags += ["-T", f"firmware/hal/{chip.hal}/{chip.hal}.ld"]
    flags += [f"-Wl,--defsym={name}={value}" for name, value in limits.items()]
    return [*flags, "-Wl,--gc-sections", f"-Wl,-Map={out}/firmware.map"]


compile_stage._platformio_steps = steps
