"""Sensitivities where integer runs would take minutes: each tensor's own squared error in a format, layer by layer.

A format's error is noise beside the tensor it rounds; of noise that is small and independent from layer to layer the
share of the signal's power goes on to the outputs (Lin et al., "Fixed point quantization of deep convolutional
networks", ICML 2016, section 3). So a tensor's loss is its error's share of its square times the outputs' mean square.
One float run on a few samples shows the values of all tensors; nothing else is run.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tinyhil.formats import named
from tinyhil.formats.codec import dequantize, quantize
from tinyhil.formats.format import Format, NamedFormat
from tinyhil.references.evaluate import evaluate
from tinyhil.search.evaluator import Evaluator
from tinyhil.search.space import Choice, Space

SAMPLES = 4
MOST_VALUES = 1 << 16  # of a tensor, evenly spread

Which = tuple[int, Choice]  # a group's number, and what it has


def layerwise_losses(space: Space, evaluator: Evaluator, asked: Iterable[Which]) -> dict[Which, float]:
    """Rise of the mean squared error of the outputs by each group alone in each choice, as its own error foretells."""
    outputs = float((evaluator.examples.outputs.astype(float) ** 2).mean())
    seen = _seen(space, evaluator)
    return {(at, choice): outputs * _share(seen[at], choice) for at, choice in asked}


def _seen(space: Space, evaluator: Evaluator) -> list[list[np.ndarray]]:
    """Of each group the constants and what the float model computes, each with its first axis first."""
    x = evaluator.examples.x
    constants, found = space.graph.all_constants(), dict[str, list[np.ndarray]]()

    def watch(name: str, array: np.ndarray) -> None:
        flat = array.reshape(-1)
        found.setdefault(name, []).append(flat[:: -(-flat.size // MOST_VALUES)])

    evaluate(space.graph, x[:: max(1, len(x) // SAMPLES)][:SAMPLES], watch)
    computed = {name: np.concatenate(parts)[None] for name, parts in found.items()}
    for name in space.graph.inputs:
        computed.setdefault(name, x[:SAMPLES].reshape(1, -1))
    given = {name: array.reshape(len(array) if array.ndim > 1 else 1, -1) for name, array in constants.items()}
    return [[{**computed, **given}[name] for name in group.members if name in computed or name in given]
            for group in space.groups]  # fmt: skip


def _share(parts: list[np.ndarray], choice: Choice) -> float:
    """The error of all parts in one format as a share of their sum of squares, 0 where there is nothing."""
    whole = sum(float((part.astype(float) ** 2).sum()) for part in parts)
    if not whole:
        return 0.0
    chosen = named(choice.format)
    if chosen.fit(1.0).is_per_channel:
        rows = [row for part in parts for row in part]
        return sum(_error(row, chosen.fit(_largest([row])), choice.offset) for row in rows) / whole
    fmt = _fitted(chosen, parts)
    return sum(_error(part, fmt, choice.offset) for part in parts) / whole


def _fitted(chosen: NamedFormat, parts: list[np.ndarray]) -> Format:
    if chosen.fit_values is not None:
        return chosen.fit_values(np.concatenate([part.reshape(-1) for part in parts]))
    return chosen.fit(_largest(parts))


def _largest(parts: list[np.ndarray]) -> float:
    return max(float(np.abs(part).max(initial=0.0)) for part in parts)


def _error(values: np.ndarray, fmt: Format, offset: int) -> float:
    moved = fmt.scaled(fmt.exponent + offset) if offset else fmt
    return float(((dequantize(quantize(values, moved)[0], moved) - values) ** 2).sum())
