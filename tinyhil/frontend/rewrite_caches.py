"""Caches of keys and values: one row is written at a place computed at run time, in the ways exporters write it.

ScatterND with one index, ScatterElements whose indices are one index expanded, TensorScatter with one new row.
"""

from __future__ import annotations

import numpy as np

from tinyhil.frontend.rewrite import Results, Rewrite, Site
from tinyhil.language.graph import element_count

SPREADING = frozenset({"Expand", "Tile", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Truncate"})
REMEDY = "write one row at one place, or export with constant indices"


def placed_nd(site: Site) -> tuple[str]:
    """ScatterND of one row along the first axis; ModelError for several."""
    indices = site.shape(site.input(1))
    if element_count(indices) != 1:
        raise site.refuse(f"indices {list(indices)} computed at run time", REMEDY)
    return _placed(site, site.input(1), 0)


def placed_elements(site: Site) -> tuple[str]:
    """ScatterElements of one row along an axis, whose indices are all the same; ModelError for others."""
    shape, updates = site.shape(site.input(0)), site.shape(site.input(2))
    axis = site.axis(0, len(shape))
    index = _spread(site, site.input(1))
    if index is None or updates != (*shape[:axis], 1, *shape[axis + 1 :]):
        raise site.refuse(f"indices for {list(updates)} of {list(shape)} computed at run time", REMEDY)
    return _placed(site, index, axis)


def _placed(site: Site, index: str, axis: int) -> tuple[str]:
    if str(site.attr("reduction", "none")) != "none":
        raise site.refuse(f"reduction {site.attr('reduction', '')}", "only 'none' is supported")
    return site.last("PlaceAt", site.input(0), index, site.input(2), axis=axis)


def _spread(site: Site, name: str) -> str | None:
    """The one number that `name` repeats; None if it is none that can be told."""
    while element_count(site.shape(name)) != 1:
        producer = site.builder.producer(name)
        if producer is None or producer.op not in SPREADING:
            return None
        name = producer.inputs[0]
    return name


def _at_known_places(site: Site, axis: int, starts: np.ndarray) -> Results:
    """Rows of each sample of a batch at constant places: elements of what was there and what is new."""
    shape, update = site.shape(site.input(0)), site.shape(site.input(1))
    if len(shape) != len(update) or starts.size not in (1, shape[0]) or update[axis] > shape[axis] or axis == 0:
        raise site.refuse(f"{list(update)} written into {list(shape)}", "the file is damaged")
    there = np.arange(np.prod(shape)).reshape(shape).swapaxes(1, axis)
    new = there.size + np.arange(np.prod(update)).reshape(update).swapaxes(1, axis)
    is_ring = site.attr("mode", "linear") == "circular"
    for sample, start in enumerate(np.broadcast_to(starts.reshape(-1), shape[:1])):
        rows = np.arange(start, start + update[axis])
        if not is_ring and not 0 <= start <= shape[axis] - update[axis]:
            raise site.refuse(f"rows {rows.tolist()} of {shape[axis]}", "write inside of the cache")
        there[sample, rows % shape[axis]] = new[sample]
    sources = [site.make("Reshape", name, site.constant("flat", [-1], np.int64)) for name in site.call.inputs[:2]]
    places = site.constant("places", there.swapaxes(1, axis), np.int64)
    return site.last("Gather", site.make("Concat", *sources, axis=0), places, axis=0)


def _tensor_scatter(site: Site) -> Results:
    """A cache (batch of 1, ..., rows, ...) with one new row; whatever is written at constant places."""
    shape, update = site.shape(site.input(0)), site.shape(site.input(1))
    axis = site.axis(-2, len(shape))
    known = site.value(site.input(2)) if site.input(2) else None
    if known is not None and (shape[0] != 1 or update[axis] != 1):
        return _at_known_places(site, axis, known.astype(np.int64))
    if shape[0] != 1 or update != (*shape[:axis], 1, *shape[axis + 1 :]):
        raise site.refuse(f"{list(update)} written into {list(shape)}", "write one row of a batch of 1 at a step")
    index = site.input(2) or site.constant("first", np.zeros(1), np.int64)
    if site.attr("mode", "linear") == "circular":
        index = site.make("Mod", index, site.constant("rows", np.array([shape[axis]]), np.int64))
    return site.last("PlaceAt", site.input(0), index, site.input(1), axis=axis)


REWRITES = (
    Rewrite(
        "TensorScatter",
        "one row of a batch of 1, or rows at constant places; linear or circular",
        _tensor_scatter,
        ("axis", "mode"),
    ),
)
