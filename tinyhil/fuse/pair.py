"""Two products with constant weights and their Add -> LayerPair: both in one exact sum, one rounding instead of two.

What recurrent cells do with input and state. The sum of the products whose unit is the coarser one is moved left to
the unit of the other's, so the units must not lie far apart. Operands that would die before the other product is made
must not be larger than the result that is saved. Asymmetric integers get scales of weights that make the units of both
products one (tinyhil/ops/affine_pair.py), unless the model itself states them. Only one of the two may have a bias.
Layers that become index lists (tinyhil/fuse/sparse.py) stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tinyhil.formats.format import INTEGER, Format
from tinyhil.fuse.limits import is_layer
from tinyhil.fuse.residual import is_sparse
from tinyhil.fuse.rewriting import Site, everywhere, graph_fusion
from tinyhil.language.graph import Graph, Node, element_count
from tinyhil.language.lowering_context import loaded
from tinyhil.ops.affine import is_affine
from tinyhil.ops.limits import ends_of

PRODUCTS = ("MatMul", "Gemm")
PLAIN = {"alpha": 1.0, "beta": 1.0, "transA": 0}
NOTHING = np.empty(0)
MOST_LIFT = 8  # bits by which a sum is moved left: bytes stay within sums of 32


def _unit(site: Site, layer: Node) -> int:
    return sum(loaded(site.formats[name]).exponent for name in layer.inputs[:2])


def _fits(site: Site, layer: Node) -> bool:
    """Whether a product of a row with constant weights is computed in integers of at most 16 bits."""
    x, w = layer.inputs[:2]
    formats = [site.formats[name] for name in layer.inputs]
    if x in site.constants or w not in site.constants or ends_of(layer) is not None or not is_layer(site, layer):
        return False
    if any(layer.attrs.get(name, plain) != plain for name, plain in PLAIN.items()):
        return False
    if (
        len(layer.inputs) == 3
        and site.constants.get(layer.inputs[2], NOTHING).size != site.shapes[layer.outputs[0]][-1]
    ):
        return False
    if is_affine(*formats, bits=8):
        return w not in site.stated and layer.outputs[0] not in site.stated
    if any(fmt.is_per_channel or fmt.is_sign or not 1 < fmt.bits <= 16 for fmt in formats):
        return False
    return all(fmt.is_binary_point and fmt.domain == INTEGER for fmt in formats) and not is_sparse(site, layer)


def _operands_are_small(site: Site, pair: list[Node], result: str) -> bool:
    """Whether what has to live until both products are made is no larger than the result of one, which is saved."""
    sizes = {
        n: element_count(site.shapes[n]) * site.formats[n].storage_bytes
        for n in (result, *pair[0].inputs[:1], *pair[1].inputs[:1])
    }
    return sum(size for name, size in sizes.items() if name != result and site.is_made(name)) <= sizes[result]


def _fused(site: Site, node: Node) -> tuple[Node, tuple[Node, ...]] | None:
    formats = [site.formats[name] for name in (*node.inputs, *node.outputs)]
    asymmetric = is_affine(*formats, bits=8)
    if node.op != "Add" or node.inputs[0] == node.inputs[1]:
        return None
    if not asymmetric and not site.integers(*node.inputs, *node.outputs):
        return None
    shape = site.shapes[node.outputs[0]]
    layers = [next((made for op in PRODUCTS if (made := site.maker(n, op)) is not None), None) for n in node.inputs]
    pair = [made for made in layers if made is not None and _fits(site, made)]
    if len(pair) < 2 or len(shape) != 2 or any(site.shapes[name] != shape for name in node.inputs):
        return None
    if is_affine(*(site.formats[layer.inputs[0]] for layer in pair)) != asymmetric:
        return None
    fine, coarse = sorted(pair, key=lambda layer: (_unit(site, layer), -len(layer.inputs)))
    if _unit(site, coarse) - _unit(site, fine) > MOST_LIFT or len(fine.inputs) + len(coarse.inputs) > 5:
        return None
    if not _operands_are_small(site, pair, node.outputs[0]):
        return None
    inputs = (*fine.inputs, *coarse.inputs)
    return Node("LayerPair", node.name, inputs, node.outputs, {"layers": (fine, coarse)}), (fine, coarse)


def _apply(graph: Graph, formats: Mapping[str, Format]) -> Graph:
    return everywhere(graph, formats, _fused)


PAIR = graph_fusion("pair", "two products with constant weights in one exact sum", _apply)
