"""What `hil train` prints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tinyhil.harness.train.session import TrainOutcome

if TYPE_CHECKING:
    from tinyhil.harness.train.after_search import Round
    from tinyhil.harness.train.correction import CorrectedAnswer
    from tinyhil.train.schedule import Epoch


def epoch_line(epoch: Epoch) -> str:
    """One line per epoch."""
    loss = "before training" if epoch.number == 0 else f"loss {epoch.loss:.4f}"
    return f"epoch {epoch.number}: {loss}, integers {100 * epoch.accuracy:.2f} % of the samples held back"


def lines_of(outcome: TrainOutcome) -> Iterator[str]:
    """The result: best epoch, accuracy on samples that training never saw, the file."""
    best = outcome.trained.best
    yield f"best epoch    {best.number} of {len(outcome.trained.epochs) - 1}, {100 * best.accuracy:.2f} % held back"
    found = outcome.tested
    if found is not None:
        yield (
            f"accuracy      {100 * found.after:.2f} % of {found.samples} test samples by the integers; before "
            f"{100 * found.before:.2f} % of {100 * found.float_before:.2f} % in float"
        )
    if outcome.zeros:
        yield f"zeros         {', '.join(f'{name} {100 * share:.1f} %' for name, share in outcome.zeros.items())}"
    yield f"processor     {outcome.cpu_seconds:.1f} s"
    yield f"model         {outcome.request.out}"


def lines_of_correction(found: CorrectedAnswer) -> Iterator[str]:
    """What the corrected model is worth beside the search's answer on the same samples, and its files."""
    before, after = found.searched, found.printed
    parts = [f"{after['disagreements']} of {before['samples']} differ from float; before {before['disagreements']}"]
    if after["accuracy"] is not None:
        parts.append(f"accuracy {100 * after['accuracy']:.2f} %; before {100 * before['accuracy']:.2f} %")
    yield f"corrected      {', '.join(parts)}"
    yield f"model          {found.out}; its formats: --assignment {found.assignment}"


def lines_of_rounds(rounds: Sequence[Round]) -> Iterator[str]:
    """What each round came to where there are several, then the best one."""
    from tinyhil.harness.train.after_search import best_of

    best = best_of(rounds)
    for number, found in enumerate(rounds, 1) if len(rounds) > 1 else ():
        searched, tested = found.searched.record["accuracy"], found.trained.tested
        parts = [f"searched {100 * searched:.2f} %"] if searched is not None else []
        parts += [f"trained {100 * tested.after:.2f} %"] if tested is not None else []
        parts += [f"{100 * found.trained.trained.best.accuracy:.2f} % held back"]
        yield f"round {number:<7} {', '.join(parts)}{' (best)' if found is best else ''}"
    yield from lines_of(best.trained)
    yield f"assignment    {best.trained.request.assignment}"
