"""A .tflite file as plain records, every size checked: the flatbuffer is read through the package `tflite`.

A flatbuffer is offsets into itself, and a damaged one points anywhere; the package reads what it is pointed at. So
whatever it stumbles over is the file's fault, and counts are bounded by the file's length before anything is walked.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import tflite

from tinyhil.errors import ModelError
from tinyhil.frontend.flexible_options import options_of
from tinyhil.frontend.tflite_decode import decoded
from tinyhil.frontend.tflite_records import File, Operation, State, Tensor
from tinyhil.language.graph import Shape, element_count

IDENTIFIER = b"TFL3"
TYPES = {
    0: "float32",
    1: "float16",
    2: "int32",
    3: "uint8",
    4: "int64",
    6: "bool",
    7: "int16",
    9: "int8",
    15: "uint32",
    16: "uint16",
    17: "int8",
}
TYPE_NAMES = {number: name for name, number in vars(tflite.TensorType).items() if isinstance(number, int)}
ACTIVATIONS = {number: name for name, number in vars(tflite.ActivationFunctionType).items() if isinstance(number, int)}
COMPRESSED = b"COMPRESSION_METADATA"
INTEGERS = ("uint8", "int8", "int16", "int32", "uint16")
WITHOUT_RESULTS = {"ASSIGN_VARIABLE", "CALL_ONCE"}
LEAST_SCALE, MOST_SCALE = 2.0**-100, 2.0**60  # a step; of a bias the product of two
MAX_AXES = 8
MOST_OPTIONAL = 24  # operands of an LSTM, of which a file may leave out all that it has no tensors for
DAMAGE = (
    struct.error,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    ArithmeticError,
    MemoryError,
    AssertionError,
)
Read = TypeVar("Read")

# options that an operator needs, by the tables they are in
CONV = ("FusedActivationFunction", "Padding", "StrideH", "StrideW", "DilationHFactor", "DilationWFactor")
POOL = ("FusedActivationFunction", "Padding", "StrideH", "StrideW", "FilterHeight", "FilterWidth")
RESIZE = ("AlignCorners", "HalfPixelCenters")
STRIDED = ("BeginMask", "EndMask", "EllipsisMask", "NewAxisMask", "ShrinkAxisMask")
OPTIONS: dict[str, tuple[str, tuple[str, ...]]] = {
    "ADD": ("AddOptions", ("FusedActivationFunction",)),
    "ARG_MAX": ("ArgMaxOptions", ("OutputType",)),
    "ARG_MIN": ("ArgMinOptions", ("OutputType",)),
    "AVERAGE_POOL_2D": ("Pool2DOptions", POOL),
    "BATCH_MATMUL": ("BatchMatMulOptions", ("AdjX", "AdjY")),
    "CALL_ONCE": ("CallOnceOptions", ("InitSubgraphIndex",)),
    "CONCATENATION": ("ConcatenationOptions", ("Axis", "FusedActivationFunction")),
    "CONV_2D": ("Conv2DOptions", CONV),
    "CUMSUM": ("CumsumOptions", ("Exclusive", "Reverse")),
    "DEPTHWISE_CONV_2D": ("DepthwiseConv2DOptions", CONV),
    "DEPTH_TO_SPACE": ("DepthToSpaceOptions", ("BlockSize",)),
    "DIV": ("DivOptions", ("FusedActivationFunction",)),
    "FULLY_CONNECTED": ("FullyConnectedOptions", ("FusedActivationFunction", "WeightsFormat")),
    "GATHER": ("GatherOptions", ("Axis", "BatchDims")),
    "IF": ("IfOptions", ("ThenSubgraphIndex", "ElseSubgraphIndex")),
    "L2_NORMALIZATION": ("L2NormOptions", ("FusedActivationFunction",)),
    "L2_POOL_2D": ("Pool2DOptions", POOL),
    "LEAKY_RELU": ("LeakyReluOptions", ("Alpha",)),
    "MAX_POOL_2D": ("Pool2DOptions", POOL),
    "MEAN": ("ReducerOptions", ("KeepDims",)),
    "MIRROR_PAD": ("MirrorPadOptions", ("Mode",)),
    "MUL": ("MulOptions", ("FusedActivationFunction",)),
    "PACK": ("PackOptions", ("Axis", "ValuesCount")),
    "REDUCE_ALL": ("ReducerOptions", ("KeepDims",)),
    "REDUCE_MAX": ("ReducerOptions", ("KeepDims",)),
    "REDUCE_MIN": ("ReducerOptions", ("KeepDims",)),
    "RESIZE_BILINEAR": ("ResizeBilinearOptions", RESIZE),
    "RESIZE_NEAREST_NEIGHBOR": ("ResizeNearestNeighborOptions", RESIZE),
    "SOFTMAX": ("SoftmaxOptions", ("Beta",)),
    "SPACE_TO_DEPTH": ("SpaceToDepthOptions", ("BlockSize",)),
    "SPLIT": ("SplitOptions", ("NumSplits",)),
    "SPLIT_V": ("SplitVOptions", ("NumSplits",)),
    "STRIDED_SLICE": ("StridedSliceOptions", STRIDED),
    "SUB": ("SubOptions", ("FusedActivationFunction",)),
    "SVDF": ("SVDFOptions", ("Rank", "FusedActivationFunction")),
    "SUM": ("ReducerOptions", ("KeepDims",)),
    "TRANSPOSE_CONV": ("TransposeConvOptions", ("FusedActivationFunction", "Padding", "StrideH", "StrideW")),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": (
        "UnidirectionalSequenceLSTMOptions",
        ("FusedActivationFunction", "CellClip", "ProjClip", "TimeMajor"),
    ),
    "UNPACK": ("UnpackOptions", ("Axis", "Num")),
    "VAR_HANDLE": ("VarHandleOptions", ("Container", "SharedName")),
    "WHILE": ("WhileOptions", ("CondSubgraphIndex", "BodySubgraphIndex")),
}


# options of custom operators, in the order of their names: TensorFlow Lite Micro reads them by their places
_NOISE = ("alternate_one_minus_smoothing", "alternate_smoothing", "clamping", "min_signal_remaining", "num_channels")
_NOISE_REST = ("one_minus_smoothing", "smoothing", "smoothing_bits", "spectral_subtraction_bits")
CUSTOM: dict[str, tuple[str, ...]] = {
    "SignalDelay": ("delay_length",),
    "SignalEnergy": ("end_index", "start_index"),
    "SignalFftAutoScale": (),
    "SignalFilterBank": ("num_channels",),
    "SignalFilterBankLog": ("input_correction_bits", "output_scale"),
    "SignalFilterBankSpectralSubtraction": (*_NOISE, *_NOISE_REST),
    "SignalFilterBankSquareRoot": (),
    "SignalFramer": ("frame_size", "frame_step", "prefill"),
    "SignalIrfft": ("T", "fft_length"),
    "SignalOverlapAdd": ("T", "frame_step"),
    "SignalPCAN": ("snr_shift",),
    "SignalRfft": ("T", "fft_length"),
    "SignalStacker": ("num_channels", "stacker_left_context", "stacker_right_context", "stacker_step"),
    "SignalWindow": ("shift",),
}


# of those that it reads by their names: what holds where a file says nothing, None if it must
NAMED: dict[str, dict[str, float | None]] = {
    "CIRCULAR_BUFFER": {"cycles_max": 0},
    "TFLite_Detection_PostProcess": {
        **dict.fromkeys(("max_detections", "max_classes_per_detection", "num_classes")),
        **dict.fromkeys(("nms_score_threshold", "nms_iou_threshold", "y_scale", "x_scale", "h_scale", "w_scale")),
        "detections_per_class": 100,
        "use_regular_nms": 0,
    },
}


def custom_options(op: str, data: bytes) -> dict[str, Any]:
    """Of a custom operator; ValueError where the file does not hold those that it has."""
    found = options_of(data)
    if op in NAMED:
        given = {**NAMED[op], **{name: value for name, value in found.items() if name in NAMED[op]}}
        lacking = [name for name, value in given.items() if value is None or not math.isfinite(value)]
        if lacking:
            raise ValueError(f"{op} without {', '.join(lacking)}")
        return given
    if tuple(found) != CUSTOM[op]:
        raise ValueError(f"{op} with options {', '.join(found)}; it has {', '.join(CUSTOM[op])}")
    return dict(found)


def read_file(data: bytes) -> File:
    """The main subgraph; ModelError if the file is damaged, or holds what has no place here."""
    if data[4:8] != IDENTIFIER:
        raise ModelError("not a valid TensorFlow Lite model (no 'TFL3' at its fifth byte)")
    return whole(lambda: _read(data))


def whole(read: Callable[[], Read]) -> Read:
    """What `read` returns; whatever it stumbles over is the file's fault. ModelError if it is damaged."""
    try:
        return read()
    except ModelError:
        raise
    except DAMAGE as error:
        reason = " ".join(str(error).split())[:120] or type(error).__name__
        raise ModelError(f"not a valid TensorFlow Lite model ({reason})") from None


