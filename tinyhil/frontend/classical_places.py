"""Where the values of an ONNX graph come from and go: what rewrites of several nodes at once look at."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import numpy_helper

Made = tuple[list[onnx.NodeProto], list[onnx.TensorProto], set[str]]  # nodes, constants, values that go
NOTHING: Made = ([], [], set())


@dataclass(frozen=True, slots=True)
class Places:
    """Who makes each value of a graph, who reads it, and what constants are."""

    makers: Mapping[str, onnx.NodeProto]
    readers: Mapping[str, Sequence[onnx.NodeProto]]
    constants: Mapping[str, onnx.TensorProto]

    def maker(self, name: str, *ops: str) -> onnx.NodeProto | None:
        """The node that makes `name`, if it is one of `ops`."""
        found = self.makers.get(name)
        return found if found is not None and found.op_type in ops else None

    def behind(self, name: str, end: str, most: int) -> list[onnx.NodeProto]:
        """The nodes that `name` is computed by, from `end` and constants on; some of them, if they are more than
        `most`."""
        found: dict[str, onnx.NodeProto] = {}
        waiting = [name]
        while waiting and len(found) <= most:
            one = waiting.pop()
            if one != end and one not in self.constants and one not in found and one in self.makers:
                found[one] = self.makers[one]
                waiting += found[one].input
        return list(found.values())

    def numbers(self, name: str) -> np.ndarray | None:
        """The constant `name`, flat; None if it is none, or damaged."""
        try:
            return numpy_helper.to_array(self.constants[name]).reshape(-1).astype(np.float64)
        except Exception:  # whatever a damaged tensor makes of it: who reads it says so
            return None


def places_of(graph: onnx.GraphProto) -> Places:
    """Of the nodes of `graph`, bodies left out."""
    readers = defaultdict(list)
    for node in graph.node:
        for name in node.input:
            readers[name].append(node)
    for info in graph.output:
        readers[info.name].append(onnx.NodeProto())
    return Places(
        {name: node for node in graph.node for name in node.output},
        readers,
        {tensor.name: tensor for tensor in graph.initializer},
    )
