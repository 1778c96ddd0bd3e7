"""How many .tflite files of a folder are read, lowered, and equal to TensorFlow Lite Micro in every tensor.

    python -m benchmarks.tflite_files FOLDER [--samples 3] [--all] [--golden]
    python -m benchmarks.tflite_files --operators

The oracle is the package `tflite-micro`: the runtime itself, all tensors kept. Inputs are random; a file with states is
run step by step, and each step is compared from the states that the runtime had before it; where these are numbers of
another kind than the input, it is run as a stream from its start. Integers have to be equal; float32 within 1e-4 of the
tensor's largest value, since sums have another order. One line for each file that is not equal everywhere (`--all`: for
every file), counts at the end; exits with 1 if one file that is read differs. `--golden`: files beside which their own
input and output lie (`NAME_input0_int16.csv`, `NAME_golden_int16.csv`, as in tflite-micro's integration tests), on that
input alone; the output that lies there is TensorFlow Lite's, and is compared with ours and the runtime's.
`--operators`: which operators of TensorFlow Lite Micro (its `micro_mutable_op_resolver.h`) are read.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tinyhil.compiler.calibrate import calibrate
from tinyhil.compiler.lower import lower
from tinyhil.errors import HilError
from tinyhil.frontend.ports import Stream
from tinyhil.frontend.tflite import tflite_model
from tinyhil.frontend.tflite_decode import DECODE
from tinyhil.frontend.tflite_file import read_file
from tinyhil.frontend.tflite_operators import OPERATORS
from tinyhil.frontend.tflite_reader import REFUSED as REFUSED_OPERATORS
from tinyhil.frontend.tflite_records import File
from tinyhil.language.assignment import Assignment
from tinyhil.language.graph import Graph
from tinyhil.references.evaluate import evaluate
from tinyhil.references.reference import dequantize_outputs, quantize_inputs, run_reference

ARENA_BYTES = 1 << 26
FLOAT_ERROR = 1e-4  # of the largest magnitude of a tensor
EVERYWHERE, AT_THE_OUTPUT, READ, REFUSED = "equal in every tensor", "equal at the output", "differs", "refused"
STEP = Stream((), rounding="tflm")  # states are inputs and outputs like others


RUNTIME = """
ABS ADD ADD_N ARG_MAX ARG_MIN ASSIGN_VARIABLE AVERAGE_POOL_2D BATCH_MATMUL BATCH_TO_SPACE_ND BROADCAST_ARGS BROADCAST_TO
CALL_ONCE CAST CEIL CIRCULAR_BUFFER CONCATENATION CONV_2D COS CUMSUM DEPTH_TO_SPACE DEPTHWISE_CONV_2D DEQUANTIZE DIV
DYNAMIC_UPDATE_SLICE ELU EMBEDDING_LOOKUP EQUAL EXP EXPAND_DIMS FILL FLOOR FLOOR_DIV FLOOR_MOD FULLY_CONNECTED GATHER
GATHER_ND GREATER GREATER_EQUAL HARD_SWISH IF L2_NORMALIZATION L2_POOL_2D LEAKY_RELU LESS LESS_EQUAL LOG LOG_SOFTMAX
LOGICAL_AND LOGICAL_NOT LOGICAL_OR LOGISTIC MAX_POOL_2D MAXIMUM MEAN MINIMUM MIRROR_PAD MUL NEG NOT_EQUAL PACK PAD PADV2
PRELU QUANTIZE READ_VARIABLE REDUCE_ALL REDUCE_MAX REDUCE_MIN RELU RELU6 RESHAPE RESIZE_BILINEAR RESIZE_NEAREST_NEIGHBOR
REVERSE_V2 ROUND RSQRT SELECT_V2 SHAPE SIN SLICE SOFTMAX SPACE_TO_BATCH_ND SPACE_TO_DEPTH SPLIT SPLIT_V SQRT SQUARE
SQUARED_DIFFERENCE SQUEEZE STRIDED_SLICE SUB SUM SVDF SignalDelay SignalEnergy SignalFftAutoScale SignalFilterBank
SignalFilterBankLog SignalFilterBankSpectralSubtraction SignalFilterBankSquareRoot SignalFramer SignalIrfft
SignalOverlapAdd SignalPCAN SignalRfft SignalStacker SignalWindow TANH TFLM_DECODE TFLite_Detection_PostProcess
TRANSPOSE TRANSPOSE_CONV UNIDIRECTIONAL_SEQUENCE_LSTM UNPACK VAR_HANDLE WHILE ZEROS_LIKE ethos-u
""".split()  # noqa: SIM905 - a table of words


def operators() -> str:
    """How many of the runtime's operators are read, and why others are not."""
    lacking = [op for op in RUNTIME if op not in OPERATORS and op != DECODE]
    reasons = [f"\n{op}: {REFUSED_OPERATORS.get(op, 'not read')}" for op in lacking]
    return f"{len(RUNTIME) - len(lacking)} of {len(RUNTIME)} operators are read{''.join(reasons)}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a file; `reason` is empty where every tensor is equal."""

    kind: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Golden:
    """A file on its own input: what became of it, and how many numbers of its own output are not ours, not the
    runtime's."""

    verdict: Verdict
    ours: int
    theirs: int


