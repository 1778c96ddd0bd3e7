"""If and Loop. Both branches of an If are computed and Where chooses; a Loop of a static trip count becomes Repeat."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from tinyhil.frontend.listing import Call
from tinyhil.frontend.rewrite import Site

Branch = Callable[[], tuple[str, ...]]
Fill = Callable[[tuple[str, ...]], tuple[str, ...]]
MOST_STEPS = 1 << 20


def choose(site: Site, then: Branch, otherwise: Branch) -> tuple[str, ...]:
    """Results of an If: of one branch where the condition is constant. ModelError if the branches differ."""
    condition = site.value(site.input(0))
    if condition is not None:
        results = (then if bool(condition.reshape(-1)[0]) else otherwise)()
        return results[: len(site.call.outputs)]
    first, second = then(), otherwise()
    if len(first) != len(second) or len(first) < len(site.call.outputs):
        raise site.refuse(f"branches of {len(first)} and {len(second)} results", "the file is damaged")
    chosen = []
    for index, (a, b) in enumerate(zip(first, second, strict=True)):
        if site.shape(a) != site.shape(b):
            what = f"results {list(site.shape(a))} and {list(site.shape(b))}"
            raise site.refuse(what, "give both branches the same shape")
        chosen.append(site.named(index, "Where", site.input(0), a, b))
    return tuple(chosen)


def repeat(site: Site, wishes: Sequence[str], counts: bool, fill: Fill) -> tuple[str, ...]:
    """Results of a Loop. `wishes` names its body's inputs (step number, condition, states...), `counts` says whether
    the body reads the step number. ModelError unless the number of steps is known."""
    steps = site.value(site.input(0)) if site.input(0) else None
    if steps is None or not 0 < int(steps.reshape(-1)[0]) <= MOST_STEPS:
        given = "none" if steps is None else str(int(steps.reshape(-1)[0]))
        raise site.refuse(f"a trip count that is not known ({given})", "export with a constant trip count above 0")
    condition = site.value(site.input(1)) if site.input(1) else np.ones(1)
    if condition is None or not condition.all():
        raise site.refuse("a condition computed at run time, or false", "only loops of a static trip count")
    states = site.call.inputs[2:]
    first = (site.constant("first", np.zeros((), np.int64), np.int64),) if counts else ()

    def body(inputs: tuple[str, ...]) -> tuple[str, ...]:
        always = site.builder.constant(wishes[1], np.ones((), bool))
        number = inputs[0] if counts else site.builder.constant(wishes[0], np.zeros((), np.int64))
        holds, *following = fill((number, always, *inputs[len(first) :]))
        goes_on = site.value(holds)
        if goes_on is None or not goes_on.all():
            raise site.refuse("ends on a computed condition", "only loops of a static trip count are supported")
        if not counts:
            return tuple(following)
        one = site.constant("one", np.ones((), np.int64), np.int64)
        return (site.make("Add", number, one), *following)

    outputs = (*((f"{wishes[0]}.last",) if counts else ()), *site.call.outputs)
    attrs = {"count": int(np.asarray(steps).reshape(-1)[0]), "num_scan_inputs": 0}
    call = replace(Call("Repeat", site.call.name, (*first, *states), outputs, attrs))
    results = site.builder.loop(call, (*(wishes[:1] if counts else ()), *wishes[2:]), body)
    return results[len(first) :]
