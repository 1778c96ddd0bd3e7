"""Damaged models for the fuzzers: ONNX files below and above the file format, DSL texts by characters and by tokens.

Everything is drawn from one `random.Random`, so a case is named by its seed.
"""

from __future__ import annotations

import random
import re
import resource
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import FrameType

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, helper, numpy_helper
from onnx_models import graph, model, node, simple
from scan_models import SCANS
from test_dsl import ERRORS, LET, MEANINGS
from test_dsl_roundtrip import GRAPHS, TEXTS
from test_exporters import trees
from test_ops_shapes import MODELS as SHAPES
from test_ops_windows import MODELS as WINDOWS
from test_tflite_cells import FILES as CELLS

from tinyhil.frontend.dsl_writer import write_dsl
from tinyhil.frontend.onnx import model_of
from tinyhil.frontend.rewrites import CONTROL, REWRITE_BY_NAME
from tinyhil.ops import LOOP_BY_NAME, OPERATOR_BY_NAME

SECONDS_PER_CASE = 20
EXTRA_MEMORY_BYTES = 6 << 30
SIZES = (0, 1, 2, 3, 4, 5, 7, 12, 100, 4096, -1, -2, 1 << 16, 1 << 24, 1 << 31, 1 << 40, (1 << 63) - 1, -(1 << 63))
NUMBERS = (0.0, -0.0, 1.0, -1.0, 0.5, 1e-45, 3e38, -3e38, float("inf"), float("-inf"), float("nan"))
WORDS = ("", "constant", "SAME_UPPER", "LINEAR", "forward", "reflect", "linear", "\N{SNOWMAN}", "x" * 200)
OPERATORS = sorted({*OPERATOR_BY_NAME, *LOOP_BY_NAME, *REWRITE_BY_NAME, *CONTROL, "Constant", "NonZero", "Softsign"})
CLASSICAL = (
    "LinearClassifier",
    "LinearRegressor",
    "Normalizer",
    "Scaler",
    "TreeEnsembleClassifier",
    "TreeEnsembleRegressor",
)
TOKEN = re.compile(r"//[^\n]*|[A-Za-z_]\w*|\d+\.?\d*(?:e[+-]?\d+)?|\^T|<.>|\|\*\||:\+|\s+|.", re.DOTALL)


class HangError(Exception):
    """A case took longer than it may."""


@contextmanager
def limited() -> Iterator[None]:
    """Within a time and an amount of memory; what exceeds them raises."""

    def ring(number: int, frame: FrameType | None) -> None:
        raise HangError(f"more than {SECONDS_PER_CASE} s")

    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    before = signal.signal(signal.SIGALRM, ring)
    resource.setrlimit(resource.RLIMIT_AS, (used + EXTRA_MEMORY_BYTES, hard))
    signal.setitimer(signal.ITIMER_REAL, SECONDS_PER_CASE)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


# ---- ONNX


def branch() -> onnx.ModelProto:
    """If on a computed condition, with a Loop inside one branch."""
    step = helper.make_tensor_value_info("i", TensorProto.INT64, ())
    goes_on = helper.make_tensor_value_info("c", TensorProto.BOOL, ())
    body = graph([node("Identity", "c", "c2"), node("Tanh", "h", "h2")], {"h": (1, 4)}, {"h2": (1, 4)}, name="body")
    body.input.insert(0, goes_on)
    body.input.insert(0, step)
    body.output.insert(0, helper.make_tensor_value_info("c2", TensorProto.BOOL, ()))
    loop = helper.make_node("Loop", ["n", "", "x"], ["t"], name="loop", body=body)
    then = graph([loop], {}, {"t": (1, 4)}, {"n": np.array(3)}, name="then")
    otherwise = graph([node("Neg", "x", "e")], {}, {"e": (1, 4)}, name="else")
    total = node("ReduceSum", "x", "s", keepdims=0)
    choose = helper.make_node("If", ["p"], ["y"], name="if", then_branch=then, else_branch=otherwise)
    return model(graph([total, node("Greater", "s zero", "p"), choose], {"x": (1, 4)}, {"y": (1, 4)}, {"zero": 0.0}))


def recurrent() -> onnx.ModelProto:
    chance = np.random.default_rng(5)
    constants = {"w": chance.normal(size=(1, 12, 3)), "r": chance.normal(size=(1, 12, 3)), "b": np.zeros((1, 24))}
    lstm = node("LSTM", "x w r b", "all last", hidden_size=3)
    return simple([lstm, node("Relu", "last", "y")], {"x": (5, 1, 3)}, constants)


