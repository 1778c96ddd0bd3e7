"""`hil convert`: a model from one language into another, checked by reading it again."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np

from tinyhil.errors import ConfigError, ModelError
from tinyhil.files import write_bytes
from tinyhil.frontend import WRITTEN
from tinyhil.frontend.load import load_model
from tinyhil.harness.job.job import NO_STREAM, Streamed, open_model


def convert_model(name: str, out: Path, streamed: Streamed = NO_STREAM) -> list[Path]:
    """Write the model as `out`, by its suffix; returns the files written.

    ConfigError for an unsuitable name, ModelError for inputs the language has not.
    """
    if out.suffix.lower() not in WRITTEN:
        raise ConfigError(f"{out}: the languages are {', '.join(WRITTEN)}")
    opened = open_model(name, None, streamed)
    source, model = opened.source, opened.model
    if out.exists() and out.samefile(source.path):
        raise ConfigError(f"{out}: would replace the model itself; choose another name")
    for name in model.graph.pinned:
        raise ModelError(
            f"{source.path}: input '{name}' is of integers, `hil convert` writes inputs of real numbers only; "
            "let the model begin with a QuantizeLinear of its own"
        )
    try:
        if out.suffix.lower() == ".onnx":
            from tinyhil.frontend.onnx_writer import write_onnx

            files = {out: write_onnx(model.listing, out.stem, model.classes).SerializeToString()}
        else:
            from tinyhil.frontend.dsl_writer import write_dsl

            text, arrays = write_dsl(model.listing, f"{source.name}, written by hil convert")
            files = {out: text.encode()}
            if arrays:
                files[out.with_suffix(".npz")] = npz(arrays)
    except ModelError as error:
        raise ModelError(f"{source.path}: {error}") from None
    out.parent.mkdir(parents=True, exist_ok=True)
    for path, content in files.items():
        write_bytes(path, content)
    load_model(out)  # what was written can be read
    return list(files)


def npz(arrays: dict[str, np.ndarray]) -> bytes:
    """A .npz that is the same bytes for the same arrays: no times in it."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in arrays.items():
            content = io.BytesIO()
            np.lib.format.write_array(content, np.asarray(array, order="C"), allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), content.getvalue(), zipfile.ZIP_DEFLATED)
    return packed.getvalue()
