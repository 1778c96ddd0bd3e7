"""Groups of channels: a layer and what follows it channel by channel, some of the channels at a time.

A layer that makes many channels of a small plane, and the pooling behind it, need not hold all of them at once: each
group goes through the layer and through what follows, and lies where it belongs in the result (a view). No product is
computed twice; a group has weights of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from tinyhil.language.program import Op, Program, Role, Tensor, walk
from tinyhil.memplan.arena.row_stages import Stage
from tinyhil.names import free_name
from tinyhil.ops import rows
from tinyhil.ops.movement import PLACE, PLACE_MORE, straight

LAYERS = frozenset(
    kernel.form for kernel in (*rows.EXACT_CONV, *rows.CHANNEL_CONV, *rows.ASYMMETRIC_CONV, *rows.RESCALED_CONV)
)
MAPPED = frozenset(kernel.form for kernel, _ in rows.MAPPED)
LEAST = 8  # channels of a group


def may_go_in_groups(program: Program, part: Sequence[Stage]) -> bool:
    """Whether the first of these stages is a layer of which every channel goes its own way through all the others."""
    first = part[0].op
    if not _is_layer(program, first) or first.params["groups"] != 1 or any(s.is_part_of_more for s in part):
        return False
    for before, stage in pairwise(part):
        reads = [one.name for one in stage.reads]
        if reads != [before.target] or stage.out.channels != before.out.channels:
            return False
        p = stage.op.params
        if "outputs" in p and not (_is_layer(program, stage.op) and p["groups"] == p["channels"] == p["outputs"]):
            return False
        if not stage.has_window and stage.op.kernel not in MAPPED:
            return False
    return True


def _is_layer(program: Program, op: Op) -> bool:
    if op.kernel not in LAYERS:
        return False
    constants = [program.tensors[name] for name in _constants_of(op)]
    of_each = all(one.count % op.params["outputs"] == 0 for one in constants)
    return of_each and all(one.role in (Role.CONSTANT, Role.TABLE) for one in constants)


def _constants_of(op: Op) -> list[str]:
    """What a layer holds for each of its outputs."""
    return [name for name in op.inputs if name != rows.operand_of(op)]


def shares(channels: int, groups: int) -> list[tuple[int, int]]:
    """Channels [begin, end) of each group; multiples of LEAST but for the last."""
    each = -(-channels // groups)
    each += -each % LEAST
    return [(begin, min(begin + each, channels)) for begin in range(0, channels, each)]


def in_groups(program: Program, part: Sequence[Stage], groups: int) -> Program:
    """The program with these stages (`may_go_in_groups`) carried out for some channels at a time."""
    tensors, constants, made, placed = dict(program.tensors), dict(program.constants), list[Op](), list[Op]()
    result, channels = program.tensors[part[-1].target], part[0].out.channels
    for number, (begin, end) in enumerate(shares(channels, groups)):
        known = dict[str, str]()
        for stage in part:
            for name in _constants_of(stage.op) if "outputs" in stage.op.params else ():
                own = known[name] = free_name(f"{name}.group{number}", tensors)
                made_of, constants[own] = _share(program, name, channels, (begin, end))
                tensors[own] = replace(made_of, name=own)
            if number and stage.op.scratch:
                own = known[stage.op.scratch] = free_name(f"{stage.op.scratch}.group{number}", tensors)
                tensors[own] = replace(program.tensors[stage.op.scratch], name=own)
            own = known[stage.target] = free_name(f"{stage.target}.group{number}", tensors)
            whole = program.tensors[stage.target]
            tensors[own] = replace(whole, name=own, count=whole.count // channels * (end - begin))
            made.append(_of_group(stage.op, known, end - begin, tensors[own].count))
        first, last = begin == 0, known[part[-1].target]
        params = {**straight(tensors[last].count), "offset": result.count // channels * begin, "count": result.count}
        kernel, inputs = (PLACE, (last,)) if first else (PLACE_MORE, (last, result.name))
        placed.append(
            Op(kernel.form.on_codes, part[-1].op.name, inputs, result.name, params, domain=part[-1].op.domain)
        )
    theirs = {id(stage.item) for stage in part}
    at = next(index for index, item in enumerate(program.body) if id(item) in theirs)
    rest = [item for item in program.body[at:] if id(item) not in theirs]
    body = (*program.body[:at], *made, *placed, *rest)
    used = {name for op in walk(body) for name in op.tensors}
    for name in (*(name for stage in part for name in _constants_of(stage.op)), *(s.target for s in part[:-1])):
        if name not in used:
            tensors.pop(name, None)
            constants.pop(name, None)
    return replace(program, tensors=tensors, constants=constants, body=body)


def _share(program: Program, name: str, channels: int, share: tuple[int, int]) -> tuple[Tensor, np.ndarray]:
    whole, (begin, end) = program.tensors[name], share
    codes = program.constants[name].reshape(channels, -1)[begin:end].reshape(-1)
    blocks = whole.blocks and replace(whole.blocks, axes=(end - begin, *whole.blocks.axes[1:]))
    stored = whole.stored and whole.stored.of_outputs(channels, begin, end)
    return replace(whole, count=codes.size, blocks=blocks, stored=stored), codes


def _of_group(op: Op, known: dict[str, str], channels: int, count: int) -> Op:
    params = dict(op.params)
    if "outputs" in params:
        params["outputs"] = channels
        if params["groups"] > 1:
            params["groups"] = params["channels"] = channels
    elif "channels" in params:
        params["channels"] = channels
    params |= {name: count for name in rows.COUNTS if name in params}
    inputs = tuple(known.get(name, name) for name in op.inputs)
    scratch = known.get(op.scratch, op.scratch)
    return replace(op, inputs=inputs, output=known[op.output], scratch=scratch, params=params)