def learned() -> onnx.ModelProto:
    made = simple([node("Relu", "x", "y")], {"x": (1, 3)})
    attrs = {"coefficients": [0.5] * 6, "intercepts": [0.1, -0.1], "classlabels_ints": [0, 1]}
    first = helper.make_node(
        "LinearClassifier", ["x"], ["l", "s"], domain="ai.onnx.ml", post_transform="SOFTMAX", **attrs
    )
    second = helper.make_node("Normalizer", ["s"], ["y"], domain="ai.onnx.ml", norm="L1")
    made.graph.node[0].CopyFrom(first)
    made.graph.node.append(second)
    made.graph.output[0].type.tensor_type.shape.dim[1].dim_value = 2
    made.opset_import.append(helper.make_opsetid("ai.onnx.ml", 3))
    return made


@cache
def onnx_corpus() -> tuple[bytes, ...]:
    """Valid models that use every part of the front end."""
    protos = [make() for make in SCANS.values()]
    protos += [GRAPHS[name]() for name in ("odd_names", "numbers", "collected")]
    protos += [simple(nodes, {"x": shape}, constants) for nodes, shape, constants in SHAPES.values()]
    protos += [make(name)[0] for name, make in WINDOWS.items()]
    protos += [branch(), recurrent(), learned(), trees()] * 5
    return tuple(proto.SerializeToString() for proto in protos)


def onnx_mutant(chance: random.Random) -> bytes:
    """A damaged file: below the file format one time in three."""
    data = chance.choice(onnx_corpus())
    if chance.randrange(3) == 0:
        return damaged_bytes(chance, data)
    proto = onnx.load_model_from_string(data)
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        damage_graph(chance, proto)
    return proto.SerializeToString()


def damaged_bytes(chance: random.Random, original: bytes, corpus: Sequence[bytes] = ()) -> bytes:
    """Bytes changed, cut out, doubled or replaced, or the end of another file of `corpus`."""
    data = bytearray(original)
    for _ in range(chance.choice((1, 1, 1, 2, 5))):
        if not data:
            break
        at, length = chance.randrange(len(data)), chance.choice((1, 1, 2, 8, 40))
        match chance.randrange(6):
            case 0:
                data[at] = chance.randrange(256)
            case 1:
                data[at] ^= 1 << chance.randrange(8)
            case 2:
                del data[at : at + length]
            case 3:
                data[at:at] = data[at : at + length] * chance.choice((1, 1, 50))
            case 4:
                data[at : at + length] = chance.randbytes(length)
            case 5:
                data[at:] = chance.choice(corpus or onnx_corpus())[at:]
    return bytes(data)


# ---- TensorFlow Lite


@cache
def tflite_corpus() -> tuple[bytes, ...]:
    """A file for each operator of whose kind there is one test: subgraphs, states, options, compressed weights."""
    return tuple(make() for make in CELLS.values())


