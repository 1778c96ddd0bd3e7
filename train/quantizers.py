"""The quantisers of the formats themselves, with straight-through gradients clipped to the range."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from tinyhil.agreement.spread import LINEAR
from tinyhil.agreement.stored_constants import is_by_channel, output_axis, stored_constants
from tinyhil.compiler.calibrate import Ranges
from tinyhil.compiler.columns import scaled_columns
from tinyhil.compiler.lower import formats, lower, scale_leaders
from tinyhil.formats.codec import dequantize, quantize
from tinyhil.formats.format import AFFINE, INTEGER, Format
from tinyhil.formats.single import FLOAT32
from tinyhil.fuse import fuse_graph
from tinyhil.fuse.sparse import SPARSE
from tinyhil.language.assignment import Assignment
from tinyhil.language.graph import Graph, Node
from tinyhil.language.lowering_context import loaded
from tinyhil.language.program import Program, walk
from tinyhil.ops import affine
from tinyhil.ops.channels import scaled_rows

Tensor = torch.Tensor


class _Straight(torch.autograd.Function):
    """Forward what a format makes of a value; backward the gradient where it did not saturate."""

    @staticmethod
    def forward(context: Any, x: Tensor, quantizer: Callable[[Tensor], tuple[Tensor, Tensor]]) -> Tensor:
        held, inside = quantizer(x)
        context.save_for_backward(inside)
        return held

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (inside,) = context.saved_tensors
        return gradients[0] * inside, None


def straight_through(x: Tensor, fmt: Format) -> Tensor:
    """`x` as `fmt` holds it."""
    made: Tensor = _Straight.apply(x, lambda value: in_format(value, fmt))
    return made


def is_fixed_point(fmt: Format) -> bool:
    """Whether `fmt` is a grid of powers of two from `lowest` to `highest`, of more than signs."""
    return fmt.is_binary_point and not fmt.is_sign


def in_format(x: Tensor, fmt: Format) -> tuple[Tensor, Tensor]:
    """What `fmt` holds of `x`, and where it did not saturate. What torch can do itself, it does."""
    if is_fixed_point(fmt) and fmt.domain == INTEGER:
        whole = (x * 2.0**-fmt.exponent).add_(0.5).floor_()
        clipped = whole.clamp(fmt.lowest, fmt.highest)
        inside = clipped == whole
        return clipped.mul_(2.0**fmt.exponent), inside
    if fmt == FLOAT32 and x.dtype == torch.float32:
        return x.clone(), torch.isfinite(x)
    codes, saturated = quantize(x.detach().cpu().numpy(), fmt)
    return torch.as_tensor(dequantize(codes, fmt)).to(x.dtype), torch.as_tensor(~saturated)


@dataclass(frozen=True, slots=True)
class RowWise:
    """Weights of a layer that have a scale for each output: `axis` counts these, `x` is the format of the operand."""

    node: Node
    axis: int
    format: Format
    x: Format

    def weights(self, given: Tensor, bias: np.ndarray | None) -> Tensor:
        """As the layer holds them, by the layer's own function."""

        def by_rows(value: Tensor) -> tuple[Tensor, Tensor]:
            rows = value.detach().movedim(self.axis, 0)
            held, _ = self._rows(rows.reshape(len(rows), -1).cpu().numpy(), bias)
            made = torch.as_tensor(held).to(value.dtype).reshape(rows.shape).movedim(0, self.axis)
            return made, torch.ones_like(value, dtype=torch.bool)

        made: Tensor = _Straight.apply(given, by_rows)
        return made

    def bias(self, given: Tensor, weights: np.ndarray) -> Tensor:
        """As the layer holds it: in units of the sums."""
        rows = np.moveaxis(weights, self.axis, 0)
        _, units = self._rows(rows.reshape(len(rows), -1), given.detach().cpu().numpy())
        if units is None:
            return given

        def in_units(value: Tensor) -> tuple[Tensor, Tensor]:
            unit = torch.as_tensor(units.reshape(value.shape))
            return (torch.round(value / unit) * unit).to(value.dtype), torch.ones_like(value, dtype=torch.bool)

        made: Tensor = _Straight.apply(given, in_units)
        return made

    def _rows(self, rows: np.ndarray, bias: np.ndarray | None) -> tuple[np.ndarray, np.ndarray | None]:
        """Values, and the unit of each row's sum if its bias is rounded to that."""
        start = np.zeros(len(rows)) if bias is None else bias.reshape(-1).astype(np.float64)
        if self.format.domain == AFFINE:
            made = affine.layer(self.node, "", (rows, None), start, self.x.smallest)
            return made.codes * made.scales[:, None], made.scales * self.x.smallest
        is_fixed = self.format.domain == INTEGER
        fmt = self.format if is_fixed else self.format.scaled(0)
        found = scaled_rows(rows.astype(np.float64), fmt, start, self.x)
        held = np.ldexp(fmt.scaled(0).decode(found.codes), found.exponents[:, None])
        return held, np.ldexp(1.0, found.exponents + loaded(self.x).exponent) if is_fixed else None


