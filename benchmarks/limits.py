"""What training adds to a search under a limit of RAM, and in which order to search and train.

Tables of docs/training.md (`python -m benchmarks.training ram ram_below ram_few schedules`), by `hil search` and
`hil train`. Epochs and candidates are chosen by samples that training held back; test samples only report.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.bench import pictures
from benchmarks.given import given_data
from benchmarks.papers.minun import saved_networks
from benchmarks.peers_models import build_peers, write
from benchmarks.quiet import quiet
from benchmarks.trained_networks import note
from tinyhil.harness.build.toolchain import default_cache_dir
from tinyhil.harness.search.request import SearchRequest
from tinyhil.harness.search.session import SearchOutcome, run_search
from tinyhil.harness.train.after_search import HAQ, HAWQ, ONCE, Afterwards, alternate, best_of
from tinyhil.harness.train.session import Tested, TrainOutcome, TrainRequest, run_train

Row = dict[str, Any]
BYTES = "fixed7,fixed8"  # on offer for weights, too
PEER, SMALL, RESNET = "peer_fastgrnn_usps10", "protonn_letter26_small", "mlperftiny_ic_resnet8"
PICTURES, TESTS, SEARCHED = 2500, 5000, 500


@dataclass(frozen=True, slots=True)
class Limited:
    """A model, the arena that 8 bits need, what is on offer, how long to train; how ranges are cut, samples moved."""

    model: str
    ram: int
    formats: str | None
    epochs: int
    calibrate_by: str = "minmax"
    augment: float = 0.0

    def request(self, folder: Path, seed: int = 0) -> SearchRequest:
        request = SearchRequest(self.model, self.ram, formats=self.formats, results=folder, seed=seed)
        request = replace(request, calibrate_by=self.calibrate_by)
        file = _file(self.model, folder)
        if file is None:
            return request
        seen, unseen = file.with_name(f"{self.model}_train.npz"), file.with_suffix(".npz")
        samples = SEARCHED if self.model == RESNET else None
        return replace(request, model=str(file), inputs=seen, held_out=unseen, calibrate=seen, samples=samples)


def _file(model: str, folder: Path) -> Path | None:
    """Of a network that is not one of the zoo's own."""
    if model == SMALL:
        return saved_networks.trained(SMALL, default_cache_dir() / "paper")
    if model == PEER:
        write(PEER, build_peers()[PEER], folder)
        return folder / f"{PEER}.onnx"
    if model == RESNET:
        for part, name, count in (("_train", "train50k", PICTURES), ("", "test10k", TESTS)):
            x, y = pictures(f"cifar10_{name}_jpeg.npz", count)
            np.savez(folder / f"{RESNET}{part}.npz", x=x, y=y)
        return Path(shutil.copy(given_data() / "models" / f"{RESNET}.onnx", folder))
    return None


AT_EIGHT_BITS = (
    Limited("protonn_letter26", 71, BYTES, 25),
    Limited(SMALL, 64, BYTES, 25),
    Limited(RESNET, 15648, BYTES, 2),
    Limited(PEER, 96, BYTES, 6),
    Limited("fastgrnn_fsdd", 96, BYTES, 6),
)
BELOW_EIGHT_BITS = (Limited("fastgrnn_dsa19", 192, "fixed6,fixed7", 6, "percentile", 0.15),)
FEW_BITS = (Limited("digits_mlp", 42, "fixed4,fixed5", 20),)


class Unseen:
    """The progress of a search that nobody watches."""

    def __call__(self, *_: object) -> None: ...

    def phase(self, name: str) -> None: ...


def searched(request: SearchRequest) -> SearchOutcome:
    return run_search(request, default_cache_dir(), quiet, Unseen())


def trained(request: TrainRequest) -> TrainOutcome:
    outcome = run_train(request, default_cache_dir(), quiet, lambda epoch: print(epoch, flush=True))
    note(outcome.trained.constants)
    return outcome


def ram() -> Iterator[Row]:
    """At the arena of 8 bits."""
    yield from within(AT_EIGHT_BITS)


def ram_below() -> Iterator[Row]:
    """In that arena, but in fewer bits."""
    yield from within(BELOW_EIGHT_BITS)


def ram_few() -> Iterator[Row]:
    """In that of four and five bits."""
    yield from within(FEW_BITS)


def within(limits: Iterable[Limited]) -> Iterator[Row]:
    """The answers of a search within each limit, as they are and trained."""
    with tempfile.TemporaryDirectory() as folder:
        for limited in limits:
            how = Afterwards(limited.epochs, schedule=ONCE, augment=limited.augment)
            (found,) = alternate(limited.request(Path(folder)), how, searched, trained)
            tested, record = tested_of(found.trained), found.searched.record
            yield {
                "model": limited.model,
                "RAM": f"{record['arena_bytes']} B",
                "on offer": limited.formats or "default",
                "float": record["float_accuracy"],
                "searched": record["accuracy"],
                "trained": tested.after,
                "test samples": tested.samples,
                "epochs": limited.epochs,
                "seconds": round(found.trained.cpu_seconds),
            }


# ---- when to search, when to train

SCHEDULED = (
    (Limited("digits_cnn", 456, "fixed3,fixed4", 12), (0, 1)),
    (Limited("protonn_letter26", 71, BYTES, 12), (0, 1)),
    (Limited("bonsai_usps10", 42, "fixed3,fixed4", 8), (0,)),
)


def _scheduled(request: SearchRequest, epochs: int, schedule: str) -> TrainOutcome:
    return alternate(request, Afterwards(epochs, schedule=schedule), searched, trained)[0].trained


def in_turn(request: SearchRequest, epochs: int) -> TrainOutcome:
    """Searched, trained, searched and trained again."""
    return best_of(alternate(request, Afterwards(epochs // 2, 2, ONCE), searched, trained)).trained


WAYS: dict[str, Callable[[SearchRequest, int], TrainOutcome]] = {
    "at once": partial(_scheduled, schedule=ONCE),
    "HAQ": partial(_scheduled, schedule=HAQ),
    "HAWQ": partial(_scheduled, schedule=HAWQ),
    "in turn": in_turn,
}


def schedules() -> Iterator[Row]:
    """The same epochs in other orders: means over seeds, of test samples and of what training held back."""
    for limited, seeds in SCHEDULED:
        row: Row = {"model": limited.model, "on offer": limited.formats, "epochs": limited.epochs, "seeds": len(seeds)}
        begin = time.process_time()
        with tempfile.TemporaryDirectory() as folder:  # what was searched once is not searched again
            asked = [limited.request(Path(folder), seed) for seed in seeds]
            for title, way in WAYS.items():
                made = [way(request, limited.epochs) for request in asked]
                row["searched"] = _mean([tested_of(outcome).before for outcome in made])
                row[title] = _mean([tested_of(outcome).after for outcome in made])
                row[f"{title}: held back"] = _mean([outcome.trained.best.accuracy for outcome in made])
        yield {**row, "seconds": round(time.process_time() - begin)}


def tested_of(outcome: TrainOutcome) -> Tested:
    assert outcome.tested is not None
    return outcome.tested


def _mean(shares: list[float]) -> float:
    return float(np.mean(shares))
