"""`hil inspect`: the operations and values of a model as it was read, or what any pass of the compiler made of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tinyhil.codegen.kernel_calls import name_of
from tinyhil.compiler.lower import Fitted
from tinyhil.compiler.record_scales import Scaled
from tinyhil.compiler_pass import watched
from tinyhil.errors import ConfigError
from tinyhil.frontend.listing import Model
from tinyhil.harness.build.pipeline import compile_model
from tinyhil.harness.job.job import NO_STREAM, Streamed, open_model
from tinyhil.harness.offline.plan import planning_ranges
from tinyhil.harness.settings.config import BoardSpec
from tinyhil.language.graph import Graph
from tinyhil.language.program import Loop, Op, Program
from tinyhil.memplan import Alias
from tinyhil.memplan.arena.passes import Candidates
from tinyhil.notice import Say
from tinyhil.passes.chains import Chain, Item
from tinyhil.passes.laid import Laid


@dataclass(frozen=True, slots=True)
class Wanted:
    """The options of `hil inspect`; `after`: a pass, None: the model as it was read."""

    model: str
    after: str | None = None
    format: str = "fixed16"
    assignment: Path | None = None
    streamed: Streamed = NO_STREAM


def described(wanted: Wanted, board: BoardSpec | None, say: Say) -> Iterator[str]:
    """Lines: operations with inputs, outputs and shapes, loop bodies indented; ConfigError for a pass of cores alone
    without one."""
    if wanted.after is None:
        yield from _graph(open_model(wanted.model, None, wanted.streamed).model.graph)
        return
    found = _made_by(wanted, board, say)
    if not found:
        raise ConfigError(f"inspect: --after {wanted.after}: that pass is for a core; name a --board of a core we know")
    for number, lines in enumerate(found, 1):
        if len(found) > 1:
            yield f"candidate {number} of {len(found)}, of which the smallest plan is taken:"
        yield from lines


def _made_by(wanted: Wanted, board: BoardSpec | None, say: Say) -> list[tuple[str, ...]]:
    """What the pass made, each as its lines: once, or for all that was planned."""
    found: list[tuple[str, ...]] = []

    def seen(name: str, made: Any) -> None:
        if name == wanted.after:
            found.extend(tuple(lines) for lines in _described(made))

    boards = [] if board is None else [board]
    with watched(seen):
        opened = open_model(wanted.model, None, wanted.streamed)
        formats = opened.assignment(wanted.assignment, wanted.format)
        compile_model(opened.model, formats, planning_ranges(opened, say), boards, ())
    return list(dict.fromkeys(found))


def _described(made: Any) -> Iterator[Iterator[str]]:
    """What passes hand to each other, whatever it is; several where the planner chooses."""
    if isinstance(made, Model | Scaled):
        yield _graph(made.graph)
    elif isinstance(made, Graph):
        yield _graph(made)
    elif isinstance(made, Fitted):
        yield (f"{name}: {fmt}" for name, fmt in made.formats.items())
    elif isinstance(made, Program):
        yield _program(made)
    elif isinstance(made, Laid):
        yield _program(made.program, made)
    elif isinstance(made, Candidates):
        yield from (_candidate(one.problem().aliases, one.program) for one in made.tries)
    else:
        yield from map(_program, made)


def _candidate(aliases: Sequence[Alias], program: Program) -> Iterator[str]:
    yield from (f"{alias.first} and {alias.second} may share bytes" for alias in aliases)
    yield from _program(program)


def _graph(graph: Graph, indent: str = "") -> Iterator[str]:
    for value in graph.inputs:
        yield f"{indent}input {value} {list(graph.shapes[value])}"
    for value, array in graph.constants.items():
        yield f"{indent}constant {value} {list(array.shape)}"
    for node in graph.nodes:
        outputs = ", ".join(f"{value} {list(graph.shapes[value])}" for value in node.outputs)
        yield f"{indent}{node.op} {node.name}: {', '.join(node.inputs)} -> {outputs}"
        if node.body is not None:
            yield from _graph(node.body, indent + "    ")


def _program(program: Program, laid: Laid | None = None) -> Iterator[str]:
    """Tensors, then operations; of a program that is laid out where each tensor lies, and chains as one."""
    offsets = {} if laid is None else laid.plan.offsets
    for name, tensor in program.tensors.items():
        parts = [f"{tensor.role} {name} {tensor.count} x {tensor.format}"]
        parts += [f"at {offsets[name]}"] if name in offsets else []
        parts += [f"channels innermost ({tensor.innermost})"] if tensor.innermost else []
        if tensor.blocks is not None:
            blocks = tensor.blocks
            parts.append(f"in blocks of {blocks.together} rows, {blocks.step} of each{', paired' * blocks.paired}")
        parts += ["hot"] if laid is not None and name in laid.hot else []
        yield ", ".join(parts)
    yield from _body(program.body if laid is None else laid.items(program.body), laid, "")


def _body(body: Sequence[Item], laid: Laid | None, indent: str) -> Iterator[str]:
    for item in body:
        if isinstance(item, Loop):
            rows = ", ".join(f"{row} of {sequence}" for sequence, row in item.slices)
            yield f"{indent}loop {item.name}, {item.count} times{': ' if rows else ''}{rows}"
            yield from _body(item.body if laid is None else laid.items(item.body), laid, indent + "    ")
        elif isinstance(item, Chain):
            yield f"{indent}chain {item.name}, {item.count} elements"
            yield from (f"{indent}    {_op(op)}" for op in item.ops)
        else:
            yield indent + _op(item)


def _op(op: Op) -> str:
    scratch = f", scratch {op.scratch}" if op.scratch else ""
    limits = "" if op.clips else ", never clipped"
    return f"{name_of(op.kernel)} {op.name}: {', '.join(op.inputs)} -> {op.output}{scratch}{limits}"
