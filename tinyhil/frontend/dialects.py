"""Files that use operators before the opset that has them -> what they mean in ONNX, before the file is checked.

Deeploy's tools write RMSNormalization as RMSNorm, leave notes of quantization as attributes of other operators, and
mean the last axis of Softmax whatever their opset says, and declare the scores' own shape for a loss that gives their
logarithms; ONNX Runtime's optimizer writes LayerNormalization into old
opsets. Such a file is read as of an opset that has all of them.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator

import numpy as np
import onnx
from onnx import helper, numpy_helper

RENAMED = {"RMSNorm": "SimplifiedLayerNormalization"}
SINCE = {"LayerNormalization": 17, "HardSwish": 14}  # opsets that have them
NOTES = {"Div": frozenset({"Delta", "eps", "eta"}), "HardSwish": frozenset({"one_over_six", "six", "three"})}
WITH_AXES = ("Squeeze", "Unsqueeze", "ReduceSum")  # whose attribute became an operand
MICROSOFT, PULP = "com.microsoft", "PACTOps"
OF_PULP = frozenset(  # whatever domain a tool writes them in; those that are not read are refused by these names
    {
        "RequantShift",
        "iGELU",
        "iHardswish",
        "iLayerNorm",
        "iNoNorm",
        "iRMSNorm",
        "iSoftmax",
        "IntegerDiv",
        "IntegerMean",
        "ITAMax",
        "ITAPartialMax",
    }
    | {"TrueIntegerDiv"}
)
# Of whole numbers in a file with such operators
WHOLE_IN_PULP = frozenset({"Add", "Sub", "Mul", "MatMul", "Gemm", "Conv"})
PAD_OPERANDS = 11
LOSS = "SoftmaxCrossEntropyLoss"
OPSET, AXES_OPERANDS = 17, 13  # from the second one on axes are operands, and Softmax means the last one


def in_onnx(proto: onnx.ModelProto) -> onnx.ModelProto:
    """`proto` as ONNX has it; itself if none of its operators is before its time, and all are in order."""
    proto = _with_log_softmax(_in_order(proto))
    opset = max((entry.version for entry in proto.opset_import if not entry.domain), default=OPSET)
    used = {node.op_type for node in proto.graph.node if not node.domain}
    is_pulp = any(node.op_type in OF_PULP or _is_old_pad(node, opset) for node in proto.graph.node)
    is_late = all(SINCE[name] <= opset for name in used & SINCE.keys())
    if (
        not used & RENAMED.keys()
        and not is_pulp
        and (is_late or (opset < AXES_OPERANDS and _has_old_softmax(proto.graph)))
    ):
        return proto
    is_whole = any(node.op_type in OF_PULP for node in proto.graph.node)
    made = onnx.ModelProto()
    made.CopyFrom(proto)
    for number, node in enumerate(made.graph.node):
        if node.op_type in OF_PULP:
            node.domain = PULP
        elif is_whole and node.op_type in WHOLE_IN_PULP and not node.domain:
            node.op_type, node.domain = f"i{node.op_type}", PULP
        elif _is_old_pad(node, opset):
            _with_operands(node, number, made.graph)
        elif not node.domain:
            _change(node, number, made.graph, is_old=opset < AXES_OPERANDS)
    others = [entry for entry in proto.opset_import if entry.domain not in ("", MICROSOFT, PULP)]
    del made.opset_import[:]
    known = [helper.make_opsetid(*pair) for pair in (("", max(opset, OPSET)), (MICROSOFT, 1), (PULP, 1))]
    made.opset_import.extend([*known, *others])
    return made


def _with_log_softmax(proto: onnx.ModelProto) -> onnx.ModelProto:
    """`proto` with LogSoftmax for a loss whose only result is declared of its scores' rank, where ONNX has one less at
    least; itself if there is none."""
    ranks = {info.name: len(info.type.tensor_type.shape.dim) for info in (*proto.graph.input, *proto.graph.output)}
    found = [
        number
        for number, node in enumerate(proto.graph.node)
        if node.op_type == LOSS
        and len(node.output) == 1
        and 0 < ranks.get(node.input[0], 0) == ranks.get(node.output[0])
    ]
    if not found:
        return proto
    result = onnx.ModelProto()
    result.CopyFrom(proto)
    for number in found:
        node = result.graph.node[number]
        node.CopyFrom(helper.make_node("LogSoftmax", node.input[:1], node.output, node.name, axis=1))
    return result


def _in_order(proto: onnx.ModelProto) -> onnx.ModelProto:
    """`proto` with nodes behind those whose results they read, of several the first; itself if they are, or in a
    circle."""
    nodes = proto.graph.node
    makers = {name: number for number, node in enumerate(nodes) for name in node.output if name}
    behind: dict[int, set[int]] = {number: set() for number in range(len(nodes))}
    waits = []
    for number, node in enumerate(nodes):
        needed = {makers[name] for name in _reads(node) if name in makers}
        waits.append(len(needed))
        for maker in needed:
            behind[maker].add(number)
    ready = [number for number, count in enumerate(waits) if not count]
    ordered: list[int] = []
    while ready:
        ordered.append(heapq.heappop(ready))
        for number in behind[ordered[-1]]:
            waits[number] -= 1
            if not waits[number]:
                heapq.heappush(ready, number)
    if len(ordered) < len(nodes) or ordered == sorted(ordered):
        return proto
    result = onnx.ModelProto()
    result.CopyFrom(proto)
    del result.graph.node[:]
    result.graph.node.extend(nodes[number] for number in ordered)
    return result


def _reads(node: onnx.NodeProto) -> Iterator[str]:
    """Names of what a node reads, in its bodies, too."""
    yield from node.input
    for attribute in node.attribute:
        for inner in attribute.g.node:
            yield from _reads(inner)
        yield from (output.name for output in attribute.g.output)


def _is_old_pad(node: onnx.NodeProto, opset: int) -> bool:
    """Whether what Pad adds is an attribute in a file of an opset in which it is an operand."""
    return node.op_type == "Pad" and not node.domain and opset >= PAD_OPERANDS and len(node.input) == 1


def _with_operands(node: onnx.NodeProto, number: int, graph: onnx.GraphProto) -> None:
    """Pad's attributes as operands."""
    given = {one.name: helper.get_attribute_value(one) for one in node.attribute}
    parts = {"pads": np.array(given.get("pads", ()), np.int64), "value": np.float32(given.get("value", 0))}
    for part, array in parts.items():
        name = f"{node.output[0]}.{part}{number}"
        graph.initializer.append(numpy_helper.from_array(np.asarray(array), name))
        node.input.append(name)
    modes = [one for one in node.attribute if one.name == "mode"]
    del node.attribute[:]
    node.attribute.extend(modes)


