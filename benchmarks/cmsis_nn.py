"""Whether CMSIS-NN's own functions give the integers of `--tflite-rounding cmsis-nn`, layer by layer.

    python -m benchmarks.cmsis_nn CMSIS_NN FILE_OR_FOLDER... [--samples 3]

CMSIS_NN is a checkout of github.com/ARM-software/CMSIS-NN, whose functions of int8 and int16 are compiled for this
computer. Each of a file's layers that has one (convolutions, dense layers, sums, products, pools, Softmax) is given
what TensorFlow Lite Micro had there on random inputs, with the parameters that its kernels for CMSIS-NN prepare. One
line for each layer that is not equal, counts by operator at the end; exits with 1 if a number differs.
"""

from __future__ import annotations

import argparse
import ctypes
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchmarks.tflite_files import oracle, ours, unequal
from tinyhil.errors import HilError
from tinyhil.frontend.tflite_file import ACTIVATIONS, read_file
from tinyhil.frontend.tflite_records import File, Operation, Tensor
from tinyhil.harness.engines.rounding_rules import multiplier_of

SCRATCH_BYTES = 1 << 22
LIFT = {"int8": 20, "int16": 15}  # bits by which operands of a sum are raised
Arrays = Sequence[np.ndarray]


def compiled(source: Path, folder: Path) -> ctypes.CDLL:
    """Its functions of integers as a library of this computer; the program ends with a line where a compiler fails."""
    units = [unit for unit in sorted((source / "Source").rglob("*.c")) if unit.stem[-3:] not in ("f16", "f32", "flt")]
    made = folder / "cmsis_nn.so"
    done = subprocess.run(
        ["cc", "-O1", "-w", "-shared", "-fPIC", f"-I{source / 'Include'}", *map(str, units), "-o", str(made)],
        capture_output=True,
        text=True,
    )
    if not units or done.returncode:
        raise SystemExit(f"{source}: {done.stderr.splitlines()[0] if units else 'no sources of CMSIS-NN'}")
    return ctypes.CDLL(str(made))


