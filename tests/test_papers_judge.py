"""Verdicts of papers' claims: intervals against scipy and statsmodels' published cases, three outcomes."""

from __future__ import annotations

import pytest
from scipy import stats

from benchmarks.papers import elsewhere, record
from benchmarks.papers.judge import (
    Interval,
    above,
    all_above,
    difference,
    more_often,
    over_seeds,
    paired,
    pooled,
    wilson,
)
from benchmarks.papers.pages import OURS, claims_table
from benchmarks.papers.paper import Claim, Rows, Verdict
from benchmarks.papers.registry import PAPERS

ASKED = [
    pytest.param(claim, rows, tuple(keys), id=f"{name}: {claim.text[:50]}")
    for name, claims, rows, keys in (
        *((paper.name, paper.claims, record.rows_of(record.read(paper.name)), paper.keys()) for paper in PAPERS),
        *((other.page, other.claims, other.rows(), other.keys) for other in elsewhere.PAGES),
    )
    for claim in claims
]


@pytest.mark.parametrize(("count", "of"), [(0, 10), (3, 128), (64, 128), (9979, 10_000), (5, 5)])
def test_shares_as_scipy_has_them(count: int, of: int) -> None:
    expected = stats.binomtest(count, of).proportion_ci(method="wilson")
    found = wilson(count, of)
    assert (found.low, found.high) == pytest.approx((100 * expected.low, 100 * expected.high), abs=1e-5)


@pytest.mark.parametrize(
    ("a", "b", "of", "low", "high"), [(9, 3, 10, 17.05, 80.90), (6, 2, 7, 5.82, 80.62), (10, 0, 10, 60.75, 100.0)]
)
def test_differences_as_newcombe_prints_them(a: int, b: int, of: int, low: float, high: float) -> None:
    """Newcombe (1998), table II, method 10."""
    found = difference(a / of, b / of, of)
    assert (found.low, found.high) == pytest.approx((low, high), abs=0.005)


def test_pairs_make_intervals_narrower() -> None:
    """Two of 10,000 decided otherwise say more than two shares apart by as much."""
    on_pairs, apart = paired(0.02, 2, 10_000), difference(0.7989, 0.7987, 10_000)
    assert on_pairs.high - on_pairs.low < (apart.high - apart.low) / 10
    assert paired(0.0, 0, 100).low < 0.0 < paired(0.0, 0, 100).high  # none of a hundred proves nothing for all


def test_seeds_as_welch_has_them() -> None:
    first, second = [65.9, 66.4, 65.1], [69.6, 69.0, 69.9, 69.2]
    expected = stats.ttest_ind(first, second, equal_var=False).confidence_interval()
    found = over_seeds(first, second)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))
    assert above(over_seeds([1.0], second)) == "not shown"


def test_three_outcomes() -> None:
    far, near, below = Interval(2.0, 1.0, 3.0), Interval(0.5, -0.5, 1.5), Interval(-3.0, -4.0, -2.0)
    assert [above(one) for one in (far, near, below)] == ["confirmed", "not shown", "refuted"]
    assert above(near, -1.0) == "confirmed"
    assert all_above([far, near]) == "not shown"
    assert all_above([far, near, below]) == "refuted"
    assert pooled([far, below]).found == -0.5


@pytest.mark.parametrize(
    ("wins", "losses", "outcome"), [(22, 2, "confirmed"), (7, 1, "not shown"), (0, 0, "not shown"), (1, 12, "refuted")]
)
def test_ties_count_for_nobody(wins: int, losses: int, outcome: str) -> None:
    assert more_often(wins, losses) == outcome


@pytest.mark.parametrize(("claim", "rows", "keys"), ASKED)
def test_fewer_confirm_nothing_about_all(claim: Claim, rows: Rows, keys: tuple[str, ...]) -> None:
    """A claim says which cells it is about: those that its verdict depends on, of each network. PPO's time was
    confirmed for three networks by the one that had been measured, the others passed over."""
    about = [key for key in keys if key.startswith(claim.about)]
    whole, networks = claim.judge(rows), {_network(key) for key in about}
    for part in {_network(key) for key in rows}:
        fewer = {key: row for key, row in rows.items() if _network(key) != part}
        depends = claim.judge(fewer) != whole
        assert part in networks or not depends, part
        assert part not in networks or depends or not rows.keys() >= {*about}, (
            part
        )  # what is half measured may not count
        assert part not in networks or claim.verdict(fewer, keys).outcome != "confirmed", part


def _network(key: str) -> tuple[str, ...]:
    return tuple(key.split("/")[:2])


@pytest.mark.parametrize("claim", [asked.values[0] for asked in ASKED], ids=lambda claim: claim.text[:30])
def test_a_claim_quotes_and_says_where_or_its_row_says_that_the_words_are_ours(claim: Claim) -> None:
    """A quotation is a pair of marks around several words, and has its section; single words in marks are none."""
    assert claim.text.count('"') % 2 == 0
    assert all(len(words.split()) >= 3 for words in claim.quotes)
    assert claim.where or not claim.quotes
    asked = Claim(claim.text, lambda rows: Verdict("not shown", ""), claim.where)
    _, text, where, *_ = (cell.strip() for cell in claims_table([asked], {}, []).splitlines()[-1].split("|"))
    assert text == claim.text
    assert where.endswith(OURS) == ('"' not in text)
