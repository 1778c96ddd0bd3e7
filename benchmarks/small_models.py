"""Planner instances of ProtoNN, Bonsai and FastGRNN, tensor by tensor as their C code computes them.

python -m benchmarks.small_models --write benchmarks/instances

Every intermediate result is a buffer, dot products keep theirs as Shiftry does; the input stays in flash or on the
wire.
Widths are 8 or 16 bits by chance: of the draws with seeds 0, 1, 2, ... the first for which first-fit is not optimal,
for two models the first with the bytes that MinUn reports (its own widths are not published): 120 -> 93 and 60 -> 53.
Dimensions: the published models (MinUn's and SeeDot's tables, the FastGRNN paper).
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tinyhil.memplan import Buffer, Problem, plan
from tinyhil.memplan.csv import write_problem


@dataclass
class Steps:
    """Operations one after another; a tensor lives from the one that makes it to the last that reads it."""

    sizes: dict[str, int] = field(default_factory=dict)
    begin: dict[str, int] = field(default_factory=dict)
    end: dict[str, int] = field(default_factory=dict)
    now: int = 0

    def make(self, name: str, size: int, reads: Sequence[str] = ()) -> str:
        self.sizes[name], self.begin[name], self.end[name] = size, self.now, self.now + 1
        for read in reads:
            self.end[read] = self.now + 1
        self.now += 1
        return name

    def keep(self, names: Sequence[str]) -> None:
        """A loop ends here that needs these from step to step."""
        for name in names:
            self.end[name] = max(self.end[name], self.now)

    def problem(self) -> Problem:
        return Problem(tuple(Buffer(n, s, self.begin[n], self.end[n]) for n, s in self.sizes.items()))


def protonn(dimensions: int, labels: int) -> Problem:
    steps = Steps()
    steps.make("wx_products", dimensions)
    x = steps.make("wx", dimensions, ["wx_products"])
    x = steps.make("centred", dimensions, [x])
    score = steps.make("score", labels)
    prototype = steps.make("prototype", 1)  # its number
    difference = steps.make("difference", dimensions, [x])
    squares = steps.make("squares", dimensions, [difference])
    distance = steps.make("distance", 1, [squares])
    kernel = steps.make("kernel", 1, [steps.make("exponent", 1, [distance])])
    steps.make("next", labels, [score, steps.make("vote", labels, [kernel])])
    steps.keep([x, score, prototype])
    steps.make("label", 1, ["next"])
    return steps.problem()


def bonsai(dimensions: int, classes: int) -> Problem:
    steps = Steps()
    z = steps.make("projected", dimensions)
    z = steps.make("centred", dimensions, [z])
    score = steps.make("score", classes)
    w = steps.make("w", classes, [z, steps.make("w_products", dimensions, [z])])
    v = steps.make("v", classes, [z, steps.make("v_products", dimensions, [z])])
    term = steps.make("term", classes, [w, steps.make("tanh", classes, [v])])
    steps.make("next", classes, [score, term])
    branch = steps.make("branch", 1, [steps.make("t_products", dimensions, [z])])
    steps.make("node", 1, [branch])
    steps.keep([z, "next"])
    steps.make("label", 1, ["next"])
    return steps.problem()


def fastgrnn(hidden: int, rank_w: int = 0, rank_u: int = 0) -> Problem:
    steps = Steps()
    h = steps.make("h", hidden)
    wx = steps.make("wx", hidden, [steps.make("w1x", rank_w)] if rank_w else [])
    uh = steps.make("uh", hidden, [h, steps.make("u1h", rank_u, [h])] if rank_u else [h])
    c = steps.make("c", hidden, [wx, uh])
    g = steps.make("g", hidden, [steps.make("g_in", hidden, [c])])
    new = steps.make("new", hidden, [steps.make("new_in", hidden, [c])])
    gate = steps.make("gate", hidden, [g])
    part = steps.make("part", hidden, [gate, new])
    steps.make("next", hidden, [steps.make("kept", hidden, [g, h]), part])
    return steps.problem()


MODELS = {
    "protonn_usps2": protonn(10, 2),
    "protonn_usps10": protonn(25, 10),
    "protonn_gesturepod": protonn(10, 10),
    "bonsai_usps2": bonsai(30, 1),
    "bonsai_usps10": bonsai(28, 10),
    "fastgrnn_usps10": fastgrnn(32),
    "fastgrnn_har2": fastgrnn(80, 5, 40),
    "fastgrnn_dsa19": fastgrnn(64, 16, 20),
}


def mixed(problem: Problem, seed: int) -> Problem:
    chance = random.Random(seed)
    return Problem(tuple(replace(b, size_bytes=b.size_bytes * chance.choice((1, 2))) for b in problem.buffers))


REPORTED = {"bonsai_usps2": (120, 93), "protonn_usps2": (60, 53)}  # bytes: first-fit, optimal


def instance(name: str) -> Problem:
    for seed in range(1000):
        drawn = mixed(MODELS[name], seed)
        best, first_fit = plan(drawn), plan(drawn, "first-fit").peak_bytes
        wanted = REPORTED.get(name, (first_fit, best.peak_bytes))
        if best.proven and (first_fit, best.peak_bytes) == wanted and first_fit > best.peak_bytes:
            return drawn
    raise AssertionError(f"{name}: no such draw")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path, required=True, help="folder for the CSV files")
    options = parser.parse_args()
    options.write.mkdir(parents=True, exist_ok=True)
    for name in MODELS:
        (options.write / f"{name}.csv").write_text(write_problem(instance(name)))


if __name__ == "__main__":
    main()
