"""What was tried: one record per evaluation, appended to a log from which an interrupted search continues."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from tinyhil import files
from tinyhil.errors import ConfigError
from tinyhil.fields import Amount, Count, Exact, Share, Text, Word
from tinyhil.notice import tell
from tinyhil.sealed import Damaged, sealed, unsealed
from tinyhil.search.evaluator import Score
from tinyhil.search.lines import CandidateLine, ScoreLine
from tinyhil.search.space import Candidate, Space

SCHEMA_VERSION = 2


@dataclass(frozen=True, slots=True)
class Trial:
    """`kind`: full (every sample), fit (the part that the search fits), stopped (worse than the best before the end) or
    probe (some samples). A probe is no answer: nothing is planned for it, its `ram_bytes` are 0 and `fits` is false."""

    number: int
    candidate: Candidate
    kind: str
    ram_bytes: int
    fits: bool
    score: Score

    @property
    def accuracy(self) -> float | None:
        """Share of correct samples; of those that agree with the float model where there are no labels."""
        return None if self.score.correct is None else self.score.correct / self.score.samples

    @property
    def quality(self) -> float:
        """Accuracy if there are labels, else agreement."""
        return self.accuracy if self.accuracy is not None else 1 - self.score.disagreements / self.score.samples

    @property
    def rank(self) -> tuple[int, float, int]:
        """Smaller is better."""
        return self.score.disagreements, self.score.loss, self.number


def unjudged(candidate: Candidate) -> Trial:
    """Of a candidate that is timed or written down, whatever its decisions are."""
    return Trial(0, candidate, "full", 0, True, Score(0, 0, None, 0, 0.0))


class Device(Exact):
    """What a board has measured of a trial (`Measured` of harness/search/device.py)."""

    board: Word
    samples: Count
    accuracy: Share | None
    disagreements: Count
    median: Amount
    unit: Word
    arena_bytes: Count
    static_bytes: Count
    stack_bytes: Count | None
    total_bytes: Count | None
    flash_bytes: Count
    record: Text
    latency_us: Amount | None
    low: Amount | None = None
    high: Amount | None = None


class DeviceLine(Exact):
    """A trial on a board."""

    number: Count
    device: Device


class TrialLine(CandidateLine):
    """One trial."""

    number: Count
    kind: Literal["full", "fit", "stopped", "probe"]
    ram_bytes: Count
    fits: bool
    score: ScoreLine

    def trial(self) -> Trial:
        """The trial."""
        return Trial(self.number, self.candidate(), self.kind, self.ram_bytes, self.fits, self.score.score())


class TrialLog:
    """Trials as JSON lines behind a header that names the search. Without a path nothing is written."""

    def __init__(self, path: Path | None, space: Space, key: str) -> None:
        self._path = path
        self._devices: dict[tuple[Candidate, int, str], dict[str, Any]] = {}  # of a candidate in so much RAM, by board
        self._header = {"schema_version": SCHEMA_VERSION, "key": key, "groups": [group.name for group in space.groups]}

    def read(self) -> list[Trial]:
        """The trials of an earlier run of the same search, up to a line that was cut or edited, which is said; of
        another search's log none."""
        if self._path is None or not self._path.is_file():
            return []
        lines = self._path.read_text(errors="replace").split("\n")
        if not lines or lines[0] != json.dumps(self._header):
            return []
        trials: list[Trial] = []
        for number, line in enumerate(lines[1:-1], 2):
            try:
                if '"device": ' in line:
                    found = unsealed(line, DeviceLine)
                    for trial in (one for one in trials if one.number == found.number):
                        self._devices[self._place(trial, found.device.board)] = found.device.model_dump()
                else:
                    trials.append(unsealed(line, TrialLine).trial())
            except Damaged as reason:
                tell(f"{self._path}: line {number} is {reason}: from there on all is tried again")
                break
        return trials

    def start(self, valid: list[Trial]) -> None:
        """Begin the file anew with the trials that are kept."""
        if self._path is None:
            return
        lines = [json.dumps(self._header), *(sealed(_record(trial)) for trial in valid)]
        numbers = {(trial.candidate, trial.ram_bytes): trial.number for trial in valid}
        self._devices = {at: found for at, found in self._devices.items() if at[:2] in numbers}
        lines += [sealed({"number": numbers[at[:2]], "device": found}) for at, found in self._devices.items()]
        with writing_into(self._path.parent):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            files.write_text(self._path, "".join(f"{line}\n" for line in lines))

    def add(self, trial: Trial) -> None:
        """Append one trial; ConfigError if the file can not be written."""
        self._append(_record(trial))

    def device(self, trial: Trial, board: str) -> dict[str, Any] | None:
        """What the board has measured of this trial."""
        return self._devices.get(self._place(trial, board))

    def add_device(self, trial: Trial, measured: dict[str, Any]) -> None:
        """A line of its own: trials are measured later than they are tried."""
        self._devices[self._place(trial, measured["board"])] = measured
        self._append({"number": trial.number, "device": measured})

    @staticmethod
    def _place(trial: Trial, board: str) -> tuple[Candidate, int, str]:
        """Not by the number: what was made of a trial has the same one."""
        return trial.candidate, trial.ram_bytes, board

    def _append(self, record: dict[str, Any]) -> None:
        if self._path is not None:
            with writing_into(self._path.parent), files.opened(self._path, "a") as file:
                file.write(sealed(record) + "\n")


@contextmanager
def writing_into(folder: Path) -> Iterator[None]:
    """ConfigError that says where. Trials written before stay."""
    try:
        yield
    except OSError as error:
        where = f"results folder {folder} can not be written: {error.strerror}"
        raise ConfigError(f"{where}; choose another with --results") from None


def _record(trial: Trial) -> dict[str, Any]:
    return {
        "number": trial.number,
        "kind": trial.kind,
        "formats": [choice.format for choice in trial.candidate],
        "offsets": [choice.offset for choice in trial.candidate],
        "ram_bytes": trial.ram_bytes,
        "fits": trial.fits,
        "score": asdict(trial.score),
    }
