"""Conv, Gemm or MatMul, then Add of a tensor that is there already -> LayerSum: one rounding and one pass less.

The tensor moves left to the unit of the layer's sum, so its unit must not be finer, and the sum must not need a wider
accumulator class for it. The result may take the tensor's place: then the layer's own result needs no memory at all.
The layer must be the later one of the two operands, else what it reads would have to live on until the Add. Layers
that become index lists (tinyhil/fuse/sparse.py) stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping

from tinyhil.formats.format import INTEGER, Format
from tinyhil.fuse.limits import LAYERS, is_layer
from tinyhil.fuse.rewriting import Site, everywhere, graph_fusion
from tinyhil.fuse.sparse import list_pays
from tinyhil.language.graph import Graph, Node
from tinyhil.language.lowering_context import loaded
from tinyhil.ops.limits import ends_of

MOST_SHIFT = 32  # what the kernel moves an element left by


def _fits(site: Site, layer: Node, addend: str, out: str) -> bool:
    """Whether the formats are fixed point, and the tensor's unit a multiple of the sum's."""
    formats = [site.formats[name] for name in (*layer.inputs, addend, out)]
    if not all(fmt.is_binary_point and fmt.domain == INTEGER for fmt in formats):
        return False
    if any(fmt.is_per_channel for fmt in formats[:-2]):
        return False
    unit = loaded(formats[0]).exponent + loaded(formats[1]).exponent
    return 0 <= loaded(formats[-2]).exponent - unit <= MOST_SHIFT


def is_sparse(site: Site, layer: Node) -> bool:
    """Whether the weights of a layer become index lists."""
    name = layer.inputs[1] if layer.inputs[1] in site.constants else layer.inputs[0]
    return layer.op != "Conv" and list_pays(site.constants[name].T, site.formats[name].storage_bytes)


def _fused(site: Site, node: Node) -> tuple[Node, tuple[Node, ...]] | None:
    if node.op != "Add":
        return None
    shape = site.shapes[node.outputs[0]]
    for value, addend in (node.inputs, node.inputs[::-1]):
        layer = next((made for op in LAYERS if (made := site.maker(value, op)) is not None), None)
        if layer is None or addend in site.constants or value == addend or not is_layer(site, layer):
            continue
        if site.shapes[value] != shape or site.shapes[addend] != shape or ends_of(layer) is not None:
            continue
        if site.is_after(layer, addend) and _fits(site, layer, addend, node.outputs[0]) and not is_sparse(site, layer):
            inputs = (*layer.inputs, addend)
            return Node("LayerSum", layer.name, inputs, node.outputs, {"layer": layer}), (layer,)
    return None


def _apply(graph: Graph, formats: Mapping[str, Format]) -> Graph:
    return everywhere(graph, formats, _fused)


RESIDUAL = graph_fusion("residual", "a computed tensor inside of a layer's exact sum", _apply)
