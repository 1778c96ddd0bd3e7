"""Papers whose experiments have a command and a page of their own: their claims, judged by what those kept."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from statistics import mean
from typing import Any

from benchmarks.papers.judge import Interval, above, all_above, difference, of_means, over_seeds, worst
from benchmarks.papers.paper import Claim, Rows, Verdict
from benchmarks.reram.cases import CASES, VALUES
from benchmarks.reram.pages import values_of
from tools.measured import RESULTS, read

NEAR_POINTS, LOST_POINTS = 1.0, 1.0
# Tables of docs/training.md: how many test pictures each has, the fewest bits of fraction that the paper has for it.
TRAINED = {
    "arithmetic": (10_000, 8),
    "arithmetic_cifar": (5_000, 12),
    "arithmetic_mlp": (10_000, 8),
    "arithmetic_cnn": (10_000, 12),
}
TABLED = "lenet5"  # its evaluations are looked up (benchmarks/reram/truth.py)
TIMED = tuple(case.name for case in CASES if case.name != TABLED)
AGENTS, PAPERS_EPISODES = ("ppo", "ppo with mask", "ddpg"), 300
Lines = Sequence[Mapping[str, Any]]
SAVED = 0.8  # of the cost of 8 bits everywhere
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
def _reram() -> Rows:
    """By network."""
    paths = sorted((RESULTS / "reram").glob("*.jsonl"))
    return {path.stem: {"rows": [json.loads(line) for line in path.read_text().splitlines()]} for path in paths}


@cache
def _trainings() -> Rows:
    """By table."""
    return {
        name: {"rows": read(f"training/{name}")} for name in TRAINED if (RESULTS / f"training/{name}.json").is_file()
    }


def _of(rows: Lines, strategy: str, episodes: int | None = None) -> Lines:
    """Of each seed; agents after so many episodes."""
    return [row for row in rows if row["strategy"] == strategy and row.get("episodes") == episodes]


def _today(rows: Lines) -> Lines:
    """As values are held now: the paper's way."""
    return [row for row in rows if values_of(row) == VALUES]


def _held_out(rows: Lines) -> list[float]:
    """Per cent."""
    return [100 * row["held_out"] for row in rows]


def _judge_cost(rows: Rows) -> Verdict:
    said, within = [], []
    held_out = {case.name: case.held_out for case in CASES}
    for network, lines in ((name, _today(row["rows"])) for name, row in rows.items()):
        found = [row for row in lines if row["threshold"] is not None and row["cost"] <= SAVED]
        best = max(found, key=lambda row: row["accuracy"])
        whole = mean(_held_out(_of(lines, "8 bits")))
        lead = difference(best["held_out"], whole / 100, held_out[network])
        within.append(lead)
        said.append(f"`{network}` {lead} points at {best['cost']:.2f} of the cost ({best['strategy']})")
    if not within:
        return NOT_YET
    return Verdict(all_above(within, -LOST_POINTS), f"{'; '.join(said)}; held out, margin {LOST_POINTS}")


def _episodes(rows: Lines) -> int:
    """The most after which all three agents' answers are known."""
    counts = [{row["episodes"] for row in rows if row["strategy"] == agent} for agent in AGENTS]
    return max(set.intersection(*counts), default=0)


def _agents(rows: Rows) -> Iterator[tuple[str, int, list[Lines]]]:
    """By network: the episodes after which answers are judged, the lines of each agent."""
    for network, row in rows.items():
        lines = _today(row["rows"])
        count = _episodes(lines)
        yield network, count, [_of(lines, agent, count) for agent in AGENTS]


def _judge_ppo(rows: Rows) -> Verdict:
    """At the paper's episodes; of networks that have fewer nothing is shown."""
    said, better, short = [], [], []
    for network, count, agents in _agents(rows):
        ppo, masked, ddpg = map(_held_out, agents)
        plain, mask = over_seeds(ppo, ddpg), over_seeds(masked, ddpg)
        said.append(f"`{network}` ({count} episodes; seeds {len(ppo)}, {len(ddpg)}) {plain}, masked {mask}")
        if count >= PAPERS_EPISODES:
            better.append(plain)
        else:
            short.append(network)
    if not said:
        return NOT_YET
    outcome = all_above(better) if better else "not shown"
    return Verdict(outcome, f"points above DDPG: {'; '.join(said)}").without(short, f"below {PAPERS_EPISODES} episodes")


def _judge_time(rows: Rows) -> Verdict:
    """Processor's seconds of as many episodes as the paper's, of networks whose evaluations are among them."""
    said, less, short = [], [], []
    for network, count, agents in _agents({name: row for name, row in rows.items() if name in TIMED}):
        if count < PAPERS_EPISODES:
            short.append(network)
            continue
        ppo, masked, ddpg = ([row["processor_s"] for row in lines] for lines in agents)
        less.append(-over_seeds(ppo, ddpg))
        seconds = f"{mean(ppo):.0f} s, masked {mean(masked):.0f} s; DDPG {mean(ddpg):.0f} s; {less[-1]} s less"
        said.append(f"`{network}`, {count} episodes: {seconds}")
    if not said:
        return NOT_YET
    why = f"no time of {PAPERS_EPISODES} episodes with their evaluations"
    return Verdict(all_above(less), "; ".join(said)).without(short, why)


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
        "Layer-wise precision on ReRAM by reinforcement learning (PPO)",
        "../reram.md",
        "python -m benchmarks.reram",
        tuple(case.name for case in CASES),
        _reram,
        (
            Claim("Less hardware cost than 8 bits everywhere at next to no loss", _judge_cost, "", "20 to 30 %", ALL),
            Claim("PPO finds better widths than DDPG", _judge_ppo, about=ALL),
            Claim(
                "PPO's search takes less time",
                _judge_time,
                "table 6",
                "4.1, 14.7, 9.1 s; DDPG's 24.2, 24.3, 18.0",
                TIMED,
            ),
        ),
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
