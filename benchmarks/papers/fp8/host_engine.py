"""The same networks in integers: programs as boards get them, run by the host engine."""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.papers.fp8.fake_quantize import FORMATS, Scheme, operands
from tinyhil.compiler.calibrate import Ranges
from tinyhil.compiler.lower import formats, lower
from tinyhil.formats.codec import dequantize
from tinyhil.language.assignment import Assignment
from tinyhil.language.graph import Graph
from tinyhil.language.program import Program, walk
from tinyhil.native import default_cache_dir
from tinyhil.references.reference import dequantize_outputs, quantize_inputs
from tinyhil.search.engine.library import Engine, load_engine

BETWEEN = "float32"  # what layers' results are held in until a layer reads them
BIAS = "fixed32"  # exact beside FP8's products


def operands_only(graph: Graph, scheme: Scheme, ranges: Ranges) -> Program:
    """Layers' operands in FP8, with scales that are powers of two; what lies between in float32."""
    read, fmt = operands(graph), FORMATS[scheme.format]
    values = dict.fromkeys(read.values, fmt)
    values |= dict.fromkeys(read.weights, f"{fmt}pc" if scheme.by_channel else fmt)
    biases = [node.inputs[2] for node in graph.nodes if len(node.inputs) == 3 and node.inputs[1] in read.weights]
    values |= dict.fromkeys(biases, BIAS)
    fitted = formats(graph, Assignment(BETWEEN, values), ranges)
    offsets = {name: -fitted[name].exponent for name in (*read.values, *read.weights)} if scheme.rule == "1.0" else {}
    return lower(graph, Assignment(BETWEEN, values, offsets), ranges)


def everywhere(graph: Graph, fmt: str, ranges: Ranges) -> Program:
    """Every value in `fmt`; what no layer reads any more, the decoding of boxes, say, in float32."""
    return lower(graph, Assignment(fmt, dict.fromkeys(_behind_layers(graph), BETWEEN)), ranges)


def _behind_layers(graph: Graph) -> Collection[str]:
    """Values from which no layer can be reached, but for results of layers themselves."""
    read = operands(graph)
    needed = set(read.values)
    behind: list[str] = []
    for node in reversed(graph.nodes):
        if needed.intersection(node.outputs) or set(node.inputs) & set(read.weights):
            needed.update(node.inputs)
        else:
            behind += [*node.outputs, *(name for name in node.inputs if name in graph.constants)]
    return behind


def with_stored_biases(graph: Graph, program: Program) -> Graph:
    """`graph` with the biases that `program`, of `operands_only` by tensor, adds: cut to the lowest bit of its sums."""
    read, found = operands(graph), {}
    ops = {op.name: op for op in walk(program.body)}
    for node in graph.nodes:
        if len(node.inputs) == 3 and node.inputs[1] in read.weights:
            op = ops[node.name]
            unit = op.low + sum(program.tensors[name].format.exponent for name in op.inputs[:2])
            held = program.tensors[op.inputs[2]]
            bias = dequantize(program.constants[held.name], held.format).reshape(graph.constants[node.inputs[2]].shape)
            found[node.inputs[2]] = np.ldexp(np.floor(np.ldexp(bias, -unit)), unit)
    return replace(graph, constants={**graph.constants, **found})


@dataclass(frozen=True, slots=True)
class Ran:
    """Outputs (samples, elements), saturations, and processor seconds of the engine."""

    outputs: np.ndarray
    saturations: int
    processor_s: float


def engine() -> Engine:
    return load_engine(default_cache_dir())


def run(program: Program, x: np.ndarray) -> Ran:
    codes, _ = quantize_inputs(program, x)
    on = engine()
    begin = time.process_time()
    found = on.run(program, codes)
    spent = time.process_time() - begin
    return Ran(dequantize_outputs(program, found.outputs), int(found.saturations.sum()), round(spent, 1))
