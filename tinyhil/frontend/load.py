"""Model file -> Model, whatever its language."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from tinyhil.compiler_pass import fold
from tinyhil.errors import ModelError
from tinyhil.frontend import SUFFIXES
from tinyhil.frontend.dead_channels import READ
from tinyhil.frontend.dsl import load_dsl
from tinyhil.frontend.listing import Model
from tinyhil.frontend.onnx import load_onnx
from tinyhil.frontend.ports import ANY_STREAM, Stream
from tinyhil.references.verify import checked


def _load_tflite(path: Path, stream: Stream) -> Model:
    """A second file's, too, that takes what this one gives. Imported where it is asked for: most commands read none."""
    from tinyhil.frontend.tflite import load_tflite
    from tinyhil.frontend.tflite_pair import load_pair

    return load_tflite(path, stream) if stream.then is None else load_pair(path, stream)


READERS = dict(zip(SUFFIXES, (load_onnx, lambda path, _: load_dsl(path), _load_tflite), strict=True))


def load_model(path: Path, stream: Stream = ANY_STREAM, without: Collection[str] = ()) -> Model:
    """The model in `path`, without the channels that are constant; ModelError if it is damaged, unsupported, or in no
    known language. `stream`: what is known of its states (frontend/ports.py). `without`: names of passes to leave out.
    """
    reader = _load_tflite if stream.then is not None else READERS.get(path.suffix.lower())
    if reader is None:
        raise ModelError(f"{path}: not a model file; known are {', '.join(SUFFIXES)}; hil docs exporters")
    if stream.rounding and path.suffix.lower() != ".tflite":
        raise ModelError(f"{path}: --tflite-rounding is for .tflite files; leave it out")
    model = reader(path, stream)
    checked(model.graph, "reading")
    return fold(READ, model, without=without)
