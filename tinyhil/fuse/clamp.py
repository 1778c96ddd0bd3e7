"""Sums, products and means of asymmetric integers with the Relu or Clip behind them, and all of their kernels with the
range of a quantized model: two ends for the codes.

The range of FakeQuantize clips in the model itself, so it does not count as saturation.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from tinyhil.formats.format import AFFINE, Format
from tinyhil.fuse.limits import is_layer
from tinyhil.fuse.rewriting import Site, everywhere, graph_fusion
from tinyhil.language.graph import Graph, Node
from tinyhil.ops.affine_words import factors_of
from tinyhil.ops.limits import ENDS, ends_of
from tinyhil.ops.quantize import FAKE, grid_of

LAYERS = ("Conv", "Gemm", "MatMul")
ELEMENTWISE = ("Add", "Sub", "Mul")
OTHERS = (*ELEMENTWISE, "AveragePool", "GlobalAveragePool")
BITS = 8  # of all operands of the others, and of their result, but for sums and products of words


def _activation(site: Site, node: Node) -> tuple[Node, tuple[Node, ...]] | None:
    if node.op == "Relu":
        return _clamped(site, node, (0.0, math.inf), OTHERS)
    return _clamped(site, node, (node.attrs["min"], node.attrs["max"]), OTHERS) if node.op == "Clip" else None


def _range(site: Site, node: Node) -> tuple[Node, tuple[Node, ...]] | None:
    if node.op != FAKE or site.formats[node.outputs[0]] != grid_of(node):
        return None
    grid = grid_of(node)
    ends = ((grid.lowest - grid.zero) * grid.scale, (grid.highest - grid.zero) * grid.scale)
    return _clamped(site, node, ends, (*LAYERS, *OTHERS))


def _clamped(
    site: Site, node: Node, ends: tuple[float, float], ops: tuple[str, ...]
) -> tuple[Node, tuple[Node, ...]] | None:
    for op in ops:
        made = site.maker(node.inputs[0], op)
        if made is None or not _is_affine(site, made, site.formats[node.outputs[0]]):
            continue
        low, high = ends_of(made) or (-math.inf, math.inf)
        low, high = max(low, float(ends[0])), min(high, float(ends[1]))
        attrs = {**made.attrs, **dict(zip(ENDS, (low, max(low, high)), strict=True))}
        return replace(made, outputs=node.outputs, attrs=attrs), (made,)
    return None


def _is_affine(site: Site, node: Node, out: Format) -> bool:
    """Whether `node` is done by a kernel of asymmetric integers."""
    formats = [site.formats[name] for name in node.inputs]
    if node.op in LAYERS:
        return is_layer(site, node) and all(fmt.domain == AFFINE for fmt in (*formats[:2], out))
    if node.op in ELEMENTWISE and factors_of(node.op, (*formats, out)) is not None:
        return True
    return all(fmt.domain == AFFINE and fmt.bits == BITS for fmt in (*formats, out))


def _apply(graph: Graph, formats: Mapping[str, Format]) -> Graph:
    return everywhere(everywhere(graph, formats, _activation), formats, _range)


CLAMP = graph_fusion("clamp", "Relu, Clip and quantized ranges as ends of asymmetric results", _apply)
