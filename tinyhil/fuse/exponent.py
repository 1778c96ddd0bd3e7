"""Mul by one constant, Exp -> Exp of a factor: the constant joins log2(e), and one rounding less is made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tinyhil.formats.format import Format
from tinyhil.fuse.rewriting import Site, everywhere, graph_fusion
from tinyhil.language.graph import Graph, Node


def _fused(site: Site, node: Node) -> tuple[Node, tuple[Node, ...]] | None:
    product = site.maker(node.inputs[0], "Mul") if node.op == "Exp" else None
    if product is None:
        return None
    for x, factor in (product.inputs, product.inputs[::-1]):
        constant = site.constants.get(factor)
        if constant is None or constant.size != 1 or site.shapes[x] != site.shapes[product.outputs[0]]:
            continue
        value = float(constant.reshape(-1)[0])
        if value == 0 or x in site.constants or not site.integers(x, *node.outputs):
            continue
        attrs = {**node.attrs, "factor": value * float(node.attrs.get("factor", 1.0))}
        return replace(node, inputs=(x,), attrs=attrs), (product,)
    return None


def _apply(graph: Graph, formats: Mapping[str, Format]) -> Graph:
    return everywhere(graph, formats, _fused)


EXPONENT = graph_fusion("exponent", "a constant factor inside of the exponential", _apply)
