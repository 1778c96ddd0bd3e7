"""Table 1 and table 2: accuracy at MinUn's RAM limits, with fixed point, posits and posits of the best pair of widths.

RAM is the arena without the model input. Searches see 1000 samples of the training part; figures are of the test part.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from benchmarks.papers.judge import OUTCOMES, Interval, above, all_above, more_often, paired, wilson, worst
from benchmarks.papers.minun.facts import FASTGRNN_PERCENT, KINDS, LIMITS, NETWORKS, NOT_AT_HAND, SEEDOT
from benchmarks.papers.minun.networks import ROWS
from benchmarks.papers.minun.saved_networks import trained
from benchmarks.papers.paper import Cell, Claim, Row, Rows, Verdict, table, under
from benchmarks.search.tables import POSITS, SEARCH_SAMPLES, measured
from tinyhil.harness.search.task import SearchRequest
from tinyhil.native import default_cache_dir

OFFERS = {"fixed": "fixed8,fixed16", "posit": POSITS, "pair": "posit8,posit9,posit10,posit12,posit16"}
OURS = "lagrange"
ORDERS = ("haunter", "shiftry until_it_fits=true", "accuracy_only", "size_only")
EVALUATIONS = 20  # of ours at most; the others end by themselves
ALLOWED_POINTS = 0.2
WITHIN = "every answer within 0.2"
DIFFER_POINTS = 0.1


def cells() -> Iterator[Cell]:
    """Choosing a pair of widths is HAUNTER's own; every order of promotion is measured on the zoo."""
    for network, row in NETWORKS.items():
        for strategy in (ORDERS[0], OURS, *(() if network in ROWS else ORDERS[1:])):
            for kind, limit in zip(KINDS, LIMITS[row], strict=True):
                if kind != "pair" or strategy == ORDERS[0]:
                    key, offer = f"ram/{network}/{kind}/{strategy}", OFFERS[kind]
                    yield Cell(key, partial(searched, network, limit, offer, strategy))


def quick() -> Iterator[Cell]:
    return iter(())


def request(
    network: str, ram: int, formats: str, strategy: str = OURS, evaluations: int = EVALUATIONS
) -> SearchRequest:
    """For a network of the zoo, or for one of ours beside it with its own data."""
    name, *options = strategy.split()
    asked = SearchRequest(network, ram, name, tuple(options), formats, evaluations=evaluations, samples=SEARCH_SAMPLES)
    if network not in ROWS:
        return asked
    path = trained(network, default_cache_dir() / "paper")
    train = path.with_name(f"{network}_train.npz")
    held_out = path.with_suffix(".npz")
    return replace(asked, model=str(path), inputs=train, held_out=held_out, calibrate=train)


def searched(network: str, limit: int, formats: str, strategy: str) -> Row:
    """What `strategy` finds within `limit` bytes."""
    row = measured(request(network, limit, formats, strategy))
    return {key: value for key, value in row.items() if key not in ("seconds", "model", "strategy")}


def _found(rows: Rows, network: str, kind: str, strategy: str) -> Row | None:
    row = rows.get(f"ram/{network}/{kind}/{strategy}")
    return None if row is None or "failed" in row else row


def points(row: Row | None) -> str:
    """Points lost (bytes); nothing of what was not measured."""
    if row is None or "failed" in row:
        return ""
    return "not feasible" if "error" in row else f"{row['points_lost']:+.2f} ({row['ram']})"


def body(rows: Rows) -> str:
    return f"{_limits_table(rows)}\n\n{_orders_table(rows)}\n\n{_exploration_table(rows)}"


def _limits_table(rows: Rows) -> str:
    shown = {kind: (ORDERS[0],) if kind == "pair" else (OURS, ORDERS[0]) for kind in KINDS}
    heads = ["Data", "Our network", "Published: float, 16 bits %", "Float %"]
    for kind, strategies in shown.items():
        heads += [f"{kind}: limit B", *(f"{kind}, {strategy}" for strategy in strategies)]
    lines: list[list[object]] = []
    for row, limits in LIMITS.items():
        for network in [network for network, of in NETWORKS.items() if of == row]:
            line: list[object] = [row[1], f"`{network}`", _published(row), _float(rows, network)]
            for (kind, strategies), limit in zip(shown.items(), limits, strict=True):
                line += [limit, *(points(_found(rows, network, kind, strategy)) for strategy in strategies)]
            lines.append(line)
    return (
        "## Table 2: at MinUn's limits of RAM\n\nPoints of accuracy lost to float on the whole test part (bytes of "
        "RAM of the answer). *fixed* and *posit*: 8 and 16 bits; *pair*: posits of 8, 9, 10, 12 and 16 bits, of which "
        "HAUNTER takes the best pair. "
        "*Published*: SeeDot's accuracies in float and in 16 bits, FastGRNN's own.\n\n" + table(heads, lines)
    )


