"""The samples of a run: from the model's data set or from a file, with labels where there are any."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tinyhil import data, files
from tinyhil.compiler.calibrate import Ranges, calibrate
from tinyhil.data import Dataset
from tinyhil.errors import DataError
from tinyhil.formats.clipping import METHODS
from tinyhil.frontend.listing import Model
from tinyhil.harness.job.prompts import prompted, prompts_of
from tinyhil.harness.job.zoo import ModelSource, find_model, streaming_names, zoo_names
from tinyhil.language.graph import Part, element_count
from tinyhil.references.classes import class_count

MANY_ALIKE = 10  # decisions without labels that are alike by no chance
OFTEN = 0.3  # of the samples more are as labels have them that begin with 1


@dataclass(frozen=True, slots=True)
class Inputs:
    """`x` (samples, ...) float32, `y` labels or None; `source` is full, subset, bundled, synthetic or file."""

    name: str
    source: str
    sha256: str
    x: np.ndarray
    y: np.ndarray | None
    message: str | None = None
    all_x: np.ndarray | None = None  # before a limit on the samples, which must not change the program


def load_inputs(model: ModelSource, path: Path | None, limit: int | None, read: Model | None = None) -> Inputs:
    """Samples for `model`: the file at `path`, or the test part of its data set or, where `path` is the name of a model
    of the zoo and of no file, of that one's; the first `limit` of them. `read`:
    what its file holds; labels may be the names of its classes, and arrays have the names of its inputs.
    DataError if there are none."""
    if path is not None and path.parent == Path() and path.name in zoo_names() and not path.exists():
        model, path = find_model(path.name), None
    prompts = prompts_of(model, path)
    if prompts is not None and read is not None:
        inputs = read_prompts(prompts, model, read)
    elif path is not None:
        inputs = read_inputs(path, read)
    elif model.dataset is not None:
        found = data.load(model.dataset)
        inputs = Inputs(found.name, found.source, found.sha256, found.x_test, found.y_test, found.message)
    else:
        raise no_samples(model)
    if limit is not None and limit > len(inputs.x):
        message = f"{inputs.name}: {len(inputs.x)} samples, fewer than the {limit} asked for"
        return replace(inputs, message=f"{inputs.message}; {message}" if inputs.message else message)
    if limit is not None and limit < len(inputs.x):
        y = None if inputs.y is None else inputs.y[:limit]
        inputs = replace(inputs, x=inputs.x[:limit], y=y, all_x=inputs.x)
    return inputs


def no_samples(model: ModelSource) -> DataError:
    """What there is to say where nothing is known to run a model on."""
    in_zoo = model.name in (*zoo_names(), *streaming_names())
    what = model.name if in_zoo else f"{model.path}: a model from a file"
    return DataError(f"{what} needs --inputs x.npz (key x, labels y) or x.npy")


def read_prompts(path: Path, source: ModelSource, read: Model) -> Inputs:
    """A sample for each line of the file, without labels; DataError if there is none (prompts.py)."""
    content, x = prompted(path, source, read.graph.shapes[read.graph.inputs[0]][0])
    kind = "bundled" if source.text is not None and path == source.text.prompts else "file"
    return Inputs(path.name, kind, hashlib.sha256(content).hexdigest(), x, None)


def training_part(model: str, name: str, option: str) -> Dataset:
    """The data set a model was trained on; DataError, which names the `option`, where only a substitute is at hand."""
    found = data.load(name)
    if found.source in ("bundled", "synthetic"):
        why = f"{found.message}; calibrating on it would be meaningless"
        raise DataError(f"{model}: {why}: set HIL_DATA or give {option}")
    return found


def calibrated(model: Model, x: np.ndarray, origin: Mapping[str, Any], by: str = METHODS[0]) -> Ranges:
    """Ranges observed on `x` (samples, ...), never narrower than those the model declares. `origin` says where `x` is
    from; its hash, which those of the same samples share, with labels or without, stands beside it."""
    digest = hashlib.sha256(np.ascontiguousarray(x, "<f4").tobytes()).hexdigest()
    ranges = calibrate(model.graph, x, {**origin, "sha256": digest, "samples": len(x)}, by)
    values = dict(ranges.values)
    for name, (low, high) in model.declared.items():
        if name in values:
            values[name] = min(low, values[name][0]), max(high, values[name][1])
    return replace(ranges, values=values)


def spread_over(x: np.ndarray, count: int) -> np.ndarray:
    """`count` of the samples, or all if there are fewer, evenly spread: a sorted file has all its classes in them."""
    return x[:: max(1, len(x) // count)][:count]


def about_labels(y: np.ndarray | None, decided: np.ndarray, classes: int | None) -> str:
    """What there is to say of samples of one class alone, which a model that always answers the same gets right, too,
    and of labels that begin with 1; empty otherwise. `y`: labels if there are any, else `decided`, what the float model
    says, tells where there are several `classes`."""
    remedy = "give samples of all classes, of a sorted file in another order"
    if y is not None:
        as_given, less_one = np.mean(decided == y), np.mean(decided == y - 1)
        if less_one > as_given + OFTEN:
            return (
                f"labels seem to begin with 1: the float model decides {less_one:.0%} of samples as their label less "
                "1, and classes are counted from 0; give y - 1"
            )
        if len(y) < 2 or len(np.unique(y)) > 1:
            return ""
        return f"all {len(y)} samples have label {y.flat[0]}: accuracy on one class says little; {remedy}"
    if (classes or 0) < 3 or len(decided) < MANY_ALIKE or len(np.unique(decided)) > 1:
        return ""
    return f"the float model decides all {len(decided)} samples alike: that few differ then says little; {remedy}"


def positions_of(labels: np.ndarray, classes: Sequence[str], path: Path) -> np.ndarray:
    """Labels that are the names of classes, words or numbers, as positions; all others, and all if there are no names,
    as they are: numbers, too, where every name is a word. DataError if a label is none of the names."""
    are_numbers = labels.dtype.kind in "iu" and not any(name.lstrip("-").isdecimal() for name in classes)
    if not classes or are_numbers or labels.dtype.kind not in "iuUS":
        return labels
    words = np.char.decode(labels, "utf-8", "replace") if labels.dtype.kind == "S" else labels.astype(str)
    place = {name: position for position, name in enumerate(classes)}
    strange = next((word for word in words if word not in place), None)
    if strange is not None:
        names = ", ".join(classes)
        raise DataError(f"{path}: label '{strange}' is none of the model's classes {names[:200]}; rename it")
    return np.array([place[word] for word in words], np.int64)


def check_labels(name: str, y: np.ndarray | None, classes: int | None) -> None:
    """DataError if a label of the samples `name` is none of the model's `classes` (None: not known)."""
    if y is not None and classes is not None and not ((y >= 0) & (y < classes)).all():
        worst = int(y.max() if y.max() >= classes else y.min())
        raise DataError(f"{name}: label {worst}, but the model has outputs 0 to {classes - 1}; check 'y'")


