"""TfIdfVectorizer of whole numbers: how often each of a known list of runs of numbers occurs in a row."""

from __future__ import annotations

import numpy as np

from tinyhil.frontend.rewrite import Results, Rewrite, Site
from tinyhil.frontend.rewrite_linear import reshaped

MOST_PLACES = 1 << 16  # of runs in a row, or of results, for all runs of the list
MODES = ("TF", "IDF", "TFIDF")


def _pool(site: Site) -> list[np.ndarray]:
    """The list, runs of one length each, (runs, length): the first has runs of one number."""
    flat = np.asarray(site.attr("pool_int64s", ()), np.int64)
    starts = [int(start) for start in site.attr("ngram_counts", ())]
    if not flat.size or not starts or site.attr("pool_strings", ()):
        raise site.refuse("no list of whole numbers (pool_int64s)", "strings are no numbers; number them on the host")
    parts = [flat[a:b] for a, b in zip(starts, [*starts[1:], flat.size], strict=True)]
    return [part.reshape(-1, length) for length, part in enumerate(parts, 1)]


def _count(site: Site, rows: str, runs: np.ndarray, gap: int) -> str:
    """(rows, runs): how often each of the runs (runs, length) is in a row with `gap` numbers between its own."""
    count, size = site.shape(rows)
    places = size - (runs.shape[1] - 1) * (gap + 1)
    here = ""
    for at in range(runs.shape[1]):
        ends = {"starts": [at * (gap + 1)], "ends": [at * (gap + 1) + places], "axes": [1]}
        cut = site.make("Slice", rows, *(site.constant(name, value, np.int64) for name, value in ends.items()))
        wanted = site.constant("runs", runs[None, None, :, at], np.int64)
        equal = site.make("Equal", reshaped(site, cut, count, places, 1), wanted)
        here = site.make("And", here, equal) if here else equal
    ones = site.make("Cast", here, to=1)
    return site.make("ReduceSum", ones, site.constant("axes", [1], np.int64), keepdims=0)


def _tf_idf(site: Site) -> Results:
    """Counts, 1 where there are some, or either times weights, at the places that the file gives."""
    x, mode = site.input(0), str(site.attr("mode", ""))
    shape, pool = site.shape(x), _pool(site)
    least, most, skipped = (
        int(site.attr(name, 1)) for name in ("min_gram_length", "max_gram_length", "max_skip_count")
    )
    places = np.asarray(site.attr("ngram_indexes", ()), np.int64)
    total = sum(len(runs) for runs in pool)
    weights = np.asarray(site.attr("weights", None) or np.ones(total), np.float64)
    if mode not in MODES or not 1 <= least <= most or skipped < 0 or places.size != total or weights.size != total:
        what = f"mode {mode} of {least} to {most} numbers, {places.size} places, {weights.size} weights"
        raise site.refuse(f"{what} for {total} runs", "the file is damaged")
    most_places = max(shape[-1] * (skipped + 1), int(places.max()) + 1) * total
    if len(shape) > 2 or places.min() < 0 or most_places > MOST_PLACES:
        what = f"{total} runs in {list(shape)} at places {places.min()} to {places.max()}"
        raise site.refuse(what, f"rows of numbers, up to {MOST_PLACES} places of all runs are supported")
    rows = reshaped(site, x, shape[0] if len(shape) == 2 else 1, shape[-1])
    matrix = np.zeros((total, int(places.max()) + 1))
    matrix[np.arange(total), places] = 1 if mode == "TF" else weights
    found, first = [], 0
    for length, runs in enumerate(pool, 1):
        numbers = slice(first, first + len(runs))
        first += len(runs)
        gaps = [gap for gap in range(skipped + 1 if length > 1 else 1) if (length - 1) * (gap + 1) < shape[-1]]
        if not (least <= length <= most and len(runs) and gaps):
            continue
        counts = [_count(site, rows, runs, gap) for gap in gaps]
        sums = site.make("Sum", *counts) if len(counts) > 1 else counts[0]
        if mode == "IDF":
            sums = site.make("Min", sums, site.constant("one", 1.0))
        found.append(site.make("MatMul", sums, site.constant("places", matrix[numbers])))
    if not found:
        raise site.refuse("no run that is short enough", "nothing to count")
    made = site.make("Sum", *found) if len(found) > 1 else found[0]
    return site.last("Reshape", made, site.constant("shape", (*shape[:-1], matrix.shape[1]), np.int64))


REWRITES = (
    Rewrite(
        "TfIdfVectorizer",
        "of whole numbers, as Equal and MatMul",
        _tf_idf,
        (
            "max_gram_length",
            "max_skip_count",
            "min_gram_length",
            "mode",
            "ngram_counts",
            "ngram_indexes",
            "pool_int64s",
            "weights",
        ),
    ),
)