def _float(rows: Rows, network: str) -> str | None:
    found = [row["float_percent"] for row in under(rows, f"ram/{network}").values() if "float_percent" in row]
    return f"{found[0]:.2f}" if found else None


def _orders_table(rows: Rows) -> str:
    lines, alike = [], 0
    for network in NETWORKS:
        for kind in KINDS[:2]:
            found = [_found(rows, network, kind, strategy) for strategy in ORDERS]
            lost = [row["points_lost"] for row in found if row is not None and "error" not in row]
            if len(lost) == len(found) and max(lost) - min(lost) >= DIFFER_POINTS:
                lines.append([f"`{network}`", kind, *(points(row) for row in found)])
            else:
                alike += any(found[1:])
    return (
        "## Table 1: orders of promotion\n\nThe same limits, points lost (bytes). `accuracy_only` and `size_only` "
        "demote by individual accuracy or by size until the limit holds, as the paper's; Shiftry stops there, too. In "
        f"{alike} more pairs of network and formats the orders differ by less than {DIFFER_POINTS} points, or none "
        "finds an answer.\n\n" + table(("Network", "Formats", *ORDERS), lines)
    )


def _exploration_table(rows: Rows) -> str:
    shown = [(kind, strategy) for kind in KINDS for strategy in (ORDERS[0], ORDERS[1], OURS)]
    shown = [pair for pair in shown if pair[0] != KINDS[-1] or pair[1] == ORDERS[0]]
    lines = []
    for network in NETWORKS:
        found = [_found(rows, network, kind, strategy) for kind, strategy in shown]
        lines.append([f"`{network}`", *(_explored(row) for row in found)])
    heads = ["Network", *(f"{kind}, {strategy.split()[0]}" for kind, strategy in shown)]
    return (
        "## Exploration: executions and time\n\nHow often a search ran the network over its 1,000 samples (a probe "
        "counts as its share of them); in brackets the processor's seconds of the whole cell, the test part at its end "
        "included.\n\n" + table(heads, lines)
    )


def _explored(row: Row | None) -> str:
    if row is None or "evaluations" not in row:
        return ""
    return f"{row['evaluations']:.0f} ({row['processor_s']:.1f})" if "processor_s" in row else ""


def _published(row: tuple[str, str]) -> str:
    theirs = SEEDOT.get(row)
    if theirs is not None:
        return f"{theirs.float_percent}, {theirs.int16_percent}"
    return str(FASTGRNN_PERCENT.get(row[1], "")) if row[0] == "FastGRNN" else ""


def _reached(row: Row) -> Interval:
    """Accuracy of an answer in per cent, on the test part."""
    return wilson(round((row["float_percent"] - row["points_lost"]) / 100 * row["samples"]), row["samples"])


def _judge_within(kind: str, rows: Rows) -> Verdict:
    """HAUNTER's own answers, one for each of our networks; of one that keeps no limit nobody knows what it would have
    lost."""
    found = {network: _found(rows, network, kind, ORDERS[0]) for network in NETWORKS}
    known = {network: row for network, row in found.items() if row is not None}
    lead = {
        network: -paired(row["points_lost"], row["disagreements"], row["samples"])
        for network, row in known.items()
        if "error" not in row
    }
    if not lead:
        return Verdict("not testable here", "not measured yet")
    by = {outcome: [n for n, lost in lead.items() if above(lost, -ALLOWED_POINTS) == outcome] for outcome in OUTCOMES}
    said = (
        f"HAUNTER's answers, margin {ALLOWED_POINTS} points: of {len(lead)} networks {len(by['confirmed'])} lie within"
    )
    if by["refuted"]:
        said += f"; {len(by['refuted'])} beyond ({', '.join(f'`{name}` {lead[name]}' for name in by['refuted'])})"
    if by["not shown"]:
        said += f"; {len(by['not shown'])} are not decided by their samples"
    if larger := [f"`{network}`" for network in known if network not in lead]:
        said += f"; {', '.join(larger)}: no answer in their RAM"
    within = all_above(lead.values(), -ALLOWED_POINTS)
    return Verdict(worst((within, "not shown")) if larger else within, said)


