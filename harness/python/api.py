"""The Python interface (docs/python.md): arrays in, records out; every failure is a `tinyhil.errors.HilError`.

It goes where the commands go (calls.py). Arrays and models that have no file get one in a folder of the `Model`, which
goes with it.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from tinyhil.codegen.model import Source
from tinyhil.errors import ConfigError, DataError, ModelError
from tinyhil.formats.clipping import METHODS
from tinyhil.harness.build.pipeline import compile_model
from tinyhil.harness.job.job import Opened, Request, Streamed, method_of, open_model, wish_for
from tinyhil.harness.job.zoo import pair_name
from tinyhil.harness.python import calls
from tinyhil.harness.python.wording import FOLDER, in_python, worded_for_python
from tinyhil.harness.records.view import Record
from tinyhil.harness.settings.arguments import request
from tinyhil.harness.settings.bench_file import default_bench
from tinyhil.harness.settings.config import Boards, load_boards
from tinyhil.harness.settings.own_project import boards_file as project_boards
from tinyhil.notice import WARNING, Say

LONGEST_NAME = 200  # of a file, in bytes less its end
MOST_STEPS = 1 << 24
Formats = str | Mapping[str, Any] | os.PathLike[str]


def _silent(*_: Any) -> None:
    """Nobody listens."""


@dataclass(frozen=True, slots=True)
class Model:
    """A model that was loaded. `calibrate` and `compile` give new ones; nothing is changed in place."""

    opened: Opened = field(repr=False)
    folder: tempfile.TemporaryDirectory[str] = field(repr=False)
    name: str
    calibration: Path | None = None
    formats: Mapping[str, Any] = field(default_factory=lambda: {"format": "fixed16", "assignment": None})
    board: str | None = None
    say: Say = field(default=_silent, repr=False)
    states: tuple[str, ...] | None = None
    steps: int | None = None
    by: str | None = None

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Of one sample; of several inputs that of the record in which they follow each other."""
        graph = self.opened.model.graph
        return tuple(graph.shapes[graph.inputs[0]])

    @property
    def inputs(self) -> dict[str, tuple[int, ...]]:
        """The shape of each input by its name, of one sample (of a stream: of one step, where there are several)."""
        graph = self.opened.model.graph
        return {part.name: part.shape for part in graph.parts} or {graph.inputs[0]: self.input_shape}

    def then(self, other: Model, hop: int | None = None, steps: int | None = None) -> Model:
        """One model of two .tflite files: `other` takes what this one gives, in one loop over one stream.

        `hop`: how many numbers of a window of this one are new (None: all); `steps` of one sample, each one step of
        `other`. ModelError where they do not fit.
        """
        _of_kind("other", other, Model)
        _of_kind("hop", hop, int, type(None))
        _of_kind("steps", steps, int, type(None))
        return load(pair_name(self.name, other.name, hop), say=self.say, steps=steps or other.steps or self.steps or 1)

    @property
    def outputs(self) -> dict[str, tuple[int, ...]]:
        """The shape of each output by its name."""
        graph = self.opened.model.graph
        output = graph.outputs[0]
        return {part.name: part.shape for part in graph.results} or {output: tuple(graph.shapes[output])}

    @worded_for_python
    def calibrate(self, x: Any, by: str | None = None) -> Model:
        """The model with the ranges that its values take on `x` (samples, ...); DataError if `x` does not fit. Several
        inputs: a mapping, an array for each name.

        `by`: how they are cut before a format is fitted to them: minmax, percentile, kl or mse (docs/formats.md). None:
        as an assignment was found with, else minmax.
        """
        _of_kind("by", by, str, type(None))
        path, opened = self._samples(x, None), replace(self.opened, by=by or METHODS[0])
        if opened.learned():
            self.say(f"{WARNING}{opened.source.ranges}, made with the weights, does not count")
        opened.required_ranges(path)
        return replace(self, calibration=path, opened=opened, by=by)

    @worded_for_python
    def compile(self, formats: Formats = "fixed16", board: str | None = None) -> Compiled:
        """The program in one format (a name), or in one per value (a file, or what such a file holds).

        Raises DoesNotFit if `board` is given and too small, DataError if no ranges are known.
        """
        _of_kind("board", board, str, type(None))
        chosen = self._chosen(formats)
        assignment = self.opened.assignment(chosen["assignment"], chosen["format"])
        wanted = [] if board is None else [_boards().board(board)]
        built = compile_model(
            self.opened.model,
            assignment,
            replace(self.opened, by=self.by or method_of(chosen["assignment"])).required_ranges(self.calibration),
            wanted,
            [spec.name for spec in wanted],
            wish=wish_for(chosen["assignment"]),
        )
        model = replace(self, formats=chosen, board=board)
        return Compiled(model, built.formats, built.plan.peak_bytes, built.plan.proven, built.sources)

    @worded_for_python
    def run(self, board: str, x: Any = None, y: Any = None, formats: Formats | None = None, **options: Any) -> Record:
        """Measure on a board, attached or emulated, or on `host`. Without `x`: on the data set of a zoo model.

        `x` (samples, ...), `y` one label per sample or None; `options` are those of `hil run` (samples, port,
        timeout_s...). The record says `bit_exact`; it is not checked here. Raises HilError of the stage that failed.
        """
        record, _ = calls.run(self._request("run", board, x, y, formats, options), _boards(), self.say, _silent)
        return Record(record)

    @worded_for_python
    def profile(self, board: str, x: Any = None, formats: Formats | None = None, **options: Any) -> Record:
        """What every operation costs on a board, the mean of the first `samples` (5); `to_pandas()` gives a row per
        operation."""
        wanted = self._request("profile", board, x, None, formats, {"samples": 5, **options})
        return Record(calls.profile(wanted, _boards(), self.say, _silent).as_json())

    @worded_for_python
    def search(self, x: Any = None, y: Any = None, **options: Any) -> Record:
        """Formats per value under limits: the options of `hil search` (ram, board, latency_us, strategy, formats...).

        `record.assignment_file` is for `compile`, with `pareto` that of each of `record.points`; `board` may name
        several; `held_out` is a file, an array, or a pair of it and its labels. ConfigError if a limit or an option
        makes no sense.
        """
        from tinyhil.harness.search.request import SearchRequest

        out = Path(tempfile.mkdtemp(dir=self.folder.name)) / "assignment.yaml"
        common: dict[str, Any] = {
            "out": out,
            "results": out.parent,
            "calibrate": self.calibration,
            "calibrate_by": self.opened.by,
        } | self._streamed
        if x is not None:
            common["inputs"] = self._samples(x, y)
        called = self._call("search", *_named_if_given(x, y), **options)
        given = {**common, **options, "called": called}
        if not isinstance(held_out := given.get("held_out"), str | os.PathLike | None):
            both = isinstance(held_out, tuple) and len(held_out) == 2
            given["held_out"] = self._samples(*(held_out if both else (held_out, None)))
        if isinstance(given.get("board"), list | tuple) and given["board"]:
            given["board"], *given["also"] = given["board"]
        wanted = request("search", SearchRequest, {**given, "model": self.name})
        if wanted.pareto is not None:
            front = replace(wanted, out=wanted.out if "out" in options else None)  # each point has a file of its own
            return Record(calls.pareto(front, _boards_for(front.board), self.say, _silent).record, self.folder)
        outcome = calls.search(wanted, _boards_for(wanted.board), self.say, _silent)
        return Record({**outcome.record, "assignment_file": str(given["out"])}, self.folder)

    @worded_for_python
    def fit(self, boards: Any = "all", x: Any = None, y: Any = None, **options: Any) -> list[Record]:
        """A row for every board and format: `fits`, `flash_bytes`, `ram_bytes` and `latency_us` (value, low, high), and
        with samples `agreement`. `options` are those of `hil fit`: formats, samples, prefer. Nothing is built.
        ConfigError for what is no board."""
        from tinyhil.harness.fit.session import FitRequest

        names = (boards,) if isinstance(boards, str) else boards
        if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
            raise ConfigError(f"fit: boards must be a name or a list of names, not {boards!r:.60}")
        given: dict[str, Any] = {"boards": tuple(names), **self._calibration, **self._streamed, **options}
        if x is not None:
            given["inputs"] = self._samples(x, y)
        wanted = request("fit", FitRequest, {**given, "model": self.name})
        return [Record(row) for row in calls.fit(wanted, _boards(), self.say).printed["rows"]]

    @worded_for_python
    def export(self, kind: str, out: str | os.PathLike[str], formats: Formats | None = None, **options: Any) -> Path:
        """Write the model as a library (docs/export.md): `kind` is one of `hil export`'s; `out` a .zip.

        `options` are those of `hil export`: name, arena, classes, sizes, board, prefer, ram. ConfigError for
        an unknown kind.
        """
        from tinyhil.codegen.export_kinds import KINDS
        from tinyhil.harness.offline.export import Wanted

        _of_kind("kind", kind, str)
        _of_kind("out", out, str, os.PathLike)
        if kind not in KINDS:
            raise ConfigError(f"export: no kind {kind!r}; there are {', '.join(KINDS)}")
        chosen = self.formats if formats is None else self._chosen(formats)
        given = {**self._calibration, **self._streamed, **chosen, **options}
        wanted = request("export", Wanted, {**given, "kind": kind, "model": self.name, "out": out})
        calls.export(wanted, _boards_for(wanted.board), self.say)
        return Path(out)

    def _call(self, verb: str, *words: str, **named: Any) -> str:
        """This call, as a record names what has made it: `tinyhil.load('net').run('uno', x)`."""
        model = self._quoted(self.name, "model")
        by = "" if self.by is None else f", by={self.by!r}"
        ranges = "" if self.calibration is None else f".calibrate(samples{by})"
        given = (f"{name}={self._quoted(value, '...')}" for name, value in named.items() if value is not None)
        return f"tinyhil.load({model}){ranges}.{verb}({', '.join((*words, *given))})"

    def _quoted(self, value: Any, otherwise: str) -> str:
        """A name, a number or a path as Python has it; `otherwise` for what no other process has: objects, arrays, and
        files that go with this model."""
        text = os.fspath(value) if isinstance(value, os.PathLike) else value
        is_ours = isinstance(text, str) and Path(self.folder.name) in Path(text).parents
        return repr(text) if isinstance(text, str | int | float | list | tuple) and not is_ours else otherwise

    def _request(
        self, verb: str, board: str, x: Any, y: Any, formats: Formats | None, options: Mapping[str, Any]
    ) -> Request:
        chosen = self.formats if formats is None else self._chosen(formats)
        common = {"results": Path(self.folder.name), **self._calibration, **self._streamed}
        given = {**common, **chosen, **options}
        if x is not None:
            given["inputs"] = self._samples(x, y)
        wanted = request("run", Request, {**given, "board": board, "model": self.name})
        formats = self.formats["assignment"] or self.formats["format"] if formats is None else formats
        called = self._call(verb, repr(board), *_named_if_given(x, y), formats=formats, **options)
        if str(self.folder.name) in wanted.command(verb):  # else there is a command that repeats it
            wanted = replace(wanted, called=called)
        if x is None or wanted.samples is None:
            return wanted
        return replace(
            wanted, samples=min(wanted.samples, len(next(iter(x.values())) if isinstance(x, Mapping) else x))
        )

    @property
    def _calibration(self) -> dict[str, Any]:
        return {"calibrate": self.calibration, "calibrate_by": self.by}

    @property
    def _streamed(self) -> dict[str, Any]:
        return {"states": self.states, "steps": self.steps}

    def _samples(self, x: Any, y: Any) -> Path:
        arrays = dict(x) if isinstance(x, Mapping) else {"x": x}
        if not arrays or not all(isinstance(name, str) and name.isprintable() and name for name in arrays):
            raise DataError("x must be an array, or map the names of the model's inputs to one each")
        if y is not None:
            arrays["y"] = y
        return self._saved("samples", **{name: _array(array, name) for name, array in arrays.items()})

    def _saved(self, name: str, **arrays: np.ndarray) -> Path:
        path = Path(tempfile.mkdtemp(dir=self.folder.name)) / f"{name}.npz"
        np.savez(path, **arrays)  # type: ignore[arg-type]
        return path

    def _chosen(self, formats: Formats) -> dict[str, Any]:
        """`format` and `assignment` as the commands have them."""
        if isinstance(formats, Mapping):
            import yaml

            path = Path(tempfile.mkdtemp(dir=self.folder.name)) / "assignment.yaml"
            try:
                path.write_text(yaml.safe_dump(dict(formats)), encoding="utf-8")
            except (yaml.YAMLError, RecursionError):
                raise ConfigError("formats must hold names of values and of formats only") from None
            return {"format": "fixed16", "assignment": path}
        if not isinstance(formats, str | os.PathLike):
            raise ConfigError(f"formats must be a name, a file or what one holds, not {type(formats).__name__}")
        if isinstance(formats, os.PathLike) or Path(formats).suffix in (".yaml", ".yml", ".json"):
            return {"format": "fixed16", "assignment": Path(formats)}
        return {"format": formats, "assignment": None}


