"""Listing -> DSL text and the arrays that go into the .npz beside it.

One operator per line, in the order of the model, with the shape of the result behind it. Numbers used once stand where
they are used, small tensors in the text, larger ones in the .npz; names are those of the model, made words.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tinyhil.errors import ModelError
from tinyhil.frontend.listing import Block, Call, Listing
from tinyhil.frontend.tokens import INFINITE, KEYWORDS
from tinyhil.language.graph import Shape
from tinyhil.names import free_name
from tinyhil.ops import OPERATOR_BY_NAME

MAX_INLINE_ELEMENTS = 16
WIDTH = 100  # of a line of numbers
INFIX = {"Add": "+", "Sub": "-", "Div": "/", "Mul": "<*>", "MatMul": "*"}
FUNCTIONS = {"Exp": "exp", "Relu": "relu", "Sigmoid": "sigmoid", "Sign": "sgn", "Tanh": "tanh"}
RESHAPES = ("Flatten", "Reshape", "Squeeze", "Unsqueeze")


def write_dsl(listing: Listing, title: str) -> tuple[str, dict[str, np.ndarray]]:
    """The text, with the comment `title` on top, and the arrays for the .npz; ModelError if a call has no words."""
    return Writer(listing).write(title)


class Writer:
    """Lives for one listing."""

    def __init__(self, listing: Listing) -> None:
        self._listing = listing
        self._uses = Counter(name for call in listing.block.walk() for name in call.inputs)
        for block in listing.block.blocks():
            self._uses.update(block.outputs)
        self._names = _words([*self._values(listing.block), *listing.constants])
        self._declared: dict[str, str] = {}
        self._arrays: dict[str, np.ndarray] = {}

    def write(self, title: str) -> tuple[str, dict[str, np.ndarray]]:
        """The text, `title` as its comment, and the arrays that it reads from beside it, by name."""
        block = self._listing.block
        lines = list(self._lines(block, ""))
        source = block.inputs[0]
        head = [f"// {line}" for line in title.splitlines()]
        head += ["", f"input {self._names[source]} = {_dims(self._shape(source))} in"]
        return "\n".join([*head, *self._declared.values(), *lines]) + "\n", self._arrays

    def _values(self, block: Block) -> Iterator[str]:
        """Every run-time value, in order of appearance."""
        yield from block.inputs
        for call in block.calls:
            for body in call.bodies.values():
                yield from self._values(body)
            yield from (name for name in call.outputs if name)

    def _shape(self, name: str) -> Shape:
        return self._listing.shapes[name]

    # ---- blocks

    def _lines(self, block: Block, indent: str, states: int | None = None) -> Iterator[str]:
        for call in block.calls:
            yield from self._let(call, indent)
        results = [self.operand(name) for name in block.outputs]
        text = ", ".join(results[:states])
        yield indent + (
            text if states is None or states == len(results) else f"{text}; {', '.join(results[states:])}".lstrip()
        )

    def _let(self, call: Call, indent: str) -> Iterator[str]:
        outputs = list(call.outputs)
        while outputs and not outputs[-1]:
            outputs.pop()
        targets = ", ".join(self._names[name] if name else "_" for name in outputs)
        shapes = ", ".join(_dims(self._shape(name)) for name in outputs if name)
        if call.op in ("Repeat", "Scan"):
            yield from self._loop(call, targets, shapes, indent)
            return
        if call.bodies:
            raise ModelError(f"node '{call.name}' ({call.op}): the DSL has no words for it")
        line = f"{indent}let {targets} = {self._expression(call)} in"
        yield f"{line:<{60 if len(line) < 60 else 100}}  // {shapes}"

    def _loop(self, call: Call, targets: str, shapes: str, indent: str) -> Iterator[str]:
        body = call.bodies["body"]
        states = len(call.inputs) - int(call.attrs["num_scan_inputs"])
        axes = call.attrs.get("scan_input_axes") or [0] * (len(call.inputs) - states)
        names = [self._names[name] for name in body.inputs]
        header = [f"{name} = {self.operand(value)}" for name, value in zip(names, call.inputs[:states], strict=False)]
        step, rows, count = free_name("t", set(self._names.values()), mark="_"), [], int(call.attrs.get("count", 0))
        for name, value, axis in zip(names[states:], call.inputs[states:], axes, strict=True):
            shape = self._shape(value)
            position = int(axis) % len(shape)
            count = shape[position]
            rows.append(f"{name} = {self.operand(value)}[{':, ' * position}{step}]")
        span = f"[{count}:0]" if _is_backward(call, len(body.outputs) - states) else f"[0:{count}]"
        clauses = ", ".join([f"{step} = {span}", *header]) + (f"; {', '.join(rows)}" if rows else "")
        yield f"{indent}let {targets} =  // {shapes}"
        yield f"{indent}  loop ({clauses}) {{"
        yield from self._lines(body, indent + "    ", states)
        yield f"{indent}  }} in"

    # ---- operands

    def operand(self, name: str) -> str:
        """The text that stands for a value: its name, or the number it is."""
        if not name:
            return "_"
        array = self._listing.constants.get(name)
        if array is None:
            return self._names[name]
        if self._uses[name] == 1 and array.shape == () and _is_plain(array):
            return _number(array.item(), array.dtype)
        if name not in self._declared:
            self._declare(name, array)
        return self._names[name]

    def _declare(self, name: str, array: np.ndarray) -> None:
        word = self._names[name]
        if array.size <= MAX_INLINE_ELEMENTS and array.size and _is_plain(array):
            begin = f"let {word} = "
            self._declared[name] = f"{begin}{_nested(array, ' ' * len(begin))} in"
            return
        if array.size == 0:
            raise ModelError(f"constant '{name}' has no elements; the DSL has no words for it")
        if _is_plain(array) and array.dtype.kind == "f" and (array == array.flat[0]).all():
            shape = f"[{', '.join(map(str, array.shape))}]"
            self._declared[name] = f"let {word} = init({shape}, {_number(array.flat[0], array.dtype)}) in"
            return
        self._arrays[word] = array
        low, high = (_number(end.item(), array.dtype) for end in (array.min(), array.max()))
        self._declared[name] = f"let {word} = {_dims(array.shape)} in [{low}, {high}] in"

    def parameter(self, name: str) -> list[int] | None:
        """The integers of a constant operand; None if it is left out."""
        if not name:
            return None
        return [int(value) for value in self._listing.constants[name].reshape(-1)]

    # ---- expressions

    def _expression(self, call: Call) -> str:
        for say in (self._arithmetic, self._view, self._slice, self._gather, self._window):
            text = say(call)
            if text is not None:
                return text
        inputs = list(call.inputs)
        while inputs and not inputs[-1]:
            inputs.pop()
        parts = [self._argument(name) for name in inputs]
        parts += [f"{name}={_option(call, name, value)}" for name, value in call.attrs.items()]
        return f"{call.op}({', '.join(parts)})"

    def _argument(self, name: str) -> str:
        """An operand of an ONNX operator by name: a list of integers may stand where it is used."""
        array = self._listing.constants.get(name)
        if array is not None and array.dtype == np.int64 and array.ndim == 1 and 0 < array.size <= MAX_INLINE_ELEMENTS:
            return _nested(array, "")
        return self.operand(name)

    def _arithmetic(self, call: Call) -> str | None:
        if call.op in INFIX and len(call.inputs) == 2:
            mark = INFIX[call.op]
            if call.op == "Mul" and any(self._shape(name) == () for name in call.inputs):
                mark = "*"
            if call.op == "MatMul" and any(self._shape(name) == () for name in call.inputs):
                return None
            left, right = (self.operand(name) for name in call.inputs)
            return f"{left} {mark} {right}"
        if call.op in FUNCTIONS:
            return f"{FUNCTIONS[call.op]}({self.operand(call.inputs[0])})"
        if call.op == "Neg":
            return f"-{self.operand(call.inputs[0])}"
        return None

    def _view(self, call: Call) -> str | None:
        source = call.inputs[0] if call.inputs else ""
        known = OPERATOR_BY_NAME.get(call.op)
        if known is None or not source:
            return None
        if call.op == "Transpose" and list(call.attrs.get("perm", ())) in (
            [],
            [*range(len(self._shape(source)))][::-1],
        ):
            return f"{self.operand(source)}^T"
        if not known.is_view:
            return None
        if call.op in RESHAPES:
            return f"reshape({self.operand(source)}, {_dims(self._shape(call.outputs[0]))})"
        return f"Identity({self.operand(source)})"

    def _slice(self, call: Call) -> str | None:
        if call.op != "Slice":
            return None
        source, shape = call.inputs[0], self._shape(call.inputs[0])
        starts, ends, axes, steps = (self.parameter(name) for name in (*call.inputs[1:], "", "")[:4])
        if starts is None or ends is None or any(step != 1 for step in steps or ()):
            return None
        indices = [":"] * len(shape)
        for start, end, axis in zip(starts, ends, axes or range(len(starts)), strict=True):
            taken = range(shape[axis])[start:end]
            indices[axis] = f"{taken.start}:+{len(taken)}"
        while indices and indices[-1] == ":":
            indices.pop()
        return f"{self.operand(source)}[{', '.join(indices)}]" if indices else None

    def _gather(self, call: Call) -> str | None:
        """x[k] for an index computed at run time."""
        if call.op != "Gather" or set(call.attrs) - {"axis"}:
            return None
        if call.inputs[1] in self._listing.constants or self._shape(call.inputs[1]) not in ((), (1,)):
            return None
        axis = int(call.attrs.get("axis", 0)) % len(self._shape(call.inputs[0]))
        return f"{self.operand(call.inputs[0])}[{':, ' * axis}{self._names[call.inputs[1]]}]"

    def _window(self, call: Call) -> str | None:
        """conv2d and maxpool, where their groups say all there is to say."""
        attrs = dict(call.attrs)
        if call.op not in ("Conv", "MaxPool") or len(self._shape(call.inputs[0])) != 4 or len(call.outputs) != 1:
            return None
        kernel = attrs.pop("kernel_shape", None)
        pads = attrs.pop("pads", None) or [0, 0, 0, 0]
        strides = attrs.pop("strides", None) or [1, 1]
        groups = {"s": strides, "p": [pads[0], pads[2], pads[1], pads[3]]}
        if call.op == "Conv":
            groups.update(d=attrs.pop("dilations", None) or [1, 1], g=[attrs.pop("group", 1)])
        elif kernel is not None:
            groups = {"k": kernel, **groups}
        if attrs or (call.op == "MaxPool" and kernel is None):
            return None
        parts = [self.operand(name) for name in call.inputs]
        parts += [f"{{{letter} {' '.join(map(str, values))}}}" for letter, values in groups.items()]
        return f"{'conv2d' if call.op == 'Conv' else 'maxpool'}({', '.join(parts)})"


def _is_backward(call: Call, collected: int) -> bool:
    """Whether a loop reads its rows last first, and collects them so that they lie as they were read."""
    directions = list(call.attrs.get("scan_input_directions") or [0])
    outputs = list(call.attrs.get("scan_output_directions") or [0] * collected)
    if len({*directions, *outputs}) > 1:
        raise ModelError(f"node '{call.name}' ({call.op}): the DSL has no words for loops in two directions")
    return directions[0] == 1


def _words(names: Sequence[str]) -> dict[str, str]:
    """An identifier of the DSL for each name: its letters and digits, numbered where two would be the same."""
    words: dict[str, str] = {}
    taken = {"_", INFINITE, *KEYWORDS}
    for name in names:
        if name in words or not name:
            continue
        word = re.sub(r"[^A-Za-z0-9_]+", "_", name).strip("_") or "v"
        word = free_name(f"v_{word}" if word[0].isdigit() else word, taken, mark="_")
        taken.add(word)
        words[name] = word
    return words


def _dims(shape: Sequence[int]) -> str:
    return f"({', '.join(map(str, shape))})"


def _is_plain(array: np.ndarray) -> bool:
    """Whether its numbers in the text make the same array again."""
    return array.dtype in (np.float32, np.int64)


def _number(value: float, dtype: np.dtype[Any]) -> str:
    """The shortest text that is read as exactly this number; a real number always has a point or an exponent."""
    if dtype.kind != "f":
        return str(int(value))
    if np.isinf(value):
        return INFINITE if value > 0 else f"-{INFINITE}"
    short = str(np.float32(value))
    text = short if np.float32(float(short)) == np.float32(value) else repr(float(value))
    return text if any(mark in text for mark in ".e") else f"{text}.0"


def _nested(array: np.ndarray, indent: str) -> str:
    """Rows in brackets, one line each where there are several."""
    if array.ndim == 0:
        return _number(array.item(), array.dtype)
    if array.ndim == 1:
        return f"[{', '.join(_number(value.item(), array.dtype) for value in array)}]"
    rows = [_nested(row, indent + " ") for row in array]
    joined = f"[{', '.join(rows)}]"
    return joined if len(joined) <= WIDTH and "\n" not in joined else "[" + f",\n{indent} ".join(rows) + "]"


def _option(call: Call, name: str, value: Any) -> str:
    if isinstance(value, bytes):
        value = value.decode(errors="replace")
    if isinstance(value, str) and re.fullmatch(r"[^\"\n]*", value):
        return f'"{value}"'
    if isinstance(value, bool | int | np.integer):
        return str(int(value))
    if isinstance(value, float):
        return _number(value, np.dtype(np.float32))
    if isinstance(value, Sequence) and not isinstance(value, str) and value:
        return f"[{', '.join(_option(call, name, item) for item in value)}]"
    raise ModelError(f"node '{call.name}' ({call.op}): the DSL has no words for its attribute '{name}'")
