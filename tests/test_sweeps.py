"""What the usual suite runs of a sweep (sweeps.py)."""

from __future__ import annotations

from itertools import product

import pytest
from sweeps import Cell, on_the_diagonal

pytest_plugins = ("pytester",)


def cells(*lengths: int) -> list[Cell]:
    return [tuple((n,) for n in cell) for cell in product(*map(range, lengths))]


@pytest.mark.parametrize("lengths", [(1, 1), (4, 4), (5, 90), (6, 3, 6), (2, 10), (7, 13, 2, 3)], ids=str)
def test_every_value_is_shown_by_as_few_cells_as_that_takes(lengths: tuple[int, ...]) -> None:
    diagonal = on_the_diagonal(cells(*lengths))
    for axis, length in zip(zip(*diagonal, strict=True), lengths, strict=True):
        assert len(set(axis)) == length
    assert len(diagonal) == max(lengths)


def test_every_value_is_in_ever_other_company() -> None:
    diagonal = on_the_diagonal(cells(3, 6))
    assert {n: [m for (k,), (m,) in sorted(diagonal) if k == n] for n in range(3)} == {0: [0, 3], 1: [1, 4], 2: [2, 5]}


@pytest.mark.parametrize("hole", [(0, 0), (1, 1), (2, 1), (1, 3)], ids=str)
def test_what_a_hole_hides_is_shown_beside_it(hole: tuple[int, int]) -> None:
    left = [cell for cell in cells(3, 4) if cell != tuple((n,) for n in hole)]
    diagonal = on_the_diagonal(left)
    assert {(axis, value) for cell in diagonal for axis, value in enumerate(cell)} == {
        (axis, value) for cell in left for axis, value in enumerate(cell)
    }


def test_pytest_leaves_the_others_to_the_slow_suite(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nmarkers =\n    slow: in the slow suite\n    every_cell: all of a sweep\n")
    pytester.makeconftest(
        "import pytest\nfrom sweeps import beside_the_diagonals\n"
        "def pytest_collection_modifyitems(items):\n"
        "    for item in beside_the_diagonals(items):\n        item.add_marker(pytest.mark.slow)\n"
    )
    pytester.makepyfile(
        "import pytest\n"
        "@pytest.mark.parametrize('a', [[], [1], {}])\n@pytest.mark.parametrize('b, c', [(1, 2), (1, 3)])\n"
        "def test_sweep(a, b, c): pass\n"
        "@pytest.mark.every_cell\n@pytest.mark.parametrize('a', [1, 2])\n@pytest.mark.parametrize('b', [1, 2])\n"
        "def test_whole(a, b): pass\n"
        "@pytest.mark.parametrize('a, b', [(1, 1), (1, 2), (2, 1), (2, 2)])\ndef test_cases(a, b): pass\n"
    )
    pytester.runpytest("-m", "not slow").assert_outcomes(passed=3 + 4 + 4, deselected=3)
