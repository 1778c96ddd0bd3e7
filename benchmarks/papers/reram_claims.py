"""The claims of the PPO paper's abstract, judged by what benchmarks/reram kept: of its text no more is at hand."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from statistics import mean
from typing import Any

from benchmarks.papers.judge import Interval, above, all_above, combined, over_seeds, paired, pooled, worst
from benchmarks.papers.paper import Claim, Rows, Verdict
from benchmarks.reram.cases import CASES, SAVED
from benchmarks.reram.pages import is_of
from benchmarks.reram.pairs import bits_of
from tools.measured import RESULTS

Lines = Sequence[Mapping[str, Any]]
NETWORKS = tuple(case.name for case in CASES)
TABLED = "lenet5"  # its evaluations are looked up (benchmarks/reram/truth.py)
TIMED = tuple(name for name in NETWORKS if name != TABLED)
MOST = {case.name: max(case.thresholds) for case in CASES}
FIRST = {case.name: case.thresholds[0] for case in CASES}
COARSE = {case.name: case.coarse for case in CASES}
LOST_POINTS, NEARLY = 1.0, 4.2 / 2  # margins: negligible, and half of what is claimed, per cent
METHOD, MASKED, OTHER = "ppo", "ppo with mask", "ddpg"
NOT_YET = Verdict("not testable here", "not measured yet")


@cache
def rows() -> Rows:
    """By network: {"rows": its lines}."""
    paths = {name: RESULTS / "reram" / f"{name}.jsonl" for name in NETWORKS}
    return {
        name: {"rows": [json.loads(line) for line in path.read_text().splitlines()]}
        for name, path in paths.items()
        if path.is_file()
    }


def _under(lines: Lines, threshold: float | None, strategy: str) -> Lines:
    return [row for row in lines if row["threshold"] == threshold and is_of(row, strategy)]


def _held_out(lines: Lines) -> list[float]:
    """Per cent."""
    return [100 * row["held_out"] for row in lines]


def _lead(network: str, found: Lines, other: Lines) -> Interval:
    """Points that the mean over seeds lies above one other answer: the spread of the same pictures and that of
    seeds."""
    pictures = next(case.held_out for case in CASES if case.name == network)
    right = [bits_of(row, pictures).astype(float) for row in (*found, other[0])]
    lead = sum(right[:-1]) / len(found) - right[-1]
    of_pictures = paired(100 * float(lead.mean()), float((lead * lead).sum()), pictures)
    return combined(of_pictures, over_seeds(_held_out(found), 2 * _held_out(other)))  # the other has no spread


def judge_cost(rows: Rows) -> Verdict:
    """Under the mildest threshold of each network, which saves at least what is claimed."""
    said, leads = [], []
    for network, row in rows.items():
        whole = _under(row["rows"], None, "8 bits")
        ppo = _under(row["rows"], MOST[network], METHOD)
        if not whole or not ppo:
            continue
        leads.append(_lead(network, ppo, whole))
        cost = mean(row["cost"] for row in ppo)
        said.append(f"`{network}` {leads[-1]}, {cost:.2f}")
    if not leads:
        return NOT_YET
    return Verdict(all_above(leads, -LOST_POINTS), f"points above, margin {-LOST_POINTS}, and cost: {'; '.join(said)}")


def judge_coarse(rows: Rows) -> Verdict:
    """PPO beside the grid under a threshold above its own by what is claimed. Where the grid's answer costs less than
    that threshold and PPO saves less than is claimed, no loss shows nothing."""
    said, outcomes = [], []
    for network, row in rows.items():
        ppo, grid = _under(row["rows"], FIRST[network], METHOD), _under(row["rows"], COARSE[network], "grid")
        if not ppo or not grid:
            continue
        lead, cost = _lead(network, ppo, grid), mean(row["cost"] for row in ppo)
        saved, outcome = 1 - cost / grid[0]["cost"], above(lead, -LOST_POINTS)
        outcomes.append("not shown" if outcome == "confirmed" and saved < SAVED else outcome)
        said.append(f"`{network}` {lead}, {100 * saved:.0f} %")
    if not outcomes:
        return NOT_YET
    return Verdict(worst(outcomes), f"points above, margin {-LOST_POINTS}, and cost saved: {'; '.join(said)}")


def _pairs(rows: Rows, names: Sequence[str] = NETWORKS) -> Iterator[tuple[str, float, dict[str, Lines]]]:
    """Network, threshold and the agents' lines, where all three are known."""
    for case in CASES:
        for threshold in case.thresholds if case.name in rows and case.name in names else ():
            found = {n: _under(rows[case.name]["rows"], threshold, n) for n in (METHOD, MASKED, OTHER)}
            if all(found.values()):
                yield case.name, threshold, found


def _saved(found: Lines, other: Lines) -> Interval:
    """Per cent of the other's cost."""
    costs, others = ([row["cost"] for row in lines] for lines in (found, other))
    return over_seeds(others, costs).times(100 / mean(others))


def judge_less_cost(rows: Rows) -> Verdict:
    """One figure of all experiments: the mean over networks and thresholds."""
    said, plain, masked, points = [], [], [], []
    for network, threshold, agents in _pairs(rows):
        plain.append(_saved(agents[METHOD], agents[OTHER]))
        masked.append(_saved(agents[MASKED], agents[OTHER]))
        points.append(over_seeds(_held_out(agents[METHOD]), _held_out(agents[OTHER])))
        said.append(f"`{network}` {threshold:g} {plain[-1]}")
    if not plain:
        return NOT_YET
    whole = f"{pooled(plain)} % less than DDPG's, margin {NEARLY}, half of theirs; masked {pooled(masked)}"
    accuracy = f"points above it {pooled(points)}"
    return Verdict(above(pooled(plain), NEARLY), f"{whole}; {accuracy}; {'; '.join(said)}")


def judge_time(rows: Rows) -> Verdict:
    """Processor's seconds, of networks whose evaluations are among them, under the first threshold."""
    said, less = [], []
    for network, threshold, agents in _pairs(rows, TIMED):
        if threshold == FIRST[network]:
            ppo, _, ddpg = ([row["processor_s"] for row in lines] for lines in agents.values())
            less.append(over_seeds(ddpg, ppo))
            said.append(f"`{network}` {mean(ppo):.0f} s, DDPG {mean(ddpg):.0f}: {less[-1]} less")
    if not less:
        return NOT_YET
    return Verdict(all_above(less), "; ".join(said))


CLAIMS = (
    Claim(
        '"compared with coarse-grained quantization, the proposed method can reduce hardware cost by 20%~30% with '
        'negligible loss of accuracy": 8 bits everywhere',
        judge_cost,
        "abstract",
        "20 to 30 %; VGG-13 at 68.52 % under 0.7",
        NETWORKS,
    ),
    Claim(
        '"compared with coarse-grained quantization": `grid`',
        judge_coarse,
        "abstract",
        "20 to 30 %",
        NETWORKS,
    ),
    Claim(
        '"can further reduce the hardware cost by about 4.2% under the same resource constraints"',
        judge_less_cost,
        "abstract",
        "4.2 %",
        NETWORKS,
    ),
    Claim(
        '"has a shorter search time"',
        judge_time,
        "abstract, table 6",
        "4.1, 14.7, 9.1 s; DDPG's 24.2, 24.3, 18.0 (networks unknown)",
        TIMED,
    ),
)
