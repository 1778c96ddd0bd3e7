"""ONNX file -> Model: read, checked, handed call by call to the builder.

Refusals are precise: node, operator, attribute, what is supported and what to do.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from tinyhil import files
from tinyhil.errors import ModelError
from tinyhil.formats.single import FLOAT32
from tinyhil.frontend.builder import Builder, node_of
from tinyhil.frontend.classical import rewrite_classical
from tinyhil.frontend.dialects import in_onnx, pulp_kind
from tinyhil.frontend.external import with_external_data
from tinyhil.frontend.listing import Call, Model
from tinyhil.frontend.nan_inputs import asked_for_nan
from tinyhil.frontend.onnx_functions import function_of, is_function
from tinyhil.frontend.onnx_outputs import classes_written, main_outputs
from tinyhil.frontend.onnx_versions import PREVIEW, STANDARD_DOMAINS, brought_up, standard_opset
from tinyhil.frontend.ports import ANY_STREAM, REAL, WHOLE, Fill, Port, Stream, connect
from tinyhil.frontend.rewrite import MICROSOFT, Site, sensible
from tinyhil.frontend.rewrite_control import choose, repeat
from tinyhil.frontend.rewrite_optimized import FUSED_ATTENTION
from tinyhil.frontend.rewrite_quantized import NHWC_CONV, input_kind
from tinyhil.frontend.rewrites import CONTROL, DOMAINS, REWRITE_BY_NAME, rewritten
from tinyhil.frontend.whole_types import CAST_FLOATS, INTEGERS, note_types, require_whole
from tinyhil.language.graph import Shape
from tinyhil.ops import LOOP_BY_NAME, OPERATOR_BY_NAME
from tinyhil.ops.operator import refuse

__all__ = ["Model", "load_onnx", "model_of"]

FLOAT_TYPES = {getattr(onnx.TensorProto, name) for name in ("FLOAT", "FLOAT16", "BFLOAT16", "DOUBLE")}
WHOLE_TYPES = {onnx.TensorProto.INT64, onnx.TensorProto.INT32, onnx.TensorProto.UINT32, onnx.TensorProto.UINT64}

_FEW = {"INT4": np.int8, "UINT4": np.uint8, "INT2": np.int8, "UINT2": np.uint8}
FEW_BITS = {kind: _FEW[name] for name, kind in onnx.TensorProto.DataType.items() if name in _FEW}
RENAMED_MICROSOFT = {"Attention": FUSED_ATTENTION, "QLinearConv": NHWC_CONV}  # what means something else there
BLOCKED = "com.microsoft.nchwc"
ALSO_MICROSOFT = frozenset({"Gelu"})  # operators of either domain that mean the same
# the opset from which on another default holds, the attribute, its default before
DEFAULTS_BEFORE = {"RoiAlign": (16, "coordinate_transformation_mode", "output_half_pixel")}
TYPED = INTEGERS | CAST_FLOATS.keys()  # types that values show later: of codes, of casts like them
Local = dict[str, str]  # the file's names to those of the builder


def load_onnx(path: Path, stream: Stream = ANY_STREAM) -> Model:
    """Read, check and convert an ONNX file; several inputs, outputs and states as ports.py says.

    ModelError on a damaged file, an unsupported operator or attribute, a dynamic shape, or values that are not finite.
    """
    data = files.read_bytes(path, "model", files.MOST_MODEL_BYTES, ModelError)
    try:
        proto, digest = _checked(data, path)
        return model_of(proto, path, digest, stream)
    except ModelError as error:
        raise ModelError(f"{path}: {' '.join(str(error).split())}") from None  # names may hold line breaks


def model_of(proto: onnx.ModelProto, path: Path, sha256: str, stream: Stream = ANY_STREAM) -> Model:
    """The model in `proto`, called after `path`; errors do not name the path."""
    outputs, written = main_outputs(proto.graph), classes_written(proto)
    proto, notes = brought_up(_with_graph(proto, outputs.graph))
    main = rewrite_classical(proto.graph, proto.functions)
    known = {tensor.name for tensor in main.initializer}
    missing = asked_for_nan(main)
    inputs = [_port(info, main, info.name in missing) for info in main.input if info.name not in known]

    def start() -> tuple[Builder, Fill]:
        builder, local = Builder(rewritten, standard_opset(proto)), Local()
        _add_initializers(main, local, builder)

        def fill(values: Mapping[str, str]) -> tuple[str, ...]:
            _enter(main.input, values, local, builder)
            return _level(main, local, builder)

        return builder, fill

    builder, ends = connect(start, inputs, [info.name for info in main.output], stream)
    graph, listing = builder.finish(path.stem, ends)
    all_notes = (*outputs.notes, *notes, *ends.notes)
    classes = outputs.classes or written
    return Model(graph, path, sha256, listing, notes=all_notes, classes=classes, stream=ends.stream)


def _port(info: onnx.ValueInfoProto, graph: onnx.GraphProto, may_miss: bool) -> Port:
    """An input; codes that are a state begin with the zero point of what reads them. `may_miss`: of floats, it may hold
    NaN."""
    kind = input_kind(info.type.tensor_type.elem_type) or pulp_kind(graph)
    shape = _declared_shape(info)
    small = CAST_FLOATS.get(info.type.tensor_type.elem_type)
    if small is not None:
        return Port(info.name, shape, str(small), pinned=small)
    if kind and not input_kind(info.type.tensor_type.elem_type):
        return Port(info.name, shape, kind)
    if not kind:
        is_whole = info.type.tensor_type.elem_type in WHOLE_TYPES
        return Port(
            info.name, shape, WHOLE if is_whole else REAL, pinned=FLOAT32 if may_miss and not is_whole else None
        )
    weights = {tensor.name: tensor for tensor in graph.initializer}
    for item in graph.node:
        if item.op_type == "DequantizeLinear" and item.input[0] == info.name and item.input[2:3]:
            zero = weights.get(item.input[2])
            return Port(info.name, shape, kind, 0 if zero is None else int(_array(zero, zero.name).reshape(-1)[0]))
    return Port(info.name, shape, kind)


def _with_graph(proto: onnx.ModelProto, graph: onnx.GraphProto) -> onnx.ModelProto:
    """`proto` with another graph; itself if it is the same."""
    if graph is proto.graph:
        return proto
    made = onnx.ModelProto(ir_version=proto.ir_version, opset_import=proto.opset_import, functions=proto.functions)
    made.graph.CopyFrom(graph)
    return made


def _checked(data: bytes, path: Path) -> tuple[onnx.ModelProto, str]:
    """The model in `data` with the weights of its side files, valid, and the hash of it all."""
    digest = hashlib.sha256(data)
    try:
        proto = onnx.load_model_from_string(data)
        _require_text(proto)
        with_external_data(proto, path.parent, digest)
        proto = in_onnx(proto)
        onnx.checker.check_model(proto)
    except ModelError:
        raise
    except Exception as error:  # protobuf and the checker raise a wide family; all of them mean a damaged file
        reason = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise ModelError(f"not a valid ONNX model ({reason[:160]})") from None
    return proto, digest.hexdigest()


def _require_text(message: Any) -> None:
    """ModelError where a string is none: some versions of protobuf hand out bytes for it, others raise UnicodeError."""
    try:
        strings = list(_strings(message))
    except UnicodeError:
        strings = [b""]
    if any(isinstance(text, bytes) for text in strings):
        raise ModelError("not a valid ONNX model (a name that is no UTF-8)")


def _strings(message: Any) -> Iterator[str | bytes]:
    """Of a message and those in it, but for what nobody reads."""
    for field, value in message.ListFields():
        parts = (value,) if isinstance(value, str | bytes) or not isinstance(value, Iterable) else value
        if field.type == field.TYPE_MESSAGE:
            for part in parts:
                yield from _strings(part)
        elif field.type == field.TYPE_STRING and field.name != "doc_string":
            yield from parts


def _declared_shape(info: onnx.ValueInfoProto) -> Shape:
    tensor = info.type.tensor_type
    if tensor.elem_type not in FLOAT_TYPES | WHOLE_TYPES | CAST_FLOATS.keys() and not input_kind(tensor.elem_type):
        known = onnx.TensorProto.DataType.DESCRIPTOR.values_by_number.get(tensor.elem_type)
        kind = known.name if known else f"of unknown type {tensor.elem_type}"
        raise ModelError(f"input '{info.name}' is {kind}; only floats and integers are supported")
    dims = []
    for position, dim in enumerate(tensor.shape.dim):
        if dim.WhichOneof("value") == "dim_value" and dim.dim_value > 0:
            dims.append(dim.dim_value)
        elif position == 0:
            dims.append(1)  # a symbolic first axis is the batch: the board takes one sample at a time
        elif dim.WhichOneof("value") == "dim_value":
            raise ModelError(f"input '{info.name}': axis {position} has size {dim.dim_value}; nothing to compute")
        else:
            raise ModelError(
                f"input '{info.name}': axis {position} ('{dim.dim_param}') has no fixed size; export with a fixed shape"
            )
    if not tensor.HasField("shape"):
        raise ModelError(f"input '{info.name}' has no shape; export with a fixed shape")
    return tuple(dims)


def _add_initializers(proto: onnx.GraphProto, local: Local, builder: Builder) -> None:
    if proto.sparse_initializer:
        raise ModelError("sparse initializers are not supported; store the weights densely")
    for tensor in proto.initializer:
        name = local[tensor.name] = builder.constant(tensor.name, _array(tensor, tensor.name))
        if tensor.data_type in FEW_BITS:
            builder.grouped.add(name)
        if tensor.data_type in TYPED:
            builder.kinds[name] = tensor.data_type


def _array(tensor: onnx.TensorProto, name: str) -> np.ndarray:
    try:
        array = np.array(numpy_helper.to_array(tensor))
    except Exception as error:  # a damaged tensor: sizes that do not agree, unknown element type
        raise ModelError(f"weights '{name}' can not be read ({str(error)[:120]})") from None
    if tensor.data_type in FEW_BITS:  # of which numpy knows nothing
        array = array.astype(FEW_BITS[tensor.data_type])
    return checked_weights(array, name)


def checked_weights(array: np.ndarray, name: str) -> np.ndarray:
    """`array` with floats as float32; ModelError if it holds anything but numbers. The builder refuses those that are
    not finite where a value computed at run time meets them."""
    if array.dtype.name.startswith(("bfloat16", "float8", "float4")):  # of which numpy knows nothing, either
        array = array.astype(np.float32)
    if array.dtype.kind not in "fiub":
        raise ModelError(f"weights '{name}' hold {array.dtype} values; store them as float32")
    if array.dtype.kind == "f":
        with np.errstate(over="ignore"):
            array = array.astype(np.float32)
    return array


def _level(proto: onnx.GraphProto, local: Local, builder: Builder) -> tuple[str, ...]:
    """Add the nodes of one level; returns its outputs."""
    for index, item in enumerate(proto.node):
        call = _of_opset(_call(item, index, local), builder.opset)
        if call.op == "Constant":
            results: tuple[str, ...] = (builder.constant(call.outputs[0], _constant_value(call)),)
        elif call.op in LOOP_BY_NAME:
            results = _loop(call, item, local, builder)
            _note_body_types(item, results, builder)
        elif call.op in CONTROL:
            results = _control(call, item, local, builder)
            _note_body_types(item, results, builder)
        elif (function := _function(item, call, builder)) is not None:
            results = function
        else:
            require_whole(call, builder)
            results = builder.add(call)
            note_types(call, results, builder)
        local.update(zip(call.outputs, results, strict=False))
    return tuple(_resolve(info.name, local, "graph output") for info in proto.output)


def _function(item: onnx.NodeProto, call: Call, builder: Builder) -> tuple[str, ...] | None:
    """Results of an operator that is none here, but that ONNX defines by others; None for every other one."""
    if call.op in OPERATOR_BY_NAME or call.op in REWRITE_BY_NAME:
        return None
    function = function_of(item, call, builder)
    if function is None:
        return None
    inner = dict(itertools.zip_longest(function.input, call.inputs[: len(function.input)], fillvalue=""))
    wanted = [formal for formal, name in zip(function.output, call.outputs, strict=True) if name]
    body = onnx.GraphProto(node=function.node, output=[onnx.ValueInfoProto(name=name) for name in wanted])
    outer = builder.opset
    builder.opset = max([outer, *(entry.version for entry in function.opset_import if not entry.domain)])
    found = dict(zip(wanted, _level(body, inner, builder), strict=True))
    builder.opset = outer
    return tuple(found.get(formal, "") for formal in function.output)


def _enter(infos: Iterable[onnx.ValueInfoProto], values: Mapping[str, str], local: Local, builder: Builder) -> None:
    """Give the inputs of a level their `values`, and these the declared types."""
    local.update(values)
    kinds = {info.name: info.type.tensor_type.elem_type for info in infos}
    builder.whole.update(value for name, value in values.items() if kinds.get(name) in INTEGERS)
    builder.kinds.update({value: kinds[name] for name, value in values.items() if kinds.get(name) in TYPED})
    builder.flags.update(value for name, value in values.items() if kinds.get(name) == onnx.TensorProto.BOOL)


def _note_body_types(item: onnx.NodeProto, results: Sequence[str], builder: Builder) -> None:
    """The results of a loop or a choice have the types that its bodies declare."""
    for body in (a.g for a in item.attribute if a.type == onnx.AttributeProto.GRAPH):
        infos = list(body.output)[len(body.output) - len(results) :]  # a Loop's first is its condition
        kinds = [info.type.tensor_type.elem_type for info in infos]
        builder.whole.update(name for name, kind in zip(results, kinds, strict=False) if kind in INTEGERS)
        flags = (name for name, kind in zip(results, kinds, strict=False) if kind == onnx.TensorProto.BOOL)
        builder.flags.update(flags)


def _loop(call: Call, item: onnx.NodeProto, local: Local, builder: Builder) -> tuple[str, ...]:
    body = next((a.g for a in item.attribute if a.type == onnx.AttributeProto.GRAPH), onnx.GraphProto())
    inner = dict(local)

    def fill(inputs: tuple[str, ...]) -> tuple[str, ...]:
        _enter(body.input, dict(zip((info.name for info in body.input), inputs, strict=True)), inner, builder)
        _add_initializers(body, inner, builder)
        return _level(body, inner, builder)

    return builder.loop(call, [info.name for info in body.input], fill)


def _control(call: Call, item: onnx.NodeProto, local: Local, builder: Builder) -> tuple[str, ...]:
    """If and Loop."""
    bodies = {a.name: a.g for a in item.attribute if a.type == onnx.AttributeProto.GRAPH}
    site = Site(builder, call)

    def run(body: onnx.GraphProto, inputs: tuple[str, ...]) -> tuple[str, ...]:
        inner = dict(local)
        _enter(body.input, dict(zip((info.name for info in body.input), inputs, strict=True)), inner, builder)
        _add_initializers(body, inner, builder)
        return _level(body, inner, builder)

    if call.op == "If" and {"then_branch", "else_branch"} <= set(bodies):
        then, otherwise = (bodies[name] for name in ("then_branch", "else_branch"))
        return sensible(site, lambda: choose(site, lambda: run(then, ()), lambda: run(otherwise, ())))
    body = bodies.get("body")
    if call.op != "Loop" or body is None or len(body.input) != len(call.inputs) or len(body.input) < 2:
        raise site.refuse("its body does not take the node's inputs", "the file is damaged")
    wishes = [info.name for info in body.input]
    counts = wishes[0] in _names_read(body)
    return sensible(site, lambda: repeat(site, wishes, counts, lambda inputs: run(body, inputs)))


def _names_read(graph: onnx.GraphProto) -> set[str]:
    """Every value the nodes of all levels read, or the graph returns."""
    names = {info.name for info in graph.output}
    for item in graph.node:
        names.update(item.input)
        for attribute in item.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                names |= _names_read(attribute.g)
    return names


def _resolve(name: str, local: Mapping[str, str], where: str) -> str:
    if name not in local:
        raise ModelError(f"{where}: value '{name}' is used but never computed; the file is damaged")
    return local[name]


def _call(item: onnx.NodeProto, index: int, local: Local) -> Call:
    name = item.name or f"{item.op_type}_{index}"
    is_microsoft = item.domain == MICROSOFT
    op = RENAMED_MICROSOFT.get(item.op_type, item.op_type) if is_microsoft else item.op_type
    is_known = (is_microsoft and op in ALSO_MICROSOFT) or item.domain == DOMAINS.get(op)
    is_known |= item.domain == PREVIEW and is_function(f"{PREVIEW}.{op}", 0)
    if item.domain == BLOCKED:
        raise ModelError(
            f"node '{name}': operator {BLOCKED}.{item.op_type} has the layout of one processor's vectors; "
            "let onnxruntime optimize up to ORT_ENABLE_EXTENDED"
        )
    if item.domain not in STANDARD_DOMAINS and not is_known:
        raise ModelError(f"node '{name}': operator {item.domain}.{item.op_type} is not standard ONNX")
    attrs: dict[str, Any] = {}
    for attribute in item.attribute:
        if attribute.type != onnx.AttributeProto.GRAPH:
            attrs[attribute.name] = onnx.helper.get_attribute_value(attribute)
    where = f"node '{name}' ({item.op_type})"
    inputs = tuple(_resolve(value, local, where) if value else "" for value in item.input)
    return Call(op, name, inputs, tuple(item.output), attrs)


def _of_opset(call: Call, opset: int) -> Call:
    """`call` with what its opset takes where nothing is said: it may be written as of a newer one."""
    since, name, default = DEFAULTS_BEFORE.get(call.op, (0, "", ""))
    if opset >= since or name in call.attrs:
        return call
    return replace(call, attrs={**call.attrs, name: default})


def _constant_value(call: Call) -> np.ndarray:
    attrs = call.attrs
    if "value" in attrs:
        return _array(attrs["value"], call.outputs[0])
    for key, kind in (
        ("value_float", np.float32),
        ("value_floats", np.float32),
        ("value_int", np.int64),
        ("value_ints", np.int64),
    ):
        if key in attrs:
            return checked_weights(np.array(attrs[key], kind), call.outputs[0])
    raise refuse(node_of(call), f"attributes {sorted(attrs)}", "only numbers are supported")
