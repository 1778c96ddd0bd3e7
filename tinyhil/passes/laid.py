"""Program + Plan -> what is written down: how channels lie, what is one loop, which constants are hot."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from tinyhil.compiler_pass import Pass, Stage, fold
from tinyhil.language.program import Loop, Op, Program
from tinyhil.memplan import Plan
from tinyhil.passes.chains import Chains, Item
from tinyhil.passes.hot import Target, hot_on_all
from tinyhil.passes.layout import with_layouts
from tinyhil.references.verify import faults_of_handed_on


@dataclass(frozen=True, slots=True)
class Laid:
    """A program where its `plan` puts it; `hot`: constants in memory without wait states."""

    program: Program
    plan: Plan
    chains: Chains | None = None
    hot: frozenset[str] = frozenset()

    def items(self, body: Sequence[Op | Loop]) -> list[Item]:
        """The operations of one level in order, those that make a chain as one."""
        return list(body) if self.chains is None else self.chains.within(body)


def _with_layouts(laid: Laid, _: Sequence[Target]) -> Laid:
    return replace(laid, program=with_layouts(laid.program, laid.plan))


def _in_chains(laid: Laid, _: Sequence[Target]) -> Laid:
    return replace(laid, chains=Chains(laid.program, laid.plan))


def _hot(laid: Laid, targets: Sequence[Target]) -> Laid:
    return replace(laid, hot=hot_on_all(laid.program, laid.plan, targets))


PLANNED: Stage[Laid] = Stage("program and its plan", lambda laid: faults_of_handed_on(laid.program))
LAYOUTS = Pass(
    "layouts",
    "convolutions' tensors lie with channels innermost where that saves time",
    PLANNED,
    "same integers in the same bytes; in another order within a tensor, and weights with them",
    _with_layouts,
)
CHAINS = Pass(
    "chains",
    "element-wise operations that follow each other become one loop",
    PLANNED,
    "same integers; results that nobody else reads are never stored",
    _in_chains,
)
HOT = Pass(
    "hot",
    "constants fetched most often lie in memory without wait states",
    PLANNED,
    "same program; names of constants",
    _hot,
)
LAID = (LAYOUTS, CHAINS, HOT)
ONE_BY_ONE = (LAYOUTS.name, CHAINS.name)  # left out where the host is told every tensor, in planes


def laid_out(program: Program, plan: Plan, targets: Sequence[Target] = (), without: Collection[str] = ()) -> Laid:
    """What is generated for all of these targets; `without`: names of passes to leave out."""
    return fold(LAID, Laid(program, plan), targets, without=without)
