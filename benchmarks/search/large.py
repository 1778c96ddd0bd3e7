"""Networks of MLPerf Tiny in the RAM that fixed8 takes: what `hil search` answers, on samples it has not seen.

ResNet-8 is searched on the training part of CIFAR-10 and reported on its whole test part. DS-CNN and MobileNet have
evaluation sets only: each half is searched on and the other one reported, together the whole set.
"""

from __future__ import annotations

import io
import itertools
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.given import given_data
from tinyhil.harness.build.toolchain import default_cache_dir
from tinyhil.harness.search.request import SearchRequest
from tinyhil.harness.search.session import run_search
from tinyhil.harness.search.task import load_task
from tinyhil.harness.search.total import placed

TITLES = {"ic_resnet8": "ResNet-8", "kws_dscnn": "DS-CNN", "vww_mobilenetv1_025_96": "MobileNetV1 0.25 (VWW)"}
LARGE = tuple(TITLES)
CIFAR_TRAINED = 2000  # of 50,000: the search looks at fewer
PERSON, SMALLEST_AREA = 0, 0.005  # of the picture, as MLPerf Tiny's labels
Labelled = tuple[np.ndarray, np.ndarray]


def large(evaluations: int, models: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    """One row per network."""
    data = given_data()
    for model in models:
        path = data / "models" / f"mlperftiny_{model}.onnx"
        with tempfile.TemporaryDirectory() as folder:
            pairs = [saved(Path(folder) / str(number), *fold) for number, fold in enumerate(folds(model, data))]
            yield _row(model, path, pairs, evaluations)


def _row(model: str, path: Path, pairs: list[tuple[Path, Path]], evaluations: int) -> dict[str, Any]:
    lost = differ = samples = 0
    rams, limits, answers, processor = list[int](), list[int](), list[str](), 0.0
    for seen, unseen in pairs:
        limit = fixed8_bytes(path, seen)
        request = SearchRequest(
            str(path), limit, evaluations=evaluations, inputs=seen, held_out=unseen, calibrate=seen,
            results=seen.parent / "results",
        )  # fmt: skip
        record = run_search(request, default_cache_dir(), lambda line: None, lambda *_: None).record
        count = record["samples"]
        lost += round((record["float_accuracy"] - record["accuracy"]) * count)
        differ, samples = differ + record["disagreements"], samples + count
        rams.append(record["arena_bytes"])
        limits.append(limit)
        answers.append(_answer(record))
        processor += sum(phase["processor_seconds"] for phase in record["phases"])
    row = {
        "model": model,
        "limit": max(limits),
        "ram": max(rams),
        "answers": answers,
        "points_lost": round(100 * lost / samples, 3),
        "disagreements": differ,
        "samples": samples,
        "processor_s": round(processor, 1),
    }
    print(json.dumps(row), flush=True)
    return row


def _answer(record: dict[str, Any]) -> str:
    """The format that all tensors have, or `mixture`."""
    same = [one["format"] for one in record["uniform"] if one.get("disagreements") == record["disagreements"]
            and one.get("arena_bytes") == record["arena_bytes"]]  # fmt: skip
    return same[0] if same else "mixture"


def fixed8_bytes(path: Path, seen: Path) -> int:
    """The arena with fixed8 for everything."""
    task = load_task(
        SearchRequest(str(path), 1 << 30, inputs=seen, calibrate=seen, samples=8),
        default_cache_dir(), lambda line: None, lambda *_: None, None,
    )  # fmt: skip
    space = task.problem.space
    return placed(space.lower(space.uniform(space.low)), None, "ram").plan.peak_bytes


def saved(stem: Path, seen: Labelled, unseen: Labelled) -> tuple[Path, Path]:
    """Files of samples and labels."""
    paths = stem.with_suffix(".seen.npz"), stem.with_suffix(".unseen.npz")
    for path, (x, y) in zip(paths, (seen, unseen), strict=True):
        np.savez(path, x=x, y=y)
    return paths


def folds(model: str, data: Path) -> list[tuple[Labelled, Labelled]]:
    """(searched on, reported on)."""
    if model == "ic_resnet8":
        train, test = (
            pictures(data / "large" / f"cifar10_{name}_jpeg.npz", count)
            for name, count in (("train50k", CIFAR_TRAINED), ("test10k", None))
        )
        return [(train, test)]
    x, y = _words(data) if model == "kws_dscnn" else _people(data)
    halves = [(x[start::2], y[start::2]) for start in (0, 1)]
    return [(halves[0], halves[1]), (halves[1], halves[0])]


def pictures(path: Path, count: int | None) -> Labelled:
    """Images of CIFAR-10, channels first, and labels."""
    with np.load(path) as held:
        labels = held["y"][:count].astype(np.int64)
        x = _decoded(held["jpeg"], held["offsets"][: len(labels) + 1])
    return x.astype(np.float32).transpose(0, 3, 1, 2), labels


def _words(data: Path) -> Labelled:
    with np.load(data / "small" / "kws12_mfcc_test.npz") as held:
        x = (held["x"].astype(np.float32) - held["zero_point"]) * held["scale"]
        return x.astype(np.float32).reshape(-1, 1, 49, 10), held["y"].astype(np.int64)


def _people(data: Path) -> Labelled:
    """Photographs with a person that is not tiny, and others."""
    with np.load(data / "large" / "coco256_jpeg.npz") as held:
        x, boxes = _decoded(held["jpeg"], held["offsets"], (96, 96)), held["labels"]
    seen = boxes[(boxes[:, 1] == PERSON) & (boxes[:, 4] * boxes[:, 5] > SMALLEST_AREA), 0].astype(int)
    return x.astype(np.float32).transpose(0, 3, 1, 2) / 255, np.isin(np.arange(len(x)), seen).astype(np.int64)


def _decoded(jpeg: np.ndarray, offsets: np.ndarray, size: tuple[int, int] | None = None) -> np.ndarray:
    from PIL import Image

    pictures = []
    for begin, end in itertools.pairwise(offsets):
        picture = Image.open(io.BytesIO(jpeg[begin:end].tobytes())).convert("RGB")
        pictures.append(np.asarray(picture if size is None else picture.resize(size, Image.Resampling.BILINEAR)))
    return np.stack(pictures)


def large_page(rows: list[dict[str, Any]]) -> str:
    lines = ["| Network | RAM limit B | Answer | RAM B | Points lost | Differ |", "|---" * 6 + "|"]
    for row in rows:
        answers = ", ".join(dict.fromkeys(row["answers"]))
        lines.append(
            f"| {TITLES[row['model']]} | {row['limit']:,} | {answers} | {row['ram']:,} "
            f"| {row['points_lost']:+.2f} | {row['disagreements']} of {row['samples']:,} |"
        )
    return "\n".join(lines)
