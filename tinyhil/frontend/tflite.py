"""TensorFlow Lite file -> Model: its operators as ONNX's, planes first, quantized values with the file's own scales.

A tensor is held as it is in the file, (batch, height, width, channels), or as planes, (batch, channels, height, width),
or both: whoever reads it asks for the form it needs, and a Transpose is added where that form is not there yet.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from tinyhil import files
from tinyhil.errors import ModelError
from tinyhil.frontend.builder import Builder
from tinyhil.frontend.listing import Model
from tinyhil.frontend.ports import ANY_STREAM, LONG, WHOLE, Fill, Port, Stream, connect
from tinyhil.frontend.rewrite_quantized import KINDS
from tinyhil.frontend.tflite_cells import CURVES, micro_curve
from tinyhil.frontend.tflite_file import read_file, whole
from tinyhil.frontend.tflite_operators import OPERATORS
from tinyhil.frontend.tflite_reader import Reader
from tinyhil.frontend.tflite_records import File, State, Tensor
from tinyhil.frontend.tflite_signal import WHOLE as OF_WHOLES


def load_tflite(path: Path, stream: Stream = ANY_STREAM) -> Model:
    """Read, check and convert a .tflite file; several inputs, outputs and states as ports.py says.

    ModelError on a damaged file, an unsupported operator or option, or values that are not finite.
    """
    data = files.read_bytes(path, "model", files.MOST_MODEL_BYTES, ModelError)
    try:
        return tflite_model(data, path, stream=stream)
    except ModelError as error:
        raise ModelError(f"{path}: {' '.join(str(error).split())}") from None  # names may hold line breaks


def tflite_model(data: bytes, path: Path, output: int | None = None, stream: Stream = ANY_STREAM) -> Model:
    """The model in `data`, called after `path`; its result is tensor number `output` alone where that is given, of one
    step without its states, or of the last of as many steps as `stream` says."""
    file = replace(read_file(data), runtime=stream.rounding)
    is_step = output is not None and stream.steps is None
    if output is not None:
        file = replace(file, outputs=(output,))
    stream = replace(stream, states=()) if is_step else stream
    return whole(lambda: _model(file, path, hashlib.sha256(data).hexdigest(), stream, not is_step))


def _model(file: File, path: Path, sha256: str, stream: Stream, with_states: bool) -> Model:
    """`with_states`: what the states become is an output, too."""
    lasting = file.states if with_states else ()
    numbers = {file.tensors[number].name: number for number in file.inputs}
    read = {number for operation in file.operations for number in operation.inputs} | set(file.outputs)
    unread = [name for name, number in numbers.items() if number not in read or _gives_a_shape(file, number)]

    def start() -> tuple[Builder, Fill]:
        reader = Reader(file, OPERATORS, OF_WHOLES)

        def fill(values: Mapping[str, str]) -> tuple[str, ...]:
            for name, value in values.items():
                if name in numbers:
                    reader.take(numbers[name], value)
                else:
                    reader.held[name] = value
            return (*reader.results(bool(lasting)), *(reader.held[state.name] for state in lasting))

        return reader.builder, fill

    ports = [port_of(file.tensors[number]) for name, number in numbers.items() if name not in unread]
    ports += [state_port(file.tensors[state.read], state) for state in file.states]
    names = [*(file.tensors[number].name for number in file.outputs), *(_next(state.name) for state in lasting)]
    builder, ends = connect(start, ports, names, _with_states(stream, file))
    graph, listing = builder.finish(path.stem, ends)
    notes = [*rounding_notes(file), *(f"input '{name}' changes nothing and is left out" for name in unread)]
    return Model(graph, path, sha256, listing, notes=(*ends.notes, *notes), stream=ends.stream)


def rounding_notes(file: File) -> list[str]:
    """Whose integers fully connected layers, LOGISTIC and TANH of int8 and RELU6 between scales have, if there are."""
    runtime, found = "TensorFlow Lite Micro's" if file.rounds_twice else "LiteRT's", []
    if "int8" in {file.tensors[o.inputs[1]].kind for o in file.operations if o.op == "FULLY_CONNECTED"}:
        how = "twice, as TensorFlow Lite Micro's and CMSIS-NN's" if file.rounds_twice else "once, as LiteRT's"
        found.append(f"fully connected layers round {how} (--tflite-rounding)")
    ends = [
        (file.tensors[o.inputs[0]].scales, file.tensors[o.outputs[0]].scales)
        for o in file.operations
        if o.op == "RELU6"
    ]
    if any(a is not None and b is not None and a.tolist() != b.tolist() for a, b in ends):
        how = "clamps codes and rescales none" if file.rounds_twice else "rescales"
        found.append(f"RELU6 between scales {how}, as {runtime} (--tflite-rounding)")
    if any(o.op in CURVES and micro_curve(file, o) is not None for o in file.operations):
        found.append(f"almost ties of LOGISTIC and TANH are rounded as {runtime} (--tflite-rounding)")
    return found


def _next(name: str) -> str:
    """The output that is a state after the step."""
    return f"{name}.next"


def _with_states(stream: Stream, file: File) -> Stream:
    """The states that the file says, beside those that the user names; none of them where these are denied."""
    if not file.states or stream.states == ():
        return stream
    said = tuple((state.name, _next(state.name)) for state in file.states)
    return replace(stream, states=(*(pair for pair in stream.states or () if pair not in said), *said))


def _gives_a_shape(file: File, number: int) -> bool:
    """Whether a tensor is read as the shape of a result alone, which the file states beside."""
    readers = {(o.op, o.inputs.index(number)) for o in file.operations if number in o.inputs}
    return bool(readers) and readers <= {("TRANSPOSE_CONV", 0), ("RESHAPE", 1), ("BROADCAST_TO", 1), ("FILL", 0)}


def state_port(tensor: Tensor, state: State) -> Port:
    """Of whole numbers of 32 bits what computes the next one says the format (tinyhil/ops/whole.py)."""
    port = Port("", tensor.shape) if tensor.kind in ("int32", "uint32") else port_of(tensor)
    return replace(port, name=state.name, start=state.start)


def port_of(tensor: Tensor) -> Port:
    """An input; ModelError for what is none."""
    if tensor.kind in ("bool", "int32", "int64") and tensor.scales is None:
        return Port(tensor.name, tensor.shape, WHOLE)
    if tensor.kind == LONG:
        return Port(tensor.name, tensor.shape, LONG)
    if tensor.kind not in ("float32", *KINDS):
        raise ModelError(f"input '{tensor.name}' is {tensor.kind or 'of an unknown type'}; use float32 or int8")
    if tensor.kind == "float32":
        return Port(tensor.name, tensor.shape)
    if tensor.kind in ("int8", "int16") and tensor.scales is None:
        return Port(tensor.name, tensor.shape, tensor.kind)
    if tensor.scales is None or tensor.zeros is None:
        raise ModelError(f"input '{tensor.name}' is {tensor.kind} without a scale; convert again")
    return Port(tensor.name, tensor.shape, tensor.kind, int(tensor.zeros.reshape(-1)[0]))
