"""Syntax tree of the DSL -> calls: names become values, sugar becomes ONNX operators, errors get their place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from tinyhil.errors import ModelError
from tinyhil.frontend import functions, indexing, syntax
from tinyhil.frontend.builder import Builder
from tinyhil.frontend.listing import Call
from tinyhil.frontend.row_reads import Row, rows_read
from tinyhil.frontend.tokens import BEYOND, DslError, Place
from tinyhil.frontend.values import Known, Scope, Step, Value
from tinyhil.language.graph import Shape

MAX_UNROLLED_CALLS = 1 << 14  # copies of calls that a sum may make

Read = Callable[[syntax.Declaration, str], np.ndarray]
OPERATORS = {"+": "Add", "-": "Sub", "/": "Div", "<*>": "Mul", "<+>": "Add", "<->": "Sub"}


class Elaborator:
    """Lives for one program. `read` gives the values of a declaration."""

    def __init__(self, builder: Builder, read: Read) -> None:
        self.builder = builder
        self._read = read
        self._scope: Scope = {}
        self._wish = "value"
        self._parts = 0
        self._calls = 0

    def program(self, program: syntax.Program) -> tuple[str, str]:
        """Names of the input and the output."""
        if len(program.inputs) != 1:
            at = program.inputs[1].at if program.inputs else program.block.at
            raise at.error(f"{len(program.inputs)} inputs; exactly one is supported: input x = (1, 9) in")
        given, block = program.inputs[0], program.block
        if not given.shape or 0 in given.shape:
            raise given.at.error(f"an input of shape {list(given.shape)}; give every axis a size above 0")
        with self.placed(given.at):
            source = self.builder.value(given.name, given.shape)
        self._scope[given.name] = source
        results = self.block(block)
        if len(results) != 1 or block.collected:
            raise block.at.error("a program has one result; concatenate them")
        return source, results[0]

    # ---- values

    @contextmanager
    def placed(self, at: Place) -> Iterator[None]:
        """Errors of the builder get the place `at`."""
        try:
            yield
        except DslError:
            raise
        except ModelError as error:
            raise at.error(str(error)) from None

    def tensor(self, value: Value, at: Place, kind: type = np.float32) -> str:
        """The value as a tensor; numbers become constants of `kind`."""
        if isinstance(value, str):
            return value
        if isinstance(value, Step):
            raise at.error(f"the step '{value.variable}' is not a number; read rows by it, as in x[{value.variable}]")
        if not value.literal.is_integer:
            kind = np.float32
        if kind.__name__ not in value.names:
            with np.errstate(over="ignore"):
                array: np.ndarray = np.array(value.literal.values, kind).reshape(value.literal.shape)
            if (np.isinf(array).reshape(-1) & np.isfinite(value.literal.values)).any():
                raise at.error(BEYOND)
            value.names[kind.__name__] = self.builder.constant(value.wish, array)
        return value.names[kind.__name__]

    def shape(self, name: str) -> Shape:
        """Of a tensor, for one sample."""
        return self.builder.shapes[name]

    def call(self, op: str, inputs: Sequence[str], at: Place, wish: str = "", **attrs: object) -> str:
        """The one result of an operator."""
        return self.calls(Call(op, wish or self.part(), tuple(inputs), (wish or self.part(),), attrs), at)[0]

    def calls(self, call: Call, at: Place) -> tuple[str, ...]:
        """Results of a call added to the graph; DslError at `at` beyond MAX_UNROLLED_CALLS of them."""
        self._calls += 1
        if self._calls > MAX_UNROLLED_CALLS:
            raise at.error(f"more than {MAX_UNROLLED_CALLS} operations; use a loop over rows instead of a sum")
        with self.placed(at):
            return self.builder.add(call)

    def integers(self, values: Sequence[int]) -> str:
        """A parameter of an operator."""
        return self.builder.constant(self.part(), np.array(values, np.int64))

    def part(self) -> str:
        """A name for a part of what is being named."""
        self._parts += 1
        return f"{self._wish}_{self._parts}"

    # ---- blocks

    def block(self, block: syntax.Block) -> tuple[str, ...]:
        """Results and collected values of a block, as tensors. The names it binds end with it."""
        outer, self._scope = self._scope, dict(self._scope)
        for let in block.lets:
            self._let(let)
        results = [self.tensor(self.value(item, "result"), item.at) for item in (*block.results, *block.collected)]
        self._scope = outer
        return tuple(results)

    def _let(self, let: syntax.Let) -> None:
        before = self._wish, self._parts
        self._wish, self._parts = let.targets[0], 0
        if let.indices:
            self._scope[let.targets[0]] = indexing.replaced(self, let)
        elif len(let.targets) == 1:
            self._scope[let.targets[0]] = self.value(let.value, let.targets[0])
        else:
            self._scope.update(zip(let.targets, self._several(let), strict=True))
        self._wish, self._parts = before

    def _several(self, let: syntax.Let) -> Sequence[Value]:
        wishes = tuple("" if name == "_" else name for name in let.targets)
        if isinstance(let.value, syntax.Loop):
            found: Sequence[str] = self._loop(let.value, let.targets)
        elif isinstance(let.value, syntax.Call) and let.value.function not in functions.FUNCTIONS:
            found = self._operator(let.value, wishes)
        else:
            raise let.at.error(f"one value for the {len(let.targets)} names {', '.join(let.targets)}")
        if len(found) != len(let.targets):
            raise let.at.error(f"{len(found)} values for the {len(let.targets)} names {', '.join(let.targets)}")
        return found

    # ---- expressions

    def operand(self, item: syntax.Expression, kind: type = np.float32) -> str:
        """The tensor that an expression stands for, a literal of `kind` as a constant."""
        return self.tensor(self.value(item, ""), item.at, kind)

    def value(self, item: syntax.Expression, wish: str) -> Value:
        """The value of an expression; `wish` is its name if an operator computes it, '' for any."""
        match item:
            case syntax.Literal():
                return Known(item, wish or self.part())
            case syntax.Name():
                return self.named(item)
            case syntax.Negated():
                return self._negated(item, wish)
            case syntax.Binary():
                return self._binary(item, wish)
            case syntax.Transposed():
                return self.call("Transpose", [self.operand(item.operand)], item.at, wish)
            case syntax.Indexed():
                return indexing.indexed(self, item, wish)
            case syntax.Call():
                return self._called(item, wish)
            case syntax.Sum():
                return self._sum(item, wish)
            case syntax.Loop():
                return self._loop(item, (wish or self.part(),))[0]
            case syntax.Conditional():
                return self._conditional(item, wish)
            case syntax.Declaration():
                return self._declared(item, wish)
            case syntax.Group() | syntax.Dims():
                raise item.at.error("several values where one is needed")
        raise AssertionError(item)

    def lookup(self, name: str) -> Value | None:
        """What a name stands for, if it stands for anything."""
        return self._scope.get(name)

    def named(self, item: syntax.Name) -> Value:
        """What the name is bound to in scope; DslError if nothing is."""
        if item.name not in self._scope:
            raise item.at.error(f"'{item.name}' is not defined; bind it with let before")
        return self._scope[item.name]

    def _declared(self, item: syntax.Declaration, wish: str) -> str:
        with self.placed(item.at):
            return self.builder.constant(wish, self._read(item, wish))

    def _negated(self, item: syntax.Negated, wish: str) -> Value:
        value = self.value(item.operand, "")
        if isinstance(value, Known) and value.integer is not None:
            return self._number(item.at, -value.integer, wish)
        return self.call("Neg", [self.tensor(value, item.at)], item.at, wish)

    def _number(self, at: Place, value: syntax.Number, wish: str) -> Known:
        return Known(syntax.Literal(at, (), (value,)), wish or self.part())

    def _binary(self, item: syntax.Binary, wish: str) -> Value:
        left, right = self.value(item.left, ""), self.value(item.right, "")
        if isinstance(left, Known) and isinstance(right, Known):
            a, b = left.integer, right.integer
            if a is not None and b is not None and item.operator in ("+", "-", "*"):  # indices are computed now
                result = {"+": a + b, "-": a - b, "*": a * b}[item.operator]
                return self._number(item.at, result, wish)
        a_name, b_name = self.tensor(left, item.left.at), self.tensor(right, item.right.at)
        if item.operator in ("*", "|*|"):
            scalar = item.operator == "*" and () in (self.shape(a_name), self.shape(b_name))
            return self.call("Mul" if scalar else "MatMul", [a_name, b_name], item.at, wish)
        if item.operator in ("<+>", "<->"):
            b_name = functions.by_channel(self, b_name, len(self.shape(a_name)), item.at)
        return self.call(OPERATORS[item.operator], [a_name, b_name], item.at, wish)

    def _called(self, item: syntax.Call, wish: str) -> Value:
        function = functions.FUNCTIONS.get(item.function)
        if function is not None:
            return function(self, item, wish or self.part())
        return self._operator(item, (wish or self.part(),))[0]

    def _operator(self, item: syntax.Call, wishes: tuple[str, ...]) -> tuple[str, ...]:
        """An ONNX operator by its own name: integers stay integers."""
        if item.braces:
            raise item.at.error(f"groups in braces belong to conv2d, maxpool and mbconv, not to {item.function}")
        if not item.function[0].isupper():
            known = ", ".join(sorted(functions.FUNCTIONS))
            raise item.at.error(f"no function '{item.function}'; there are {known}, and ONNX operators by their names")
        inputs = tuple("" if arg is None else self.operand(arg, np.int64) for arg in item.arguments)
        attrs = {name: _attribute(value) for name, value in item.options.items()}
        return self.calls(Call(item.function, wishes[0] or self.part(), inputs, wishes, attrs), item.at)

    # ---- indices

    def static(self, item: syntax.Expression) -> int:
        """A whole number known now."""
        value = self.value(item, "")
        if isinstance(value, Known) and value.integer is not None:
            return value.integer
        if isinstance(value, Step):
            raise item.at.error(f"the step '{value.variable}' must stand alone in its index, as in x[{value.variable}]")
        raise item.at.error("an index must be a whole number known when the model is compiled")

    # ---- sums and loops

    def _sum(self, item: syntax.Sum, wish: str) -> str:
        """Every term is written out: its index is known in each."""
        outer, total = self._scope, ""
        for step in range(item.start, item.stop):
            self._scope = {**outer, item.variable: self._number(item.at, step, item.variable)}
            term = self.operand(item.body)
            last = step == item.stop - 1
            total = self.call("Add", [total, term], item.at, wish if last else "") if total else term
        self._scope = outer
        return total

    def _loop(self, item: syntax.Loop, wishes: tuple[str, ...]) -> tuple[str, ...]:
        states = [(name, self.operand(first)) for name, first in item.states]
        if not states and not item.body.collected:
            raise item.at.error("a loop without state has no result; give it one: loop (t = [0:9], h = h0) { ... }")
        rows = [self._header_row(item, name, source) for name, source in item.rows]
        shadowed = {name for name, _ in (*states, *rows)}
        read = rows_read(item, lambda name: None if name in shadowed else self._outside(name))
        implicit = [row for row in dict.fromkeys(read) if row not in {known for _, known in rows}]
        rows += [(row.describe(), row) for row in implicit]
        sequences = [self._sequence(item, row) for _, row in rows]
        attrs: dict[str, object] = {"num_scan_inputs": len(rows)}
        if not rows:
            attrs["count"] = abs(item.stop - item.start)
        elif item.stop < item.start:
            attrs["scan_input_directions"] = [1] * len(rows)
            if item.body.collected:
                attrs["scan_output_directions"] = [1] * len(item.body.collected)
        if any(row.axis for _, row in rows):
            attrs["scan_input_axes"] = [row.axis for _, row in rows]
        inputs = (*(value for _, value in states), *sequences)
        call = Call("Scan" if rows else "Repeat", wishes[0], inputs, wishes, attrs)

        def fill(inner: tuple[str, ...]) -> tuple[str, ...]:
            names = [name for name, _ in (*states, *rows[: len(item.rows)])]
            found = {row: value for (_, row), value in zip(rows, inner[len(states) :], strict=True)}
            outer, self._scope = self._scope, {**self._scope, **dict(zip(names, inner, strict=False))}
            self._scope[item.variable] = Step(item.variable, found)
            if len(item.body.results) != len(states):
                counts = f"{len(item.body.results)} next states for {len(states)} states"
                raise item.body.at.error(f"{counts}; what is collected stands behind a semicolon")
            results = self.block(item.body)
            self._scope = outer
            return results

        with self.placed(item.at):
            return self.builder.loop(call, [name for name, _ in (*states, *rows)], fill)

    def _outside(self, name: str) -> str | None:
        """The tensor outside of a loop that a name stands for, if it is one."""
        value = self._scope.get(name)
        if isinstance(value, Known):
            return self.tensor(value, value.literal.at)
        return value if isinstance(value, str) else None

    def _header_row(self, item: syntax.Loop, name: str, source: syntax.Expression) -> tuple[str, Row]:
        """`name = x[:, t]` of a loop's header."""
        if isinstance(source, syntax.Indexed):
            axis = step_axis(source.indices, item.variable)
            if axis is not None and source.indices[axis].length is None:
                return name, Row(self.operand(source.operand), axis)
        raise source.at.error(f"a row expected, such as {name} = x[{item.variable}] or {name} = x[:, {item.variable}]")

    def _sequence(self, item: syntax.Loop, row: Row) -> str:
        """The tensor whose rows the loop reads: cut down to its steps."""
        shape = self.shape(row.source)
        first, end = sorted((item.start, item.stop))
        if row.axis >= len(shape) or end > shape[row.axis]:
            raise item.at.error(f"steps {first} to {end} along axis {row.axis} of '{row.source}' {list(shape)}")
        spans = [(0, size) for size in shape]
        spans[row.axis] = first, end - first
        return indexing.cut(self, row.source, spans, item.at)

    # ---- conditionals

    def _conditional(self, item: syntax.Conditional, wish: str) -> Value:
        left, right = self.value(item.left, ""), self.value(item.right, "")
        if isinstance(left, Known) and isinstance(right, Known):
            a, b = left.integer, right.integer
            if a is not None and b is not None:
                holds = {">=": a >= b, ">": a > b, "<=": a <= b, "<": a < b, "==": a == b}[item.comparison]
                return self.value(item.then if holds else item.otherwise, wish)
        return functions.chosen(self, item, (left, right), wish or self.part())


def step_axis(indices: tuple[syntax.Index, ...], variable: str) -> int | None:
    """The axis that is read by the step alone while all others are whole."""
    axes = [axis for axis, index in enumerate(indices) if index.start is not None]
    if len(axes) != 1:
        return None
    start = indices[axes[0]].start
    return axes[0] if isinstance(start, syntax.Name) and start.name == variable else None


def _attribute(value: syntax.Option) -> object:
    """Real numbers as ONNX stores them: float32."""
    if isinstance(value, float):
        return float(np.float32(value))
    if isinstance(value, list) and any(isinstance(item, float) for item in value):
        return [float(np.float32(item)) for item in value]
    return value
