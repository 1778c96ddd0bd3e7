"""Two records side by side: every figure of both, what changed, and what may not be compared, with the reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from tinyhil.harness.records.bench_stats import ticks_spread, ticks_text
from tinyhil.harness.records.figures import INPUT_MOVED, at_worst, has_input, input_moved
from tinyhil.harness.records.reals import real_outputs
from tinyhil.harness.records.verdict import RecordLike, verdict_of
from tinyhil.references.classes import named

RAM = {
    "total_bytes": "RAM",
    "static_bytes": "static",
    "stack_bytes": "stack",
    "stack_limit_bytes": "stack at worst",
    "heap_bytes": "heap",
    "arena_bytes": "arena",
}
EQUAL, BETTER, WORSE, CHANGED, APART = "equal", "better", "worse", "changed", "not comparable"
OUTPUTS, LARGEST, DECISIONS = "outputs changed", "largest output change", "decisions changed"
OF_BOTH = (OUTPUTS, LARGEST, DECISIONS)  # figures that neither record has alone
BY_CHANCE = "measured: by when bytes arrived; stack at worst tells"


@dataclass(frozen=True, slots=True)
class Row:
    """`before` and `now` as text, empty where unknown; `status` one of those above; `why` one may not compare them."""

    what: str
    before: str
    now: str
    change: str = ""
    status: str = EQUAL
    why: str = ""

    def as_json(self) -> dict[str, str]:
        """Texts as the table shows them."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class _Pair:
    """Two records, and why figures of a kind may not be held to each other (empty: they may)."""

    before: RecordLike
    now: RecordLike
    samples: str
    board: str
    build: str
    times: str


def changes(before: RecordLike, now: RecordLike) -> list[Row]:
    """All figures of two records, equal ones included, in the order in which people ask for them."""
    pair = _pair(with_times(before), with_times(now))
    return [*_identity(pair), *_latency(pair), *_memory(pair), *_decisions(pair), *_outputs(pair), *_settings(pair)]


def with_times(record: RecordLike, most: int | None = None) -> RecordLike:
    """What a golden record does not repeat, of its first samples (`most`; None: of all): of an emulated board each
    time, and how often values saturated."""
    if "boots" in record or "max" in record["latency"]:
        return record
    ticks, instructions, saturations = (record["raw"][name][:most] for name in ("ticks", "instructions", "saturations"))
    clock_hz = None if record["latency"]["unit"] == "instructions" else record["latency"].get("clock_hz")
    latency = {**record["latency"], **ticks_spread(ticks, clock_hz)}
    latency |= {"instructions": float(np.median(instructions))} if instructions else {}
    return {"saturations": sum(saturations), **record, "latency": latency}


def _pair(before: RecordLike, now: RecordLike) -> _Pair:
    same_board = before["board"] == now["board"]
    board = "" if same_board else f"{before['board']} and {now['board']} are different boards"
    compilers = [_compiler(record) for record in (before, now)]
    build = board or ("" if compilers[0] == compilers[1] else "another compiler")
    times = build
    if not times and _emulator(before) != _emulator(now):
        times = f"{_emulator(before)} before, {_emulator(now)} now"
    if not times and now["latency"]["unit"] == "nanoseconds":
        times = "this computer's clock, whatever else it does"
    samples = ""
    if not _same_samples(before, now):
        samples = (
            "other samples" if before["samples"] == now["samples"] else "other samples, and another number of them"
        )
    return _Pair(before, now, samples, board, build, times or samples)


def _same_samples(before: RecordLike, now: RecordLike) -> bool:
    """The same integers went in; or, where calibration or format moved their scale, the same file."""
    left, right = before["raw"]["inputs_crc32"], now["raw"]["inputs_crc32"]
    if left == right:
        return True
    files = [(record.get("data") or {}).get("sha256") for record in (before, now)]
    return files[0] is not None and files[0] == files[1] and before["samples"] == now["samples"]


def _compiler(record: RecordLike) -> str:
    compiler = record["provenance"]["compiler"]
    return f"{compiler['name']} {compiler['version']}"


def _emulator(record: RecordLike) -> str:
    return record["emulator"]["name"] if record["emulator"] else "physical" if record["board"] != "host" else "host"


