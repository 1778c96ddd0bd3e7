"""Models with several inputs, several outputs, or states that are an input and an output: one record in, one out.

The inputs of a sample follow each other in one record, flat, in the file's order, the outputs likewise. States are held
on the board: what the model computes for one step is the body of a loop over a stream of such records, which begins
with states of 0 and gives the outputs of its last step.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from onnx import TensorProto

from tinyhil.errors import ModelError
from tinyhil.formats.format import Format
from tinyhil.frontend.builder import Builder
from tinyhil.frontend.listing import Call, Ends
from tinyhil.frontend.rewrite_quantized import KINDS
from tinyhil.language.graph import Part, Shape, element_count
from tinyhil.ops.quantize import codes_format
from tinyhil.ops.whole import format_of

REAL, WHOLE, LONG = "real", "whole", "int32"
INPUTS, OUTPUTS = "inputs", "outputs"
# Words of a name that say which end of a state it is, and words that say that it is one
ENDS = frozenset(
    "in out input output new next prev previous past present old init initial last final updated n 0".split()  # noqa: SIM905
)
HELD = frozenset(
    "h c hx cx hn cn hidden cell state states cache memory mem carry past context ring buffer".split()  # noqa: SIM905
)


@dataclass(frozen=True, slots=True)
class Port:
    """An input of the file. `kind`: REAL, WHOLE (read as whole numbers), a kind of codes such as int8 or LONG, or the
    name of its format, if it is `pinned` to one."""

    name: str
    shape: Shape
    kind: str = REAL
    start: int | np.ndarray = 0  # what a state begins with: the zero point of codes, or an array of its shape
    pinned: Format | None = None


@dataclass(frozen=True, slots=True)
class Stream:
    """What the user says of states: `states` are pairs (input, output), None to find them by their names; `steps` is
    how many records a sample has, None if nobody knows. `then`: the file of a model that takes what this one gives,
    `hop`: how many numbers of a window of this one are new; 0: all (tflite_pair.py). `rounding`: one of ROUNDINGS, the
    runtime whose integers a .tflite file is to give; empty: as docs/numerics.md says. `every`: the output is that of
    every step, one after the other, instead of the last."""

    states: tuple[tuple[str, str], ...] | None = None
    steps: int | None = None
    then: Path | None = None
    hop: int = 0
    rounding: str = ""
    every: bool = False


ROUNDINGS = ("tflm", "litert", "cmsis-nn")
ANY_STREAM = Stream()


Fill = Callable[[Mapping[str, str]], Sequence[str]]  # input of the file -> name in the builder; names of its outputs
Start = Callable[[], tuple[Builder, Fill]]  # a new builder, and what adds the model to it


def connect(start: Start, inputs: Sequence[Port], outputs: Sequence[str], stream: Stream) -> tuple[Builder, Ends]:
    """Build the model between one input and one output. `outputs` are the file's names of them.

    ModelError for inputs that can not be one record.
    """
    states = state_pairs([port.name for port in inputs], outputs, stream.states)
    held = {name for name, _ in states}
    given = [port for port in inputs if port.name not in held]
    if not given or not outputs:
        beside = " beside its states" if states else ""
        raise ModelError(f"{len(given)} inputs{beside} and {len(outputs)} outputs; one of each at least is needed")
    kinds = {port.kind for port in given}
    if len(kinds) > 1 and kinds != {REAL, WHOLE}:
        listed = ", ".join(f"'{port.name}' ({port.kind})" for port in given)
        raise ModelError(f"inputs of several kinds: {listed}; they share one record: make them one kind")
    if states:
        return _streamed(start, inputs, outputs, stream, states)
    builder, fill = start()
    record, parts = _record(given)
    source = builder.value(record, parts[0].shape if len(parts) == 1 else (_size(parts),))
    _declare(builder, source, _stated(given))
    output, results = _packed(builder, outputs, fill(_unpacked(builder, source, parts, given)))
    return builder, Ends(source, output, parts if len(parts) > 1 else (), results)


def state_pairs(
    inputs: Sequence[str], outputs: Sequence[str], wanted: tuple[tuple[str, str], ...] | None
) -> tuple[tuple[str, str], ...]:
    """(input, output) of every state: those `wanted`, else those whose names say so; ModelError if there is no such."""
    if wanted is None:
        return _by_name(inputs, outputs)
    for what, known, at in (("input", inputs, 0), ("output", outputs, 1)):
        named = [pair[at] for pair in wanted]
        strange = next((name for name in named if name not in known), None)
        if strange is not None:
            raise ModelError(f"--state: the model has no {what} '{strange}'; it has {', '.join(known)}")
        if len(set(named)) != len(named):
            raise ModelError(f"--state: an {what} is named twice: {', '.join(named)}")
    return wanted


def _by_name(inputs: Sequence[str], outputs: Sequence[str]) -> tuple[tuple[str, str], ...]:
    found = []
    for name in inputs if len(inputs) > 1 else ():
        words = _words(name)
        same = [out for out in outputs if _core(_words(out)) == _core(words) or out == f"{name.rstrip('0_')}n"]
        namesakes = [other for other in inputs if _core(_words(other)) == _core(words)]
        if len(same) == 1 and len(namesakes) == 1 and HELD & {*words, *_words(same[0])}:
            found.append((name, same[0]))
    return tuple(found) if len({out for _, out in found}) == len(found) else ()


def _words(name: str) -> tuple[str, ...]:
    """`serving_default_stateN:0` -> serving, default, state, n, 0"""
    return tuple(word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+|\d+", name))


def _core(words: Sequence[str]) -> tuple[str, ...]:
    """The words without those that tell one end from the other; all of them if nothing else is left."""
    return tuple(word for word in words if word not in ENDS) or tuple(words)


def _record(given: Sequence[Port]) -> tuple[str, tuple[Part, ...]]:
    """The record's name and what lies in it."""
    parts, at = [], 0
    is_mixed = len({port.kind for port in given}) > 1
    for port in given:
        parts.append(Part(port.name, at, port.shape, is_mixed and port.kind == WHOLE))
        at += element_count(port.shape)
    return (given[0].name if len(given) == 1 else INPUTS), tuple(parts)


