"""What PlatformIO must know of boards: a manifest for each, and an environment in platformio.ini."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from tinyhil.harness.settings.config import BoardSpec

MANIFESTS = "firmware/platform/boards"
INI = "platformio.ini"
AVR_RAM = 0x100  # where its RAM begins
USUAL_BAUD = 115200  # of the firmware that is told no other
ARCHITECTURE = {"avr-gcc": "avr", "arm-none-eabi-gcc": "arm"}
UPLOAD: dict[str, dict[str, Any]] = {  # by `upload` of a board; the first protocol is the usual one
    "arduino": {"protocols": ["arduino", "custom"], "require_upload_port": True},
    "sam-ba": {
        "protocols": ["sam-ba", "cmsis-dap", "custom"],
        "require_upload_port": True,
        "use_1200bps_touch": True,
    },
    "stlink": {"protocols": ["stlink", "serial", "custom"]},
    "serial": {"protocols": ["serial", "custom"]},
    "cmsis-dap": {"protocols": ["cmsis-dap", "custom"]},
    "uf2": {"protocols": ["cmsis-dap", "custom"]},  # a drive is no protocol of PlatformIO's
    "nrfutil": {"protocols": ["cmsis-dap", "custom"]},  # of the packages of others, which are not used here
    "bossac": {"protocols": ["cmsis-dap", "custom"]},
    "none": {"protocols": ["custom"]},
}
HEAD = """\
; Builds the model for a board: pio run -e due, or pio run -e due -t upload
[platformio]
default_envs = {default}
src_dir = firmware
; packages of its own, so that a build without a network never touches ~/.platformio
core_dir = ${{PROJECT_DIR}}/.pio/core
; one link per project: projects that share a core directory must not share the link to their platform
platforms_dir = ${{PROJECT_DIR}}/.pio/platforms

[env]
platform = symlink://${{PROJECT_DIR}}/firmware/platform
lib_ldf_mode = off
test_framework = custom
; auto | path | package, see firmware/platform/platform.py
custom_toolchain = auto
"""
BUNDLED = """\
; generates model/; a generated project brings its own
extra_scripts = pre:firmware/platform/bundled_model.py
"""


def defines(board: BoardSpec) -> list[str]:
    """What the firmware is told of the board it is compiled for."""
    chip = board.chip
    names = [f"BOARD_{board.name}", f"CHIP_{chip.hal}"]
    names += [f"UART_{chip.uart.name}"] if chip.uart else []
    names += ["HAS_REGIONS"] if chip.regions else []
    names += ["HAS_HOT"] if chip.hot else []
    names += [f"SUPPLY_{board.supply}"] if board.supply else []
    names += [f"RAM_END={AVR_RAM + chip.ram_bytes - 1}"] if chip.core == "avr" and chip.like and chip.ram_bytes else []
    names += [f"BAUD={board.baud}"] if board.baud != USUAL_BAUD else []
    for use, pin in (("GATE", board.gate), ("PULSE", board.pulse)):
        names += [f"{use}_PORT={ord(pin[1]) - ord('A')}", f"{use}_PIN={int(pin[2:])}"] if pin else []
    return [f"HIL_{name.upper()}" for name in names]


def project_files(boards: Sequence[BoardSpec], *, bundled: bool = False) -> dict[str, str]:
    """Manifests and platformio.ini of a project for the microcontrollers among `boards`.

    `bundled`: the repository's own, which generates the bundled model first.
    """
    chips = [board for board in boards if not board.is_host]
    default = [board.name for board in chips if board.upload != "none"] or [board.name for board in chips]
    ini = HEAD.format(default=", ".join(default)) + (BUNDLED if bundled else "")
    ini += "".join(f"\n[env:{board.name}]\nboard = {board.name}\n" for board in chips)
    return {f"{MANIFESTS}/{board.name}.json": manifest(board) for board in chips} | {INI: ini}


def manifest(board: BoardSpec) -> str:
    """A board of PlatformIO's (docs.platformio.org, Custom Embedded Boards), as JSON."""
    chip, upload = board.chip, UPLOAD[board.upload]
    build = {
        "arch": ARCHITECTURE[chip.compiler],
        "hal": chip.hal,
        "mcu": board.part,
        "f_cpu": f"{chip.clock_hz}L",
        "machine": chip.machine,
        "defines": defines(board),
        "stack_reserve": chip.stack_reserve_bytes,
        "hwids": [[f"0x{part}" for part in usb.split(":")] for usb in board.usb],
    }
    if chip.uf2_family is not None:
        build["uf2_family"] = f"{chip.uf2_family:#x}"
    if chip.flash_start is not None:
        build["flash_start"] = f"{chip.flash_start:#x}"
    limits = {"maximum_size": chip.flash_bytes, "maximum_ram_size": chip.ram_bytes}
    whole = {
        "name": board.title,
        "vendor": board.vendor,
        "url": board.url,
        "build": build,
        "debug": {"openocd_target": chip.openocd_target} if chip.openocd_target else {},
        "upload": {
            **limits,
            "protocol": upload["protocols"][0],
            "speed": board.upload_baud or board.baud,
            **upload,
        },
    }
    return json.dumps(whole, indent=2) + "\n"
