"""Which of an ONNX file's outputs the model is for, and what its classes are called.

scikit-learn's converter gives a classifier two outputs: labels, and scores that ZipMap names one by one. The scores are
the output here, ZipMap's names and string labels become class names. Where the label is the smallest of the scores
(k-means), it is the output instead.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import onnx
from onnx import TensorProto, helper, numpy_helper

from tinyhil.errors import ModelError

ML_DOMAIN = "ai.onnx.ml"
LABEL_TYPES = {TensorProto.INT64, TensorProto.INT32, TensorProto.STRING}
VIEWS = {"Cast", "Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"}
SEQUENCE = "SequenceConstruct"  # MultiOutputClassifier's scores of each output
CLASSES = "tinyhil.classes"  # the key, in a file's metadata, of their names where no node has them
NAMES = ("classlabels_strings", "classlabels_ints", "classlabels_int64s")


@dataclass(frozen=True, slots=True)
class Outputs:
    """`graph` with the outputs that are computed; `classes` are names in the order of the scores, empty if unknown."""

    graph: onnx.GraphProto
    classes: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def classes_written(proto: onnx.ModelProto) -> tuple[str, ...]:
    """Names of classes that we have written beside a model; ModelError if they are damaged."""
    text = next((each.value for each in proto.metadata_props if each.key == CLASSES), "[]")
    try:
        names = json.loads(text)
    except (ValueError, RecursionError):
        names = None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ModelError(f"metadata '{CLASSES}' is no list of names; take it out")
    return tuple(names)


def main_outputs(proto: onnx.GraphProto) -> Outputs:
    """The graph without labels beside scores, ZipMap and sequences; whatever leads to nothing else is dropped, too."""
    classes = _class_names(proto)
    reduced, renamed = _without_zip_map(proto)
    labels = [info for info in reduced.output if info.type.tensor_type.elem_type in LABEL_TYPES]
    others = [info for info in reduced.output if info not in labels]
    notes: tuple[str, ...] = ()
    if labels and len(others) == 1:
        left_out = ", ".join(f"'{info.name}'" for info in labels)
        notes = (f"output {left_out} is left out: the class is the largest element of '{others[0].name}'",)
        if len(labels) == 1 and _is_smallest(reduced, labels[0].name):
            notes = (f"output '{others[0].name}' is left out: '{labels[0].name}' is where it is smallest",)
            others = labels
        del reduced.output[:]
        reduced.output.extend(others)
    elif not renamed:
        return Outputs(proto, classes)
    return Outputs(_needed_part(reduced), classes, notes)


def _without_zip_map(proto: onnx.GraphProto) -> tuple[onnx.GraphProto, bool]:
    """A copy in which outputs that ZipMap makes are the scores it names, and a sequence's are one output each."""
    reduced = onnx.GraphProto()
    reduced.CopyFrom(proto)
    maps = {
        node.output[0]: list(node.input)
        for node in reduced.node
        if node.output and (_is_ml(node, "ZipMap") or (not node.domain and node.op_type == SEQUENCE))
    }
    outputs: list[onnx.ValueInfoProto] = []
    for info in reduced.output:
        parts = maps.get(info.name)
        floats = (helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in parts or ())
        outputs += [info] if parts is None else floats
    found = any(info.name in maps for info in reduced.output)
    del reduced.output[:]
    reduced.output.extend(outputs)
    return reduced, found


def _is_ml(node: onnx.NodeProto, op: str) -> bool:
    return node.domain == ML_DOMAIN and node.op_type == op


def _class_names(proto: onnx.GraphProto) -> tuple[str, ...]:
    """ZipMap's, else those of the only classifier, else those that an index chooses from; none if they just count."""
    found: list[Sequence[Any]] = []
    for node in sorted(proto.node, key=lambda node: node.op_type != "ZipMap"):
        if node.domain == ML_DOMAIN and (node.op_type == "ZipMap" or node.op_type.endswith("Classifier")):
            attrs = {attribute.name: attribute for attribute in node.attribute if attribute.name in NAMES}
            found += [helper.get_attribute_value(attribute) for attribute in attrs.values()]
            if found and node.op_type == "ZipMap":
                break
    found = found[:1] if len({str(names) for names in found}) == 1 else []
    if not found:
        found = _chosen_labels(proto)
    if not found or list(found[0]) == list(range(len(found[0]))):
        return ()
    names = tuple(name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name) for name in found[0])
    if len(set(names)) != len(names):
        raise ModelError(f"class names repeat: {', '.join(names)[:80]}; export again")
    return names


def _chosen_labels(proto: onnx.GraphProto) -> list[Sequence[Any]]:
    """What the label output is taken from by an index: constant labels, one per class."""
    weights = {tensor.name: tensor for tensor in proto.initializer}
    chosen = [node for node in proto.node if _is_ml(node, "ArrayFeatureExtractor") and node.input[0] in weights]
    makers = {name: node for node in proto.node for name in node.output}
    for info in proto.output:
        node = origin(makers, info.name)
        if node is not None and node in chosen and info.type.tensor_type.elem_type in LABEL_TYPES:
            try:
                return [numpy_helper.to_array(weights[node.input[0]]).reshape(-1).tolist()]
            except Exception as error:  # a damaged tensor
                raise ModelError(f"labels '{node.input[0]}' can not be read ({str(error)[:120]})") from None
    return []


def origin(makers: dict[str, onnx.NodeProto], name: str) -> onnx.NodeProto | None:
    """The node that computes `name`, views and casts left aside."""
    for _ in range(len(makers) + 1):
        node = makers.get(name)
        if node is None or node.domain not in ("", "ai.onnx") or node.op_type not in VIEWS:
            return node
        name = node.input[0]
    return None


def _is_smallest(proto: onnx.GraphProto, name: str) -> bool:
    node = origin({output: node for node in proto.node for output in node.output}, name)
    return node is not None and node.domain in ("", "ai.onnx") and node.op_type == "ArgMin"


def _needed_part(proto: onnx.GraphProto) -> onnx.GraphProto:
    """The graph without nodes and weights that lead to no output."""
    nodes = _needed(proto.node, {info.name for info in proto.output})
    read = {name for node in nodes for name in _reads(node)} | {info.name for info in proto.output}
    weights = [tensor for tensor in proto.initializer if tensor.name in read]
    del proto.node[:]
    proto.node.extend(nodes)
    del proto.initializer[:]
    proto.initializer.extend(weights)
    return proto


def _needed(nodes: Iterable[onnx.NodeProto], wanted: set[str]) -> list[onnx.NodeProto]:
    """The nodes that lead to the `wanted` values."""
    reduced = []
    for item in reversed(list(nodes)):
        if wanted.intersection(item.output):
            reduced.append(item)
            wanted.update(_reads(item))
    return reduced[::-1]


def _reads(item: onnx.NodeProto) -> set[str]:
    """Every value the node reads; its bodies read values from outside by their names."""
    names = set(item.input)
    for attribute in item.attribute:
        for body in (attribute.g, *attribute.graphs):
            names.update(info.name for info in body.output)
            for inner in body.node:
                names |= _reads(inner)
    return names
