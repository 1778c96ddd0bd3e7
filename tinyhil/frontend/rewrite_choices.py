"""Rewrites of choices by constant places and of what exporters and onnxruntime fuse: one-hot rows, triangles,
elements gathered, running products, group normalization, GELU with its bias, skips."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tinyhil.frontend.rewrite import MICROSOFT, Results, Rewrite, Site
from tinyhil.language.graph import element_count

MOST_FACTORS = 256  # of a running product: an operation each


def _reshaped(site: Site, value: str, shape: Sequence[int], part: str) -> str:
    return site.make("Reshape", value, site.constant(part, np.array(shape), np.int64))


# ---- functions


def _swish(site: Site) -> Results:
    x, alpha = site.input(0), float(site.attr("alpha", 1.702 if site.call.op == "QuickGelu" else 1.0))
    steep = x if alpha == 1.0 else site.make("Mul", x, site.constant("alpha", alpha))
    return site.last("Mul", x, site.make("Sigmoid", steep))


def _biased_gelu(approximate: str) -> Rewrite:
    name = "FastGelu" if approximate == "tanh" else "BiasGelu"

    def apply(site: Site) -> Results:
        x = site.make("Add", site.input(0), site.input(1)) if site.input(1) else site.input(0)
        return site.last("Gelu", x, approximate=approximate)

    return Rewrite(name, "as Add and Gelu", apply, (), MICROSOFT)


def _fused_matmul(site: Site) -> Results:
    names = []
    for index, option in enumerate(("transA", "transB")):
        value = site.input(index)
        rank = len(site.shape(value))
        if int(site.attr(option, 0)):
            value = site.make("Transpose", value, perm=[*range(rank - 2), rank - 1, rank - 2])
        names.append(value)
    if int(site.attr("transBatchA", 0)) or int(site.attr("transBatchB", 0)):
        raise site.refuse("transposed batches", "export without the optimizer's fusion")
    alpha = float(site.attr("alpha", 1.0))
    if alpha == 1.0:
        return site.last("MatMul", *names)
    return site.last("Mul", site.make("MatMul", *names), site.constant("alpha", alpha))


def _skip_normalization(site: Site) -> Results:
    """The sum of both operands (and a bias) normalized; result 3 is the sum itself."""
    is_simple = "Simplified" in site.call.op
    total, places = site.make("Add", site.input(0), site.input(1)), (2, 3) if is_simple else (3, 4)
    if site.input(places[1]):
        total = site.make("Add", total, site.input(places[1]))
    if site.wants(1) or site.wants(2):
        raise site.refuse("its mean or deviation as a result", "export without them")
    eps = float(site.attr("epsilon", 1e-12 if not is_simple else 1e-5))
    op = "SimplifiedLayerNormalization" if is_simple else "LayerNormalization"
    others = [site.input(2)] if is_simple or not site.input(3) else [site.input(2), site.input(3)]
    (made,) = site.last(op, total, *others, axis=-1, epsilon=eps)
    return (made, "", "", total)[: len(site.call.outputs)]


def _group_normalization(site: Site) -> Results:
    x, groups = site.input(0), int(site.attr("num_groups", 1))
    shape = site.shape(x)
    if len(shape) < 3 or groups < 1 or shape[1] % groups:
        raise site.refuse(f"{groups} groups of {list(shape)}", "the file is damaged")
    ones, zeros = site.constant("ones", np.ones(groups)), site.constant("zeros", np.zeros(groups))
    rows = _reshaped(site, x, (shape[0], groups, element_count(shape[1:]) // groups), "rows")
    made = site.make("InstanceNormalization", rows, ones, zeros, epsilon=float(site.attr("epsilon", 1e-5)))
    parts = []
    for index, what in ((1, "scale"), (2, "bias")):
        given = site.static(index, what).reshape(-1)
        each = given if given.size == shape[1] else np.repeat(given, shape[1] // groups)
        parts.append(site.constant(what, each.reshape(-1, *[1] * (len(shape) - 2))))
    back = _reshaped(site, made, shape, "back")
    return site.last("Add", site.make("Mul", back, parts[0]), parts[1])


def _lp_pool(site: Site) -> Results:
    """The p-th root of sums of p-th powers, of windows or of whole planes."""
    x, p = site.input(0), int(site.attr("p", 2))
    if p < 1:
        raise site.refuse(f"p {p}", "1 and more is possible; the file is damaged")
    kernel = [int(side) for side in site.attr("kernel_shape", site.shape(x)[2:])]
    powers = site.make("Mul", x, x) if p == 2 else site.make("Abs", x)
    if p > 2:
        powers = site.make("Pow", powers, site.constant("power", float(p)))
    names = ("auto_pad", "ceil_mode", "pads", "strides", "dilations")
    attrs = {name: site.call.attrs[name] for name in names if name in site.call.attrs}
    means = site.make("AveragePool", powers, count_include_pad=1, kernel_shape=kernel, **attrs)
    count = site.constant("count", float(element_count(tuple(kernel))))
    if p == 1:
        return site.last("Mul", means, count)
    sums = site.make("Mul", means, count)
    return site.last("Sqrt", sums) if p == 2 else site.last("Pow", sums, site.constant("root", 1 / p))


def _running_product(site: Site) -> Results:
    shape, axis = site.shape(site.input(0)), int(site.static(1, "axis").reshape(-1)[0])
    axis = range(len(shape))[axis]
    if shape[axis] > MOST_FACTORS:
        raise site.refuse(f"{shape[axis]} factors", f"the limit is {MOST_FACTORS}")
    is_exclusive, is_backward = bool(site.attr("exclusive", 0)), bool(site.attr("reverse", 0))
    order = range(shape[axis])[::-1] if is_backward else range(shape[axis])
    found: dict[int, str] = {}
    before = site.constant("one", np.ones([1 if n == axis else side for n, side in enumerate(shape)]))
    for at in order:
        ends = [site.constant(part, np.array([n]), np.int64) for part, n in (("at", at), ("to", at + 1), ("of", axis))]
        here = site.make("Slice", site.input(0), *ends)
        after = here if before in site.builder.constants else site.make("Mul", before, here)
        found[at] = before if is_exclusive else after
        before = after
    rows = [found[at] for at in range(shape[axis])]
    return site.last("Concat", *rows, axis=axis)


# ---- choices by constant places


def _trilu(site: Site) -> Results:
    """The upper or lower triangle; what is left out is 0."""
    x, k = site.input(0), int(site.static(1, "diagonal").reshape(-1)[0]) if site.input(1) else 0
    rows, columns = site.shape(x)[-2:]
    everything = np.ones((rows, columns), np.float32)
    triangle = np.triu(everything, k) if int(site.attr("upper", 1)) else np.tril(everything, k)
    return site.last("Where", site.constant("triangle", triangle, bool), x, site.constant("zero", 0.0))


def _one_hot(site: Site) -> Results:
    """A row of `off` with `on` at an index; those below 0 count from behind, those beyond are nowhere."""
    depth, (off, on) = int(site.static(1, "depth").reshape(-1)[0]), site.static(2, "values").reshape(-1).tolist()
    shape = site.shape(site.input(0))
    axis = range(len(shape) + 1)[int(site.attr("axis", -1))]
    wide = [*shape[:axis], 1, *shape[axis:]]
    index = _reshaped(site, site.input(0), wide, "wide")
    places = np.arange(depth).reshape(-1, *[1] * (len(shape) - axis))
    here = site.make("Equal", index, site.constant("places", places))
    behind = site.make("Equal", index, site.constant("behind", places - depth))
    chosen = site.make("Or", here, behind)
    return site.last("Where", chosen, site.constant("on", on), site.constant("off", off))


def _hard_max(site: Site) -> Results:
    """1 at the first of the largest elements, else 0."""
    x = site.input(0)
    shape = site.shape(x)
    axis = range(len(shape))[int(site.attr("axis", -1))]
    best = site.make("ArgMax", x, axis=axis, keepdims=1)
    places = np.arange(shape[axis]).reshape(-1, *[1] * (len(shape) - 1 - axis))
    same = site.make("Equal", best, site.constant("places", places))
    return site.last("Where", same, site.constant("one", 1.0), site.constant("zero", 0.0))


def _taken(site: Site, places: np.ndarray, shape: Sequence[int]) -> Results:
    """Elements of the first operand by their flat places."""
    x = site.input(0)
    flat = _reshaped(site, x, (element_count(site.shape(x)),), "flat")
    rows = site.make("Gather", flat, site.constant("places", places.reshape(-1), np.int64), axis=0)
    return site.last("Reshape", rows, site.constant("shape", np.array(shape), np.int64))


def places_along(shape: Sequence[int], index: np.ndarray, axis: int) -> np.ndarray:
    """Flat places of elements of `shape`, at `index` along `axis` and at their own places along the others."""
    axes = [np.broadcast_to(a, index.shape) for a in np.ogrid[tuple(slice(side) for side in index.shape)]]
    axes[axis] = np.where(index < 0, index + shape[axis], index)
    return np.asarray(np.ravel_multi_index(tuple(axes), tuple(shape)))


def _gather_elements(site: Site) -> Results:
    if site.value(site.input(1)) is None:
        return _gathered_at(site)
    shape, index = site.shape(site.input(0)), site.static(1, "indices").astype(np.int64)
    return _taken(site, places_along(shape, index, range(len(shape))[int(site.attr("axis", 0))]), index.shape)


def _gathered_at(site: Site) -> Results:
    """Indices computed at run time, from behind if they are below 0: places in the whole tensor."""
    x, index = site.input(0), site.input(1)
    shape, wanted = site.shape(x), site.shape(index)
    axis = range(len(shape))[int(site.attr("axis", 0))]
    side = site.constant("side", shape[axis], np.int64)
    zero = site.constant("zero", 0, np.int64)
    index = site.make("Where", site.make("Less", index, zero), site.make("Add", index, side), index)
    inner = site.constant("inner", element_count(shape[axis + 1 :]), np.int64)
    starts = places_along(shape, np.zeros(wanted, np.int64), axis)
    places = site.make("Add", site.make("Mul", index, inner), site.constant("starts", starts, np.int64))
    flat = _reshaped(site, x, (element_count(shape),), "flat")
    return site.last("Gather", flat, places, axis=0)


def places_of_blocks(site: Site, index: np.ndarray) -> tuple[np.ndarray, tuple[int, ...]]:
    """Flat places (..., elements) of the blocks that the rows of `index` name, and the shape of a block."""
    shape = site.shape(site.input(0))
    depth = index.shape[-1]
    sides = np.array(shape[:depth])
    rows = np.where(index < 0, index + sides, index)
    block = tuple(shape[depth:])
    size = element_count(block)
    starts = np.ravel_multi_index(tuple(np.moveaxis(rows, -1, 0)), tuple(sides)) * size
    return np.asarray(starts)[..., None] + np.arange(size), block


def _gather_nd(site: Site) -> Results:
    index, batch = site.static(1, "indices").astype(np.int64), int(site.attr("batch_dims", 0))
    if batch:
        own = np.indices(index.shape[:-1])[:batch]
        index = np.concatenate([np.moveaxis(own, 0, -1), index], axis=-1)
    places, block = places_of_blocks(site, index)
    return _taken(site, places, (*index.shape[:-1], *block))


def _optional_element(site: Site) -> Results:
    return site.last("Identity", site.input(0))


def _has_element(site: Site) -> Results:
    """Known when the model is read: a value that is there is a tensor."""
    return (site.builder.constant(site.stem, np.array(bool(site.input(0)))),)


_POOL = ("auto_pad", "ceil_mode", "pads", "strides", "kernel_shape", "dilations", "p")
REWRITES = (
    Rewrite("OptionalGetElement", "the tensor itself", _optional_element),
    Rewrite("OptionalHasElement", "folded", _has_element),
    Rewrite("Swish", "as Mul and Sigmoid", _swish, ("alpha",)),
    Rewrite("QuickGelu", "as Mul and Sigmoid", _swish, ("alpha",), MICROSOFT),
    _biased_gelu("tanh"),
    _biased_gelu("none"),
    Rewrite(
        "FusedMatMul",
        "as Transpose, MatMul and Mul",
        _fused_matmul,
        ("alpha", "transA", "transB", "transBatchA", "transBatchB"),
        MICROSOFT,
    ),
    Rewrite("SkipLayerNormalization", "as Add and LayerNormalization", _skip_normalization, ("epsilon",), MICROSOFT),
    Rewrite(
        "SkipSimplifiedLayerNormalization",
        "as Add and RMSNormalization",
        _skip_normalization,
        ("epsilon",),
        MICROSOFT,
    ),
    Rewrite(
        "GroupNormalization",
        "as InstanceNormalization; constant scales and biases",
        _group_normalization,
        ("epsilon", "num_groups", "stash_type"),
    ),
    Rewrite("LpPool", "as powers, AveragePool and a root", _lp_pool, _POOL),
    Rewrite("GlobalLpPool", "as LpPool", _lp_pool, ("p",)),
    Rewrite(
        "CumProd", f"up to {MOST_FACTORS} factors along a constant axis", _running_product, ("exclusive", "reverse")
    ),
    Rewrite("Trilu", "constant diagonal", _trilu, ("upper",)),
    Rewrite("OneHot", "constant depth and values", _one_hot, ("axis",)),
    Rewrite("Hardmax", "any axis", _hard_max, ("axis",)),
    Rewrite("GatherElements", "constant or computed indices", _gather_elements, ("axis",)),
    Rewrite("GatherND", "constant indices", _gather_nd, ("batch_dims",)),
)
