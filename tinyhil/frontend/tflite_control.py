"""IF and WHILE of a .tflite file: their subgraphs are read where they stand.

Both branches of an IF are computed and its condition chooses, unless the condition is known now. A WHILE is written out
step by step, which needs a condition that is known before each of them: how often a loop runs then depends on no input,
and neither does the time of a sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tinyhil.errors import ModelError
from tinyhil.frontend.tflite_file import with_states
from tinyhil.frontend.tflite_reader import Reader
from tinyhil.frontend.tflite_records import File, Operation, Tensor

MOST_STEPS = 1024  # of one loop: each is written out
MOST_INLINED = 4096  # subgraphs of a file, as often as they are read
VARIABLES = {"VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE", "CALL_ONCE"}


@dataclass(frozen=True, slots=True)
class Passed:
    """A tensor between subgraphs: codes (or the values of what has none), real values, and whether these are whole
    numbers that are no codes. `codes` is empty where `tensor` is constant."""

    tensor: Tensor
    codes: str
    real: str
    is_whole: bool


def branch(reader: Reader, operation: Operation) -> None:
    """IF. ModelError for what is refused, ValueError in a damaged file."""
    condition, *given = (_passed(reader, number) for number in operation.inputs)
    indices = [int(operation.options[f"{name}SubgraphIndex"]) for name in ("Then", "Else")]
    known = _known(reader, condition)
    if known is not None:
        _store(reader, operation, _run(reader, operation, indices[0 if known else 1], given))
        return
    first, second = (_run(reader, operation, index, given) for index in indices)
    if not len(operation.outputs) == len(first) == len(second):
        raise ValueError(f"{len(first)} and {len(second)} results for {len(operation.outputs)}")
    for index, pair in enumerate(zip(first, second, strict=True)):
        _chosen(reader, operation, index, condition, pair)


def _chosen(reader: Reader, operation: Operation, index: int, condition: Passed, pair: tuple[Passed, Passed]) -> None:
    number = operation.outputs[index]
    for one in pair:
        _same(one.tensor, reader.file.tensors[number])
    if any(one.is_whole for one in pair):
        raise reader.refuse(operation, "whole numbers that a computed condition chooses")
    value = reader.add("Where", condition.real, *(one.real for one in pair), out=f"{reader.name(number)}.chosen")
    reader.finish(operation, value, index=index)


def loop(reader: Reader, operation: Operation) -> None:
    """WHILE. ModelError for what is refused, ValueError in a damaged file."""
    values = [_passed(reader, number) for number in operation.inputs]
    condition, body = (int(operation.options[f"{name}SubgraphIndex"]) for name in ("Cond", "Body"))
    for _ in range(MOST_STEPS + 1):
        (goes_on,) = _run(reader, operation, condition, values)
        known = _known(reader, goes_on)
        if known is None:
            raise reader.refuse(operation, "a condition that depends on the input, so that no number of steps is sure,")
        if not known:
            _store(reader, operation, values)
            return
        values = _run(reader, operation, body, values)
    raise reader.refuse(operation, f"a loop of more than {MOST_STEPS} steps")


def _passed(reader: Reader, number: int) -> Passed:
    """Tensor `number` of the subgraph that `reader` reads."""
    tensor = reader.file.tensors[number]
    real = reader.value(number)
    if tensor.data is not None and (number, "file") not in reader.codes:
        return Passed(tensor, "", real, False)
    return Passed(tensor, reader.result(number), real, number in reader.wholes)


def _known(reader: Reader, condition: Passed) -> bool | None:
    data = reader.builder.constants.get(condition.real)
    if condition.tensor.kind != "bool" or (data is not None and data.size != 1):
        raise ValueError(f"a condition that is {condition.tensor.kind}, not one bool")
    return None if data is None else bool(data.reshape(-1)[0])


def _same(given: Tensor, taken: Tensor) -> None:
    """ValueError unless the bytes of `given` are a tensor `taken`."""
    grids = [
        None if t.scales is None or t.zeros is None else (t.scales.tolist(), t.zeros.tolist()) for t in (given, taken)
    ]
    if (given.shape, given.kind, grids[0]) != (taken.shape, taken.kind, grids[1]):
        raise ValueError(
            f"'{given.name}' {list(given.shape)} of {given.kind} goes into '{taken.name}' {list(taken.shape)}"
        )


def _run(reader: Reader, operation: Operation, index: int, given: Sequence[Passed]) -> list[Passed]:
    """What subgraph `index` makes of `given`."""
    graphs = reader.file.graphs
    if not 0 < index < len(graphs) or len(graphs[index].inputs) != len(given):
        raise ValueError(f"subgraph {index} of {len(graphs)} for {len(given)} operands")
    reader.inlined.append(index)
    if len(reader.inlined) > MOST_INLINED:
        raise ModelError(f"subgraphs are read more than {MOST_INLINED} times; write fewer loops and branches")
    graph = _stateless(reader, operation, graphs[index])
    tensors = list(graph.tensors)
    for number, one in zip(graph.inputs, given, strict=True):
        _same(one.tensor, tensors[number])
        tensors[number] = replace(tensors[number], data=None if one.codes else one.tensor.data)
    graph = replace(graph, tensors=tuple(tensors), graphs=graphs)
    inner = Reader(graph, reader.operators, reader.of_wholes, reader.builder, reader.inlined)
    for number, one in zip(graph.inputs, given, strict=True):
        if one.codes:
            inner.take(number, one.codes)
            inner.wholes |= {number} if one.is_whole else set()
    inner.results(True)
    return [_passed(inner, number) for number in graph.outputs]


def _stateless(reader: Reader, operation: Operation, graph: File) -> File:
    if VARIABLES & {other.op for other in graph.operations} or with_states((graph,)).states:
        raise reader.refuse(operation, "a subgraph that keeps a state")
    return graph


def _store(reader: Reader, operation: Operation, values: Sequence[Passed]) -> None:
    """The results of `operation` are `values` as they are."""
    if len(values) != len(operation.outputs):
        raise ValueError(f"{len(values)} results for {len(operation.outputs)}")
    for number, one in zip(operation.outputs, values, strict=True):
        _same(one.tensor, reader.file.tensors[number])
        data = one.tensor.data
        reader.take(number, one.codes or reader.builder.constant(one.tensor.name, np.asarray(data)))
        reader.wholes |= {number} if one.is_whole else set()
