"""Performance mode: the median of five runs of at least ten seconds of the device's own time; and what the pins say."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from tinyhil.errors import LinkError
from tinyhil.harness.mlperf.runner_protocol import Device, Inference
from tinyhil.harness.settings.config import BoardSpec
from tinyhil.notice import Say

RUNS, SECONDS, WARM_UP = 5, 10.0, 10
MARGIN = 1.02  # more inferences than the trial run says are needed
LEAST_INFERENCES = 10
TRIAL_US = 200_000  # of device time: long enough to say how long an inference takes
INFER_S = 3600.0  # of the host's time: an emulated run of ten seconds takes as long as it takes
MOST_INFERENCES = 999_999


@dataclass(frozen=True, slots=True)
class Gate:
    """Cycles in which the gate was high, per inference, by the emulator's clock."""

    count: int
    least: int
    median: float
    most: int


@dataclass(frozen=True, slots=True)
class Performance:
    """`throughputs`: inferences per second of device time of each run, in order."""

    inferences: int
    seconds: tuple[float, ...]
    throughputs: tuple[float, ...]

    @property
    def throughput(self) -> float:
        """Inferences per second, the median of the runs as the rules ask."""
        return median(self.throughputs)


def trial(device: Device, seconds: float) -> int:
    """How many inferences take `seconds` of device time."""
    count = 1
    while True:
        taken = _elapsed(device.infer(count, 1, INFER_S))
        if taken >= TRIAL_US or count >= MOST_INFERENCES:
            break
        count = min(MOST_INFERENCES, max(2 * count, int(count * TRIAL_US / max(taken, 1)) + 1))
    needed = int(MARGIN * seconds * 1e6 * count / max(taken, 1)) + 1
    return min(MOST_INFERENCES, max(LEAST_INFERENCES, needed))


def measure(device: Device, raw: bytes, runs: int, seconds: float, say: Say) -> Performance:
    """Load an input, then `runs` times infer for at least `seconds`. LinkError if a run stays below."""
    device.load(raw)
    count = trial(device, seconds)
    taken = []
    for number in range(runs):
        elapsed = _elapsed(device.infer(count, WARM_UP, INFER_S)) / 1e6
        say(f"run {number + 1} of {runs}: {count} inferences in {elapsed:.3f} s, {count / elapsed:.3f} inf./sec.")
        if elapsed < seconds:
            raise LinkError(
                f"run {number + 1} took {elapsed:.3f} s, at least {seconds:g} s are needed; is the clock right?"
            )
        taken.append(elapsed)
    return Performance(count, tuple(taken), tuple(count / one for one in taken))


def _elapsed(inference: Inference) -> int:
    if inference.elapsed_us is None:
        raise LinkError("the board reports no timestamps: its firmware is for energy mode")
    return inference.elapsed_us


def edges(pins: Path, pin: str) -> list[tuple[int, bool]]:
    """Cycle and level of each edge of a pin, in order."""
    lines = (line.split() for line in pins.read_text(encoding="utf-8").splitlines()) if pins.is_file() else ()
    return [(int(words[0]), words[2] == "1") for words in lines if len(words) == 3 and words[1] == pin]


def gate_of(pins: Path, board: BoardSpec) -> Gate | None:
    """How long the gate was high each time; None without one."""
    if board.gate is None:
        return None
    found = edges(pins, board.gate)
    widths = [
        end - begin for (begin, rises), (end, high) in itertools.pairwise(found) if rises and not high and end > begin
    ]
    if not widths:
        return None
    return Gate(len(widths), min(widths), median(widths), max(widths))


def pulses_s(pins: Path, board: BoardSpec) -> list[float]:
    """When timestamps of energy mode were given, in seconds of the board's clock."""
    if board.pulse is None:
        return []
    return [cycle / board.chip.clock_hz for cycle, high in edges(pins, board.pulse) if not high]
