"""Weights of 4 bits with a scale for each block of them, as ONNX files of onnxruntime hold them (MatMulNBits)."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper, numpy_helper

BLOCK, BITS = 32, 4
SHARES = np.arange(0.7, 1.01, 0.05)  # of the scale that holds a block's largest weight: the best by squared error


def in_blocks(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Codes (outputs, blocks, BLOCK) of weights (inner, outputs), of which 8 is 0, and scales (outputs, blocks)."""
    rows = np.pad(weights.T, ((0, 0), (0, -len(weights) % BLOCK))).reshape(weights.shape[1], -1, BLOCK)
    farthest = np.take_along_axis(rows, np.abs(rows).argmax(axis=2, keepdims=True), axis=2)
    whole = np.where(farthest == 0, 1.0, farthest) / -(1 << (BITS - 1))
    best, codes, scales = np.full(whole.shape, np.inf), np.zeros(rows.shape), whole
    for share in SHARES:
        tried = np.clip(np.rint(rows / (whole * share)), -8, 7)
        error = ((tried * whole * share - rows) ** 2).sum(axis=2, keepdims=True)
        codes, scales = np.where(error < best, tried, codes), np.where(error < best, whole * share, scales)
        best = np.minimum(best, error)
    return (codes + 8).astype(np.uint8), scales[..., 0].astype(np.float32)


def with_blocks(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Each product with a constant matrix as a MatMulNBits."""
    made = onnx.ModelProto()
    made.CopyFrom(proto)
    weights = {one.name: numpy_helper.to_array(one) for one in proto.graph.initializer}
    for node in made.graph.node:
        if node.op_type != "MatMul" or node.input[1] not in weights or weights[node.input[1]].ndim != 2:
            continue
        name = node.input[1]
        codes, scales = in_blocks(weights[name])
        packed = codes[..., 0::2] | codes[..., 1::2] << BITS
        made.graph.initializer.extend(
            [numpy_helper.from_array(packed, f"{name}.codes"), numpy_helper.from_array(scales, f"{name}.scales")]
        )
        inner, outputs = weights[name].shape
        attrs = {"K": inner, "N": outputs, "bits": BITS, "block_size": BLOCK}
        node.CopyFrom(
            helper.make_node(
                "MatMulNBits",
                [node.input[0], f"{name}.codes", f"{name}.scales"],
                list(node.output),
                node.name,
                domain="com.microsoft",
                **attrs,
            )
        )
    used = {name for node in made.graph.node for name in node.input}
    left = [one for one in made.graph.initializer if one.name in used]
    del made.graph.initializer[:]
    made.graph.initializer.extend(left)
    made.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    return made