def tflite_mutant(chance: random.Random) -> bytes:
    """A damaged file: numbers of the flatbuffer, aligned as it aligns them, or any bytes one time in three."""
    data = chance.choice(tflite_corpus())
    if chance.randrange(3) == 0:
        return damaged_bytes(chance, data, tflite_corpus())
    words = np.frombuffer(data[: len(data) // 4 * 4], "<i4").copy()
    for _ in range(chance.choice((1, 1, 2, 5))):
        at = chance.randrange(len(words))
        near = int(words[at]) + chance.choice((-4, -1, 1, 4, 256, -256))
        words[at] = (
            np.int64(chance.choice((near, chance.choice(SIZES))) & 0xFFFFFFFF).astype(np.uint32).astype(np.int32)
        )
    return words.tobytes() + data[len(words) * 4 :]


def damage_graph(chance: random.Random, proto: onnx.ModelProto) -> None:
    """Another meaning in a well-formed file: operators, operands, shapes, types, attributes, weights, levels."""
    levels = [proto.graph]
    for level in levels:
        levels += [a.g for n in level.node for a in n.attribute if a.type == AttributeProto.GRAPH]
    level = chance.choice(levels)
    if not level.node:
        return
    item = chance.choice(level.node)
    names = ["", *(info.name for one in levels for info in (*one.input, *one.initializer))]
    names += [name for one in levels for n in one.node for name in n.output]
    match chance.randrange(14):
        case 0:
            item.op_type = chance.choice(OPERATORS)
        case 1 if item.input:
            item.input[chance.randrange(len(item.input))] = chance.choice(names)
        case 2:
            item.input[:] = item.input[: chance.randrange(len(item.input) + 1)]
        case 3:
            item.input.append(chance.choice(names))
        case 4 if level.initializer:
            chance.choice(level.initializer).dims[:] = [chance.choice(SIZES) for _ in range(chance.randrange(4))]
        case 5:
            dims = chance.choice(level.input).type.tensor_type.shape.dim if level.input else []
            for dim in dims[chance.randrange(2) :]:
                dim.dim_value = chance.choice(SIZES)
        case 6 if item.attribute:
            damage_attribute(chance, chance.choice(item.attribute))
        case 7:
            item.output[:] = [chance.choice(names), *item.output[1:]] if item.output else []
        case 8 if level.initializer:
            damage_weights(chance, chance.choice(level.initializer))
        case 9:
            item.domain, item.op_type = "ai.onnx.ml", chance.choice(CLASSICAL)
        case 10:
            level.node.insert(chance.randrange(len(level.node) + 1), item)
        case 11 if level.input:
            chance.choice(level.input).type.tensor_type.elem_type = chance.randrange(24)
        case 12 if item.attribute:
            item.attribute.append(chance.choice(chance.choice(level.node).attribute or item.attribute))
        case _:
            level.node.append(level.node.pop(chance.randrange(len(level.node))))


def damage_attribute(chance: random.Random, attribute: AttributeProto) -> None:
    attribute.i = chance.choice(SIZES)
    attribute.f = chance.choice(NUMBERS)
    attribute.s = chance.choice(WORDS).encode()
    attribute.ints[:] = [chance.choice(SIZES) for _ in range(chance.randrange(5))]
    attribute.floats[:] = [chance.choice(NUMBERS) for _ in range(chance.randrange(8))]
    if chance.randrange(4) == 0:
        attribute.type = chance.randrange(1, 9)


def damage_weights(chance: random.Random, tensor: onnx.TensorProto) -> None:
    """Other numbers: sizes where a shape is expected, NaN, another file, another type."""
    name, count = tensor.name, max(1, int(np.prod([abs(d) for d in tensor.dims[:4]], dtype=float) % 4096))
    match chance.randrange(4):
        case 0:
            values = np.array([chance.choice(SIZES) for _ in range(min(count, 8))], np.int64)
            tensor.CopyFrom(numpy_helper.from_array(values, name))
        case 1:
            values = np.array([chance.choice(NUMBERS) for _ in range(min(count, 64))], np.float32)
            tensor.CopyFrom(numpy_helper.from_array(values, name))
        case 2:
            tensor.data_location = TensorProto.EXTERNAL
            location = chance.choice(("weights.bin", "/dev/zero", "../../etc/passwd", "m.onnx", "", "."))
            place = {"location": location, "offset": str(chance.choice(SIZES)), "length": str(chance.choice(SIZES))}
            del tensor.external_data[:]
            for key, value in place.items():
                tensor.external_data.add(key=key, value=value)
        case 3:
            tensor.data_type = chance.randrange(24)


# ---- DSL


@cache
def dsl_corpus() -> tuple[str, ...]:
    """Valid programs, and some that are not."""
    texts = [f"input x = ({', '.join(map(str, shape))}) in\n{LET}{text}\n" for shape, text, _ in MEANINGS.values()]
    texts += [*TEXTS.values(), *(text for text in ERRORS if len(text) < 500)]
    for data in (make().SerializeToString() for make in SCANS.values()):
        listing = model_of(onnx.load_model_from_string(data), Path("m.onnx"), "").listing
        texts.append(write_dsl(listing, "a model")[0])
    return tuple(texts)


@cache
def vocabulary() -> tuple[str, ...]:
    found = {token for text in dsl_corpus() for token in TOKEN.findall(text) if token.strip()}
    return (*sorted(found), *map(str, SIZES), "1e999", "0.1e-300", "99999999999", "\x00", "é", '"', "reverse")


def dsl_mutant(chance: random.Random) -> str:
    tokens = TOKEN.findall(chance.choice(dsl_corpus()))
    for _ in range(chance.choice((1, 1, 1, 2, 3, 6))):
        if not tokens:
            break
        at, length = chance.randrange(len(tokens)), chance.choice((1, 1, 2, 5, 20))
        match chance.randrange(9):
            case 0 | 1:
                tokens[at] = chance.choice(vocabulary())
            case 2:
                del tokens[at : at + length]
            case 3:
                tokens[at:at] = tokens[at : at + length] * chance.choice((1, 1, 2, 300))
            case 4:
                other = chance.randrange(len(tokens))
                tokens[at], tokens[other] = tokens[other], tokens[at]
            case 5:
                tokens[at:] = TOKEN.findall(chance.choice(dsl_corpus()))[at:]
            case 6:
                depth = chance.choice((1, 3, 30, 3000))
                left, right = chance.choice((("(", ")"), ("[", "]"), ("-", ""), ("relu(", ")"), ("{", "}")))
                tokens[at] = left * depth + tokens[at] + right * depth
            case 7 if tokens[at][:1].isdigit():
                tokens[at] = str(chance.choice(SIZES))
            case _:
                word = tokens[at]
                cut = chance.randrange(len(word) + 1)
                tokens[at] = word[:cut] + chance.choice(vocabulary())[:1] + word[cut:]
    return "".join(tokens)
