"""MatMul with constant weights, Add of a constant -> Gemm: the bias joins the exact sum, one rounding less."""

from __future__ import annotations

from collections.abc import Mapping

from tinyhil.formats.format import Format
from tinyhil.fuse.rewriting import Site, everywhere, graph_fusion
from tinyhil.language.graph import Graph, Node


def _fused(site: Site, node: Node) -> tuple[Node, tuple[Node, ...]] | None:
    if node.op != "Add":
        return None
    for value, offset in (node.inputs, node.inputs[::-1]):
        product = site.maker(value, "MatMul")
        bias = site.constants.get(offset)
        if product is None or bias is None:
            continue
        x, w = product.inputs
        weights = site.constants.get(w)
        if not site.integers(x, w, offset, value, *node.outputs):
            continue
        if x in site.constants or weights is None or weights.ndim != 2 or len(site.shapes[x]) != 2:
            continue
        outputs = weights.shape[1]
        if (
            bias.size == outputs
            and bias.shape[-1:] == (outputs,)
            and site.shapes[node.outputs[0]] == site.shapes[value]
        ):
            return Node("Gemm", product.name, (x, w, offset), node.outputs, {}), (product,)
    return None


def _apply(graph: Graph, formats: Mapping[str, Format]) -> Graph:
    return everywhere(graph, formats, _fused)


BIAS = graph_fusion("bias", "a constant bias inside of the exact sum of a product", _apply)
