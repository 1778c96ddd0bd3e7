"""Papers whose experiments have a command and a page of their own: their claims, judged by what those kept."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache, partial
from statistics import mean
from typing import Any

from benchmarks.papers.paper import Claim, Rows, Verdict
from tools.measured import RESULTS, read

NEAR_POINTS, LOST_POINTS = 1.0, 1.0
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


def _held_out(rows: list[dict[str, Any]], strategy: str) -> float:
    """Per cent, mean over the seeds."""
    return 100 * mean(row["held_out"] for row in rows if row["strategy"] == strategy)


def _judge_cost(_: Rows) -> Verdict:
    said, within = [], []
    for network, rows in _reram().items():
        found = [row for row in rows if row["threshold"] is not None and row["cost"] <= SAVED]
        best = max(found, key=lambda row: row["accuracy"])
        lost = _held_out(rows, "8 bits") - 100 * best["held_out"]
        within.append(lost <= LOST_POINTS)
        said.append(f"`{network}` loses {lost:.1f} points at {best['cost']:.2f} of the cost ({best['strategy']})")
    return Verdict("confirmed" if all(within) else "refuted", "; ".join(said) + "; held out")


def _judge_ppo(_: Rows) -> Verdict:
    said, better = [], []
    for network, rows in _reram().items():
        ppo, masked, ddpg = (_held_out(rows, strategy) for strategy in ("ppo", "ppo with mask", "ddpg"))
        better.append(ppo > ddpg)
        said.append(f"`{network}` {ppo:.1f} % (with a mask {masked:.1f} %) against {ddpg:.1f} %")
    return Verdict("confirmed" if all(better) else "refuted", "; ".join(said) + "; held out, as few evaluations")


def _judge_rounding(nearest: bool, _: Rows) -> Verdict:
    """The first row of the table is the wide format, rounded to nearest; the others have 16 bits."""
    wide, *rows = read("training/arithmetic")
    how = "nearest" if nearest else "stochastic"
    lost = {row["in"]: 100 * (wide["nearest"] - row[how]) for row in rows}
    said = ", ".join(f"{name} {points:.1f}" for name, points in lost.items())
    far = [points > NEAR_POINTS for points in lost.values()]
    good = any(far) if nearest else not any(far)
    return Verdict("confirmed" if good else "refuted", f"points below float: {said}")


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
