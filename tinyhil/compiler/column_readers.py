"""What reads the input of a model column by column: a Scaler, trees, a layer, distances (columns.py)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from tinyhil.language.graph import Graph, Node, element_count
from tinyhil.names import free_name
from tinyhil.ops import OPERATOR_BY_NAME
from tinyhil.ops.operator import attr

COMPARISONS = frozenset({"LessOrEqual", "Less", "Greater", "GreaterOrEqual"})


@dataclass(frozen=True, slots=True)
class Scaler:
    """The operations that compute `output` = factor * x + addend, column by column, and nothing else."""

    nodes: tuple[Node, ...]
    output: str
    factor: np.ndarray
    addend: np.ndarray


@dataclass(frozen=True, slots=True)
class Tree:
    """The tables of a walk through trees: the feature and the threshold of each node. `values` are what is read of
    both at a time; `asked` are the nodes that ask, not the leaves."""

    features: str
    thresholds: str
    values: tuple[str, str]
    asked: np.ndarray


@dataclass(frozen=True, slots=True)
class Layer:
    """A product with constant weights of its own; `bias_name` is free for a bias if it has none. `added`: the sum with
    a constant that alone reads the product, whose bias this constant is."""

    node: Node
    bias_name: str
    added: Node | None = None


@dataclass(frozen=True, slots=True)
class Distance:
    """Squares of what the input differs by from constants, times constants, as naive Bayes has it: the names of both,
    of the difference and of its square; "" for the latter if the difference is squared behind the product."""

    centres: str
    weights: str
    difference: str
    square: str


Reader = Tree | Layer | Distance


def aliases(graph: Graph, source: str) -> set[str]:
    """`source` and the values of the outermost level that show it."""
    found = {source}
    for node in graph.nodes:
        if node.body is None and OPERATOR_BY_NAME[node.op].is_view and node.inputs[0] in found:
            found.update(node.outputs)
    return found


def _uses(graph: Graph) -> Counter[str]:
    """How often each value is read, by operations and as a result."""
    uses = Counter(name for node in graph.walk() for name in node.inputs)
    uses.update(name for level in graph.levels() for name in level.outputs)
    return uses


def _real_readers(graph: Graph, names: set[str]) -> list[Node]:
    """Operations of any level that read `names` and are no views among them."""
    return [node for node in graph.walk() if not names.isdisjoint(node.inputs) and names.isdisjoint(node.outputs)]


def scaler_of(graph: Graph) -> Scaler | None:
    """What the input goes through first, if one scale does not do as well: it treats columns differently."""
    found = _chain(graph)
    same = all(np.ptp(part) == 0 for part in (found.factor, found.addend))
    if same or (found.factor == 0).any() or not np.isfinite([found.factor, found.addend]).all():
        return None
    return found


def scaling_constants(graph: Graph) -> set[str]:
    """Constants of the sums and products that the input goes through first: data are prepared by them."""
    return {name for node in _chain(graph).nodes for name in node.inputs if name in graph.constants}


def _chain(graph: Graph) -> Scaler:
    """The sums and products with constants that the input goes through first, none of them too."""
    source = graph.inputs[0]
    count = element_count(graph.shapes[source])
    factor, addend, output = np.ones(count), np.zeros(count), source
    nodes: list[Node] = []
    while True:
        names = aliases(graph, output)
        readers = _real_readers(graph, names)
        if len(readers) != 1 or readers[0] not in graph.nodes or not names.isdisjoint(graph.outputs):
            break
        step = _step(graph, readers[0], names, count)
        if step is None:
            break
        nodes += [node for node in graph.nodes if not names.isdisjoint(node.inputs)]
        output = readers[0].outputs[0]
        factor, addend = factor * step[0], addend * step[0] + step[1]
    return Scaler(tuple(nodes), output, factor, addend)


def _step(graph: Graph, node: Node, names: set[str], count: int) -> tuple[np.ndarray, np.ndarray] | None:
    """(factor, addend) of one operation on the input; None if it is another."""
    if node.op not in ("Add", "Sub", "Mul", "Div") or element_count(graph.shapes[node.outputs[0]]) != count:
        return None
    first = node.inputs[0] in names
    other = graph.constants.get(node.inputs[1 if first else 0])
    if other is None or (node.op == "Div" and not first):
        return None
    given = np.broadcast_to(other, graph.shapes[node.outputs[0]]).reshape(-1).astype(np.float64)
    one, none = np.ones(count), np.zeros(count)
    if node.op == "Add":
        return one, given
    if node.op == "Sub":
        return (one, -given) if first else (-one, given)
    with np.errstate(divide="ignore"):
        return (given if node.op == "Mul" else 1 / given), none


def readers_of(graph: Graph) -> list[Reader]:
    """All that read the input; empty if one of them is neither trees nor a layer nor distances."""
    source = graph.inputs[0]
    names, uses = aliases(graph, source), _uses(graph)
    makers = {name: node for node in graph.walk() for name in node.outputs}
    if any(not names.isdisjoint(level.outputs) for level in graph.levels()):
        return []
    found: list[Reader] = []
    for node in _real_readers(graph, names):
        reader = _layer(graph, node, uses) or _tree(graph, node, uses, makers) or _distance(graph, node, uses)
        if reader is None:
            return []
        found.append(reader)
    return found


def _layer(graph: Graph, node: Node, uses: Counter[str]) -> Layer | None:
    if node.op not in ("Gemm", "MatMul") or node not in graph.nodes:
        return None
    own = all(_is_own(graph, name, uses) for name in node.inputs[1:])
    shape = graph.shapes[node.inputs[0]]
    if not own or len(shape) != 2 or shape[0] != 1 or graph.constants[node.inputs[1]].ndim != 2:
        return None
    if not attr(node, "alpha", 1.0) == attr(node, "beta", 1.0) == 1.0 or attr(node, "transA", 0):
        return None
    added = _bias_behind(graph, node, uses) if node.op == "MatMul" else None
    return Layer(node, free_name(f"{node.outputs[0]}.offset", graph.all_shapes()), added)


def _bias_behind(graph: Graph, product: Node, uses: Counter[str]) -> Node | None:
    """What adds a number for each output to `product`, whose only reader it is."""
    (value,) = product.outputs
    for node in graph.nodes:
        if node.op == "Add" and value in node.inputs and uses[value] == 1 and value not in graph.pinned:
            other = node.inputs[1 - node.inputs.index(value)]
            is_alike = graph.shapes[node.outputs[0]] == graph.shapes[value]
            of_outputs = (
                is_alike and _is_own(graph, other, uses) and graph.constants[other].size == graph.shapes[value][-1]
            )
            return node if of_outputs else None
    return None


def _distance(graph: Graph, node: Node, uses: Counter[str]) -> Distance | None:
    """(x - centres)^2 * weights, or ((x - centres) * weights)^2."""
    shape = graph.shapes.get(node.inputs[0], ())
    if node.op != "Sub" or not shape or shape[-1] != element_count(shape) or not _is_own(graph, node.inputs[1], uses):
        return None
    (difference,) = node.outputs
    square = _squared(graph, difference, uses)
    product = next((n for n in graph.nodes if n.op == "Mul" and n.inputs[0] == (square or difference)), None)
    if product is None or uses[square or difference] != 1 or not _is_own(graph, product.inputs[1], uses):
        return None
    if not square and not _squared(graph, product.outputs[0], uses):
        return None
    centres, weights = node.inputs[1], product.inputs[1]
    columns = shape[-1]
    if any(graph.constants[name].shape[-1:] != (columns,) for name in (centres, weights)):
        return None
    return Distance(centres, weights, difference, square)


def _squared(graph: Graph, name: str, uses: Counter[str]) -> str:
    """The square of value `name`, if nothing else reads this; else empty."""
    square = next((n for n in graph.nodes if n.op == "Mul" and n.inputs == (name, name)), None)
    return square.outputs[0] if square is not None and uses[name] == 2 else ""


def _is_own(graph: Graph, name: str, uses: Counter[str]) -> bool:
    """Whether a constant is read once, and is no integer with a scale."""
    return name in graph.constants and uses[name] == 1 and name not in graph.steps


def _tree(graph: Graph, node: Node, uses: Counter[str], makers: dict[str, Node]) -> Tree | None:
    """x[features[n]] compared with thresholds[n]."""
    if node.op != "GatherAt" or len(graph.shapes[node.inputs[0]]) != 1:
        return None
    place = makers.get(node.inputs[1])
    readers = [other for other in graph.walk() if node.outputs[0] in other.inputs]
    if place is None or place.op != "GatherAt" or len(readers) != 1 or readers[0].op not in COMPARISONS:
        return None
    comparison = readers[0]
    limit = comparison.inputs[1 if comparison.inputs[0] == node.outputs[0] else 0]
    maker = makers.get(limit)
    if maker is None or maker.op != "GatherAt" or maker.inputs[1] != place.inputs[1] or uses[limit] != 1:
        return None
    features, thresholds = place.inputs[0], maker.inputs[0]
    tables = [graph.constants.get(name) for name in (features, thresholds)]
    if any(table is None or table.ndim != 1 for table in tables) or uses[thresholds] != 1:
        return None
    asked = _asking(graph, comparison.outputs[0], makers, len(graph.constants[thresholds]))
    return Tree(features, thresholds, (node.outputs[0], limit), asked)


def _asking(graph: Graph, decision: str, makers: dict[str, Node], count: int) -> np.ndarray:
    """Which rows lead elsewhere than to themselves: leaves are their own children, whatever their threshold."""
    chooser = next((node for node in graph.walk() if node.op == "Where" and node.inputs[0] == decision), None)
    ways = [makers[name] for name in chooser.inputs[1:] if name in makers] if chooser is not None else []
    tables = [graph.constants.get(way.inputs[0]) for way in ways if way.op == "GatherAt"]
    if len(tables) < 2 or any(table is None or table.shape != (count,) for table in tables):
        return np.ones(count, bool)
    return np.asarray(np.any([table != np.arange(count) for table in tables], axis=0))
