"""Opsets: models of old ones are brought up by onnx's own converter, models newer than onnx itself are refused."""

from __future__ import annotations

import onnx
from onnx import version_converter

from tinyhil.errors import ModelError

OLDEST_OPSET = 13
STANDARD_DOMAINS = ("", "ai.onnx")
PREVIEW = "ai.onnx.preview"  # of operators that ONNX tries: those that it defines by others are read


def standard_opset(proto: onnx.ModelProto) -> int:
    """Version of the standard operators; 0 if the model imports none."""
    return max((entry.version for entry in proto.opset_import if entry.domain in STANDARD_DOMAINS), default=0)


def brought_up(proto: onnx.ModelProto) -> tuple[onnx.ModelProto, tuple[str, ...]]:
    """A model of `OLDEST_OPSET` or newer that means the same, and what to tell the user.

    ModelError if that can not be done.
    """
    opset, newest = standard_opset(proto), onnx.defs.onnx_opset_version()
    if opset > newest:
        raise ModelError(
            f"opset {opset} is newer than {newest}, the newest onnx here knows; "
            "upgrade onnx or export for an older opset"
        )
    if opset >= OLDEST_OPSET:
        return proto, ()
    foreign = sorted({node.op_type for node in proto.graph.node if node.domain in STANDARD_DOMAINS})
    if opset == 0:
        if foreign:
            raise ModelError(f"uses {foreign[0]} but imports no opset of the standard operators; export again")
        return proto, ()  # a tree of XGBoost or LightGBM alone: ai.onnx.ml
    try:
        converted = version_converter.convert_version(proto, OLDEST_OPSET)
    except Exception as error:  # a wide family: operators without an adapter, shapes that can not be inferred
        reason = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise ModelError(
            f"opset {opset} can not be brought up to {OLDEST_OPSET} by onnx's version converter ({reason[:160]}); "
            f"export for opset {OLDEST_OPSET} or newer"
        ) from None
    if not foreign or {"Cast", "Identity"}.issuperset(foreign):
        return converted, ()  # nothing that changed its meaning
    return converted, (f"opset {opset} is brought up to {OLDEST_OPSET} by onnx's version converter",)