def oracle(
    data: bytes, file: File, samples: int, seed: int = 0, own: Mapping[int, np.ndarray] | None = None
) -> dict[int, np.ndarray]:
    """Number of a tensor of the main subgraph -> its content (samples, ...) in consecutive runs on random inputs, or on
    the inputs `own` (number of an input -> values) in each.

    RuntimeError where TensorFlow Lite Micro refuses the file.
    """
    from tflite_micro.python.tflite_micro import runtime

    interpreter = runtime.Interpreter.from_bytes(
        data, arena_size=ARENA_BYTES, intrepreter_config=runtime.InterpreterConfig.kPreserveAllTensors
    )
    rng, found = np.random.default_rng(seed), dict[int, list[np.ndarray]]()
    wanted = {*file.inputs, *(number for operation in file.operations for number in operation.outputs)}
    for _ in range(samples):
        random = (_random(rng, file.tensors[number].kind, file.tensors[number].shape) for number in file.inputs)
        given = [own[number] for number in file.inputs] if own else list(random)
        for index, values in enumerate(given):
            interpreter.set_input(values, index)
        for state in file.states:
            if file.tensors[state.read].is_variable:
                found.setdefault(state.read, []).append(_content(interpreter, state.read))
        interpreter.invoke()
        for number in wanted:
            if number in file.inputs:
                found.setdefault(number, []).append(given[file.inputs.index(number)])
            elif file.tensors[number].kind and not file.tensors[number].is_variable:
                found.setdefault(number, []).append(_content(interpreter, number))
    return {number: np.stack(values) for number, values in found.items()}


def _content(interpreter: Any, number: int) -> np.ndarray:
    return np.array(interpreter.GetTensor(number, 0)["tensor_data"])


def _random(rng: np.random.Generator, kind: str, shape: tuple[int, ...]) -> np.ndarray:
    if kind == "float32":
        return rng.normal(size=shape).astype(np.float32)
    if kind == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    ends = np.iinfo(kind)
    low, high = (ends.min, ends.max) if ends.bits <= 16 else (-32768, 32767)
    return rng.integers(low, high + 1, shape).astype(kind)


def record(file: File, parts: list[str], tensors: Mapping[int, np.ndarray]) -> np.ndarray:
    """What our model takes for what the oracle took: its inputs and states, flat, behind each other."""
    numbers = _numbers(file)
    columns = [tensors[numbers[name]].astype(np.float32) for name in parts]
    return np.concatenate([column.reshape(len(column), -1) for column in columns], axis=1)


def ours(
    data: bytes, path: Path, file: File, tensors: Mapping[int, np.ndarray], output: int, rounding: str = "tflm"
) -> np.ndarray:
    """Our integers (real numbers for floats) of tensor number `output`, (samples, elements), as `rounding` has them."""
    is_real = file.tensors[output].kind == "float32"
    if is_mixed(file):
        return streamed(data, path, file, tensors, output)
    graph = tflite_model(data, path, output, replace(STEP, rounding=rounding)).graph
    names = (
        [part.name for part in graph.parts]
        or [port for port in _ports(file) if port in graph.inputs]
        or _ports(file)[:1]
    )
    return results(file, graph, record(file, names, tensors), is_real)


