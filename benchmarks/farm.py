"""A farm of emulated boards behind RFC 2217: is every cell done, whatever dies, and how fast beside one board?

    python -m benchmarks.farm [--cells 1000] [--boards 10] [--machines 4] [--baud 9600] [--kills-every 20]
                              [--write FILE]

Every board is an emulated Due whose port a terminal server offers; each has a Dask worker with a cache of its own. What
an emulated board computes costs this computer's processor, so the model is small, and the server lets bytes pass as
fast as a line of `--baud` does, one direction at a time: the line is then what everybody waits for, in real time, as it
is with real boards of slow lines or large samples. First `--alone` cells on one board tell its throughput, then all of
them run on the farm while, at random moments, a worker or all workers of a machine are killed (others take their
boards), or a board's line is cut amid an answer. A cell is a run of a small model on samples of its own: a board behind
a network is not flashed, it runs the image that it holds.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.marked import replace_between
from tests.farm_bench import Farm, farm
from tests.hil_command import start_hil
from tests.remote_bench import SerialServer
from tests.wire_bench import make_bench, powered, write_tiny_model
from tools.measured import provenance

BOARD, SAMPLES, INPUTS = "left", 20, 32
LASTS_S = 7200.0  # a sweep, at most
BITS = 10  # on the line of a byte: start, 8 of data, stop
BEGIN, END = "<!-- benchmarks/farm.py begin -->", "<!-- benchmarks/farm.py end -->"


class PacedServer(SerialServer):
    """A terminal server whose serial line takes as long as one of `baud` does, either way."""

    baud = 9600

    def sent(self, data: bytes) -> bytes:
        time.sleep(BITS * len(data) / self.baud)
        return data

    answered = sent


@dataclass(slots=True)
class Lab:
    """Boards and the workers that have them. `killed`, `cut`: how many workers and lines."""

    farm: Farm
    servers: list[PacedServer]
    folder: Path
    machines: int
    chance: random.Random
    names: dict[int, str] = field(default_factory=dict)
    killed: int = 0
    cut: int = 0

    def reach(self, board: int) -> Path:
        """The bench file that says where a board is."""
        bench = self.folder / f"bench-{board}.yaml"
        bench.write_text(f"boards:\n  {BOARD}: {{board: due, address: '{self.servers[board].url}'}}\n")
        return bench

    def staff(self, board: int) -> None:
        """A new worker for a board."""
        bench = self.reach(board)
        name = f"board-{board}-{self.killed}"
        self.farm.add(name, {BOARD: 1}, HIL_BENCH=str(bench), XDG_STATE_HOME=str(self.folder / f"state-{board}"))
        self.names[board] = name

    def kill(self) -> None:
        """A worker, the workers of a machine, or the line of a board."""
        board, what = self.chance.randrange(len(self.servers)), self.chance.choice(("worker", "machine", "line"))
        if what == "line":
            self.cut += 1
            self.servers[board].cut_after = self.servers[board].passed + self.chance.randrange(400)
            return
        every = range(len(self.servers))
        dead = [board] if what == "worker" else [one for one in every if (one - board) % self.machines == 0]
        for one in dead:
            self.killed += 1
            self.farm.kill(self.names[one])
        for one in dead:
            self.staff(one)


@contextmanager
def lab(folder: Path, boards: int, machines: int, baud: int) -> Iterator[Lab]:
    """Everything on loopback, until the block ends."""
    folder.mkdir()
    due = make_bench("due", write_tiny_model(folder / "tiny.onnx", INPUTS), drawn(0, SAMPLES))
    with ExitStack() as stack:
        servers = []
        for board in range(boards):
            (folder / f"board-{board}").mkdir()
            device = stack.enter_context(powered(due, folder / f"board-{board}"))
            servers.append(stack.enter_context(PacedServer(device.port, True)))
            servers[-1].baud = baud
        made = Lab(stack.enter_context(farm(folder / "farm")), servers, folder, machines, random.Random(0))
        write_sweep(folder / "first", 1)  # builds the image that all cells have, where every worker finds it
        made.reach(0)
        start_hil("sweep", "sweep.yaml", "--bench", folder / "bench-0.yaml", cwd=folder / "first").communicate()
        for board in range(boards):
            made.staff(board)
        made.farm.wait_for(boards)
        yield made


def drawn(seed: int, count: int) -> np.ndarray:
    """Samples (count, 1, inputs) float32."""
    return np.random.default_rng(seed).uniform(-1, 1, (count, 1, INPUTS)).astype(np.float32)


def write_sweep(folder: Path, cells: int) -> None:
    """As many runs of one model, whose image all boards hold, each on samples of its own."""
    folder.mkdir()
    np.savez(folder / "ranges.npz", x=drawn(0, SAMPLES))
    for cell in range(cells):
        (folder / str(cell)).mkdir()
        write_tiny_model(folder / str(cell) / "tiny.onnx", INPUTS)
        np.savez(folder / f"x{cell}.npz", x=drawn(1 + cell, SAMPLES))
    each = "  - {{model: {0}/tiny.onnx, inputs: x{0}.npz, calibrate: ranges.npz}}\n"
    models = "".join(each.format(cell) for cell in range(cells))
    (folder / "sweep.yaml").write_text(f"models:\n{models}boards: [{BOARD}]\nformats: [fixed16]\n")


def swept(where: Lab, folder: Path, kills_s: float | None) -> tuple[list[dict[str, Any]], float, int]:
    """The rows of a sweep, its wall seconds, and how often the command was given until no cell had failed."""
    bench, began, times = where.folder / "bench-0.yaml", time.monotonic(), 0
    while True:
        times += 1
        command = ("sweep", "sweep.yaml", "--json", "--scheduler", where.farm.address, "--bench", bench)
        process, over = start_hil(*command, cwd=folder), threading.Event()

        def disturb(over: threading.Event = over) -> None:
            while kills_s is not None and not over.wait(where.chance.expovariate(1 / kills_s)):
                where.kill()

        killer = threading.Thread(target=disturb)
        killer.start()
        out, err = process.communicate(LASTS_S)
        over.set()
        killer.join()
        rows = json.loads(out)["cells"] if out else []
        if rows and not any(row["exit_code"] for row in rows):
            return rows, time.monotonic() - began, times
        print(err[-1000:], [row["error"] for row in rows if row["exit_code"]], file=sys.stderr)
        if times == 5:
            sys.exit(f"after {times} sweeps cells are still missing")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("cells", 1000), ("alone", 20), ("boards", 10), ("machines", 4)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--baud", type=int, default=9600)
    parser.add_argument("--kills-every", type=float, default=20.0, help="seconds between two, on average")
    parser.add_argument("--write", type=Path)
    given = parser.parse_args()
    measured_at = provenance() if given.write else {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_sweep(folder / "few", given.alone)
        write_sweep(folder / "all", given.cells)
        with lab(folder / "one", 1, 1, given.baud) as one:
            few, alone_s, _ = swept(one, folder / "few", None)
        each_s = median(row["seconds"] for row in few)  # without the start of the command, which few cells feel more
        print(f"one board: {given.alone} cells in {alone_s:.0f} s, {each_s:.1f} s each", flush=True)
        with lab(folder / "many", given.boards, given.machines, given.baud) as many:
            rows, farm_s, times = swept(many, folder / "all", given.kills_every)
            died = f"{many.killed} workers killed, {many.cut} lines cut"
    counts = f"{given.boards} on {given.machines} machines | {given.cells} | {len(rows)}"
    own_s = median(row["processor_s"] for row in rows)
    ratio = given.cells / farm_s * each_s
    lines = [
        "| boards | cells | done | s | s a cell on one board (of processor) | times one board | died | sweeps given |",
        "|---|---|---|---|---|---|---|---|",
        f"| {counts} | {farm_s:.0f} | {each_s:.1f} ({own_s:.2f}) | {ratio:.1f} | {died} | {times} |",
    ]
    print("\n".join(lines))
    if given.write:
        replace_between(given.write, BEGIN, END, "\n".join(lines), measured_at)


if __name__ == "__main__":
    main()
