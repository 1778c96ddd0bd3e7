"""Rewrites of reductions, running sums, determinants and the k largest elements."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations

import numpy as np

from tinyhil.frontend.listing import Call
from tinyhil.frontend.rewrite import Results, Rewrite, Site
from tinyhil.frontend.rewrite_linear import reshaped
from tinyhil.language.graph import element_count

MOST_FACTORS = 64  # of a product: one multiplication each
TRIANGLE = 64  # a longer axis is summed by a loop: a matrix of ones takes its square
MOST_SIDE = 8  # of a matrix whose determinant is made of minors
AXES = ("axes", "keepdims", "noop_with_empty_axes")


def _sum(site: Site, x: str) -> str:
    """The sum along the axes of the reduction that is rewritten."""
    return site.make("ReduceSum", x, *site.call.inputs[1:], **site.call.attrs)


def _reduce_l1(site: Site) -> Results:
    return site.last("ReduceSum", site.make("Abs", site.input(0)), *site.call.inputs[1:], **site.call.attrs)


def _reduce_sum_square(site: Site) -> Results:
    square = site.make("Mul", site.input(0), site.input(0))
    return site.last("ReduceSum", square, *site.call.inputs[1:], **site.call.attrs)


def _reduce_l2(site: Site) -> Results:
    return site.last("Sqrt", _sum(site, site.make("Mul", site.input(0), site.input(0))))


def _reduce_log_sum(site: Site) -> Results:
    return site.last("Log", _sum(site, site.input(0)))


def _axes(site: Site) -> list[int]:
    """The reduced axes, in order."""
    rank = len(site.shape(site.input(0)))
    given = list(site.attr("axes", None) or (site.static(1, "axes").reshape(-1) if site.input(1) else []))
    if not given and not int(site.attr("noop_with_empty_axes", 0)):
        given = list(range(rank))
    if any(not -rank <= axis < rank for axis in given):
        raise site.refuse(f"axes {given} of a tensor with {rank} axes", "the file is damaged")
    return sorted({int(axis) % rank for axis in given})


def _squeezed(site: Site, x: str, axes: list[int]) -> tuple[str]:
    """The result without its reduced axes, if the reduction does not keep them."""
    if int(site.attr("keepdims", 1)) or not axes:
        return site.last("Identity", x)
    return site.last("Squeeze", x, site.constant("axes", axes, np.int64))


def _reduce_log_sum_exp(site: Site) -> Results:
    """Of the distances to the largest element, so that nothing overflows."""
    x, axes = site.input(0), _axes(site)
    if not axes:
        return site.last("Identity", x)
    largest = site.make("ReduceMax", x, axes=axes, keepdims=1)
    total = site.make("ReduceSum", site.make("Exp", site.make("Sub", x, largest)), axes=axes, keepdims=1)
    return _squeezed(site, site.make("Add", site.make("Log", total), largest), axes)


def _reduce_prod(site: Site) -> Results:
    """Halves multiplied with each other: the rounding errors of few steps."""
    x, axes = site.input(0), _axes(site)
    for axis in axes:
        count = site.shape(x)[axis]
        if count > MOST_FACTORS:
            raise site.refuse(f"a product of {count} factors, the limit is {MOST_FACTORS}", "sum logarithms instead")
        while count > 1:
            half = count // 2
            parts = [_slice(site, x, axis, start, start + half) for start in (0, half)]
            rest = [_slice(site, x, axis, 2 * half, count)] if count % 2 else []
            x = site.make("Mul", *parts)
            x = site.make("Concat", x, *rest, axis=axis) if rest else x
            count = half + len(rest)
    return _squeezed(site, x, axes)


def _slice(site: Site, x: str, axis: int, start: int, end: int) -> str:
    numbers = {"starts": [start], "ends": [end], "axes": [axis]}
    return site.make("Slice", x, *(site.constant(name, value, np.int64) for name, value in numbers.items()))


def _reduce_apart(site: Site) -> Results:
    """Axes that are no neighbours are moved behind all others, where they are."""
    shape = site.shape(site.input(0))
    if site.input(1) and site.value(site.input(1)) is None:
        return None
    axes = _axes(site)
    reduced = [axis for axis in axes if shape[axis] > 1]
    between = set(range(reduced[0], reduced[-1])) if reduced else set()
    if all(shape[axis] == 1 or axis in axes for axis in between):
        return None
    others = [axis for axis in range(len(shape)) if axis not in axes]
    behind = site.make("Transpose", site.input(0), perm=[*others, *axes])
    result = site.make(site.call.op, behind, axes=list(range(len(others), len(shape))), keepdims=0)
    keeps = int(site.attr("keepdims", 1))
    sizes = [1 if axis in axes else shape[axis] for axis in range(len(shape)) if keeps or axis not in axes]
    return site.last("Reshape", result, site.constant("shape", sizes, np.int64))


# ---- running sums


def _cum_sum(site: Site) -> Results:
    """A product with a triangle of ones: exact sums, one rounding. Long axes take a loop."""
    x = site.input(0)
    shape = site.shape(x)
    (axis,) = (int(number) for number in site.static(1, "axis").reshape(-1))
    if not -len(shape) <= axis < len(shape):
        raise site.refuse(f"axis {axis} of a tensor with {len(shape)} axes", "the file is damaged")
    axis %= len(shape)
    count, behind, exclusive = shape[axis], int(site.attr("reverse", 0)), int(site.attr("exclusive", 0))
    order = [*(other for other in range(len(shape)) if other != axis), axis]
    if count > TRIANGLE:
        total = _summed_by_loop(site, x, axis, behind)
        return site.last("Sub", total, x) if exclusive else site.last("Identity", total)
    ones = np.triu(np.ones((count, count)), 1 if exclusive else 0)
    x = x if axis == len(shape) - 1 else site.make("Transpose", x, perm=order)
    x = x if len(shape) > 1 else site.make("Reshape", x, site.constant("row", [1, count], np.int64))
    total = site.make("MatMul", x, site.constant("ones", ones.T if behind else ones))
    if len(shape) == 1:
        return site.last("Reshape", total, site.constant("shape", [count], np.int64))
    if axis == len(shape) - 1:
        return site.last("Identity", total)
    return site.last("Transpose", total, perm=[order.index(position) for position in range(len(shape))])


def _summed_by_loop(site: Site, x: str, axis: int, behind: int) -> str:
    shape = site.shape(x)
    row = shape[:axis] + shape[axis + 1 :]
    outputs = (f"{site.stem}.last", f"{site.stem}.all")
    attrs: dict[str, object] = {"num_scan_inputs": 1, "scan_input_axes": [axis], "scan_output_axes": [axis]}
    if behind:
        attrs |= {"scan_input_directions": [1], "scan_output_directions": [1]}

    def fill(inputs: tuple[str, ...]) -> tuple[str, ...]:
        total = site.make("Add", *inputs)
        return total, total

    call = Call("Scan", f"{site.call.name}.loop", (site.constant("zero", np.zeros(row)), x), outputs, attrs)
    return site.builder.loop(call, [f"{site.stem}.sum", f"{site.stem}.x"], fill)[1]


# ---- determinants


def _det(site: Site) -> Results:
    """By minors: those of the first rows and each choice of columns are made of those with a row less."""
    x, shape = site.input(0), site.shape(site.input(0))
    side, batch = shape[-1], shape[:-2]
    if len(shape) < 2 or shape[-2] != side or side > MOST_SIDE:
        raise site.refuse(f"matrices {list(shape)}", f"square ones of up to {MOST_SIDE} rows are supported")
    rows = reshaped(site, x, element_count(batch), side * side)
    minors, before = _columns(site, rows, range(side)), list(combinations(range(side), 1))
    for row in range(1, side):
        chosen, total = list(combinations(range(side), row + 1)), ""
        for at in reversed(range(row + 1)):  # the last has the sign of the sum
            less = [before.index(columns[:at] + columns[at + 1 :]) for columns in chosen]
            entries = _columns(site, rows, [row * side + columns[at] for columns in chosen])
            term = site.make("Mul", entries, _columns(site, minors, less))
            total = term if not total else site.make("Sub" if (row - at) % 2 else "Add", total, term)
        minors, before = total, chosen
    return site.last("Reshape", minors, site.constant("shape", batch, np.int64))


def _columns(site: Site, rows: str, numbers: Iterable[int]) -> str:
    return site.make("Gather", rows, site.constant("columns", [*numbers], np.int64), axis=1)


# ---- the k largest


def _top_k(site: Site) -> Results:
    x, largest = site.input(0), int(site.attr("largest", 1))
    axis = site.axis(-1, len(site.shape(x)))
    counts = [int(count) for count in site.static(1, "k").reshape(-1)]
    if len(counts) != 1 or not 0 < counts[0] <= site.shape(x)[axis]:
        raise site.refuse(f"k = {counts} of {site.shape(x)[axis]} elements", "give one k of 1 or more")
    attrs = {"axis": axis, "k": counts[0], "largest": largest}
    values = site.named(0, "TopValues", x, **attrs) if site.wants(0) else ""
    return values, (site.named(1, "TopIndices", x, **attrs) if site.wants(1) else "")


REWRITES = (
    Rewrite("ReduceSum", "any axes", _reduce_apart, AXES),
    Rewrite("ReduceMean", "any axes; error as AveragePool", _reduce_apart, AXES),
    Rewrite("ReduceMax", "any axes", _reduce_apart, AXES),
    Rewrite("ReduceMin", "any axes", _reduce_apart, AXES),
    Rewrite("ReduceL1", "as ReduceSum", _reduce_l1, AXES),
    Rewrite("ReduceL2", "as ReduceSum and Sqrt", _reduce_l2, AXES),
    Rewrite("ReduceSumSquare", "as ReduceSum", _reduce_sum_square, AXES),
    Rewrite("ReduceLogSum", "as ReduceSum and Log", _reduce_log_sum, AXES),
    Rewrite("ReduceLogSumExp", "as Exp, ReduceSum and Log, of distances to the largest", _reduce_log_sum_exp, AXES),
    Rewrite("ReduceProd", f"up to {MOST_FACTORS} factors along an axis", _reduce_prod, AXES),
    Rewrite("CumSum", "constant axis; forward, reverse, exclusive", _cum_sum, ("exclusive", "reverse")),
    Rewrite("Det", f"as products of up to {MOST_SIDE} rows; batches", _det),
    Rewrite("TopK", "constant k; sorted, the first of equals first", _top_k, ("axis", "largest", "sorted")),
)
