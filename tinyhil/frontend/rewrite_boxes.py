"""NonMaxSuppression: the best boxes of each class, without those that overlap a better one.

A board's results have one size. So there are as many rows as may be found, of each class the smaller of
`max_output_boxes_per_class` and the boxes there are; rows that nothing fills are -1, where ONNX leaves them out.
"""

from __future__ import annotations

import numpy as np

from tinyhil.frontend.listing import Call
from tinyhil.frontend.rewrite import Results, Rewrite, Site
from tinyhil.frontend.rewrite_linear import reshaped
from tinyhil.frontend.rewrite_windows import sliced

MOST_FOUND, MOST_SAMPLES = 1000, 8


def _suppressed(site: Site) -> Results:
    boxes, scores = site.shape(site.input(0)), site.shape(site.input(1))
    if len(boxes) != 3 or boxes[2] != 4 or len(scores) != 3 or (boxes[0], boxes[1]) != (scores[0], scores[2]):
        raise site.refuse(f"boxes {list(boxes)} and scores {list(scores)}", "the file is damaged")
    most = int(site.static(2, "number of boxes").reshape(-1)[0]) if site.input(2) else 0
    most = min(most, boxes[1])
    if not 0 < most <= MOST_FOUND or boxes[0] > MOST_SAMPLES:
        raise site.refuse(f"{most} boxes of {boxes[0]} samples", f"1 to {MOST_FOUND} of up to {MOST_SAMPLES}")
    parts = [_of_sample(site, number, most) for number in range(boxes[0])]
    return site.last("Concat", *parts, axis=0) if len(parts) > 1 else site.last("Identity", parts[0])


def _of_sample(site: Site, number: int, most: int) -> str:
    """Rows (classes * most, 3) of sample, class and box."""
    _, classes, count = site.shape(site.input(1))
    boxes = reshaped(site, sliced(site, site.input(0), 0, number, number + 1), count, 4)
    scores = reshaped(site, sliced(site, site.input(1), 0, number, number + 1), classes, count)
    corners = _corners(site, boxes, count)
    left, least = _left(site, scores)
    outputs = tuple(f"{site.stem}.{part}{number}" for part in ("rest", "found"))
    steps = site.constant("steps", np.zeros((most, 1)))
    call = Call("Scan", f"{site.call.name}.boxes{number}", (left, steps), outputs, {"num_scan_inputs": 1})
    wishes = (f"{site.stem}.left", f"{site.stem}.step")
    _, found = site.builder.loop(call, wishes, lambda names: _step(site, names[0], corners, least))
    index = site.make("Transpose", reshaped(site, found, most, classes), perm=[1, 0])
    index = reshaped(site, index, classes * most, 1)
    own = np.stack([np.full(classes * most, number), np.repeat(np.arange(classes), most)], axis=1)
    none = site.constant("none", -1, np.int64)
    is_found = site.make("GreaterOrEqual", index, site.constant("first", 0, np.int64))
    return site.make("Concat", site.make("Where", is_found, site.constant("own", own, np.int64), none), index, axis=1)


def _corners(site: Site, boxes: str, count: int) -> list[str]:
    """Least y and x, largest y and x, area: each (count)."""
    columns = [sliced(site, boxes, 1, at, at + 1) for at in range(4)]
    if int(site.attr("center_point_box", 0)):
        x, y, width, height = columns
        halves = [site.make("Mul", side, site.constant("half", 0.5)) for side in (height, width)]
        low = [site.make("Sub", middle, half) for middle, half in zip((y, x), halves, strict=True)]
        high = [site.make("Add", middle, half) for middle, half in zip((y, x), halves, strict=True)]
    else:
        low, high = ([site.make(op, *columns[axis::2]) for axis in range(2)] for op in ("Min", "Max"))
    area = site.make("Mul", *(site.make("Sub", end, start) for start, end in zip(low, high, strict=True)))
    return [reshaped(site, side, count) for side in (*low, *high, area)]


def _left(site: Site, scores: str) -> tuple[str, str]:
    """Scores, those that never count one below the threshold; and what is above these."""
    if site.input(4):
        least = float(site.static(4, "score threshold").reshape(-1)[0])
        threshold, never = site.constant("threshold", least), site.constant("never", least - 1)
        counted = site.make("Where", site.make("Greater", scores, threshold), scores, never)
        return counted, site.constant("above", least - 0.5)
    smallest = site.make("ReduceMin", scores, keepdims=1, axes=[0, 1])
    return scores, site.make("Sub", smallest, site.constant("half", 0.5))


def _step(site: Site, left: str, corners: list[str], least: str) -> tuple[str, str]:
    """The scores (classes, boxes) behind the best box of each class, and the number of this box, or -1."""
    count = site.shape(left)[1]
    place = site.make("ArgMax", left, axis=1, keepdims=1)
    best = site.make("ReduceMax", left, axes=[1], keepdims=1)
    own = [site.make("Gather", side, place, axis=0) for side in corners]
    sides = []
    for axis in range(2):
        start = site.make("Max", corners[axis], own[axis])
        sides.append(site.make("Relu", site.make("Sub", site.make("Min", corners[axis + 2], own[axis + 2]), start)))
    common = site.make("Mul", *sides)
    union = site.make("Sub", site.make("Add", corners[4], own[4]), common)
    most = float(site.static(3, "overlap").reshape(-1)[0]) if site.input(3) else 0.0
    gone = site.make("Greater", common, site.make("Mul", union, site.constant("most", most)))
    gone = site.make("Or", gone, site.make("Equal", site.constant("every", np.arange(count), np.int64), place))
    never = site.make("Sub", least, site.constant("half", 0.5))
    counts = site.make("Greater", best, least)
    index = site.make("Where", counts, place, site.constant("none", -1, np.int64))
    return site.make("Where", gone, never, left), index


REWRITES = (
    Rewrite(
        "NonMaxSuppression",
        "constant limits; as many rows as may be found, -1 where nothing is",
        _suppressed,
        ("center_point_box",),
    ),
)
