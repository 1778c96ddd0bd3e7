"""Operators that are others in disguise: rewritten into these while a model is read, whatever language it is in.

Each rewrite sees the shapes and constants of its operands and adds calls to the builder; None leaves the operator as it
is. The listing keeps what the user wrote.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from tinyhil.errors import ModelError
from tinyhil.frontend.builder import Builder
from tinyhil.frontend.listing import Call
from tinyhil.language.graph import Node, Shape
from tinyhil.ops.operator import axis_of, refuse

Results = tuple[str, ...] | None
Made = TypeVar("Made")
MICROSOFT, OWN_DOMAIN = "com.microsoft", "tinyhil"  # domains of operators besides ONNX's own


@dataclass(frozen=True, slots=True)
class Rewrite:
    """One operator of ONNX, or of `domain`. `attributes` are those understood; any other one refuses the model."""

    name: str
    summary: str
    apply: Callable[[Site], Results]
    attributes: tuple[str, ...] = ()
    domain: str = ""


class Site:
    """The call that is rewritten, and what takes its place."""

    def __init__(self, builder: Builder, call: Call) -> None:
        self.builder, self.call = builder, call
        self.stem = next((name for name in call.outputs if name), call.name)

    def shape(self, name: str) -> Shape:
        """Of a value, for one sample."""
        return self.builder.shapes[name]

    def value(self, name: str) -> np.ndarray | None:
        """The constant behind `name`."""
        return self.builder.constants.get(name)

    def input(self, index: int) -> str:
        """Name of an input, empty if it is left out."""
        return self.call.inputs[index] if index < len(self.call.inputs) else ""

    def static(self, index: int, what: str) -> np.ndarray:
        """Constant input `index`; ModelError if it is computed at run time."""
        value = self.value(self.input(index))
        if value is None:
            raise self.refuse(f"{what} computed at run time", f"export with a constant {what}")
        return value

    def attr(self, name: str, default: Any) -> Any:
        """An attribute of the call, bytes as text."""
        value = self.call.attrs.get(name, default)
        return value.decode() if isinstance(value, bytes) else value

    def axis(self, default: int, rank: int) -> int:
        """The attribute `axis`, counted from the front and without the batch; ModelError if `rank` has none such."""
        return axis_of(self._node(), int(self.attr("axis", default)), rank)

    def wants(self, index: int) -> bool:
        """Whether output `index` is asked for."""
        return index < len(self.call.outputs) and bool(self.call.outputs[index])

    def refuse(self, what: str, remedy: str) -> ModelError:
        """The error that names this call, to be raised."""
        return refuse(self._node(), what, remedy)

    def _node(self) -> Node:
        return Node(self.call.op, self.call.name, self.call.inputs, self.call.outputs, self.call.attrs)

    # ---- what takes its place

    def constant(self, part: str, array: Any, kind: type = np.float32) -> str:
        """ModelError if it is no finite number."""
        with np.errstate(over="ignore"):
            made: np.ndarray = np.asarray(array).astype(kind)
        if made.dtype.kind == "f" and not np.isfinite(made).all():
            raise self.refuse(f"its {part} is NaN or infinite", "check the weights")
        return self.builder.constant(f"{self.stem}.{part}", made)

    def make(self, op: str, *inputs: str, **attrs: Any) -> str:
        """Result of a new call."""
        return self._add(op, inputs, attrs, f"{self.stem}.{op.lower()}")

    def last(self, op: str, *inputs: str, **attrs: Any) -> tuple[str]:
        """The call that gives the result, which keeps its name."""
        return (self._add(op, inputs, attrs, self.stem),)

    def named(self, index: int, op: str, *inputs: str, **attrs: Any) -> str:
        """The call that gives result `index`."""
        return self._add(op, inputs, attrs, self.call.outputs[index])

    def _add(self, op: str, inputs: Sequence[str], attrs: dict[str, Any], wish: str) -> str:
        name = f"{self.call.name}.{op}" if op != self.call.op else self.call.name
        return self.builder.add(Call(op, name, tuple(inputs), (wish,), attrs))[0]


def sensible(site: Site, work: Callable[[], Made]) -> Made:
    """What `work` returns; whatever it stumbles over is the file's fault. ModelError for what makes no sense."""
    try:
        with np.errstate(all="ignore"):  # of numbers that are none
            return work()
    except (ValueError, LookupError, TypeError, ArithmeticError, MemoryError, AttributeError) as error:
        raise site.refuse(f"makes no sense ({str(error)[:120]})", "the file is damaged") from None
