"""What a strategy may ask about a model without an evaluation, and the protocol by which it asks for one."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Protocol

import numpy as np

from tinyhil.errors import ModelError
from tinyhil.formats.codec import dequantize
from tinyhil.language.program import Program, Role, executions
from tinyhil.search.accelerator import AcceleratorCosts
from tinyhil.search.costs import Costs
from tinyhil.search.evaluator import Evaluator, Score
from tinyhil.search.journal import Journal, Query
from tinyhil.search.memory import UNLIMITED, Memory, Placement
from tinyhil.search.monotone import Known
from tinyhil.search.space import ARENA, INPUT, Candidate, Choice, Space
from tinyhil.search.trial import Trial

LOG_BYTES = 16 << 20  # of values logged for the heat map
FIT, VALIDATION = "fit", "validation"
VALIDATION_EVERY = 3  # one sample in so many validates, narrow and clear decisions alike


@dataclass(frozen=True, slots=True)
class Ask:
    """One question. `complete`: no early stop. `probe`: only so many samples, and never the result.

    `part` FIT: two thirds of the samples, given up above `above` disagreements; VALIDATION: the others, answered by
    the full trial of both parts.
    """

    candidate: Candidate
    complete: bool = False
    probe: int | None = None
    part: str | None = None
    above: int | None = None


Asking = Generator[Ask, Trial, Candidate | None]
Question = tuple[Candidate, int | None, str | None]  # the candidate, samples of a probe, part of the samples


class Enough(Exception):
    """Thrown into a strategy at the budget's end: it may return its answer, or let this pass."""


class Strategy(Protocol):
    """A frozen dataclass whose fields are its options. `propose` yields questions and receives their trials; what it
    returns is its answer, None for the best trial that fits."""

    name: ClassVar[str]
    source: ClassVar[str]

    def propose(self, problem: SearchProblem) -> Asking:
        """Ask, receive a trial for each question, and return a candidate of its own, or None for the best trial."""


