"""Rewrites that move elements: copies side by side, blocks between depth and space, Einstein sums."""

from __future__ import annotations

import math
from collections import Counter
from functools import reduce
from itertools import pairwise

import numpy as np

from tinyhil.frontend.rewrite import Results, Rewrite, Site
from tinyhil.language.graph import Shape, element_count
from tinyhil.ops.movement import RANK


def _reshape(site: Site, x: str, *shape: int) -> str:
    return site.make("Reshape", x, site.constant("shape", shape, np.int64))


def _tile(site: Site) -> Results:
    x = site.input(0)
    repeats = [int(count) for count in site.static(1, "repeats").reshape(-1)]
    if len(repeats) != len(site.shape(x)) or min(repeats, default=1) < 1:
        raise site.refuse(f"repeats {repeats} for {list(site.shape(x))}", "give one of 1 or more per axis")
    if element_count(site.shape(x)) * math.prod(repeats) > 1 << 24:
        raise site.refuse(f"repeats {repeats}", "the file is damaged")
    for axis, count in enumerate(repeats):
        if count > 1:
            side = site.shape(x)[axis]
            positions = site.constant("positions", np.arange(side * count) % side, np.int64)
            x = site.make("Gather", x, positions, axis=axis)
    return site.last("Identity", x)


# ---- depth and space


def _each_sample(site: Site) -> Results:
    """The same of each of several samples that are one here, behind each other; None of a single one."""
    shape = site.shape(site.input(0))
    if len(shape) != 4 or shape[0] == 1:
        return None
    made = []
    for sample in range(shape[0]):
        ends = (("starts", [sample]), ("ends", [sample + 1]), ("axes", [0]))
        cut = site.make("Slice", site.input(0), *(site.constant(name, value, np.int64) for name, value in ends))
        made.append(site.make(site.call.op, cut, **site.call.attrs))
    return site.last("Concat", *made, axis=0)


def _planes(site: Site) -> tuple[str, tuple[int, int, int], int]:
    x, block = site.input(0), int(site.attr("blocksize", 0))
    shape = site.shape(x)
    if len(shape) != 4 or shape[0] != 1 or block < 1:
        raise site.refuse(f"input {list(shape)} in blocks of {block}", "it needs (1, channels, height, width)")
    return x, (shape[1], shape[2], shape[3]), block


def _swapped(site: Site, x: str, a: int, b: int, c: int, d: int) -> str:
    """Axes b and c of (a, b, c, d) change places; the result is (a, c, b d)."""
    moved = site.make("Transpose", _reshape(site, x, a, b, c, d), perm=[0, 2, 1, 3])
    return _reshape(site, moved, a, c, b * d)


def _depth_to_space(site: Site) -> Results:
    """(i, j, c, h, w), or (c, i, j, h, w), to (c, h, i, w, j): swaps of neighbours, so that few axes move at once."""
    if (each := _each_sample(site)) is not None:
        return each
    x, (depth, height, width), s = _planes(site)
    if depth % (s * s):
        raise site.refuse(f"{depth} channels in blocks of {s}", "they must be a multiple of its square")
    channels = depth // (s * s)
    if site.attr("mode", "DCR") == "DCR":
        x = _swapped(site, x, 1, s * s, channels, height * width)  # (c, i, j, h, w)
    elif site.attr("mode", "DCR") != "CRD":
        raise site.refuse(f"mode {site.attr('mode', 'DCR')}", "use DCR or CRD")
    x = site.make("Transpose", _reshape(site, x, channels * s, s, height * width), perm=[0, 2, 1])  # (c, i, h, w, j)
    x = _swapped(site, x, channels, s, height, width * s)  # (c, h, i, w, j)
    return site.last("Reshape", x, site.constant("planes", (1, channels, height * s, width * s), np.int64))


def _space_to_depth(site: Site) -> Results:
    """(c, h, i, w, j) to (i, j, c, h, w), or (c, i, j, h, w)."""
    if (each := _each_sample(site)) is not None:
        return each
    x, (channels, height, width), s = _planes(site)
    if height % s or width % s:
        raise site.refuse(f"{height} x {width} pixels in blocks of {s}", "they must be a multiple of it")
    high, wide = height // s, width // s
    x = _swapped(site, x, channels, high, s, width)  # (c, i, h, w, j)
    x = site.make("Transpose", _reshape(site, x, channels * s, high * wide, s), perm=[0, 2, 1])  # (c, i, j, h, w)
    if site.attr("mode", "DCR") == "DCR":
        x = _swapped(site, x, 1, channels, s * s, high * wide)  # (i, j, c, h, w)
    return site.last("Reshape", x, site.constant("planes", (1, channels * s * s, high, wide), np.int64))