@dataclass(frozen=True, slots=True)
class Compiled:
    """A model in its formats, planned. `sources`: the files of its firmware, path -> text (bytes: large constants)."""

    model: Model = field(repr=False)
    format: str
    arena_bytes: int
    proven: bool  # whether no plan takes less
    sources: Mapping[str, Source] = field(repr=False)

    def run(self, board: str | None = None, x: Any = None, y: Any = None, **options: Any) -> Record:
        """As `Model.run`, on the board it was compiled for unless another is named."""
        return self.model.run(self._board(board), x, y, **options)

    def profile(self, board: str | None = None, x: Any = None, **options: Any) -> Record:
        """As `Model.profile`."""
        return self.model.profile(self._board(board), x, **options)

    def export(self, kind: str, out: str | os.PathLike[str], **options: Any) -> Path:
        """As `Model.export`."""
        return self.model.export(kind, out, **options)

    def _board(self, board: str | None) -> str:
        _of_kind("board", board, str, type(None))
        name = board or self.model.board
        if name is None:
            raise ConfigError("no board is named; give one, `hil boards` lists them")
        return name


@worded_for_python
def load(
    source: Any,
    example: Any = None,
    *,
    name: str = "model",
    say: Say | None = None,
    states: Mapping[str, str] | None = None,
    steps: int | None = None,
) -> Model:
    """A model of the zoo (its name), of a file (.onnx, .dsl, ...), or an object.

    Objects: `onnx.ModelProto`, a torch module and a scikit-learn estimator (both with an `example` input, samples
    first), a Keras model (an `example` where its input has no fixed shape). `say` is told what there is to tell.
    `states` (input -> output; default: found by their names) and `steps` of one sample: for models that are run step by
    step. ModelError for what can not be read, ConfigError for arguments of another kind.
    """
    folder = tempfile.TemporaryDirectory(prefix=FOLDER)
    _of_kind("name", name, str)
    if not name or "/" in name or len(name) > LONGEST_NAME:
        raise ConfigError(f"name must be that of a file without its folder, not {name[:40]!r}")
    _of_kind("say", say, Callable, type(None))  # type: ignore[arg-type]
    _of_kind("states", states, Mapping, type(None))
    _of_kind("steps", steps, int, type(None))
    if steps is not None and not 1 <= steps <= MOST_STEPS:
        raise ConfigError(f"steps must be 1 to {MOST_STEPS}, not {steps}")
    for one in (*(states or {}), *(states or {}).values()):
        _of_kind("states", one, str)
    listener = _silent if say is None else lambda line: say(in_python(line))
    if isinstance(source, str | os.PathLike):
        where = os.fspath(source)
    else:
        where = str(Path(folder.name) / f"{name}.onnx")
        _write_onnx(source, example, Path(where))
    pairs = None if states is None else tuple(f"{before}={after}" for before, after in states.items())
    opened = open_model(where, listener, Streamed(pairs, steps))
    return Model(opened, folder, where, say=listener, states=pairs, steps=steps)


