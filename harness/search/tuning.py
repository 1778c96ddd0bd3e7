"""`hil search --fine-tune`: weights are trained for each assignment before it is judged, as HAQ does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tinyhil.errors import ConfigError
from tinyhil.harness.search.request import SearchRequest
from tinyhil.harness.search.splits import Split
from tinyhil.search.evaluator import Executor
from tinyhil.search.space import Space
from tinyhil.train.pace import batch_for, rate_for

if TYPE_CHECKING:
    from tinyhil.train.fine_tuning import FineTuning

TEACHER = 0.5  # share of the model as it was, which was good: formats are what is to be learned


def judged_on(request: SearchRequest, split: Split) -> tuple[np.ndarray, np.ndarray | None]:
    """The samples of a search that judge: with --fine-tune those that training holds back. DataError without labels."""
    if not request.fine_tune:
        return split.x, split.y
    from tinyhil.train.samples import divide

    samples = divide(split.x, split.y, request.seed)
    return samples.x_chosen_by, samples.y_chosen_by


def fine_tuning(request: SearchRequest, split: Split, space: Space, executor: Executor) -> FineTuning:
    """An epoch on the samples that do not judge, learned scales but in loops. ConfigError without PyTorch."""
    try:
        from tinyhil.train.fine_tuning import FineTuning
        from tinyhil.train.samples import divide
        from tinyhil.train.schedule import Schedule
    except ImportError:
        raise ConfigError("search: --fine-tune needs PyTorch; install it: pip install 'tinyhil[train]'") from None
    samples = divide(split.x, split.y, request.seed)
    batch = batch_for(len(samples.x))
    scales = False if space.graph.has_loops else None
    schedule = Schedule(1, batch, rate_for(batch), request.seed, teacher=TEACHER, scales=scales)
    return FineTuning(space, samples, executor, schedule)
