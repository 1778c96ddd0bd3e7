"""Tree ensembles of ai.onnx.ml as loops: one loop over the trees, one along the path of a tree.

All nodes of all trees stand in tables of one row each: feature, threshold, children and weights; leaves are their own
children, so that every path has the length of the longest. Only the path is walked: tables stay in flash, RAM holds a
node number and the scores.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

MAX_NODES = 1 << 15  # a node number has 16 bits
MAX_RESULTS = 1 << 10
TESTS = {"BRANCH_LEQ": "LessOrEqual", "BRANCH_LT": "Less"}  # scikit-learn and LightGBM, XGBoost

# Numbers of modes of TreeEnsemble -> the test, and whether it holds where that one fails
JOINED_TESTS = {0: "LessOrEqual", 1: "Less", 2: "Less", 3: "LessOrEqual"}
TURNED = {0: False, 1: False, 2: True, 3: True}


@dataclass(frozen=True, slots=True)
class Forest:
    """Tables with one row per node; `children` has two, where the condition `test` holds and where not."""

    feature: np.ndarray
    threshold: np.ndarray
    children: np.ndarray
    weights: np.ndarray
    roots: np.ndarray
    depth: int
    test: str = "LessOrEqual"


def read_forest(attrs: dict[str, Any], kind: str, results: int) -> Forest:
    """The trees in the attributes of a TreeEnsembleClassifier or -Regressor; `kind` is class or target.

    ValueError if they are not trees of `<=` or of `<` conditions; KeyError if an attribute is missing.
    """
    keys = list(zip(attrs["nodes_treeids"], attrs["nodes_nodeids"], strict=True))
    row = {key: index for index, key in enumerate(keys)}
    modes = [mode.decode() if isinstance(mode, bytes) else str(mode) for mode in attrs["nodes_modes"]]
    conditions = set(modes) - {"LEAF"} or {"BRANCH_LEQ"}
    if len(row) != len(keys) or len(modes) != len(keys) or len(conditions) > 1 or conditions - set(TESTS):
        raise ValueError(f"conditions {', '.join(sorted(conditions))}; all <= or all < is supported")
    if not 0 < results <= MAX_RESULTS:
        raise ValueError(f"{results} results, the limit is {MAX_RESULTS}")
    if len(keys) > MAX_NODES:
        raise ValueError(f"{len(keys)} nodes, the limit is {MAX_NODES}")
    trees = np.array(attrs["nodes_treeids"])
    children = np.zeros((len(keys), 2), np.int64)
    for index, mode in enumerate(modes):
        ways = (attrs["nodes_truenodeids"][index], attrs["nodes_falsenodeids"][index])
        children[index] = index if mode == "LEAF" else [row[trees[index], way] for way in ways]
    weights = np.zeros((len(keys), results), np.float64)
    places = (attrs[f"{kind}_{part}"] for part in ("treeids", "nodeids", "ids", "weights"))
    for tree, node, result, weight in zip(*places, strict=True):
        weights[row[tree, node], result] += weight
    inner = np.setdiff1d(children[children[:, 0] != np.arange(len(keys))], [])
    roots = np.setdiff1d(np.arange(len(keys)), inner)
    if len(roots) != len(set(attrs["nodes_treeids"])):
        raise ValueError(f"{len(roots)} roots of {len(set(attrs['nodes_treeids']))} trees")
    arrays = np.array(attrs["nodes_featureids"], np.int64), np.array(attrs["nodes_values"], np.float32)
    test = TESTS[next(iter(conditions))]
    return Forest(*arrays, children, weights.astype(np.float32), roots, _depth(children, roots), test)


def read_joined(attrs: dict[str, Any]) -> Forest:
    """The trees in the attributes of a TreeEnsemble (of ai.onnx.ml 5): leaves stand in tables of their own here, and
    become rows behind those of the nodes.

    ValueError as `read_forest`; KeyError if an attribute is missing.
    """
    modes, leaves = (np.asarray(attrs[name]).reshape(-1) for name in ("nodes_modes", "leaf_weights"))
    known = {int(mode) for mode in modes}
    tests = {JOINED_TESTS[mode] for mode in known if mode in JOINED_TESTS}
    if len(tests) != 1 or not known <= JOINED_TESTS.keys():
        raise ValueError(f"modes {sorted(known)}; <= and > (0, 3), or < and >= (1, 2), are supported")
    count, results = len(modes), int(attrs["n_targets"])
    rows = count + len(leaves)
    if not 0 < results <= MAX_RESULTS or rows > MAX_NODES:
        raise ValueError(f"{rows} nodes, {results} results; the limits are {MAX_NODES} and {MAX_RESULTS}")
    ways = [np.asarray(attrs[f"nodes_{way}nodeids"]) for way in ("true", "false")]
    is_leaf = [np.asarray(attrs[f"nodes_{way}leafs"]) for way in ("true", "false")]
    children = np.repeat(np.arange(rows)[:, None], 2, axis=1)
    children[:count] = np.stack([way + count * (leaf != 0) for way, leaf in zip(ways, is_leaf, strict=True)], axis=1)
    turned = np.isin(modes, [mode for mode, is_turned in TURNED.items() if is_turned])
    children[:count][turned] = children[:count][turned][:, ::-1]
    weights = np.zeros((rows, results), np.float32)
    weights[np.arange(count, rows), np.asarray(attrs["leaf_targetids"])] = leaves
    feature, threshold = np.zeros(rows, np.int64), np.zeros(rows, np.float32)
    feature[:count], threshold[:count] = np.asarray(attrs["nodes_featureids"]), np.asarray(attrs["nodes_splits"])
    roots = np.asarray(attrs["tree_roots"], np.int64)
    return Forest(feature, threshold, children, weights, roots, _depth(children, roots), tests.pop())


def _depth(children: np.ndarray, roots: np.ndarray) -> int:
    """Steps from a root to the deepest leaf; ValueError if there is no end, or nodes that no path reaches."""
    reached, seen, depth = np.unique(roots), np.unique(roots), 0
    while True:
        below = np.unique(children[reached])
        seen = np.union1d(seen, below)
        if np.array_equal(below, reached):
            break
        reached, depth = below, depth + 1
        if depth > len(children):
            raise ValueError("a path that never ends")
    if len(seen) != len(children) or (children[reached] != reached[:, None]).any():
        raise ValueError("nodes that no path reaches")
    return max(depth, 1)


def walk_forest(forest: Forest, source: str, out: str, base: np.ndarray) -> tuple[list[Any], list[Any]]:
    """Nodes and weights that compute `out` (1, results): `base` plus the weights of the leaves reached."""
    tables = {
        "feature": forest.feature,
        "threshold": forest.threshold,
        "holds": forest.children[:, 0],
        "fails": forest.children[:, 1],
        "weights": forest.weights,
        "roots": forest.roots,
        "base": base.astype(np.float32).reshape(1, -1),
        "flat": np.array([-1]),
        "depth": np.array(forest.depth),
        "always": np.array(True),
    }
    weights = [numpy_helper.from_array(array, f"{out}.{name}") for name, array in tables.items()]
    step = [
        _node("Gather", out, "feature node", "place"),
        _node("Gather", out, "x place", "value"),
        _node("Gather", out, "threshold node", "limit"),
        _node(forest.test, out, "value limit", "below"),
        _node("Gather", out, "holds node", "left"),
        _node("Gather", out, "fails node", "right"),
        _node("Where", out, "below left right", "next"),
        _node("Identity", out, "before", "after"),
    ]
    whole, truth = TensorProto.INT64, TensorProto.BOOL
    path = helper.make_graph(
        step,
        "path",
        [_info(out, "step", whole), _info(out, "before", truth), _info(out, "node", whole)],
        [_info(out, "after", truth), _info(out, "next", whole)],
    )
    loop = _node("Loop", out, "depth always root", "leaf", body=path)
    tree = [loop, _node("Gather", out, "weights leaf", "row"), _node("Add", out, "score row", "score_next")]
    score = helper.make_tensor_value_info(f"{out}.score", TensorProto.FLOAT, base.reshape(1, -1).shape)
    following = helper.make_tensor_value_info(f"{out}.score_next", TensorProto.FLOAT, base.reshape(1, -1).shape)
    body = helper.make_graph(tree, "tree", [score, _info(out, "root", whole)], [following])
    flat = helper.make_node("Reshape", [source, f"{out}.flat"], [f"{out}.x"], name=f"{out}.x")
    scan = helper.make_node(
        "Scan", [f"{out}.base", f"{out}.roots"], [out], name=f"{out}.trees", num_scan_inputs=1, body=body
    )
    return [flat, scan], weights


def of_rows(forest: Forest, source: str, out: str) -> tuple[onnx.NodeProto, list[Any]]:
    """A node and weights that compute `out` (samples, results) of `source` (samples, features), a sample at a time."""
    results = forest.weights.shape[1]
    row, score, flat = f"{out}.sample", f"{out}.sum", f"{out}.sums"
    nodes, weights = walk_forest(forest, row, score, np.zeros(results))
    nodes.append(helper.make_node("Reshape", [score, f"{score}.flat"], [flat], name=flat))
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in (row, flat)]
    body = helper.make_graph(nodes, "sample", infos[:1], infos[1:])
    return helper.make_node("Scan", [source], [out], name=f"{out}.samples", num_scan_inputs=1, body=body), weights


def _node(op: str, out: str, inputs: str, output: str, **attrs: Any) -> onnx.NodeProto:
    names = [f"{out}.{name}" for name in inputs.split()]
    return helper.make_node(op, names, [f"{out}.{output}"], name=f"{out}.{output}", **attrs)


def _info(out: str, name: str, kind: int) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(f"{out}.{name}", kind, ())