def _write_onnx(source: Any, example: Any, path: Path) -> None:
    families = {base.__module__.split(".")[0] for base in type(source).__mro__}
    if "onnx" in families and hasattr(source, "SerializeToString"):
        path.write_bytes(source.SerializeToString())
    elif "keras" in families:
        first = None if example is None else np.asarray(example, np.float32)[:1]
        _exported(source, lambda: _from_keras(source, first, path))
    elif "torch" in families:
        given = np.asarray(_needed(example, "torch module"), np.float32)[:1]
        _exported(source, lambda: _from_torch(source, given, path))
    elif "sklearn" in families:
        given = np.asarray(_needed(example, "scikit-learn estimator"), np.float32)[:1]
        _exported(source, lambda: _from_sklearn(source, given, path))
    else:
        raise ModelError(
            f"{type(source).__module__}.{type(source).__qualname__}: no model; give a name of the zoo, a path, an "
            "onnx.ModelProto, a torch module, a Keras model or a scikit-learn estimator"
        )


def _exported(source: Any, export: Callable[[], object]) -> None:
    """Call another library's exporter: what it lacks is ConfigError, whatever else it raises ModelError."""
    name = type(source).__name__
    try:
        export()
    except ImportError as error:
        package = (error.name or str(error)).split(".")[0]
        raise ConfigError(f"{name}: its export needs the package {package}; type: pip install {package}") from None
    except ModelError:
        raise
    except Exception as error:  # their own errors have no common base
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ModelError(f"{name}: can not be exported as ONNX ({first[:160]})") from None


