"""ONNX file -> Graph: checked, shapes inferred for one sample, constants folded.

Refusals are precise: node, operator, attribute, what is supported and what to do.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import onnx
from onnx import numpy_helper

from tinyhil.errors import ModelError
from tinyhil.frontend.fold import fold_batch_norm
from tinyhil.graph import Graph, Node, Shape, element_count
from tinyhil.ops import LOOP_BY_NAME, OPERATOR_BY_NAME
from tinyhil.ops.operator import refuse

T = TypeVar("T")

OLDEST_OPSET = 13
MAX_FOLDED_ELEMENTS = 1 << 24  # far beyond any flash; a small file can ask for terabytes
FLOAT_TYPES = {onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16, onnx.TensorProto.DOUBLE}


@dataclass(frozen=True, slots=True)
class Model:
    """A graph and the file it came from."""

    graph: Graph
    path: Path
    sha256: str


@dataclass(frozen=True, slots=True)
class Scope:
    """What the nodes of one level can see: shapes and constants of this level and those around it."""

    shapes: dict[str, Shape]
    constants: dict[str, np.ndarray]
    taken: set[str]  # names used anywhere, so that all levels share one name space


def load_onnx(path: Path) -> Model:
    """Read, check and convert an ONNX file with one input and one output.

    ModelError on a damaged file, an unsupported operator or attribute, a dynamic shape, or values that are not finite.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ModelError(f"{path}: {error.strerror}") from None
    try:
        proto = onnx.load_model_from_string(data)
        onnx.checker.check_model(proto)
    except Exception as error:  # protobuf and the checker raise a wide family; all of them mean a damaged file
        reason = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise ModelError(f"{path}: not a valid ONNX model ({reason[:160]})") from None
    opset = max((entry.version for entry in proto.opset_import if entry.domain in ("", "ai.onnx")), default=0)
    if opset < OLDEST_OPSET:
        raise ModelError(
            f"{path}: opset {opset} is older than {OLDEST_OPSET}; use onnx.version_converter or export again"
        )
    if opset > onnx.defs.onnx_opset_version():
        raise ModelError(
            f"{path}: opset {opset} is newer than {onnx.defs.onnx_opset_version()}, the newest onnx here knows; "
            "upgrade onnx or export for an older opset"
        )
    try:
        graph = _main_graph(proto.graph, path.stem)
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from None
    return Model(graph, path, hashlib.sha256(data).hexdigest())


def _main_graph(proto: onnx.GraphProto, name: str) -> Graph:
    scope, local = Scope({}, {}, set()), dict[str, str]()
    _add_initializers(proto, local, scope)
    inputs = [info for info in proto.input if info.name not in local]
    if len(inputs) != 1 or len(proto.output) != 1:
        raise ModelError(
            f"{len(inputs)} inputs and {len(proto.output)} outputs; exactly one of each is supported; "
            "concatenate them inside of the model"
        )
    source = _unique(inputs[0].name, local, scope)
    scope.shapes[source] = _declared_shape(inputs[0])
    graph = _level(proto, scope, local, (source,), frozenset())
    if graph.outputs[0] in graph.constants:
        raise ModelError(f"output '{graph.outputs[0]}' does not depend on the input")
    return _without_unused_constants(fold_batch_norm(replace(graph, name=name)))


def _declared_shape(info: onnx.ValueInfoProto) -> Shape:
    tensor = info.type.tensor_type
    if tensor.elem_type not in FLOAT_TYPES:
        known = onnx.TensorProto.DataType.DESCRIPTOR.values_by_number.get(tensor.elem_type)
        kind = known.name if known else f"of unknown type {tensor.elem_type}"
        raise ModelError(f"input '{info.name}' is {kind}; only float inputs are supported")
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


def _add_initializers(proto: onnx.GraphProto, local: dict[str, str], scope: Scope) -> None:
    if proto.sparse_initializer:
        raise ModelError("sparse initializers are not supported; store the weights densely")
    for tensor in proto.initializer:
        _bind((tensor.name,), [_array(tensor, tensor.name)], local, scope)


def _array(tensor: onnx.TensorProto, name: str) -> np.ndarray:
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        raise ModelError(f"weights '{name}' are in another file; save the model with the weights inside")
    try:
        array = np.array(numpy_helper.to_array(tensor))
    except Exception as error:  # a damaged tensor: sizes that do not agree, unknown element type
        raise ModelError(f"weights '{name}' can not be read ({str(error)[:120]})") from None
    if array.dtype.kind not in "fiub":
        raise ModelError(f"weights '{name}' hold {array.dtype} values; store them as float32")
    if array.dtype.kind == "f":
        with np.errstate(over="ignore"):  # becomes infinite, which is refused
            array = array.astype(np.float32)
        if not np.isfinite(array).all():
            count = int((~np.isfinite(array)).sum())
            raise ModelError(f"weights '{name}' hold {count} values that are NaN or infinite; train or export again")
    return array


