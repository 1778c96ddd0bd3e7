"""Which samples a search sees, and which it is reported on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from tinyhil import data
from tinyhil.errors import DataError
from tinyhil.harness.job.inputs import Inputs, no_samples, read_inputs
from tinyhil.harness.job.job import Opened
from tinyhil.language.graph import Graph
from tinyhil.notice import WARNING, telling
from tinyhil.search.evaluator import Examples, make_examples

MOST_PRODUCTS, FEWEST_SAMPLES = 20_000_000_000, 200  # of one evaluation, a few seconds; whatever a sample takes,
MANY_PRODUCTS, LEAST_SAMPLES = 80_000_000_000, 8  # unless even so many take much longer
IN_TIME_PRODUCTS = 2_000_000_000  # of held-out samples for each of `--seconds`


@dataclass(frozen=True, slots=True)
class Split:
    """Samples to search on, and others to report on. `name` and `sha256` say where they come from. `all_x`: the whole
    of --inputs, on whose first half `hil run` calibrates as well. `judged`: what the float model makes of the others,
    once it was asked."""

    name: str
    source: str
    sha256: str
    x: np.ndarray
    y: np.ndarray | None
    x_held_out: np.ndarray
    y_held_out: np.ndarray | None
    all_x: np.ndarray
    judged: dict[str, Examples] = field(default_factory=dict, compare=False, repr=False)

    def held_out(self, graph: Graph) -> Examples:
        """The samples that no search has looked at."""
        if not self.judged:
            self.judged["held out"] = make_examples(graph, self.x_held_out, self.y_held_out)
        return self.judged["held out"]

    def as_inputs(self) -> Inputs:
        """The samples to search on, as `hil run` would have read them."""
        return Inputs(self.name, self.source, self.sha256, self.x, self.y, all_x=self.all_x)

    @property
    def calibration(self) -> np.ndarray:
        """Never held-out samples: their half is the second one."""
        return self.all_x[: max(1, len(self.all_x) // 2)]

    def thinned(self, samples: int | None) -> Split:
        """So many of the samples to search on, evenly spread."""
        if samples is None or samples >= len(self.x):
            return self
        chosen = np.linspace(0, len(self.x) - 1, samples).astype(np.int64)
        return replace(self, x=self.x[chosen], y=None if self.y is None else self.y[chosen])

    def reported_on(self, samples: int) -> Split:
        """At most so many of the samples held out, evenly spread."""
        if samples >= len(self.x_held_out):
            return self
        chosen = np.linspace(0, len(self.x_held_out) - 1, samples).astype(np.int64)
        labels = None if self.y_held_out is None else self.y_held_out[chosen]
        return replace(self, x_held_out=self.x_held_out[chosen], y_held_out=labels, judged={})


def as_named(y: np.ndarray | None, classes: Sequence[str]) -> np.ndarray | None:
    """Labels as a run reads them: by the names of the classes, where a model has these."""
    return y if y is None or not classes else np.array(classes)[y]


def load_split(opened: Opened, inputs: Path | None, held_out: Path | None, say: Callable[[str], None]) -> Split:
    """Training and test part of the data set, two files, or the two halves of one (said).

    DataError without inputs, or with one sample.
    """
    source, model = opened.source, opened.model
    if inputs is not None and held_out is not None:
        seen, unseen = read_inputs(inputs, model), read_inputs(held_out, model)
        if np.array_equal(seen.x, unseen.x):
            say(f"{WARNING}the samples held out are those searched on: what is said of them is no check")
        sha256 = f"{seen.sha256}{unseen.sha256}"
        return Split(seen.name, seen.source, sha256, seen.x, seen.y, unseen.x, unseen.y, seen.x)
    if inputs is not None:
        given = read_inputs(inputs, model)
        half = len(given.x) // 2
        if half == 0:
            raise DataError(f"{inputs}: {len(given.x)} samples; searching and reporting need two or more")
        say(f"searching on the first {half} of {len(given.x)} inputs, reporting on the others")
        y = (None, None) if given.y is None else (given.y[:half], given.y[half:])
        return Split(given.name, given.source, given.sha256, given.x[:half], y[0], given.x[half:], y[1], given.x)
    if source.dataset is None:
        raise no_samples(source)
    with telling(say):
        found = data.load(source.dataset)
    if found.message:
        say(found.message)
    return Split(
        found.name,
        found.source,
        found.sha256,
        found.x_train,
        found.y_train,
        found.x_test,
        found.y_test,
        all_x=found.x_train,
    )


def affordable(
    split: Split, samples: int | None, seconds: float | None, products: int, say: Callable[[str], None]
) -> Split:
    """`samples` of them; without it of a large network, a sample of which takes so many `products`, as many as
    MOST_PRODUCTS allow, so that answers come soon; of a very large one no more are held out, either, nor more than
    `seconds` allow."""
    if seconds is not None:
        split = split.reported_on(max(FEWEST_SAMPLES, int(seconds * IN_TIME_PRODUCTS) // products))
    if samples is not None:
        return split.thinned(samples)
    some = max(LEAST_SAMPLES, min(FEWEST_SAMPLES, MANY_PRODUCTS // products))
    most = max(some, MOST_PRODUCTS // products)
    if some < FEWEST_SAMPLES:
        split = split.reported_on(some)
    if len(split.x) > most:
        say(
            f"search: on {most:,} of {len(split.x):,} samples, evenly spread, for each takes {products:,} products; "
            "--samples sets how many"
        )
        return split.thinned(most)
    return split
