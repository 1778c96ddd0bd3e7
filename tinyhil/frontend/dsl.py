"""DSL file -> Model. The language is described in docs/dsl.md; large constants are in the .npz beside the text."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

import numpy as np

from tinyhil.errors import ModelError
from tinyhil.frontend import syntax
from tinyhil.frontend.builder import Builder
from tinyhil.frontend.elaborate import Elaborator
from tinyhil.frontend.listing import Model
from tinyhil.frontend.onnx import checked_weights
from tinyhil.frontend.parser import parse
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
        """The array `name`; DslError unless it has the declared shape and lies in the declared range."""
        arrays = self._load()
        if name not in arrays:
            raise ModelError(f"{self.path.name} has no array '{name}'; it holds {', '.join(arrays) or 'nothing'}")
        array = checked_weights(arrays[name], name)
        if array.shape != declared.shape:
            raise ModelError(f"'{name}' is declared as {list(declared.shape)}, its array has {list(array.shape)}")
        low, high = np.float32(declared.low), np.float32(declared.high)
        if array.size and not low <= array.min() <= array.max() <= high:
            found = f"{array.min():g} to {array.max():g}"
            raise ModelError(f"'{name}' is declared in [{low:g}, {high:g}], its array holds {found}")
        return array

    def _load(self) -> dict[str, np.ndarray]:
        if self._arrays is None:
            try:
                self.content = self.path.read_bytes()
                with zipfile.ZipFile(self.path) as archive:
                    size = sum(entry.file_size for entry in archive.infolist())
                if size > MAX_WEIGHTS_BYTES:
                    raise ModelError(f"{self.path.name}: {size} B of weights, the limit is {MAX_WEIGHTS_BYTES}")
                with np.load(self.path, allow_pickle=False) as loaded:
                    self._arrays = {key: value for key, value in loaded.items() if isinstance(value, np.ndarray)}
            except FileNotFoundError:
                raise ModelError(
                    f"its values are in {self.path.name}, which is missing; put it beside the text"
                ) from None
            except ModelError:
                raise
            except Exception as error:  # zip, zlib and numpy raise a wide family; all of them mean a damaged file
                raise ModelError(f"{self.path.name}: not a readable .npz ({str(error)[:100]})") from None
        return self._arrays


def load_dsl(path: Path) -> Model:
    """Read, check and convert a DSL text. ModelError names file, line and column."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ModelError(f"{path}: {error.strerror}") from None
    if len(data) > MAX_TEXT_BYTES:
        raise ModelError(f"{path}: {len(data)} B of text, the limit is {MAX_TEXT_BYTES}; put weights into an .npz")
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
    builder = Builder()
    source, output = Elaborator(builder, weights.read).program(program)
    graph, listing = builder.finish(path.stem, source, output)
    given = program.inputs[0]
    declared = {source: (given.low, given.high)} if given.low <= given.high else {}
    return Model(graph, path, hashlib.sha256(data + weights.content).hexdigest(), listing, declared)
