"""`hil plan --passes`: every pass of the compiler in order, its contract, and what a model's arena owes to it."""

from __future__ import annotations

from dataclasses import dataclass

import click

from tinyhil.calibrate import Ranges
from tinyhil.errors import ConfigError
from tinyhil.fuse import GRAPH_FUSIONS, PROGRAM_FUSIONS
from tinyhil.fuse.rewriting import GraphFusion, ProgramFusion
from tinyhil.harness.job import Opened, Say, Streamed, open_model
from tinyhil.harness.offline.plan import Wanted, planning_ranges
from tinyhil.lower import lower
from tinyhil.memplan.arena.passes import PASSES, MemoryPass
from tinyhil.memplan.arena.placement import place


@dataclass(frozen=True, slots=True)
class PassGain:
    """One pass: what it looks at, what holds afterwards, and the arena's peak in bytes with and without it."""

    name: str
    summary: str
    before: str
    after: str
    peak_bytes: int
    peak_without_bytes: int

    @property
    def won_bytes(self) -> int:
        return self.peak_without_bytes - self.peak_bytes


def pass_gains(wanted: Wanted, say: Say) -> list[PassGain]:
    """The model of `wanted` planned once with all passes and once without each; ConfigError without a model."""
    if wanted.model is None:
        raise ConfigError("plan: --passes is for --model; an instance has no passes")
    opened = open_model(wanted.model, None, Streamed(wanted.states, wanted.steps))
    ranges = planning_ranges(opened.source, opened.model, say)
    peak = _peak(opened, ranges, wanted, wanted.without)
    gains = []
    passes: tuple[GraphFusion | ProgramFusion | MemoryPass, ...] = (*GRAPH_FUSIONS, *PROGRAM_FUSIONS, *PASSES)
    for one in passes:
        if one.name not in wanted.without:
            without = _peak(opened, ranges, wanted, (*wanted.without, one.name))
            gains.append(PassGain(one.name, one.summary, one.before, one.after, peak, without))
    return gains


def _peak(opened: Opened, ranges: Ranges, wanted: Wanted, without: tuple[str, ...]) -> int:
    assignment = opened.assignment(wanted.assignment, wanted.format)
    program = lower(opened.model.graph, assignment, ranges, without)
    return place(program, without, wanted.planner, wanted.budget(wanted.seconds)).plan.peak_bytes


def print_gains(gains: list[PassGain]) -> None:
    """A line per pass; bytes are those by which the peak grows where this pass alone is left out."""
    peak = gains[0].peak_bytes if gains else 0
    click.echo(f"peak {peak} B with all passes")
    for gain in gains:
        click.echo(f"{gain.name:<10} {gain.won_bytes:>8} B  {gain.summary}")
        click.echo(f"{'':<10} {'':>8}    {gain.before} -> {gain.after}")
