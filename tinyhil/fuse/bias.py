"""MatMul with constant weights, Add of a constant -> Gemm: the bias joins the exact sum, one rounding less.

In fixed point, and of asymmetric integers where the model does not itself state how the product is rounded.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tinyhil.formats.format import Format
from tinyhil.fuse.rewriting import Site, everywhere, graph_fusion
from tinyhil.language.graph import Graph, Node
from tinyhil.ops.affine import is_affine


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
        if x in site.constants or weights is None or weights.ndim != 2 or len(site.shapes[x]) < 2:
            continue
        is_alike = site.shapes[node.outputs[0]] == site.shapes[value]
        if is_alike and _is_of_outputs(bias, weights.shape[1]) and _is_exact(site, x, w, offset, value, *node.outputs):
            return Node("Gemm", product.name, (x, w, offset), node.outputs, {}), (product,)
    return None


def _is_of_outputs(bias: np.ndarray, outputs: int) -> bool:
    """Whether it is one number for each output, the same in every row."""
    rows = bias.reshape(-1, outputs) if bias.shape[-1:] == (outputs,) else np.empty(0)
    return bool(rows.size) and bool((rows == rows[0]).all())


def _is_exact(site: Site, x: str, w: str, bias: str, value: str, result: str) -> bool:
    """Whether the bias can join an exact sum: in fixed point, or where bias, multiplier and zero point are whole."""
    if site.integers(x, w, bias, value, result):
        return True
    return value not in site.stated and all(is_affine(site.formats[name]) for name in (x, w, value, result))


def _apply(graph: Graph, formats: Mapping[str, Format]) -> Graph:
    return everywhere(graph, formats, _fused)


BIAS = graph_fusion("bias", "a constant bias inside of a product's exact sum", _apply)
