"""Graph + formats -> Program: tensors become integers, operators kernel calls with shifts and a proven width."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from tinyhil.assignment import Assignment
from tinyhil.calibrate import Ranges
from tinyhil.errors import ModelError
from tinyhil.formats import named
from tinyhil.formats.fixed import Fixed, exponent_for, quantize
from tinyhil.graph import Graph, Node, Shape, element_count
from tinyhil.ops import LOOP_BY_NAME, OPERATOR_BY_NAME
from tinyhil.program import Loop, Op, Program, Tensor, walk

MAX_ACCUMULATOR_BITS = 63


def lower(graph: Graph, assignment: Assignment, ranges: Ranges) -> Program:
    """Lower a graph with one input and one output.

    ModelError if an operator can not be lowered, ConfigError if the assignment contradicts itself.
    """
    lowering = Lowering(graph, formats(graph, assignment, ranges))
    source = graph.inputs[0]
    lowering.define(source, role="input")
    lowering.body = lowering.lower_body(graph)
    output = lowering.operand(graph.outputs[0])
    return Program(
        name=graph.name,
        tensors=lowering.tensors,
        constants=lowering.constants,
        body=tuple(lowering.body),
        input=source,
        output=output,
        input_shape=graph.shapes[source],
        output_shape=graph.shapes[graph.outputs[0]],
    )


def formats(graph: Graph, assignment: Assignment, ranges: Ranges) -> dict[str, Fixed]:
    """The fixed-point format of every value. Values that share storage (views, loop states) share one format."""
    constants = graph.all_constants()
    result: dict[str, Fixed] = {}
    for group in tied_values(graph):
        magnitude = 0.0
        for name in group:
            if name in constants:
                magnitude = max(magnitude, float(np.abs(constants[name]).max(initial=0.0)))
            else:
                magnitude = max(magnitude, ranges.magnitude(name))
        bits = named(assignment.format_of(group)).bits
        for name in group:
            result[name] = Fixed(bits, exponent_for(magnitude, bits))
    return result


def tied_values(graph: Graph) -> list[tuple[str, ...]]:
    """Groups of values that live in the same memory, in order of first appearance."""
    leader: dict[str, str] = {name: name for name in graph.all_shapes()}

    def find(name: str) -> str:
        while leader[name] != name:
            name = leader[name]
        return name

    for node in graph.walk():
        if node.body is not None:
            body = node.body
            states = len(node.inputs) - int(node.attrs["num_scan_inputs"])
            pairs = list(zip(node.inputs, body.inputs, strict=True))
            pairs += zip(body.outputs, node.outputs, strict=True)
            pairs += zip(node.inputs[:states], node.outputs[:states], strict=True)
        elif OPERATOR_BY_NAME[node.op].is_view:
            pairs = [(node.inputs[0], node.outputs[0])]
        else:
            continue
        for a, b in pairs:
            leader[find(b)] = find(a)
    groups: dict[str, list[str]] = {}
    for name in leader:
        groups.setdefault(find(name), []).append(name)
    return [tuple(group) for group in groups.values()]


class Lowering:
    """What the operators' `lower` functions may ask and do. Lives for one call of `lower()`."""

    def __init__(self, graph: Graph, formats: Mapping[str, Fixed]) -> None:
        self.tensors: dict[str, Tensor] = {}
        self.constants: dict[str, np.ndarray] = {}
        self.body: list[Op | Loop] = []
        self._formats = formats
        self._shapes = graph.all_shapes()
        self._floats = graph.all_constants()
        self._alias: dict[str, str] = {}

    def shape(self, value: str) -> Shape:
        return self._shapes[value]

    def count(self, value: str) -> int:
        return element_count(self._shapes[value])

    def format(self, value: str) -> Fixed:
        return self._formats[value]

    def constant(self, value: str) -> np.ndarray | None:
        """The float array behind `value` if it is known at compile time."""
        return self._floats.get(value)

    def tensor(self, value: str) -> str:
        """Name of the run-time tensor that holds `value`, views resolved."""
        while value in self._alias:
            value = self._alias[value]
        return value

    def operand(self, value: str) -> str:
        """Tensor of `value`, constant or not; a constant is quantized and registered on first use."""
        constant = self.constant(value)
        if constant is None:
            return self.tensor(value)
        return self.add_constant(value, constant, self.format(value))

    def integers(self, tensor: str) -> np.ndarray:
        """The quantized elements of a constant tensor, flat int64."""
        return self.constants[tensor]

    def add_constant(self, value: str, array: np.ndarray, fmt: Fixed) -> str:
        """Quantize `array` in kernel order into `fmt`; the same data under the same value is stored once."""
        integers = quantize(array.reshape(-1), fmt)[0]
        name, copies = value, 1
        while name in self.tensors or (name != value and name in self._shapes):
            stored = self.constants.get(name)
            if stored is not None and self.tensors[name].format == fmt and np.array_equal(stored, integers):
                return name
            copies += 1
            name = f"{value}.{copies}"
        self.tensors[name] = Tensor(name, integers.size, fmt, "constant")
        self.constants[name] = integers
        return name

    def add_table(self, name: str, entries: np.ndarray) -> str:
        """Register a shared look-up table of unsigned 16-bit entries."""
        while name in self._shapes:  # a value of the model has this name
            name += "_"
        if name not in self.tensors:
            self.tensors[name] = Tensor(name, entries.size, Fixed(16, 0), "table")
            self.constants[name] = entries
        return name

    def define(self, value: str, role: str = "arena") -> Tensor:
        """The tensor that holds run-time `value`."""
        tensor = Tensor(value, self.count(value), self.format(value), role)
        self.tensors[value] = tensor
        return tensor

    def scratch(self, name: str, count: int, fmt: Fixed) -> Tensor:
        """A run-time tensor the model has no value for; `name` is a wish."""
        wish, copies = name, 1
        while name in self.tensors or name in self._shapes:
            copies += 1
            name = f"{wish}.{copies}"
        self.tensors[name] = Tensor(name, count, fmt, "arena")
        return self.tensors[name]

    def alias(self, value: str, target: str) -> None:
        """`value` is another name for `target`."""
        self._alias[value] = target

    def emit(self, node: Node, op: Op) -> None:
        """Append an operation after checking that its accumulator exists."""
        if op.accumulator_bits > MAX_ACCUMULATOR_BITS:
            raise ModelError(
                f"node '{node.name}' ({node.op}): exact sums need {op.accumulator_bits} bits, the limit is "
                f"{MAX_ACCUMULATOR_BITS}; operands of very different scale: use 8 bits for one of them"
            )
        self.body.append(op)

    def append(self, item: Op | Loop) -> None:
        self.body.append(item)

    def lower_body(self, graph: Graph) -> list[Op | Loop]:
        """Lower the nodes of one level into a list of its own."""
        outer, self.body = self.body, []
        for node in graph.nodes:
            if node.body is not None:
                LOOP_BY_NAME[node.op].lower(node, self)
                continue
            operator = OPERATOR_BY_NAME[node.op]
            if operator.lower is not None:
                operator.lower(node, self)
            else:
                self.alias(node.outputs[0], self.operand(node.inputs[0]))
        inner, self.body = self.body, outer
        return inner


def arena_tensors(program: Program) -> Iterable[Tensor]:
    """The tensors the planner places, each once, in order of definition."""
    seen: dict[str, Tensor] = {}
    for op in walk(program.body):
        for name in op.tensors:
            tensor = program.tensors[name]
            if tensor.role == "arena":
                seen.setdefault(name, tensor)
    return seen.values()
