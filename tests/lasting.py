"""What must be equal in two records of the same thing, however often the runs were interrupted."""

from __future__ import annotations

from typing import Any

import numpy as np

# Not times of this computer, file names, or how the link fared
PASSING = ("wall_seconds", "provenance", "link", "flaky")
# Share of modelled cycles that depends on what ran before. An RP2040 fills its flash's cache anew in 17,000 of 9.2
# million; how far the whole run's first sample lies from the median says less where samples differ by as much.
HISTORY = 3e-3


def assert_same(record: dict[str, Any], whole: dict[str, Any]) -> None:
    """Times are equal to the last where cycles are exact; on the host they are nanoseconds, and not compared."""
    assert _lasting(record) == _lasting(whole)
    if record["board"] != "host":
        found, expected = (np.array(one["raw"]["ticks"]) for one in (record, whole))
        # A restart empties caches, as the first sample of the whole run met them: another sample fills them anew
        cold = 0.0 if _is_exact(record) else 1.5 * abs(expected[0] - np.median(expected))
        np.testing.assert_allclose(found, expected, rtol=0 if _is_exact(record) else HISTORY, atol=cold)


def _is_exact(record: dict[str, Any]) -> bool:
    return record["board"] != "host" and "modelled" not in record["emulator"]["fidelity"]


def _lasting(record: dict[str, Any]) -> dict[str, Any]:
    lasting = {key: value for key, value in record.items() if key not in PASSING}
    return lasting | {
        "input_sha256": record["provenance"]["input_sha256"],
        "latency": record["latency"] if _is_exact(record) else None,  # of modelled ticks, which differ a little
        "raw": {key: value for key, value in record["raw"].items() if key != "ticks"},
        "decisions": record["decisions"] | {"worst": [{**one, "ticks": None} for one in record["decisions"]["worst"]]},
        # A question repeated on a busy computer makes the stack a little deeper.
        "memory": {**record["memory"], "stack_bytes": None, "total_bytes": None},
    }
