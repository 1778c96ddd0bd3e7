"""What a .tflite file holds, as plain records: tensors, operations between them, and what lasts from step to step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tinyhil.language.graph import Shape

TWICE = ("tflm", "cmsis-nn")  # TensorFlow Lite Micro's reference kernels, and CMSIS-NN's


@dataclass(frozen=True, slots=True)
class Tensor:
    """`data` is None for what is computed; `scales` is None for what is not quantized."""

    name: str
    shape: Shape
    kind: str
    data: np.ndarray | None
    scales: np.ndarray | None
    zeros: np.ndarray | None
    axis: int
    is_variable: bool = False


@dataclass(frozen=True, slots=True)
class State:
    """What lasts from step to step: tensor `read` before a step; `start` is its content before the first."""

    name: str
    read: int
    start: np.ndarray


@dataclass(frozen=True, slots=True)
class Operation:
    """One operator; inputs are numbers of tensors, -1 where one is left out."""

    op: str
    number: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Of the node it becomes: what it does and its number in the file."""
        return f"{self.op.lower()}_{self.number}"


@dataclass(frozen=True, slots=True)
class File:
    """Tensors and operations of a TensorFlow Lite file."""

    tensors: tuple[Tensor, ...]
    operations: tuple[Operation, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    states: tuple[State, ...] = ()
    handles: Mapping[int, str] = field(default_factory=dict)  # tensor -> name of the variable that it stands for
    runtime: str = ""  # whose integers, where these differ; empty: LiteRT's, in files with variables tflm's
    graphs: tuple[File, ...] = ()  # all subgraphs of the file, which IF and WHILE choose by their numbers

    @property
    def rounds_twice(self) -> bool:
        """Whether fully connected layers of int8 round their product and then its shift, as convolutions do."""
        return self.runtime in TWICE or (not self.runtime and bool(self.handles))
