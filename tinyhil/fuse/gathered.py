"""GatherAt of one row of a constant, MatMul with it -> MatMulAt: the weights stay in flash (Bonsai, trees).

The table keeps its own format, so where the chosen row had another one, a rounding less is made.
"""

from __future__ import annotations

from collections.abc import Mapping

from tinyhil.formats.format import AFFINE, INTEGER, Format
from tinyhil.fuse.rewriting import Site, everywhere, graph_fusion
from tinyhil.language.graph import Graph, Node, element_count
from tinyhil.ops.index import MOST_ROWS


def _is_row_of_a_constant(site: Site, gather: Node) -> bool:
    table, index = gather.inputs
    shape, chooser = site.shapes[table], site.formats[index]
    whole = chooser.domain == INTEGER and -15 <= chooser.exponent <= 0
    one = element_count(site.shapes[index]) == 1 and index not in site.constants
    first = len(shape) > 1 and int(gather.attrs.get("axis", 0)) in (0, -len(shape))
    return whole and one and first and table in site.constants and shape[0] < MOST_ROWS


def _inner(site: Site, table: str, x: str, on_left: bool) -> int | None:
    """Length of the sums if every one of them is of a run of `x`; None: neither."""
    shape, given = site.shapes[table][1:], site.shapes[x]
    if element_count(shape[:-2]) != 1 or not given or x in site.constants:
        return None
    if on_left:
        return shape[-1] if element_count(given) == shape[-1] else None
    inner = shape[-2] if len(shape) > 1 else shape[0]
    return inner if given[-1] == inner else None


def _fused(site: Site, node: Node) -> tuple[Node, tuple[Node, ...]] | None:
    if node.op not in ("MatMul", "BatchMatMul"):
        return None
    for on_left, (row, x) in ((False, node.inputs[::-1]), (True, node.inputs)):
        gather = site.maker(row, "GatherAt")
        if gather is None or not _is_row_of_a_constant(site, gather):
            continue
        table, index = gather.inputs
        inner = _inner(site, table, x, on_left)
        formats = [site.formats[name] for name in (table, x, *node.outputs)]
        if inner is None or any(fmt.domain == AFFINE or fmt.is_per_channel for fmt in formats):
            continue
        attrs = {"shape": site.shapes[node.outputs[0]], "inner": inner, "on_left": on_left}
        return Node("MatMulAt", node.name, (x, table, index), node.outputs, attrs), (gather,)
    return None


def _apply(graph: Graph, formats: Mapping[str, Format]) -> Graph:
    return everywhere(graph, formats, _fused)


GATHERED = graph_fusion("gathered", "weights chosen at run time are read where they lie", _apply)
