"""What FP8's paper claims, judged: a best scale is chosen on half of the pictures and counted on the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks.papers import networks
from benchmarks.papers.fp8 import in_place
from benchmarks.papers.fp8.fake_quantize import CONSTANT, FORMATS, INT8
from benchmarks.papers.fp8.scores import blocks, names_of, total
from benchmarks.papers.judge import Interval, above, difference, pooled, worst
from benchmarks.papers.paper import Claim, Outcome, Row, Rows, Verdict, under

MARGIN = 1.0  # points that pass as no difference
SCORES = ("float/", "fake/")
SAVED = 0.15  # of the peak, at least
NOT_YET = Verdict("not testable here", "not measured yet")


@dataclass(frozen=True, slots=True)
class Halves:
    """Scores of a scheme, as shares: on the pictures on which scales are chosen, and on the `pictures` others."""

    chosen_on: float
    counted: float
    pictures: int


def _halves(found: list[Row]) -> Halves | None:
    if len(found) < 2:
        return None
    others = total(found[1::2])
    return Halves(total(found[::2])["score"], others["score"], others["pictures"])


def _schemes(rows: Rows) -> dict[str, dict[str, Halves]]:
    """By network and scheme, where every format has two blocks."""
    result = {}
    for name in names_of(rows):
        halves = {key: _halves(found) for key, found in blocks(rows, "fake", name).items()}
        given = {key: half for key, half in halves.items() if half is not None}
        if all(any(key.startswith(f"{fmt}/") for key in given) for fmt in FORMATS):
            result[name] = given
    return result


def _best(found: Mapping[str, Halves], fmt: str) -> Halves:
    return max((half for key, half in found.items() if key.startswith(f"{fmt}/")), key=lambda half: half.chosen_on)


def _said(parts: Mapping[str, Interval]) -> str:
    return "; ".join(f"{networks.network(name).title} {part}" for name, part in parts.items())


def _ahead(rows: Rows, a: str, b: str, margin: float) -> Verdict:
    """Whether format `a` keeps more than `b` less the margin: in the mean, and nowhere clearly less."""
    best = {name: (_best(found, a), _best(found, b)) for name, found in _schemes(rows).items()}
    if not best:
        return NOT_YET
    parts = {name: difference(x.counted, y.counted, x.pictures) for name, (x, y) in best.items()}
    whole = pooled([*parts.values()])
    nowhere: Outcome = "refuted" if any(above(part, -margin) == "refuted" for part in parts.values()) else "confirmed"
    mean = above(whole, -margin)
    outcome = "not shown" if {mean, nowhere} == {"confirmed", "refuted"} else worst((mean, nowhere))
    said = f"points of {a} above {b}: {_said(parts)}; mean {whole}, margin {margin}"
    return Verdict(outcome, said)


def _e4m3_above_e5m2(rows: Rows) -> Verdict:
    return _ahead(rows, "E4M3", "E5M2", 0.0)


def _not_below_int8(rows: Rows) -> Verdict:
    return _ahead(rows, "E4M3", INT8, MARGIN)


def _insensitive(rows: Rows) -> Verdict:
    """E4M3 under the fixed scales and max: by how much the worst lies below the best."""
    parts = {}
    for name, found in _schemes(rows).items():
        given = [found[key] for rule in (*CONSTANT, "max") if (key := f"E4M3/{rule}/tensor") in found]
        if len(given) == len(CONSTANT) + 1:
            low, high = (choose(given, key=lambda half: half.chosen_on) for choose in (min, max))
            parts[name] = difference(low.counted, high.counted, low.pictures)
    if not parts:
        return NOT_YET
    said = f"points of E4M3's worst scale of 1.0, 0.2, 0.1 and max above its best: {_said(parts)}, margin {MARGIN}"
    return Verdict(worst(above(part, -MARGIN) for part in parts.values()), said)


def _saves(rows: Rows) -> Verdict:
    found = {name: in_place.saved(row) for name, row in under(rows, "in place").items()}
    if not found:
        return NOT_YET
    said = ", ".join(f"{name} {100 * share:.1f} %" for name, share in found.items())
    enough = all(share >= SAVED for share in found.values())
    return Verdict("confirmed" if enough else "refuted", f"beyond live ranges: {said}; exact")


CLAIMS = (
    Claim("E4M3 keeps more accuracy than E5M2", _e4m3_above_e5m2, about=SCORES),
    Claim(
        '"compared to the existing INT8 quantization strategy, the FP8 quantization strategy can maintain better model '
        'accuracy": it is not below int8',
        _not_below_int8,
        "abstract",
        "YOLOv5s 55.5 %, ResNet-50 77.8 %",
        SCORES,
    ),
    Claim(
        '"does not rely on specific calibration algorithms": FP8 is insensitive to the scale',
        _insensitive,
        "abstract",
        "",
        SCORES,
    ),
    Claim(
        '"the peak memory usage is reduced by about 15%~20%", in place',
        _saves,
        "abstract",
        "15 to 20 %",
        ("in place/",),
    ),
)
