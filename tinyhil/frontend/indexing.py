"""Indices of the DSL: parts of tensors, rows of loops, choices at run time, parts exchanged."""

from __future__ import annotations

from collections.abc import Sequence

from tinyhil.frontend import functions, syntax
from tinyhil.frontend.elaboration import Elaboration
from tinyhil.frontend.row_reads import Row
from tinyhil.frontend.tokens import Place
from tinyhil.frontend.values import Step
from tinyhil.language.graph import Shape


def spans_of(e: Elaboration, indices: tuple[syntax.Index, ...], shape: Shape) -> list[tuple[int, int]]:
    """(start, length) of each axis."""
    if len(indices) > len(shape):
        raise indices[len(shape)].at.error(f"{len(indices)} indices of a tensor with {len(shape)} axes")
    spans = [(0, size) for size in shape]
    for axis, index in enumerate(indices):
        if index.start is None:
            continue
        start, length = e.static(index.start), 1 if index.length is None else index.length
        if not 0 <= start <= start + length <= shape[axis] or length == 0:
            raise index.at.error(f"elements {start} to {start + length} of an axis of {shape[axis]}")
        spans[axis] = start, length
    return spans


def indexed(e: Elaboration, item: syntax.Indexed, wish: str) -> str:
    """The value that an indexed expression reads, by the cheapest operator that does it."""
    row = row_read(e, item, wish) or gathered(e, item, wish)
    if row is not None:
        return row
    source = e.operand(item.operand)
    shape = e.shape(source)
    spans = spans_of(e, item.indices, shape)
    dropped = [axis for axis, index in enumerate(item.indices) if index.start is not None and index.length is None]
    part = cut(e, source, spans, item.at, "" if dropped else wish)
    if not dropped:
        return part
    left = [length for axis, (_, length) in enumerate(spans) if axis not in dropped]
    return functions.reshaped(e, part, left, item.at, wish)


def cut(e: Elaboration, source: str, spans: Sequence[tuple[int, int]], at: Place, wish: str = "") -> str:
    """The part of a tensor between (start, length) of each axis."""
    shape = e.shape(source)
    axes = [axis for axis, (_, length) in enumerate(spans) if length != shape[axis]]
    if not axes:
        return source
    starts, ends = [spans[a][0] for a in axes], [sum(spans[a]) for a in axes]
    return e.call("Slice", [source, *map(e.integers, (starts, ends, axes))], at, wish)


def replaced(e: Elaboration, let: syntax.Let) -> str:
    """The tensor with a part of it exchanged: the parts around it, and the new one between them."""
    (target,) = let.targets
    whole = e.operand(syntax.Name(let.at, target))
    shape = e.shape(whole)
    spans = spans_of(e, let.indices, shape)
    part = e.operand(let.value)
    wanted = tuple(length for _, length in spans)
    sliced = tuple(n for n, i in zip(wanted, [*let.indices, *[None] * len(shape)], strict=False) if _keeps(i))
    if e.shape(part) not in (wanted, sliced):
        raise let.at.error(f"a value of shape {list(e.shape(part))} for a part of shape {list(wanted)}")
    part = functions.reshaped(e, part, wanted, let.at)
    for axis in reversed(range(len(shape))):  # the part is whole along all later axes already
        (start, length), size = spans[axis], shape[axis]
        later = [(0, full) for full in shape[axis + 1 :]]
        before, behind = (
            cut(e, whole, [*spans[:axis], span, *later], let.at) if span[1] else None
            for span in ((0, start), (start + length, size - start - length))
        )
        pieces = [piece for piece in (before, part, behind) if piece is not None]
        if len(pieces) > 1:
            part = e.call("Concat", pieces, let.at, axis=axis)
    return part


def row_read(e: Elaboration, item: syntax.Indexed, wish: str) -> str | None:
    """The row a loop shows, if an index is the step of a loop."""
    for axis, index in enumerate(item.indices):
        if not isinstance(index.start, syntax.Name):
            continue
        step = e.lookup(index.start.name)
        if not isinstance(step, Step):
            continue
        source = e.operand(item.operand)
        row = step.rows.get(Row(source, axis))
        others = [other for other in item.indices if other is not index]
        if row is None or index.length not in (None, 1) or any(other.start is not None for other in others):
            remedy = f"give the tensor a name before the loop and read x[{step.variable}] or x[:, {step.variable}]"
            raise item.at.error(f"the loop can not read this by rows; {remedy}")
        if index.length is None:
            return row
        shape = e.shape(row)
        return functions.reshaped(e, row, (*shape[:axis], 1, *shape[axis:]), item.at, wish)
    return None


def gathered(e: Elaboration, item: syntax.Indexed, wish: str) -> str | None:
    """What an index that is computed at run time chooses."""
    given = [(axis, index) for axis, index in enumerate(item.indices) if index.start is not None]
    if len(given) != 1 or not isinstance(given[0][1].start, syntax.Name) or given[0][1].length is not None:
        return None
    axis, start = given[0][0], given[0][1].start
    chosen = e.named(start)
    if not isinstance(chosen, str) or chosen in e.builder.constants or e.shape(chosen) not in ((), (1,)):
        return None
    return e.call("Gather", [e.operand(item.operand), chosen], item.at, wish, axis=axis)


def _keeps(index: syntax.Index | None) -> bool:
    return index is None or index.start is None or index.length is not None