def _read(data: bytes) -> File:
    model = tflite.Model.GetRootAs(data, 0)
    if model.OperatorCodesLength() > len(data) // 4:
        raise ValueError("more entries than bytes")
    if not 0 < model.SubgraphsLength() <= len(data) // 4:
        raise ValueError(f"{model.SubgraphsLength()} subgraphs")
    _require_uncompressed(model, len(data))
    subgraphs = [_subgraph(model, model.Subgraphs(index), len(data)) for index in range(model.SubgraphsLength())]
    return with_states(subgraphs)


def _subgraph(model: Any, graph: Any, limit: int) -> File:
    counts = graph.TensorsLength(), graph.OperatorsLength(), model.BuffersLength(), model.OperatorCodesLength()
    if max(*counts, graph.InputsLength(), graph.OutputsLength()) > limit // 4:
        raise ValueError("more entries than bytes")
    tensors = tuple(_tensor(model, graph.Tensors(number), number, limit) for number in range(counts[0]))
    operations = tuple(_operation(model, graph.Operators(number), number, len(tensors)) for number in range(counts[1]))
    tensors, operations = decoded(tensors, operations)
    inputs = tuple(int(graph.Inputs(index)) for index in range(graph.InputsLength()))
    outputs = tuple(int(graph.Outputs(index)) for index in range(graph.OutputsLength()))
    if not all(0 <= number < len(tensors) for number in (*inputs, *outputs)):
        raise ValueError("an input or output that is no tensor")
    used = {number for operation in operations for number in (*operation.inputs, *operation.outputs) if number >= 0}
    for number in sorted(used.union(inputs, outputs)):  # others, such as an LSTM's intermediate ones, may be empty
        if 0 in tensors[number].shape:
            shape = list(tensors[number].shape)
            raise ModelError(f"tensor '{tensors[number].name}' has the shape {shape}; convert with a fixed shape")
    return File(tensors, operations, inputs, outputs)


