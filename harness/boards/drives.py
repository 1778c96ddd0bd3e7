"""Drives as which boot loaders show themselves: a UF2 file that is copied there is written into the board's flash."""

from __future__ import annotations

import getpass
import time
from collections.abc import Iterable
from pathlib import Path

from tinyhil.errors import FlashError
from tinyhil.harness.settings.config import BoardSpec

INFO = "INFO_UF2.TXT"  # on every such drive; its line `Board-ID` says whose it is
DRIVE_S, LOOK_S = 3.0, 0.05


def plain_image(file: bytes) -> bytes:
    """The bytes that the blocks of a UF2 file of ours hold: they follow each other."""
    return b"".join(file[at + 32 : at + 32 + 256] for at in range(0, len(file), 512))


def mounted() -> list[Path]:
    """Folders in which the desktops of Linux and macOS mount drives, and what is mounted by hand in /mnt."""
    user = getpass.getuser()
    roots = (Path("/media") / user, Path("/run/media") / user, Path("/Volumes"), Path("/mnt"))
    return [drive for root in roots if root.is_dir() for drive in root.iterdir()]


def find_drive(board: BoardSpec, drives: Iterable[Path] | None = None) -> Path | None:
    """The drive of the board's boot loader, among those that are mounted or among `drives`; None if there is none.

    FlashError if there are several.
    """
    end = time.monotonic() + DRIVE_S
    while True:
        found = [drive for drive in (mounted() if drives is None else drives) if _is_of(board, drive)]
        if len(found) > 1:
            listing = ", ".join(map(str, found))
            raise FlashError(f"{board.name}: {len(found)} boot loaders are mounted ({listing}); leave one of them")
        if found:
            return found[0]
        if time.monotonic() > end:
            return None
        time.sleep(LOOK_S)


def _is_of(board: BoardSpec, drive: Path) -> bool:
    """Variants of a board have longer names: `nRF52840-SeeedXiao-v1`, `nRF52840-SeeedXiaoSense-v1`."""
    wanted = board.drive_id or board.chip.drive_id
    return wanted is not None and _board_id(drive).startswith(wanted)


def _board_id(drive: Path) -> str:
    try:
        lines = (drive / INFO).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("Board-ID:")), "")
