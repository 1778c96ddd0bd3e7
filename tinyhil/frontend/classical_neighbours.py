"""KNNImputer of scikit-learn: what is missing becomes the mean of the nearest training samples that have it.

skl2onnx writes local functions of sizes that depend on what is missing. Here every column has its value computed, and
takes it where it has none of its own. With u the sample less the middle of each column, 0 where it is missing, and g
and m the same of a training sample and whether it is there, its squared distance over what both have is one product,
`sum m u^2 - 2 g u + g^2 p`, p being what the sample has; it counts divided by how many columns that are. The scale of
all u is one, that of what is filled in is each column's own.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import numpy_helper

from tinyhil.errors import ModelError
from tinyhil.frontend.classical_nodes import constant, plain_node, whole
from tinyhil.frontend.classical_places import Made, Places

DOMAIN, COLUMN = "local_domain", "knn_imputer_column"
MOST_NODES = 100_000
# Of the operators of its local functions, as skl2onnx 1.20 writes them, whatever the opset: uniform weights.
KNOWN = "73e6dc24546da779"
FLOAT = onnx.TensorProto.FLOAT


def neighbours(node: onnx.NodeProto, places: Places, functions: Sequence[onnx.FunctionProto]) -> Made | None:
    """Samples (1, columns) without what is missing, if `node` ends such a file: ModelError where it is damaged, or asks
    for another mark than NaN."""
    last = places.maker(node.input[0], COLUMN) if node.op_type == "Compress" and node.input else None
    if last is None or last.domain != DOMAIN:
        return None
    if _digest(functions) != KNOWN:
        what = "local functions other than those of skl2onnx 1.20"
        raise ModelError(f"node '{last.name}' ({DOMAIN}.{COLUMN}): {what}; convert with that version, or impute before")
    first, count = last, 0
    while (before := places.maker(first.input[1], COLUMN)) is not None and count < MOST_NODES:
        first, count = before, count + 1
    x = first.input[1]
    parts = places.behind(node.output[0], x, MOST_NODES)
    gone = {name for part in parts for name in part.output}
    read = {name for part in parts for name in part.output if any(one not in parts for one in places.readers[name])}
    if read != {node.output[0]}:
        raise ModelError(f"node '{last.name}' ({DOMAIN}.{COLUMN}): something else reads what it computes")
    found = _training(node, last, places)
    columns = {int(np.ravel(_given(last, part.input[0], places))[0]) for part in parts if part.op_type == COLUMN}
    if columns != set(range(found.samples.shape[1])):
        raise ModelError(f"node '{last.name}' ({DOMAIN}.{COLUMN}): not every column is filled; the file is damaged")
    made = _Imputer(found, x, node.output[0])
    return made.nodes(), list(made.values.values()), gone - {node.output[0]}


def _digest(functions: Iterable[onnx.FunctionProto]) -> str:
    """Of the names of the local functions and the operators of each, in any order."""
    lines = {f"{one.name}: {' '.join(sorted(_operators(one.node)))}" for one in functions if one.domain == DOMAIN}
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()[:16]


def _operators(nodes: Iterable[onnx.NodeProto]) -> Iterator[str]:
    for node in nodes:
        yield node.op_type
        for attribute in node.attribute:
            yield from _operators(attribute.g.node)


@dataclass(frozen=True, slots=True)
class _Training:
    """`samples` (rows, columns) with NaN, `used` columns (those that have any value), `count` neighbours."""

    samples: np.ndarray
    used: np.ndarray
    count: int


def _given(node: onnx.NodeProto, name: str, places: Places) -> np.ndarray:
    if name not in places.constants:
        raise ModelError(f"node '{node.name}' ({DOMAIN}.{COLUMN}): '{name}' is no constant; the file is damaged")
    return np.asarray(numpy_helper.to_array(places.constants[name]))


def _training(end: onnx.NodeProto, last: onnx.NodeProto, places: Places) -> _Training:
    where = f"node '{last.name}' ({DOMAIN}.{COLUMN})"
    masks, samples, count = (_given(last, last.input[index], places) for index in (4, 8, 9))
    used = _given(last, end.input[1], places).astype(bool)
    samples = samples.astype(np.float64)
    if samples.ndim != 2 or masks.shape != samples.shape or used.shape != samples.shape[1:] or count.size != 1:
        raise ModelError(f"{where}: training samples and masks of different sizes; the file is damaged")
    if not np.array_equal(masks.astype(bool), np.isnan(samples)):
        what = "another mark than NaN, which skl2onnx leaves out of the file: it would impute nothing"
        raise ModelError(f"{where}: its missing values have {what}; fit it with missing_values=numpy.nan")
    there = ~np.isnan(samples)
    if not used.any() or not there.any(axis=0)[used].all() or np.isinf(samples).any():
        raise ModelError(f"{where}: columns without a number, or infinite ones; the file is damaged")
    return _Training(samples, used, max(1, int(count.reshape(-1)[0])))


class _Imputer:
    """The nodes from `x` (1, columns) to `out` (1, used columns)."""

    def __init__(self, training: _Training, x: str, out: str) -> None:
        self.training, self.x, self.out = training, x, out
        self.samples = training.samples[:, training.used]
        self.there = ~np.isnan(self.samples)
        low, high = np.nanmin(self.samples, axis=0), np.nanmax(self.samples, axis=0)
        self.middle, self.half = (low + high) / 2, (high - low) / 2
        self.half[self.half == 0] = 1.0
        self.centred = np.where(self.there, self.samples - self.middle, 0.0)
        self.values: dict[str, onnx.TensorProto] = {}
        self.made: list[onnx.NodeProto] = []

    def nodes(self) -> list[onnx.NodeProto]:
        shown = self.x
        if not self.training.used.all():
            shown = self.add("Gather", [shown, self.whole("used", *np.flatnonzero(self.training.used))], "used", axis=1)
        missing = self.add("IsNaN", [shown], "missing")
        has = self.add("Cast", [self.add("Not", [missing], "there")], "has", to=FLOAT)
        ranked, known = self._ranks(shown, missing, has)
        groups: dict[bytes, list[int]] = defaultdict(list)
        for column in range(self.there.shape[1]):
            groups[self.there[:, column].tobytes()].append(column)
        means = [self._mean(f"group{index}", columns, ranked, known) for index, columns in enumerate(groups.values())]
        filled = means[0] if len(means) == 1 else self.add("Concat", means, "means", axis=1)
        order = [column for columns in groups.values() for column in columns]
        if order != sorted(order):
            filled = self.add("Gather", [filled, self.whole("order", *np.argsort(order))], "ordered", axis=1)
        scaled = self.add("Mul", [filled, self.row("half", self.half)], "scaled")
        raw = self.add("Add", [scaled, self.row("centre", self.middle)], "filled")
        self.made.append(plain_node("Where", [missing, raw, shown], self.out))
        return self.made

    def _ranks(self, shown: str, missing: str, has: str) -> tuple[str, str]:
        """What the nearest training samples have least of (1, rows), and 1 for those that share a column with the
        sample: (1, rows), or (1, 1) where all do or none."""
        scale = float(np.abs(self.centred).max()) or 1.0
        g = self.centred / scale
        middle = self.row("middle", self.middle)
        full = self.add("Where", [missing, middle, shown], "full")
        less = self.add("Sub", [full, middle], "less")
        u = self.add("Mul", [less, self.constant("scale", 1 / scale)], "u")
        terms = self.add("Concat", [self.add("Mul", [u, u], "square"), u, has], "terms", axis=1)
        weights = np.concatenate([self.there.T, -2 * g.T, (g * g).T])
        far = self.add("MatMul", [terms, self.constant("weights", weights)], "far")
        zero, one = self.constant("zero", 0.0), self.constant("one", 1.0)
        if self.there.all():
            shared = self.add("ReduceMax", [has, self.whole("axis", 1)], "shared", keepdims=1)
            return far, self.add("Greater", [shared, zero], "known")
        shared = self.add("MatMul", [has, self.constant("masks", self.there.T)], "shared")
        mean = self.add("Div", [far, self.add("Max", [shared, one], "divisor")], "mean")
        known = self.add("Greater", [shared, zero], "known")
        most = self.add("ReduceMax", [mean, self.whole("axis", 1)], "most", keepdims=1)
        return self.add("Where", [known, mean, self.add("Add", [most, one], "beyond")], "ranked"), known

    def _mean(self, name: str, columns: list[int], ranked: str, known: str) -> str:
        """What is filled into `columns`, which the same training samples have: (1, columns), each within -1..1."""
        rows = np.flatnonzero(self.there[:, columns[0]])
        table = (self.centred / self.half)[rows][:, columns]
        count = min(self.training.count, len(rows))
        if len(rows) < len(self.there):
            ranked = self.add("Gather", [ranked, self.whole(f"{name}.rows", *rows)], f"{name}.ranked", axis=1)
        nearest = f"{self.out}.{name}.nearest"
        operands, unread = [ranked, self.whole(f"{name}.count", count)], f"{self.out}.{name}.least"
        self.made.append(onnx.helper.make_node("TopK", operands, [unread, nearest], f"{nearest}.TopK", largest=0))
        chosen = self.add("Gather", [self.constant(f"{name}.table", table), nearest], f"{name}.chosen", axis=0)
        axis, mean = self.whole("axis", 1), self.row(f"{name}.mean", table.mean(axis=0))
        if self.there.all():
            near = self.add("ReduceMean", [chosen, axis], f"{name}.near", keepdims=0)
            return self.add("Where", [known, near, mean], f"{name}.filled")
        if len(rows) < len(self.there):
            known = self.add("Gather", [known, self.whole(f"{name}.rows", *rows)], f"{name}.known", axis=1)
        flags = self.add("Cast", [known], f"{name}.flags", to=FLOAT)
        weights = self.add("GatherElements", [flags, nearest], f"{name}.weights", axis=1)
        column = self.add("Unsqueeze", [weights, self.whole("last", 2)], f"{name}.column")
        weighted = self.add("Mul", [chosen, column], f"{name}.weighted")
        total = self.add("ReduceSum", [weighted, axis], f"{name}.total", keepdims=0)
        size = self.add("ReduceSum", [weights, axis], f"{name}.size", keepdims=1)
        divisor = self.add("Max", [size, self.constant("one", 1.0)], f"{name}.divisor")
        near = self.add("Div", [total, divisor], f"{name}.near")
        any_known = self.add("Greater", [size, self.constant("zero", 0.0)], f"{name}.any")
        return self.add("Where", [any_known, near, mean], f"{name}.filled")

    def add(self, op: str, inputs: list[str], name: str, **attrs: int) -> str:
        self.made.append(plain_node(op, inputs, f"{self.out}.{name}", **attrs))
        return f"{self.out}.{name}"

    def constant(self, name: str, values: np.ndarray | float) -> str:
        return self._stored(constant(f"{self.out}.{name}", values))

    def row(self, name: str, values: np.ndarray) -> str:
        return self._stored(constant(f"{self.out}.{name}", values, 1, values.size))

    def whole(self, name: str, *values: int) -> str:
        return self._stored(whole(f"{self.out}.of.{name}", *(int(value) for value in values)))

    def _stored(self, tensor: onnx.TensorProto) -> str:
        self.values[tensor.name] = tensor
        return tensor.name