def with_states(subgraphs: Sequence[File]) -> File:
    """The main subgraph and what it keeps from step to step: variables, by their names, and tensors marked as such.

    Variables begin with what the subgraph of CALL_ONCE assigns to them, else with their zero point.
    ModelError for what is kept otherwise, ValueError in a damaged file.
    """
    main = subgraphs[0]
    starts: dict[str, np.ndarray] = {}
    for operation in main.operations:
        if operation.op == "CALL_ONCE":
            index = int(operation.options["InitSubgraphIndex"])
            if not 0 < index < len(subgraphs):
                raise ValueError(f"CALL_ONCE of subgraph {index}")
            starts |= _assigned(subgraphs[index])
    handles, states = _handles(main), list[State]()
    for operation in main.operations:
        if operation.op == "READ_VARIABLE":
            name = _variable(handles, operation)
            if name not in {state.name for state in states}:
                states.append(
                    State(name, operation.outputs[0], _start(main.tensors[operation.outputs[0]], starts.get(name)))
                )
        buffers = operation.outputs if operation.op == "CIRCULAR_BUFFER" else ()
        for number in (*operation.inputs, *buffers):
            if number >= 0 and main.tensors[number].is_variable:
                state = State(main.tensors[number].name, number, _start(main.tensors[number], None))
                states += [state] if state.name not in {other.name for other in states} else []
    held = memories(main)
    tensors = (*main.tensors, *(tensor for tensor in held))
    states += [State(tensor.name, len(main.tensors) + n, np.zeros(tensor.shape)) for n, tensor in enumerate(held)]
    names = [*(main.tensors[number].name for number in main.inputs), *(state.name for state in states)]
    if len(set(names)) != len(names):
        raise ModelError(f"inputs and variables share a name: {', '.join(sorted(names))}; rename them")
    return replace(main, tensors=tensors, states=tuple(states), handles=handles, graphs=tuple(subgraphs))