def _level(
    proto: onnx.GraphProto,
    scope: Scope,
    local: dict[str, str],
    inputs: tuple[str, ...],
    outside: frozenset[str],
) -> Graph:
    """Convert the nodes of one level. `local` maps the file's names to unique ones, `outside` are the levels around."""
    nodes: list[Node] = []
    for index, item in enumerate(proto.node):
        converted = _convert(_node(item, index, local), item, local, scope)
        if converted is not None:
            nodes.append(converted)
    outputs = tuple(_resolve(info.name, local, "graph output") for info in proto.output)
    own = {name: shape for name, shape in scope.shapes.items() if name not in outside}
    constants = {name: array for name, array in scope.constants.items() if name in own}
    deeper = {name for node in nodes if node.body is not None for name in node.body.all_shapes()}
    return Graph(
        proto.name or "graph",
        inputs,
        outputs,
        tuple(nodes),
        {name: shape for name, shape in own.items() if name not in deeper},
        {name: array for name, array in constants.items() if name not in deeper},
    )


def _resolve(name: str, local: Mapping[str, str], where: str) -> str:
    if name not in local:
        raise ModelError(f"{where}: value '{name}' is used but never computed; the file is damaged")
    return local[name]


def _node(item: onnx.NodeProto, index: int, local: Mapping[str, str]) -> Node:
    name = item.name or f"{item.op_type}_{index}"
    if item.domain not in ("", "ai.onnx"):
        raise ModelError(f"node '{name}': operator {item.domain}.{item.op_type} is not standard ONNX")
    known = OPERATOR_BY_NAME.get(item.op_type) or LOOP_BY_NAME.get(item.op_type)
    if known is None and item.op_type != "Constant":
        supported = ", ".join(sorted([*OPERATOR_BY_NAME, *LOOP_BY_NAME, "Constant"]))
        raise ModelError(f"node '{name}': operator {item.op_type} is not supported; supported: {supported}")
    attrs: dict[str, Any] = {}
    for attribute in item.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            continue
        if known is not None and attribute.name not in known.attributes:
            raise ModelError(f"node '{name}' ({item.op_type}): attribute '{attribute.name}' is not supported")
        attrs[attribute.name] = onnx.helper.get_attribute_value(attribute)
    if any(not value for value in item.input) and (known is None or getattr(known, "settle", None) is None):
        raise ModelError(f"node '{name}' ({item.op_type}): optional inputs left out in the middle are not supported")
    where = f"node '{name}' ({item.op_type})"
    inputs = tuple(_resolve(value, local, where) if value else "" for value in item.input)
    return Node(item.op_type, name, inputs, tuple(item.output), attrs)


def _convert(node: Node, item: onnx.NodeProto, local: dict[str, str], scope: Scope) -> Node | None:
    """The node with shapes inferred and names made unique; None if it was folded into constants."""
    if node.op == "Constant":
        _bind(node.outputs, [_constant_value(node)], local, scope)
        return None
    shapes = [scope.shapes.get(name, ()) for name in node.inputs]  # an optional input left out has no name
    if node.op in LOOP_BY_NAME:
        return _loop(node, item, shapes, local, scope)
    operator = OPERATOR_BY_NAME[node.op]
    values = [scope.constants.get(name) for name in node.inputs]
    if operator.settle is not None:
        settle = operator.settle
        node = _inferred(node, shapes, lambda: settle(node, shapes, values))
        shapes = [scope.shapes[name] for name in node.inputs]
        values = [scope.constants.get(name) for name in node.inputs]
    inferred = _inferred(node, shapes, lambda: operator.infer(node, shapes, values))
    if operator.is_view:  # shape and axes have done their work; the view keeps only what it shows
        node = replace(node, inputs=node.inputs[:1], attrs={"shape": inferred[0]})
        values = values[:1]
    known = [value for value in values if value is not None]
    if len(known) == len(values):
        _bind(node.outputs, _folded(node, known, inferred), local, scope)
        return None
    for name, value in zip(node.inputs, values, strict=True):
        if value is not None and value.dtype.kind != "f":
            raise refuse(node, f"operand '{name}' holds {value.dtype} values", "store it as float32")
    if any(0 in shape for shape in (*shapes[: len(values)], *inferred)):
        raise refuse(node, "an operand has no elements", "the file is damaged")
    outputs = tuple(_unique(name, local, scope) for name in node.outputs[: len(inferred)])
    scope.shapes.update(zip(outputs, inferred, strict=True))
    return replace(node, outputs=outputs)


