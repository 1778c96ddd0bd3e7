"""Which tensors a program writes, in order."""

from __future__ import annotations

from tinyhil.language.program import Loop, Op


def executions(body: tuple[Op | Loop, ...]) -> list[str]:
    """The output tensor of each operation in order of execution, once per execution."""
    names: list[str] = []
    for item in body:
        if isinstance(item, Op):
            names.append(item.output)
        else:
            names += executions(item.body) * item.count
    return names
