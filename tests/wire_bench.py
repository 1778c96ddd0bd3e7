"""Boards for the tests of the wire: tiny models, emulated boards, and lines that damage what passes."""

from __future__ import annotations

import contextlib
import os
import random
import select
import threading
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tinyhil.compiler.calibrate import calibrate, load_ranges
from tinyhil.frontend.onnx import load_onnx
from tinyhil.harness.boards import host, simulated
from tinyhil.harness.boards.connection import Connection, Session
from tinyhil.harness.build.compile import build
from tinyhil.harness.build.image import Image
from tinyhil.harness.build.pipeline import compile_model
from tinyhil.harness.build.toolchain import default_cache_dir
from tinyhil.harness.job.zoo import find_model
from tinyhil.harness.settings.config import BoardSpec, load_boards
from tinyhil.harness.wire import protocol
from tinyhil.harness.wire.link import Link
from tinyhil.harness.wire.protocol import Result, Stats
from tinyhil.harness.wire.stream import OnResult, Options, check_identity, greet, stream
from tinyhil.language.assignment import Assignment
from tinyhil.references.reference import quantize_inputs, run_reference

ROOT = Path(__file__).resolve().parent.parent


def write_tiny_model(path: Path, inputs: int = 32, outputs: int = 4, start: int = 1) -> Path:
    """x (1, inputs) -> MatMul -> y (1, outputs). The weights differ, so that no two inputs are worth the same,
    and with `start`."""
    weights = np.sin(start + np.arange(inputs * outputs)).reshape(inputs, outputs).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"], "mix")],
        "tiny",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, inputs])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, outputs])],
        [numpy_helper.from_array(weights, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.save(model, path)
    return path


@dataclass(frozen=True, slots=True)
class Bench:
    """An image of a model for a board, samples as they go over the wire, and what must come back."""

    board: BoardSpec
    image: Image
    samples: list[bytes]
    outputs: list[bytes]
    saturations: list[int]


def make_bench(board_name: str, model: str | Path, x: np.ndarray) -> Bench:
    """Compile `model` (a path, or a name in the zoo) for the board and compute the reference for inputs `x`."""
    boards = load_boards()
    source = find_model(str(model))
    loaded = load_onnx(source.path)
    ranges = load_ranges(source.ranges, loaded.sha256) if source.ranges else calibrate(loaded.graph, x, {})
    compiled = compile_model(loaded, Assignment("fixed16"), ranges, list(boards.entries.values()), {board_name})
    integers, _ = quantize_inputs(compiled.program, x)
    reference = run_reference(compiled.program, integers)
    board = boards.board(board_name)
    image = build(compiled.sources, board, cache_dir=default_cache_dir(), log=lambda line: None)
    return Bench(
        board,
        image,
        [row.astype("<i2").tobytes() for row in integers],
        [row.astype("<i2").tobytes() for row in reference.outputs],
        reference.saturations.tolist(),
    )


def tiny_bench(board_name: str, folder: Path, count: int, inputs: int = 32, outputs: int = 4) -> Bench:
    """The tiny model with `count` seeded inputs."""
    model = write_tiny_model(folder / "tiny.onnx", inputs, outputs)
    x = np.random.default_rng(1).uniform(-1, 1, (count, 1, inputs)).astype(np.float32)
    return make_bench(board_name, model, x)


@contextmanager
def powered(
    bench: Bench, logs: Path, uart: str = "lifted", realtime: bool = False, watch_pins: bool = False
) -> Iterator[Connection]:
    """The bench's board, switched on."""
    session = Session(bench.image.load_path, logs, uart, realtime, watch_pins=watch_pins)
    driver = host.connect if bench.board.is_host else simulated.connect
    with driver(bench.board, session) as device:
        yield device


@dataclass(slots=True)
class Collected:
    """What a session gave, and how often each sample was reported."""

    results: dict[int, Result] = field(default_factory=dict)
    reports: int = 0

    def take(self, index: int, result: Result) -> None:
        self.results[index] = result
        self.reports += 1

    def check(self, bench: Bench, stats: Stats | None = None) -> None:
        """Every result there is is right; with `stats`, also: none is missing, none counted twice."""
        for index, result in self.results.items():
            assert result.output == bench.outputs[index], f"sample {index}"
            assert result.saturations == bench.saturations[index], f"sample {index}"
        assert self.reports == len(self.results)
        if stats is not None:
            assert sorted(self.results) == list(range(len(bench.samples)))
            assert stats.samples == len(bench.samples)
            assert stats.saturations == sum(bench.saturations)


def run_session(
    bench: Bench,
    device: Connection,
    port: str,
    options: Options,
    on_result: OnResult,
    banner_s: float = 0.5,
) -> Stats:
    """Greet, identify and stream over `port`."""
    with Link(port, bench.board.baud) as link:
        hello = greet(link, options.deadline_s, banner_s, device.alive)
        check_identity(hello, bench.image.hash, port)
        return stream(link, hello, bench.samples, options, on_result, device.alive)


class PtyThread:
    """A pseudo terminal served by a thread; `port` is what a harness opens. Subclasses say what happens in `serve`."""

    def __init__(self) -> None:
        self.master, self._slave = os.openpty()
        tty.setraw(self._slave)
        os.set_blocking(self.master, False)
        self.port = os.ttyname(self._slave)
        self.stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def serve(self) -> None:
        raise NotImplementedError

    def read(self, timeout_s: float = 0.05) -> bytes:
        """Bytes from the harness, b"" after `timeout_s`."""
        ready, _, _ = select.select([self.master], [], [], timeout_s)
        return os.read(self.master, 4096) if ready else b""

    def write(self, data: bytes, descriptor: int | None = None) -> None:
        """All of `data`, unless the test ends before somebody reads it."""
        target = self.master if descriptor is None else descriptor
        while data and not self.stopping.is_set():
            if select.select([], [target], [], 0.05)[1]:
                with contextlib.suppress(BlockingIOError):
                    data = data[os.write(target, data) :]

    def _run(self) -> None:
        with contextlib.suppress(OSError):  # the other end has gone
            self.serve()

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stopping.set()
        self._thread.join(5)
        os.close(self._slave)
        os.close(self.master)


class FakeBoard(PtyThread):
    """Whatever `behave(board)` does once it has been asked for its HELLO."""

    def __init__(self, behave: Callable[[FakeBoard], None]) -> None:
        super().__init__()
        self._behave = behave

    def serve(self) -> None:
        while not self.stopping.is_set():
            if self.read():
                self._behave(self)
                return


FAULTS = ("drop", "flip", "double", "burst", "stall")
LONGEST_BURST_BYTES = 16
LONGEST_STALL_S = 0.02


class FaultyWire(PtyThread):
    """Between the harness and the board on `inner`: at every byte, either way, each of `kinds` happens with `rate`.

    drop: the byte is lost. flip: one of its bits is. double: it comes twice. burst: it and up to 15 bytes after it are
    noise. stall: nothing passes for up to 20 ms.
    """

    def __init__(self, inner: str, rate: float, seed: int, kinds: tuple[str, ...] = ("drop", "flip")) -> None:
        super().__init__()
        self._inner = inner
        self._rate = rate
        self._kinds = kinds
        self._random = random.Random(seed)
        self.happened = dict.fromkeys(FAULTS, 0)
        self.passed = 0
        self.reset_after_bytes = 1 << 40  # close and open the board's port once so many have passed
        self.cut_after_bytes = 1 << 40  # let nothing pass from there on
        self.is_cut = False
        self._board = -1
        self._to_board, self._to_host = bytearray(), bytearray()

    @property
    def flipped(self) -> int:
        return self.happened["flip"]

    @property
    def dropped(self) -> int:
        return self.happened["drop"]

    def repair(self) -> None:
        """The wire is whole again."""
        self.cut_after_bytes = 1 << 40
        self.is_cut = False

    def serve(self) -> None:
        self._open()
        while not self.stopping.is_set():
            self._pass_on()
            if self.passed > self.reset_after_bytes:
                self.reset_after_bytes = 1 << 40
                os.close(self._board)
                self._open()
        os.close(self._board)

    def _pass_on(self) -> None:
        """Both ways without one waiting for the other, as on two wires."""
        board, to_board, to_host = self._board, self._to_board, self._to_host
        writing = [fd for fd, waiting in ((board, to_board), (self.master, to_host)) if waiting]
        reading, writable, _ = select.select([self.master, board], writing, [], 0.05)
        if self.master in reading:
            to_board += self._damage(os.read(self.master, 4096))
        if board in reading:
            to_host += self._damage(os.read(board, 4096))
        if board in writable:
            del to_board[: os.write(board, to_board)]
        if self.master in writable:
            del to_host[: os.write(self.master, to_host)]

    def _open(self) -> None:
        self._board = os.open(self._inner, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)

    def _damage(self, data: bytes) -> bytes:
        out = bytearray()
        noise = 0  # bytes left of a burst; one ends with what is read at once
        for byte in data:
            if noise > 0:
                noise -= 1
                out.append(self._random.randrange(256))
                continue
            chance = self._random.random()
            if chance >= self._rate * len(self._kinds):
                out.append(byte)
                continue
            kind = self._kinds[int(chance / self._rate)]
            self.happened[kind] += 1
            if kind == "flip":
                out.append(byte ^ 1 << self._random.randrange(8))
            elif kind == "double":
                out += bytes((byte, byte))
            elif kind == "burst":
                noise = self._random.randrange(LONGEST_BURST_BYTES)
                out.append(self._random.randrange(256))
            elif kind == "stall":
                self.stopping.wait(self._random.random() * LONGEST_STALL_S)
                out.append(byte)
        self.passed += len(data)
        self.is_cut |= self.passed > self.cut_after_bytes
        return b"" if self.is_cut else bytes(out)


def hello_frame(bench: Bench, image_hash: bytes | None = None) -> bytes:
    """The HELLO a board with this bench's image would send (tiny model: two slots, one chunk)."""
    import struct

    sample_bytes, output_bytes = len(bench.samples[0]), len(bench.outputs[0])
    head = struct.pack(
        "<BB8sIIHHHBB",
        protocol.HELLO,
        protocol.VERSION,
        image_hash or bench.image.hash,
        bench.board.chip.clock_hz,
        sample_bytes,
        sample_bytes,
        1,
        output_bytes,
        2,
        0,
    )
    description = bytes(8) + struct.pack("<BbBHH", 2, -14, 2, 1, sample_bytes // 2)
    return protocol.frame(head + description + struct.pack("<BbBHH", 2, -12, 2, 1, output_bytes // 2))