# ---- means that count their padding


def average_pool(site: Site) -> Results:
    """With ceil_mode a window may reach beyond the padding, which it does not count: padding becomes part of the
    plane. A window that would begin behind the plane and the padding in front of it is left out.

    ModelError for a damaged file.
    """
    x, attrs = site.input(0), dict(site.call.attrs)
    if not (int(attrs.get("ceil_mode", 0)) and int(attrs.pop("count_include_pad", 0))):
        return None
    if site.attr("auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        return None
    shape = site.shape(x)
    axes = len(shape) - 2
    pads = [int(pad) for pad in attrs.pop("pads", ())] or [0] * (2 * axes)
    strides = [int(stride) for stride in attrs.get("strides", ())] or [1] * axes
    if len(pads) != 2 * axes or len(strides) != axes or not all(0 <= pad < 1 << 16 for pad in pads) or min(strides) < 1:
        raise site.refuse(f"pads {pads} and strides {strides} for {axes} axes", "the file is damaged")
    if not any(pads):
        return site.last("AveragePool", x, **attrs)
    whole = site.constant("pads", [0, 0, *pads[:axes], 0, 0, *pads[axes:]], np.int64)
    pooled = site.make("AveragePool", site.make("Pad", x, whole), **attrs)
    for axis, (front, stride) in enumerate(zip(pads, strides, strict=False), 2):
        count = -(-(shape[axis] + front) // stride)
        if site.shape(pooled)[axis] > count:
            numbers = {"starts": [0], "ends": [count], "axes": [axis]}
            pooled = site.make("Slice", pooled, *(site.constant(k, v, np.int64) for k, v in numbers.items()))
    return site.last("Identity", pooled)


# ---- Einstein sums


def _einsum(site: Site) -> Results:
    """Operands joined two at a time: what one alone has is summed before, a product of matrices sums what both have."""
    letters, result = _letters(site)
    operands = [_diagonal(site, *pair) for pair in zip(letters, site.call.inputs, strict=True)]
    while len(operands) > 1:
        (a, x), (b, y), *rest = operands
        needed = set(result).union(*(names for names, _ in rest))
        operands = [_joined(site, (a, x), (b, y), needed), *rest]
    names, x = _summed(site, *operands[0], set(result))
    if sorted(names) != sorted(result):
        raise site.refuse(f"result '{result}' of '{names}'", "the file is damaged")
    return site.last("Identity", _ordered(site, names, x, result))


def _letters(site: Site) -> tuple[list[str], str]:
    """The axes of each operand and of the result; those of '...' get capital letters no operand uses."""
    equation = str(site.attr("equation", "")).replace(" ", "")
    left, arrow, result = equation.partition("->")
    parts = left.split(",")
    free = [letter for letter in map(chr, range(0x391, 0x3C0)) if letter.isalpha()]
    if len(parts) != len(site.call.inputs):
        raise site.refuse(
            f"{len(parts)} operands in '{equation}' for {len(site.call.inputs)} inputs", "check the model"
        )
    made, widest = [], 0
    for part, name in zip(parts, site.call.inputs, strict=True):
        extra = len(site.shape(name)) - len(part.replace("...", ""))
        if extra < 0 or (extra and "..." not in part) or extra > len(free):
            raise site.refuse(f"'{part}' for a tensor {list(site.shape(name))}", "check the equation")
        widest = max(widest, extra if "..." in part else 0)
        made.append(part.replace("...", "".join(free[len(free) - extra :])))
    if not arrow:
        once = Counter("".join(left.replace("...", "")))
        result = ("..." if "..." in left else "") + "".join(sorted(k for k, n in once.items() if n == 1 and k != ","))
    return made, result.replace("...", "".join(free[len(free) - widest :]))


def _diagonal(site: Site, names: str, x: str) -> tuple[str, str]:
    """The operand with each axis once: of one that is there twice, the elements of equal places."""
    shape = site.shape(x)
    places = np.arange(element_count(shape)).reshape(shape)
    while len(set(names)) < len(names):
        second = next(at for at in range(len(names)) if names[at] in names[:at])
        first = names.index(names[second])
        if places.shape[first] != places.shape[second]:
            sizes = f"{places.shape[first]} and {places.shape[second]}"
            raise site.refuse(f"axis '{names[second]}' of {sizes}", "check the equation")
        places = np.moveaxis(places.diagonal(axis1=first, axis2=second), -1, first)
        names = names[:second] + names[second + 1 :]
    if places.ndim == len(shape):
        return names, x
    flat = _reshape(site, x, element_count(shape))
    return names, site.make("Gather", flat, site.constant("diagonal", places, np.int64), axis=0)


def _summed(site: Site, names: str, x: str, unsummed: set[str]) -> tuple[str, str]:
    """The operand without the axes that nothing else reads."""
    for axis in reversed(range(len(names))):
        if names[axis] not in unsummed:
            x = site.make("ReduceSum", x, site.constant("axes", [axis], np.int64), keepdims=0)
            names = names[:axis] + names[axis + 1 :]
    return names, x


def _ordered(site: Site, names: str, x: str, wanted: str) -> str:
    order = [names.index(name) for name in wanted]
    return x if order == sorted(order) else site.make("Transpose", x, perm=order)


def _joined(site: Site, first: tuple[str, str], second: tuple[str, str], needed: set[str]) -> tuple[str, str]:
    """(batch, rows, inner) times (batch, inner, columns); axes of 1 broadcast along the batch only."""
    (a, x), (b, y) = (
        _summed(site, *mine, needed | set(other[0])) for mine, other in ((first, second), (second, first))
    )
    sizes = {**dict(zip(b, site.shape(y), strict=True)), **dict(zip(a, site.shape(x), strict=True))}
    for name, size in zip(b, site.shape(y), strict=True):
        if name in a and size != sizes[name]:
            raise site.refuse(f"axis '{name}' of {sizes[name]} and {size}", "check the equation")
    batch = "".join(name for name in a if name in b and name in needed)
    inner = "".join(name for name in a if name in b and name not in needed)
    rows, columns = ("".join(name for name in names if name not in batch + inner) for names in (a, b))
    counts = [reduce(lambda n, name: n * sizes[name], names, 1) for names in (batch, rows, inner, columns)]
    groups, r, k, c = counts
    lead = [groups] if groups > 1 else []
    left = _reshape(site, _ordered(site, a, x, batch + rows + inner), *lead, r, k)
    right = _reshape(site, _ordered(site, b, y, batch + inner + columns), *lead, k, c)
    names = batch + rows + columns
    return names, _reshape(site, site.make("MatMul", left, right), *(sizes[name] for name in names))


def _transpose(site: Site) -> Results:
    """More axes than a block has (movement.py) are moved one after the other: each exchanges two blocks of them."""
    x = site.input(0)
    rank = len(site.shape(x))
    perm = [int(axis) for axis in site.attr("perm", None) or range(rank - 1, -1, -1)]
    if sorted(perm) != list(range(rank)) or _moved_axes(site.shape(x), perm) <= RANK:
        return None
    order = list(range(rank))  # axes of the operand, as they lie
    while order != perm:
        start = next(at for at in range(rank) if order[at] != perm[at])
        first = order.index(perm[start])
        end = first + 1
        while end < rank and order[end] == perm[start + end - first]:  # neighbours go together
            end += 1
        step = [*range(start), *range(first, end), *range(start, first), *range(end, rank)]
        order = [order[at] for at in step]
        if order == perm:
            return site.last("Transpose", x, perm=step)
        x = site.make("Transpose", x, perm=step)
    return None


def _moved_axes(shape: Shape, perm: list[int]) -> int:
    """How many axes of more than one element move against each other."""
    moved = [axis for axis in perm if shape[axis] != 1]
    before = sorted(moved)
    return 1 + sum(before.index(b) != before.index(a) + 1 for a, b in pairwise(moved))


REWRITES = (
    Rewrite("Transpose", "any order of the axes", _transpose, ("perm",)),
    Rewrite("Tile", "constant repeats", _tile),
    Rewrite("DepthToSpace", "both modes", _depth_to_space, ("blocksize", "mode")),
    Rewrite("SpaceToDepth", "both modes", _space_to_depth, ("blocksize", "mode")),
    Rewrite("Einsum", "as Gather, Transpose, ReduceSum and MatMul", _einsum, ("equation",)),
)