def _identity(pair: _Pair) -> Iterator[Row]:
    verdicts = [verdict_of(record)["verdict"] for record in (pair.before, pair.now)]
    worse = {"valid": 0, "degraded": 1, "invalid": 2}
    status = EQUAL if verdicts[0] == verdicts[1] else WORSE if worse[verdicts[1]] > worse[verdicts[0]] else BETTER
    yield Row("verdict", verdicts[0], verdicts[1], status=status)
    yield _text("board", pair, lambda record: record["board"])
    yield _text("emulator", pair, _emulator)
    yield _text("model", pair, lambda record: record["model"])
    yield _text("model file", pair, lambda record: record["provenance"]["model_sha256"][:12])
    yield _text("format", pair, lambda record: record["format"])
    yield _text("data", pair, lambda record: (record.get("data") or {}).get("name"))
    yield _text("samples", pair, lambda record: record["samples"])


def _latency(pair: _Pair) -> Iterator[Row]:
    unit = pair.now["latency"]["unit"]
    why = pair.times
    if not why and pair.before["latency"]["unit"] != unit:
        why = "other units"
    for name in ("median", "p95", "max"):
        yield _number(f"{name} {unit}", pair, ("latency", name), why)
    yield _number("median us", pair, ("latency", "median_us"), why, show=_two_digits)
    yield _number("instructions", pair, ("latency", "instructions"), pair.build or pair.times)


def _memory(pair: _Pair) -> Iterator[Row]:
    worst = [at_worst(record["memory"]) for record in (pair.before, pair.now)]
    bounded = None not in worst
    if bounded:
        yield _row("RAM at worst B", worst[0], worst[1], pair.build)
    for name, title in RAM.items():
        measured = bounded and name in ("total_bytes", "stack_bytes")
        row = _number(f"{title} measured B" if measured else f"{title} B", pair, ("memory", name), pair.build)
        if name == "arena_bytes" and not row.why and input_moved(has_input(pair.before), has_input(pair.now)):
            row = replace(row, change="", status=APART, why=INPUT_MOVED)
        by_chance = measured and row.status in (BETTER, WORSE)
        yield replace(row, status=APART, why=BY_CHANCE) if by_chance else row
    if any(record["memory"].get("stack_limit_unknown") for record in (pair.before, pair.now)):
        yield _text("stack at worst unknown", pair, lambda record: record["memory"].get("stack_limit_unknown"))
    yield _number("flash B", pair, ("flash_bytes",), pair.build)
    left, right = (_at(record, ("parts", "flash")) or {} for record in (pair.before, pair.now))
    for name in dict.fromkeys((*left, *right)):  # what an image has no bytes of is no part of it
        sizes = [part.get(name, 0) if part else None for part in (left, right)]
        yield _row(f"flash: {name} B", sizes[0], sizes[1], pair.build)


def _decisions(pair: _Pair) -> Iterator[Row]:
    for name in ("accuracy", "float_accuracy"):
        title = name.replace("_", " ") + " %"
        yield _number(title, pair, (name,), pair.samples, better=-1, show=_percent)
    for name in ("disagreements", "saturations", "input_saturations"):
        yield _number(name.replace("_", " "), pair, (name,), pair.samples)
    yield _number("largest error to float", pair, ("largest_output_error",), pair.samples, show=_short)


def _percent(share: float) -> str:
    return f"{100 * share:,.2f}"


def _at(record: RecordLike, keys: Sequence[str]) -> Any:
    """What lies at a.b.c; None where a step is missing."""
    found: Any = record
    for key in keys:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found