def _size(parts: Sequence[Part]) -> int:
    return sum(part.count for part in parts)


def _stated(given: Sequence[Port]) -> Port:
    """The one that says of what format their record is."""
    return next((port for port in given if port.pinned is not None), given[0])


def _declare(builder: Builder, name: str, port: Port) -> None:
    if port.pinned is not None:
        builder.pinned[name] = port.pinned
    elif port.kind in KINDS:
        builder.pinned[name] = codes_format(*KINDS[port.kind])
    elif port.kind == LONG:
        builder.pinned[name] = format_of(LONG)


def _unpacked(builder: Builder, record: str, parts: Sequence[Part], given: Sequence[Port]) -> dict[str, str]:
    """Input of the file -> its value, cut from the record."""
    values = {}
    for part, port in zip(parts, given, strict=True):
        value = record if len(parts) == 1 else _cut(builder, record, part)
        if part.is_whole:  # lengths, say: the format that all of the record has may hold them nearly
            value = _nearest(builder, value)
        if port.kind == WHOLE:  # tokens, say: floats that are read by this cast alone
            cast = Call("Cast", f"{value}.whole", (value,), (f"{value}.whole",), {"to": TensorProto.INT64})
            (value,) = builder.add(cast)
        values[port.name] = value
    return values


def _nearest(builder: Builder, value: str) -> str:
    """floor(value + 1/2)"""
    half = builder.constant(f"{value}.half", np.array(0.5, np.float32))
    (raised,) = builder.add(Call("Add", f"{value}.raise", (value, half), (f"{value}.raised",)))
    return builder.add(Call("Floor", f"{value}.floor", (raised,), (f"{value}.nearest",)))[0]


def _cut(builder: Builder, record: str, part: Part) -> str:
    ends = [builder.constant(f"{part.name}.{what}", np.array([at], np.int64)) for what, at in part.ends]
    flat = f"{part.name}.flat" if part.shape != (part.count,) else part.name
    (value,) = builder.add(Call("Slice", f"{part.name}.cut", (record, *ends), (flat,)))
    return _shaped(builder, value, part.shape, part.name)


def _shaped(builder: Builder, value: str, shape: Shape, name: str) -> str:
    if builder.shapes[value] == shape:
        return value
    wanted = builder.constant(f"{name}.shape", np.array(shape, np.int64))
    return builder.add(Call("Reshape", f"{name}.shaped", (value, wanted), (name,)))[0]


