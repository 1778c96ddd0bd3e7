"""Repeat: a loop of a fixed number of steps without sequences, what an ONNX Loop of a static trip count becomes.

Node inputs are the initial states, body inputs the states, body outputs (next states..., per-step results...), node
outputs (final states..., stacked results...). A step number that the body reads is a state like any other.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tinyhil.language.graph import Node, Shape
from tinyhil.language.lowering_context import Lowering
from tinyhil.ops.operator import Arrays, refuse
from tinyhil.ops.scan import LoopOperator, Run, lower_loop, run_loop


def _body_shapes(node: Node, shapes: Sequence[Shape]) -> list[Shape]:
    return list(shapes)


def _infer(node: Node, shapes: Sequence[Shape], body_outputs: Sequence[Shape]) -> list[Shape]:
    for initial, following in zip(shapes, body_outputs, strict=False):
        if initial != following:
            raise refuse(
                node, f"a state changes its shape from {list(initial)} to {list(following)}", "give it one shape"
            )
    states = len(shapes)
    return [*body_outputs[:states], *((node.attrs["count"], *shape) for shape in body_outputs[states:])]


def _evaluate(node: Node, arrays: Arrays, run: Run) -> list[np.ndarray]:
    return run_loop(node, arrays, run, int(node.attrs["count"]))


def _lower(node: Node, lowering: Lowering) -> None:
    lower_loop(node, lowering, int(node.attrs["count"]))


REPEAT = LoopOperator(
    "Repeat",
    "loop of a fixed number of steps: what Loop becomes",
    ("count", "num_scan_inputs"),
    _body_shapes,
    _infer,
    _evaluate,
    _lower,
)