def _has_old_softmax(graph: onnx.GraphProto) -> bool:
    """Whether one without an axis joins all axes but the first, as old opsets have it."""
    return any(node.op_type == "Softmax" and not node.attribute for node in graph.node)


def _change(node: onnx.NodeProto, number: int, graph: onnx.GraphProto, *, is_old: bool) -> None:
    read = [one for one in node.attribute if one.name not in NOTES.get(node.op_type, ())]
    if is_old and node.op_type in WITH_AXES:
        axes = [value for one in read if one.name == "axes" for value in one.ints]
        read = [one for one in read if one.name != "axes"]
        if axes:
            name = f"{node.output[0]}.axes{number}"
            graph.initializer.append(numpy_helper.from_array(np.array(axes, np.int64), name))
            node.input.append(name)
    del node.attribute[:]
    node.attribute.extend(read)
    for one in node.attribute:
        if node.op_type == "RMSNorm" and one.name == "eps":
            one.name = "epsilon"
    if node.op_type in RENAMED:
        node.op_type, node.domain = RENAMED[node.op_type], MICROSOFT


def pulp_kind(graph: onnx.GraphProto) -> str:
    """The integers that a file of PULP takes, which it declares as floats: of 16 bits where all of its inputs are only
    requantized or windows are laid over them, since pictures are bytes without a sign; else bytes. Empty for other
    files."""
    if not any(node.domain == PULP for node in graph.node):
        return ""
    given = {info.name for info in graph.input} - {tensor.name for tensor in graph.initializer}
    readers = {node.op_type for node in graph.node if given.intersection(node.input)}
    return "int16" if readers and readers <= {"RequantShift", "iConv"} else "int8"