def _inferred(node: Node, shapes: list[Shape], infer: Callable[[], T]) -> T:
    """What `infer` returns; whatever it stumbles over is the file's fault."""
    try:
        return infer()
    except (ValueError, LookupError, TypeError, ArithmeticError) as error:
        sizes = ", ".join(str(list(shape)) for shape in shapes)
        raise refuse(node, f"inputs of shapes {sizes} make no sense ({error})", "the file is damaged") from None


def _folded(node: Node, known: list[np.ndarray], inferred: list[Shape]) -> list[np.ndarray]:
    """Outputs of a node whose inputs are all constant."""
    elements = sum(element_count(shape) for shape in inferred)
    if elements > MAX_FOLDED_ELEMENTS:
        raise refuse(node, f"makes {elements} constant elements of its inputs", "compute them at run time")
    with np.errstate(all="ignore"):
        arrays = [array[0] for array in OPERATOR_BY_NAME[node.op].evaluate(node, [value[None] for value in known])]
    for array in arrays:
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise refuse(node, "its constant result is NaN or infinite", "check the weights")
    return arrays


def _bind(names: tuple[str, ...], arrays: list[np.ndarray], local: dict[str, str], scope: Scope) -> None:
    for name, array in zip(names, arrays, strict=False):
        unique = _unique(name, local, scope)
        scope.constants[unique] = array
        scope.shapes[unique] = tuple(array.shape)


def _unique(name: str, local: dict[str, str], scope: Scope) -> str:
    """A name no level uses yet; the same name where possible, since names show in reports."""
    unique, copies = name, 1
    while unique in scope.taken:
        copies += 1
        unique = f"{name}.{copies}"
    scope.taken.add(unique)
    local[name] = unique
    return unique


def _constant_value(node: Node) -> np.ndarray:
    attrs = node.attrs
    if "value" in attrs:
        return _array(attrs["value"], node.outputs[0])
    for key, kind in (
        ("value_float", np.float32),
        ("value_floats", np.float32),
        ("value_int", np.int64),
        ("value_ints", np.int64),
    ):
        if key in attrs:
            return np.array(attrs[key], kind)
    raise refuse(node, f"attributes {sorted(attrs)}", "only numbers are supported")


def _loop(node: Node, item: onnx.NodeProto, shapes: list[Shape], local: dict[str, str], scope: Scope) -> Node:
    loop = LOOP_BY_NAME[node.op]
    body = next((a.g for a in item.attribute if a.type == onnx.AttributeProto.GRAPH), None)
    if body is None or len(body.input) != len(node.inputs):
        raise refuse(node, "its body does not take the node's inputs", "the file is damaged")
    scans = int(node.attrs.get("num_scan_inputs", 0))
    if not 1 <= scans <= len(node.inputs) or len(body.output) < len(node.inputs) - scans:
        raise refuse(node, f"num_scan_inputs {scans} for {len(node.inputs)} inputs", "the file is damaged")
    if node.attrs.get("scan_input_axes") is not None and len(node.attrs["scan_input_axes"]) != scans:
        raise refuse(node, "scan_input_axes does not name one axis per sequence", "the file is damaged")
    if len(node.outputs) != len(body.output) or not all(node.outputs):
        raise refuse(node, f"takes {len(node.outputs)} of {len(body.output)} results", "name them all")
    outside, inner = frozenset(scope.shapes), dict(local)
    rows = _inferred(node, shapes, lambda: loop.body_shapes(node, shapes))
    if any(0 in shape for shape in (*shapes, *rows)):
        raise refuse(node, "an operand has no elements", "the file is damaged")
    inputs = tuple(_unique(info.name, inner, scope) for info in body.input)
    scope.shapes.update(zip(inputs, rows, strict=True))
    _add_initializers(body, inner, scope)
    graph = _level(body, scope, inner, inputs, outside)
    result = loop.infer(node, shapes, [scope.shapes[name] for name in graph.outputs])
    outputs = tuple(_unique(name, local, scope) for name in node.outputs)
    scope.shapes.update(zip(outputs, result, strict=False))
    return replace(node, outputs=outputs, body=graph)


def _without_unused_constants(graph: Graph) -> Graph:
    used = {name for node in graph.walk() for name in node.inputs} | set(graph.outputs)
    for level in graph.levels():
        used.update(level.outputs)

    def clean(level: Graph) -> Graph:
        constants = {name: array for name, array in level.constants.items() if name in used}
        dropped = set(level.constants) - set(constants)
        shapes = {name: shape for name, shape in level.shapes.items() if name not in dropped}
        nodes = tuple(replace(n, body=clean(n.body)) if n.body is not None else n for n in level.nodes)
        return replace(level, nodes=nodes, constants=constants, shapes=shapes)

    return clean(graph)
