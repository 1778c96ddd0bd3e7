"""`hil plan --pareto`: what less RAM costs a model, schedule by schedule."""

from __future__ import annotations

from collections.abc import Sequence

from tinyhil.errors import ConfigError
from tinyhil.harness.build.pipeline import core_of
from tinyhil.harness.offline.plan import PLANS_PER_MODEL, Wanted, arranged_program, modelled
from tinyhil.harness.settings.config import BoardSpec
from tinyhil.memplan.arena.placement_preference import input_bytes
from tinyhil.memplan.arena.schedules import Scheduled, front, least
from tinyhil.notice import Say


def find_front(wanted: Wanted, board: BoardSpec | None, say: Say) -> tuple[list[Scheduled], int | None]:
    """The schedules of the model of `wanted`, from layer by layer to the least RAM, and the least bytes of an arena
    that the sample is a part of, on a board; ConfigError without a model."""
    if wanted.model is None:
        raise ConfigError("plan: --pareto is for --model; an instance has one schedule")
    if wanted.ram is not None or wanted.capacity is not None:
        raise ConfigError("plan: --pareto shows every schedule; --ram and --capacity choose one, leave them out")
    program = arranged_program(wanted, wanted.model, board, say)[2]
    each = None if wanted.seconds is None else wanted.seconds / PLANS_PER_MODEL
    how = wanted.without, wanted.planner, wanted.budget(each), core_of(board)
    joined = None if board is None else least(program.with_input_in_arena(), *how).peak_bytes
    return front(program, *how), joined


def front_lines(found: Sequence[Scheduled], joined_bytes: int | None, board: BoardSpec | None) -> list[str]:
    """A table, and what is not in it."""
    lines = [f"{'peak B':>10}  {'products':>8}  {'modelled time':>13}"]
    for one in found:
        lines.append(f"{one.peak_bytes:>10}  {100 * one.more_products:>+6.1f} %  {100 * one.more_time:>+11.1f} %")
    if found:
        sample_bytes = input_bytes(found[0].placed.program)
        lines.append(
            f"peaks are the arena's; a whole sample takes {sample_bytes} B beside it, which --ram with --board counts"
        )
        if joined_bytes is not None and joined_bytes < min(one.peak_bytes for one in found) + sample_bytes:
            lines.append(f"the least that --ram takes is {joined_bytes} B: an arena that the sample is a part of")
        lines.append(f"time is {modelled(board)}")
    return lines


def front_record(found: Sequence[Scheduled]) -> list[dict[str, object]]:
    """What `--json` prints."""
    return [
        {
            "peak_bytes": one.peak_bytes,
            "more_products": round(one.more_products, 6),
            "more_time": round(one.more_time, 6),
            "proven": one.placed.plan.proven,
        }
        for one in found
    ]