def _from_torch(module: Any, example: np.ndarray, path: Path) -> None:
    import torch

    arguments = (torch.as_tensor(example),)
    modes = [(part, part.training) for part in module.modules()]
    try:
        torch.onnx.export(module.eval(), arguments, str(path), dynamo=True, external_data=False, verbose=False)
    finally:
        for part, is_training in modes:
            part.training = is_training


def _from_keras(net: Any, example: np.ndarray | None, path: Path) -> None:
    """Keras exports only what was called: on the example, else on zeros of the shapes the model declares."""
    declared = [tuple(one.shape[1:]) for one in getattr(net, "inputs", None) or []]
    if example is not None:
        net(example)
    elif declared and not any(size is None for shape in declared for size in shape):
        zeros = [np.zeros((1, *shape), np.float32) for shape in declared]
        net(zeros if len(zeros) > 1 else zeros[0])
    else:
        _needed(None, "Keras model whose input has no fixed shape")
    net.export(str(path), format="onnx", verbose=False)


def _from_sklearn(estimator: Any, example: np.ndarray, path: Path) -> None:
    from skl2onnx import to_onnx

    path.write_bytes(to_onnx(estimator, example).SerializeToString())


def _needed(example: Any, what: str) -> Any:
    if example is None:
        raise ModelError(f"a {what} needs an example input: tinyhil.load(model, example=x[:1])")
    return example