@dataclass(frozen=True, slots=True)
class SearchProblem:
    """One model under one limit of RAM, and those of `costs`. `charge` is told the cost of what is no trial, in
    evaluations. `anchor`: a candidate that keeps all limits; None: the one of least RAM. `beside`: bytes that a
    candidate takes beside the arena, of which the limit must hold, too (where the whole RAM of a board counts). `also`:
    the same model on other boards, whose limits must be kept as well. `answers`: what earlier searches were told; those
    of one session share it, so that sensitivities are measured once. `journal`: where processes share what is asked.
    `trained`: the program of a candidate once its weights were trained for it; None: they are judged as they are."""

    space: Space
    memory: Memory
    evaluator: Evaluator
    limit_bytes: int
    seed: int = 0
    charge: Callable[[float], None] = field(default=lambda cost: None)
    costs: Costs | AcceleratorCosts | None = None
    anchor: Candidate | None = None
    beside: Callable[[Candidate], int] | None = None
    journal: Journal | None = None
    also: tuple[SearchProblem, ...] = ()
    answers: dict[Question, tuple[str, Score]] = field(default_factory=dict)
    trained: Callable[[Candidate], Program] | None = None
    _parts: dict[str, Evaluator] = field(default_factory=dict)
    _known: dict[float, Known] = field(default_factory=dict)  # by the factor of the limit

    @property
    def float_quality(self) -> float:
        """Accuracy of the float model on these samples; 1 without labels."""
        accuracy = self.evaluator.examples.float_accuracy
        return 1.0 if accuracy is None else accuracy

    def program(self, candidate: Candidate) -> Program:
        """What is judged of a candidate."""
        return self.space.lower(candidate) if self.trained is None else self.trained(candidate)

    def foresee(self, candidates: Iterable[Candidate], probe: int | None = None) -> None:
        """What will be asked, on all samples or `probe` of them: other processes may answer it before."""
        if self.journal is not None:
            asked = None if probe is None or probe >= len(self.evaluator.examples) else probe
            self.journal.post(Query(candidate, asked) for candidate in candidates)

    def part(self, name: str) -> Evaluator:
        """The evaluator on the samples of one part."""
        if name not in self._parts:
            examples = self.evaluator.examples
            chosen = np.arange(len(examples)) % VALIDATION_EVERY == VALIDATION_EVERY - 1
            for key, mask in ((FIT, ~chosen), (VALIDATION, chosen)):
                labels = None if examples.labels is None else examples.labels[mask]
                given = replace(
                    examples,
                    x=examples.x[mask],
                    labels=labels,
                    outputs=examples.outputs[mask],
                    classes=examples.classes[mask],
                )
                self._parts[key] = Evaluator(self.evaluator.executor, given)
        return self._parts[name]

    @property
    def boards(self) -> tuple[SearchProblem, ...]:
        """This problem, and those of other boards."""
        return (self, *self.also)

    def fits(self, candidate: Candidate, factor: float = 1.0) -> bool:
        """Whether RAM (by `factor` more than the limit), latency and flash are kept to, on every board."""
        if not self.fits_ram(candidate, factor):
            return False
        return all(board.costs is None or board.costs.fits(candidate) for board in self.boards)

    @property
    def tries_together(self) -> bool:
        """Whether a move says something of others: where plans take long and nothing but RAM is limited. Of small
        networks each is planned, since formats beside each other may need room for a conversion."""
        return all(board.costs is None for board in self.boards) and self.memory.plans_slowly

    def seems_to_fit(self, candidate: Candidate, factor: float = 1.0) -> bool:
        """The same of a move; where plans take long, what fits says it of what is narrower, what does not of what is
        wider."""
        if not self.tries_together:
            return self.fits(candidate, factor)
        known = self._known.setdefault(factor, Known())
        says = known.says(candidate)
        if says is None:
            says = self.fits(candidate, factor)
            known.learn(candidate, fits=says)
        return says

    def fits_ram(self, candidate: Candidate, factor: float = 1.0) -> bool:
        """Whether, on each board that limits RAM, `factor` times the limit holds the arena and what lies beside it."""
        return all(
            board.memory.fits(candidate, int(board.limit_bytes * factor) - board.beside_bytes(candidate))
            for board in self.boards
            if board.limits_ram
        )

    @property
    def limits_ram(self) -> bool:
        """Not where an arena without a limit lies beside an accelerator, whose costs say what can not be held:
        strategies made for it ask thousands of times per trial."""
        return self.limit_bytes < UNLIMITED or not isinstance(self.costs, AcceleratorCosts)

    def beside_bytes(self, candidate: Candidate) -> int:
        """Bytes of RAM that the candidate needs beside its arena."""
        return 0 if self.beside is None else self.beside(candidate)

    def planned_bytes(self, candidate: Candidate) -> int:
        """The arena that the compiler would plan under the limit."""
        return self.memory.planned_bytes(candidate, self.limit_bytes - self.beside_bytes(candidate))

    def ram_bytes(self, candidate: Candidate) -> int:
        """What the limit is held against: that arena, and what the candidate takes beside it."""
        return self.planned_bytes(candidate) + self.beside_bytes(candidate)

    def placed(self, candidate: Candidate) -> Placement:
        """As the compiler would place it under the limit."""
        return self.memory.placed(candidate, self.limit_bytes - self.beside_bytes(candidate))

    def excess(self, candidate: Candidate) -> float:
        """By which share the limits are exceeded, the worst of them; at most 0 where all are kept to."""
        costs = self.cost_excess(candidate)  # plans the arena, too
        try:
            return max(costs, *(board.ram_bytes(candidate) / board.limit_bytes - 1 for board in self.boards))
        except ModelError:
            return float("inf")

    def cost_excess(self, candidate: Candidate) -> float:
        """The same of latency and flash alone; -1 where they do not count."""
        return max(-1.0 if board.costs is None else board.costs.excess(candidate) for board in self.boards)

    def fallback(self) -> Candidate:
        """What is known to fit best: the anchor, else the narrowest."""
        return self.memory.least(self.limit_bytes) if self.anchor is None else self.anchor

    def free(self) -> tuple[int, ...]:
        """Numbers of the groups on which the limits depend: those in RAM; all where latency or flash count."""
        return self.in_ram() if self.costs is None else tuple(range(len(self.space.groups)))

    def in_ram(self) -> tuple[int, ...]:
        """Numbers of the groups whose RAM counts: those in the arena; the input's buffers with `beside`."""
        roles = (ARENA,) if all(board.beside is None for board in self.boards) else (ARENA, INPUT)
        return tuple(index for index, group in enumerate(self.space.groups) if group.role in roles)

    def repaired(self, candidate: Candidate) -> Candidate:
        """With limits beside that of RAM: one group after the other as the anchor has it, until all are kept to, the
        groups first that help most alone."""
        anchor = self.anchor
        if anchor is None or self.fits(candidate):
            return candidate
        alone = [self.space.with_choices(candidate, {index: choice}) for index, choice in enumerate(anchor)]
        for index in sorted(range(len(anchor)), key=lambda index: (self.excess(alone[index]), index)):
            candidate = self.space.with_choices(candidate, {index: anchor[index]})
            if self.fits(candidate):
                break
        return candidate

    def promote(
        self, order: Iterable[int], start: Candidate, choice: Choice, factor: float = 1.0
    ) -> tuple[Candidate, list[int]]:
        """Give `choice` to the groups in this order as long as the limit holds; also those for which it did not.

        MinUn's PromoteWithinMemoryLimit.
        """
        found = self.repaired(start)
        return self.raised(found, [(index, [choice]) for index in order if found[index] != choice], factor)

    def raised(
        self, candidate: Candidate, wider: Sequence[tuple[int, Sequence[Choice]]], factor: float = 1.0
    ) -> tuple[Candidate, list[int]]:
        """Each of these groups in turn in the first of its choices, the widest first, with which the limit holds; also
        those for which none did.

        Where plans take long, twice as many are tried at once as long as they fit.
        """
        most = len(wider) if self.tries_together else 1
        overshooting, at, together = list[int](), 0, 1
        while at < len(wider):
            group = wider[at : at + together]
            raised = self.space.with_choices(candidate, {index: choices[0] for index, choices in group})
            if self.seems_to_fit(raised, factor):
                candidate, at, together = raised, at + len(group), min(most, 2 * together)
            elif len(group) > 1:
                together = len(group) // 2
            else:
                (index, choices), at, together = group[0], at + 1, 1
                others = (self.space.with_choices(candidate, {index: choice}) for choice in choices[1:])
                found = next((other for other in others if self.seems_to_fit(other, factor)), None)
                candidate = found or candidate
                overshooting += [index] if found is None else []
        return candidate, overshooting

    def heat(self, high: Choice, low: Choice, percentile: float = 95.0) -> list[float]:
        """Per group the percentile of |value(all high) - value(all low)| over its elements (MinUn, phase II).

        Of two neighbouring ranks the lower one, as the figures of the paper's appendix B have it.
        """
        programs = [self.space.lower(self.space.uniform(choice)) for choice in (high, low)]
        values = _executed_bytes(programs[0])
        samples = max(1, min(len(self.evaluator.examples), LOG_BYTES // max(1, values)))
        self.charge(2 * min(1.0, samples / len(self.evaluator.examples)))
        logs = [_real_values(program, self.evaluator.values(program, samples)) for program in programs]
        return [self._error(members, logs, percentile, role) for members, role in self._members()]

    def _members(self) -> list[tuple[tuple[str, ...], str]]:
        return [(group.members, group.role) for group in self.space.groups]

    def _error(
        self, members: tuple[str, ...], logs: list[dict[str, np.ndarray]], percentile: float, role: str
    ) -> float:
        names = [name for name in members if all(name in log for log in logs)]
        if role == ARENA:  # a state also shows constants it starts from; what was computed counts
            names = [name for name in names if name not in self.space.graph.all_constants()] or names
        errors = [np.abs(logs[0][name] - logs[1][name]).reshape(-1) for name in names]
        return float(np.percentile(np.concatenate(errors), percentile, method="lower")) if errors else 0.0


def _executed_bytes(program: Program) -> int:
    return 2 * sum(times * program.tensors[op.output].count for op, times in executions(program.body))


def _real_values(program: Program, integers: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    constants = {n: a for n, a in program.constants.items() if program.tensors[n].role == Role.CONSTANT}
    found = {**constants, **integers}
    return {name: dequantize(array, program.tensors[name].format).astype(np.float32) for name, array in found.items()}
