"""`hil plan --pareto`: what less RAM costs a model, schedule by schedule."""

from __future__ import annotations

from collections.abc import Sequence

from tinyhil.errors import ConfigError
from tinyhil.harness.offline.plan import MODELLED_FOR, PLANS_PER_MODEL, Wanted, arranged_program
from tinyhil.harness.settings.config import Boards
from tinyhil.memplan.arena.placement_preference import input_bytes
from tinyhil.memplan.arena.schedules import Scheduled, front
from tinyhil.notice import Say


def find_front(wanted: Wanted, boards: Boards | None, say: Say) -> list[Scheduled]:
    """The schedules of the model of `wanted`, from layer by layer to the least RAM; ConfigError without a model."""
    if wanted.model is None:
        raise ConfigError("plan: --pareto is for --model; an instance has one schedule")
    if wanted.ram is not None or wanted.capacity is not None:
        raise ConfigError("plan: --pareto shows every schedule; --ram and --capacity choose one, leave them out")
    board = None if wanted.board is None or boards is None else boards.board(wanted.board)
    program = arranged_program(wanted, wanted.model, board, say)[2]
    each = None if wanted.seconds is None else wanted.seconds / PLANS_PER_MODEL
    return front(program, wanted.without, wanted.planner, wanted.budget(each))


def front_lines(found: Sequence[Scheduled]) -> list[str]:
    """A table, and what is not in it."""
    lines = [f"{'peak B':>10}  {'products':>8}  {'modelled time':>13}"]
    for one in found:
        lines.append(f"{one.peak_bytes:>10}  {100 * one.more_products:>+6.1f} %  {100 * one.more_time:>+11.1f} %")
    if found:
        sample_bytes = input_bytes(found[0].placed.program)
        lines.append(f"time is modelled {MODELLED_FOR}")
        lines.append(
            f"peaks are the arena's; a whole sample takes {sample_bytes} B beside it, which --ram with --board counts"
        )
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
