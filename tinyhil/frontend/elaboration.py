"""What functions and indices of the DSL ask of the elaborator (elaborate.py) that carries them out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from tinyhil.frontend import syntax
from tinyhil.frontend.builder import Builder
from tinyhil.frontend.tokens import Place
from tinyhil.frontend.values import Value
from tinyhil.language.graph import Shape


class Elaboration(Protocol):
    """Expressions become tensors, operators become calls; DslError at the place where that can not be."""

    @property
    def builder(self) -> Builder:
        """What the calls are given to."""

    def call(self, op: str, inputs: Sequence[str], at: Place, wish: str = "", **attrs: object) -> str:
        """The one result of an operator."""

    def integers(self, values: Sequence[int]) -> str:
        """A parameter of an operator."""

    def lookup(self, name: str) -> Value | None:
        """What a name stands for, if it stands for anything."""

    def named(self, item: syntax.Name) -> Value:
        """What the name is bound to in scope."""

    def operand(self, item: syntax.Expression, kind: type = np.float32) -> str:
        """The tensor that an expression stands for, a literal of `kind` as a constant."""

    def part(self) -> str:
        """A name for a part of what is being named."""

    def shape(self, name: str) -> Shape:
        """Of a tensor, for one sample."""

    def static(self, item: syntax.Expression) -> int:
        """A whole number known now."""

    def tensor(self, value: Value, at: Place, kind: type = np.float32) -> str:
        """The value as a tensor; numbers become constants of `kind`."""
