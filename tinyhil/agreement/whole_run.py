"""The whole run against the float model: how far off may an output be that only rounding has made so?

Every operation may be within its bound (float_gate.py) and the sum of it all be wrong: where one counts as explained
what no format can mean, where values saturate and are not compared, or where no bound is known. So the float model is
run with the roundings of the program and nothing else: whatever the program holds in memory is rounded into its
format, after it was moved at random by up to a unit of it and by what its kernel states (but no more than a
`LARGEST_SHARE` of the tensor: a kernel that needs more computes something else). That carries errors on as the model
does, with its sensitivities, decisions and loops, where a bound of the worst case would explain anything. An output
is off if it is further from float than `MARGIN` times the furthest of these runs. The first run rounds as the program
does, which loses whatever is always too small; the last one moves by whole units.

And formats that explain everything explain nothing: where rounding may give whatever the outputs reach, these must tell
the samples apart better than a constant would.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tinyhil.agreement.bounds import Computed, error_bound
from tinyhil.agreement.finding import Finding
from tinyhil.agreement.spread import LINEAR, Uncertain, spread
from tinyhil.agreement.stored_constants import replaced, resolution, with_stored_constants
from tinyhil.formats.codec import dequantize, quantize
from tinyhil.formats.format import CODED, SINGLE, Format
from tinyhil.language.graph import Graph, Node
from tinyhil.language.program import Op, Program, walk
from tinyhil.ops.integral import FLAGS, WHOLE
from tinyhil.references.evaluate import replay

MOST_RUNS, MOST_ELEMENTS = 8, 1_600_000
MARGIN = 4.0
LARGEST_SHARE = 2.0**-8
LOST = 0.5  # noise over signal, of outputs that mean nothing any more
FEW_DECISIONS = 0.1  # of the samples: on the edge of a choice that no run happened to make the other way
CHOOSING = FLAGS | WHOLE | {"GatherAt", "Mod", "Where"}
LEAST_SIGNAL, LEAST_NOISE = 1 / 16, 1 / 4  # of the outputs' power, for samples to differ, and for noise to matter
FLOAT32 = 2.0**-20  # of the largest output: both models add in some order


@dataclass(frozen=True, slots=True)
class Lowered:
    """A program, the graph that it was made of, and the formats of the graph's values."""

    graph: Graph
    program: Program
    formats: Mapping[str, Format]

    def runs(self, samples: int) -> int:
        """How often so many samples are run: less often where the program writes much."""
        written = samples * sum(self.program.tensors[op.output].count for op in walk(self.program.body))
        return max(2, min(MOST_RUNS, MOST_ELEMENTS // max(1, written)))


@dataclass(frozen=True, slots=True)
class WholeRun:
    """`explained`: the furthest that the samples which are off most may be from the float model by rounding alone."""

    explained: float
    findings: tuple[Finding, ...]


def whole_run(lowered: Lowered, inputs: np.ndarray, outputs: np.ndarray, wanted: np.ndarray, samples: int) -> WholeRun:
    """Judge the `outputs` (all samples, count) of the program that were to be `wanted`, the float model's.

    Of `samples` of them, those that are off most, the `inputs` are run again with roundings.
    """
    off = np.abs(outputs - wanted)
    worst = np.argsort(-off.max(axis=1), kind="stable")[:samples]
    explained = _explained_error(lowered, inputs[worst], wanted[worst])
    wrong, is_lost = off > explained, _is_lost(outputs, wanted, explained)
    few = FEW_DECISIONS * len(outputs) if any(node.op in CHOOSING for node in lowered.graph.walk()) else 0
    is_off = int(wrong.any(axis=1).sum()) > few
    if not is_off and not is_lost:
        return WholeRun(explained, ())
    program = lowered.program
    finding = Finding(
        tensor=lowered.graph.outputs[0],
        node="the whole run",  # of no node alone
        format=str(program.tensors[program.output].format),
        error=float(off.max()),
        allowed=explained,
        elements=int(wrong.sum()) or off.size,
    )
    return WholeRun(explained, (finding,))


def _explained_error(lowered: Lowered, inputs: np.ndarray, wanted: np.ndarray) -> float:
    """The furthest that an output may be from `wanted` (samples, count), the float model's, by rounding alone."""
    graph, errors = with_stored_constants(lowered.graph, lowered.program, lowered.formats)
    shares = np.linspace(0.0, 1.0, lowered.runs(len(inputs)))
    apart = bool(errors) and all(node.body is None for node in graph.walk())  # each with constants of its own
    furthest = 0.0
    for seed, part in enumerate(np.split(shares, len(shares)) if apart else [shares]):
        rounded = _Rounded(lowered.program, graph, part, np.random.default_rng(seed))
        off = np.abs(rounded.outputs(inputs, errors) - wanted)
        furthest = max(furthest, float(off[np.isfinite(off)].max(initial=0.0)))
    return MARGIN * furthest + FLOAT32 * float(np.abs(wanted).max(initial=0.0))


def _is_lost(given: np.ndarray, wanted: np.ndarray, explained: float) -> bool:
    """Whether rounding explains whatever comes, and each output's mean over the samples would be nearer to float."""
    off, distance = np.abs(given - wanted), np.abs(wanted - wanted.mean(axis=0))
    noise, signal, power = (float(np.square(a).sum()) for a in (off, distance, wanted - wanted.mean()))
    samples_differ, is_noise = signal > LEAST_SIGNAL * power, noise >= max(LOST * signal, LEAST_NOISE * power) > 0
    return samples_differ and is_noise and explained >= float(np.ptp(wanted))


class _Rounded:
    """The float model with the program's roundings, in several runs at once: `shares` of a unit move their values."""

    def __init__(self, program: Program, graph: Graph, shares: np.ndarray, random: np.random.Generator) -> None:
        self._program, self._graph, self._shares, self._random = program, graph, shares, random
        self._makers: dict[str, Op] = {op.output: op for op in walk(program.body)}

    def outputs(self, inputs: np.ndarray, errors: Mapping[str, np.ndarray]) -> np.ndarray:
        """(runs, samples, count) of `inputs` (samples, ...), with constants moved within their `errors`."""
        program, constants, runs = self._program, self._graph.all_constants(), len(self._shares)
        graph = replaced(
            self._graph,
            {
                name: constants[name] + self._random.uniform(-1.0, 1.0, error.shape) * error
                for name, error in errors.items()
            },
        )
        many = np.tile(inputs, (runs, *(1,) * (inputs.ndim - 1)))
        mapped = program.mapped(many.reshape(len(many), -1))
        given = self._written(mapped, program.tensors[program.input].format, np.zeros(()))
        with np.errstate(all="ignore"):
            results = replay(graph, given.reshape(many.shape), self.take)
        results = np.broadcast_to(results, (len(many), *results.shape[1:])).reshape(runs, len(inputs), -1)
        return results if program.output_scale is None else np.asarray(results / program.output_scale)

    def take(self, node: Node, arrays: list[np.ndarray], results: list[np.ndarray]) -> list[np.ndarray]:
        """The results of `node` as the program holds them."""
        return [self._result(name, node, arrays, result) for name, result in zip(node.outputs, results, strict=False)]

    def _result(self, name: str, node: Node, arrays: list[np.ndarray], result: np.ndarray) -> np.ndarray:
        op = self._makers.get(name)
        if op is None or result.dtype.kind != "f":
            return result
        size = np.abs(result)
        if op.domain in (SINGLE, CODED) and node.op in LINEAR:
            size = spread(node, [Uncertain.known(array) for array in arrays], [result])[0].size
        largest = max((float(np.abs(a).max(initial=0.0)) for a in arrays if a.dtype.kind == "f"), default=0.0)
        bound = error_bound(op, self._program, Computed(result, size, largest))
        most = LARGEST_SHARE * float(np.abs(result[np.isfinite(result)]).max(initial=0.0))
        bound = np.minimum(np.where(np.isnan(bound), 0.0, bound), most)
        return self._written(result, self._program.tensors[name].format, bound)

    def _written(self, value: np.ndarray, fmt: Format, bound: np.ndarray) -> np.ndarray:
        finite = np.where(np.isfinite(value), value, 0.0)
        nearest = dequantize(quantize(finite, fmt)[0], fmt)
        is_exact = nearest == finite
        is_whole = is_exact & (finite == np.rint(finite))
        reach = np.where(is_exact, 0.0, 2 * resolution(finite, nearest, fmt)) + np.where(is_whole, 0.0, bound)
        return dequantize(quantize(self._moved(finite, reach), fmt)[0], fmt)

    def _moved(self, value: np.ndarray, reach: np.ndarray) -> np.ndarray:
        """Of values (runs times samples, ...), or of what all runs have in common."""
        share = self._shares if len(value) > 1 else self._shares[-1:]
        reach = reach * np.repeat(share, len(value) // len(share)).reshape(-1, *(1,) * (value.ndim - 1))
        return value + self._random.uniform(-1.0, 1.0, value.shape) * reach
