"""GaussianNB of features that never vary within a class, where log-likelihoods of -1e9 leave nothing of the others.

A class c has the log-likelihood k_c - sum_j (x_j - mean_cj)^2 / (2 var_cj). scikit-learn puts 1e-9 of the largest
variance in place of none, so one step of such a feature costs 1e7. Only differences of classes count. So what all
classes have in common is left out; cells (c, j) far narrower than their feature are summed apart, and what a class
loses by them counts relative to the class that loses least and up to FAR, where its probability is 0 in single
precision anyway; so does the whole, up to GONE. Any other file stays as it is.
"""

from __future__ import annotations

import numpy as np
import onnx

from tinyhil.frontend.classical_nodes import constant, plain_node, whole
from tinyhil.frontend.classical_places import Made, Places

NARROW = 2.0**14  # variance of a feature over that within a class
FAR, GONE = 2.0**13, 64.0  # in log-likelihood: exp(-64) is 1.6e-28
# What the probabilities are computed by, the last node first: each computes an operand of the one before.
CHAIN = ("Exp", "Sub", "Add", "Sub", "Mul", "ReduceSum", "Div", "Pow", "Sub", "Reshape")


def bayes(node: onnx.NodeProto, places: Places) -> Made | None:
    """Probabilities (1, classes) of the input (1, features), if `node` ends such a file."""
    chain = _chain(node, places)
    if chain is None:
        return None
    probabilities, scores, prior, normal, _, _, weighted, _, difference, shaped = chain
    names = (prior.input[0], normal.input[0], weighted.input[1], difference.input[1])
    constants = [places.numbers(name) for name in names]
    if any(values is None for values in constants) or not _is_plain(chain, places):
        return None
    priors, logs, variances, means = (values for values in constants if values is not None)
    classes = priors.size
    if logs.size != classes or variances.size != means.size or variances.size % classes or not (variances > 0).all():
        return None
    variances, means = variances.reshape(classes, -1), means.reshape(classes, -1)
    common = (np.ptp(variances, axis=0) == 0) & (np.ptp(means, axis=0) == 0)
    narrow = ~common & (_spread(np.exp(priors), variances, means) > NARROW * variances)
    if not narrow.any():
        return None
    stem, total = probabilities.output[0], scores.input[0]
    gains = {"wide": np.where(common | narrow, 0, variances**-0.5), "narrow": np.where(narrow, variances**-0.5, 0)}
    values = [
        *(constant(f"{stem}.{part}.means", means, 1, *means.shape) for part in gains),
        *(constant(f"{stem}.{part}.gains", gain, 1, *gain.shape) for part, gain in gains.items()),
        constant(f"{stem}.least", 2 * (priors + logs + _common_part(variances, common)), 1, classes),
        *(constant(f"{stem}.{name}", value) for name, value in (("far", 2 * FAR), ("gone", 2 * GONE), ("half", -0.5))),
        *(whole(f"{stem}.axis.{axis}", axis) for axis in (1, 2)),
    ]
    gone = {part.output[0] for part in chain[1:-1]} | {scores.input[1], places.makers[scores.input[1]].input[0]}
    return _nodes(shaped.output[0], stem, total), values, gone


def _chain(node: onnx.NodeProto, places: Places) -> list[onnx.NodeProto] | None:
    """The nodes of CHAIN, `node` first; None if there is another."""
    found = [node] if node.op_type == CHAIN[0] else []
    for op in CHAIN[1:] if found else ():
        makers = (places.maker(name, op) for name in found[-1].input)
        maker = next((one for one in makers if one is not None), None)
        if maker is None:
            return None
        found.append(maker)
    return found or None


def _is_plain(chain: list[onnx.NodeProto], places: Places) -> bool:
    """Whether operands stand where they do in scikit-learn's files, and nothing else reads what is left out."""
    _, scores, prior, _, half, total, _, power, _, _ = chain
    numbers = places.numbers(half.input[1]), places.numbers(power.input[1])
    axes = places.numbers(total.input[1]) if len(total.input) == 2 else None
    if [None if one is None else one.tolist() for one in (*numbers, axes)] != [[0.5], [2.0], [2.0]]:
        return False
    reshaped = places.maker(scores.input[1], "Reshape")
    log_sum = places.maker(reshaped.input[0], "ReduceLogSumExp") if reshaped is not None else None
    if log_sum is None or log_sum.input[0] != prior.output[0] or scores.input[0] != prior.output[0]:
        return False
    if any(len(places.readers[part.output[0]]) != 1 for part in (scores, *chain[3:-1], log_sum)):
        return False
    readers = sorted(reader.op_type for reader in places.readers[prior.output[0]])
    return set(readers) <= {"ArgMax", "ReduceLogSumExp", "Sub"} and readers.count("Sub") == 1


def _spread(shares: np.ndarray, variances: np.ndarray, means: np.ndarray) -> np.ndarray:
    """Variance of each feature over all classes."""
    shares = shares[:, None] / shares.sum()
    middle = (shares * means).sum(axis=0)
    return np.asarray((shares * (variances + (means - middle) ** 2)).sum(axis=0))


def _common_part(variances: np.ndarray, common: np.ndarray) -> float:
    """What the features left out add to every class: taken out again, so that the rest is near to 0."""
    return float(0.5 * np.log(2 * np.pi * variances[0, common]).sum())


def _relative(source: str, limit: str, out: str, axis: str) -> list[onnx.NodeProto]:
    """`out` = what `source` exceeds its smallest element by, at most `limit`."""
    return [
        plain_node("ReduceMin", [source, axis], f"{out}.least", keepdims=1),
        plain_node("Sub", [source, f"{out}.least"], f"{out}.more"),
        plain_node("Min", [f"{out}.more", limit], out),
    ]


def _nodes(x: str, stem: str, total: str) -> list[onnx.NodeProto]:
    """From the input (1, 1, features) to the probabilities; `total` are the scores, relative to the best."""

    def name(part: str) -> str:
        return f"{stem}.{part}"

    nodes = []
    for part in ("wide", "narrow"):
        difference, deviation, square = (name(f"{part}.{one}") for one in ("difference", "deviation", "square"))
        nodes += [
            plain_node("Sub", [x, name(f"{part}.means")], difference),
            plain_node("Mul", [difference, name(f"{part}.gains")], deviation),
            plain_node("Mul", [deviation, deviation], square),
            plain_node("ReduceSum", [square, name("axis.2")], name(f"{part}.sum"), keepdims=0),
        ]
    nodes += _relative(name("narrow.sum"), name("far"), name("lost"), name("axis.1"))
    nodes.append(plain_node("Add", [name("wide.sum"), name("lost")], name("sum")))
    nodes.append(plain_node("Sub", [name("sum"), name("least")], name("distance")))
    nodes += _relative(name("distance"), name("gone"), name("behind"), name("axis.1"))
    nodes.append(plain_node("Mul", [name("behind"), name("half")], total))
    return [*nodes, plain_node("Softmax", [total], stem, axis=1)]
