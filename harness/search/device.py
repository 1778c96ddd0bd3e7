"""Candidates of a search on the board: built, flashed, streamed and compared as `hil run` does it.

What the board measured decides between candidates that agree equally well with the float model, and whether the whole
of its RAM is kept to. A board that computes other integers than the reference ends the search.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tinyhil.errors import BoardDiffers, BuildError, DoesNotFit
from tinyhil.harness.job.job import Request
from tinyhil.harness.measure.diff import diff_compiled
from tinyhil.harness.measure.profile import Profile, profile_run
from tinyhil.harness.measure.record import store
from tinyhil.harness.measure.run import Outcome, run
from tinyhil.harness.measure.variant import Device
from tinyhil.harness.records.verdict import gate_line
from tinyhil.harness.search.phases import OutOfTime
from tinyhil.harness.settings.config import Boards
from tinyhil.notice import Say
from tinyhil.search.costs import Limits
from tinyhil.search.space import Candidate, Space
from tinyhil.search.trial import Trial, TrialLog, unjudged


@dataclass(frozen=True, slots=True)
class Measured:
    """What a board said of one candidate. Bytes are None where it can not measure them; `median` is in `unit`.

    `latency_us`: of the worst sample, which a limit is held against; None on a board that counts instructions.
    `stack_bytes`: the deepest that the image can need, where that is known: what is measured depends on when bytes
    arrive, so a limit that one run keeps by it another may not. `low`, `high`: between which shares of a
    modelled latency the chip's lies, as far as is known; None where ticks are exact or measured.
    """

    board: str
    samples: int
    accuracy: float | None
    disagreements: int
    median: float
    unit: str
    arena_bytes: int
    static_bytes: int
    stack_bytes: int | None
    total_bytes: int | None
    flash_bytes: int
    record: str
    latency_us: float | None = None
    low: float | None = None
    high: float | None = None

    @property
    def needs(self) -> tuple[float, float, float]:
        """RAM, latency and flash."""
        latency = self.median if self.latency_us is None else self.latency_us
        return self.static_bytes + (self.stack_bytes or 0), latency, self.flash_bytes

    def keeps(self, limits: Limits) -> bool:
        """Whether measured latency (microseconds) and flash (bytes) are within; an unknown latency is not."""
        slow = limits.latency_us is not None and (self.latency_us is None or self.latency_us > limits.latency_us)
        return not slow and (limits.flash_bytes is None or self.flash_bytes <= limits.flash_bytes)

    def fits(self, total: int | None, limits: Limits) -> bool:
        """Whether the limits are kept to, that of all RAM too, if there is one."""
        return (total is None or (self.total_bytes or 0) <= total) and self.keeps(limits)

    def as_json(self) -> dict[str, Any]:
        """As the record of a search has it."""
        return asdict(self)


def arena_bytes(trial: Trial, boards: Sequence[Measured | None]) -> int:
    """Of a trial: as planned, or as the first board has it, whose firmware is planned for less RAM where it lacks that
    for the other plan. A sample that lies in a board's arena does not count."""
    return trial.ram_bytes if not boards or boards[0] is None else min(trial.ram_bytes, boards[0].arena_bytes)


