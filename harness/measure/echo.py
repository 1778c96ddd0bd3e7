"""A firmware that sends back what it gets: a tiny model whose output is its input, under the usual protocol.

It serves `hil doctor --board` to test a wire, and `hil boards heal` as a program that surely runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tinyhil import files
from tinyhil.compiler.calibrate import calibrate
from tinyhil.frontend.onnx import Model, load_onnx
from tinyhil.harness.boards.locate import Place
from tinyhil.harness.build.board_image import build_firmware, compile_for
from tinyhil.harness.build.image import Image
from tinyhil.harness.job.job import Request
from tinyhil.harness.measure.talk import connect, log_folder, talk
from tinyhil.harness.settings.config import Boards, BoardSpec
from tinyhil.harness.wire.link import Link
from tinyhil.harness.wire.protocol import QUIET, Result
from tinyhil.harness.wire.stream import Options, stream
from tinyhil.language.assignment import Assignment
from tinyhil.notice import Say

VALUES = 64  # of 16 bits: a sample fills one frame, and an Uno has room for two
ROUND = 50  # samples per session
LIMIT = 32767 / 32768
DEADLINE_S = 5.0


@dataclass(frozen=True, slots=True)
class EchoResult:
    """What went over the wire: payload bytes there and back, samples that came back different, damaged frames."""

    seconds: float
    samples: int
    bytes_each_way: int
    wrong_samples: int
    damaged_frames: int
    overruns: int

    @property
    def errors(self) -> int:
        """Whatever was not as it should be, counted: samples, frames, overruns."""
        return self.wrong_samples + self.damaged_frames + self.overruns

    @property
    def bytes_per_second(self) -> float:
        """Payload in both directions."""
        return 2 * self.bytes_each_way / self.seconds


def echo_image(board: BoardSpec, boards: Boards, cache_dir: Path, say: Say) -> Image:
    """The firmware for `board`; built only once."""
    model = _echo_model(cache_dir)
    ranges = calibrate(model.graph, np.array([[[-1.0] * VALUES], [[LIMIT] * VALUES]], np.float32), {"name": "echo"})
    compiled = compile_for(board, boards, model, Assignment("fixed16"), ranges)
    return build_firmware(compiled, board, cache_dir=cache_dir, log=say)


def echo_test(place: Place, port: str | None, image: Image, seconds: float) -> EchoResult:
    """Exchange random samples with a board that runs `image` (an emulator is started) for `seconds`.

    LinkTimeout and DeviceCrashed as in a run; whatever else goes wrong is counted.
    """
    board, random = place.board, np.random.default_rng(1)
    samples = wrong = damaged = overruns = 0
    request = Request(board=place.name, model="echo")
    with log_folder(image.project_dir) as logs, connect(board, port, request, image, logs) as device:
        with talk(device, board, image, DEADLINE_S, Link) as (link, hello):
            began = time.monotonic()
            while time.monotonic() < began + seconds:
                sent = [row.astype("<i2").tobytes() for row in random.integers(-32768, 32768, (ROUND, VALUES))]
                found: dict[int, bytes] = {}
                stats = stream(link, hello, sent, Options(QUIET, DEADLINE_S), _collect(found), device.alive)
                wrong += sum(found[index] != one for index, one in enumerate(sent))
                damaged, overruns = damaged + stats.damaged_frames, overruns + stats.rx_overruns
                samples += ROUND
            took = time.monotonic() - began
            damaged += link.bad_frames
        device.finish()
    return EchoResult(took, samples, samples * VALUES * 2, wrong, damaged, overruns)


def _collect(found: dict[int, bytes]) -> Callable[[int, Result], None]:
    def take(index: int, result: Result) -> None:
        found[index] = result.output

    return take


def _echo_model(cache_dir: Path) -> Model:
    from onnx import TensorProto, helper

    graph = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["y"], "echo")],
        "echo",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, VALUES])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, VALUES])],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    made.ir_version = 8
    path = cache_dir / "echo.onnx"
    files.write_bytes(files.own_folder(cache_dir) / path.name, made.SerializeToString())
    return load_onnx(path)