@dataclass(frozen=True)
class Layer:
    """An operation with what it reads: `arrays` are its operands, constants too, None where one is left out."""

    library: ctypes.CDLL
    one: Operation
    tensors: tuple[Tensor | None, ...]
    result: Tensor
    arrays: tuple[np.ndarray | None, ...]
    memory: np.ndarray = field(default_factory=lambda: np.zeros(SCRATCH_BYTES, np.uint8))

    def operand(self, index: int) -> tuple[Tensor, np.ndarray]:
        """One that is there."""
        tensor, array = self.tensors[index], self.arrays[index]
        assert tensor is not None
        assert array is not None
        return tensor, array

    @property
    def bias(self) -> np.ndarray | None:
        """The third operand, if it is given."""
        return self.arrays[2] if len(self.arrays) > 2 else None

    @property
    def context(self) -> np.ndarray:
        """A `cmsis_nn_context` of the layer's scratch memory."""
        return np.array([self.memory.ctypes.data, SCRATCH_BYTES], np.uint64)

    @property
    def source(self) -> Tensor:
        assert self.tensors[0] is not None
        return self.tensors[0]

    def limits(self) -> tuple[int, int]:
        """The lowest and highest code after the fused activation."""
        ends, scale, zero = np.iinfo(self.result.kind), scale_of(self.result), zero_of(self.result)
        name = ACTIVATIONS[self.one.options.get("FusedActivationFunction", 0)]
        low, high = {"RELU": (0.0, np.inf), "RELU6": (0.0, 6.0), "RELU_N1_TO_1": (-1.0, 1.0)}.get(
            name, (-np.inf, np.inf)
        )
        codes = [
            end if np.isinf(x) else zero + round_half_away(x / scale) for x, end in ((low, ends.min), (high, ends.max))
        ]
        return max(codes[0], ends.min), min(codes[1], ends.max)

    def call(self, name: str, *arguments: object) -> np.ndarray:
        """What the function writes behind `arguments`; arrays go by reference, whole numbers as they are."""
        out = np.zeros(self.result.shape, self.result.kind)
        keep = [np.ascontiguousarray(one) for one in arguments if isinstance(one, np.ndarray)]
        arrays = iter(keep)
        given = [
            next(arrays).ctypes.data_as(ctypes.c_void_p) if isinstance(one, np.ndarray) else one for one in arguments
        ]
        at = next((index for index, one in enumerate(given) if one is OUT), len(given))
        given[at : at + 1] = [out.ctypes.data_as(ctypes.c_void_p)]
        status = getattr(self.library, name)(*[ctypes.c_int32(one) if isinstance(one, int) else one for one in given])
        if status and not name.startswith("arm_softmax"):  # which returns nothing
            raise ValueError(f"{name} returns {status}")
        return out

    def padding(self, height: int, width: int) -> tuple[int, int]:
        """Columns and rows in front, as the file's kernels count them."""
        o, (_, rows, columns, _) = self.one.options, self.source.shape
        if o["Padding"] != 0:  # VALID
            return 0, 0
        columns_in_front, rows_in_front = (
            max((-(-size // step) - 1) * step + (taps - 1) * apart + 1 - size, 0) // 2
            for size, step, taps, apart in (
                (columns, o["StrideW"], width, o.get("DilationWFactor", 1)),
                (rows, o["StrideH"], height, o.get("DilationHFactor", 1)),
            )
        )
        return columns_in_front, rows_in_front


OUT = object()  # where the result goes
NOTHING = ctypes.c_void_p(None)


def scale_of(tensor: Tensor) -> float:
    assert tensor.scales is not None
    return float(tensor.scales[0])


def zero_of(tensor: Tensor) -> int:
    return 0 if tensor.zeros is None else int(tensor.zeros[0])


def round_half_away(x: float) -> int:
    return int(np.copysign(np.floor(abs(x) + 0.5), x))


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


def dims(shape: Sequence[int]) -> np.ndarray:
    return ints(*[1] * (4 - len(shape)), *shape)


def suffix(layer: Layer) -> str:
    return "s8" if layer.source.kind == "int8" else "s16"


def convolution(layer: Layer) -> np.ndarray:
    """With a scale per channel."""
    (source, x), (filters, weights), bias = layer.operand(0), layer.operand(1), layer.bias
    is_depthwise, (_, height, width, _) = layer.one.op == "DEPTHWISE_CONV_2D", filters.shape
    outputs, o, kind = layer.result.shape[3], layer.one.options, suffix(layer)
    scales = np.broadcast_to(np.asarray(filters.scales, np.float64), (outputs,))
    pairs = [multiplier_of(float(np.float64(scale_of(source)) * one / scale_of(layer.result))) for one in scales]
    factors = [np.array([pair[at] for pair in pairs], np.int32) for at in (0, 1)]
    quant = np.array([one.ctypes.data for one in factors], np.uint64)
    more = [outputs // source.shape[3]] if is_depthwise else []
    steps = [o["StrideW"], o["StrideH"], *layer.padding(height, width), o["DilationWFactor"], o["DilationHFactor"]]
    params = ints(-zero_of(source), zero_of(layer.result), *more, *steps, *layer.limits())
    given = NOTHING if bias is None else bias
    if kind == "s16" and not is_depthwise:  # a `cmsis_nn_bias_data`
        wide = (0, 0) if bias is None else (bias.ctypes.data, int(bias.dtype == np.int32))
        given = np.array(wide, np.uint64)
    name = f"arm_{'depthwise_conv' if is_depthwise else 'convolve'}_wrapper_{kind}"
    sizes = [dims(shape) for shape in (source.shape, filters.shape, [outputs], layer.result.shape)]
    begin = (layer.context, params, quant)
    return layer.call(name, *begin, sizes[0], x, sizes[1], weights, sizes[2], given, sizes[3], OUT)


def dense(layer: Layer) -> np.ndarray:
    """With one scale of all weights, whose product with the input's is taken in single precision."""
    (source, x), (filters, weights) = layer.operand(0), layer.operand(1)
    outputs, inputs = filters.shape
    rows = x.size // inputs
    product = np.float32(scale_of(source)) * np.float32(scale_of(filters))
    quant = ints(*multiplier_of(float(product) / scale_of(layer.result)))
    params = ints(-zero_of(source), -zero_of(filters), zero_of(layer.result), *layer.limits())
    sizes = [dims(shape) for shape in ([rows, 1, 1, inputs], [inputs, 1, 1, outputs], [outputs], [rows, 1, 1, outputs])]
    given, begin = NOTHING if layer.bias is None else layer.bias, (layer.context, params, quant)
    name = f"arm_fully_connected_{suffix(layer)}"
    return layer.call(name, *begin, sizes[0], x, sizes[1], weights, sizes[2], given, sizes[3], OUT)


def pool(layer: Layer) -> np.ndarray:
    """Means or largest elements."""
    o, (source, x) = layer.one.options, layer.operand(0)
    height, width = o["FilterHeight"], o["FilterWidth"]
    params = ints(o["StrideW"], o["StrideH"], *layer.padding(height, width), *layer.limits())
    name = f"arm_{'avgpool' if layer.one.op == 'AVERAGE_POOL_2D' else 'max_pool'}_{suffix(layer)}"
    sizes = dims(source.shape), ints(1, height, width, 1), dims(layer.result.shape)
    return layer.call(name, layer.context, params, sizes[0], x, sizes[1], sizes[2], OUT)


def pair(layer: Layer) -> np.ndarray:
    """Sum or product, element by element."""
    (first, a), (second, b) = layer.operand(0), layer.operand(1)
    a, b = (np.broadcast_to(one, layer.result.shape) for one in (a, b))
    result, zero = scale_of(layer.result), zero_of(layer.result)
    offsets, size, kind = (-zero_of(first), -zero_of(second)), int(a.size), suffix(layer)
    if layer.one.op == "MUL":
        product = np.float32(scale_of(first)) * np.float32(scale_of(second))
        factor = multiplier_of(float(np.float32(product) / np.float32(result)))
        return layer.call(f"arm_elementwise_mul_{kind}", a, b, *offsets, OUT, zero, *factor, *layer.limits(), size)
    lift = LIFT[first.kind]
    wide = 2.0 * max(scale_of(first), scale_of(second))
    one, other = (multiplier_of(scale_of(side) / wide) for side in (first, second))
    last = multiplier_of(wide / ((1 << lift) * result))
    operands = (offsets[0], *one, offsets[1], *other)
    return layer.call(f"arm_elementwise_add_{kind}", a, b, *operands, lift, OUT, zero, *last, *layer.limits(), size)


def softmax(layer: Layer) -> np.ndarray:
    """Along the last axis."""
    source, x = layer.operand(0)
    raised = min(layer.one.options["Beta"] * scale_of(source) * (1 << 26), (1 << 31) - 1.0)
    multiplier, shift = multiplier_of(raised)
    least = -int(np.floor(31 * (1 << 26) / 2.0**shift))
    name = "arm_softmax_s8" if layer.result.kind == "int8" else "arm_softmax_s8_s16"
    size = x.shape[-1]
    return layer.call(name, x, x.size // size, size, multiplier, shift, least, OUT)


FUNCTIONS: Mapping[str, Callable[[Layer], np.ndarray]] = {
    "CONV_2D": convolution,
    "DEPTHWISE_CONV_2D": convolution,
    "FULLY_CONNECTED": dense,
    "AVERAGE_POOL_2D": pool,
    "MAX_POOL_2D": pool,
    "ADD": pair,
    "MUL": pair,
    "SOFTMAX": softmax,
}


def layers(library: ctypes.CDLL, file: File, tensors: Mapping[int, np.ndarray], sample: int) -> Iterator[Layer]:
    """Those of the file that have a function, with what they read in run number `sample`."""
    for one in (one for one in file.operations if one.op in FUNCTIONS):
        read = [file.tensors[number] if number >= 0 else None for number in one.inputs]
        arrays = [
            None if tensor is None else tensor.data if tensor.data is not None else tensors[number][sample]
            for number, tensor in zip(one.inputs, read, strict=True)
            if tensor is None or tensor.data is not None or number in tensors
        ]
        kinds = [tensor.kind for tensor in (read[0], file.tensors[one.outputs[0]]) if tensor is not None]
        is_softmax = one.op != "SOFTMAX" or kinds[0] == "int8"
        if set(kinds) <= set(LIFT) and len(arrays) == len(read) and is_softmax:
            yield Layer(library, one, tuple(read), file.tensors[one.outputs[0]], tuple(arrays))


def compare(library: ctypes.CDLL, path: Path, samples: int) -> tuple[Counter[str], Counter[str], list[str]]:
    """By operator and type: layers, numbers; and what differs, a line each."""
    data = path.read_bytes()
    file, counts, numbers, wrong = read_file(data), Counter[str](), Counter[str](), list[str]()
    tensors = oracle(data, file, samples)
    for at, first in enumerate(layers(library, file, tensors, 0)):
        output = first.one.outputs[0]
        mine = ours(data, path, file, tensors, output, "cmsis-nn")
        theirs = [list(layers(library, file, tensors, sample))[at] for sample in range(samples)]
        found = np.stack([FUNCTIONS[first.one.op](layer) for layer in theirs])
        kind = f"{first.one.op} {first.source.kind}"
        counts[kind] += 1
        numbers[kind] += found.size
        if differing := unequal(mine, found):
            wrong.append(f"{path.name} {first.one.name}: {differing} of {found.size} numbers differ")
    return counts, numbers, wrong


def main() -> int:
    """Prints what differs, and the counts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cmsis_nn", type=Path)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--samples", type=int, default=3)
    arguments = parser.parse_args()
    paths = [path for one in arguments.files for path in (sorted(one.rglob("*.tflite")) if one.is_dir() else [one])]
    counts, numbers, wrong = Counter[str](), Counter[str](), list[str]()
    with tempfile.TemporaryDirectory() as folder:
        library = compiled(arguments.cmsis_nn, Path(folder))
        for path in paths:
            try:
                found = compare(library, path, arguments.samples)
            except (HilError, RuntimeError) as error:
                print(f"{path.name}: left out: {str(error)[:160]}")
                continue
            counts, numbers, wrong = counts + found[0], numbers + found[1], wrong + found[2]
            print(*found[2], sep="\n", end="\n" if found[2] else "")
    for kind in sorted(counts):
        print(f"{kind}: {counts[kind]} layers, {numbers[kind]:,} numbers")
    print(f"{len(wrong)} of {counts.total()} layers differ")
    return 1 if wrong or not counts else 0


if __name__ == "__main__":
    sys.exit(main())
