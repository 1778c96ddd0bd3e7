"""`hil flash`: model -> image -> board, and the HELLO that proves it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from tinyhil.errors import ConfigError
from tinyhil.harness.boards.claim import claim
from tinyhil.harness.boards.connection import Session
from tinyhil.harness.boards.flash import confirm, flash
from tinyhil.harness.boards.simulated import check_loader, connect_flashed
from tinyhil.harness.build.board_image import build_firmware, compile_for
from tinyhil.harness.build.image import Image
from tinyhil.harness.job.job import Request, method_of, open_model
from tinyhil.harness.measure.run import check_tools, find_place, wish_of
from tinyhil.harness.measure.talk import log_folder
from tinyhil.harness.settings.config import Boards, BoardSpec
from tinyhil.notice import Say


@dataclass(frozen=True, slots=True)
class Loaded:
    """`port` is None for an emulated board."""

    image: Image
    port: str | None
    flash_seconds: float
    hello_seconds: float


def flash_model(request: Request, boards: Boards, cache_dir: Path, say: Say) -> Loaded:
    """Build the model's image, write it into the board and wait for the HELLO that carries its hash.

    ConfigError for the host board.
    """
    place = find_place(request, boards)
    board = place.board
    if board.is_host:
        raise ConfigError("the host board has no flash: `hil run --board host` starts its program")
    if place.port is None:
        check_loader(board)
    check_tools(place, request, cache_dir)
    image = build_image(request, board, boards, cache_dir, say)
    with claim(place, boards.bench.locks, request.wait_s, say) as port, log_folder(image.project_dir) as logs:
        began = time.monotonic()
        if port is None:
            with connect_flashed(
                board, Session(image.load_path, logs, request.uart, request.realtime), image
            ) as device:
                flashed = time.monotonic()
                confirm(image, board, device.port, device.alive)
        else:
            flash(image, board, port, logs / "flash.log")
            flashed = time.monotonic()
            confirm(image, board, port)
    return Loaded(image, port, flashed - began, time.monotonic() - flashed)


def build_image(request: Request, board: BoardSpec, boards: Boards, cache_dir: Path, say: Say) -> Image:
    """The same image that `hil run` builds with the same options."""
    opened = open_model(request.model, None, request.streamed, by=method_of(request.assignment, request.calibrate_by))
    ranges = opened.required_ranges(request.calibrate)
    assignment = opened.assignment(request.assignment, request.format)
    compiled = compile_for(board, boards, opened.model, assignment, ranges, wish_of(request))
    return build_firmware(compiled, board, cache_dir=cache_dir, log=say)
