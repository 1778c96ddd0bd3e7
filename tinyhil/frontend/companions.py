"""What a model's file needs beside itself: it is part of the model, and travels with it."""

from __future__ import annotations

from pathlib import Path


def companions(path: Path) -> tuple[Path, ...]:
    """Files with weights of the model at `path`: ONNX's external data, the .npz of a DSL text.

    Of a file that can not be read none: who reads it says why.
    """
    if path.suffix == ".dsl":
        weights = path.with_suffix(".npz")
        return (weights,) if weights.is_file() else ()
    if path.suffix != ".onnx":
        return ()
    import onnx

    from tinyhil.frontend.external import side_files

    try:
        return side_files(onnx.load_model(path, load_external_data=False), path.parent)
    except Exception:  # ModelError, and the wide family that protobuf raises
        return ()
