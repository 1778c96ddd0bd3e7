"""`hil plan --pareto`: what less RAM costs a model, schedule by schedule; on a board with what holds the sample."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from tinyhil.errors import ConfigError, DoesNotFit
from tinyhil.harness.build.pipeline import core_of
from tinyhil.harness.offline.plan import PLANS_PER_MODEL, Wanted, arranged_program, modelled
from tinyhil.harness.settings.config import BoardSpec
from tinyhil.language.program import Program
from tinyhil.memplan.arena.placement_preference import input_bytes, pays
from tinyhil.memplan.arena.schedules import Scheduled, front
from tinyhil.memplan.arena.transfer import belongs_in_arena, choose_transfer
from tinyhil.notice import Say
from tinyhil.passes.row_pairs import for_time
from tinyhil.preference import Wish

ALONE, APART, JOINED, STREAMED = "", "beside it", "in the arena", "by rows"


@dataclass(frozen=True, slots=True)
class Row:
    """A schedule, and bytes for the sample beside its arena; `how` the sample is held: ALONE without a board, where it
    does not count."""

    schedule: Scheduled
    input_bytes: int = 0
    how: str = ALONE

    @property
    def ram_bytes(self) -> int:
        """What `--ram` must be to give it."""
        return self.schedule.peak_bytes + self.input_bytes


def find_front(wanted: Wanted, board: BoardSpec | None, say: Say) -> list[Row]:
    """The schedules of the model of `wanted`, from layer by layer to the least RAM; on a board what each `--ram` gives
    there. ConfigError without a model."""
    if wanted.model is None:
        raise ConfigError("plan: --pareto is for --model; an instance has one schedule")
    if wanted.ram is not None or wanted.capacity is not None:
        raise ConfigError("plan: --pareto shows every schedule; --ram and --capacity choose one, leave them out")
    program = arranged_program(wanted, wanted.model, board, say)[2]
    each = None if wanted.seconds is None else wanted.seconds / PLANS_PER_MODEL
    how = wanted.without, wanted.planner, wanted.budget(each), core_of(board)
    if board is None:
        return [Row(schedule) for schedule in front(program, *how)]
    faster = for_time(program, core_of(board), without=wanted.without)
    ways, limits = list[_Way](), set[int]()
    for one in (program,) if faster is program else (faster, program):
        alone = front(one, *how)
        together = front(one.with_input_in_arena(), *how) if belongs_in_arena(one, None) else []
        ways.append(_Way(one, alone, together))
        sample = one.tensors[one.input].size_bytes
        limits |= {found.peak_bytes for found in together}
        limits |= {found.peak_bytes + beside for found in alone for beside in {input_bytes(one), sample, 2 * sample}}
    given = [_first_given(ways, limit, board.name) for limit in limits]
    exact = [_first_given(ways, row.ram_bytes, board.name) for row in given if row is not None]
    rows = {row.ram_bytes: row for row in exact if row is not None}
    return [rows[ram_bytes] for ram_bytes in sorted(rows, reverse=True)]


@dataclass(frozen=True, slots=True)
class _Way:
    """A program with its schedules, with the sample beside the arena and as a part of it."""

    program: Program
    alone: Sequence[Scheduled]
    together: Sequence[Scheduled]


def _first_given(ways: Sequence[_Way], ram_bytes: int, board: str) -> Row | None:
    """What `--ram` gives with so many bytes: with what takes more scratch for less time, where that fits."""
    return next((row for way in ways if (row := _given(way, ram_bytes, board)) is not None), None)


def _given(way: _Way, ram_bytes: int, board: str) -> Row | None:
    """What that is of one program, if it fits: one of the schedules with the sample beside the arena, or of those whose
    arena the sample is a part of where it had the only slot, or that is faster."""
    program, alone, together = way.program, way.alone, way.together
    wish, transfer = Wish(ram_bytes=ram_bytes), None
    one = _cheapest(alone, ram_bytes - input_bytes(program))
    if one is not None:
        with suppress(DoesNotFit):
            transfer = choose_transfer(one.placed.program, one.peak_bytes, ram_bytes, board, wish)
    other = _cheapest(together, ram_bytes)
    if together and belongs_in_arena(program, transfer):
        return None if other is None else Row(other, 0, JOINED)
    if one is None or transfer is None:
        return None
    if other is not None and pays(other.placed, one.placed, wish):
        return Row(other, 0, JOINED)
    return Row(one, transfer.input_bytes, STREAMED if transfer.streamed else APART)


def _cheapest(found: Sequence[Scheduled], limit_bytes: int) -> Scheduled | None:
    return min((one for one in found if one.peak_bytes <= limit_bytes), key=lambda one: one.more_time, default=None)


def front_lines(found: Sequence[Row], board: BoardSpec | None) -> list[str]:
    """A table, and what its bytes are."""
    bytes_of, sample = ("peak B", "") if board is None else ("RAM B", "  sample")
    lines = [f"{bytes_of:>10}  {'products':>8}  {'modelled time':>13}{sample}"]
    for row in found:
        more = f"{100 * row.schedule.more_products:>+6.1f} %  {100 * row.schedule.more_time:>+11.1f} %"
        lines.append(f"{row.ram_bytes:>10}  {more}  {row.how}".rstrip())
    if found and board is None:
        sample_bytes = input_bytes(found[0].schedule.placed.program)
        lines.append(f"peaks are the arena's; a whole sample takes {sample_bytes} B beside it (--board counts it)")
    elif found:
        lines.append("RAM is the arena and what holds the sample, as --ram gives it")
    lines.append(f"time is {modelled(board)}")
    return lines


def front_record(found: Sequence[Row]) -> list[dict[str, object]]:
    """What `--json` prints."""
    return [
        {
            "peak_bytes": row.schedule.peak_bytes,
            "input_bytes": row.input_bytes,
            "sample": row.how,
            "more_products": round(row.schedule.more_products, 6),
            "more_time": round(row.schedule.more_time, 6),
            "proven": row.schedule.placed.plan.proven,
        }
        for row in found
    ]
