"""Two measurements of the same thing: what differs, and whether a gate holds.

Emulators give integers, so outputs, cycles and bytes must be equal. Times of physical boards are compared by
`harness/records/bench_stats.py`; everything else of theirs must be equal too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from tinyhil.errors import DataError
from tinyhil.files import read_json
from tinyhil.harness.records.bench_stats import Times, compare_times, ticks_text
from tinyhil.harness.records.figures import (
    INPUT_MOVED,
    SIZES,
    Figures,
    figures,
    input_moved,
    is_candidate,
    planned_with,
)
from tinyhil.harness.records.schema import read_record, required
from tinyhil.harness.records.side_by_side import Row, changes

Key = TypeVar("Key")
STACK_SLACK_BYTES = 64  # a question repeated on a busy host nests one interrupt more, on AVR with all its registers
SHOWN = 3  # samples that a line names

ONE_OF = {
    "searches": "search",
    "records of other firmware": "record of other firmware",
    "profiles": "profile",
    "benches": "bench",
    "older runs": "older run",
}

Keys = Collection[tuple[str, ...]]  # boards, models and formats


@dataclass(frozen=True, slots=True)
class Difference:
    """`fails`: the gate does not hold. `better`: smaller or faster than before."""

    what: str
    text: str
    fails: bool = True
    better: bool = False

    def __str__(self) -> str:
        return f"{self.what}: {self.text}"


def compare(before: Figures, now: Figures, history: Sequence[float] = ()) -> list[Difference]:
    """What differs from `before`, over the samples both hold; `history`: medians of earlier runs, for times."""
    invalid = [("before", before), ("now", now)]
    found = [Difference("verdict", f"{name}: invalid: {f.invalid}") for name, f in invalid if f.invalid]
    if before.model_sha256 != now.model_sha256:
        return [*found, Difference("model", "another file: none of its figures is held to those before")]
    common = min(len(before.inputs), len(now.inputs))
    if before.inputs[:common] == now.inputs[:common]:
        found += _per_sample("outputs", before.outputs[:common], now.outputs[:common])
        found += _per_sample("saturations", before.saturations[:common], now.saturations[:common])
    else:
        found.append(_other_inputs(before, now))
    same_compiler = before.compiler == now.compiler
    if not same_compiler:
        text = f"{before.compiler} before, {now.compiler} now: cycles and bytes are not held to each other"
        found.append(Difference("compiler", text, fails=False))
    same_board = before.board == now.board
    if not same_board:
        text = f"{now.board} instead of {before.board}: times and bytes are not held to each other"
        found.append(Difference("board", text, fails=False))
    if same_board:
        found += _clock(before.clock_hz, now.clock_hz)
    if same_board and same_compiler:
        found += _costs(before, now, common, history)
    if before.inputs == now.inputs or _same_samples(before, now):
        found += _decisions(before, now)
    return found


def _same_samples(before: Figures, now: Figures) -> bool:
    """Of the same file, whatever their codes."""
    return bool(before.data) and before.data == now.data and len(before.inputs) == len(now.inputs)


def _other_inputs(before: Figures, now: Figures) -> Difference:
    """The boards were sent other codes: of other samples, or of any samples in another format. Codes that changed with
    nothing but ranges are a change, as outputs are."""
    fails = False
    if before.format != now.format and len(before.inputs) == len(now.inputs):
        said = f"codes in {now.format} instead of {before.format}: outputs are not held to each other"
    elif _same_samples(before, now):
        said, fails = "the same samples in other codes, since ranges changed, so other outputs", True
    else:
        number = "" if len(before.inputs) == len(now.inputs) else ", and another number of them"
        unheld = "outputs and times are" if now.exact_time else "outputs are"
        said = f"other samples{number}: {unheld} not held to each other; both need the same --inputs"
    return Difference("inputs", said, fails, better=fails and not _decisions(before, now))


def _decisions(before: Figures, now: Figures) -> list[Difference]:
    """Accuracy, and whether decisions have become doubtful."""
    found = _accuracy(before.accuracy, now.accuracy)
    if before.inputs == now.inputs and before.outputs == now.outputs:
        found = [replace(one, text=f"{one.text}, of equal outputs: labels are others") for one in found]
    if before.degraded is None or now.degraded is None:
        return found
    new = {*now.degraded} - {*before.degraded} - ({"accuracy-collapsed"} if found else set())
    return [*found, *([Difference("verdict", f"degraded now: {', '.join(sorted(new))}")] if new else [])]


def _accuracy(before: float | None, now: float | None) -> list[Difference]:
    if before is None or now is None or before == now:
        return []
    text = f"{100 * before:.2f} % -> {100 * now:.2f} %"
    return [Difference("accuracy", text, fails=now < before, better=now > before)]


def _costs(before: Figures, now: Figures, common: int, history: Sequence[float]) -> list[Difference]:
    found = []
    for name in SIZES:
        changed = _number(name, before.sizes[name], now.sizes[name])
        if name == "arena_bytes" and input_moved(before.has_input, now.has_input):
            changed = [replace(one, text=f"{one.text}; {INPUT_MOVED}", fails=False) for one in changed]
        found += changed
    if before.stack_limit_bytes is not None and now.stack_limit_bytes is not None:
        found += _number("stack_limit_bytes", before.stack_limit_bytes, now.stack_limit_bytes)
    elif now.stack_limit_unknown and before.stack_limit_bytes is not None:
        text = f"{before.stack_limit_bytes} -> unknown: {now.stack_limit_unknown}"
        found.append(Difference("stack_limit_bytes", text, fails=True))
    elif before.stack_limit_unknown and now.stack_limit_bytes is not None:
        text = f"unknown -> {now.stack_limit_bytes}"
        found.append(Difference("stack_limit_bytes", text, fails=False, better=True))
    elif before.stack_bytes is not None and now.stack_bytes is not None:
        over = now.stack_bytes - before.stack_bytes
        if abs(over) > STACK_SLACK_BYTES:
            found += _number("stack_bytes", before.stack_bytes, now.stack_bytes)
    if before.emulator != now.emulator:
        names = (before.emulator or "physical", now.emulator or "physical")
        text = f"{names[0]} before, {names[1]} now: times are not held to each other"
        return [*found, Difference("board", text, fails=False)]
    if now.unit == "nanoseconds":  # this computer's clock, whatever else it does
        return found
    if not now.exact_time:
        return [*found, *_times(before, now, history)]
    if before.inputs[:common] == now.inputs[:common]:
        found += _ticks(now.unit, before.ticks[:common], now.ticks[:common])
        if before.instructions and now.instructions:
            found += _ticks("instructions", before.instructions[:common], now.instructions[:common])
    elif _same_samples(before, now) and before.unit == now.unit and before.median_ticks != now.median_ticks:
        change = now.median_ticks / before.median_ticks - 1 if before.median_ticks else 0.0
        text = f"median {ticks_text(before.median_ticks)} -> {ticks_text(now.median_ticks)} ({100 * change:+.2f} %)"
        found.append(Difference(now.unit, text, better=now.median_ticks < before.median_ticks))
    return found


def _clock(before: int | None, now: int | None) -> list[Difference]:
    """The same cycles take another time; unknown of other people's firmware."""
    if before == now or not before or not now:
        return []
    text = f"{before:,} -> {now:,} Hz: the same cycles take {before / now:.3g} times as long"
    return [Difference("clock_hz", text, better=now > before)]


