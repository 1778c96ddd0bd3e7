"""What lines of trials and of journals hold of scores and candidates."""

from __future__ import annotations

from pydantic import model_validator

from tinyhil.fields import Count, Exact, Whole, Word
from tinyhil.search.evaluator import Score
from tinyhil.search.space import Candidate, Choice


class ScoreLine(Exact):
    """A `Score` that can be: no more samples differ, or are right, than there are."""

    samples: Count
    disagreements: Count
    correct: Count | None
    saturations: Count
    loss: float

    @model_validator(mode="after")
    def _within_the_samples(self) -> ScoreLine:
        if not self.samples or max(self.disagreements, self.correct or 0) > self.samples:
            raise ValueError(f"{self.disagreements} disagreements, {self.correct} right of {self.samples} samples")
        return self

    def score(self) -> Score:
        """The score."""
        return Score(self.samples, self.disagreements, self.correct, self.saturations, self.loss)


class CandidateLine(Exact):
    """A format and an offset for each group."""

    formats: list[Word]
    offsets: list[Whole]

    @model_validator(mode="after")
    def _pairs(self) -> CandidateLine:
        if len(self.formats) != len(self.offsets):
            raise ValueError(f"{len(self.formats)} formats, {len(self.offsets)} offsets")
        return self

    def candidate(self) -> Candidate:
        """The choices."""
        return tuple(Choice(*pair) for pair in zip(self.formats, self.offsets, strict=True))
