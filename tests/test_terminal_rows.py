"""A record as a table for people: lines that stay lines."""

from __future__ import annotations

import io
from typing import Any

from rich.console import Console

from tinyhil.harness.measure.diff import Diff, TensorDiff
from tinyhil.harness.measure.terminal_diff import print_diff
from tinyhil.harness.records.terminal import agreement_text


def test_tensors_that_were_not_compared_are_named_as_far_as_a_line_goes() -> None:
    record: dict[str, Any] = {"degraded": [], "float_check": {"samples": 4, "tensors": 9, "unchecked": list("abcde")}}
    assert agreement_text(record).endswith("formats; not compared: a, b, c and 2 more")
    record["float_check"]["unchecked"] = ["a", "b"]
    assert agreement_text(record).endswith("not compared: a, b")


def test_a_name_of_the_model_s_is_no_markup() -> None:
    """Rich takes `[relu]` for a style, and leaves it out."""
    found = Diff("uno", "m", 0, (TensorDiff("layer[relu]/y", "fixed8", 1, 4, 0),), None)
    print_diff(found, Console(file=(out := io.StringIO()), width=120))
    assert "layer[relu]/y" in out.getvalue()
