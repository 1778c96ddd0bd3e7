"""`hil plan --passes`: every pass of the compiler in order, its contract, and the bytes that a model owes to it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import click

from tinyhil.compiler.lower import lower
from tinyhil.errors import ConfigError
from tinyhil.harness.build.pipeline import arranged_for
from tinyhil.harness.offline.plan import Wanted, planning_ranges
from tinyhil.harness.settings.config import BoardSpec
from tinyhil.memplan.arena.placement import place
from tinyhil.notice import Say
from tinyhil.passes.every import PASSES
from tinyhil.passes.laid import PLANNED


@dataclass(frozen=True, slots=True)
class Sizes:
    """Bytes of a planned arena, and of the constants as the model has them."""

    peak_bytes: int
    constant_bytes: int


@dataclass(frozen=True, slots=True)
class PassGain:
    """One pass: what it looks at, what holds afterwards, and sizes with and without it."""

    name: str
    summary: str
    before: str
    after: str
    peak_bytes: int
    peak_without_bytes: int
    constant_bytes: int
    constant_without_bytes: int


def pass_gains(wanted: Wanted, board: BoardSpec | None, say: Say) -> list[PassGain]:
    """The model of `wanted` planned once with all passes and once without each; ConfigError without a model.

    `board`: whose core it is arranged for; None: for none, and passes of cores gain nothing. Nor do row-pairs and what
    runs behind the plan (layouts, chains, hot): these save time, of which nothing is said here.
    """
    if wanted.model is None:
        raise ConfigError("plan: --passes is for --model; an instance has no passes")
    said: set[str] = set()

    def say_once(line: str) -> None:
        if line not in said:
            say(line)
        said.add(line)

    whole = _sizes(wanted.model, wanted, board, wanted.without, say_once)
    gains = []
    for one in PASSES:
        if one.name not in wanted.without:
            is_early = one.needs is not PLANNED  # or sizes are what they are
            without = (*wanted.without, one.name)
            less = _sizes(wanted.model, wanted, board, without, say_once) if is_early else whole
            gain = (whole.peak_bytes, less.peak_bytes, whole.constant_bytes, less.constant_bytes)
            gains.append(PassGain(one.name, one.summary, one.needs.needs, one.gives, *gain))
    return gains


def _sizes(model: str, wanted: Wanted, board: BoardSpec | None, without: tuple[str, ...], say: Say) -> Sizes:
    opened = replace(wanted, without=without).opened(model)
    ranges = planning_ranges(opened, say, wanted.calibrate, wanted.inputs)
    assignment = opened.assignment(wanted.assignment, wanted.format)
    program = lower(opened.model.graph, assignment, ranges, without)
    if board is not None:
        program = arranged_for(program, board, without)
    placed = place(program, without, wanted.planner, wanted.budget(wanted.seconds))
    constants = sum(program.tensors[name].size_bytes for name in program.constants)
    return Sizes(placed.plan.peak_bytes, constants)


def print_gains(gains: list[PassGain]) -> None:
    """A line per pass; bytes are those by which the arena's peak and the constants grow where this pass alone is left
    out: a negative number is its price."""
    if gains:
        click.echo(f"peak {gains[0].peak_bytes} B, constants {gains[0].constant_bytes} B with all passes")
        click.echo(f"{'pass':<13} {'arena':>10} {'constants':>10}")
    for gain in gains:
        arena = gain.peak_without_bytes - gain.peak_bytes
        constants = gain.constant_without_bytes - gain.constant_bytes
        click.echo(f"{gain.name:<13} {arena:>8} B {constants:>8} B  {gain.summary}")
        click.echo(f"{'':<13} {'':>8}   {'':>8}    {gain.before} -> {gain.after}")
