"""Records with one thing wrong through everything that reads them: refused in one line, or fit for all of it."""

from __future__ import annotations

import itertools
import json
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from record_consumers import WRONG, consume, damaged, places

from tinyhil.errors import HilError
from tinyhil.harness.records.schema import required

ROOT = Path(__file__).resolve().parent.parent
RECORDS = Path(__file__).parent / "records"
GOLDEN = ROOT / "results/golden/uno/fastgrnn_har-fixed16.json"
GONE = object()
FEW = 600
NAMES = ("profile", "front", "search", "golden")


def record_of(name: str) -> dict[str, Any]:
    """A profile, two searches, or a golden record of two samples."""
    if name != "golden":
        return json.loads((RECORDS / f"{name}.json").read_text())
    record = json.loads(GOLDEN.read_text())
    record["raw"] = {key: values[:2] for key, values in record["raw"].items()}
    return {**record, "samples": 2}


def mutants() -> Iterator[tuple[str, Any, Any]]:
    """Every value of every record, with everything else in its place."""
    for name in NAMES:
        yield from ((name, way, wrong) for way in places(record_of(name)) for wrong in (*WRONG, GONE))


def feed(chosen: Iterator[tuple[str, Any, Any]] | list[tuple[str, Any, Any]], folder: Path) -> Counter[str]:
    records, path, said = {name: record_of(name) for name in NAMES}, folder / "x.json", Counter[str]()
    for name, way, wrong in chosen:
        found = damaged(records[name], way, wrong, gone=wrong is GONE)
        path.write_text(json.dumps(found))
        try:
            consume(path, RECORDS / "profile.json")
            said["fit"] += 1
        except HilError as error:
            assert "\n" not in str(error)  # noqa: PT017
            said["refused"] += 1
        except Exception as error:
            raise AssertionError(f"{name}, {'.'.join(map(str, way))} = {wrong!r}"[:300]) from error
    return said


@pytest.mark.parametrize("name", NAMES)
def test_whole_records_are_fit_for_every_consumer(name: str, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(json.dumps(record_of(name)))
    consume(tmp_path / "x.json", RECORDS / "profile.json")


def test_records_with_one_thing_wrong(tmp_path: Path) -> None:
    said = feed(random.Random(1).sample(list(mutants()), FEW), tmp_path)
    assert min(said["fit"], said["refused"]) > FEW // 10


@pytest.mark.slow
def test_records_with_anything_wrong(tmp_path: Path) -> None:
    assert feed(mutants(), tmp_path).total() > 10_000


@pytest.mark.slow
def test_records_with_two_things_wrong(tmp_path: Path) -> None:
    chance, all_ = random.Random(2), list(mutants())
    for name, some in itertools.groupby(sorted(chance.sample(all_, 8000), key=lambda one: one[0]), lambda one: one[0]):
        record, path = record_of(name), tmp_path / "x.json"
        for (_, one, wrong), (_, two, other) in itertools.pairwise(some):
            try:
                twice = damaged(damaged(record, one, wrong, wrong is GONE), two, other, other is GONE)
            except (LookupError, TypeError):  # the first took away where the second was to be
                continue
            path.write_text(json.dumps(twice))
            try:
                consume(path, RECORDS / "profile.json")
            except HilError:
                continue


@pytest.mark.parametrize("wrong", [None, 3, "x", [], {}, {"raw": 1}, {"strategy": "x"}])
def test_what_is_no_record_in_memory_is_refused(wrong: Any) -> None:
    with pytest.raises(HilError, match="not a record"):
        required(wrong, "the first record")
