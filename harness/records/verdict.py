"""Whether a record may be believed: `valid`, `degraded` (true, but something was not as it should be) or `invalid`.

The codes are a public interface, like the keys of a record; docs/results.md lists them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tinyhil.errors import EXIT_FLAKY, EXIT_GATE, EXIT_OK
from tinyhil.harness.settings.text import in_short

VALID, DEGRADED, INVALID = "valid", "degraded", "invalid"
COLLAPSED = 0.05  # of accuracy lost against float, from which on it is no rounding
CLIPPED = 0.01  # of the input's elements
CUT = re.compile(r" --calibrate-by ([\w-]+)")
RecordLike = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Issue:
    """A fault that a record can have. `find` says what of it there is in a record, in words; None: nothing."""

    code: str
    severity: str
    meaning: str
    find: Callable[[RecordLike], str | None]


def _not_exact(record: RecordLike) -> str | None:
    equal = record.get("equal_samples", "not all")
    return None if record["bit_exact"] else f"{equal} of {record['samples']} samples equal to the reference"


def _nothing(record: RecordLike) -> str | None:
    return None if record["samples"] else "no sample was compared"


def _over_ram(record: RecordLike) -> str | None:
    memory = record["memory"]
    total, limit = memory.get("total_bytes"), memory.get("limit_bytes")
    return None if total is None or limit is None or total <= limit else f"{total} B of {limit} B"


def _could_overflow(record: RecordLike) -> str | None:
    memory = record["memory"]
    stack, limit = memory.get("stack_limit_bytes"), memory.get("limit_bytes")
    if stack is None or limit is None or memory["static_bytes"] + stack <= limit:
        return None
    return f"{memory['static_bytes']} B static + {stack} B of stack at worst > {limit} B"


def _unbounded(record: RecordLike) -> str | None:
    return record["memory"].get("stack_limit_unknown") or None


def _beyond_bound(record: RecordLike) -> str | None:
    stack, limit = record["memory"].get("stack_bytes"), record["memory"].get("stack_limit_bytes")
    return None if stack is None or limit is None or stack <= limit else f"{stack} B measured, {limit} B at worst"


def _lost_results(record: RecordLike) -> str | None:
    given = len(record["raw"]["outputs"])
    return None if given == record["samples"] else f"{given} outputs of {record['samples']} samples"


def off_float(record: RecordLike) -> str | None:
    """Which tensor is further from the float model than its formats explain, and by how much; None if none is."""
    found = record.get("degraded") or []
    if not found:
        return None
    first, more = found[0], f", and {len(found) - 1} more" if len(found) > 1 else ""
    tensor, node = in_short(first["tensor"]), in_short(first["node"])
    where = f"tensor '{tensor}' (node '{node}', {first['format']})"
    if first["node"] == "the whole run":  # of no node alone (tinyhil/agreement/whole_run.py)
        where = f"{first['node']} ('{tensor}', {first['format']})"
    off, explained = f"{where} is off by {first['error']:.2g}", f"{first['allowed']:.2g}"
    if first["error"] <= first["allowed"]:
        coarse = f"no more than rounding explains ({explained}), but half or more of what tells its samples apart"
        return f"{off}: {coarse}: take a wider format{more}"
    return f"{off}, its formats explain {explained}{more}"


def _flaky(record: RecordLike) -> str | None:
    return f"{record.get('link', {}).get('attempts', 'several')} attempts" if record.get("flaky") else None


def _wire(record: RecordLike) -> str | None:
    link = record.get("link", {})
    damaged, lost = link.get("damaged_frames") or 0, link.get("rx_overruns") or 0
    return f"{damaged} damaged frames, {lost} bytes lost" if damaged or lost else None


def collapsed(record: RecordLike) -> str | None:
    """What of accuracy is lost against float, where that is no rounding; else None."""
    accuracy, wanted = record["accuracy"], record.get("float_accuracy")
    if accuracy is None or wanted is None or round(wanted - accuracy, 9) < COLLAPSED:
        return None
    return f"{100 * accuracy:.2f} % where float has {100 * wanted:.2f} %"


def _clipped(record: RecordLike) -> str | None:
    """Not what a search clips on purpose, within the range that was calibrated."""
    clipped, elements = record.get("input_saturations") or 0, (record.get("input_elements") or 0) * record["samples"]
    if (beyond := record.get("input_beyond")) is not None:
        clipped = min(clipped, beyond)
    if not elements or clipped <= CLIPPED * elements:
        return None
    calibration = (record.get("data") or {}).get("calibration") or {}
    cut = CUT.search(str((record.get("provenance") or {}).get("command")))
    remedy = "calibrate on such inputs; a quantized model takes codes"
    if by := calibration.get("by"):
        how = "perhaps cut on purpose (its --calibrate-by)"
        remedy = (
            f"{by} made these ranges with the weights, {how}: keep them if accuracy holds, else train on such inputs"
        )
    elif cut and cut[1] != "minmax":
        remedy = f"--calibrate-by {cut[1]} cuts ranges, minmax does not; else {remedy}"
    return f"{clipped} of {elements} elements of the inputs clipped: {remedy}"


def _no_ram(record: RecordLike) -> str | None:
    memory = record["memory"]
    unknown = memory.get("limit_bytes") is not None and memory["stack_bytes"] is None
    return "the stack was not measured" if unknown else None


def _heap(record: RecordLike) -> str | None:
    heap = record["memory"].get("heap_bytes")
    return f"{heap} B of heap in use: firmware of ours allocates none" if heap else None


ISSUES = (
    Issue("not-bit-exact", INVALID, "outputs or saturation counts are not those of the reference", _not_exact),
    Issue("no-samples", INVALID, "nothing was compared", _nothing),
    Issue("results-missing", INVALID, "the record lacks outputs of samples", _lost_results),
    Issue("ram-exceeded", INVALID, "static data, stack and heap overlap", _over_ram),
    Issue("stack-beyond-bound", INVALID, "more stack was used than the image can need", _beyond_bound),
    Issue("stack-could-overflow", DEGRADED, "the deepest stack that the image can need does not fit", _could_overflow),
    Issue("stack-unbounded", DEGRADED, "how deep the stack can get is not known", _unbounded),
    Issue(
        "float-disagrees",
        DEGRADED,
        "a tensor is further from the float model than its formats explain",
        off_float,
    ),
    Issue("accuracy-collapsed", DEGRADED, "5 points of accuracy or more are lost against float", collapsed),
    Issue("inputs-clipped", DEGRADED, "more than 1 % of the inputs is beyond the calibrated range", _clipped),
    Issue("flaky", DEGRADED, "the run passed only after a retry", _flaky),
    Issue("wire-damaged", DEGRADED, "frames were damaged or bytes lost; they were sent again", _wire),
    Issue("heap-used", DEGRADED, "something allocated memory", _heap),
    Issue("ram-unknown", DEGRADED, "the stack was not measured, so RAM is not known", _no_ram),
)


OF_DECISIONS = ("float-disagrees", "accuracy-collapsed", "inputs-clipped")


def verdict_of(record: RecordLike) -> dict[str, Any]:
    """`verdict` and `issues` (code, severity, text) of a record, old ones included."""
    found = [(issue, issue.find(record)) for issue in ISSUES]
    issues = [
        {"code": issue.code, "severity": issue.severity, "text": text} for issue, text in found if text is not None
    ]
    severities = {issue["severity"] for issue in issues}
    verdict = INVALID if INVALID in severities else DEGRADED if severities else VALID
    return {"verdict": verdict, "issues": issues}


def issue_texts(record: RecordLike) -> list[str]:
    """Why a record is not valid: severity, code and what was found; empty if it is."""
    return [f"{issue['severity']}: {issue['code']}: {issue['text']}" for issue in verdict_of(record)["issues"]]


def invalid_because(record: RecordLike) -> str:
    """Why gates refuse the record, in one line; empty if they take it."""
    found = [issue for issue in verdict_of(record)["issues"] if issue["severity"] == INVALID]
    return "; ".join(f"{issue['code']}: {issue['text']}" for issue in found)


def degraded_by(record: RecordLike) -> tuple[str, ...] | None:
    """Codes of what makes its decisions doubtful, whatever the wire did; None of a golden record, which does not hold
    all that tells."""
    if record.get("kind") == "golden":
        return None
    return tuple(issue["code"] for issue in verdict_of(record)["issues"] if issue["code"] in OF_DECISIONS)


def exit_code_of(record: RecordLike) -> int:
    """Of a command that measured it: 1 for an invalid record, 9 for one that needed a retry; degraded ones pass."""
    return EXIT_GATE if invalid_because(record) else EXIT_FLAKY if record.get("flaky") else EXIT_OK


def gate_line(record: RecordLike) -> str:
    """What a command says that ends with a record's exit code; empty if that is 0 or 9."""
    reason = invalid_because(record)
    return f"gate failed: {record['board']}: {record['model']} is invalid: {reason}" if reason else ""
