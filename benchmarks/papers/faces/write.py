"""The detector in ONNX, from its weights: a photo in strips of eight lines, so that what the first convolution computes
is never there as a whole; or layer after layer, as MinUn's compiler plans it. The same numbers either way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from benchmarks.papers.faces.anchors import GRIDS, NUMBERS
from models.training.graphs import IR_VERSION, OPSET, float_value
from tinyhil.frontend.rewrite import OWN_DOMAIN

CHANNELS = 4  # of the first convolution
PATCH, STRIDE, HIDDEN = 8, 4, 8  # of RNNPool, in pixels of the first convolution's result
POOLED = 4 * HIDDEN
EDGE = 8  # pixels of nothing above and left of a photo: cells lie around multiples of 8
STAGES = (
    ((POOLED, 32, 1, 2), (32, 32, 1, 2)),
    ((32, 48, 2, 3), (48, 48, 1, 2)),
    ((48, 64, 2, 3), (64, 64, 1, 2)),
)  # inputs, outputs, stride, expansion of MBConv blocks; a head after each stage
Weights = Mapping[str, np.ndarray]
LINES = 2 * STRIDE  # of a photo, for one row of patches more
CARRIED = EDGE + 1  # lines above them that these patches see, too
CELLS = tuple(f"{letter}{number}" for number in (1, 2) for letter in "WUB")


def detector(weights: Weights, height: int, width: int, in_strips: bool = True) -> onnx.ModelProto:
    """From `x` [1, height, width], height a multiple of LINES and width of STRIDE, to `heads` [1, numbers]."""
    made = _Nodes(dict(weights))
    rows, columns = GRIDS[0].cells(height, width)
    if in_strips:
        strips = made.reshaped("x", "strips", (rows, LINES, width))
        made.constants["nothing"] = np.zeros((CARRIED, width), np.float32)
        body = _strip(width, columns)
        made.add("Scan", ("nothing", strips), "pooled_rows", "last_lines", body=body, num_scan_inputs=1)
        planes = made.add("Transpose", ("pooled_rows",), "pooled_planes", perm=[1, 0, 2])
        pooled = made.reshaped(planes, "pooled", (1, POOLED, rows, columns))
    else:
        image = made.reshaped("x", "image", (1, 1, height, width))
        pooled = _pooled(made, image, "pooled", top=CARRIED)
    return made.model(_heads(made, pooled), (1, height, width), (1, _count(height, width)))


def patch_row(weights: Weights, width: int) -> onnx.ModelProto:
    """One step of the loop over strips as a model of its own: `x` [1, lines, width] to a row of RNNPool, flat."""
    made = _Nodes({name: array for name, array in weights.items() if name in CELLS or name.startswith("first_")})
    image = made.reshaped("x", "image", (1, 1, CARRIED + LINES, width))
    row = made.add("Flatten", (_pooled(made, image, "pooled_row", top=0),), "row")
    return made.model(row, (1, CARRIED + LINES, width), (1, POOLED * width // LINES))


def weights_of(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    """What `detector` was given."""
    arrays = {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}
    return {name: array for name, array in arrays.items() if array.dtype == np.float32 and name != "nothing"}


def _count(height: int, width: int) -> int:
    cells = (grid.cells(height, width) for grid in GRIDS)
    return sum(rows * columns * len(grid.widths) * NUMBERS for (rows, columns), grid in zip(cells, GRIDS, strict=True))


class _Nodes:
    """A graph in the making."""

    def __init__(self, constants: dict[str, np.ndarray] | None = None) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants = constants or {}

    def model(self, output: str, input_shape: Sequence[int], output_shape: Sequence[int]) -> onnx.ModelProto:
        """From `x` to `output`."""
        constants = [numpy_helper.from_array(array, name) for name, array in self.constants.items()]
        ends = [float_value("x", *input_shape)], [float_value(output, *output_shape)]
        graph = helper.make_graph(self.nodes, "faces", *ends, constants)
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(OWN_DOMAIN, 1)]
        made = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="tinyhil")
        onnx.checker.check_model(made)
        return made

    def add(self, op: str, inputs: Sequence[str], output: str, *before: str, domain: str = "", **attrs: Any) -> str:
        """The result `output`; `before` are results that come before it and that nobody reads."""
        made = helper.make_node(op, list(inputs), [*before, output], name=output, domain=domain, **attrs)
        self.nodes.append(made)
        return output

    def whole(self, name: str, *numbers: int) -> str:
        self.constants[name] = np.array(numbers, np.int64)
        return name

    def reshaped(self, source: str, output: str, shape: Sequence[int]) -> str:
        return self.add("Reshape", (source, self.whole(f"{output}_shape", *shape)), output)

    def convolution(self, source: str, output: str, is_linear: bool = False, **attrs: Any) -> str:
        """With the weights `output`_w and `output`_b."""
        made = self.add("Conv", (source, f"{output}_w", f"{output}_b"), output, **attrs)
        return made if is_linear else self.add("Relu", (made,), f"{output}_relu")


def _pooled(made: _Nodes, image: str, output: str, top: int) -> str:
    """The first convolution and RNNPool."""
    first = made.convolution(image, "first", strides=[2, 2], pads=[top, CARRIED, 0, 0])
    sides = {"kernel_shape": [PATCH, PATCH], "strides": [STRIDE, STRIDE]}
    return made.add("RNNPool", (first, *CELLS), output, domain=OWN_DOMAIN, **sides)


def _strip(width: int, columns: int) -> onnx.GraphProto:
    """(lines before, the next ones) to (lines before those after, a row of RNNPool)."""
    made = _Nodes()
    lines = made.add("Concat", ("before", "strip"), "lines", axis=0)
    image = made.reshaped(lines, "image", (1, 1, CARRIED + LINES, width))
    pooled = _pooled(made, image, "pooled_row", top=0)
    row = made.reshaped(pooled, "row", (POOLED, columns))
    ends = made.whole("begin", LINES), made.whole("end", CARRIED + LINES), made.whole("axis", 0)
    after = made.add("Slice", (lines, *ends), "after")
    inputs = [float_value("before", CARRIED, width), float_value("strip", LINES, width)]
    outputs = [float_value(after, CARRIED, width), float_value(row, POOLED, columns)]
    constants = [numpy_helper.from_array(array, name) for name, array in made.constants.items()]
    return helper.make_graph(made.nodes, "strip", inputs, outputs, constants)


def _heads(made: _Nodes, x: str) -> str:
    said = []
    for number, (stage, grid) in enumerate(zip(STAGES, GRIDS, strict=True)):
        for place, block in enumerate(stage):
            x = _block(made, x, f"block{number}{place}", *block)
        head = made.convolution(x, f"head{number}", is_linear=True)
        said.append(made.add("Flatten", (head,), f"head{number}_flat"))
        assert len(made.constants[f"head{number}_b"]) == len(grid.widths) * NUMBERS
    return made.add("Concat", said, "heads", axis=1)


def _block(made: _Nodes, x: str, name: str, inputs: int, outputs: int, stride: int, expansion: int) -> str:
    """MBConv."""
    wide = made.convolution(x, f"{name}_expand")
    sides: dict[str, Any] = {"strides": [stride, stride], "pads": [1, 1, 1, 1], "group": inputs * expansion}
    deep = made.convolution(wide, f"{name}_depth", **sides)
    narrow = made.convolution(deep, f"{name}_project", is_linear=True)
    return made.add("Add", (x, narrow), f"{name}_sum") if stride == 1 and inputs == outputs else narrow
