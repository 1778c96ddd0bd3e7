"""A record as a table for people: lines that stay lines."""

from __future__ import annotations

from typing import Any

from tinyhil.harness.records.terminal import agreement_text


def test_tensors_that_were_not_compared_are_named_as_far_as_a_line_goes() -> None:
    record: dict[str, Any] = {"degraded": [], "float_check": {"samples": 4, "tensors": 9, "unchecked": list("abcde")}}
    assert agreement_text(record).endswith("formats; not compared: a, b, c and 2 more")
    record["float_check"]["unchecked"] = ["a", "b"]
    assert agreement_text(record).endswith("not compared: a, b")
