"""DSL file -> Model. The language is described in docs/dsl.md; large constants are in the .npz beside the text."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np

from tinyhil import files
from tinyhil.errors import ModelError
from tinyhil.frontend import syntax
from tinyhil.frontend.builder import Builder
from tinyhil.frontend.elaborate import Elaborator
from tinyhil.frontend.listing import Ends, Model
from tinyhil.frontend.onnx import checked_weights
from tinyhil.frontend.parser import parse
from tinyhil.frontend.rewrites import rewritten
from tinyhil.frontend.tokens import DslError

MAX_TEXT_BYTES = 1 << 20
MAX_WEIGHTS_BYTES = 1 << 30


class Weights:
    """The .npz beside a DSL text, opened when the first declaration asks for it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.content = b""
        self._arrays: dict[str, np.ndarray] | None = None

    def read(self, declared: syntax.Declaration, name: str) -> np.ndarray:
        """The array `name`; ModelError unless it holds numbers of the declared shape within the declared range."""
        arrays = self._load()
        if name not in arrays:
            raise ModelError(f"{self.path.name} has no array '{name}'; it holds {', '.join(arrays) or 'nothing'}")
        array = checked_weights(arrays[name], name)
        if array.shape != declared.shape:
            raise ModelError(f"'{name}' is declared as {list(declared.shape)}, its array has {list(array.shape)}")
        if missing := int(np.isnan(array).sum()):
            raise ModelError(f"weights '{name}' hold {missing} values that are NaN; train or export again")
        low, high = np.float32(declared.low), np.float32(declared.high)
        if array.size and not low <= array.min() <= array.max() <= high:
            found = f"{array.min():g} to {array.max():g}"
            raise ModelError(f"'{name}' is declared in [{low:g}, {high:g}], its array holds {found}")
        return array

    def _load(self) -> dict[str, np.ndarray]:
        if self._arrays is None:
            if not self.path.exists():
                raise ModelError(f"its values are in {self.path.name}, which is missing; put it beside the text")
            self.content = files.read_bytes(self.path, ".npz of weights", MAX_WEIGHTS_BYTES, ModelError)
            found = files.parse_arrays(self.content, self.path.name, ModelError)
            if isinstance(found, np.ndarray):
                raise ModelError(f"{self.path.name}: one array alone; its weights are wanted by name, in a .npz")
            self._arrays = found
        return self._arrays


def load_dsl(path: Path) -> Model:
    """Read, check and convert a DSL text. ModelError names file, line and column."""
    data = files.read_bytes(path, "text of a model (weights go into an .npz)", MAX_TEXT_BYTES, ModelError)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise ModelError(f"{path}: not UTF-8 at byte {error.start}; save it as text") from None
    weights = Weights(path.with_suffix(".npz"))
    try:
        return _model(text, path, weights, data)
    except DslError as error:
        raise ModelError(f"{path}:{error}") from None
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from None


def _model(text: str, path: Path, weights: Weights, data: bytes) -> Model:
    program = parse(text)
    builder = Builder(rewritten)
    source, output = Elaborator(builder, weights.read).program(program)
    graph, listing = builder.finish(path.stem, Ends(source, output))
    given = program.inputs[0]
    declared = {source: (given.low, given.high)} if given.low <= given.high else {}
    return Model(graph, path, hashlib.sha256(data + weights.content).hexdigest(), listing, declared)
