"""`hil new`: a repository for one model: the model, its samples, a test, what continuous integration runs."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template

from tinyhil import files
from tinyhil.errors import ConfigError
from tinyhil.harness.job.job import open_model
from tinyhil.harness.settings.assets import asset
from tinyhil.harness.settings.config import Boards
from tinyhil.notice import Say

TEMPLATES = Path(__file__).parent / "project"
PLACES = {
    "README.md.in": "README.md",
    "pyproject.toml.in": "pyproject.toml",
    "test_boards.py.in": "tests/test_boards.py",
    "boards.yml.in": ".github/workflows/boards.yml",
}
BOARDS_FILE, SCHEMA = "boards.yaml", "boards.json"  # the latter as `hil schema boards` prints it for editors
USUAL = "fixed16"  # format of runs and tests that name none
SAMPLES = 60  # of the test, or all there are
IGNORED = "results/\n__pycache__/\n.pytest_cache/\n"


@dataclass(frozen=True, slots=True)
class NewProject:
    """The options of `hil new`; without a model, the example's with its samples."""

    folder: Path
    model: Path | None = None
    inputs: Path | None = None
    calibrate: Path | None = None
    boards: Sequence[str] = ("uno",)
    boards_file: Path | None = None  # beside the boards known, copied into the project
    format: str = USUAL


def write_project(wanted: NewProject, boards: Boards, say: Say) -> list[Path]:
    """Write the project's files; they, relative to its folder. ConfigError for a folder that holds something, an
    unknown board or format, samples without a model or a model without samples; ModelError for one that can not be
    read."""
    if wanted.folder.exists() and (not wanted.folder.is_dir() or any(wanted.folder.iterdir())):
        raise ConfigError(f"{wanted.folder}: there is something already; name a folder that is new or empty")
    for name in wanted.boards:
        boards.board(name)
    model, inputs, calibrate = _sources(wanted)
    open_model(str(model), say).assignment(None, wanted.format)
    texts = _texts(wanted, model, inputs, calibrate)
    copies = {f"models/{model.name}": model}
    copies |= {f"data/{path.name}": path for path in (inputs, calibrate) if path is not None}
    if wanted.boards_file is not None:
        schema = wanted.boards_file.with_name(SCHEMA)
        copies |= {BOARDS_FILE: wanted.boards_file} | ({SCHEMA: schema} if schema.is_file() else {})
    for place, text in texts.items():
        path = wanted.folder / place
        path.parent.mkdir(parents=True, exist_ok=True)
        files.write_text(path, text)
    for place, source in copies.items():
        (wanted.folder / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, wanted.folder / place)
    return [Path(place) for place in sorted((*texts, *copies))]


def _sources(wanted: NewProject) -> tuple[Path, Path | None, Path | None]:
    """The files of the model, its test samples and those for its ranges."""
    if wanted.model is not None:
        if not wanted.model.is_file():
            raise ConfigError(f"{wanted.model}: no such file; --model takes an .onnx, .dsl or .tflite file")
        for path in (wanted.inputs, wanted.calibrate):
            if path is not None and not path.is_file():
                raise ConfigError(f"{path}: no such file")
        if wanted.inputs is None:
            raise ConfigError(f"{wanted.model}: its test needs samples to run on; give --inputs test.npz, too")
        other = wanted.calibrate
        if other is not None and other.name == wanted.inputs.name and not other.samefile(wanted.inputs):
            raise ConfigError(f"{other} and {wanted.inputs} would both be data/{other.name}; give one another name")
        return wanted.model, wanted.inputs, wanted.calibrate
    if wanted.inputs or wanted.calibrate:
        raise ConfigError("samples of which model? name it by --model")
    example = asset("examples") / "vibration"
    return example / "models" / "vibration.onnx", example / "data" / "test.npz", example / "data" / "train.npz"


def _texts(wanted: NewProject, model: Path, inputs: Path | None, calibrate: Path | None) -> dict[str, str]:
    """The files that are written for this project, by their places."""
    given = [(n, p) for n, p in (("inputs", inputs), ("calibrate", calibrate)) if p is not None]
    held = {path.name: "samples for the ranges of values" for path in (calibrate,) if path is not None}
    if inputs is not None:
        both = "and for the ranges of values, " if calibrate is None or calibrate.name == inputs.name else ""
        held[inputs.name] = f"samples to test with, {both}`y` their labels if there are any"
    own = wanted.boards_file is not None
    own_boards = f" --boards-file {BOARDS_FILE}" if own else ""
    other = wanted.format != USUAL
    values = {
        "name": wanted.folder.resolve().name,
        "package": re.sub(r"[^a-z0-9]+", "-", wanted.folder.resolve().name.lower()).strip("-") or "model",
        "model": model.name,
        "boards": " and ".join(wanted.boards),
        "first": wanted.boards[0],
        "boards_with_blanks": " ".join(wanted.boards),
        "quoted_boards": ", ".join(f'"{name}"' for name in wanted.boards),
        "model_word": shlex.quote(f"models/{model.name}"),
        "quoted_model": json.dumps(f"models/{model.name}"),
        "data": "\n".join(f"| `data/{name}` | {what} |" for name, what in held.items()),
        "options": "".join(f" --{name} {shlex.quote(f'data/{path.name}')}" for name, path in given)
        + (f" --format {wanted.format}" if other else "")
        + own_boards,
        "own_boards": own_boards,
        "boards_file": BOARDS_FILE if own else "",
        "arguments": "".join(f", {name}={json.dumps(f'data/{path.name}')}" for name, path in given)
        + (f", format={json.dumps(wanted.format)}" if other else "")
        + ("" if inputs is None else f", samples={SAMPLES}"),
    }
    texts = {
        place: Template((TEMPLATES / name).read_text(encoding="utf-8")).substitute(values)
        for name, place in PLACES.items()
    }
    return {**texts, ".gitignore": IGNORED}
