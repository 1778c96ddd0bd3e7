"""Random integer programs as no front end makes them: states written anywhere, loops in loops, values overwritten."""

from __future__ import annotations

import numpy as np

from tinyhil.formats.fixed import Fixed
from tinyhil.language.form import Form
from tinyhil.language.program import Body, Loop, Op, Program, Role, Tensor

COUNT = 2
FORMAT = Fixed(16, 0)


class Writing:
    """Grows a program; `defined` are the arena tensors that hold a value wherever the program is now."""

    def __init__(self, chance: np.random.Generator) -> None:
        self.chance = chance
        self.tensors = {"x": Tensor("x", 3 * COUNT, FORMAT, Role.INPUT)}
        self.made = 0

    def pick(self, names: list[str]) -> str:
        return names[int(self.chance.integers(len(names)))]

    def new(self, role: Role = Role.ARENA, count: int = COUNT) -> str:
        self.made += 1
        name = f"{role[0]}{self.made}"
        self.tensors[name] = Tensor(name, count, FORMAT, role)
        return name

    def target(self, closed: frozenset[str]) -> str:
        """A new tensor or, half of the time, an old one that no loop around shows rows of."""
        old = [n for n, t in self.tensors.items() if t.role == Role.ARENA and t.count == COUNT and n not in closed]
        return self.pick(old) if old and self.chance.random() < 0.5 else self.new()

    def operation(self, readable: list[str], closed: frozenset[str]) -> Op:
        out = self.target(closed)
        self.made += 1
        name = f"op{self.made}"
        one, other = self.pick(readable), self.pick(readable)
        if self.chance.random() < 0.35 and one != out:
            return Op(Form("copy"), name, (one,), out, {"count": COUNT})
        params = {"count": COUNT, "a_period": COUNT, "b_period": COUNT, "a_shift": 0, "b_shift": 0, "shift": 0}
        return Op(Form(str(self.chance.choice(["add", "sub"]))), name, (one, other), out, params)

    def body(self, defined: set[str], rows: list[str], closed: frozenset[str], depth: int) -> Body:
        items: list[Op | Loop] = []
        for _ in range(int(self.chance.integers(2, 6))):
            if depth < 2 and self.chance.random() < 0.3:
                items.append(self.loop(defined, rows, closed, depth))
                continue
            op = self.operation([*sorted(defined), *rows], closed)
            defined.add(op.output)
            items.append(op)
        return tuple(items)

    def loop(self, defined: set[str], rows: list[str], closed: frozenset[str], depth: int) -> Loop:
        """Over the rows of the input, or over the elements of an arena tensor, which then stay as they are."""
        self.made += 1
        row = self.new(Role.SLICE)
        name, inside = f"loop{self.made}", [*rows, row]
        inner = set(defined) if self.chance.random() < 0.5 else defined  # after the loop its values may be unknown
        if self.chance.random() < 0.7:
            return Loop(name, 3, (("x", row),), self.body(inner, inside, closed, depth + 1))
        sequence = self.pick(sorted(defined))
        item = self.new(Role.SLICE, 1)
        body = self.body(inner, [*rows, row], closed | {sequence}, depth + 1)
        wide = self.new()
        params = {"count": COUNT, "a_period": 1, "b_period": 1, "a_shift": 0, "b_shift": 0, "shift": 0}
        use = Op(Form("add"), f"use{self.made}", (item, item), wide, params)
        at = int(self.chance.integers(len(body) + 1))
        return Loop(name, COUNT, (("x", row), (sequence, item)), (*body[:at], use, *body[at:]))


def random_program(seed: int) -> Program:
    writing = Writing(np.random.default_rng(seed))
    first, last = writing.new(), writing.new()
    fill = Op(Form("fill"), "start", (), first, {"count": COUNT, "value": 7})
    defined = {first}
    body = writing.body(defined, [], frozenset(), 0)
    one, other = (writing.pick(sorted(defined)) for _ in range(2))
    params = {"count": COUNT, "a_period": COUNT, "b_period": COUNT, "a_shift": 0, "b_shift": 0, "shift": 0}
    end = Op(Form("add"), "end", (one, other), last, params)
    return Program(f"seed {seed}", writing.tensors, {}, (fill, *body, end), "x", last, (3, COUNT), (COUNT,))
