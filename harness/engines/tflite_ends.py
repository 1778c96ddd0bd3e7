"""What a .tflite file says of its two ends, for engines that compute it as it is."""

from __future__ import annotations

import struct

import tflite

from tinyhil.codegen.benchmark import codes_at
from tinyhil.errors import ModelError
from tinyhil.frontend.tflite_records import File, Tensor
from tinyhil.harness.engines.engine import Tap, Task
from tinyhil.harness.engines.port import TYPES, Port
from tinyhil.language.graph import element_count

MOST_MODEL_BYTES = 1 << 26
OUTPUTS_FIELD = 8  # of a subgraph, in its table of fields


def ends_of(content: File, task: Task) -> tuple[Port, Port, int, int]:
    """Types of input and output, and how many numbers they have. ModelError for several, or of another type."""
    if len(content.inputs) != 1 or len(content.outputs) != 1:
        raise ModelError(f"{task.model}: {len(content.inputs)} inputs and {len(content.outputs)} outputs; one of each")
    graph = task.opened.model.graph
    source, target = (content.tensors[ends[0]] for ends in (content.inputs, content.outputs))
    ports = (
        port_of(source, codes=codes_at(graph, "FromCodes") is not None),
        port_of(target, codes=codes_at(graph, "ToCodes") is not None),
    )
    return (*ports, element_count(source.shape), element_count(target.shape))


def port_of(tensor: Tensor, *, codes: bool) -> Port:
    """`codes`: the float model takes or gives the integers themselves. ModelError for a type that no end has."""
    if tensor.kind not in TYPES:
        raise ModelError(f"'{tensor.name}' is of {tensor.kind}; the ends are of {', '.join(TYPES)}")
    if tensor.scales is None or codes:
        return Port(tensor.kind)
    assert tensor.zeros is not None
    return Port(tensor.kind, float(tensor.scales[0]), int(tensor.zeros[0]))


def with_all_outputs(data: bytes, content: File) -> tuple[bytes, tuple[Tap, ...]]:
    """The file with every tensor that it computes as a further output, behind its own, and what they are."""
    numbers = [n for one in content.operations for n in one.outputs if content.tensors[n].kind in TYPES]
    numbers = [n for n in dict.fromkeys(numbers) if content.tensors[n].scales is not None or not content.states]
    graph = tflite.Model.GetRootAs(data, 0).Subgraphs(0)
    place = graph._tab.Pos + graph._tab.Offset(OUTPUTS_FIELD)
    outputs = (*content.outputs, *numbers)
    padded = data + bytes(-len(data) % 4)
    vector = struct.pack(f"<{len(outputs) + 1}i", len(outputs), *outputs)
    changed = padded[:place] + struct.pack("<I", len(padded) - place) + padded[place + 4 :] + vector
    tensors = [content.tensors[number] for number in numbers]
    return changed, tuple(Tap(one.name, port_of(one, codes=False), one.shape) for one in tensors)
