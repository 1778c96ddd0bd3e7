"""`hil generate`, `hil calibrate`: what can be made of a model without a board."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from tinyhil.compiler.calibrate import save_ranges
from tinyhil.errors import ConfigError, DataError
from tinyhil.harness.build.pipeline import Compiled, compile_model, write_sources
from tinyhil.harness.job.inputs import calibrated, read_inputs, training_part
from tinyhil.harness.job.job import NO_STREAM, Streamed, method_of, open_model, say_other_ranges, wish_for
from tinyhil.harness.settings.config import Boards
from tinyhil.notice import Say


@dataclass(frozen=True, slots=True)
class Project:
    """What the user asked for; the fields are the options of `hil generate`."""

    model: str
    out: Path
    format: str = "fixed16"
    assignment: Path | None = None
    calibrate: Path | None = None
    calibrate_by: str | None = None
    protocol: str = "hil"
    energy: bool = False
    prefer: str | None = None
    ram: int | None = None
    states: tuple[str, ...] | None = None
    steps: int | None = None


def generate_project(wanted: Project, boards: Boards, say: Say) -> tuple[int, int]:
    """Write the project of a model for every board it fits; returns (files written, files in all)."""
    out = wanted.out
    check_project_folder(out)
    streamed = Streamed(wanted.states, wanted.steps, wanted.calibrate)
    opened = open_model(wanted.model, say, streamed, by=method_of(wanted.assignment, wanted.calibrate_by))
    formats = opened.assignment(wanted.assignment, wanted.format)
    ranges, specs = opened.required_ranges(wanted.calibrate), list(boards.entries.values())
    say_other_ranges(wanted.assignment, ranges, say)
    wish = replace(wish_for(wanted.assignment, wanted.prefer), ram_bytes=wanted.ram)
    compiled = compile_model(opened.model, formats, ranges, specs, (), wish=wish)
    say_left_out(wanted.model, boards, compiled, say)
    sources = compiled.sources
    if (out / "firmware").is_dir() and (out / "tinyhil").is_dir():  # the checkout itself has everything but the model
        sources = {path: text for path, text in sources.items() if path.startswith("model/")}
    return write_sources(sources, out), len(sources)


def check_project_folder(out: Path) -> None:
    """ConfigError for a folder that holds something else."""
    if out.is_dir() and any(out.iterdir()) and not (out / "firmware" / "hal" / "hal.hpp").is_file():
        raise ConfigError(f"{out}: not empty and no project of tinyhil; choose another folder")


def say_left_out(name: str, boards: Boards, compiled: Compiled, say: Say) -> None:
    """Say which boards a model does not fit, and why."""
    # an accelerator is no board of a project: `hil run` alone compiles for it
    chips = [name for name, board in boards.entries.items() if board.hardware is None]
    left_out = [board for board in chips if board not in compiled.transfers]
    if left_out:
        say(f"{name}: does not fit {', '.join(left_out)}; there the project refuses to compile")


def calibrate_model(name: str, inputs: Path | None, out: Path | None, say: Say, streamed: Streamed = NO_STREAM) -> Path:
    """Observe the values of a model and write ranges.json; returns its path. DataError without inputs."""
    opened = open_model(name, say, streamed)
    source, model = opened.source, opened.model
    if inputs is not None:
        given = read_inputs(inputs, model)
        x, origin = given.x, {"name": given.name}
    elif source.dataset is not None:
        found = training_part(name, source.dataset, "--inputs")
        x = found.x_train
        origin = {"name": found.name, "source": found.source, "split": "train"}
    else:
        raise DataError(f"{name}: give --inputs x.npz")
    path = out or source.ranges or source.path.with_suffix(".ranges.json")
    save_ranges(path, calibrated(model, x, origin), model.sha256)
    return path
