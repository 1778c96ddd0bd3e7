"""Which inputs of an ONNX file may hold NaN for what is missing: those that it asks for, as imputers do.

Formats of integers have no NaN, so such an input is float32 whatever the format of the rest.
"""

from __future__ import annotations

import onnx

MOVES = frozenset(
    {"Add", "Cast", "Concat", "Flatten", "Gather", "Identity", "Reshape", "Slice", "Split", "Squeeze"}
    | {"Div", "Mul", "Sub", "Transpose", "Unsqueeze"}
)


def asked_for_nan(graph: onnx.GraphProto) -> set[str]:
    """Names of values of `graph` whose elements IsNaN looks at, itself or behind moves and scalers."""
    found = {node.input[0] for node in graph.node if node.op_type == "IsNaN" and node.input}
    for node in reversed(graph.node):
        if node.op_type in MOVES and not found.isdisjoint(node.output):
            found |= set(node.input)
    return found