def memory_name(operation: Operation, part: str) -> str:
    """Of what a signal operator keeps from step to step."""
    return f"{operation.name}.{part}"


def memories(graph: File) -> list[Tensor]:
    """What signal operators keep from step to step, all of it 0 before the first; ValueError in a damaged file."""
    found = []
    for operation in graph.operations:
        o, size = operation.options, graph.tensors[operation.inputs[0]].shape if operation.inputs else ()
        parts: list[tuple[str, str, Shape]] = []
        if operation.op == "SignalFilterBankSpectralSubtraction":
            parts = [("noise", "uint32", size)]
        elif operation.op == "SignalDelay":
            parts = [("held", "int16", (*size[:-1], int(o["delay_length"])))]
        elif operation.op == "SignalOverlapAdd":
            parts = [("held", "int16", (*size[:-2], size[-1]))]
        elif operation.op == "SignalFramer":
            length, step = int(o["frame_size"]), int(o["frame_step"])
            if step < 1 or size[-1] % step or length < step:
                raise ValueError(f"frames of {length} each {step} of {list(size)}")
            earlier = length - step if o["prefill"] else (-(-length // step) - 1) * step
            parts = [("held", "int16", (*size[:-1], earlier)), ("steps", "int32", (1,))]
        for part, kind, shape in parts:
            if min(shape, default=1) < 1:
                raise ValueError(f"{operation.op} that keeps {list(shape)}")
            found.append(Tensor(memory_name(operation, part), shape, kind, None, None, None, 0))
    return found


def _handles(graph: File) -> dict[int, str]:
    """Tensor that a VAR_HANDLE gives -> the variable's name."""
    found = {}
    for operation in graph.operations:
        if operation.op == "VAR_HANDLE":
            parts = [
                (operation.options[part] or b"").decode("utf-8", "replace") for part in ("Container", "SharedName")
            ]
            found[operation.outputs[0]] = "/".join(part for part in parts if part) or "variable"
    return found


def _variable(handles: Mapping[int, str], operation: Operation) -> str:
    if not operation.inputs or operation.inputs[0] not in handles:
        raise ModelError(f"node '{operation.name}' ({operation.op}): its variable is not known; the file is damaged")
    return handles[operation.inputs[0]]


def _assigned(graph: File) -> dict[str, np.ndarray]:
    """What a subgraph that runs once assigns to variables."""
    handles, found = _handles(graph), {}
    for operation in graph.operations:
        if operation.op == "VAR_HANDLE":
            continue
        data = graph.tensors[operation.inputs[1]].data if operation.op == "ASSIGN_VARIABLE" else None
        if data is None:
            raise ModelError(
                f"node '{operation.name}' ({operation.op}): what runs once may only assign constants to variables; "
                "convert with constant starts"
            )
        found[_variable(handles, operation)] = data
    return found


def _start(tensor: Tensor, given: np.ndarray | None) -> np.ndarray:
    """What a state begins with: codes, or real numbers."""
    if given is not None:
        if given.size != element_count(tensor.shape):
            raise ValueError(f"{given.size} numbers for '{tensor.name}' {list(tensor.shape)}")
        return given.reshape(tensor.shape)
    is_byte = tensor.kind in ("int8", "uint8") and tensor.zeros is not None
    return np.full(tensor.shape, tensor.zeros.reshape(-1)[0] if is_byte and tensor.zeros is not None else 0)


def _require_uncompressed(model: Any, limit: int) -> None:
    """TensorFlow Lite Micro keeps weights as codes of a lookup table or a Huffman tree, and says so in the metadata."""
    if model.MetadataLength() > limit // 4:
        raise ValueError("more entries than bytes")
    if COMPRESSED in {model.Metadata(index).Name() for index in range(model.MetadataLength())}:
        raise ModelError("its weights are compressed (lookup table or Huffman codes); give the file before compression")


def _scales(quantization: Any, name: str, kind: str, limit: int) -> tuple[np.ndarray, np.ndarray]:
    """Steps and zero points of a tensor, along one axis or for all of it."""
    if quantization.DetailsType():
        raise ModelError(f"tensor '{name}' has a quantization of its own kind; only scales and zero points are known")
    if max(quantization.ScaleLength(), quantization.ZeroPointLength()) > limit // 4:
        raise ValueError("more scales than bytes")
    scales = np.array(quantization.ScaleAsNumpy(), np.float32)
    zeros = np.array(quantization.ZeroPointAsNumpy() if quantization.ZeroPointLength() else [0], np.int64)
    if zeros.size not in (1, scales.size):
        raise ValueError(f"{scales.size} scales and {zeros.size} zero points of '{name}'")
    wrong = scales[~((scales >= LEAST_SCALE) & (scales <= MOST_SCALE))]  # a NaN is in no range
    if wrong.size:
        raise ModelError(f"tensor '{name}' has the scale {wrong[0]:g}, which no calibration gives; the file is damaged")
    codes = np.iinfo(kind) if kind in INTEGERS else np.iinfo(np.int32)
    if zeros.min() < codes.min or zeros.max() > codes.max:
        raise ModelError(f"tensor '{name}' has a zero point beyond {kind}; the file is damaged")
    return scales, zeros


def _tensor(model: Any, tensor: Any, number: int, limit: int) -> Tensor:
    name = (tensor.Name() or b"").decode("utf-8", "replace") or f"tensor{number}"
    if tensor.ShapeLength() > MAX_AXES:
        raise ValueError(f"a tensor of {tensor.ShapeLength()} axes")
    shape = tuple(int(tensor.Shape(axis)) for axis in range(tensor.ShapeLength()))
    if min(shape, default=1) < 0:
        raise ModelError(f"tensor '{name}' has the shape {list(shape)}; convert with a fixed shape")
    kind = TYPES.get(tensor.Type(), "")
    if tensor.Sparsity() is not None:
        raise ModelError(f"tensor '{name}' is sparse; store the weights densely")
    data = _data(model, tensor, name, shape, kind)
    quantization = tensor.Quantization()
    if quantization is None or not quantization.ScaleLength():
        return Tensor(name, shape, kind, data, None, None, 0, bool(tensor.IsVariable()))
    scales, zeros = _scales(quantization, name, kind, limit)
    axis = int(quantization.QuantizedDimension()) if len(shape) > 1 else 0  # old files: that of the weights for a bias
    if scales.size > 1 and (not 0 <= axis < len(shape) or shape[axis] != scales.size):
        raise ValueError(f"{scales.size} scales for '{name}' {list(shape)}")
    return Tensor(name, shape, kind, data, scales, zeros, axis, bool(tensor.IsVariable()))


def _data(model: Any, tensor: Any, name: str, shape: Shape, kind: str) -> np.ndarray | None:
    if not 0 <= tensor.Buffer() < model.BuffersLength():
        raise ValueError(f"'{name}' is in a buffer that is not there")
    buffer = model.Buffers(tensor.Buffer())
    if buffer.DataIsNone() or buffer.DataLength() == 0:
        if buffer.Size() > 1:
            raise ModelError(f"weights '{name}' lie behind the flatbuffer; convert a model of less than 2 GB")
        return None
    if tensor.Type() == tflite.TensorType.INT4:
        return _nibbles(buffer.DataAsNumpy(), element_count(shape)).reshape(shape)
    if not kind:
        known = TYPE_NAMES.get(tensor.Type(), tensor.Type())
        raise ModelError(f"weights '{name}' are {known}; supported are {', '.join(TYPES.values())}")
    if element_count(shape) * np.dtype(kind).itemsize != buffer.DataLength():
        raise ValueError(f"'{name}' {list(shape)} of {kind} in {buffer.DataLength()} B")
    values = np.frombuffer(buffer.DataAsNumpy().tobytes(), np.dtype(kind).newbyteorder("<")).reshape(shape)
    return values.astype(np.float32 if kind.startswith("float") else kind)


def _nibbles(data: np.ndarray, count: int) -> np.ndarray:
    """Numbers of 4 bits, two in a byte, the low one first."""
    if (count + 1) // 2 != data.size:
        raise ValueError(f"{count} numbers of 4 bits in {data.size} B")
    pairs = np.stack([data & 15, data >> 4], axis=1).reshape(-1)[:count].astype(np.int8)
    return np.where(pairs > 7, pairs - 16, pairs).astype(np.int8)


def _name_of(code: Any) -> str:
    kind = max(code.BuiltinCode(), code.DeprecatedBuiltinCode())  # newer files have both, older ones the second alone
    if kind == tflite.BuiltinOperator.CUSTOM and code.CustomCode():
        return str(code.CustomCode().decode("utf-8", "replace"))
    return str(tflite.BUILTIN_OPCODE2NAME.get(kind, f"{kind}"))


def _operation(model: Any, operator: Any, number: int, tensors: int) -> Operation:
    if not 0 <= operator.OpcodeIndex() < model.OperatorCodesLength():
        raise ValueError("an operator of no kind")
    op = _name_of(model.OperatorCodes(operator.OpcodeIndex()))
    if max(operator.InputsLength(), operator.OutputsLength()) > max(tensors, MOST_OPTIONAL):
        raise ValueError("more operands than tensors")
    inputs = tuple(int(operator.Inputs(index)) for index in range(operator.InputsLength()))
    outputs = tuple(int(operator.Outputs(index)) for index in range(operator.OutputsLength()))
    if not all(-1 <= i < tensors for i in inputs) or not all(0 <= i < tensors for i in outputs):
        raise ValueError("an operand that is no tensor")
    if not outputs and op not in WITHOUT_RESULTS:
        raise ValueError(f"{op} without a result")
    options: dict[str, Any] = {}
    table, names = OPTIONS.get(op, ("", ()))
    if table:
        found, given = getattr(tflite, table)(), operator.BuiltinOptions()
        if given is None:
            raise ValueError(f"{op} without options")
        found.Init(given.Bytes, given.Pos)
        options = {name: getattr(found, name)() for name in names}
    elif op in CUSTOM or op in NAMED:
        given = operator.CustomOptionsAsNumpy() if operator.CustomOptionsLength() else np.zeros(0, np.uint8)
        options = custom_options(op, given.tobytes())
    return Operation(op, number, inputs, outputs, options)
