"""Calls one after the other -> Graph: shapes inferred for one sample, constants folded, names made unique.

All front ends share this part. Refusals are precise: node, operator, attribute, what is supported and what to do.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np
import onnx

from tinyhil.errors import ModelError
from tinyhil.formats.format import Format
from tinyhil.frontend.constant_folding import folded
from tinyhil.frontend.fold import fold_into_layers
from tinyhil.frontend.impossible import REASONS
from tinyhil.frontend.listing import Block, Call, Ends, Listing
from tinyhil.frontend.unread import without_unread
from tinyhil.language.graph import Graph, Node, Shape, element_count
from tinyhil.ops import LOOP_BY_NAME, OPERATOR_BY_NAME
from tinyhil.ops.operator import refuse
from tinyhil.ops.whole import GRIDS, KIND

T = TypeVar("T")
Fill = Callable[[tuple[str, ...]], tuple[str, ...]]  # body inputs -> body outputs
Rewritten = Callable[["Builder", Call], tuple[str, ...] | None]

MAX_FOLDED_ELEMENTS = 1 << 24  # far beyond any flash; a small file can ask for terabytes
MAX_VALUE_ELEMENTS = 1 << 24  # of a run-time value: far beyond the RAM of any board
MAX_WHOLE = 1 << 24  # the largest whole number up to which float32 holds all
MAX_LONG = 1 << 32  # the same of what whole numbers of 32 bits are computed with
MAX_STEPS = 1 << 20  # of nested loops together: days on a microcontroller, hours in the float reference


@dataclass(slots=True)
class Level:
    """What one level of the model has so far."""

    nodes: list[Node] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    values: list[str] = field(default_factory=list)


class Builder:
    """Lives for one model. Names that go in are those it gave out; names for outputs are wishes.

    `rewritten` adds the calls that another one stands for and gives their results, or None.
    """

    def __init__(self, rewritten: Rewritten, opset: int = 0) -> None:
        self._others = rewritten
        self.opset = opset or onnx.defs.onnx_opset_version()  # of the operators it is given
        self.shapes: dict[str, Shape] = {}
        self.constants: dict[str, np.ndarray] = {}
        self.pinned: dict[str, Format] = {}  # inputs that are integers
        self.whole: set[str] = set()  # run-time values that the file gives an integer type
        self.flags: set[str] = set()  # those that it calls boolean
        self.kinds: dict[str, int] = {}  # of inputs, constants, casts: integer types, floats of few bits
        self.steps: dict[str, np.ndarray] = {}  # of constants that were integers
        self.grouped = set[str]()  # those of few bits, or with scales of groups
        self.reals: dict[tuple[object, ...], str] = {}  # what codes were made of (rewrite_quantized.py)
        self._copies: dict[str, int] = {}
        self._levels = [Level()]
        self._folded_elements = 0
        self._steps = 1

    def value(self, wish: str, shape: Shape) -> str:
        """A run-time value that no call computes: an input of the model or of a body. ModelError if it is too large."""
        if element_count(shape) > MAX_VALUE_ELEMENTS:
            raise ModelError(f"'{wish}' has {element_count(shape)} elements, the limit is {MAX_VALUE_ELEMENTS}; cut it")
        return self._new(wish, shape, self._levels[-1])

    def constant(self, wish: str, array: np.ndarray) -> str:
        """A value known now. It belongs to the outermost level, whoever needs it first."""
        name = self._new(wish, tuple(array.shape), self._levels[0])
        self.constants[name] = array
        return name

    def add(self, call: Call) -> tuple[str, ...]:
        """Names of the results of `call`; ModelError if the operator or its operands are not supported."""
        known = [self.constants.get(name) for name in call.inputs]
        if not call.inputs or any(name and value is None for name, value in zip(call.inputs, known, strict=True)):
            return self._added(call)
        try:
            return self._added(call)
        except ModelError:
            arrays = folded(call, known, self.opset)
            if arrays is None:
                raise
        self._count_folded(node_of(call), sum(array.size for array in arrays))
        return tuple(
            self.constant(wish, array) if wish else "" for wish, array in zip(call.outputs, arrays, strict=True)
        )

    def _added(self, call: Call) -> tuple[str, ...]:
        results = self._rewritten(call)
        if results is not None:
            return results
        _check(call)
        operator = OPERATOR_BY_NAME.get(call.op)
        if operator is None:
            raise refuse(node_of(call), "stands where a loop has no body", "the file is damaged")
        node = node_of(call)
        shapes, values = self._operands(node)  # an optional input left out has no name
        if operator.settle is not None:
            settle, given = operator.settle, (shapes, values)
            node = _inferred(node, shapes, lambda: settle(node, *given))
            operator = OPERATOR_BY_NAME[node.op]  # settling may find a more special operator
            shapes, values = self._operands(node)
        infer, operands = operator.infer, values
        inferred = _inferred(node, shapes, lambda: infer(node, shapes, operands))
        if operator.is_view:  # shape and axes have done their work; the view keeps only what it shows
            node = replace(node, inputs=node.inputs[:1], attrs={"shape": inferred[0]})
            values = values[:1]
        known = [value for value in values if value is not None]
        if len(known) == len(values):
            arrays = self._folded(node, known, inferred)
            return tuple(self.constant(wish, array) for wish, array in zip(node.outputs, arrays, strict=False))
        node = self._with_floats(node)
        self._check_run_time(node, shapes[: len(values)], inferred)
        outputs = tuple(self.value(wish, shape) for wish, shape in zip(node.outputs, inferred, strict=False))
        self._append(replace(node, outputs=outputs), replace(call, outputs=outputs))
        return outputs

    def put(self, node: Node) -> None:
        """A node whose results have their names and shapes already."""
        self._append(node, Call(node.op, node.name, node.inputs, node.outputs, node.attrs))

    def loop(self, call: Call, wishes: Sequence[str], fill: Fill) -> tuple[str, ...]:
        """Names of the results of a Scan whose body inputs are to be named `wishes`; `fill` adds the body's calls.

        ModelError for a loop that can not be.
        """
        _check(call)
        node = self._with_floats(node_of(call))
        operator = LOOP_BY_NAME[call.op]
        shapes = [self.shapes[name] for name in node.inputs]
        self._check_loop(node, wishes)
        rows = _inferred(node, shapes, lambda: operator.body_shapes(node, shapes))
        if any(0 in shape for shape in (*shapes, *rows)):
            raise refuse(node, "an operand has no elements", "the file is damaged")
        outer, self._steps = self._steps, self._steps * int(node.attrs.get("count", 0) or _steps(shapes, rows))
        if self._steps > MAX_STEPS:
            raise refuse(node, f"{self._steps} steps with the loops around it, the limit is {MAX_STEPS}", "shorten it")
        self._levels.append(Level())
        inputs = tuple(self.value(wish, shape) for wish, shape in zip(wishes, rows, strict=True))
        results = fill(inputs)
        level = self._levels.pop()
        self._steps = outer
        body = self._graph("body", inputs, results, level)
        block = Block(inputs, results, tuple(level.calls))
        if len(node.outputs) != len(results) or not all(node.outputs):
            raise refuse(node, f"takes {len(node.outputs)} of {len(results)} results", "name them all")
        if len(results) < len(node.inputs) - int(node.attrs["num_scan_inputs"]):
            raise refuse(node, "its body does not compute all states", "the file is damaged")
        inferred = operator.infer(node, shapes, [self.shapes[name] for name in results])
        self._check_run_time(node, shapes, inferred)
        outputs = tuple(self.value(wish, shape) for wish, shape in zip(node.outputs, inferred, strict=True))
        self._append(replace(node, outputs=outputs, body=body), replace(call, outputs=outputs, bodies={"body": block}))
        return outputs

    def finish(self, name: str, ends: Ends) -> tuple[Graph, Listing]:
        """The graph from input to output, and its listing; ModelError if the output is constant."""
        source, output = ends.source, ends.output
        if output in self.constants:
            raise ModelError(f"output '{output}' does not depend on the input")
        (level,) = self._levels
        graph = self._graph(name, (source,), (output,), level)
        listing = Listing(Block((source,), (output,), tuple(level.calls)), self.shapes, self.constants)
        graph = replace(without_unread(graph), pinned=self.pinned, steps=self.steps, grouped=frozenset(self.grouped))
        graph = replace(graph, parts=ends.parts, results=ends.results)
        return _without_unused_constants(fold_into_layers(graph)), listing

    def producer(self, name: str) -> Node | None:
        """The node that computes run-time value `name` on this level or one around it."""
        return next((n for level in self._levels for n in reversed(level.nodes) if name in n.outputs), None)

    def _rewritten(self, call: Call) -> tuple[str, ...] | None:
        """Results of `call` if it is one that others stand for; the listing keeps the call itself."""
        calls = self._levels[-1].calls
        before = len(calls)
        shapes = [self.shapes.get(name, ()) for name in call.inputs]
        results = _inferred(node_of(call), shapes, lambda: self._others(self, call))
        if results is not None:
            del calls[before:]
            if not all(name in self.constants for name in results if name):
                calls.append(replace(call, outputs=results))
        return results

    def _with_floats(self, node: Node) -> Node:
        """The node with whole numbers and booleans among its constants as floats, which run-time values are."""
        names, is_exact = [], KIND in node.attrs or GRIDS in node.attrs
        most, kind = (MAX_LONG, np.float64) if is_exact else (MAX_WHOLE, np.float32)
        for name in node.inputs:
            value = self.constants.get(name)
            if value is not None and value.dtype.kind in "iub":
                if value.size and int(np.abs(value.astype(np.int64)).max()) > most:
                    raise refuse(node, f"operand '{name}' holds numbers beyond {most}", "use smaller ones")
                name = self.constant(f"{name}.float", value.astype(kind))
            names.append(name)
        return replace(node, inputs=tuple(names))

    def _operands(self, node: Node) -> tuple[list[Shape], list[np.ndarray | None]]:
        shapes = [self.shapes.get(name, ()) for name in node.inputs]
        return shapes, [self.constants.get(name) for name in node.inputs]

    def _append(self, node: Node, call: Call) -> None:
        self._levels[-1].nodes.append(node)
        self._levels[-1].calls.append(call)

    def _check_loop(self, node: Node, wishes: Sequence[str]) -> None:
        if len(wishes) != len(node.inputs):
            raise refuse(node, "its body does not take the node's inputs", "the file is damaged")
        scans = int(node.attrs.get("num_scan_inputs", 0))
        if not (1 if node.op == "Scan" else 0) <= scans <= len(node.inputs):
            raise refuse(node, f"num_scan_inputs {scans} for {len(node.inputs)} inputs", "the file is damaged")
        axes = node.attrs.get("scan_input_axes")
        if axes is not None and len(axes) != scans:
            raise refuse(node, "scan_input_axes does not name one axis per sequence", "the file is damaged")

    def _check_run_time(self, node: Node, shapes: Sequence[Shape], inferred: Sequence[Shape]) -> None:
        for name in node.inputs:
            value = self.constants.get(name)
            if value is not None and value.dtype.kind != "f":
                raise refuse(node, f"operand '{name}' holds {value.dtype} values", "store it as float32")
            if value is not None and not np.isfinite(value).all():
                count = int((~np.isfinite(value)).sum())
                raise refuse(
                    node, f"operand '{name}' holds {count} values that are NaN or infinite", "train or export again"
                )
        if any(0 in shape for shape in (*shapes, *inferred)):
            raise refuse(node, "an operand has no elements", "the file is damaged")
        largest = max((element_count(shape) for shape in inferred), default=0)
        if largest > MAX_VALUE_ELEMENTS:
            raise refuse(node, f"a result of {largest} elements, the limit is {MAX_VALUE_ELEMENTS}", "make it smaller")

    def _folded(self, node: Node, known: list[np.ndarray], inferred: list[Shape]) -> list[np.ndarray]:
        """Outputs of a node whose inputs are all constant."""
        self._count_folded(node, sum(element_count(shape) for shape in inferred))
        try:
            with np.errstate(all="ignore"):
                results = OPERATOR_BY_NAME[node.op].evaluate(node, [value[None] for value in known])
            arrays = [array[0] for array in results]
        except (ValueError, LookupError, TypeError, ArithmeticError, MemoryError) as error:
            raise refuse(node, f"can not be computed from its constants ({error})", "the file is damaged") from None
        return arrays

    def _count_folded(self, node: Node, elements: int) -> None:
        self._folded_elements += elements
        if self._folded_elements > MAX_FOLDED_ELEMENTS:
            raise refuse(node, f"makes {elements} constant elements of its inputs", "compute them at run time")

    def _new(self, wish: str, shape: Shape, level: Level) -> str:
        """A name no level uses yet; the wish where possible, since names show in reports."""
        name = wish
        while name in self.shapes:
            self._copies[wish] = self._copies.get(wish, 1) + 1
            name = f"{wish}.{self._copies[wish]}"
        level.values.append(name)
        self.shapes[name] = shape
        return name

    def _graph(self, name: str, inputs: tuple[str, ...], outputs: tuple[str, ...], level: Level) -> Graph:
        shapes = {value: self.shapes[value] for value in level.values}
        constants = {value: self.constants[value] for value in level.values if value in self.constants}
        return Graph(name, inputs, outputs, tuple(level.nodes), shapes, constants)


def node_of(call: Call) -> Node:
    """The call as the operators' records take it."""
    return Node(call.op, call.name, call.inputs, call.outputs, call.attrs)


