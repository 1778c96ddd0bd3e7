"""What a trained graph is worth: the accuracy of its integer program, run by the host engine."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from tinyhil.compiler.calibrate import Ranges, calibrate
from tinyhil.compiler.lower import cut_ranges, lower
from tinyhil.formats.clipping import METHODS
from tinyhil.formats.codec import storage_dtype
from tinyhil.language.assignment import Assignment
from tinyhil.language.graph import Graph
from tinyhil.language.program import Program
from tinyhil.references.classes import classes_of
from tinyhil.references.evaluate import evaluate
from tinyhil.references.reference import dequantize_outputs, quantize_inputs
from tinyhil.search.evaluator import Executor
from tinyhil.train.flow import Flowing
from tinyhil.train.network import with_constants
from tinyhil.train.quantizers import Quantizers, is_fixed_point

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True, slots=True)
class Judge:
    """How candidates are judged: formats, samples to calibrate on, who runs the program."""

    graph: Graph
    assignment: Assignment
    calibration: np.ndarray
    executor: Executor
    calibrate_by: str = METHODS[0]

    def ranges(self, constants: Arrays) -> Ranges:
        """Of the float model with these constants, cut for the formats that they are fitted to."""
        graph = with_constants(self.graph, constants)
        origin = {"name": "training", "samples": len(self.calibration)}
        return cut_ranges(calibrate(graph, self.calibration, origin, self.calibrate_by), graph, self.assignment)

    def program(self, constants: Arrays, ranges: Ranges) -> Program:
        """The integer program with these constants, calibrated by these ranges."""
        return lower(with_constants(self.graph, constants), self.assignment, ranges)

    def correct(self, program: Program, x: np.ndarray, y: np.ndarray) -> float:
        """Share of the labels, of samples or of their steps, that the integer program decides as `y` has them."""
        codes, _ = quantize_inputs(program, x)
        run = self.executor.run(program, codes.astype(storage_dtype(program.tensors[program.input].format)))
        return self._right(dequantize_outputs(program, run.outputs), y)

    def float_correct(self, constants: Arrays, x: np.ndarray, y: np.ndarray) -> float:
        """The same of the float model."""
        outputs = evaluate(with_constants(self.graph, constants), x).reshape(len(x), -1)
        return self._right(outputs, y)

    def _right(self, outputs: np.ndarray, y: np.ndarray) -> float:
        return float((classes_of(self.graph, outputs.reshape(y.size, -1)) == y.reshape(-1)).mean())


def on_grid(weights: Arrays, quantizers: Quantizers, graph: Graph) -> Arrays:
    """The weights as the program holds them, so that the float model has them too. Those that the program derives from
    the model's (columns of the input with scales of their own) stay as they are."""
    if quantizers.program.columns is not None:
        return weights
    others = {name: Flowing(torch.as_tensor(array)) for name, array in {**graph.all_constants(), **weights}.items()}
    made = {}
    for name, array in weights.items():
        held = quantizers.constant(name, torch.as_tensor(array), others).detach().cpu().numpy().astype(np.float32)
        row = quantizers.rows.get(name)
        fmt = quantizers.constants.get(name) if row is None else row.format
        axes = None if row is None else tuple(axis for axis in range(held.ndim) if axis != row.axis)
        made[name] = _within(held, array, axes, fmt is not None and is_fixed_point(fmt))
    return made


def _within(held: np.ndarray, latent: np.ndarray, axes: tuple[int, ...] | None, is_fixed: bool) -> np.ndarray:
    """What was rounded up to a power of two that is the largest magnitude (along `axes`, where scales differ) would be
    fitted with a coarser scale: the float32 before it, which is rounded to the same code, is not. Fixed point has such
    a number at its lower end only."""
    size = np.abs(held)
    largest = size.max(axis=axes, keepdims=True)
    grown = held < 0 if is_fixed else np.abs(latent).max(axis=axes, keepdims=True) < largest
    at_end = (size == largest) & (np.frexp(largest)[0] == 0.5) & grown
    return np.where(at_end, np.nextafter(held, np.float32(0)), held)
