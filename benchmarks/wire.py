"""Share of the wire that carries payload: a model with 64-byte inputs on the emulated Uno at true UART speed.

Run as `python -m benchmarks.wire`. The emulator keeps to the wall's time.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.wire_bench import Collected, powered, run_session, tiny_bench
from tinyhil.harness.wire import protocol
from tinyhil.harness.wire.protocol import Result
from tinyhil.harness.wire.stream import Options

UNO_BAUD = 16_000_000 / 8 / 17  # what the USART makes of it (UBRR 16, U2X): 2.1 % fast
BITS_PER_BYTE = 10
WARM_UP = 10  # samples until the pipeline is full


@dataclass(frozen=True, slots=True)
class Throughput:
    """`of_wire`: payload bits over the bits the UART could have carried in the time."""

    samples: int
    seconds: float
    payload_bytes: int

    @property
    def of_wire(self) -> float:
        return self.samples * self.payload_bytes * BITS_PER_BYTE / UNO_BAUD / self.seconds


@contextmanager
def first_in_line() -> Iterator[None]:
    """Before other programs, the emulator too, where the system lets us: it has to keep real time."""
    usual = os.getpriority(os.PRIO_PROCESS, 0)
    with suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, -15)
    try:
        yield
    finally:
        os.setpriority(os.PRIO_PROCESS, 0, usual)


def measure_throughput(folder: Path, samples: int, input_bytes: int = 64) -> Throughput:
    """Stream `samples` in real time and take the time between the first full window and the last result."""
    bench = tiny_bench("uno", folder, samples + WARM_UP, inputs=input_bytes // 2)
    collected, times = Collected(), []

    def take(index: int, result: Result) -> None:
        collected.take(index, result)
        times.append(time.monotonic())

    with first_in_line(), powered(bench, folder, uart="true", realtime=True) as device:
        options = Options(protocol.STREAM)
        stats = run_session(bench, device, device.port, options, take, banner_s=2.0)
    collected.check(bench, stats)
    assert stats.damaged_frames == stats.rx_overruns == 0
    return Throughput(samples, times[-1] - times[WARM_UP - 1], input_bytes)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for input_bytes in (16, 64, 128, 512):
            found = measure_throughput(Path(folder), 250 if input_bytes <= 64 else 60, input_bytes)
            print(
                f"{input_bytes:4} B inputs: {found.of_wire:.3f} of the wire ({UNO_BAUD:.0f} Bd), "
                f"{found.samples / found.seconds:.1f} samples/s"
            )


if __name__ == "__main__":
    main()
