"""Embedded Deep Learning: one scale for a network against one per layer, greedy widths, sparsity, energy."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from benchmarks.papers.judge import above, all_above, difference, pooled
from benchmarks.papers.paper import Cell, Claim, Paper, Row, Rows, Verdict, table, under
from models.training.publish import correct_of, parameters_of
from tinyhil import data
from tinyhil.compiler.lower import formats, lower, tied_values
from tinyhil.harness.energy.session import EnergyRequest, run_energy
from tinyhil.harness.job.job import Opened, open_model
from tinyhil.language.assignment import MOST_OFFSET, Assignment
from tinyhil.language.graph import Graph
from tinyhil.memplan.arena.placement import place
from tinyhil.native import default_cache_dir
from tinyhil.ops.integral import integral_formats
from tinyhil.search.engine.library import load_engine
from tinyhil.search.evaluator import Evaluator, make_examples
from tinyhil.search.memory import Memory
from tinyhil.search.search_loop import search
from tinyhil.search.search_problem import SearchProblem
from tinyhil.search.space import make_space
from tinyhil.search.strategies.layerwise import Layerwise

BITS = (2, 3, 4, 5, 6, 8, 12)
FINER_ALL, FINER_EACH = 8, 2  # powers of two below the one that nothing exceeds: for all tensors, for each
WIDTHS = tuple(f"fixed{bits}" for bits in (*range(2, 9), 12))
SAMPLES_OF_ENERGY = 10
MOST_LOST = 1.0  # points, held out, that pass as "99 % of the accuracy"
UNLIMITED = 1 << 30  # bytes of the arena: the method knows no limit


ALEXNET = Path(__file__).with_name("alexnet_cifar.onnx")  # written by train.py


@dataclass(frozen=True, slots=True)
class Network:
    """`model`: of the zoo, or a file; `tested` samples of the test part of `dataset`, `searched` of its training part,
    and where that is too small of the test part behind those; `tolerances`: shares of the accuracy."""

    title: str
    model: str
    dataset: str
    tested: int
    searched: int
    tolerances: tuple[str, ...]


NETWORKS = {
    "lenet5_mnist": Network("LeNet-5, MNIST", "lenet5_mnist", "mnist", 1000, 2000, ("0.99", "0.999")),
    "alexnet_cifar": Network("AlexNet's kind, CIFAR-10", str(ALEXNET), "cifar10", 1000, 2000, ("0.99",)),
    "resnet20_cifar": Network("ResNet-20, CIFAR-10", "resnet20_cifar", "cifar10", 256, 500, ("0.99",)),
}
QUICK, QUICK_SAMPLES = ("lenet5_mnist", "alexnet_cifar"), 64


def cells() -> Iterator[Cell]:
    yield Cell("trained/alexnet_cifar", partial(_trained, "alexnet_cifar"))
    for name, network in NETWORKS.items():
        for bits in BITS:
            yield Cell(f"scaling/{name}/{bits}", partial(_scaling, name, bits, network.tested, network.searched))
        for tolerance in network.tolerances:
            yield Cell(f"widths/{name}/{tolerance}", partial(_widths, name, tolerance))


def quick() -> Iterator[Cell]:
    for name in QUICK:
        yield Cell(f"quick scaling/{name}/4", partial(_scaling, name, 4, QUICK_SAMPLES, QUICK_SAMPLES))


@cache
def _opened(name: str) -> Opened:
    return open_model(NETWORKS[name].model)


@cache
def _tested(name: str, samples: int) -> Evaluator:
    """On the first `samples` of the test part."""
    found = data.load(NETWORKS[name].dataset)
    return _evaluator(_opened(name).model.graph, found.x_test[:samples], found.y_test)


@cache
def _searched(name: str, samples: int) -> Evaluator:
    """On samples by which everything is chosen, none of those tested on."""
    network = NETWORKS[name]
    found = data.load(network.dataset)
    assert found.y_train is not None
    assert found.y_test is not None
    more = slice(network.tested, network.tested + max(0, samples - len(found.x_train)))
    x = np.concatenate([found.x_train[:samples], found.x_test[more]])
    y = np.concatenate([found.y_train[:samples], found.y_test[more]])
    return _evaluator(_opened(name).model.graph, x, y)


def _trained(name: str) -> Row:
    """All of the test part, by onnxruntime."""
    proto, found = onnx.load(_opened(name).source.path), data.load(NETWORKS[name].dataset)
    return {"correct": correct_of(proto, found), "samples": len(found.x_test), "weights": parameters_of(proto)[0]}


def _evaluator(graph: Graph, x: np.ndarray, y: np.ndarray | None) -> Evaluator:
    labels = None if y is None else y[: len(x)]
    return Evaluator(load_engine(default_cache_dir()), make_examples(graph, x, labels))


def _accuracy(evaluator: Evaluator, name: str, assignment: Assignment) -> float:
    opened = _opened(name)
    score = evaluator.score(lower(opened.model.graph, assignment, opened.required_ranges(None)))
    assert score.correct is not None
    return score.correct / score.samples


def _scaling(name: str, bits: int, tested: int, searched: int) -> Row:
    """Accuracy of `bits` everywhere: a power of two for each tensor, and one for all of them; each the best of several
    on samples not tested on, which cut off ever more of the largest values."""
    exponents = _exponents(name, f"fixed{bits}")
    largest = max(exponents.values())
    tried = {
        "per tensor": [dict.fromkeys(exponents, -finer) for finer in range(FINER_EACH + 1)],
        "uniform": [
            {value: max(-MOST_OFFSET, largest - finer - exponent) for value, exponent in exponents.items()}
            for finer in range(FINER_ALL + 1)
        ],
    }
    evaluator = _tested(name, tested)
    found: Row = {"samples": tested, "float": evaluator.examples.float_accuracy}
    for kind, offsets in tried.items():
        moved = [Assignment(f"fixed{bits}", offsets=each) for each in offsets]
        shares = [_accuracy(_searched(name, searched), name, each) for each in moved]
        finer = shares.index(max(shares))
        found[kind] = _accuracy(evaluator, name, moved[finer])
        found[f"{kind} finer"] = finer
    return found


def _exponents(name: str, fmt: str) -> dict[str, int]:
    """Of every value whose scale may be moved, as calibration fits it."""
    opened = _opened(name)
    graph, ranges = opened.model.graph, opened.required_ranges(None)
    whole = integral_formats(graph, tied_values(graph), ranges.values)
    fitted = formats(graph, Assignment(fmt), ranges)
    return {value: held.exponent for value, held in fitted.items() if value not in whole}


def _greedy(name: str, tolerance: float) -> Assignment:
    """What the method itself ends with, on samples not tested on."""
    opened = _opened(name)
    space = make_space(opened.model.graph, opened.required_ranges(None), WIDTHS)
    problem = SearchProblem(space, Memory(space, place), _searched(name, NETWORKS[name].searched), UNLIMITED)
    return space.assignment(search(Layerwise(tolerance), problem).best.candidate)


def _widths(name: str, tolerance: str) -> Row:
    """Greedy widths front to back, inputs before weights; per layer widths and zeros, energy beside 16 and 8 bits."""
    network, found = NETWORKS[name], _greedy(name, float(tolerance))
    with tempfile.TemporaryDirectory() as folder:
        path, samples = Path(folder) / "widths.json", Path(folder) / "samples.npz"
        path.write_text(json.dumps({"default": found.default, "values": dict(found.values)}))
        np.savez(samples, x=data.load(network.dataset).x_test[:SAMPLES_OF_ENERGY])
        request = EnergyRequest(network.model, inputs=samples)
        energy = {
            "widths": _energy(replace(request, assignment=path)),
            "8": _energy(replace(request, format="fixed8")),
            "16": _energy(replace(request, format="fixed16")),
        }
    layers = energy["widths"].pop("layers")
    for other in ("8", "16"):
        del energy[other]["layers"]
    evaluator = _tested(name, network.tested)
    accuracy, whole = _accuracy(evaluator, name, found), evaluator.examples.float_accuracy
    return {"samples": network.tested, "float": whole, "accuracy": accuracy, "layers": layers, "energy": energy}


def _energy(request: EnergyRequest) -> Row:
    """Picojoules of products and in all, with and without products of zeros; per layer what it multiplies."""
    found = run_energy(request, lambda line: None).energy
    layers = [
        {
            "name": each.operation.name,
            "products": each.operation.products * each.operation.executions,
            **{
                "weights" if factor.is_constant else "inputs": [factor.bits, round(factor.zeros, 3)]
                for factor in each.operation.factors
            },
        }
        for each in found.operations
        if each.operation.products and any(factor.is_constant for factor in each.operation.factors)
    ]
    products = sum(each.product_pj for each in found.operations)
    skipped = sum(each.skipped_pj for each in found.operations)
    figures = {"products": products, "products skipping": products - skipped, "all": found.total_pj}
    return {**{key: round(pj) for key, pj in figures.items()}, "layers": layers}


def body(rows: Rows) -> str:
    parts = [
        "LeNet-5 and ResNet-20 of the zoo, and a network of AlexNet's kind for 32 x 32 pixels (three convolutions with "
        "pools, two dense layers; `python -m benchmarks.papers.embedded.train`), all of "
        "float32; none is retrained. Integers of the host engine. *Per layer*: a power of two for each tensor, the "
        f"least that none of its values exceeds or up to {FINER_EACH} below; *uniform*: one for all tensors, the least "
        f"that no value exceeds or up to {FINER_ALL} below; the best of these on samples that are not tested on."
    ]
    for name, network in NETWORKS.items():
        shown = [_trained_line(row) for key, row in under(rows, "trained").items() if key == name]
        shown.append(_scaling_table({**under(rows, f"scaling/{name}"), **under(rows, f"quick scaling/{name}")}))
        shown += [_widths_table(tolerance, row) for tolerance, row in under(rows, f"widths/{name}").items()]
        if any(shown):
            parts.append(f"## {network.title}\n\n" + "\n\n".join(part for part in shown if part))
    return "\n\n".join(parts)


def _trained_line(row: Row) -> str:
    share = 100 * row["correct"] / row["samples"]
    return f"{row['weights']:,} weights; {share:.2f} % of {row['samples']:,} test pictures in float32 (onnxruntime)."


def _scaling_table(rows: Mapping[str, Row]) -> str:
    lines = [
        (bits, *(f"{100 * row[key]:.1f}" for key in ("uniform", "per tensor")))
        for bits, row in rows.items()
        if "failed" not in row
    ]
    whole = {
        f"Float: {100 * row['float']:.1f} % of {row['samples']} samples." for row in rows.values() if "float" in row
    }
    return " ".join(sorted(whole)) + "\n\n" + table(("Bits", "uniform %", "per layer %"), lines) if lines else ""


def _widths_table(tolerance: str, row: Row) -> str:
    if "failed" in row:
        return ""
    energy = row["energy"]
    ratios = [f"{energy['16'][key] / energy['widths'][key]:.1f}" for key in ("products", "products skipping", "all")]
    eight = [f"{energy['8'][key] / energy['widths'][key]:.1f}" for key in ("products", "products skipping", "all")]
    said = (
        f"Greedy widths at {tolerance} of the float accuracy: {100 * row['accuracy']:.1f} % (float "
        f"{100 * row['float']:.1f} %) on {row['samples']} samples not searched on. Energy of 16 bits over that of "
        f"these widths: products {ratios[0]}, without those of zeros {ratios[1]}, memory included {ratios[2]}; of 8 "
        f"bits: {', '.join(eight)} (`hil energy`, its default prices)."
    )
    if len(row["layers"]) > MOST_LAYERS:
        bits = [[one[key][0] for one in row["layers"] if key in one] for key in ("inputs", "weights")]
        spans = (f"{min(found)} to {max(found)}, {sum(found) / len(found):.1f} in the mean" for found in bits)
        return f"{said} Bits of its {len(row['layers'])} layers: inputs {next(spans)}; weights {next(spans)}."
    lines = [_layer(one) for one in row["layers"]]
    heads = ("Layer", "products", "input bits", "weight bits", "zero inputs %", "zero weights %")
    return f"{said}\n\n{table(heads, lines)}"


MOST_LAYERS = 8  # of which each has a row


def _layer(one: Mapping[str, Any]) -> tuple[object, ...]:
    inputs, weights = one.get("inputs", [None, 0.0]), one.get("weights", [None, 0.0])
    shares = (f"{100 * factor[1]:.0f}" for factor in (inputs, weights))
    return (f"`{one['name']}`", f"{one['products']:,}", inputs[0], weights[0], *shares)


def _layer_wise_is_better(rows: Rows) -> Verdict:
    found = {key: row for key, row in under(rows, "scaling").items() if "failed" not in row}
    if not found:
        return Verdict("not testable here", "not measured yet")
    four = {key: row for key, row in found.items() if key.endswith("/4")}
    said = "; ".join(
        f"{NETWORKS[key.split('/')[0]].title} in 4 bits {100 * row['per tensor']:.1f} and {100 * row['uniform']:.1f} %"
        for key, row in four.items()
    )
    ahead = pooled([difference(row["per tensor"], row["uniform"], row["samples"]) for row in found.values()])
    return Verdict(above(ahead), f"per layer and uniform: {said}; over all widths {ahead} points")


def _widths_save_energy(rows: Rows) -> Verdict:
    found = {key: row for key, row in under(rows, "widths").items() if key.endswith("/0.99") and "failed" not in row}
    if not found:
        return Verdict("not testable here", "not measured yet")
    ratios = {
        NETWORKS[key.split("/")[0]].title: row["energy"]["16"]["products"] / row["energy"]["widths"]["products"]
        for key, row in found.items()
    }
    lead = {
        NETWORKS[key.split("/")[0]].title: difference(row["accuracy"], row["float"], row["samples"])
        for key, row in found.items()
    }
    said = "; ".join(f"{name}: {ratio:.1f} times less, {lead[name]} points" for name, ratio in ratios.items())
    outcome = all_above(lead.values(), -MOST_LOST) if min(ratios.values()) > 2 else "refuted"
    return Verdict(outcome, f"products against 16 bits, accuracy against float (margin {MOST_LOST}): {said}")


PAPER = Paper(
    "embedded",
    "Embedded Deep Learning (Moons, Bankman, Verhelst, Springer 2019)",
    cells,
    quick,
    body,
    (
        Claim(
            "A scale for each layer needs fewer bits than one for the network",
            _layer_wise_is_better,
            about=("scaling/",),
        ),
        Claim(
            "Widths per layer at 99 % of the accuracy save several times the energy of 16 bits",
            _widths_save_energy,
            about=("widths/",),
        ),
    ),
    absent={
        "the book's AlexNet": "its weights, and ImageNet; a network of its kind is trained here on CIFAR-10",
        "networks retrained in few bits": "they are on the page about [training](../training.md)",
        "silicon (Envision, BinarEye)": "energy here is a table of prices, a model",
    },
)
