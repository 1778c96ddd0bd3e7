"""Whether the schedule is optimal, too: no way to cut a program needs less, whatever the placement.

The space: the operations in their order, cut into single operations, loops over the rows of up to so many and groups of
channels (`Cuts`), every product computed once, every line buffer a ring of its own. A part of a cut needs what the
planner's bound says of the instants of that part alone, which are the same in every cut that has it. So parts that need
as much as the best plan are left out, one by one, where a cut without them still seems to need less: until no cut is
left, or one whose parts all need less.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

from tinyhil.language.program import Program
from tinyhil.memplan import Buffer, Problem, lower_bound
from tinyhil.memplan.arena.row_choice import Cuts, Part, Span, Way, cut_into
from tinyhil.memplan.arena.states import with_gaps
from tinyhil.memplan.arena.steps import steps_of
from tinyhil.memplan.arena.tensors import problem_of

MOST_BOUNDS = 400  # parts that are bounded before the search gives up

Choice = tuple[Span, Way]  # items of a program, carried out in this way
Placed = tuple[Span, Part]


@dataclass(frozen=True, slots=True)
class ScheduleProof:
    """`ways`: parts that the space has; `bounded`: those whose bound the proof needs, each at least `peak_bytes`."""

    peak_bytes: int
    ways: int
    bounded: tuple[tuple[Span, Way, int], ...]

    def statement(self) -> str:
        """The proof in one sentence, for the user."""
        return (
            "with every product computed once by these kernels, the operations in this order and a ring for each line "
            f"of rows, of {self.ways} single operations, loops over rows and groups of channels that the program can "
            f"be cut into, {len(self.bounded)} need {self.peak_bytes} B or more, and every cut has one of these"
        )


def prove_schedule(program: Program, peak_bytes: int) -> ScheduleProof | None:
    """The proof that no cut of `program` has a plan below `peak_bytes`; None if there is nothing to cut, or none was
    found."""
    cuts = Cuts(program)
    if not cuts.stages:
        return None
    left_out = dict[Choice, int]()
    known = dict[Choice, int]()
    while True:
        path = _least(cuts, left_out, known)
        if path is None:
            bounded = tuple((span, way, bound) for (span, way), bound in left_out.items())
            return ScheduleProof(peak_bytes, sum(map(len, cuts.parts.values())), bounded)
        open_ways = [(span, part) for span, part in path if (span, part.way) not in known]
        if not open_ways or len(known) >= MOST_BOUNDS:
            return None
        span, part = max(open_ways, key=lambda placed: placed[1].needs)
        bound = known[span, part.way] = bound_of(program, cuts, span, part)
        if bound >= peak_bytes:
            left_out[span, part.way] = bound


def _least(cuts: Cuts, left_out: dict[Choice, int], known: dict[Choice, int]) -> list[Placed] | None:
    """The cut that seems to need the least, without the parts left out."""
    best: list[tuple[int, list[Placed]] | None] = [(0, [])]
    for end in range(1, len(cuts.program.body) + 1):
        options = []
        for first, part in cuts.ending(end):
            before, key = best[first], ((first, end), part.way)
            if before is not None and key not in left_out:
                options.append((max(before[0], known.get(key, part.needs)), first, part))
        if not options:
            best.append(None)
            continue
        needs, first, part = min(options, key=lambda option: option[:2])
        before = best[first]
        assert before is not None
        best.append((needs, [*before[1], ((first, end), part)]))
    return None if best[-1] is None else best[-1][1]


def bound_of(program: Program, cuts: Cuts, span: Span, part: Part) -> int:
    """What every plan of every cut with this part needs while it is carried out."""
    first, end = span
    made = cut_into(program, cuts, [(first, end, part.way)]) if end - first > 1 else program
    own = made.body[first : len(made.body) - (len(program.body) - end)]
    begun = len(list(steps_of(made.body[:first], (), {})))
    ended = begun + len(list(steps_of(own, (), {})))
    problem = with_gaps(made, problem_of(made))
    buffers = tuple(_during(problem, begun, ended))
    names = {buffer.name for buffer in buffers}
    aliases = tuple(alias for alias in problem.aliases if {alias.first, alias.second} <= names)
    return lower_bound(Problem(buffers, problem.regions, aliases)).bytes if buffers else 0


def _during(problem: Problem, begun: int, ended: int) -> Iterator[Buffer]:
    """The buffers as far as they are live in these instants."""
    for buffer in problem.buffers:
        sections = [(max(start, begun), min(end, ended)) for start, end in buffer.sections]
        sections = [(start, end) for start, end in sections if start < end]
        if sections:
            gaps = tuple((one[1], other[0]) for one, other in pairwise(sections))
            yield replace(buffer, start=sections[0][0], end=sections[-1][1], gaps=gaps)