def is_mixed(file: File) -> bool:
    """Whether states are of another kind than the inputs, so that they are no part of a record of one step."""
    return bool(file.states) and len({file.tensors[number].kind for number in _numbers(file).values()}) > 1


def streamed(data: bytes, path: Path, file: File, tensors: Mapping[int, np.ndarray], output: int) -> np.ndarray:
    """The same of every step of a stream that the states of the file go through."""
    found, is_real = [], file.tensors[output].kind == "float32"
    for steps in range(1, len(tensors[file.inputs[0]]) + 1):
        graph = tflite_model(data, path, output, Stream(steps=steps, rounding="tflm")).graph
        names = [part.name for part in graph.parts] or [file.tensors[number].name for number in file.inputs]
        found.append(results(file, graph, record(file, names, tensors)[None, :steps], is_real))
    return np.concatenate(found)


def results(file: File, graph: Graph, records: np.ndarray, is_real: bool) -> np.ndarray:
    """What the model in `graph` makes of records that are its inputs, (samples, elements); `is_real`: floats."""
    x = records.reshape(len(records), *graph.shapes[graph.inputs[0]])
    if not _is_quantized(file):
        return np.asarray(evaluate(graph, x)).reshape(len(x), -1)
    real = "float32" if is_real else "int8"
    program = lower(graph, Assignment(real, {}), calibrate(graph, x, {"name": "random"}))
    run = run_reference(program, quantize_inputs(program, x)[0])
    return dequantize_outputs(program, run.outputs)


def _numbers(file: File) -> dict[str, int]:
    """Tensor of every input and state, by name."""
    return {file.tensors[number].name: number for number in file.inputs} | {
        state.name: state.read for state in file.states
    }


def _ports(file: File) -> list[str]:
    return [*(file.tensors[number].name for number in file.inputs), *(state.name for state in file.states)]


def _is_quantized(file: File) -> bool:
    return any(file.tensors[number].kind in ("int8", "int16", "uint8") for number in (*file.inputs, *file.outputs))


def unequal(got: np.ndarray, wanted: np.ndarray) -> int:
    """How many elements differ."""
    wanted = wanted.reshape(len(wanted), -1)
    if wanted.dtype.kind != "f":
        return int((got != wanted.astype(np.float64)).sum())
    limit = FLOAT_ERROR * max(float(np.abs(wanted).max()), 1e-6)
    return int((~(np.abs(got - wanted) <= limit)).sum())


def verdict(path: Path, samples: int, own: Mapping[int, np.ndarray] | None = None) -> Verdict:
    """What becomes of the file at `path` on random inputs, or on its `own` (number of an input -> values)."""
    data = path.read_bytes()
    try:
        file = read_file(data)
        tflite_model(data, path, None, Stream(steps=1, rounding="tflm") if is_mixed(file) else STEP)
    except HilError as error:
        return Verdict(REFUSED, str(error).removeprefix(f"{path}: "))
    try:
        tensors = oracle(data, file, samples, own=own)
    except RuntimeError as error:
        return Verdict(REFUSED, f"TensorFlow Lite Micro refuses it: {error}")
    wrong = _differences(data, path, file, tensors, file.outputs)
    if wrong:
        return Verdict(READ, wrong)
    inner = [number for operation in file.operations for number in operation.outputs if number in tensors]
    left_out = {*file.outputs, *(state.read for state in file.states)}
    wrong = _differences(data, path, file, tensors, [number for number in inner if number not in left_out])
    return Verdict(AT_THE_OUTPUT, wrong) if wrong else Verdict(EVERYWHERE)


