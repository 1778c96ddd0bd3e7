"""Firmware that tells the host more than results, built, loaded and streamed through the same path as `hil run`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from tinyhil.codegen.body import VALUES
from tinyhil.codegen.model import emit_model
from tinyhil.errors import LinkError
from tinyhil.formats.codec import storage_dtype
from tinyhil.harness.boards.claim import claim
from tinyhil.harness.boards.locate import Place
from tinyhil.harness.build.board_image import build_firmware
from tinyhil.harness.build.image import Image
from tinyhil.harness.build.pipeline import Compiled, target_of
from tinyhil.harness.build.platformio import MANIFESTS, manifest
from tinyhil.harness.job.job import Request
from tinyhil.harness.measure.talk import connect, flash_unless_running, log_folder, talk
from tinyhil.harness.settings.config import Boards, BoardSpec
from tinyhil.harness.wire import protocol
from tinyhil.harness.wire.deadline import Starved
from tinyhil.harness.wire.link import Link
from tinyhil.harness.wire.protocol import Message, Result, Timed, Values
from tinyhil.harness.wire.stream import Options, stream
from tinyhil.notice import Say
from tinyhil.passes.laid import ONE_BY_ONE, laid_out

MOST_MESSAGES = 200_000  # values or operations of one sample; a board that says more computes nothing


@dataclass(frozen=True, slots=True)
class Device:
    """Where samples are computed."""

    request: Request
    place: Place
    boards: Boards
    cache_dir: Path
    say: Say


@dataclass(frozen=True, slots=True)
class Reported:
    """What a board has said: `messages` in the order they came, a result per sample, the emulator's trace if any."""

    messages: tuple[Values | Timed, ...]
    results: tuple[Result, ...]
    trace: str


class TellingLink(Link):
    """A link that keeps what is reported on the way; the session sees everything else."""

    def __init__(self, port: str, baud: int, board_starved: Starved) -> None:
        super().__init__(port, baud, board_starved)
        self.seen: list[Values | Timed] = []

    def receive(self, timeout_s: float) -> Message | None:
        """The next message for the session; LinkError if what is kept aside has no end."""
        deadline, most = time.monotonic() + timeout_s, len(self.seen) + MOST_MESSAGES
        while len(self.seen) < most:
            message = super().receive(max(0.0, deadline - time.monotonic()))
            if not isinstance(message, (Values, Timed)):
                return message
            self.seen.append(message)
            deadline = time.monotonic() + timeout_s  # a board that tells something is alive
        raise LinkError(
            f"{self.port}: tells values without end, {MOST_MESSAGES} since its last result; reset the board"
        )


def run_variant(device: Device, compiled: Compiled, reports: str, integers: np.ndarray) -> Reported:
    """Build firmware that tells what `reports` says (codegen.model.REPORTS), run `integers` (samples, elements)."""
    board = _with_all_flash(device)
    target = target_of(board, compiled.transfers[board.name])
    model_hash = bytes.fromhex(compiled.model.sha256)[:8]
    laid = laid_out(compiled.program, compiled.plan, [target], ONE_BY_ONE if reports == VALUES else ())
    sources = emit_model(laid, [target], model_hash, reports=reports)
    manifests = {} if board.is_host else {f"{MANIFESTS}/{board.name}.json": manifest(board)}
    telling = replace(compiled, sources={**compiled.sources, **sources, **manifests})
    image = build_firmware(telling, board, cache_dir=device.cache_dir, log=device.say)
    storage = storage_dtype(compiled.program.tensors[compiled.program.input].format)
    return run_reporting(device, image, [row.astype(storage).tobytes() for row in integers])


def _with_all_flash(device: Device) -> BoardSpec:
    """Emulated, a chip has all the flash of the one it is like: what tells more takes more than what is shipped."""
    board = device.place.board
    if device.place.port is not None or not board.chip.like:
        return board
    chips = (other.chip for other in device.boards.entries.values())
    whole = next((chip.flash_bytes for chip in chips if chip.name == board.chip.hal), board.chip.flash_bytes)
    return board.model_copy(update={"chip": board.chip.model_copy(update={"flash_bytes": whole})})


def run_reporting(device: Device, image: Image, samples: Sequence[bytes]) -> Reported:
    """Load an image that tells, run `samples`. Errors as of `hil run`."""
    request, board = device.request, device.place.board
    options = Options(protocol.QUIET, request.timeout_s, max(0.05, min(1.0, request.timeout_s / 4)))
    results: dict[int, Result] = {}
    with claim(device.place, device.boards.bench.locks, request.wait_s, device.say) as port:
        if port is not None and not request.no_flash:
            flash_unless_running(image, board, port, device.say)
        with log_folder(image.project_dir) as logs, connect(board, port, request, image, logs) as connection:
            with talk(connection, board, image, request.timeout_s, TellingLink) as (link, hello):
                stream(link, hello, samples, options, results.__setitem__, connection.alive)
            connection.finish()
            trace = logs / "trace.txt"
            text = trace.read_text(encoding="utf-8") if trace.is_file() else ""
    return Reported(tuple(link.seen), tuple(results[index] for index in range(len(samples))), text)