def _packed(
    builder: Builder, names: Sequence[str], values: Sequence[str], record: str = OUTPUTS
) -> tuple[str, tuple[Part, ...]]:
    """One output for several, and what lies in it; an only one as it is."""
    if len(values) == 1:
        return values[0], ()
    parts, at, flat = [], 0, []
    for name, value in zip(names, values, strict=True):
        shape = builder.shapes[value]
        parts.append(Part(name, at, shape))
        at += parts[-1].count
        flat.append(_shaped(builder, value, (parts[-1].count,), f"{value}.flat"))
    (output,) = builder.add(Call("Concat", record, tuple(flat), (record,), {"axis": 0}))
    return output, tuple(parts)


def _streamed(
    start: Start,
    inputs: Sequence[Port],
    outputs: Sequence[str],
    stream: Stream,
    states: Sequence[tuple[str, str]],
) -> tuple[Builder, Ends]:
    """The model as the body of a loop over a stream; the output is one more state, which nothing reads, or what all
    steps give."""
    pairs = ", ".join(f"{name}={out}" for name, out in states)
    if stream.steps is None:
        raise ModelError(f"it has states ({pairs}); say how many steps a sample has: --steps, or --inputs that show it")
    if stream.steps < 1:
        raise ModelError(f"--steps {stream.steps}: a sample has one step or more")
    step = _Step(inputs, tuple(outputs), tuple(states))
    builder, fill = start()
    source = builder.value(step.record, (stream.steps, *step.row))
    _declare(builder, source, _stated(step.given))
    starts = [builder.constant(f"{port.name}.start", np.full(port.shape, port.start, np.float32)) for port in step.held]
    if not stream.every:
        starts.append(builder.constant(f"{OUTPUTS}.start", np.zeros(step.result_shape(start), np.float32)))
    made: list[tuple[Part, ...]] = []

    def body(names: tuple[str, ...]) -> tuple[str, ...]:
        results, parts = step.results(builder, fill, names)
        made.append(parts)
        return results

    before = [] if stream.every else [f"{OUTPUTS}.before"]
    wishes = [*(port.name for port in step.held), *before, f"{step.record}.row"]
    lasts = (*(f"{port.name}.last" for port in step.held), step.shown[0] if len(step.shown) == 1 else OUTPUTS)
    *_, output = builder.loop(Call("Scan", "stream", (*starts, source), lasts, {"num_scan_inputs": 1}), wishes, body)
    shown = "every step" if stream.every else "the last step"
    note = f"a stream of {stream.steps} steps with states {pairs}; the output is that of {shown}"
    return builder, Ends(source, output, step.parts if len(step.parts) > 1 else (), made[0], (note,), stream=True)


class _Step:
    """One step of a stream: `held` and `given` are the inputs that are states and those that are not, `shown` the
    outputs that are no states (if all are, the first)."""

    def __init__(self, inputs: Sequence[Port], outputs: tuple[str, ...], states: tuple[tuple[str, str], ...]) -> None:
        ports = {port.name: port for port in inputs}
        self.outputs, self.states = outputs, states
        self.held = [ports[name] for name, _ in states]
        self.given = [port for port in inputs if port not in self.held]
        next_states = {out for _, out in states}
        self.shown = [name for name in outputs if name not in next_states] or [states[0][1]]
        self.record, self.parts = _record(self.given)
        self.row = self.parts[0].shape if len(self.parts) == 1 else (_size(self.parts),)

    def results(self, builder: Builder, fill: Fill, names: Sequence[str]) -> tuple[tuple[str, ...], tuple[Part, ...]]:
        """What the states become and what is shown; `names`: the states, in the end the row."""
        for port, name in zip(self.held, names, strict=False):
            _declare(builder, name, port)
        _declare(builder, names[-1], _stated(self.given))
        values = _unpacked(builder, names[-1], self.parts, self.given)
        values.update(zip((port.name for port in self.held), names, strict=False))
        made = dict(zip(self.outputs, fill(values), strict=True))
        output, parts = _packed(builder, self.shown, [made[name] for name in self.shown], f"{OUTPUTS}.now")
        return (*(made[out] for _, out in self.states), output), parts

    def result_shape(self, start: Start) -> Shape:
        """The shape of what is shown, from a step that is built for nothing else."""
        builder, fill = start()
        names = [builder.value(port.name, port.shape) for port in self.held]
        results, _ = self.results(builder, fill, [*names, builder.value(self.record, self.row)])
        return builder.shapes[results[-1]]
