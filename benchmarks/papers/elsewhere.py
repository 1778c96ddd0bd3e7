"""Papers whose experiments have a command and a page of their own: their claims, judged by what those kept."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache, partial
from statistics import mean
from typing import Any

from benchmarks.papers.paper import Claim, Rows, Verdict
from tools.measured import RESULTS, ROOT

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
    said, kept = [], []
    for network, rows in _reram().items():
        found = [row for row in rows if row["threshold"] is not None and row["cost"] <= SAVED]
        best = max(found, key=lambda row: row["accuracy"])
        lost = _held_out(rows, "8 bits") - 100 * best["held_out"]
        kept.append(lost <= LOST_POINTS)
        said.append(f"`{network}` loses {lost:.1f} points at {best['cost']:.2f} of the cost ({best['strategy']})")
    return Verdict("confirmed" if all(kept) else "refuted", "; ".join(said) + "; held out")


def _judge_ppo(_: Rows) -> Verdict:
    said, better = [], []
    for network, rows in _reram().items():
        ppo, masked, ddpg = (_held_out(rows, strategy) for strategy in ("ppo", "ppo with mask", "ddpg"))
        better.append(ppo > ddpg)
        said.append(f"`{network}` {ppo:.1f} % (with a mask {masked:.1f} %) against {ddpg:.1f} %")
    return Verdict("confirmed" if all(better) else "refuted", "; ".join(said) + "; held out, as few evaluations")


def _arithmetic() -> dict[str, tuple[float, float]]:
    """Nearest and stochastic of each 16-bit format in docs/training.md, per cent; under `float` the wide one twice."""
    table = (ROOT / "docs" / "training.md").read_text().split("<!-- arithmetic -->")[1].split("<!-- end -->")[0]
    found = {}
    for name, nearest, stochastic in re.findall(r"^\| (fixed\S+) \| ([\d.]+) % \| (?:([\d.]+) %|-) \|", table, re.M):
        key, second = (name, stochastic) if stochastic else ("float", nearest)
        found[key] = float(nearest), float(second)
    return found


def _judge_rounding(nearest: bool, _: Rows) -> Verdict:
    """Of the formats of 16 bits whose range holds the values: two whole bits do not."""
    found = {name: pair for name, pair in _arithmetic().items() if ":2." not in name}
    wide = found.pop("float")[0]
    lost = {name: wide - pair[0 if nearest else 1] for name, pair in found.items()}
    said = ", ".join(f"{name} {points:.1f}" for name, points in lost.items())
    good = all((points > NEAR_POINTS) == nearest for points in lost.values())
    return Verdict("confirmed" if good else "refuted", f"points below float: {said}; in two whole bits both saturate")


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
            Claim("16 bits rounded to nearest do not", partial(_judge_rounding, True)),
        ),
    ),
)