def _check(call: Call) -> None:
    """ModelError if the operator or one of its attributes is unknown, or inputs are left out that may not be."""
    known = OPERATOR_BY_NAME.get(call.op) or LOOP_BY_NAME.get(call.op)
    if known is None:
        if call.op in REASONS:
            raise ModelError(f"node '{call.name}': operator {call.op} is not possible: {REASONS[call.op]}")
        near = difflib.get_close_matches(call.op, [*OPERATOR_BY_NAME, *LOOP_BY_NAME], 1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        raise ModelError(
            f"node '{call.name}': operator {call.op} is not supported{hint}; `hil docs operators` lists those that are"
        )
    for attribute in call.attrs:
        if attribute not in known.attributes:
            raise ModelError(f"node '{call.name}' ({call.op}): attribute '{attribute}' is not supported")
    if not all(call.inputs) and getattr(known, "settle", None) is None:
        raise ModelError(f"node '{call.name}' ({call.op}): optional inputs left out in the middle are not supported")


def _steps(shapes: Sequence[Shape], rows: Sequence[Shape]) -> int:
    """How often a loop runs: a row is its sequence without the steps."""
    return max(element_count(s) // max(element_count(r), 1) for s, r in zip(shapes, rows, strict=True))


def _inferred(node: Node, shapes: list[Shape], infer: Callable[[], T]) -> T:
    """What `infer` returns; whatever it stumbles over is the file's fault."""
    try:
        return infer()
    except (ValueError, LookupError, TypeError, ArithmeticError, MemoryError) as error:
        sizes = ", ".join(str(list(shape)) for shape in shapes)
        raise refuse(node, f"inputs of shapes {sizes} make no sense ({error})", "the file is damaged") from None


def _without_unused_constants(graph: Graph) -> Graph:
    used = {name for node in graph.walk() for name in node.inputs} | set(graph.outputs)
    for level in graph.levels():
        used.update(level.outputs)

    def clean(level: Graph) -> Graph:
        constants = {name: array for name, array in level.constants.items() if name in used}
        dropped = set(level.constants) - set(constants)
        shapes = {name: shape for name, shape in level.shapes.items() if name not in dropped}
        nodes = tuple(replace(n, body=clean(n.body)) if n.body is not None else n for n in level.nodes)
        steps = {name: step for name, step in level.steps.items() if name not in dropped}
        return replace(level, nodes=nodes, constants=constants, shapes=shapes, steps=steps)

    return clean(graph)
