"""Rewrites of elements written at constant places: chosen from both tensors, or combined with what is there.

Each round takes for every element the next one that is written there, so that as many rounds are needed as elements
share a place. One row at a place computed at run time is a cache (rewrite_caches.py).
"""

from __future__ import annotations

import numpy as np

from tinyhil.frontend.rewrite import Results, Rewrite, Site
from tinyhil.frontend.rewrite_caches import placed_elements, placed_nd
from tinyhil.frontend.rewrite_choices import places_along, places_of_blocks
from tinyhil.frontend.rewrite_linear import reshaped
from tinyhil.language.graph import element_count

MOST_ROUNDS = 64
REDUCTIONS = {"add": ("Add", 0.0), "mul": ("Mul", 1.0), "max": ("Max", None), "min": ("Min", None)}


def _scattered(site: Site, places: np.ndarray) -> Results:
    """The first operand with the elements of the third at flat `places`."""
    reduction = str(site.attr("reduction", "none"))
    shape, count = site.shape(site.input(0)), element_count(site.shape(site.input(0)))
    present = reshaped(site, site.input(0), count)
    updates = reshaped(site, site.input(2), element_count(site.shape(site.input(2))))
    if reduction == "none":
        chosen = np.arange(count)
        chosen[places.reshape(-1)] = count + np.arange(places.size)  # the last of equal ones
        made = _chosen(site, (present, updates), chosen)
    elif reduction in REDUCTIONS:
        made = _combined(site, present, updates, places.reshape(-1))
    else:
        raise site.refuse(f"reduction {reduction}", f"none, {', '.join(REDUCTIONS)} are supported")
    return site.last("Reshape", made, site.constant("shape", shape, np.int64))


def _chosen(site: Site, parts: tuple[str, str], places: np.ndarray) -> str:
    both = site.make("Concat", *parts, axis=0)
    return site.make("Gather", both, site.constant("chosen", places, np.int64), axis=0)


def _combined(site: Site, present: str, updates: str, places: np.ndarray) -> str:
    op, neutral = REDUCTIONS[str(site.attr("reduction", "none"))]
    count = site.shape(present)[0]
    order = np.argsort(places, kind="stable")
    starts = np.searchsorted(places[order], places[order])
    rounds = np.arange(places.size) - starts
    if rounds.max(initial=0) >= MOST_ROUNDS:
        raise site.refuse(f"{rounds.max() + 1} elements at one place", f"the limit is {MOST_ROUNDS}")
    if neutral is not None:  # in front of the updates, where nothing is written
        updates = site.make("Concat", site.constant("neutral", [neutral]), updates, axis=0)
    for number in range(int(rounds.max(initial=-1)) + 1):
        here = order[rounds == number]
        if neutral is None:
            chosen = np.arange(count)
            chosen[places[here]] = count + here
            present = site.make(op, present, _chosen(site, (present, updates), chosen))
            continue
        chosen = np.zeros(count, np.int64)
        chosen[places[here]] = 1 + here
        taken = site.make("Gather", updates, site.constant("chosen", chosen, np.int64), axis=0)
        present = site.make(op, present, taken)
    return present


def _scatter_elements(site: Site) -> Results:
    if site.value(site.input(1)) is None:
        return placed_elements(site)
    shape, index = site.shape(site.input(0)), site.static(1, "indices").astype(np.int64)
    return _scattered(site, places_along(shape, index, range(len(shape))[int(site.attr("axis", 0))]))


def _scatter_nd(site: Site) -> Results:
    if site.value(site.input(1)) is None:
        return placed_nd(site)
    return _scattered(site, places_of_blocks(site, site.static(1, "indices").astype(np.int64))[0])


SCATTERED = "constant indices and any reduction, or one row at a computed place"
REWRITES = (
    Rewrite("ScatterElements", SCATTERED, _scatter_elements, ("axis", "reduction")),
    Rewrite("Scatter", SCATTERED, _scatter_elements, ("axis",)),
    Rewrite("ScatterND", SCATTERED, _scatter_nd, ("reduction",)),
)