@dataclass(frozen=True, slots=True)
class Quantizers:
    """Of one lowering: `values` and `constants` by the format in which the program holds them, `rows` of weights with a
    scale per output. What is named nowhere is held exactly, or not at all. `leaders`: for every value the one that
    stands for all that have one scale (parts and wholes, views, states of a loop)."""

    program: Program
    values: Mapping[str, Format]
    constants: Mapping[str, Format]
    rows: Mapping[str, RowWise]
    biases: Mapping[str, RowWise]  # the rows that each bias joins
    ranges: Ranges
    leaders: Mapping[str, str]

    def value(self, name: str, x: Tensor) -> Tensor:
        """Value `name` as the program holds it, if it does."""
        return straight_through(x, self.values[name]) if name in self.values else x

    def constant(self, name: str, value: Tensor, others: Mapping[str, Any]) -> Tensor:
        """Constant `name` as the program holds it; `others`: all constants, of which a layer's bias may count."""
        if name in self.rows:
            row = self.rows[name]
            return row.weights(value, others[row.node.inputs[2]].numpy() if len(row.node.inputs) > 2 else None)
        if name in self.biases:
            row = self.biases[name]
            return row.bias(value, others[row.node.inputs[1]].numpy())
        return straight_through(value, self.constants[name]) if name in self.constants else value


def quantizers(graph: Graph, assignment: Assignment, ranges: Ranges) -> Quantizers:
    """Of `graph` lowered with these formats."""
    program = lower(graph, assignment, ranges, {SPARSE.name})
    scaled = scaled_columns(graph, assignment, ranges)
    chosen = formats(scaled.graph, scaled.assignment, scaled.ranges)
    fused = fuse_graph(scaled.graph, chosen, {SPARSE.name})
    rows = _rows(fused, program, chosen)
    biases = {name: row for row in rows.values() for name in row.node.inputs[2:3]}
    stored = stored_constants(program, chosen)
    held = {name: program.tensors[tensors[0]].format for name, tensors in stored.items() if name in chosen}
    written = {op.output: program.tensors[op.output].format for op in walk(program.body)}
    return Quantizers(
        program,
        {name: fmt for name, fmt in written.items() if name in chosen},
        {name: fmt for name, fmt in held.items() if name not in rows and name not in biases},
        rows,
        biases,
        scaled.ranges,
        scale_leaders(scaled.graph, scaled.assignment, scaled.ranges, chosen),
    )


def _rows(graph: Graph, program: Program, chosen: Mapping[str, Format]) -> dict[str, RowWise]:
    """Weights that the program holds by rows."""
    layers = {op.name for op in walk(program.body) if is_by_channel(op)}
    shapes = graph.all_shapes()
    found = {}
    for node in graph.walk():
        if node.op in LINEAR and node.name in layers:
            x, weights = node.inputs[:2]
            axis = output_axis(len(shapes[weights]), node)
            found[weights] = RowWise(node, axis, chosen[weights], chosen[x])
    return found
