"""Model file -> Model, whatever its language."""

from __future__ import annotations

from pathlib import Path

from tinyhil.errors import ModelError
from tinyhil.frontend import SUFFIXES
from tinyhil.frontend.dsl import load_dsl
from tinyhil.frontend.listing import Model
from tinyhil.frontend.onnx import load_onnx

READERS = dict(zip(SUFFIXES, (load_onnx, load_dsl), strict=True))


def load_model(path: Path) -> Model:
    """The model in `path`; ModelError if it is damaged, unsupported, or in no known language."""
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        raise ModelError(f"{path}: not a model file; known are {', '.join(SUFFIXES)}")
    return reader(path)
