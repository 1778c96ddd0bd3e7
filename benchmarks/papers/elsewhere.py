"""Papers whose experiments have a command and a page of their own: their claims, judged by what those kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from benchmarks.papers import reram_claims
from benchmarks.papers.judge import Interval, above, all_above, difference, of_means, worst
from benchmarks.papers.paper import Claim, Rows, Verdict
from tools.measured import RESULTS, read

NEAR_POINTS = 1.0
# Tables of docs/training.md: how many test pictures each has, the fewest bits of fraction that the paper has for it.
TRAINED = {
    "arithmetic": (10_000, 8),
    "arithmetic_cifar": (5_000, 12),
    "arithmetic_mlp": (10_000, 8),
    "arithmetic_cnn": (10_000, 12),
}
Lines = Sequence[Mapping[str, Any]]
NOT_YET = Verdict("not testable here", "not measured yet")


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """`page` seen from docs/papers/. Claims are about all of `keys`, networks or tables, of which `rows` has what was
    measured: {"rows": its lines}."""

    title: str
    page: str
    command: str
    keys: tuple[str, ...]
    rows: Callable[[], Rows]
    claims: tuple[Claim, ...]


@cache
def _trainings() -> Rows:
    """By table."""
    return {
        name: {"rows": read(f"training/{name}")} for name in TRAINED if (RESULTS / f"training/{name}.json").is_file()
    }


def _leads(table: str, lines: Lines, how: str) -> dict[str, Interval]:
    """Points above float, whose row is the first, by arithmetic; over seeds where there are several."""
    wide, (pictures, fewest) = lines[0], TRAINED[table]
    rows = [row for row in lines[1:] if int(row["in"].split()[0].rpartition(".")[2]) >= fewest]
    if "seeds" not in wide:
        return {row["in"]: difference(row[how], wide["nearest"], pictures) for row in rows}

    def of(row: Mapping[str, Any], way: str) -> tuple[float, float, int]:
        return 100 * row[way], 100 * row[f"{way}: standard deviation"], row["seeds"]

    return {row["in"]: of_means(of(row, how), of(wide, "nearest")) for row in rows}


def _judge_rounding(nearest: bool, rows: Rows) -> Verdict:
    """By the arithmetic that lies furthest below float: to nearest one that does is enough, of each network."""
    outcomes, said = [], []
    for table, row in rows.items():
        leads = _leads(table, row["rows"], "nearest" if nearest else "stochastic")
        name = min(leads, key=lambda each: leads[each].found)
        outcomes.append(above(-leads[name], NEAR_POINTS) if nearest else all_above(leads.values(), -NEAR_POINTS))
        said.append(f"`{table}` {leads[name]} ({name}, seeds {row['rows'][0].get('seeds', 1)})")
    if not said:
        return NOT_YET
    return Verdict(worst(outcomes), f"points of the lowest above float, margin {NEAR_POINTS}: {'; '.join(said)}")


ALL = ("",)  # claims are about all keys
PAGES = (
    Elsewhere(
        "PPO-Based Automated Quantization for ReRAM-Based Hardware Accelerator (JCRD 2022)",
        "../reram.md",
        "python -m benchmarks.reram",
        reram_claims.NETWORKS,
        reram_claims.rows,
        reram_claims.CLAIMS,
    ),
    Elsewhere(
        "Deep Learning with Limited Numerical Precision (ICML 2015)",
        "../training.md",
        "python -m benchmarks.training",
        tuple(TRAINED),
        _trainings,
        (
            Claim(
                '"using only 16-bit wide fixed-point number representation when using stochastic rounding, and incur '
                'little to no degradation"',
                partial(_judge_rounding, False),
                "abstract",
                about=ALL,
            ),
            Claim(
                '"the rounding scheme to play a crucial role": to nearest, with few bits of fraction, they do not',
                partial(_judge_rounding, True),
                "abstract",
                about=ALL,
            ),
        ),
    ),
)
