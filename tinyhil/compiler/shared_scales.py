"""One scale for a whole and its parts, so that a part can be shown where the whole lies instead of being copied.

Asymmetric integers go further: whatever an operator chooses from its operand (MaxPool, Transpose, Pad) has the scale of
the operand, and codes move as they are.

Concat along the outermost axis, Split and contiguous Slice move elements without computing. Where part and whole have
the same kind of format, all get the coarsest of their scales (a whole reaches as far as its parts together), as
TensorFlow Lite asks of the same operators. Parts of another width keep their own scale and are copied.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from tinyhil.compiler.pins import chooses, rescales
from tinyhil.formats.format import Format
from tinyhil.language.graph import Graph, Node, Shape, element_count


def ranges_together(
    graph: Graph, groups: Sequence[tuple[str, ...]], movable: Collection[str]
) -> dict[str, tuple[str, ...]]:
    """For the first value of each group all values with which it has one range: those between which elements are
    chosen. `movable`: the values of asymmetric formats whose scale nobody asked for."""
    first = {name: group[0] for group in groups for name in group}
    together = {group[0]: list(group) for group in groups}
    for node in graph.walk():
        names = [first[name] for name in (*node.inputs, *node.outputs)] if chooses(node) and not rescales(node) else []
        names = [name for name in dict.fromkeys(names) if set(together[name]) <= set(movable)]
        for other in names[1:]:
            if together[other] is not together[names[0]]:
                together[names[0]] += together[other]
                joined = set(together[names[0]])
                together.update({name: together[names[0]] for name in together if name in joined})
    return {name: tuple(members) for name, members in together.items()}


def share_scales(
    graph: Graph, groups: Sequence[tuple[str, ...]], formats: Mapping[str, Format], movable: Iterable[str]
) -> dict[str, Format]:
    """`formats` with the scales of parts and wholes made equal. `groups`: values that share storage already;
    `movable`: the values whose scale nobody asked for."""
    leaders = leaders_of(graph, groups, formats, movable)
    exponents: dict[str, int] = {}
    for group in groups:
        top = leaders[group[0]]
        exponents[top] = max(exponents.get(top, formats[group[0]].exponent), formats[group[0]].exponent)
    return {name: formats[name].scaled(exponents[top]) for name, top in leaders.items()}


def leaders_of(
    graph: Graph, groups: Sequence[tuple[str, ...]], formats: Mapping[str, Format], movable: Iterable[str]
) -> dict[str, str]:
    """For every value the one that stands for all that `share_scales` gives the same scale."""
    group_of = {name: group for group in groups for name in group}
    constants = graph.all_constants()
    free = {name for name in movable if name not in constants}
    leader: dict[str, str] = {group[0]: group[0] for group in groups}

    def find(name: str) -> str:
        while leader[name] != name:
            name = leader[name]
        return name

    for whole, part in _pairs(graph):
        a, b = (find(group_of[name][0]) for name in (whole, part))
        if {whole, part} <= free and a != b and formats[whole].scaled(0) == formats[part].scaled(0):
            leader[b] = a
    return {name: find(group[0]) for group in groups for name in group}


def _pairs(graph: Graph) -> Iterator[tuple[str, str]]:
    """(whole, part) of every part whose elements follow each other in the whole."""
    shapes = graph.all_shapes()
    for node in graph.walk():
        if rescales(node):
            continue
        if node.op == "Concat" and _outermost(node, shapes[node.outputs[0]]):
            yield from ((node.outputs[0], part) for part in node.inputs)
        elif node.op in ("Slice", "Split"):
            for part, (_, step, sizes) in zip(node.outputs, node.attrs["parts"], strict=True):
                if is_contiguous(shapes[node.inputs[0]], step, sizes):
                    yield node.inputs[0], part


def _outermost(node: Node, shape: Shape) -> bool:
    return element_count(shape[: int(node.attrs.get("axis", 0)) % len(shape)]) == 1


def is_contiguous(shape: Shape, step: Sequence[int], sizes: Sequence[int]) -> bool:
    """Whether these sizes, taken with these steps, are elements that follow each other in a tensor of `shape`."""
    cut = [axis for axis, (dim, size) in enumerate(zip(shape, sizes, strict=True)) if dim != size]
    if any(stride != 1 and size > 1 for stride, size in zip(step, sizes, strict=True)):
        return False
    return not cut or element_count(tuple(sizes[: cut[-1]])) == 1
