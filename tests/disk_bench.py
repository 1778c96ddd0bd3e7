"""Run with tests/faulty_disk.c preloaded: every file that we keep work in, written while the disk fails at each call.

`disk_bench.py FOLDER NUMBER` prints a line for each file: how many calls there are, and what went wrong that should not
have, of the first NUMBER kinds of failure.
"""

from __future__ import annotations

import ctypes
import errno
import gc
import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from tinyhil.compiler.calibrate import Ranges
from tinyhil.errors import HilError
from tinyhil.frontend.load import load_model
from tinyhil.harness.measure.golden import read_golden, write_golden
from tinyhil.harness.measure.record import write_record
from tinyhil.harness.records.partial import PartialRun
from tinyhil.harness.records.schema import read_record
from tinyhil.harness.search.cost_table import CostTable, Version
from tinyhil.harness.wire.protocol import Result
from tinyhil.search.costs import Operation, Row, Run
from tinyhil.search.evaluator import Score
from tinyhil.search.journal import Journal, Query
from tinyhil.search.space import Choice, Group, Space
from tinyhil.search.trial import Trial, TrialLog
from tinyhil.train.checkpoint import Checkpoint, load_checkpoint, save_checkpoint

HERE = Path(__file__).parent
RECORD = json.loads((HERE / "records" / "profile.json").read_text())
GOLDEN = json.loads((HERE.parent / "results" / "golden" / "uno" / "fastgrnn_har-fixed16.json").read_text())
CUT, TORN = 0, -1  # the power goes: with what was not synced, or in the middle of a write
NAMES = {CUT: "power cut", TORN: "torn by a power cut"}
FAILURES = (errno.ENOSPC, CUT, TORN, errno.EIO, errno.EROFS)
QUERIES = [Query((Choice("fixed8", -number),)) for number in range(3)]
SAMPLES = 3


def run(folder: Path) -> None:
    """As `hil run`: samples as they come, the record, and only then the samples go."""
    with PartialRun(folder / "partial", "run") as partial:
        for sample in range(SAMPLES):
            if sample not in partial.results:
                partial.add(sample, Result(sample, 0, 0, 7, bytes((sample, 1))), None)
    write_record(RECORD, folder / "results")
    partial.discard()


def ran(folder: Path) -> None:
    """The record is whole, or the samples are still there."""
    records = [path for path in (folder / "results").rglob("*.json") if path.stat().st_size]
    for path in records:
        read_record(path)
    if (folder / "results").exists() and not list((folder / "partial").iterdir()):
        assert records, "neither samples nor their record"
    held = PartialRun(folder / "partial", "run")
    assert all(result.output == bytes((sample, 1)) for sample, result in held.results.items())
    held.discard()


def golden(folder: Path) -> None:
    """Over the one before."""
    write_golden(folder / "uno" / "m.json", GOLDEN)


def golden_holds(folder: Path) -> None:
    """The old or the new one, whole."""
    if (folder / "uno" / "m.json").exists():
        read_golden(folder / "uno" / "m.json")


def journal(folder: Path) -> None:
    """Three answers."""
    with Journal(folder / "j.jsonl") as found:
        for number, query in enumerate(QUERIES):
            found.answer(query, lambda asked, number=number: Score(10, number, None, 0, 0.5))  # type: ignore[misc]


def journal_holds(folder: Path) -> None:
    """No other answers."""
    with Journal(folder / "j.jsonl") as found:
        for number, query in enumerate(QUERIES):
            assert found.answer(query, lambda asked, n=number: Score(10, n, None, 0, 0.5)).disagreements == number


def checkpoint(folder: Path) -> None:
    """Two epochs."""
    for epoch in (1, 2):
        weights = {"w": np.full((20, 30), epoch, np.float32)}
        ends = {"epochs": np.zeros((epoch, 3)), "scale": np.ones(2)}
        save_checkpoint(
            folder / "c.npz", Checkpoint("me", ends["epochs"], 1.0, ends["scale"], weights, weights, {}, {})
        )


def checkpoint_holds(folder: Path) -> None:
    """That of an epoch, whole."""
    if (folder / "c.npz").exists():
        found = load_checkpoint(folder / "c.npz", "me")
        assert (found.latents["w"] == len(found.epochs)).all()


VERSION = Version("uno", "emulated", "f", "c", "m")
FACTS = [Run((Choice("fixed8", number),), 5.0 + number, 4.0, 1.0, 9) for number in range(3)]