@worded_for_python
def compare(a: Mapping[str, Any] | str | Path, b: Mapping[str, Any] | str | Path) -> list[Record]:
    """What differs from record `a` in record `b`, or in their files: `what`, `text`, `fails` (a gate would), `better`.

    DataError if one is no record of a run.
    """
    from dataclasses import asdict

    from tinyhil.harness.records.compare import differences
    from tinyhil.harness.records.schema import read_record

    left, right = (read_record(Path(one)) if isinstance(one, str | Path) else _plain(one) for one in (a, b))
    return [Record(asdict(found)) for found in differences(left, right)]


def _named_if_given(x: Any, y: Any) -> tuple[str, ...]:
    """Names of arrays as a call has them, the first ones by their place."""
    if x is None and y is not None:
        raise DataError("y: labels of no samples; give x, too")
    return () if x is None else ("x",) if y is None else ("x", "y")


def _plain(record: Mapping[str, Any]) -> Mapping[str, Any]:
    return record.to_dict() if isinstance(record, Record) else record


def _boards() -> Boards:
    return load_boards(project_boards(), default_bench())


def _boards_for(name: str | None) -> Boards | None:
    """None, and no file read, where no board is named."""
    return None if name is None else _boards()


def _of_kind(name: str, value: Any, *kinds: type) -> None:
    """ConfigError for an argument of another kind, a NUL in a name, or true for a number."""
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        words = " or ".join("None" if kind is type(None) else kind.__name__ for kind in kinds)
        raise ConfigError(f"{name} must be {words}, not {type(value).__name__}")
    if isinstance(value, str | os.PathLike) and "\0" in str(value):
        raise ConfigError(f"{name} holds a NUL, which no name has")


def _array(values: Any, name: str) -> np.ndarray:
    try:
        array = np.asarray(values)
    except (ValueError, TypeError, OverflowError):  # numpy has no array for rows of different lengths
        array = np.array([None])
    if name == "y" and array.dtype.kind == "O" and array.ndim and all(isinstance(one, str) for one in array.flat):
        array = array.astype(str)  # as pandas has words
    if array.dtype.kind in ("biufU" if name == "y" else "biuf") and array.ndim:
        return array
    raise DataError(f"{name}: not an array of numbers (samples, ...); its rows have different lengths or hold objects")
