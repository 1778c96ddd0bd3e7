"""Writing models in the DSL and back, and what it means that two graphs are the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tinyhil.frontend.dsl_writer import write_dsl
from tinyhil.frontend.listing import Model
from tinyhil.frontend.load import load_model
from tinyhil.frontend.onnx_writer import write_onnx
from tinyhil.harness.offline.convert import npz
from tinyhil.language.program import Loop, Op, Program


def from_text(text: str, folder: Path, arrays: dict[str, np.ndarray] | None = None, name: str = "m") -> Model:
    """A DSL text through a file and the front end."""
    path = folder / f"{name}.dsl"
    path.write_text(text)
    if arrays is not None:
        np.savez(path.with_suffix(".npz"), **arrays)
    return load_model(path)


def through_dsl(model: Model, folder: Path, name: str = "again") -> Model:
    text, arrays = write_dsl(model.listing, "a test")
    path = folder / f"{name}.dsl"
    path.write_text(text)
    path.with_suffix(".npz").write_bytes(npz(arrays))
    return load_model(path)


def through_onnx(model: Model, folder: Path, name: str = "again") -> Model:
    path = folder / f"{name}.onnx"
    path.write_bytes(write_onnx(model.listing, name).SerializeToString())
    return load_model(path)


def without_names(program: Program) -> Any:
    """A program with its tensors numbered in order of appearance: equal for equal integers and operations."""
    numbers: dict[str, int] = {}

    def number(name: str) -> int:
        return numbers.setdefault(name, len(numbers))

    def plain(item: Op | Loop) -> Any:
        if isinstance(item, Loop):
            slices = tuple((number(a), number(b)) for a, b in item.slices)
            known = {"name": "", "slices": (), "body": ()}
            return (replace(item, **known), slices, tuple(plain(inner) for inner in item.body))
        operands = tuple(number(name) for name in item.tensors)
        return (replace(item, name="", inputs=(), output="", scratch="", params=dict(item.params)), operands)

    number(program.input)
    body = tuple(plain(item) for item in program.body)
    number(program.output)
    tensors = [replace(program.tensors[name], name="") for name in numbers]
    constants = [tuple(program.constants[name]) if name in program.constants else None for name in numbers]
    return body, tensors, constants, number(program.output), program.input_shape, program.output_shape
