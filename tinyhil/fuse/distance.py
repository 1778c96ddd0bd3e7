"""Sub, Mul with itself, ReduceSum along the last axis -> SquaredDistance: two matrices less in memory (ProtoNN)."""

from __future__ import annotations

from collections.abc import Mapping

from tinyhil.formats.format import Format
from tinyhil.fuse.rewriting import GraphFusion, Site, everywhere
from tinyhil.graph import Graph, Node, element_count
from tinyhil.lowering import loaded
from tinyhil.ops.distance import DIFFERENCE_BITS, difference_bits, steps

MOST_BITS = 32


def _fused(site: Site, node: Node) -> tuple[Node, tuple[Node, ...]] | None:
    if node.op != "ReduceSum":
        return None
    square = site.maker(node.inputs[0], "Mul")
    if square is None or square.inputs[0] != square.inputs[1]:
        return None
    difference = site.maker(square.inputs[0], "Sub", reads=2)
    if difference is None or not site.integers(*difference.inputs, *difference.outputs, *node.outputs):
        return None
    shape = site.shapes[difference.outputs[0]]
    rows = element_count(shape[:-1])
    if tuple(node.attrs["axes"]) != (len(shape) - 1,):
        return None
    if any(steps(site.shapes[name], rows, shape[-1]) is None for name in difference.inputs):
        return None
    formats = [loaded(site.formats[name]) for name in difference.inputs]
    wide = loaded(site.formats[difference.outputs[0]])
    exponent = wide.exponent + wide.bits - DIFFERENCE_BITS
    exponents = [fmt.exponent for fmt in formats]
    drop = max(exponent - min(exponents), 0)
    if difference_bits([fmt.lowest for fmt in formats], exponents, drop) > MOST_BITS:
        return None
    attrs = {"shape": site.shapes[node.outputs[0]], "exponent": exponent}
    return Node("SquaredDistance", node.name, difference.inputs, node.outputs, attrs), (difference, square)


def _apply(graph: Graph, formats: Mapping[str, Format]) -> Graph:
    return everywhere(graph, formats, _fused)


DISTANCE = GraphFusion("distance", "squared distances without matrices of differences and squares", _apply)