def _differences(data: bytes, path: Path, file: File, tensors: Mapping[int, np.ndarray], numbers: Sequence[int]) -> str:
    """The first of the tensors `numbers` that is not equal, and why; empty if all are."""
    makers = {number: operation.name for operation in file.operations for number in operation.outputs}
    for number in numbers:
        try:
            wrong = unequal(ours(data, path, file, tensors, number), tensors[number])
        except HilError as error:
            if "does not depend on the input" in str(error):
                continue
            return f"not lowered: {error}"
        if wrong:
            return f"{makers.get(number, 'an input')}: {wrong} of {tensors[number].size} numbers differ"
    return ""


def beside(path: Path, what: str) -> np.ndarray | None:
    """The numbers of `NAME_what_KIND.csv` beside the file NAME.tflite; None if there is no such table."""
    found = next(path.parent.glob(f"{path.stem}_{what}_*.csv"), None)
    return None if found is None else np.array(found.read_text().replace(",", " ").split(), np.int64)


def golden(path: Path) -> Golden | None:
    """What becomes of the file on the input that lies beside it; None where none does."""
    wanted = beside(path, "golden")
    if wanted is None:
        return None
    data = path.read_bytes()
    file, own = read_file(data), dict[int, np.ndarray]()
    for index, number in enumerate(file.inputs):
        values, tensor = beside(path, f"input{index}"), file.tensors[number]
        if values is None:
            return None
        own[number] = values.reshape(tensor.shape).astype(tensor.kind)
    found = verdict(path, 1, own)
    if found.kind == REFUSED:
        return Golden(found, wanted.size, wanted.size)
    tensors, output = oracle(data, file, 1, own=own), file.outputs[0]
    mine, theirs = ours(data, path, file, tensors, output), tensors[output]
    return Golden(found, int((mine.reshape(-1) != wanted).sum()), int((theirs.reshape(-1) != wanted).sum()))


def compare_golden(folder: Path, every: bool) -> int:
    """Prints a line for each file whose own output is not ours (`every`: for each), and the counts.

    1 if a tensor is not the runtime's, or no file has its own output.
    """
    found = {path: one for path in sorted(folder.rglob("*.tflite")) if (one := golden(path)) is not None}
    for path, one in found.items():
        if every or one.ours or one.verdict.reason:
            said = f"{one.verdict.kind}{f': {one.verdict.reason}' if one.verdict.reason else ''}"
            print(f"{path.relative_to(folder)}: {said}; not golden: {one.ours} of ours, {one.theirs} of the runtime's")
    whole = sum(one.verdict.kind == EVERYWHERE for one in found.values())
    print(f"{whole} of {len(found)} {EVERYWHERE} on their own inputs")
    wrong = f"{sum(one.ours for one in found.values())} numbers of ours, {sum(one.theirs for one in found.values())}"
    print(f"golden outputs: {sum(not one.ours for one in found.values())} equal; {wrong} of the runtime's differ")
    return 0 if whole == len(found) > 0 else 1


def main() -> int:
    """Prints a line for each file and the counts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--samples", type=int, default=3)
    parser.add_argument("--all", action="store_true", help="a line for equal files, too")
    parser.add_argument(
        "--golden", action="store_true", help="on the inputs, and against the outputs, beside the files"
    )
    parser.add_argument("--operators", action="store_true", help="which operators of the runtime are read")
    arguments = parser.parse_args()
    if arguments.operators or arguments.folder is None:
        print(operators())
        return 0
    if arguments.golden:
        return compare_golden(arguments.folder, arguments.all)
    counts: Counter[str] = Counter()
    for path in sorted(arguments.folder.rglob("*.tflite")):
        found = verdict(path, arguments.samples)
        counts[found.kind] += 1
        if arguments.all or found.reason:
            print(f"{path.relative_to(arguments.folder)}: {found.kind}{f': {found.reason}' if found.reason else ''}")
            sys.stdout.flush()
    print(", ".join(f"{counts[kind]} {kind}" for kind in (EVERYWHERE, AT_THE_OUTPUT, READ, REFUSED) if counts[kind]))
    return 1 if counts[READ] + counts[AT_THE_OUTPUT] else 0


if __name__ == "__main__":
    sys.exit(main())
