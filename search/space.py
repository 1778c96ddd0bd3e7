"""What is chosen: one format for each group of values that share storage, and the program that follows from it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product

from tinyhil.compiler.calibrate import Ranges
from tinyhil.compiler.lower import is_matrix, lower, tied_values
from tinyhil.errors import ConfigError, ModelError
from tinyhil.formats import named
from tinyhil.language.assignment import Assignment
from tinyhil.language.graph import Graph
from tinyhil.language.program import Program, Role, Tensor

INPUT, CONSTANT, ARENA = Role.INPUT, Role.CONSTANT, Role.ARENA


@dataclass(frozen=True, slots=True)
class Choice:
    """A format, its exponent moved by `offset`: -1 halves the step and the range (Shiftry, stage III)."""

    format: str
    offset: int = 0

    @property
    def bits(self) -> int:
        """Bits per element."""
        return named(self.format).bits

    @property
    def described(self) -> str:
        """For people, as an assignment file writes it."""
        return f"{self.format}, offset {self.offset:+d}" if self.offset else self.format

    def __str__(self) -> str:
        return f"{self.format}{self.offset:+d}" if self.offset else self.format


Candidate = tuple[Choice, ...]  # one per group of the space


@dataclass(frozen=True, slots=True)
class Group:
    """Values in one memory. `elements` counts those in RAM for `role` arena, else those stored once. `is_matrix`:
    weights, for which there are formats that nothing else can have."""

    name: str
    members: tuple[str, ...]
    role: str
    elements: int
    is_matrix: bool = False

    def stored_bits(self, choice: Choice) -> int:
        """Of one element: constants are packed, in RAM each takes whole bytes."""
        bits = choice.bits
        return bits if self.role == CONSTANT and bits < 8 else 8 if bits <= 8 else 16 if bits <= 16 else 32


@dataclass(frozen=True, slots=True)
class Space:
    """`formats` are the names on offer, narrowest first; `groups` in order of first appearance. `without`: fusions
    that the board has no use for. `weights`: names that matrices alone may have, too."""

    graph: Graph
    ranges: Ranges
    groups: tuple[Group, ...]
    formats: tuple[str, ...]
    without: tuple[str, ...] = ()
    weights: tuple[str, ...] = ()

    @property
    def low(self) -> Choice:
        """The narrowest format on offer."""
        return Choice(self.formats[0])

    @property
    def high(self) -> Choice:
        """The widest format on offer."""
        return Choice(self.formats[-1])

    def uniform(self, choice: Choice) -> Candidate:
        """The candidate with one choice for every group."""
        return (choice,) * len(self.groups)

    def offered(self, index: int) -> tuple[str, ...]:
        """The formats that one group may have."""
        return (*self.formats, *self.weights) if self.groups[index].is_matrix else self.formats

    def starts(self) -> Iterator[Candidate]:
        """One format for everything, each in turn; then each of those for weights beside the widest, the narrowest."""
        yield from (self.uniform(Choice(name)) for name in self.formats)
        for rest in (self.high, self.low):
            yield from (self.weighing(name, rest) for name in self.weights)

    def weighing(self, name: str, rest: Choice) -> Candidate:
        """All weights in one format, all else in another."""
        return tuple(Choice(name) if group.is_matrix else rest for group in self.groups)

    def apart(self) -> Iterator[Candidate]:
        """Two formats: one for all but the constants, or but the biases, which have another; then weights in each of
        those that they alone may have, beside the widest and the narrowest."""
        constants = [group.role is Role.CONSTANT for group in self.groups]
        biases = [group.role is Role.CONSTANT and not group.is_matrix for group in self.groups]
        for (narrow, wide), inside in product(combinations(self.formats, 2), (constants, biases)):
            yield tuple(Choice(wide if is_inside else narrow) for is_inside in inside)
        for narrow, wide in combinations(self.formats, 2):
            yield tuple(Choice(narrow if is_inside else wide) for is_inside in constants)
        yield from (self.weighing(name, rest) for name in self.weights for rest in (self.high, self.low))

    def with_choices(self, candidate: Candidate, changes: Mapping[int, Choice]) -> Candidate:
        """The candidate with some groups changed."""
        return tuple(changes.get(index, choice) for index, choice in enumerate(candidate))

    def neighbours(self, candidate: Candidate) -> Iterator[Candidate]:
        """What differs from it in the format of one group."""
        for index, choice in enumerate(candidate):
            for name in self.offered(index):
                if name != choice.format:
                    yield self.with_choices(candidate, {index: Choice(name)})

    def unclipped(self, candidate: Candidate) -> Candidate:
        """The candidate without the offsets that clip weights: training moves their scales, and writes them clipped."""
        constants = self.graph.all_constants().keys()
        return tuple(
            replace(choice, offset=max(choice.offset, 0)) if constants >= {*group.members} else choice
            for group, choice in zip(self.groups, candidate, strict=True)
        )

    def arena(self) -> tuple[int, ...]:
        """Numbers of the groups that take RAM of the arena."""
        return tuple(index for index, group in enumerate(self.groups) if group.role == ARENA)

    def present(self, candidate: Candidate) -> frozenset[int]:
        """Numbers of the groups of which the candidate's program stores anything; the others are fused away."""
        stored = self.lower(candidate).tensors
        pairs = enumerate(self.groups)
        return frozenset(i for i, group in pairs if any(name in stored for name in stored_names(group.members)))

    def assignment(self, candidate: Candidate) -> Assignment:
        """The assignment of formats that the candidate stands for."""
        values = {group.name: choice.format for group, choice in zip(self.groups, candidate, strict=True)}
        pairs = zip(self.groups, candidate, strict=True)
        offsets = {group.name: choice.offset for group, choice in pairs if choice.offset}
        used = set(values.values())
        default = used.pop() if len(used) == 1 else self.formats[-1]  # of values that no group holds
        return Assignment(default, values, offsets)

    def lower(self, candidate: Candidate) -> Program:
        """The program in the candidate's formats; ModelError where a layer can not have them."""
        return lower(self.graph, self.assignment(candidate), self.ranges, self.without)


