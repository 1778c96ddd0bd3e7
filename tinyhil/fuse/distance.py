"""Sub, Mul with itself, ReduceSum along the last axis -> SquaredDistance: two matrices less in memory (ProtoNN)."""

from __future__ import annotations

from collections.abc import Mapping

from tinyhil.formats.format import INTEGER, Format
from tinyhil.fuse.rewriting import Site, everywhere, graph_fusion
from tinyhil.language.graph import Graph, Node, element_count
from tinyhil.language.lowering_context import domain_of, loaded
from tinyhil.ops.distance import DIFFERENCE_BITS, difference_bits, steps

MOST_BITS = 32


def _fused(site: Site, node: Node) -> tuple[Node, tuple[Node, ...]] | None:
    if node.op != "ReduceSum":
        return None
    square = site.maker(node.inputs[0], "Mul")
    if square is None or square.inputs[0] != square.inputs[1]:
        return None
    difference = site.maker(square.inputs[0], "Sub", reads=2)
    if difference is None:
        return None
    shape = site.shapes[difference.outputs[0]]
    rows = element_count(shape[:-1])
    if tuple(node.attrs["axes"]) != (len(shape) - 1,):
        return None
    if any(steps(site.shapes[name], rows, shape[-1]) is None for name in difference.inputs):
        return None
    exponent = _exponent(site, difference)
    if exponent is None:
        return None
    attrs = {"shape": site.shapes[node.outputs[0]], "exponent": exponent}
    return Node("SquaredDistance", node.name, difference.inputs, node.outputs, attrs), (difference, square)


def _exponent(site: Site, difference: Node) -> int | None:
    """Of the unit that integers round the difference to: what its own format asks for, or what holds any difference.
    Other domains have none. None: no accumulator holds the aligned difference."""
    operands = [site.formats[name] for name in difference.inputs]
    if domain_of(operands) != INTEGER:
        return 0
    formats, out = [loaded(fmt) for fmt in operands], site.formats[difference.outputs[0]]
    lowests, exponents = [fmt.lowest for fmt in formats], [fmt.exponent for fmt in formats]
    exact = difference_bits(lowests, exponents, 0)
    exponent = min(exponents) + max(exact - DIFFERENCE_BITS, 0)
    if out.is_binary_point and out.domain == INTEGER:
        exponent = out.exponent + out.bits - DIFFERENCE_BITS
    drop = max(exponent - min(exponents), 0)
    return exponent if difference_bits(lowests, exponents, drop) <= MOST_BITS else None


def _apply(graph: Graph, formats: Mapping[str, Format]) -> Graph:
    return everywhere(graph, formats, _fused)


DISTANCE = graph_fusion("distance", "squared distances without matrices of differences and squares", _apply)
