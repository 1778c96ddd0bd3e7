"""A scale for each column of the input, where the model's first operations allow it: (x - offset) * scale, by the host.

Raw features may differ a thousandfold, and one scale for all of them leaves nothing of the small ones at 8 bits. So the
host maps each column to within -1..1 before it quantizes, and the model takes that into its constants: a Scaler (Sub,
Mul, Add, Div by constants) is left out, thresholds of trees and centres of distances move along, weights are divided.
Thresholds say all that matters of a column that only trees read: it is cut off beyond them and its codes are spread
between them.

Done for integer formats only, and only where columns differ: floats have a scale for every number.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np

from tinyhil.compiler.calibrate import Ranges
from tinyhil.compiler.column_readers import Distance, Layer, Tree, aliases, readers_of, scaler_of
from tinyhil.compiler.masks import with_near_masks
from tinyhil.compiler.record_scales import Scaled, with_part_scales, with_result_scales
from tinyhil.compiler_pass import Pass, Stage, fold
from tinyhil.formats import named
from tinyhil.formats.format import AFFINE, INTEGER
from tinyhil.language.assignment import Assignment
from tinyhil.language.graph import Graph, Node
from tinyhil.language.program import Columns
from tinyhil.ops.operator import attr
from tinyhil.references.verify import faults_of_graph

REACH = 0.99  # of a scaled column: 1 would need a bit more in formats whose scale is a power of two
SEEN = 0.75  # of it for what calibration saw, where more may come and counts
UNEVEN = 4.0  # the largest column over the middle one
MARGIN = 1 / 128  # around the thresholds of a column, of their distance: two codes of 8 bits
LONE = 1 / 16  # the same around a lone threshold, of what the column reaches


def scaled_columns(graph: Graph, assignment: Assignment, ranges: Ranges, without: Collection[str] = ()) -> Scaled:
    """The model over scaled columns; what was given if nothing is gained, or something else reads the input. Inputs and
    outputs that share a record get a scale each (record_scales.py), masks come near (masks.py)."""
    return fold(SCALES, Scaled(graph, assignment, ranges), without=without)


def _over_scaled_columns(given: Scaled) -> Scaled:
    graph, assignment, ranges = given.graph, given.assignment, given.ranges
    source = graph.inputs[0]
    if graph.parts or source not in ranges.columns or source in graph.pinned:
        return given
    if named(assignment.format_of([source])).fit(1.0).domain not in (INTEGER, AFFINE):
        return given
    found = _mapped(_without_scaler(given))
    if found.columns is None:
        return given
    joined = aliases(found.graph, source) - aliases(graph, source)  # they have the input's format now
    return replace(found, assignment=_without(assignment, joined))


def assumed_ranges(graph: Graph) -> Ranges:
    """Every value within -1..1, where no sample says more; what a Scaler divides by says what its columns reach."""
    ranges, found = Ranges.any_of(graph), None if graph.parts else scaler_of(graph)
    if found is None:
        return ranges
    low, high = np.sort([(end - found.addend) / found.factor for end in (-1.0, 1.0)], axis=0)
    source = graph.inputs[0]
    values = {**ranges.values, source: (float(low.min()), float(high.max()))}
    return replace(ranges, values=values, columns={source: (tuple(low.tolist()), tuple(high.tolist()))})


def _without(assignment: Assignment, names: Collection[str]) -> Assignment:
    values = {name: chosen for name, chosen in assignment.values.items() if name not in names}
    offsets = {name: offset for name, offset in assignment.offsets.items() if name not in names}
    return Assignment(assignment.default, values, offsets)


def _without_scaler(given: Scaled) -> Scaled:
    """The model from behind its Scaler on, if it begins with one whose columns differ."""
    graph, source = given.graph, given.graph.inputs[0]
    found = scaler_of(graph)
    if found is None:
        return given
    view = Node("Reshape", found.output, (source,), (found.output,), {"shape": graph.shapes[found.output]})
    gone = {name for node in found.nodes for name in node.outputs} - {found.output}
    nodes = (view, *(node for node in graph.nodes if node not in found.nodes))
    shapes = {name: shape for name, shape in graph.shapes.items() if name not in gone}
    ends = np.sort([found.factor * end + found.addend for end in np.array(given.ranges.columns[source])], axis=0)
    columns = {**given.ranges.columns, source: (tuple(ends[0].tolist()), tuple(ends[1].tolist()))}
    values = {**given.ranges.values, source: given.ranges.ends(found.output)}
    return Scaled(
        replace(graph, nodes=nodes, shapes=shapes),
        given.assignment,
        replace(given.ranges, values=values, columns=columns),
        Columns.of(-found.addend / found.factor, found.factor),
    )


def _mapped(given: Scaled) -> Scaled:
    """The model with each column of its input mapped to -REACH..REACH, if that gains anything."""
    graph, source = given.graph, given.graph.inputs[0]
    low, high = (np.array(end, np.float64) for end in given.ranges.columns[source])
    readers = readers_of(graph)
    if not readers:
        return given
    trees = [reader for reader in readers if isinstance(reader, Tree)]
    only_trees, has_distances = len(trees) == len(readers), any(isinstance(reader, Distance) for reader in readers)
    if not only_trees and not has_distances and not _is_uneven(low, high):
        return given
    bounded = np.zeros(len(low), bool)
    if only_trees:
        bounded[:] = True
        low, high = _windows(graph, trees, low, high)
    offset, half = _centres(low, high)
    half = half / (REACH if only_trees else REACH * SEEN)
    columns = Columns.of(offset, 1 / half, bounded)
    constants, nodes = dict(graph.constants), dict[str, Node]()
    values = dict(given.ranges.values)
    for reader in readers:
        if isinstance(reader, Tree):
            features = graph.constants[reader.features].astype(np.int64)
            moved = columns.applied(graph.constants[reader.thresholds], features)
            constants[reader.thresholds] = np.where(reader.asked, moved, np.float32(0))
        elif isinstance(reader, Distance):
            values |= _distances_over_columns(reader, offset, half, constants)
        else:
            nodes[reader.node.name] = _over_columns(reader, offset, half, constants)
    names = [*aliases(graph, source), *(name for tree in trees for name in tree.values)]
    values |= dict.fromkeys(names, (-REACH, REACH))
    joined = [reader.added for reader in readers if isinstance(reader, Layer) and reader.added is not None]
    gone = {reader.node.outputs[0] for reader in readers if isinstance(reader, Layer) and reader.added is not None}
    shapes = {**graph.shapes, **{name: array.shape for name, array in constants.items()}}
    shapes = {name: shape for name, shape in shapes.items() if name not in gone}
    changed = tuple(nodes.get(node.name, node) for node in graph.nodes if node not in joined)
    return Scaled(
        replace(graph, nodes=changed, constants=constants, shapes=shapes),
        given.assignment,
        replace(given.ranges, values=values),
        columns if given.columns is None else given.columns.then(columns),
    )


def _is_uneven(low: np.ndarray, high: np.ndarray) -> bool:
    reach = np.maximum(np.abs(low), np.abs(high))[high > low]
    return reach.size > 1 and float(reach.max()) > UNEVEN * float(np.median(reach))


def _centres(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Middle and half the width of each column; a column that never changes gets the width of its value."""
    middle, half = (low + high) / 2, (high - low) / 2
    usual = float(np.median(half[half > 0])) if (half > 0).any() else 1.0
    return middle, np.where(half > 0, half, np.where(middle != 0, np.abs(middle), usual))