def _outputs(pair: _Pair) -> Iterator[Row]:
    """How many samples' outputs changed, and by how much at most; and how many got another class."""
    before, now = pair.before, pair.now
    total = min(before["samples"], now["samples"])
    if pair.samples:
        yield Row(OUTPUTS, "", "", status=APART, why=pair.samples)
        return
    left, right = (record["raw"]["outputs"][:total] for record in (before, now))
    texts = [(record.get("output") or {}).get("format", "") for record in (before, now)]
    real_left, real_right = real_outputs(left, texts[0]), real_outputs(right, texts[1])
    if real_left is not None and real_right is not None and real_left.shape == real_right.shape:
        apart = np.abs(real_right - real_left).max(axis=1)
        count, most = int((apart > 0).sum()), f"{np.nanmax(apart):.4g}"
        yield from _classes_changed(pair, real_left, real_right)
    elif texts[0] == texts[1] and now["format"] == before["format"]:
        count, most = sum(a != b for a, b in zip(left, right, strict=True)), _codes_apart(left, right)
    else:
        why = f"outputs in {texts[0] or before['format']} and {texts[1] or now['format']}"
        yield Row(OUTPUTS, "", "", status=APART, why=why)
        return
    status = CHANGED if count else EQUAL
    yield Row(OUTPUTS, "", f"{count} of {total} samples", status=status)
    yield Row(LARGEST, "", most if count else "0", status=status)


def _classes_changed(pair: _Pair, left: np.ndarray, right: np.ndarray) -> Iterator[Row]:
    """Nothing where no record says what tells a class (those of earlier versions do not), or they differ in it."""
    decided = [record["decided_by"] for record in (pair.before, pair.now) if record.get("decided_by")]
    rules = {(one["elements"], one["above"]) for one in decided}
    if len(rules) == 1:
        ((elements, above),) = rules
        classes = [named(outputs[:, :elements], above) for outputs in (left, right)]
        count = int((classes[0] != classes[1]).sum())
        yield Row(DECISIONS, "", f"{count} of {len(left)} samples", status=CHANGED if count else EQUAL)


def _codes_apart(before: Sequence[str], now: Sequence[str]) -> str:
    """Where the format is not known: differing bytes, so that nobody takes a code for a value."""
    most = max((sum(a != b for a, b in zip(x, y, strict=False)) for x, y in zip(before, now, strict=True)), default=0)
    return f"{most} hexadecimal digits of a sample (its format is not in the record)"


def _settings(pair: _Pair) -> Iterator[Row]:
    yield _text("RAM of the board B", pair, partial(_at, keys=("memory", "limit_bytes")))
    yield _text("flash of the board B", pair, partial(_at, keys=("flash_limit_bytes",)))
    yield _text("compiler", pair, _compiler)
    for name in ("tinyhil", "commit", "python", "command"):
        row = _text(name, pair, partial(_at, keys=("provenance", name)))
        yield replace(row, before=row.before[:12], now=row.now[:12]) if name == "commit" else row


def _text(what: str, pair: _Pair, get: Callable[[RecordLike], Any]) -> Row:
    left, right = get(pair.before), get(pair.now)
    before, now = ("" if value is None else str(value) for value in (left, right))
    if (left is None) != (right is None):
        return Row(what, before, now, status=APART, why=_unknown(left))
    return Row(what, before, now, status=EQUAL if before == now else CHANGED)


def _unknown(before: Any) -> str:
    return f"unknown {'before' if before is None else 'now'}"


def _two_digits(value: float) -> str:
    return f"{value:,.2f}"


def _short(value: float) -> str:
    return f"{value:.4g}"


def _number(
    what: str,
    pair: _Pair,
    keys: Sequence[str],
    why: str,
    better: int = 1,
    show: Callable[[float], str] = ticks_text,
) -> Row:
    """The figure at a.b.c of both. `better` 1: less is better; -1: more is."""
    return _row(what, _at(pair.before, keys), _at(pair.now, keys), why, better, show)


def _row(
    what: str,
    before: float | None,
    now: float | None,
    why: str,
    better: int = 1,
    show: Callable[[float], str] = ticks_text,
) -> Row:
    left, right = ("" if value is None else show(value) for value in (before, now))
    if before is None or now is None:
        unknown = "" if before is now else _unknown(before)
        return Row(what, left, right, status=APART if unknown else EQUAL, why=unknown)
    if why:
        return Row(what, left, right, status=APART, why=why)
    if before == now:
        return Row(what, left, right)
    share = f" ({100 * (now / before - 1):+.2f} %)" if before else ""
    sign = "+" if now > before else "-"
    status = BETTER if (now - before) * better < 0 else WORSE
    return Row(what, left, right, f"{sign}{show(abs(now - before))}{share}", status)