@dataclass(frozen=True, slots=True)
class Bench:
    """The `board`, and the samples it is given: `x` and labels from the search's part of the data.

    `calibration`: inputs for ranges that are known from nowhere else.
    """

    request: Request
    boards: Boards
    cache_dir: Path
    board: str
    space: Space
    x: np.ndarray
    y: np.ndarray | None
    calibration: np.ndarray | None
    log: TrialLog
    write: Callable[[Path, Space, Trial], None]
    say: Say

    def measure(self, trial: Trial) -> Measured:
        """From the log if an interrupted search has measured it; BoardDiffers if the board is not bit-exact."""
        known = self.log.device(trial, self.board)
        if known is not None:
            with suppress(TypeError):  # a damaged line
                return Measured(**known)
        outcome = self._run(trial)
        self._require_equal(outcome)
        record, path = store(outcome)
        if line := gate_line(record):
            raise BoardDiffers(f"{line}; the search ends here, {path} has the figures")
        memory, latency = record["memory"], record["latency"]
        stack = _stack_bytes(memory)
        figures = Measured(
            board=record["board"],
            samples=record["samples"],
            accuracy=record["accuracy"],
            disagreements=record["disagreements"],
            median=latency["median"],
            unit=latency["unit"],
            arena_bytes=memory["arena_bytes"],
            static_bytes=memory["static_bytes"],
            stack_bytes=stack,
            total_bytes=None if stack is None else memory["static_bytes"] + stack + (memory["heap_bytes"] or 0),
            flash_bytes=record["flash_bytes"],
            record=str(path),
            latency_us=_worst_us(latency),
            low=latency["low"] / latency["median"] if latency.get("low") else None,
            high=latency["high"] / latency["median"] if latency.get("low") else None,
        )
        self.log.add_device(trial, figures.as_json())
        return figures

    def profile(self, candidate: Candidate) -> Profile:
        """What each operation of the candidate costs."""
        trial = unjudged(candidate)
        return profile_run(self._run(trial), self.boards, self.cache_dir, self.say)

    def _run(self, trial: Trial) -> Outcome:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            self.write(folder / "widths.yaml", self.space, trial)
            if self.y is None:
                np.savez(folder / "search.npz", x=self.x)
            else:
                np.savez(folder / "search.npz", x=self.x, y=self.y)
            calibrate = self.request.calibrate
            if self.calibration is not None:
                named = self.request.inputs or Path("calibrate.npz")
                calibrate = folder / "calibrated_on" / f"{named.stem}.npz"  # no other than the widths
                calibrate.parent.mkdir()
                np.savez(calibrate, x=self.calibration)
            files = {"assignment": folder / "widths.yaml", "inputs": folder / "search.npz", "calibrate": calibrate}
            given = _replaced(self.request, files)
            return run(given, self.boards, self.cache_dir, self.say, lambda done, all_: None)

    def _require_equal(self, outcome: Outcome) -> None:
        equal = (outcome.outputs == outcome.reference.outputs).all(axis=1)
        equal &= outcome.saturations == outcome.reference.saturations
        if equal.all():
            return
        sample = int(np.flatnonzero(~equal)[0])
        device = Device(outcome.request, outcome.place, self.boards, self.cache_dir, self.say)
        found = diff_compiled(device, outcome.compiled, outcome.integers[sample], sample)
        where = "no tensor differs while they are logged: suspect timing or memory"
        if found.first is not None:
            where = f"first to differ is {found.first}"
        raise BoardDiffers(
            f"{outcome.board.name}: {int((~equal).sum())} of {len(equal)} samples are not those of the host; "
            f"sample {sample}: {where}; the search ends here, fix the firmware"
        )


def _replaced(request: Request, files: dict[str, Path | None]) -> Request:
    from dataclasses import replace

    return replace(request, **files)  # type: ignore[arg-type]


def _stack_bytes(memory: Mapping[str, Any]) -> int | None:
    """Of a record's memory; None where the board can not measure it, whatever the image may need."""
    if memory["stack_bytes"] is None:
        return None
    return max(int(memory["stack_bytes"]), int(memory["stack_limit_bytes"] or 0))


def _worst_us(latency: Mapping[str, Any]) -> float | None:
    """Of a record's latency."""
    if latency["median_us"] is None:
        return None
    return float(latency["max"] / latency["clock_hz"] * 1e6)


def left_out(error: BuildError) -> str:
    """What is said of a candidate that is no image, without the remedy: that is the search under way."""
    return f"search: left out: {str(error).partition('; use a lower width')[0]}"


def decide(
    benches: Sequence[Bench], finalists: Sequence[Trial], totals: Sequence[int | None], limits: Sequence[Limits]
) -> list[tuple[Trial, tuple[Measured, ...]]]:
    """The finalists that keep to the limits on every board, best first: agreement on all samples, then on the boards',
    then measured time; where the time is over, of those measured by then. `totals`: of all RAM, and `limits`, of each
    bench's board. OutOfTime if it is over before."""
    fitting: list[tuple[Trial, tuple[Measured, ...]]] = []
    for trial in finalists:
        try:
            found = tuple(bench.measure(trial) for bench in benches)
        except BuildError as error:
            if not any(limits) and not isinstance(error, DoesNotFit):
                raise
            benches[0].say(left_out(error))
            continue
        except OutOfTime:
            if not fitting:
                raise
            break
        if all(one.fits(total, limit) for one, total, limit in zip(found, totals, limits, strict=True)):
            fitting.append((trial, found))
    return sorted(fitting, key=_merit)


def _merit(pair: tuple[Trial, tuple[Measured, ...]]) -> tuple[float, ...]:
    trial, found = pair
    return trial.score.disagreements, sum(one.disagreements for one in found), *(one.median for one in found)