def _windows(graph: Graph, trees: list[Tree], low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What each column must be told apart in: its thresholds and a margin. Beyond, all decisions are known."""
    ends = low.copy(), high.copy()
    features = np.concatenate([graph.constants[tree.features] for tree in trees]).astype(np.int64)
    thresholds = np.concatenate([graph.constants[tree.thresholds] for tree in trees]).astype(np.float64)
    asked = np.concatenate([tree.asked for tree in trees])
    for column in np.unique(features[asked]):
        limits = thresholds[asked & (features == column)]
        distance = float(np.ptp(limits))
        reach = float(high[column] - low[column]) or abs(float(limits[0])) or 1.0
        margin = MARGIN * distance if distance else LONE * reach
        ends[0][column], ends[1][column] = limits.min() - margin, limits.max() + margin
    return ends


def _over_columns(layer: Layer, offset: np.ndarray, half: np.ndarray, constants: dict[str, np.ndarray]) -> Node:
    """The layer for an input of mapped columns: weights times their width, the offset in its bias."""
    node = layer.node
    weights = constants[node.inputs[1]].astype(np.float64)
    first = bool(node.op == "Gemm" and attr(node, "transB", 0))  # outputs
    by_output = weights if first else weights.T
    scaled = (by_output * half).astype(np.float32)
    constants[node.inputs[1]] = scaled if first else scaled.T
    if layer.added is not None:  # one exact sum, one rounding less
        (given,) = (name for name in layer.added.inputs if name in constants)
        node = replace(node, op="Gemm", inputs=(*node.inputs, given), outputs=layer.added.outputs)
        constants[given] = constants[given].reshape(-1)
    bias = constants[node.inputs[2]].astype(np.float64) if len(node.inputs) > 2 else 0.0
    moved = (bias + by_output @ offset).astype(np.float32)
    if len(node.inputs) > 2:
        constants[node.inputs[2]] = moved
        return node
    constants[layer.bias_name] = moved
    return replace(node, op="Gemm", inputs=(*node.inputs, layer.bias_name))


def _distances_over_columns(
    reader: Distance, offset: np.ndarray, half: np.ndarray, constants: dict[str, np.ndarray]
) -> dict[str, tuple[float, float]]:
    """Centres and weights for an input of mapped columns; the ends of differences and squares, which are others now."""
    moved = (constants[reader.centres].astype(np.float64) - offset) / half
    constants[reader.centres] = moved.astype(np.float32)
    width = half**2 if reader.square else half
    constants[reader.weights] = (constants[reader.weights].astype(np.float64) * width).astype(np.float32)
    low, high = -REACH - float(moved.max()), REACH - float(moved.min())
    squares = {reader.square: (0.0, max(low**2, high**2))} if reader.square else {}
    return {reader.difference: (low, high), **squares}


GIVEN: Stage[Scaled] = Stage("graph, formats asked for, ranges", lambda scaled: faults_of_graph(scaled.graph))
SCALES: tuple[Pass[Scaled], ...] = (
    Pass(
        "masks",
        "constants that mask what a softmax reads come near",
        GIVEN,
        "masks within the range of what they are added to",
        with_near_masks,
    ),
    Pass(
        "part-scales",
        "a scale for each of several inputs",
        GIVEN,
        "powers of two, which the host multiplies by and a Slice divides by",
        with_part_scales,
    ),
    Pass(
        "columns",
        "a scale for each column of the input",
        GIVEN,
        "the host scales columns; constants of their readers, without a Scaler",
        _over_scaled_columns,
    ),
    Pass(
        "result-scales",
        "a scale for each of several outputs",
        GIVEN,
        "powers of two, which a Concat multiplies by and the host divides by",
        with_result_scales,
    ),
)
