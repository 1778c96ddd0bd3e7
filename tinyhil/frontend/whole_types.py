"""Which values of an ONNX file are of an integer type, and what no board computes as such a type asks.

A board computes with real numbers: the mean of 3 and 4 is 3.5, where ONNX gives 3 for integers. Operators whose result
of whole operands is none are refused at run time, but for Div; a Cast to float before them says what is meant.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import onnx

from tinyhil.formats.e8m0 import E8M0
from tinyhil.formats.minifloat import E2M1, E4M3, E5M2, Minifloat
from tinyhil.frontend.builder import Builder, node_of
from tinyhil.frontend.listing import Call
from tinyhil.ops.operator import refuse
from tinyhil.ops.small_floats import SmallFloat

INTEGERS = frozenset(
    getattr(onnx.TensorProto, name)
    for name in (f"{sign}INT{bits}" for sign in ("", "U") for bits in (2, 4, 8, 16, 32, 64))
    if hasattr(onnx.TensorProto, name)
)
# integer types: the lowest number, how many there are
NARROW = {
    getattr(onnx.TensorProto, f"{sign}INT{bits}"): (0 if sign else -(1 << bits - 1), 1 << bits)
    for sign in ("", "U")
    for bits in (2, 4, 8, 16)
    if hasattr(onnx.TensorProto, f"{sign}INT{bits}")
}
TYPE_NAMES = frozenset(f"tensor({onnx.TensorProto.DataType.Name(kind).lower()})" for kind in INTEGERS)
FLAG_NAMES = frozenset({"tensor(bool)"})
# floats of 8 and 4 bits, as formats of ours: FNUZ have one zero and no infinities
SMALL_FLOATS = {
    getattr(onnx.TensorProto, name): shape
    for name, shape in (
        ("FLOAT8E4M3FN", E4M3),
        ("FLOAT8E4M3FNUZ", Minifloat(4, 3, 8)),
        ("FLOAT8E5M2", E5M2),
        ("FLOAT8E5M2FNUZ", Minifloat(5, 2, 16)),
        ("FLOAT4E2M1", E2M1),
    )
    if hasattr(onnx.TensorProto, name)
}
# and what Casts alone make
CAST_FLOATS: Mapping[int, SmallFloat] = SMALL_FLOATS | (
    {onnx.TensorProto.FLOAT8E8M0: E8M0()} if hasattr(onnx.TensorProto, "FLOAT8E8M0") else {}
)
Constants = Sequence["np.ndarray | None"]


def _always(call: Call, values: Constants) -> bool:
    return True


def _is_interpolated(call: Call, values: Constants) -> bool:
    return call.attrs.get("mode", b"nearest") != b"nearest"


def _is_scaled(call: Call, values: Constants) -> bool:
    return any(float(call.attrs.get(name, 1.0)) % 1 != 0 for name in ("alpha", "beta"))


# operators of integers, and when a result of theirs is not whole in real numbers
ROUNDED: Mapping[str, Callable[[Call, Constants], bool]] = {
    **dict.fromkeys(("ReduceMean", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp"), _always),
    "Resize": _is_interpolated,
    "Gemm": _is_scaled,
}


def require_whole(call: Call, builder: Builder) -> None:
    """ModelError for a mean, root or the like of integers that are computed at run time."""
    values = [builder.constants.get(name) for name in call.inputs]
    if call.op not in ROUNDED or not _is_whole_result(call, 0, builder):
        return
    if any(name and value is None for name, value in zip(call.inputs, values, strict=True)) and ROUNDED[call.op](
        call, values
    ):
        raise refuse(node_of(call), f"{call.op} of whole numbers at run time", "cast to float before it")


def note_types(call: Call, results: Sequence[str], builder: Builder) -> None:
    """Keep in `builder.whole` which results of `call` are of an integer type, in `builder.flags` which are booleans."""
    builder.whole.update(name for at, name in enumerate(results) if name and _is_whole_result(call, at, builder))
    flags = (name for at, name in enumerate(results) if name and _is_of(call, at, builder, FLAG_NAMES, is_flag))
    builder.flags.update(flags)
    if call.op == "Cast" and call.attrs.get("to") in {*INTEGERS, *CAST_FLOATS}:
        builder.kinds[results[0]] = int(call.attrs["to"])


def is_whole(builder: Builder, name: str) -> bool:
    """Whether value `name` is of an integer type."""
    value = builder.constants.get(name)
    return name in builder.whole or (value is not None and value.dtype.kind in "iu")


def is_flag(builder: Builder, name: str) -> bool:
    """Whether value `name` is boolean."""
    value = builder.constants.get(name)
    return name in builder.flags or (value is not None and value.dtype.kind == "b")


def _is_whole_result(call: Call, at: int, builder: Builder) -> bool:
    return _is_of(call, at, builder, TYPE_NAMES, is_whole)


def _is_of(call: Call, at: int, builder: Builder, names: frozenset[str], known: Callable[[Builder, str], bool]) -> bool:
    """Whether result `at` has one of the types `names`, by its operator or by operands that are `known` to have it."""
    if call.op == "Cast":
        return _type_name(int(call.attrs.get("to", 0))) in names
    try:
        schema = onnx.defs.get_schema(call.op, builder.opset)
    except onnx.defs.SchemaError:  # of another domain
        return False
    kind = _formal(schema.outputs, at)
    if kind in names:
        return True
    return any(
        name and _formal(schema.inputs, index) == kind and known(builder, name)
        for index, name in enumerate(call.inputs)
    )


def _type_name(kind: int) -> str:
    """As schemas have it; empty for a number that is no type."""
    known = onnx.TensorProto.DataType.DESCRIPTOR.values_by_number.get(kind)
    return f"tensor({known.name.lower()})" if known else ""


def _formal(parameters: Sequence[onnx.defs.OpSchema.FormalParameter], at: int) -> str:
    """The type, or the name of the type, of parameter `at`; one that is variadic stands for all that follow.

    "" where there is none: an input that only a newer opset knows, such as the axes of a reduction.
    """
    if at < len(parameters):
        return parameters[at].type_str
    variadic = parameters and parameters[-1].option == onnx.defs.OpSchema.FormalParameterOption.Variadic
    return parameters[-1].type_str if variadic else ""