def costs(folder: Path) -> None:
    """Three measurements of two operations and a whole image each, into the table of all searches and that of one."""
    table = CostTable(folder / "costs.jsonl", folder / "own.jsonl", VERSION)
    for number, run_ in enumerate(FACTS):
        if not table.known(run_.candidate, 0):
            signatures = [f"{name}{number}" for name in "ab"]
            rows = [Row(Operation(name, "dense", ("fixed8",), name, 8, 1), 2.0) for name in signatures]
            table.add(rows, run_, signatures, 0)
    again = CostTable(folder / "costs.jsonl", folder / "own.jsonl", VERSION)
    assert set(again.runs(0)) == set(FACTS), "what was measured is not known"
    assert len(again.rows(0)) == 2 * len(FACTS), "operations of a known image are not known"


def costs_hold(folder: Path) -> None:
    """No other measurements."""
    table = CostTable(folder / "costs.jsonl", folder / "own.jsonl", VERSION)
    assert set(table.runs(0)) <= set(FACTS)


GRAPH = load_model(HERE.parent / "examples" / "vibration" / "models" / "vibration.onnx").graph
SPACE = Space(GRAPH, Ranges.any_of(GRAPH), (Group("g", (GRAPH.inputs[0],), "arena", 4),), ("fixed8", "fixed16"))
TRIALS = [
    Trial(number, (Choice("fixed8", -number),), "full", 10, True, Score(10, number, None, 0, 0.5))
    for number in range(3)
]


def trials(folder: Path) -> None:
    """A search's log: what is valid is kept, the rest is tried."""
    log = TrialLog(folder / "trials.jsonl", SPACE, "key")
    valid = log.read()
    log.start(valid)
    for trial in TRIALS[len(valid) :]:
        log.add(trial)
    assert TrialLog(folder / "trials.jsonl", SPACE, "key").read() == TRIALS, "what was tried is not known"


def trials_hold(folder: Path) -> None:
    """The first of them."""
    found = TrialLog(folder / "trials.jsonl", SPACE, "key").read()
    assert found == TRIALS[: len(found)]


CASES: dict[str, tuple[Callable[[Path], None], Callable[[Path], None]]] = {
    "run": (run, ran),
    "golden": (golden, golden_holds),
    "journal": (journal, journal_holds),
    "checkpoint": (checkpoint, checkpoint_holds),
    "costs": (costs, costs_hold),
    "trials": (trials, trials_hold),
}


def struck(disk: ctypes.CDLL, folder: Path, name: str, when: int, how: int) -> tuple[int, str]:
    """A child in which call `when` fails: how many calls there were, and what should not be."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    work, holds = CASES[name]
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        said = ""
        try:
            disk.disk_fails(str(folder).encode(), when, how)
            work(folder)
        except (HilError, OSError):
            pass
        except BaseException as error:
            said = repr(error)
        calls = disk.disk_calls()
        if when > calls:
            disk.disk_cut()
        disk.disk_fails(b"", 0, 0)
        os.write(writing, json.dumps([calls, said]).encode())
        os._exit(0)
    os.close(writing)
    _, status = os.waitpid(child, 0)
    with os.fdopen(reading, "rb") as answer:
        text = answer.read()
    calls, said = json.loads(text) if text else (when, "")
    if not said and os.waitstatus_to_exitcode(status) not in (0, 99):
        said = f"ended with {status}"
    try:
        holds(folder)  # what is left is read, and the work is done again
        work(folder)
        holds(folder)
    except BaseException as error:
        said = said or f"afterwards: {error!r}"
    left = [path.name for path in folder.rglob(".*.json.*")]
    return calls, said or (f"left behind: {left}" if how > 0 and left else "")


def main() -> None:
    """Every case, every failure, every call."""
    disk, folder = ctypes.CDLL(os.environ["LD_PRELOAD"]), Path(sys.argv[1])
    gc.collect()
    gc.freeze()  # else the collector of each of a thousand children copies what it touches
    for name in CASES:
        total, _ = struck(disk, folder / "d", name, 0, 0)
        wrong = []
        for how in FAILURES[: int(sys.argv[2])]:
            for when in range(1, total + 2 if how == CUT else total + 1):
                _, said = struck(disk, folder / "d", name, when, how)
                wrong += [f"call {when}, {NAMES.get(how) or errno.errorcode[how]}: {said}"] if said else []
        print(json.dumps({"name": name, "calls": total, "wrong": wrong}), flush=True)


if __name__ == "__main__":
    main()
