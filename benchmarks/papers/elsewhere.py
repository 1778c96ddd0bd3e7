"""Papers whose experiments have a command and a page of their own: their claims, judged by what those kept."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from statistics import mean
from typing import Any

from benchmarks.papers.judge import above, all_above, difference, over_seeds
from benchmarks.papers.paper import Claim, Rows, Verdict
from benchmarks.reram.cases import CASES
from benchmarks.reram.pages import latest_of
from tools.measured import RESULTS, read

NEAR_POINTS, LOST_POINTS = 1.0, 1.0
TEST_PICTURES = 10_000  # of the data set of `training/arithmetic`
TABLED = "lenet5"  # benchmarks/reram/truth.py
AGENTS, PAPERS_EPISODES = ("ppo", "ppo with mask", "ddpg"), 300
Lines = Sequence[Mapping[str, Any]]
SAVED = 0.8  # of the cost of 8 bits everywhere


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """`page` seen from docs/papers/."""

    title: str
    page: str
    command: str
    claims: tuple[Claim, ...]


@cache
def _reram() -> dict[str, Lines]:
    """The rows of each network."""
    paths = sorted((RESULTS / "reram").glob("*.jsonl"))
    return {path.stem: [json.loads(line) for line in path.read_text().splitlines()] for path in paths}


def _of(rows: Lines, strategy: str, episodes: int | None = None) -> Lines:
    """Of each seed; agents after so many episodes."""
    return [row for row in rows if row["strategy"] == strategy and row.get("episodes") == episodes]


def _held_out(rows: Lines) -> list[float]:
    """Per cent."""
    return [100 * row["held_out"] for row in rows]


def _judge_cost(_: Rows) -> Verdict:
    said, within = [], []
    held_out = {case.name: case.held_out for case in CASES}
    for network, rows in ((name, latest_of(rows, ("8 bits", "milp"))) for name, rows in _reram().items()):
        found = [row for row in rows if row["threshold"] is not None and row["cost"] <= SAVED]
        best = max(found, key=lambda row: row["accuracy"])
        whole = mean(_held_out(_of(rows, "8 bits")))
        lead = difference(best["held_out"], whole / 100, held_out[network])
        within.append(lead)
        said.append(f"`{network}` {lead} points at {best['cost']:.2f} of the cost ({best['strategy']})")
    return Verdict(all_above(within, -LOST_POINTS), f"{'; '.join(said)}; held out, margin {LOST_POINTS}")


def _episodes(rows: Lines) -> int | None:
    """The most after which all three agents' answers are known; None: of rows that only count evaluations."""
    counts = [{row.get("episodes") for row in rows if row["strategy"] == agent} for agent in AGENTS]
    return max(set.intersection(*counts), key=lambda count: count or 0)


def _judge_ppo(_: Rows) -> Verdict:
    """At the paper's episodes, where they were run; else nothing is shown."""
    said, better = [], []
    for network, rows in ((name, latest_of(rows, AGENTS)) for name, rows in _reram().items()):
        count = _episodes(rows)
        ppo, masked, ddpg = (_held_out(_of(rows, agent, count)) for agent in AGENTS)
        plain, mask = over_seeds(ppo, ddpg), over_seeds(masked, ddpg)
        when = "before DDPG rounded as HAQ does" if count is None else f"{count} episodes"
        said.append(f"`{network}` ({when}; seeds {len(ppo)}, {len(ddpg)}) {plain}, with a mask {mask}")
        if count is not None and count >= PAPERS_EPISODES:
            better.append(plain)
    return Verdict(all_above(better) if better else "not shown", f"points above DDPG: {'; '.join(said)}")


def _judge_time(_: Rows) -> Verdict:
    """Processor's seconds of searches of as many episodes."""
    said, less = [], []
    for network, rows in ((name, latest_of(rows, AGENTS)) for name, rows in _reram().items()):
        count = _episodes(rows)
        if count is not None:
            ppo, masked, ddpg = ([row["processor_s"] for row in _of(rows, agent, count)] for agent in AGENTS)
            seconds = f"{mean(ppo):.0f} s, with a mask {mean(masked):.0f} s; DDPG {mean(ddpg):.0f} s"
            looked_up = ", evaluations looked up in a table of all" if network == TABLED else ""
            less.append(-over_seeds(ppo, ddpg))
            said.append(f"`{network}`, {count} episodes{looked_up}: {seconds}; {less[-1]} s less")
    return Verdict(all_above(less), "; ".join(said)) if less else Verdict("not shown", "not measured yet")


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
            Claim("Less hardware cost than 8 bits everywhere at next to no loss", _judge_cost, "", "20 to 30 %"),
            Claim("PPO finds better widths than DDPG", _judge_ppo),
            Claim("PPO's search takes less time", _judge_time, "table 6", "4.1, 14.7, 9.1 s; DDPG's 24.2, 24.3, 18.0"),
        ),
    ),
    Elsewhere(
        "Deep Learning with Limited Numerical Precision (ICML 2015)",
        "../training.md",
        "python -m benchmarks.training",
        (
            Claim(
                '"using only 16-bit wide fixed-point number representation when using stochastic rounding, and incur '
                'little to no degradation"',
                partial(_judge_rounding, False),
                "abstract",
            ),
            Claim(
                '"the rounding scheme to play a crucial role": to nearest, with few bits of fraction, they do not',
                partial(_judge_rounding, True),
                "abstract",
            ),
        ),
    ),
)
