"""Estimators of scikit-learn whose files compute with NaN, infinities or numbers of 1e9 that do not matter in the end:
the same without them.

PowerTransformer's Yeo-Johnson, QuantileTransformer's quotients between equal quantiles, GaussianNB (classical_bayes.py)
and KNNImputer (classical_neighbours.py), as scikit-learn's converter writes them. What does not look exactly so stays
as it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import onnx

from tinyhil.frontend.classical_bayes import bayes
from tinyhil.frontend.classical_neighbours import neighbours
from tinyhil.frontend.classical_nodes import constant, plain_node
from tinyhil.frontend.classical_places import NOTHING, Made, Places, places_of

SMALL_POWER = 0.5
SOURCE = "source"  # in the steps below, what they begin with
TERMS = (7, 6, 5, 4, 3, 2)
# The nodes of Yeo-Johnson in a file, from the value to the result
POWER = Counter(Add=4, Mul=6, Imputer=4, Cast=2, Div=3, Sub=4, Pow=2, Log=2, Neg=1, Not=1, Less=1)


def without_infinities(graph: onnx.GraphProto, functions: Sequence[onnx.FunctionProto]) -> onnx.GraphProto:
    """The graph, whose file has `functions`, with what these transformers compute written otherwise; the graph itself
    if it has neither."""
    places = places_of(graph)
    made: dict[str, list[onnx.NodeProto]] = {}  # result -> what is to compute it
    values: list[onnx.TensorProto] = []
    gone = set[str]()
    for node in graph.node:
        found = _power(node, places) or _quotient(node, places) or bayes(node, places)
        nodes, weights, left_out = found or neighbours(node, places, functions) or NOTHING
        if nodes:
            made[nodes[-1].output[0]] = nodes
            values += weights
            gone |= left_out
    if not made:
        return graph
    changed = onnx.GraphProto()
    changed.CopyFrom(graph)
    del changed.node[:]
    for node in graph.node:
        name = node.output[0] if node.output else ""
        if name in made:
            changed.node.extend(made[name])
        elif name not in gone:
            changed.node.append(node)
    changed.initializer.extend(values)
    return changed


def _power(node: onnx.NodeProto, places: Places) -> Made | None:
    """Yeo-Johnson, which ends in the sum of what it is for x >= 0 and for x < 0, each times its mask:
    g(max(x, 0), l) - g(max(-x, 0), 2 - l), where g(z, l) is ((z + 1)**l - 1) / l, and 0 for l = 0, since the file loses
    the logarithm there."""
    masks = [places.maker(name, "Cast") for part in _makers(node, "Add", places, "Mul") for name in part.input]
    less = next((found for mask in masks if mask and (found := places.maker(mask.input[0], "Less"))), None)
    if less is None:
        return None
    x, last = less.input[0], node.output[0]
    inner = places.behind(last, x, POWER.total())
    one = next((part.output[0] for part in inner if part.op_type == "Div" and list(part.input) == [x, x]), None)
    if one is None or Counter(part.op_type for part in inner) != POWER:
        return None
    raised, mirrored = _exponents(inner, places, "Add", [x, one]), _exponents(inner, places, "Sub", [one, x])
    if raised is None or mirrored is None:
        return None
    gone = {name for part in inner for name in part.output}
    out, offset, scale = _scaled(last, places)
    if any(one.size not in (1, raised.size) for one in (mirrored, offset, scale)):
        return None
    above, below = _Side(f"{out}.above", raised, scale), _Side(f"{out}.below", mirrored, scale)
    nodes = [plain_node("Neg", [x], f"{out}.opposite"), *above.nodes(x), *below.nodes(f"{out}.opposite")]
    nodes.append(plain_node("Sub", [above.out, below.out], f"{out}.sum"))
    nodes.append(plain_node("Sub", [f"{out}.sum", f"{out}.shift"], out))
    shift = constant(f"{out}.shift", offset * scale, 1, np.broadcast(offset, scale).size)
    return nodes, [*above.constants(), *below.constants(), shift], gone - {out}


def _scaled(name: str, places: Places) -> tuple[str, np.ndarray, np.ndarray]:
    """The Scaler that alone reads `name`: its result, offset and scale; `name` as it is where there is none."""
    readers = places.readers[name]
    if len(readers) != 1 or readers[0].op_type != "Scaler":
        return name, np.zeros(1), np.ones(1)
    attrs = {attribute.name: np.array(attribute.floats) for attribute in readers[0].attribute}
    return readers[0].output[0], attrs.get("offset", np.zeros(1)), attrs.get("scale", np.ones(1))


@dataclass(frozen=True, slots=True)
class _Side:
    """`out` = g(max(source, 0), powers) * scale.

    16 bits are too few for one minus a number near one. So with a = log(z + 1) and t = l a, columns of a power below
    1/2 take a (e**t - 1) / t, which is a polynomial of t / 4 times (1 + e**(t/4)) / 2 times (1 + e**(t/2)) / 2.
    """

    out: str
    powers: np.ndarray
    scale: np.ndarray

    @property
    def is_small(self) -> np.ndarray:
        return np.abs(self.powers) < SMALL_POWER

    def constants(self) -> list[onnx.TensorProto]:
        is_small, gain = self.is_small, np.broadcast_to(self.scale, self.powers.shape)
        made = {"power": np.where(is_small, 0, self.powers)}
        made["gain"] = np.divide(gain, self.powers, out=np.zeros_like(self.powers), where=~is_small)
        if is_small.any():
            made["quarter"] = np.where(is_small, self.powers / 4, 0)
            made["weight"] = np.where(is_small & (self.powers != 0), gain, 0)
        whole = {"zero": 0.0, "one": 1.0}
        if is_small.any():
            whole |= {"half": 0.5} | {f"over_{k}": 1 / k for k in TERMS}
        vectors = [constant(f"{self.out}.{name}", value, 1, value.size) for name, value in made.items()]
        return vectors + [constant(f"{self.out}.{name}", value) for name, value in whole.items()]

    def nodes(self, source: str) -> list[onnx.NodeProto]:
        steps = [
            ("Max", SOURCE, "zero", "positive"),
            ("Add", "positive", "one", "plus_one"),
            ("Log", "plus_one", "", "log"),
            ("Mul", "log", "power", "grows"),
            ("Exp", "grows", "", "grown"),
            ("Sub", "grown", "one", "more"),
            ("Mul", "more", "gain", "large"),
        ]
        if self.is_small.any():
            steps += [("Mul", "log", "quarter", "t"), *self._polynomial()]
            steps += [("Exp", "t", "", "e1"), ("Mul", "e1", "e1", "e2")]
            steps += [step for k in (1, 2) for step in self._doubled(k)]
            steps += [("Mul", "q2", "log", "slope"), ("Mul", "slope", "weight", "little")]
            steps += [("Add", "large", "little", "")]
        else:
            steps[-1] = ("Mul", "more", "gain", "")
        return [self._node(step, source) for step in steps]

    def _polynomial(self) -> list[tuple[str, str, str, str]]:
        """q0 = (e**t - 1) / t = 1 + t/2 (1 + t/3 (1 + ...))."""
        steps, last = [], "one"
        for k in TERMS:
            steps += [("Mul", "t", f"over_{k}", f"t{k}"), ("Mul", f"t{k}", last, f"p{k}")]
            last = f"s{k}" if k > TERMS[-1] else "q0"
            steps.append(("Add", f"p{k}", "one", last))
        return steps

    def _doubled(self, k: int) -> list[tuple[str, str, str, str]]:
        return [
            ("Add", f"e{k}", "one", f"f{k}"),
            ("Mul", f"f{k}", "half", f"h{k}"),
            ("Mul", f"q{k - 1}", f"h{k}", f"q{k}"),
        ]

    def _node(self, step: tuple[str, str, str, str], source: str) -> onnx.NodeProto:
        op, *operands, result = step
        names = [source if name == SOURCE else f"{self.out}.{name}" for name in operands if name]
        return plain_node(op, names, f"{self.out}.{result}" if result else self.out)


def _makers(node: onnx.NodeProto, op: str, places: Places, *ops: str) -> list[onnx.NodeProto]:
    """Those nodes among `ops` that make the operands of an `op`; none if the node is another."""
    found = (places.maker(name, *ops) for name in node.input if node.op_type == op)
    return [part for part in found if part is not None]


def _exponents(inner: Iterable[onnx.NodeProto], places: Places, op: str, operands: Sequence[str]) -> np.ndarray | None:
    """The constant powers that `op` of `operands` is raised to; None if there are none."""
    for part in inner:
        source = places.maker(part.input[0], op) if part.op_type == "Pow" and len(part.input) == 2 else None
        if source is not None and list(source.input) == operands:
            return places.numbers(part.input[1])
    return None


def _quotient(node: onnx.NodeProto, places: Places) -> Made | None:
    """Where(d <= 0 or IsNaN(n / d), other, n / d), where nothing else reads these: divided by 1 there instead."""
    if node.op_type != "Where" or len(node.input) != 3:
        return None
    either, quotient = places.maker(node.input[0], "Or"), places.maker(node.input[2], "Div")
    if either is None or quotient is None:
        return None
    parts = {part.op_type: part for part in _makers(either, "Or", places, "LessOrEqual", "IsNaN")}
    if len(parts) != 2 or list(parts["IsNaN"].input) != list(quotient.output):
        return None
    below, unknown = parts["LessOrEqual"], parts["IsNaN"]
    zero, left_out = places.numbers(below.input[1]), {quotient.output[0]: 2, unknown.output[0]: 1, either.output[0]: 1}
    if below.input[0] != quotient.input[1] or zero is None or zero.any():
        return None
    if any(len(places.readers[name]) != count for name, count in left_out.items()):
        return None
    out = node.output[0]
    nodes = [
        plain_node("Where", [below.output[0], f"{out}.one", quotient.input[1]], f"{out}.divisor"),
        plain_node("Div", [quotient.input[0], f"{out}.divisor"], f"{out}.quotient"),
        plain_node("Where", [below.output[0], node.input[1], f"{out}.quotient"], out),
    ]
    return nodes, [constant(f"{out}.one", 1.0)], set(left_out)