def joined_inputs(arrays: Mapping[str, Any], parts: Sequence[Part], where: str) -> np.ndarray:
    """The records (samples, ..., elements) of several inputs, each an array (samples, ...) under its name; of a stream
    (samples, steps, ...). DataError names the one that is missing or does not fit."""
    missing = [part.name for part in parts if part.name not in arrays]
    if missing:
        names = ", ".join(f"'{part.name}'" for part in parts)
        raise DataError(f"{where}: no array '{missing[0]}'; the model's inputs are {names}: an array for each, or 'x'")
    found, shapes = [], set()
    for part in parts:
        array = np.asarray(arrays[part.name])
        if array.dtype.kind not in "fiub" or array.ndim == 0 or array.size % (len(array) * part.count or 1):
            shape = list(array.shape)
            raise DataError(
                f"{where}: '{part.name}' is {array.dtype} {shape}; the input takes {list(part.shape)} numbers"
            )
        found.append(array.reshape(len(array), -1, part.count))
        shapes.add(found[-1].shape[:2])
    if len(shapes) != 1:
        listed = ", ".join(f"'{part.name}' {list(array.shape[:2])}" for part, array in zip(parts, found, strict=True))
        raise DataError(f"{where}: the inputs have different numbers of samples and steps: {listed}")
    return np.concatenate(found, axis=2)