def _times(before: Figures, now: Figures, history: Sequence[float]) -> list[Difference]:
    verdict = compare_times(_of(before), _of(now), history)
    if not verdict.notable:
        return []
    return [Difference(now.unit, verdict.text, fails=verdict.fails, better=verdict.change < 0)]


def _of(figures: Figures) -> Times:
    return Times(figures.boot_medians or (figures.median_ticks,))


def _number(name: str, before: int | None, now: int | None) -> list[Difference]:
    if before == now or before is None or now is None:
        return []
    return [Difference(name, f"{before:,} -> {now:,} ({now - before:+,})", better=now < before)]


def _per_sample(what: str, before: Sequence[object], now: Sequence[object]) -> list[Difference]:
    differing = [index for index, (a, b) in enumerate(zip(before, now, strict=True)) if a != b]
    if not differing:
        return []
    shown = "; ".join(f"sample {index}: {before[index]} -> {now[index]}" for index in differing[:SHOWN])
    return [Difference(what, f"{len(differing)} of {len(now)} samples differ; {shown}")]


def _ticks(unit: str, before: Sequence[int], now: Sequence[int]) -> list[Difference]:
    if before == now:
        return []
    change = sum(now) / sum(before) - 1 if sum(before) else 0.0
    (difference,) = _per_sample(unit, before, now)
    return [Difference(unit, f"{100 * change:+.3f} % in all; {difference.text}", better=sum(now) < sum(before))]


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[Difference]:
    """What differs in record `now` from record `before`; DataError if one is no record of a run."""
    return compare(figures(required(before, "the first record")), figures(required(now, "the second record")))


@dataclass(frozen=True, slots=True)
class Compared:
    """Two records, what their gates say, and all their figures beside each other."""

    before: Path
    now: Path
    name: str
    differences: tuple[Difference, ...]
    failing: tuple[Difference, ...]
    rows: tuple[Row, ...]

    def as_json(self) -> dict[str, Any]:
        """For `hil compare --json`: what gates say, and every figure."""
        plain = [asdict(difference) for difference in self.differences]
        names = {"name": self.name, "before": str(self.before), "now": str(self.now)}
        return {**names, "differences": plain, "table": [row.as_json() for row in self.rows]}


def compared(before: Path, now: Path, better_is_fine: bool = False) -> Compared:
    """Compare the records in two files; DataError if one is none."""
    left, right = read_record(before), read_record(now)
    figures_now = figures(right)
    found = compare(figures(left), figures_now)
    failing = [d for d in found if d.fails and not (better_is_fine and d.better)]
    rows = tuple(changes(left, right))
    return Compared(before, now, " ".join(figures_now.key), tuple(found), tuple(failing), rows)


