"""The calls behind `import tinyhil` (api.py) and behind `hil` (commands/): a request in, its result out.

The commands turn options into requests and print what comes back; the Python interface does so with arrays and records.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tinyhil.harness.build.toolchain import default_cache_dir
from tinyhil.harness.job.job import Request
from tinyhil.harness.settings.config import Boards
from tinyhil.notice import Say

if TYPE_CHECKING:
    from tinyhil.codegen.exported_library import Library
    from tinyhil.harness.energy.session import EnergyOutcome, EnergyRequest
    from tinyhil.harness.fit.session import FitOutcome, FitRequest
    from tinyhil.harness.measure.profile import Profile
    from tinyhil.harness.measure.run import Progress
    from tinyhil.harness.offline.export import Wanted
    from tinyhil.harness.search.each import OnBoard
    from tinyhil.harness.search.pareto import ParetoOutcome
    from tinyhil.harness.search.request import SearchRequest
    from tinyhil.harness.search.session import SearchOutcome
    from tinyhil.harness.search.task import Progress as SearchProgress
    from tinyhil.harness.train.correction import Chosen, CorrectedAnswer, CorrectionRequest
    from tinyhil.harness.train.session import TrainOutcome, TrainRequest
    from tinyhil.train.schedule import Epoch


def run(request: Request, boards: Boards, say: Say, progress: Progress) -> tuple[dict[str, Any], Path]:
    """Measure; the record, and the file below `request.results` that holds it. Raises HilError of the failed stage."""
    from tinyhil.harness.measure.record import store
    from tinyhil.harness.measure.run import run as measured

    return store(measured(request, boards, default_cache_dir(), say, progress))


def profile(request: Request, boards: Boards, say: Say, progress: Progress) -> Profile:
    """What every operation costs; its record lies below `request.results`."""
    from tinyhil.harness.measure.profile import profile as measured

    return measured(request, boards, default_cache_dir(), say, progress)


def search(request: SearchRequest, boards: Boards | None, say: Say, progress: SearchProgress) -> SearchOutcome:
    """Formats per value under limits, written as an assignment file."""
    from tinyhil.harness.search.session import run_search

    return run_search(request, default_cache_dir(), say, progress, boards)


def search_each(
    request: SearchRequest, boards: Boards | None, say: Say, progress: SearchProgress
) -> tuple[OnBoard, ...]:
    """An assignment for each of the boards that the request names; evaluations are shared."""
    from tinyhil.harness.search.each import run_each

    return run_each(request, default_cache_dir(), say, progress, boards)


def pareto(request: SearchRequest, boards: Boards | None, say: Say, progress: SearchProgress) -> ParetoOutcome:
    """The front of two or three of RAM, latency, flash and accuracy, an assignment file for every point."""
    from tinyhil.harness.search.session import run_pareto

    return run_pareto(request, default_cache_dir(), say, progress, boards)


def train(request: TrainRequest, say: Say, tell: Callable[[Epoch], None]) -> TrainOutcome:
    """A model trained for its formats, written as an ONNX file."""
    from tinyhil.harness.train.session import run_train

    return run_train(request, default_cache_dir(), say, tell)


def correct(request: CorrectionRequest, say: Say) -> Path:
    """A model whose constants suit their formats better, without training; the ONNX file."""
    from tinyhil.harness.train.correction import correct_model

    return correct_model(request, default_cache_dir(), say)


def correct_found(searched: SearchOutcome, chosen: Chosen, say: Say) -> CorrectedAnswer:
    """The same for the answer of a search, judged on the samples that the search reports on."""
    from tinyhil.harness.train.correction import correct_found as corrected

    return corrected(searched, chosen, default_cache_dir(), say)


def energy(request: EnergyRequest, boards: Boards | None, say: Say) -> EnergyOutcome:
    """What a sample costs by a table of prices; with `boards` also on chips that others have measured."""
    from tinyhil.harness.energy.session import run_energy

    return run_energy(request, say, boards)


def assist(request: SearchRequest, boards: Boards | None, say: Say) -> int:
    """Help the same search that is under way elsewhere, until it ends; how many answers were given."""
    from tinyhil.harness.search.workers import assist as helping

    return helping(request, boards, say)


def fit(request: FitRequest, boards: Boards, say: Say) -> FitOutcome:
    """Whether a model fits boards in formats, with what flash, RAM and latency; nothing is built."""
    from tinyhil.harness.fit.session import run_fit

    return run_fit(request, boards, say)


def export(wanted: Wanted, boards: Boards | None, say: Say) -> Library:
    """Write the archive of a library; what it holds."""
    from tinyhil.harness.offline.export import export_model

    return export_model(wanted, boards, say)
