"""Which results get the grid that TensorFlow Lite states for a function: of 8 bits a Softmax at the end of a model, in
units of 1/256 from the lowest code up; of 16 bits Sigmoid and Tanh, in units of 2**-15.

In that grid the function is a kernel of integers; in any other it is one of floats, which costs a chip without a
floating-point unit most of a small model's time. Inside a model, where a product reads them, shares are fitted to their
range as all else is; so are results of 16 bits that reach so little of their grid that it would lose what they tell.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tinyhil.compiler.pins import chooses
from tinyhil.language.graph import Graph, Node
from tinyhil.ops import affine_softmax, word_functions
from tinyhil.ops.operator import attr, axis_of

LARGEST_SHARE = 255 * affine_softmax.RESULT[0]  # 0..LARGEST_SHARE in 8 bits is that grid
LEAST = 2.0**-4  # of the largest magnitude: 12 bits are left
Ends = tuple[float, float]


@dataclass(frozen=True, slots=True)
class FunctionGrids:
    """The values that functions make, under all names of their memory."""

    shares: frozenset[str]
    words: frozenset[str]

    def ends(self, group: tuple[str, ...], bits: int, found: Mapping[str, Ends]) -> Ends:
        """The range to which a format of `bits` is fitted for values that share memory. `found`: what all values reach
        that have one range with them."""
        low, high = min(low for low, _ in found.values()), max(high for _, high in found.values())
        if bits == 8 and self.shares.issuperset(group):
            return 0.0, LARGEST_SHARE
        if bits == word_functions.BITS and LEAST <= max(-low, high) <= 1 and not self.words.isdisjoint(found):
            others = [max(-low, high) for name, (low, high) in found.items() if name not in self.words]
            if max(others, default=0.0) <= word_functions.LARGEST:
                return -word_functions.LARGEST, word_functions.LARGEST
        return low, high


def function_grids(graph: Graph, groups: Iterable[tuple[str, ...]]) -> FunctionGrids:
    """Those of `graph`, of which `groups` are the values that share memory."""
    groups = list(groups)
    shares = {node.outputs[0] for node in graph.nodes if node.op == "Softmax" and _is_along_last(graph, node)}
    words = _results_of_words(graph)
    given = (group for group in groups if shares.intersection(group) and not set(graph.outputs).isdisjoint(group))
    made = (group for group in groups if words.intersection(group))
    return FunctionGrids(frozenset().union(*given), frozenset().union(*made))


def _results_of_words(graph: Graph) -> set[str]:
    """What Sigmoid and Tanh make, and what is chosen from nothing else."""
    made, constants = set[str](), graph.all_constants()
    for node in graph.walk():
        if node.op in word_functions.WORST_ERROR or (
            chooses(node) and made.issuperset(set(node.inputs) - set(constants))
        ):
            made.update(node.outputs)
    return made


def _is_along_last(graph: Graph, node: Node) -> bool:
    rank = len(graph.shapes[node.inputs[0]])
    return axis_of(node, attr(node, "axis", -1), rank) == rank - 1
