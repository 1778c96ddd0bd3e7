"""Weights that an ONNX file keeps in another file beside it (`external_data`)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import onnx

from tinyhil.errors import ModelError

if TYPE_CHECKING:
    from hashlib import _Hash

MAX_BYTES = 1 << 30  # of all tensors together; protobuf ends at 2 GB


def with_external_data(proto: onnx.ModelProto, folder: Path, digest: _Hash) -> None:
    """Move weights from files in `folder` into the tensors of `proto`, and those bytes into the hash."""
    total = 0
    for tensor in list(_tensors(proto.graph)):
        if tensor.data_location != onnx.TensorProto.EXTERNAL:
            continue
        where = {entry.key: entry.value for entry in tensor.external_data}
        content = _read(tensor.name, folder, where, MAX_BYTES - total)
        total += len(content)
        digest.update(content)
        tensor.raw_data = content
        tensor.ClearField("external_data")
        tensor.data_location = onnx.TensorProto.DEFAULT


def side_files(proto: onnx.ModelProto, folder: Path) -> tuple[Path, ...]:
    """The files in `folder` that tensors of `proto` are in, each once; ModelError for one that is not there."""
    external = [one for one in _tensors(proto.graph) if one.data_location == onnx.TensorProto.EXTERNAL]
    named = ((one.name, next((e.value for e in one.external_data if e.key == "location"), "")) for one in external)
    return tuple(dict.fromkeys(_place(name, folder, location)[0] for name, location in named))


def _place(name: str, folder: Path, location: str) -> tuple[Path, str]:
    """Where the weights are, and how that is said."""
    said = f"weights '{name}' are in another file, {location!r}"
    path = folder / location
    named_inside = bool(location) and not Path(location).is_absolute() and ".." not in Path(location).parts
    if not named_inside or path.resolve() != folder.resolve() / location:  # a link, of a file or a folder, leads away
        raise ModelError(f"{said}, which is not in the folder of the model; save the model with the weights inside")
    if not path.is_file():
        raise ModelError(f"{said}, which is missing; put it beside the model")
    return path, said


def _read(name: str, folder: Path, where: dict[str, str], budget: int) -> bytes:
    path, said = _place(name, folder, where.get("location", ""))
    try:
        offset, size = int(where.get("offset") or 0), path.stat().st_size
        length = int(where["length"]) if where.get("length") else size - offset
    except ValueError:
        raise ModelError(f"{said}: its place there makes no sense; export again") from None
    if offset < 0 or length < 0 or offset + length > size:
        raise ModelError(f"{said}: bytes {offset} to {offset + length} of {size}; one of the files is damaged")
    if length > budget:
        raise ModelError(f"{said}: more than {MAX_BYTES} bytes of weights; no board holds them")
    with path.open("rb") as file:
        file.seek(offset)
        return file.read(length)


def _tensors(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.TENSOR:
                yield attribute.t
            elif attribute.type == onnx.AttributeProto.GRAPH:
                yield from _tensors(attribute.g)