def _judge_orders(rows: Rows) -> Verdict:
    counts = {strategy: [0, 0] for strategy in ORDERS[1:]}  # limits where HAUNTER changes fewer decisions, and more
    pairs = 0
    for network in NETWORKS:
        for kind in KINDS[:2]:
            found = [_found(rows, network, kind, strategy) for strategy in ORDERS]
            if any(row is None or "error" in row for row in found):
                continue
            pairs += 1
            first, *others = [row["disagreements"] for row in found if row is not None]
            for strategy, count in zip(ORDERS[1:], others, strict=True):
                counts[strategy][0] += first < count
                counts[strategy][1] += count < first
    if not pairs:
        return Verdict("not testable here", "not measured yet")
    said = ", ".join(f"`{strategy}` in {fewer}, more in {more}" for strategy, (fewer, more) in counts.items())
    outcome = worst(more_often(fewer, more) for fewer, more in counts.values())
    return Verdict(outcome, f"of {pairs} limits fewer decisions change than by {said}; sign test, ties left out")


def _judge_seedot(rows: Rows) -> Verdict:
    """Its float accuracy against that of our own network of the row, in fixed point by our search."""
    found: dict[str, Interval] = {}
    for network, of in NETWORKS.items():
        row = _found(rows, network, "fixed", OURS)
        if of in SEEDOT and row is not None and "error" not in row:
            reached, theirs = _reached(row), SEEDOT[of].float_percent
            found[network] = Interval(reached.found - theirs, reached.low - theirs, reached.high - theirs)
    if not found:
        return Verdict("not testable here", "not measured yet")
    beyond = [network for network, ahead in found.items() if above(ahead) == "confirmed"]
    others = [f"`{network}` {ahead}" for network, ahead in found.items() if network not in beyond]
    said = f"{len(beyond)} of {len(found)} networks lie above its published float accuracy in fixed point"
    absent = len([row for row in SEEDOT if row[1] in NOT_AT_HAND])
    said += (f"; points of the others: {', '.join(others)}" if others else "") + f"; {absent} rows have no data here"
    return Verdict(all_above(found.values()), said)


ZOO = tuple(name for name in NETWORKS if name not in ROWS)
COMPARED = tuple(name for name in NETWORKS if NETWORKS[name] in SEEDOT)


def _of(kinds: Sequence[str], strategies: Sequence[str], networks: Iterable[str] = NETWORKS) -> tuple[str, ...]:
    """Keys of these networks' cells."""
    return tuple(f"ram/{name}/{kind}/{strategy}" for name in networks for kind in kinds for strategy in strategies)


CLAIMS = (
    Claim(
        "Fixed point 8/16 at MinUn's limits: within 0.2 points of float",
        partial(_judge_within, "fixed"),
        "table 2",
        "said of posits",
        _of(("fixed",), ORDERS[:1]),
    ),
    Claim(
        "Posits 8/16 at MinUn's limits: within 0.2 points of float",
        partial(_judge_within, "posit"),
        "table 2",
        WITHIN,
        _of(("posit",), ORDERS[:1]),
    ),
    Claim(
        "Posits of the best pair of widths: the same",
        partial(_judge_within, "pair"),
        "table 2",
        WITHIN,
        _of(("pair",), ORDERS[:1]),
    ),
    Claim(
        "HAUNTER's order of promotion beats Shiftry's, by accuracy only, by size only",
        _judge_orders,
        "table 1, algorithms 4 to 8",
        about=_of(KINDS[:2], ORDERS, ZOO),
    ),
    Claim(
        "SeeDot's accuracies hold for integers on such boards, in MinUn's RAM",
        _judge_seedot,
        "PLDI 2019, table",
        "beside ours in table 2",
        _of(("fixed",), (OURS,), COMPARED),
    ),
)
