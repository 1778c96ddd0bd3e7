"""Operators that ONNX itself defines by others (its functions): the nodes that one of them stands for.

Attention, CastLike, losses and windows are of this kind. What their nodes are may depend on the types of the operands.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx

from tinyhil.errors import ModelError
from tinyhil.frontend.builder import Builder
from tinyhil.frontend.listing import Call
from tinyhil.frontend.onnx_versions import OLDEST_OPSET, PREVIEW, STANDARD_DOMAINS

KINDS = {"f": onnx.TensorProto.FLOAT, "b": onnx.TensorProto.BOOL}  # of constants; others are whole numbers


def is_function(op: str, opset: int) -> bool:
    """Whether ONNX defines `op` (with its domain in front, where that is not ONNX's main one) by other operators."""
    domain, _, name = op.rpartition(".")
    schema = _schema(name, opset, domain)
    return schema is not None and (schema.has_function or schema.has_context_dependent_function)


def function_of(item: onnx.NodeProto, call: Call, builder: Builder) -> onnx.FunctionProto | None:
    """The nodes that `item` stands for, with its attributes in them, named after `call`; None if it is no function.

    ModelError where ONNX has no nodes for its operands.
    """
    schema = _schema(item.op_type, builder.opset, item.domain)
    if schema is None or not (schema.has_function or schema.has_context_dependent_function):
        return None
    made = onnx.FunctionProto()
    if schema.has_context_dependent_function:
        version = _newest(schema.context_dependent_function_opset_versions, builder.opset)
        types = [_type(name, builder).SerializeToString() if name else b"" for name in call.inputs]
        body = schema.get_context_dependent_function_with_opset_version(version, item.SerializeToString(), types)
        made.ParseFromString(body)
    else:
        version = _newest(schema.function_opset_versions, builder.opset)
        made.ParseFromString(schema.get_function_with_opset_version(version))
    if len(made.output) < len(call.outputs):  # onnx gives no nodes for what does not fit
        where = f"node '{call.name}' ({call.op})"
        raise ModelError(f"{where}: ONNX has no nodes for these operands and attributes; the file is damaged")
    defaults = {name: one.default_value for name, one in schema.attributes.items() if one.default_value.name}
    given = {**defaults, **{one.name: one for one in item.attribute}}
    _fill(made.node, given, _results(made, call.outputs))
    for index, node in enumerate(made.node):
        node.name = f"{call.name}.{node.op_type}_{index}"
    del made.output[len(call.outputs) :]
    return made


def _schema(op: str, opset: int, domain: str) -> Any:
    """The operator's schema, of which onnx's types say only a part; None if there is none."""
    try:
        if domain == PREVIEW:  # its versions are not ONNX's
            return onnx.defs.get_schema(op, domain)
        return onnx.defs.get_schema(op, opset) if domain in STANDARD_DOMAINS else None
    except onnx.defs.SchemaError:
        return None


def _newest(versions: Sequence[int], opset: int) -> int:
    """Of the bodies of a function the newest that the model's opset knows, else the oldest."""
    known = [version for version in versions if version <= max(opset, OLDEST_OPSET)]
    return max(known) if known else min(versions)


def _type(name: str, builder: Builder) -> onnx.TypeProto:
    """Type and shape of a value of the builder; all floats are those of 32 bits here."""
    value: np.ndarray | None = builder.constants.get(name)
    if name in builder.kinds:
        kind = builder.kinds[name]
    elif value is not None:
        kind = KINDS.get(value.dtype.kind, onnx.TensorProto.INT64)
    elif name in builder.flags:
        kind = onnx.TensorProto.BOOL
    else:
        kind = onnx.TensorProto.INT64 if name in builder.whole else onnx.TensorProto.FLOAT
    return onnx.helper.make_tensor_type_proto(kind, builder.shapes[name])


def _results(made: onnx.FunctionProto, wanted: Sequence[str]) -> dict[str, str]:
    """The function's results to the names that the file has for them, where nothing in it is called so."""
    used = {name for node in made.node for name in (*node.input, *node.output)} | {*made.input}
    pairs = zip(made.output, wanted, strict=False)
    renamed = {formal: name for formal, name in pairs if name and name not in used}
    made.output[:] = [renamed.get(name, name) for name in made.output]
    return renamed


def _fill(
    nodes: Iterable[onnx.NodeProto], given: Mapping[str, onnx.AttributeProto], renamed: Mapping[str, str]
) -> None:
    """Attributes that refer to those of the function get their values, or go; values get their names."""
    for node in nodes:
        node.input[:] = [renamed.get(name, name) for name in node.input]
        node.output[:] = [renamed.get(name, name) for name in node.output]
        attributes = []
        for one in node.attribute:
            if not one.ref_attr_name:
                _fill(one.g.node, given, renamed)
                attributes.append(one)
            elif one.ref_attr_name in given:
                made = onnx.AttributeProto()
                made.CopyFrom(given[one.ref_attr_name])
                made.name = one.name
                attributes.append(made)
        copies = [onnx.AttributeProto.FromString(one.SerializeToString()) for one in attributes]
        del node.attribute[:]
        node.attribute.extend(copies)
