"""Conv, Gemm or MatMul, then Relu or Clip -> the layer with limits: one rounding instead of two, one pass less.

Always worth it where the layer's result has no other reader: the tensor between them disappears, and with it a pass
that loads, rounds and stores every element; limiting costs a comparison while the sum is still in registers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from tinyhil.formats.format import AFFINE, INTEGER, Format
from tinyhil.fuse.rewriting import Site, everywhere, graph_fusion
from tinyhil.language.graph import Graph, Node, element_count
from tinyhil.ops.limits import ENDS, ends_of

LAYERS = ("Conv", "Gemm", "MatMul")
FUSED = ("LayerSum", "LayerPair")
LIMITED = (*LAYERS, *FUSED)


def _ends(node: Node) -> tuple[float, float] | None:
    if node.op == "Relu":
        return 0.0, math.inf
    return (float(node.attrs["min"]), float(node.attrs["max"])) if node.op == "Clip" else None


def is_layer(site: Site, node: Node) -> bool:
    """Whether `node` is lowered to one kernel that sums products with constant weights."""
    x, w = node.inputs[:2]
    weights = site.constants.get(w)
    if node.op in FUSED:
        return True
    if node.op != "MatMul":
        return weights is not None
    if weights is not None:
        return weights.ndim == 2
    left = site.constants.get(x)
    return left is not None and left.ndim == 2 and element_count(site.shapes[w]) == left.shape[1]


def _fits(formats: list[Format], out: Format, ends: tuple[float, float]) -> bool:
    """Whether there is a kernel for these operands and this result."""
    if ends[0] > ends[1] or out.is_sign:
        return False
    if any(fmt.domain == AFFINE for fmt in (*formats, out)):
        return all(fmt.domain == AFFINE for fmt in (*formats[:2], out))
    if ends == (0.0, math.inf):
        return True
    return out.is_binary_point and all(fmt.domain == INTEGER for fmt in (*formats, out))


def _fused(site: Site, node: Node) -> tuple[Node, tuple[Node, ...]] | None:
    ends = _ends(node)
    if ends is None:
        return None
    for op in LIMITED:
        layer = site.maker(node.inputs[0], op)
        if layer is None or ends_of(layer) is not None or not is_layer(site, layer):
            continue
        if site.formats[node.outputs[0]].is_sign and ends[0] < 0 < ends[1]:  # which change no sign
            return replace(layer, outputs=node.outputs), (layer,)
        if _fits([site.formats[name] for name in layer.inputs], site.formats[node.outputs[0]], ends):
            attrs = {**layer.attrs, **dict(zip(ENDS, ends, strict=True))}
            return replace(layer, outputs=node.outputs, attrs=attrs), (layer,)
    return None


def _apply(graph: Graph, formats: Mapping[str, Format]) -> Graph:
    return everywhere(graph, formats, _fused)


ACTIVATION = graph_fusion("activation", "Relu and Clip inside of the layer before them", _apply)
