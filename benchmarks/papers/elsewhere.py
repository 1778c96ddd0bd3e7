"""Papers whose experiments have a command and a page of their own: their claims, judged by what those kept."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache, partial
from statistics import mean
from typing import Any

from benchmarks.papers.judge import above, all_above, difference, over_seeds
from benchmarks.papers.paper import Claim, Rows, Verdict
from benchmarks.reram.cases import CASES
from tools.measured import RESULTS, read

NEAR_POINTS, LOST_POINTS = 1.0, 1.0
TEST_PICTURES = 10_000  # of the data set of `training/arithmetic`
SAVED = 0.8  # of the cost of 8 bits everywhere


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """`page` seen from docs/papers/."""

    title: str
    page: str
    command: str
    claims: tuple[Claim, ...]


@cache
def _reram() -> dict[str, list[dict[str, Any]]]:
    paths = sorted((RESULTS / "reram").glob("*.jsonl"))
    return {path.stem: [json.loads(line) for line in path.read_text().splitlines()] for path in paths}


def _held_out(rows: list[dict[str, Any]], strategy: str) -> list[float]:
    """Per cent, of each seed."""
    return [100 * row["held_out"] for row in rows if row["strategy"] == strategy]


def _judge_cost(_: Rows) -> Verdict:
    said, within = [], []
    held_out = {case.name: case.held_out for case in CASES}
    for network, rows in _reram().items():
        found = [row for row in rows if row["threshold"] is not None and row["cost"] <= SAVED]
        best = max(found, key=lambda row: row["accuracy"])
        whole = mean(_held_out(rows, "8 bits"))
        lead = difference(best["held_out"], whole / 100, held_out[network])
        within.append(lead)
        said.append(f"`{network}` {lead} points at {best['cost']:.2f} of the cost ({best['strategy']})")
    return Verdict(all_above(within, -LOST_POINTS), f"{'; '.join(said)}; held out, margin {LOST_POINTS}")


def _judge_ppo(_: Rows) -> Verdict:
    said, better = [], []
    for network, rows in _reram().items():
        ppo, masked, ddpg = (_held_out(rows, strategy) for strategy in ("ppo", "ppo with mask", "ddpg"))
        plain, mask = over_seeds(ppo, ddpg), over_seeds(masked, ddpg)
        better.append(plain)
        said.append(f"`{network}` {plain}, with a mask {mask}")
    budget = "fewer evaluations than the paper's, DDPG before it rounded as HAQ does: its own claim is not judged"
    outcome = all_above(better)
    return Verdict("not shown" if outcome == "refuted" else outcome, f"points above DDPG: {'; '.join(said)}; {budget}")


def _judge_rounding(nearest: bool, _: Rows) -> Verdict:
    """The first row of the table is float32's; the others have 16 bits."""
    wide, *rows = read("training/arithmetic")
    how = "nearest" if nearest else "stochastic"
    lead = {row["in"]: difference(row[how], wide["nearest"], TEST_PICTURES) for row in rows}
    said = f"points above float, margin {NEAR_POINTS}, one seed: {', '.join(f'{n} {p}' for n, p in lead.items())}"
    if nearest:  # one that lies beyond is enough
        return Verdict(
            "confirmed" if any(above(p, -NEAR_POINTS) == "refuted" for p in lead.values()) else "not shown", said
        )
    return Verdict(all_above(lead.values(), -NEAR_POINTS), said)


PAGES = (
    Elsewhere(
        "Layer-wise precision on ReRAM by reinforcement learning (PPO)",
        "../reram.md",
        "python -m benchmarks.reram",
        (
            Claim("20 to 30 % less hardware cost than 8 bits everywhere at next to no loss", _judge_cost),
            Claim("PPO finds better widths than DDPG", _judge_ppo),
        ),
    ),
    Elsewhere(
        "Deep Learning with Limited Numerical Precision (ICML 2015)",
        "../training.md",
        "python -m benchmarks.training",
        (
            Claim("16 bits with stochastic rounding train as well as float", partial(_judge_rounding, False)),
            Claim("16 bits rounded to nearest do not, with few bits of fraction", partial(_judge_rounding, True)),
        ),
    ),
)
