"""Models by name (`models/<name>/model.yaml`) or by path (any .onnx, .dsl or .tflite file)."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from tinyhil.errors import ModelError, did_you_mean
from tinyhil.frontend import SUFFIXES
from tinyhil.frontend.ports import ROUNDINGS
from tinyhil.harness.settings.assets import asset


@dataclass(frozen=True, slots=True)
class Text:
    """A model whose every step takes a letter and gives one, places in its classes: `steps` of them are a sample.

    `prompts`: a file of lines, the letters that samples begin with. `temperature`: per cent, of a sample's every step.
    """

    prompts: Path
    steps: int
    temperature: int


@dataclass(frozen=True, slots=True)
class ModelSource:
    """Where a model comes from. Zoo models have a data set, some of them class names.

    `ranges` is where `hil calibrate` puts its findings.
    """

    name: str
    path: Path
    dataset: str | None = None
    ranges: Path | None = None
    classes: tuple[str, ...] = ()
    then: Path | None = None  # a model that takes what this one gives
    hop: int = 0  # numbers of a window of this one that are new; 0: all
    rounding: str = ""  # one of ROUNDINGS: whose integers a .tflite file is to give
    text: Text | None = None  # of a model that speaks


MAKERS = {".pt": "PyTorch", ".pth": "PyTorch", ".keras": "Keras", ".h5": "Keras", ".pkl": "Python's pickle"}
STREAM = "stream.yaml"  # what is said of a model that runs over a stream of the user's, with no data set of its own
# What `--then` makes of two models' names: FIRST[@HOP] THEN SECOND
THEN = " then "
ROUNDED = " rounded as "  # what --tflite-rounding makes of a model's name: MODEL rounded as RUNTIME


def pair_name(first: str, second: str, hop: int | None) -> str:
    """One name for two models, the second of which takes what the first gives; `find_model` knows it."""
    return f"{first}{f'@{hop}' if hop else ''}{THEN}{second}"


def rounded_name(model: str, runtime: str) -> str:
    """The name of a .tflite file whose integers are to be those of `runtime`; `find_model` knows it."""
    return f"{model}{ROUNDED}{runtime}"


def find_model(name_or_path: str) -> ModelSource:
    """The zoo model of this name, or the file, both of `pair_name`, or what `rounded_name` says; ModelError lists what
    there is."""
    rest, rounded, runtime = name_or_path.rpartition(ROUNDED)
    if rounded:
        if runtime not in ROUNDINGS:
            raise ModelError(f"no runtime '{runtime}'; --tflite-rounding is one of {', '.join(ROUNDINGS)}")
        source = find_model(rest)
        return replace(source, name=f"{source.name}_{runtime}", rounding=runtime)
    first, then, second = name_or_path.partition(THEN)
    if not then:
        return _find_one(name_or_path)
    name, at, hop = first.rpartition("@")
    if at and hop.isdecimal():
        first = name
    front, network = _find_one(first), _find_one(second)
    joined = f"{front.name}_{network.name}"
    new = int(hop) if at and hop.isdecimal() else 0
    return ModelSource(joined, front.path, classes=network.classes, then=network.path, hop=new)


def _find_one(name_or_path: str) -> ModelSource:
    try:
        Path(name_or_path).is_file()
    except (OSError, ValueError):  # longer than a path may be, or a NUL in it
        raise ModelError(f"no model {name_or_path[:40]!r}...: that is no name of a file") from None
    folder = asset("models") / name_or_path
    if "/" not in name_or_path and (folder / STREAM).is_file():
        stated: dict[str, Any] = yaml.safe_load((folder / STREAM).read_text(encoding="utf-8"))
        classes = tuple(stated.get("classes", ()))
        if "text" not in stated:
            return ModelSource(stated["name"], folder / str(stated["tflite"]), classes=classes)
        text = Text(folder / "prompts.txt", **stated["text"])
        ranges = folder / "ranges.json"
        return ModelSource(stated["name"], folder / str(stated["onnx"]), ranges=ranges, classes=classes, text=text)
    if "/" not in name_or_path and (folder / "model.yaml").is_file():
        manifest: dict[str, Any] = yaml.safe_load((folder / "model.yaml").read_text(encoding="utf-8"))
        return ModelSource(
            manifest["name"],
            _model_file(folder, manifest),
            manifest.get("dataset"),
            folder / "ranges.json",
            tuple(str(name) for name in manifest.get("classes", ())),
        )
    path = Path(name_or_path)
    if path.suffix in MAKERS:
        raise ModelError(f"{path}: a file of {MAKERS[path.suffix]}; write it as .onnx or .tflite: hil docs exporters")
    if path.suffix in SUFFIXES or path.is_file():
        if not path.is_file():
            raise ModelError(f"{path}: no such file")
        ranges = path.with_suffix(".ranges.json")
        return ModelSource(path.stem, path, ranges=ranges if ranges.is_file() else None)
    names = [*zoo_names(), *streaming_names()]
    raise ModelError(
        f"no model '{name_or_path}'; {did_you_mean(name_or_path, names)}in the zoo: {', '.join(names)}; "
        "or give a path to an .onnx, .dsl or .tflite file"
    )


def _model_file(folder: Path, manifest: dict[str, Any]) -> Path:
    """The file the manifest names under `dsl` or `onnx`; without either, model.dsl or model.onnx."""
    if "external" in manifest:
        return _external_file(manifest["name"], manifest["external"])
    for suffix in SUFFIXES:
        name = manifest.get(suffix.removeprefix("."))
        if name is not None:
            return folder / str(name)
    for suffix in SUFFIXES:
        if (folder / f"model{suffix}").is_file():
            return folder / f"model{suffix}"
    raise ModelError(f"{folder / 'model.yaml'}: names no model file; add onnx: NAME.onnx or dsl: NAME.dsl")


def _external_file(name: str, external: dict[str, str]) -> Path:
    """Weights that are not ours to hand out, in HIL_DATA."""
    setting = os.environ.get("HIL_DATA", "")
    path = Path(setting).expanduser() / external["file"]
    if not setting or not path.is_file():
        raise ModelError(
            f"{name}: its weights are not part of the project; set HIL_DATA to a folder with {external['file']}, "
            f"made from {external['origin']}"
        )
    return path


def zoo_names() -> list[str]:
    """Names of the bundled models; those whose weights must be had elsewhere are not among them."""
    manifests = asset("models").glob("*/model.yaml")
    return sorted(path.parent.name for path in manifests if "\nexternal:" not in path.read_text(encoding="utf-8"))


def streaming_names() -> list[str]:
    """Names of the bundled models that run over a stream, without a data set."""
    return sorted(path.parent.name for path in asset("models").glob(f"*/{STREAM}"))