def key_of(record: Mapping[str, Any]) -> tuple[str, str, str]:
    """Board, model and format, or file of formats: what two records have in common of which one follows the other."""
    seen = figures(record)
    return *seen.key[:2], f"{seen.key[2]}{seen.by}"


def newest(folder: Path) -> dict[tuple[str, str, str], Path]:
    """The newest record of each board, model and format (or file of formats) under `folder`: a bench or a profile,
    which are of few samples, only where nothing else is; of candidates of a search none. DataError without a record."""
    return {key: paths[-1] for key, paths in _by_age(folder, key_of).items()}


def _by_age(folder: Path, key_of: Callable[[Mapping[str, Any]], Key]) -> dict[Key, list[Path]]:
    """The records of each key under `folder`, the newest last, of the kind that counts as `newest` has it."""
    found: dict[str, dict[Key, list[Path]]] = {"profile": {}, "boots": {}, "": {}}  # the last: runs
    for path in sorted(folder.rglob("*.json"), key=lambda path: path.name):
        if is_candidate(path, folder):
            continue
        with suppress(DataError):
            record = read_record(path)
            kind = next((key for key in ("profile", "boots") if key in record), "")
            found[kind].setdefault(key_of(record), []).append(path)
    if not any(found.values()):
        raise DataError(f"{folder}: no records below")
    return found["profile"] | found["boots"] | found[""]


def shown_of(folder: Path) -> tuple[tuple[Path, ...], str]:
    """What a page of a folder is of: the newest runs of each board, model, format and plan or, where there is none, its
    searches; and what is left out, empty if nothing. DataError without either."""
    kinds: dict[str, list[Path]] = {"searches": [], "records of other firmware": [], "profiles": [], "benches": []}
    known = set[str]()  # searches: a sweep has each in its cell, too
    for path in sorted(folder.rglob("*.json")):
        try:
            data = read_json(path, "record")
        except DataError:
            continue
        if isinstance(data, dict) and "strategy" in data:
            if (text := json.dumps(data)) not in known:
                kinds["searches"].append(path)
            known.add(text)
        elif isinstance(data, dict) and "engine" in data:
            kinds["records of other firmware"].append(path)
        elif isinstance(data, dict) and {"profile", "boots"} & data.keys() and not is_candidate(path, folder):
            kinds["profiles" if "profile" in data else "benches"].append(path)
    searches = kinds["searches"]
    try:
        by_age = _by_age(folder, lambda record: (*key_of(record), planned_with(record)))
    except DataError as error:
        if not searches:
            raise DataError(f"{error}{' but those of other firmware' if any(kinds.values()) else ''}") from None
        by_age = {}
    runs = tuple(paths[-1] for paths in by_age.values())
    counted = {*kinds["profiles"], *kinds["benches"]}
    kinds["older runs"] = [path for paths in by_age.values() for path in paths[:-1] if path not in counted]
    few = ("profiles", "benches", "older runs")
    kinds |= {kind: [path for path in kinds[kind] if path not in runs] for kind in few}
    left = {kind: paths for kind, paths in kinds.items() if paths and (runs or paths is not searches)}
    said = " and ".join(f"{len(paths)} {kind if len(paths) > 1 else ONE_OF[kind]}" for kind, paths in left.items())
    what = (
        "name their files" if runs and (searches or any(kinds[kind] for kind in few)) else "a page is of tinyhil's runs"
    )
    return runs or tuple(searches), f"{folder}: left out: {said}; {what}" if said else ""


def _said(known: Keys, most: int = 3) -> str:
    """The first of the boards, models and formats of a folder."""
    more = f" and {len(known) - most} more" if len(known) > most else ""
    return ", ".join(" ".join(key) for key in sorted(known)[:most]) + more or "none"


def none_in_common(before: Path, left: Keys, now: str, right: Keys) -> str:
    """What is said where no record is of the same board, model and format as another: each has what is beside it."""
    each = f"{before} holds {_said(left)}, {now} {_said(right)}"
    return f"{before} and {now}: no board, model and format in common; {each}"


def pairs(before: Path, now: Path) -> tuple[list[tuple[Path, Path]], list[str]]:
    """Records to compare with each other: two files, or what two folders have in common. And what only one holds.

    DataError if nothing can be paired.
    """
    if before.is_dir() != now.is_dir():
        raise DataError(f"{before} and {now}: compare two records, or two folders")
    if not before.is_dir():
        return [(before, now)], []
    left, right = newest(before), newest(now)
    both = [(left[key], right[key]) for key in left if key in right]
    if not both:
        raise DataError(f"{none_in_common(before, left, str(now), right)}; name two records instead")
    alone = [f"{' '.join(key)}: only in {before if key in left else now}" for key in sorted(left.keys() ^ right.keys())]
    return both, alone
