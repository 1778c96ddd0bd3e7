"""TinyMaix: layer after layer of an int8 chain, requantized in float; its model is written here from a .tflite file."""

from __future__ import annotations

import hashlib
import struct

import numpy as np

from tinyhil import files
from tinyhil.errors import BuildError, ModelError
from tinyhil.frontend.tflite_file import ACTIVATIONS, read_file
from tinyhil.frontend.tflite_records import File, Operation, Tensor
from tinyhil.harness.engines.engine import Built, Engine, Task
from tinyhil.harness.engines.objects import Recipe, archive, engine_folder, header_of_bench
from tinyhil.harness.engines.rounding_rules import pads_of
from tinyhil.harness.engines.tflite_ends import MOST_MODEL_BYTES, ends_of
from tinyhil.language.graph import element_count
from tinyhil.passes.variants import DSP

CONV, GAP, FC, SOFTMAX, RESHAPE, DEPTHWISE = range(6)  # as include/tinymaix.h numbers them
LAYERS = {"CONV_2D": CONV, "DEPTHWISE_CONV_2D": DEPTHWISE, "FULLY_CONNECTED": FC, "SOFTMAX": SOFTMAX}
LAYERS |= {"MEAN": GAP, "AVERAGE_POOL_2D": GAP, "RESHAPE": RESHAPE, "SQUEEZE": RESHAPE}
FUSED = {"NONE": 0, "RELU": 1, "RELU6": 3}
HEAD_BYTES = 48
PORT = (  # what TinyMaix asks one to write into its tm_port.h
    "__TM_PORT_H TM_ARCH_CPU=0 TM_ARCH_ARM_SIMD=1 TM_OPT0=0 TM_OPT1=1 TM_OPT_LEVEL=1 TM_MDL_TYPE=0 TM_FASTSCALE=0 "
    "TM_LOCAL_MATH=0 TM_ENABLE_STAT=0 tm_malloc(x)=0 tm_free(x)= TM_PRINTF(...)= TM_DBGT_INIT()= TM_PERF_INIT(x)= "
    "TM_PERF_START(x)= TM_PERF_ADD(x)= TM_WEAK=__attribute__((weak))"
)
INLINE = "TM_INLINE=__attribute__((always_inline)) static inline"
GLUE = """\
#include "tinymaix.h"
#include "firmware/bench/hil_bench.h"

static const uint8_t model[] __attribute__((aligned(8))) = {{{model}}};
static uint8_t memory[{memory}] __attribute__((aligned(8)));
static tm_mdl_t loaded;
static tm_mat_t input, output;
void hil_engine_init(void) {{ if (tm_load(&loaded, model, memory, 0, &input) != TM_OK) __builtin_trap(); }}
void *hil_engine_input(void) {{ return input.data; }}
void hil_engine_invoke(void) {{ if (tm_run(&loaded, &input, &output) != TM_OK) __builtin_trap(); }}
const void *hil_engine_output(void) {{ return output.data; }}
"""


def build(task: Task) -> Built:
    """ModelError for what TinyMaix has no layer for; BuildError for a core of 8 bits, whose flash it does not read."""
    core = task.board.chip.core
    if core == "avr":
        raise BuildError(f"{task.board.name}: TinyMaix reads its model from ordinary memory; choose a board of 32 bits")
    content = read_file(files.read_bytes(task.model, "model", MOST_MODEL_BYTES))
    model, memory = model_of(content)
    text = GLUE.format(model=",".join(map(str, model)), memory=memory)
    glue = engine_folder(task) / f"tinymaix-{hashlib.sha256(text.encode()).hexdigest()[:16]}.c"
    files.write_text(glue, text)
    kernels = [content.tensors[one.inputs[1]].shape for one in content.operations if "CONV" in one.op]
    sizes = [(1, 1, 1), *((s[1] * s[2], element_count(s[1:]), max(s[0], s[3])) for s in kernels)]
    largest = [f"TM_MAX_{name}={max(one)}" for name, *one in zip(("KSIZE", "KCSIZE", "CSIZE"), *sizes, strict=True)]
    words = (*PORT.split(), INLINE, f"TM_ARCH={int(core in DSP)}", *largest)
    recipe = Recipe((*(f"-D{word}" for word in words), f"-I{task.source}/include", header_of_bench(task)))
    sources = [task.source / "src" / name for name in ("tm_model.c", "tm_layers.c", "tm_layers_O1.c")]
    made = archive(task, [(source, recipe) for source in (*sources, glue)])
    return Built(*ends_of(content, task), archive=made, arena_bytes=memory)


def model_of(content: File) -> tuple[bytes, int]:
    """The file, and the bytes of its memory, whose ends layers read and write in turn. ModelError for another layer."""
    source, target = (content.tensors[side[0]] for side in (content.inputs, content.outputs))
    moving = [one for one in content.operations if LAYERS.get(one.op, RESHAPE) != RESHAPE]
    memory = max((sum(_bytes(content, one, n) for n in (one.inputs[0], one.outputs[0])) for one in moving), default=0)
    layers, at, value = [], 0, content.inputs[0]
    for one in content.operations:
        kind = LAYERS.get(one.op)
        if kind is None or one.inputs[0] != value:
            raise ModelError(f"{one.name}: TinyMaix takes a chain of {', '.join(sorted(LAYERS))}")
        value = one.outputs[0]
        to = at if kind == RESHAPE else memory - _bytes(content, one, value) if at == 0 else 0
        layers.append(_layer(content, one, kind, (at, to)))
        at = to
    head = struct.pack("<4sBBHHHII", b"MAIX", 0, 0, 1, 1, len(layers), memory, 0)
    return head + struct.pack("<8H28x", *_dims(source), *_dims(target)) + b"".join(layers), memory


