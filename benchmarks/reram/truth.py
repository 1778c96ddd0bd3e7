"""Every configuration of LeNet-5: 7 widths for the weights and inputs of its three inner layers, 117,649 in all.

Layers are evaluated along a tree: what configurations have in common in front is computed once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import torch

from benchmarks.reram.cases import WIDTHS, Loaded
from benchmarks.reram.fast import FastExecutor, execute
from tinyhil.language.program import Op, Program, walk
from tinyhil.references.reference import quantize_inputs
from tinyhil.search.evaluator import Evaluator, Score
from tinyhil.search.space import Choice, Space

GROUPS = ("conv2_w", "pool1", "fc1_w", "pool2", "fc2_w", "relu3")
COUNT = len(WIDTHS) ** len(GROUPS)
Table = Mapping[str, np.ndarray]  # "correct", "disagreements", "loss": by the number of the configuration


def number_of(widths: tuple[int, ...]) -> int:
    """Of a configuration, widths as places in WIDTHS in the order of GROUPS."""
    return int(np.ravel_multi_index(widths, (len(WIDTHS),) * len(GROUPS)))


@dataclass(frozen=True, slots=True)
class Tabled(Evaluator):
    """Looks a program up instead of running it."""

    table: Table | None = None

    def score(self, program: Program, stop_above: int | None = None) -> Score:
        assert self.table is not None
        at = number_of(tuple(program.tensors[name].format.bits - 2 for name in GROUPS))
        wrong, correct = int(self.table["disagreements"][at]), int(self.table["correct"][at])
        return Score(len(self.examples), wrong, correct, 0, float(self.table["loss"][at]))


def tabled(loaded: Loaded, table: Table) -> Tabled:
    return Tabled(FastExecutor(), loaded.searched, table=table)


def load_table(loaded: Loaded, folder: Path, key: str) -> Table:
    """The table as it was written before, else made: a minute or two of processor time."""
    path = folder / f"lenet5-{key}.npz"
    if not path.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        made = make_table(loaded)
        np.savez_compressed(folder / "partial.npz", **made)  # type: ignore[arg-type]
        (folder / "partial.npz").replace(path)
    with np.load(path) as found:
        return {name: found[name] for name in found.files}


def make_table(loaded: Loaded) -> Table:
    table = {"correct": np.zeros(COUNT, np.uint16), "disagreements": np.zeros(COUNT, np.uint16)}
    table["loss"] = np.zeros(COUNT, np.float32)
    examples = loaded.searched
    assert examples.labels is not None
    for first, logits in _leaves(loaded):  # of the configurations that differ in the width of fc2_w alone
        classes = logits.argmax(axis=2)
        for number, real in enumerate(logits):
            at = number_of((*first[:4], number, first[4]))
            table["correct"][at] = (classes[number] == examples.labels).sum()
            table["disagreements"][at] = (classes[number] != examples.classes).sum()
            table["loss"][at] = ((real - examples.outputs) ** 2).mean()
    return table


def _leaves(loaded: Loaded) -> Iterator[tuple[tuple[int, ...], np.ndarray]]:
    """Widths of all groups but fc2_w, with outputs by the widths of that one (widths, samples, classes)."""
    space = loaded.space

    @cache
    def lowered(*widths: tuple[str, int]) -> Program:
        return space.lower(_candidate(space, dict(widths)))

    def run(name: str, value: torch.Tensor, **widths: int) -> torch.Tensor:
        program = lowered(*sorted(widths.items()))
        op = _op(program, name)
        return execute(program, op, {**dict.fromkeys(op.inputs, value)})

    options = range(len(WIDTHS))
    start = lowered()
    integers, _ = quantize_inputs(start, loaded.searched.x)
    relu1 = run("conv1", torch.from_numpy(integers.astype(np.float32)))
    step = 2.0 ** start.tensors[start.output].format.exponent
    for a2, w2 in product(options, options):
        relu2 = run("conv2", run("pool1", relu1, pool1=a2), pool1=a2, conv2_w=w2)
        for a3 in options:
            pool2 = run("pool2", relu2, pool2=a3)
            for w3, a4 in product(options, options):
                relu3 = run("fc1", pool2, pool2=a3, fc1_w=w3, relu3=a4)
                relu4 = [run("fc2", relu3, relu3=a4, fc2_w=w4) for w4 in options]
                logits = run("fc3", torch.cat(relu4))
                yield (w2, a2, w3, a3, a4), logits.view(len(WIDTHS), len(integers), -1).numpy() * step


def _candidate(space: Space, widths: Mapping[str, int]) -> tuple[Choice, ...]:
    return tuple(Choice(WIDTHS[widths.get(group.name, len(WIDTHS) - 1)]) for group in space.groups)


def _op(program: Program, name: str) -> Op:
    return next(op for op in walk(program.body) if op.name == name)
