"""What may be done to a program so that it needs less memory: all that the planner may choose from.

Rows come first: each program by rows is planned like the one layer by layer, and `--prefer` chooses among these
(placement_preference.py). What the others permit the planner may decline: of each program the smallest plan is taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from tinyhil.compiler_pass import Pass, Stage
from tinyhil.language.program import Program
from tinyhil.memplan import Problem
from tinyhil.memplan.arena.attention_rows import in_rows
from tinyhil.memplan.arena.order import reorder
from tinyhil.memplan.arena.row_choice import with_rows
from tinyhil.memplan.arena.states import with_gaps
from tinyhil.memplan.arena.tensors import problem_of
from tinyhil.references.verify import faults_of_handed_on

Programs = tuple[Program, ...]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A program, and what of its tensors may share bytes."""

    program: Program
    in_place: bool = False
    views: bool = False
    lags: bool = True
    gaps: bool = False

    def problem(self) -> Problem:
        """What there is to plan."""
        found = problem_of(self.program, in_place=self.in_place, views=self.views, lags=self.lags)
        return with_gaps(self.program, found, in_place=self.in_place) if self.gaps else found


@dataclass(frozen=True, slots=True)
class Candidates:
    """In the order in which they are planned; `most`: that with all that passes have permitted so far."""

    tries: tuple[Candidate, ...]
    most: Candidate

    @classmethod
    def of(cls, program: Program) -> Candidates:
        """The program with nothing permitted."""
        return cls((Candidate(program),), Candidate(program))

    def joined_by(self, candidate: Candidate) -> Candidates:
        """With one more, which permits the most."""
        return Candidates((*self.tries, candidate), candidate)


def _in_place(given: Candidates) -> Candidates:
    """First without windows over their operands: as good where the peak is elsewhere, and planned in no time."""
    most = replace(given.most, in_place=True)
    return Candidates((replace(most, lags=False), most), most)


def _with_views(given: Candidates) -> Candidates:
    tries = (replace(one, views=True) for one in given.tries)
    return Candidates((*tries, given.most), replace(given.most, views=True))


def _with_gaps(given: Candidates) -> Candidates:
    return given.joined_by(replace(given.most, gaps=True))


def _in_order(given: Candidates) -> Candidates:
    ordered = reorder(given.most.program)
    return given if ordered is given.most.program else given.joined_by(replace(given.most, program=ordered))


def _by_rows(given: Programs) -> Programs:
    given = (*given, *(made for program in given for made in in_rows(program)))
    return (*given, *(made for program in given for made in with_rows(program)))


def _faults_of_programs(programs: Iterable[Program]) -> Iterator[str]:
    for program in programs:
        yield from faults_of_handed_on(program)


PROGRAMS: Stage[Programs] = Stage("program of a core", _faults_of_programs)
CANDIDATES: Stage[Candidates] = Stage(
    "program to plan", lambda made: _faults_of_programs(tuple(one.program for one in made.tries))
)
ROWS: Pass[Programs] = Pass(
    "rows",
    "operations go by rows, layers before a mean by channels",
    PROGRAMS,
    "each row made once, same integers; loops over rows of tables, groups of channels",
    _by_rows,
)
MEMORY: tuple[Pass[Candidates], ...] = (
    Pass(
        "in-place",
        "operations may write over an operand that dies",
        CANDIDATES,
        "same program; aliases of equal bytes, which the planner may decline",
        _in_place,
    ),
    Pass(
        "views",
        "parts may lie where the whole lies",
        CANDIDATES,
        "same program; aliases with offsets, which the planner may decline",
        _with_views,
    ),
    Pass(
        "gaps",
        "a loop state holds nothing between last reader and writer",
        CANDIDATES,
        "same program; live ranges in two pieces",
        _with_gaps,
    ),
    Pass(
        "order",
        "operations of a level may change places",
        CANDIDATES,
        "same operations, each still after all that it reads",
        _in_order,
    ),
)
ALL_NAMES = frozenset((ROWS.name, *(one.name for one in MEMORY)))