def _bytes(content: File, one: Operation, number: int) -> int:
    """Softmax computes float32 where its output will be."""
    floats = one.op == "SOFTMAX" and number == one.outputs[0]
    return -(-element_count(content.tensors[number].shape) * (4 if floats else 1) // 8) * 8


def _layer(content: File, one: Operation, kind: int, places: tuple[int, int]) -> bytes:
    source, target = (content.tensors[number] for number in (one.inputs[0], one.outputs[0]))
    name = ACTIVATIONS[one.options.get("FusedActivationFunction", 0)]
    if name not in FUSED or (kind == FC and FUSED[name]):
        raise ModelError(f"{one.name}: TinyMaix has no {name} there")
    if kind == GAP and element_count(target.shape) != target.shape[-1]:
        raise ModelError(f"{one.name}: TinyMaix pools over whole maps alone")
    ends = (*places, *_dims(source), *_dims(target), *_quantized(source), *_quantized(target))
    body = _weighted(content, one, kind, FUSED[name]) if kind in (CONV, DEPTHWISE, FC) else b""
    is_out = one.outputs[0] == content.outputs[0]
    return struct.pack("<HHIII8Hfifi", kind, is_out, HEAD_BYTES + len(body), *ends) + body


def _weighted(content: File, one: Operation, kind: int, activation: int) -> bytes:
    """Weights as (output, input, height, width); the input's zero point goes into the bias."""
    source, weights = (content.tensors[number] for number in one.inputs[:2])
    if weights.data is None or weights.scales is None:
        raise ModelError(f"{one.name}: TinyMaix takes constant weights with scales")
    order = {CONV: (0, 3, 1, 2), DEPTHWISE: (3, 0, 1, 2), FC: (0, 1)}[kind]
    w = weights.data.transpose(order).reshape(weights.shape[order[0]], -1).astype(np.int64)
    if kind == FC and len(np.unique(weights.scales)) > 1:
        raise ModelError(f"{one.name}: TinyMaix's dense layers have one scale for all weights")
    scales = np.resize(weights.scales, len(w)).astype("<f4")
    scales[1 if kind == FC else len(w) :] = 0  # a dense layer's others are not read: zeros, as its own tool writes
    biases = [content.tensors[number].data for number in one.inputs[2:] if number >= 0]
    b = sum((bias.astype(np.int64) for bias in biases if bias is not None), -_quantized(source)[1] * w.sum(1))
    parts = [
        part + bytes(-len(part) % 8) for part in map(np.ndarray.tobytes, (scales, w.astype("i1"), b.astype("<i4")))
    ]
    head = b"" if kind == FC else _window(one, weights.shape, source.shape, kind, activation)
    at = HEAD_BYTES + len(head) + (16 if kind == FC else 12)
    places = struct.pack("<III", at, at + len(parts[0]), at + len(parts[0]) + len(parts[1]))
    return head + places + (bytes(4) if kind == FC else b"") + b"".join(parts)


def _window(one: Operation, kernel: tuple[int, ...], size: tuple[int, ...], kind: int, activation: int) -> bytes:
    """TinyMaix's record of a kernel that slides: sizes (width, height), steps, padding (top, bottom, left, right)."""
    steps = one.options["StrideH"], one.options["StrideW"]
    pads = [pad for pair in pads_of(one, size[1:3], kernel[1:3]) for pad in pair]
    dilation = one.options["DilationWFactor"], one.options["DilationHFactor"]
    multiplier = kernel[3] // size[3] if kind == DEPTHWISE else 0
    return struct.pack("<6BH4BII", kernel[2], kernel[1], *steps[::-1], *dilation, activation, *pads, multiplier, 0)


def _dims(tensor: Tensor) -> tuple[int, ...]:
    """Number of axes, height, width, channels, without the sample's. ModelError for more axes."""
    if len(shape := tensor.shape[1:]) > 3:
        raise ModelError(f"'{tensor.name}' is of {tensor.shape}; TinyMaix has height, width and channels alone")
    return (len(shape), *(1,) * (3 - len(shape)), *shape)


def _quantized(tensor: Tensor) -> tuple[float, int]:
    if tensor.scales is None or tensor.zeros is None or tensor.kind != "int8":
        raise ModelError(f"'{tensor.name}' is of {tensor.kind}; TinyMaix takes int8 with a scale")
    return float(tensor.scales[0]), int(tensor.zeros[0])


GET = "git clone https://github.com/sipeed/TinyMaix"
TINYMAIX = Engine("tinymaix", "TinyMaix, int8", "Apache-2.0", (".tflite",), (GET,), "TinyMaix", "src/tm_model.c", build)