def _of_float32(x: np.ndarray) -> np.ndarray:
    """As float32, or as they are where float32 does not hold all of these whole numbers."""
    real: np.ndarray = x.astype(np.float32)
    return x if x.dtype.kind in "iu" and not np.array_equal(real, x) else real


def _labels(given: np.ndarray, samples: int, classes: Sequence[str], path: Path, *, of_steps: bool) -> np.ndarray:
    """Positions (samples,) of the classes; of every step (samples, steps) where `of_steps` and there are as many."""
    y = positions_of(given.reshape(-1), classes, path)
    many = of_steps and given.ndim == 2 and len(given) == samples and given.shape[1] > 1
    if (len(y) != samples and not many) or not np.issubdtype(y.dtype, np.integer):
        words = "; the model names no classes: give their places among its outputs" if y.dtype.kind in "US" else ""
        raise DataError(
            f"{path}: 'y' must hold one integer label per sample ({samples}), not {y.dtype} {len(y)}{words}"
        )
    return y.reshape(samples, -1) if many else y


def read_inputs(path: Path, model: Model | None = None, *, of_steps: bool = False) -> Inputs:
    """A .npz with key `x` (and `y`), with an array for each of several inputs, or with one array alone, or a .npy;
    `of_steps`: a stream may have labels (samples, steps). DataError if it is damaged or lacks them."""
    classes = () if model is None else model.classes
    parts = () if model is None else model.graph.parts
    content = files.read_bytes(path, ".npz or .npy file", files.MOST_ARRAY_BYTES)
    loaded = files.parse_arrays(content, str(path))
    if isinstance(loaded, np.ndarray):
        x, y = loaded, None
    else:
        if parts and "x" not in loaded:
            loaded = {
                "x": joined_inputs(loaded, parts, str(path)),
                **{key: loaded[key] for key in ("y",) if key in loaded},
            }
        alone = [name for name in loaded if name != "y"]  # whatever it is called, as the model's input or X
        name = alone[0] if len(alone) == 1 else "x"
        if name not in loaded:
            held = ", ".join(loaded) or "nothing"
            raise DataError(f"{path}: has no array 'x'; it holds {held}; samples are to be x, labels y")
        x, y = loaded[name], loaded.get("y")
    if x.shape[:1] == (0,):
        raise DataError(f"{path}: 'x' holds no samples; give an array (samples, ...)")
    if x.ndim == 0 or not np.issubdtype(x.dtype, np.number) or np.iscomplexobj(x):
        raise DataError(f"{path}: 'x' must be an array of real numbers (samples, ...), not {x.dtype} {list(x.shape)}")
    if y is not None:
        y = _labels(y, len(x), classes, path, of_steps=of_steps and model is not None and model.stream)
        if model is not None:
            outputs = element_count(model.graph.shapes[model.graph.outputs[0]])
            check_labels(str(path), y, class_count(model.graph, outputs))
    shape = () if model is None or not model.stream else model.graph.shapes[model.graph.inputs[0]]
    if shape and x.ndim == 2 and x[0].size == element_count(shape):
        x = x.reshape(len(x), *shape)  # a stream as it is recorded, without steps
    if np.issubdtype(x.dtype, np.floating) and (np.abs(x[np.isfinite(x)]) > np.finfo(np.float32).max).any():
        raise DataError(f"{path}: 'x' holds values beyond the range of float32; scale the data")
    return Inputs(path.name, "file", hashlib.sha256(content).hexdigest(), _of_float32(x), y)
