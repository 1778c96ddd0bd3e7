"""A candidate's weights trained shortly before it is judged, as HAQ does (Wang et al. 2019): a search's own loop."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tinyhil.compiler.lower import lower
from tinyhil.language.program import Program
from tinyhil.search.evaluator import Executor
from tinyhil.search.space import Candidate, Space
from tinyhil.train.fit import train
from tinyhil.train.integers import Judge
from tinyhil.train.network import with_constants
from tinyhil.train.pace import coarse, weight_bits
from tinyhil.train.samples import Samples
from tinyhil.train.schedule import Job, Schedule


@dataclass(frozen=True, slots=True)
class FineTuning:
    """`samples` are trained on, those held back choose between the epochs and the weights as they were. The rate of
    `schedule` is that of wide weights."""

    space: Space
    samples: Samples
    executor: Executor
    schedule: Schedule

    def __call__(self, candidate: Candidate) -> Program:
        """The candidate's program with weights trained for its formats; the same each time. TrainingError for a loss
        that is not finite."""
        space = self.space
        formats = space.assignment(space.unclipped(candidate))
        judge = Judge(space.graph, formats, self.samples.calibration, self.executor, space.ranges.by)
        rate = self.schedule.rate * coarse(weight_bits(space.graph, formats))
        found = train(Job(judge, self.samples, replace(self.schedule, rate=rate)))
        return lower(with_constants(space.graph, found.constants), formats, found.ranges, space.without)
