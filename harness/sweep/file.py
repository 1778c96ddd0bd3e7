"""sweep.yaml: what a sweep is made of, checked completely before anything is computed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import Field, FiniteFloat

from tinyhil.errors import ConfigError, HilError
from tinyhil.formats import named
from tinyhil.frontend import SUFFIXES
from tinyhil.harness.job.job import open_model
from tinyhil.harness.job.zoo import find_model
from tinyhil.harness.settings.config import Boards
from tinyhil.harness.settings.yaml_file import Fault, Location, NonEmpty, PositiveInt, Record, mark, parse, read_text
from tinyhil.language.assignment import load_assignment, load_conditions
from tinyhil.search.accelerator import UNITS
from tinyhil.search.offer import family, formats_on_offer
from tinyhil.search.strategies import is_own, make_strategy

MOST_CELLS = 10_000
OF_CHIPS, OF_ACCELERATORS = ("flash",), tuple(name for name in UNITS if name != "latency_us")  # limits of searches
Positive = Annotated[FiniteFloat, Field(gt=0)]
NotNegative = Annotated[int, Field(ge=0)]
AtLeastOne = Field(min_length=1)


class ModelEntry(Record):
    """A model of the zoo by its name, or a file; paths are relative to the sweep's file. Every row runs `inputs`; with
    `calibrate` searches see that file alone, without it the first half of `inputs`."""

    model: NonEmpty
    inputs: NonEmpty | None = None
    calibrate: NonEmpty | None = None


class RunOptions(Record):
    """Options of `hil run` for every cell, named as there."""

    samples: PositiveInt | None = None
    mode: Literal["quiet", "stream"] = "quiet"
    prefer: Literal["balanced", "latency", "ram", "least"] | None = None
    ram: PositiveInt | None = None
    calibrate_by: Literal["minmax", "percentile", "kl", "mse", "paper-literal"] = "minmax"
    uart: Literal["lifted", "true"] = "lifted"
    load: Literal["direct", "flash"] | None = None
    timeout: Positive = 30.0
    retries: NotNegative = 0
    wait: Annotated[FiniteFloat, Field(ge=0)] | None = None


class SearchOptions(Record):
    """Options of `hil search`, named as there."""

    evaluations: PositiveInt = 200
    target: NotNegative | None = None
    samples: PositiveInt | None = None
    seed: Annotated[int, Field(ge=0, lt=1 << 32)] = 0
    ram: PositiveInt | None = None
    arena: PositiveInt | None = None
    latency_us: Positive | None = None
    flash: PositiveInt | None = None
    energy_uj: Positive | None = None
    crossbars: PositiveInt | None = None
    cost: Positive | None = None
    minimize: Literal["ram", "flash", "latency"] | None = None
    points: Annotated[FiniteFloat, Field(ge=0)] = 0.5
    more_time: Annotated[FiniteFloat, Field(ge=0)] = 50.0
    evaluator: Literal["engine", "reference"] = "engine"
    device_samples: PositiveInt = 50
    own: bool = False


class StrategyEntry(SearchOptions):
    """A way to search, under a `name` of its own if it is there twice; what it does not say is as in `search`."""

    strategy: NonEmpty
    name: NonEmpty | None = None
    set: dict[NonEmpty, str | int | float | bool] = Field(default_factory=dict)

    @property
    def title(self) -> str:
        """Its column in the table."""
        return self.name or Path(self.strategy).stem

    @property
    def settings(self) -> tuple[str, ...]:
        """As `--set` has them."""
        return tuple(f"{key}={str(value).lower()}" for key, value in self.set.items())


class SweepFile(Record):
    """All of a sweep. An entry of `formats` is one format, the file of an assignment, or several formats among which
    every strategy chooses."""

    models: Annotated[tuple[ModelEntry, ...], AtLeastOne]
    boards: Annotated[tuple[NonEmpty, ...], AtLeastOne]
    formats: Annotated[tuple[Annotated[tuple[NonEmpty, ...], AtLeastOne], ...], AtLeastOne]
    strategies: Annotated[tuple[StrategyEntry, ...], AtLeastOne] = (StrategyEntry(strategy="lagrange"),)
    run: RunOptions = RunOptions()
    search: SearchOptions = SearchOptions()

    @property
    def ways(self) -> Iterator[tuple[tuple[str, ...], StrategyEntry | None]]:
        """Formats, and how one of them is chosen for each tensor; None: there is nothing to choose."""
        for entry in self.formats:
            for strategy in self.strategies if len(entry) > 1 else (None,):
                yield entry, strategy


def read_sweep(path: Path, boards: Boards) -> SweepFile:
    """The sweep in a file; ConfigError with a `file:line:col` for each fault."""
    text = read_text(path, "sweep file")
    return parse(text, path, SweepFile, _spelled_out, lambda sweep, root: _faults(sweep, root, path.parent, boards))


def _spelled_out(data: Any, root: yaml.Node) -> list[Fault]:
    """Short forms become long ones: a name is an entry; strategies take from `search` what they do not say."""
    if not isinstance(data, dict):
        return [(*mark(root, ()), "must be a mapping with models, boards and formats")]
    for key, name in (("models", "model"), ("strategies", "strategy")):
        if isinstance(data.get(key), tuple):
            data[key] = tuple({name: entry} if isinstance(entry, str) else entry for entry in data[key])
    if isinstance(data.get("formats"), tuple):
        data["formats"] = tuple(_offer(entry) for entry in data["formats"])
    if isinstance(data.get("search"), dict):
        usual = {key: value for key, value in data["search"].items() if key in SearchOptions.model_fields}
        entries = data.setdefault("strategies", ({"strategy": "lagrange"},))
        if isinstance(entries, tuple):
            data["strategies"] = tuple({**usual, **entry} if isinstance(entry, dict) else entry for entry in entries)
    return []


def _offer(entry: Any) -> Any:
    """Families in a list are what it offers to a search; one that stands alone stays, to be refused."""
    names = entry if isinstance(entry, tuple) else (entry,)
    if isinstance(entry, str) and family(entry):
        return names
    if not all(isinstance(name, str) for name in names):
        return entry
    return tuple(name for text in names for name in ((text,) if is_assignment(text) else formats_on_offer(text)))


def _faults(sweep: SweepFile, root: yaml.Node, folder: Path, boards: Boards) -> list[Fault]:
    faults: list[Fault] = []
    named_things: list[tuple[Location, Callable[[], object]]] = [
        *((("models", n), partial(find_model, located(folder, entry.model))) for n, entry in enumerate(sweep.models)),
        *((("boards", n), partial(boards.board, board)) for n, board in enumerate(sweep.boards)),
        *((("formats", n), partial(_format, names, folder)) for n, names in enumerate(sweep.formats)),
        *((("strategies", n), partial(_strategy, way, folder)) for n, way in enumerate(sweep.strategies)),
    ]
    for location, look in named_things:
        try:
            look()
        except HilError as error:
            faults.append((*mark(root, location), f"{'.'.join(map(str, location))}: {error}"))
    for number, entry in enumerate(sweep.models):
        for key in ("inputs", "calibrate"):
            value = getattr(entry, key)
            if value is not None and not (folder / value).is_file():
                faults.append((*mark(root, ("models", number, key)), f"models.{number}.{key}: {value}: no such file"))
    if not faults:
        faults += [(*mark(root, place), said) for place, said in _beyond(sweep, folder, boards)]
    faults += _twice(sweep, root)
    ways = len(list(sweep.ways))
    cells = len(sweep.models) * len(sweep.boards) * ways
    if cells > MOST_CELLS:
        said = f"{len(sweep.models)} models x {len(sweep.boards)} boards x {ways} formats and strategies"
        faults.append((*mark(root, ()), f"{said} are {cells} cells, more than {MOST_CELLS}; make several sweeps of it"))
    return faults


def _beyond(sweep: SweepFile, folder: Path, boards: Boards) -> Iterator[tuple[Location, str]]:
    """What each cell would say by itself: of models without samples, and of limits that a board does not have."""
    for number, entry in enumerate(sweep.models):
        model = find_model(located(folder, entry.model))
        if entry.inputs is None and model.dataset is None and model.text is None:
            yield ("models", number), f"models.{number}: a model from a file needs `inputs:`, samples to run on"
    for number, (name, *_) in enumerate(sweep.formats):
        for entry in sweep.models if is_assignment(name) else ():
            try:
                load_assignment(folder / name, open_model(located(folder, entry.model)).model.graph)
            except HilError as error:
                yield ("formats", number), f"formats.{number}: {entry.model}: {error}; sweep over it by itself"
    if not any(len(names) > 1 for names in sweep.formats):
        return  # nothing is searched
    for board in (boards.board(name) for name in sweep.boards):
        foreign = OF_CHIPS if board.hardware is not None else OF_ACCELERATORS
        for options in (sweep.search, *sweep.strategies):
            for key in foreign:
                if getattr(options, key) is not None:
                    kind = "a chip" if board.hardware is None else "an accelerator"
                    yield (
                        ("search", key),
                        f"{key} is no limit of {board.name}, {kind}; sweep over it without, by itself",
                    )


def _strategy(way: StrategyEntry, folder: Path) -> object:
    return make_strategy(str(folder / way.strategy) if is_own(way.strategy) else way.strategy, way.settings)


def _format(names: tuple[str, ...], folder: Path) -> object:
    """ConfigError for what is no format, a family of several, or an assignment that can not be read or stands among
    formats to choose from."""
    for name in names:
        if is_assignment(name):
            if len(names) > 1:
                raise ConfigError(f"{name}: an assignment is a row of its own; a search chooses among formats")
            return load_conditions(folder / name)
        if several := family(name):
            rows = " and ".join(several)
            raise ConfigError(f"{name} is a family; write {rows} for a row of each, or [{name}] to search among them")
        named(name)
    return names


def is_assignment(name: str) -> bool:
    """Whether an entry of `formats` names a file."""
    return name.lower().endswith((".yaml", ".yml"))


def _twice(sweep: SweepFile, root: yaml.Node) -> Iterator[Fault]:
    """Rows that nobody could tell from each other."""
    models = [entry.model for entry in sweep.models]
    titles = [entry.title for entry in sweep.strategies]
    listed = {"models": models, "boards": sweep.boards, "formats": sweep.formats, "strategies": titles}
    for key, values in listed.items():
        for number, value in enumerate(values):
            if value in values[:number]:
                remedy = "; give it a name of its own: name: ..." if key == "strategies" else ""
                shown = value if isinstance(value, str) else ", ".join(value)
                yield (*mark(root, (key, number)), f"{key}.{number}: {shown} is there twice{remedy}")


def located(folder: Path, model: str) -> str:
    """A model's file as an absolute path, a name of the zoo as it is."""
    path = folder / model
    return str(path.resolve()) if path.is_file() or "/" in model or path.suffix in SUFFIXES else model