def stored_names(members: Sequence[str]) -> Iterator[str]:
    """What a program may call the values: of weights that became index lists those that are not zero."""
    for name in members:
        yield name
        yield f"{name}.nonzero"


def make_space(graph: Graph, ranges: Ranges, names: Sequence[str], without: tuple[str, ...] = ()) -> Space:
    """The groups of `graph` that a program really stores, if only with one of the formats on offer; ConfigError without
    any."""
    ordered = tuple(sorted(dict.fromkeys(names), key=lambda name: named(name).bits))
    if not ordered:
        raise ConfigError("search: needs a format to choose from; give --formats fixed8,fixed16")
    tensors = _stored(graph, ranges, ordered, without)
    groups, constants = [], graph.all_constants()
    for members in tied_values(graph):
        stored = [tensors[name] for name in stored_names(members) if name in tensors]
        roles = {tensor.role for tensor in stored}
        if not stored:
            continue
        role = ARENA if ARENA in roles else INPUT if roles & {INPUT, Role.SLICE} else CONSTANT
        counted = [tensor.count for tensor in stored if role != ARENA or tensor.role == ARENA]
        elements = sum(counted) if role == ARENA else max(counted)
        matrix = role == CONSTANT and all(is_matrix(constants.get(name)) for name in members)
        groups.append(Group(members[0], members, role, elements, matrix))
    return Space(graph, ranges, tuple(groups), ordered, without)


def _stored(graph: Graph, ranges: Ranges, names: Sequence[str], without: tuple[str, ...]) -> dict[str, Tensor]:
    """Tensors of the programs that have one format for everything; ModelError if there is none."""
    found: dict[str, Tensor] = {}
    unable: ModelError | None = None
    for name in names:
        try:
            found = {**lower(graph, Assignment(name), ranges, without).tensors, **found}
        except ModelError as error:
            unable = error
    if unable is not None and not found:
        raise unable
    return found
