"""Maps of planned memory in the terminal."""

from __future__ import annotations

from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from tinyhil.harness.offline.memory_map import GUTTER, memory_map, print_map
from tinyhil.memplan import Alias, Buffer, Plan, Problem, check, plan


def drawn(problem: Problem, width: int = 80, found: Plan | None = None, **options: Any) -> list[str]:
    out = StringIO()
    console = Console(file=out, width=width, **options)
    print_map(memory_map(problem, found or plan(problem), "t"), console)
    return out.getvalue().splitlines()


def test_the_map_of_a_small_instance() -> None:
    problem = Problem((Buffer("a", 4, 0, 3), Buffer("b", 6, 1, 4), Buffer("c", 4, 3, 5)))
    found = Plan({"a": 0, "b": 4, "c": 0}, dict.fromkeys("abc", "arena"), 10, 10, True, "load", 1)
    assert drawn(problem, 40, found) == [
        "     10 │      ┌b───────────────┐",
        "        │      │                │",
        "        │      │                │",
        "        │      │                │",
        "      6 │      │                │",
        "        │      │                │",
        "        │┌a───────────────┐┌c─────────┐",
        "        ││                ││          │",
        "      2 ││                ││          │",
        "        ││                ││          │",
        "      0 └──────────────────────────────",
        "         0     1     2     3     4",
        "               ▲ peak 10 B at instant 1",
    ]


@pytest.mark.parametrize("width", [20, 40, 80, 81, 200])
def test_maps_fit_the_terminal(width: int) -> None:
    for buffers in (1, 7, 200):
        problem = Problem(tuple(Buffer(f"tensor_{i}", 1 + i % 13, i, i + 3) for i in range(buffers)))
        lines = drawn(problem, width)
        assert max(map(len, lines)) <= max(width, GUTTER + 20)
        assert len(lines) <= 24 + 5
        assert any("▲" in line for line in lines)
        assert any(f"peak {plan(problem).peak_bytes} B at instant" in line for line in lines)


def test_every_tensor_of_a_roomy_map_is_named() -> None:
    problem = Problem(tuple(Buffer(f"t{i}", 8, i, i + 2) for i in range(6)))
    text = "\n".join(drawn(problem))
    assert all(f"┌t{i}" in text for i in range(6))


def test_gaps_and_operations_in_place_are_visible() -> None:
    buffers = (Buffer("state", 4, 0, 9, gaps=((3, 6),)), Buffer("other", 4, 3, 7))
    problem = Problem(buffers, aliases=(Alias("state", "other"),))
    found = Plan({"state": 0, "other": 0}, dict.fromkeys(("state", "other"), "arena"), 4, 4, True, "load", 0)
    check(problem, Plan(found.offsets, found.regions, 4, 4, True, "load", 0, peaks={"arena": 4}))
    top = drawn(problem, 80, found)[0]
    assert top.index("┌state") < top.index("┌other") < top.rindex("┌state")


def test_the_mark_stands_at_the_peak() -> None:
    problem = Problem((Buffer("a", 4, 0, 3), Buffer("b", 6, 5, 7), Buffer("c", 5, 6, 10)))
    lines = drawn(problem)
    at = next(line for line in lines if "▲" in line).index("▲")
    numbers = lines[-2]
    assert numbers[at:].split()[0] == "6"


def test_odd_names_do_not_break_the_map() -> None:
    problem = Problem((Buffer("a\nb\t漢[red]", 4, 0, 3), Buffer("[/]", 6, 1, 4)))
    lines = drawn(problem)
    assert any("a?b??[red]" in line for line in lines)
    assert any("[/]" in line for line in lines)


def test_nothing_to_draw() -> None:
    assert drawn(Problem(())) == []
    assert drawn(Problem((Buffer("a", 0, 0, 1),))) == []


def test_colours_only_on_a_terminal() -> None:
    problem = Problem((Buffer("a", 4, 0, 3),))
    assert not any("\x1b" in line for line in drawn(problem))
    assert any("\x1b[" in line for line in drawn(problem, force_terminal=True, color_system="standard"))
